//! `sapwood_ranges`: maps from ranges of numbers to numbers, and the gaps between them.

use std::ffi::{c_char, c_int, c_uint};
use std::ops::RangeInclusive;

use sapwood::maple::{MapleFile, MapleMap, Window};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new, sapwood_domain};
use crate::error::Outcome;
use crate::handle::{Body, Handle, free};
use crate::input::{self, extensible};
use crate::output::{as_int, hand_out, put, verified};
use crate::turn::Turns;

/// The inside of a range map's handle.
#[derive(Debug)]
pub struct RangesBody {
    /// The map.
    pub map: MapleMap<u64>,
    /// Which thread has a reservation that holds the lock.
    pub turns: Turns,
    /// Whether the handles are checked.
    pub checked: bool,
}

impl RangesBody {
    /// A map whose handles are checked or not.
    pub fn new(map: MapleMap<u64>, checked: bool) -> Self {
        RangesBody {
            map,
            turns: Turns::default(),
            checked,
        }
    }
}

impl Body for RangesBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRa");
    const NAME: &'static str = "ranges";
}

extensible!(sapwood_ranges_options);

/// An entry that was found.
pub type Found = (RangeInclusive<u64>, u64);

impl From<Found> for sapwood_range {
    fn from((range, value): Found) -> Self {
        sapwood_range {
            start: *range.start(),
            end: *range.end(),
            value,
        }
    }
}

/// The window that C points to; NULL stands for all indices.
///
/// # Safety
/// `at` is NULL, or it points to a window.
pub unsafe fn window_at(at: *const sapwood_window) -> Outcome<Window> {
    if at.is_null() {
        return Ok(Window::new(0..=u64::MAX));
    }
    // SAFETY: the caller's promise.
    let given = unsafe { &*at };
    known_flags(given.flags, SAPWOOD_FROM_END | SAPWOOD_NEAR)?;
    let mut window = Window::new(given.start..=given.end).aligned(given.align.max(1));
    if given.flags & SAPWOOD_FROM_END != 0 {
        window = window.from_end();
    }
    if given.flags & SAPWOOD_NEAR != 0 {
        window = window.starting_at(given.near);
    }
    Ok(window)
}

/// Writes a range to two places.
///
/// # Safety
/// Each place is NULL, or there is room for a number.
pub unsafe fn put_range(range: &RangeInclusive<u64>, start: *mut u64, end: *mut u64) {
    if !start.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *start = *range.start() };
    }
    if !end.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *end = *range.end() };
    }
}

/// Writes an entry; returns 0, or that there is none.
///
/// # Safety
/// `to` is NULL, or there is room for an entry.
pub unsafe fn put_entry(found: Option<Found>, to: *mut sapwood_range) -> c_int {
    let Some(found) = found else {
        return -libc::ENOENT;
    };
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *to = found.into() };
    }
    0
}

/// Makes a map by C's options.
///
/// # Safety
/// C.
unsafe fn make(
    domain: *const sapwood_domain,
    options: *const sapwood_ranges_options,
    out: *mut *mut sapwood_ranges,
    fill: impl FnOnce(&MapleMap<u64>) -> Outcome<()>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let options: sapwood_ranges_options = unsafe { input::given(options) }?;
    known_flags(options.flags, SAPWOOD_CHECKED)?;
    // SAFETY: C.
    let (domain, rules) = unsafe { or_new(domain, options.flags & SAPWOOD_CHECKED != 0) }?;
    let mut builder = MapleMap::builder().domain(&domain);
    if options.memory_limit > 0 {
        builder = builder.memory_limit(options.memory_limit);
    }
    let map = builder.build();
    fill(&map)?;
    // SAFETY: C.
    unsafe { hand_out(out, RangesBody::new(map, rules.checked), rules) }
}

/// A map that this thread may change.
///
/// # Safety
/// C.
unsafe fn changed<'a>(ranges: *const sapwood_ranges) -> Outcome<&'a MapleMap<u64>> {
    // SAFETY: C.
    let body = unsafe { Handle::shared(ranges) }?;
    body.turns.check()?;
    Ok(&body.map)
}

