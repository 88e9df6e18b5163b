//! The sources of an arena's memory: one trait, several backings.

use core::ops::Range;
use core::ptr::NonNull;

mod auto;
mod heap;
pub use auto::AutoRegion;
pub use heap::HeapRegion;

#[cfg(all(unix, feature = "std", not(miri)))]
mod file;
#[cfg(all(unix, feature = "std", not(miri)))]
mod mmap;
#[cfg(all(unix, feature = "std", not(miri)))]
mod movable;
#[cfg(all(unix, feature = "std", not(miri)))]
mod places;
#[cfg(all(unix, feature = "std", not(miri)))]
pub(crate) use file::map_for_reading;
#[cfg(all(unix, feature = "std", not(miri)))]
pub use file::{FileMap, FileRegion, allocate};
#[cfg(all(unix, feature = "std", not(miri)))]
pub use mmap::MmapRegion;
#[cfg(all(unix, feature = "std", not(miri)))]
pub(crate) use mmap::Space as Mapping;
#[cfg(all(unix, feature = "std", not(miri)))]
pub use movable::MovableMmap;

/// Bytes of a page, as the allocator counts them. A region whose system has larger pages gives back
/// only whole system pages.
pub const PAGE: usize = 4096;

/// The error of an allocation for which there is no room. Nothing was changed.
///
/// ```
/// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind, Lack};
/// let mut arena = Arena::new(ArenaOptions::default().limit(4096));
/// let full = arena.alloc(10_000, Kind(0), Area::Nodes).unwrap_err();
/// assert_eq!((full.requested, full.limit), (10_000, 4096));
/// assert_eq!(full.lack, Lack::Memory);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaFull {
    /// Bytes that were asked for.
    pub requested: usize,
    /// The most bytes that the arena, or the region under it, may have.
    pub limit: usize,
    /// What is lacking.
    pub lack: Lack,
}

/// What an arena lacks that has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Memory: the arena, or the region under it, has reached its limit, or the system gives none.
    #[default]
    Memory,
    /// Space on the device that has the arena's file: the file system is full, or the user's quota
    /// is used up. There may be room later.
    Space,
    /// A reader in another process: it stands still, and has mapped fewer bytes than the arena
    /// would get.
    Readers,
    /// Addresses: the process has reached its limit of address space (`ulimit -v`), or the most
    /// mappings that the system allows (`vm.max_map_count`). Fewer maps, or maps with smaller
    /// limits of memory, take fewer addresses.
    AddressSpace,
    /// Addresses beside the arena, which must not move: another mapping lies behind its
    /// reservation, of which `limit` is the length. A larger reservation from the start avoids
    /// this; a map reserves its limit of memory.
    Beside,
}

impl core::fmt::Display for ArenaFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ArenaFull {
            requested, limit, ..
        } = self;
        match self.lack {
            Lack::Memory => write!(
                f,
                "the arena is full: {requested} bytes asked, limit {limit} bytes"
            ),
            Lack::Space => write!(f, "no space left on device: {requested} bytes asked"),
            Lack::Readers => write!(
                f,
                "a reader that stands still has not mapped the {requested} bytes that were asked"
            ),
            Lack::AddressSpace => write!(
                f,
                "no address space: {requested} bytes asked, and the process has reached its limit \
                 of addresses (`ulimit -v`) or of mappings (`vm.max_map_count`)"
            ),
            Lack::Beside => write!(
                f,
                "the address space beside the arena is taken: {requested} bytes asked, {limit} \
                 bytes reserved, and it cannot move; a map with a `memory_limit` reserves that \
                 from the start"
            ),
        }
    }
}

impl core::error::Error for ArenaFull {}

impl ArenaFull {
    /// The error of an arena that lacks memory.
    pub const fn new(requested: usize, limit: usize) -> ArenaFull {
        ArenaFull {
            requested,
            limit,
            lack: Lack::Memory,
        }
    }

    /// The error of an arena that lacks this.
    pub const fn lacks(lack: Lack, requested: usize, limit: usize) -> ArenaFull {
        ArenaFull {
            requested,
            limit,
            lack,
        }
    }

    /// The error when the heap refused what the arena keeps outside of its region. Linux refuses
    /// that for lack of addresses, unless it is told not to overcommit memory.
    pub const fn no_heap(requested: usize, limit: usize) -> ArenaFull {
        let lack = if cfg!(all(
            feature = "std",
            any(target_os = "linux", target_os = "android")
        )) {
            Lack::AddressSpace
        } else {
            Lack::Memory
        };
        ArenaFull::lacks(lack, requested, limit)
    }

