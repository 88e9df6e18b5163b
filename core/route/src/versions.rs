//! Versions of a route table: transactions, snapshots, files.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::RouteTable;
use super::group::{Group, MEMBERS_MAX};
use super::places::{Groups, Place};
use crate::sync::WriterGuard;
use crate::{Builder, Error, Rejected};
use sapwood_common::{OpenCause, OpenError, SaveError};
use sapwood_lpm::{FibFile, FibFileBuilder, IpSnapshot, IpTxn, NextHop, SavedHop};

/// An open transaction on the routes of a table. Nobody else sees its changes before they are
/// committed; dropping it rolls back. A transaction changes the groups of prefixes, not the members
/// of groups: [`set_weight`](RouteTable::set_weight) and its like wait for the transaction and
/// publish by themselves.
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
    fib: IpSnapshot<Place<H>>,
    groups: HashMap<Place<H>, Group<H>>,
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

impl<H: NextHop + IntoBytes + Immutable> RouteSnapshot<H> {
    /// Saves these routes. The file is written beside `path`, flushed, and renamed, so `path`
    /// always names the whole old file or the whole new one. [`Builder::load`] makes a table of it,
    /// and a [`FibFile`] reads it without loading.
    ///
    /// A member takes 8 bytes, and a next hop that is not a number below 2^30 its bytes once. A
    /// group of one member with the weight 1 is saved as a next hop, so that tables without groups
    /// can load the file.
    ///
    /// O(routes + members of the groups), and the writing of the file. It takes no lock.
    ///
    /// ```
    /// use sapwood::route::{Group, RouteTable};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.table", std::process::id()));
    /// let table = RouteTable::new()?;
    /// table.insert("10.0.0.0/8".parse()?, Group::new([(1u32, 2), (2, 1)]))?;
    /// table.snapshot().save(&path)?;
    /// let again = RouteTable::<u32>::builder().load(&path)?;
    /// let addr = "10.1.2.3".parse()?;
    /// assert!((0..1000).all(|flow| again.lookup(addr, flow) == table.lookup(addr, flow)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        let path = path.as_ref();
        let mut file = FibFileBuilder::new();
        let mut known = HashMap::new();
        let filled = self.fib.iter().try_for_each(|(net, place)| {
            let Some(group) = self.groups.get(place) else {
                return Ok(());
            };
            let hop = match known.get(group) {
                Some(hop) => *hop,
                None => {
                    let members = group.members();
                    let members: Vec<_> = members
                        .map(|(hop, weight)| (SavedHop::of(hop), weight))
                        .collect();
                    let hop = match (group.null_route(), &members[..]) {
                        (Some(kind), _) => file.hop(&SavedHop::Null(kind))?,
                        (None, [(single, 1)]) => file.hop(single)?,
                        (None, _) => file.hop(&SavedHop::Group(members))?,
                    };
                    known.insert(group, hop);
                    hop
                }
            };
            file.insert(net, hop).map(drop)
        });
        filled.map_err(|error| SaveError::at(path)(error.into()))?;
        file.save(path)
    }
}

/// The group that a saved next hop is, if its members are plain values of this type.
fn group_of<H: NextHop + FromBytes>(hop: &SavedHop<'_>) -> Option<Group<H>> {
    match hop {
        SavedHop::Group(members) if members.len() <= MEMBERS_MAX => {
            let members = members.iter();
            let members = members.map(|(hop, weight)| Some((hop.value()?, *weight)));
            members.collect::<Option<Vec<_>>>().map(Group::new)
        }
        SavedHop::Null(kind) => Some(Group::null(*kind)),
        hop => hop.value().map(Group::single),
    }
}

impl<H: NextHop + FromBytes> Builder<RouteTable<H>> {
    /// Loads a table from a file that [`RouteSnapshot::save`] wrote with next hops of the same
    /// size, or another one whose next hops are numbers or plain values, after checking all of it.
    /// A next hop without a group becomes a group of one. Null routes stay null routes.
    ///
    /// O(n log n), as the routes are sorted.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong: [`OpenCause::NotHeld`] when the file has names, or next
    /// hops of another size.
    pub fn load(self, path: impl AsRef<Path>) -> Result<RouteTable<H>, OpenError> {
        let path = path.as_ref();
        let holds = format!(
            "groups of next hops of {} bytes, and null routes",
            size_of::<H>()
        );
        let routes = FibFile::open(path)?.routes_as(&holds, group_of);
        let table = routes.and_then(|routes| {
            self.build_from(routes)
                .map_err(|error| OpenCause::Table(error.into()))
        });
        table.map_err(OpenError::at(path))
    }
}
