//! The allocator against a naive model: one `bool` per unit.

use crate::*;
use alloc::vec::Vec;

mod cases;

const STEPS: usize = if cfg!(miri) { 80 } else { 4000 };
const SEEDS: u64 = if cfg!(miri) { 2 } else { 12 };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    r: Ref,
    bytes: usize,
    kind: Kind,
    area: Area,
    stamp: u8,
    retired: bool,
}

struct Checked {
    arena: Arena,
    /// Units that are live or retired.
    used: Vec<bool>,
    blocks: Vec<Block>,
    random: Random,
}

impl Checked {
    fn new(arena: Arena, seed: u64) -> Checked {
        Checked {
            arena,
            used: Vec::new(),
            blocks: Vec::new(),
            random: Random(seed),
        }
    }

    fn units(bytes: usize) -> usize {
        bytes.div_ceil(UNIT)
    }

    fn alloc(&mut self, bytes: usize, area: Area) -> Result<Block, ArenaFull> {
        let kind = Kind((self.random.below(16)) as u8);
        let r = self.arena.alloc(bytes, kind, area)?;
        let (start, n) = (r.get() as usize, Self::units(bytes));
        assert_eq!((self.arena.base() as usize + r.byte_offset()) % 8, 0);
        assert!(start * UNIT >= self.arena.memory().header);
        assert!((start + n) * UNIT <= self.arena.memory().frontier);
        if self.used.len() < start + n {
            self.used.resize(start + n, false);
        }
        assert!(
            self.used[start..start + n].iter().all(|&u| !u),
            "{r:?} of {bytes} bytes overlaps a block"
        );
        self.used[start..start + n].fill(true);
        let stamp = self.random.next() as u8;
        // SAFETY: a fresh block of this many bytes.
        unsafe {
            self.arena
                .base()
                .add(r.byte_offset())
                .write_bytes(stamp, n * UNIT)
        };
        let block = Block {
            r,
            bytes,
            kind,
            area,
            stamp,
            retired: false,
        };
        self.blocks.push(block);
        Ok(block)
    }

    fn intact(&self, block: &Block) {
        let n = Self::units(block.bytes) * UNIT;
        // SAFETY: a block that is live or retired, written when it was allocated.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.arena.base().add(block.r.byte_offset()), n) };
        assert!(
            bytes.iter().all(|&b| b == block.stamp),
            "{block:?} was overwritten"
        );
    }

    fn free(&mut self, index: usize) {
        let block = self.blocks.swap_remove(index);
        self.intact(&block);
        let start = block.r.get() as usize;
        self.used[start..start + Self::units(block.bytes)].fill(false);
        // SAFETY: allocated with these, forgotten by us.
        unsafe {
            if block.retired {
                self.arena.free_retired(block.r, block.bytes, block.kind);
            } else {
                self.arena.free(block.r, block.bytes, block.kind);
            }
        }
    }

    fn shrink(&mut self, index: usize, bytes: usize) {
        let block = &mut self.blocks[index];
        if block.retired || bytes > block.bytes {
            return;
        }
        let kind = Kind((block.kind.0 + 1) % 16);
        let start = block.r.get() as usize;
        self.used[start + Self::units(bytes)..start + Self::units(block.bytes)].fill(false);
        // SAFETY: live, with these bytes and kind; the tail is not used any more.
        unsafe {
            self.arena
                .shrink(block.r, (block.bytes, block.kind), (bytes, kind))
        };
        block.bytes = bytes;
        block.kind = kind;
        let block = *block;
        self.intact(&block);
    }

    fn retire(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        if !block.retired {
            block.retired = true;
            self.arena.retire(block.bytes, block.kind);
        }
    }

