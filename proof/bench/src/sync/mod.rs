//! What the suite `sync` compares: logs of `sapwood-sync` in a folder and in etcd, and plain keys
//! of etcd that are watched.

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod logs;

use std::time::{Duration, Instant};

/// The changes of a commit.
pub const CHANGES: usize = 10;
/// How many different keys the commits change.
const KEYS: u64 = 100_000;

/// The key and the value of a change: those of the commit of a number, from 0.
pub fn change(commit: u64, at: usize) -> (String, String) {
    let random = commit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    // Different keys in a commit: etcd refuses a transaction that puts a key twice.
    let number = (random + at as u64 * 9973) % KEYS;
    (key(number), format!("{commit} 192.0.2.{at}"))
}

/// The key of a number.
pub fn key(number: u64) -> String {
    format!("host-{number}.site-{}.example", number % 997)
}

/// The commit that wrote a value.
#[cfg(feature = "etcd")]
pub fn commit_of(value: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(value).map_err(|e| e.to_string())?;
    let (number, _) = text.split_once(' ').ok_or("a strange value")?;
    number
        .parse()
        .map_err(|_| format!("a strange value: {text}"))
}

/// The mean bytes of the key and the value of a change among the first commits.
pub fn payload(commits: u64) -> f64 {
    let changes = (0..commits).flat_map(|commit| (0..CHANGES).map(move |at| change(commit, at)));
    let sum: usize = changes.map(|(key, value)| key.len() + value.len()).sum();
    sum as f64 / (commits * CHANGES as u64) as f64
}

/// What a run of commits gave.
pub struct Ran {
    /// From the first commit until all followers have the last one.
    pub time: Duration,
    /// For each follower and commit the time from when it was due until the follower showed it.
    pub lags: Vec<Duration>,
    /// Bytes that each follower received, on the average.
    pub bytes: f64,
}

/// The time at which the commit of a number is due, at a rate a second; `None` for at once.
pub fn due(begin: Instant, number: u64, rate: Option<u64>) -> Instant {
    begin
        + rate.map_or(Duration::ZERO, |rate| {
            Duration::from_nanos(1_000_000_000 / rate * number)
        })
}

/// The error as a text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
