//! Operations by C code: in a program in the kernel, or in the same code compiled for user space.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, Programs};

use crate::kernel::Room;
pub use crate::side::*;

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/program_map.bpf.o"));

/// Programs in the kernel, which test runs call.
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

/// The headers compiled for user space, in a separate process that has the arena mapped.
pub struct User {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    _arena: OwnedFd,
    _folder: tempfile::TempDir,
}

impl User {
    /// Compiles and starts the process; `None` when there is no such compiler.
    pub fn new(arena: &BpfArena, compiler: &str) -> Option<User> {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("program_map");
        let compiled = Command::new(compiler)
            .args(["-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
            .arg("-I")
            .arg(here.join("bpf/include"))
            .arg(here.join("tests/program_map/user.c"))
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
        // The child inherits the descriptor.
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
        // The end of the questions ends the process.
        self.to = None;
        let _ = self.child.wait();
    }
}

/// The same with long keys, whose bytes are put into a room of the arena.
pub struct WithRoom<S> {
    pub side: S,
    pub room: Room,
    pub longest: usize,
}

impl<S: Side> Side for WithRoom<S> {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK] {
        self.side.exchange(question)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn long_image(&self, key: &[u8]) -> [u8; 256] {
        self.room.image(key)
    }
}
