//! Owned maps.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use sapwood::arena::ArenaOptions;
use sapwood::qp::{QpFile, QpMap};

use crate::c_api::c_api;
use crate::call::look_up;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{self, bytes, given, items, place, quick_bytes};
use crate::maps::{SAPWOOD_INDEX, sapwood_map, sapwood_memory, sapwood_options};
use crate::ordered::Source;
use crate::output::{hand_out, or_absent, put, put_extensible, put_wanted};
use crate::retire::{Owner, Pointer};
use crate::value::{
    CValue, Key, Kind, Kinds, Mode, each, get_many, insertions, map_kinds, no_pointers,
    not_inserted, of_kind, refused, sapwood_bytes, sapwood_value,
};
use crate::view::{Anchor, Changes, Viewed, answer, found, sapwood_view};

/// A map with any kind of values.
type AnyMap = Kinds<QpMap<u64>, QpMap<Pointer>, QpMap<[u8]>>;

/// The inside of an owned map's handle.
pub struct MapBody {
    map: AnyMap,
    owner: Option<Arc<Owner>>,
    changes: Changes,
}

impl MapBody {
    /// A map that nobody has changed yet.
    fn new(map: AnyMap, owner: Option<Arc<Owner>>) -> Self {
        let changes = Changes::default();
        MapBody {
            map,
            owner,
            changes,
        }
    }
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

/// The choices for an owned map, which has no domain and no limit of entries.
fn choices(options: &sapwood_options) -> Outcome<(Kind, Option<Arc<Owner>>)> {
    known_flags(options.flags, SAPWOOD_CHECKED | SAPWOOD_INDEX)?;
    if !options.domain.is_null() || options.max_entries != 0 {
        return Err(Failure::invalid(
            "an owned map has no domain and no limit of entries",
        ));
    }
    options.kind()
}

fn empty<V: ?Sized + CValue>(options: &sapwood_options) -> Outcome<QpMap<V>> {
    // C reads keys where they lie.
    let mut map = QpMap::with_leaves(match options.memory_limit {
        0 => ArenaOptions::default(),
        bytes => ArenaOptions::default().limit(bytes),
    })?;
    if options.flags & SAPWOOD_INDEX != 0 {
        map.add_index();
    }
    Ok(map)
}

unsafe fn insert(
    map: *mut sapwood_map,
    (key, key_len): (*const c_void, usize),
    value: *const sapwood_value,
    mode: Mode,
) -> Outcome {
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
}

c_api!(
    /// One thread at a time, except that several threads may read at once while nobody changes the
    /// map. Values, views and entries are valid until the next change.
    const SECTION: &str = "Owned maps";

    /// Makes an empty map. O(1).
    fn sapwood_map_new(options: *const sapwood_options, out: *mut *mut sapwood_map) -> c_int {
        let out = place(out, "out")?;
        let options = given(options)?;
        let (kind, owner) = choices(&options)?;
        let body = MapBody::new(of_kind!(kind, empty::<V>(&options)?), owner);
        hand_out(out, body, options.flags & SAPWOOD_CHECKED != 0)
    }

    /// Makes a map of the entries of a saved one. -ENOTSUP: pointers with retire. -EPROTO: the file
    /// is damaged, or its values are of another kind. Other errors are those of the system.
    /// O(entries).
    fn sapwood_map_load(
        options: *const sapwood_options,
        path: *const c_char,
        out: *mut *mut sapwood_map,
    ) -> c_int {
        let out = place(out, "out")?;
        let (options, path) = (given(options)?, input::path(path)?);
        let (kind, owner) = choices(&options)?;
        let map = match kind {
            Kinds::Numbers(()) => {
                let file = QpFile::<u64>::open(path)?;
                let mut map = empty::<u64>(&options)?;
                map.insert_many(file.iter().map(|(key, value)| (key, *value)))
                    .map_err(refused::<u64>)?;
                Kinds::Numbers(map)
            }
            Kinds::Bytes(()) => {
                let file = QpFile::<[u8]>::open(path)?;
                let mut map = empty::<[u8]>(&options)?;
                map.insert_many(file.iter()).map_err(refused::<[u8]>)?;
                Kinds::Bytes(map)
            }
            Kinds::Pointers(()) => return Err(no_pointers()),
        };
        hand_out(out, MapBody::new(map, owner), options.flags & SAPWOOD_CHECKED != 0)
    }

    /// Frees a map; its pointers are retired before it returns. O(entries).
    fn sapwood_map_free(map: *mut sapwood_map) {
        free(map)
    }

    /// Looks up a key. -ENOENT: it is not there.
    unsafe extern "C" fn sapwood_map_get(
        map: *const sapwood_map,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let quick = || {
            let (body, key) = (Handle::quick(map)?, quick_bytes(key, key_len)?);
            Some(each!(&body.map, map => answer(map.get(key), value)))
        };
        let slow = move || {
            let body = Handle::shared(map)?;
            let key = bytes(key, key_len, "the key")?;
            each!(&body.map, map => found(map.get(key), value))
        };
        look_up("sapwood_map_get", quick, slow)
    }

    /// Looks up many keys, interleaved in large maps. `found[i]` becomes 1 or 0, and `values[i]`
    /// the value of `keys[i]` if it was found. Returns the number of those found.
    fn sapwood_map_get_many(
        map: *const sapwood_map,
        keys: *const sapwood_bytes,
        count: usize,
        values: *mut sapwood_value,
        found: *mut c_uchar,
    ) -> c_int {
        let body = Handle::shared(map)?;
        let keys = Key::all(items(keys, count, "keys")?)?;
        each!(&body.map, map => {
            get_many(keys, values, found, |keys, out| map.get_many(keys, out))
        })
    }

    /// Stores the number of entries. O(1).
    fn sapwood_map_len(map: *const sapwood_map, len: *mut usize) -> c_int {
        let body = Handle::shared(map)?;
        put(len, "len", each!(&body.map, map => map.len()))
    }

    insertions!(
        map: *mut sapwood_map,
        /// Inserts a key, or replaces its value.
        sapwood_map_insert: Put,
        /// -EEXIST: the key is there.
        sapwood_map_insert_new: New,
        /// -ENOENT: the key is not there.
        sapwood_map_replace: Replace
    );

    /// Stores where the number of a key lies, so that it can be changed in place until the next
    /// change of the map. An absent key is inserted with 0: the function returns 1. -ENOTSUP: other
    /// values.
    fn sapwood_map_number(
        map: *mut sapwood_map,
        key: *const c_void,
        key_len: usize,
        number: *mut *mut u64,
    ) -> c_int {
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

    /// -ENOENT: the key is not there.
    fn sapwood_map_remove(map: *mut sapwood_map, key: *const c_void, key_len: usize) -> c_int {
        let body = Handle::exclusive(map)?;
        let key = bytes(key, key_len, "the key")?;
        body.changes.count();
        let there = each!(&mut body.map, map => map.remove(key).is_some());
        Ok(or_absent(there))
    }

    /// Removes all keys with a prefix, and stores their number unless `removed` is NULL.
    fn sapwood_map_remove_prefix(
        map: *mut sapwood_map,
        prefix: *const c_void,
        prefix_len: usize,
        removed: *mut usize,
    ) -> c_int {
        let body = Handle::exclusive(map)?;
        let prefix = bytes(prefix, prefix_len, "the prefix")?;
        body.changes.count();
        let count = each!(&mut body.map, map => map.remove_prefix(prefix));
        put_wanted(removed, count);
        Ok(0)
    }

    /// Rewrites the map, so that it takes the least memory and reads quickest. O(entries).
    fn sapwood_map_compact(map: *mut sapwood_map) -> c_int {
        let body = Handle::exclusive(map)?;
        body.changes.count();
        each!(&mut body.map, map => map.compact()?);
        Ok(0)
    }

    /// Stores what the map's memory holds.
    fn sapwood_map_memory(map: *const sapwood_map, memory: *mut sapwood_memory) -> c_int {
        let body = Handle::shared(map)?;
        let report = each!(&body.map, map => sapwood_memory::from_map(&map.memory()));
        put_extensible(memory, "memory", &report)
    }

    /// Saves the map: whoever opens the path finds the old file or the whole new one. -ENOTSUP:
    /// pointers with retire. Other errors are those of the system. Without retire, pointers are
    /// saved as numbers.
    fn sapwood_map_save(map: *const sapwood_map, path: *const c_char) -> c_int {
        let (body, path) = (Handle::shared(map)?, input::path(path)?);
        match &body.map {
            Kinds::Numbers(map) => map.save(path)?,
            Kinds::Bytes(map) => map.save(path)?,
            Kinds::Pointers(_) => return Err(no_pointers()),
        }
        Ok(0)
    }

    /// Makes a view, which is valid until the next change of the map. O(1).
    fn sapwood_map_view(map: *const sapwood_map, view: *mut sapwood_view) -> c_int {
        // The map is read only while the view's anchor says that it is as it was.
        let body: &'static MapBody = Handle::shared(map)?;
        let source = map_kinds!(&body.map, map => Source::Whole(map));
        sapwood_view::write(view, Anchor::handle(map, body), source)
    }
);
