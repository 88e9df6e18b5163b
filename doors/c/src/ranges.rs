//! `sapwood_ranges`: maps from ranges of numbers to numbers, and the gaps between them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ops::RangeInclusive;

use sapwood::maple::{MapleFile, MapleMap, MapleView, MapleWriter, Window};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new, sapwood_domain};
use crate::error::{Failure, Outcome};
use crate::handle::{Handle, free};
use crate::input::{self, extensible};
use crate::output::{as_int, hand_out, put, verified};
use crate::ranges_changes::{Changed, changes, new_values, told};
use crate::versions::{TableBody, changed};

/// The inside of a range map's handle.
pub type RangesBody = TableBody<MapleMap<u64>>;

extensible!(sapwood_ranges_options, sapwood_window);

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
    let given = unsafe { input::given(at) }?;
    let has = |flag| given.flags & flag != 0;
    let (highest, near) = (SAPWOOD_FROM_END, SAPWOOD_NEAR);
    known_flags(
        given.flags,
        highest | near | SAPWOOD_TIGHTEST | SAPWOOD_NEAREST,
    )?;
    let mut window = Window::new(given.start..=given.end).guarded(given.guard);
    window = match (given.align, given.modulus, given.rest) {
        (align, 0, 0) => window.aligned(align.max(1)),
        (_, 0, _) => return Err(Failure::invalid("a window with a rest has a modulus")),
        (0 | 1, modulus, rest) => window.congruent_to(rest, modulus),
        _ => {
            return Err(Failure::invalid(
                "a window has an alignment or a modulus, not both",
            ));
        }
    };
    if has(SAPWOOD_TIGHTEST) {
        window = window.tightest();
    }
    if has(highest) {
        window = window.from_end();
    }
    if has(near) {
        window = window.starting_at(given.near);
    }
    if has(SAPWOOD_NEAREST) {
        if has(highest | near) {
            let text = "SAPWOOD_NEAREST excludes SAPWOOD_FROM_END and SAPWOOD_NEAR";
            return Err(Failure::invalid(text));
        }
        window = window.nearest_to(given.near);
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

    /// windows: a place in the smallest gap that has one (best fit)
    pub const SAPWOOD_TIGHTEST: c_uint = 4;

    /// windows: the place that begins nearest to `near`, on either side; without the first two
    pub const SAPWOOD_NEAREST: c_uint = 8;

    /// Where a search looks for a gap, and which it takes: the lowest that fits, unless flags say
    /// else.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_window {
        /// sizeof(struct sapwood_window)
        pub size: usize,
        pub start: u64,
        /// the last index
        pub end: u64,
        /// a power of two; places begin at multiples of it. 0: 1
        pub align: u64,
        /// places begin at indices that leave `rest`; 0: any. Without align
        pub modulus: u64,
        pub rest: u64,
        /// indices that are free on each side of a place
        pub guard: u64,
        pub near: u64,
        /// SAPWOOD_FROM_END, SAPWOOD_NEAR, SAPWOOD_TIGHTEST, SAPWOOD_NEAREST
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

    /// Frees the handle. Transactions, reservations and snapshots may stay. One thread at a time.
    fn sapwood_ranges_free(ranges: *mut sapwood_ranges) {
        free(ranges)
    }

    /// Is called with entries in order. It returns 0 to go on; another number ends the walk.
    pub type sapwood_range_fn =
        Option<unsafe extern "C" fn(entry: *const sapwood_range, ctx: *mut c_void) -> c_int>;

    /// Is called with the parts of entries that lie in a range, in order, and sets *value, which is
    /// the part's own, to the new one. It returns 0 to go on; after another number, nothing is
    /// changed.
    pub type sapwood_range_modify_fn = Option<
        unsafe extern "C" fn(part: *const sapwood_range, value: *mut u64, ctx: *mut c_void) -> c_int,
    >;

    changes!(
        ranges: *mut sapwood_ranges,
        /// Makes a range one entry. Entries that it overlaps keep the indices outside. -ERANGE: it
        /// is empty. This and all changes: O(log n), and O(entries that are covered).
        sapwood_ranges_store,
        /// The same, and joins neighbours that touch and have the same value; (entry) is the whole
        /// entry.
        sapwood_ranges_store_coalescing,
        /// The same as sapwood_ranges_store if no entry is in the way. -EEXIST: one is.
        sapwood_ranges_insert_new,
        /// Removes the whole entry that holds an index: (old). -ENOENT: there is none.
        sapwood_ranges_remove,
        /// Makes a range a gap. Entries that it overlaps keep the indices outside. -ERANGE: it is
        /// empty.
        sapwood_ranges_clear,
        /// As sapwood_ranges_clear and sapwood_ranges_store. When that is done, they call
        /// each(entry, ctx) with what was in the range: entries, and the parts of those that it
        /// cuts. They return 0, or what `each` returned, which then is told no more; the change
        /// stays. `each` may use the map. A failure changes nothing, and tells nothing.
        sapwood_ranges_take,
        sapwood_ranges_replace,
        /// Calls modify(part, value, ctx) with the parts of entries in a range, and then gives them
        /// the values that it chose. Neighbours that touch and are then equal are joined. Readers
        /// see all of it, or nothing. Returns 0, or what `modify` returned: then nothing has
        /// changed. `modify` may read the map; its changes are -EDEADLK. -ERANGE: the range is
        /// empty. O(parts * log n).
        sapwood_ranges_modify,
        /// Moves what is in a range, entries and gaps, to the range of the same length that begins
        /// at `to`; what was there is cleared. They may overlap. Readers see all of it, or nothing.
        /// -ERANGE: the range is empty, or would end beyond the highest index. O(parts * log n).
        sapwood_ranges_move,
        /// Stores at the lowest `size` indices of a window that no entry has, or where the window
        /// chooses, and stores their *start. window may be NULL for all indices. -ENOSPC: no gap
        /// has room. -ERANGE: the window is too small. -EINVAL: size is 0, align is no power of
        /// two, or the window asks for what excludes each other.
        sapwood_ranges_alloc
    );

    /// As the functions of sapwood_fib.
    fn sapwood_ranges_len(ranges: *const sapwood_ranges, len: *mut usize) -> c_int {
        let body = Handle::shared(ranges)?;
        put(len, "len", body.table.len())
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
