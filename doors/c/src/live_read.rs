//! Lookups of readers of live maps.

use std::ffi::{c_int, c_uchar, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::c_api::{c_api, searches};
use crate::error::{Failure, Outcome};
use crate::input::{bytes, items, items_mut, place};
use crate::live_lookups::Which;
use crate::live_reader::{LiveReaderBody, sapwood_live_reader};
use crate::output::put_wanted;
use crate::prefix::{self, sapwood_prefix};
use crate::ranges::{put_entry, sapwood_range};
use crate::shared::sapwood_entry_fn;
use crate::value::{Key, sapwood_bytes, sapwood_value};

/// Copies one part of an entry, if it is wanted and there is room.
unsafe fn put(from: &[u8], to: *mut c_void, room: usize, what: &str) -> Outcome<()> {
    if to.is_null() {
        return Ok(());
    }
    if from.len() > room {
        return Err(Failure::new(
            libc::E2BIG,
            format!("{what} of {} bytes does not fit into {room}", from.len()),
        ));
    }
    // SAFETY: C. There is room.
    unsafe { to.cast::<u8>().copy_from(from.as_ptr(), from.len()) };
    Ok(())
}

unsafe fn copy(
    reader: *const sapwood_live_reader,
    (key, key_len): (*const c_void, usize),
    out: *mut sapwood_copy,
    which: Which,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let lookups = LiveReaderBody::online(reader)?;
        let key = bytes(key, key_len, "the key")?;
        let out = place(out, "out")?;
        if (*out).size != size_of::<sapwood_copy>() {
            return Err(Failure::invalid(
                "the field size of sapwood_copy is not its size",
            ));
        }
        let copied = lookups.copy(which, key, &mut |key, value| {
            ((*out).key_len, (*out).value_len) = (key.len(), value.len());
            put(key, (*out).key, (*out).key_room, "the key")?;
            put(value, (*out).value, (*out).value_room, "the value")?;
            Ok(0)
        })?;
        Ok(copied.unwrap_or(-libc::ENOENT))
    }
}

/// Looks up the value of one address.
unsafe fn route(reader: *const sapwood_live_reader, addr: IpAddr, value: *mut u64) -> Outcome {
    // SAFETY: C.
    unsafe {
        let value = place(value, "the place for the value")?;
        let Some(found) = LiveReaderBody::online(reader)?.route(addr)? else {
            return Ok(-libc::ENOENT);
        };
        *value = found;
    }
    Ok(0)
}

c_api!(
    /// As the functions of stores, shared maps and point maps. -ENOTSUP: a reader that checks.
    fn sapwood_live_get(
        reader: *const sapwood_live_reader,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let key = bytes(key, key_len, "the key")?;
        let Some(found) = lookups.get(key)? else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(value, found);
        Ok(0)
    }

    fn sapwood_live_get_many(
        reader: *const sapwood_live_reader,
        keys: *const sapwood_bytes,
        count: usize,
        values: *mut sapwood_value,
        found: *mut c_uchar,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let keys = Key::all(items(keys, count, "keys")?)?;
        lookups.get_many(keys, values, found)
    }

    /// Room for a copy of an entry. A number has the 8 bytes of a uint64_t.
    #[derive(Debug)]
    pub struct sapwood_copy {
        /// sizeof(struct sapwood_copy), set by the caller
        pub size: usize,
        /// room for the key; NULL: it is not wanted
        pub key: *mut c_void,
        /// in bytes, set by the caller
        pub key_room: usize,
        pub key_len: usize,
        /// room for the value; NULL: it is not wanted
        pub value: *mut c_void,
        /// in bytes, set by the caller
        pub value_room: usize,
        pub value_len: usize,
    }

    searches!(
        reader: *const sapwood_live_reader, out: *mut sapwood_copy, copy,
        /// Copies the entry of a key, the one with the least greater key, or the one with the
        /// longest key that is a prefix of `key`. The lengths are stored also where there is no
        /// room: -E2BIG. Readers of both kinds. A point map has no order.
        sapwood_live_copy: Which::Exact,
        sapwood_live_copy_after: Which::After,
        sapwood_live_copy_longest_prefix: Which::LongestPrefix
    );

    /// Calls each(entry, ctx) for all entries; returns 0, or what ended the walk. The keys of a
    /// store, and what a reader that checks gives, are copies, which are valid until the callback
    /// returns.
    fn sapwood_live_each(
        reader: *const sapwood_live_reader,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        // C gave both for this.
        lookups.each(&mut |entry| each(&raw const entry, ctx))
    }

    /// As the functions of sapwood_fib. A reader that checks looks up many one after the other.
    fn sapwood_live_lookup(
        reader: *const sapwood_live_reader,
        addr: *const c_void,
        addr_len: usize,
        matched: *mut sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let addr = prefix::address(addr, addr_len)?;
        let Some((net, found)) = lookups.prefix(addr)? else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(matched, net.into());
        put_wanted(value, found);
        Ok(0)
    }

    fn sapwood_live_lookup4(
        reader: *const sapwood_live_reader,
        addr: u32,
        value: *mut u64,
    ) -> c_int {
        route(reader, Ipv4Addr::from(addr).into(), value)
    }

    fn sapwood_live_lookup6(
        reader: *const sapwood_live_reader,
        addr: *const u8,
        value: *mut u64,
    ) -> c_int {
        let addr = place(addr.cast_mut(), "the address")?;
        let addr = Ipv6Addr::from(*addr.cast::<[u8; 16]>());
        route(reader, addr.into(), value)
    }

    fn sapwood_live_lookup4_bulk(
        reader: *const sapwood_live_reader,
        addrs: *const u32,
        count: usize,
        none: u64,
        values: *mut u64,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let addrs = items(addrs, count, "the list of addresses")?;
        let values = items_mut(values, count, "the list of values")?;
        lookups.routes4(addrs, none, values)?;
        Ok(0)
    }

    fn sapwood_live_lookup6_bulk(
        reader: *const sapwood_live_reader,
        addrs: *const u8,
        count: usize,
        none: u64,
        values: *mut u64,
    ) -> c_int {
        let lookups = LiveReaderBody::online(reader)?;
        let addrs = items(addrs.cast::<[u8; 16]>(), count, "the list of addresses")?;
        let values = items_mut(values, count, "the list of values")?;
        lookups.routes6(addrs, none, values)?;
        Ok(0)
    }

    /// As sapwood_ranges_get_entry and sapwood_ranges_next.
    fn sapwood_live_range(
        reader: *const sapwood_live_reader,
        index: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        let found = LiveReaderBody::online(reader)?.range(index, false)?;
        Ok(put_entry(found, entry))
    }

    fn sapwood_live_range_next(
        reader: *const sapwood_live_reader,
        from: u64,
        entry: *mut sapwood_range,
    ) -> c_int {
        let found = LiveReaderBody::online(reader)?.range(from, true)?;
        Ok(put_entry(found, entry))
    }
);
