//! The owner of a map that programs write: it lays out the window, and each step of service
//! supplies programs with memory.

use sapwood_arena::EXTRA_AT;
use sapwood_checked::parts::{Secrets, Table};
use sapwood_format::bucket::{self, LINE};
use sapwood_format::header;
use sapwood_qsbr::GraceSource;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blocks::Blocks;
use super::plan::{KEPT_MAX, Places, Plan, SHIFT};
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
        owner.set_u32(k::ROOMS, (places.rooms_at / 8) as u32);
        owner.set_u32(k::EACH, plan.each as u32);
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

    /// Takes the blocks back that lie ready in rings, when no block waits for a grace period and
    /// much of the free memory is scattered between them: then runs are free that are large enough
    /// for slabs. Some of these blocks are given out again.
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

    /// The chunks in their ring and those that lanes use.
    pub(super) fn all_chunks(&self) -> Result<Vec<u32>, Damaged> {
        let mut chunks = self.chunks.ring.all_offered()?;
        for lane in &self.retired {
            let noted = lane.waiting(&self.blocks)?;
            chunks.extend(noted.done);
            chunks.push(noted.last);
        }
        Ok(chunks)
    }

    /// The blocks that programs have retired and that were not fetched yet: first unit, units.
    pub(super) fn all_retired(&self) -> Result<Vec<(u32, u32)>, Damaged> {
        let mut blocks = Vec::new();
        for lane in &self.retired {
            blocks.extend(lane.waiting(&self.blocks)?.blocks);
        }
        Ok(blocks)
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
        offered += self.all_chunks().map_err(damaged)?.len() * k::CHUNK_UNITS * 8;
        let retired = self.all_retired().map_err(damaged)?;
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
