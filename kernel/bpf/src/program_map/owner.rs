//! The owner of a map that programs write: it lays out the window, and each step of service
//! supplies programs with memory.

use sapwood_arena::EXTRA_AT;
use sapwood_checked::parts::{Secrets, Table};
use sapwood_format::branch::LARGEST;
use sapwood_format::bucket::{self, LINE, SLOTS};
use sapwood_format::{header, leaf};
use sapwood_qsbr::GraceSource;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blocks::Blocks;
use super::retired::Retired;
use super::rings::{Damaged, Ring, head_of};
use super::slabs::{self, Slabs};
use super::{ProgramMapDrops, ProgramMapMemory, Serviced};
use crate::arena::WindowInfo;
use crate::error::Error;
use crate::grace::KernelGrace;
use crate::layout::program_map as k;
use crate::layout::root;
use crate::raw::arena::Memory;

/// The most entries of a map: an index over that many fits an arena.
pub(super) const ENTRIES_MAX: usize = 1 << 28;
/// The base-2 logarithm of the buckets in a chunk of the index's table. All chunks are adjacent.
pub(super) const SHIFT: u32 = 9;
/// The most buckets behind the last home.
const SPARE: usize = 16;
/// The most blocks of one size that are kept for removals.
const KEPT_MAX: u32 = 64;
/// The bytes of a key on average, unless the builder says another number or all keys are shorter.
const MEAN_KEY: usize = 24;
/// The units that a trie takes for each entry while all entries are inserted between two steps of
/// service: the clusters and branches that insertions replace, and those that stay.
const NODES_OF_ENTRY: usize = 18;
/// The units for each two entries that removals may take for smaller branches between two steps.
const KEPT_OF_TWO: usize = 4;
/// The blocks that a chunk has room for: a change goes on with another chunk when it has less room
/// than a change may need.
const CHUNK_BLOCKS: usize = k::CHUNK_UNITS - 11;

/// The settings of a map.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) value_bytes: usize,
    pub(super) max_entries: usize,
    /// Bytes of the longest key.
    pub(super) longest: usize,
    /// Bytes of a key on average.
    pub(super) mean: Option<usize>,
    pub(super) parts: u32,
    pub(super) bytes: Option<usize>,
    /// Whether the map begins with little memory.
    pub(super) grow: bool,
    /// Whether entries of a full map leave, and the ticks without use after which any does.
    pub(super) lru: bool,
    pub(super) idle: u32,
    pub(super) ring: Option<usize>,
    pub(super) prefill: Vec<(usize, usize)>,
    pub(super) buckets: Option<usize>,
    pub(super) full: bool,
    pub(super) fail_every: u64,
}

impl Plan {
    pub(super) fn new(value_bytes: usize) -> Plan {
        Plan {
            value_bytes,
            max_entries: 65_536,
            longest: k::SHORT_KEY_MAX,
            mean: None,
            parts: 0,
            bytes: None,
            grow: false,
            lru: false,
            idle: 0,
            ring: None,
            prefill: Vec::new(),
            buckets: None,
            full: false,
            fail_every: 0,
        }
    }

    pub(super) fn checked(mut self) -> Result<Plan, Error> {
        let refuse = |what, why: String| Err(Error::Setting { what, why });
        if self.max_entries == 0 || self.max_entries > ENTRIES_MAX {
            let why = format!("1 to {ENTRIES_MAX}, not {}", self.max_entries);
            return refuse("max_entries", why);
        }
        if self.longest > k::KEY_MAX {
            let why = format!("{} bytes at most, not {}", k::KEY_MAX, self.longest);
            return refuse("longest_key", why);
        }
        if self.mean.is_some_and(|mean| mean > self.longest) {
            let why = format!("keys have up to {} bytes", self.longest);
            return refuse("mean_key", why);
        }
        for &(len, _) in &self.prefill {
            if len > self.longest {
                let why = format!("keys have up to {} bytes, not {len}", self.longest);
                return refuse("prefill", why);
            }
        }
        for (what, size) in [("ring", self.ring), ("index_buckets", self.buckets)] {
            if size.is_some_and(|size| size == 0 || size > ENTRIES_MAX) {
                return refuse(what, format!("1 to {ENTRIES_MAX}"));
            }
        }
        if self.parts == 0 {
            self.parts = k::INDEX | k::TRIE;
        }
        if self.lru && self.parts != k::INDEX {
            let why = "only for a map with an index alone".to_owned();
            return refuse("lru", why);
        }
        Ok(self)
    }

