//! Maps in windows of an arena that this process writes and BPF programs read: ordinary handles of
//! stores, shared maps and point maps.
//!
//! A handle has a clone of the structure that the window's handle has. The window's memory lasts as
//! long as either.

use std::ffi::{c_char, c_int};

use sapwood::qp::{Ordered, PointMap, QpShared, QpStore, Unordered};
use sapwood::qsbr::Domain;
use sapwood_bpf::{
    BpfArena, CountedInWindow, NamesInWindow, WindowInfo, WindowMap, WindowMapBuilder,
};

use crate::bpf::{must_be_new, name, sapwood_bpf_arena};
use crate::c_api::c_api;
use crate::domain::{DomainBody, sapwood_domain};
use crate::error::Outcome;
use crate::handle::{Body, Handle, free};
use crate::input::{given, place};
use crate::live_writers::Lives;
use crate::maps::{SAPWOOD_INDEX, sapwood_options, sapwood_point, sapwood_shared, sapwood_store};
use crate::output::hand_out;
use crate::shared::SharedBody;
use crate::store::StoreBody;
use crate::value::{Kinds, SAPWOOD_BYTES};

/// A map in a window, of any structure.
trait AnyWindow: Send + Sync {
    /// See [`WindowMap::window`].
    fn info(&self) -> &WindowInfo;
    /// See [`WindowMap::leave`].
    fn leave(self: Box<Self>);
}

impl<M: Send + Sync> AnyWindow for WindowMap<M> {
    fn info(&self) -> &WindowInfo {
        self.window()
    }

    fn leave(self: Box<Self>) {
        (*self).leave();
    }
}

/// The inside of the handle of a window.
pub struct WindowBody {
    window: Box<dyn AnyWindow>,
    domain: Domain,
    checked: bool,
}

impl Body for WindowBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBw");
    const NAME: &'static str = "window";
}

/// What the functions that make maps in windows have in common.
struct Plan<'a> {
    arena: &'a BpfArena,
    name: &'a str,
    take_over: bool,
    checked: bool,
}

impl Plan<'_> {
    /// Makes the map, or takes it over, with at most this many bytes of address space; 0: as many
    /// as the arena has left.
    fn make<M>(
        &self,
        bytes: usize,
        choose: impl FnOnce(WindowMapBuilder<M>) -> WindowMapBuilder<M>,
        domain: impl FnOnce(&M) -> &Domain,
    ) -> Outcome<(WindowBody, M)>
    where
        M: NamesInWindow + Clone + Send + Sync + 'static,
    {
        let mut builder = choose(WindowMap::<M>::builder(self.arena, self.name));
        if bytes != 0 {
            builder = builder.bytes(bytes);
        }
        let window = match self.take_over {
            false => {
                must_be_new(self.arena, self.name)?;
                builder.build()?
            }
            true => builder.take_over()?,
        };
        let map = M::clone(&window);
        let body = WindowBody {
            domain: domain(&map).clone(),
            window: Box::new(window),
            checked: self.checked,
        };
        Ok((body, map))
    }
}

/// Limits the entries as the options say.
fn counted<M: CountedInWindow>(
    options: &sapwood_options,
    builder: WindowMapBuilder<M>,
) -> WindowMapBuilder<M> {
    match options.max_entries {
        0 => builder,
        most => builder.max_entries(most),
    }
}

