//! What shared maps and point maps have in common: many readers and many writers.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::sync::Arc;

use sapwood::Builder;
use sapwood::qp::{Exchange, Order, Ordered, PointMap, QpShared, SharedMap, Unordered};
use sapwood::qsbr::Domain;

use crate::c_api::c_api;
use crate::call::look_up;
use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle};
use crate::input::{bytes, given, items, place, quick_bytes};
use crate::maps::{SAPWOOD_INDEX, sapwood_memory, sapwood_options};
use crate::output::{hand_out, or_absent, put_extensible, put_wanted};
use crate::reader::sapwood_reader;
use crate::retire::{Owner, Pointer};
use crate::value::{
    CValue, Key, Kinds, Lent, Mode, each, get_many, not_inserted, of_kind, refused, sapwood_bytes,
    sapwood_entry, sapwood_value,
};
use crate::view::{Viewed, answer, found};

/// Shared maps and point maps: what differs in their handles.
pub trait Named: Order + Sized + 'static {
    /// See [`Body::MAGIC`].
    const MAGIC: u32;
    /// See [`Body::NAME`].
    const NAME: &'static str;
    /// The flags that its options may have.
    const FLAGS: u32;

    /// Sets the choices for entries and the index.
    fn choose<V: ?Sized + CValue>(
        options: &sapwood_options,
        builder: Builder<SharedMap<Self, V>>,
    ) -> Builder<SharedMap<Self, V>>;

    /// An empty map.
    fn make<V: ?Sized + CValue>(
        options: &sapwood_options,
        domain: &Domain,
    ) -> Outcome<SharedMap<Self, V>>;
}

impl Named for Ordered {
    const MAGIC: u32 = u32::from_be_bytes(*b"swSh");
    const NAME: &'static str = "shared map";
    const FLAGS: u32 = SAPWOOD_CHECKED | SAPWOOD_INDEX;

    fn choose<V: ?Sized + CValue>(
        options: &sapwood_options,
        mut builder: Builder<QpShared<V>>,
    ) -> Builder<QpShared<V>> {
        if options.max_entries != 0 {
            builder = builder.max_entries(options.max_entries);
        }
        if options.flags & SAPWOOD_INDEX != 0 {
            builder = builder.with_index();
        }
        builder
    }

    fn make<V: ?Sized + CValue>(
        options: &sapwood_options,
        domain: &Domain,
    ) -> Outcome<QpShared<V>> {
        let mut builder = Self::choose(options, QpShared::builder().domain(domain));
        if options.memory_limit != 0 {
            builder = builder.memory_limit(options.memory_limit);
        }
        Ok(builder.build()?)
    }
}

impl Named for Unordered {
    const MAGIC: u32 = u32::from_be_bytes(*b"swPo");
    const NAME: &'static str = "point map";
    const FLAGS: u32 = SAPWOOD_CHECKED;

    fn choose<V: ?Sized + CValue>(
        options: &sapwood_options,
        builder: Builder<PointMap<V>>,
    ) -> Builder<PointMap<V>> {
        match options.max_entries {
            0 => builder,
            most => builder.max_entries(most),
        }
    }

    fn make<V: ?Sized + CValue>(
        options: &sapwood_options,
        domain: &Domain,
    ) -> Outcome<PointMap<V>> {
        let mut builder = Self::choose(options, PointMap::builder().domain(domain));
        if options.memory_limit != 0 {
            builder = builder.memory_limit(options.memory_limit);
        }
        Ok(builder.build()?)
    }
}

/// A map with any kind of values.
type AnyMap<O> = Kinds<SharedMap<O, u64>, SharedMap<O, Pointer>, SharedMap<O, [u8]>>;

/// The inside of the handle of a shared map or a point map.
pub struct SharedBody<O: Named> {
    /// The map.
    pub map: AnyMap<O>,
    owner: Option<Arc<Owner>>,
}

