//! `sapwood_ip_set`: sets of addresses of both families.

use std::ffi::{c_char, c_int, c_void};
use std::net::IpAddr;

use sapwood::lpm::{IpSet, SetError};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::fib_versions::sapwood_fib_snapshot;
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::output::{hand_out, put};
use crate::prefix::{self, sapwood_prefix};

impl Body for IpSet {
    const MAGIC: u32 = u32::from_be_bytes(*b"swIs");
    const NAME: &'static str = "ip_set";
}

impl From<SetError> for Failure {
    fn from(error: SetError) -> Self {
        Failure::invalid(error.to_string())
    }
}

/// The ends of a range that C points to.
///
/// # Safety
/// Both are NULL, or point to `len` bytes.
unsafe fn ends(first: *const c_void, last: *const c_void, len: usize) -> Outcome<(IpAddr, IpAddr)> {
    // SAFETY: the caller's promise.
    unsafe { Ok((prefix::address(first, len)?, prefix::address(last, len)?)) }
}

/// An address in network order, and its number of bytes.
fn octets(addr: IpAddr) -> ([u8; 16], usize) {
    let mut all = [0; 16];
    match addr {
        IpAddr::V4(addr) => {
            all[..4].copy_from_slice(&addr.octets());
            (all, 4)
        }
        IpAddr::V6(addr) => (addr.octets(), 16),
    }
}

