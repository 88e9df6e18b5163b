//! `sapwood_fib`: tables of prefixes of both families, with numbers as values.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::{Ipv4Addr, Ipv6Addr};

use sapwood::lpm::IpFib;
use sapwood::qsbr::Guard;
use sapwood::{Builder, Configure};

use crate::c_api::c_api;
use crate::call::{call, quick};
use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new, sapwood_domain};
use crate::error::{Failure, Outcome};
use crate::handle::{Handle, Rules, free};
use crate::input::{self, Extensible};
use crate::prefix::{self, sapwood_prefix};
use crate::reader::{read, sapwood_reader};
use crate::turn::Turns;
use crate::versions::TableBody;

// SAFETY: integers, of which the first is the size.
unsafe impl Extensible for sapwood_fib_options {
    const NAME: &'static str = "sapwood_fib_options";
}

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

    /// Sets up the builder of a table. Also returns the rules for its handles.
    ///
    /// # Safety
    /// `domain` is NULL, or a domain that may be used.
    pub unsafe fn configure<B: Configure>(
        &self,
        mut builder: B,
        root_bits: impl FnOnce(B, u8) -> B,
        domain: *const sapwood_domain,
    ) -> Outcome<(B, Rules)> {
        known_flags(self.flags, SAPWOOD_CHECKED)?;
        // SAFETY: the caller's promise.
        let (domain, rules) = unsafe { or_new(domain, self.flags & SAPWOOD_CHECKED != 0) }?;
        builder = builder.domain(&domain);
        if self.memory_limit > 0 {
            builder = builder.memory_limit(self.memory_limit);
        }
        if let Some(bits) = self.root()? {
            builder = root_bits(builder, bits);
        }
        Ok((builder, rules))
    }
}

/// Makes a table by C's options.
///
/// # Safety
/// C.
unsafe fn make(
    domain: *const sapwood_domain,
    options: *const sapwood_fib_options,
    out: *mut *mut sapwood_fib,
    build: impl FnOnce(Builder<IpFib<u64>>) -> Outcome<IpFib<u64>>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let options: sapwood_fib_options = unsafe { input::extensible(options) }?;
    // SAFETY: C.
    let (builder, rules) =
        unsafe { options.configure(IpFib::builder(), |b, bits| b.root_bits(bits), domain) }?;
    let body = TableBody {
        table: build(builder)?,
        turns: Turns::default(),
        checked: rules.checked,
    };
    // SAFETY: C.
    unsafe { *out = Handle::into_c(body, rules) };
    Ok(0)
}

/// Writes an old value, if there was one and the caller wants it; returns whether there was one.
///
/// # Safety
/// `to` is NULL, or there is room for a number.
pub unsafe fn put_old(old: Option<u64>, to: *mut u64) -> c_int {
    if let (Some(old), false) = (old, to.is_null()) {
        // SAFETY: the caller's promise.
        unsafe { to.write(old) };
    }
    old.is_some().into()
}

/// The same lookup without a reader, or where there is something to say about the arguments.
#[cold]
#[inline(never)]
unsafe fn lookup4_slowly(
    fib: *const sapwood_fib,
    reader: *const sapwood_reader,
    addr: u32,
    value: *mut u64,
) -> c_int {
    call("sapwood_fib_lookup4", || {
        // SAFETY: C.
        let fib = &unsafe { Handle::shared(fib) }?.table;
        let value = input::place(value, "the place for the value")?;
        let answer = |guard: Guard<'_>| {
            fib.v4()
                .view(guard)
                .lookup_value(Ipv4Addr::from(addr))
                .copied()
        };
        // SAFETY: C.
        let Some(found) = unsafe { read(reader, fib.domain(), answer) }? else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: C.
        unsafe { *value = found };
        Ok(0)
    })
}

/// The same lookup without a reader, or where there is something to say about the arguments.
#[cold]
#[inline(never)]
unsafe fn lookup6_slowly(
    fib: *const sapwood_fib,
    reader: *const sapwood_reader,
    addr: *const u8,
    value: *mut u64,
) -> c_int {
    call("sapwood_fib_lookup6", || {
        // SAFETY: C.
        let fib = &unsafe { Handle::shared(fib) }?.table;
        let value = input::place(value, "the place for the value")?;
        let addr = input::place(addr.cast_mut(), "the address")?;
        // SAFETY: C.
        let addr = Ipv6Addr::from(unsafe { *addr.cast::<[u8; 16]>() });
        let answer = |guard: Guard<'_>| fib.v6().view(guard).lookup_value(addr).copied();
        // SAFETY: C.
        let Some(found) = unsafe { read(reader, fib.domain(), answer) }? else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: C.
        unsafe { *value = found };
        Ok(0)
    })
}

/// How many addresses a part of a batch has. Their answers lie on the stack.
pub(crate) const PART: usize = 64;

/// Looks up addresses in parts: one body for both families.
macro_rules! in_parts {
    ($view:expr, $addrs:expr, $values:expr, $none:expr, $addr:ty) => {{
        let (view, none) = ($view, $none);
        for (addrs, values) in $addrs.chunks(PART).zip($values.chunks_mut(PART)) {
            let mut keys = [<$addr>::UNSPECIFIED; PART];
            for (key, addr) in keys.iter_mut().zip(addrs) {
                *key = <$addr>::from(*addr);
            }
            let mut found = [&none; PART];
            view.lookup_batch_or(&keys[..addrs.len()], &none, &mut found[..addrs.len()]);
            for (value, found) in values.iter_mut().zip(found) {
                *value = *found;
            }
        }
    }};
}

