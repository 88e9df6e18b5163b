//! Whether this machine supports arenas and programs, and the reason if it does not.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The file in which the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks that this process can make arenas and load programs: it needs root, Linux 6.9 or newer,
/// and BTF.
///
/// ```
/// if let Err(why) = sapwood_bpf::check() {
///     println!("skipped: {why}");
/// }
/// ```
///
/// # Errors
/// [`Error::Kernel`], [`Error::NotRoot`] or [`Error::NoBtf`]: the first requirement that is not
/// met, in this order.
pub fn check() -> Result<(), Error> {
    // Fuzzers have no kernel: their arenas are plain memory, which no program reads.
    if cfg!(fuzzing) {
        return Ok(());
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    if !is_new_enough(&release) {
        return Err(Error::Kernel { found: release });
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    if !Path::new(BTF).exists() {
        return Err(Error::NoBtf(PathBuf::from(BTF)));
    }
    Ok(())
}

/// Whether a release such as "6.18.44-x" is 6.9 or newer.
fn is_new_enough(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= (6, 9)
}

/// Pins a map, program or link to a path in a BPF file system.
///
/// # Errors
/// The system's error, for example when the path is taken.
pub fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<(), Error> {
    let doing = || format!("pinning {}", path.display());
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::io(doing(), std::io::ErrorKind::InvalidInput.into()))?;
    crate::raw::arena::pin(fd.as_raw_fd(), &name).map_err(|error| Error::io(doing(), error))
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn releases() {
        for yes in ["6.9.0", "6.18.44-fc", "7.0", "10.1-rc3"] {
            assert!(is_new_enough(yes), "{yes}");
        }
        for no in ["6.8.12", "6.1.0-18-amd64", "5.15", "", "x"] {
            assert!(!is_new_enough(no), "{no}");
        }
    }
}
