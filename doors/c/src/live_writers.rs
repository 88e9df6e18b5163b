//! Live maps for their writers: ordinary handles of stores, shared maps, point maps, tables of
//! prefixes and range maps, which other processes read.
//!
//! A handle has a clone of the structure that the `sapwood_live` handle has. The lock of the writer
//! lasts as long as the domain, so as long as any handle that belongs to the map.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use ::sapwood_live::LiveMap;
use sapwood::Builder;
use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::{QpStore, SharedMap};

use crate::c_api::c_api;
use crate::domain::{DomainBody, SAPWOOD_CHECKED, known_flags, sapwood_domain};
use crate::error::{Failure, Outcome};
use crate::fib::{sapwood_fib, sapwood_fib_options};
use crate::handle::{Body, Handle, free};
use crate::input::{Extensible, given, place};
use crate::live::{Plan, sapwood_live, sapwood_live_options};
use crate::live_reader::SAPWOOD_LIVE_CHECKED;
use crate::maps::{sapwood_options, sapwood_point, sapwood_shared, sapwood_store};
use crate::output::{as_int, hand_out, put};
use crate::ranges::{RangesBody, sapwood_ranges, sapwood_ranges_options};
use crate::shared::{Named, SharedBody};
use crate::store::StoreBody;
use crate::value::{Kinds, SAPWOOD_BYTES, SAPWOOD_POINTERS};
use crate::versions::TableBody;

/// A structure that can be live, in the body of its handle.
pub trait Lives: Body {
    /// Its options.
    type Options: Extensible;

    /// Looks at the options; returns whether the handles are checked.
    fn checked(options: &Self::Options) -> Outcome<bool>;

    /// Makes the map, or takes it over: the handle of its directory, and its own body.
    fn make(plan: &Plan<'_>, options: &Self::Options) -> Outcome<(*mut sapwood_live, Self)>;
}

/// Looks at the options of a map over byte strings, whose values are numbers or bytes.
fn plain(options: &sapwood_options, flags: u32) -> Outcome<bool> {
    known_flags(options.flags, flags)?;
    if !options.domain.is_null() {
        let text = "such a map has a domain of its own: see sapwood_live_domain and \
                    sapwood_bpf_window_domain";
        return Err(Failure::invalid(text));
    }
    if options.values == SAPWOOD_POINTERS {
        return Err(no_pointers());
    }
    options.kind()?;
    Ok(options.flags & SAPWOOD_CHECKED != 0)
}

/// The failure of a map for other processes, or for programs in the kernel, with pointers.
pub fn no_pointers() -> Failure {
    Failure::invalid(
        "the values of such a map are numbers or bytes: pointers mean nothing to its readers",
    )
}

impl Lives for StoreBody {
    type Options = sapwood_options;

    fn checked(options: &sapwood_options) -> Outcome<bool> {
        let checked = plain(options, SAPWOOD_CHECKED)?;
        match options.max_entries {
            0 => Ok(checked),
            _ => Err(Failure::invalid("a store has no limit of entries")),
        }
    }

