//! Range maps of other languages, where their libraries and a compiler are installed. A whole pass
//! of lookups or iteration runs in C or C++.

mod raw;
mod source;

use std::sync::OnceLock;

use super::{Engine, EntrySum, Query, Tally};
use crate::shim::{Link, Recipe};

/// A library and the recipe of its shim.
pub trait Library: 'static {
    /// See [`Engine::NAME`].
    const NAME: &'static str;
    /// How to build the shim.
    const RECIPE: Recipe;
    /// The shim, or why there is none; determined once.
    fn shim() -> &'static OnceLock<Result<raw::Functions, String>>;
}

/// Abseil's `absl::btree_map` from starts to ends and values, as `std-btreemap` keeps them, with
/// cursors instead of repeated searches.
pub struct Absl;

impl Library for Absl {
    const NAME: &'static str = "absl-btree";
    const RECIPE: Recipe = Recipe {
        library: "Abseil",
        link: Link::PkgConfig("absl_btree"),
        compiler: "c++",
        file: "shim.cc",
        source: include_str!("absl.cc"),
        arguments: [&["-std=c++17", "-DNDEBUG"], &[]],
    };

    fn shim() -> &'static OnceLock<Result<raw::Functions, String>> {
        static SHIM: OnceLock<Result<raw::Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// The kernel's maple tree in user space, from Debian's package linux-source. It has no readers, so
/// its nodes are reused at once.
pub struct KernelMaple;

impl Library for KernelMaple {
    const NAME: &'static str = "kernel-maple";
    const RECIPE: Recipe = Recipe {
        library: "linux-source",
        link: Link::Source(source::maple_tree),
        compiler: "cc",
        file: "shim.c",
        source: include_str!("maple.c"),
        arguments: [&["-w"], &[]],
    };

    fn shim() -> &'static OnceLock<Result<raw::Functions, String>> {
        static SHIM: OnceLock<Result<raw::Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// A map of a library.
pub struct Native<L>(raw::Map<L>);

impl<L: Library> Engine for Native<L> {
    const NAME: &'static str = L::NAME;

    fn empty() -> Result<Self, String> {
        raw::Map::new().map(Self)
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.store(start, end, value);
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        self.0.erase(index)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.0.clear(start, end);
    }

    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(index)
    }

    fn loads(&self, indices: &[u64]) -> Tally {
        self.0.loads(indices, false)
    }

    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        self.0.loads(indices, true)
    }

    fn entries(&self) -> EntrySum {
        self.0.entries()
    }

    fn gap(&self, query: Query) -> Option<u64> {
        self.0.gap(query)
    }

    fn mapped_bytes(&self) -> usize {
        self.0.bytes()
    }
}