    /// As [`new`](ArenaFull::new), when the system refused for this reason.
    #[cfg(feature = "std")]
    pub fn refused(requested: usize, limit: usize, error: &std::io::Error) -> ArenaFull {
        use std::io::ErrorKind;
        let is_space = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        );
        ArenaFull {
            lack: if is_space { Lack::Space } else { Lack::Memory },
            ..ArenaFull::new(requested, limit)
        }
    }

    /// Whether the device with the arena's file has no space left.
    pub const fn is_no_space(&self) -> bool {
        matches!(self.lack, Lack::Space)
    }
}

#[cfg(feature = "std")]
impl From<ArenaFull> for std::io::Error {
    fn from(full: ArenaFull) -> Self {
        let kind = match full.lack {
            Lack::Readers => std::io::ErrorKind::WouldBlock,
            Lack::Space => std::io::ErrorKind::StorageFull,
            _ => std::io::ErrorKind::OutOfMemory,
        };
        std::io::Error::new(kind, full)
    }
}

/// One contiguous memory for an [`Arena`](crate::Arena).
///
/// # Safety
///
/// An implementation promises that
/// - `base()..base() + len()` is readable and writable memory that nothing else uses, until the
///   region is dropped or `protect` forbids a part of it;
/// - `base()` is aligned to 64 bytes and changes only inside `extend`, and not if `is_stable()`;
/// - `extend` keeps the first `len()` bytes, and the bytes that it adds are zeros;
/// - a call of `extend` that fails changes nothing;
/// - `len() <= capacity()`, and `len()` never falls.
pub unsafe trait Region: Send + Sync {
    /// The address of the first byte.
    fn base(&self) -> NonNull<u8>;

    /// Bytes that may be used now.
    fn len(&self) -> usize;

    /// Whether no byte may be used yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most bytes that [`grow`](Region::grow) can give.
    fn capacity(&self) -> usize;

    /// Makes at least `min_len` bytes usable; returns whether it did. `min_len` is more than
    /// [`len`](Region::len) and not more than [`capacity`](Region::capacity).
    /// [`grow`](Region::grow) calls it.
    fn extend(&mut self, min_len: usize) -> bool;

    /// Makes at least `min_len` bytes usable. May move the memory unless
    /// [`is_stable`](Region::is_stable).
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if `min_len` is above the capacity or the system refuses.
    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        let fits = min_len <= self.capacity();
        match min_len <= self.len() || (fits && self.extend(min_len)) {
            true => Ok(()),
            false => Err(ArenaFull::new(min_len, self.capacity())),
        }
    }

    /// Whether the base does not change, so that other threads may keep it.
    fn is_stable(&self) -> bool;

    /// Gives the whole pages inside `range` back to the system; returns whether it did. They stay
    /// usable; their contents become zero or unspecified.
    fn release(&mut self, range: Range<usize>) -> bool {
        let _ = range;
        false
    }

    /// Whether pages that [`release`](Region::release) gave back are zeros, at once and until they
    /// are written, so that others may read pages of zeros meanwhile.
    fn releases_to_zeros(&self) -> bool {
        false
    }

    /// Forbids, or allows again, all access to the whole pages inside `range`; returns whether it
    /// did. [`DebugMode::Protect`](crate::DebugMode::Protect) uses it to find errors.
    fn protect(&mut self, range: Range<usize>, forbid: bool) -> bool {
        let _ = (range, forbid);
        false
    }

    /// Notes that memory below `end` is about to be written. Returns how many bytes the system then
    /// has to back: all of `len()` for a heap, whole pages up to `end` where untouched pages cost
    /// nothing.
    fn will_use(&mut self, end: usize) -> usize {
        let _ = end;
        self.len()
    }

    /// As [`will_use`](Region::will_use), but the memory is to come in pages of the least size,
    /// because a huge page takes the system long at its first byte.
    fn will_use_small(&mut self, end: usize) -> usize {
        self.will_use(end)
    }

    /// Bytes of address space that are held, at least `len()`.
    fn reserved(&self) -> usize {
        self.len()
    }

    /// Writes changed pages to the file behind the region, if there is one.
    ///
    /// # Errors
    ///
    /// The system's error.
    #[cfg(feature = "std")]
    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The system's whole pages inside `range`, if there is one.
#[cfg(all(unix, feature = "std", not(miri)))]
pub(crate) fn whole_pages(range: Range<usize>) -> Option<Range<usize>> {
    let page = rustix::param::page_size();
    let start = range.start.next_multiple_of(page);
    let end = range.end / page * page;
    (start < end).then_some(start..end)
}
