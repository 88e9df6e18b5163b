//! The arena: one region, its header, its options. The module `blocks` has the allocation.

use crate::bitmap::Bits;
use crate::debug::Guard;
use crate::lists::Lists;
use crate::options::{ArenaOptions, Backing, DebugMode, HeaderMode};
use crate::reference::{Area, Kind, MAX_BYTES, MAX_UNITS, UNIT};
use crate::region::{ArenaFull, AutoRegion, HeapRegion, PAGE, Region};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

/// Units of a granule: the least memory that an area owns, and one word of the bitmap.
pub(crate) const GRANULE: u32 = 64;

/// The offset of the roots, in bytes from the base.
const LINE_ROOTS: usize = 0;

/// Whole units in `bytes` bytes, at most as many as references reach.
pub(crate) fn units_in(bytes: usize) -> u32 {
    (bytes / UNIT).min(MAX_UNITS as usize) as u32
}

/// The free memory of one area.
#[derive(Debug)]
pub(crate) struct Space {
    /// Fragments: maximal runs of units that are free in the bitmap.
    pub(crate) lists: Lists,
    /// The run that blocks are cut from while no fragment fits better. It is free, but not in the
    /// bitmap.
    pub(crate) bump: u32,
    pub(crate) bump_end: u32,
    /// Units that the area owns, used or free.
    pub(crate) owned: u32,
    /// While this area is evacuated, free units in this range are marked but in no list:
    /// `hole..hole_end`.
    pub(crate) hole: u32,
    pub(crate) hole_end: u32,
    /// Free units in the hole.
    pub(crate) held: u32,
}

impl Space {
    const fn new() -> Space {
        Space {
            lists: Lists::new(),
            bump: 0,
            bump_end: 0,
            owned: 0,
            hole: 0,
            hole_end: 0,
            held: 0,
        }
    }
}

/// Blocks and units of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) blocks: u32,
    pub(crate) units: u32,
}

/// An arena: one flat memory from which a structure allocates its blocks.
///
/// A block is known by its [`Ref`](crate::Ref); its address is `base() + ref * 8`. Whether the base
/// can change when the arena grows depends on the [`Backing`]; nothing inside the memory depends on
/// it.
///
/// ```
/// use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
/// let mut arena = Arena::new(ArenaOptions::default());
/// let r = arena.alloc(24, Kind(0), Area::Nodes)?;
/// let p = arena.base().wrapping_add(r.byte_offset()).cast::<u64>();
/// // SAFETY: the block has 24 bytes, is aligned to 8, and nobody else knows it.
/// unsafe { p.write(7) };
/// // SAFETY: as above; it is not used afterwards.
/// unsafe { arena.free(r, 24, Kind(0)) };
/// assert_eq!(arena.memory().live, 0);
/// # Ok::<(), sapwood_arena::ArenaFull>(())
/// ```
///
/// # Readers beside the owner
///
/// One owner allocates and frees through `&mut Arena`. Other threads may meanwhile read live and
/// retired blocks through a copy of [`base`](Arena::base) if the backing is stable
/// ([`Backing::Mmap`], [`Backing::HeapFixed`], files): allocating and freeing do not read or write
/// live and retired blocks (test `readers_beside_the_owner`).
pub struct Arena {
    pub(crate) base: *mut u8,
    pub(crate) spaces: [Space; 2],
    pub(crate) bits: Bits,
    /// For each granule a bit that names the area that owns it.
    pub(crate) owners: Bits,
    /// Units handed to areas so far, header included; 0 before the first block.
    pub(crate) frontier: u32,
    /// Units the region has.
    pub(crate) len: u32,
    /// The frontier may not pass this.
    pub(crate) limit: u32,
    /// Whether a debug mode or fault injection is on.
    pub(crate) special: bool,
    pub(crate) poison: bool,
    pub(crate) live: u32,
    pub(crate) retired: u32,
    pub(crate) kinds: [Count; Kind::COUNT],
    pub(crate) chunk_max: u32,
    pub(crate) header: u32,
    /// The highest frontier since pages above it were given back.
    pub(crate) high: u32,
    /// The highest frontier ever: memory above it was never used.
    pub(crate) touched: u32,
    /// The bytes that the region has to back for `high`.
    pub(crate) backed: usize,
    /// Whether memory above `high` is to come in pages of the least size.
    pub(crate) small_pages: bool,
    /// Bytes of these that are pages of zeros in live blocks, and are not backed.
    pub(crate) zeros: usize,
    /// For each page a bit: it was given back since it was last used.
    pub(crate) released: Bits,
    pub(crate) released_pages: u32,
    /// The page where the next sweep for pages to give back begins.
    pub(crate) sweep_page: u32,
    pub(crate) region: Option<Box<dyn Region>>,
    pub(crate) guard: Option<Box<Guard>>,
    /// Whether the caller gave the region, so that the options cannot make it anew.
    pub(crate) given: bool,
    pub(crate) faults: Faults,
    pub(crate) options: ArenaOptions,
}

