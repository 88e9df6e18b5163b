//! What the tests of `PointMap` have in common.

use std::collections::HashMap;

use sapwood::arena::{ArenaOptions, Backing};
use sapwood::qp::PointMap;

pub use super::steps::steps;

pub type Oracle = HashMap<Vec<u8>, u64>;

/// Keys that share prefixes and are prefixes of each other.
pub fn key(rng: &mut fastrand::Rng, alphabet: u8, longest: usize) -> Vec<u8> {
    let len = rng.usize(0..=longest);
    (0..len)
        .map(|_| match rng.u8(0..alphabet) {
            0 => 0,
            1 => 255,
            n => b'a' + n,
        })
        .collect()
}

/// Options with address space for a test.
pub fn small(options: ArenaOptions) -> ArenaOptions {
    options.backing(Backing::Mmap { reserve: 1 << 26 })
}

/// The map is whole and holds what the oracle holds.
pub fn agree(map: &PointMap<u64>, oracle: &Oracle) {
    map.verify().unwrap();
    assert_eq!(map.len(), oracle.len());
    let pin = map.pin();
    let mut seen = 0;
    for (key, value) in pin.view() {
        assert_eq!(oracle.get(key), Some(value));
        seen += 1;
    }
    assert_eq!(seen, oracle.len(), "each is met once");
    for (key, value) in oracle {
        assert_eq!(pin.view().get(key), Some(value));
    }
}
