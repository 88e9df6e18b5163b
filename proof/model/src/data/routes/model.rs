//! The model that places prefixes. The properties of the real table are in `global`.
//!
//! It uses only floating-point operations whose results are the same on every machine: no powers
//! and logarithms of the platform's library.

use std::collections::HashSet;

use fastrand::Rng;

use super::global::{Global, Region};
use crate::oracle::Prefix;

/// How often a place is drawn again if it is taken, or if it is covered and should not be, or the
/// other way round.
const TRIES: usize = 64;

/// The length of the longest run. Longer ones are cut.
const LONGEST_RUN: usize = 1000;

/// The table of a family, sorted.
pub(super) fn table(global: &Global, count: usize, seed: u64) -> Vec<Prefix> {
    assert!(count <= 2_000_000, "at most two million prefixes");
    let mut model = Model::new(global, seed);
    let real = real_count(global);
    let blocks = (count * global.blocks as usize).div_ceil(real);
    for (length, count) in global.lengths.iter().zip(counts(global, count)) {
        if length.len > global.block && model.blocks.is_empty() {
            model.open_blocks(blocks);
        }
        model.place(length.len, count, f64::from(length.covered) / 1000.0);
    }
    let mut all: Vec<_> = model.placed.concat();
    all.sort_unstable();
    all
}

fn real_count(global: &Global) -> usize {
    global
        .lengths
        .iter()
        .map(|length| length.count as usize)
        .sum()
}

/// How many of `count` prefixes have each length: the real shares rounded down, and one more for
/// the lengths that lost most by it.
fn counts(global: &Global, count: usize) -> Vec<usize> {
    let real = real_count(global);
    let scaled = |index: usize| global.lengths[index].count as usize * count;
    let mut counts: Vec<_> = (0..global.lengths.len())
        .map(|index| scaled(index) / real)
        .collect();
    let mut by_loss: Vec<_> = (0..counts.len()).collect();
    by_loss.sort_by_key(|index| std::cmp::Reverse(scaled(*index) % real));
    let missing = count - counts.iter().sum::<usize>();
    for index in &by_loss[..missing] {
        counts[*index] += 1;
    }
    counts
}

struct Model<'a> {
    global: &'a Global,
    rng: Rng,
    /// The regions, each with the sum of the weights up to and including it.
    regions: Vec<(Prefix, f64)>,
    /// The blocks for uncovered long prefixes, the busiest first, each with such a sum.
    blocks: Vec<(Prefix, f64)>,
    /// The prefixes of each length in the order in which they were placed, and as sets.
    placed: Vec<Vec<Prefix>>,
    taken: Vec<HashSet<u128>>,
}

/// The places that a prefix may have.
#[derive(Clone, Copy, PartialEq)]
enum Cover {
    /// Inside another prefix.
    Inside,
    /// Where no prefix covers it.
    Free,
    /// Anywhere, if no other place was found.
    Any,
}

