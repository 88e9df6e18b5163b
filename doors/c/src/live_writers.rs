//! Live maps for their writers: ordinary handles of stores, shared maps, point maps, tables of
//! prefixes and range maps, which other processes read.
//!
//! A handle has a clone of the structure that the `sapwood_live` handle has. The lock of the writer
//! lasts as long as the domain, so as long as any handle that belongs to the map.

use std::ffi::{c_char, c_int};

use ::sapwood_live::{Live, LiveMap};
use sapwood::Builder;
use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::{Ordered, QpStore, SharedMap, Unordered};

use crate::call::call;
use crate::domain::{CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::fib::{sapwood_fib, sapwood_fib_options};
use crate::handle::Handle;
use crate::input::{extensible, place};
use crate::live::{Plan, sapwood_live, sapwood_live_options};
use crate::point_map::sapwood_point;
use crate::ranges::{RangesBody, sapwood_ranges, sapwood_ranges_options};
use crate::shared::{Named, SharedBody};
use crate::shared_map::sapwood_shared;
use crate::store::{StoreBody, sapwood_store};
use crate::turn::Turns;
use crate::value::{Kinds, sapwood_options};
use crate::versions::TableBody;

/// What the caller gives for a live map.
type Given = (*const c_char, *const sapwood_live_options, bool);

/// The options of a map over byte strings, whose values are numbers or bytes.
unsafe fn plain(at: *const sapwood_options, flags: u32) -> Outcome<sapwood_options> {
    // SAFETY: C.
    let options: sapwood_options = unsafe { extensible(at) }?;
    known_flags(options.flags, flags)?;
    if !options.domain.is_null() {
        let text = "a live map has a domain of its own: see sapwood_live_domain";
        return Err(Failure::invalid(text));
    }
    if options.values == 1 {
        return Err(no_pointers());
    }
    Ok(options)
}

/// The failure of a live map with pointers.
pub fn no_pointers() -> Failure {
    Failure::invalid("the values of a live map are numbers or bytes: pointers mean nothing there")
}

unsafe fn store(
    name: &'static str,
    (folder, live_options, take_over): Given,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_store,
) -> c_int {
    call(name, || {
        let (live, out) = (place(live, "live")?, place(out, "out")?);
        // SAFETY: C.
        unsafe {
            let options = plain(options, CHECKED)?;
            if options.max_entries != 0 {
                return Err(Failure::invalid("a store has no limit of entries"));
            }
            let (kind, _) = options.kind()?;
            let checked = options.flags & CHECKED != 0;
            let plan = Plan::new(folder, live_options, take_over, checked)?;
            let bytes = options.memory_limit;
            let (store, made) = match kind {
                Kinds::Bytes(()) => {
                    let map: Live<QpStore<[u8]>> = plan.make(bytes, |builder| builder)?;
                    let (store, domain) = (QpStore::clone(&map), map.domain().clone());
                    (Kinds::Bytes(store), plan.handle(map, &domain))
                }
                _ => {
                    let map: Live<QpStore<u64>> = plan.make(bytes, |builder| builder)?;
                    let (store, domain) = (QpStore::clone(&map), map.domain().clone());
                    (Kinds::Numbers(store), plan.handle(map, &domain))
                }
            };
            *live = made;
            *out = Handle::into_c(StoreBody::plain(store), plan.rules());
        }
        Ok(0)
    })
}

unsafe fn shared<O: Named>(
    name: &'static str,
    (folder, live_options, take_over): Given,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut Handle<SharedBody<O>>,
) -> c_int
where
    SharedMap<O, u64>: LiveMap<Builder = Builder<SharedMap<O, u64>>>,
    SharedMap<O, [u8]>: LiveMap<Builder = Builder<SharedMap<O, [u8]>>>,
{
    call(name, || {
        let (live, out) = (place(live, "live")?, place(out, "out")?);
        // SAFETY: C.
        unsafe {
            let options = plain(options, O::FLAGS)?;
            let (kind, _) = options.kind()?;
            let checked = options.flags & CHECKED != 0;
            let plan = Plan::new(folder, live_options, take_over, checked)?;
            let bytes = options.memory_limit;
            let (map, made) = match kind {
                Kinds::Bytes(()) => {
                    let choose = |builder| O::choose::<[u8]>(&options, builder);
                    let map: Live<SharedMap<O, [u8]>> = plan.make(bytes, choose)?;
                    let (shared, domain) = (SharedMap::clone(&map), map.domain().clone());
                    (Kinds::Bytes(shared), plan.handle(map, &domain))
                }
                _ => {
                    let choose = |builder| O::choose::<u64>(&options, builder);
                    let map: Live<SharedMap<O, u64>> = plan.make(bytes, choose)?;
                    let (shared, domain) = (SharedMap::clone(&map), map.domain().clone());
                    (Kinds::Numbers(shared), plan.handle(map, &domain))
                }
            };
            *live = made;
            *out = Handle::into_c(SharedBody::plain(map), plan.rules());
        }
        Ok(0)
    })
}

unsafe fn fib(
    name: &'static str,
    (folder, live_options, take_over): Given,
    options: *const sapwood_fib_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_fib,
) -> c_int {
    call(name, || {
        let (live, out) = (place(live, "live")?, place(out, "out")?);
        // SAFETY: C.
        unsafe {
            let options: sapwood_fib_options = extensible(options)?;
            known_flags(options.flags, CHECKED)?;
            let root = options.root()?;
            let checked = options.flags & CHECKED != 0;
            let plan = Plan::new(folder, live_options, take_over, checked)?;
            let map: Live<IpFib<u64>> = plan.make(
                options.memory_limit,
                |builder: Builder<IpFib<u64>>| match root {
                    None => builder,
                    Some(bits) => builder.root_bits(bits),
                },
            )?;
            let body = TableBody {
                table: IpFib::clone(&map),
                turns: Turns::default(),
                checked: plan.checked,
            };
            *live = plan.handle(map, body.table.domain());
            *out = Handle::into_c(body, plan.rules());
        }
        Ok(0)
    })
}

unsafe fn ranges(
    name: &'static str,
    (folder, live_options, take_over): Given,
    options: *const sapwood_ranges_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_ranges,
) -> c_int {
    call(name, || {
        let (live, out) = (place(live, "live")?, place(out, "out")?);
        // SAFETY: C.
        unsafe {
            let options: sapwood_ranges_options = extensible(options)?;
            known_flags(options.flags, CHECKED)?;
            let checked = options.flags & CHECKED != 0;
            let plan = Plan::new(folder, live_options, take_over, checked)?;
            let map: Live<MapleMap<u64>> = plan.make(options.memory_limit, |builder| builder)?;
            let body = RangesBody {
                map: MapleMap::clone(&map),
                turns: Turns::default(),
                checked: plan.checked,
            };
            *live = plan.handle(map, body.map.domain());
            *out = Handle::into_c(body, plan.rules());
        }
        Ok(0)
    })
}

/// Makes a store that other processes read.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_store_live_create(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_store,
) -> c_int {
    let given = (folder, live_options, false);
    // SAFETY: C.
    unsafe { store("sapwood_store_live_create", given, options, live, out) }
}

