//! Range maps.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;
use std::ptr::{null, null_mut};

use sapwood_capi::ranges::*;
use sapwood_capi::ranges_plans::*;
use sapwood_capi::ranges_read::*;
use sapwood_capi::ranges_versions::*;
use sapwood_capi::reader::*;
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps, RangeOutcome};

use super::{ABSENT, Readers, ops, rng};

/// A range map of C, with the operations of the oracle.
pub(super) struct Ranges {
    pub(super) ranges: *mut sapwood_ranges,
    pub(super) readers: Readers,
    /// If it is open, changes, walks and searches for gaps are made in it.
    pub(super) txn: Cell<*mut sapwood_ranges_txn>,
}

pub(super) type Entry = (RangeInclusive<u64>, u64);

/// Calls C's function of the map, or of the transaction that is open.
macro_rules! here {
    ($map:expr, $of_map:ident, $of_txn:ident, [$($reader:expr)?], $($arg:expr),*) => {
        match $map.txn.get() {
            txn if txn.is_null() => $of_map($map.ranges, $($reader,)? $($arg),*),
            txn => $of_txn(txn, $($arg),*),
        }
    };
}
pub(super) use here;

/// Puts entries that C's functions are called with into a list.
pub(super) unsafe extern "C" fn push(entry: *const sapwood_range, ctx: *mut c_void) -> c_int {
    // SAFETY: the caller of C's function gave both.
    let (entry, all) = unsafe { (&*entry, &mut *ctx.cast::<Vec<Entry>>()) };
    all.push((entry.start..=entry.end, entry.value));
    0
}

/// A window of C with a range, and nothing else.
pub(super) fn window_of(within: &RangeInclusive<u64>) -> sapwood_window {
    sapwood_window {
        start: *within.start(),
        end: *within.end(),
        ..sapwood_window::default()
    }
}

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
impl Ranges {
    pub(super) fn new() -> Self {
        let readers = Readers::new();
        let mut ranges = null_mut();
        let made = unsafe { sapwood_ranges_new(readers.domain, null(), &raw mut ranges) };
        assert_eq!(made, 0);
        Ranges {
            ranges,
            readers,
            txn: Cell::new(null_mut()),
        }
    }

    fn entry(
        &self,
        f: impl FnOnce(*const sapwood_reader, *mut sapwood_range) -> c_int,
    ) -> Option<Entry> {
        let mut at = sapwood_range {
            start: 0,
            end: 0,
            value: 0,
        };
        match f(self.readers.reader, &raw mut at) {
            0 => Some((at.start..=at.end, at.value)),
            ABSENT => None,
            other => panic!("{other}"),
        }
    }

    fn next(&self, from: u64) -> Option<Entry> {
        self.entry(|reader, at| unsafe {
            here!(
                self,
                sapwood_ranges_next,
                sapwood_ranges_txn_next,
                [reader],
                from,
                at
            )
        })
    }

    pub(super) fn all(&self, range: &RangeInclusive<u64>) -> Vec<Entry> {
        let mut all = Vec::new();
        let (start, end, list) = (*range.start(), *range.end(), (&raw mut all).cast());
        let reader = self.readers.reader;
        let result = unsafe {
            here!(
                self,
                sapwood_ranges_each,
                sapwood_ranges_txn_each,
                [reader],
                start,
                end,
                Some(push),
                list
            )
        };
        assert_eq!(result, 0);
        all
    }

    fn gaps(&self, range: &RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let (mut all, mut from) = (Vec::new(), *range.start());
        let (mut start, mut end) = (0, 0);
        while unsafe {
            sapwood_ranges_next_gap(
                self.ranges,
                null(),
                from,
                *range.end(),
                &raw mut start,
                &raw mut end,
            )
        } == 0
        {
            all.push(start..=end);
            match end.checked_add(1) {
                Some(next) if next <= *range.end() => from = next,
                _ => break,
            }
        }
        all
    }

