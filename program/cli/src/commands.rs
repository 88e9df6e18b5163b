//! Commands on stdin, for programs that run until a signal comes.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::records::LIMIT;

/// The length of the longest line in bytes: a record of a list, and a word before it.
const MAX_LINE: usize = LIMIT + 16;

/// The longest time until a signal takes effect.
pub const PAUSE: Duration = Duration::from_millis(100);

/// The lines of stdin.
pub type Lines = Receiver<io::Result<Vec<u8>>>;

/// The lines of stdin. A thread reads them, because a signal cannot interrupt a blocking read.
pub fn lines() -> Lines {
    let (send, receive) = sync_channel(64);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input).transpose() {
            let has_failed = line.is_err();
            if send.send(line).is_err() || has_failed {
                break;
            }
        }
    });
    receive
}

/// Reads a line without its end; `None` at the end of the input. In place of a line that is too
/// long it returns a text about it, which is no command.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input
        .take(MAX_LINE as u64 + 1)
        .read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read > MAX_LINE {
        let bytes = read + input.skip_until(b'\n')?;
        line = format!("(a line of {bytes} bytes)").into_bytes();
    }
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_take_no_memory() {
        let longest = "x".repeat(MAX_LINE);
        let text = format!("a\n\n{longest}\n{longest}y\n{longest}{longest}\nlast");
        let mut input = text.as_bytes();
        let mut lines = std::iter::from_fn(|| read_line(&mut input).unwrap());
        assert_eq!(lines.next().unwrap(), b"a");
        assert_eq!(lines.next().unwrap(), b"");
        assert_eq!(lines.next().unwrap(), longest.as_bytes());
        for bytes in [MAX_LINE + 2, 2 * MAX_LINE + 1] {
            let about = format!("(a line of {bytes} bytes)");
            assert_eq!(lines.next().unwrap(), about.as_bytes());
        }
        assert_eq!(lines.next().unwrap(), b"last");
        assert_eq!(lines.next(), None);
    }
}
