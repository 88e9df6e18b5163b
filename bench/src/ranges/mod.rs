//! The range maps that the suite `ranges` compares: ranges of `u64` that do not overlap, each with
//! a `u64`.
//!
//! # To add an engine
//!
//! Write a file here that implements [`Engine`], and name the type in [`lanes`]. An engine that
//! takes no ranges out says so in [`Engine::NO_ERASE`]. One whose readers want a guard, or whose
//! calls cost something by themselves, does a whole pass in [`Engine::loads`] and [`Engine::gaps`].
//! One whose memory is not malloc's says how much it has in [`Engine::mapped_bytes`]. Only one that
//! plans its writes has [`Engine::requests`].

mod blaze;
mod btree;
mod native;
mod nodit;
mod rangemap;
mod requests;
mod sapwood;
pub mod shared;

/// The engine whose answers are taken for right: the plainest one.
pub use self::btree::BTree as Reference;
pub use self::requests::Requests;

/// One change of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores a value over a range, whatever is there.
    Store { start: u64, end: u64, value: u64 },
    /// Takes the whole entry out that holds an index, if there is one.
    Erase { index: u64 },
    /// Takes out whatever is in a range, and cuts what lies across its ends.
    Clear { start: u64, end: u64 },
    /// Stores a value at the lowest fit.
    Alloc { within: Query, value: u64 },
}

/// Where a gap is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// How many indices it must have.
    pub size: u64,
    /// The first index that it may have.
    pub from: u64,
    /// The last index that it may have.
    pub to: u64,
}

/// A map as the benchmark uses it.
pub trait Engine: Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// Why it can take no ranges out. It is measured where none is.
    const NO_ERASE: Option<&'static str> = None;

    /// An empty map, or why there is none here.
    fn empty() -> Result<Self, String>;

    /// Stores a value over a range; what is there gives way, and keeps what lies outside.
    fn store(&mut self, start: u64, end: u64, value: u64);

    /// Takes the whole entry out that holds an index; its value.
    fn erase(&mut self, index: u64) -> Option<u64>;

    /// Takes out whatever is in a range.
    fn clear(&mut self, start: u64, end: u64);

    /// The value at an index.
    fn get(&self, index: u64) -> Option<u64>;

    /// Looks all indices up in their order.
    fn loads(&self, indices: &[u64]) -> Tally {
        Tally::of(indices, |index| self.get(index))
    }

    /// Looks all indices up in their order, each when the answer to the one before is known.
    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        Tally::dependent(indices, |index| self.get(index))
    }

    /// Reads all entries in order.
    fn entries(&self) -> EntrySum;

    /// The lowest start of as many free indices within a window, which is not empty.
    fn gap(&self, query: Query) -> Option<u64>;

    /// Searches as [`gap`](Self::gap) does.
    fn gaps(&self, queries: &[Query]) -> Tally {
        let mut tally = Tally::default();
        queries.iter().for_each(|query| tally.add(self.gap(*query)));
        tally
    }

    /// Stores a value at the lowest start of as many free indices within a window; where.
    fn alloc(&mut self, within: Query, value: u64) -> Option<u64> {
        let start = self.gap(within)?;
        self.store(start, start + (within.size - 1), value);
        Some(start)
    }

    /// Bytes it holds beside those of malloc as Rust calls it, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }

    /// Makes changes, each planned, its nodes reserved and then used: those of `base` to begin
    /// with, and `changes`, of which it reports.
    fn requests(base: &[Op], changes: &[Op]) -> Option<Requests> {
        let _ = (base, changes);
        None
    }
}

/// What many answers come to, in an order that matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    found: u64,
    mixed: u64,
}

impl Tally {
    /// Counts one answer in.
    #[inline]
    pub fn add(&mut self, answer: Option<u64>) {
        self.found += u64::from(answer.is_some());
        self.mixed = self.mixed.rotate_left(7) ^ answer.unwrap_or(u64::MAX);
    }

    /// The answer, if there was just one.
    pub fn only(self) -> Option<u64> {
        (self.found > 0).then_some(self.mixed)
    }

    /// What lookups come to.
    #[inline]
    pub fn of(indices: &[u64], mut get: impl FnMut(u64) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        for index in indices {
            tally.add(get(*index));
        }
        tally
    }

    /// The same, where each index is read only when the answer to the one before is known.
    #[inline]
    pub fn dependent(indices: &[u64], mut get: impl FnMut(u64) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        // Zero, but the compiler must not know.
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

/// What a pass over all entries met.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntrySum {
    /// How many there are.
    pub count: u64,
    /// The sum of the values, modulo 2^64.
    pub values: u64,
    /// Starts and ends, mixed in their order.
    pub bounds: u64,
}

impl EntrySum {
    /// Counts one entry in.
    #[inline]
    pub fn add(&mut self, start: u64, end: u64, value: u64) {
        self.count += 1;
        self.values = self.values.wrapping_add(value);
        self.bounds = self.bounds.rotate_left(7) ^ start ^ end.rotate_left(32);
    }

    /// What these entries come to.
    #[inline]
    pub fn of(entries: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut sum = Self::default();
        entries.for_each(|(start, end, value)| sum.add(start, end, value));
        sum
    }
}

/// An engine whose type is forgotten.
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

/// A map of an engine whose type is forgotten; one call is a whole pass.
#[allow(missing_docs)] // They have the names and the meaning of the methods of `Engine`.
pub trait Built {
    /// Makes changes; the tally is of what was erased, and of where there was room.
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

/// All engines, in the order in which tables list them; also those that may turn out not to be
/// here.
pub fn lanes() -> Vec<Lane> {
    vec![
        lane::<sapwood::Sapwood>(),
        lane::<Reference>(),
        lane::<nodit::Nodit>(),
        lane::<rangemap::RangeMap>(),
        lane::<blaze::Blaze>(),
        lane::<native::Native<native::Absl>>(),
        lane::<native::Native<native::KernelMaple>>(),
    ]
}

/// The name of [`Reference`].
pub const REFERENCE: &str = <Reference as Engine>::NAME;

#[cfg(test)]
mod tests;
