//! The route table: prefixes to groups of next hops, one member for each flow.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use core::net::IpAddr;

use ipnet::IpNet;
use sapwood_qsbr::{Domain, Guard};

use super::decision::{RouteChoices, VoidGroups};
use super::group::Group;
use super::places::{Groups, Held, Place};
use super::raw::slot::Slot;
use super::versions::{RouteSnapshot, RouteTxn};
use super::view::{FamilyRoutes, RouteView};
use crate::sync::{WriterGuard, WriterLock};
use crate::{Buildable, Builder, Error, HashMap, OldestSnapshot, Readable, Rejected};
use sapwood_common::reading_methods;
use sapwood_lpm::{FibChoices, IpFib, IpFibMemory, NextHop};

/// A table of routes with weighted next hops: the longest prefix of the address selects a
/// [`Group`], and the flow's hash selects one of its members.
///
/// The table keeps no state for flows: its memory is that of the prefixes and of the different
/// groups ([`memory`](Self::memory)). Groups that are equal when they are inserted share one slot.
/// So [`replace_group`](Self::replace_group) and [`remove_member`](Self::remove_member) need one
/// store for each slot, however many prefixes use it. Readers take no lock: a lookup sees the group
/// before a change or after it.
///
/// A prefix may have a null route ([`Group::null`]): a lookup then answers `None`, and
/// [`RouteView::decide`] says which kind of null route it is. After one of the kind
/// [`Throw`](super::NullRoute::Throw), the caller goes on in its next table.
///
/// A prefix whose group has no member with any weight still matches: a lookup then answers `None`,
/// not the next hop of a shorter prefix (test `a_group_without_members`), unless the builder's
/// [`void_groups`](Builder::void_groups) say that shorter prefixes cover it.
/// [`emptied`](Self::emptied) lists such prefixes.
///
/// A hard limit of garbage refuses changes of prefixes. Changes of groups
/// ([`replace_group`](Self::replace_group), [`set_weight`](Self::set_weight),
/// [`remove_member`](Self::remove_member)) cannot fail: the groups that they replace count as
/// garbage, and can pass the limit (test `groups_that_are_replaced_count_as_garbage`).
///
/// A table is a handle, cheap to clone.
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

impl<H: NextHop> Buildable for RouteTable<H> {
    type Choices = RouteChoices;
    type Builder = Builder<Self>;
}

impl<H: NextHop> Builder<RouteTable<H>> {
    /// Bits of an address that the roots resolve with one load, as for a
    /// [`Fib`](sapwood_lpm::Fib): 6, 12, 18 or 24. By default each root grows with its table.
    ///
    /// O(1).
    ///
    /// # Panics
    ///
    /// With any other number.
    pub fn root_bits(mut self, bits: u8) -> Self {
        self.choices.fib = FibChoices::new(bits);
        self
    }

    /// What becomes of packets whose prefix has a group of which no member has a weight. Default:
    /// [`VoidGroups::Drop`].
    ///
    /// O(1).
    pub fn void_groups(mut self, void: VoidGroups) -> Self {
        self.choices.void = void;
        self
    }

    /// The builder of the tables of places.
    fn places(self) -> sapwood_lpm::Builder<IpFib<Place<H>>> {
        let (memory, domain, choices) = self.into_parts();
        sapwood_lpm::Builder::of_parts((memory, domain, choices.fib))
    }

    /// An empty table.
    ///
    /// As that of an [`IpFib`].
    ///
    /// # Errors
    ///
    /// [`Error::ArenaFull`] when the system gives no address space.
    pub fn build(self) -> Result<RouteTable<H>, Error> {
        let void = self.choices.void;
        Ok(RouteTable::from_fib(self.places().build()?, void))
    }

