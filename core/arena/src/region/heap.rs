//! Memory from the global allocator, which is portable and which Miri can check.

use super::{ArenaFull, Region};
use crate::reference::MAX_BYTES;
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;

const ALIGN: usize = 64;

/// Memory from the global allocator.
///
/// Growing copies everything to a larger allocation, so it suits small arenas, and machines without
/// `mmap`. [`HeapRegion::fixed`] does not move.
///
/// ```
/// use sapwood_arena::{HeapRegion, Region};
/// let mut region = HeapRegion::new(1 << 20);
/// assert_eq!(region.len(), 0);
/// region.grow(1000).unwrap();
/// assert!(region.len() >= 1000 && !region.is_stable());
/// assert!(region.grow(2 << 20).is_err());
/// ```
#[derive(Debug)]
pub struct HeapRegion {
    base: NonNull<u8>,
    /// The allocation and its layout. The base is aligned within it.
    block: Option<(NonNull<u8>, Layout)>,
    len: usize,
    capacity: usize,
    stable: bool,
}

// SAFETY: the region owns its allocation, and hands out only its address.
unsafe impl Send for HeapRegion {}
// SAFETY: `&HeapRegion` gives only numbers and the address.
unsafe impl Sync for HeapRegion {}

fn dangling() -> NonNull<u8> {
    let p = core::ptr::without_provenance_mut::<u8>(ALIGN);
    NonNull::new(p).unwrap_or(NonNull::dangling())
}

impl HeapRegion {
    /// An empty region that allocates nothing until it grows, and grows to at most `capacity`
    /// bytes.
    pub fn new(capacity: usize) -> HeapRegion {
        HeapRegion {
            base: dangling(),
            block: None,
            len: 0,
            capacity: capacity.min(MAX_BYTES),
            stable: false,
        }
    }

    /// A region of exactly `capacity` bytes that does not move, allocated at once.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the allocator refuses.
    ///
    /// ```
    /// use sapwood_arena::{HeapRegion, Region};
    /// let region = HeapRegion::fixed(1 << 16).unwrap();
    /// assert!(region.is_stable() && region.len() == 1 << 16);
    /// ```
    pub fn fixed(capacity: usize) -> Result<HeapRegion, ArenaFull> {
        let mut region = HeapRegion::new(capacity);
        let full = ArenaFull::new(capacity, region.capacity);
        region.stable = true;
        if capacity > region.capacity {
            return Err(full);
        }
        if capacity > 0 {
            // The layout has an alignment of 16, and the base is aligned by hand, because most
            // allocators give large blocks of zeros for free (calloc) only at their own alignment.
            let size = capacity.checked_add(ALIGN - 1).ok_or(full)?;
            let layout = Layout::from_size_align(size, 16).map_err(|_| full)?;
            // SAFETY: the layout's size is not zero.
            let p = NonNull::new(unsafe { alloc_zeroed(layout) })
                .ok_or(ArenaFull::no_heap(capacity, region.capacity))?;
            let aligned = p.as_ptr().map_addr(|a| a.next_multiple_of(ALIGN));
            region.base = NonNull::new(aligned).ok_or(full)?;
            region.block = Some((p, layout));
            region.len = capacity;
        }
        Ok(region)
    }
}

// SAFETY: the block is owned, zeroed, aligned to 64 bytes, replaced only in `extend`, which copies
// first; `fixed` starts with `len == capacity`, so that `extend` never replaces it.
unsafe impl Region for HeapRegion {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn extend(&mut self, min_len: usize) -> bool {
        // From 4 KiB on, an eighth more than asked for: all copies together stay linear, and little
        // memory is unused.
        let slack = if self.len < 4096 { 0 } else { self.len / 8 };
        let len = min_len
            .max(self.len.saturating_add(slack))
            .next_multiple_of(ALIGN)
            .min(self.capacity);
        let Ok(layout) = Layout::from_size_align(len, ALIGN) else {
            return false;
        };
        // SAFETY: the layout's size is not zero (`min_len > self.len`).
        let Some(new) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            return false;
        };
        // SAFETY: both are valid for `self.len` bytes, and a fresh allocation overlaps nothing.
        unsafe { core::ptr::copy_nonoverlapping(self.base.as_ptr(), new.as_ptr(), self.len) };
        if let Some((old, layout)) = self.block.take() {
            // SAFETY: allocated with this layout, and nothing refers to it after the copy.
            unsafe { dealloc(old.as_ptr(), layout) };
        }
        self.base = new;
        self.block = Some((new, layout));
        self.len = len;
        true
    }

    fn is_stable(&self) -> bool {
        self.stable
    }
}

impl Drop for HeapRegion {
    fn drop(&mut self) {
        if let Some((p, layout)) = self.block.take() {
            // SAFETY: allocated with this layout, freed once.
            unsafe { dealloc(p.as_ptr(), layout) };
        }
    }
}
