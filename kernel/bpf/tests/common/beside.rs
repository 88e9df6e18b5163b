//! Pins, and processes beside a test that end before it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Prints why a test is skipped. Returns whether it is.
pub fn skipped() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => false,
        Err(why) => {
            println!("skipped: {why}");
            true
        }
    }
}

/// A directory of the BPF file system, which the drop removes with its contents.
pub struct Pins(pub PathBuf);

impl Pins {
    pub fn new(name: &str) -> Pins {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("/sys/fs/bpf/sapwood-test-{name}-{}-{n}", std::process::id());
        std::fs::create_dir(&folder).expect("a folder of the BPF file system");
        Pins(folder.into())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// This test program as another process, which runs the test `child_process`. The environment holds
/// its task. The drop kills it.
pub struct Beside(pub Child);

impl Beside {
    pub fn start(what: &str, path: &Path) -> Beside {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["child_process", "--exact", "--ignored", "--nocapture"])
            .env("SAPWOOD_CHILD", what)
            .env("SAPWOOD_CHILD_PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program again");
        Beside(child)
    }

    /// The task of the child and its directory, if this is a child.
    pub fn order() -> Option<(String, PathBuf)> {
        let what = std::env::var("SAPWOOD_CHILD").ok()?;
        let path = std::env::var_os("SAPWOOD_CHILD_PATH")?;
        Some((what, path.into()))
    }

    /// Waits until the child has printed a line that contains `word`. Returns what it has printed
    /// since the last call.
    pub fn wait_for(&mut self, word: &str) -> String {
        use std::io::Read;
        let out = self.0.stdout.as_mut().expect("its output");
        let mut said = Vec::new();
        let mut byte = [0];
        while out.read(&mut byte).is_ok_and(|n| n == 1) {
            said.extend(byte);
            let said = String::from_utf8_lossy(&said);
            if said.contains(word) {
                return said.into_owned();
            }
        }
        panic!("the child ended: {}", String::from_utf8_lossy(&said));
    }

    /// Kills the child after some lines, and returns the number of the last "at NUMBER." among
    /// them.
    pub fn kill_at(mut self) -> u64 {
        use std::io::Read;
        // The child has written something, however busy the machine is.
        let mut said: String = (0..3).map(|_| self.wait_for(".")).collect();
        self.kill();
        let out = self.0.stdout.as_mut().unwrap();
        out.read_to_string(&mut said).unwrap();
        let number = |line: &str| line.strip_prefix("at ")?.strip_suffix('.')?.parse().ok();
        said.lines().filter_map(number).max().expect("a number")
    }

    /// Kills the child by SIGKILL.
    ///
    /// # Panics
    /// When it has ended by itself.
    pub fn kill(&mut self) {
        let ended = self.0.try_wait().expect("its state");
        assert!(ended.is_none(), "the child has ended: {ended:?}");
        self.0.kill().expect("it runs");
        self.0.wait().expect("its end");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
