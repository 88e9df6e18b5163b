//! What the tests of `QpShared` have in common.

use std::collections::BTreeMap;

use sapwood::arena::{ArenaOptions, Backing};
use sapwood::qp::{QpShared, QpSharedBuilder};

pub use super::steps::steps;

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

/// A builder with or without a point index.
pub fn builder<V: Send + Sync + 'static>(index: bool) -> QpSharedBuilder<V> {
    let builder = QpShared::builder();
    if index { builder.with_index() } else { builder }
}

/// Runs a test on maps without and with a point index.
pub fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

/// The map is whole and holds what the oracle holds.
pub fn agree(map: &QpShared<u64>, oracle: &BTreeMap<Vec<u8>, u64>) {
    map.verify().unwrap();
    assert_eq!(map.len(), oracle.len());
    let pin = map.pin();
    let entries = pin.view().iter().map(|(k, v)| (k.to_vec(), *v));
    assert!(entries.eq(oracle.iter().map(|(k, v)| (k.clone(), *v))));
    let back = pin.view().iter().rev().map(|(k, _)| k);
    assert!(back.eq(oracle.keys().rev().map(Vec::as_slice)));
}
