//! Taking over a map whose owner died. A block is free when neither the map nor a ring has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood_arena::EXTRA_AT;
use sapwood_checked::parts::{Index, Table};
use sapwood_format::bucket::LINE;

use super::Serviced;
use super::blocks::{Bits, Blocks};
use super::owner::{Owner, Supply, lane_at};
use super::plan::{ENTRIES_MAX, Plan, SHIFT};
use super::retired::Retired;
use super::rings::{Ring, head_of};
use super::slabs::{self, Slabs};
use super::verify::{Found, text};
use crate::arena::WindowInfo;
use crate::grace::KernelGrace;
use crate::layout::program_map as k;
use crate::raw::arena::Memory;

/// The most blocks that a ring is filled with after the takeover. A ring that was prefilled may
/// have more slots.
const RING_MAX: u32 = 4096;

impl Owner {
    /// Makes the owner of an existing map. The caller has closed the window and waited for a grace
    /// period, so no program uses the map.
    pub(super) fn adopt(
        memory: &Arc<Memory>,
        window: &WindowInfo,
        value_bytes: usize,
        grace: Arc<KernelGrace>,
    ) -> Result<Owner, String> {
        let u32 = |at: usize| memory.u32(window.at + at).load(Ordering::Acquire);
        let u64 = |at: usize| memory.u64(window.at + at).load(Ordering::Acquire);
        let units = |at: usize| {
            let bytes = u64(at);
            let inside = bytes % 8 == 0 && bytes <= (window.len - k::MARGIN * 8) as u64;
            let units = u32::try_from(bytes / 8).ok().filter(|_| inside);
            units.ok_or_else(|| format!("the header says {bytes} bytes"))
        };
        if window.len < k::LANES_AT + k::MARGIN * 8 {
            return Err("the window is too small".into());
        }
        let limit =
            u32::try_from(window.len / 8 - k::MARGIN).map_err(|_| "the window is too large")?;
        let (first, frontier) = (units(k::NODES)?, units(k::FRONTIER)?);
        let lanes = u32(k::LANES) as usize;
        if !lanes.is_power_of_two() || lanes > k::LANES_MAX {
            return Err(format!("{lanes} lanes"));
        }
        let bounds = (k::lanes_end(lanes), first as usize * 8);
        if bounds.1 < bounds.0 || frontier < first {
            return Err(format!("blocks from {first} to {frontier}"));
        }
        let mut plan = Plan::new(value_bytes);
        plan.max_entries = u32(k::MAX) as usize;
        plan.parts = u32(k::PARTS);
        plan.longest = u32(k::LONGEST) as usize;
        plan.lru = u32(k::USES) != 0;
        plan.idle = u32(k::IDLE);
        plan.each = u32(k::EACH) as usize;
        if plan.longest > k::KEY_MAX || plan.leaf_units(plan.longest) * 8 > k::LEAF_MAX {
            return Err(format!("keys of up to {} bytes", plan.longest));
        }
        let rooms = u32(k::ROOMS) as usize * 8;
        let inside = rooms >= bounds.0 && rooms + lanes * value_bytes <= bounds.1;
        if plan.has_long_values() && !inside {
            return Err(format!("rooms for values at {rooms}"));
        }
        if plan.each % 8 != 0 || plan.each > value_bytes {
            return Err(format!("counts of {} bytes", plan.each));
        }
        let parts = plan.parts != 0 && plan.parts & !(k::INDEX | k::TRIE) == 0;
        if plan.max_entries > ENTRIES_MAX || !parts {
            return Err(format!(
                "{} entries, parts {}",
                plan.max_entries, plan.parts
            ));
        }
        let ring = |head| {
            let found = Ring::found(memory, window.at, head, bounds);
            found.ok_or_else(|| format!("the ring at {head} has no valid place"))
        };
        let supplies = (0..k::CLASSES).map(|class| {
            let ring = ring(head_of(class))?;
            let most = ring.capacity().min(RING_MAX);
            let large = k::units(class) > k::EXACT;
            let target = if large {
                most.min(2)
            } else {
                (most / 32).max(most.min(8))
            };
            Ok(Supply { ring, target, most })
        });
        let slabs = ring(head_of(k::SLABS))?;
        let usual = slabs::wanted(&plan, usize::MAX, window.len, lanes);
        let target = (slabs.capacity() / 2).min(usual as u32);
        let least = slabs::each(&plan) as u32;
        let kept = |head| u32(head_of(head) + k::RING_KEPT);
        let chunks = ring(head_of(k::CHUNKS))?;
        let kept_chunks = kept(k::CHUNKS).min(chunks.capacity());
        let most = (kept_chunks + 2 * lanes as u32).min(chunks.capacity());
        let retired = (0..lanes).map(|lane| Retired::found(memory, window.at, lane));
        let mut owner = Owner {
            supplies: supplies.collect::<Result<_, String>>()?,
            slabs: Slabs {
                target,
                units: (least, least.max(k::SLAB_UNITS as u32)),
                kept: (kept(k::SLABS) / 2).min(slabs.capacity() / 4),
                ring: slabs,
            },
            chunks: Supply {
                ring: chunks,
                target: most,
                most,
            },
            kept_chunks,
            retired: retired.collect(),
            memory: Arc::clone(memory),
            window: window.clone(),
            plan,
            blocks: Blocks::rebuilt(first, limit, frontier, Bits::default())
                .ok_or("the frontier is none")?,
            table: None,
            secrets: std::array::from_fn(|i| u64(EXTRA_AT + 8 * i)),
            grace,
            closing: None,
            open: Vec::new(),
            populated: frontier as usize * 8,
            scattered: true,
            refused: 0,
        };
        if owner.plan.parts & k::INDEX != 0 {
            owner.table = Some(owner.find_table(bounds)?);
        }
        // No program is at work, and the rest of each open slab is free.
        owner.set_u32(k::ROOT_LOCK, 0);
        for lane in (0..lanes).map(lane_at) {
            owner.set_u32(lane, 0);
            owner.set_u32(lane + k::LANE_SLAB_LEFT, 0);
            for held in 0..8 {
                owner.set_u32(lane + k::LANE_HELD + 4 * held, 0);
            }
        }
        owner.find_blocks(first, limit, frontier)?;
        owner.verify()?;
        owner.fill(&mut Serviced::default());
        Ok(owner)
    }

