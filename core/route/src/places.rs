//! The groups of a route table, and the places that hold them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;
use sapwood_qsbr::Domain;

use super::decision::Decision;
use super::group::{Choice, Group};
use super::hash::spread;
use super::raw::slot::Slot;
use super::rendezvous::{self, Four};
use crate::{HashMap, State};
use sapwood_lpm::NextHop;

/// A place that holds a group. Readers get it from the prefix, which keeps it while they look.
pub(super) struct Place<H: NextHop>(pub(super) Arc<Slot<Held<H>>>);

/// A group, and what lookups need of it. A place's first group lies in one piece of memory with the
/// place.
#[repr(C)]
pub(super) struct Held<H> {
    quick: Quick<H>,
    pub(super) group: Group<H>,
}

/// How a lookup finds the next hop without a look into the group, in the cases that are frequent.
enum Quick<H> {
    /// There is no prefix.
    Nowhere,
    One(H),
    /// Up to four members of one weight. In place of those that there are not, the first stands
    /// again, so a choice has no branch.
    Even(Four, [H; EVEN]),
    Group,
}

const EVEN: usize = 4;

impl<H: Clone> Held<H> {
    pub(super) fn new(group: Group<H>) -> Self {
        let members = || group.members().zip(group.member_hashes());
        let quick = match (group.choice(), group.members().len()) {
            (Choice::Only(at), _) => match members().nth(*at) {
                Some(((hop, _), _)) => Quick::One(hop.clone()),
                None => Quick::Group,
            },
            (Choice::Even, len @ 1..=EVEN) => {
                // The first stands at all places behind the last.
                let at = |place: usize| members().nth(if place < len { place } else { 0 });
                match [at(0), at(1), at(2), at(3)] {
                    [Some(a), Some(b), Some(c), Some(d)] => {
                        let all = [a, b, c, d];
                        let hops = all.map(|((hop, _), _)| hop.clone());
                        Quick::Even(Four::new(all.map(|(_, hash)| hash)), hops)
                    }
                    _ => Quick::Group,
                }
            }
            _ => Quick::Group,
        };
        Held { quick, group }
    }

    /// What addresses without a prefix have.
    pub(super) fn nowhere() -> Self {
        Held {
            quick: Quick::Nowhere,
            group: Group::new_void(),
        }
    }
}

impl<H> Held<H> {
    /// The member for a flow, as [`Group::member`] says.
    #[inline(always)]
    pub(super) fn member(&self, flow: u64) -> Option<&H> {
        match &self.quick {
            Quick::Even(four, hops) => {
                let bucket = rendezvous::bucket(spread(flow));
                let at = rendezvous::best_of_four(four, bucket);
                Some(&hops[at % EVEN])
            }
            Quick::One(hop) => Some(hop),
            Quick::Nowhere => None,
            Quick::Group => self.group.member(flow),
        }
    }

    /// Whether a table whose void groups are covered goes on with a shorter prefix.
    #[inline]
    pub(super) fn is_void(&self) -> bool {
        matches!(self.quick, Quick::Group) && self.group.is_void()
    }

    /// What becomes of a flow's packets.
    #[inline]
    pub(super) fn decide(&self, flow: u64) -> Decision<&H> {
        match (self.member(flow), &self.quick) {
            (Some(hop), _) => Decision::Hop(hop),
            (None, Quick::Nowhere) => Decision::NoRoute,
            (None, _) => self.group.decide(flow),
        }
    }
}

impl<H: NextHop> Clone for Place<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: NextHop> PartialEq for Place<H> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<H: NextHop> Eq for Place<H> {}

impl<H: NextHop> fmt::Debug for Place<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&Arc::as_ptr(&self.0)).finish()
    }
}

impl<H: NextHop> Hash for Place<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// For each group one of its places.
///
/// Only a search compares groups, and so runs the user's code. What is here is found again by the
/// place, so that a comparison that lies or panics leaves nothing behind.
pub(super) struct Names<H: NextHop> {
    names: HashTable<(u64, Group<H>, Place<H>)>,
    /// The hash under which a place is in the table.
    hashes: HashMap<Place<H>, u64>,
    state: State,
}

impl<H: NextHop> Names<H> {
    fn new() -> Self {
        Self {
            names: HashTable::new(),
            hashes: HashMap::default(),
            state: State::default(),
        }
    }

    /// The place of a group.
    fn find(&self, group: &Group<H>) -> Option<&Place<H>> {
        let hash = self.state.hash_one(group);
        let found = self.names.find(hash, |(_, known, _)| known == group);
        found.map(|(_, _, place)| place)
    }

