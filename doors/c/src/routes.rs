//! `sapwood_routes`: tables of prefixes with groups of next hops, of which the flow chooses one.

use std::ffi::{c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sapwood::qsbr::Guard;
use sapwood::route::{Decision, Group, NullRoute, RouteTable};

use crate::c_api::c_api;
use crate::domain::sapwood_domain;
use crate::error::{Failure, Outcome};
use crate::fib::sapwood_fib_options;
use crate::handle::{Handle, free};
use crate::input;
use crate::output::{as_int, or_absent, put_found, put_wanted, verified};
use crate::prefix::{self, sapwood_prefix};
use crate::reader::{read, sapwood_reader};
use crate::versions::{self, TableBody};

/// C's number of a null route.
fn number_of(null: NullRoute) -> u32 {
    null.number() + 1
}

/// The group of C's members, or the null route that the only member is. Equal next hops count
/// together.
///
/// # Safety
/// `members` is NULL, or it points to `count` members.
pub unsafe fn group(members: *const sapwood_member, count: usize) -> Outcome<Group<u64>> {
    // SAFETY: the caller's promise.
    let members = unsafe { input::items(members, count, "the list of members") }?;
    let Some(null) = members.iter().find(|member| member.null_route != 0) else {
        return Ok(Group::new(members.iter().map(|m| (m.hop, m.weight))));
    };
    if members.len() > 1 {
        return Err(Failure::invalid(
            "a null route is the only member of its list",
        ));
    }
    match NullRoute::from_number(null.null_route - 1) {
        Some(kind) => Ok(Group::null(kind)),
        None => Err(Failure::invalid(format!(
            "null_route is {}; it may be 1 to 4, or 0 for a next hop",
            null.null_route
        ))),
    }
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
    let null = group.null_route().map(|kind| (0, 0, number_of(kind)));
    let members = group.members().map(|(hop, weight)| (*hop, weight, 0));
    for (i, (hop, weight, null_route)) in null.into_iter().chain(members).enumerate() {
        if i < room {
            let member = sapwood_member {
                hop,
                weight,
                null_route,
            };
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write(member) };
        }
        all = i + 1;
    }
    // SAFETY: the caller's promise.
    unsafe { put_wanted(count, all) };
    Ok(())
}

/// Writes prefixes, as many as there is room for, and how many there are.
///
/// # Safety
/// `to` is NULL, or there is room for `room` prefixes.
unsafe fn put_prefixes(
    all: &[IpNet],
    to: *mut sapwood_prefix,
    room: usize,
    count: *mut usize,
) -> Outcome {
    if to.is_null() && room > 0 {
        return Err(Failure::null("the list of prefixes"));
    }
    for (i, net) in all.iter().take(room).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.add(i).write((*net).into()) };
    }
    // SAFETY: the caller's promise.
    unsafe { put_wanted(count, all.len()) };
    Ok(0)
}