/// Takes over a store of a writer that has ended.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_store_live_open(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_store,
) -> c_int {
    let given = (folder, live_options, true);
    // SAFETY: C.
    unsafe { store("sapwood_store_live_open", given, options, live, out) }
}

/// Makes a shared map that other processes read.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_live_create(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_shared,
) -> c_int {
    let given = (folder, live_options, false);
    // SAFETY: C.
    unsafe { shared::<Ordered>("sapwood_shared_live_create", given, options, live, out) }
}

/// Takes over a shared map of a writer that has ended.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_shared_live_open(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_shared,
) -> c_int {
    let given = (folder, live_options, true);
    // SAFETY: C.
    unsafe { shared::<Ordered>("sapwood_shared_live_open", given, options, live, out) }
}

/// Makes a point map that other processes read.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_live_create(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_point,
) -> c_int {
    let given = (folder, live_options, false);
    // SAFETY: C.
    unsafe { shared::<Unordered>("sapwood_point_live_create", given, options, live, out) }
}

/// Takes over a point map of a writer that has ended.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_point_live_open(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_point,
) -> c_int {
    let given = (folder, live_options, true);
    // SAFETY: C.
    unsafe { shared::<Unordered>("sapwood_point_live_open", given, options, live, out) }
}

/// Makes a table of prefixes that other processes read.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_live_create(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_fib_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_fib,
) -> c_int {
    let given = (folder, live_options, false);
    // SAFETY: C.
    unsafe { fib("sapwood_fib_live_create", given, options, live, out) }
}

/// Takes over a table of prefixes of a writer that has ended.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_live_open(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_fib_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_fib,
) -> c_int {
    let given = (folder, live_options, true);
    // SAFETY: C.
    unsafe { fib("sapwood_fib_live_open", given, options, live, out) }
}

/// Makes a range map that other processes read.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_live_create(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_ranges_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_ranges,
) -> c_int {
    let given = (folder, live_options, false);
    // SAFETY: C.
    unsafe { ranges("sapwood_ranges_live_create", given, options, live, out) }
}

/// Takes over a range map of a writer that has ended.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_ranges_live_open(
    folder: *const c_char,
    live_options: *const sapwood_live_options,
    options: *const sapwood_ranges_options,
    live: *mut *mut sapwood_live,
    out: *mut *mut sapwood_ranges,
) -> c_int {
    let given = (folder, live_options, true);
    // SAFETY: C.
    unsafe { ranges("sapwood_ranges_live_open", given, options, live, out) }
}
