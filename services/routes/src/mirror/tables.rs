//! What a mirror fills.

use std::error::Error as StdError;

use ipnet::IpNet;
use sapwood::lpm::Error;
use sapwood::lpm::{FibMemory, IpFib};
use sapwood::route::{GroupMember, MirrorHop};
use sapwood_arena::ArenaFull;

/// Tables that a mirror fills: those of this process (an [`IpFib`]); with the feature `live` a live
/// table, by which other processes forward packets (`sapwood_live::Live<IpFib<MirrorHop>>`); with
/// the feature `bpf` those by which programs in the kernel do.
pub trait MirrorTables: Send + Sync + 'static {
    /// The hop of exactly this prefix.
    fn get(&self, net: IpNet) -> Option<MirrorHop>;

    /// Adds or replaces the hop of a prefix.
    ///
    /// # Errors
    /// When there is no room. Then nothing has changed.
    fn insert(&self, net: IpNet, hop: MirrorHop) -> Result<(), Error>;

    /// Removes a prefix.
    ///
    /// # Errors
    /// When there is no room for the removal. Then nothing has changed.
    fn remove(&self, net: IpNet) -> Result<(), Error>;

    /// Removes the first prefixes and then writes the others, in one transaction.
    ///
    /// # Errors
    /// When there is no room. Then nothing has changed.
    fn change(&self, removed: &[IpNet], written: &[(IpNet, MirrorHop)]) -> Result<(), Error>;

    /// Frees the memory that no reader uses any more. The mirror calls it when there was no room.
    fn reclaim(&self);

    /// The groups of next hops. Without any, routes with several gateways are left to the kernel.
    fn groups(&self) -> Option<&dyn MirrorGroups> {
        None
    }
}

/// Groups of next hops that a mirror fills. Groups and links have numbers from 0.
pub trait MirrorGroups: Send + Sync {
    /// The number of groups that there can be.
    fn most(&self) -> usize;

    /// The number of links that there can be.
    fn links(&self) -> usize;

    /// Whether a group can have these members.
    fn has_room(&self, members: &[GroupMember]) -> bool;

    /// Sets the members of a group.
    ///
    /// # Errors
    /// The map's error. Then nothing has changed.
    fn set(&self, group: usize, members: &[GroupMember]) -> Result<(), GroupsError>;

    /// Removes a group.
    ///
    /// # Errors
    /// The map's error.
    fn clear(&self, group: usize) -> Result<(), GroupsError>;

    /// Whether a link is up.
    fn is_up(&self, link: u32) -> bool;

    /// Takes a link up or down, in all groups at once.
    fn set_up(&self, link: u32, up: bool);
}

/// The error of a map of groups.
pub type GroupsError = Box<dyn StdError + Send + Sync>;

impl MirrorTables for IpFib<MirrorHop> {
    fn get(&self, net: IpNet) -> Option<MirrorHop> {
        IpFib::get(self, net)
    }

    fn insert(&self, net: IpNet, hop: MirrorHop) -> Result<(), Error> {
        if IpFib::get(self, net).is_none() {
            check_room(self, net)?;
        }
        let done = IpFib::insert(self, net, hop);
        done.map(drop).map_err(|rejected| rejected.error)
    }

    fn remove(&self, net: IpNet) -> Result<(), Error> {
        IpFib::remove(self, net).map(drop)
    }

    fn change(&self, removed: &[IpNet], written: &[(IpNet, MirrorHop)]) -> Result<(), Error> {
        let is_new = |net: &IpNet| IpFib::get(self, *net).is_none();
        let mut new = written.iter().map(|(net, _)| *net).filter(is_new);
        // One of each family tells for all.
        let first = new.next();
        let is_other =
            |net: &IpNet| first.is_some_and(|first| net.addr().is_ipv4() != first.addr().is_ipv4());
        for net in first.into_iter().chain(new.find(is_other)) {
            check_room(self, net)?;
        }
        let mut txn = self.begin();
        for net in removed {
            txn.remove(*net)?;
        }
        for (net, hop) in written {
            txn.insert(*net, *hop).map_err(|rejected| rejected.error)?;
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&self) {
        self.v4().reclaim(usize::MAX);
        self.v6().reclaim(usize::MAX);
    }
}

/// Whether the table of a prefix's family has room for a new one. A removal needs memory for a
/// moment, too, so a sixteenth is kept free.
fn check_room(fib: &IpFib<MirrorHop>, net: IpNet) -> Result<(), Error> {
    let FibMemory { arena, .. } = match net {
        IpNet::V4(_) => fib.v4().memory(),
        IpNet::V6(_) => fib.v6().memory(),
    };
    let spare = (arena.reserved / 16).min(256 << 10);
    if arena.live + arena.retired + spare < arena.reserved {
        return Ok(());
    }
    Err(Error::ArenaFull(ArenaFull::new(spare, arena.reserved)))
}

#[cfg(feature = "live")]
impl MirrorTables for sapwood_live::Live<IpFib<MirrorHop>> {
    fn get(&self, net: IpNet) -> Option<MirrorHop> {
        MirrorTables::get(&**self, net)
    }

    fn insert(&self, net: IpNet, hop: MirrorHop) -> Result<(), Error> {
        MirrorTables::insert(&**self, net, hop)
    }

    fn remove(&self, net: IpNet) -> Result<(), Error> {
        MirrorTables::remove(&**self, net)
    }

    fn change(&self, removed: &[IpNet], written: &[(IpNet, MirrorHop)]) -> Result<(), Error> {
        MirrorTables::change(&**self, removed, written)
    }

    fn reclaim(&self) {
        MirrorTables::reclaim(&**self);
    }
}

#[cfg(feature = "bpf")]
mod bpf {
    use sapwood_bpf::{GroupMap, HopTables};

    use super::*;

    impl MirrorTables for HopTables {
        fn get(&self, net: IpNet) -> Option<MirrorHop> {
            self.map().get(net)
        }

        fn insert(&self, net: IpNet, hop: MirrorHop) -> Result<(), Error> {
            MirrorTables::insert(&**self.map(), net, hop)
        }

        fn remove(&self, net: IpNet) -> Result<(), Error> {
            MirrorTables::remove(&**self.map(), net)
        }

        fn change(&self, removed: &[IpNet], written: &[(IpNet, MirrorHop)]) -> Result<(), Error> {
            self.map().change(removed, written)
        }

        fn reclaim(&self) {
            self.map().reclaim();
        }

        fn groups(&self) -> Option<&dyn MirrorGroups> {
            let groups = HopTables::groups(self)?;
            Some(groups)
        }
    }

    impl MirrorGroups for GroupMap {
        fn most(&self) -> usize {
            self.most_groups()
        }

        fn links(&self) -> usize {
            GroupMap::links(self)
        }

        fn has_room(&self, members: &[GroupMember]) -> bool {
            GroupMap::has_room(self, members)
        }

        fn set(&self, group: usize, members: &[GroupMember]) -> Result<(), GroupsError> {
            Ok(GroupMap::set(self, group, members)?)
        }

        fn clear(&self, group: usize) -> Result<(), GroupsError> {
            Ok(GroupMap::clear(self, group).map(drop)?)
        }

        fn is_up(&self, link: u32) -> bool {
            GroupMap::is_up(self, link)
        }

        fn set_up(&self, link: u32, up: bool) {
            match up {
                true => self.link_up(link),
                false => self.link_down(link),
            }
        }
    }
}
