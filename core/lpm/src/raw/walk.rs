//! Walks over a version in the order of bits and length, all of it or what is inside one prefix.

use smallvec::SmallVec;

use super::node::Prefixes;
use super::read::{Reading, Words};
use crate::family::Key;
use sapwood_format::lpm::{STRIDE, Set, child_of, slots_of};

/// The stride that a walk is in: a block of root prefixes (or none), or a node.
#[derive(Clone, Copy)]
enum Place {
    Root(u32),
    Node(u32),
}

#[derive(Clone, Copy)]
struct Level<K> {
    place: Place,
    /// The bits of the path to this stride.
    path: K,
    depth: u32,
    /// Slots not visited yet where a prefix begins or something lies below.
    slots: u64,
    /// The slot that is being visited, and the next length to look at there.
    at: usize,
    len: u32,
    /// The walk leaves out prefixes that are shorter than this.
    least: u32,
}

/// A walk over prefixes: bits, length, value.
///
/// When the root grows meanwhile, the walk goes on in the new root, with what it has not visited.
pub(crate) struct Walk<K, W> {
    reading: Reading<W>,
    /// Whether this is a newer root than the one with which the walk has begun.
    is_newer: bool,
    width: u32,
    stack: SmallVec<[Level<K>; 6]>,
    /// The next prefix, when it is a lone one.
    lone: Option<(K, u8, u32)>,
}

/// No slot is being visited.
const NONE: usize = usize::MAX;

impl<K: Key, W: Words> Walk<K, W> {
    /// A walk that has nothing to visit.
    fn new(reading: Reading<W>, width: u32) -> Self {
        Walk {
            reading,
            is_newer: false,
            width,
            stack: SmallVec::new(),
            lone: None,
        }
    }

    /// A walk over the prefix itself and all inside it.
    pub(crate) fn within(reading: Reading<W>, width: u32, key: K, len: u32) -> Self {
        let mut walk = Walk::new(reading, width);
        let (mut place, mut depth, mut rest) = (Place::Root(reading.words.root_prefixes()), 0, key);
        loop {
            if let Some(lone) = walk.lone_at(place, key.first(depth), depth) {
                let inside = u32::from(lone.1) >= len && lone.0.first(len) == key.first(len);
                walk.lone = inside.then_some(lone);
                return walk;
            }
            if len - depth <= STRIDE {
                break;
            }
            let path = key.first(depth);
            match walk.below(place, path, depth, rest.top(STRIDE)) {
                Some(next) => place = next,
                None => return walk,
            }
            depth += STRIDE;
            rest = rest.skip(STRIDE);
        }
        let mut level = walk.level(place, key.first(depth), depth);
        let left = len - depth;
        if left > 0 {
            let inside = slots_of(Set::heap(left, rest.top(left)));
            let mask = u64::MAX >> (64 - inside.len()) << inside.start;
            level.slots &= mask;
            level.least = left;
        }
        walk.stack.push(level);
        walk
    }

    /// A walk over the prefix itself and all that come after it in order.
    pub(crate) fn from(reading: Reading<W>, width: u32, key: K, len: u32) -> Self {
        let mut walk = Walk::new(reading, width);
        let (mut place, mut depth, mut rest) = (Place::Root(reading.words.root_prefixes()), 0, key);
        loop {
            if let Some(lone) = walk.lone_at(place, key.first(depth), depth) {
                walk.lone = ((lone.0, u32::from(lone.1)) >= (key, len)).then_some(lone);
                return walk;
            }
            let path = key.first(depth);
            let slot = rest.top(STRIDE);
            let mut level = walk.level(place, path, depth);
            level.slots = level.slots >> slot << slot;
            let here = level.slots >> slot & 1 != 0;
            if len <= depth + STRIDE {
                // In the slot, prefixes are left out that are shorter than the given one.
                if here {
                    level.slots &= level.slots - 1;
                    level.at = slot;
                    level.len = (len - depth).max(u32::from(depth != 0));
                }
                walk.stack.push(level);
                return walk;
            }
            if here {
                level.slots &= level.slots - 1;
            }
            walk.stack.push(level);
            match walk.below(place, path, depth, slot) {
                Some(next) => place = next,
                None => return walk,
            }
            depth += STRIDE;
            rest = rest.skip(STRIDE);
        }
    }

    /// The stride below a slot.
    fn below(&mut self, place: Place, path: K, depth: u32, slot: usize) -> Option<Place> {
        let Reading {
            mem, words, bits, ..
        } = self.reading;
        match place {
            Place::Root(_) if depth + STRIDE == bits => {
                let path = path.put(depth, STRIDE, slot);
                let node = words.word(path.top(bits)).child();
                if node == 0 {
                    return None;
                }
                // SAFETY: what a version reaches is live while it is kept.
                if unsafe { mem.node(node) }
                    .lone()
                    .is_none_or(|lone| !lone.is_moved())
                {
                    return Some(Place::Node(node));
                }
                (self.reading, self.is_newer) = (self.reading.newest()?, true);
                Some(self.in_root(path, depth + STRIDE))
            }
            // The blocks of an older root do not go so far down.
            Place::Root(_) if self.is_newer => {
                Some(self.in_root(path.put(depth, STRIDE, slot), depth + STRIDE))
            }
            Place::Root(0) => Some(Place::Root(0)),
            // SAFETY: what a version reaches is live while it is kept.
            Place::Root(r) => Some(Place::Root(unsafe { mem.root_prefixes(r) }.child(slot))),
            Place::Node(r) => {
                // SAFETY: as above.
                let child = child_of(unsafe { mem.node(r) }.slot(slot));
                (child != 0).then_some(Place::Node(child))
            }
        }
    }

