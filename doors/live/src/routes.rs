//! A table of routes with groups of next hops, all of it in memory that other processes read.
//!
//! Two tables have the number of a group for each prefix, one table for each family. A point map
//! has the bytes of each group by its number. A number stays in the point map until a grace period
//! after the last prefix has left it, so a reader that has found the number finds the group.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use sapwood::lpm::{IpFib, IpFibView, NextHop};
use sapwood::qp::{AttachedView, PointMap, Unordered};
use sapwood::route::{Decision, Group, PackedGroup};
use sapwood::{Builder, Error, Rejected};
use sapwood_qsbr::{Domain, RetireQueue};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A table of routes with weighted next hops that can be live: the longest prefix of an address
/// selects a [`Group`], and the flow's hash selects one of its members, as in a
/// [`RouteTable`](sapwood::route::RouteTable). Next hops are plain bytes.
///
/// Equal groups share a number, so a change of a group is one change for all its prefixes. All
/// changes take a lock; readers take none.
///
/// ```
/// use sapwood::route::Group;
/// use sapwood_live::{Live, LiveReader, Routes};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-routes-{}", std::process::id()));
/// let routes = Live::<Routes<u32>>::create(&folder)?;
/// routes.insert("10.0.0.0/8".parse()?, &Group::new([(1, 1), (2, 1)]))?;
///
/// // In another process:
/// let reader = LiveReader::<Routes<u32>>::open(&folder)?;
/// let hop = reader.view().lookup("10.1.2.3".parse()?, 77);
/// assert!(hop == Some(1) || hop == Some(2));
/// routes.remove_member(&1)?;
/// assert_eq!(reader.view().lookup("10.1.2.3".parse()?, 77), Some(2));
/// # drop(reader);
/// # routes.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Routes<H: NextHop> {
    fib: IpFib<u32>,
    groups: PointMap<[u8]>,
    numbers: Mutex<Numbers<H>>,
}

/// The groups, and the prefixes that use them.
struct Numbers<H> {
    /// By number: the group, and how many prefixes use it.
    all: HashMap<u32, (Group<H>, usize)>,
    by_group: HashMap<Group<H>, u32>,
    /// Numbers that readers may still have found.
    left: RetireQueue<u32>,
    free: Vec<u32>,
    next: u32,
}

/// The choices of [`Routes`].
#[derive(Clone, Debug)]
pub struct RoutesBuilder {
    pub(crate) fib: Builder<IpFib<u32>>,
}

impl RoutesBuilder {
    /// Bits of an address that the roots resolve with one load: see
    /// [`Builder::root_bits`](sapwood::lpm::Builder::root_bits).
    ///
    /// # Panics
    /// With other numbers than 6, 12, 18 and 24.
    pub fn root_bits(self, bits: u8) -> Self {
        RoutesBuilder {
            fib: self.fib.root_bits(bits),
        }
    }
}

/// The bytes that count as garbage while a number waits for readers.
const NUMBER_BYTES: usize = 64;

