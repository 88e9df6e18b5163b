//! Lookups of readers of live maps.

use std::ffi::{c_int, c_uchar, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::call::call;
use crate::error::{Failure, Outcome};
use crate::input::{bytes, items, items_mut, place};
use crate::live_lookups::Which;
use crate::live_reader::{LiveReaderBody, sapwood_live_reader};
use crate::prefix::{self, sapwood_prefix};
use crate::ranges::{put_entry, sapwood_range};
use crate::shared::sapwood_entry_fn;
use crate::value::{Key, sapwood_bytes, sapwood_value};

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_get(
    reader: *const sapwood_live_reader,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    call("sapwood_live_get", || {
        // SAFETY: C.
        unsafe {
            let lookups = LiveReaderBody::online(reader)?;
            let key = bytes(key, key_len, "the key")?;
            let Some(found) = lookups.get(key)? else {
                return Ok(-libc::ENOENT);
            };
            if !value.is_null() {
                *value = found;
            }
        }
        Ok(0)
    })
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_get_many(
    reader: *const sapwood_live_reader,
    keys: *const sapwood_bytes,
    count: usize,
    values: *mut sapwood_value,
    found: *mut c_uchar,
) -> c_int {
    call("sapwood_live_get_many", || {
        // SAFETY: C.
        unsafe {
            let lookups = LiveReaderBody::online(reader)?;
            let keys = Key::all(items(keys, count, "keys")?)?;
            lookups.get_many(keys, values, found)
        }
    })
}

/// Room for a copy of an entry.
#[repr(C)]
#[derive(Debug)]
pub struct sapwood_copy {
    /// `sizeof` this structure.
    pub size: usize,
    /// Room for the key; NULL: it is not wanted.
    pub key: *mut c_void,
    /// Bytes of this room.
    pub key_room: usize,
    /// The length of the key.
    pub key_len: usize,
    /// Room for the value; NULL: it is not wanted.
    pub value: *mut c_void,
    /// Bytes of this room.
    pub value_room: usize,
    /// The length of the value.
    pub value_len: usize,
}

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
    name: &'static str,
    reader: *const sapwood_live_reader,
    (key, key_len): (*const c_void, usize),
    out: *mut sapwood_copy,
    which: Which,
) -> c_int {
    call(name, || {
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
    })
}

/// Copies the entry of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_copy(
    reader: *const sapwood_live_reader,
    key: *const c_void,
    key_len: usize,
    out: *mut sapwood_copy,
) -> c_int {
    let key = (key, key_len);
    // SAFETY: C.
    unsafe { copy("sapwood_live_copy", reader, key, out, Which::Exact) }
}

/// Copies the entry with the least key greater than a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_copy_after(
    reader: *const sapwood_live_reader,
    key: *const c_void,
    key_len: usize,
    out: *mut sapwood_copy,
) -> c_int {
    let key = (key, key_len);
    // SAFETY: C.
    unsafe { copy("sapwood_live_copy_after", reader, key, out, Which::After) }
}

/// Copies the entry with the longest key that is a prefix of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_copy_longest_prefix(
    reader: *const sapwood_live_reader,
    key: *const c_void,
    key_len: usize,
    out: *mut sapwood_copy,
) -> c_int {
    let (key, which) = ((key, key_len), Which::LongestPrefix);
    // SAFETY: C.
    unsafe { copy("sapwood_live_copy_longest_prefix", reader, key, out, which) }
}

/// Calls a function with all entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_each(
    reader: *const sapwood_live_reader,
    each: sapwood_entry_fn,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_live_each", || {
        // SAFETY: C.
        let lookups = unsafe { LiveReaderBody::online(reader) }?;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        // SAFETY: C gave both for this.
        lookups.each(&mut |entry| unsafe { each(&raw const entry, ctx) })
    })
}

/// The longest prefix of an address.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_lookup(
    reader: *const sapwood_live_reader,
    addr: *const c_void,
    addr_len: usize,
    matched: *mut sapwood_prefix,
    value: *mut u64,
) -> c_int {
    call("sapwood_live_lookup", || {
        // SAFETY: C.
        unsafe {
            let lookups = LiveReaderBody::online(reader)?;
            let addr = prefix::address(addr, addr_len)?;
            let Some((net, found)) = lookups.prefix(addr)? else {
                return Ok(-libc::ENOENT);
            };
            if !matched.is_null() {
                *matched = net.into();
            }
            if !value.is_null() {
                *value = found;
            }
        }
        Ok(0)
    })
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

/// The value of the longest prefix of an IPv4 address.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_lookup4(
    reader: *const sapwood_live_reader,
    addr: u32,
    value: *mut u64,
) -> c_int {
    // SAFETY: C.
    call("sapwood_live_lookup4", || unsafe {
        route(reader, Ipv4Addr::from(addr).into(), value)
    })
}

/// The value of the longest prefix of an IPv6 address.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_lookup6(
    reader: *const sapwood_live_reader,
    addr: *const u8,
    value: *mut u64,
) -> c_int {
    // SAFETY: C.
    call("sapwood_live_lookup6", || unsafe {
        let addr = place(addr.cast_mut(), "the address")?;
        let addr = Ipv6Addr::from(*addr.cast::<[u8; 16]>());
        route(reader, addr.into(), value)
    })
}

/// The values of many IPv4 addresses.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_lookup4_bulk(
    reader: *const sapwood_live_reader,
    addrs: *const u32,
    count: usize,
    none: u64,
    values: *mut u64,
) -> c_int {
    call("sapwood_live_lookup4_bulk", || {
        // SAFETY: C.
        unsafe {
            let lookups = LiveReaderBody::online(reader)?;
            let addrs = items(addrs, count, "the list of addresses")?;
            let values = items_mut(values, count, "the list of values")?;
            lookups.routes4(addrs, none, values)?;
        }
        Ok(0)
    })
}

/// The values of many IPv6 addresses.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_lookup6_bulk(
    reader: *const sapwood_live_reader,
    addrs: *const u8,
    count: usize,
    none: u64,
    values: *mut u64,
) -> c_int {
    call("sapwood_live_lookup6_bulk", || {
        // SAFETY: C.
        unsafe {
            let lookups = LiveReaderBody::online(reader)?;
            let addrs = items(addrs.cast::<[u8; 16]>(), count, "the list of addresses")?;
            let values = items_mut(values, count, "the list of values")?;
            lookups.routes6(addrs, none, values)?;
        }
        Ok(0)
    })
}

/// The entry of ranges that holds an index.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_range(
    reader: *const sapwood_live_reader,
    index: u64,
    entry: *mut sapwood_range,
) -> c_int {
    // SAFETY: C.
    call("sapwood_live_range", || unsafe {
        let found = LiveReaderBody::online(reader)?.range(index, false)?;
        Ok(put_entry(found, entry))
    })
}

/// The first entry of ranges that has an index from `from` on.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_range_next(
    reader: *const sapwood_live_reader,
    from: u64,
    entry: *mut sapwood_range,
) -> c_int {
    // SAFETY: C.
    call("sapwood_live_range_next", || unsafe {
        let found = LiveReaderBody::online(reader)?.range(from, true)?;
        Ok(put_entry(found, entry))
    })
}
