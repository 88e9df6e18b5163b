//! A number that nobody else knows, for the hashes of one map.

use core::hash::{BuildHasher, Hasher};

/// The hashers of maps that keys of others must not fill in one place.
#[cfg(not(feature = "std"))]
pub use foldhash::quality::RandomState as State;
#[cfg(feature = "std")]
pub use std::hash::RandomState as State;

/// A new seed: random from the operating system, where there is one; else of addresses and
/// counters.
pub fn seed() -> u64 {
    State::default().build_hasher().finish()
}