impl<O: Named> SharedBody<O> {
    /// A map whose values nobody takes back.
    pub fn plain(map: AnyMap<O>) -> Self {
        SharedBody { map, owner: None }
    }
}

impl<O: Named> Body for SharedBody<O> {
    const MAGIC: u32 = O::MAGIC;
    const NAME: &'static str = O::NAME;
}

impl<O: Named> Viewed for SharedBody<O> {}

/// A key of C.
pub type RawKey = (*const c_void, usize);

/// Makes an empty map.
///
/// # Safety
/// As `sapwood.h` says, like everything below.
pub unsafe fn new<O: Named>(
    options: *const sapwood_options,
    out: *mut *mut Handle<SharedBody<O>>,
) -> Outcome {
    let out = place(out, "out")?;
    // SAFETY: C.
    unsafe {
        let options = given(options)?;
        known_flags(options.flags, O::FLAGS)?;
        let (kind, owner) = options.kind()?;
        let (domain, rules) = or_new(options.domain, options.flags & SAPWOOD_CHECKED != 0)?;
        let map = of_kind!(kind, O::make::<V>(&options, &domain)?);
        hand_out(out, SharedBody { map, owner }, rules)
    }
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[inline(always)]
pub unsafe fn get<O: Named>(
    name: &'static str,
    map: *const Handle<SharedBody<O>>,
    reader: *const sapwood_reader,
    key: RawKey,
    value: *mut sapwood_value,
) -> c_int {
    let quick = || {
        // SAFETY: C.
        unsafe {
            let (body, through) = (Handle::quick(map)?, Handle::quick(reader)?);
            let key = quick_bytes(key.0, key.1)?;
            Some(each!(&body.map, map => {
                answer(map.view(through.quick_guard(map.domain())?).get(key), value)
            }))
        }
    };
    let slow = move || {
        // SAFETY: C.
        unsafe {
            let (body, reader) = (Handle::shared(map)?, Handle::shared(reader)?);
            let key = bytes(key.0, key.1, "the key")?;
            each!(&body.map, map => {
                found(map.view(reader.guard(map.domain())?).get(key), value)
            })
        }
    };
    look_up(name, quick, slow)
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn many<O: Named>(
    map: *const Handle<SharedBody<O>>,
    reader: *const sapwood_reader,
    (keys, count): (*const sapwood_bytes, usize),
    values: *mut sapwood_value,
    found: *mut u8,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let (body, reader) = (Handle::shared(map)?, Handle::shared(reader)?);
        let keys = Key::all(items(keys, count, "keys")?)?;
        each!(&body.map, map => {
            let view = map.view(reader.guard(map.domain())?);
            get_many(keys, values, found, |keys, out| view.get_many(keys, out))
        })
    }
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn len<O: Named>(map: *const Handle<SharedBody<O>>, len: *mut usize) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        *place(len, "len")? = each!(&body.map, map => map.len());
    }
    Ok(0)
}

/// Inserts or replaces.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn insert<O: Named>(
    map: *const Handle<SharedBody<O>>,
    (key, key_len): RawKey,
    value: *const sapwood_value,
    mode: Mode,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        let key = bytes(key, key_len, "the key")?;
        let value = value.as_ref().ok_or_else(|| Failure::null("value"))?;
        each!(&body.map, map => {
            let value = V::input(value, &body.owner)?;
            let result = match mode {
                Mode::Put => map.insert(key, value).map(c_int::from),
                Mode::New => map.insert_new(key, value).map(|()| 1),
                Mode::Replace => map.replace(key, value).map(|()| 0),
            };
            match result {
                Ok(new) => Ok(new),
                Err(rejected) => not_inserted::<V>(rejected),
            }
        })
    }
}