impl<'a> Model<'a> {
    fn new(global: &'a Global, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let weigh = |region: Region| {
            let prefix = Prefix {
                bits: u128::from(region.bits) << 112,
                len: region.len,
            };
            let weight = match region.weight {
                // Unequal weights from 1 to 20, so that no region is left out.
                0 => 1.0 + 19.0 * halves(rng.f64(), 4),
                given => f64::from(given),
            };
            (prefix, weight)
        };
        let regions = sums((global.regions)().into_iter().map(weigh));
        let lengths = usize::from(global.width) + 1;
        Self {
            global,
            rng,
            regions,
            blocks: Vec::new(),
            placed: vec![Vec::new(); lengths],
            taken: vec![HashSet::new(); lengths],
        }
    }

    /// Chooses the blocks for long uncovered prefixes: runs of blocks that have no prefixes yet.
    fn open_blocks(&mut self, count: usize) {
        let len = self.global.block;
        let mut chosen = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..count * TRIES {
            let mut block = self.in_region(len);
            while chosen.len() < count && !self.is_covered(block, true) && seen.insert(block.bits) {
                chosen.push(block);
                let (Some(next), true) = (following(block), self.rng.bool()) else {
                    break;
                };
                block = next;
            }
        }
        self.rng.shuffle(&mut chosen);
        let total = chosen.len() as f64;
        let busy = self.global.busy;
        let weighed = chosen
            .into_iter()
            .enumerate()
            .map(|(at, block)| (block, busy(at as f64 / total)));
        self.blocks = sums(weighed);
    }

    /// Places `count` prefixes of a length, of which the share `covered` is inside others.
    fn place(&mut self, len: u8, count: usize, covered: f64) {
        let inside = (count as f64 * covered).round() as usize;
        for (cover, count) in [(Cover::Inside, inside), (Cover::Free, count - inside)] {
            let mut left = count;
            while left > 0 {
                let (first, cover) = self.start(len, cover);
                let mut next = Some(first);
                let run = self.run(len).min(left);
                for _ in 0..run {
                    let Some(prefix) = next.filter(|prefix| self.fits(*prefix, cover)) else {
                        break;
                    };
                    self.take(prefix);
                    left -= 1;
                    next = following(prefix);
                }
            }
        }
    }

    /// A place for the first prefix of a run, and the cover of the whole run.
    fn start(&mut self, len: u8, cover: Cover) -> (Prefix, Cover) {
        for _ in 0..TRIES {
            let near = self.rng.f64() < self.global.near;
            let prefix = match cover {
                _ if near => self.near(len),
                Cover::Inside => self.inside(len),
                _ => self.free(len),
            };
            if self.fits(prefix, cover) {
                return (prefix, cover);
            }
        }
        // The table is so small or so full that no such place was found.
        loop {
            let prefix = self.in_region(len);
            if self.fits(prefix, Cover::Any) {
                return (prefix, Cover::Any);
            }
        }
    }

    /// The length of a run of prefixes of a length.
    fn run(&mut self, len: u8) -> usize {
        let runs = (self.global.runs)(len);
        if self.rng.f64() < runs.single {
            return 1;
        }
        // Two prefixes, and a geometrically distributed number of others.
        let more = 1.0 - 1.0 / (runs.mean - 1.0);
        let mut run = 2;
        while run < LONGEST_RUN && self.rng.f64() < more {
            run += 1;
        }
        run
    }

    /// A random prefix near an earlier one of the same length, if there is one.
    fn near(&mut self, len: u8) -> Prefix {
        let earlier = &self.placed[usize::from(len)];
        if earlier.is_empty() {
            return self.in_region(len);
        }
        let earlier = earlier[self.rng.usize(..earlier.len())];
        let around = Prefix::truncated(earlier.bits, len.saturating_sub(6));
        self.within(around, len)
    }

    /// A random prefix inside a placed one, or anywhere in a region if no placed one can cover it.
    fn inside(&mut self, len: u8) -> Prefix {
        let factor = (self.global.cover)(len);
        let weight = |parent: u8| {
            let kind = halves(factor, 2 * u32::from(len - parent));
            self.placed[usize::from(parent)].len() as f64 * kind
        };
        let total: f64 = (0..len).map(weight).sum();
        if total == 0.0 {
            return self.in_region(len);
        }
        let mut left = self.rng.f64() * total;
        let mut parent_len = 0;
        for parent in 0..len {
            if weight(parent) > 0.0 {
                parent_len = parent;
                left -= weight(parent);
                if left < 0.0 {
                    break;
                }
            }
        }
        let skewed = halves(self.rng.f64(), self.global.skew);
        let parents = &self.placed[usize::from(parent_len)];
        let at = (skewed * parents.len() as f64) as usize;
        let parent = parents[at.min(parents.len() - 1)];
        // Holders use their blocks from the low end on.
        let low = halves(self.rng.f64(), self.global.low);
        let places = halves(2.0, 2 * u32::from(len - parent_len));
        let offset = (low * places) as u128;
        Prefix {
            bits: parent.bits | offset << (128 - u32::from(len)),
            len,
        }
    }

    /// A random prefix in a block, or in a region if it is no longer than a block.
    fn free(&mut self, len: u8) -> Prefix {
        let block = self.global.block;
        if len <= block || self.blocks.is_empty() {
            return self.in_region(len);
        }
        let at = pick(&self.blocks, &mut self.rng);
        // Large prefixes go to blocks with few small ones, so that small ones find room.
        let at = if len <= block + 4 {
            self.blocks.len() - 1 - at
        } else {
            at
        };
        self.within(self.blocks[at].0, len)
    }

    fn in_region(&mut self, len: u8) -> Prefix {
        let region = self.regions[pick(&self.regions, &mut self.rng)].0;
        self.within(region, len)
    }

    fn within(&mut self, outer: Prefix, len: u8) -> Prefix {
        let random = self.rng.u128(..);
        let below = random ^ Prefix::truncated(random, outer.len).bits;
        Prefix::truncated(outer.bits | below, len)
    }

    fn fits(&self, prefix: Prefix, cover: Cover) -> bool {
        let taken = self.taken[usize::from(prefix.len)].contains(&prefix.bits);
        !taken
            && match cover {
                Cover::Any => true,
                Cover::Inside => self.is_covered(prefix, false),
                Cover::Free => !self.is_covered(prefix, false),
            }
    }

    /// Whether a shorter prefix covers this one, or with `itself`, whether it is placed itself.
    fn is_covered(&self, prefix: Prefix, itself: bool) -> bool {
        let end = usize::from(prefix.len) + usize::from(itself);
        self.taken[..end].iter().zip(0..).any(|(taken, len)| {
            !taken.is_empty() && taken.contains(&Prefix::truncated(prefix.bits, len).bits)
        })
    }

    fn take(&mut self, prefix: Prefix) {
        let len = usize::from(prefix.len);
        self.placed[len].push(prefix);
        self.taken[len].insert(prefix.bits);
    }
}

/// `base` to the power of `exponent / 2`.
fn halves(base: f64, exponent: u32) -> f64 {
    let whole = (0..exponent / 2).fold(1.0, |power, _| power * base);
    if exponent % 2 == 1 {
        whole * base.sqrt()
    } else {
        whole
    }
}

/// The direct neighbour after a prefix; `None` after the last one of the space.
fn following(prefix: Prefix) -> Option<Prefix> {
    let step = 1_u128.checked_shl(128 - u32::from(prefix.len))?;
    let bits = prefix.bits.checked_add(step)?;
    Some(Prefix { bits, ..prefix })
}

/// The prefixes, each with the sum of the weights up to and including it.
fn sums(weighed: impl Iterator<Item = (Prefix, f64)>) -> Vec<(Prefix, f64)> {
    let mut total = 0.0;
    let summed = weighed.map(|(prefix, weight)| {
        total += weight;
        (prefix, total)
    });
    summed.collect()
}

/// The place of a random prefix, drawn by weight.
fn pick(sums: &[(Prefix, f64)], rng: &mut Rng) -> usize {
    let total = sums.last().map_or(0.0, |(_, sum)| *sum);
    let at = rng.f64() * total;
    sums.partition_point(|(_, sum)| *sum <= at)
        .min(sums.len() - 1)
}