    fn ring_size(&self) -> usize {
        let usual = (self.max_entries / 64).clamp(64, 4096);
        self.ring.unwrap_or(usual).next_power_of_two()
    }

    /// The units that slabs need for all entries and for what is kept for removals, besides the
    /// blocks that lie ready in rings; 0 in a map that grows.
    fn all_at_once(&self) -> usize {
        if self.grow {
            return 0;
        }
        let ready: usize = self.prefill.iter().map(|(_, entries)| entries).sum();
        // A leaf has a byte for the length. Keys of different lengths lose half a word at the end on
        // average, and those of one length as much as their leaf does.
        let mean = self.mean.unwrap_or(self.longest.min(MEAN_KEY));
        let leaf = (self.value_bytes + mean + 5).max(self.leaf_units(mean) * 8);
        let leaves = self.max_entries.saturating_sub(ready) * leaf / 8;
        // What leaves waits for a grace period, while others come.
        let leaves = leaves * if self.lru { 2 } else { 1 };
        let nodes = match self.parts & k::TRIE {
            0 => 0,
            // Each insertion retires a node, and most removals a leaf.
            _ => 2 * NODES_OF_ENTRY + KEPT_OF_TWO + 4,
        };
        leaves + self.max_entries * nodes / 2
    }

    /// The chunks that are kept for removals: those of all entries, or as many as a ring has blocks.
    fn kept_chunks(&self) -> usize {
        let removals = match self.grow {
            true => self.ring_size() * 2,
            // Entries that leave are retired, too.
            false if self.lru => self.max_entries * 2,
            // A trie retires a node now and then.
            false => self.max_entries * if self.parts & k::TRIE == 0 { 4 } else { 5 } / 4,
        };
        removals.div_ceil(CHUNK_BLOCKS)
    }

    /// The number of buckets of the index that are homes, and of all buckets.
    fn homes_and_buckets(&self) -> (usize, usize) {
        if self.parts & k::INDEX == 0 {
            return (0, 0);
        }
        let homes = self.buckets.unwrap_or(homes_for(self.max_entries));
        (homes, homes + (homes / 2 + 1).min(SPARE))
    }

    /// The units of a leaf with a key of this length.
    pub(super) fn leaf_units(&self, key_len: usize) -> usize {
        leaf::block(self.value_bytes, key_len) / 8
    }

    /// The units of the largest block that programs ask for.
    fn largest(&self) -> usize {
        let branches = match self.parts & k::TRIE {
            0 => 0,
            _ => LARGEST.div_ceil(8),
        };
        self.leaf_units(self.longest).max(branches)
    }

    /// The sizes of a class's ring: the most blocks that service fills it with, and the blocks that
    /// it has at first.
    fn ring_of(&self, class: usize) -> (usize, usize) {
        let all = self.ring_size();
        let units = k::units(class);
        if class > k::class(self.largest()) {
            return (1, 0);
        }
        // Large leaves are rarer than small ones, and large branches are rare.
        let (usual, first) = match units {
            0..=24 => (all, (all / 32).max(all.min(8))),
            25..=k::EXACT => ((all / 4).max(all.min(16)), (all / 64).max(all.min(4))),
            _ => (all.min(8), all.min(2)),
        };
        let first = match (self.full, self.grow) {
            (true, _) => usual,
            (false, true) => first,
            // Slabs have it all.
            (false, false) => 0,
        };
        let wanted = self
            .prefill
            .iter()
            .filter(|(len, _)| k::class(self.leaf_units(*len)) == class)
            .map(|(_, entries)| *entries)
            .sum::<usize>();
        match wanted {
            0 => (usual, first),
            // The kept blocks come on top, so that insertions can take all the others.
            _ => (usual, (wanted + KEPT_MAX as usize).max(usual)),
        }
    }
}