c_api!(
    /// A table that finds the longest prefix of an address: both families in one table, with
    /// numbers as next hops.
    pub type sapwood_fib = Handle<TableBody<IpFib<u64>>>;

    /// The choices for a sapwood_fib and for sapwood_routes.
    #[derive(Debug, Default)]
    pub struct sapwood_fib_options {
        /// sizeof(struct sapwood_fib_options)
        pub size: usize,
        /// SAPWOOD_CHECKED
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
        make(domain, options, out, |builder| Ok(builder.build()?))
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
        make(domain, options, out, |builder| Ok(builder.build_from(all)?))
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
        make(domain, options, out, |builder| Ok(builder.load(path)?))
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
        let body = Handle::shared(fib)?;
        let net = prefix::prefix(prefix)?;
        body.turns.check()?;
        let before = body.table.insert(net, value)?;
        Ok((put_old(before, old) == 0).into())
    }

    /// Removes a prefix; (old) is its value. -ENOENT: it is not there. O(bits).
    fn sapwood_fib_remove(
        fib: *mut sapwood_fib,
        prefix: *const sapwood_prefix,
        old: *mut u64,
    ) -> c_int {
        let body = Handle::shared(fib)?;
        let net = prefix::prefix(prefix)?;
        body.turns.check()?;
        let before = body.table.remove(net)?;
        let found = put_old(before, old);
        Ok(if found == 1 { 0 } else { -libc::ENOENT })
    }

    /// Stores the (value) of exactly this prefix. -ENOENT: it is not there. O(bits).
    fn sapwood_fib_get(
        fib: *const sapwood_fib,
        prefix: *const sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        let body = Handle::shared(fib)?;
        let net = prefix::prefix(prefix)?;
        let found = body.table.get(net);
        let found = put_old(found, value);
        Ok(if found == 1 { 0 } else { -libc::ENOENT })
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
        if !matched.is_null() {
            matched.write(net.into());
        }
        put_old(Some(found), value);
        Ok(0)
    }

    /// The value for an IPv4 address in the host's order: the quickest lookup. -ENOENT as above.
    unsafe extern "C" fn sapwood_fib_lookup4(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addr: u32,
        value: *mut u64,
    ) -> c_int {
        if let (Some(body), Some(through)) = (Handle::quick(fib), Handle::quick(reader)) {
            if let (Some(guard), false) =
                (through.quick_guard(body.table.domain()), value.is_null())
            {
                return quick("sapwood_fib_lookup4", || {
                    let view = body.table.v4().view(guard);
                    match view.lookup_value(Ipv4Addr::from(addr)) {
                        Some(found) => {
                            *value = *found;
                            0
                        }
                        None => -libc::ENOENT,
                    }
                });
            }
        }
        lookup4_slowly(fib, reader, addr, value)
    }

    /// The value for an IPv6 address of 16 bytes in network order. -ENOENT as above.
    unsafe extern "C" fn sapwood_fib_lookup6(
        fib: *const sapwood_fib,
        reader: *const sapwood_reader,
        addr: *const u8,
        value: *mut u64,
    ) -> c_int {
        if let (Some(body), Some(through)) = (Handle::quick(fib), Handle::quick(reader)) {
            if let (Some(guard), false) = (
                through.quick_guard(body.table.domain()),
                value.is_null() || addr.is_null(),
            ) {
                return quick("sapwood_fib_lookup6", || {
                    let view = body.table.v6().view(guard);
                    match view.lookup_value(Ipv6Addr::from(*addr.cast::<[u8; 16]>())) {
                        Some(found) => {
                            *value = *found;
                            0
                        }
                        None => -libc::ENOENT,
                    }
                });
            }
        }
        lookup6_slowly(fib, reader, addr, value)
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
        let answer =
            |guard: Guard<'_>| in_parts!(fib.v4().view(guard), addrs, values, none, Ipv4Addr);
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
        let answer =
            |guard: Guard<'_>| in_parts!(fib.v6().view(guard), addrs, values, none, Ipv6Addr);
        read(reader, fib.domain(), answer)?;
        Ok(0)
    }

    /// The number of prefixes. O(1).
    fn sapwood_fib_len(fib: *const sapwood_fib, len: *mut usize) -> c_int {
        let body = Handle::shared(fib)?;
        let len = input::place(len, "the place for the number")?;
        len.write(body.table.len());
        Ok(0)
    }

    /// The bytes that the table takes from the system. Waits for an open transaction.
    fn sapwood_fib_memory(fib: *const sapwood_fib, bytes: *mut usize) -> c_int {
        let body = Handle::shared(fib)?;
        let bytes = input::place(bytes, "the place for the number")?;
        body.turns.check()?;
        bytes.write(body.table.memory().total());
        Ok(0)
    }

    /// Frees about `budget` nodes that no reader reaches any more; returns how many. Changes do so,
    /// too.
    fn sapwood_fib_reclaim(fib: *mut sapwood_fib, budget: usize) -> c_int {
        let body = Handle::shared(fib)?;
        body.turns.check()?;
        let freed = body.table.v4().reclaim(budget) + body.table.v6().reclaim(budget);
        Ok(c_int::try_from(freed).unwrap_or(c_int::MAX))
    }

    /// Checks every invariant, for tests. -EUCLEAN: one does not hold. O(size).
    fn sapwood_fib_verify(fib: *const sapwood_fib) -> c_int {
        let body = Handle::shared(fib)?;
        body.turns.check()?;
        match body.table.verify() {
            Ok(()) => Ok(0),
            Err(wrong) => Err(Failure::new(libc::EUCLEAN, wrong)),
        }
    }
);
