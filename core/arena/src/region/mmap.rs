//! Anonymous pages over a reservation of address space. The base does not move.

use super::places::{self, Place};
use super::{ArenaFull, Lack, PAGE, Region, whole_pages};
use crate::reference::MAX_BYTES;
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

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

    /// Reserves exactly this piece of address space, unless a part of it is taken.
    fn reserve_at(address: *mut u8, len: usize) -> Result<Space, Errno> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = reserve_flags() | MapFlags::FIXED_NOREPLACE;
        // Elsewhere an address is a wish, which the system does not follow when it is taken.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = reserve_flags();
        // SAFETY: the flags do not let the system replace what is there.
        let p =
            unsafe { rustix::mm::mmap_anonymous(address.cast(), len, ProtFlags::empty(), flags)? };
        let base = NonNull::new(p.cast()).ok_or(Errno::NOMEM)?;
        let space = Space { base, len };
        // Kernels before Linux 4.17 do not know the flag, and take the address as a wish.
        match p.cast() == address {
            true => Ok(space),
            false => Err(Errno::EXIST),
        }
    }

    /// Reserves the address space behind this one, up to `len` bytes in all, unless it is taken.
    pub(super) fn lengthen(&mut self, len: usize) -> Result<(), Errno> {
        let more = Space::reserve_at(self.at(self.len).cast(), len - self.len)?;
        // Both are one piece from now on, which is unmapped at once.
        self.len += core::mem::ManuallyDrop::new(more).len;
        Ok(())
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
        self.advise(space, end.next_multiple_of(HUGE), end, len)
    }

    /// As [`will_use`](Self::will_use), but the advice is given when `end` has left a huge page.
    /// Its bytes then come page by page, and the system joins the pages when it finds the time.
    fn will_use_small(&mut self, space: &Space, end: usize, len: usize) -> usize {
        self.advise(space, end / HUGE * HUGE, end, len)
    }

    /// Asks for huge pages up to `to`; returns what the system has to back for `end`.
    fn advise(&mut self, space: &Space, to: usize, end: usize, len: usize) -> usize {
        let pages = end.next_multiple_of(PAGE).min(len);
        if !self.wanted || end < HUGE_FROM {
            return pages;
        }
        if to > self.advised && to <= len {
            space.advise_huge(self.advised..to);
            self.advised = to;
        }
        match end.next_multiple_of(HUGE) {
            huge if huge <= self.advised => huge,
            _ => pages,
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
    /// The most bytes that it may have.
    most: usize,
    usage: Use,
    /// Given back after the space is unmapped.
    _place: Option<Place>,
}

/// The least reservation that is tried when larger ones are refused.
const LEAST: usize = 1 << 20;

/// Where the process's address space is limited (`ulimit -v`), a region leaves this much of it for
/// others: without it the process's heap, whose failures end the program, would be the first to
/// lack addresses.
fn spare() -> usize {
    let limit = getrlimit(Resource::As).current;
    limit.map_or(0, |limit| (limit / 16).min(64 << 20) as usize)
}

/// Reserves address space while as much as [`spare`] says stays free.
fn sparing<T>(reserve: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let spare = match spare() / PAGE * PAGE {
        0 => None,
        bytes => Some(Space::reserve(bytes, PAGE)?),
    };
    let done = reserve();
    drop(spare);
    done
}

impl MmapRegion {
    /// The default size of a reservation: all memory that references can reach.
    pub const DEFAULT_RESERVE: usize = MAX_BYTES;

    /// Reserves `bytes` of address space (at most [`DEFAULT_RESERVE`](Self::DEFAULT_RESERVE)). If
    /// the system refuses as much (because of a limit on address space, say), it tries halves down
    /// to 1 MiB, and asks for the rest when it grows.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if even the smallest is refused.
    pub fn reserve(bytes: usize, huge_pages: bool) -> Result<MmapRegion, ArenaFull> {
        MmapRegion::growing(bytes, bytes, huge_pages)
    }

    /// Reserves `bytes` of address space as [`reserve`](Self::reserve) does, and grows where it
    /// lies to at most `most` bytes.
    ///
    /// Regions that may grow lie far from each other, so that the addresses behind each stay free:
    /// the first 8,192 of a process are 8 GiB apart. Where the process's address space is limited
    /// (`ulimit -v`), a region that may grow begins with a 256th of the limit at most. A process
    /// with more than 8,192 such regions holds for each later one only what it uses.
    ///
    /// ```
    /// use sapwood_arena::{MmapRegion, Region};
    /// let mut region = MmapRegion::growing(1 << 20, 1 << 30, true).unwrap();
    /// let base = region.base();
    /// region.grow(100 << 20).unwrap();
    /// assert_eq!(region.base(), base);
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve). Growing fails with [`Lack::Beside`] when another mapping lies
    /// behind the region.
    pub fn growing(bytes: usize, most: usize, huge_pages: bool) -> Result<MmapRegion, ArenaFull> {
        let page = PAGE.max(rustix::param::page_size());
        let whole = |bytes: usize| {
            bytes
                .clamp(PAGE, Self::DEFAULT_RESERVE)
                .next_multiple_of(page)
        };
        let most = whole(most.max(bytes));
        let mut want = whole(bytes);
        let place = if want < most { Place::take() } else { None };
        if want < most {
            let few = getrlimit(Resource::As).current.map_or(want, |limit| {
                whole(usize::try_from(limit / 256).unwrap_or(usize::MAX))
            });
            want = want.min(few.max(LEAST));
            if places::are_many() {
                want = want.min(FIRST);
            }
        }
        loop {
            match sparing(|| begin(want, place.as_ref())) {
                Ok(space) => {
                    return Ok(MmapRegion {
                        space,
                        len: 0,
                        most,
                        usage: Use {
                            wanted: huge_pages,
                            advised: 0,
                        },
                        _place: place,
                    });
                }
                Err(_) if want > LEAST => want = whole(want / 2).max(LEAST),
                Err(_) => return Err(ArenaFull::lacks(Lack::AddressSpace, bytes, most)),
            }
        }
    }

    /// Grows to at least `min_len` bytes.
    fn lengthen(&mut self, min_len: usize) -> Result<(), Lack> {
        let mut len = if min_len <= SMALL {
            min_len.next_power_of_two().max(FIRST)
        } else {
            next_len(self.len, min_len, self.most)
        };
        len = len
            .next_multiple_of(rustix::param::page_size())
            .min(self.most);
        if len > self.space.len {
            let twice = match places::are_many() {
                true => len,
                false => self.space.len.saturating_mul(2).clamp(len, self.most),
            };
            let page = PAGE.max(rustix::param::page_size());
            let least = min_len.next_multiple_of(page).min(self.most);
            let tries = [twice, len, least];
            let mut refused = Errno::NOMEM;
            let longer = tries.into_iter().any(|want| {
                let space = &mut self.space;
                let done = match want > space.len {
                    true => sparing(|| space.lengthen(want)),
                    false => Ok(()),
                };
                refused = done.err().unwrap_or(refused);
                done.is_ok()
            });
            match longer {
                true => len = len.min(self.space.len),
                false if refused == Errno::EXIST => return Err(Lack::Beside),
                false => return Err(Lack::AddressSpace),
            }
        }
        self.space
            .set_access(self.len..len, true)
            .map_err(|_| Lack::Memory)?;
        self.len = len;
        Ok(())
    }
}