impl<H: NextHop + FromBytes + IntoBytes + Immutable> Routes<H> {
    /// A table of these parts, which are empty and share a domain.
    pub(crate) fn new(fib: IpFib<u32>, groups: PointMap<[u8]>) -> Self {
        let left = RetireQueue::new(fib.v4().domain());
        Routes {
            fib,
            groups,
            numbers: Mutex::new(Numbers {
                all: HashMap::new(),
                by_group: HashMap::new(),
                left,
                free: Vec::new(),
                next: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers<H>> {
        // A panic leaves at most a number that no prefix uses.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a group, for one more prefix.
    fn number(&self, numbers: &mut Numbers<H>, group: &Group<H>) -> Result<u32, Error> {
        if let Some(number) = numbers.by_group.get(group) {
            if let Some((_, uses)) = numbers.all.get_mut(number) {
                *uses += 1;
                return Ok(*number);
            }
        }
        let number = numbers.free.last().copied().unwrap_or(numbers.next);
        let bytes = group.to_bytes();
        let stored = self.groups.insert(number.to_be_bytes(), &*bytes);
        stored.map_err(|rejected| rejected.error)?;
        if numbers.free.pop().is_none() {
            numbers.next += 1;
        }
        numbers.all.insert(number, (group.clone(), 1));
        numbers.by_group.insert(group.clone(), number);
        Ok(number)
    }

    /// Counts one prefix fewer that uses a number; returns the group.
    fn release(&self, numbers: &mut Numbers<H>, number: u32) -> Option<Group<H>> {
        let (group, uses) = numbers.all.get_mut(&number)?;
        *uses -= 1;
        if *uses > 0 {
            return Some(group.clone());
        }
        let (group, _) = numbers.all.remove(&number)?;
        if numbers.by_group.get(&group) == Some(&number) {
            numbers.by_group.remove(&group);
        }
        numbers.left.push(number, NUMBER_BYTES);
        numbers.left.seal();
        Some(group)
    }

    /// Removes groups that no reader can have found any more.
    fn tidy(&self, numbers: &mut Numbers<H>, budget: usize) -> usize {
        let (groups, free) = (&self.groups, &mut numbers.free);
        numbers.left.reclaim(budget, |number| {
            // Where there is no room for its garbage, the old group stays until the number is used
            // again.
            let _ = groups.remove(number.to_be_bytes());
            free.push(number);
        })
    }

    /// Inserts or replaces the group of a prefix; returns the old group.
    ///
    /// # Errors
    /// [`HostBitsSet`](sapwood::lpm::Error::HostBitsSet), a lack of memory
    /// ([`arena_full`](Error::arena_full)), a hard limit of garbage; then nothing has changed.
    pub fn insert(&self, net: IpNet, group: &Group<H>) -> Result<Option<Group<H>>, Error> {
        let mut numbers = self.lock();
        self.tidy(&mut numbers, 64);
        let number = self.number(&mut numbers, group)?;
        match self.fib.insert(net, number) {
            Ok(old) => Ok(old.and_then(|old| self.release(&mut numbers, old))),
            Err(Rejected { error, .. }) => {
                self.release(&mut numbers, number);
                Err(error.into())
            }
        }
    }

    /// Removes a prefix; returns its group, or `None` when it was not there.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&self, net: IpNet) -> Result<Option<Group<H>>, Error> {
        let mut numbers = self.lock();
        self.tidy(&mut numbers, 64);
        let old = self.fib.remove(net)?;
        Ok(old.and_then(|old| self.release(&mut numbers, old)))
    }

    /// Makes many changes in one transaction: a prefix gets a group, or is removed. It publishes
    /// the changes root word by root word, as [`IpTxn::commit`](sapwood::lpm::IpTxn::commit) does.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), for the first change that fails; then nothing has changed.
    pub fn apply(
        &self,
        changes: impl IntoIterator<Item = (IpNet, Option<Group<H>>)>,
    ) -> Result<(), Error> {
        let mut numbers = self.lock();
        self.tidy(&mut numbers, usize::MAX);
        let mut txn = self.fib.begin();
        let (mut added, mut left) = (Vec::new(), Vec::new());
        let mut change = |numbers: &mut Numbers<H>, (net, group): (IpNet, Option<Group<H>>)| {
            match group {
                Some(group) => {
                    let number = self.number(numbers, &group)?;
                    added.push(number);
                    let old = txn.insert(net, number).map_err(|rejected| rejected.error)?;
                    left.extend(old.copied());
                }
                None => left.extend(txn.remove(net)?.copied()),
            }
            Ok(())
        };
        let done = (changes.into_iter()).try_for_each(|one| change(&mut numbers, one));
        match done {
            Ok(()) => txn.commit(),
            Err(_) => txn.rollback(),
        }
        for number in if done.is_ok() { left } else { added } {
            self.release(&mut numbers, number);
        }
        done
    }

    /// The group of exactly this prefix.
    pub fn get(&self, net: IpNet) -> Option<Group<H>> {
        let numbers = self.lock();
        let number = self.fib.get(net)?;
        numbers.all.get(&number).map(|(group, _)| group.clone())
    }

    /// The next hop of a flow to an address, for the writer's process. It takes the lock.
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<H> {
        let numbers = self.lock();
        let (_, number) = self.fib.lookup(addr)?;
        numbers.all.get(&number)?.0.member(flow).cloned()
    }

    /// Changes the groups that `change` gives another group for; returns how many prefixes use
    /// them.
    fn change(&self, change: impl Fn(&Group<H>) -> Option<Group<H>>) -> Result<usize, Error> {
        let mut numbers = self.lock();
        self.tidy(&mut numbers, usize::MAX);
        let all = numbers.all.iter();
        let new: Vec<_> = all
            .filter_map(|(number, (group, _))| Some((*number, change(group)?)))
            .collect();
        let mut count = 0;
        for (number, group) in new {
            let bytes = group.to_bytes();
            let stored = self.groups.insert(number.to_be_bytes(), &*bytes);
            stored.map_err(|rejected| rejected.error)?;
            let Some((held, uses)) = numbers.all.get_mut(&number) else {
                continue;
            };
            let (old, uses) = (std::mem::replace(held, group.clone()), *uses);
            if numbers.by_group.get(&old) == Some(&number) {
                numbers.by_group.remove(&old);
            }
            numbers.by_group.entry(group).or_insert(number);
            count += uses;
        }
        Ok(count)
    }

    /// Replaces a group by another one for all prefixes that use it; returns how many these are. A
    /// reader sees the one or the other.
    ///
    /// # Errors
    /// A lack of memory ([`arena_full`](Error::arena_full)), a hard limit of garbage. Where several
    /// numbers have equal groups, which earlier changes made equal, the first ones are changed by
    /// then.
    pub fn replace_group(&self, old: &Group<H>, new: &Group<H>) -> Result<usize, Error> {
        self.change(|group| (group == old).then(|| new.clone()))
    }

    /// Changes a member's weight in every group that has it; returns how many prefixes use these
    /// groups. With weight 0 it stays a member without flows.
    ///
    /// # Errors
    /// As [`replace_group`](Self::replace_group).
    pub fn set_weight(&self, hop: &H, weight: u32) -> Result<usize, Error> {
        self.change(|group| {
            let has = group.weight(hop).is_some();
            has.then(|| group.with(hop.clone(), weight))
        })
    }

    /// Removes a member from every group that has it; returns how many prefixes use these groups.
    /// Only the member's flows move.
    ///
    /// # Errors
    /// As [`replace_group`](Self::replace_group).
    pub fn remove_member(&self, hop: &H) -> Result<usize, Error> {
        self.change(|group| group.weight(hop).is_some().then(|| group.without(hop)))
    }

    /// All prefixes with their groups, IPv4 first, each family in the order of addresses. They are
    /// copies of one moment.
    pub fn entries(&self) -> Vec<(IpNet, Group<H>)> {
        let numbers = self.lock();
        let snapshot = self.fib.snapshot();
        let all = snapshot.iter();
        all.filter_map(|(net, number)| Some((net, numbers.all.get(number)?.0.clone())))
            .collect()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.fib.is_empty()
    }

    /// Number of groups in use.
    pub fn groups(&self) -> usize {
        self.lock().all.len()
    }

    /// The domain whose grace periods the table waits for.
    pub fn domain(&self) -> &Domain {
        self.groups.domain()
    }

    /// Frees about `budget` nodes and groups that no reader can reach any more; returns how many.
    pub fn reclaim(&self, budget: usize) -> usize {
        let groups = self.tidy(&mut self.lock(), budget);
        let fib = self.fib.v4().reclaim(budget) + self.fib.v6().reclaim(budget);
        fib + self.groups.reclaim(budget) + groups
    }

    /// Checks the table's invariants.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.fib.verify()?;
        self.groups.verify()?;
        let numbers = self.lock();
        let mut uses = HashMap::<u32, usize>::new();
        for (_, number) in self.fib.snapshot().iter() {
            *uses.entry(*number).or_default() += 1;
        }
        for (number, (group, count)) in &numbers.all {
            let used = uses.remove(number).unwrap_or(0);
            if used != *count {
                return Err(format!(
                    "group {number} counts {count} prefixes and has {used}"
                ));
            }
            let stored = self.groups.get(number.to_be_bytes());
            if stored.is_none_or(|bytes| *bytes != *group.to_bytes()) {
                return Err(format!(
                    "readers see another group {number} than the writer"
                ));
            }
        }
        match uses.keys().next() {
            None => Ok(()),
            Some(number) => Err(format!("a prefix has group {number}, which is not there")),
        }
    }
}

impl<H: NextHop> fmt::Debug for Routes<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("len", &self.fib.len())
            .finish_non_exhaustive()
    }
}

/// Live [`Routes`], as a reader sees them. It stays on its thread. Each call sees the newest table.
pub struct RoutesView<'r, H> {
    pub(crate) fib: IpFibView<'r, u32>,
    pub(crate) groups: AttachedView<'r, Unordered, [u8]>,
    pub(crate) hops: std::marker::PhantomData<fn() -> H>,
}