    /// Finds the blocks that programs have: in the map, in rings, or retired. The rest is free.
    fn find_blocks(&mut self, first: u32, limit: u32, frontier: u32) -> Result<(), String> {
        let mut found = Found {
            new: true,
            ..Found::default()
        };
        self.check_map(&mut found)?;
        let mut add = |at: u32, units: u32| {
            let inside = at >= first && at.checked_add(units).is_some_and(|end| end <= frontier);
            match inside && found.held.add(at, units) {
                true => Ok(()),
                false => Err(format!(
                    "block {at} of {units} units is nowhere, or elsewhere, too"
                )),
            }
        };
        for (at, units) in self.offered()? {
            add(at, units)?;
        }
        for at in self.chunks.ring.all_offered()? {
            add(at, k::CHUNK_UNITS as u32)?;
        }
        for lane in &self.retired {
            let noted = lane.waiting_in(first, frontier)?;
            for at in noted.done.into_iter().chain([noted.last]) {
                add(at, k::CHUNK_UNITS as u32)?;
            }
            for (at, units) in noted.blocks {
                add(at, units)?;
            }
        }
        let blocks = Blocks::rebuilt(first, limit, frontier, found.held);
        self.blocks = blocks.ok_or("blocks lie outside")?;
        Ok(())
    }

    /// Finds the index's table. All of it must lie between these bounds.
    fn find_table(&self, (begin, end): (usize, usize)) -> Result<Table, String> {
        let nodes = self.nodes();
        let index = Index::with_secrets(&nodes, self.secrets);
        let tables = index.tables().map_err(text)?;
        let &[table] = tables.as_slice() else {
            return Err(format!("the index has {} tables", tables.len()));
        };
        let fits = |(from, to)| begin <= from && to <= end;
        let mut fit = table.shift == SHIFT && fits(table.block());
        for chunk in 0..table.chunks() {
            let at = index.chunk(table, chunk).map_err(text)?;
            fit &= at.is_some_and(|at| at % LINE == 0 && fits((at, at + table.bytes_of(chunk))));
        }
        match fit {
            true => Ok(table),
            false => Err(format!(
                "the index's table at {} has no valid place",
                table.at
            )),
        }
    }
}