/// Reserves the first piece of a region: at its place, or wherever the system has room.
fn begin(len: usize, place: Option<&Place>) -> Result<Space, Errno> {
    let align = if len >= HUGE { HUGE } else { PAGE };
    if let Some(place) = place {
        let address = core::ptr::without_provenance_mut(place.address());
        if let Ok(space) = Space::reserve_at(address, len) {
            return Ok(space);
        }
    }
    Space::reserve(len, align)
}

/// The least length of a region that is in use. Smaller than a huge page: systems that give huge
/// pages unasked would give one to each small region.
const FIRST: usize = 64 << 10;
/// Regions double up to this length.
const SMALL: usize = 1 << 20;

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
        self.most
    }

    fn extend(&mut self, min_len: usize) -> bool {
        self.lengthen(min_len).is_ok()
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        if min_len <= self.len {
            return Ok(());
        }
        if min_len > self.most {
            return Err(ArenaFull::new(min_len, self.most));
        }
        let (reserved, most) = (self.space.len, self.most);
        self.lengthen(min_len).map_err(|lack| match lack {
            Lack::Beside => ArenaFull::lacks(lack, min_len, reserved),
            lack => ArenaFull::lacks(lack, min_len, most),
        })
    }

    fn is_stable(&self) -> bool {
        true
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

    fn will_use_small(&mut self, end: usize) -> usize {
        self.usage.will_use_small(&self.space, end, self.len)
    }

    fn reserved(&self) -> usize {
        self.space.len
    }
}
