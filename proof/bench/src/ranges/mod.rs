//! The range maps that the suite `ranges` compares: disjoint ranges of `u64`, each with a `u64`.
//!
//! # To add an engine
//!
//! Write a file in `peers` that implements [`Engine`], and name the type in [`lanes`]. An engine
//! that cannot remove ranges says so in [`Engine::NO_ERASE`]. An engine whose readers need a guard,
//! or whose calls have a cost of their own, runs a whole pass in [`Engine::loads`] and
//! [`Engine::gaps`]. An engine that holds memory outside malloc's heap returns its size from
//! [`Engine::mapped_bytes`]. Only an engine that plans its writes has [`Engine::requests`].

mod native;
mod requests;
mod sapwood;
pub mod shared;

pub use self::requests::Requests;
use crate::peers;
/// The reference engine, whose answers count as right: the simplest one.
pub use crate::peers::btree::BTree as Reference;

/// One change of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores a value over a range, whatever the range contains.
    Store { start: u64, end: u64, value: u64 },
    /// Removes the whole entry that contains an index, if there is one.
    Erase { index: u64 },
    /// Removes the contents of a range, and cuts the entries that extend across its ends.
    Clear { start: u64, end: u64 },
    /// Stores a value at the lowest gap that fits.
    Alloc { within: Query, value: u64 },
}

/// A search for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The number of indices of the gap.
    pub size: u64,
    /// The first index that the gap may have.
    pub from: u64,
    /// The last index that the gap may have.
    pub to: u64,
}

/// A map, as the benchmark uses it.
pub trait Engine: Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// Why the engine cannot remove ranges. It is measured only where no range is removed.
    const NO_ERASE: Option<&'static str> = None;

    /// An empty map, or why this machine has none.
    fn empty() -> Result<Self, String>;

    /// Stores a value over a range. Entries that it overlaps keep only what lies outside the range.
    fn store(&mut self, start: u64, end: u64, value: u64);

    /// Removes the whole entry that contains an index; returns its value.
    fn erase(&mut self, index: u64) -> Option<u64>;

    /// Removes the contents of a range.
    fn clear(&mut self, start: u64, end: u64);

    /// The value at an index.
    fn get(&self, index: u64) -> Option<u64>;

    /// Looks all indices up in their order.
    fn loads(&self, indices: &[u64]) -> Tally {
        Tally::of(indices, |index| self.get(index))
    }

    /// Looks all indices up in their order, each after the answer to the one before is known.
    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        Tally::dependent(indices, |index| self.get(index))
    }

    /// Reads all entries in order.
    fn entries(&self) -> EntrySum;

    /// The lowest start of `size` free indices within a window; the window is not empty.
    fn gap(&self, query: Query) -> Option<u64>;

    /// Searches for gaps, each as [`gap`](Self::gap) does.
    fn gaps(&self, queries: &[Query]) -> Tally {
        let mut tally = Tally::default();
        queries.iter().for_each(|query| tally.add(self.gap(*query)));
        tally
    }

    /// Stores a value at the lowest start of `size` free indices within a window; returns the
    /// start.
    fn alloc(&mut self, within: Query, value: u64) -> Option<u64> {
        let start = self.gap(within)?;
        self.store(start, start + (within.size - 1), value);
        Some(start)
    }

    /// The bytes that the map holds outside the heap that Rust's allocator counts, such as
    /// mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }

    /// Makes the changes of `base` and then `changes`. Each change is planned, its nodes are
    /// reserved, and then it is carried out. Returns the numbers of nodes for `changes`.
    fn requests(base: &[Op], changes: &[Op]) -> Option<Requests> {
        let _ = (base, changes);
        None
    }
}

/// A checksum of many answers, which depends on their order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    found: u64,
    mixed: u64,
}

impl Tally {
    /// Adds one answer.
    #[inline]
    pub fn add(&mut self, answer: Option<u64>) {
        self.found += u64::from(answer.is_some());
        self.mixed = self.mixed.rotate_left(7) ^ answer.unwrap_or(u64::MAX);
    }

    /// The answer, if there was exactly one.
    pub fn only(self) -> Option<u64> {
        (self.found > 0).then_some(self.mixed)
    }

    /// The checksum of the lookups of all indices.
    #[inline]
    pub fn of(indices: &[u64], mut get: impl FnMut(u64) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        for index in indices {
            tally.add(get(*index));
        }
        tally
    }

