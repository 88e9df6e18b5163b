//! The settings of a map that programs write, and the layout of its window that follows from them.

use sapwood_checked::parts::Table;
use sapwood_format::branch::LARGEST;
use sapwood_format::bucket::{self, LINE, SLOTS};
use sapwood_format::leaf;

use super::slabs;
use crate::arena::WindowInfo;
use crate::error::Error;
use crate::layout::program_map as k;
use crate::raw::arena::Memory;

/// The most entries of a map: an index over that many fits an arena.
pub(super) const ENTRIES_MAX: usize = 1 << 28;
/// The base-2 logarithm of the buckets in a chunk of the index's table. All chunks are adjacent.
pub(super) const SHIFT: u32 = 9;
/// The most buckets behind the last home.
const SPARE: usize = 16;
/// The most blocks of one size that are kept for removals.
pub(super) const KEPT_MAX: u32 = 64;
/// The bytes of a key on average, unless the builder says another number or all keys are shorter.
const MEAN_KEY: usize = 24;
/// The units that a trie takes for each entry while all entries are inserted between two steps of
/// service: the clusters and branches that insertions replace, and those that stay.
const NODES_OF_ENTRY: usize = 23;
/// The units for each two entries that removals may take for smaller branches between two steps. A
/// branch of 256 children takes 148 KB until it has none, and has 2,500 entries or more below.
const KEPT_OF_TWO: usize = 15;
/// The most bytes of leaves with long values that came back and lie ready in a ring.
const RING_BYTES: usize = 4 << 20;
/// The blocks that a chunk has room for: a change goes on with another chunk when it has less room
/// than a change may need.
const CHUNK_BLOCKS: usize = k::CHUNK_UNITS - 11;

