//! The maps over byte strings that the suite compares: Sapwood's, and the kernel's hash tables.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sapwood_bpf::{BpfArena, ProgramMap, Programs, UserMap, UserPointMap, UserStore, Write};

use super::rig::{self, Questions};
use crate::clock::CpuClock;
use crate::keylist::KeyList;

/// The keys of one system call that takes many.
const BATCH: usize = 4096;

/// A change of present or absent keys, which must succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Removes present keys.
    Remove,
    /// Inserts absent keys.
    Insert,
    /// Stores the same values for present keys again.
    Overwrite,
}

impl Change {
    /// All changes, in an order that leaves a map unchanged.
    pub const ALL: [Change; 3] = [Change::Remove, Change::Insert, Change::Overwrite];
}

/// A filled map over byte strings, with the means by which programs and this process use it.
pub trait Engine {
    /// The name in tables and records.
    fn name(&self) -> &'static str;

    /// The program that looks keys up in the map.
    fn lookup(&self) -> &'static str;

    /// The program that makes a change, if programs can make it.
    fn program(&self, change: Change) -> Option<&'static str>;

    /// The program that walks over the whole map, if programs can.
    fn walk(&self) -> Option<&'static str>;

    /// Walks over the whole map in this process, if that needs no system call per entry; returns
    /// the number of entries and the sum of their values.
    fn walk_here(&self) -> Option<(usize, u64)> {
        None
    }

    /// The number of the map's window, if it lies in one.
    fn window(&self) -> u32 {
        0
    }

    /// Changes all these keys, one after the other; returns nanoseconds of processor time per key.
    fn change(&self, change: Change, keys: &Changed<'_>) -> Result<f64, String>;

    /// Does the same with system calls that take many keys each, if there are such calls.
    fn change_many(&self, _change: Change, _keys: &Changed<'_>) -> Option<Result<f64, String>> {
        None
    }

    /// Does the work between rounds, as an idle program would.
    fn tidy(&self) -> Result<(), String> {
        Ok(())
    }

    /// The memory of the map in bytes, all included.
    fn memory(&self) -> Result<u64, String>;
}

/// Keys to change, in the forms that engines take.
pub struct Changed<'a> {
    /// The keys and values as a list.
    pub list: &'a KeyList,
    /// The keys in the form of the kernel's hash tables.
    pub padded: Vec<u8>,
    /// The values, one after the other.
    pub values: Vec<u8>,
    each: usize,
}

impl<'a> Changed<'a> {
    /// These keys, each padded to `each` bytes.
    pub fn new(list: &'a KeyList, each: usize) -> Self {
        let values = list.iter().flat_map(|(_, value)| value.to_ne_bytes());
        Self {
            list,
            padded: rig::hash_keys(list, each),
            values: values.collect(),
            each,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.padded.chunks_exact(self.each);
        keys.zip(self.values.chunks_exact(8))
    }

    /// Runs `f`, which handles all keys; returns nanoseconds per key.
    fn timed(&self, f: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
        let clock = CpuClock::start();
        f()?;
        Ok(clock.elapsed().as_nanos() as f64 / self.list.len() as f64)
    }
}

/// The parts of a map of Sapwood's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Only the trie.
    Trie,
    /// Only the point index.
    Index,
    /// Both the trie and the index.
    Both,
}

impl Parts {
    /// The name of a map with these parts in tables and records.
    pub fn name(self) -> &'static str {
        match self {
            Parts::Trie => "sapwood-bpf",
            Parts::Index => "sapwood-bpf-index",
            Parts::Both => "sapwood-bpf-both",
        }
    }
}

/// The bytes of a window for a map with these entries: twice the most that was seen in any case,
/// with room for small cases.
fn window_bytes(entries: &KeyList) -> usize {
    (16 << 20) + 256 * entries.len() + 2 * entries.key_bytes()
}

/// A map of Sapwood's that this process writes.
pub struct Ours {
    parts: Parts,
    map: Map,
}

enum Map {
    Names(UserMap<u64>),
    Points(UserPointMap<u64>),
}

