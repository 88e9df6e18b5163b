//! Transactions and snapshots of both families.

use core::fmt;
use core::net::IpAddr;

use ipnet::IpNet;
use sapwood_qsbr::Domain;

use super::family::{V4, V6};
use super::fib::NextHop;
use super::ip::both;
use super::{FibSnapshot, FibTxn};
use crate::sync::{Mutex, lock};
use crate::{Error, Rejected};

/// An open transaction on both families' tables. Nobody else sees its changes before they are
/// committed. It reads what it wrote; dropping it rolls back.
///
/// ```
/// use sapwood::lpm::IpFib;
/// let fib = IpFib::new()?;
/// let mut txn = fib.begin();
/// txn.insert("10.0.0.0/8".parse()?, 1)?;
/// txn.insert("2001:db8::/32".parse()?, 2)?;
/// assert_eq!(txn.lookup_value("2001:db8::1".parse()?), Some(&2));
/// assert!(fib.is_empty());
/// txn.commit();
/// assert_eq!(fib.snapshot().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IpTxn<'s, V: NextHop> {
    /// The transactions of both families, until they end.
    open: Option<(FibTxn<'s, V4, V>, FibTxn<'s, V6, V>)>,
    commits: &'s Mutex<()>,
}

impl<'s, V: NextHop> IpTxn<'s, V> {
    pub(super) fn new(
        v4: FibTxn<'s, V4, V>,
        v6: FibTxn<'s, V6, V>,
        commits: &'s Mutex<()>,
    ) -> Self {
        IpTxn {
            open: Some((v4, v6)),
            commits,
        }
    }

    fn both(&self) -> &(FibTxn<'s, V4, V>, FibTxn<'s, V6, V>) {
        match &self.open {
            Some(both) => both,
            None => unreachable!("a transaction is open until it is dropped"),
        }
    }

    fn both_mut(&mut self) -> &mut (FibTxn<'s, V4, V>, FibTxn<'s, V6, V>) {
        match &mut self.open {
            Some(both) => both,
            None => unreachable!("a transaction is open until it is dropped"),
        }
    }

    /// The domain whose grace periods the tables wait for.
    #[doc(hidden)]
    pub fn domain(&self) -> &'s Domain {
        self.both().0.domain()
    }

    /// The transaction on the IPv4 table, which has more methods.
    ///
    /// O(1).
    pub fn v4(&mut self) -> &mut FibTxn<'s, V4, V> {
        &mut self.both_mut().0
    }

    /// The transaction on the IPv6 table, which has more methods.
    ///
    /// O(1).
    pub fn v6(&mut self) -> &mut FibTxn<'s, V6, V> {
        &mut self.both_mut().1
    }

    /// The value of the longest prefix of an address.
    ///
    /// As [`FibTxn::lookup_value`].
    pub fn lookup_value(&self, addr: IpAddr) -> Option<&V> {
        match addr {
            IpAddr::V4(addr) => self.both().0.lookup_value(addr),
            IpAddr::V6(addr) => self.both().1.lookup_value(addr),
        }
    }

    /// Inserts or replaces the value of a prefix. The old value can be read until the next change
    /// of the transaction.
    ///
    /// As [`FibTxn::insert`].
    ///
    /// # Errors
    /// As [`FibTxn::insert`].
    pub fn insert(&mut self, net: IpNet, value: V) -> Result<Option<&V>, Rejected<V>> {
        match net {
            IpNet::V4(net) => self.v4().insert(net, value),
            IpNet::V6(net) => self.v6().insert(net, value),
        }
    }

    /// Removes a prefix. Its value can be read until the next change of the transaction; `None`
    /// when the prefix was not there.
    ///
    /// As [`FibTxn::remove`].
    ///
    /// # Errors
    /// As [`FibTxn::remove`].
    pub fn remove(&mut self, net: IpNet) -> Result<Option<&V>, Error> {
        match net {
            IpNet::V4(net) => self.v4().remove(net),
            IpNet::V6(net) => self.v6().remove(net),
        }
    }

    /// Publishes all changes, IPv4 first. A snapshot of both families has all of them or none.
    /// Meanwhile a reader may see the new table of one family and the old one of the other, and
    /// within a family new and old root words (see [`Fib`](super::Fib)). O(what was changed);
    /// cannot fail.
    pub fn commit(mut self) {
        let _no_snapshot = lock(self.commits);
        let (v4, v6) = self.both_mut();
        v4.publish();
        v6.publish();
    }

    /// Discards all changes, as dropping the transaction does.
    ///
    /// O(what was changed).
    pub fn rollback(self) {
        drop(self);
    }
}

