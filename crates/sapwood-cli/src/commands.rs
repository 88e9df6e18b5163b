//! Commands on stdin, for programs that run until a signal comes.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// The longest time until a signal takes effect.
pub const PAUSE: Duration = Duration::from_millis(100);

/// The lines of stdin.
pub type Lines = Receiver<io::Result<Vec<u8>>>;

/// The lines of stdin. A thread reads them, because a signal cannot interrupt a blocking read.
pub fn lines() -> Lines {
    let (send, receive) = sync_channel(64);
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}