c_api!(
    const SECTION: &str = "Ranges";

    /// A map from ranges of 64-bit numbers to numbers, and the gaps between them: for allocators of
    /// addresses, ports and identifiers. Entries do not overlap; their bounds are inclusive. What
    /// the part on routes says of its tables holds here, too.
    pub type sapwood_ranges = Handle<RangesBody>;

    #[derive(Debug)]
    pub struct sapwood_ranges_options {
        /// sizeof(struct sapwood_ranges_options)
        pub size: usize,
        /// SAPWOOD_CHECKED
        pub flags: c_uint,
        /// 0
        pub reserved: c_uint,
        /// in bytes; 0: none
        pub memory_limit: usize,
    }

    /// An entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct sapwood_range {
        pub start: u64,
        /// the last index
        pub end: u64,
        pub value: u64,
    }

    /// windows: the highest place, not the lowest
    pub const SAPWOOD_FROM_END: c_uint = 1;

    /// windows: first places from `near` on; with SAPWOOD_FROM_END, up to it
    pub const SAPWOOD_NEAR: c_uint = 2;

    /// Where a search looks for a gap, and which it takes: the lowest that fits, unless flags say
    /// else.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_window {
        pub start: u64,
        /// the last index
        pub end: u64,
        /// a power of two; places begin at multiples of it. 0: 1
        pub align: u64,
        pub near: u64,
        pub flags: c_uint,
        /// 0
        pub reserved: c_uint,
    }

    /// Makes an empty map. domain may be NULL for one of its own. O(1).
    fn sapwood_ranges_new(
        domain: *const sapwood_domain,
        options: *const sapwood_ranges_options,
        out: *mut *mut sapwood_ranges,
    ) -> c_int {
        make(domain, options, out, |_| Ok(()))
    }

    /// Loads a map from a file whose values are numbers. -EPROTO: it is damaged, or has strings.
    /// O(n log n).
    fn sapwood_ranges_open(
        domain: *const sapwood_domain,
        options: *const sapwood_ranges_options,
        path: *const c_char,
        out: *mut *mut sapwood_ranges,
    ) -> c_int {
        let path = input::path(path)?;
        let fill = |map: &MapleMap<u64>| {
            let file = MapleFile::<u64>::open(path)?;
            let mut writer = map.write();
            for (range, value) in file.view() {
                writer.store(range, *value)?;
            }
            Ok(())
        };
        make(domain, options, out, fill)
    }

    /// Frees the handle. Reservations and snapshots may stay. One thread at a time.
    fn sapwood_ranges_free(ranges: *mut sapwood_ranges) {
        free(ranges)
    }

    /// Makes a range one entry. Entries that it overlaps keep the indices outside. -ERANGE: it is
    /// empty. This and all changes: O(log n), and O(entries that are covered).
    fn sapwood_ranges_store(
        ranges: *mut sapwood_ranges,
        start: u64,
        end: u64,
        value: u64,
    ) -> c_int {
        changed(ranges)?.store(start..=end, value)?;
        Ok(0)
    }

    /// The same, and joins neighbours that touch and have the same value; (entry) is the whole
    /// entry.
    fn sapwood_ranges_store_coalescing(
        ranges: *mut sapwood_ranges,
        start: u64,
        end: u64,
        value: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        let joined = changed(ranges)?.store_coalescing(start..=end, value)?;
        Ok(put_entry(Some((joined, value)), entry))
    }

    /// The same as sapwood_ranges_store if no entry is in the way. -EEXIST: one is.
    fn sapwood_ranges_insert_new(
        ranges: *mut sapwood_ranges,
        start: u64,
        end: u64,
        value: u64,
    ) -> c_int {
        changed(ranges)?.insert_new(start..=end, value)?;
        Ok(0)
    }

    /// Removes the whole entry that holds an index: (old). -ENOENT: there is none.
    fn sapwood_ranges_remove(
        ranges: *mut sapwood_ranges,
        index: u64,
        old: *mut sapwood_range,
    ) -> c_int {
        let removed = changed(ranges)?.remove(index)?;
        Ok(put_entry(removed, old))
    }

    /// Makes a range a gap. Entries that it overlaps keep the indices outside. -ERANGE: it is
    /// empty.
    fn sapwood_ranges_clear(ranges: *mut sapwood_ranges, start: u64, end: u64) -> c_int {
        changed(ranges)?.clear_range(start..=end)?;
        Ok(0)
    }

    /// Stores at the lowest `size` indices of a window that no entry has, or where the window
    /// chooses, and stores their *start. window may be NULL for all indices. -ENOSPC: no gap has
    /// room. -ERANGE: the window is too small. -EINVAL: size is 0, or align is no power of two.
    fn sapwood_ranges_alloc(
        ranges: *mut sapwood_ranges,
        size: u64,
        window: *const sapwood_window,
        value: u64,
        start: *mut u64,
    ) -> c_int {
        let map = changed(ranges)?;
        let start = input::place(start, "the place for the start")?;
        let place = map.alloc_range(size, window_at(window)?, value)?;
        *start = *place.start();
        Ok(0)
    }

    /// As the functions of sapwood_fib.
    fn sapwood_ranges_len(ranges: *const sapwood_ranges, len: *mut usize) -> c_int {
        let body = Handle::shared(ranges)?;
        put(len, "len", body.map.len())
    }

    fn sapwood_ranges_memory(ranges: *const sapwood_ranges, bytes: *mut usize) -> c_int {
        let map = changed(ranges)?;
        put(bytes, "bytes", map.memory().total())
    }

    fn sapwood_ranges_reclaim(ranges: *mut sapwood_ranges, budget: usize) -> c_int {
        let freed = changed(ranges)?.reclaim(budget);
        Ok(as_int(freed))
    }

    fn sapwood_ranges_verify(ranges: *const sapwood_ranges) -> c_int {
        verified(changed(ranges)?.verify())
    }
);
