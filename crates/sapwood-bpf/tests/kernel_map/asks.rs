//! Operations asked of code in C: of a program in the kernel, or of the same code compiled for user space.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, Programs};

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel_map.bpf.o"));

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Trie = 0,
    Index = 1,
    Lookup = 2,
    /// A value of one word.
    Insert = 3,
    InsertValue = 4,
    Remove = 5,
}

pub const ANY: u64 = 0;
pub const NOEXIST: u64 = 1;
pub const EXIST: u64 = 2;

pub const ENOENT: i64 = -2;
pub const ENOMEM: i64 = -12;
pub const EBUSY: i64 = -16;
pub const EEXIST: i64 = -17;
pub const EINVAL: i64 = -22;
pub const E2BIG: i64 = -7;
pub const ENOSPC: i64 = -28;
pub const ENODATA: i64 = -61;
pub const EOPNOTSUPP: i64 = -95;

/// Bytes of a question and its answer.
const ASK: usize = 24 + 64 + 256;

/// Who answers.
pub trait Side {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK];

    /// The result, and the value words of a lookup that found something.
    fn ask(
        &mut self,
        what: What,
        window: u32,
        flags: u64,
        key: &[u8],
        value: &[u64],
    ) -> (i64, [u64; 8]) {
        let mut ask = [0u8; ASK];
        ask[0..4].copy_from_slice(&(what as u32).to_ne_bytes());
        ask[4..8].copy_from_slice(&window.to_ne_bytes());
        ask[8..16].copy_from_slice(&flags.to_ne_bytes());
        for (i, word) in value.iter().enumerate() {
            ask[24 + 8 * i..32 + 8 * i].copy_from_slice(&word.to_ne_bytes());
        }
        ask[88] = key.len() as u8;
        ask[89..89 + key.len()].copy_from_slice(key);
        let answer = self.exchange(&ask);
        let word = |at: usize| u64::from_ne_bytes(answer[at..at + 8].try_into().unwrap());
        (word(16) as i64, std::array::from_fn(|i| word(24 + 8 * i)))
    }
}

/// Programs in the kernel, run by test runs.
pub struct Kernel(pub Programs);

impl Kernel {
    pub fn new(arena: &BpfArena) -> Kernel {
        Kernel(Loader::open(arena, SELFTEST).unwrap().load().unwrap())
    }
}

impl Side for Kernel {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK] {
        let mut answer = [0; ASK];
        let program = self.0.program("sw_ask_kqp").unwrap();
        let result = program
            .test_run(ProgramInput {
                data_in: Some(question),
                data_out: Some(&mut answer),
                ..Default::default()
            })
            .unwrap();
        assert_eq!(result.return_value, 2);
        answer
    }
}

/// The headers compiled for user space, in a process of their own that has the arena mapped.
pub struct User {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    _arena: OwnedFd,
    _folder: tempfile::TempDir,
}

impl User {
    /// `None` when this compiler is not there.
    pub fn new(arena: &BpfArena, compiler: &str) -> Option<User> {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("kernel_map");
        let compiled = Command::new(compiler)
            .args(["-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
            .arg("-I")
            .arg(here.join("bpf/include"))
            .arg(here.join("tests/kernel_map/user.c"))
            .arg("-o")
            .arg(&binary)
            .output();
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(_) => return None,
        };
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{compiler}: {said}");
        let fd = arena.try_clone_fd().unwrap();
        // The child has it too.
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
        let mut child = Command::new(&binary)
            .arg(fd.as_raw_fd().to_string())
            .arg(arena.bytes().to_string())
            .arg(format!("{:#x}", arena.address()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Some(User {
            to: child.stdin.take(),
            from: child.stdout.take().unwrap(),
            child,
            _arena: fd,
            _folder: folder,
        })
    }
}

impl Side for User {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK] {
        let mut answer = [0; ASK];
        let to = self.to.as_mut().unwrap();
        to.write_all(question).unwrap();
        to.flush().unwrap();
        self.from.read_exact(&mut answer).unwrap();
        answer
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // It ends when there are no more questions.
        self.to = None;
        let _ = self.child.wait();
    }
}