/// Replaces a value if it is the expected one.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn compare_exchange<O: Named>(
    map: *const Handle<SharedBody<O>>,
    (key, key_len): RawKey,
    current: *const sapwood_value,
    value: *const sapwood_value,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        let key = bytes(key, key_len, "the key")?;
        let current = current.as_ref().ok_or_else(|| Failure::null("current"))?;
        let value = value.as_ref().ok_or_else(|| Failure::null("value"))?;
        each!(&body.map, map => {
            <V as Lent>::with(current, |current| {
                let value = V::input(value, &body.owner)?;
                let pin = map.pin();
                match pin.view().compare_exchange(key, current, value) {
                    Ok(Exchange::Done(_)) => Ok(0),
                    Ok(Exchange::Refused { found, value }) => {
                        V::leave(value);
                        Ok(-found.map_or(libc::ENOENT, |_| libc::ESTALE))
                    }
                    Err(rejected) => not_inserted::<V>(rejected),
                }
            })
        })
    }
}

/// Adds to a number, which is inserted if it is absent.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn add<O: Named>(
    map: *const Handle<SharedBody<O>>,
    (key, key_len): RawKey,
    delta: u64,
    sum: *mut u64,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        let key = bytes(key, key_len, "the key")?;
        let Kinds::Numbers(map) = &body.map else {
            let text = "the values of the map are not numbers";
            return Err(Failure::new(libc::ENOTSUP, text));
        };
        let (new, number) = loop {
            let pin = map.pin();
            if let Some(old) = pin.view().update(key, |old| old.wrapping_add(delta))? {
                break (0, old.wrapping_add(delta));
            }
            match pin.view().insert_new(key, delta) {
                Ok(_) => break (1, delta),
                Err(rejected) if rejected.error == sapwood::qp::Error::Exists => {}
                Err(rejected) => return Err(refused::<u64>(rejected)),
            }
        };
        put_wanted(sum, number);
        Ok(new)
    }
}

/// Removes a key.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn remove<O: Named>(
    map: *const Handle<SharedBody<O>>,
    (key, key_len): RawKey,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        let key = bytes(key, key_len, "the key")?;
        let there = each!(&body.map, map => map.remove(key)?);
        Ok(or_absent(there))
    }
}

/// Frees what waits for readers and is no longer used.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn reclaim<O: Named>(map: *const Handle<SharedBody<O>>, most: usize) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::shared(map) }?;
    let most = most.min(c_int::MAX as usize);
    Ok(each!(&body.map, map => map.reclaim(most)) as c_int)
}

/// What the map's memory holds.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn memory<O: Named>(
    map: *const Handle<SharedBody<O>>,
    memory: *mut sapwood_memory,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(map)?;
        let report = each!(&body.map, map => sapwood_memory::from_shared(&map.memory()));
        put_extensible(memory, "memory", &report)
    }
}

/// Calls a function with all entries.
///
/// # Safety
/// As `sapwood.h` says.
pub unsafe fn for_each<O: Named>(
    map: *const Handle<SharedBody<O>>,
    reader: *const sapwood_reader,
    tell: sapwood_entry_fn,
    ctx: *mut c_void,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let (body, reader) = (Handle::shared(map)?, Handle::shared(reader)?);
        let tell = tell.ok_or_else(|| Failure::null("the function"))?;
        let ended = each!(&body.map, map => {
            map.view(reader.guard(map.domain())?).for_each(|key, value: &V| {
                let entry = sapwood_entry::new((key, value));
                match tell(&raw const entry, ctx) {
                    0 => ControlFlow::Continue(()),
                    answer => ControlFlow::Break(answer),
                }
            })
        });
        match ended {
            ControlFlow::Break(answer) => Ok(answer),
            ControlFlow::Continue(()) => Ok(0),
        }
    }
}

c_api!(
    /// Any thread. Reading functions as for stores; changes need no reader. Values that change
    /// often: let the value be a pointer to an atomic, or use sapwood_shared_add.
    const SECTION: &str = "Shared maps and point maps";

    /// Returns 0 to go on; anything else ends the walk. The walk does not wait and keeps nobody
    /// waiting: it gives no key twice, and each that is there throughout.
    pub type sapwood_entry_fn =
        Option<unsafe extern "C" fn(entry: *const sapwood_entry, ctx: *mut c_void) -> c_int>;
);