impl<V: NextHop> fmt::Debug for IpTxn<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpTxn")
            .field("v4", &self.both().0)
            .field("v6", &self.both().1)
            .finish()
    }
}

impl<V: NextHop> Drop for IpTxn<'_, V> {
    fn drop(&mut self) {
        if let Some((v4, v6)) = self.open.take() {
            // Values are dropped when both tables' locks are released: their `drop` may use them.
            let values = (v4.finish(), v6.finish());
            drop(values);
        }
    }
}

/// One version of both families' tables, which stays alive until this is dropped. Any thread may
/// read it, and it may be sent to any thread.
///
/// ```
/// use sapwood::lpm::IpFib;
/// let fib = IpFib::from_iter([("10.0.0.0/8".parse()?, 1), ("2001:db8::/32".parse()?, 2)]);
/// let snapshot = fib.snapshot();
/// fib.remove("10.0.0.0/8".parse()?)?;
/// assert_eq!(snapshot.lookup_value("10.1.2.3".parse()?), Some(&1));
/// let all: Vec<_> = snapshot.iter().map(|(net, value)| (net.to_string(), *value)).collect();
/// assert_eq!(all, [("10.0.0.0/8".to_owned(), 1), ("2001:db8::/32".to_owned(), 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IpSnapshot<V: NextHop> {
    v4: FibSnapshot<V4, V>,
    v6: FibSnapshot<V6, V>,
}

impl<V: NextHop> IpSnapshot<V> {
    pub(super) fn new(v4: FibSnapshot<V4, V>, v6: FibSnapshot<V6, V>) -> Self {
        IpSnapshot { v4, v6 }
    }

    /// The IPv4 prefixes.
    ///
    /// O(1).
    pub fn v4(&self) -> &FibSnapshot<V4, V> {
        &self.v4
    }

    /// The IPv6 prefixes.
    ///
    /// O(1).
    pub fn v6(&self) -> &FibSnapshot<V6, V> {
        &self.v6
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

    /// The value of the longest prefix of an address.
    ///
    /// As [`FibSnapshot::lookup_value`].
    pub fn lookup_value(&self, addr: IpAddr) -> Option<&V> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup_value(addr),
            IpAddr::V6(addr) => self.v6.lookup_value(addr),
        }
    }

    /// The prefix itself, if it is there, and all prefixes inside it, in order.
    ///
    /// As [`FibSnapshot::covered_by`].
    pub fn covered_by(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &V)> {
        let (v4, v6) = match net {
            IpNet::V4(net) => (Some(self.v4.covered_by(net)), None),
            IpNet::V6(net) => (None, Some(self.v6.covered_by(net))),
        };
        both(v4, v6)
    }

    /// All prefixes that cover this one, which may be one of them, shortest first.
    ///
    /// As [`FibSnapshot::covering`].
    pub fn covering(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &V)> {
        let (v4, v6) = match net {
            IpNet::V4(net) => (Some(self.v4.covering(net)), None),
            IpNet::V6(net) => (None, Some(self.v6.covering(net))),
        };
        both(v4, v6)
    }

    /// This prefix, if it is there, and all that come after it in order: those of its family, and
    /// behind IPv4 all of IPv6.
    ///
    /// As [`FibSnapshot::iter_from`].
    pub fn iter_from(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &V)> {
        let (v4, v6) = match net {
            IpNet::V4(net) => (Some(self.v4.iter_from(net)), self.v6.iter()),
            IpNet::V6(net) => (None, self.v6.iter_from(net)),
        };
        both(v4, Some(v6))
    }

    /// All prefixes, IPv4 first, each family in the order of addresses.
    ///
    /// O(size of the roots + prefixes) for the whole walk.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &V)> {
        let v4 = self.v4.iter().map(|(net, value)| (net.into(), value));
        let v6 = self.v6.iter().map(|(net, value)| (net.into(), value));
        v4.chain(v6)
    }
}

impl<V: NextHop + fmt::Debug> fmt::Debug for IpSnapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
