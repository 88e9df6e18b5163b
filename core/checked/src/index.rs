//! The hash index of a map that another process or a program writes: lookups and walks
//! (`docs/shared.md`).
//!
//! As with tries, nothing outside the window is read. What was read is checked again, from the
//! table that the header names. This nearly always detects that a table, a chunk or a leaf was
//! reused meanwhile.

use sapwood_format::bucket::{self, LINE, NOTHING, Words, tag_of};
use sapwood_format::{Window, hash};

use crate::Trouble;
use crate::nodes::{Copied, Entry, Nodes};

/// The secrets of one map's hash.
pub type Secrets = [u64; hash::SECRETS];
/// The maximum length of a chain of tables. A walk follows no longer one.
const CHAIN: usize = 16;

/// An index, for one operation.
pub struct Index<'a, W> {
    pub(crate) nodes: &'a Nodes<W>,
    pub(crate) secrets: Secrets,
}

/// A table whose header and directory lie inside the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its place.
    pub at: usize,
    /// The number of buckets that are homes.
    pub homes: u32,
    /// The number of buckets.
    pub total: u32,
    /// The base-2 logarithm of the buckets in a chunk.
    pub shift: u32,
}

impl Table {
    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        (self.at, self.at + bucket::head_bytes(self.chunks()))
    }

    /// The number of its chunks.
    pub fn chunks(&self) -> u32 {
        bucket::chunks(self.total, self.shift)
    }

    /// The bytes of a chunk's buckets.
    pub fn bytes_of(&self, chunk: u32) -> usize {
        bucket::buckets_of(self.total, self.shift, chunk) as usize * LINE
    }

    pub(crate) fn home(&self, hash: u64) -> u32 {
        bucket::home(hash, self.homes)
    }
}

/// A bucket, as its words were read.
#[derive(Clone, Copy)]
pub struct Bucket {
    pub(crate) at: usize,
    pub(crate) words: Words,
}

/// A slot in use, as it was read.
#[derive(Clone, Copy)]
pub struct Slot {
    pub(crate) bucket: usize,
    number: usize,
    pub(crate) tag: u8,
    /// The cell of the leaf.
    pub cell: u32,
}

/// The result of a lookup in one table.
pub enum Look {
    /// The key's leaf.
    Found(Entry),
    /// The flag: whether every key of the home bucket has a slot, so that a trie has no others.
    Absent(bool),
    /// The home was moved to the next table.
    Moved,
}

/// The home bucket and the slot that a lookup read, so that it can check them again.
#[derive(Default)]
pub struct Seen {
    home: Option<(Table, u32)>,
    slot: Option<Slot>,
}

impl<'a, W: Window> Index<'a, W> {
    /// An index whose hash uses the secrets of the header page.
    pub(crate) fn new(nodes: &'a Nodes<W>) -> Self {
        Index::with_secrets(nodes, nodes.secrets())
    }

    /// An index whose hash has these secrets.
    pub fn with_secrets(nodes: &'a Nodes<W>, secrets: Secrets) -> Self {
        Index { nodes, secrets }
    }

    /// The hash of a key.
    pub fn hash(&self, key: &[u8]) -> u64 {
        hash::hash(&self.secrets, key)
    }

    /// The table at a reference.
    ///
    /// # Errors
    /// [`Trouble::Damaged`] when the table does not lie inside the window as a whole.
    pub fn table(&self, reference: u32) -> Result<Table, Trouble> {
        let (nodes, at) = (self.nodes, reference as usize * 8);
        if !nodes.inside(at, bucket::HEAD) {
            return Err(Trouble::Damaged("a table outside the window", at));
        }
        let word = |offset| nodes.window.u32(at + offset);
        let table = Table {
            at,
            homes: word(bucket::HOMES_AT),
            total: word(bucket::TOTAL_AT),
            shift: word(bucket::SHIFT_AT),
        };
        let sound = table.homes > 0
            && table.total >= table.homes
            && table.total - table.homes < bucket::WINDOW
            && table.shift <= 20
            // A table that is still growing does not lie in the window as a whole yet.
            && table.total as usize <= nodes.window.len() / LINE * 4;
        if !sound || !nodes.inside(at, table.block().1 - at) {
            return Err(Trouble::Damaged("no table has such a header", at));
        }
        Ok(table)
    }