    fn make(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(*mut sapwood_live, Self)> {
        let bytes = options.memory_limit;
        let (live, store) = if options.values == SAPWOOD_BYTES {
            let (live, store) = plan.make(bytes, |builder| builder, QpStore::<[u8]>::domain)?;
            (live, Kinds::Bytes(store))
        } else {
            let (live, store) = plan.make(bytes, |builder| builder, QpStore::<u64>::domain)?;
            (live, Kinds::Numbers(store))
        };
        Ok((live, StoreBody::plain(store)))
    }
}

impl<O: Named> Lives for SharedBody<O>
where
    SharedMap<O, u64>: LiveMap<Builder = Builder<SharedMap<O, u64>>>,
    SharedMap<O, [u8]>: LiveMap<Builder = Builder<SharedMap<O, [u8]>>>,
{
    type Options = sapwood_options;

    fn checked(options: &sapwood_options) -> Outcome<bool> {
        plain(options, O::FLAGS)
    }

    fn make(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(*mut sapwood_live, Self)> {
        let bytes = options.memory_limit;
        let (live, map) = if options.values == SAPWOOD_BYTES {
            let choose = |builder| O::choose::<[u8]>(options, builder);
            let (live, map) = plan.make(bytes, choose, SharedMap::domain)?;
            (live, Kinds::Bytes(map))
        } else {
            let choose = |builder| O::choose::<u64>(options, builder);
            let (live, map) = plan.make(bytes, choose, SharedMap::domain)?;
            (live, Kinds::Numbers(map))
        };
        Ok((live, SharedBody::plain(map)))
    }
}

impl Lives for TableBody<IpFib<u64>> {
    type Options = sapwood_fib_options;

    fn checked(options: &sapwood_fib_options) -> Outcome<bool> {
        known_flags(options.flags, SAPWOOD_CHECKED)?;
        options.root()?;
        Ok(options.flags & SAPWOOD_CHECKED != 0)
    }

    fn make(plan: &Plan<'_>, options: &sapwood_fib_options) -> Outcome<(*mut sapwood_live, Self)> {
        let root = options.root()?;
        let choose = |builder: Builder<IpFib<u64>>| match root {
            None => builder,
            Some(bits) => builder.root_bits(bits),
        };
        let (live, table) = plan.make(options.memory_limit, choose, IpFib::domain)?;
        Ok((live, TableBody::new(table, plan.checked)))
    }
}

impl Lives for RangesBody {
    type Options = sapwood_ranges_options;

    fn checked(options: &sapwood_ranges_options) -> Outcome<bool> {
        known_flags(options.flags, SAPWOOD_CHECKED)?;
        Ok(options.flags & SAPWOOD_CHECKED != 0)
    }

    fn make(
        plan: &Plan<'_>,
        options: &sapwood_ranges_options,
    ) -> Outcome<(*mut sapwood_live, Self)> {
        let bytes = options.memory_limit;
        let (live, map) = plan.make(bytes, |builder| builder, MapleMap::<u64>::domain)?;
        Ok((live, RangesBody::new(map, plan.checked)))
    }
}

/// Makes a live map, or takes it over, for C.
///
/// # Safety
/// C.
unsafe fn publish<B: Lives>(
    (folder, live_options, take_over): (*const c_char, *const sapwood_live_options, bool),
    options: *const B::Options,
    live: *mut *mut sapwood_live,
    out: *mut *mut Handle<B>,
) -> Outcome {
    let (live, out) = (place(live, "live")?, place(out, "out")?);
    // SAFETY: C.
    unsafe {
        let options = given(options)?;
        let checked = B::checked(&options)?;
        let plan = Plan::new(folder, live_options, take_over, checked)?;
        let (made, body) = B::make(&plan, &options)?;
        *live = made;
        hand_out(out, body, plan.rules())
    }
}

/// What C sees: two functions of each structure, and those of all live maps.
macro_rules! live_api {
    (
        $($(#[doc = $doc:literal])* $name:ident($options:ident, $map:ident, $take_over:literal)),*;
        $($more:tt)*
    ) => {
        c_api!(
            $(
                $(#[doc = $doc])*
                fn $name(
                    folder: *const c_char,
                    live_options: *const sapwood_live_options,
                    options: *const $options,
                    live: *mut *mut sapwood_live,
                    out: *mut *mut $map,
                ) -> c_int {
                    publish((folder, live_options, $take_over), options, live, out)
                }
            )*

            $($more)*
        );
    };
}

live_api!(
    /// Makes an empty live map, and its directory if that is not there. *out is an ordinary
    /// handle: all functions of its type work. Readers of this process belong to the domain of
    /// sapwood_live_domain, so options->domain is NULL. Values are numbers or bytes: -EINVAL for
    /// pointers. memory_limit is that of each part, at most 8 GiB; a fib has two parts of at most 1
    /// GiB. Tables of routes with groups (sapwood_routes) cannot be live: the library for Rust has
    /// another type for these. After a failure nothing is left of the map. O(1).
    ///
    /// This process is the writer until its last handle is freed that belongs to the map: *live,
    /// *out, and domains, readers, transactions, reservations and snapshots. Then readers go on
    /// with what was written last.
    sapwood_store_live_create(sapwood_options, sapwood_store, false),
    sapwood_shared_live_create(sapwood_options, sapwood_shared, false),
    sapwood_point_live_create(sapwood_options, sapwood_point, false),
    sapwood_fib_live_create(sapwood_fib_options, sapwood_fib, false),
    sapwood_ranges_live_create(sapwood_ranges_options, sapwood_ranges, false),
    /// Takes over the map of a writer that has ended. It checks every node of what the writer left,
    /// copies it, and points readers there. A change that had returned is there; one that the
    /// writer's death interrupted is there as a whole or not at all, except that a transaction of a
    /// fib may be there in part. The copy needs room beside the old map: as much as the entries
    /// take. After a failure (-ENOSPC) the map is as it was. O(bytes of the map).
    sapwood_store_live_open(sapwood_options, sapwood_store, true),
    sapwood_shared_live_open(sapwood_options, sapwood_shared, true),
    sapwood_point_live_open(sapwood_options, sapwood_point, true),
    sapwood_fib_live_open(sapwood_fib_options, sapwood_fib, true),
    sapwood_ranges_live_open(sapwood_ranges_options, sapwood_ranges, true);

    /// Frees the handle; the structure's own stays. One thread at a time.
    fn sapwood_live_free(live: *mut sapwood_live) {
        free(live)
    }

    /// Makes a handle of the map's domain, for readers of this process and for stalls. Any thread.
    fn sapwood_live_domain(live: *const sapwood_live, out: *mut *mut sapwood_domain) -> c_int {
        let body = Handle::shared(live)?;
        let out = place(out, "out")?;
        let domain = DomainBody {
            domain: body.domain.clone(),
            checked: body.checked,
        };
        hand_out(out, domain, Handle::rules(live))
    }

    /// Stores how many times processes have taken the map over. Any thread. O(1).
    fn sapwood_live_generation(live: *const sapwood_live, generation: *mut u64) -> c_int {
        let body = Handle::shared(live)?;
        put(generation, "generation", body.live.generation())
    }

    /// readers: it has not announced the newest grace period
    pub const SAPWOOD_LIVE_HOLDS_BACK: c_uint = 1;

    /// readers: the writer does not wait for it; quiescent brings it back
    pub const SAPWOOD_LIVE_EVICTED: c_uint = 2;

    #[derive(Debug)]
    pub struct sapwood_live_reader_info {
        pub size: usize,
        /// of its file; valid until the callback returns
        pub name: *const c_char,
        /// the newest grace period that it has announced; 0: it is offline
        pub seen: u64,
        /// its process, as it says
        pub pid: u32,
        /// SAPWOOD_LIVE_HOLDS_BACK, SAPWOOD_LIVE_EVICTED, SAPWOOD_LIVE_CHECKED
        pub flags: c_uint,
    }

    pub type sapwood_live_reader_fn =
        Option<unsafe extern "C" fn(info: *const sapwood_live_reader_info, ctx: *mut c_void)>;

    /// Calls each(info, ctx) for each living reader in all processes, and returns their number.
    /// each may be NULL. Any thread. O(readers).
    fn sapwood_live_readers(
        live: *const sapwood_live,
        each: sapwood_live_reader_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let body = Handle::shared(live)?;
        let readers = body.live.readers();
        let count = as_int(readers.len());
        let Some(each) = each else { return Ok(count) };
        for reader in readers {
            let flag = |set: bool, flag: c_uint| if set { flag } else { 0 };
            let name = CString::new(reader.name.replace('\0', "?")).unwrap_or_default();
            let info = sapwood_live_reader_info {
                size: size_of::<sapwood_live_reader_info>(),
                name: name.as_ptr(),
                seen: reader.seen,
                pid: reader.pid,
                flags: flag(reader.holds_back, SAPWOOD_LIVE_HOLDS_BACK)
                    | flag(reader.evicted, SAPWOOD_LIVE_EVICTED)
                    | flag(reader.checked, SAPWOOD_LIVE_CHECKED),
            };
            // C gave both for this.
            each(&raw const info, ctx);
        }
        Ok(count)
    }

    /// Deletes the directory, and frees the handle, also on failure. Nobody opens the map any more;
    /// readers that have it open go on with what was written last. The structure's own handle is
    /// freed before or after. One thread at a time.
    fn sapwood_live_remove(live: *mut sapwood_live) -> c_int {
        let body = match Handle::take(live) {
            Ok(body) => body,
            Err(failure) => {
                // The copy of a child of `fork` is freed; the map stays the parent's.
                Handle::leave(live);
                return Err(failure);
            }
        };
        body.live.remove()?;
        Ok(0)
    }
);