/// The ring of a class, and the number of blocks in it.
pub(super) struct Supply {
    pub(super) ring: Ring,
    /// The blocks that a step of service leaves in the ring.
    pub(super) target: u32,
    /// The largest `target`, when programs take many blocks.
    pub(super) most: u32,
}

/// The owner of a map, which supplies its memory. The owner keeps its accounts outside the window.
pub(super) struct Owner {
    pub(super) memory: Arc<Memory>,
    pub(super) window: WindowInfo,
    pub(super) plan: Plan,
    pub(super) blocks: Blocks,
    pub(super) supplies: Vec<Supply>,
    pub(super) slabs: Slabs,
    /// The ring of chunks for retired blocks, and the number of chunks in it.
    pub(super) chunks: Supply,
    /// The chunks that insertions leave to removals.
    pub(super) kept_chunks: u32,
    /// The retired blocks of each lane.
    pub(super) retired: Vec<Retired>,
    /// The index's table, if there is one.
    pub(super) table: Option<Table>,
    pub(super) secrets: Secrets,
    pub(super) grace: Arc<KernelGrace>,
    /// The current grace period, and the blocks that were fetched before it began.
    pub(super) closing: Option<(u64, Vec<(u32, u32)>)>,
    /// The blocks that wait for the next grace period: first unit, units.
    pub(super) open: Vec<(u32, u32)>,
    /// The bytes of the window, from its beginning, that have memory.
    pub(super) populated: usize,
    /// Blocks were freed since rings were last emptied for larger runs.
    pub(super) scattered: bool,
    pub(super) refused: u64,
}

/// Makes random secrets for the hash.
fn secrets() -> Secrets {
    std::array::from_fn(|i| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_usize(i);
        hasher.finish()
    })
}

/// The layout of a window: places in bytes from its beginning.
struct Places {
    /// The ring of each class.
    rings: Vec<RingPlace>,
    lanes: usize,
    chunks_at: usize,
    /// The number of chunks in their ring, and the number that is kept for removals.
    chunks: (usize, usize),
    slabs_at: usize,
    /// The number of slabs at first, and the number that is kept for removals.
    slabs: (usize, usize),
    /// Units of a slab: the least and the most.
    slab: (usize, usize),
    /// The number of slots of their ring.
    slab_slots: usize,
    table: Option<Table>,
    buckets_at: usize,
    /// Where the uses of the index's slots are, if entries leave by themselves.
    uses_at: usize,
    /// The first unit of blocks.
    first: usize,
    /// The unit behind the last that a block may have.
    limit: usize,
}

/// The place of a class's ring.
struct RingPlace {
    at: usize,
    /// The number of slots.
    capacity: usize,
    /// The most blocks that service fills it with.
    most: usize,
    /// The blocks that it has at first.
    first: usize,
}

impl Places {
    fn new(plan: &Plan, window: &WindowInfo) -> Places {
        let lanes = lanes_for(processors(), window.len);
        let mut at = k::lanes_end(lanes);
        let mut cut = |bytes: usize| {
            let begin = at.next_multiple_of(LINE);
            at = begin + bytes;
            begin
        };
        let rings = (0..k::CLASSES)
            .map(|class| {
                let (most, first) = plan.ring_of(class);
                let capacity = most.max(first).next_power_of_two();
                let at = cut(capacity * 4);
                RingPlace {
                    at,
                    capacity,
                    most,
                    first,
                }
            })
            .collect();
        let kept = plan.kept_chunks() + lanes;
        // Each lane begins with one.
        let chunks = (kept + 2 * lanes, kept);
        let chunks_at = cut(chunks.0.next_power_of_two() * 4);
        let all = plan.all_at_once();
        let least = slabs::each(plan);
        let (slab, slabs) = match plan.grow {
            true => {
                let most = k::SLAB_UNITS.max(least);
                let slabs = slabs::wanted(plan, plan.ring_size(), window.len, lanes);
                let removals = plan.parts & k::TRIE != 0 && slabs > 1;
                (most, (slabs, usize::from(removals)))
            }
            false => {
                // Each lane leaves a part of its slab.
                let most = (all / (8 * lanes)).clamp(least, k::SLAB_UNITS.max(least));
                let kept = match plan.parts & k::TRIE {
                    0 => 0,
                    _ => (plan.max_entries * KEPT_OF_TWO / 2).div_ceil(most),
                };
                // The rest that is too small for the next insertion.
                let used = most - (least / 8).min(most / 2);
                (most, (all.div_ceil(used) + 2 * lanes + 2, kept))
            }
        };
        let slab_slots = 2 * (slabs.0 * 2).max(all / least).next_power_of_two();
        let slabs_at = cut(slab_slots * 4);
        let (homes, buckets) = plan.homes_and_buckets();
        let table = (buckets > 0).then(|| {
            let chunks = bucket::chunks(buckets as u32, SHIFT);
            Table {
                at: cut(bucket::head_bytes(chunks)),
                homes: homes as u32,
                total: buckets as u32,
                shift: SHIFT,
            }
        });
        let buckets_at = cut(buckets * LINE);
        let uses_at = match plan.lru {
            true => cut(buckets * k::USES_BYTES),
            false => 0,
        };
        Places {
            rings,
            lanes,
            chunks_at,
            chunks,
            slabs_at,
            slabs,
            slab: (least, slab),
            slab_slots,
            table,
            buckets_at,
            uses_at,
            first: at.next_multiple_of(LINE) / 8,
            limit: (window.len / 8).saturating_sub(k::MARGIN),
        }
    }

