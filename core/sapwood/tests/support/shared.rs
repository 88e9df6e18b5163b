//! The common parts of the tests of maps for many writers: each suitable test runs on every kind of
//! map.

use std::collections::BTreeMap;
use std::ops::Bound;

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing};
use sapwood::qp::{Key, Order, Ordered, QpShared, SharedMap, Unordered};

pub use super::steps::steps;

pub type Oracle = BTreeMap<Vec<u8>, u64>;

/// Runs a block with `$builder` bound to a function that makes builders: of a trie, of a trie with
/// an index, and of an index alone.
macro_rules! each_kind {
    ($builder:ident => $test:block) => {{
        {
            let $builder = || sapwood::qp::QpShared::builder();
            $test
        }
        {
            let $builder = || sapwood::qp::QpShared::builder().with_index();
            $test
        }
        {
            let $builder = || sapwood::qp::PointMap::builder();
            $test
        }
    }};
}
pub(crate) use each_kind;

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

/// A builder of an ordered map, with or without a point index.
pub fn builder<V: Send + Sync + 'static>(index: bool) -> Builder<QpShared<V>> {
    let builder = QpShared::builder();
    if index { builder.with_index() } else { builder }
}

/// Runs a test on ordered maps without and with a point index.
pub fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

/// The queries that only ordered maps answer.
pub trait Kind: Order {
    /// Whether a removal needs memory, and so may fail.
    const REMOVAL_MAY_FAIL: bool;

    /// The number of entries at one moment, where a query can be exact.
    fn exact_count(map: &SharedMap<Self, u64>) -> Option<usize>;

    /// Compares backward walks with the oracle.
    fn agree_backwards(map: &SharedMap<Self, u64>, oracle: &Oracle);

    /// Compares queries about the neighbours and prefixes of a key with the oracle.
    fn neighbours(map: &SharedMap<Self, u64>, oracle: &Oracle, k: &[u8]);
}

impl Kind for Unordered {
    const REMOVAL_MAY_FAIL: bool = false;

    fn exact_count(_: &SharedMap<Self, u64>) -> Option<usize> {
        None
    }

    fn agree_backwards(_: &SharedMap<Self, u64>, _: &Oracle) {}

    fn neighbours(_: &SharedMap<Self, u64>, _: &Oracle, _: &[u8]) {}
}

impl Kind for Ordered {
    const REMOVAL_MAY_FAIL: bool = true;

    fn exact_count(map: &QpShared<u64>) -> Option<usize> {
        Some(map.pin().view().exact(|view| view.iter().count()))
    }

    fn agree_backwards(map: &QpShared<u64>, oracle: &Oracle) {
        let pin = map.pin();
        assert!(pin.view().iter().map(|e| e.0).eq(oracle.keys()));
        let back = pin.view().iter().rev().map(|(k, _)| k);
        assert!(back.eq(oracle.keys().rev()));
    }

    fn neighbours(map: &QpShared<u64>, oracle: &Oracle, k: &[u8]) {
        let pin = map.pin();
        let view = pin.view();
        let after = oracle
            .range::<[u8], _>((Bound::Excluded(k), Bound::Unbounded))
            .next();
        assert_eq!(
            view.successor(k).map(|e| e.0),
            after.map(|e| Key::from(e.0))
        );
        let before = oracle.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(k)));
        assert_eq!(
            view.predecessor(k).map(|e| e.0),
            before.last().map(|e| Key::from(e.0))
        );
        let range: Vec<_> = view.range(k..).map(|e| e.0).take(5).collect();
        let expected: Vec<_> = oracle
            .range::<[u8], _>((Bound::Included(k), Bound::Unbounded))
            .map(|e| e.0)
            .take(5)
            .collect();
        assert_eq!(range, expected);
        let prefix: Vec<_> = view.prefix(k).map(|e| e.0).collect();
        let expected: Vec<_> = oracle.keys().filter(|o| o.starts_with(k)).collect();
        assert_eq!(prefix, expected);
        let ancestors: Vec<_> = view.ancestors(k).into_iter().map(|e| e.0).collect();
        let expected: Vec<_> = oracle.keys().filter(|o| k.starts_with(o)).collect();
        assert_eq!(ancestors, expected);
        let exact = view.exact(|view| view.longest_prefix(k));
        assert_eq!(exact.map(|e| e.0), expected.last().map(Key::from));
        // Iteration from both ends at once, which meets in the middle.
        let mut both = view.iter();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        while let Some(entry) = both.next() {
            first.push(entry.0);
            last.extend(both.next_back().map(|e| e.0));
        }
        first.extend(last.into_iter().rev());
        assert!(first.into_iter().eq(oracle.keys()));
    }
}

/// Verifies the map and compares it with the oracle; a walk must visit each entry once.
pub fn agree<O: Kind>(map: &SharedMap<O, u64>, oracle: &Oracle) {
    map.verify().unwrap();
    assert_eq!(map.len(), oracle.len());
    let pin = map.pin();
    let mut seen: Vec<_> = pin.view().iter().map(|(k, v)| (k, *v)).collect();
    seen.sort_unstable();
    assert!(
        seen.into_iter()
            .eq(oracle.iter().map(|(k, v)| (Key::from(k), *v)))
    );
    for (key, value) in oracle {
        assert_eq!(pin.view().get(key), Some(value));
    }
    O::agree_backwards(map, oracle);
}
