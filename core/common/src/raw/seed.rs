//! A number that nobody else knows, for the hashes of one map.

use core::hash::{BuildHasher, Hasher};

/// A new seed: random from the operating system, where there is one; else of addresses and
/// counters.
pub fn seed() -> u64 {
    #[cfg(feature = "std")]
    let state = std::hash::RandomState::new();
    #[cfg(not(feature = "std"))]
    let state = foldhash::quality::RandomState::default();
    state.build_hasher().finish()
}
