//! Range maps: transactions, changes of whole ranges, windows, and differences of snapshots.

use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;
use std::ptr::null_mut;

use fastrand::Rng;
use sapwood::maple::{RangeMap, Window};
use sapwood_capi::ranges::*;
use sapwood_capi::ranges_read::*;
use sapwood_capi::ranges_versions::*;
use sapwood_capi::snapshot::*;
use sapwood_model::oracle;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

use super::ranges::{Entry, Ranges, here, push, window_of};
use super::{ops, rng};

type Model = oracle::RangeMap<u64>;

const ALL: RangeInclusive<u64> = 0..=u64::MAX;

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
impl Ranges {
    fn begin(&self) {
        let mut txn = null_mut();
        assert_eq!(
            unsafe { sapwood_ranges_begin(self.ranges, &raw mut txn) },
            0
        );
        self.txn.set(txn);
    }

    /// Ends the transaction by a commit, or a rollback.
    fn end(&self, commit: bool) {
        let txn = self.txn.replace(null_mut());
        let ended = unsafe {
            match commit {
                true => sapwood_ranges_txn_commit(txn),
                false => sapwood_ranges_txn_rollback(txn),
            }
        };
        assert_eq!(ended, 0);
    }

    fn snapshot(&self) -> *mut sapwood_ranges_snapshot {
        let mut snapshot = null_mut();
        let made = unsafe { sapwood_ranges_snapshot_new(self.ranges, &raw mut snapshot) };
        assert_eq!(made, 0);
        snapshot
    }

    /// Walks, lengths and sums are those of the model.
    fn agree(&self, model: &Model) {
        assert_eq!(self.all(&ALL), model.to_vec());
        let (mut len, mut covered, reader) = (0, 0, self.readers.reader);
        unsafe {
            let txn = self.txn.get();
            match txn.is_null() {
                true => assert_eq!(sapwood_ranges_len(self.ranges, &raw mut len), 0),
                false => assert_eq!(sapwood_ranges_txn_len(txn, &raw mut len), 0),
            }
            let at = &raw mut covered;
            let result = here!(
                self,
                sapwood_ranges_covered,
                sapwood_ranges_txn_covered,
                [reader],
                at
            );
            assert_eq!(result, 0);
        }
        assert_eq!(len, model.len());
        let lengths = model
            .iter()
            .map(|(r, _)| u128::from(r.end() - r.start()) + 1);
        assert_eq!(
            u128::from(covered),
            lengths.sum::<u128>().min(u64::MAX.into())
        );
    }
}

/// The parts of the model's entries in a range.
fn parts(model: &Model, range: &RangeInclusive<u64>) -> Vec<Entry> {
    let part = |(entry, value): (RangeInclusive<u64>, &u64)| {
        let start = *entry.start().max(range.start());
        (start..=*entry.end().min(range.end()), *value)
    };
    model.range(range.clone()).map(part).collect()
}

/// A change of a whole range, of a map or a transaction and of the model.
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn change(map: &Ranges, model: &mut Model, rng: &mut Rng) {
    /// Halves values, until it has seen as many parts as it may.
    unsafe extern "C" fn halve(
        part: *const sapwood_range,
        value: *mut u64,
        ctx: *mut c_void,
    ) -> c_int {
        let (part, most) = unsafe { (&*part, &mut *ctx.cast::<usize>()) };
        if *most == 0 {
            return 7;
        }
        *most -= 1;
        unsafe {
            assert_eq!(*value, part.value);
            *value /= 2;
        }
        0
    }
    let start = rng.u64(..400);
    let range = start..=start + rng.u64(..60);
    let (end, value) = (*range.end(), rng.u64(..6));
    let mut told: Vec<Entry> = Vec::new();
    let list = (&raw mut told).cast();
    let there = parts(model, &range);
    match rng.u8(..5) {
        0 => {
            let result = unsafe {
                here!(
                    map,
                    sapwood_ranges_take,
                    sapwood_ranges_txn_take,
                    [],
                    start,
                    end,
                    Some(push),
                    list
                )
            };
            assert_eq!((result, told), (0, there));
            model.clear_range(range);
        }
        1 => {
            let result = unsafe {
                here!(
                    map,
                    sapwood_ranges_replace,
                    sapwood_ranges_txn_replace,
                    [],
                    start,
                    end,
                    value,
                    Some(push),
                    list
                )
            };
            assert_eq!((result, told), (0, there));
            model.store(range, value);
        }
        2 => {
            let mut most = if rng.bool() {
                usize::MAX
            } else {
                rng.usize(..4)
            };
            let stops = most < there.len();
            let result = unsafe {
                here!(
                    map,
                    sapwood_ranges_modify,
                    sapwood_ranges_txn_modify,
                    [],
                    start,
                    end,
                    Some(halve),
                    (&raw mut most).cast()
                )
            };
            assert_eq!(result, if stops { 7 } else { 0 });
            if !stops {
                for (part, value) in there {
                    model.store_coalescing(part, value / 2);
                }
            }
        }
        3 => {
            let to = rng.u64(..400);
            let result = unsafe {
                here!(
                    map,
                    sapwood_ranges_move,
                    sapwood_ranges_txn_move,
                    [],
                    start,
                    end,
                    to
                )
            };
            assert_eq!(result, 0);
            model.clear_range(range);
            model.clear_range(to..=to + (end - start));
            for (part, value) in there {
                model.store(part.start() - start + to..=part.end() - start + to, value);
            }
        }
        _ => {
            let op = RangeOp::Store(range, value);
            assert_eq!(map.apply(&op, 0), op.apply(model));
        }
    }
}

