//! What several tests of the kernel's side use.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, Programs};

/// Says why a test is left out; whether it is.
pub fn skipped() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => false,
        Err(why) => {
            println!("skipped: {why}");
            true
        }
    }
}

/// A folder of the BPF file system, removed with all that is in it.
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

/// This test program again, as its test `child_process`, which reads what it shall do from the environment. Killed when dropped.
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

    /// What the child is to do, and with what, if this is a child.
    pub fn order() -> Option<(String, PathBuf)> {
        let what = std::env::var("SAPWOOD_CHILD").ok()?;
        let path = std::env::var_os("SAPWOOD_CHILD_PATH")?;
        Some((what, path.into()))
    }

    /// Waits until the child has said a line that contains this.
    pub fn wait_for(&mut self, word: &str) {
        use std::io::Read;
        let out = self.0.stdout.as_mut().expect("its output");
        let mut said = Vec::new();
        let mut byte = [0];
        while out.read(&mut byte).is_ok_and(|n| n == 1) {
            said.extend(byte);
            if String::from_utf8_lossy(&said).contains(word) {
                return;
            }
        }
        panic!("the child ended: {}", String::from_utf8_lossy(&said));
    }

    /// Kills it as kill -9 does.
    pub fn kill(&mut self) {
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

/// Writes words anywhere into an arena.
pub struct Poke(Programs);

impl Poke {
    const WORDS: usize = 256;

    pub fn new(arena: &BpfArena) -> Poke {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/poke.bpf.o"));
        Poke(Loader::open(arena, object).unwrap().load().unwrap())
    }

    pub fn words(&self, at: u64, words: &[u64]) {
        for (i, part) in words.chunks(Self::WORDS).enumerate() {
            let mut data = Vec::with_capacity(16 + 8 * Self::WORDS);
            data.extend((at + (i * Self::WORDS * 8) as u64).to_ne_bytes());
            data.extend((part.len() as u64).to_ne_bytes());
            data.extend(part.iter().flat_map(|word| word.to_ne_bytes()));
            data.resize(16 + 8 * Self::WORDS, 0);
            let program = self.0.program("sw_poke").unwrap();
            let run = program
                .test_run(ProgramInput {
                    data_in: Some(&data),
                    ..Default::default()
                })
                .unwrap();
            assert_eq!(run.return_value, 2);
        }
    }
}