/// The settings of a map.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) value_bytes: usize,
    /// Whether values count for each processor, and then the bytes from the count of one to that of
    /// the next; else 0.
    pub(super) per_processor: bool,
    pub(super) each: usize,
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
            per_processor: false,
            each: 0,
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
        if self.per_processor {
            if self.value_bytes != 8 {
                let why = "the size of its values follows from the processors".to_owned();
                return refuse("per_processor", why);
            }
            let count = processors();
            let Some(each) = each_of(count) else {
                let most = k::PROCESSORS_MAX;
                let why = format!("the kernel may have {count} processors, more than {most}");
                return refuse("per_processor", why);
            };
            (self.each, self.value_bytes) = (each, each * count);
        }
        if self.max_entries == 0 || self.max_entries > ENTRIES_MAX {
            let why = format!("1 to {ENTRIES_MAX}, not {}", self.max_entries);
            return refuse("max_entries", why);
        }
        if self.longest > k::KEY_MAX {
            let why = format!("{} bytes at most, not {}", k::KEY_MAX, self.longest);
            return refuse("longest_key", why);
        }
        if self.leaf_units(self.longest) * 8 > k::LEAF_MAX {
            let (value, longest, most) = (self.value_bytes, self.longest, k::LEAF_MAX);
            let why = format!(
                "a value of {value} bytes and a key of {longest} have more than {most} together"
            );
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

    pub(super) fn ring_size(&self) -> usize {
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
        // A leaf has a byte for the length. Keys of different lengths lose half a word at the end
        // on average, and those of one length as much as their leaf does.
        let mean = self.mean();
        let leaf = (self.value_bytes + mean + 5).max(self.leaf_units(mean) * 8);
        // The same of a large block, whose class has blocks of eight sizes.
        let leaf = match self.has_long_values() {
            true => (leaf + 28).max(self.usual_leaf() * 8),
            false => leaf,
        };
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

    /// Bytes of a key on average.
    fn mean(&self) -> usize {
        self.mean.unwrap_or(self.longest.min(MEAN_KEY))
    }

    /// Whether values do not pass through the scratch of a lane.
    pub(super) fn has_long_values(&self) -> bool {
        self.value_bytes > k::VALUE_SHORT
    }

    /// The units of the block of a usual leaf.
    fn usual_leaf(&self) -> usize {
        k::units(k::class(self.leaf_units(self.mean())))
    }

    /// The chunks that are kept for removals: those of all entries, or as many as a ring has
    /// blocks.
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
        // Large leaves are rarer than small ones, and large branches are rare. With long values,
        // all leaves are large, and a ring has some of them.
        let long = self.has_long_values() && class >= k::class(self.leaf_units(0));
        let (usual, first) = match units {
            25.. if long => {
                let all = all.min((RING_BYTES / (units * 8)).max(8));
                (all, (all / 32).max(all.min(2)))
            }
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

/// The layout of a window: places in bytes from its beginning.
pub(super) struct Places {
    /// The ring of each class.
    pub(super) rings: Vec<RingPlace>,
    pub(super) lanes: usize,
    pub(super) chunks_at: usize,
    /// The number of chunks in their ring, and the number that is kept for removals.
    pub(super) chunks: (usize, usize),
    pub(super) slabs_at: usize,
    /// The number of slabs at first, and the number that is kept for removals.
    pub(super) slabs: (usize, usize),
    /// Units of a slab: the least and the most.
    pub(super) slab: (usize, usize),
    /// The number of slots of their ring.
    pub(super) slab_slots: usize,
    pub(super) table: Option<Table>,
    pub(super) buckets_at: usize,
    /// Where the uses of the index's slots are, if entries leave by themselves.
    pub(super) uses_at: usize,
    /// Where the rooms of lanes for long values are, if values are long.
    pub(super) rooms_at: usize,
    /// The first unit of blocks.
    pub(super) first: usize,
    /// The unit behind the last that a block may have.
    pub(super) limit: usize,
}

/// The place of a class's ring.
pub(super) struct RingPlace {
    pub(super) at: usize,
    /// The number of slots.
    pub(super) capacity: usize,
    /// The most blocks that service fills it with.
    pub(super) most: usize,
    /// The blocks that it has at first.
    pub(super) first: usize,
}

impl Places {
    pub(super) fn new(plan: &Plan, window: &WindowInfo) -> Places {
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
                // A slab has room for eight leaves with long values, or more.
                let (leaf, large) = match plan.has_long_values() {
                    true => (plan.usual_leaf(), least + 8 * plan.usual_leaf()),
                    false => (0, least),
                };
                let most = (all / (8 * lanes)).clamp(least, k::SLAB_UNITS.max(large));
                let kept = match plan.parts & k::TRIE {
                    0 => 0,
                    _ => (plan.max_entries * KEPT_OF_TWO / 2).div_ceil(most),
                };
                // The rest that is too small for the next insertion.
                let used = most - (least / 8).max(leaf).min(most / 2);
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
        let rooms_at = match plan.has_long_values() {
            true => cut(lanes * plan.value_bytes),
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
            rooms_at,
            first: at.next_multiple_of(LINE) / 8,
            limit: (window.len / 8).saturating_sub(k::MARGIN),
        }
    }

    /// Makes sure that the window is large enough, and that all bytes before the blocks have
    /// memory.
    pub(super) fn populate(
        &self,
        plan: &Plan,
        memory: &Memory,
        window: &WindowInfo,
    ) -> Result<(), Error> {
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

/// The number of processors that the kernel may have.
fn processors() -> usize {
    libbpf_rs::num_possible_cpus().unwrap_or(1)
}

/// The bytes from the count of one processor to that of the next: those of a cache line, or less
/// with more than 64 processors. `None` when no value has room for that many.
fn each_of(processors: usize) -> Option<usize> {
    let each = k::VALUE_MAX / processors.next_power_of_two();
    (each >= 8).then_some(each.min(LINE))
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

#[cfg(test)]
mod tests {
    use super::{each_of, k};

    #[test]
    fn counts_fit_into_a_value() {
        let wanted = [
            (1, 64),
            (2, 64),
            (64, 64),
            (65, 32),
            (128, 32),
            (129, 16),
            (512, 8),
        ];
        for (processors, each) in wanted {
            assert_eq!(each_of(processors), Some(each), "{processors}");
        }
        for processors in 1..=k::PROCESSORS_MAX {
            let each = each_of(processors).unwrap();
            assert!(each % 8 == 0 && each * processors <= k::VALUE_MAX);
        }
        assert_eq!(each_of(k::PROCESSORS_MAX + 1), None);
    }
}