/// The state of fault injection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) every: u64,
    pub(crate) countdown: u64,
    /// Units left of the last successful `ensure`: their allocation does not fail.
    pub(crate) promised: u64,
    /// Whether fault injection made the last failed request fail.
    pub(crate) injected: bool,
}

// SAFETY: the arena owns its region, which is Send; the base points into it.
unsafe impl Send for Arena {}
// SAFETY: through `&Arena` there are only numbers, the address, and reads of free memory, which
// changes only through `&mut`.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena that asks the system for memory when the first block is allocated.
    ///
    /// If the backing cannot be made then, the first allocation fails. [`Arena::create`] makes it
    /// at once and says why it fails.
    pub fn new(options: ArenaOptions) -> Arena {
        let protect = options.debug == DebugMode::Protect;
        let header = match options.header {
            HeaderMode::Line if !protect => 64 / UNIT as u32,
            _ => (PAGE / UNIT) as u32,
        };
        let poison = options.debug == DebugMode::Poison;
        let chunk = if poison { 512 } else { options.chunk };
        Arena {
            base: core::ptr::without_provenance_mut(64),
            spaces: [Space::new(), Space::new()],
            bits: Bits::new(),
            owners: Bits::new(),
            frontier: 0,
            len: 0,
            limit: units_in(options.limit) / GRANULE * GRANULE,
            special: poison || protect || options.fail_every > 0,
            poison,
            live: 0,
            retired: 0,
            kinds: [Count::default(); Kind::COUNT],
            chunk_max: units_in(chunk).clamp(GRANULE, 1 << 20) / GRANULE * GRANULE,
            header,
            high: 0,
            touched: 0,
            backed: 0,
            small_pages: false,
            zeros: 0,
            released: Bits::new(),
            released_pages: 0,
            sweep_page: 0,
            region: None,
            guard: protect.then(Box::default),
            given: false,
            faults: Faults {
                every: options.fail_every,
                countdown: options.fail_every,
                promised: 0,
                injected: false,
            },
            options,
        }
    }

    /// An arena over a region of the caller's. The options' backing is not used.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the region has no room for the header.
    ///
    /// ```
    /// use sapwood_arena::{Arena, ArenaOptions, HeapRegion};
    /// let region = HeapRegion::fixed(1 << 16)?;
    /// let arena = Arena::with_region(Box::new(region), ArenaOptions::default())?;
    /// # let _ = arena;
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    pub fn with_region(region: Box<dyn Region>, options: ArenaOptions) -> Result<Arena, ArenaFull> {
        let mut arena = Arena::new(options);
        arena.given = true;
        arena.adopt(region)?;
        Ok(arena)
    }

    /// An arena whose memory is made at once, so that the caller learns why it fails.
    ///
    /// # Errors
    ///
    /// The system's error for the file or mapping; out of memory for a heap.
    #[cfg(feature = "std")]
    pub fn create(options: ArenaOptions) -> std::io::Result<Arena> {
        let mut arena = Arena::new(options);
        let region = arena.make_region_io()?;
        arena.adopt(region)?;
        Ok(arena)
    }

    #[cfg(feature = "std")]
    fn make_region_io(&self) -> std::io::Result<Box<dyn Region>> {
        match &self.options.backing {
            #[cfg(all(unix, not(miri)))]
            Backing::File(path) => Ok(Box::new(crate::region::FileRegion::create(path)?)),
            #[cfg(all(unix, not(miri)))]
            Backing::Memfd => Ok(Box::new(crate::region::FileRegion::memfd("sapwood")?)),
            #[cfg(not(all(unix, not(miri))))]
            Backing::File(_) | Backing::Memfd => Err(std::io::ErrorKind::Unsupported.into()),
            _ => Ok(self.make_region()?),
        }
    }

    fn make_region(&self) -> Result<Box<dyn Region>, ArenaFull> {
        let most = MAX_BYTES;
        #[allow(unused_variables)]
        let huge = self.options.huge_pages && self.options.debug == DebugMode::Off;
        Ok(match self.options.backing {
            Backing::Auto => Box::new(AutoRegion::new(most, huge)),
            Backing::Heap => Box::new(HeapRegion::new(most)),
            Backing::HeapFixed(capacity) => Box::new(HeapRegion::fixed(capacity)?),
            #[cfg(all(unix, feature = "std", not(miri)))]
            Backing::Mmap { reserve } => {
                Box::new(crate::region::MmapRegion::reserve(reserve, huge)?)
            }
            #[cfg(all(unix, feature = "std", not(miri)))]
            Backing::Growing { reserve } => {
                let most = self.options.limit.min(most);
                Box::new(crate::region::MmapRegion::growing(
                    reserve.min(most),
                    most,
                    huge,
                )?)
            }
            #[cfg(not(all(unix, feature = "std", not(miri))))]
            Backing::Mmap { reserve } | Backing::Growing { reserve } => {
                Box::new(HeapRegion::fixed(reserve.min(1 << 20))?)
            }
            #[cfg(feature = "std")]
            _ => self
                .make_region_io()
                .map_err(|error| ArenaFull::refused(0, 0, &error))?,
        })
    }

    /// Takes the region and writes the header into it.
    fn adopt(&mut self, mut region: Box<dyn Region>) -> Result<(), ArenaFull> {
        let header = self.header as usize * UNIT;
        let full = ArenaFull::new(header, self.options.limit);
        self.limit = self
            .limit
            .min(units_in(region.capacity()) / GRANULE * GRANULE);
        if self.limit < self.header {
            return Err(full);
        }
        self.bits
            .ensure(GRANULE as usize)
            .map_err(|_| ArenaFull::no_heap(header, self.options.limit))?;
        region.grow(header)?;
        self.base = region.base().as_ptr();
        self.len = units_in(region.len());
        self.backed = region.will_use(header);
        self.frontier = self.header;
        self.high = self.header;
        self.touched = self.header;
        self.region = Some(region);
        self.write_header();
        Ok(())
    }

    /// Makes the region if there is none yet.
    #[cold]
    pub(crate) fn start(&mut self) -> Result<(), ArenaFull> {
        if self.frontier == 0 {
            let region = self.make_region()?;
            self.adopt(region)?;
        }
        Ok(())
    }

    /// The address of the first byte. The block of `r` is at `base() + r.byte_offset()`. The base
    /// is set by the first block, and changes when the memory moves: in `alloc`, `reserve` and
    /// `ensure`, unless the backing is stable.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Whether [`base`](Arena::base) stays the same once there is a block.
    pub fn is_stable(&self) -> bool {
        match &self.region {
            Some(region) => region.is_stable(),
            None => !matches!(self.options.backing, Backing::Auto | Backing::Heap),
        }
    }

    /// Lowers the limit of the arena, for structures whose references reach less far. Blocks above
    /// the new limit stay.
    ///
    /// ```
    /// # use sapwood_arena::{Area, Arena, ArenaOptions, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.limit_to(1 << 16);
    /// assert!(arena.alloc(1 << 17, Kind(0), Area::Nodes).is_err());
    /// ```
    pub fn limit_to(&mut self, most: usize) {
        let most = units_in(most) / GRANULE * GRANULE;
        self.limit = self.limit.min(most.max(self.frontier));
        self.options.limit = self.options.limit.min(self.limit_bytes());
    }

    /// Bytes of the live blocks, rounded up to whole units. It reads one number, where
    /// [`memory`](Arena::memory) adds up many.
    #[inline]
    pub fn live(&self) -> usize {
        self.live as usize * UNIT
    }

    /// The options of the arena.
    pub fn options(&self) -> &ArenaOptions {
        &self.options
    }

    /// The offset of the eight words of the header, in bytes from the base. Readers in other
    /// languages need it, and structures that publish a root with a store of their own, beside the
    /// arena's owner.
    ///
    /// ```
    /// use sapwood_arena::{Arena, ArenaOptions, HeaderMode};
    /// assert_eq!(Arena::new(ArenaOptions::default()).roots_at(), 0);
    /// assert_eq!(Arena::new(ArenaOptions::default().header(HeaderMode::Page)).roots_at(), 48);
    /// ```
    pub fn roots_at(&self) -> usize {
        match self.options.header {
            HeaderMode::Line => LINE_ROOTS,
            HeaderMode::Page => crate::header::ROOTS_AT,
        }
    }

    fn root_at(&self, index: usize) -> &AtomicU64 {
        assert!(index < 8, "an arena has 8 roots");
        let first = self.roots_at();
        // SAFETY: called only when there is a header, which has room for 8 aligned words there;
        // they are only ever accessed as atomics.
        unsafe { AtomicU64::from_ptr(self.base.add(first + index * 8).cast()) }
    }

    /// The eight words that a structure keeps in the header. They are zeros at first.
    pub fn roots(&self) -> [u64; 8] {
        if self.frontier == 0 {
            return [0; 8];
        }
        core::array::from_fn(|i| self.root_at(i).load(Ordering::Acquire))
    }

    /// Replaces the eight words in the header, one atomic store (Release) each.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the arena is empty and there is no memory for the header.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.set_roots([1, 2, 3, 0, 0, 0, 0, 0])?;
    /// assert_eq!(arena.roots()[2], 3);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    pub fn set_roots(&mut self, roots: [u64; 8]) -> Result<(), ArenaFull> {
        self.start()?;
        for (i, root) in roots.into_iter().enumerate() {
            self.root_at(i).store(root, Ordering::Release);
        }
        Ok(())
    }

    /// Replaces one of the eight words in the header with an atomic store (Release).
    ///
    /// # Errors
    ///
    /// As [`set_roots`](Arena::set_roots).
    ///
    /// # Panics
    ///
    /// If `index` is 8 or more.
    pub fn set_root(&mut self, index: usize, root: u64) -> Result<(), ArenaFull> {
        self.start()?;
        self.root_at(index).store(root, Ordering::Release);
        Ok(())
    }

    /// Frees every block and clears the roots. The backing gives back as much memory as it can, all
    /// at once.
    ///
    /// All references become invalid; so does the base, unless it is stable. No reader may be left.
    pub fn clear(&mut self) {
        self.bits = Bits::new();
        self.owners = Bits::new();
        self.released = Bits::new();
        self.released_pages = 0;
        self.sweep_page = 0;
        self.spaces = [Space::new(), Space::new()];
        self.live = 0;
        self.retired = 0;
        self.kinds = [Count::default(); Kind::COUNT];
        self.faults.promised = 0;
        self.zeros = 0;
        if let Some(guard) = &mut self.guard {
            let end = self.frontier as usize * UNIT;
            if let Some(region) = &mut self.region {
                region.protect(0..end, false);
            }
            **guard = Guard::default();
        }
        let stable = self.is_stable();
        let Some(region) = self.region.as_mut() else {
            return;
        };
        if !self.given && !stable {
            self.region = None;
            self.base = core::ptr::without_provenance_mut(64);
            self.frontier = 0;
            self.len = 0;
            self.high = 0;
            self.touched = 0;
            self.backed = 0;
            return;
        }
        let header = self.header as usize * UNIT;
        if region.release(header.next_multiple_of(PAGE)..self.high as usize * UNIT) {
            self.high = self.header;
            self.backed = region.will_use(header);
        }
        self.frontier = self.header;
        // SAFETY: the arena owns the header; the region is at least as long.
        unsafe { self.base.write_bytes(0, header) };
        self.write_header();
    }

    /// The area of the granule that has this unit.
    #[inline]
    pub(crate) fn owner(&self, unit: u32) -> usize {
        usize::from(self.owners.get((unit / GRANULE) as usize))
    }

    /// The most bytes that the arena may have.
    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit as usize * UNIT
    }

    /// The area that the block at `r` lies in.
    pub fn area_of(&self, r: crate::Ref) -> Area {
        Area::ALL[self.owner(r.get())]
    }
}

impl core::fmt::Debug for Arena {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Arena")
            .field("options", &self.options)
            .field("memory", &self.memory())
            .finish()
    }
}
