//! Anonymous pages over a reservation of address space. The base does not move.

use super::{ArenaFull, PAGE, Region, whole_pages};
use crate::reference::MAX_BYTES;
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

/// Size and alignment of a huge page, on systems that have them.
pub(super) const HUGE: usize = 2 << 20;

/// The length from which on regions ask for huge pages. Only one byte of the last one may be in
/// use, so in smaller regions a huge page could cost more than an eighth of the memory.
const HUGE_FROM: usize = 16 << 20;

/// An owned piece of address space.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) base: NonNull<u8>,
    pub(crate) len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Space {}
// SAFETY: `&Space` gives only numbers.
unsafe impl Sync for Space {}

fn reserve_flags() -> MapFlags {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return MapFlags::PRIVATE | MapFlags::NORESERVE;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return MapFlags::PRIVATE;
}

impl Space {
    /// Reserves address space of `len` bytes (whole pages), aligned to `align`, which cannot be
    /// accessed yet.
    pub(super) fn reserve(len: usize, align: usize) -> Result<Space, Errno> {
        let extra = if align > PAGE { align } else { 0 };
        let total = len.checked_add(extra).ok_or(Errno::NOMEM)?;
        // SAFETY: a fresh mapping at an address of the system's choice disturbs nothing.
        let p = unsafe {
            rustix::mm::mmap_anonymous(null_mut(), total, ProtFlags::empty(), reserve_flags())?
        };
        let p = p.cast::<u8>();
        let lead = if extra == 0 {
            0
        } else {
            p.map_addr(|a| a.next_multiple_of(align)).addr() - p.addr()
        };
        // SAFETY: `lead <= extra`, inside the mapping; what is unmapped before and after was never
        // used.
        unsafe {
            if lead > 0 {
                let _ = rustix::mm::munmap(p.cast(), lead);
            }
            if extra > lead {
                let _ = rustix::mm::munmap(p.add(lead + len).cast(), extra - lead);
            }
            Ok(Space {
                base: NonNull::new(p.add(lead)).ok_or(Errno::NOMEM)?,
                len,
            })
        }
    }

    pub(super) fn at(&self, offset: usize) -> *mut c_void {
        debug_assert!(offset <= self.len);
        // SAFETY: all callers stay within the reservation.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }

    /// Allows or forbids the use of whole pages.
    pub(super) fn set_access(&self, range: Range<usize>, allow: bool) -> Result<(), Errno> {
        let flags = if allow {
            MprotectFlags::READ | MprotectFlags::WRITE
        } else {
            MprotectFlags::empty()
        };
        debug_assert!(range.end <= self.len);
        // SAFETY: the range lies in our own mapping.
        unsafe { rustix::mm::mprotect(self.at(range.start), range.len(), flags) }
    }

    /// [`Region::protect`].
    pub(super) fn protect(&self, range: Range<usize>, forbid: bool) -> bool {
        whole_pages(range).is_some_and(|pages| self.set_access(pages, !forbid).is_ok())
    }

    /// [`Region::release`] of anonymous pages, which read as zero afterwards.
    pub(super) fn give_back(&self, range: Range<usize>) -> bool {
        let Some(range) = whole_pages(range) else {
            return false;
        };
        debug_assert!(range.end <= self.len);
        // SAFETY: the range lies in our own anonymous mapping, and the caller of `release` does not
        // need its contents.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let done = unsafe {
            rustix::mm::madvise(
                self.at(range.start),
                range.len(),
                rustix::mm::Advice::LinuxDontNeed,
            )
            .is_ok()
        };
        // SAFETY: as above. On other systems DONTNEED may keep the pages, so fresh ones are mapped
        // over them.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let done = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            rustix::mm::mmap_anonymous(self.at(range.start), range.len(), access, flags).is_ok()
        };
        done
    }

    /// Asks for huge pages in `range`.
    pub(super) fn advise_huge(&self, range: Range<usize>) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the range lies in our own mapping; the advice changes no contents.
        unsafe {
            let _ = rustix::mm::madvise(
                self.at(range.start),
                range.len(),
                rustix::mm::Advice::LinuxHugepage,
            );
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = range;
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: our own mapping, unmapped once.
            unsafe {
                let _ = rustix::mm::munmap(self.base.as_ptr().cast(), self.len);
            }
        }
    }
}

