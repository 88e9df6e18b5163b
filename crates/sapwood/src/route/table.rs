//! The route table: prefixes to groups of next hops, one member for each flow.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;
use core::hash::Hash;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use sapwood_qsbr::{Domain, Guard};

use super::group::Group;
use super::raw::slots::Slots;
use crate::lpm::{FibView, IpFib, NextHop, V4, V6};
use crate::reader::reading_methods;
use crate::{Error, Readable, Rejected};

/// Routes with weighted next hops: the longest prefix that has the address says which [`Group`], the flow's hash says
/// which of its members.
///
/// There is nothing for each flow: memory is that of the prefixes and of the different groups. Equal groups are one, with a
/// slot of its own, so that [`replace_group`](Self::replace_group) changes all prefixes that use it with one store, and
/// [`remove_member`](Self::remove_member) needs one store for each group that the member is in. Readers take no lock: a lookup
/// sees the group of before or after.
///
/// A handle; cheap to clone.
///
/// ```
/// use sapwood::route::{Group, RouteTable};
///
/// let table = RouteTable::new()?;
/// table.insert("10.0.0.0/8".parse()?, Group::new([("left", 1), ("right", 1)]))?;
/// table.insert("10.1.0.0/16".parse()?, Group::single("near"))?;
///
/// let mut reader = table.reader("port 1")?;
/// let flow = 0x1234_5678_9abc_def0;
/// assert_eq!(reader.view().lookup("10.1.2.3".parse()?, flow), Some(&"near"));
/// assert!(reader.view().lookup("10.2.2.3".parse()?, flow).is_some());
/// // A next hop is down.
/// assert_eq!(table.remove_member(&"left"), 1);
/// assert_eq!(reader.view().lookup("10.2.2.3".parse()?, flow), Some(&"right"));
/// reader.quiescent();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RouteTable<H: NextHop> {
    shared: Arc<TableShared<H>>,
}

/// The number of a group's slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Number(u32);

struct TableShared<H: NextHop> {
    fib: IpFib<Number>,
    slots: Slots<Group<H>>,
    /// Held through every change, so that the counts are those of the prefixes.
    groups: Mutex<Groups<H>>,
}

struct Groups<H: NextHop> {
    /// By number: the group, and how many prefixes use it.
    all: HashMap<u32, (Group<H>, usize)>,
    /// One number of each group, unless several had it and this one has gone.
    numbers: HashMap<Group<H>, u32>,
}

impl<H: NextHop> RouteTable<H> {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// [`Error::ArenaFull`] when no address space can be had.
    pub fn new() -> Result<Self, Error> {
        Ok(Self::from_fib(IpFib::new()?))
    }

    /// An empty table whose roots resolve so many bits: see [`FibBuilder::root_bits`](crate::lpm::FibBuilder::root_bits).
    ///
    /// # Errors
    ///
    /// [`Error::ArenaFull`] when no address space can be had.
    ///
    /// # Panics
    ///
    /// With a number that roots cannot have.
    pub fn with_root_bits(bits: u8) -> Result<Self, Error> {
        Ok(Self::from_fib(IpFib::with_root_bits(bits)?))
    }

