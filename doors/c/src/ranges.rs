//! `sapwood_ranges`: maps from ranges of numbers to numbers, and the gaps between them.

use std::ffi::{c_char, c_int, c_uint};
use std::ops::RangeInclusive;

use sapwood::maple::{MapleFile, MapleMap, Window};

use crate::call::{call, call_void};
use crate::domain::{CHECKED, known_flags, or_new, sapwood_domain};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{self, Extensible};
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

impl Body for RangesBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRa");
    const NAME: &'static str = "ranges";
}

/// C's `sapwood_ranges`.
pub type sapwood_ranges = Handle<RangesBody>;

/// The choices for a range map.
#[repr(C)]
#[derive(Debug, Default)]
pub struct sapwood_ranges_options {
    /// `sizeof` this structure.
    pub size: usize,
    /// `SAPWOOD_CHECKED`.
    pub flags: c_uint,
    /// 0.
    pub reserved: c_uint,
    /// The most bytes; 0: as much as there is.
    pub memory_limit: usize,
}

// SAFETY: integers, of which the first is the size.
unsafe impl Extensible for sapwood_ranges_options {
    const NAME: &'static str = "sapwood_ranges_options";
}

/// An entry: a range and its value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sapwood_range {
    /// The first index.
    pub start: u64,
    /// The last index.
    pub end: u64,
    /// The value.
    pub value: u64,
}

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

/// The flag of a window for the highest place.
const FROM_END: c_uint = 1;
/// The flag of a window that prefers places at or after `near`.
const NEAR: c_uint = 2;

/// Where a search looks for a gap, and which gap it takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sapwood_window {
    /// The first index.
    pub start: u64,
    /// The last index.
    pub end: u64,
    /// A power of two, of which the place is to begin at a multiple; 0 is 1.
    pub align: u64,
    /// The index at or after which places are preferred, with `SAPWOOD_NEAR`.
    pub near: u64,
    /// `SAPWOOD_FROM_END`, `SAPWOOD_NEAR`.
    pub flags: c_uint,
    /// 0.
    pub reserved: c_uint,
}

/// The window that C points to; NULL stands for all indices.
///
/// # Safety
/// `at` is NULL, or it points to a window.
pub unsafe fn window(at: *const sapwood_window) -> Outcome<Window> {
    if at.is_null() {
        return Ok(Window::new(0..=u64::MAX));
    }
    // SAFETY: the caller's promise.
    let given = unsafe { &*at };
    known_flags(given.flags, FROM_END | NEAR)?;
    let mut window = Window::new(given.start..=given.end).aligned(given.align.max(1));
    if given.flags & FROM_END != 0 {
        window = window.from_end();
    }
    if given.flags & NEAR != 0 {
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
    let options: sapwood_ranges_options = unsafe { input::extensible(options) }?;
    known_flags(options.flags, CHECKED)?;
    // SAFETY: C.
    let (domain, rules) = unsafe { or_new(domain, options.flags & CHECKED != 0) }?;
    let mut builder = MapleMap::builder().domain(&domain);
    if options.memory_limit > 0 {
        builder = builder.memory_limit(options.memory_limit);
    }
    let map = builder.build();
    fill(&map)?;
    let body = RangesBody {
        map,
        turns: Turns::default(),
        checked: rules.checked,
    };
    // SAFETY: C.
    unsafe { *out = Handle::into_c(body, rules) };
    Ok(0)
}

/// Makes an empty map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_new(
    domain: *const sapwood_domain,
    options: *const sapwood_ranges_options,
    out: *mut *mut sapwood_ranges,
) -> c_int {
    call("sapwood_ranges_new", || {
        // SAFETY: C.
        unsafe { make(domain, options, out, |_| Ok(())) }
    })
}

/// Loads a map from a file.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_open(
    domain: *const sapwood_domain,
    options: *const sapwood_ranges_options,
    path: *const c_char,
    out: *mut *mut sapwood_ranges,
) -> c_int {
    call("sapwood_ranges_open", || {
        // SAFETY: C.
        let path = unsafe { input::path(path) }?;
        let fill = |map: &MapleMap<u64>| {
            let file = MapleFile::<u64>::open(path)?;
            let mut writer = map.write();
            for (range, value) in file.view() {
                writer.store(range, *value)?;
            }
            Ok(())
        };
        // SAFETY: C.
        unsafe { make(domain, options, out, fill) }
    })
}