impl<H> Clone for RoutesView<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for RoutesView<'_, H> {}

impl<'r, H: NextHop + FromBytes> RoutesView<'r, H> {
    /// The next hop of a flow to an address. `None` where there is no prefix, where the prefix has
    /// a null route, or the group has no member with any weight.
    #[inline]
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<H> {
        self.group(addr)?.member(flow)
    }

    /// What becomes of a packet of a flow to an address: its next hop, or why it has none.
    pub fn decide(&self, addr: IpAddr, flow: u64) -> Decision<H> {
        match self.group(addr) {
            Some(group) => group.decide(flow),
            None => Decision::NoRoute,
        }
    }

    /// The group of the longest prefix of an address.
    #[inline]
    pub fn group(&self, addr: IpAddr) -> Option<PackedGroup<'r, H>> {
        let number = self.fib.lookup_value(addr)?;
        self.numbered(*number)
    }

    /// The longest prefix of an address, and its group.
    pub fn route(&self, addr: IpAddr) -> Option<(IpNet, PackedGroup<'r, H>)> {
        let (net, number) = self.fib.lookup(addr)?;
        Some((net, self.numbered(*number)?))
    }

    #[inline]
    fn numbered(&self, number: u32) -> Option<PackedGroup<'r, H>> {
        PackedGroup::new(self.groups.get(number.to_be_bytes())?)
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.fib.is_empty()
    }
}

impl<H> fmt::Debug for RoutesView<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutesView").finish_non_exhaustive()
    }
}
