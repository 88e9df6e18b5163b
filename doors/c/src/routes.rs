//! `sapwood_routes`: tables of prefixes with groups of next hops, of which the flow chooses one.

use std::ffi::{c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr};

use sapwood::Builder;
use sapwood::qsbr::Guard;
use sapwood::route::{Group, RouteTable};

use crate::call::{call, call_void};
use crate::domain::sapwood_domain;
use crate::error::{Failure, Outcome};
use crate::fib::{PART, sapwood_fib_options};
use crate::handle::{Handle, free};
use crate::input;
use crate::prefix::{self, sapwood_prefix};
use crate::reader::{read, sapwood_reader};
use crate::turn::Turns;
use crate::versions::TableBody;

/// A next hop of a group.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sapwood_member {
    /// The next hop, a number of the caller.
    pub hop: u64,
    /// Its share of the flows, relative to the other members.
    pub weight: u32,
    /// 0.
    pub reserved: u32,
}

/// C's `sapwood_routes`.
pub type sapwood_routes = Handle<TableBody<RouteTable<u64>>>;

/// Makes a table by C's options.
///
/// # Safety
/// C.
unsafe fn make(
    domain: *const sapwood_domain,
    options: *const sapwood_fib_options,
    out: *mut *mut sapwood_routes,
    build: impl FnOnce(Builder<RouteTable<u64>>) -> Outcome<RouteTable<u64>>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let options: sapwood_fib_options = unsafe { input::extensible(options) }?;
    // SAFETY: C.
    let (builder, rules) =
        unsafe { options.configure(RouteTable::builder(), |b, bits| b.root_bits(bits), domain) }?;
    let body = TableBody {
        table: build(builder)?,
        turns: Turns::default(),
        checked: rules.checked,
    };
    // SAFETY: C.
    unsafe { *out = Handle::into_c(body, rules) };
    Ok(0)
}

/// Makes an empty table.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_new(
    domain: *const sapwood_domain,
    options: *const sapwood_fib_options,
    out: *mut *mut sapwood_routes,
) -> c_int {
    call("sapwood_routes_new", || {
        // SAFETY: C.
        unsafe { make(domain, options, out, |builder| Ok(builder.build()?)) }
    })
}

/// Loads a table from a file.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_open(
    domain: *const sapwood_domain,
    options: *const sapwood_fib_options,
    path: *const c_char,
    out: *mut *mut sapwood_routes,
) -> c_int {
    call("sapwood_routes_open", || {
        // SAFETY: C.
        let path = unsafe { input::path(path) }?;
        // SAFETY: C.
        unsafe { make(domain, options, out, |builder| Ok(builder.load(path)?)) }
    })
}

/// Frees a table.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_free(routes: *mut sapwood_routes) {
    // SAFETY: C.
    call_void("sapwood_routes_free", || unsafe { free(routes) });
}

/// The group of C's members. Equal next hops count together.
///
/// # Safety
/// `members` is NULL, or it points to `count` members.
pub unsafe fn group(members: *const sapwood_member, count: usize) -> Outcome<Group<u64>> {
    // SAFETY: the caller's promise.
    let members = unsafe { input::items(members, count, "the list of members") }?;
    Ok(Group::new(members.iter().map(|m| (m.hop, m.weight))))
}

/// Writes the members of a group, as many as there is room for; returns how many it has.
///
/// # Safety
/// `to` is NULL, or there is room for `room` members.
pub unsafe fn put_group(
    group: &Group<u64>,
    to: *mut sapwood_member,
    room: usize,
    count: *mut usize,
) -> Outcome<()> {
    if to.is_null() && room > 0 {
        return Err(Failure::null("the list of members"));
    }
    let mut all = 0;
    for (i, (hop, weight)) in group.members().enumerate() {
        if i < room {
            let member = sapwood_member {
                hop: *hop,
                weight,
                reserved: 0,
            };
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write(member) };
        }
        all = i + 1;
    }
    if !count.is_null() {
        // SAFETY: the caller's promise.
        unsafe { count.write(all) };
    }
    Ok(())
}

