//! Lookups, searches and walks of `sapwood_ranges`.

use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;

use sapwood::maple::MapleView;
use sapwood::qsbr::Guard;

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle};
use crate::input;
use crate::output::{put, put_found};
use crate::ranges::{
    Found, put_entry, put_range, sapwood_range, sapwood_range_fn, sapwood_ranges, sapwood_window,
    window_at,
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
    let map = &unsafe { Handle::shared(ranges) }?.table;
    // SAFETY: C.
    unsafe { read(reader, map.domain(), |guard: Guard<'_>| f(map.view(guard))) }
}

/// An entry with a copy of its value.
pub fn copied((range, value): (RangeInclusive<u64>, &u64)) -> Found {
    (range, *value)
}

/// Searches an entry: one body for maps, snapshots and all directions.
///
/// # Safety
/// C.
unsafe fn look_up(
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

/// C's function that is called with each entry.
pub type EachFn = unsafe extern "C" fn(entry: *const sapwood_range, ctx: *mut c_void) -> c_int;

/// Calls C's function with entries, until it returns something else than 0.
///
/// # Safety
/// C.
pub unsafe fn walk(
    entries: impl IntoIterator<Item = Found>,
    each: EachFn,
    ctx: *mut c_void,
) -> c_int {
    for found in entries {
        let entry = sapwood_range::from(found);
        // SAFETY: C gave both for this.
        let answer = unsafe { each(&raw const entry, ctx) };
        if answer != 0 {
            return answer;
        }
    }
    0
}

/// Writes where a place that was found begins; returns 0, or that there is none.
///
/// # Safety
/// There is room for a number.
pub unsafe fn put_place(found: Option<RangeInclusive<u64>>, start: *mut u64) -> c_int {
    let Some(place) = found else {
        return -libc::ENOSPC;
    };
    // SAFETY: the caller's promise.
    unsafe { *start = *place.start() };
    0
}

/// How many indices entries have; 2^64 is told as one less.
pub fn count(view: MapleView<'_, u64>) -> u64 {
    u64::try_from(view.covered()).unwrap_or(u64::MAX)
}

/// What is read without a reader: a transaction, or a snapshot.
pub trait Seen: Body {
    /// Reads it with a function of its view.
    ///
    /// # Safety
    /// C.
    unsafe fn view<R>(
        at: *const Handle<Self>,
        f: impl FnOnce(MapleView<'_, u64>) -> R,
    ) -> Outcome<R>;
}

/// C's functions that read a transaction or a snapshot.
macro_rules! reads {
    (
        [$($done:tt)*] [$($rest:tt)*] $at:ident: $pointer:ty,
        $(#[doc = $doc:literal])*
        $get:ident, $next:ident, $each:ident, $find_gap:ident, $len:ident, $covered:ident
    ) => {
        $crate::c_api::c_api!(@ [$($done)*]
            $(#[doc = $doc])*
            fn $get($at: $pointer, index: u64, value: *mut u64) -> c_int {
                let value = input::place(value, "the place for the value")?;
                let found = Seen::view($at, |view| view.get(index).copied())?;
                Ok(put_found(value, found))
            }

            fn $next($at: $pointer, from: u64, entry: *mut sapwood_range) -> c_int {
                let found = Seen::view($at, |view| view.range(from..=u64::MAX).next().map(copied))?;
                Ok(put_entry(found, entry))
            }

            fn $each(
                $at: $pointer,
                start: u64,
                end: u64,
                each: sapwood_range_fn,
                ctx: *mut c_void,
            ) -> c_int {
                let each = each.ok_or_else(|| Failure::null("the function"))?;
                Seen::view($at, |view| walk(view.range(start..=end).map(copied), each, ctx))
            }

            fn $find_gap(
                $at: $pointer,
                size: u64,
                window: *const sapwood_window,
                start: *mut u64,
            ) -> c_int {
                let start = input::place(start, "the place for the start")?;
                let window = window_at(window)?;
                let found = Seen::view($at, |view| view.find_gap(size, window))?;
                Ok(put_place(found, start))
            }

            fn $len($at: $pointer, len: *mut usize) -> c_int {
                put(len, "len", Seen::view($at, |view| view.len())?)
            }

            fn $covered($at: $pointer, indices: *mut u64) -> c_int {
                put(indices, "indices", Seen::view($at, count)?)
            }

            $($rest)*
        );
    };
}
pub(crate) use reads;

c_api!(
    /// The value at an index. -ENOENT: it lies in a gap. With a reader: its thread. O(log n).
    fn sapwood_ranges_get(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        index: u64,
        value: *mut u64,
    ) -> c_int {
        let value = input::place(value, "the place for the value")?;
        let found = view(ranges, reader, |view| view.get(index).copied())?;
        Ok(put_found(value, found))
    }

    /// The (entry) that holds an index. -ENOENT as above.
    fn sapwood_ranges_get_entry(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        index: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        look_up(ranges, reader, entry, |v| v.get_entry(index).map(copied))
    }

    /// The first (entry) that has an index from `from` on, or the last that has one up to `to`; the
    /// entry is whole. -ENOENT: there is none. A walk goes on at entry.end + 1, or entry.start - 1.
    fn sapwood_ranges_next(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        from: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        let search = |v: MapleView<'_, u64>| v.range(from..=u64::MAX).next().map(copied);
        look_up(ranges, reader, entry, search)
    }

    fn sapwood_ranges_prev(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        to: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        let search = |v: MapleView<'_, u64>| v.range(0..=to).next_back().map(copied);
        look_up(ranges, reader, entry, search)
    }

    /// Calls each(entry, ctx) with the entries that have an index in a range, and returns 0 or what
    /// `each` returned. The quickest walk. Garbage is held back meanwhile. O(log n + entries).
    fn sapwood_ranges_each(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        start: u64,
        end: u64,
        each: sapwood_range_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        let walk = |view: MapleView<'_, u64>| walk(view.range(start..=end).map(copied), each, ctx);
        view(ranges, reader, walk)
    }

    /// The *start of a gap for `size` indices, as sapwood_ranges_alloc finds it. -ENOSPC: none
    /// fits.
    fn sapwood_ranges_find_gap(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        size: u64,
        window: *const sapwood_window,
        start: *mut u64,
    ) -> c_int {
        let start = input::place(start, "the place for the start")?;
        let window = window_at(window)?;
        let found = view(ranges, reader, |view| view.find_gap(size, window))?;
        Ok(put_place(found, start))
    }

    /// The first gap within a range, cut to it: (start), (end). -ENOENT: there is none.
    fn sapwood_ranges_next_gap(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        from: u64,
        to: u64,
        start: *mut u64,
        end: *mut u64,
    ) -> c_int {
        let gap = view(ranges, reader, |view| view.gaps(from..=to).next())?;
        match gap {
            Some(gap) => put_range(&gap, start, end),
            None => return Ok(-libc::ENOENT),
        }
        Ok(0)
    }

    /// How many (indices) entries have: the sum of their lengths; 2^64 is told as one less.
    /// O(entries).
    fn sapwood_ranges_covered(
        ranges: *const sapwood_ranges,
        reader: *const sapwood_reader,
        indices: *mut u64,
    ) -> c_int {
        put(indices, "indices", view(ranges, reader, count)?)
    }
);
