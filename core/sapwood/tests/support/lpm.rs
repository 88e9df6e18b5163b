//! The common parts of the tests of tables: address families in the form of the oracle, comparison,
//! and random operations.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::lpm::Error;
use sapwood::lpm::ipnet::{Ipv4Net, Ipv6Net};
use sapwood::lpm::{Family, Fib, FibSnapshot, V4, V6};
use sapwood_model::choices::Choices;
use sapwood_model::oracle::{Lpm, Prefix};

#[allow(unused_imports)]
pub use super::steps::steps;

/// An address family, with addresses in the form of the oracle: left-aligned in 128 bits.
pub trait Kind: Family {
    fn addr(bits: u128) -> Self::Addr;
    fn net(prefix: Prefix) -> Self::Net;
    fn prefix(net: Self::Net) -> Prefix;
}

impl Kind for V4 {
    fn addr(bits: u128) -> Ipv4Addr {
        Ipv4Addr::from((bits >> 96) as u32)
    }

    fn net(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new(Self::addr(prefix.bits), prefix.len).unwrap()
    }

    fn prefix(net: Ipv4Net) -> Prefix {
        assert_eq!(net, net.trunc());
        Prefix::v4(net.addr(), net.prefix_len())
    }
}

impl Kind for V6 {
    fn addr(bits: u128) -> Ipv6Addr {
        bits.into()
    }

    fn net(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new(Self::addr(prefix.bits), prefix.len).unwrap()
    }

    fn prefix(net: Ipv6Net) -> Prefix {
        assert_eq!(net, net.trunc());
        Prefix::v6(net.addr(), net.prefix_len())
    }
}

/// Options that detect misuse: freed memory is poisoned.
pub fn loud() -> ArenaOptions {
    small().debug(DebugMode::Poison)
}

/// Options with address space for a test.
pub fn small() -> ArenaOptions {
    ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 })
}

/// A table's builder; with 0 bits its root grows. With the smallest root, or one that grows, the
/// table detects misuse; with other roots it keeps free blocks.
pub fn builder<F: Kind>(bits: u8) -> Builder<Fib<F, u32>> {
    match bits {
        0 => Fib::builder().options(loud()),
        6 => Fib::builder().root_bits(bits).options(loud()),
        _ => Fib::builder().root_bits(bits).options(small()),
    }
}

/// A random prefix that often overlaps others: few bits vary, at the borders of strides and at both
/// ends.
pub fn prefix<F: Kind>(choices: &mut impl Choices) -> Prefix {
    const PLACES: [u8; 24] = [
        0, 1, 5, 6, 11, 12, 16, 17, 18, 19, 22, 23, 24, 25, 29, 30, 31, 36, 47, 63, 64, 65, 126,
        127,
    ];
    let len = match choices.below(4) {
        0 => choices.below(usize::from(F::WIDTH) + 1) as u8,
        1 => choices.below(usize::from(F::WIDTH.min(33)) + 1) as u8,
        2 => (*choices.pick(&PLACES)).min(F::WIDTH),
        _ => *choices.pick(&[F::WIDTH, F::WIDTH - 1, 24, 18, 12]),
    };
    Prefix::truncated(address(choices), len)
}

/// A random address that often matches the prefixes.
pub fn address(choices: &mut impl Choices) -> u128 {
    const PLACES: [u32; 14] = [0, 1, 5, 11, 12, 17, 18, 23, 24, 28, 31, 47, 64, 127];
    // About a third of these bits are set.
    let set = choices.below(1 << 14) & choices.below(1 << 14) | choices.below(1 << 14) & 0x1249;
    let set = PLACES.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
    set.fold(0, |bits, (_, at)| bits | 1 << (127 - at))
}

/// The entries of a table, in the form of the oracle.
pub fn entries<F: Kind>(snapshot: &FibSnapshot<F, u32>) -> Vec<(Prefix, u32)> {
    snapshot
        .iter()
        .map(|(net, value)| (F::prefix(net), *value))
        .collect()
}

fn listed<'a>(found: impl IntoIterator<Item = (Prefix, &'a u32)>) -> Vec<(Prefix, u32)> {
    found.into_iter().map(|(p, v)| (p, *v)).collect()
}