/// Inserts a prefix with a group, or replaces its group.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_insert(
    routes: *mut sapwood_routes,
    of: *const sapwood_prefix,
    members: *const sapwood_member,
    count: usize,
) -> c_int {
    call("sapwood_routes_insert", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        // SAFETY: C.
        let group = unsafe { group(members, count) }?;
        body.turns.check()?;
        Ok(body.table.insert(net, group)?.is_none().into())
    })
}

/// Removes a prefix.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_remove(
    routes: *mut sapwood_routes,
    of: *const sapwood_prefix,
) -> c_int {
    call("sapwood_routes_remove", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        body.turns.check()?;
        match body.table.remove(net)? {
            Some(_) => Ok(0),
            None => Ok(-libc::ENOENT),
        }
    })
}

/// The group of exactly this prefix.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_get(
    routes: *const sapwood_routes,
    of: *const sapwood_prefix,
    members: *mut sapwood_member,
    room: usize,
    count: *mut usize,
) -> c_int {
    call("sapwood_routes_get", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        body.turns.check()?;
        match body.table.get(net) {
            // SAFETY: C.
            Some(group) => unsafe { put_group(&group, members, room, count) }.map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    })
}

/// The next hop of a flow to an address.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_lookup(
    routes: *const sapwood_routes,
    reader: *const sapwood_reader,
    addr: *const c_void,
    addr_len: usize,
    flow: u64,
    hop: *mut u64,
) -> c_int {
    call("sapwood_routes_lookup", || {
        // SAFETY: C.
        let table = &unsafe { Handle::shared(routes) }?.table;
        // SAFETY: C.
        let addr = unsafe { prefix::address(addr, addr_len) }?;
        let hop = input::place(hop, "the place for the next hop")?;
        let answer = |guard: Guard<'_>| table.view(guard).lookup(addr, flow).copied();
        // SAFETY: C.
        let Some(found) = unsafe { read(reader, table.domain(), answer) }? else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: C.
        unsafe { *hop = found };
        Ok(0)
    })
}

/// The group of the longest prefix of an address.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_group(
    routes: *const sapwood_routes,
    reader: *const sapwood_reader,
    addr: *const c_void,
    addr_len: usize,
    members: *mut sapwood_member,
    room: usize,
    count: *mut usize,
) -> c_int {
    call("sapwood_routes_group", || {
        // SAFETY: C.
        let table = &unsafe { Handle::shared(routes) }?.table;
        // SAFETY: C.
        let addr = unsafe { prefix::address(addr, addr_len) }?;
        let answer = |guard: Guard<'_>| {
            let view = table.view(guard);
            // SAFETY: C.
            let put = |group| unsafe { put_group(group, members, room, count) };
            view.group(addr).map(put)
        };
        // SAFETY: C.
        match unsafe { read(reader, table.domain(), answer) }? {
            Some(written) => written.map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    })
}

/// Looks up addresses with their flows in parts: one body for both families.
macro_rules! in_parts {
    ($view:expr, $addrs:expr, $flows:expr, $hops:expr, $none:expr, $addr:ty) => {{
        let (view, none) = ($view, $none);
        let parts = $addrs.chunks(PART).zip($flows.chunks(PART));
        for ((addrs, flows), hops) in parts.zip($hops.chunks_mut(PART)) {
            let mut keys = [<$addr>::UNSPECIFIED; PART];
            for (key, addr) in keys.iter_mut().zip(addrs) {
                *key = <$addr>::from(*addr);
            }
            let mut found = [&none; PART];
            let many = addrs.len();
            view.lookup_batch_or(&keys[..many], flows, &none, &mut found[..many]);
            for (hop, found) in hops.iter_mut().zip(found) {
                *hop = *found;
            }
        }
    }};
}

/// The next hops of many flows to IPv4 addresses.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_lookup4_bulk(
    routes: *const sapwood_routes,
    reader: *const sapwood_reader,
    addrs: *const u32,
    flows: *const u64,
    count: usize,
    none: u64,
    hops: *mut u64,
) -> c_int {
    call("sapwood_routes_lookup4_bulk", || {
        // SAFETY: C.
        let table = &unsafe { Handle::shared(routes) }?.table;
        // SAFETY: C.
        let addrs = unsafe { input::items(addrs, count, "the list of addresses") }?;
        // SAFETY: C.
        let flows = unsafe { input::items(flows, count, "the list of flows") }?;
        // SAFETY: C.
        let hops = unsafe { input::items_mut(hops, count, "the list of next hops") }?;
        let answer = |guard: Guard<'_>| {
            in_parts!(table.view(guard).v4(), addrs, flows, hops, none, Ipv4Addr)
        };
        // SAFETY: C.
        unsafe { read(reader, table.domain(), answer) }?;
        Ok(0)
    })
}

