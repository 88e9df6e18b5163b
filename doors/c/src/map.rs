//! Owned maps.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use sapwood::qp::{QpFile, QpMap};

use crate::call::{call, call_void, quick};
use crate::domain::{CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, extensible, items, path, place, quick_bytes};
use crate::memory::{sapwood_memory, store_memory};
use crate::ordered::Source;
use crate::retire::{Owner, Pointer};
use crate::value::{
    CValue, INDEX, Key, Kind, Kinds, Mode, each, get_many, map_kinds, no_pointers, not_inserted,
    of_kind, refused, sapwood_bytes, sapwood_options, sapwood_value,
};
use crate::view::{Anchor, Changes, Viewed, answer, found, sapwood_view};

/// The inside of an owned map's handle.
pub struct MapBody {
    map: Kinds<QpMap<u64>, QpMap<Pointer>, QpMap<[u8]>>,
    owner: Option<Arc<Owner>>,
    changes: Changes,
}

impl Body for MapBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swMa");
    const NAME: &'static str = "map";
}

impl Viewed for MapBody {
    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }
}

/// C's `sapwood_map`.
pub type sapwood_map = Handle<MapBody>;

/// The choices for an owned map, which has no domain and no limit of entries.
fn choices(options: &sapwood_options) -> Outcome<(Kind, Option<Arc<Owner>>)> {
    known_flags(options.flags, CHECKED | INDEX)?;
    if !options.domain.is_null() || options.max_entries != 0 {
        return Err(Failure::invalid(
            "an owned map has no domain and no limit of entries",
        ));
    }
    options.kind()
}

fn empty<V: ?Sized + CValue>(options: &sapwood_options) -> Outcome<QpMap<V>> {
    let mut map = match options.memory_limit {
        0 => QpMap::new(),
        bytes => QpMap::with_memory_limit(bytes)?,
    };
    if options.flags & INDEX != 0 {
        map.add_index();
    }
    Ok(map)
}

/// Makes an empty map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_new(
    options: *const sapwood_options,
    out: *mut *mut sapwood_map,
) -> c_int {
    call("sapwood_map_new", || {
        let out = place(out, "out")?;
        // SAFETY: C.
        let options = unsafe { extensible(options) }?;
        let (kind, owner) = choices(&options)?;
        let body = MapBody {
            map: of_kind!(kind, empty::<V>(&options)?),
            owner,
            changes: Changes::default(),
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(body, options.flags & CHECKED != 0) };
        Ok(0)
    })
}

/// Makes a map of a file.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_load(
    options: *const sapwood_options,
    from: *const c_char,
    out: *mut *mut sapwood_map,
) -> c_int {
    call("sapwood_map_load", || {
        let out = place(out, "out")?;
        // SAFETY: C.
        let (options, from) = unsafe { (extensible(options)?, path(from)?) };
        let (kind, owner) = choices(&options)?;
        let map = match kind {
            Kinds::Numbers(()) => {
                let file = QpFile::<u64>::open(from)?;
                let mut map = empty::<u64>(&options)?;
                map.insert_many(file.iter().map(|(key, value)| (key, *value)))
                    .map_err(refused::<u64>)?;
                Kinds::Numbers(map)
            }
            Kinds::Bytes(()) => {
                let file = QpFile::<[u8]>::open(from)?;
                let mut map = empty::<[u8]>(&options)?;
                map.insert_many(file.iter()).map_err(refused::<[u8]>)?;
                Kinds::Bytes(map)
            }
            Kinds::Pointers(()) => return Err(no_pointers()),
        };
        let changes = Changes::default();
        let body = MapBody {
            map,
            owner,
            changes,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(body, options.flags & CHECKED != 0) };
        Ok(0)
    })
}

/// Frees a map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_free(map: *mut sapwood_map) {
    // SAFETY: C.
    call_void("sapwood_map_free", || unsafe { free(map) });
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_get(
    map: *const sapwood_map,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        if let Some(body) = Handle::quick(map) {
            if let Some(key) = quick_bytes(key, key_len) {
                return quick(
                    "sapwood_map_get",
                    || each!(&body.map, map => answer(map.get(key), value)),
                );
            }
        }
        get_slowly(map, (key, key_len), value)
    }
}

/// The same lookup where there is something to say about its arguments.
#[cold]
#[inline(never)]
unsafe fn get_slowly(
    map: *const sapwood_map,
    (key, key_len): (*const c_void, usize),
    value: *mut sapwood_value,
) -> c_int {
    call("sapwood_map_get", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(map)?;
            let key = bytes(key, key_len, "the key")?;
            each!(&body.map, map => found(map.get(key), value))
        }
    })
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_get_many(
    map: *const sapwood_map,
    keys: *const sapwood_bytes,
    count: usize,
    values: *mut sapwood_value,
    found: *mut c_uchar,
) -> c_int {
    call("sapwood_map_get_many", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(map)?;
            let keys = Key::all(items(keys, count, "keys")?)?;
            each!(&body.map, map => {
                get_many(keys, values, found, |keys, out| map.get_many(keys, out))
            })
        }
    })
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_len(map: *const sapwood_map, len: *mut usize) -> c_int {
    call("sapwood_map_len", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(map) }?;
        let len = place(len, "len")?;
        // SAFETY: C.
        unsafe { *len = each!(&body.map, map => map.len()) };
        Ok(0)
    })
}