#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn ranges_are_taken_modified_and_moved_as_the_oracle_says() {
    let (mut rng, _) = rng();
    let (map, mut model) = (Ranges::new(), Model::new());
    let ops = ops(4_000);
    let mut left = ops;
    while left > 0 {
        let group = rng.usize(1..12).min(left);
        left -= group;
        let (txn, commit) = (rng.bool(), rng.u8(..3) > 0);
        let before = model.clone();
        if txn {
            map.begin();
        }
        for _ in 0..group {
            change(&map, &mut model, &mut rng);
            map.agree(&model);
        }
        if txn {
            map.end(commit);
            if !commit {
                model = before;
            }
        }
        map.agree(&model);
        map.readers.quiescent();
        assert_eq!(unsafe { sapwood_ranges_verify(map.ranges) }, 0);
    }
    unsafe { sapwood_ranges_free(map.ranges) };
    println!("{ops} operations");
}

/// What C's function for differences is told.
type Told = (c_int, RangeInclusive<u64>, u64, u64);

unsafe extern "C" fn push_change(change: *const sapwood_range_change, ctx: *mut c_void) -> c_int {
    // SAFETY: the caller of C's function gave both.
    let (change, all) = unsafe { (&*change, &mut *ctx.cast::<Vec<Told>>()) };
    assert_eq!(change.size, size_of::<sapwood_range_change>());
    let range = change.start..=change.end;
    all.push((change.kind, range, change.old_value, change.new_value));
    0
}

/// The parts whose values differ in two models, each between two borders of entries.
fn differences(old: &Model, new: &Model) -> Vec<Told> {
    let bounds = |model: &Model| {
        let behind = |range: &RangeInclusive<u64>| range.end().checked_add(1);
        let both = model
            .iter()
            .map(|(range, _)| [Some(*range.start()), behind(&range)]);
        both.flatten().flatten().collect::<Vec<u64>>()
    };
    let mut starts = [vec![0], bounds(old), bounds(new)].concat();
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
    let part = |(&start, end): (&u64, u64)| {
        let (was, is) = (old.get(start).copied(), new.get(start).copied());
        let kind = match (was, is) {
            _ if was == is => return None,
            (None, _) => SAPWOOD_ADDED,
            (_, None) => SAPWOOD_REMOVED,
            _ => SAPWOOD_CHANGED,
        };
        Some((kind, start..=end, was.unwrap_or(0), is.unwrap_or(0)))
    };
    starts.iter().zip(ends).filter_map(part).collect()
}

