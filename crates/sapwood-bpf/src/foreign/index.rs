//! The hash index of a map that somebody else wrote: lookups, walks, and every invariant (`docs/shared.md`).
//!
//! As with tries: nothing is read that is not inside, and what was read is looked at again, from the table that the header names. A table, a
//! chunk or a leaf that is used for something else meanwhile is noticed when that has changed, which is nearly always.

use std::collections::{HashMap, HashSet};

use sapwood::qp::Published;

use super::Copied;
use super::nodes::{Leaf, Nodes, Trouble, done_reading};
use super::verify::Met;

const SECRETS: usize = Published::SECRETS;
/// What the hash of one map depends on.
pub(super) type Secrets = [u64; SECRETS];
const LINE: usize = 64;
const SLOTS: usize = 12;
const HEAD: usize = 16;
const NOTHING: u32 = u32::MAX;
const LOCK: u64 = 1 << 32;
const MOVED: u64 = 1 << 33;
const STICKY: u64 = 0xff;
/// Buckets within reach of a home, with itself.
const WINDOW: u32 = 256;
/// More than a chain of tables has: it is followed no further.
const CHAIN: usize = 16;
/// As many entries may differ between trie and index as writers may have been at work when their process died.
const UNDER_WAY: usize = 128;

/// An index, as far as one operation relies on it.
pub(super) struct Index<'a> {
    nodes: &'a Nodes,
    pub(super) secrets: Secrets,
}

#[derive(Clone, Copy)]
struct Table {
    at: usize,
    homes: u32,
    total: u32,
    shift: u32,
}

impl Table {
    fn home(&self, hash: u64) -> u32 {
        (((hash >> 32) * u64::from(self.homes)) >> 32) as u32
    }

    /// The greatest hash that is at home in a bucket.
    fn greatest(&self, home: u32) -> u64 {
        let next = (u64::from(home + 1) << 32).div_ceil(u64::from(self.homes));
        (next << 32).wrapping_sub(1)
    }

    fn chunks(&self) -> u32 {
        ((self.total - 1) >> self.shift) + 1
    }

    /// The buckets of a chunk.
    fn buckets_of(&self, chunk: u32) -> u32 {
        (self.total - (chunk << self.shift)).min(1 << self.shift)
    }

    /// Where its block begins and ends.
    fn block(&self) -> (usize, usize) {
        let end = self.at + HEAD + 4 * self.chunks() as usize;
        (self.at, end.next_multiple_of(8))
    }
}

/// The two words of a bucket.
#[derive(Clone, Copy)]
struct Words {
    at: usize,
    low: u64,
    high: u64,
}

impl Words {
    fn tag(&self, slot: usize) -> u8 {
        match slot {
            0..8 => (self.low >> (8 * slot)) as u8,
            _ => (self.high >> (8 * (slot - 8))) as u8,
        }
    }

    fn used(self) -> impl Iterator<Item = (usize, u8)> {
        (0..SLOTS).filter_map(move |slot| {
            let tag = self.tag(slot);
            (tag != 0).then_some((slot, tag))
        })
    }

    fn is_moved(&self) -> bool {
        self.high & MOVED != 0
    }

    fn is_locked(&self) -> bool {
        self.high & LOCK != 0
    }

    fn out(&self) -> u32 {
        (self.high >> 34) as u32 & 0x3f
    }

    fn reach(&self) -> u32 {
        (self.high >> 40) as u32 & 0xff
    }

    fn spilled(&self) -> u64 {
        self.high >> 48 & STICKY
    }

    fn filter(&self) -> u8 {
        (self.high >> 56) as u8
    }
}

fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

fn mix(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ sum >> 32
}

/// What one table says of a key.
enum Look {
    Found(Vec<u8>),
    Absent,
    Moved,
}

/// What was read of a home, to be looked at again.
struct Seen {
    start: u32,
    home: Option<(Table, u32)>,
    slot: Option<(usize, usize, u8, u32)>,
}