c_api!(
    /// A table of routes: the longest prefix chooses a group of next hops, and the hash of the flow
    /// chooses one of them by weight. When a next hop goes, only its flows move.
    pub type sapwood_routes = Handle<TableBody<RouteTable<u64>>>;

    /// Why the packets of a prefix go nowhere.
    pub enum sapwood_null_route {
        /// they are dropped without a reply
        SAPWOOD_BLACKHOLE = 1,
        /// their sender is told that the destination cannot be reached
        SAPWOOD_UNREACHABLE = 2,
        /// their sender is told that the way is forbidden
        SAPWOOD_PROHIBIT = 3,
        /// the search goes on in the next table
        SAPWOOD_THROW = 4,
    }

    /// A member of a group; or, as the only one of a list, a null route.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct sapwood_member {
        /// the next hop, a number of the caller
        pub hop: u64,
        /// its share, relative to the others; 0: it gets no flow
        pub weight: u32,
        /// enum sapwood_null_route, with 0 for hop and weight; 0: a next hop
        pub null_route: u32,
    }

    /// sapwood_fib_options, for sapwood_routes: packets whose prefix has a group of which no member
    /// has a weight follow the longest shorter prefix that has a null route or a weight. Without
    /// it, they have no next hop.
    pub const SAPWOOD_COVER_VOID: c_uint = 4096;

    /// As the functions of sapwood_fib of these names.
    fn sapwood_routes_new(
        domain: *const sapwood_domain,
        options: *const sapwood_fib_options,
        out: *mut *mut sapwood_routes,
    ) -> c_int {
        versions::make(domain, options, out, |builder| Ok(builder.build()?))
    }

    fn sapwood_routes_open(
        domain: *const sapwood_domain,
        options: *const sapwood_fib_options,
        path: *const c_char,
        out: *mut *mut sapwood_routes,
    ) -> c_int {
        let path = input::path(path)?;
        versions::make(domain, options, out, |builder| Ok(builder.load(path)?))
    }

    fn sapwood_routes_free(routes: *mut sapwood_routes) {
        free(routes)
    }

    /// Inserts a prefix with a group, or replaces its group. Returns 1 if it is new, 0 if it was
    /// there. Equal groups share memory. A group without members, or of weight 0, matches and has
    /// no next hop.
    fn sapwood_routes_insert(
        routes: *mut sapwood_routes,
        prefix: *const sapwood_prefix,
        members: *const sapwood_member,
        count: usize,
    ) -> c_int {
        let table = versions::changed(routes)?;
        let net = prefix::prefix(prefix)?;
        let group = group(members, count)?;
        Ok(table.insert(net, group)?.is_none().into())
    }

    /// Removes a prefix. -ENOENT: it is not there.
    fn sapwood_routes_remove(routes: *mut sapwood_routes, prefix: *const sapwood_prefix) -> c_int {
        let table = versions::changed(routes)?;
        let net = prefix::prefix(prefix)?;
        Ok(or_absent(table.remove(net)?.is_some()))
    }

    /// Stores the members of the group of exactly this prefix, at most `room` of them, and the
    /// (count) of all. -ENOENT: the prefix is not there. Waits for an open transaction.
    fn sapwood_routes_get(
        routes: *const sapwood_routes,
        prefix: *const sapwood_prefix,
        members: *mut sapwood_member,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        let table = versions::changed(routes)?;
        let net = prefix::prefix(prefix)?;
        match table.get(net) {
            Some(group) => put_group(&group, members, room, count).map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    }

    /// The next hop of a flow to an address of 4 or 16 bytes in network order. -ENOENT: no prefix
    /// has it, or its group has no next hop, or it has a null route.
    fn sapwood_routes_lookup(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addr: *const c_void,
        addr_len: usize,
        flow: u64,
        hop: *mut u64,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addr = prefix::address(addr, addr_len)?;
        let hop = input::place(hop, "the place for the next hop")?;
        let answer = |guard: Guard<'_>| table.view(guard).lookup(addr, flow).copied();
        Ok(put_found(hop, read(reader, table.domain(), answer)?))
    }

    /// What becomes of a packet. Returns 0 with its next hop (hop); a positive number, enum
    /// sapwood_null_route, when it meets a null route; -ENETDOWN: its prefix has a group of which
    /// no member has a weight; -ENOENT: no prefix has the address. After -ENOENT and SAPWOOD_THROW,
    /// callers with several tables go on in the next one. (matched) becomes the prefix that was
    /// used; it may be NULL.
    fn sapwood_routes_decide(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addr: *const c_void,
        addr_len: usize,
        flow: u64,
        matched: *mut sapwood_prefix,
        hop: *mut u64,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addr = prefix::address(addr, addr_len)?;
        let hop = input::place(hop, "the place for the next hop")?;
        let answer = |guard: Guard<'_>| {
            let view = table.view(guard);
            let (net, group) = view.route(addr)?;
            Some((
                net,
                match group.decide(flow) {
                    Decision::Hop(hop) => Decision::Hop(*hop),
                    Decision::Null(kind) => Decision::Null(kind),
                    Decision::Void | Decision::NoRoute => Decision::Void,
                },
            ))
        };
        let Some((net, decision)) = read(reader, table.domain(), answer)? else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(matched, net.into());
        match decision {
            Decision::Hop(found) => {
                *hop = found;
                Ok(0)
            }
            Decision::Null(kind) => Ok(number_of(kind) as c_int),
            Decision::Void | Decision::NoRoute => Ok(-libc::ENETDOWN),
        }
    }

    /// Stores all prefixes of an address, shortest first, at most `room` of them, and the (count)
    /// of all.
    fn sapwood_routes_matches(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addr: *const c_void,
        addr_len: usize,
        prefixes: *mut sapwood_prefix,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addr = prefix::address(addr, addr_len)?;
        let answer = |guard: Guard<'_>| -> Vec<_> {
            table
                .view(guard)
                .matches(addr)
                .map(|(net, _)| net)
                .collect()
        };
        put_prefixes(
            &read(reader, table.domain(), answer)?,
            prefixes,
            room,
            count,
        )
    }

    /// Stores the prefixes whose groups have no member with a weight and are no null routes, such
    /// as those whose members were all removed: as sapwood_routes_matches. O(prefixes).
    fn sapwood_routes_emptied(
        routes: *const sapwood_routes,
        prefixes: *mut sapwood_prefix,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        let table = versions::changed(routes)?;
        put_prefixes(&table.emptied(), prefixes, room, count)
    }

    /// The group of the longest prefix of an address, as sapwood_routes_get stores it.
    fn sapwood_routes_group(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addr: *const c_void,
        addr_len: usize,
        members: *mut sapwood_member,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addr = prefix::address(addr, addr_len)?;
        let answer = |guard: Guard<'_>| {
            let view = table.view(guard);
            let put = |group| put_group(group, members, room, count);
            view.group(addr).map(put)
        };
        match read(reader, table.domain(), answer)? {
            Some(written) => written.map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    }

    /// The next hops of many flows, as sapwood_fib_lookup4_bulk: `flows[i]` goes to `addrs[i]`.
    fn sapwood_routes_lookup4_bulk(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addrs: *const u32,
        flows: *const u64,
        count: usize,
        none: u64,
        hops: *mut u64,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addrs = input::items(addrs, count, "the list of addresses")?;
        let flows = input::items(flows, count, "the list of flows")?;
        let hops = input::items_mut(hops, count, "the list of next hops")?;
        let answer = |guard: Guard<'_>| {
            let view = table.view(guard).v4();
            prefix::in_parts(addrs, &none, hops, |at, addrs: &[Ipv4Addr], found| {
                view.lookup_batch_or(addrs, &flows[at..at + addrs.len()], &none, found);
            });
        };
        read(reader, table.domain(), answer)?;
        Ok(0)
    }

    fn sapwood_routes_lookup6_bulk(
        routes: *const sapwood_routes,
        reader: *const sapwood_reader,
        addrs: *const u8,
        flows: *const u64,
        count: usize,
        none: u64,
        hops: *mut u64,
    ) -> c_int {
        let table = &Handle::shared(routes)?.table;
        let addrs = input::items(addrs.cast::<[u8; 16]>(), count, "the list of addresses")?;
        let flows = input::items(flows, count, "the list of flows")?;
        let hops = input::items_mut(hops, count, "the list of next hops")?;
        let answer = |guard: Guard<'_>| {
            let view = table.view(guard).v6();
            prefix::in_parts(addrs, &none, hops, |at, addrs: &[Ipv6Addr], found| {
                view.lookup_batch_or(addrs, &flows[at..at + addrs.len()], &none, found);
            });
        };
        read(reader, table.domain(), answer)?;
        Ok(0)
    }

    /// Removes a next hop from every group that has it, or changes its weight there, or replaces a
    /// group by another one. One store for each group, however many prefixes use it. Returns how
    /// many prefixes use these groups. They cannot fail for want of memory limits.
    fn sapwood_routes_remove_member(routes: *mut sapwood_routes, hop: u64) -> c_int {
        let table = versions::changed(routes)?;
        Ok(as_int(table.remove_member(&hop)))
    }

    fn sapwood_routes_set_weight(routes: *mut sapwood_routes, hop: u64, weight: u32) -> c_int {
        let table = versions::changed(routes)?;
        Ok(as_int(table.set_weight(&hop, weight)))
    }

    fn sapwood_routes_replace_group(
        routes: *mut sapwood_routes,
        old_members: *const sapwood_member,
        old_count: usize,
        new_members: *const sapwood_member,
        new_count: usize,
    ) -> c_int {
        let table = versions::changed(routes)?;
        let (old_members, new_members) = (
            group(old_members, old_count)?,
            group(new_members, new_count)?,
        );
        Ok(as_int(table.replace_group(&old_members, &new_members)))
    }

    /// The number of prefixes (len) and of different groups (groups).
    fn sapwood_routes_len(
        routes: *const sapwood_routes,
        len: *mut usize,
        groups: *mut usize,
    ) -> c_int {
        let body = Handle::shared(routes)?;
        put_wanted(len, body.table.len());
        if !groups.is_null() {
            body.turns.check()?;
            *groups = body.table.groups();
        }
        Ok(0)
    }

    /// As the functions of sapwood_fib.
    fn sapwood_routes_memory(routes: *const sapwood_routes, bytes: *mut usize) -> c_int {
        let table = versions::changed(routes)?;
        let bytes = input::place(bytes, "bytes")?;
        *bytes = table.memory().total();
        Ok(0)
    }

    fn sapwood_routes_reclaim(routes: *mut sapwood_routes, budget: usize) -> c_int {
        let table = versions::changed(routes)?;
        Ok(as_int(table.reclaim(budget)))
    }

    fn sapwood_routes_verify(routes: *const sapwood_routes) -> c_int {
        let table = versions::changed(routes)?;
        verified(table.verify())
    }
);
