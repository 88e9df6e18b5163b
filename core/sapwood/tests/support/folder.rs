//! Directories for tests that write files.
#![allow(dead_code)] // Each test uses only a part of it.

use std::fs;
use std::path::{Path, PathBuf};

use sapwood::arena::Header;
use sapwood::qp::{OpenCause, QpFile, QpMap};

/// A directory that belongs to one test, which removes it at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        Folder::below(&std::env::temp_dir(), name)
    }

    /// A directory without a disk behind it, if the system has one: for tests that write thousands
    /// of files.
    pub fn quick(name: &str) -> Self {
        match Path::new("/dev/shm") {
            shm if shm.is_dir() => Folder::below(shm, name),
            _ => Folder::new(name),
        }
    }

    fn below(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("sapwood-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn sample(n: usize) -> QpMap<u64> {
    (0..n as u64)
        .map(|i| (format!("{:x}/{i}", i.wrapping_mul(0x9e37_79b9) & 0xffff), i))
        .collect()
}

pub fn save_bytes(map: &QpMap<u64>, path: &Path) -> Vec<u8> {
    map.save(path).unwrap();
    fs::read(path).unwrap()
}

pub fn refused(path: &Path) -> OpenCause {
    match QpFile::<u64>::open(path) {
        Ok(file) => panic!("{} was opened, with {} entries", path.display(), file.len()),
        Err(error) => {
            let said = format!("cannot open {}: {}", path.display(), error.cause);
            assert_eq!((error.to_string(), &*error.path), (said, path));
            error.cause
        }
    }
}

pub fn decoded(bytes: &[u8]) -> Header {
    let layout = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    Header::decode(bytes, layout).unwrap()
}
