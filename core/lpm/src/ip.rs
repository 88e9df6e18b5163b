//! The table for addresses of both families.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood_qsbr::{Domain, Guard};

use super::both::{IpSnapshot, IpTxn};
use super::family::{Family, V4, V6};
use super::fib::{Fib, FibChoices, Ipv4Fib, Ipv6Fib, NextHop};
use super::memory::FibMemory;
use super::view::FibView;
use crate::sync::lock;
use crate::{Buildable, Builder, Error, Readable, Rejected};
use sapwood_common::reading_methods;

/// A longest-prefix-match table of IPv4 and IPv6 prefixes: one [`Fib`] for each family,
/// with one domain for the readers of both.
///
/// ```
/// use sapwood::lpm::IpFib;
/// let fib = IpFib::from_iter([
///     ("0.0.0.0/0".parse()?, 1),
///     ("2001:db8::/32".parse()?, 2),
/// ]);
/// assert_eq!(fib.lookup("2001:db8::1".parse()?).unwrap().1, 2);
/// assert_eq!(fib.lookup("192.0.2.1".parse()?).unwrap().1, 1);
/// assert_eq!(fib.lookup("::1".parse()?), None);
/// // One reader for both families. A thread that knows the family of its packets asks that table.
/// let mut reader = fib.reader("worker")?;
/// assert_eq!(reader.view().lookup_value("2001:db8::1".parse()?), Some(&2));
/// assert_eq!(reader.view().v4().lookup_value("192.0.2.1".parse()?), Some(&1));
/// reader.quiescent();
/// // The tables of the families have more methods.
/// assert_eq!(fib.v6().version(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IpFib<V: NextHop> {
    v4: Ipv4Fib<V>,
    v6: Ipv6Fib<V>,
}

impl<V: NextHop> Buildable for IpFib<V> {
    type Choices = FibChoices;
    type Builder = Builder<Self>;
}

impl<V: NextHop> Builder<IpFib<V>> {
    /// Bits of an address that the roots resolve with one load, as for a
    /// [`Fib`]: 6, 12, 18 or 24. By default each root grows with its table.
    ///
    /// O(1).
    ///
    /// # Panics
    /// With any other number.
    pub fn root_bits(mut self, bits: u8) -> Self {
        self.choices = FibChoices::new(bits);
        self
    }

    /// The builders of the tables of both families, with one domain. For tables in arenas of their
    /// own: see [`from_tables`](IpFib::from_tables).
    pub fn families(self) -> (Builder<Ipv4Fib<V>>, Builder<Ipv6Fib<V>>) {
        let domain = self.domain_or_new();
        (self.family(&domain), self.family(&domain))
    }

    fn family<F: Family>(&self, domain: &Domain) -> Builder<Fib<F, V>> {
        Builder {
            memory: self.memory.clone(),
            domain: Some(domain.clone()),
            choices: self.choices.clone(),
        }
    }

    /// An empty table. A limit of memory holds for each family by itself.
    ///
    /// As a [`Fib`] of each family.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system gives no address space.
    ///
    /// # Panics
    /// When the backing moves as it grows.
    pub fn build(self) -> Result<IpFib<V>, Error> {
        self.build_from([])
    }

    /// Builds a table of prefixes in any order; of equal prefixes, the last wins.
    ///
    /// O(n log n), as the prefixes are sorted.
    ///
    /// # Errors
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_from(
        self,
        prefixes: impl IntoIterator<Item = (IpNet, V)>,
    ) -> Result<IpFib<V>, Error> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (net, value) in prefixes {
            match net {
                IpNet::V4(net) => v4.push((net, value)),
                IpNet::V6(net) => v6.push((net, value)),
            }
        }
        let domain = self.domain_or_new();
        let v4 = self.family(&domain).build_from(v4)?;
        let v6 = self.family(&domain).build_from(v6)?;
        Ok(IpFib::from_tables(v4, v6))
    }
}