    /// Builds a table of routes in any order; of equal prefixes, the last wins. This is quicker
    /// than inserting them one by one.
    ///
    /// # Errors
    ///
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`].
    pub fn build_from(
        self,
        routes: impl IntoIterator<Item = (IpNet, Group<H>)>,
    ) -> Result<RouteTable<H>, Error> {
        let (domain, void) = (self.domain_or_new(), self.choices.void);
        let mut groups = Groups::new();
        let mut place = |(net, group): (IpNet, Group<H>)| (net, groups.place(&group, &domain));
        let routes: Vec<_> = routes.into_iter().map(&mut place).collect();
        let fib = self.domain(&domain).places().build_from(routes)?;
        let table = RouteTable::from_fib(fib, void);
        // All of several equal prefixes were counted: this counts those in the table.
        let fib = &table.shared.fib;
        groups.all.values_mut().for_each(|(_, uses)| *uses = 0);
        let mut count = |place: &Place<H>| {
            if let Some((_, uses)) = groups.all.get_mut(place) {
                *uses += 1;
            }
        };
        fib.snapshot().iter().for_each(|(_, place)| count(place));
        groups.all.retain(|_, (_, uses)| *uses > 0);
        let all = &groups.all;
        groups.places.retain(|place| all.contains_key(place));
        *table.lock() = groups;
        Ok(table)
    }
}

struct TableShared<H: NextHop> {
    fib: IpFib<Place<H>>,
    /// The place for addresses without a prefix.
    nowhere: Place<H>,
    void: VoidGroups,
    /// Locked during every change, so that the counts agree with the prefixes.
    groups: WriterLock<Groups<H>>,
}

impl<H: NextHop> RouteTable<H> {
    /// An empty table.
    ///
    /// As [`build`](Builder::build).
    ///
    /// # Errors
    ///
    /// [`Error::ArenaFull`] when the system gives no address space.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::qsbr::Domain;
    /// use sapwood::route::{Group, RouteTable};
    ///
    /// // Two small tables, as for customers of many, whose readers are registered once.
    /// let domain = Domain::new();
    /// let one = RouteTable::builder().domain(&domain).build()?;
    /// let two = RouteTable::builder().domain(&domain).build()?;
    /// one.insert("10.0.0.0/8".parse()?, Group::single(1))?;
    /// two.insert("10.0.0.0/8".parse()?, Group::single(2))?;
    /// let reader = domain.register("port")?;
    /// let addr = "10.1.2.3".parse()?;
    /// assert_eq!(one.view(reader.guard()).lookup(addr, 7), Some(&1));
    /// assert_eq!(two.view(reader.guard()).lookup(addr, 7), Some(&2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> Builder<Self> {
        let (memory, domain, fib) = IpFib::<Place<H>>::builder().into_parts();
        let void = VoidGroups::default();
        Builder::of_parts((memory, domain, RouteChoices { fib, void }))
    }

    fn from_fib(fib: IpFib<Place<H>>, void: VoidGroups) -> Self {
        let nowhere = Place(Slot::new(fib.domain(), Held::nowhere()));
        Self {
            shared: Arc::new(TableShared {
                fib,
                nowhere,
                void,
                groups: WriterLock::new(Groups::new()),
            }),
        }
    }

    #[track_caller]
    fn lock(&self) -> WriterGuard<'_, Groups<H>> {
        // A panic, such as one in a comparison of next hops, may leave a count too high: then a
        // group stays longer.
        self.shared.groups.lock()
    }

    /// Begins a transaction. If another thread has one open, this waits for its end. All other
    /// changes of the table wait for the transaction, too.
    ///
    /// O(1), apart from the wait.
    ///
    /// # Panics
    ///
    /// When this thread has a transaction of the table open: it would wait for itself. All methods
    /// that change the table panic then, too.
    #[track_caller]
    pub fn begin(&self) -> RouteTxn<'_, H> {
        RouteTxn::new(self.lock(), self.shared.fib.begin())
    }

    /// Begins a transaction, unless another is open.
    ///
    /// O(1). It does not wait.
    pub fn try_begin(&self) -> Option<RouteTxn<'_, H>> {
        let groups = self.shared.groups.try_lock()?;
        Some(RouteTxn::new(groups, self.shared.fib.try_begin()?))
    }

    /// The number of snapshots that are alive. Waits for no transaction.
    ///
    /// O(versions that snapshots keep).
    pub fn snapshots(&self) -> usize {
        self.shared.fib.v4().snapshots()
    }

    /// The oldest version of the IPv4 prefixes that snapshots keep, and how much garbage of both
    /// families it holds back: see [`Fib::oldest_snapshot`](sapwood_lpm::Fib::oldest_snapshot).
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        let mut oldest = self.shared.fib.v4().oldest_snapshot()?;
        // A snapshot keeps both families.
        let v6 = self.shared.fib.v6().oldest_snapshot();
        oldest.bytes += v6.map_or(0, |v6| v6.bytes);
        Some(oldest)
    }

    /// A snapshot of the newest routes with their groups. Making it is O(number of groups),
    /// and waits for an open transaction.
    ///
    /// # Panics
    ///
    /// As [`begin`](Self::begin).
    #[track_caller]
    pub fn snapshot(&self) -> RouteSnapshot<H> {
        let groups = self.lock();
        RouteSnapshot::new(&groups, self.shared.fib.snapshot())
    }

    /// Inserts or replaces the group of a prefix; returns the old group.
    ///
    /// As [`Fib::insert`](sapwood_lpm::Fib::insert), and O(members) if the group is new to the
    /// table.
    ///
    /// # Errors
    ///
    /// As [`Fib::insert`](sapwood_lpm::Fib::insert).
    #[track_caller]
    pub fn insert(
        &self,
        net: IpNet,
        group: Group<H>,
    ) -> Result<Option<Group<H>>, Rejected<Group<H>>> {
        let mut groups = self.lock();
        let place = groups.place(&group, self.shared.fib.domain());
        let inserted = self.shared.fib.insert(net, place);
        let old = match inserted {
            Ok(old) => Ok(old.map(|old| groups.release(&old))),
            Err(rejected) => {
                groups.release(&rejected.value);
                let error = rejected.error;
                Err(Rejected {
                    value: group,
                    error,
                })
            }
        };
        groups.reclaim(usize::MAX);
        old
    }

    /// Removes a prefix; returns its group, or `None` when it was not there.
    ///
    /// As [`Fib::insert`](sapwood_lpm::Fib::insert).
    ///
    /// # Errors
    ///
    /// As [`Fib::remove`](sapwood_lpm::Fib::remove).
    #[track_caller]
    pub fn remove(&self, net: IpNet) -> Result<Option<Group<H>>, Error> {
        let mut groups = self.lock();
        let old = self.shared.fib.remove(net)?;
        let old = old.map(|old| groups.release(&old));
        groups.reclaim(usize::MAX);
        Ok(old)
    }

    /// The group of exactly this prefix.
    ///
    /// As [`Fib::get`](sapwood_lpm::Fib::get), under the lock of writers.
    #[track_caller]
    pub fn get(&self, net: IpNet) -> Option<Group<H>> {
        let groups = self.lock();
        #[cfg(feature = "std")]
        let place = self.shared.fib.get(net)?;
        #[cfg(not(feature = "std"))]
        let mut txn = self.shared.fib.begin();
        #[cfg(not(feature = "std"))]
        let place = match net {
            IpNet::V4(net) => txn.v4().get(net).cloned(),
            IpNet::V6(net) => txn.v6().get(net).cloned(),
        }?;
        groups.all.get(&place).map(|(group, _)| group.clone())
    }

    /// Replaces a group by another one for all prefixes that use it; returns how many these are.
    ///
    /// O(groups).
    ///
    /// This makes one store for each slot that holds the group. There is one such slot, unless
    /// other groups became equal to it by [`set_weight`](Self::set_weight),
    /// [`remove_member`](Self::remove_member) or this method: these keep slots of their own.
    #[track_caller]
    pub fn replace_group(&self, old: &Group<H>, new: &Group<H>) -> usize {
        let mut groups = self.lock();
        // Several slots can have come to hold equal groups.
        let holders = groups.all.iter().filter(|(_, (group, _))| group == old);
        let holders: Vec<_> = holders.map(|(place, _)| place.clone()).collect();
        let changed = holders.into_iter().map(|place| groups.exchange(place, new));
        let changed = changed.sum();
        groups.reclaim(usize::MAX);
        changed
    }

    /// Changes a member's weight in every group that has it, with one store for each; returns how
    /// many prefixes use these groups. With weight 0 it stays a member without flows.
    ///
    /// O(members of all groups), and a group that has it is made anew.
    #[track_caller]
    pub fn set_weight(&self, hop: &H, weight: u32) -> usize {
        self.change_groups(hop, |group| group.with(hop.clone(), weight))
    }

    /// Removes a member from every group that has it, with one store for each; returns how many
    /// prefixes use these groups.
    ///
    /// As [`set_weight`](Self::set_weight).
    #[track_caller]
    pub fn remove_member(&self, hop: &H) -> usize {
        self.change_groups(hop, |group| group.without(hop))
    }

    #[track_caller]
    fn change_groups(&self, hop: &H, change: impl Fn(&Group<H>) -> Group<H>) -> usize {
        let mut groups = self.lock();
        let having = groups
            .all
            .iter()
            .filter(|(_, (group, _))| group.weight(hop).is_some());
        let having: Vec<_> = having
            .map(|(place, (group, _))| (place.clone(), change(group)))
            .collect();
        let changed = having
            .into_iter()
            .map(|(place, new)| groups.exchange(place, &new));
        let changed = changed.sum();
        groups.reclaim(usize::MAX);
        changed
    }

    /// The next hop of a flow to an address. This pins the thread and clones the next hop; a
    /// [`reader`](Self::reader) is quicker.
    ///
    /// A pin, the cost of [`Fib::lookup`](sapwood_lpm::Fib::lookup), and one bucket of the group.
    /// It needs the feature `std`.
    #[cfg(feature = "std")]
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<H> {
        self.read(|view| view.lookup(addr, flow).cloned())
    }

    /// The prefixes whose groups are void: no member has a weight, and they are no null routes.
    ///
    /// O(prefixes + groups), from a [`snapshot`](Self::snapshot).
    ///
    /// # Panics
    ///
    /// As [`begin`](Self::begin).
    #[track_caller]
    pub fn emptied(&self) -> Vec<IpNet> {
        let snapshot = self.snapshot();
        let void = snapshot.iter().filter(|(_, group)| group.is_void());
        void.map(|(net, _)| net).collect()
    }

    reading_methods!(RouteView<'g, H>);

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.shared.fib.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots with groups: the number of different groups, or more after replacements that
    /// made groups equal.
    ///
    /// O(1).
    #[track_caller]
    pub fn groups(&self) -> usize {
        self.lock().all.len()
    }

    /// The memory that the table uses.
    ///
    /// O(groups).
    #[track_caller]
    pub fn memory(&self) -> RouteTableMemory {
        let groups = self.lock();
        let each = groups.all.values().map(|(group, _)| group.bytes());
        // About as many bytes as the two maps hold for a group, with their own.
        let maps = groups.all.capacity() * size_of::<(Place<H>, Group<H>, usize, u8)>()
            + groups.places.bytes();
        RouteTableMemory {
            prefixes: self.shared.fib.memory(),
            groups: (
                groups.all.len(),
                each.sum::<usize>() + groups.all.len() * size_of::<Slot<Held<H>>>() + maps,
            ),
        }
    }

    /// Frees about `budget` nodes and groups that no reader can reach any more; returns how many.
    /// Changes free some as well.
    ///
    /// O(budget + groups that wait), and a look at each reader.
    pub fn reclaim(&self, budget: usize) -> usize {
        let fib = &self.shared.fib;
        fib.v4().reclaim(budget) + fib.v6().reclaim(budget) + self.lock().reclaim(budget)
    }

    /// Checks the table's invariants.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong.
    #[track_caller]
    pub fn verify(&self) -> Result<(), String> {
        self.shared.fib.verify()?;
        let groups = self.lock();
        let mut uses = HashMap::<Place<H>, usize>::default();
        let snapshot = self.shared.fib.snapshot();
        let places = snapshot.iter().map(|(_, place)| place.clone());
        places.for_each(|place| *uses.entry(place).or_default() += 1);
        #[cfg(feature = "std")]
        let reader = self.shared.fib.domain().pin();
        #[cfg(not(feature = "std"))]
        let reader = (self.shared.fib.domain().register("verify")).map_err(|e| format!("{e}"))?;
        for (place, (group, count)) in &groups.all {
            let there = &place.0.get(reader.guard()).group;
            let used = uses.remove(place).unwrap_or(0);
            if used != *count {
                return Err(format!("a group counts {count} prefixes and has {used}"));
            }
            if there != group {
                return Err(format!(
                    "readers see another group than the writer, which has {count} prefixes"
                ));
            }
        }
        let named = |(group, place): (&Group<H>, &Place<H>)| {
            let held = groups.all.get(place);
            held.is_some_and(|(held, _)| held == group)
        };
        match uses.is_empty() && groups.places.iter().all(named) {
            true => Ok(()),
            false => Err("a prefix or a name has a group that is not there".into()),
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
        let nowhere = &self.shared.nowhere;
        let covers = self.shared.void == VoidGroups::Cover;
        RouteView {
            v4: FamilyRoutes {
                fib: self.shared.fib.v4().view(guard),
                nowhere,
                guard,
                covers,
            },
            v6: FamilyRoutes {
                fib: self.shared.fib.v6().view(guard),
                nowhere,
                guard,
                covers,
            },
        }
    }
}

/// A report of a route table's memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RouteTableMemory {
    /// The tables of prefixes. Their values are the places of groups.
    pub prefixes: IpFibMemory,
    /// Groups: their number, and about their bytes, including the maps that find them. Next hops
    /// count with their own size, without the memory that they own.
    pub groups: (usize, usize),
}

impl RouteTableMemory {
    /// About all bytes that the table takes from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        self.prefixes.total() + self.groups.1
    }
}

impl fmt::Display for RouteTableMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, bytes) = self.groups;
        writeln!(f, "{}", self.prefixes)?;
        write!(f, "groups: {number}, {bytes} bytes")
    }
}
