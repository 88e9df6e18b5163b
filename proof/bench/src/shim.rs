//! Libraries of other languages. For each there is a shim in C or C++ with plain functions around
//! the library. The first use compiles it with `pkg-config` and a compiler, and loads it. Where the
//! library is not installed, the result is the reason instead.

use std::ffi::{CString, c_void};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How to build a shim.
pub struct Recipe {
    /// The library's name in messages.
    pub library: &'static str,
    /// How compilers find the library.
    pub link: Link,
    /// `cc` or `c++`.
    pub compiler: &'static str,
    /// The name of the source file, with the suffix by which compilers know the language.
    pub file: &'static str,
    /// The source.
    pub source: &'static str,
    /// The compiler's arguments before the names of files, and those after the library's own.
    pub arguments: [&'static [&'static str]; 2],
}

/// How compilers find a library.
#[derive(Clone, Copy)]
pub enum Link {
    /// `pkg-config` knows it by this name.
    PkgConfig(&'static str),
    /// The linker finds it under this name on its own search path.
    Library(&'static str),
    /// The function unpacks its sources into the shim's folder, and returns the compiler's
    /// arguments for them.
    Source(fn(&Path) -> Result<String, String>),
}

/// A loaded shim, which stays loaded.
pub struct Shim(*mut c_void);

impl Recipe {
    /// Compiles and loads the shim, or says why that fails.
    pub fn load(&self) -> Result<Shim, String> {
        let name = match self.link {
            Link::PkgConfig(name) | Link::Library(name) => name,
            Link::Source(_) => self.library,
        };
        // Two shims around one library may be built at the same time.
        let folder = format!(
            "sapwood-bench-{name}-{}-{:x}",
            std::process::id(),
            self.source.as_ptr().addr()
        );
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let loaded = self.compile(&folder).and_then(|file| self.open(file));
        // The library stays loaded without its file.
        let _ = fs::remove_dir_all(&folder);
        loaded
    }

    /// Compiles the shim; returns the file name of the library.
    fn compile(&self, folder: &Path) -> Result<CString, String> {
        let name = self.library;
        let flags = self.flags(folder)?;
        let (source, library) = (folder.join(self.file), folder.join("shim.so"));
        fs::write(&source, self.source).map_err(|error| error.to_string())?;
        let [before, after] = self.arguments;
        let output = Command::new(self.compiler)
            .args(["-O2", "-shared", "-fPIC"])
            .args(before)
            .arg("-o")
            .args([&library, &source])
            .args(flags.split_whitespace())
            .args(after)
            .output()
            .map_err(|error| format!("no compiler for the shim around {name}: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let first = errors.lines().find(|line| line.contains("error"));
            return Err(format!(
                "the shim around {name} does not compile: {}",
                first.unwrap_or("no message")
            ));
        }
        CString::new(library.into_os_string().into_encoded_bytes())
            .map_err(|error| error.to_string())
    }

    /// The compiler's arguments for the library.
    fn flags(&self, folder: &Path) -> Result<String, String> {
        let package = match self.link {
            Link::PkgConfig(package) => package,
            Link::Library(library) => return Ok(format!("-l{library}")),
            Link::Source(prepare) => return prepare(folder),
        };
        let output = Command::new("pkg-config")
            .args(["--cflags", "--libs", package])
            .output()
            .ok()
            .filter(|output| output.status.success())
            .ok_or_else(|| format!("{} is not installed", self.library))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn open(&self, file: CString) -> Result<Shim, String> {
        // SAFETY: the name is a C string. The shim is our own file. Loading it runs the
        // constructors of the library that it wraps, which expect to run on loading.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err(format!("the shim around {} does not load", self.library));
        }
        Ok(Shim(handle))
    }
}

impl Shim {
    /// The address of the function `shim_NAME`, which stays valid.
    pub fn find(&self, name: &str) -> Result<*mut c_void, String> {
        let name = CString::new(format!("shim_{name}")).map_err(|error| error.to_string())?;
        // SAFETY: the handle is open and never closed; the name is a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            Err(format!("the shim has no {}", name.to_string_lossy()))
        } else {
            Ok(found)
        }
    }
}

/// Opens an LMDB environment in a folder of this run, which does not wait for the disk.
pub fn lmdb(folder: &Path) -> heed::Result<heed::Env> {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(1 << 30).max_dbs(1);
    // SAFETY: only processes of this run have the file, and each opens it once.
    unsafe {
        options.flags(heed::EnvFlags::NO_SYNC | heed::EnvFlags::WRITE_MAP);
        options.open(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_reason() {
        let recipe = Recipe {
            library: "Nothing",
            link: Link::PkgConfig("no-such-package-anywhere"),
            compiler: "cc",
            file: "shim.c",
            source: "",
            arguments: [&[], &[]],
        };
        assert_eq!(
            recipe.load().err(),
            Some("Nothing is not installed".to_owned())
        );
    }
}
