//! The paths of each prefix, by peer: what a dump and the updates after it leave.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use ipnet::IpNet;

/// How many paths of a prefix are kept from a dump. Public dumps have twenty to sixty, and the
/// later ones are needed only when the peers of the first withdraw the prefix.
pub(super) const KEPT: usize = 4;

/// A path to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The number of the peer in the table.
    pub(super) peer: u32,
    /// The number that tells paths of one peer apart (RFC 7911).
    pub(super) id: u32,
    /// The number of the next hop in the table.
    pub(super) hop: u32,
    /// The autonomous system at the end of the path; 0 if there is none.
    pub(super) origin: u32,
}

/// The paths of a prefix, of which the first is taken.
#[derive(Debug)]
struct Paths {
    first: Path,
    more: Vec<Path>,
    /// Whether the dump had more paths than are kept.
    had_more: bool,
}

/// All prefixes with their paths.
#[derive(Debug, Default)]
pub(super) struct Table {
    routes: BTreeMap<IpNet, Paths>,
    peers: Numbers<IpAddr>,
    hops: Numbers<Option<IpAddr>>,
    /// The prefixes whose route may have changed, if somebody asks for them.
    pub(super) changed: Option<VecDeque<IpNet>>,
    /// Withdrawn prefixes for which the dump had paths that were not kept.
    pub(super) unknown: u64,
}

/// Values by number.
#[derive(Debug)]
struct Numbers<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        let (all, numbers) = Default::default();
        Numbers { all, numbers }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Numbers<T> {
    fn of(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.all.push(value);
            self.all.len() as u32 - 1
        })
    }
}

impl Table {
    /// The number of a peer.
    pub(super) fn peer(&mut self, address: IpAddr) -> u32 {
        self.peers.of(address)
    }

    /// The number of a next hop.
    pub(super) fn hop(&mut self, address: Option<IpAddr>) -> u32 {
        self.hops.of(address)
    }

    /// The addresses of all peers, in order.
    pub(super) fn peers(&self) -> Vec<IpAddr> {
        let mut all = self.peers.all.clone();
        all.sort();
        all
    }

    fn touch(&mut self, net: IpNet) {
        if let Some(changed) = &mut self.changed {
            changed.push_back(net);
        }
    }

    /// Replaces all paths of a prefix by those of a dump.
    pub(super) fn dumped(&mut self, net: IpNet, paths: &[Path], had_more: bool) {
        let Some((&first, more)) = paths.split_first() else {
            return;
        };
        let more = more.to_vec();
        let paths = Paths {
            first,
            more,
            had_more,
        };
        self.routes.insert(net, paths);
        self.touch(net);
    }

    /// Adds a path, or replaces the peer's path with its number.
    pub(super) fn announce(&mut self, net: IpNet, path: Path) {
        let is_same = |known: &Path| known.peer == path.peer && known.id == path.id;
        match self.routes.get_mut(&net) {
            None => {
                let (more, had_more) = (Vec::new(), false);
                let paths = Paths {
                    first: path,
                    more,
                    had_more,
                };
                self.routes.insert(net, paths);
            }
            Some(paths) if is_same(&paths.first) => paths.first = path,
            Some(paths) => {
                match paths.more.iter_mut().find(|known| is_same(known)) {
                    Some(known) => *known = path,
                    None => paths.more.push(path),
                }
                return;
            }
        }
        self.touch(net);
    }

    /// Removes the peer's path with a number.
    pub(super) fn withdraw(&mut self, net: IpNet, peer: u32, id: u32) {
        let Some(paths) = self.routes.get_mut(&net) else {
            return;
        };
        let is_it = |known: &Path| known.peer == peer && known.id == id;
        if !is_it(&paths.first) {
            paths.more.retain(|known| !is_it(known));
            return;
        }
        match paths.more.is_empty() {
            false => paths.first = paths.more.remove(0),
            true => {
                self.unknown += u64::from(paths.had_more);
                self.routes.remove(&net);
            }
        }
        self.touch(net);
    }

    /// Removes all paths of a peer, whose session has ended.
    pub(super) fn forget(&mut self, peer: u32) {
        let is_his = |known: &Path| known.peer == peer;
        let mut changed = Vec::new();
        let mut unknown = 0;
        self.routes.retain(|net, paths| {
            paths.more.retain(|known| !is_his(known));
            if !is_his(&paths.first) {
                return true;
            }
            changed.push(*net);
            let is_left = !paths.more.is_empty();
            match is_left {
                true => paths.first = paths.more.remove(0),
                false => unknown += u64::from(paths.had_more),
            }
            is_left
        });
        self.unknown += unknown;
        changed.into_iter().for_each(|net| self.touch(net));
    }

    /// The next hop and the origin of a prefix.
    pub(super) fn get(&self, net: &IpNet) -> Option<(Option<IpAddr>, u32)> {
        let path = self.routes.get(net)?.first;
        Some((self.hops.all[path.hop as usize], path.origin))
    }

    /// Takes the first prefix out.
    pub(super) fn pop(&mut self) -> Option<(IpNet, Option<IpAddr>, u32)> {
        let (net, paths) = self.routes.pop_first()?;
        let path = paths.first;
        Some((net, self.hops.all[path.hop as usize], path.origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = "10.0.0.0/8";

    fn path(peer: u32, hop: u32) -> Path {
        let (id, origin) = (0, 0);
        Path {
            peer,
            id,
            hop,
            origin,
        }
    }

    /// A table with three next hops, 192.0.2.0 to 192.0.2.2.
    fn table() -> (Table, IpNet) {
        let mut table = Table::default();
        for last in 0..3 {
            table.hop(Some([192, 0, 2, last].into()));
            table.peer([198, 51, 100, last].into());
        }
        table.changed = Some(VecDeque::new());
        (table, NET.parse().unwrap())
    }

    fn hop(table: &Table, net: IpNet) -> Option<String> {
        table.get(&net).map(|(hop, _)| hop.unwrap().to_string())
    }

    #[test]
    fn the_next_path_is_taken_when_the_first_goes() {
        let (mut table, net) = table();
        table.dumped(net, &[path(0, 0), path(1, 1)], false);
        table.announce(net, path(2, 2));
        table.announce(net, path(0, 1));
        assert_eq!(hop(&table, net).as_deref(), Some("192.0.2.1"));
        table.announce(net, path(0, 0));
        table.withdraw(net, 1, 0);
        table.withdraw(net, 0, 7);
        assert_eq!(hop(&table, net).as_deref(), Some("192.0.2.0"));
        table.withdraw(net, 0, 0);
        assert_eq!(hop(&table, net).as_deref(), Some("192.0.2.2"));
        table.forget(2);
        assert_eq!(hop(&table, net), None);
        table.withdraw(net, 0, 0);
        assert_eq!(table.unknown, 0);
        // Whoever asks hears of each change of the route, and of no other.
        assert_eq!(table.changed.as_ref().unwrap().len(), 5);
        assert_eq!(table.pop(), None);
    }

    #[test]
    fn paths_that_were_not_kept_are_told() {
        let (mut table, net) = table();
        table.dumped(net, &[path(0, 0)], true);
        table.withdraw(net, 0, 0);
        table.dumped(net, &[path(1, 0)], true);
        table.forget(1);
        assert_eq!((table.unknown, table.pop()), (2, None));
    }
}