/// The next hops of many flows to IPv6 addresses.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_lookup6_bulk(
    routes: *const sapwood_routes,
    reader: *const sapwood_reader,
    addrs: *const u8,
    flows: *const u64,
    count: usize,
    none: u64,
    hops: *mut u64,
) -> c_int {
    call("sapwood_routes_lookup6_bulk", || {
        // SAFETY: C.
        let table = &unsafe { Handle::shared(routes) }?.table;
        // SAFETY: C.
        let addrs =
            unsafe { input::items(addrs.cast::<[u8; 16]>(), count, "the list of addresses") }?;
        // SAFETY: C.
        let flows = unsafe { input::items(flows, count, "the list of flows") }?;
        // SAFETY: C.
        let hops = unsafe { input::items_mut(hops, count, "the list of next hops") }?;
        let answer = |guard: Guard<'_>| {
            in_parts!(table.view(guard).v6(), addrs, flows, hops, none, Ipv6Addr)
        };
        // SAFETY: C.
        unsafe { read(reader, table.domain(), answer) }?;
        Ok(0)
    })
}

/// A number of prefixes as C's result.
fn many(prefixes: usize) -> c_int {
    c_int::try_from(prefixes).unwrap_or(c_int::MAX)
}

/// Removes a next hop from every group that has it.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_remove_member(
    routes: *mut sapwood_routes,
    hop: u64,
) -> c_int {
    call("sapwood_routes_remove_member", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        body.turns.check()?;
        Ok(many(body.table.remove_member(&hop)))
    })
}

/// Changes a next hop's weight in every group that has it.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_set_weight(
    routes: *mut sapwood_routes,
    hop: u64,
    weight: u32,
) -> c_int {
    call("sapwood_routes_set_weight", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        body.turns.check()?;
        Ok(many(body.table.set_weight(&hop, weight)))
    })
}

/// Replaces a group by another for all prefixes that use it.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_replace_group(
    routes: *mut sapwood_routes,
    old: *const sapwood_member,
    old_count: usize,
    new: *const sapwood_member,
    new_count: usize,
) -> c_int {
    call("sapwood_routes_replace_group", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        // SAFETY: C.
        let (old, new) = unsafe { (group(old, old_count)?, group(new, new_count)?) };
        body.turns.check()?;
        Ok(many(body.table.replace_group(&old, &new)))
    })
}

/// The numbers of prefixes and of different groups.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_len(
    routes: *const sapwood_routes,
    len: *mut usize,
    groups: *mut usize,
) -> c_int {
    call("sapwood_routes_len", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        if !len.is_null() {
            // SAFETY: C.
            unsafe { *len = body.table.len() };
        }
        if !groups.is_null() {
            body.turns.check()?;
            // SAFETY: C.
            unsafe { *groups = body.table.groups() };
        }
        Ok(0)
    })
}

/// The bytes that the table takes from the system.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_memory(
    routes: *const sapwood_routes,
    bytes: *mut usize,
) -> c_int {
    call("sapwood_routes_memory", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        let bytes = input::place(bytes, "bytes")?;
        body.turns.check()?;
        // SAFETY: C.
        unsafe { *bytes = body.table.memory().total() };
        Ok(0)
    })
}

/// Frees nodes and groups that no reader can reach any more; returns how many.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_reclaim(
    routes: *mut sapwood_routes,
    budget: usize,
) -> c_int {
    call("sapwood_routes_reclaim", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        body.turns.check()?;
        Ok(many(body.table.reclaim(budget)))
    })
}

/// Checks every invariant of the table.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_verify(routes: *const sapwood_routes) -> c_int {
    call("sapwood_routes_verify", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        body.turns.check()?;
        match body.table.verify() {
            Ok(()) => Ok(0),
            Err(wrong) => Err(Failure::new(libc::EUCLEAN, wrong)),
        }
    })
}