/// How far huge pages have been asked for, and how many bytes the system has to back.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) wanted: bool,
    /// Multiple of [`HUGE`].
    pub(super) advised: usize,
}

impl Use {
    /// Notes that memory below `end` is about to be written. The advice is given for one huge page
    /// at a time, when `end` enters it, so that only the last huge page is partly used.
    pub(super) fn will_use(&mut self, space: &Space, end: usize, len: usize) -> usize {
        let pages = end.next_multiple_of(PAGE).min(len);
        if !self.wanted || end < HUGE_FROM {
            return pages;
        }
        let target = end.next_multiple_of(HUGE);
        if target > self.advised && target <= len {
            space.advise_huge(self.advised..target);
            self.advised = target;
        }
        if target <= self.advised {
            target
        } else {
            pages
        }
    }
}

/// Anonymous pages over reserved address space. The base does not move, so readers on other threads
/// may keep it.
///
/// `len` grows in large steps, because a page costs nothing before it is touched.
/// [`Region::will_use`] returns how many bytes the system has to back.
///
/// ```
/// use sapwood_arena::{MmapRegion, Region};
/// let mut region = MmapRegion::reserve(1 << 30, true).unwrap();
/// let base = region.base();
/// region.grow(100 << 20).unwrap();
/// assert_eq!(region.base(), base);
/// ```
#[derive(Debug)]
pub struct MmapRegion {
    space: Space,
    len: usize,
    usage: Use,
}

impl MmapRegion {
    /// The default size of a reservation: all memory that references can reach.
    pub const DEFAULT_RESERVE: usize = MAX_BYTES;

    /// Reserves `bytes` of address space (at most [`DEFAULT_RESERVE`](Self::DEFAULT_RESERVE)). If
    /// the system refuses as much (because of a limit on address space, say), it tries halves down
    /// to 1 MiB.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if even the smallest is refused.
    pub fn reserve(bytes: usize, huge_pages: bool) -> Result<MmapRegion, ArenaFull> {
        let mut want = bytes
            .clamp(PAGE, Self::DEFAULT_RESERVE)
            .next_multiple_of(PAGE.max(rustix::param::page_size()));
        loop {
            let align = if want >= HUGE { HUGE } else { PAGE };
            match Space::reserve(want, align) {
                Ok(space) => {
                    return Ok(MmapRegion {
                        space,
                        len: 0,
                        usage: Use {
                            wanted: huge_pages,
                            advised: 0,
                        },
                    });
                }
                Err(_) if want > 1 << 20 => want = (want / 2).next_multiple_of(HUGE),
                Err(_) => {
                    return Err(ArenaFull::new(bytes, 0));
                }
            }
        }
    }
}

/// The next length of a region of pages: a sixteenth more, so that there are few calls, in whole
/// system pages.
pub(super) fn next_len(len: usize, min_len: usize, capacity: usize) -> usize {
    let step = (len / 16).max(1 << 20);
    let page = rustix::param::page_size();
    min_len
        .max(len.saturating_add(step))
        .next_multiple_of(HUGE.max(page))
        .min(capacity)
}

// SAFETY: the region owns the space, which is page aligned, and `len` of it is readable and
// writable; the base does not change.
unsafe impl Region for MmapRegion {
    fn base(&self) -> NonNull<u8> {
        self.space.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.space.len
    }

    fn extend(&mut self, min_len: usize) -> bool {
        let len = next_len(self.len, min_len, self.space.len);
        let grown = self.space.set_access(self.len..len, true).is_ok();
        if grown {
            self.len = len;
        }
        grown
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        self.space.give_back(range)
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