    fn next(&self, table: Table) -> u32 {
        self.nodes.window.u32(table.at + bucket::NEXT_AT)
    }

    /// The tables in which keys have their home, from the one where lookups begin.
    pub fn tables(&self) -> Result<Vec<Table>, Trouble> {
        self.chain(self.start()).collect()
    }

    /// A table and those after it. The iterator reads each when it reaches it.
    fn chain(&self, start: u32) -> impl Iterator<Item = Result<Table, Trouble>> + '_ {
        let mut last: Option<Table> = None;
        (0..=CHAIN).map_while(move |count| {
            let at = last.map_or(start, |last| self.next(last));
            let table = match (at, count) {
                (0 | NOTHING, _) => return None,
                (_, CHAIN) => Err(Trouble::Damaged("tables without an end", at as usize * 8)),
                _ => self.table(at),
            };
            // A damaged header ends the chain.
            last = table.ok().or(last);
            Some(table)
        })
    }

    /// The place of a chunk's buckets, if the chunk is there.
    pub fn chunk(&self, table: Table, chunk: u32) -> Result<Option<usize>, Trouble> {
        let word = table.at + bucket::HEAD + 4 * chunk as usize;
        let entry = self.nodes.window.u32(word);
        let at = bucket::chunk_at(entry);
        match entry {
            0 => Ok(None),
            _ if self.nodes.inside(at, table.bytes_of(chunk)) => Ok(Some(at)),
            _ => Err(Trouble::Damaged("a chunk outside the window", word)),
        }
    }

    /// A bucket, if its chunk is there.
    pub fn bucket(&self, table: Table, number: u32) -> Result<Option<Bucket>, Trouble> {
        if number >= table.total {
            return Err(Trouble::Damaged("keys behind the last bucket", table.at));
        }
        let chunk = self.chunk(table, number >> table.shift)?;
        Ok(chunk.map(|chunk| self.read(chunk + bucket::place_of(number, table.shift))))
    }

    /// The bucket of a home, unless it was moved.
    pub(crate) fn first(&self, table: Table, home: u32) -> Result<Option<Bucket>, Trouble> {
        let first = self.bucket(table, home)?;
        Ok(first.filter(|first| !first.words.is_moved()))
    }

    fn read(&self, at: usize) -> Bucket {
        let low = self.nodes.window.u64(at);
        let high = self.nodes.window.u64(at + 8);
        Bucket {
            at,
            words: Words { low, high },
        }
    }

    fn cell(&self, bucket: usize, slot: usize) -> u32 {
        let cells = bucket + bucket::CELLS_AT;
        self.nodes.window.u32(cells + 4 * slot)
    }

    /// The slots of a bucket that are in use.
    pub fn slots(&self, bucket: Bucket) -> impl Iterator<Item = Slot> + '_ {
        let tags = (0..bucket::SLOTS).map(move |slot| (slot, bucket.words.tag(slot)));
        tags.filter(|(_, tag)| *tag != 0)
            .map(move |(number, tag)| Slot {
                bucket: bucket.at,
                number,
                tag,
                cell: self.cell(bucket.at, number),
            })
    }

    /// Whether a slot still has the words that were read.
    fn is_still(&self, slot: &Slot) -> bool {
        self.read(slot.bucket).words.tag(slot.number) == slot.tag
            && self.cell(slot.bucket, slot.number) == slot.cell
    }

    /// The reference of the table where lookups begin.
    fn start(&self) -> u32 {
        self.nodes.table()
    }

    /// The value of a key, which `take` makes of its bytes.
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        take: impl Fn(&[u8]) -> R,
    ) -> Result<Option<R>, Trouble> {
        let (start, mut seen) = (self.start(), Seen::default());
        let found = self.follow(start, key, &mut seen);
        let found = found.map(|leaf| leaf.map(|leaf| self.nodes.with_value(&leaf, take)));
        // A writer may be changing the bytes that look damaged.
        self.look_again(start, &seen)?;
        found
    }

    fn follow(&self, start: u32, key: &[u8], seen: &mut Seen) -> Result<Option<Entry>, Trouble> {
        let hash = self.hash(key);
        for table in self.chain(start) {
            match self.look(table?, hash, key, seen)? {
                Look::Found(leaf) => return Ok(Some(leaf)),
                Look::Absent(_) => return Ok(None),
                Look::Moved => {}
            }
        }
        Ok(None)
    }

    /// Looks a key up in one table.
    pub fn look(
        &self,
        table: Table,
        hash: u64,
        key: &[u8],
        seen: &mut Seen,
    ) -> Result<Look, Trouble> {
        let home = table.home(hash);
        let Some(first) = self.first(table, home)? else {
            return Ok(Look::Moved);
        };
        seen.home = Some((table, home));
        let tag = tag_of(hash);
        let behind = match first.words.may_be_behind(tag) {
            true => first.words.reach(),
            false => 0,
        };
        for at in home..=home + behind {
            let bucket = match at == home {
                true => Some(first),
                false => self.bucket(table, at)?,
            };
            let bucket = bucket.ok_or(Trouble::Changed)?;
            for slot in self.slots(bucket).filter(|slot| slot.tag == tag) {
                seen.slot = Some(slot);
                let leaf = self.nodes.leaf(slot.cell)?;
                if self.nodes.has_key(&leaf, key) {
                    return Ok(Look::Found(leaf));
                }
            }
        }
        seen.slot = None;
        Ok(Look::Absent(first.words.has_all()))
    }

    /// Checks that the words that led to the result are unchanged.
    fn look_again(&self, start: u32, seen: &Seen) -> Result<(), Trouble> {
        let home = |(table, home)| matches!(self.first(table, home), Ok(Some(_)));
        let same = self.start() == start
            && seen.home.is_none_or(home)
            && seen.slot.is_none_or(|slot| self.is_still(&slot));
        same.then_some(()).ok_or(Trouble::Changed)
    }

    /// The entries of the next hash prefixes, from `from` on, and the prefix from which to go on,
    /// unless these were the last.
    pub(crate) fn some(&self, from: u32) -> Result<(Vec<Copied>, Option<u32>), Trouble> {
        let start = self.start();
        let mut slots = Vec::new();
        let read = self.collect(start, from, &mut slots);
        let same = self.start() == start && slots.iter().all(|slot| self.is_still(slot));
        same.then_some(()).ok_or(Trouble::Changed)?;
        read
    }

    fn collect(
        &self,
        start: u32,
        from: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(Vec<Copied>, Option<u32>), Trouble> {
        let (low, mut high) = (u64::from(from) << 32, u64::MAX);
        let mut entries: Vec<Copied> = Vec::new();
        for table in self.chain(start) {
            let table = table?;
            let home = table.home(low);
            high = high.min(bucket::hashes(home, table.homes).1);
            let Some(first) = self.first(table, home)? else {
                continue;
            };
            let words = first.words;
            let behind = if words.out() > 0 { words.reach() } else { 0 };
            for at in home..=home + behind {
                let bucket = self.bucket(table, at)?.ok_or(Trouble::Changed)?;
                for slot in self.slots(bucket) {
                    if at > home && !words.may_be_behind(slot.tag) {
                        continue;
                    }
                    slots.push(slot);
                    let (key, value) = self.nodes.entry(&self.nodes.leaf(slot.cell)?);
                    let hash = self.hash(&key);
                    if table.home(hash) == home && (low..=high).contains(&hash) {
                        entries.push((key, value));
                    }
                }
            }
            self.first(table, home)?.ok_or(Trouble::Changed)?;
            return Ok((entries, ((high >> 32) as u32).checked_add(1)));
        }
        Ok((entries, None))
    }
}