    /// Adds a group with its place, of which no group is here.
    fn add(&mut self, group: Group<H>, place: Place<H>) {
        let hash = self.state.hash_one(&group);
        self.hashes.insert(place.clone(), hash);
        let name = (hash, group, place);
        self.names.insert_unique(hash, name, |(hash, ..)| *hash);
    }

    /// Removes the group of a place, if it is here.
    fn remove(&mut self, place: &Place<H>) {
        let Some(hash) = self.hashes.remove(place) else {
            return;
        };
        let found = self.names.find_entry(hash, |(_, _, other)| other == place);
        if let Ok(entry) = found {
            entry.remove();
        }
    }

    /// Removes the groups whose places `keep` refuses.
    pub(super) fn retain(&mut self, keep: impl Fn(&Place<H>) -> bool) {
        self.names.retain(|(_, _, place)| keep(place));
        self.hashes.retain(|place, _| keep(place));
    }

    /// Gives back the memory that it does not need for what it has.
    fn shrink_to_fit(&mut self) {
        self.names.shrink_to_fit(|(hash, ..)| *hash);
        self.hashes.shrink_to_fit();
    }

    /// All groups with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Group<H>, &Place<H>)> {
        self.names.iter().map(|(_, group, place)| (group, place))
    }

    /// About as many bytes as it takes.
    pub(super) fn bytes(&self) -> usize {
        self.names.capacity() * size_of::<(u64, Group<H>, Place<H>, u8)>()
            + self.hashes.capacity() * size_of::<(Place<H>, u64, u8)>()
    }
}

pub(super) struct Groups<H: NextHop> {
    /// For each place its group, and how many prefixes use it.
    pub(super) all: HashMap<Place<H>, (Group<H>, usize)>,
    /// For each group one of its places. A group of which several places were left may have none
    /// here.
    pub(super) places: Names<H>,
    /// Places whose former groups wait for readers.
    pub(super) waiting: Vec<Place<H>>,
}

impl<H: NextHop> Groups<H> {
    pub(super) fn new() -> Self {
        Self {
            all: HashMap::default(),
            places: Names::new(),
            waiting: Vec::new(),
        }
    }

    /// The place of a group; counts one prefix more that uses it.
    pub(super) fn place(&mut self, group: &Group<H>, domain: &Domain) -> Place<H> {
        let place = match self.places.find(group) {
            Some(place) => place.clone(),
            None => {
                let place = Place(Slot::new(domain, Held::new(group.clone())));
                self.places.add(group.clone(), place.clone());
                place
            }
        };
        let known = self.all.entry(place.clone());
        known.or_insert_with(|| (group.clone(), 0)).1 += 1;
        place
    }

    /// Counts one prefix fewer that uses a place; returns the place's group.
    pub(super) fn release(&mut self, place: &Place<H>) -> Group<H> {
        let (group, uses) = self
            .all
            .get_mut(place)
            .expect("each prefix has the place of a group");
        let group = group.clone();
        *uses -= 1;
        if *uses == 0 {
            self.all.remove(place);
            self.places.remove(place);
        }
        group
    }

    /// Puts another group into a place; returns how many prefixes use the place.
    pub(super) fn exchange(&mut self, place: Place<H>, new: &Group<H>) -> usize {
        // Code that may unwind comes first.
        let held = Held::new(new.clone());
        let named = self.places.find(new).filter(|named| **named != place);
        let is_named = named.is_some();
        let Some((group, uses)) = self.all.get_mut(&place) else {
            return 0;
        };
        let (old, uses) = (core::mem::replace(group, new.clone()), *uses);
        let bytes = old.bytes() + size_of::<Held<H>>();
        place.0.replace(held, bytes);
        self.places.remove(&place);
        if !is_named {
            self.places.add(new.clone(), place.clone());
        }
        self.waiting.push(place);
        uses
    }

    /// Frees up to `budget` former groups whose readers have gone; returns how many.
    pub(super) fn reclaim(&mut self, budget: usize) -> usize {
        let mut freed = 0;
        self.waiting.retain(|place| {
            let (here, left) = place.0.reclaim(budget - freed);
            freed += here;
            left
        });
        if self.all.is_empty() && self.all.capacity() > 64 {
            // The table has become empty, and gives its memory back.
            self.all.shrink_to_fit();
            self.places.shrink_to_fit();
            self.waiting.shrink_to_fit();
        }
        freed
    }
}