unsafe fn insert(
    name: &'static str,
    map: *mut sapwood_map,
    (key, key_len): (*const c_void, usize),
    value: *const sapwood_value,
    mode: Mode,
) -> c_int {
    call(name, || {
        // SAFETY: C.
        unsafe {
            let body = Handle::exclusive(map)?;
            let key = bytes(key, key_len, "the key")?;
            let value = value.as_ref().ok_or_else(|| Failure::null("value"))?;
            each!(&mut body.map, map => {
                if let Some(answer) = mode.excludes(|| map.contains_key(key)) {
                    return Ok(answer);
                }
                let value = V::input(value, &body.owner)?;
                body.changes.count();
                match map.insert(key, value) {
                    Ok(old) => Ok(c_int::from(old.is_none())),
                    Err(rejected) => not_inserted::<V>(rejected),
                }
            })
        }
    })
}

/// Inserts or replaces.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_insert(
    map: *mut sapwood_map,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe { insert("sapwood_map_insert", map, (key, key_len), value, Mode::Put) }
}

/// Inserts an absent key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_insert_new(
    map: *mut sapwood_map,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        insert(
            "sapwood_map_insert_new",
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
pub unsafe extern "C" fn sapwood_map_replace(
    map: *mut sapwood_map,
    key: *const c_void,
    key_len: usize,
    value: *const sapwood_value,
) -> c_int {
    // SAFETY: C.
    unsafe {
        insert(
            "sapwood_map_replace",
            map,
            (key, key_len),
            value,
            Mode::Replace,
        )
    }
}

/// A number in place, which is inserted as 0 if the key is absent.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_number(
    map: *mut sapwood_map,
    key: *const c_void,
    key_len: usize,
    number: *mut *mut u64,
) -> c_int {
    call("sapwood_map_number", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::exclusive(map)?;
            let key = bytes(key, key_len, "the key")?;
            let number = place(number, "number")?;
            let Kinds::Numbers(map) = &mut body.map else {
                let text = "the values of the map are not numbers";
                return Err(Failure::new(libc::ENOTSUP, text));
            };
            body.changes.count();
            let new = map.get_mut(key).is_none();
            if new {
                map.insert(key, 0).map_err(refused::<u64>)?;
            }
            if let Some(there) = map.get_mut(key) {
                *number = there;
            }
            Ok(c_int::from(new))
        }
    })
}

/// Removes a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_remove(
    map: *mut sapwood_map,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    call("sapwood_map_remove", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::exclusive(map)?;
            let key = bytes(key, key_len, "the key")?;
            body.changes.count();
            let there = each!(&mut body.map, map => map.remove(key).is_some());
            Ok(if there { 0 } else { -libc::ENOENT })
        }
    })
}

/// Removes all keys with a prefix.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_remove_prefix(
    map: *mut sapwood_map,
    prefix: *const c_void,
    prefix_len: usize,
    removed: *mut usize,
) -> c_int {
    call("sapwood_map_remove_prefix", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::exclusive(map)?;
            let prefix = bytes(prefix, prefix_len, "the prefix")?;
            body.changes.count();
            let count = each!(&mut body.map, map => map.remove_prefix(prefix));
            if let Some(removed) = removed.as_mut() {
                *removed = count;
            }
        }
        Ok(0)
    })
}

/// Rewrites the map, so that it takes little memory and reads quickly.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_compact(map: *mut sapwood_map) -> c_int {
    call("sapwood_map_compact", || {
        // SAFETY: C.
        let body = unsafe { Handle::exclusive(map) }?;
        body.changes.count();
        each!(&mut body.map, map => map.compact()?);
        Ok(0)
    })
}

/// What the map's memory holds.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_memory(
    map: *const sapwood_map,
    memory: *mut sapwood_memory,
) -> c_int {
    call("sapwood_map_memory", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(map)?;
            let report = each!(&body.map, map => sapwood_memory::from_map(&map.memory()));
            store_memory(memory, report)
        }
    })
}

/// Saves the map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_save(map: *const sapwood_map, to: *const c_char) -> c_int {
    call("sapwood_map_save", || {
        // SAFETY: C.
        let (body, to) = unsafe { (Handle::shared(map)?, path(to)?) };
        match &body.map {
            Kinds::Numbers(map) => map.save(to)?,
            Kinds::Bytes(map) => map.save(to)?,
            Kinds::Pointers(_) => return Err(no_pointers()),
        }
        Ok(0)
    })
}

/// A view of the map, until its next change.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_map_view(
    map: *const sapwood_map,
    view: *mut sapwood_view,
) -> c_int {
    call("sapwood_map_view", || {
        // SAFETY: C. The map is read only while the view's anchor says that it is as it was.
        unsafe {
            let body: &'static MapBody = Handle::shared(map)?;
            let view = place(view, "view")?;
            let source = map_kinds!(&body.map, map => Source::Handle(map));
            sapwood_view::write(view, Anchor::handle(map, body), source);
        }
        Ok(0)
    })
}