impl Ours {
    /// A map with these entries, inserted one by one.
    pub fn new(arena: &BpfArena, parts: Parts, entries: &KeyList) -> Result<Self, String> {
        let bytes = window_bytes(entries);
        let names = |window| UserMap::builder(arena, window).bytes(bytes);
        let map = match parts {
            Parts::Trie => names("trie").build().map(Map::Names),
            Parts::Both => names("both").with_index().build().map(Map::Names),
            Parts::Index => {
                let builder = UserPointMap::builder(arena, "index").bytes(bytes);
                builder.build().map(Map::Points)
            }
        };
        let ours = Self {
            parts,
            map: map.map_err(|e| e.to_string())?,
        };
        for (key, value) in entries.iter() {
            match &ours.map {
                Map::Names(map) => map.insert(key, value),
                Map::Points(map) => map.insert(key, value),
            }
            .map_err(|e| e.to_string())?;
        }
        ours.tidy()?;
        Ok(ours)
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        self.parts.name()
    }

    fn lookup(&self) -> &'static str {
        match self.parts {
            Parts::Trie => "sw_run_trie",
            _ => "sw_run_index",
        }
    }

    fn program(&self, _change: Change) -> Option<&'static str> {
        None
    }

    fn walk(&self) -> Option<&'static str> {
        // Without a trie there is no order in which a program could walk.
        (self.parts != Parts::Index).then_some("sw_run_walk")
    }

    fn walk_here(&self) -> Option<(usize, u64)> {
        let count =
            |(entries, sum): (usize, u64), value: u64| (entries + 1, sum.wrapping_add(value));
        Some(match &self.map {
            Map::Names(map) => {
                let pin = map.pin();
                (pin.view().iter()).fold((0, 0), |all, (_, value)| count(all, *value))
            }
            Map::Points(map) => {
                let pin = map.pin();
                (pin.view().iter()).fold((0, 0), |all, (_, value)| count(all, *value))
            }
        })
    }

    fn window(&self) -> u32 {
        match &self.map {
            Map::Names(map) => map.window().number,
            Map::Points(map) => map.window().number,
        }
    }

    fn change(&self, change: Change, keys: &Changed<'_>) -> Result<f64, String> {
        let refused = || format!("{}: {change:?} refused", self.name());
        keys.timed(|| {
            for (key, value) in keys.list.iter() {
                let done = match (&self.map, change) {
                    (Map::Names(map), Change::Remove) => map.remove(key).is_ok_and(|was| was),
                    (Map::Names(map), Change::Insert) => map.insert_new(key, value).is_ok(),
                    (Map::Names(map), Change::Overwrite) => map.replace(key, value).is_ok(),
                    (Map::Points(map), Change::Remove) => map.remove(key).is_ok_and(|was| was),
                    (Map::Points(map), Change::Insert) => map.insert_new(key, value).is_ok(),
                    (Map::Points(map), Change::Overwrite) => map.replace(key, value).is_ok(),
                };
                if !done {
                    return Err(refused());
                }
            }
            Ok(())
        })
    }

    fn tidy(&self) -> Result<(), String> {
        match &self.map {
            Map::Names(map) => {
                while map.compact_step(4096).map_err(|e| e.to_string())? {}
                // Blocks that the compaction retired are free when no program reads them any more.
                map.domain().synchronize();
                map.reclaim(usize::MAX);
            }
            Map::Points(map) => {
                map.domain().synchronize();
                map.reclaim(usize::MAX);
            }
        }
        Ok(())
    }

    fn memory(&self) -> Result<u64, String> {
        let memory = match &self.map {
            Map::Names(map) => map.memory(),
            Map::Points(map) => map.memory(),
        };
        Ok(memory.total() as u64)
    }
}

/// A store, which this process changes in transactions.
pub struct Store(UserStore<u64>);

impl Store {
    /// A store with these entries, inserted in commits of [`BATCH`].
    pub fn new(arena: &BpfArena, entries: &KeyList) -> Result<Self, String> {
        let builder = UserStore::builder(arena, "store").bytes(window_bytes(entries));
        let store = Self(builder.build().map_err(|e| e.to_string())?);
        let mut txn = store.0.begin();
        for (i, (key, value)) in entries.iter().enumerate() {
            if i % BATCH == BATCH - 1 {
                txn.commit();
                // Programs do not run yet, so the next commit finds free memory.
                store.0.domain().synchronize();
                store.0.reclaim(usize::MAX);
                txn = store.0.begin();
            }
            txn.insert(key, value).map_err(|e| e.to_string())?;
        }
        txn.commit();
        store.tidy()?;
        Ok(store)
    }
}