impl<V: NextHop> Clone for IpFib<V> {
    fn clone(&self) -> Self {
        IpFib {
            v4: self.v4.clone(),
            v6: self.v6.clone(),
        }
    }
}

impl<V: NextHop> IpFib<V> {
    /// An empty table, whose roots grow with it: see [`root_bits`](Builder::root_bits).
    ///
    /// As [`build`](Builder::build).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system gives no address space.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> Builder<Self> {
        let (memory, choices) = FibChoices::defaults();
        Builder::begin(memory, choices)
    }

    /// Joins two tables that share a domain. Each of them can still be changed by itself.
    ///
    /// O(1).
    ///
    /// # Panics
    /// When the two tables have different domains.
    pub fn from_tables(v4: Ipv4Fib<V>, v6: Ipv6Fib<V>) -> Self {
        assert!(
            v4.domain().ptr_eq(v6.domain()),
            "both families wait for the same readers"
        );
        IpFib { v4, v6 }
    }

    /// The table of IPv4 prefixes.
    ///
    /// O(1).
    pub fn v4(&self) -> &Ipv4Fib<V> {
        &self.v4
    }

    /// The table of IPv6 prefixes.
    ///
    /// O(1).
    pub fn v6(&self) -> &Ipv6Fib<V> {
        &self.v6
    }

    reading_methods!(IpFibView<'g, V>);

    /// Begins a transaction on both families. If other threads have transactions open, this waits
    /// for their end.
    ///
    /// It takes the IPv4 table's lock, then the IPv6 table's. A thread that has a transaction of
    /// the IPv6 table open and then changes the IPv4 table takes them the other way round: the two
    /// can wait for each other for ever. Change the IPv4 table first, or both by this.
    ///
    /// # Panics
    /// When this thread has a transaction of one of the tables open: it would wait for itself.
    #[track_caller]
    pub fn begin(&self) -> IpTxn<'_, V> {
        IpTxn::new(self.v4.begin(), self.v6.begin(), self.v4.commits())
    }

    /// Begins a transaction, unless one is open on either family.
    ///
    /// O(1). It does not wait.
    pub fn try_begin(&self) -> Option<IpTxn<'_, V>> {
        let (v4, v6) = (self.v4.try_begin()?, self.v6.try_begin()?);
        Some(IpTxn::new(v4, v6, self.v4.commits()))
    }

    /// A snapshot of the newest version of both families. It has all changes of a transaction on
    /// both or none. Making it takes a short time, as
    /// [`Fib::snapshot`](super::Fib::snapshot) says. [`Domain::stalls`] lists it as it lists
    /// snapshots of one family.
    pub fn snapshot(&self) -> IpSnapshot<V> {
        let _no_commit = lock(self.v4.commits());
        IpSnapshot::new(self.v4.snapshot(), self.v6.snapshot())
    }

    /// The memory that the tables use. Waits for open transactions.
    ///
    /// It reads the accounts and walks nothing.
    pub fn memory(&self) -> IpFibMemory {
        IpFibMemory {
            v4: self.v4.memory(),
            v6: self.v6.memory(),
        }
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts or replaces the value of a prefix; returns the old value.
    ///
    /// As [`Fib::insert`](super::Fib::insert).
    ///
    /// # Errors
    /// As [`Fib::insert`](super::Fib::insert).
    ///
    /// # Panics
    /// As [`Fib::insert`](super::Fib::insert).
    #[track_caller]
    pub fn insert(&self, net: IpNet, value: V) -> Result<Option<V>, Rejected<V>> {
        match net {
            IpNet::V4(net) => self.v4.insert(net, value),
            IpNet::V6(net) => self.v6.insert(net, value),
        }
    }

    /// Removes a prefix; returns its value, or `None` when it was not there.
    ///
    /// As [`Fib::insert`](super::Fib::insert).
    ///
    /// # Errors
    /// As [`Fib::remove`](super::Fib::remove).
    ///
    /// # Panics
    /// As [`Fib::remove`](super::Fib::remove).
    #[track_caller]
    pub fn remove(&self, net: IpNet) -> Result<Option<V>, Error> {
        match net {
            IpNet::V4(net) => self.v4.remove(net),
            IpNet::V6(net) => self.v6.remove(net),
        }
    }

    /// A copy of the value of exactly this prefix.
    ///
    /// As [`Fib::get`](super::Fib::get).
    #[cfg(feature = "std")]
    pub fn get(&self, net: IpNet) -> Option<V> {
        match net {
            IpNet::V4(net) => self.v4.get(net),
            IpNet::V6(net) => self.v6.get(net),
        }
    }

    /// The longest prefix of an address, with a copy of its value. IPv6 addresses that embed IPv4
    /// ones are not unpacked.
    ///
    /// As [`Fib::lookup`](super::Fib::lookup).
    #[cfg(feature = "std")]
    pub fn lookup(&self, addr: IpAddr) -> Option<(IpNet, V)> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup(addr).map(|(net, value)| (net.into(), value)),
            IpAddr::V6(addr) => self.v6.lookup(addr).map(|(net, value)| (net.into(), value)),
        }
    }

    /// Checks both tables, as [`Fib::verify`](super::Fib::verify).
    ///
    /// O(size of the roots + nodes).
    ///
    /// # Errors
    /// A message that says what is wrong.
    ///
    /// # Panics
    /// As [`Fib::verify`](super::Fib::verify).
    #[track_caller]
    pub fn verify(&self) -> Result<(), String> {
        self.v4.verify()?;
        self.v6.verify()
    }
}