/// Makes every query about one address and one prefix to the table, a snapshot and the oracle.
pub fn ask<F: Kind>(fib: &Fib<F, u32>, oracle: &Lpm<u32>, address: u128, prefix: Prefix) {
    let (addr, net) = (F::addr(address), F::net(prefix));
    let snapshot = fib.snapshot();
    let longest = oracle.lookup(address).map(|(p, v)| (p, *v));
    let found = |f: Option<(F::Net, &u32)>| f.map(|(net, v)| (F::prefix(net), *v));
    let list = |f: &mut dyn Iterator<Item = (F::Net, &u32)>| -> Vec<(Prefix, u32)> {
        f.map(|(net, v)| (F::prefix(net), *v)).collect()
    };
    let matches = listed(oracle.matches(address));
    let covered = listed(oracle.covered_by(prefix));
    let all = listed(oracle.iter());
    let mut covering = all.clone();
    covering.retain(|(p, _)| p.covers(prefix));
    let overlaps = !covering.is_empty() || !covered.is_empty();
    let mut after = all;
    after.retain(|(p, _)| (p.bits, p.len) >= (prefix.bits, prefix.len));
    fib.read(|view| {
        assert_eq!(found(view.lookup(addr)), longest);
        assert_eq!(view.lookup_value(addr).copied(), longest.map(|f| f.1));
        assert_eq!(view.get(net), oracle.get(prefix));
        assert_eq!(list(&mut view.matches(addr)), matches);
        assert_eq!(list(&mut view.covering(net)), covering, "{net}");
        assert_eq!(found(view.lookup_net(net)), covering.last().copied());
        assert_eq!(view.overlaps(net), overlaps, "{net}");
        assert_eq!(list(&mut view.covered_by(net)), covered, "{net}");
        assert_eq!(list(&mut view.iter_from(net)), after, "{net}");
        let (addrs, mut values) = ([F::addr(prefix.bits), addr], [None; 2]);
        view.lookup_batch(&addrs, &mut values);
        assert_eq!(values, addrs.map(|addr| view.lookup_value(addr)));
    });
    assert_eq!(found(snapshot.lookup(addr)), longest);
    assert_eq!(snapshot.get(net), oracle.get(prefix));
    assert_eq!(list(&mut snapshot.covered_by(net)), covered, "{net}");
    assert_eq!(list(&mut snapshot.covering(net)), covering, "{net}");
    assert_eq!(list(&mut snapshot.iter_from(net)), after, "{net}");
    assert_eq!(found(snapshot.lookup_net(net)), covering.last().copied());
    assert_eq!(snapshot.overlaps(net), overlaps, "{net}");
    let children = list(&mut snapshot.children(net));
    assert_eq!(children, listed(oracle.children(prefix)), "{net}");
}

/// Compares the whole table with the oracle, and verifies the invariants.
pub fn agree<F: Kind>(fib: &Fib<F, u32>, oracle: &Lpm<u32>) {
    if let Err(wrong) = fib.verify() {
        panic!("{wrong}");
    }
    assert_eq!(fib.len(), oracle.len());
    assert_eq!(entries(&fib.snapshot()), listed(oracle.iter()));
}

/// A table and the oracle with the same contents.
struct Pair<F: Kind> {
    builder: Builder<Fib<F, u32>>,
    fib: Fib<F, u32>,
    oracle: Lpm<u32>,
    kept: Vec<(FibSnapshot<F, u32>, Lpm<u32>)>,
    scarce: bool,
    failed: usize,
    /// The error of the last failed change.
    last: Option<Error>,
}

