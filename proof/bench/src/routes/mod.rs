//! The tables that the suite `routes` compares: from IP prefixes to a `u32`, the number of a next
//! hop.
//!
//! # To add an engine
//!
//! Write a file in `peers` that implements [`Engine`], and name the type in `lanes`. An engine with
//! batched lookups overrides nothing: [`Engine::lookups`] gets all addresses at once. An engine
//! whose readers need no lock overrides [`Engine::share`]; all others are put behind a [`Locked`].
//! An engine that holds memory outside malloc's heap returns its size from
//! [`Engine::mapped_bytes`]. Two ways to use one table are two engines.

mod bits;
pub mod covers;
mod dpdk;
mod sapwood;
mod table;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

pub use ::sapwood::lpm::{V4, V6};

use ::sapwood::lpm;
use ipnet::{Ipv4Net, Ipv6Net};
use parking_lot::RwLock;
use sapwood_model::oracle::Prefix;
use sapwood_model::oracle::lpm::to_v4;

use crate::peers;

/// IPv4 or IPv6, with the types that users of the engines hold.
pub trait Family: lpm::Family<Addr: Into<IpAddr>> {
    /// The address that the first bits hold.
    fn addr(bits: u128) -> Self::Addr;
    /// The prefix as the family's type.
    fn net(prefix: Prefix) -> Self::Net;
    /// The prefix that contains only this address.
    fn host(addr: Self::Addr) -> Self::Net;
    /// The address and the length of a prefix.
    fn split(net: Self::Net) -> (Self::Addr, u8);
}

impl Family for V4 {
    fn addr(bits: u128) -> Ipv4Addr {
        to_v4(bits)
    }

    fn net(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new_assert(prefix.v4_addr(), prefix.len)
    }

    #[inline]
    fn host(addr: Ipv4Addr) -> Ipv4Net {
        addr.into()
    }

    fn split(net: Ipv4Net) -> (Ipv4Addr, u8) {
        (net.addr(), net.prefix_len())
    }
}

impl Family for V6 {
    fn addr(bits: u128) -> Ipv6Addr {
        bits.into()
    }

    fn net(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new_assert(prefix.v6_addr(), prefix.len)
    }

    #[inline]
    fn host(addr: Ipv6Addr) -> Ipv6Net {
        addr.into()
    }

    fn split(net: Ipv6Net) -> (Ipv6Addr, u8) {
        (net.addr(), net.prefix_len())
    }
}

/// A table, as the benchmark uses it.
pub trait Engine<F: Family>: Sized + Send + Sync + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// A fault of [`remove`](Self::remove) that makes calling it unsound, even to count wrong
    /// answers. Such an engine is reported as wrong, and is measured without removals.
    const UNSAFE_REMOVE: Option<&'static str> = None;

    /// An empty table with room for these routes, or why this machine has none.
    fn empty(routes: &[(F::Net, u32)]) -> Result<Self, String>;

    /// A table with these routes. The call is timed.
    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let mut table = Self::empty(routes)?;
        for (net, hop) in routes {
            table.insert(*net, *hop);
        }
        Ok(table)
    }

    /// Stores a route.
    fn insert(&mut self, net: F::Net, hop: u32);

    /// Removes a route.
    fn remove(&mut self, net: F::Net);

    /// Looks all addresses up and passes the answers to `each`, in their order.
    fn lookups(&self, addrs: &[F::Addr], each: impl FnMut(Option<u32>));

    /// The bytes that the table holds outside malloc's heap, such as mappings; `None` if it does
    /// not tell.
    fn mapped_bytes(&self) -> Option<usize> {
        Some(0)
    }

    /// Prepares the table for one writer and one reader at once.
    fn share(self) -> Box<dyn Shared<F>> {
        Box::new(Locked(RwLock::new(self)))
    }
}

/// A table that one thread changes while others read it.
pub trait Shared<F: Family>: Send + Sync {
    /// Stores a route; readers see it when the call returns.
    fn insert(&self, net: F::Net, hop: u32);

    /// Removes a route; readers no longer see it when the call returns.
    fn remove(&self, net: F::Net);

    /// Looks addresses up over and over until `stop` says so, [`BURST`] between two points where
    /// it lets the writer in; returns the number of lookups.
    fn read_until(&self, stop: &Stop, addrs: &[F::Addr]) -> u64;
}

/// The signals between a writer and a reader.
#[derive(Default)]
pub struct Stop {
    begun: AtomicBool,
    stopped: AtomicBool,
}

