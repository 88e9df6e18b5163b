//! Changes of range maps: the same functions for a map and for a transaction.

use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;

use sapwood::maple::{MapleMap, MapleTxn, MapleView, MapleWriter};

use crate::error::Outcome;
use crate::handle::{Body, Handle};
use crate::ranges::{Found, RangesBody, sapwood_range};
use crate::ranges_read::{EachFn, walk};
use crate::versions;

/// What is changed: a map, or a transaction.
pub trait Changed: Body {
    /// Makes a change.
    ///
    /// # Safety
    /// C.
    unsafe fn change<R>(
        at: *mut Handle<Self>,
        f: impl FnOnce(&mut MapleWriter<'_, u64>) -> Outcome<R>,
    ) -> Outcome<R>;

    /// Looks at the map, and makes changes that readers see together. Nobody else changes the map
    /// in between. If `look` returns something else than 0, nothing is changed, and that is the
    /// answer.
    ///
    /// # Safety
    /// C.
    unsafe fn together<T>(
        at: *mut Handle<Self>,
        look: impl FnOnce(MapleView<'_, u64>) -> (c_int, T),
        then: impl FnOnce(&mut MapleTxn<'_, u64>, T) -> Outcome<()>,
    ) -> Outcome;
}

impl Changed for RangesBody {
    unsafe fn change<R>(
        at: *mut Handle<Self>,
        f: impl FnOnce(&mut MapleWriter<'_, u64>) -> Outcome<R>,
    ) -> Outcome<R> {
        // SAFETY: C.
        let map: &MapleMap<u64> = unsafe { versions::changed(at) }?;
        f(&mut map.write())
    }

    unsafe fn together<T>(
        at: *mut Handle<Self>,
        look: impl FnOnce(MapleView<'_, u64>) -> (c_int, T),
        then: impl FnOnce(&mut MapleTxn<'_, u64>, T) -> Outcome<()>,
    ) -> Outcome {
        // SAFETY: C.
        let body = unsafe { Handle::shared(at) }?;
        body.turns.check()?;
        let mut txn = body.table.begin();
        // C's function that changes the map would wait for itself. The turn ends before the lock is
        // released.
        let turn = body.turns.begin(body.checked);
        let (answer, found) = look(txn.view());
        if answer == 0 {
            then(&mut txn, found)?;
            drop(turn);
            txn.commit();
        }
        Ok(answer)
    }
}

/// C's function that gives the parts of entries other values.
pub type ModifyFn =
    unsafe extern "C" fn(part: *const sapwood_range, value: *mut u64, ctx: *mut c_void) -> c_int;

/// Asks C's function for the values that the parts of entries in a range get, until it returns
/// something else than 0.
///
/// # Safety
/// C.
pub unsafe fn new_values(
    view: MapleView<'_, u64>,
    range: RangeInclusive<u64>,
    modify: ModifyFn,
    ctx: *mut c_void,
) -> (c_int, Vec<u64>) {
    let mut values = Vec::new();
    for (entry, old) in view.range(range.clone()) {
        let part = *entry.start().max(range.start())..=*entry.end().min(range.end());
        let (part, mut new) = (sapwood_range::from((part, *old)), *old);
        // SAFETY: C gave both for this.
        let answer = unsafe { modify(&raw const part, &raw mut new, ctx) };
        if answer != 0 {
            return (answer, values);
        }
        values.push(new);
    }
    (0, values)
}

/// Removes what is in a range, with `remove`, and tells C of it.
///
/// # Safety
/// C.
pub unsafe fn told<B: Changed>(
    at: *mut Handle<B>,
    (each, ctx): (EachFn, *mut c_void),
    remove: impl FnOnce(&mut MapleWriter<'_, u64>) -> Outcome<Vec<Found>>,
) -> Outcome {
    // SAFETY: C.
    let removed = unsafe { B::change(at, remove) }?;
    // SAFETY: C. Its function is called when the change is made, so it may use the map.
    Ok(unsafe { walk(removed, each, ctx) })
}

/// C's functions that change a map or a transaction.
macro_rules! changes {
    (
        [$($done:tt)*] [$($rest:tt)*] $map:ident: $pointer:ty,
        $(#[doc = $of_store:literal])* $store:ident,
        $(#[doc = $of_join:literal])* $join:ident,
        $(#[doc = $of_insert:literal])* $insert:ident,
        $(#[doc = $of_remove:literal])* $remove:ident,
        $(#[doc = $of_clear:literal])* $clear:ident,
        $(#[doc = $of_take:literal])* $take:ident,
        $(#[doc = $of_replace:literal])* $replace:ident,
        $(#[doc = $of_modify:literal])* $modify:ident,
        $(#[doc = $of_move:literal])* $move:ident,
        $(#[doc = $of_alloc:literal])* $alloc:ident
    ) => {
        $crate::c_api::c_api!(@ [$($done)*]
            $(#[doc = $of_store])*
            fn $store($map: $pointer, start: u64, end: u64, value: u64) -> c_int {
                Changed::change($map, |map| Ok(map.store(start..=end, value)?))?;
                Ok(0)
            }

            $(#[doc = $of_join])*
            fn $join(
                $map: $pointer,
                start: u64,
                end: u64,
                value: u64,
                entry: *mut sapwood_range,
            ) -> c_int {
                let store = |map: &mut MapleWriter<'_, u64>| {
                    Ok(map.store_coalescing(start..=end, value)?)
                };
                let joined = Changed::change($map, store)?;
                Ok(put_entry(Some((joined, value)), entry))
            }

            $(#[doc = $of_insert])*
            fn $insert($map: $pointer, start: u64, end: u64, value: u64) -> c_int {
                Changed::change($map, |map| Ok(map.insert_new(start..=end, value)?))?;
                Ok(0)
            }

            $(#[doc = $of_remove])*
            fn $remove($map: $pointer, index: u64, old: *mut sapwood_range) -> c_int {
                let removed = Changed::change($map, |map| Ok(map.remove(index)?))?;
                Ok(put_entry(removed, old))
            }

            $(#[doc = $of_clear])*
            fn $clear($map: $pointer, start: u64, end: u64) -> c_int {
                Changed::change($map, |map| Ok(map.clear_range(start..=end)?))?;
                Ok(0)
            }

            $(#[doc = $of_take])*
            fn $take(
                $map: $pointer,
                start: u64,
                end: u64,
                each: sapwood_range_fn,
                ctx: *mut c_void,
            ) -> c_int {
                let each = each.ok_or_else(|| Failure::null("the function"))?;
                told($map, (each, ctx), |map| Ok(map.take_range(start..=end)?))
            }

            $(#[doc = $of_replace])*
            fn $replace(
                $map: $pointer,
                start: u64,
                end: u64,
                value: u64,
                each: sapwood_range_fn,
                ctx: *mut c_void,
            ) -> c_int {
                let each = each.ok_or_else(|| Failure::null("the function"))?;
                told($map, (each, ctx), |map| Ok(map.replace(start..=end, value)?))
            }

            $(#[doc = $of_modify])*
            fn $modify(
                $map: $pointer,
                start: u64,
                end: u64,
                modify: sapwood_range_modify_fn,
                ctx: *mut c_void,
            ) -> c_int {
                let modify = modify.ok_or_else(|| Failure::null("the function"))?;
                let look = |view: MapleView<'_, u64>| new_values(view, start..=end, modify, ctx);
                Changed::together($map, look, |txn, values| {
                    // The parts are the same: a part that joins its neighbours leaves what lies
                    // behind it as it was.
                    let mut values = values.into_iter();
                    txn.modify_range(start..=end, |_, old| values.next().unwrap_or(*old))?;
                    Ok(())
                })
            }

            $(#[doc = $of_move])*
            fn $move($map: $pointer, start: u64, end: u64, to: u64) -> c_int {
                Changed::together($map, |_| (0, ()), |txn, ()| Ok(txn.move_range(start..=end, to)?))
            }

            $(#[doc = $of_alloc])*
            fn $alloc(
                $map: $pointer,
                size: u64,
                window: *const sapwood_window,
                value: u64,
                start: *mut u64,
            ) -> c_int {
                let start = input::place(start, "the place for the start")?;
                let window = window_at(window)?;
                let place = Changed::change($map, |map| Ok(map.alloc_range(size, window, value)?))?;
                *start = *place.start();
                Ok(0)
            }

            $($rest)*
        );
    };
}
pub(crate) use changes;