/// What C sees of a map with many writers: instantiated for shared maps and for point maps.
macro_rules! shared_api {
    (
        $map:ident:
        $(#[doc = $new_doc:literal])* $new:ident,
        $(#[doc = $free_doc:literal])* $free:ident,
        $(#[doc = $get_doc:literal])* $get:ident,
        $(#[doc = $get_many_doc:literal])* $get_many:ident,
        $(#[doc = $len_doc:literal])* $len:ident,
        $(#[doc = $insert_doc:literal])* $insert:ident,
        $(#[doc = $insert_new_doc:literal])* $insert_new:ident,
        $(#[doc = $replace_doc:literal])* $replace:ident,
        $(#[doc = $compare_exchange_doc:literal])* $compare_exchange:ident,
        $(#[doc = $add_doc:literal])* $add:ident,
        $(#[doc = $remove_doc:literal])* $remove:ident,
        $(#[doc = $reclaim_doc:literal])* $reclaim:ident,
        $(#[doc = $memory_doc:literal])* $memory:ident,
        $(#[doc = $each_doc:literal])* $each:ident;
        $($more:tt)*
    ) => {
        $crate::c_api::c_api!(
            $(#[doc = $new_doc])*
            fn $new(options: *const sapwood_options, out: *mut *mut $map) -> c_int {
                shared::new(options, out)
            }

            $(#[doc = $free_doc])*
            fn $free(map: *mut $map) {
                free(map)
            }

            $(#[doc = $get_doc])*
            unsafe extern "C" fn $get(
                map: *const $map,
                reader: *const sapwood_reader,
                key: *const c_void,
                key_len: usize,
                value: *mut sapwood_value,
            ) -> c_int {
                shared::get(stringify!($get), map, reader, (key, key_len), value)
            }

            $(#[doc = $get_many_doc])*
            fn $get_many(
                map: *const $map,
                reader: *const sapwood_reader,
                keys: *const sapwood_bytes,
                count: usize,
                values: *mut sapwood_value,
                found: *mut c_uchar,
            ) -> c_int {
                shared::many(map, reader, (keys, count), values, found)
            }

            $(#[doc = $len_doc])*
            fn $len(map: *const $map, len: *mut usize) -> c_int {
                shared::len(map, len)
            }

            insertions!(
                map: *const $map,
                $(#[doc = $insert_doc])* $insert: Put,
                $(#[doc = $insert_new_doc])* $insert_new: New,
                $(#[doc = $replace_doc])* $replace: Replace
            );

            $(#[doc = $compare_exchange_doc])*
            fn $compare_exchange(
                map: *const $map,
                key: *const c_void,
                key_len: usize,
                current: *const sapwood_value,
                value: *const sapwood_value,
            ) -> c_int {
                shared::compare_exchange(map, (key, key_len), current, value)
            }

            $(#[doc = $add_doc])*
            fn $add(
                map: *const $map,
                key: *const c_void,
                key_len: usize,
                delta: u64,
                sum: *mut u64,
            ) -> c_int {
                shared::add(map, (key, key_len), delta, sum)
            }

            $(#[doc = $remove_doc])*
            fn $remove(map: *const $map, key: *const c_void, key_len: usize) -> c_int {
                shared::remove(map, (key, key_len))
            }

            $(#[doc = $reclaim_doc])*
            fn $reclaim(map: *const $map, most: usize) -> c_int {
                shared::reclaim(map, most)
            }

            $(#[doc = $memory_doc])*
            fn $memory(map: *const $map, memory: *mut sapwood_memory) -> c_int {
                shared::memory(map, memory)
            }

            $(#[doc = $each_doc])*
            fn $each(
                map: *const $map,
                reader: *const sapwood_reader,
                each: sapwood_entry_fn,
                ctx: *mut c_void,
            ) -> c_int {
                shared::for_each(map, reader, each, ctx)
            }

            $($more)*
        );
    };
}
pub(crate) use shared_api;