/// A structure that can lie in a window, in the body of its handle. It can be live, too, and the
/// rules for its options are the same.
trait InWindow: Lives<Options = sapwood_options> {
    /// Makes the map, or takes it over: the window, and its own body.
    fn in_window(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(WindowBody, Self)>;
}

impl InWindow for SharedBody<Ordered> {
    fn in_window(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(WindowBody, Self)> {
        // With the options' choices.
        macro_rules! made {
            ($kind:ident $value:ty) => {{
                let choose = |builder| {
                    let builder = counted::<QpShared<$value>>(options, builder);
                    match options.flags & SAPWOOD_INDEX {
                        0 => builder,
                        _ => builder.with_index(),
                    }
                };
                let domain = QpShared::<$value>::domain;
                let (window, map) = plan.make(options.memory_limit, choose, domain)?;
                Ok((window, SharedBody::plain(Kinds::$kind(map))))
            }};
        }
        match options.values {
            SAPWOOD_BYTES => made!(Bytes[u8]),
            _ => made!(Numbers u64),
        }
    }
}

impl InWindow for SharedBody<Unordered> {
    fn in_window(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(WindowBody, Self)> {
        let bytes = options.memory_limit;
        let (window, map) = if options.values == SAPWOOD_BYTES {
            let choose = |builder| counted::<PointMap<[u8]>>(options, builder);
            let (window, map) = plan.make(bytes, choose, PointMap::domain)?;
            (window, Kinds::Bytes(map))
        } else {
            let choose = |builder| counted::<PointMap<u64>>(options, builder);
            let (window, map) = plan.make(bytes, choose, PointMap::domain)?;
            (window, Kinds::Numbers(map))
        };
        Ok((window, SharedBody::plain(map)))
    }
}

impl InWindow for StoreBody {
    fn in_window(plan: &Plan<'_>, options: &sapwood_options) -> Outcome<(WindowBody, Self)> {
        let bytes = options.memory_limit;
        let (window, store) = if options.values == SAPWOOD_BYTES {
            let (window, store) = plan.make(bytes, |builder| builder, QpStore::<[u8]>::domain)?;
            (window, Kinds::Bytes(store))
        } else {
            let (window, store) = plan.make(bytes, |builder| builder, QpStore::<u64>::domain)?;
            (window, Kinds::Numbers(store))
        };
        Ok((window, StoreBody::plain(store)))
    }
}

/// Makes a map in a window, or takes it over, for C.
///
/// # Safety
/// C.
unsafe fn publish<B: InWindow>(
    arena: *const sapwood_bpf_arena,
    window_name: *const c_char,
    take_over: bool,
    options: *const sapwood_options,
    window: *mut *mut sapwood_bpf_window,
    out: *mut *mut Handle<B>,
) -> Outcome {
    let (window, out) = (place(window, "window")?, place(out, "out")?);
    // SAFETY: C.
    unsafe {
        let body = Handle::shared(arena)?;
        let options = given(options)?;
        let rules = Handle::rules(arena).or_checked(B::checked(&options)?);
        let plan = Plan {
            arena: &body.arena,
            name: name(window_name, "the name")?,
            take_over,
            checked: rules.checked,
        };
        let (made, body) = B::in_window(&plan, &options)?;
        hand_out(window, made, rules)?;
        hand_out(out, body, rules)
    }
}

/// What C sees: two functions of each structure, and those of all windows.
macro_rules! windows_api {
    (
        $($(#[doc = $doc:literal])* $name:ident($map:ident, $take_over:literal)),*;
        $($more:tt)*
    ) => {
        c_api!(
            /// This process writes such a map, and programs read it (sapwood/qp.bpf.h): whole keys,
            /// order, prefixes. A change is seen by programs at once, without a system call.
            const SECTION: &str = "Maps that a process writes and BPF programs read";

            /// A map's window, beside the handle of its structure.
            pub type sapwood_bpf_window = Handle<WindowBody>;

            $(
                $(#[doc = $doc])*
                fn $name(
                    arena: *const sapwood_bpf_arena,
                    name: *const c_char,
                    options: *const sapwood_options,
                    window: *mut *mut sapwood_bpf_window,
                    out: *mut *mut $map,
                ) -> c_int {
                    publish(arena, name, $take_over, options, window, out)
                }
            )*

            $($more)*
        );
    };
}

windows_api!(
    /// Makes an empty map in a window of this name (1 to 24 bytes). *out is an ordinary handle: all
    /// functions of its type work. Readers of this process belong to the domain of
    /// sapwood_bpf_window_domain, so options->domain is NULL. Values are numbers (a program reads
    /// sw_u64(place)) or bytes (sw_qp_value): -EINVAL for pointers. memory_limit is the window's
    /// address space; 0: all that the arena has left, so that no second map has room. A point map
    /// has the index alone: programs look whole keys up. SAPWOOD_INDEX gives a shared map one, too.
    /// This process becomes the arena's owner. Any thread. It waits for no program.
    sapwood_bpf_shared_create(sapwood_shared, false),
    sapwood_bpf_point_create(sapwood_point, false),
    sapwood_bpf_store_create(sapwood_store, false),
    /// Takes over the map that a dead owner left, of any of these structures. It checks every word,
    /// copies the entries into a new window of the same number, and points programs there: they
    /// find all entries at any time. The arena must have room for both maps. -EBUSY: the owner
    /// lives. After a failure the map is as it was. O(bytes of the map).
    sapwood_bpf_shared_open(sapwood_shared, true),
    sapwood_bpf_point_open(sapwood_point, true),
    sapwood_bpf_store_open(sapwood_store, true);

    /// Closes the window: programs no longer find the map. The structure's own handle stays, and
    /// keeps the memory. One thread at a time.
    fn sapwood_bpf_window_free(window: *mut sapwood_bpf_window) {
        free(window)
    }

    /// Frees the handle, and leaves the window and the map to programs and to the next owner. For a
    /// process that is about to end: what the map has in this process is not freed. One thread at a
    /// time.
    fn sapwood_bpf_window_leave(window: *mut sapwood_bpf_window) -> c_int {
        Handle::take(window)?.window.leave();
        Ok(0)
    }

    /// Returns the number of the window, by which programs name the map. Any thread. O(1).
    fn sapwood_bpf_window_number(window: *const sapwood_bpf_window) -> c_int {
        Ok(Handle::shared(window)?.window.info().number as c_int)
    }

    /// Makes a handle of the map's domain, for readers of this process. Any thread.
    fn sapwood_bpf_window_domain(
        window: *const sapwood_bpf_window,
        out: *mut *mut sapwood_domain,
    ) -> c_int {
        let body = Handle::shared(window)?;
        let out = place(out, "out")?;
        let domain = DomainBody {
            domain: body.domain.clone(),
            checked: body.checked,
        };
        hand_out(out, domain, Handle::rules(window))
    }
);