impl Engine for Store {
    fn name(&self) -> &'static str {
        "sapwood-bpf-store"
    }

    fn lookup(&self) -> &'static str {
        "sw_run_trie"
    }

    fn program(&self, _change: Change) -> Option<&'static str> {
        None
    }

    fn walk(&self) -> Option<&'static str> {
        Some("sw_run_walk")
    }

    fn walk_here(&self) -> Option<(usize, u64)> {
        let snapshot = self.0.snapshot();
        let values = snapshot.iter().map(|(_, value)| *value);
        Some(values.fold((0, 0), |(entries, sum), value| {
            (entries + 1, sum.wrapping_add(value))
        }))
    }

    fn window(&self) -> u32 {
        self.0.window().number
    }

    /// Each change is a commit.
    fn change(&self, change: Change, keys: &Changed<'_>) -> Result<f64, String> {
        keys.timed(|| {
            for (key, value) in keys.list.iter() {
                let mut txn = self.0.begin();
                let was = match change {
                    Change::Remove => txn.remove(key).map_err(|e| e.to_string())?,
                    Change::Insert | Change::Overwrite => {
                        txn.insert(key, value).map_err(|e| e.to_string())?
                    }
                };
                if was.is_some() != (change != Change::Insert) {
                    return Err(format!("{}: {change:?} refused", self.name()));
                }
                txn.commit();
            }
            Ok(())
        })
    }

    fn tidy(&self) -> Result<(), String> {
        while self.0.compact_step(4096).map_err(|e| e.to_string())? {}
        // Blocks that no program reads any more are free.
        self.0.domain().synchronize();
        self.0.reclaim(usize::MAX);
        Ok(())
    }

    fn memory(&self) -> Result<u64, String> {
        Ok(self.0.memory().map.total() as u64)
    }
}

/// A hash table of the kernel's.
pub struct Hash {
    name: &'static str,
    lookup: &'static str,
    changes: [&'static str; 3],
    walk: &'static str,
    map: MapHandle,
}

impl Hash {
    /// The table with these entries that allocates all memory when it is made, or the one that does
    /// not.
    pub fn new(
        programs: &Programs,
        preallocated: bool,
        entries: &Changed<'_>,
    ) -> Result<Self, String> {
        let hash = if preallocated {
            Self {
                name: "kernel-hash",
                lookup: "sw_run_hash",
                changes: [
                    "sw_run_hash_remove",
                    "sw_run_hash_insert",
                    "sw_run_hash_overwrite",
                ],
                walk: "sw_run_hash_walk",
                map: rig::handle(programs, "sw_hash")?,
            }
        } else {
            Self {
                name: "kernel-hash-noprealloc",
                lookup: "sw_run_hash_noprealloc",
                changes: [
                    "sw_run_hash_noprealloc_remove",
                    "sw_run_hash_noprealloc_insert",
                    "sw_run_hash_noprealloc_overwrite",
                ],
                walk: "sw_run_hash_noprealloc_walk",
                map: rig::handle(programs, "sw_hash_noprealloc")?,
            }
        };
        hash.many(Change::Insert, entries)?;
        Ok(hash)
    }

    fn many(&self, change: Change, keys: &Changed<'_>) -> Result<(), String> {
        let values = keys.values.chunks(8 * BATCH);
        let keys = keys.padded.chunks(keys.each * BATCH);
        for (keys, values) in keys.zip(values) {
            let count = (values.len() / 8) as u32;
            let done = match change {
                Change::Remove => self
                    .map
                    .delete_batch(keys, count, MapFlags::ANY, MapFlags::ANY),
                _ => self
                    .map
                    .update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY),
            };
            done.map_err(|e| format!("{}: {change:?}: {e}", self.name))?;
        }
        Ok(())
    }
}

fn flags(change: Change) -> MapFlags {
    match change {
        Change::Remove => MapFlags::ANY,
        Change::Insert => MapFlags::NO_EXIST,
        Change::Overwrite => MapFlags::EXIST,
    }
}