    /// Makes sure that the window is large enough, and that all bytes before the blocks have
    /// memory.
    fn populate(&self, plan: &Plan, memory: &Memory, window: &WindowInfo) -> Result<(), Error> {
        let slabs = if plan.grow {
            0
        } else {
            self.slabs.0 * self.slab.1
        };
        let chunks = (self.chunks.0 + self.lanes) * k::CHUNK_UNITS;
        let ready = self.rings.iter().enumerate();
        let ready: usize = ready
            .map(|(class, ring)| ring.first * k::units(class))
            .sum();
        // A map that grows may find no room for all that lies ready.
        let ready = if plan.grow { 0 } else { ready };
        let all = self.first + chunks + slabs + ready;
        if all > self.limit || self.limit > u32::MAX as usize {
            return Err(Error::NoRoom {
                name: window.name.clone(),
                bytes: (all + k::MARGIN) * 8,
                left: window.len,
            });
        }
        let bytes = self.first * 8;
        match memory.populate(window.at, window.at + bytes) {
            true => Ok(()),
            false => Err(Error::NoMemory { bytes }),
        }
    }
}

impl Owner {
    /// Lays out a window. The caller has written the header page.
    pub(super) fn make(
        memory: &Arc<Memory>,
        window: &WindowInfo,
        plan: &Plan,
        grace: Arc<KernelGrace>,
    ) -> Result<Owner, Error> {
        let places = Places::new(plan, window);
        places.populate(plan, memory, window)?;
        let ring = |head, at, slots| Ring::new(memory, window.at, head, at, slots as u32);
        let supplies = places
            .rings
            .iter()
            .enumerate()
            .map(|(class, place)| Supply {
                ring: ring(head_of(class), place.at, place.capacity),
                target: place.first as u32,
                most: place.most as u32,
            });
        let slabs = ring(head_of(k::SLABS), places.slabs_at, places.slab_slots);
        let chunk_slots = places.chunks.0.next_power_of_two();
        let chunks = ring(head_of(k::CHUNKS), places.chunks_at, chunk_slots);
        let (first, limit) = (places.first as u32, places.limit as u32);
        let mut owner = Owner {
            supplies: supplies.collect(),
            slabs: Slabs {
                ring: slabs,
                target: places.slabs.0 as u32,
                units: (places.slab.0 as u32, places.slab.1 as u32),
                kept: places.slabs.1 as u32,
            },
            chunks: Supply {
                ring: chunks,
                target: places.chunks.0 as u32,
                most: places.chunks.0 as u32,
            },
            kept_chunks: places.chunks.1 as u32,
            retired: Vec::new(),
            memory: Arc::clone(memory),
            window: window.clone(),
            plan: plan.clone(),
            blocks: Blocks::new(first, limit, plan.fail_every),
            table: places.table,
            secrets: secrets(),
            grace,
            closing: None,
            open: Vec::new(),
            populated: places.first * 8,
            scattered: false,
            refused: 0,
        };
        for lane in 0..places.lanes {
            let Some(chunk) = owner.rise(k::CHUNK_UNITS as u32) else {
                let bytes = k::CHUNK_UNITS * 8;
                return Err(Error::NoMemory { bytes });
            };
            let retired = Retired::new(&owner.memory, window.at, lane, chunk);
            owner.retired.push(retired);
        }
        owner.write_header(places.buckets_at);
        owner.set_u32(k::USES, (places.uses_at / 8) as u32);
        owner.set_u32(k::IDLE, plan.idle);
        let mut done = Serviced::default();
        owner.fill(&mut done);
        if done.starved && !plan.grow && plan.fail_every == 0 {
            let bytes = (places.slabs.0 * places.slab.1 + places.first) * 8;
            return Err(Error::NoMemory { bytes });
        }
        // From now on, what comes back is enough.
        if !plan.grow {
            let usual = slabs::wanted(plan, plan.ring_size(), window.len, places.lanes);
            owner.slabs.target = owner.slabs.target.min(usual as u32);
        }
        for supply in &mut owner.supplies {
            supply.target = supply.target.min(supply.most);
        }
        Ok(owner)
    }

