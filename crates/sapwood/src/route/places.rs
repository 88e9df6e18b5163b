//! The groups of a route table, and the places that hold them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::collections::HashMap;

use sapwood_qsbr::Domain;

use super::group::Group;
use super::raw::slot::Slot;
use crate::lpm::NextHop;

/// A place that holds a group. Readers get it from the prefix, which keeps it while they look.
pub(super) struct Place<H: NextHop>(pub(super) Arc<Slot<Group<H>>>);

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

pub(super) struct Groups<H: NextHop> {
    /// For each place its group, and how many prefixes use it.
    pub(super) all: HashMap<Place<H>, (Group<H>, usize)>,
    /// For each group one of its places. A group of which several places were left may have none
    /// here.
    pub(super) places: HashMap<Group<H>, Place<H>>,
    /// Places whose former groups wait for readers.
    pub(super) waiting: Vec<Place<H>>,
}

impl<H: NextHop> Groups<H> {
    pub(super) fn new() -> Self {
        Self {
            all: HashMap::new(),
            places: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// The place of a group; counts one prefix more that uses it.
    pub(super) fn place(&mut self, group: &Group<H>, domain: &Domain) -> Place<H> {
        let place = self.places.entry(group.clone()).or_insert_with(|| {
            let slot = Slot::new(domain, group.clone());
            Place(Arc::new(slot))
        });
        let known = self.all.entry(place.clone());
        known.or_insert_with(|| (group.clone(), 0)).1 += 1;
        place.clone()
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
            if self.places.get(&group) == Some(place) {
                self.places.remove(&group);
            }
        }
        group
    }

    /// Puts another group into a place; returns how many prefixes use the place.
    pub(super) fn exchange(&mut self, place: Place<H>, new: &Group<H>) -> usize {
        let Some((group, uses)) = self.all.get_mut(&place) else {
            return 0;
        };
        let (old, uses) = (core::mem::replace(group, new.clone()), *uses);
        place.0.replace(new.clone(), old.bytes());
        if self.places.get(&old) == Some(&place) {
            self.places.remove(&old);
        }
        self.places.entry(new.clone()).or_insert(place.clone());
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
