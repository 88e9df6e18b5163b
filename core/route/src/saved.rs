//! Route tables in files: saved as a [`FibFile`], and loaded from one.

use alloc::format;
use alloc::vec::Vec;
use std::path::Path;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::RouteTable;
use super::group::{Group, MEMBERS_MAX};
use super::versions::RouteSnapshot;
use crate::Builder;
use sapwood_common::{OpenCause, OpenError, SaveError};
use sapwood_lpm::{FibFile, FibFileBuilder, NextHop, SavedHop};

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
        let mut known = crate::HashMap::default();
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
