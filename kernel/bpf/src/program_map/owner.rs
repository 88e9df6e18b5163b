//! The owner of a map that programs write: it lays out the window, and each step of service
//! supplies programs with memory.

use sapwood_arena::EXTRA_AT;
use sapwood_checked::parts::{Secrets, Table};
use sapwood_format::branch::LARGEST;
use sapwood_format::bucket::{self, LINE, SLOTS};
use sapwood_format::{header, leaf, reference_of};
use sapwood_qsbr::GraceSource;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blocks::Blocks;
use super::rings::{Damaged, Ring, head_of};
use super::slabs::{self, INSERTIONS, RETIRED_MAX, Slabs, is_cut};
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

/// The settings of a map.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) value_bytes: usize,
    pub(super) max_entries: usize,
    /// Bytes of the longest key.
    pub(super) longest: usize,
    pub(super) parts: u32,
    pub(super) bytes: Option<usize>,
    pub(super) ring: Option<usize>,
    pub(super) retired: Option<usize>,
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
            parts: 0,
            bytes: None,
            ring: None,
            retired: None,
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
        for &(len, _) in &self.prefill {
            if len > self.longest {
                let why = format!("keys have up to {} bytes, not {len}", self.longest);
                return refuse("prefill", why);
            }
        }
        for (what, size) in [
            ("ring", self.ring),
            ("retire_ring", self.retired),
            ("index_buckets", self.buckets),
        ] {
            if size.is_some_and(|size| size == 0 || size > ENTRIES_MAX) {
                return refuse(what, format!("1 to {ENTRIES_MAX}"));
            }
        }
        if self.parts == 0 {
            self.parts = k::INDEX | k::TRIE;
        }
        Ok(self)
    }

    fn ring_size(&self) -> usize {
        let usual = (self.max_entries / 64).clamp(64, 4096);
        self.ring.unwrap_or(usual).next_power_of_two()
    }

    fn retire_size(&self) -> usize {
        let ring = self.ring_size();
        let usual = (ring * 4).max(ring.min(INSERTIONS) * RETIRED_MAX);
        self.retired.unwrap_or(usual).next_power_of_two().max(2)
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
        let first = if self.full { usual } else { first };
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
    /// The ring of retired blocks of each lane.
    pub(super) retired: Vec<Ring>,
    /// The index's table, if there is one.
    pub(super) table: Option<Table>,
    pub(super) secrets: Secrets,
    pub(super) grace: Arc<KernelGrace>,
    /// The current grace period, and the blocks that were fetched before it began.
    pub(super) closing: Option<(u64, Vec<u32>)>,
    /// The blocks that wait for the next grace period.
    pub(super) open: Vec<u32>,
    /// The bytes of the window, from its beginning, that have memory.
    pub(super) populated: usize,
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
    /// The ring of retired blocks of each lane.
    retired_at: Vec<usize>,
    slabs_at: usize,
    /// The number of slabs.
    slabs: usize,
    /// The number of slots of their ring.
    slab_slots: usize,
    table: Option<Table>,
    buckets_at: usize,
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
        let retired_at = (0..lanes).map(|_| cut(plan.retire_size() * 4)).collect();
        let slabs = slabs::wanted(plan, plan.ring_size(), window.len, lanes);
        let slab_slots = slabs.max(1).next_power_of_two();
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
        Places {
            rings,
            retired_at,
            slabs_at,
            slabs,
            slab_slots,
            table,
            buckets_at,
            first: at.next_multiple_of(LINE) / 8,
            limit: (window.len / 8).saturating_sub(k::MARGIN),
        }
    }

    /// Makes sure that the window is large enough, and that all bytes before the blocks have
    /// memory.
    fn populate(&self, memory: &Memory, window: &WindowInfo) -> Result<(), Error> {
        if self.first >= self.limit || self.limit > u32::MAX as usize {
            return Err(Error::NoRoom {
                name: window.name.clone(),
                bytes: (self.first + k::MARGIN) * 8,
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
        places.populate(memory, window)?;
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
        let retired = places.retired_at.iter().enumerate();
        let retired: Vec<_> = retired
            .map(|(lane, at)| ring(lane_at(lane) + k::LANE_RETIRED, *at, plan.retire_size()))
            .collect();
        let (first, limit) = (places.first as u32, places.limit as u32);
        let mut owner = Owner {
            supplies: supplies.collect(),
            slabs: Slabs::new(slabs, places.slabs as u32, retired.len()),
            retired,
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
            refused: 0,
        };
        owner.write_header(places.buckets_at);
        owner.fill(&mut Serviced::default());
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
        self.set_u64(k::NODES, u64::from(self.blocks.frontier()) * 8);
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
        for cell in self.fetch() {
            let block = reference_of(cell);
            match self.blocks.wait(block) {
                Some(_) => self.open.push(block),
                None => self.refused += 1,
            }
            done.fetched += 1;
        }
        if let Some((token, _)) = &self.closing {
            if self.grace.elapsed(*token) {
                for block in self.closing.take().into_iter().flat_map(|(_, all)| all) {
                    self.blocks.free(block);
                    done.freed += 1;
                }
            }
        }
        if self.closing.is_none() && !self.open.is_empty() {
            self.closing = Some((self.grace.start(), std::mem::take(&mut self.open)));
        }
        self.fill(&mut done);
        match self.grace.failure() {
            Some(why) => Err(Error::NoGrace(why)),
            None => Ok(done),
        }
    }

    /// Fetches the cells of blocks that programs have retired.
    ///
    /// One lane may retire a block that another has cut off its slab. So the cuts of all lanes are
    /// recorded before a block is fetched, and only blocks are fetched that were there before that.
    fn fetch(&mut self) -> Vec<u32> {
        let there = |ring: &Ring| ring.waiting().map_or(0, |cells| cells.len());
        let before: Vec<usize> = self.retired.iter().map(there).collect();
        let mut fetched = Vec::new();
        for (lane, before) in before.into_iter().enumerate() {
            match self.retired[lane].waiting() {
                Ok(cells) => {
                    self.refused += self.slabs.look(lane, &cells, &mut self.blocks);
                    let count = before.min(cells.len());
                    // The reference of a slab follows the cell of kind CUT that announces it, and
                    // has that kind, too.
                    fetched.extend(cells[..count].iter().filter(|cell| !is_cut(**cell)));
                    self.retired[lane].fetch(count);
                    self.slabs.fetched(lane, count);
                }
                Err(Damaged) => {
                    self.retired[lane].skip();
                    self.slabs.fetched(lane, usize::MAX);
                    self.refused += 1;
                }
            }
        }
        fetched
    }

    /// Fills the rings. The target of a ring that is less than half full is doubled.
    pub(super) fn fill(&mut self, done: &mut Serviced) {
        for class in 0..self.supplies.len() {
            if self.fill_class(class, done).is_err() {
                self.refused += 1;
            }
        }
        if self.fill_slabs(done).is_err() {
            self.refused += 1;
        }
    }

    fn fill_class(&mut self, class: usize, done: &mut Serviced) -> Result<(), Damaged> {
        let supply = &mut self.supplies[class];
        let there = supply.ring.offered()?;
        if there < supply.target / 2 {
            supply.target = (supply.target * 2).min(supply.most.max(supply.target));
        }
        let target = supply.target;
        let units = k::units(class) as u32;
        let given = self.give(units, target.saturating_sub(there), done);
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

    fn fill_slabs(&mut self, done: &mut Serviced) -> Result<(), Damaged> {
        let there = self.slabs.ring.offered()?;
        let wanted = self.slabs.target.saturating_sub(there);
        for slab in self.give(k::SLAB_UNITS as u32, wanted, done) {
            self.slabs.push(slab);
            self.slabs.ring.put(&[slab]);
        }
        let removals = self.plan.parts & k::TRIE != 0 && self.slabs.target > 1;
        self.slabs.ring.keep(removals.into());
        Ok(())
    }

    /// Gives programs blocks of this size. It stores the new frontier before programs learn of the
    /// blocks: a process that adopts the map relies on this order.
    fn give(&mut self, units: u32, wanted: u32, done: &mut Serviced) -> Vec<u32> {
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

    /// Records the blocks that programs cut off slabs.
    pub(super) fn look(&mut self) -> Result<(), Damaged> {
        for lane in 0..self.lanes() {
            let cells = self.retired[lane].waiting()?;
            self.refused += self.slabs.look(lane, &cells, &mut self.blocks);
        }
        Ok(())
    }

    /// The cells of blocks that programs have retired, and that were not fetched yet.
    pub(super) fn waiting(&self) -> Result<Vec<u32>, Damaged> {
        let mut all = Vec::new();
        for ring in &self.retired {
            all.extend(ring.waiting()?.into_iter().filter(|cell| !is_cut(*cell)));
        }
        Ok(all)
    }

    pub(super) fn memory(&mut self) -> Result<ProgramMapMemory, Error> {
        let damaged = |Damaged| Error::Damaged("a ring's count is impossible".into());
        self.look().map_err(damaged)?;
        let units = self.blocks.units();
        let mut offered = self.slabs.units().map_err(damaged)? * 8;
        for (class, supply) in self.supplies.iter().enumerate() {
            offered += supply.ring.offered().map_err(damaged)? as usize * k::units(class) * 8;
        }
        for (_, units) in self.stocks().map_err(damaged)? {
            offered += units as usize * 8;
        }
        let retired: usize = (self.waiting().map_err(damaged)?.iter())
            .filter_map(|cell| self.blocks.given(reference_of(*cell)))
            .map(|units| units as usize * 8)
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
