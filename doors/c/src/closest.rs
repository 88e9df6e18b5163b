//! The answers of a zone for a name, and what proves that a name is not there.

use std::ffi::{c_int, c_uint, c_void};

use sapwood::qp::Closest;

use crate::call::call;
use crate::error::Failure;
use crate::input::{bytes, place};
use crate::value::{CValue, each, sapwood_entry};
use crate::view::sapwood_view;

/// Whether a name is a zone cut.
pub type sapwood_cut_fn =
    Option<unsafe extern "C" fn(entry: *const sapwood_entry, ctx: *mut c_void) -> c_int>;

/// The answer for a name.
#[repr(C)]
pub struct sapwood_closest {
    /// `sizeof` this structure.
    pub size: usize,
    /// Room for the entries at or above the name, topmost first; may be NULL.
    pub chain: *mut sapwood_entry,
    /// How many entries there is room for.
    pub chain_room: usize,
    /// The number of entries at or above the name.
    pub chain_len: usize,
    /// The length of the closest encloser.
    pub encloser: usize,
    /// Whether the name exists.
    pub exists: c_int,
    /// Always 0.
    pub reserved: c_uint,
    /// The entry of the name.
    pub exact: sapwood_entry,
    /// The entry of the longest name at or above it.
    pub ancestor: sapwood_entry,
    /// The entry of the wildcard below the closest encloser.
    pub wildcard: sapwood_entry,
    /// The entry with the greatest key less than the name.
    pub predecessor: sapwood_entry,
    /// The topmost entry for which the caller's function returned something else than 0.
    pub cut: sapwood_entry,
}

/// The caller's function and the entries that it is called for.
struct Cuts {
    is_cut: sapwood_cut_fn,
    ctx: *mut c_void,
    chain: *mut sapwood_entry,
    room: usize,
    count: usize,
    /// The topmost entry for which the function returned something else than 0.
    cut: sapwood_entry,
}

impl Cuts {
    /// # Safety
    /// `out` is a place of the caller's, with room for its chain.
    unsafe fn new(
        is_cut: sapwood_cut_fn,
        ctx: *mut c_void,
        out: *const sapwood_closest,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let (size, chain, room) = unsafe { ((*out).size, (*out).chain, (*out).chain_room) };
        if size != size_of::<sapwood_closest>() {
            return Err(Failure::invalid(
                "the field size of sapwood_closest is not its size",
            ));
        }
        if room > 0 {
            place(chain, "chain")?;
        }
        Ok(Cuts {
            is_cut,
            ctx,
            chain,
            room,
            count: 0,
            cut: sapwood_entry::NONE,
        })
    }

    /// Whether the caller's function says so.
    ///
    /// # Safety
    /// The function may be called with its context.
    unsafe fn asked(&self, entry: &sapwood_entry) -> bool {
        let (entry, ctx) = (&raw const *entry, self.ctx);
        // SAFETY: the caller's promise.
        self.is_cut
            .is_some_and(|is_cut| unsafe { is_cut(entry, ctx) } != 0)
    }

    /// Takes an entry above the name, topmost first.
    ///
    /// # Safety
    /// As for `asked`; the chain has its room.
    unsafe fn take(&mut self, entry: sapwood_entry) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.count < self.room {
                *self.chain.add(self.count) = entry;
            }
            self.count += 1;
            if self.cut.key.data.is_null() && self.asked(&entry) {
                self.cut = entry;
            }
        }
    }

    /// The answer in C.
    fn answer<V: ?Sized + CValue>(&self, found: &Closest<'_, V>) -> sapwood_closest {
        sapwood_closest {
            size: size_of::<sapwood_closest>(),
            chain: self.chain,
            chain_room: self.room,
            chain_len: self.count,
            encloser: found.encloser,
            exists: c_int::from(found.exists),
            reserved: 0,
            exact: sapwood_entry::maybe(found.exact),
            ancestor: sapwood_entry::maybe(found.ancestor),
            wildcard: sapwood_entry::maybe(found.wildcard),
            predecessor: sapwood_entry::maybe(found.predecessor),
            cut: self.cut,
        }
    }
}

/// What a name server needs to answer for a name.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_view_closest(
    view: *const sapwood_view,
    name: *const c_void,
    name_len: usize,
    is_cut: sapwood_cut_fn,
    ctx: *mut c_void,
    out: *mut sapwood_closest,
) -> c_int {
    call("sapwood_view_closest", || {
        // SAFETY: C. No more than `chain_room` entries are written.
        unsafe {
            let body = sapwood_view::body(view)?;
            let name = bytes(name, name_len, "the name")?;
            let out = place(out, "out")?;
            let mut cuts = Cuts::new(is_cut, ctx, out)?;
            each!(&body.source, source => {
                // The search offers each entry above the name, topmost first, until one is a cut.
                // Here all are wanted, so none is; the first cut is remembered.
                let closest = source.reading().closest(name, 0, &mut |key, value: &V| {
                    cuts.take(sapwood_entry::new((key, value)));
                    false
                });
                *out = cuts.answer(&closest);
                Ok(if closest.exact.is_some() { 0 } else { -libc::ENOENT })
            })
        }
    })
}

/// What proves that a name is not there.
#[repr(C)]
pub struct sapwood_denial {
    /// `sizeof` this structure.
    pub size: usize,
    /// Whether the wildcard below the closest encloser exists.
    pub wildcard_exists: c_int,
    /// Always 0.
    pub reserved: c_uint,
    /// The entry with the greatest key less than the name that is below no cut.
    pub predecessor: sapwood_entry,
    /// The same for the wildcard.
    pub wildcard_predecessor: sapwood_entry,
    /// The answer for the name.
    pub closest: sapwood_closest,
}

/// What a signed zone proves of a name that is not there.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_view_denial(
    view: *const sapwood_view,
    name: *const c_void,
    name_len: usize,
    is_cut: sapwood_cut_fn,
    ctx: *mut c_void,
    out: *mut sapwood_denial,
) -> c_int {
    call("sapwood_view_denial", || {
        // SAFETY: C. No more than `chain_room` entries are written.
        unsafe {
            let body = sapwood_view::body(view)?;
            let name = bytes(name, name_len, "the name")?;
            let out = place(out, "out")?;
            if (*out).size != size_of::<sapwood_denial>() {
                return Err(Failure::invalid(
                    "the field size of sapwood_denial is not its size",
                ));
            }
            let mut cuts = Cuts::new(is_cut, ctx, &raw const (*out).closest)?;
            each!(&body.source, source => {
                let reading = source.reading();
                // For the chain, as above. A denial offers other entries, too.
                reading.closest(name, 0, &mut |key, value: &V| {
                    cuts.take(sapwood_entry::new((key, value)));
                    false
                });
                let found = reading.denial(name, 0, &mut |key, value: &V| {
                    cuts.asked(&sapwood_entry::new((key, value)))
                });
                *out = sapwood_denial {
                    size: size_of::<sapwood_denial>(),
                    wildcard_exists: c_int::from(found.wildcard_exists),
                    reserved: 0,
                    predecessor: sapwood_entry::maybe(found.predecessor),
                    wildcard_predecessor: sapwood_entry::maybe(found.wildcard_predecessor),
                    closest: cuts.answer(&found.closest),
                };
                Ok(if found.closest.exact.is_some() { 0 } else { -libc::ENOENT })
            })
        }
    })
}
