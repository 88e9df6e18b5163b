//! Ordered maps of other languages, where their libraries and a compiler are installed. A whole
//! pass runs in C or C++.

mod raw;

use std::sync::OnceLock;

use super::{Built, Engine};
use crate::keylist::{Form, KeyList, ScanSum, Tally};
use crate::shim::{Link, Recipe};

/// A library: the recipe of its shim, and the keys that it can hold.
pub trait Library: 'static {
    /// See [`Engine::NAME`].
    const NAME: &'static str;
    /// How to build the shim.
    const RECIPE: Recipe;
    /// See [`Engine::form`].
    fn form(keys: &KeyList) -> Result<Form, String>;
    /// The shim, or why there is none; determined once.
    fn shim() -> &'static OnceLock<Result<raw::Functions, String>>;
}

/// Google's B-tree, with `std::string` keys and lookups by string views.
pub struct Absl;

impl Library for Absl {
    const NAME: &'static str = "absl-btree";
    const RECIPE: Recipe = Recipe {
        library: "Abseil",
        link: Link::PkgConfig("absl_btree"),
        compiler: "c++",
        file: "shim.cc",
        source: concat!(include_str!("list.h"), include_str!("absl.cc")),
        arguments: [&["-std=c++17", "-DNDEBUG"], &[]],
    };

    fn form(_: &KeyList) -> Result<Form, String> {
        Ok(Form::Plain)
    }

    fn shim() -> &'static OnceLock<Result<raw::Functions, String>> {
        static SHIM: OnceLock<Result<raw::Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// Judy arrays over strings: tries of 256-way digital trees.
pub struct JudySl;

impl Library for JudySl {
    const NAME: &'static str = "judysl";
    const RECIPE: Recipe = Recipe {
        library: "Judy",
        link: Link::Library("Judy"),
        compiler: "cc",
        file: "shim.c",
        source: concat!(include_str!("list.h"), include_str!("judysl.c")),
        arguments: [&[], &[]],
    };

    fn form(keys: &KeyList) -> Result<Form, String> {
        // The longest key that the shim has room for.
        const LONGEST: usize = 4095;
        if keys.iter().any(|(key, _)| key.contains(&0)) {
            return Err("keys end with their first zero byte".into());
        }
        match keys.iter().map(|(key, _)| key.len()).max() {
            Some(length) if length > LONGEST => Err(format!("a key of {length} bytes")),
            _ => Ok(Form::Terminated),
        }
    }

    fn shim() -> &'static OnceLock<Result<raw::Functions, String>> {
        static SHIM: OnceLock<Result<raw::Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// A map of a library.
pub struct Native<L>(raw::Map<L>);

impl<L: Library> Engine for Native<L> {
    const NAME: &'static str = L::NAME;

    fn form(keys: &KeyList) -> Result<Form, String> {
        raw::functions::<L>()?;
        L::form(keys)
    }

    fn build(pairs: &KeyList) -> Self {
        let mut map = raw::Map::new().expect("`form` found the library");
        map.insert(pairs);
        Self(map)
    }
}

impl<L: Library> Built for Native<L> {
    fn get(&self, key: &[u8]) -> Option<u64> {
        let tally = self.0.lookups(&KeyList::new([(key, 0)]), false);
        (tally.found == 1).then_some(tally.sum)
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        self.0.lookups(keys, false)
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        Some(self.0.lookups(keys, true))
    }

    fn scan(&self) -> ScanSum {
        self.0.scan()
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        Some(self.0.ranges(starts, count))
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        Some(self.0.predecessors(keys))
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        self.0.replace(old, new);
    }

    fn mapped_bytes(&self) -> usize {
        self.0.bytes()
    }
}