impl Stop {
    /// Waits until the reader has begun to read.
    pub fn wait_for_reader(&self) {
        while !self.begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    /// Tells the reader to stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The number of lookups under one guard or lock: the packets that a network card delivers at once.
pub const BURST: usize = 32;

/// An engine behind a reader-writer lock, as a program would share a table that has no better
/// means.
struct Locked<E>(RwLock<E>);

impl<F: Family, E: Engine<F>> Shared<F> for Locked<E> {
    fn insert(&self, net: F::Net, hop: u32) {
        self.0.write().insert(net, hop);
    }

    fn remove(&self, net: F::Net) {
        self.0.write().remove(net);
    }

    fn read_until(&self, stop: &Stop, addrs: &[F::Addr]) -> u64 {
        bursts(stop, addrs, |burst, tally| {
            self.0.read().lookups(burst, |answer| tally.add(answer));
        })
    }
}

/// Runs `read` over the addresses, one burst at a time and over and over, until told to stop.
fn bursts<A>(stop: &Stop, addrs: &[A], mut read: impl FnMut(&[A], &mut Tally)) -> u64 {
    let mut tally = Tally::default();
    let mut count = 0;
    for burst in addrs.chunks_exact(BURST).cycle() {
        if stop.stopped.load(Ordering::Relaxed) {
            break;
        }
        read(burst, &mut tally);
        count += burst.len() as u64;
        if count == burst.len() as u64 {
            stop.begun.store(true, Ordering::Relaxed);
        }
    }
    std::hint::black_box(tally);
    count
}

/// A checksum of many answers, which depends on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    found: u64,
    mixed: u64,
}

impl Tally {
    /// Adds one answer.
    #[inline]
    pub fn add(&mut self, answer: Option<u32>) {
        self.found += u64::from(answer.is_some());
        self.mixed = self.mixed.rotate_left(7) ^ u64::from(answer.unwrap_or(u32::MAX));
    }

    /// The checksum of these answers.
    pub fn of(answers: &[Option<u32>]) -> Self {
        let mut tally = Self::default();
        answers.iter().for_each(|answer| tally.add(*answer));
        tally
    }
}

/// Makes an empty or a full table of some routes, or says why this machine has none.
type Make<F> = fn(&[(<F as lpm::Family>::Net, u32)]) -> Result<Box<dyn Built<F>>, String>;

/// An engine with its type erased.
pub struct Lane<F: Family> {
    /// [`Engine::NAME`].
    pub name: &'static str,
    /// [`Engine::UNSAFE_REMOVE`].
    pub unsafe_remove: Option<&'static str>,
    /// [`Engine::empty`].
    pub empty: Make<F>,
    /// [`Engine::build`].
    pub build: Make<F>,
}

/// A table of an engine with its type erased; one call is a whole pass.
#[allow(missing_docs)] // They are the methods of `Engine`, each for many items.
pub trait Built<F: Family> {
    fn insert(&mut self, routes: &[(F::Net, u32)]);
    fn remove(&mut self, routes: &[(F::Net, u32)]);
    fn tally(&self, addrs: &[F::Addr]) -> Tally;
    fn answers(&self, addrs: &[F::Addr]) -> Vec<Option<u32>>;
    fn mapped_bytes(&self) -> Option<usize>;
    fn share(self: Box<Self>) -> Box<dyn Shared<F>>;
}

impl<F: Family, E: Engine<F>> Built<F> for E {
    fn insert(&mut self, routes: &[(F::Net, u32)]) {
        for (net, hop) in routes {
            Engine::insert(self, *net, *hop);
        }
    }

    fn remove(&mut self, routes: &[(F::Net, u32)]) {
        for (net, _) in routes {
            Engine::remove(self, *net);
        }
    }

    fn tally(&self, addrs: &[F::Addr]) -> Tally {
        let mut tally = Tally::default();
        self.lookups(addrs, |answer| tally.add(answer));
        tally
    }

    fn answers(&self, addrs: &[F::Addr]) -> Vec<Option<u32>> {
        let mut answers = Vec::with_capacity(addrs.len());
        self.lookups(addrs, |answer| answers.push(answer));
        answers
    }

    fn mapped_bytes(&self) -> Option<usize> {
        Engine::mapped_bytes(self)
    }

    fn share(self: Box<Self>) -> Box<dyn Shared<F>> {
        Engine::share(*self)
    }
}

fn lane<F: Family, E: Engine<F>>() -> Lane<F> {
    Lane {
        name: E::NAME,
        unsafe_remove: E::UNSAFE_REMOVE,
        empty: |routes| Ok(Box::new(E::empty(routes)?)),
        build: |routes| Ok(Box::new(E::build(routes)?)),
    }
}

/// The engines of a family, in the order in which tables list them.
pub trait Lanes: Family {
    /// All engines of the family, including those that may not be installed.
    fn lanes() -> Vec<Lane<Self>>;
}

/// The engines that have both families.
macro_rules! common {
    ($family:ty) => {
        vec![
            lane::<$family, sapwood::Sapwood<$family, false>>(),
            lane::<$family, sapwood::Sapwood<$family, true>>(),
            lane::<$family, table::Table<$family, false>>(),
            lane::<$family, table::Table<$family, true>>(),
            lane::<$family, bits::Bits<$family, false>>(),
            lane::<$family, bits::Bits<$family, true>>(),
            lane::<$family, peers::prefix_trie::PrefixTrie<$family>>(),
            lane::<$family, peers::ip_network_table::IpNetwork>(),
            lane::<$family, peers::treebitmap::Treebitmap<$family>>(),
            lane::<$family, peers::iptrie::Iptrie<$family>>(),
        ]
    };
}

impl Lanes for V4 {
    fn lanes() -> Vec<Lane<Self>> {
        let mut lanes = common!(V4);
        lanes.push(lane::<V4, dpdk::Fib>());
        lanes
    }
}

impl Lanes for V6 {
    fn lanes() -> Vec<Lane<Self>> {
        let mut lanes = common!(V6);
        lanes.push(lane::<V6, dpdk::Fib6>());
        lanes.push(lane::<V6, dpdk::Lpm6>());
        lanes
    }
}

#[cfg(test)]
mod tests;