impl<V: NextHop> FromIterator<(IpNet, V)> for IpFib<V> {
    /// # Panics
    /// When a prefix has host bits set, or there is no memory; [`Builder::build_from`] returns
    /// these as errors.
    fn from_iter<I: IntoIterator<Item = (IpNet, V)>>(prefixes: I) -> Self {
        match Self::builder().build_from(prefixes) {
            Ok(fib) => fib,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<V: NextHop> Extend<(IpNet, V)> for IpFib<V> {
    /// # Panics
    /// When a prefix has host bits set, or there is no memory. The prefixes before it were
    /// inserted.
    fn extend<I: IntoIterator<Item = (IpNet, V)>>(&mut self, prefixes: I) {
        for (net, value) in prefixes {
            if let Err(rejected) = self.insert(net, value) {
                panic!("{rejected}");
            }
        }
    }
}

impl<V: NextHop + fmt::Debug> fmt::Debug for IpFib<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpFib")
            .field("v4", &self.v4)
            .field("v6", &self.v6)
            .finish()
    }
}

impl<V: NextHop> Readable for IpFib<V> {
    type View<'g> = IpFibView<'g, V>;

    fn domain(&self) -> &Domain {
        self.v4.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> IpFibView<'g, V> {
        IpFibView {
            v4: self.v4.view(guard),
            v6: self.v6.view(guard),
        }
    }
}

/// Both tables, read under a guard. It stays on its thread. Each call sees the newest tables.
pub struct IpFibView<'g, V: NextHop> {
    v4: FibView<'g, V4, V>,
    v6: FibView<'g, V6, V>,
}

impl<'g, V: NextHop> IpFibView<'g, V> {
    /// Joins views of both families' tables.
    ///
    /// O(1).
    #[inline]
    pub fn from_views(v4: FibView<'g, V4, V>, v6: FibView<'g, V6, V>) -> Self {
        IpFibView { v4, v6 }
    }