    pub(super) fn apply(&self, op: &RangeOp, how: u8) -> RangeOutcome {
        use RangeOutcome as Out;
        let (map, bounds) = (self.ranges, |r: &RangeInclusive<u64>| {
            (*r.start(), *r.end())
        });
        // What a change returned, as the oracle says it.
        let done = |result: c_int| match result {
            0 => Out::Done,
            result if [-libc::ERANGE, -libc::EINVAL].contains(&result) => Out::BadArgument,
            result if result == -libc::ENOSPC => Out::NoGap,
            other => panic!("{op:?}: {other}"),
        };
        let window = |within: &RangeInclusive<u64>, align, highest| sapwood_window {
            align,
            flags: u32::from(highest),
            ..window_of(within)
        };
        match op {
            RangeOp::Store(range, value) => {
                let (start, end) = bounds(range);
                done(unsafe {
                    match how % 3 {
                        _ if self.in_txn() => {
                            sapwood_ranges_txn_store(self.txn.get(), start, end, *value)
                        }
                        0 => sapwood_ranges_store(map, start, end, *value),
                        1 => {
                            let mut plan = null_mut();
                            match sapwood_ranges_plan_store(map, start, end, &raw mut plan) {
                                0 => self.reserved(plan, Some(*value)),
                                refused => refused,
                            }
                        }
                        _ => {
                            let mut later = null_mut();
                            assert_eq!(sapwood_ranges_reserve_later(map, 1, &raw mut later), 0);
                            let result = sapwood_ranges_later_store(later, start, end, *value);
                            sapwood_ranges_later_free(later);
                            result
                        }
                    }
                })
            }
            RangeOp::StoreCoalescing(range, value) => {
                let (start, end) = bounds(range);
                let mut at = sapwood_range {
                    start: 0,
                    end: 0,
                    value: 0,
                };
                match unsafe {
                    here!(
                        self,
                        sapwood_ranges_store_coalescing,
                        sapwood_ranges_txn_store_coalescing,
                        [],
                        start,
                        end,
                        *value,
                        &raw mut at
                    )
                } {
                    0 => Out::At(Some(at.start..=at.end)),
                    refused => done(refused),
                }
            }
            RangeOp::Insert(range, value) => {
                let (start, end) = bounds(range);
                match unsafe {
                    match how % 2 {
                        1 if !self.in_txn() => {
                            let mut plan = null_mut();
                            match sapwood_ranges_plan_insert_new(map, start, end, &raw mut plan) {
                                0 => self.reserved(plan, Some(*value)),
                                refused => refused,
                            }
                        }
                        _ => here!(
                            self,
                            sapwood_ranges_insert_new,
                            sapwood_ranges_txn_insert_new,
                            [],
                            start,
                            end,
                            *value
                        ),
                    }
                } {
                    result if result == -libc::EEXIST => {
                        Out::Occupied(self.next(start).expect("an entry is in the way").0)
                    }
                    result => done(result),
                }
            }
            RangeOp::Erase(index) => {
                if how % 2 == 1 && !self.in_txn() {
                    let found = self.entry(|reader, at| unsafe {
                        sapwood_ranges_get_entry(map, reader, *index, at)
                    });
                    let mut plan = null_mut();
                    unsafe {
                        assert_eq!(sapwood_ranges_plan_remove(map, *index, &raw mut plan), 0);
                        assert_eq!(self.reserved(plan, None), 0);
                    }
                    return Out::Entry(found);
                }
                Out::Entry(self.entry(|_, at| unsafe {
                    here!(
                        self,
                        sapwood_ranges_remove,
                        sapwood_ranges_txn_remove,
                        [],
                        *index,
                        at
                    )
                }))
            }
            RangeOp::ClearRange(range) => {
                let (start, end) = bounds(range);
                done(unsafe {
                    match how % 3 {
                        _ if self.in_txn() => sapwood_ranges_txn_clear(self.txn.get(), start, end),
                        0 => sapwood_ranges_clear(map, start, end),
                        1 => {
                            let mut plan = null_mut();
                            match sapwood_ranges_plan_clear(map, start, end, &raw mut plan) {
                                0 => self.reserved(plan, None),
                                refused => refused,
                            }
                        }
                        _ => {
                            let mut later = null_mut();
                            assert_eq!(sapwood_ranges_reserve_later(map, 2, &raw mut later), 0);
                            let result = sapwood_ranges_later_clear(later, start, end);
                            sapwood_ranges_later_free(later);
                            result
                        }
                    }
                })
            }
            RangeOp::Clear => done(unsafe {
                here!(
                    self,
                    sapwood_ranges_clear,
                    sapwood_ranges_txn_clear,
                    [],
                    0,
                    u64::MAX
                )
            }),
            // C takes an alignment of 0 for none; the oracle refuses it.
            RangeOp::Alloc { align: 0, .. } => Out::BadArgument,
            RangeOp::FindGap { align: 0, .. } => Out::At(None),
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            } => {
                let window = window(within, *align, *highest);
                let mut start = 0;
                match self.alloc(*size, &window, *value, &mut start) {
                    0 => Out::At(Some(start..=start + (size - 1))),
                    refused => done(refused),
                }
            }
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let mut window = window(within, 1, false);
                (window.near, window.flags) = (*next, SAPWOOD_NEAR);
                let mut start = 0;
                match self.alloc(*size, &window, *value, &mut start) {
                    0 => {
                        let end = start + (size - 1);
                        let next = end.checked_add(1).unwrap_or(*within.start());
                        Out::Cyclic(start..=end, next)
                    }
                    refused => done(refused),
                }
            }
            RangeOp::Locate(index) => {
                let mut value = 0;
                let found =
                    unsafe { sapwood_ranges_get(map, self.readers.reader, *index, &raw mut value) };
                let entry = self.entry(|reader, at| unsafe {
                    sapwood_ranges_get_entry(map, reader, *index, at)
                });
                match entry {
                    Some((range, there)) => {
                        assert_eq!((found, value), (0, there));
                        Out::Place(range, Some(there))
                    }
                    None => {
                        assert_eq!(found, ABSENT);
                        let before = self.entry(|reader, at| unsafe {
                            sapwood_ranges_prev(map, reader, *index, at)
                        });
                        let start = before.map_or(0, |(range, _)| range.end() + 1);
                        let end = self
                            .next(*index)
                            .map_or(u64::MAX, |(range, _)| range.start() - 1);
                        Out::Place(start..=end, None)
                    }
                }
            }
            RangeOp::NextAfter(index) => {
                let mut found = self.next(*index);
                if let Some((range, _)) = &found
                    && range.start() <= index
                {
                    found = range.end().checked_add(1).and_then(|next| self.next(next));
                }
                Out::Entry(found)
            }
            RangeOp::PrevBefore(index) => {
                let prev = |to| {
                    self.entry(|reader, at| unsafe { sapwood_ranges_prev(map, reader, to, at) })
                };
                let mut found = prev(*index);
                if let Some((range, _)) = &found
                    && range.end() >= index
                {
                    found = range.start().checked_sub(1).and_then(prev);
                }
                Out::Entry(found)
            }
            RangeOp::End { last: false } => Out::Entry(self.next(0)),
            RangeOp::End { last: true } => Out::Entry(
                self.entry(|reader, at| unsafe { sapwood_ranges_prev(map, reader, u64::MAX, at) }),
            ),
            RangeOp::Range(range) => Out::Entries(self.all(range)),
            RangeOp::Gaps(range) => Out::Gaps(if range.is_empty() {
                Vec::new()
            } else {
                self.gaps(range)
            }),
            RangeOp::FindGap {
                size,
                align,
                within,
                highest,
            } => {
                let window = window(within, *align, *highest);
                Out::At(self.find_gap(*size, &window))
            }
        }
    }

    fn in_txn(&self) -> bool {
        !self.txn.get().is_null()
    }

    fn alloc(&self, size: u64, window: &sapwood_window, value: u64, start: &mut u64) -> c_int {
        unsafe {
            here!(
                self,
                sapwood_ranges_alloc,
                sapwood_ranges_txn_alloc,
                [],
                size,
                window,
                value,
                start
            )
        }
    }

    pub(super) fn find_gap(
        &self,
        size: u64,
        window: &sapwood_window,
    ) -> Option<RangeInclusive<u64>> {
        let (mut start, reader) = (0, self.readers.reader);
        let found = unsafe {
            here!(
                self,
                sapwood_ranges_find_gap,
                sapwood_ranges_txn_find_gap,
                [reader],
                size,
                window,
                &raw mut start
            )
        };
        match found {
            0 => Some(start..=start + (size - 1)),
            result => {
                assert_eq!(result, -libc::ENOSPC);
                None
            }
        }
    }

    /// Carries a plan out by a reservation.
    unsafe fn reserved(&self, plan: *mut sapwood_ranges_plan, value: Option<u64>) -> c_int {
        let mut reservation = null_mut();
        unsafe {
            assert_eq!(
                sapwood_ranges_reserve(self.ranges, plan, &raw mut reservation),
                0
            );
            sapwood_ranges_plan_free(plan);
            match value {
                Some(value) => sapwood_ranges_reservation_store(reservation, value),
                None => sapwood_ranges_reservation_erase(reservation),
            }
        }
    }
}

#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn range_maps_answer_as_the_oracle() {
    let (mut rng, seed) = rng();
    for domain in Domain::ALL {
        let map = Ranges::new();
        let ranges = map.ranges;
        let mut oracle = RangeMap::new();
        let ops = ops(5_000) / Domain::ALL.len();
        for (step, op) in RangeOps::new(domain, seed).take(ops).enumerate() {
            let expected = op.apply(&mut oracle);
            assert_eq!(
                map.apply(&op, rng.u8(..)),
                expected,
                "{domain:?}, step {step}: {op:?}"
            );
            if step % 256 == 0 {
                map.readers.quiescent();
                let mut len = 0;
                assert_eq!(unsafe { sapwood_ranges_len(ranges, &raw mut len) }, 0);
                assert_eq!(len, oracle.len());
                assert_eq!(unsafe { sapwood_ranges_verify(ranges) }, 0);
            }
        }
        assert_eq!(map.all(&(0..=u64::MAX)), oracle.to_vec());
        unsafe { sapwood_ranges_free(ranges) };
        println!("{ops} operations");
    }
}
