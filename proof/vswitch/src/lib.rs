//! How a port of a virtual switch finds the next hop of an encapsulated packet. It stands in for
//! the programs that Sapwood's route cache and route tables are made for, which run in a kernel,
//! without the standard library, and have probes of their own.
//!
//! - [`Port`] asks the system for the next hop of a destination and a flow, and keeps the answers
//!   for a short time.
//! - [`Fabric`] has all routes itself, in a table, and keeps nothing for flows.
//!
//! `tests/port.rs` has what such a program relies on.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

use sapwood::lpm::ipnet::Ipv6Net;
use sapwood::qsbr::{Domain, Reader};
use sapwood::route::{CacheHooks, Error, Group, HopSet, Plain, RouteCache, RouteTable};

use alloc::string::String;
use core::net::Ipv6Addr;
use core::time::Duration;

/// Milliseconds in nanoseconds.
const MS: u64 = 1_000_000;
/// For how long an answer of the system is used.
pub const FRESH: u64 = 100 * MS;
/// For how long an entry that nobody asks for keeps its slot.
pub const KEEP: u64 = 1000 * MS;
/// The most entries of a port.
pub const ENTRIES: usize = 512;

/// What decides about the next hop of a packet between two hosts: the other host, and a hash of the
/// inner flow, so that a host's flows are spread over the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The other host's address on the network that carries the packets.
    pub host: Ipv6Addr,
    /// The flow's hash.
    pub flow: u32,
}

impl Plain for Key {
    type Words = <(u128, u32) as Plain>::Words;

    #[inline(always)]
    fn to_words(self) -> Self::Words {
        (u128::from(self.host), self.flow).to_words()
    }

    #[inline(always)]
    fn from_words(words: Self::Words) -> Self {
        let (host, flow) = <(u128, u32)>::from_words(words);
        Key {
            host: host.into(),
            flow,
        }
    }
}

/// A next hop: the addresses of the frame's header, and the link that sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The source address of the frame.
    pub from: [u8; 6],
    /// The destination address of the frame.
    pub to: [u8; 6],
    /// The number of the link.
    pub link: u32,
}

impl Plain for NextHop {
    type Words = <([u8; 6], [u8; 6], u32) as Plain>::Words;

    #[inline(always)]
    fn to_words(self) -> Self::Words {
        (self.from, self.to, self.link).to_words()
    }

    #[inline(always)]
    fn from_words(words: Self::Words) -> Self {
        let (from, to, link) = <([u8; 6], [u8; 6], u32)>::from_words(words);
        NextHop { from, to, link }
    }
}

/// The system under the switch.
pub trait System {
    /// Nanoseconds of a clock.
    fn now(&self) -> u64;

    /// The system's own route lookup, which is slow. `None` when it has no route.
    fn ask(&self, key: &Key) -> Option<NextHop>;
}

/// The switch's probes. Each has a default that does nothing, as a probe that nobody traces.
pub trait Probes {
    /// A packet's next hop was in the cache.
    fn hit(&self, _key: &Key) {}
    /// The system's answer took a slot.
    fn insert(&self, _key: &Key, _hop: &NextHop) {}
    /// The system's answer replaced an old one.
    fn refresh(&self, _key: &Key, _hop: &NextHop) {}
    /// An entry is gone.
    fn delete(&self, _key: &Key) {}
    /// An entry was still good when another one took its slot.
    fn full(&self, _key: &Key) {}
    /// The cache has a next hop no more, or never kept it: its link has one user less.
    fn unused(&self, _hop: &NextHop) {}
}

/// The switch's probes as hooks of the cache.
pub struct Fired<P>(P);

impl<P: Probes> CacheHooks<Key, NextHop> for Fired<P> {
    fn hit(&self, key: &Key, _: u64) {
        self.0.hit(key);
    }

    fn insert(&self, key: &Key, hop: Option<&NextHop>) {
        if let Some(hop) = hop {
            self.0.insert(key, hop);
        }
    }

    fn refresh(&self, key: &Key, hop: Option<&NextHop>) {
        if let Some(hop) = hop {
            self.0.refresh(key, hop);
        }
    }

    fn evict(&self, key: &Key, full: bool) {
        if full {
            self.0.full(key);
        }
        self.0.delete(key);
    }

    fn remove(&self, key: &Key) {
        self.0.delete(key);
    }

    fn left(&self, _: &Key, hop: NextHop) {
        self.0.unused(&hop);
    }
}

/// A port's lookup of next hops.
pub struct Port<S, P: Probes> {
    system: S,
    cache: RouteCache<Key, NextHop, Fired<P>>,
}