    fn write_header(&self, buckets_at: usize) {
        let plan = &self.plan;
        for (i, secret) in self.secrets.iter().enumerate() {
            self.set_u64(EXTRA_AT + 8 * i, *secret);
        }
        self.set_u32(k::MAX, plan.max_entries as u32);
        self.set_u32(k::PARTS, plan.parts);
        self.set_u32(k::LONGEST, plan.longest as u32);
        self.set_u32(k::LANES, self.lanes() as u32);
        self.set_u64(k::NODES, u64::from(self.blocks.units().first) * 8);
        self.set_u64(k::FRONTIER, u64::from(self.blocks.frontier()) * 8);
        self.set_u64(root(header::VALUE_BYTES) as usize, plan.value_bytes as u64);
        if let Some(table) = &self.table {
            self.write_table(table, buckets_at);
        }
    }

    /// Writes the index's table. All of its chunks are adjacent.
    fn write_table(&self, table: &Table, buckets_at: usize) {
        self.set_u32(table.at + bucket::HOMES_AT, table.homes);
        self.set_u32(table.at + bucket::TOTAL_AT, table.total);
        self.set_u32(table.at + bucket::SHIFT_AT, SHIFT);
        let mut at = buckets_at;
        for chunk in 0..table.chunks() {
            let entry = table.at + bucket::HEAD + 4 * chunk as usize;
            self.set_u32(entry, (at / 8) as u32);
            at += table.bytes_of(chunk);
        }
        let has = match self.plan.parts & k::TRIE {
            0 => header::ONLY_INDEX,
            _ => 1,
        };
        self.set_u64(root(header::HAS_INDEX) as usize, has);
        self.set_u64(root(header::TABLE) as usize, (table.at / 8) as u64);
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        let word = self.memory.u32(self.window.at + at);
        word.load(Ordering::Acquire)
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        let word = self.memory.u64(self.window.at + at);
        word.load(Ordering::Acquire)
    }

    pub(super) fn set_u32(&self, at: usize, value: u32) {
        let word = self.memory.u32(self.window.at + at);
        word.store(value, Ordering::Release);
    }

    fn set_u64(&self, at: usize, value: u64) {
        let word = self.memory.u64(self.window.at + at);
        word.store(value, Ordering::Release);
    }

    pub(super) fn lanes(&self) -> usize {
        self.retired.len()
    }

    /// The sum of a count over all lanes.
    pub(super) fn count(&self, what: usize) -> u32 {
        let counts = (0..self.lanes()).map(|lane| self.u32(lane_at(lane) + what));
        counts.fold(0, u32::wrapping_add)
    }

    /// The number of entries, as programs count them.
    pub(super) fn entries(&self) -> u32 {
        self.u32(k::GRANTED).wrapping_sub(self.count(4))
    }

    pub(super) fn len(&self) -> usize {
        // A program may move entries from one count to another meanwhile.
        let entries = self.entries() as i32;
        (entries.max(0) as usize).min(self.plan.max_entries)
    }

