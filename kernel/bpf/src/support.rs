//! Whether this machine supports arenas and programs, and the reason if it does not.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The file in which the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks that this process can make arenas and load programs: it needs `CAP_BPF`, Linux 6.9 or
/// newer, and BTF. Programs for packets also need `CAP_NET_ADMIN`, those that trace `CAP_PERFMON`.
/// Root has all of them.
///
/// ```
/// if let Err(why) = sapwood_bpf::check() {
///     println!("skipped: {why}");
/// }
/// ```
///
/// # Errors
/// [`Error::Kernel`], [`Error::Capabilities`] or [`Error::NoBtf`]: the first requirement that is
/// not met, in this order.
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
    let missing = missing_capabilities();
    if missing.contains(&BPF) {
        return Err(Error::Capabilities { missing });
    }
    if !Path::new(BTF).exists() {
        return Err(Error::NoBtf(PathBuf::from(BTF)));
    }
    Ok(())
}

const BPF: &str = "CAP_BPF";

/// The capabilities for arenas and programs that this thread has not.
pub(crate) fn missing_capabilities() -> Vec<&'static str> {
    use rustix::thread::{CapabilitySet as Set, capabilities};

    let effective = match capabilities(None) {
        Ok(sets) => sets.effective,
        Err(_) => Set::empty(),
    };
    // The kernel takes it for each of them.
    if effective.contains(Set::SYS_ADMIN) {
        return Vec::new();
    }
    let wanted = [
        (BPF, Set::BPF),
        ("CAP_PERFMON", Set::PERFMON),
        ("CAP_NET_ADMIN", Set::NET_ADMIN),
    ];
    let missing = wanted
        .into_iter()
        .filter(|(_, one)| !effective.contains(*one));
    missing.map(|(name, _)| name).collect()
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
