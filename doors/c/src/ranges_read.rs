//! Lookups, searches and walks of `sapwood_ranges`.

use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;

use sapwood::maple::MapleView;
use sapwood::qsbr::Guard;

use crate::call::call;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::input;
use crate::ranges::{
    Found, put_entry, put_range, sapwood_range, sapwood_ranges, sapwood_window, window,
};
use crate::reader::{read, sapwood_reader};

/// Reads a map with a function of its view.
///
/// # Safety
/// C.
#[inline(always)]
unsafe fn view<R>(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    f: impl FnOnce(MapleView<'_, u64>) -> R,
) -> Outcome<R> {
    // SAFETY: C.
    let map = &unsafe { Handle::shared(ranges) }?.map;
    // SAFETY: C.
    unsafe { read(reader, map.domain(), |guard: Guard<'_>| f(map.view(guard))) }
}

/// The value at an index.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_get(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    index: u64,
    value: *mut u64,
) -> c_int {
    call("sapwood_ranges_get", || {
        let value = input::place(value, "the place for the value")?;
        // SAFETY: C.
        let found = unsafe { view(ranges, reader, |view| view.get(index).copied()) }?;
        let Some(found) = found else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: C.
        unsafe { *value = found };
        Ok(0)
    })
}

/// An entry with a copy of its value.
fn copied((range, value): (RangeInclusive<u64>, &u64)) -> Found {
    (range, *value)
}

/// Searches an entry: one body for maps, snapshots and all directions.
///
/// # Safety
/// C.
unsafe fn entry(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    to: *mut sapwood_range,
    search: impl FnOnce(MapleView<'_, u64>) -> Option<Found>,
) -> Outcome {
    // SAFETY: C.
    let found = unsafe { view(ranges, reader, search) }?;
    // SAFETY: C.
    Ok(unsafe { put_entry(found, to) })
}

/// The entry that holds an index.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_get_entry(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    index: u64,
    at: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_get_entry", || {
        // SAFETY: C.
        unsafe { entry(ranges, reader, at, |v| v.get_entry(index).map(copied)) }
    })
}

/// The first entry with an index from `from` on.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_next(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    from: u64,
    at: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_next", || {
        let search = |v: MapleView<'_, u64>| v.range(from..=u64::MAX).next().map(copied);
        // SAFETY: C.
        unsafe { entry(ranges, reader, at, search) }
    })
}

/// The last entry with an index up to `to`.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_prev(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    to: u64,
    at: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_prev", || {
        let search = |v: MapleView<'_, u64>| v.range(0..=to).next_back().map(copied);
        // SAFETY: C.
        unsafe { entry(ranges, reader, at, search) }
    })
}

/// C's function that is called with each entry.
pub type EachFn = unsafe extern "C" fn(entry: *const sapwood_range, ctx: *mut c_void) -> c_int;

/// Calls C's function with the entries of a range, until it returns something else than 0.
///
/// # Safety
/// C.
pub unsafe fn walk(
    view: MapleView<'_, u64>,
    range: RangeInclusive<u64>,
    each: EachFn,
    ctx: *mut c_void,
) -> c_int {
    for (range, value) in view.range(range) {
        let entry = sapwood_range::from((range, *value));
        // SAFETY: C gave both for this.
        let answer = unsafe { each(&raw const entry, ctx) };
        if answer != 0 {
            return answer;
        }
    }
    0
}

/// Calls a function with the entries that have an index in a range.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_each(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    start: u64,
    end: u64,
    each: Option<unsafe extern "C" fn(entry: *const sapwood_range, ctx: *mut c_void) -> c_int>,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_ranges_each", || {
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        // SAFETY: C.
        let walk = |view: MapleView<'_, u64>| unsafe { walk(view, start..=end, each, ctx) };
        // SAFETY: C.
        unsafe { view(ranges, reader, walk) }
    })
}

/// The place of a gap that fits.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_find_gap(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    size: u64,
    within: *const sapwood_window,
    start: *mut u64,
) -> c_int {
    call("sapwood_ranges_find_gap", || {
        let start = input::place(start, "the place for the start")?;
        // SAFETY: C.
        let window = unsafe { window(within) }?;
        // SAFETY: C.
        let found = unsafe { view(ranges, reader, |view| view.find_gap(size, window)) }?;
        match found {
            // SAFETY: C.
            Some(place) => unsafe { *start = *place.start() },
            None => return Ok(-libc::ENOSPC),
        }
        Ok(0)
    })
}

/// The first gap within a range.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_next_gap(
    ranges: *const sapwood_ranges,
    reader: *const sapwood_reader,
    from: u64,
    to: u64,
    start: *mut u64,
    end: *mut u64,
) -> c_int {
    call("sapwood_ranges_next_gap", || {
        // SAFETY: C.
        let gap = unsafe { view(ranges, reader, |view| view.gaps(from..=to).next()) }?;
        match gap {
            // SAFETY: C.
            Some(gap) => unsafe { put_range(&gap, start, end) },
            None => return Ok(-libc::ENOENT),
        }
        Ok(0)
    })
}
