//! The blocks that programs retire. Each lane notes them in chunks: a cell for each block, and at
//! the end of a chunk the link to the next one. Only programs that have claimed the lane write
//! there. User space follows the chunks, from where it was to where the lane is, and frees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::Blocks;
use super::owner::lane_at;
use super::rings::Damaged;
use crate::layout::program_map as k;
use crate::raw::arena::Memory;

/// A place in the chunks of a lane: the reference of a chunk, and the number of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u32,
    cell: u32,
}

impl Place {
    fn of(word: u64) -> Place {
        Place {
            chunk: (word >> 32) as u32,
            cell: word as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.chunk) << 32 | u64::from(self.cell)
    }

    /// Whether the chunk is memory that programs have, and the cell lies in it.
    fn is_in(self, blocks: &Blocks) -> bool {
        self.cell < k::CHUNK_UNITS as u32 && blocks.is_given(self.chunk, k::CHUNK_UNITS as u32)
    }
}

/// What a lane has noted and user space has not fetched yet.
#[derive(Default)]
pub(super) struct Noted {
    /// The blocks: first unit, units.
    pub(super) blocks: Vec<(u32, u32)>,
    /// The chunks that are read to their ends.
    pub(super) done: Vec<u32>,
    /// The chunk that the lane goes on with.
    pub(super) last: u32,
}

/// The retired blocks of a lane, as user space sees them.
pub(super) struct Retired {
    memory: Arc<Memory>,
    /// The places of the window and of the lane, in bytes from the arena's beginning.
    window: usize,
    lane: usize,
    head: Place,
}

impl Retired {
    /// Gives a new lane its first chunk.
    pub(super) fn new(memory: &Arc<Memory>, window: usize, lane: usize, chunk: u32) -> Retired {
        let retired = Retired {
            memory: Arc::clone(memory),
            window,
            lane: window + lane_at(lane),
            head: Place { chunk, cell: 0 },
        };
        for at in [k::LANE_HEAD, k::LANE_TAIL] {
            retired
                .word(at)
                .store(retired.head.word(), Ordering::Release);
        }
        retired
    }

    /// Finds where a dead owner was.
    pub(super) fn found(memory: &Arc<Memory>, window: usize, lane: usize) -> Retired {
        let mut retired = Retired {
            memory: Arc::clone(memory),
            window,
            lane: window + lane_at(lane),
            head: Place { chunk: 0, cell: 0 },
        };
        retired.head = Place::of(retired.word(k::LANE_HEAD).load(Ordering::Acquire));
        retired
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.u64(self.lane + at)
    }

    fn tail(&self) -> Place {
        Place::of(self.word(k::LANE_TAIL).load(Ordering::Acquire))
    }

    /// What the lane has noted since, up to a place. `fits` says whether a chunk may be read.
    fn read(&self, to: Place, fits: impl Fn(Place) -> bool) -> Result<Noted, Damaged> {
        let mut noted = Noted::default();
        let mut at = self.head;
        while at != to {
            // A loop of links has no end.
            if !fits(at) || noted.done.len() > self.memory.len() / (k::CHUNK_UNITS * 8) {
                return Err(Damaged);
            }
            let place = self.window + (at.chunk as usize + at.cell as usize) * 8;
            let cell = self.memory.u64(place).load(Ordering::Relaxed);
            let (block, units) = (cell as u32, (cell >> 32) as u32);
            if units == 0 {
                noted.done.push(at.chunk);
                at = Place {
                    chunk: block,
                    cell: 0,
                };
            } else {
                noted.blocks.push((block, units));
                at.cell += 1;
            }
        }
        noted.last = at.chunk;
        match fits(at) {
            true => Ok(noted),
            false => Err(Damaged),
        }
    }

    /// What the lane has noted and was not fetched yet.
    pub(super) fn waiting(&self, blocks: &Blocks) -> Result<Noted, Damaged> {
        self.read(self.tail(), |at| at.is_in(blocks))
    }

    /// The same, while nobody knows which blocks programs have. Chunks lie within these units.
    pub(super) fn waiting_in(&self, first: u32, frontier: u32) -> Result<Noted, Damaged> {
        let units = k::CHUNK_UNITS as u32;
        let inside = |at: Place| {
            at.cell < units
                && at.chunk >= first
                && at
                    .chunk
                    .checked_add(units)
                    .is_some_and(|end| end <= frontier)
        };
        self.read(self.tail(), inside)
    }

    /// Fetches what the lane has noted.
    pub(super) fn fetch(&mut self, blocks: &Blocks) -> Result<Noted, Damaged> {
        let to = self.tail();
        let noted = self.read(to, |at| at.is_in(blocks))?;
        self.head = to;
        self.word(k::LANE_HEAD).store(to.word(), Ordering::Release);
        Ok(noted)
    }
}