    /// The operations that failed, by processor.
    pub(super) fn drops(&self) -> Vec<ProgramMapDrops> {
        let lanes = (0..self.lanes()).step_by(2);
        let drops = lanes.map(|lane| {
            let at = lane_at(lane) + k::LANE_DROPS;
            ProgramMapDrops {
                processor: lane / 2,
                busy: self.u64(at),
                no_memory: self.u64(at + 8),
                full: self.u64(at + 16),
            }
        });
        drops.collect()
    }

    /// The blocks in the stocks of lanes: first unit, units.
    pub(super) fn stocks(&self) -> Result<Vec<(u32, u32)>, Damaged> {
        let mut all = Vec::new();
        for lane in 0..self.lanes() {
            for class in 0..k::CLASSES {
                let at = lane_at(lane) + k::LANE_STOCK + class * k::STOCK_BYTES;
                let count = self.u32(at) as usize;
                if count > k::STOCK_MAX {
                    return Err(Damaged);
                }
                let units = k::units(class) as u32;
                all.extend((1..=count).map(|i| (self.u32(at + 4 * i), units)));
            }
        }
        Ok(all)
    }

    /// One step of service.
    pub(super) fn step(&mut self) -> Result<Serviced, Error> {
        let mut done = Serviced::default();
        for lane in 0..self.lanes() {
            self.fetch(lane, &mut done);
        }
        if let Some((token, _)) = &self.closing {
            if self.grace.elapsed(*token) {
                for (at, units) in self.closing.take().into_iter().flat_map(|(_, all)| all) {
                    self.blocks.free(at, units);
                    done.freed += 1;
                }
            }
        }
        if self.closing.is_none() && !self.open.is_empty() {
            self.closing = Some((self.grace.start(), std::mem::take(&mut self.open)));
        }
        self.scattered |= done.freed > 0;
        if self.scattered && done.fetched + done.freed == 0 && self.closing.is_none() {
            self.gather();
        }
        self.fill(&mut done);
        match self.grace.failure() {
            Some(why) => Err(Error::NoGrace(why)),
            None => Ok(done),
        }
    }

    /// Fetches the blocks that programs have retired in a lane. The chunks that the lane has left
    /// are free at once: no program reads them.
    fn fetch(&mut self, lane: usize, done: &mut Serviced) {
        let Ok(noted) = self.retired[lane].fetch(&self.blocks) else {
            self.refused += 1;
            return;
        };
        done.fetched += noted.blocks.len();
        for (at, units) in noted.blocks {
            match self.blocks.wait(at, units) {
                true => self.open.push((at, units)),
                false => self.refused += 1,
            }
        }
        for chunk in noted.done {
            match self.blocks.wait(chunk, k::CHUNK_UNITS as u32) {
                true => self.blocks.free(chunk, k::CHUNK_UNITS as u32),
                false => self.refused += 1,
            }
        }
    }

    /// Takes the blocks back that lie ready in rings, when no block waits for a grace period and much
    /// of the free memory is scattered between them: then runs are free that are large enough for
    /// slabs. Some of these blocks are given out again.
    fn gather(&mut self) {
        self.scattered = false;
        let units = self.blocks.units();
        if self.plan.grow || units.free < (units.frontier - units.first) / 32 {
            return;
        }
        for class in 0..self.supplies.len() {
            let Ok(all) = self.supplies[class].ring.take_back() else {
                self.refused += 1;
                continue;
            };
            for at in all {
                if !self.blocks.take_back(at, k::units(class) as u32) {
                    self.refused += 1;
                }
            }
        }
    }

    /// Fills the rings. In a map that grows, the target of a ring that is less than half full is
    /// doubled.
    pub(super) fn fill(&mut self, done: &mut Serviced) {
        let chunks = self.fill_chunks(done).is_err();
        self.refused += u64::from(chunks);
        // Blocks in a ring would lie between runs that could be slabs.
        if !self.plan.grow && self.fill_slabs(done).is_err() {
            self.refused += 1;
        }
        for class in 0..self.supplies.len() {
            if self.fill_class(class, done).is_err() {
                self.refused += 1;
            }
        }
        if self.plan.grow && self.fill_slabs(done).is_err() {
            self.refused += 1;
        }
    }