c_api!(
    /// A set of addresses of both families, in sorted ranges. Threads may read one at the same
    /// time; nobody reads a set while it is changed. Out of memory, the process ends.
    pub type sapwood_ip_set = Handle<IpSet>;

    /// Makes the empty set; the set of all addresses of `count` prefixes; of a text with a prefix,
    /// an address or a range (192.0.2.1-192.0.2.9) in each line, where a # begins a comment; or of
    /// all prefixes of a snapshot. -EINVAL: a line is none of these; the message says which. O(n
    /// log n).
    fn sapwood_ip_set_new(out: *mut *mut sapwood_ip_set) -> c_int {
        let out = input::place(out, "out")?;
        hand_out(out, IpSet::new(), false)
    }

    fn sapwood_ip_set_build(
        prefixes: *const sapwood_prefix,
        count: usize,
        out: *mut *mut sapwood_ip_set,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let prefixes = input::items(prefixes, count, "the list of prefixes")?;
        let (v4, v6) = prefix::families(prefixes)?;
        let set = IpSet::from_sets(v4.into_iter().collect(), v6.into_iter().collect());
        hand_out(out, set, false)
    }

    fn sapwood_ip_set_parse(text: *const c_char, out: *mut *mut sapwood_ip_set) -> c_int {
        let out = input::place(out, "out")?;
        let text = input::text(text, "the text")?.to_string_lossy();
        hand_out(out, text.parse::<IpSet>()?, false)
    }

    fn sapwood_ip_set_of_fib(
        snapshot: *const sapwood_fib_snapshot,
        out: *mut *mut sapwood_ip_set,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let snapshot = &Handle::shared(snapshot)?.snapshot;
        let set: IpSet = snapshot.iter().map(|(net, _)| net).collect();
        hand_out(out, set, false)
    }

    /// Frees a set. NULL does nothing.
    fn sapwood_ip_set_free(set: *mut sapwood_ip_set) {
        free(set)
    }

    /// Inserts or removes all addresses of a prefix; bits after its length are taken as zeros.
    /// O(n), as ranges behind it move.
    fn sapwood_ip_set_insert(set: *mut sapwood_ip_set, prefix: *const sapwood_prefix) -> c_int {
        let net = prefix::prefix(prefix)?;
        Handle::exclusive(set)?.insert(net);
        Ok(0)
    }

    fn sapwood_ip_set_remove(set: *mut sapwood_ip_set, prefix: *const sapwood_prefix) -> c_int {
        let net = prefix::prefix(prefix)?;
        Handle::exclusive(set)?.remove(net);
        Ok(0)
    }

    /// Inserts or removes the addresses from `first` to `last`, both included, of 4 or 16 bytes in
    /// network order. -EINVAL: the last one is before the first.
    fn sapwood_ip_set_insert_range(
        set: *mut sapwood_ip_set,
        first: *const c_void,
        last: *const c_void,
        addr_len: usize,
    ) -> c_int {
        let (first, last) = ends(first, last, addr_len)?;
        Handle::exclusive(set)?.insert_range(first, last)?;
        Ok(0)
    }

    fn sapwood_ip_set_remove_range(
        set: *mut sapwood_ip_set,
        first: *const c_void,
        last: *const c_void,
        addr_len: usize,
    ) -> c_int {
        let (first, last) = ends(first, last, addr_len)?;
        Handle::exclusive(set)?.remove_range(first, last)?;
        Ok(0)
    }

    /// Returns 1 if the set has this address of 4 or 16 bytes in network order, otherwise 0.
    /// O(log n).
    fn sapwood_ip_set_contains(
        set: *const sapwood_ip_set,
        addr: *const c_void,
        addr_len: usize,
    ) -> c_int {
        let addr = prefix::address(addr, addr_len)?;
        Ok(Handle::shared(set)?.contains(addr).into())
    }

    /// Returns 1 if the set has all addresses of a prefix, or any of them, otherwise 0. O(log n).
    fn sapwood_ip_set_covers(set: *const sapwood_ip_set, prefix: *const sapwood_prefix) -> c_int {
        let net = prefix::prefix(prefix)?;
        Ok(Handle::shared(set)?.covers(net).into())
    }

    fn sapwood_ip_set_overlaps(set: *const sapwood_ip_set, prefix: *const sapwood_prefix) -> c_int {
        let net = prefix::prefix(prefix)?;
        Ok(Handle::shared(set)?.overlaps(net).into())
    }

    /// How two sets are combined.
    pub enum sapwood_set_operation {
        /// the addresses of either
        SAPWOOD_SET_UNION = 1,
        /// the addresses of both
        SAPWOOD_SET_INTERSECTION = 2,
        /// the addresses of the first that the second does not have
        SAPWOOD_SET_DIFFERENCE = 3,
        /// the addresses of one of them only
        SAPWOOD_SET_SYMMETRIC_DIFFERENCE = 4,
    }

    /// Makes a new set of two; or of all addresses that a set does not have. O(n).
    fn sapwood_ip_set_combine(
        set: *const sapwood_ip_set,
        operation: c_int,
        other: *const sapwood_ip_set,
        out: *mut *mut sapwood_ip_set,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let (set, other) = (Handle::shared(set)?, Handle::shared(other)?);
        let made = match operation {
            SAPWOOD_SET_UNION => set.union(other),
            SAPWOOD_SET_INTERSECTION => set.intersection(other),
            SAPWOOD_SET_DIFFERENCE => set.difference(other),
            SAPWOOD_SET_SYMMETRIC_DIFFERENCE => set.symmetric_difference(other),
            unknown => {
                let text = format!("{unknown} is no operation of sets; they are 1 to 4");
                return Err(Failure::invalid(text));
            }
        };
        hand_out(out, made, false)
    }

    fn sapwood_ip_set_complement(
        set: *const sapwood_ip_set,
        out: *mut *mut sapwood_ip_set,
    ) -> c_int {
        let out = input::place(out, "out")?;
        hand_out(out, Handle::shared(set)?.complement(), false)
    }

    /// Returns 1 if both have the same addresses, or if all addresses of `set` are in `other`,
    /// otherwise 0. O(n).
    fn sapwood_ip_set_equal(set: *const sapwood_ip_set, other: *const sapwood_ip_set) -> c_int {
        Ok((Handle::shared(set)? == Handle::shared(other)?).into())
    }

    fn sapwood_ip_set_is_subset(set: *const sapwood_ip_set, other: *const sapwood_ip_set) -> c_int {
        Ok(Handle::shared(set)?
            .is_subset(Handle::shared(other)?)
            .into())
    }

    /// The number of ranges that do not touch each other; 0: the set is empty. O(1).
    fn sapwood_ip_set_ranges(set: *const sapwood_ip_set, count: *mut usize) -> c_int {
        let set = Handle::shared(set)?;
        let all = set.v4().ranges().len() + set.v6().ranges().len();
        put(count, "the place for the number", all)
    }

    /// Is called with prefixes or ranges in order, IPv4 first. It returns 0 to go on; another
    /// number ends the walk.
    pub type sapwood_ip_set_fn =
        Option<unsafe extern "C" fn(prefix: *const sapwood_prefix, ctx: *mut c_void) -> c_int>;

    pub type sapwood_ip_set_range_fn = Option<
        unsafe extern "C" fn(
            first: *const u8,
            last: *const u8,
            addr_len: usize,
            ctx: *mut c_void,
        ) -> c_int,
    >;

    /// Calls each(...) with the fewest prefixes of the set, or with its ranges, and returns 0 or
    /// what `each` returned. O(n).
    fn sapwood_ip_set_each(
        set: *const sapwood_ip_set,
        each: sapwood_ip_set_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let set = Handle::shared(set)?;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        for net in set.prefixes() {
            let prefix = sapwood_prefix::from(net);
            let answer = each(&raw const prefix, ctx);
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }

    fn sapwood_ip_set_each_range(
        set: *const sapwood_ip_set,
        each: sapwood_ip_set_range_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let set = Handle::shared(set)?;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        for (first, last) in set.ranges() {
            let ((first, len), (last, _)) = (octets(first), octets(last));
            let answer = each(first.as_ptr(), last.as_ptr(), len, ctx);
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }
);
