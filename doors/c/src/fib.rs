//! `sapwood_fib`: tables of prefixes of both families, with numbers as values.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr;

use sapwood::lpm::{FibParts, IpFib};
use sapwood::qsbr::Guard;

use crate::c_api::c_api;
use crate::call::look_up;
use crate::domain::sapwood_domain;
use crate::error::{Failure, Outcome};
use crate::handle::{Handle, free};
use crate::input::{self, extensible};
use crate::output::{as_int, put, put_found, put_wanted, verified};
use crate::prefix::{self, sapwood_prefix};
use crate::reader::{read, sapwood_reader};
use crate::versions::{self, TableBody};

extensible!(sapwood_fib_options);

impl sapwood_fib_options {
    /// The bits of the root, or `None` for the default.
    pub(crate) fn root(&self) -> Outcome<Option<u8>> {
        match self.root_bits {
            0 => Ok(None),
            bits @ (6 | 12 | 18 | 24) => Ok(Some(bits as u8)),
            other => Err(Failure::invalid(format!(
                "root_bits is {other}; it may be 6, 12, 18 or 24, or 0 for the default"
            ))),
        }
    }
}

/// An address of a family, as C gives it.
trait Address: Copy {
    /// The value of its longest prefix. Inlined into the quick and the slow way.
    fn find(self, fib: &IpFib<u64>, guard: Guard<'_>) -> Option<u64>;
}

impl Address for u32 {
    #[inline(always)]
    fn find(self, fib: &IpFib<u64>, guard: Guard<'_>) -> Option<u64> {
        let view = fib.v4().view(guard);
        view.lookup_value(Ipv4Addr::from(self)).copied()
    }
}

impl Address for [u8; 16] {
    #[inline(always)]
    fn find(self, fib: &IpFib<u64>, guard: Guard<'_>) -> Option<u64> {
        let view = fib.v6().view(guard);
        view.lookup_value(Ipv6Addr::from(self)).copied()
    }
}

/// The value of the longest prefix of an address.
///
/// # Safety
/// C.
#[inline(always)]
unsafe fn value_of<A: Address>(
    name: &'static str,
    (fib, reader): (*const sapwood_fib, *const sapwood_reader),
    addr: Option<A>,
    value: *mut u64,
) -> c_int {
    let quick = move || {
        // SAFETY: C.
        unsafe {
            let (table, through) = (&Handle::quick(fib)?.table, Handle::quick(reader)?);
            let guard = through.quick_guard(table.domain())?;
            if value.is_null() {
                return None;
            }
            Some(put_found(value, addr?.find(table, guard)))
        }
    };
    let slow = move || {
        // SAFETY: C.
        unsafe {
            let table = &Handle::shared(fib)?.table;
            let value = input::place(value, "the place for the value")?;
            let addr = addr.ok_or_else(|| Failure::null("the address"))?;
            let found = read(reader, table.domain(), |guard| addr.find(table, guard))?;
            Ok(put_found(value, found))
        }
    };
    look_up(name, quick, slow)
}

/// Makes a view.
///
/// # Safety
/// C.
unsafe fn view(
    fib: *const sapwood_fib,
    reader: *const sapwood_reader,
    out: *mut sapwood_fib_view,
    parts: impl FnOnce(&IpFib<u64>, Guard<'_>) -> FibParts,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let table = &Handle::shared(fib)?.table;
        let out = input::place(out, "the place for the view")?;
        let through = Handle::shared(reader)?;
        let parts = read(reader, table.domain(), |guard| parts(table, guard))?;
        let is_checked = through.checked();
        out.write(sapwood_fib_view {
            root: if is_checked { ptr::null() } else { parts.root },
            memory: parts.memory.cast(),
            root_bits: parts.root_bits,
            counts_bits: parts.counts_bits.into(),
            fib,
            reader,
            reserved: [0; 2],
        });
        Ok(0)
    }
}

c_api!(
    /// A table that finds the longest prefix of an address: both families in one table, with
    /// numbers as next hops.
    pub type sapwood_fib = Handle<TableBody<IpFib<u64>>>;

    /// The choices for a sapwood_fib and for sapwood_routes.
    #[derive(Debug)]
    pub struct sapwood_fib_options {
        /// sizeof(struct sapwood_fib_options)
        pub size: usize,
        /// SAPWOOD_CHECKED; for sapwood_routes also SAPWOOD_COVER_VOID
        pub flags: c_uint,
        /// that one load resolves: 6, 12, 18 or 24; 0: 18
        pub root_bits: c_uint,
        /// of the prefixes of each family, in bytes; 0: none
        pub memory_limit: usize,
    }

    /// Makes an empty table. domain may be NULL for one of its own, which only pins can read.
    /// O(root).
    fn sapwood_fib_new(
        domain: *const sapwood_domain,
        options: *const sapwood_fib_options,
        out: *mut *mut sapwood_fib,
    ) -> c_int {
        versions::make(domain, options, out, |builder| Ok(builder.build()?))
    }

    /// Makes a table of `count` prefixes in any order, with `values[i]` for `prefixes[i]`; of equal
    /// prefixes the last wins. Quicker than inserting them one by one. O(n log n).
    fn sapwood_fib_build(
        domain: *const sapwood_domain,
        options: *const sapwood_fib_options,
        prefixes: *const sapwood_prefix,
        values: *const u64,
        count: usize,
        out: *mut *mut sapwood_fib,
    ) -> c_int {
        let prefixes = input::items(prefixes, count, "the list of prefixes")?;
        let values = input::items(values, count, "the list of values")?;
        let all = prefixes
            .iter()
            .zip(values)
            .map(|(prefix, value)| Ok((prefix.net()?, *value)))
            .collect::<Outcome<Vec<_>>>()?;
        versions::make(domain, options, out, |builder| Ok(builder.build_from(all)?))
    }

    /// Loads a table from a file whose next hops are numbers, after checking all of it. -EPROTO:
    /// the file is damaged, or has other next hops, which sapwood_fib_file_open reads. O(n log n).
    fn sapwood_fib_open(
        domain: *const sapwood_domain,
        options: *const sapwood_fib_options,
        path: *const c_char,
        out: *mut *mut sapwood_fib,
    ) -> c_int {
        let path = input::path(path)?;
        versions::make(domain, options, out, |builder| Ok(builder.load(path)?))
    }

    /// Frees the handle. Transactions, snapshots and iterators may stay. One thread at a time.
    fn sapwood_fib_free(fib: *mut sapwood_fib) {
        free(fib)
    }

    /// Inserts a prefix, or replaces its value. Returns 1 if it is new, 0 if it was there; then
    /// (old) has the value before. -EINVAL: bits are set after its length. O(bits).
    fn sapwood_fib_insert(
        fib: *mut sapwood_fib,
        prefix: *const sapwood_prefix,
        value: u64,
        old: *mut u64,
    ) -> c_int {
        let table = versions::changed(fib)?;
        let net = prefix::prefix(prefix)?;
        let before = table.insert(net, value)?;
        Ok(c_int::from(put_found(old, before) != 0))
    }

    /// Removes a prefix; (old) is its value. -ENOENT: it is not there. O(bits).
    fn sapwood_fib_remove(
        fib: *mut sapwood_fib,
        prefix: *const sapwood_prefix,
        old: *mut u64,
    ) -> c_int {
        let table = versions::changed(fib)?;
        let net = prefix::prefix(prefix)?;
        Ok(put_found(old, table.remove(net)?))
    }

    /// Stores the (value) of exactly this prefix. -ENOENT: it is not there. O(bits).
    fn sapwood_fib_get(
        fib: *const sapwood_fib,
        prefix: *const sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        let body = Handle::shared(fib)?;
        let net = prefix::prefix(prefix)?;
        Ok(put_found(value, body.table.get(net)))
    }

    /// Finds the longest prefix of an address of 4 or 16 bytes in network order: (matched),
    /// (value). -ENOENT: there is none. With a reader: its thread. O(bits).
    fn sapwood_fib_lookup(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addr: *const c_void,
        addr_len: usize,
        matched: *mut sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        let fib = &Handle::shared(fib)?.table;
        let addr = prefix::address(addr, addr_len)?;
        let answer = |guard: Guard<'_>| {
            fib.view(guard)
                .lookup(addr)
                .map(|(net, value)| (net, *value))
        };
        let Some((net, found)) = read(reader, fib.domain(), answer)? else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(matched, net.into());
        Ok(put_found(value, Some(found)))
    }

