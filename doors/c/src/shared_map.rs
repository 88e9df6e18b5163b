//! Shared maps: their functions, whose bodies are in `shared`.

use std::ffi::{c_int, c_uchar, c_void};

use sapwood::qp::Ordered;

use crate::call::{call, call_void};
use crate::handle::{Handle, free};
use crate::input::place;
use crate::memory::sapwood_memory;
use crate::ordered::Source;
use crate::reader::sapwood_reader;
use crate::shared::{self, SharedBody, sapwood_entry_fn};
use crate::value::{Mode, map_kinds, sapwood_bytes, sapwood_options, sapwood_value};
use crate::view::{Anchor, sapwood_view};

/// C's `sapwood_shared`.
pub type sapwood_shared = Handle<SharedBody<Ordered>>;

/// Makes an empty map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_new(
    options: *const sapwood_options,
    out: *mut *mut sapwood_shared,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::new("sapwood_shared_new", options, out) }
}

/// Frees a map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_free(map: *mut sapwood_shared) {
    // SAFETY: C.
    call_void("sapwood_shared_free", || unsafe { free(map) });
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_get(
    map: *const sapwood_shared,
    reader: *const sapwood_reader,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::get("sapwood_shared_get", map, reader, (key, key_len), value) }
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_get_many(
    map: *const sapwood_shared,
    reader: *const sapwood_reader,
    keys: *const sapwood_bytes,
    count: usize,
    values: *mut sapwood_value,
    found: *mut c_uchar,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::many(
            "sapwood_shared_get_many",
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
pub unsafe extern "C" fn sapwood_shared_len(map: *const sapwood_shared, len: *mut usize) -> c_int {
    // SAFETY: C.
    unsafe { shared::len("sapwood_shared_len", map, len) }
}

/// Inserts or replaces.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_insert(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_shared_insert",
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
pub unsafe extern "C" fn sapwood_shared_insert_new(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_shared_insert_new",
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
pub unsafe extern "C" fn sapwood_shared_replace(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        shared::insert(
            "sapwood_shared_replace",
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
pub unsafe extern "C" fn sapwood_shared_compare_exchange(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
    current: *const sapwood_value,
    value: *const sapwood_value,
) -> c_int {
    let name = "sapwood_shared_compare_exchange";
    // SAFETY: C.
    unsafe { shared::compare_exchange(name, map, (key, key_len), current, value) }
}

/// Adds to a number, which is inserted if it is absent.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_add(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
    delta: u64,
    sum: *mut u64,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::add("sapwood_shared_add", map, (key, key_len), delta, sum) }
}

/// Removes a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_remove(
    map: *const sapwood_shared,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::remove("sapwood_shared_remove", map, (key, key_len)) }
}

/// Frees what waits for readers and is no longer used.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_reclaim(map: *const sapwood_shared, most: usize) -> c_int {
    // SAFETY: C.
    unsafe { shared::reclaim("sapwood_shared_reclaim", map, most) }
}

/// What the map's memory holds.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_memory(
    map: *const sapwood_shared,
    memory: *mut sapwood_memory,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::memory("sapwood_shared_memory", map, memory) }
}

/// Calls a function with all entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_each(
    map: *const sapwood_shared,
    reader: *const sapwood_reader,
    each: sapwood_entry_fn,
    ctx: *mut c_void,
) -> c_int {
    // SAFETY: C.
    unsafe { shared::for_each("sapwood_shared_each", map, reader, each, ctx) }
}

/// A view of the map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_view(
    map: *const sapwood_shared,
    reader: *const sapwood_reader,
    view: *mut sapwood_view,
) -> c_int {
    call("sapwood_shared_view", || {
        // SAFETY: C. The view's anchor says until when it may be used.
        unsafe {
            let (body, through) = (Handle::shared(map)?, Handle::shared(reader)?);
            let view = place(view, "view")?;
            let source = map_kinds!(&body.map, map => {
                Source::Shared(map.view(through.guard(map.domain())?))
            });
            let anchor = Anchor::reader(map, reader, through.epoch());
            sapwood_view::write(view, anchor, source);
        }
        Ok(0)
    })
}