/// Frees a map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_free(ranges: *mut sapwood_ranges) {
    // SAFETY: C.
    call_void("sapwood_ranges_free", || unsafe { free(ranges) });
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

/// Makes a range one entry.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_store(
    ranges: *mut sapwood_ranges,
    start: u64,
    end: u64,
    value: u64,
) -> c_int {
    call("sapwood_ranges_store", || {
        // SAFETY: C.
        unsafe { changed(ranges) }?.store(start..=end, value)?;
        Ok(0)
    })
}

/// The same, joined with neighbours of the same value.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_store_coalescing(
    ranges: *mut sapwood_ranges,
    start: u64,
    end: u64,
    value: u64,
    at: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_store_coalescing", || {
        // SAFETY: C.
        let joined = unsafe { changed(ranges) }?.store_coalescing(start..=end, value)?;
        // SAFETY: C.
        Ok(unsafe { put_entry(Some((joined, value)), at) })
    })
}

/// The same, if no entry is in the way.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_insert_new(
    ranges: *mut sapwood_ranges,
    start: u64,
    end: u64,
    value: u64,
) -> c_int {
    call("sapwood_ranges_insert_new", || {
        // SAFETY: C.
        unsafe { changed(ranges) }?.insert_new(start..=end, value)?;
        Ok(0)
    })
}

/// Removes the whole entry that holds an index.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_remove(
    ranges: *mut sapwood_ranges,
    index: u64,
    old: *mut sapwood_range,
) -> c_int {
    call("sapwood_ranges_remove", || {
        // SAFETY: C.
        let removed = unsafe { changed(ranges) }?.remove(index)?;
        // SAFETY: C.
        Ok(unsafe { put_entry(removed, old) })
    })
}

/// Makes a range a gap.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_clear(
    ranges: *mut sapwood_ranges,
    start: u64,
    end: u64,
) -> c_int {
    call("sapwood_ranges_clear", || {
        // SAFETY: C.
        unsafe { changed(ranges) }?.clear_range(start..=end)?;
        Ok(0)
    })
}

/// Stores at a place that no entry has.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_alloc(
    ranges: *mut sapwood_ranges,
    size: u64,
    within: *const sapwood_window,
    value: u64,
    start: *mut u64,
) -> c_int {
    call("sapwood_ranges_alloc", || {
        // SAFETY: C.
        let map = unsafe { changed(ranges) }?;
        let start = input::place(start, "the place for the start")?;
        // SAFETY: C.
        let place = map.alloc_range(size, unsafe { window(within) }?, value)?;
        // SAFETY: C.
        unsafe { *start = *place.start() };
        Ok(0)
    })
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_len(
    ranges: *const sapwood_ranges,
    len: *mut usize,
) -> c_int {
    call("sapwood_ranges_len", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(ranges) }?;
        let len = input::place(len, "len")?;
        // SAFETY: C.
        unsafe { *len = body.map.len() };
        Ok(0)
    })
}

/// The bytes that the map takes from the system.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_memory(
    ranges: *const sapwood_ranges,
    bytes: *mut usize,
) -> c_int {
    call("sapwood_ranges_memory", || {
        // SAFETY: C.
        let map = unsafe { changed(ranges) }?;
        let bytes = input::place(bytes, "bytes")?;
        // SAFETY: C.
        unsafe { *bytes = map.memory().total() };
        Ok(0)
    })
}

/// Frees nodes that no reader can reach any more; returns how many.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_reclaim(
    ranges: *mut sapwood_ranges,
    budget: usize,
) -> c_int {
    call("sapwood_ranges_reclaim", || {
        // SAFETY: C.
        let freed = unsafe { changed(ranges) }?.reclaim(budget);
        Ok(c_int::try_from(freed).unwrap_or(c_int::MAX))
    })
}

/// Checks every invariant of the map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_verify(ranges: *const sapwood_ranges) -> c_int {
    call("sapwood_ranges_verify", || {
        // SAFETY: C.
        match unsafe { changed(ranges) }?.verify() {
            Ok(()) => Ok(0),
            Err(wrong) => Err(Failure::new(libc::EUCLEAN, wrong)),
        }
    })
}
