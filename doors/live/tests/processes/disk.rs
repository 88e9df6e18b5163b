//! A file system of a few megabytes, which fills.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted until this is dropped.
pub struct Disk {
    temp: tempfile::TempDir,
    bytes: u64,
    filler: File,
}

impl Disk {
    /// Mounts one of this many bytes. None where this process may not: the test is skipped then.
    pub fn new(bytes: u64) -> Option<Disk> {
        let temp = tempfile::tempdir().unwrap();
        let size = format!("size={bytes},mode=755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(temp.path())
            .output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: this process may not mount a file system");
            return None;
        }
        let filler = File::create_new(temp.path().join("filler")).unwrap();
        Some(Disk {
            temp,
            bytes,
            filler,
        })
    }

    pub fn path(&self) -> &Path {
        self.temp.path()
    }

    /// Where a map is to be.
    pub fn map(&self) -> PathBuf {
        self.path().join("map")
    }

    /// The bytes that are free.
    pub fn room(&self) -> u64 {
        let now = rustix::fs::statvfs(self.path()).unwrap();
        now.f_bavail * now.f_frsize
    }

    /// Leaves this many bytes free, or all that there are.
    pub fn leave(&self, bytes: u64) {
        let (now, filled) = (self.room(), self.filler.metadata().unwrap().len());
        if now > bytes {
            sapwood_arena::allocate(&self.filler, filled..filled + now - bytes).unwrap();
        } else {
            let less = filled.saturating_sub(bytes - now);
            self.filler.set_len(less).unwrap();
        }
    }

    /// Whether nothing fills it but what the test is about.
    pub fn is_clear(&self) -> bool {
        self.filler.metadata().unwrap().len() == 0
    }

    /// Leaves all free.
    pub fn clear(&self) {
        self.filler.set_len(0).unwrap();
    }

    /// Gives it this many times the bytes that it had at first.
    pub fn resize(&self, times: u64) {
        let size = format!("remount,size={}", self.bytes * times);
        let done = Command::new("mount")
            .args(["-o", &size])
            .arg(self.path())
            .status();
        assert!(done.unwrap().success());
    }

    /// The names of what is there, but for what fills it.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "filler").collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.temp.path())
            .status();
    }
}
