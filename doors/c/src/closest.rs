//! The answers of a zone for a name, and what proves that a name is not there.

use std::ffi::{c_int, c_uint, c_void};

use sapwood::qp::Closest;

use crate::c_api::c_api;
use crate::error::Failure;
use crate::input::{bytes, place};
use crate::ordered::Copies;
use crate::value::{CValue, each, sapwood_entry};
use crate::view::sapwood_view;

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
    fn answer<V: ?Sized + CValue>(
        &self,
        found: Closest<'_, V>,
        copies: &mut Copies,
    ) -> sapwood_closest {
        sapwood_closest {
            size: size_of::<sapwood_closest>(),
            chain: self.chain,
            chain_room: self.room,
            chain_len: self.count,
            encloser: found.encloser,
            exists: c_int::from(found.exists),
            reserved: 0,
            exact: copies.maybe(found.exact),
            ancestor: copies.maybe(found.ancestor),
            wildcard: copies.maybe(found.wildcard),
            predecessor: copies.maybe(found.predecessor),
            cut: self.cut,
        }
    }
}

c_api!(
    /// Returns something else than 0 for the entry of a zone cut.
    pub type sapwood_cut_fn =
        Option<unsafe extern "C" fn(entry: *const sapwood_entry, ctx: *mut c_void) -> c_int>;

    pub struct sapwood_closest {
        /// sizeof(struct sapwood_closest), set by the caller
        pub size: usize,
        /// room for the entries at or above the name; may be NULL
        pub chain: *mut sapwood_entry,
        /// for how many there is room, set by the caller
        pub chain_room: usize,
        /// how many there are, topmost first; those beyond the room are left out
        pub chain_len: usize,
        /// the closest encloser (RFC 4592) is this many bytes of the name
        pub encloser: usize,
        /// the name has an entry, or one lies below it
        pub exists: c_int,
        pub reserved: c_uint,
        /// of the name itself
        pub exact: sapwood_entry,
        /// of the longest name at or above it that has one
        pub ancestor: sapwood_entry,
        /// of `*` below the closest encloser, unless the name exists
        pub wildcard: sapwood_entry,
        /// with the greatest key less than the name
        pub predecessor: sapwood_entry,
        /// the topmost for which is_cut returned something else than 0
        pub cut: sapwood_entry,
    }

    /// Stores what a name server needs to answer for a name, in one descent. Keys are those of
    /// sapwood_key_dns_name. is_cut may be NULL. Returns 0 if the name has an entry, otherwise
    /// -ENOENT with everything else stored.
    fn sapwood_view_closest(
        view: *const sapwood_view,
        name: *const c_void,
        name_len: usize,
        is_cut: sapwood_cut_fn,
        ctx: *mut c_void,
        out: *mut sapwood_closest,
    ) -> c_int {
        // No more than `chain_room` entries are written.
        let body = sapwood_view::body(view)?;
        let name = bytes(name, name_len, "the name")?;
        let out = place(out, "out")?;
        let mut cuts = Cuts::new(is_cut, ctx, out)?;
        each!(&body.source, source => {
            // The search offers each entry above the name, topmost first, until one is a cut.
            // Here all are wanted, so none is; the first cut is remembered.
            let mut copies = Copies::default();
            let closest = source.reading().closest(name, 0, &mut |key, value: &V| {
                cuts.take(copies.lent(source, (key, value)));
                false
            });
            let exact = closest.exact.is_some();
            *out = cuts.answer(closest, &mut copies);
            Ok(if exact { 0 } else { -libc::ENOENT })
        })
    }

    /// What a signed zone proves of a name that is not there. Names below a cut own no NSEC
    /// records; the apex is no cut.
    pub struct sapwood_denial {
        /// sizeof(struct sapwood_denial), set by the caller
        pub size: usize,
        /// `*` below the closest encloser has an entry, or one lies below it
        pub wildcard_exists: c_int,
        pub reserved: c_uint,
        /// the greatest key less than the name, and below no cut
        pub predecessor: sapwood_entry,
        /// the same for the wildcard; unless the name exists
        pub wildcard_predecessor: sapwood_entry,
        /// as sapwood_view_closest stores it; its size, chain and room are
        /// set by the caller
        pub closest: sapwood_closest,
    }

    /// Stores what sapwood_view_closest stores, and the owners of the NSEC records that cover the
    /// name and the wildcard. It searches twice or more, so call it only where proofs are wanted.
    /// is_cut is also called for entries above the predecessors. Returns 0 if the name has an
    /// entry, otherwise -ENOENT with everything else stored.
    fn sapwood_view_denial(
        view: *const sapwood_view,
        name: *const c_void,
        name_len: usize,
        is_cut: sapwood_cut_fn,
        ctx: *mut c_void,
        out: *mut sapwood_denial,
    ) -> c_int {
        // No more than `chain_room` entries are written.
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
            let mut copies = Copies::default();
            // For the chain, as above. A denial offers other entries, too.
            reading.closest(name, 0, &mut |key, value: &V| {
                cuts.take(copies.lent(source, (key, value)));
                false
            });
            let found = reading.denial(name, 0, &mut |key, value: &V| {
                cuts.asked(&sapwood_entry::new((key, value)))
            });
            let exact = found.closest.exact.is_some();
            *out = sapwood_denial {
                size: size_of::<sapwood_denial>(),
                wildcard_exists: c_int::from(found.wildcard_exists),
                reserved: 0,
                predecessor: copies.maybe(found.predecessor),
                wildcard_predecessor: copies.maybe(found.wildcard_predecessor),
                closest: cuts.answer(found.closest, &mut copies),
            };
            Ok(if exact { 0 } else { -libc::ENOENT })
        })
    }
);
