//! Asks `sapwood bpf serve` to let go of an arena, so that another command can own it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sapwood_bpf::Error as BpfError;

use crate::errors::Error;

/// The longest time until the service has let go: it looks every tenth of a second, and ends the
/// threads of its maps.
const LIMIT: Duration = Duration::from_secs(5);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Does what only an arena's owner may do. When the owner is `sapwood bpf serve`, asks it to let
/// go, and tries again until it has. `change` must fail before it changes anything while another
/// process owns the arena.
pub fn as_owner<R>(mut change: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    let mut asked = None;
    loop {
        let pid = match change() {
            Err(Error::Bpf(BpfError::Owned { pid })) => pid,
            other => return other,
        };
        let since = *asked.get_or_insert_with(|| ask(pid).then(Instant::now));
        if since.is_none_or(|since| since.elapsed() > LIMIT) {
            return Err(Error::Usage(format!(
                "the process {pid} owns the arena, and alone makes and changes its maps"
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks a process to let go of its arenas, if it is `sapwood bpf serve`.
fn ask(pid: u32) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    is_service(&line) && pid.is_some_and(|pid| kill_process(pid, Signal::USR1).is_ok())
}

/// Whether this is the command line of `sapwood bpf serve`: words that end in zero bytes.
fn is_service(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    let program = Path::new(std::ffi::OsStr::from_bytes(program)).file_name();
    let words: Vec<_> = words.filter(|word| !word.starts_with(b"-")).collect();
    program.is_some_and(|name| name == "sapwood") && words.starts_with(&[b"bpf", b"serve"])
}

#[cfg(test)]
mod tests {
    use super::is_service;

    #[test]
    fn the_service_is_known_by_its_command_line() {
        for yes in [
            "/usr/bin/sapwood\0bpf\0serve\0",
            "sapwood\0--log=info\0bpf\0serve\0x\0",
        ] {
            assert!(is_service(yes.as_bytes()), "{yes}");
        }
        for no in [
            "",
            "sapwood\0bpf\0route\0run\0",
            "other\0bpf\0serve\0",
            "sapwood\0names\0serve\0bpf\0serve\0",
            "sapwood bpf serve\0",
        ] {
            assert!(!is_service(no.as_bytes()), "{no}");
        }
    }
}