    fn fill_chunks(&mut self, done: &mut Serviced) -> Result<(), Damaged> {
        let wanted = self
            .chunks
            .target
            .saturating_sub(self.chunks.ring.offered()?);
        let given = self.give_all(k::CHUNK_UNITS as u32, wanted, done);
        self.chunks.ring.keep(self.kept_chunks);
        if !given.is_empty() {
            self.chunks.ring.put(&given);
        }
        Ok(())
    }

    /// Fills the ring of a class: with blocks of its size that came back, as many as it has room
    /// for, and up to its target with others.
    fn fill_class(&mut self, class: usize, done: &mut Serviced) -> Result<(), Damaged> {
        let units = k::units(class) as u32;
        let supply = &mut self.supplies[class];
        let there = supply.ring.offered()?;
        if self.plan.grow && there < supply.target / 2 {
            supply.target = (supply.target * 2).min(supply.most.max(supply.target));
        }
        let target = supply.target;
        let room = match self.plan.grow {
            true => 0,
            false => supply.most.saturating_sub(there),
        };
        let again = |blocks: &mut Blocks| blocks.give_again(units);
        let mut given: Vec<u32> = (0..room).map_while(|_| again(&mut self.blocks)).collect();
        done.given += given.len();
        let wanted = target.saturating_sub(there + given.len() as u32);
        given.extend(self.give_all(units, wanted, done));
        let there = there + given.len() as u32;
        let supply = &mut self.supplies[class];
        supply.ring.keep(match self.plan.parts & k::TRIE {
            0 => 0,
            _ => (there / 4).min(KEPT_MAX),
        });
        if !given.is_empty() {
            supply.ring.put(&given);
        }
        Ok(())
    }

    /// Fills the ring of slabs: with free runs, and up to its target with new memory. A map that
    /// grows keeps other free runs for blocks of all sizes.
    fn fill_slabs(&mut self, done: &mut Serviced) -> Result<(), Damaged> {
        let (least, most) = self.slabs.units;
        let mut there = self.slabs.there()?;
        let mut room = self.slabs.room()?;
        if self.plan.grow {
            room = room.min(self.slabs.target.saturating_sub(there));
        }
        while room > 0 {
            let Some(run) = self.blocks.give_run(least, most) else {
                break;
            };
            self.slabs.put(run);
            (there, room, done.given) = (there + 1, room - 1, done.given + 1);
        }
        // What waits for a grace period will do, in a map that has had all its memory.
        let wanted = self.slabs.target.saturating_sub(there);
        if !self.plan.grow && self.blocks.units().waiting / most >= wanted {
            room = 0;
        }
        while room > 0 && there < self.slabs.target {
            let units = most.min(self.blocks.above());
            if units < least || self.blocks.fails() {
                break;
            }
            let Some(at) = self.rise(units) else {
                break;
            };
            self.slabs.put((at, units));
            (there, room, done.given) = (there + 1, room - 1, done.given + 1);
        }
        done.starved |= room > 0 && there < self.slabs.target;
        self.slabs.keep();
        Ok(())
    }

    /// Gives programs new memory behind the frontier.
    fn rise(&mut self, units: u32) -> Option<u32> {
        let (memory, window, populated) = (&self.memory, &self.window, &mut self.populated);
        let grow = |end: u32| populate(memory, window, end as usize * 8, populated);
        let at = self.blocks.rise(units, grow)?;
        self.set_u64(k::FRONTIER, u64::from(self.blocks.frontier()) * 8);
        Some(at)
    }

    /// Gives programs blocks of this size. It stores the new frontier before programs learn of the
    /// blocks: a process that adopts the map relies on this order.
    fn give_all(&mut self, units: u32, wanted: u32, done: &mut Serviced) -> Vec<u32> {
        let (memory, window, populated) = (&self.memory, &self.window, &mut self.populated);
        let mut grow = |end: u32| populate(memory, window, end as usize * 8, populated);
        let given: Vec<u32> = (0..wanted)
            .map_while(|_| self.blocks.give(units, &mut grow))
            .collect();
        done.starved |= given.len() < wanted as usize;
        done.given += given.len();
        if !given.is_empty() {
            self.set_u64(k::FRONTIER, u64::from(self.blocks.frontier()) * 8);
        }
        given
    }