impl Engine for Hash {
    fn name(&self) -> &'static str {
        self.name
    }

    fn lookup(&self) -> &'static str {
        self.lookup
    }

    fn program(&self, change: Change) -> Option<&'static str> {
        Some(self.changes[change as usize])
    }

    fn walk(&self) -> Option<&'static str> {
        Some(self.walk)
    }

    fn change(&self, change: Change, keys: &Changed<'_>) -> Result<f64, String> {
        keys.timed(|| {
            for (key, value) in keys.pairs() {
                let done = match change {
                    Change::Remove => self.map.delete(key),
                    _ => self.map.update(key, value, flags(change)),
                };
                done.map_err(|e| format!("{}: {change:?}: {e}", self.name))?;
            }
            Ok(())
        })
    }

    fn change_many(&self, change: Change, keys: &Changed<'_>) -> Option<Result<f64, String>> {
        Some(keys.timed(|| self.many(change, keys)))
    }

    fn memory(&self) -> Result<u64, String> {
        rig::memlock(&self.map)
    }
}

/// A map of Sapwood's that programs write: programs fill it, this process serves it.
pub struct Written {
    name: &'static str,
    map: ProgramMap<u64>,
}

impl Written {
    /// A map with these parts for these entries, which programs insert. Programs read the
    /// insertions from `questions`.
    pub fn new(
        arena: &BpfArena,
        programs: &Programs,
        parts: Parts,
        entries: &KeyList,
        questions: &mut Questions,
    ) -> Result<Self, String> {
        let bytes = (32 << 20) + 384 * entries.len() + 3 * entries.key_bytes();
        let name = match parts {
            Parts::Trie => "written-trie",
            Parts::Index => "written-index",
            Parts::Both => "written-both",
        };
        let builder = ProgramMap::builder(arena, name)
            .bytes(bytes)
            .user_writes()
            .max_entries(entries.len())
            .mean_key(entries.key_bytes() / entries.len().max(1))
            .ring(8192);
        let builder = match parts {
            Parts::Trie => builder.with_trie(),
            Parts::Index => builder.with_index(),
            Parts::Both => builder.with_index().with_trie(),
        };
        let written = Self {
            name: parts.name(),
            map: builder.build().map_err(|e| e.to_string())?,
        };
        let at_a_time = questions.most();
        for from in (0..entries.len()).step_by(at_a_time) {
            let count = at_a_time.min(entries.len() - from);
            questions.set(entries.run(from, count));
            // While wide branches grow, each insertion takes a block of another size.
            written.ask(programs, Change::Insert, questions, 16)?;
        }
        // The first call loads the library's program.
        written.change_many(Change::Overwrite, &entries.picked(0..1.min(entries.len())))?;
        Ok(written)
    }

    /// The name in tables and records.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Has programs change these keys; returns nanoseconds per key, without the time of the loop.
    pub fn change(
        &self,
        programs: &Programs,
        change: Change,
        keys: &Questions,
    ) -> Result<f64, String> {
        self.ask(programs, change, keys, rig::CHANGES)
    }

    /// Has a program of the library change these keys, as this process orders
    /// ([`ProgramMap::write_many`]); returns nanoseconds of processor time per key, with service.
    pub fn change_many(&self, change: Change, keys: &KeyList) -> Result<f64, String> {
        let changes: Vec<_> = keys
            .iter()
            .map(|(key, value)| match change {
                Change::Remove => Write::Remove(key),
                Change::Insert => Write::InsertNew(key, value),
                Change::Overwrite => Write::Replace(key, value),
            })
            .collect();
        let clock = CpuClock::start();
        for changes in changes.chunks(BATCH) {
            let done = self.map.write_many(changes).map_err(|e| e.to_string())?;
            if let Some(refused) = done.into_iter().find_map(Result::err) {
                return Err(format!("{}: {change:?}: {refused}", self.name));
            }
        }
        Ok(clock.elapsed().as_nanos() as f64 / keys.len() as f64)
    }

    /// Does the same with this number of keys between two refills of the rings.
    fn ask(
        &self,
        programs: &Programs,
        change: Change,
        keys: &Questions,
        at_once: usize,
    ) -> Result<f64, String> {
        let program = match change {
            Change::Remove => "sw_run_remove",
            Change::Insert => "sw_run_insert",
            Change::Overwrite => "sw_run_overwrite",
        };
        self.service()?;
        let window = self.map.window().number;
        let answers =
            rig::ask_between(programs, program, keys, window, at_once, || self.service())?;
        let wrong = answers.wrong;
        if wrong > 0 {
            return Err(format!("WRONG: {}: {program}: {wrong} answers", self.name));
        }
        Ok(answers.each)
    }

    /// Does the work of the serving thread: refills the rings.
    fn service(&self) -> Result<(), String> {
        while self.map.service().map_err(|e| e.to_string())?.given > 0 {}
        Ok(())
    }
}
