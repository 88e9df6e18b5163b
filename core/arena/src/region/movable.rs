//! Anonymous pages that move when they outgrow their address space.

use super::mmap::{HUGE, Space, Use, next_len};
use super::{ArenaFull, Lack, PAGE, Region};
use crate::reference::MAX_BYTES;
use core::ops::Range;
use core::ptr::NonNull;
use rustix::io::Errno;

/// Anonymous pages whose base may move when they grow; no large reservation is held.
///
/// The region keeps address space of twice its length, so that it grows in place mostly. When that
/// is used up, the pages move: on Linux by `mremap`, whole page tables at a time; on other systems
/// they are copied.
///
/// ```
/// use sapwood_arena::{MovableMmap, Region};
/// let mut region = MovableMmap::new(1 << 30, true);
/// assert_eq!(region.reserved(), 0);
/// region.grow(1 << 20).unwrap();
/// // SAFETY: a byte of the region, which nothing else uses.
/// unsafe { region.base().as_ptr().add(77).write(5) };
/// region.grow(40 << 20).unwrap();
/// // SAFETY: as above.
/// assert_eq!(unsafe { region.base().as_ptr().add(77).read() }, 5);
/// ```
#[derive(Debug)]
pub struct MovableMmap {
    space: Space,
    len: usize,
    capacity: usize,
    usage: Use,
}

impl MovableMmap {
    /// An empty region that maps nothing until it grows, and grows to at most `capacity` bytes.
    pub fn new(capacity: usize, huge_pages: bool) -> MovableMmap {
        let base =
            NonNull::new(core::ptr::without_provenance_mut(PAGE)).unwrap_or(NonNull::dangling());
        MovableMmap {
            space: Space { base, len: 0 },
            len: 0,
            capacity: capacity.min(MAX_BYTES) / PAGE * PAGE,
            usage: Use {
                wanted: huge_pages,
                advised: 0,
            },
        }
    }

    /// Copies a part to a new place.
    fn copy_part(&self, new: &Space, part: Range<usize>) -> Result<(), Errno> {
        if part.is_empty() {
            return Ok(());
        }
        new.set_access(part.clone(), true)?;
        // SAFETY: both are valid for the part; a fresh mapping overlaps nothing.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.space.at(part.start).cast::<u8>().cast_const(),
                new.at(part.start).cast::<u8>(),
                part.len(),
            );
        }
        Ok(())
    }

    /// Moves pages from the start of the space to a new place, and returns how many bytes it moved:
    /// all of them where the system can do it, none where it cannot.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn move_mappings(&self, new: &Space) -> usize {
        use rustix::mm::{MremapFlags, mremap_fixed};
        // Advice splits the mapping in two, and mremap moves one mapping at a time.
        let cut = self.usage.advised.min(self.len);
        let mut moved = 0;
        for part in [0..cut, cut..self.len] {
            if part.is_empty() {
                continue;
            }
            let (from, to) = (self.space.at(part.start), new.at(part.start));
            // SAFETY: both ranges are ours; the target is reserved and untouched; the source is not
            // used again, except by `move_back`.
            let result =
                unsafe { mremap_fixed(from, part.len(), part.len(), MremapFlags::MAYMOVE, to) };
            if result.is_err() {
                break;
            }
            moved = part.end;
        }
        moved
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn move_mappings(&self, _: &Space) -> usize {
        0
    }

    /// Returns the first `cut` bytes from `new` to where they were.
    fn move_back(&self, new: &Space, cut: usize) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::mm::{MremapFlags, mremap_fixed};
            let flags = MremapFlags::MAYMOVE;
            // SAFETY: the source is ours; the target is the hole that these bytes left a moment
            // ago.
            let back = unsafe { mremap_fixed(new.at(0), cut, cut, flags, self.space.at(0)) };
            assert!(
                back.is_ok(),
                "half of a mapping was moved and cannot be moved back"
            );
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = (new, cut);
    }

    /// Grows to at least `min_len` bytes: in place, or in a new place with room for twice as much,
    /// or, where addresses are few, with as little more as there is.
    fn lengthen(&mut self, min_len: usize) -> Result<(), Lack> {
        let mut len = next_len(self.len, min_len, self.capacity);
        if len > self.space.len {
            let page = PAGE.max(rustix::param::page_size());
            let least = min_len.next_multiple_of(page);
            let twice = len.saturating_mul(2).next_multiple_of(HUGE);
            let longer = self.move_to(twice).is_ok()
                || (self.len > 0
                    && (least <= self.space.len || self.space.lengthen(least).is_ok()))
                || self.move_to(least).is_ok();
            if !longer {
                return Err(Lack::AddressSpace);
            }
            len = len.min(self.space.len);
        }
        self.space
            .set_access(self.len..len, true)
            .map_err(|_| Lack::Memory)?;
        self.len = len;
        Ok(())
    }

    /// Moves everything into a new place of `room` bytes.
    fn move_to(&mut self, room: usize) -> Result<(), Errno> {
        // Aligned to huge pages on both sides, so that the kernel moves page tables, not entries.
        let new = Space::reserve(room, HUGE)?;
        let moved = self.move_mappings(&new);
        if let Err(error) = self.copy_part(&new, moved..self.len) {
            if moved > 0 {
                self.move_back(&new, moved);
            }
            // The old place of the moved part is a hole again, which another thread may have
            // filled.
            let new = core::mem::ManuallyDrop::new(new);
            // SAFETY: the rest of the new reservation, which nothing uses.
            unsafe {
                let _ = rustix::mm::munmap(new.at(moved), new.len - moved);
            }
            return Err(error);
        }
        // Dropping the old space unmaps its whole range. The moved parts are holes by now, and
        // another thread may already have mapped something there, so only what was not moved may be
        // unmapped.
        let old = core::mem::replace(&mut self.space, new);
        let old = core::mem::ManuallyDrop::new(old);
        if old.len > moved {
            // SAFETY: the tail of the old reservation, which is still ours.
            unsafe {
                let _ = rustix::mm::munmap(old.at(moved), old.len - moved);
            }
        }
        Ok(())
    }
}

// SAFETY: the region owns the space, which is page aligned, and `len` of it is readable and
// writable; it moves only in `extend`, with its contents.
unsafe impl Region for MovableMmap {
    fn base(&self) -> NonNull<u8> {
        self.space.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn extend(&mut self, min_len: usize) -> bool {
        self.lengthen(min_len).is_ok()
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        if min_len <= self.len {
            return Ok(());
        }
        if min_len > self.capacity {
            return Err(ArenaFull::new(min_len, self.capacity));
        }
        let capacity = self.capacity;
        self.lengthen(min_len)
            .map_err(|lack| ArenaFull::lacks(lack, min_len, capacity))
    }

    fn is_stable(&self) -> bool {
        false
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        self.space.give_back(range)
    }

    fn releases_to_zeros(&self) -> bool {
        cfg!(any(target_os = "linux", target_os = "android"))
    }

    fn protect(&mut self, range: Range<usize>, forbid: bool) -> bool {
        self.space.protect(range, forbid)
    }

    fn will_use(&mut self, end: usize) -> usize {
        self.usage.will_use(&self.space, end, self.len)
    }

    fn reserved(&self) -> usize {
        self.space.len
    }
}
