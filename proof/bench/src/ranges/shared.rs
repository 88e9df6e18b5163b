//! Range maps that threads share: some threads read while others change them.
//!
//! # To add an engine
//!
//! Implement [`Shared`] and name the type in `lanes` of the suite's `beside`.

use ::sapwood::maple::MapleMap;

use super::{EntrySum, Query};

/// A map that threads share.
pub trait Shared: Send + Sync + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;

    /// An empty map.
    fn new() -> Self;

    /// Stores a value over a range.
    fn store(&self, start: u64, end: u64, value: u64);

    /// Stores a value at the lowest start of `size` free indices within a window; returns the
    /// start. Nobody changes the map between the search and the store.
    fn alloc(&self, within: Query, value: u64) -> Option<u64>;

    /// Removes the whole entry that contains an index; returns its value.
    fn erase(&self, index: u64) -> Option<u64>;

    /// Reads all entries in order.
    fn entries(&self) -> EntrySum;

    /// A reader, made on the thread that uses it.
    fn reader(&self) -> impl Loads;
}

/// The state by which one thread reads a map.
pub trait Loads {
    /// Looks a burst of indices up and passes the answers to `each`; the thread holds no reference
    /// afterwards.
    fn burst(&mut self, indices: &[u64], each: impl FnMut(Option<u64>));
}

impl Shared for MapleMap<u64> {
    const NAME: &'static str = "sapwood";

    fn new() -> Self {
        MapleMap::new()
    }

    fn store(&self, start: u64, end: u64, value: u64) {
        self.store(start..=end, value).expect("there is memory");
    }

    fn alloc(&self, Query { size, from, to }: Query, value: u64) -> Option<u64> {
        let place = self.alloc_range(size, from..=to, value);
        place.ok().map(|range| *range.start())
    }

    fn erase(&self, index: u64) -> Option<u64> {
        let erased = self.remove(index).expect("there is memory");
        erased.map(|(_, value)| value)
    }

    fn entries(&self) -> EntrySum {
        self.read(|view| {
            let entries = view.iter();
            EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
        })
    }

    fn reader(&self) -> impl Loads {
        self.reader("bench").expect("there is room for a reader")
    }
}

impl Loads for ::sapwood::Reader<MapleMap<u64>> {
    fn burst(&mut self, indices: &[u64], mut each: impl FnMut(Option<u64>)) {
        let view = self.view();
        indices
            .iter()
            .for_each(|index| each(view.get(*index).copied()));
        self.quiescent();
    }
}
