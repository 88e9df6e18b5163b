//! Transactions and snapshots of `sapwood_ranges`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use sapwood::maple::{MapleMap, MapleSnapshot, MapleTxn, MapleView, MapleWriter};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::output::{hand_out, put, put_found};
use crate::ranges::{
    put_entry, sapwood_range, sapwood_range_fn, sapwood_range_modify_fn, sapwood_ranges,
    sapwood_window, window_at,
};
use crate::ranges_changes::{Changed, changes, new_values, told};
use crate::ranges_read::{Seen, copied, count, put_place, reads, walk};
use crate::snapshot::{SAPWOOD_ADDED, SAPWOOD_CHANGED, SAPWOOD_REMOVED};
use crate::versions::{self, Mark, Transacts, TxnBody, mark};

/// A transaction, and whether C's functions read it now.
pub struct RangesTxn {
    txn: MapleTxn<'static, u64>,
    read: Cell<bool>,
}

impl From<MapleTxn<'static, u64>> for RangesTxn {
    fn from(txn: MapleTxn<'static, u64>) -> Self {
        let read = Cell::new(false);
        RangesTxn { txn, read }
    }
}

impl RangesTxn {
    /// Reads the transaction with a function that may call C's. Nothing changes it meanwhile.
    fn reading<R>(&self, f: impl FnOnce(MapleView<'_, u64>) -> R) -> R {
        let _reading = Reading {
            read: &self.read,
            before: self.read.replace(true),
        };
        f(self.txn.view())
    }
}

/// Notes that the reading has ended, also by a panic.
struct Reading<'a> {
    read: &'a Cell<bool>,
    /// Whether it lies inside of another one.
    before: bool,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.read.set(self.before);
    }
}

impl Transacts for MapleMap<u64> {
    const MARKS: [Mark; 2] = [mark(*b"swRa", "ranges"), mark(*b"swRx", "ranges_txn")];
    type Txn = RangesTxn;

    fn begin(&'static self) -> Option<RangesTxn> {
        Some(MapleMap::begin(self).into())
    }

    fn try_begin(&'static self) -> Option<RangesTxn> {
        MapleMap::try_begin(self).map(RangesTxn::from)
    }

    fn commit(txn: RangesTxn) {
        txn.txn.commit();
    }

    fn rollback(txn: RangesTxn) {
        drop(txn);
    }
}

type RangesTxnBody = TxnBody<MapleMap<u64>>;

/// A failure if the transaction may not be changed or ended now.
///
/// # Safety
/// C.
unsafe fn free_to_change(txn: *const sapwood_ranges_txn) -> Outcome<()> {
    // SAFETY: C.
    if unsafe { versions::seen(txn) }?.txn.read.get() {
        return Err(Failure::new(
            libc::EBUSY,
            "a function that was given to this transaction runs, and may only read it",
        ));
    }
    Ok(())
}