    fn check(&self) {
        self.arena.verify().unwrap();
        let m = self.arena.memory();
        let sum = |retired| -> usize {
            let blocks = self.blocks.iter().filter(|b| b.retired == retired);
            blocks.map(|b| Self::units(b.bytes) * UNIT).sum()
        };
        assert_eq!((m.live, m.retired), (sum(false), sum(true)));
        assert_eq!(m.live + m.retired + m.free + m.header, m.frontier);
        assert_eq!(
            m.kinds.iter().map(|k| k.count).sum::<usize>(),
            self.blocks.iter().filter(|b| !b.retired).count()
        );
        for b in &self.blocks {
            assert_eq!(self.arena.area_of(b.r), b.area);
        }
    }

    fn size(&mut self) -> usize {
        match self.random.below(20) {
            // Miri takes its time for every byte.
            _ if cfg!(miri) => 8 + self.random.below(100) as usize,
            0..=14 => 8 + self.random.below(80) as usize,
            15..=17 => 8 + self.random.below(1200) as usize,
            18 => 8 + self.random.below(9_000) as usize,
            _ => 8 + self.random.below(300_000) as usize,
        }
    }

    fn step(&mut self, target: usize) {
        let grow = self.blocks.len() < target;
        match self.random.below(10) {
            0 if !self.blocks.is_empty() => {
                let i = self.random.below(self.blocks.len() as u64) as usize;
                if self.random.below(2) == 0 {
                    let bytes = 1 + self.random.below(self.blocks[i].bytes as u64) as usize;
                    self.shrink(i, bytes);
                } else {
                    self.retire(i);
                }
            }
            x if x < if grow { 7 } else { 3 } => {
                let bytes = self.size();
                let area = Area::ALL[self.random.below(2) as usize];
                self.alloc(bytes, area).unwrap();
            }
            _ if !self.blocks.is_empty() => {
                let i = self.random.below(self.blocks.len() as u64) as usize;
                self.free(i);
            }
            _ => {}
        }
    }
}

fn options(seed: u64) -> ArenaOptions {
    let options = ArenaOptions::default();
    match seed % 4 {
        0 => options,
        1 => options.backing(Backing::Heap).chunk(4096),
        2 => options.debug(DebugMode::Poison),
        _ => options
            .backing(Backing::Mmap { reserve: 1 << 30 })
            .header(HeaderMode::Page),
    }
}

#[test]
fn agrees_with_the_model() {
    for seed in 0..SEEDS {
        let mut c = Checked::new(Arena::new(options(seed)), seed);
        for step in 0..STEPS {
            let target = if step / 500 % 2 == 0 { 300 } else { 20 };
            c.step(target);
            if cfg!(not(miri)) && step < 200 || step % 16 == 0 {
                c.check();
            }
            if step % 97 == 0 {
                c.arena.release_free(100);
            }
        }
        while !c.blocks.is_empty() {
            c.free(0);
        }
        c.check();
        let m = c.arena.memory();
        assert_eq!(
            m.frontier, m.header,
            "seed {seed}: all is free, so the frontier falls to the header"
        );
    }
}

#[test]
fn agrees_with_the_model_while_evacuating() {
    for seed in 0..SEEDS {
        let mut c = Checked::new(Arena::new(options(seed)), 1000 + seed);
        let (rounds, moves, between) = if cfg!(miri) { (2, 15, 1) } else { (8, 150, 5) };
        for round in 0..rounds {
            for _ in 0..STEPS / 8 + 20 {
                c.step(250);
            }
            let area = Area::ALL[round % 2];
            assert!(c.arena.begin_evacuation(area));
            assert!(!c.arena.begin_evacuation(area));
            c.check();
            let limit = c.arena.memory().frontier;
            // Move most blocks, other work in between.
            for _ in 0..moves {
                let old = (0..c.blocks.len())
                    .find(|&i| c.arena.should_move(c.blocks[i].r) && c.blocks[i].area == area);
                if let Some(i) = old {
                    let bytes = c.blocks[i].bytes;
                    let new = c.alloc(bytes, area).unwrap();
                    assert!(
                        new.r.byte_offset() >= limit,
                        "new blocks come from fresh memory"
                    );
                    c.retire(i);
                    if c.random.below(3) > 0 {
                        c.free(i);
                    }
                }
                c.step(250);
            }
            c.check();
            loop {
                let budget = 1 + c.random.below(limit as u64 / UNIT as u64 / 6) as u32;
                let done = c.arena.evacuation_step(area, budget).done;
                for _ in 0..between {
                    c.step(250);
                }
                c.check();
                if done {
                    break;
                }
            }
            assert!(!c.arena.is_evacuating(area));
        }
        while !c.blocks.is_empty() {
            c.free(0);
        }
        c.check();
    }
}