    /// What is left of the slab of a lane: first unit, units.
    pub(super) fn rest(&self, lane: usize) -> (u32, u32) {
        let at = lane_at(lane) + k::LANE_SLAB;
        (self.u32(at), self.u32(at + 4))
    }

    /// The chunks in their ring and those that lanes use, and the blocks noted in these.
    pub(super) fn noted(&self) -> Result<(Vec<u32>, Vec<(u32, u32)>), Damaged> {
        let mut chunks = self.chunks.ring.all_offered()?;
        let mut blocks = Vec::new();
        for lane in &self.retired {
            let noted = lane.waiting(&self.blocks)?;
            chunks.extend(noted.done);
            chunks.push(noted.last);
            blocks.extend(noted.blocks);
        }
        Ok((chunks, blocks))
    }

    pub(super) fn memory(&self) -> Result<ProgramMapMemory, Error> {
        let damaged = |Damaged| Error::Damaged("a ring's count is impossible".into());
        let units = self.blocks.units();
        let slabs = self.slabs.offered().map_err(damaged)?;
        let rests = (0..self.lanes()).map(|lane| self.rest(lane));
        let mut offered: usize = (slabs.into_iter().chain(rests))
            .filter(|(at, units)| self.blocks.is_given(*at, *units))
            .map(|(_, units)| units as usize * 8)
            .sum();
        for (class, supply) in self.supplies.iter().enumerate() {
            offered += supply.ring.offered().map_err(damaged)? as usize * k::units(class) * 8;
        }
        for (_, units) in self.stocks().map_err(damaged)? {
            offered += units as usize * 8;
        }
        let (chunks, retired) = self.noted().map_err(damaged)?;
        offered += chunks.len() * k::CHUNK_UNITS * 8;
        let retired: usize = (retired.into_iter())
            .filter(|(at, units)| self.blocks.is_given(*at, *units))
            .map(|(_, units)| units as usize * 8)
            .sum();
        let bytes = |units: u32| units as usize * 8;
        Ok(ProgramMapMemory {
            fixed: bytes(units.first),
            index: self.table.map_or(0, |table| table.total as usize * LINE),
            offered,
            live: bytes(units.given).saturating_sub(offered + retired),
            branches: bytes(self.count(k::LANE_BRANCH_UNITS)),
            clusters: bytes(self.count(k::LANE_CLUSTER_UNITS)),
            leaves: bytes(self.count(k::LANE_LEAF_UNITS)),
            retired,
            waiting: bytes(units.waiting),
            free: bytes(units.free),
            frontier: bytes(units.frontier),
        })
    }
}

/// Makes sure that the window has memory up to `end`, in bytes. It takes somewhat more if it can,
/// because each call of the kernel costs time. `false` when there is no memory.
fn populate(memory: &Memory, window: &WindowInfo, end: usize, populated: &mut usize) -> bool {
    if end <= *populated {
        return true;
    }
    let more = end + (end / 64).clamp(64 << 10, 1 << 20);
    for wanted in [more.min(window.len), end] {
        if memory.populate(window.at + *populated, window.at + wanted) {
            *populated = wanted;
            return true;
        }
    }
    false
}

/// The place of a lane in the window.
pub(super) fn lane_at(lane: usize) -> usize {
    k::LANES_AT + lane * k::LANE_BYTES
}

/// The number of processors that the kernel may have.
fn processors() -> usize {
    libbpf_rs::num_possible_cpus().unwrap_or(1)
}

/// The number of lanes: two for each processor. With many processors, or in a small window,
/// processors share lanes.
fn lanes_for(processors: usize, window: usize) -> usize {
    let mut lanes = (2 * processors).next_power_of_two().min(k::LANES_MAX);
    while lanes > 2 && lanes * k::LANE_BYTES > window / 8 {
        lanes /= 2;
    }
    lanes
}

/// The homes of an index for this number of keys. With all keys, 88 of 100 slots are taken.
fn homes_for(keys: usize) -> usize {
    keys * 100 / (SLOTS * 88) + 1
}