    /// The value of the longest prefix of an address. This is the quickest lookup, as it does not
    /// find the prefix itself.
    ///
    /// As [`FibView::lookup_value`].
    #[inline]
    pub fn lookup_value(&self, addr: IpAddr) -> Option<&'g V> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup_value(addr),
            IpAddr::V6(addr) => self.v6.lookup_value(addr),
        }
    }

    /// The longest prefix of an address, and its value. IPv6 addresses that embed IPv4 ones are not
    /// unpacked.
    ///
    /// As [`Fib::lookup`](super::Fib::lookup).
    pub fn lookup(&self, addr: IpAddr) -> Option<(IpNet, &'g V)> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup(addr).map(|(net, value)| (net.into(), value)),
            IpAddr::V6(addr) => self.v6.lookup(addr).map(|(net, value)| (net.into(), value)),
        }
    }

    /// The value of exactly this prefix; bits after its length are taken as zeros.
    ///
    /// As [`Fib::get`](super::Fib::get).
    pub fn get(&self, net: IpNet) -> Option<&'g V> {
        match net {
            IpNet::V4(net) => self.v4.get(net),
            IpNet::V6(net) => self.v6.get(net),
        }
    }

    /// The longest prefix that covers this one, which may be this one itself, and its value.
    ///
    /// As [`FibView::lookup_net`].
    pub fn lookup_net(&self, net: IpNet) -> Option<(IpNet, &'g V)> {
        match net {
            IpNet::V4(net) => (self.v4.lookup_net(net)).map(|(net, value)| (net.into(), value)),
            IpNet::V6(net) => (self.v6.lookup_net(net)).map(|(net, value)| (net.into(), value)),
        }
    }

    /// All prefixes that cover this one, which may be one of them, shortest first.
    ///
    /// As [`FibView::covering`].
    pub fn covering(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &'g V)> + use<'g, V> {
        let (v4, v6) = match net {
            IpNet::V4(net) => (Some(self.v4.covering(net)), None),
            IpNet::V6(net) => (None, Some(self.v6.covering(net))),
        };
        both(v4, v6)
    }

    /// The prefix itself, if it is there, and all prefixes inside it, in order.
    ///
    /// As [`FibView::covered_by`].
    pub fn covered_by(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &'g V)> + use<'g, V> {
        let (v4, v6) = match net {
            IpNet::V4(net) => (Some(self.v4.covered_by(net)), None),
            IpNet::V6(net) => (None, Some(self.v6.covered_by(net))),
        };
        both(v4, v6)
    }

    /// The IPv4 table alone: for packet paths that know the family, and for batches.
    ///
    /// O(1).
    #[inline]
    pub fn v4(&self) -> FibView<'g, V4, V> {
        self.v4
    }

    /// The IPv6 table alone.
    ///
    /// O(1).
    #[inline]
    pub fn v6(&self) -> FibView<'g, V6, V> {
        self.v6
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Prefixes of one family as those of either.
pub(super) fn both<'g, V: 'g>(
    v4: Option<impl Iterator<Item = (Ipv4Net, &'g V)>>,
    v6: Option<impl Iterator<Item = (Ipv6Net, &'g V)>>,
) -> impl Iterator<Item = (IpNet, &'g V)> {
    let v4 = v4.into_iter().flatten();
    let v6 = v6.into_iter().flatten();
    let v4 = v4.map(|(net, value)| (net.into(), value));
    v4.chain(v6.map(|(net, value)| (net.into(), value)))
}

impl<V: NextHop> Clone for IpFibView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: NextHop> Copy for IpFibView<'_, V> {}

impl<V: NextHop> fmt::Debug for IpFibView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpFibView")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// What the memory of both tables holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IpFibMemory {
    /// The table of IPv4 prefixes.
    pub v4: FibMemory,
    /// The table of IPv6 prefixes.
    pub v6: FibMemory,
}

impl IpFibMemory {
    /// All bytes that the tables take from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        self.v4.total() + self.v6.total()
    }
}

impl fmt::Display for IpFibMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv4:\n{}\nIPv6:\n{}", self.v4, self.v6)
    }
}