    /// The same, where each index is read only after the answer to the one before is known.
    #[inline]
    pub fn dependent(indices: &[u64], mut get: impl FnMut(u64) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        // This is zero, but the compiler must not know it.
        let none = std::hint::black_box(0);
        let mut at = 0;
        while let Some(index) = indices.get(at) {
            let answer = get(*index);
            tally.add(answer);
            at += 1 + (answer.unwrap_or(u64::MAX) & none) as usize;
        }
        tally
    }
}

/// The result of a pass over all entries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntrySum {
    /// The number of entries.
    pub count: u64,
    /// The sum of the values, modulo 2^64.
    pub values: u64,
    /// Starts and ends, mixed in the order of the entries.
    pub bounds: u64,
}

impl EntrySum {
    /// Adds one entry.
    #[inline]
    pub fn add(&mut self, start: u64, end: u64, value: u64) {
        self.count += 1;
        self.values = self.values.wrapping_add(value);
        self.bounds = self.bounds.rotate_left(7) ^ start ^ end.rotate_left(32);
    }

    /// The result for these entries.
    #[inline]
    pub fn of(entries: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut sum = Self::default();
        entries.for_each(|(start, end, value)| sum.add(start, end, value));
        sum
    }
}

/// An engine with its type erased.
pub struct Lane {
    /// [`Engine::NAME`].
    pub name: &'static str,
    /// [`Engine::NO_ERASE`].
    pub no_erase: Option<&'static str>,
    /// [`Engine::empty`].
    pub empty: fn() -> Result<Box<dyn Built>, String>,
    /// [`Engine::requests`].
    pub requests: fn(&[Op], &[Op]) -> Option<Requests>,
}

/// A map of an engine with its type erased; one call is a whole pass.
#[allow(missing_docs)] // They are the methods of `Engine`.
pub trait Built {
    /// Makes changes; the tally covers the erased values and the places of the gaps found.
    fn apply(&mut self, ops: &[Op]) -> Tally;
    fn answers(&self, indices: &[u64]) -> Vec<Option<u64>>;
    fn loads(&self, indices: &[u64]) -> Tally;
    fn loads_dependent(&self, indices: &[u64]) -> Tally;
    fn entries(&self) -> EntrySum;
    fn gaps(&self, queries: &[Query]) -> Tally;
    fn mapped_bytes(&self) -> usize;
}

impl<E: Engine> Built for E {
    fn apply(&mut self, ops: &[Op]) -> Tally {
        let mut tally = Tally::default();
        for op in ops {
            match *op {
                Op::Store { start, end, value } => self.store(start, end, value),
                Op::Erase { index } => tally.add(self.erase(index)),
                Op::Clear { start, end } => self.clear(start, end),
                Op::Alloc { within, value } => tally.add(self.alloc(within, value)),
            }
        }
        tally
    }

    fn answers(&self, indices: &[u64]) -> Vec<Option<u64>> {
        indices.iter().map(|index| self.get(*index)).collect()
    }

    fn loads(&self, indices: &[u64]) -> Tally {
        Engine::loads(self, indices)
    }

    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        Engine::loads_dependent(self, indices)
    }

    fn entries(&self) -> EntrySum {
        Engine::entries(self)
    }

    fn gaps(&self, queries: &[Query]) -> Tally {
        Engine::gaps(self, queries)
    }

    fn mapped_bytes(&self) -> usize {
        Engine::mapped_bytes(self)
    }
}

fn lane<E: Engine>() -> Lane {
    Lane {
        name: E::NAME,
        no_erase: E::NO_ERASE,
        empty: || Ok(Box::new(E::empty()?)),
        requests: E::requests,
    }
}

/// All engines, in the order in which tables list them, including those that may not be installed.
pub fn lanes() -> Vec<Lane> {
    vec![
        lane::<sapwood::Sapwood<u64>>(),
        lane::<sapwood::Owned<u64>>(),
        lane::<sapwood::Sapwood<u128>>(),
        lane::<sapwood::Owned<u128>>(),
        lane::<Reference>(),
        lane::<peers::nodit::Nodit>(),
        lane::<peers::rangemap::RangeMap>(),
        lane::<peers::blaze::Blaze>(),
        lane::<native::Native<native::Absl>>(),
        lane::<native::Native<native::KernelMaple>>(),
    ]
}

/// The name of [`Reference`].
pub const REFERENCE: &str = <Reference as Engine>::NAME;

#[cfg(test)]
mod tests;
