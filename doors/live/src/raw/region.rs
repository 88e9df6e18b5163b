//! The memory of a part of a live map, which grows no further than its readers have mapped.

use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use sapwood_arena::{ArenaFull, FileRegion, Lack, Region};

use crate::control::Control;
use crate::slots::Readers;

/// How long growth waits for readers. One that says `quiescent` in a loop needs far less; after one
/// that stands still was waited for, growth is refused at once until it has passed.
const WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(200);

/// A part's file. The bytes behind `allowed` are there, but readers may not have mapped them yet,
/// so nothing may refer to them.
#[derive(Debug)]
pub(crate) struct Part {
    file: FileRegion,
    allowed: usize,
    gate: Gate,
}

/// What growth waits for.
#[derive(Debug)]
struct Gate {
    control: Arc<Control>,
    readers: Arc<Readers>,
    /// The number of the data.
    number: u64,
    part: usize,
    /// Whether growth was refused the last time.
    refused: bool,
}

impl Part {
    /// Makes the file of a part.
    pub(crate) fn create(
        path: &Path,
        most: usize,
        (number, part): (u64, usize),
        (control, readers): (&Arc<Control>, &Arc<Readers>),
    ) -> std::io::Result<Part> {
        Ok(Part {
            file: FileRegion::create_at_most(path, most)?,
            allowed: 0,
            gate: Gate {
                control: Arc::clone(control),
                readers: Arc::clone(readers),
                number,
                part,
                refused: false,
            },
        })
    }
}

impl Gate {
    /// Tells readers that the part has this many bytes, and waits for those who have mapped fewer.
    /// Returns whether all have passed.
    fn opens(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        self.control.set_bytes(self.number, self.part, bytes);
        if self.control.state().number() != self.number {
            // They are not the present data yet, and readers who move there map as many.
            return true;
        }
        // Either a reader sees the new state when it looks for it, after its announcement and what
        // it says of its mapping, or this process sees both.
        fence(Ordering::SeqCst);
        let (part, readers) = (self.part, &self.readers);
        let period = readers.begin();
        let until = Instant::now() + if self.refused { Duration::ZERO } else { WAIT };
        loop {
            if readers.have_mapped(part, bytes, period) {
                self.refused = false;
                return true;
            }
            if Instant::now() >= until {
                self.refused = true;
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

// SAFETY: the file's region keeps the trait's promises, and this one has a part of its bytes, never
// fewer than before.
unsafe impl Region for Part {
    fn base(&self) -> NonNull<u8> {
        self.file.base()
    }

    fn len(&self) -> usize {
        self.allowed
    }

    fn capacity(&self) -> usize {
        self.file.capacity()
    }

    fn extend(&mut self, min_len: usize) -> bool {
        self.grow(min_len).is_ok()
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        if min_len <= self.allowed {
            return Ok(());
        }
        self.file.grow(min_len)?;
        let len = self.file.len();
        if !self.gate.opens(len) {
            let more = min_len - self.allowed;
            return Err(ArenaFull::lacks(Lack::Readers, more, self.capacity()));
        }
        self.allowed = len;
        Ok(())
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        self.file.release(range)
    }

    fn protect(&mut self, range: Range<usize>, forbid: bool) -> bool {
        self.file.protect(range, forbid)
    }

    fn will_use(&mut self, end: usize) -> usize {
        let _ = end;
        self.allowed
    }

    fn reserved(&self) -> usize {
        self.file.reserved()
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.file.sync()
    }
}