impl<'a> Index<'a> {
    pub(super) fn new(nodes: &'a Nodes) -> Self {
        Index {
            nodes,
            secrets: nodes.secrets(),
        }
    }

    /// The hash of a key, as all compute it.
    fn hash(&self, key: &[u8]) -> u64 {
        let mut bytes = Vec::with_capacity(key.len() + 40);
        match u8::try_from(key.len()) {
            Ok(short @ ..=254) => bytes.push(short),
            _ => {
                bytes.push(255);
                bytes.extend((key.len() as u16).to_ne_bytes());
            }
        }
        bytes.extend(key);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let mut sum = 0u64;
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            if i > 0 && i % SECRETS == 0 {
                sum = mix(sum);
            }
            let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            let secret = self.secrets[i % SECRETS];
            let low = (word as u32).wrapping_add(secret as u32);
            let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
            sum = sum.wrapping_add(u64::from(low) * u64::from(high));
        }
        mix(sum)
    }

    fn table(&self, reference: u32) -> Result<Table, Trouble> {
        let at = reference as usize * 8;
        if !self.nodes.inside(at, HEAD) {
            return Err(Trouble::Damaged("a table outside the window", at));
        }
        let table = Table {
            at,
            homes: self.nodes.u32(at),
            total: self.nodes.u32(at + 4),
            shift: self.nodes.u32(at + 8),
        };
        let sound = table.homes > 0
            && table.total >= table.homes
            && table.total - table.homes < WINDOW
            && table.shift <= 20
            // A table that grows into the window is not all there yet.
            && table.total as usize <= self.nodes.len() / LINE * 4;
        if !sound || !self.nodes.inside(at, table.block().1 - at) {
            return Err(Trouble::Damaged("no table has such a header", at));
        }
        Ok(table)
    }

    fn next(&self, table: Table) -> u32 {
        self.nodes.u32_acquire(table.at + 12)
    }

    /// Where the buckets of a chunk begin, if it is there.
    fn chunk(&self, table: Table, chunk: u32) -> Result<Option<usize>, Trouble> {
        let word = table.at + HEAD + 4 * chunk as usize;
        let entry = self.nodes.u32_acquire(word);
        let at = (entry & !7) as usize * 8;
        let bytes = table.buckets_of(chunk) as usize * LINE;
        match entry {
            0 => Ok(None),
            _ if self.nodes.inside(at, bytes) => Ok(Some(at)),
            _ => Err(Trouble::Damaged("a chunk outside the window", word)),
        }
    }

    /// A bucket, if its chunk is there.
    fn bucket(&self, table: Table, bucket: u32) -> Result<Option<Words>, Trouble> {
        if bucket >= table.total {
            return Err(Trouble::Damaged("keys behind the last bucket", table.at));
        }
        let chunk = self.chunk(table, bucket >> table.shift)?;
        Ok(chunk.map(|chunk| {
            let at = chunk + (bucket & ((1 << table.shift) - 1)) as usize * LINE;
            let low = self.nodes.u64_acquire(at);
            let high = self.nodes.u64_acquire(at + 8);
            Words { at, low, high }
        }))
    }

    fn cell(&self, bucket: Words, slot: usize) -> u32 {
        self.nodes.u32_acquire(bucket.at + 16 + 4 * slot)
    }

    /// The reference of the table where lookups begin.
    fn start(&self) -> u32 {
        self.nodes.table()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        let hash = self.hash(key);
        let mut seen = Seen {
            start: self.start(),
            home: None,
            slot: None,
        };
        let found = self.follow(hash, key, &mut seen);
        // What looks damaged may be what is written at this moment.
        self.look_again(&seen)?;
        found
    }

    fn follow(&self, hash: u64, key: &[u8], seen: &mut Seen) -> Result<Option<Vec<u8>>, Trouble> {
        let mut at = seen.start;
        for _ in 0..CHAIN {
            if at == 0 || at == NOTHING {
                return Ok(None);
            }
            let table = self.table(at)?;
            match self.look(table, hash, key, seen)? {
                Look::Found(value) => return Ok(Some(value)),
                Look::Absent => return Ok(None),
                Look::Moved => at = self.next(table),
            }
        }
        Err(Trouble::Damaged("tables without an end", at as usize * 8))
    }

    fn look(&self, table: Table, hash: u64, key: &[u8], seen: &mut Seen) -> Result<Look, Trouble> {
        let home = table.home(hash);
        let Some(first) = self.bucket(table, home)?.filter(|first| !first.is_moved()) else {
            return Ok(Look::Moved);
        };
        seen.home = Some((table, home));
        let tag = tag_of(hash);
        let behind = match first.filter() >> (tag % 8) & 1 {
            0 => 0,
            _ => first.reach(),
        };
        for at in home..=home + behind {
            let bucket = match at == home {
                true => Some(first),
                false => self.bucket(table, at)?,
            };
            let Some(bucket) = bucket else {
                return Err(Trouble::Changed);
            };
            for (slot, _) in bucket.used().filter(|(_, other)| *other == tag) {
                let cell = self.cell(bucket, slot);
                seen.slot = Some((bucket.at, slot, tag, cell));
                let leaf = self.nodes.leaf(cell)?;
                if self.nodes.key(&leaf) == key {
                    return Ok(Look::Found(self.nodes.value(&leaf)));
                }
            }
        }
        seen.slot = None;
        Ok(Look::Absent)
    }

    /// Whether what was read is still what leads to where it was found.
    fn look_again(&self, seen: &Seen) -> Result<(), Trouble> {
        done_reading();
        let mut same = self.start() == seen.start;
        if let (true, Some((table, home))) = (same, seen.home) {
            same = match self.bucket(table, home) {
                Ok(Some(first)) => !first.is_moved(),
                _ => false,
            };
        }
        if let (true, Some((at, slot, tag, cell))) = (same, seen.slot) {
            let bucket = Words {
                at,
                low: self.nodes.u64_acquire(at),
                high: self.nodes.u64_acquire(at + 8),
            };
            same = bucket.tag(slot) == tag && self.cell(bucket, slot) == cell;
        }
        match same {
            true => Ok(()),
            false => Err(Trouble::Changed),
        }
    }

    /// The entries whose hashes begin with `from` or a little more, and where to go on, unless these were the last.
    pub(super) fn some(&self, from: u32) -> Result<(Vec<Copied>, Option<u32>), Trouble> {
        let start = self.start();
        let mut cells = Vec::new();
        let read = self.collect(start, from, &mut cells);
        done_reading();
        let still = |(bucket, slot, tag, cell): &(Words, usize, u8, u32)| {
            let now = Words {
                low: self.nodes.u64_acquire(bucket.at),
                high: self.nodes.u64_acquire(bucket.at + 8),
                ..*bucket
            };
            now.tag(*slot) == *tag && self.cell(now, *slot) == *cell
        };
        if self.start() != start || !cells.iter().all(still) {
            return Err(Trouble::Changed);
        }
        read
    }

    fn collect(
        &self,
        start: u32,
        from: u32,
        cells: &mut Vec<(Words, usize, u8, u32)>,
    ) -> Result<(Vec<Copied>, Option<u32>), Trouble> {
        let (low, mut high) = (u64::from(from) << 32, u64::MAX);
        let mut entries: Vec<Copied> = Vec::new();
        let mut at = start;
        for _ in 0..CHAIN {
            if at == 0 || at == NOTHING {
                return Ok((entries, None));
            }
            let table = self.table(at)?;
            let home = table.home(low);
            high = high.min(table.greatest(home));
            let Some(first) = self.bucket(table, home)?.filter(|first| !first.is_moved()) else {
                at = self.next(table);
                continue;
            };
            let behind = if first.out() > 0 { first.reach() } else { 0 };
            for at in home..=home + behind {
                let Some(bucket) = self.bucket(table, at)? else {
                    return Err(Trouble::Changed);
                };
                for (slot, tag) in bucket.used() {
                    if at > home && first.filter() >> (tag % 8) & 1 == 0 {
                        continue;
                    }
                    let cell = self.cell(bucket, slot);
                    cells.push((bucket, slot, tag, cell));
                    let leaf = self.nodes.leaf(cell)?;
                    let key = self.nodes.key(&leaf);
                    let hash = self.hash(&key);
                    if table.home(hash) == home && (low..=high).contains(&hash) {
                        entries.push((key, self.nodes.value(&leaf)));
                    }
                }
            }
            let moved = self
                .bucket(table, home)?
                .is_none_or(|first| first.is_moved());
            if moved {
                return Err(Trouble::Changed);
            }
            let next = ((high >> 32) as u32).checked_add(1);
            return Ok((entries, next));
        }
        Err(Trouble::Damaged("tables without an end", at as usize * 8))
    }

    /// Checks everything; how many entries there are. With a trie, `trie` are the cells of its leaves. What a writer was doing when its process
    /// died is allowed for: where a bucket is locked, and `UNDER_WAY` differences from the trie.
    pub(super) fn verify(&self, met: &mut Met, trie: Option<&[u32]>) -> Result<usize, Trouble> {
        let mut tables = Vec::new();
        let mut at = self.start();
        while at != 0 && at != NOTHING {
            let table = self.table(at)?;
            self.mark(met, table)?;
            tables.push(table);
            at = self.next(table);
            if tables.len() == CHAIN {
                return Err(Trouble::Damaged("tables without an end", table.at));
            }
        }
        let in_trie: Option<HashSet<u32>> = trie.map(|leaves| leaves.iter().copied().collect());
        let mut keys: HashMap<Vec<u8>, u32> = HashMap::new();
        for (i, table) in tables.iter().enumerate() {
            let mut homes = vec![(0u32, 0u32, 0u8); table.homes as usize];
            for b in 0..table.total {
                // What is in a bucket that was moved is not looked at by anybody any more.
                let Some(bucket) = self.bucket(*table, b)?.filter(|bucket| !bucket.is_moved())
                else {
                    continue;
                };
                for (slot, tag) in bucket.used() {
                    let cell = self.cell(bucket, slot);
                    let leaf = self.nodes.leaf(cell)?;
                    let key = self.nodes.key(&leaf);
                    let hash = self.hash(&key);
                    let home = table.home(hash);
                    let damaged = |why| Err(Trouble::Damaged(why, bucket.at));
                    if tag != tag_of(hash) || b < home || b - home >= WINDOW {
                        return damaged("a key in a bucket that is not its own");
                    }
                    if b != home {
                        let (out, reach, filter) = &mut homes[home as usize];
                        *out += 1;
                        *reach = (*reach).max(b - home);
                        *filter |= 1 << (tag % 8);
                    }
                    // A table before this one where it is at home: then it was being moved.
                    if let Some(before) = self.at_home(&tables[..i], hash)? {
                        match before.is_locked() {
                            true => continue,
                            false => return damaged("a key in a table that is not its own"),
                        }
                    }
                    if self.at_home(&tables[i..=i], hash)?.is_none() {
                        // It was moved, and was about to be taken out here.
                        continue;
                    }
                    self.mark_leaf(met, &leaf, in_trie.is_some())?;
                    if keys.insert(key, cell).is_some() {
                        return damaged("a key twice");
                    }
                }
            }
            for (home, (out, reach, filter)) in homes.into_iter().enumerate() {
                let first = self.bucket(*table, home as u32)?;
                let Some(first) = first.filter(|first| !first.is_moved() && !first.is_locked())
                else {
                    continue;
                };
                let fits = first.out() == out
                    && first.reach() >= reach
                    && first.filter() & filter == filter
                    && (in_trie.is_some() || first.spilled() == 0);
                if !fits {
                    return Err(Trouble::Damaged("counts that are wrong", first.at));
                }
            }
        }
        if let (Some(trie), false) = (in_trie, tables.is_empty()) {
            self.compare(&tables, &keys, &trie)?;
        }
        Ok(keys.len())
    }

    /// Compares the index with the leaves of the trie.
    fn compare(
        &self,
        tables: &[Table],
        keys: &HashMap<Vec<u8>, u32>,
        trie: &HashSet<u32>,
    ) -> Result<(), Trouble> {
        let mut differ = keys.values().filter(|cell| !trie.contains(*cell)).count();
        for cell in trie {
            let leaf = self.nodes.leaf(*cell)?;
            let key = self.nodes.key(&leaf);
            if keys.contains_key(&key) {
                continue;
            }
            let home = self.at_home(tables, self.hash(&key))?;
            // A key that found no slot is counted at its home.
            differ += usize::from(home.is_some_and(|home| home.spilled() == 0));
        }
        match differ > UNDER_WAY {
            true => Err(Trouble::Damaged(
                "an index that does not have what the trie has",
                tables[0].at,
            )),
            false => Ok(()),
        }
    }

    /// The first bucket in these tables that a hash is at home in, and was not moved from.
    fn at_home(&self, tables: &[Table], hash: u64) -> Result<Option<Words>, Trouble> {
        for table in tables {
            let bucket = self.bucket(*table, table.home(hash))?;
            if let Some(bucket) = bucket.filter(|bucket| !bucket.is_moved()) {
                return Ok(Some(bucket));
            }
        }
        Ok(None)
    }

    fn mark(&self, met: &mut Met, table: Table) -> Result<(), Trouble> {
        let mut free = met.mark(table.block());
        for chunk in 0..table.chunks() {
            if let Some(at) = self.chunk(table, chunk)? {
                let bytes = table.buckets_of(chunk) as usize * LINE;
                free &= met.mark((at, at + bytes));
            }
        }
        match free {
            true => Ok(()),
            false => Err(Trouble::Damaged("a table over another node", table.at)),
        }
    }

    /// Marks a leaf, unless the trie's check has done that.
    fn mark_leaf(&self, met: &mut Met, leaf: &Leaf, done: bool) -> Result<(), Trouble> {
        match done || met.mark(leaf.block()) {
            true => Ok(()),
            false => Err(Trouble::Damaged("a leaf over another node", leaf.block().0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_maps() {
        let ours = [
            ("TABLE_DIRECTORY", HEAD as u64),
            ("TABLE_NEXT", 12),
            ("TABLE_NOTHING", NOTHING.into()),
            ("BUCKET_BYTES", LINE as u64),
            ("BUCKET_SLOTS", SLOTS as u64),
            ("BUCKET_LEAVES", 16),
            ("BUCKET_LOCK", LOCK),
            ("BUCKET_MOVED", MOVED),
            ("BUCKET_OUT", 34),
            ("BUCKET_REACH", 40),
            ("BUCKET_SPILLED", 48),
            ("BUCKET_FILTER", 56),
        ];
        for (name, value) in ours {
            let theirs = Published::layout().find(|(there, _)| *there == name);
            assert_eq!(theirs, Some((name, value)));
        }
    }

    #[test]
    fn homes_and_their_greatest_hashes() {
        for homes in [1, 2, 3, 100, 70_001] {
            let table = Table {
                at: 0,
                homes,
                total: homes,
                shift: 9,
            };
            for home in (0..homes).step_by(7) {
                let greatest = table.greatest(home);
                assert_eq!(table.home(greatest), home);
                let more = greatest.wrapping_add(1);
                assert_eq!(table.home(more), (home + 1) % homes);
            }
        }
    }
}
