//! The default region of owned maps: a heap while small, movable pages when large.

use super::{ArenaFull, HeapRegion, Region};
use core::ops::Range;
use core::ptr::NonNull;

#[cfg(all(unix, feature = "std", not(miri)))]
use super::MovableMmap;

/// The length from which on the memory is pages of its own.
#[cfg(all(unix, feature = "std", not(miri)))]
const TO_PAGES: usize = 256 << 10;

#[derive(Debug)]
enum Now {
    Heap(HeapRegion),
    #[cfg(all(unix, feature = "std", not(miri)))]
    Pages(MovableMmap),
}

/// A [`HeapRegion`] below 256 KiB, then a [`MovableMmap`]. So a million small maps take little more
/// than they use, and one large map does not copy its memory. Without `mmap`, and under Miri, it
/// stays a heap.
///
/// ```
/// use sapwood_arena::{AutoRegion, Region};
/// let mut region = AutoRegion::new(1 << 30, true);
/// region.grow(100).unwrap();
/// assert!(region.len() < 1024);
/// region.grow(1 << 20).unwrap();
/// assert!(region.len() >= 1 << 20);
/// ```
#[derive(Debug)]
pub struct AutoRegion {
    now: Now,
    #[cfg_attr(not(all(unix, feature = "std", not(miri))), allow(dead_code))]
    huge_pages: bool,
}

impl AutoRegion {
    /// An empty region that allocates nothing until it grows, and grows to at most `capacity`
    /// bytes. With `huge_pages` it asks for huge pages when it is large.
    pub fn new(capacity: usize, huge_pages: bool) -> AutoRegion {
        AutoRegion {
            now: Now::Heap(HeapRegion::new(capacity)),
            huge_pages,
        }
    }

    fn inner(&self) -> &dyn Region {
        match &self.now {
            Now::Heap(r) => r,
            #[cfg(all(unix, feature = "std", not(miri)))]
            Now::Pages(r) => r,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Region {
        match &mut self.now {
            Now::Heap(r) => r,
            #[cfg(all(unix, feature = "std", not(miri)))]
            Now::Pages(r) => r,
        }
    }
}

// SAFETY: one of two regions does everything; the change from the first to the second copies the
// contents.
unsafe impl Region for AutoRegion {
    fn base(&self) -> NonNull<u8> {
        self.inner().base()
    }

    fn len(&self) -> usize {
        self.inner().len()
    }

    fn capacity(&self) -> usize {
        self.inner().capacity()
    }

    fn extend(&mut self, min_len: usize) -> bool {
        self.grow(min_len).is_ok()
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        #[cfg(all(unix, feature = "std", not(miri)))]
        if let Now::Heap(heap) = &self.now {
            if min_len >= TO_PAGES && min_len > heap.len() {
                let mut pages = MovableMmap::new(heap.capacity(), self.huge_pages);
                pages.grow(min_len)?;
                // SAFETY: both are valid for `heap.len() < min_len` bytes and belong to different
                // regions.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        heap.base().as_ptr(),
                        pages.base().as_ptr(),
                        heap.len(),
                    )
                };
                self.now = Now::Pages(pages);
                return Ok(());
            }
        }
        self.inner_mut().grow(min_len)
    }

    fn is_stable(&self) -> bool {
        false
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        self.inner_mut().release(range)
    }

    fn releases_to_zeros(&self) -> bool {
        self.inner().releases_to_zeros()
    }

    fn protect(&mut self, range: Range<usize>, forbid: bool) -> bool {
        self.inner_mut().protect(range, forbid)
    }

    fn will_use(&mut self, end: usize) -> usize {
        self.inner_mut().will_use(end)
    }

    fn reserved(&self) -> usize {
        self.inner().reserved()
    }
}