    /// The stride of the root behind the first `bits` bits of a path.
    fn in_root(&self, path: K, bits: u32) -> Place {
        let mut block = self.reading.words.root_prefixes();
        let mut rest = path;
        for _ in 0..bits / STRIDE {
            if block != 0 {
                // SAFETY: what a version reaches is live while it is kept.
                let root_prefixes = unsafe { self.reading.mem.root_prefixes(block) };
                block = root_prefixes.child(rest.top(STRIDE));
            }
            rest = rest.skip(STRIDE);
        }
        Place::Root(block)
    }

    /// The lone prefix in the place of a stride.
    fn lone_at(&self, place: Place, path: K, depth: u32) -> Option<(K, u8, u32)> {
        let Place::Node(r) = place else { return None };
        // SAFETY: what a version reaches is live while it is kept.
        let lone = unsafe { self.reading.mem.node(r) }.lone()?;
        let bits = path.join(K::from_word(lone.bits(), depth));
        Some((bits, (depth + lone.len()) as u8, lone.value))
    }

    /// The prefixes of a stride that is no lone prefix: their set, and their values.
    fn prefixes(&self, place: Place) -> (Set, &'static [u32]) {
        let mem = self.reading.mem;
        // SAFETY: what a version reaches is live while it is kept; the slices are used at once.
        unsafe {
            match place {
                Place::Root(0) => Default::default(),
                Place::Root(r) => (mem.root_prefixes(r).set(), mem.root_prefixes(r).values()),
                Place::Node(r) => {
                    let Prefixes { set, values } = mem.node(r).prefixes();
                    (set, values)
                }
            }
        }
    }

    fn level(&mut self, place: Place, path: K, depth: u32) -> Level<K> {
        let (set, _) = self.prefixes(place);
        let begins = |slots: u64, heap| slots | 1 << slots_of(heap).start;
        let mut slots = set.iter().fold(0, begins);
        match place {
            Place::Node(r) => {
                // SAFETY: as above.
                let children = unsafe { self.reading.mem.node(r) }.children();
                slots |= children.fold(0, |slots, (slot, _)| slots | 1 << slot);
            }
            Place::Root(_) => {
                let below = |slot: &usize| self.below(place, path, depth, *slot).is_some();
                let below = (0..64).filter(below);
                slots |= below.fold(0, |slots, slot| slots | 1 << slot);
            }
        }
        Level {
            place,
            path,
            depth,
            slots,
            at: NONE,
            len: 0,
            least: 0,
        }
    }
}

impl<K: Key, W: Words> Iterator for Walk<K, W> {
    type Item = (K, u8, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(lone) = self.lone.take() {
            return Some(lone);
        }
        loop {
            let mut level = *self.stack.last()?;
            if level.at == NONE {
                if level.slots == 0 {
                    self.stack.pop();
                    continue;
                }
                level.at = level.slots.trailing_zeros() as usize;
                level.slots &= level.slots - 1;
                level.len = level.least.max(u32::from(level.depth != 0));
            }
            let (set, values) = self.prefixes(level.place);
            let mut found = None;
            while found.is_none() && level.len <= STRIDE {
                let heap = Set::heap(level.len, level.at >> (STRIDE - level.len));
                // Only in the slot where the prefix begins.
                if slots_of(heap).start == level.at && set.has(heap) {
                    found = Some((level.len, values[set.rank(heap)]));
                }
                level.len += 1;
            }
            let below = if found.is_none() {
                let below = self.below(level.place, level.path, level.depth, level.at);
                let path = level.path.put(level.depth, STRIDE, level.at);
                level.at = NONE;
                below.map(|place| (place, path))
            } else {
                None
            };
            let depth = level.depth;
            let path = level
                .path
                .put(depth, STRIDE, if level.at == NONE { 0 } else { level.at });
            if let Some(top) = self.stack.last_mut() {
                *top = level;
            }
            if let Some((len, value)) = found {
                return Some((path, (depth + len) as u8, value));
            }
            if let Some((place, path)) = below {
                debug_assert!(
                    depth + STRIDE < self.width,
                    "nothing lies below the last bit"
                );
                if let Some(lone) = self.lone_at(place, path, depth + STRIDE) {
                    return Some(lone);
                }
                let level = self.level(place, path, depth + STRIDE);
                self.stack.push(level);
            }
        }
    }
}