impl Changed for RangesTxnBody {
    unsafe fn change<R>(
        at: *mut Handle<Self>,
        f: impl FnOnce(&mut MapleWriter<'_, u64>) -> Outcome<R>,
    ) -> Outcome<R> {
        // SAFETY: C.
        unsafe {
            free_to_change(at)?;
            f(&mut versions::opened(at)?.txn.txn)
        }
    }

    unsafe fn together<T>(
        at: *mut Handle<Self>,
        look: impl FnOnce(MapleView<'_, u64>) -> (c_int, T),
        then: impl FnOnce(&mut MapleTxn<'_, u64>, T) -> Outcome<()>,
    ) -> Outcome {
        // SAFETY: C.
        unsafe {
            free_to_change(at)?;
            let (answer, found) = versions::seen(at)?.txn.reading(look);
            if answer == 0 {
                then(&mut versions::opened(at)?.txn.txn, found)?;
            }
            Ok(answer)
        }
    }
}

impl Seen for RangesTxnBody {
    unsafe fn view<R>(
        at: *const Handle<Self>,
        f: impl FnOnce(MapleView<'_, u64>) -> R,
    ) -> Outcome<R> {
        // SAFETY: C.
        Ok(unsafe { versions::seen(at) }?.txn.reading(f))
    }
}

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    snapshot: MapleSnapshot<u64>,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRv");
    const NAME: &'static str = "ranges_snapshot";
}

impl Seen for SnapshotBody {
    unsafe fn view<R>(
        at: *const Handle<Self>,
        f: impl FnOnce(MapleView<'_, u64>) -> R,
    ) -> Outcome<R> {
        // SAFETY: C.
        Ok(f(unsafe { Handle::shared(at) }?.snapshot.view()))
    }
}

c_api!(
    /// A transaction: nobody else sees its changes before they are committed. It stays on its
    /// thread. It is also a reservation of many changes: each can fail, and the commit cannot.
    pub type sapwood_ranges_txn = Handle<RangesTxnBody>;

    /// Begins a transaction, after waiting for that of another thread, or its reservation. It
    /// belongs to the thread that began it, which ends it by a commit or a rollback. Until then
    /// that thread changes the map through the transaction: -EDEADLK. sapwood_ranges_try_begin does
    /// not wait: -EBUSY.
    fn sapwood_ranges_begin(
        ranges: *mut sapwood_ranges,
        out: *mut *mut sapwood_ranges_txn,
    ) -> c_int {
        versions::begin(ranges, out, Transacts::begin)
    }

    fn sapwood_ranges_try_begin(
        ranges: *mut sapwood_ranges,
        out: *mut *mut sapwood_ranges_txn,
    ) -> c_int {
        versions::begin(ranges, out, Transacts::try_begin)
    }

    changes!(
        txn: *mut sapwood_ranges_txn,
        /// As the functions of the map. Its thread. A change that fails leaves the transaction as
        /// it was; of one that modifies or moves, a part may be made when memory fails, so roll
        /// back. -EBUSY: a function runs that the transaction was given to walk over it or to
        /// modify it; such a function may only read it.
        sapwood_ranges_txn_store,
        sapwood_ranges_txn_store_coalescing,
        sapwood_ranges_txn_insert_new,
        sapwood_ranges_txn_remove,
        sapwood_ranges_txn_clear,
        sapwood_ranges_txn_take,
        sapwood_ranges_txn_replace,
        sapwood_ranges_txn_modify,
        sapwood_ranges_txn_move,
        sapwood_ranges_txn_alloc
    );

    reads!(
        txn: *const sapwood_ranges_txn,
        /// Read what the transaction has made of the map. Its thread.
        sapwood_ranges_txn_get,
        sapwood_ranges_txn_next,
        sapwood_ranges_txn_each,
        sapwood_ranges_txn_find_gap,
        sapwood_ranges_txn_len,
        sapwood_ranges_txn_covered
    );

    /// Publishes all changes with one store, and frees the handle. It takes no memory, and cannot
    /// fail on its thread. O(nodes that were made and replaced).
    fn sapwood_ranges_txn_commit(txn: *mut sapwood_ranges_txn) -> c_int {
        free_to_change(txn)?;
        versions::commit(txn)
    }

    /// Discards all changes, and frees the handle. NULL does nothing. Its thread.
    fn sapwood_ranges_txn_rollback(txn: *mut sapwood_ranges_txn) -> c_int {
        if txn.is_null() || Handle::leave(txn) {
            return Ok(0);
        }
        free_to_change(txn)?;
        versions::rollback(txn)
    }

    /// Snapshots, as those of sapwood_fib; their functions are as those of the map.
    pub type sapwood_ranges_snapshot = Handle<SnapshotBody>;

    fn sapwood_ranges_snapshot_new(
        ranges: *const sapwood_ranges,
        out: *mut *mut sapwood_ranges_snapshot,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let body = Handle::shared(ranges)?;
        body.turns.check()?;
        let snapshot = body.table.snapshot();
        hand_out(out, SnapshotBody { snapshot }, Handle::rules(ranges))
    }

    fn sapwood_ranges_snapshot_free(snapshot: *mut sapwood_ranges_snapshot) {
        free(snapshot)
    }

    reads!(
        snapshot: *const sapwood_ranges_snapshot,
        sapwood_ranges_snapshot_get,
        sapwood_ranges_snapshot_next,
        sapwood_ranges_snapshot_each,
        sapwood_ranges_snapshot_find_gap,
        sapwood_ranges_snapshot_len,
        sapwood_ranges_snapshot_covered
    );

    fn sapwood_ranges_snapshot_save(
        snapshot: *const sapwood_ranges_snapshot,
        path: *const c_char,
    ) -> c_int {
        let body = Handle::shared(snapshot)?;
        body.snapshot.save(input::path(path)?)?;
        Ok(0)
    }

    /// A part of the indices whose values differ in two snapshots.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_range_change {
        pub size: usize,
        /// enum sapwood_change_kind
        pub kind: c_int,
        /// 0
        pub reserved: c_uint,
        pub start: u64,
        /// the last index
        pub end: u64,
        /// 0 if added
        pub old_value: u64,
        /// 0 if removed
        pub new_value: u64,
    }

    /// Returns 0 to go on; anything else ends the walk.
    pub type sapwood_range_change_fn =
        Option<unsafe extern "C" fn(change: *const sapwood_range_change, ctx: *mut c_void) -> c_int>;

    /// Calls each(change, ctx) with the parts whose values differ in two snapshots, in order. A
    /// part lies in one entry or one gap of each. Returns 0, or what ended the walk. The snapshots
    /// may be of two maps. O(entries of both).
    fn sapwood_ranges_snapshot_diff(
        before: *const sapwood_ranges_snapshot,
        after: *const sapwood_ranges_snapshot,
        each: sapwood_range_change_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let (before, after) = (Handle::shared(before)?, Handle::shared(after)?);
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        let (before, after) = (before.snapshot.view(), after.snapshot.view());
        for (range, old, new) in before.diff(&after) {
            let change = sapwood_range_change {
                size: size_of::<sapwood_range_change>(),
                kind: match (old, new) {
                    (None, _) => SAPWOOD_ADDED,
                    (_, None) => SAPWOOD_REMOVED,
                    _ => SAPWOOD_CHANGED,
                },
                reserved: 0,
                start: *range.start(),
                end: *range.end(),
                old_value: old.copied().unwrap_or(0),
                new_value: new.copied().unwrap_or(0),
            };
            // C gave both for this.
            let answer = each(&raw const change, ctx);
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }
);