impl<F: Kind> Pair<F> {
    /// The result; `None` if memory has run out and that is allowed.
    fn done<T>(&mut self, result: Result<T, impl Into<Error>>) -> Option<T> {
        match result.map_err(Into::into) {
            Ok(done) => Some(done),
            Err(error @ (Error::ArenaFull(_) | Error::GarbageLimit(_))) if self.scarce => {
                self.failed += 1;
                self.last = Some(error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn insert(&mut self, prefix: Prefix, value: u32) {
        let inserted = self.fib.insert(F::net(prefix), value);
        let inserted = inserted.inspect_err(|rejected| assert_eq!(rejected.value, value));
        if let Some(old) = self.done(inserted) {
            assert_eq!(old, self.oracle.insert(prefix, value));
        }
    }

    fn remove(&mut self, prefix: Prefix) {
        let removed = self.fib.remove(F::net(prefix));
        if let Some(old) = self.done(removed) {
            assert_eq!(old, self.oracle.remove(prefix));
        }
    }

    fn transaction(&mut self, choices: &mut impl Choices) {
        let mut changed = self.oracle.clone();
        let fib = self.fib.clone();
        let mut txn = fib.begin();
        for _ in 0..choices.below(20) {
            let (p, v) = (prefix::<F>(choices), 1 + choices.below(5) as u32);
            if choices.flip() {
                let inserted = txn.insert(F::net(p), v).map(Option::<&u32>::copied);
                if let Some(old) = self.done(inserted) {
                    assert_eq!(old, changed.insert(p, v));
                }
            } else {
                let removed = txn.remove(F::net(p)).map(Option::<&u32>::copied);
                if let Some(old) = self.done(removed) {
                    assert_eq!(old, changed.remove(p));
                }
            }
            let a = address(choices);
            let found = txn.lookup(F::addr(a)).map(|(n, v)| (F::prefix(n), *v));
            assert_eq!(found, changed.lookup(a).map(|(p, v)| (p, *v)));
            assert_eq!(txn.len(), changed.len());
        }
        if choices.flip() {
            txn.commit();
            self.oracle = changed;
        } else {
            txn.rollback();
        }
    }

    /// Builds a table of the same entries, given in another order, with old values first.
    fn rebuild(&mut self, choices: &mut impl Choices) {
        let all: Vec<_> = self.fib.snapshot().iter().map(|(n, v)| (n, *v)).collect();
        let mut all: Vec<_> = all.iter().map(|e| (e.0, 9)).chain(all.clone()).collect();
        let half = all.len() / 2;
        all[half..].reverse();
        if half > 0 {
            all[half..].rotate_left(choices.below(half));
        }
        if let Some(fib) = self.done(self.builder.clone().build_from(all)) {
            self.fib = fib;
        }
    }

    /// Runs one operation; returns `true` if it may have changed the table.
    fn step(&mut self, choices: &mut impl Choices) -> bool {
        match choices.below(100) {
            0..42 => {
                let (p, v) = (prefix::<F>(choices), 1 + choices.below(5) as u32);
                self.insert(p, v);
            }
            42..75 => {
                // Mostly prefixes that are present.
                let p = match choices.below(8) {
                    0 => prefix::<F>(choices),
                    _ if self.oracle.is_empty() => return false,
                    _ => {
                        let at = choices.below(self.oracle.len());
                        self.oracle
                            .iter()
                            .nth(at)
                            .expect("the index is below the length")
                            .0
                    }
                };
                self.remove(p);
            }
            75..89 => {
                let (a, p) = (address(choices), prefix::<F>(choices));
                ask(&self.fib, &self.oracle, a, p);
                return false;
            }
            89..93 => self.transaction(choices),
            93 => {
                let compacted = self.fib.compact();
                self.done(compacted);
            }
            94 => {
                let more = self.fib.compact_step(1 + choices.below(40));
                self.done(more);
            }
            95 => self.rebuild(choices),
            96 => self.kept.push((self.fib.snapshot(), self.oracle.clone())),
            97 => {
                self.kept.truncate(choices.below(4));
                self.fib.reclaim(choices.below(40));
            }
            // A reader that holds the matches of an address.
            98 => {
                let fib = self.fib.clone();
                let reader = fib.reader("held").expect("the only one");
                let view = reader.view();
                let held: Vec<_> = view.matches(F::addr(address(choices))).collect();
                let before: Vec<_> = held.iter().map(|(net, value)| (*net, **value)).collect();
                for _ in 0..choices.below(20) {
                    self.step(choices);
                }
                let held = held.iter().map(|(net, value)| (*net, **value));
                assert!(held.eq(before), "changed under a reader");
            }
            _ => return false,
        }
        true
    }

    fn agree(&self) {
        agree(&self.fib, &self.oracle);
        for (snapshot, oracle) in &self.kept {
            assert_eq!(snapshot.len(), oracle.len());
            assert_eq!(entries(snapshot), listed(oracle.iter()));
        }
    }
}

/// Runs up to `count` random operations on a table; the oracle checks each answer, and the whole
/// table after each `every`th. `scarce` says that memory may run out: a failed change must change
/// nothing. Returns the number of failed changes.
pub fn run_fib<F: Kind>(
    builder: Builder<Fib<F, u32>>,
    choices: &mut impl Choices,
    count: usize,
    every: usize,
    scarce: bool,
) -> usize {
    let fib = match builder.clone().build() {
        Ok(fib) => fib,
        Err(error) => {
            assert!(scarce, "{error}");
            return 1;
        }
    };
    let mut pair = Pair {
        builder,
        fib,
        oracle: Lpm::new(F::WIDTH),
        kept: Vec::new(),
        scarce,
        failed: 0,
        last: None,
    };
    for step in 0..count {
        if !choices.more() {
            break;
        }
        let changed = pair.step(choices);
        if changed && (step % every == 0 || pair.oracle.len() < 8) {
            pair.agree();
        }
    }
    pair.agree();
    pair.kept.clear();
    // A change that fails in one round may succeed in the next one.
    for _ in 0..100 {
        for (prefix, _) in pair.oracle.clone().iter() {
            pair.remove(prefix);
        }
        pair.fib.reclaim(usize::MAX);
        if pair.oracle.is_empty() {
            break;
        }
    }
    assert!(
        pair.oracle.is_empty(),
        "{} are left: {:?}\n{}",
        pair.fib.len(),
        pair.last,
        pair.fib.memory()
    );
    assert!(pair.fib.is_empty());
    pair.fib.verify().unwrap();
    pair.fib.reclaim(usize::MAX);
    let memory = pair.fib.memory();
    assert_eq!((memory.nodes.0, memory.shelves.0), (0, 0));
    assert_eq!((memory.values.0, memory.waiting.0), (0, 0));
    pair.failed
}