#[test]
fn evacuation_empties_the_old_memory() {
    let mut arena = Arena::new(ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 }));
    let n = if cfg!(miri) { 300 } else { 50_000 };
    let mut refs: Vec<Ref> = (0..n)
        .map(|_| arena.alloc(40, Kind(0), Area::Nodes).unwrap())
        .collect();
    for i in (0..n).filter(|i| i % 4 != 0) {
        // SAFETY: allocated above, known only here.
        unsafe { arena.free(refs[i], 40, Kind(0)) };
    }
    refs = refs.into_iter().step_by(4).collect();
    let before = arena.memory();
    assert!(before.areas[0].free * 3 > before.frontier * 2);
    assert!(arena.begin_evacuation(Area::Nodes));
    for r in &mut refs {
        let new = arena.alloc(40, Kind(0), Area::Nodes).unwrap();
        // SAFETY: the old block is known only here.
        unsafe { arena.free(*r, 40, Kind(0)) };
        *r = new;
    }
    let step = arena.finish_evacuation(Area::Nodes);
    arena.verify().unwrap();
    assert!(step.done && step.reclaimed > 0);
    if !cfg!(miri) {
        assert!(
            step.released * 10 > before.frontier * 9,
            "{step:?} of {before:?}"
        );
        assert!(arena.memory().committed * 2 < before.committed);
    }
    // What was reclaimed is used before the frontier rises.
    let frontier = arena.memory().frontier;
    for _ in 0..n / 2 {
        arena.alloc(40, Kind(0), Area::Nodes).unwrap();
    }
    arena.verify().unwrap();
    assert_eq!(arena.memory().frontier, frontier);
}

#[test]
fn small_sizes_freed_serve_larger_ones() {
    // A trie node grows by a cell at a time: each size is freed in favour of the next.
    let n = if cfg!(miri) { 30 } else { 20_000 };
    let mut arena = Arena::new(ArenaOptions::default());
    let mut bytes = 16;
    let mut refs: Vec<Ref> = (0..n)
        .map(|_| arena.alloc(bytes, Kind(0), Area::Nodes).unwrap())
        .collect();
    while bytes < 128 {
        let next = bytes + 8;
        for r in &mut refs {
            let new = arena.alloc(next, Kind(0), Area::Nodes).unwrap();
            // SAFETY: known only here.
            unsafe { arena.free(*r, bytes, Kind(0)) };
            *r = new;
        }
        bytes = next;
        arena.verify().unwrap();
        let m = arena.memory();
        assert!(
            m.frontier < m.live * 23 / 10 + 2048,
            "at {bytes}: {} for {}",
            m.frontier,
            m.live
        );
    }
    // All of it freed must serve one large block.
    for r in refs {
        // SAFETY: known only here.
        unsafe { arena.free(r, bytes, Kind(0)) };
    }
    arena.verify().unwrap();
    let total = n * 128;
    arena.alloc(total, Kind(0), Area::Nodes).unwrap();
    assert!(arena.memory().frontier < total + total / 8 + 2048);
}

#[test]
fn a_tiny_arena_is_tiny() {
    let mut arena = Arena::new(ArenaOptions::default());
    assert_eq!(arena.memory().committed, 0);
    for _ in 0..3 {
        arena.ensure(200).unwrap();
        arena.alloc(40, Kind(0), Area::Nodes).unwrap();
        arena.alloc(30, Kind(1), Area::Leaves).unwrap();
    }
    let m = arena.memory();
    assert!(m.committed <= 1024, "{m:?}");
    assert!(m.overhead <= 1700, "{m:?}");
}