impl<S: System, P: Probes> Port<S, P> {
    /// A port that keeps up to [`ENTRIES`] answers. `seed` is a random number.
    pub fn new(system: S, probes: P, seed: u64) -> Self {
        let cache = RouteCache::builder()
            .capacity(ENTRIES)
            .fresh(Duration::from_nanos(FRESH))
            .keep(Duration::from_nanos(KEEP))
            .inclusive(true)
            .seed(seed)
            .hooks(Fired(probes))
            .build();
        Port { system, cache }
    }

    /// The next hop of a packet; `None` when the packet is to be dropped.
    pub fn next_hop(&self, key: &Key) -> Option<NextHop> {
        // Read before the system is asked: the age of its answer counts from here.
        let now = self.system.now();
        let ask = |key: &Key| self.system.ask(key).ok_or(());
        let found = self
            .cache
            .get_or_resolve(key, self.cache.hash(key), now, ask);
        found.ok()
    }

    /// Removes what nobody has asked for; called from time to time.
    pub fn expire(&self) {
        self.cache.sweep(self.system.now(), ENTRIES);
    }

    /// The system's routes have changed.
    pub fn routes_changed(&self) {
        self.cache.invalidate_all();
    }

    /// Entries that have a slot.
    pub fn len(&self) -> usize {
        self.cache.occupancy()
    }

    /// Whether no entry has a slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The system, as it was given.
    pub fn system(&self) -> &S {
        &self.system
    }

    /// The probes, as they were given.
    pub fn probes(&self) -> &P {
        &self.cache.hooks().0
    }

    /// Checks the cache.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.cache.verify()
    }
}

/// The most next hops of a destination.
pub const WAYS: usize = 4;

/// The next hops of whole hosts: one entry for all flows to a host, each of which takes one of its
/// next hops.
pub struct Hosts(RouteCache<u128, HopSet<NextHop, WAYS>>);

impl Hosts {
    /// An empty cache. `seed` is a random number.
    pub fn new(seed: u64) -> Self {
        Hosts(RouteCache::builder().capacity(ENTRIES).seed(seed).build())
    }

    /// The next hop of a flow to a host, at the time `now`. `ask` finds the host's next hops with
    /// their weights.
    pub fn next_hop<I: IntoIterator<Item = (NextHop, u32)>>(
        &self,
        key: &Key,
        now: u64,
        ask: impl FnOnce() -> I,
    ) -> Option<NextHop> {
        let host = u128::from(key.host);
        let ask = |_: &u128| HopSet::new(ask()).ok_or(());
        let found = (self.0).get_or_resolve(&host, self.0.hash(&host), now, ask);
        found.ok()?.member(key.flow.into())
    }
}

/// All routes of the network under the switch, in place of a cache.
pub struct Fabric {
    table: RouteTable<NextHop>,
    domain: Domain,
}

impl Fabric {
    /// A network without routes.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new() -> Result<Self, Error> {
        let domain = Domain::new();
        let table = RouteTable::builder().domain(&domain).build()?;
        Ok(Fabric { table, domain })
    }

    /// Replaces the next hops of a prefix.
    ///
    /// # Errors
    /// When there is no memory, or the prefix has host bits.
    pub fn set(&self, net: Ipv6Net, hops: &[(NextHop, u32)]) -> Result<(), Error> {
        let group = Group::new(hops.iter().copied());
        self.table.insert(net.into(), group)?;
        Ok(())
    }

    /// Removes a prefix; returns whether it was there.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn remove(&self, net: Ipv6Net) -> Result<bool, Error> {
        Ok(self.table.remove(net.into())?.is_some())
    }

    /// A link is down: its flows go over the other links, and all other flows stay.
    pub fn link_down(&self, hop: &NextHop) {
        self.table.remove_member(hop);
    }

    /// A port of the network. Without the standard library the program says by
    /// [`quiescent`](Way::quiescent) when the port holds nothing.
    ///
    /// # Panics
    /// When there are too many ports.
    pub fn port(&self, name: &str) -> Way<'_> {
        let reader = self.domain.register(name).expect("few ports");
        Way {
            fabric: self,
            reader,
        }
    }

    /// Bytes that wait for ports.
    pub fn garbage(&self) -> usize {
        self.domain.garbage()
    }

    /// Frees what no port can hold any more.
    pub fn reclaim(&self) {
        self.table.reclaim(usize::MAX);
        self.domain.poll();
    }

    /// Checks the table.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.table.verify()
    }
}

/// A port that finds its next hops in the table.
pub struct Way<'f> {
    fabric: &'f Fabric,
    reader: Reader,
}

impl Way<'_> {
    /// The next hop of a packet; `None` when the packet is to be dropped.
    pub fn next_hop(&self, key: &Key) -> Option<NextHop> {
        let view = self.fabric.table.view(self.reader.guard());
        view.lookup(key.host.into(), key.flow.into()).copied()
    }

    /// The port holds nothing now: after each burst of packets.
    pub fn quiescent(&mut self) {
        self.reader.quiescent();
    }
}
