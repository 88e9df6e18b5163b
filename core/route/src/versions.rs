//! Versions of a route table: transactions and snapshots.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use ipnet::IpNet;

use super::group::Group;
use super::places::{Groups, Place};
use crate::sync::WriterGuard;
use crate::{Error, HashMap, Rejected};
use sapwood_lpm::{IpSnapshot, IpTxn, NextHop};

/// An open transaction on the routes of a table. Nobody else sees its changes before they are
/// committed; dropping it rolls back. A transaction changes the groups of prefixes, not the members
/// of groups: [`set_weight`](super::RouteTable::set_weight) and its like wait for the transaction
/// and publish by themselves.
///
/// ```
/// use sapwood::route::{Group, RouteTable};
/// let table = RouteTable::new()?;
/// let mut txn = table.begin();
/// txn.insert("10.0.0.0/8".parse()?, Group::single(1))?;
/// txn.insert("2001:db8::/32".parse()?, Group::single(2))?;
/// assert_eq!(txn.group("10.1.2.3".parse()?), Some(&Group::single(1)));
/// assert!(table.is_empty());
/// txn.commit();
/// assert_eq!(table.lookup("10.1.2.3".parse()?, 7), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RouteTxn<'s, H: NextHop> {
    // Dropped before the groups: it refers to places.
    fib: IpTxn<'s, Place<H>>,
    changes: Changes<'s, H>,
}

/// The groups of a table, and the counts that a transaction changed.
struct Changes<'s, H: NextHop> {
    groups: WriterGuard<'s, Groups<H>>,
    /// Places that the transaction's prefixes count for, and places that its prefixes left.
    added: Vec<Place<H>>,
    left: Vec<Place<H>>,
}

impl<H: NextHop> Drop for Changes<'_, H> {
    fn drop(&mut self) {
        // After a commit the list is empty.
        for place in self.added.drain(..) {
            self.groups.release(&place);
        }
        self.groups.reclaim(usize::MAX);
    }
}

impl<'s, H: NextHop> RouteTxn<'s, H> {
    pub(super) fn new(groups: WriterGuard<'s, Groups<H>>, fib: IpTxn<'s, Place<H>>) -> Self {
        let changes = Changes {
            groups,
            added: Vec::new(),
            left: Vec::new(),
        };
        RouteTxn { fib, changes }
    }

    /// Inserts or replaces the group of a prefix; returns whether it had one.
    ///
    /// As [`Fib::insert`](sapwood_lpm::Fib::insert), and a search for an equal group by its hash.
    ///
    /// # Errors
    /// As [`Fib::insert`](sapwood_lpm::Fib::insert).
    pub fn insert(&mut self, net: IpNet, group: Group<H>) -> Result<bool, Rejected<Group<H>>> {
        let changes = &mut self.changes;
        let place = changes.groups.place(&group, self.fib.domain());
        match self.fib.insert(net, place.clone()) {
            Ok(old) => {
                let old = old.cloned();
                changes.added.push(place);
                let had = old.is_some();
                changes.left.extend(old);
                Ok(had)
            }
            Err(rejected) => {
                let error = rejected.error;
                changes.groups.release(&place);
                Err(Rejected {
                    value: group,
                    error,
                })
            }
        }
    }

    /// Removes a prefix; returns whether it was there.
    ///
    /// As [`Fib::remove`](sapwood_lpm::Fib::remove).
    ///
    /// # Errors
    /// As [`Fib::remove`](sapwood_lpm::Fib::remove).
    pub fn remove(&mut self, net: IpNet) -> Result<bool, Error> {
        let old = self.fib.remove(net)?.cloned();
        let had = old.is_some();
        self.changes.left.extend(old);
        Ok(had)
    }

    /// The group of the longest prefix of an address, with the transaction's changes.
    ///
    /// The lookup of the prefix, and that of the group in a hash map.
    pub fn group(&self, addr: IpAddr) -> Option<&Group<H>> {
        let place = self.fib.lookup_value(addr)?;
        Some(&self.changes.groups.all.get(place)?.0)
    }

    /// Publishes all changes, as [`IpTxn::commit`] does. O(what was changed); cannot fail.
    pub fn commit(self) {
        let RouteTxn { fib, mut changes } = self;
        fib.commit();
        changes.added.clear();
        for place in core::mem::take(&mut changes.left) {
            changes.groups.release(&place);
        }
    }

    /// Discards all changes, as dropping the transaction does.
    ///
    /// O(what was changed).
    pub fn rollback(self) {
        drop(self);
    }
}

impl<H: NextHop> fmt::Debug for RouteTxn<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteTxn").finish_non_exhaustive()
    }
}

/// The routes of one moment and the groups that they had then, which stay alive until this is
/// dropped. Any thread may read them, and a snapshot may be sent to any thread.
///
/// ```
/// use sapwood::route::{Group, RouteTable};
/// let table = RouteTable::new()?;
/// table.insert("10.0.0.0/8".parse()?, Group::new([("left", 1), ("right", 1)]))?;
/// let snapshot = table.snapshot();
/// table.remove_member(&"left");
/// let (net, group) = snapshot.iter().next().unwrap();
/// assert_eq!((net.to_string().as_str(), group.members().count()), ("10.0.0.0/8", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RouteSnapshot<H: NextHop> {
    pub(super) fib: IpSnapshot<Place<H>>,
    pub(super) groups: HashMap<Place<H>, Group<H>>,
}

impl<H: NextHop> RouteSnapshot<H> {
    pub(super) fn new(groups: &Groups<H>, fib: IpSnapshot<Place<H>>) -> Self {
        let all = groups.all.iter();
        RouteSnapshot {
            fib,
            groups: all
                .map(|(place, (group, _))| (place.clone(), group.clone()))
                .collect(),
        }
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of the longest prefix of an address.
    ///
    /// The lookup of the prefix, and that of the group in a hash map.
    pub fn group(&self, addr: IpAddr) -> Option<&Group<H>> {
        self.groups.get(self.fib.lookup_value(addr)?)
    }

    /// All prefixes of an address with their groups, shortest first.
    ///
    /// As [`FibSnapshot::matches`](sapwood_lpm::FibSnapshot::matches), and a hash map's lookup for
    /// each match.
    pub fn matches(&self, addr: IpAddr) -> impl DoubleEndedIterator<Item = (IpNet, &Group<H>)> {
        let (v4, v6) = match addr {
            IpAddr::V4(addr) => (Some(self.fib.v4().matches(addr)), None),
            IpAddr::V6(addr) => (None, Some(self.fib.v6().matches(addr))),
        };
        let v4 = v4
            .into_iter()
            .flatten()
            .map(|(net, place)| (IpNet::from(net), place));
        let v6 = v6
            .into_iter()
            .flatten()
            .map(|(net, place)| (IpNet::from(net), place));
        v4.chain(v6)
            .filter_map(|(net, place)| Some((net, self.groups.get(place)?)))
    }

    /// All prefixes with their groups, IPv4 first, each family in the order of addresses.
    ///
    /// O(size of the roots + prefixes) for the whole walk.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &Group<H>)> {
        let all = self.fib.iter();
        all.filter_map(|(net, place)| Some((net, self.groups.get(place)?)))
    }
}

impl<H: NextHop + fmt::Debug> fmt::Debug for RouteSnapshot<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