#[test]
fn blocks_seldom_straddle_lines() {
    let n = if cfg!(miri) { 300 } else { 100_000 };
    let mut arena = Arena::new(ArenaOptions::default());
    let mut random = Random(9);
    let mut straddling = 0;
    for _ in 0..n {
        let units = 2 + random.below(6) as u32;
        let r = arena
            .alloc(units as usize * UNIT, Kind(0), Area::Nodes)
            .unwrap();
        straddling += usize::from(r.get() % 8 + units > 8);
    }
    let m = arena.memory();
    if !cfg!(miri) {
        assert!(m.free * 16 < m.frontier, "padding costs little: {m:?}");
        // Unaligned, (units - 1) / 8 of them would: 44 %.
        assert!(straddling * 4 < n, "{straddling} of {n}");
    }
}

#[test]
fn full_leaves_everything_as_it_was() {
    for backing in [
        Backing::Auto,
        Backing::HeapFixed(64 << 10),
        Backing::Mmap { reserve: 1 << 20 },
    ] {
        let mut c = Checked::new(
            Arena::new(ArenaOptions::default().backing(backing).limit(64 << 10)),
            5,
        );
        let mut failed = 0;
        while failed < if cfg!(miri) { 10 } else { 200 } {
            let bytes = c.size().min(3000) * if cfg!(miri) { 40 } else { 1 };
            let area = Area::ALL[c.random.below(2) as usize];
            let before = c.arena.memory();
            match c.alloc(bytes, area) {
                Ok(_) => {}
                Err(full) => {
                    assert_eq!((full.requested, full.limit), (bytes, 64 << 10));
                    let after = c.arena.memory();
                    assert_eq!(
                        (before.live, before.free, before.frontier),
                        (after.live, after.free, after.frontier)
                    );
                    failed += 1;
                    if failed % 5 == 0 {
                        let i = c.random.below(c.blocks.len() as u64) as usize;
                        c.free(i);
                    }
                }
            }
            assert!(c.arena.memory().frontier <= 64 << 10);
        }
        c.check();
        assert!(c.arena.memory().live > if cfg!(miri) { 30 << 10 } else { 56 << 10 });
        assert!(c.arena.alloc(usize::MAX, Kind(0), Area::Nodes).is_err());
        assert!(c.arena.ensure(usize::MAX).is_err());
        c.check();
    }
}

#[test]
fn what_is_promised_succeeds() {
    for seed in 0..SEEDS {
        let limit = (20 + 30 * seed as usize) << 10;
        let debug = if seed % 3 == 2 {
            DebugMode::Poison
        } else {
            DebugMode::Off
        };
        let mut c = Checked::new(
            Arena::new(ArenaOptions::default().limit(limit).debug(debug)),
            seed,
        );
        let (mut refused, mut kept) = (0, 0);
        for _ in 0..STEPS {
            let mut left = 8 + c.random.below(if cfg!(miri) { 600 } else { 6000 }) as usize;
            if c.arena.ensure(left).is_ok() {
                kept += 1;
                while left >= 8 {
                    let bytes =
                        (1 + c.random.below(if kept % 2 == 0 { 10 } else { 256 }) as usize) * UNIT;
                    let bytes = bytes.min(left / UNIT * UNIT);
                    left -= bytes;
                    let area = Area::ALL[c.random.below(2) as usize];
                    c.alloc(bytes, area).expect("promised");
                }
            } else {
                refused += 1;
                let n = c.random.below(c.blocks.len() as u64 + 1);
                for _ in 0..n {
                    let i = c.random.below(c.blocks.len() as u64) as usize;
                    c.free(i);
                }
            }
        }
        c.check();
        assert!(
            kept > 0 && (refused > 0 || cfg!(miri)),
            "kept {kept} refused {refused}"
        );
    }
}
