//! Point maps: their functions, whose bodies are in `shared`.

use std::ffi::{c_int, c_uchar, c_void};

use sapwood::qp::Unordered;

use crate::call::call_void;
use crate::handle::{Handle, free};
use crate::memory::sapwood_memory;
use crate::reader::sapwood_reader;
use crate::shared::{self, SharedBody, sapwood_entry_fn};
use crate::value::{Mode, sapwood_bytes, sapwood_options, sapwood_value};

/// C's `sapwood_point`.
pub type sapwood_point = Handle<SharedBody<Unordered>>;

/// Makes an empty map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_new(
    options: *const sapwood_options,
    out: *mut *mut sapwood_point,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::new("sapwood_point_new", options, out) }
}

/// Frees a map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_free(map: *mut sapwood_point) {
    // SAFETY: C.
    call_void("sapwood_point_free", || unsafe { free(map) });
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_get(
    map: *const sapwood_point,
    reader: *const sapwood_reader,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::get("sapwood_point_get", map, reader, (key, key_len), value) }
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_get_many(
    map: *const sapwood_point,
    reader: *const sapwood_reader,
    keys: *const sapwood_bytes,
    count: usize,
    values: *mut sapwood_value,
    found: *mut c_uchar,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::many(
            "sapwood_point_get_many",
            map,
            reader,
            (keys, count),
            values,
            found,
        )
    }
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_len(map: *const sapwood_point, len: *mut usize) -> c_int {
    // SAFETY: C.
    unsafe { shared::len("sapwood_point_len", map, len) }
}

/// Inserts or replaces.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_insert(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_point_insert",
            map,
            (key, key_len),
            value,
            Mode::Put,
        )
    }
}

/// Inserts an absent key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_insert_new(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_point_insert_new",
            map,
            (key, key_len),
            value,
            Mode::New,
        )
    }
}

/// Replaces the value of a key that is there.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_replace(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_point_replace",
            map,
            (key, key_len),
            value,
            Mode::Replace,
        )
    }
}

/// Replaces a value if it is the expected one.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_compare_exchange(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
    current: *const sapwood_value,
    value: *const sapwood_value,
) -> c_int {
    let name = "sapwood_point_compare_exchange";
    // SAFETY: C.
    unsafe { shared::compare_exchange(name, map, (key, key_len), current, value) }
}

/// Adds to a number, which is inserted if it is absent.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_add(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
    delta: u64,
    sum: *mut u64,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::add("sapwood_point_add", map, (key, key_len), delta, sum) }
}

/// Removes a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_remove(
    map: *const sapwood_point,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::remove("sapwood_point_remove", map, (key, key_len)) }
}

/// Frees what waits for readers and is no longer used.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_reclaim(map: *const sapwood_point, most: usize) -> c_int {
    // SAFETY: C.
    unsafe { shared::reclaim("sapwood_point_reclaim", map, most) }
}

/// What the map's memory holds.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_memory(
    map: *const sapwood_point,
    memory: *mut sapwood_memory,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::memory("sapwood_point_memory", map, memory) }
}

/// Calls a function with all entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_each(
    map: *const sapwood_point,
    reader: *const sapwood_reader,
    each: sapwood_entry_fn,
    ctx: *mut c_void,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::for_each("sapwood_point_each", map, reader, each, ctx) }
}