    /// The value for an IPv4 address in the host's order: the quickest lookup. -ENOENT as above.
    unsafe extern "C" fn sapwood_fib_lookup4(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addr: u32,
        value: *mut u64,
    ) -> c_int {
        value_of("sapwood_fib_lookup4", (fib, reader), Some(addr), value)
    }

    /// The value for an IPv6 address of 16 bytes in network order. -ENOENT as above.
    unsafe extern "C" fn sapwood_fib_lookup6(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addr: *const u8,
        value: *mut u64,
    ) -> c_int {
        let addr = addr.cast::<[u8; 16]>().as_ref().copied();
        value_of("sapwood_fib_lookup6", (fib, reader), addr, value)
    }

    /// One family of a table, for lookups that the compiler puts into the caller: they are in
    /// sapwood_inline.h. Made by sapwood_fib_view_ipv4 and sapwood_fib_view_ipv6. It may be used on
    /// its reader's thread until the next quiescent state, and sees all commits meanwhile. Its
    /// fields are for that header.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_fib_view {
        /// root words; NULL: lookups are calls, since the reader is a checked one
        pub root: *const u64,
        /// what references count from
        pub memory: *const c_void,
        /// of an address, that the root resolves
        pub root_bits: c_uint,
        /// whether the processor counts bits in one instruction
        pub counts_bits: c_uint,
        pub fib: *const sapwood_fib,
        pub reader: *const sapwood_reader,
        pub reserved: [u64; 2],
    }

    /// Makes a view of the IPv4 prefixes, or of the IPv6 prefixes, for this reader's thread.
    /// -EINVAL: the reader is not one of the table's domain. O(1).
    fn sapwood_fib_view_ipv4(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        out: *mut sapwood_fib_view,
    ) -> c_int {
        view(fib, reader, out, |fib, guard| fib.v4().view(guard).parts())
    }

    fn sapwood_fib_view_ipv6(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        out: *mut sapwood_fib_view,
    ) -> c_int {
        view(fib, reader, out, |fib, guard| fib.v6().view(guard).parts())
    }

    /// Looks up `count` IPv4 addresses in the host's order, whose waits for memory overlap.
    /// `values[i]` becomes the value for `addrs[i]`, or `none` where no prefix has it.
    fn sapwood_fib_lookup4_bulk(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addrs: *const u32,
        count: usize,
        none: u64,
        values: *mut u64,
    ) -> c_int {
        let fib = &Handle::shared(fib)?.table;
        let addrs = input::items(addrs, count, "the list of addresses")?;
        let values = input::items_mut(values, count, "the list of values")?;
        let answer = |guard: Guard<'_>| {
            let view = fib.v4().view(guard);
            prefix::in_parts(addrs, &none, values, |_, addrs: &[Ipv4Addr], found| {
                view.lookup_batch_or(addrs, &none, found);
            });
        };
        read(reader, fib.domain(), answer)?;
        Ok(0)
    }

    /// The same for IPv6 addresses: addrs has count times 16 bytes.
    fn sapwood_fib_lookup6_bulk(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addrs: *const u8,
        count: usize,
        none: u64,
        values: *mut u64,
    ) -> c_int {
        let fib = &Handle::shared(fib)?.table;
        let addrs = input::items(addrs.cast::<[u8; 16]>(), count, "the list of addresses")?;
        let values = input::items_mut(values, count, "the list of values")?;
        let answer = |guard: Guard<'_>| {
            let view = fib.v6().view(guard);
            prefix::in_parts(addrs, &none, values, |_, addrs: &[Ipv6Addr], found| {
                view.lookup_batch_or(addrs, &none, found);
            });
        };
        read(reader, fib.domain(), answer)?;
        Ok(0)
    }

    /// The number of prefixes. O(1).
    fn sapwood_fib_len(fib: *const sapwood_fib, len: *mut usize) -> c_int {
        let body = Handle::shared(fib)?;
        put(len, "the place for the number", body.table.len())
    }

    /// The bytes that the table takes from the system. Waits for an open transaction.
    fn sapwood_fib_memory(fib: *const sapwood_fib, bytes: *mut usize) -> c_int {
        let table = versions::changed(fib)?;
        let bytes = input::place(bytes, "the place for the number")?;
        bytes.write(table.memory().total());
        Ok(0)
    }

    /// Frees about `budget` nodes that no reader reaches any more; returns how many. Changes do so,
    /// too.
    fn sapwood_fib_reclaim(fib: *mut sapwood_fib, budget: usize) -> c_int {
        let table = versions::changed(fib)?;
        let freed = table.v4().reclaim(budget) + table.v6().reclaim(budget);
        Ok(as_int(freed))
    }

    /// Checks every invariant, for tests. -EUCLEAN: one does not hold. O(size).
    fn sapwood_fib_verify(fib: *const sapwood_fib) -> c_int {
        let table = versions::changed(fib)?;
        verified(table.verify())
    }
);