/// Groups of operations in transactions, of which two of three are committed: the transaction
/// sees them at once, readers see all of them together, and the difference of the snapshots before
/// and behind is what has changed.
#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn transactions_answer_as_the_oracle() {
    let (mut rng, seed) = rng();
    for domain in Domain::ALL {
        let (map, mut model) = (Ranges::new(), Model::new());
        let mut left = ops(3_000) / Domain::ALL.len();
        let mut changes = RangeOps::new(domain, seed).filter(RangeOp::writes);
        while left > 0 {
            let group = rng.usize(1..20).min(left);
            left -= group;
            let (before, mut after) = (map.snapshot(), model.clone());
            map.begin();
            for op in changes.by_ref().take(group) {
                let expected = op.apply(&mut after);
                assert_eq!(map.apply(&op, 0), expected, "{domain:?}: {op:?}");
            }
            map.agree(&after);
            let txn = map.txn.replace(null_mut());
            assert_eq!(map.all(&ALL), model.to_vec(), "readers see what was");
            map.txn.set(txn);
            let commit = rng.u8(..3) > 0;
            map.end(commit);
            let old = std::mem::replace(&mut model, after);
            if !commit {
                model = old.clone();
            }
            map.agree(&model);

            let (now, mut told) = (map.snapshot(), Vec::new());
            let list = (&raw mut told).cast();
            unsafe {
                let result = sapwood_ranges_snapshot_diff(before, now, Some(push_change), list);
                assert_eq!((result, told), (0, differences(&old, &model)));
                let (mut len, mut covered) = (0, 0);
                assert_eq!(sapwood_ranges_snapshot_len(before, &raw mut len), 0);
                assert_eq!(len, old.len());
                assert_eq!(sapwood_ranges_snapshot_covered(now, &raw mut covered), 0);
                let mut here = 0;
                let reader = map.readers.reader;
                assert_eq!(sapwood_ranges_covered(map.ranges, reader, &raw mut here), 0);
                assert_eq!(covered, here);
                sapwood_ranges_snapshot_free(before);
                sapwood_ranges_snapshot_free(now);
            }
            map.readers.quiescent();
            assert_eq!(unsafe { sapwood_ranges_verify(map.ranges) }, 0);
        }
        unsafe { sapwood_ranges_free(map.ranges) };
    }
}

/// Windows of C mean what those of Rust do: the same searches, in the same entries.
#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn windows_choose_as_those_of_rust() {
    let (mut rng, _) = rng();
    let (map, mut twin) = (Ranges::new(), RangeMap::<u64>::new());
    let (mut found, searches) = (0, ops(4_000));
    for turn in 0..searches {
        if turn % 50 == 0 {
            twin.clear();
            assert_eq!(unsafe { sapwood_ranges_clear(map.ranges, 0, u64::MAX) }, 0);
            for _ in 0..rng.u64(..30) {
                let start = rng.u64(..300);
                let end = start + rng.u64(..12);
                twin.store(start..=end, 1).unwrap();
                assert_eq!(
                    unsafe { sapwood_ranges_store(map.ranges, start, end, 1) },
                    0
                );
            }
        }
        let from = rng.u64(..100);
        let within = from..=from + rng.u64(20..300);
        let (mut c, mut rust) = (window_of(&within), Window::new(within));
        match rng.u8(..3) {
            0 => {
                c.align = 1 << rng.u8(..5);
                rust = rust.aligned(c.align);
            }
            1 => {
                (c.modulus, c.rest) = (rng.u64(1..20), rng.u64(..30));
                rust = rust.congruent_to(c.rest, c.modulus);
            }
            _ => {}
        }
        if rng.bool() {
            c.guard = rng.u64(..4);
            rust = rust.guarded(c.guard);
        }
        if rng.bool() {
            c.flags |= SAPWOOD_TIGHTEST;
            rust = rust.tightest();
        }
        c.near = rng.u64(..400);
        match rng.u8(..5) {
            0 => {
                c.flags |= SAPWOOD_FROM_END;
                rust = rust.from_end();
            }
            1 => {
                c.flags |= SAPWOOD_NEAR;
                rust = rust.starting_at(c.near);
            }
            2 => {
                c.flags |= SAPWOOD_NEAR | SAPWOOD_FROM_END;
                rust = rust.starting_at(c.near).from_end();
            }
            3 => {
                c.flags |= SAPWOOD_NEAREST;
                rust = rust.nearest_to(c.near);
            }
            _ => {}
        }
        let size = rng.u64(1..20);
        let place = map.find_gap(size, &c);
        assert_eq!(
            place,
            twin.find_gap(size, rust),
            "{size} in {c:?}: {twin:?}"
        );
        found += usize::from(place.is_some());
    }
    assert!(found > searches / 4, "{found} of {searches}");
    unsafe { sapwood_ranges_free(map.ranges) };
}