    fn from_fib(fib: IpFib<Number>) -> Self {
        let slots = Slots::new(fib.domain());
        let groups = Groups {
            all: HashMap::new(),
            numbers: HashMap::new(),
        };
        Self {
            shared: Arc::new(TableShared {
                fib,
                slots,
                groups: Mutex::new(groups),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Groups<H>> {
        // A panic, of the comparison of next hops say, may leave a count too high: a group stays for longer.
        let groups = self.shared.groups.lock();
        groups.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a prefix a group; the old one, if it had one.
    ///
    /// # Errors
    ///
    /// As [`Fib::insert`](crate::lpm::Fib::insert).
    pub fn insert(
        &self,
        net: IpNet,
        group: Group<H>,
    ) -> Result<Option<Group<H>>, Rejected<Group<H>>> {
        let mut groups = self.lock();
        let number = match groups.numbers.get(&group) {
            Some(number) => *number,
            None => {
                let number = self.shared.slots.add(group.clone());
                groups.all.insert(number, (group.clone(), 0));
                groups.numbers.insert(group.clone(), number);
                number
            }
        };
        groups.use_once_more(number);
        let inserted = self.shared.fib.insert(net, Number(number));
        let old = match inserted {
            Ok(old) => Ok(old.map(|old| self.release(&mut groups, old.0))),
            Err(rejected) => {
                self.release(&mut groups, number);
                let error = rejected.error;
                Err(Rejected {
                    value: group,
                    error,
                })
            }
        };
        drop(groups);
        self.shared.slots.reclaim(usize::MAX);
        old
    }

    /// Removes a prefix; its group, if it was there.
    ///
    /// # Errors
    ///
    /// As [`Fib::remove`](crate::lpm::Fib::remove).
    pub fn remove(&self, net: IpNet) -> Result<Option<Group<H>>, Error> {
        let mut groups = self.lock();
        let old = self.shared.fib.remove(net)?;
        let old = old.map(|old| self.release(&mut groups, old.0));
        drop(groups);
        self.shared.slots.reclaim(usize::MAX);
        Ok(old)
    }

    /// The group of exactly this prefix.
    pub fn get(&self, net: IpNet) -> Option<Group<H>> {
        let groups = self.lock();
        let number = self.shared.fib.get(net)?;
        groups.all.get(&number.0).map(|(group, _)| group.clone())
    }

    /// All prefixes that use a group use another one instead, from one store on; returns how many.
    pub fn replace_group(&self, old: &Group<H>, new: &Group<H>) -> usize {
        let mut groups = self.lock();
        // Several slots can have come to hold equal groups.
        let holders = groups.all.iter().filter(|(_, (group, _))| group == old);
        let holders: Vec<_> = holders.map(|(number, _)| *number).collect();
        let changed = holders
            .into_iter()
            .map(|number| self.exchange(&mut groups, number, new));
        let changed = changed.sum();
        drop(groups);
        self.shared.slots.reclaim(usize::MAX);
        changed
    }

    /// Changes a member's weight in every group that has it, with one store for each; returns how many prefixes that
    /// concerns. With weight 0 it stays a member without flows.
    pub fn set_weight(&self, hop: &H, weight: u32) -> usize {
        self.change_groups(hop, |group| group.with(hop.clone(), weight))
    }

    /// Removes a member from every group that has it, with one store for each; returns how many prefixes that concerns.
    pub fn remove_member(&self, hop: &H) -> usize {
        self.change_groups(hop, |group| group.without(hop))
    }

    fn change_groups(&self, hop: &H, change: impl Fn(&Group<H>) -> Group<H>) -> usize {
        let mut groups = self.lock();
        let having = groups
            .all
            .iter()
            .filter(|(_, (group, _))| group.weight(hop).is_some());
        let having: Vec<_> = having
            .map(|(number, (group, _))| (*number, change(group)))
            .collect();
        let changed = having
            .into_iter()
            .map(|(number, new)| self.exchange(&mut groups, number, &new));
        let changed = changed.sum();
        drop(groups);
        self.shared.slots.reclaim(usize::MAX);
        changed
    }

    /// Puts another group into a slot.
    fn exchange(&self, groups: &mut Groups<H>, number: u32, new: &Group<H>) -> usize {
        let Some((group, uses)) = groups.all.get_mut(&number) else {
            return 0;
        };
        let (old, uses) = (core::mem::replace(group, new.clone()), *uses);
        self.shared.slots.replace(number, new.clone());
        if groups.numbers.get(&old) == Some(&number) {
            groups.numbers.remove(&old);
        }
        groups.numbers.entry(new.clone()).or_insert(number);
        uses
    }

    fn release(&self, groups: &mut Groups<H>, number: u32) -> Group<H> {
        let (group, uses) = groups
            .all
            .get_mut(&number)
            .expect("prefixes have groups that are there");
        let group = group.clone();
        *uses -= 1;
        if *uses == 0 {
            groups.all.remove(&number);
            if groups.numbers.get(&group) == Some(&number) {
                groups.numbers.remove(&group);
            }
            self.shared.slots.remove(number);
        }
        group
    }

    /// The next hop of a flow to an address. Pins and clones; [`reader`](Self::reader) is quicker.
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<H> {
        self.read(|view| view.lookup(addr, flow).cloned())
    }

    reading_methods!(RouteView<'g, H>);

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.shared.fib.len()
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots with groups: as many as there are different groups, or a few more after replacements.
    pub fn groups(&self) -> usize {
        self.lock().all.len()
    }

    /// All prefixes with their groups, IPv4 first, each family in the order of addresses.
    pub fn to_vec(&self) -> Vec<(IpNet, Group<H>)> {
        let groups = self.lock();
        let group = |number: &Number| groups.all[&number.0].0.clone();
        let mut all = vec![];
        let v4 = self.shared.fib.v4().snapshot();
        all.extend(v4.iter().map(|(net, number)| (net.into(), group(number))));
        let v6 = self.shared.fib.v6().snapshot();
        all.extend(v6.iter().map(|(net, number)| (net.into(), group(number))));
        all
    }

    /// Frees what readers have let go of, about `budget` nodes and groups; returns how many. Changes do that, too.
    pub fn reclaim(&self, budget: usize) -> usize {
        let fib = &self.shared.fib;
        fib.v4().reclaim(budget) + fib.v6().reclaim(budget) + self.shared.slots.reclaim(budget)
    }

    /// Checks the table's invariants.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.shared.fib.verify()?;
        let groups = self.lock();
        let mut uses = HashMap::<u32, usize>::new();
        let (v4, v6) = (
            self.shared.fib.v4().snapshot(),
            self.shared.fib.v6().snapshot(),
        );
        let numbers = v4
            .iter()
            .map(|(_, n)| n.0)
            .chain(v6.iter().map(|(_, n)| n.0));
        numbers.for_each(|number| *uses.entry(number).or_default() += 1);
        let pinned = self.shared.fib.domain().pin();
        for (number, (group, count)) in &groups.all {
            let there = self.shared.slots.get(pinned.guard(), *number);
            if uses.remove(number) != Some(*count) || there != Some(group) {
                return Err(format!(
                    "group {number} is not used {count} times, or another one"
                ));
            }
        }
        let named = |(group, number): (&Group<H>, &u32)| {
            groups
                .all
                .get(number)
                .is_some_and(|(held, _)| held == group)
        };
        match uses.is_empty() && groups.numbers.iter().all(named) {
            true => Ok(()),
            false => Err("prefixes or names of groups that are not there".into()),
        }
    }
}

impl<H: NextHop> Groups<H> {
    fn use_once_more(&mut self, number: u32) {
        if let Some((_, uses)) = self.all.get_mut(&number) {
            *uses += 1;
        }
    }
}

impl<H: NextHop> Clone for RouteTable<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<H: NextHop> fmt::Debug for RouteTable<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteTable")
            .field("len", &self.len())
            .field("groups", &self.groups())
            .finish()
    }
}

impl<H: NextHop> Readable for RouteTable<H> {
    type View<'g> = RouteView<'g, H>;

    fn domain(&self) -> &Domain {
        self.shared.fib.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> RouteView<'g, H> {
        RouteView {
            v4: self.shared.fib.v4().view(guard),
            v6: self.shared.fib.v6().view(guard),
            slots: &self.shared.slots,
            guard,
        }
    }
}

/// The table, read under a guard. Stays on its thread.
pub struct RouteView<'g, H: NextHop> {
    v4: FibView<'g, V4, Number>,
    v6: FibView<'g, V6, Number>,
    slots: &'g Slots<Group<H>>,
    guard: Guard<'g>,
}

impl<'g, H: NextHop> RouteView<'g, H> {
    /// The next hop of a flow to an address.
    #[inline]
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<&'g H> {
        self.group(addr)?.member(flow)
    }

    /// The group of an address: that of the longest prefix that has it.
    #[inline]
    pub fn group(&self, addr: IpAddr) -> Option<&'g Group<H>> {
        let number = match addr {
            IpAddr::V4(addr) => self.v4.lookup_value(addr)?,
            IpAddr::V6(addr) => self.v6.lookup_value(addr)?,
        };
        // The number was read under the guard, and is not used for another group before the guard is gone.
        self.slots.get(self.guard, number.0)
    }
}

impl<H: NextHop> Clone for RouteView<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: NextHop> Copy for RouteView<'_, H> {}

impl<H: NextHop> fmt::Debug for RouteView<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteView").finish_non_exhaustive()
    }
}
