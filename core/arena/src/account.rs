//! Exact accounts of the memory, and the check that they add up.

use crate::arena::{Arena, GRANULE};
use crate::lists::{Mem, TAGGED, class_of};
use crate::reference::{Kind, UNIT};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// Blocks and bytes of one [`Kind`] that are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindMemory {
    /// Blocks.
    pub count: usize,
    /// Their bytes, each block rounded up to whole units.
    pub bytes: usize,
}

/// The memory of one [`Area`](crate::Area).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaMemory {
    /// Bytes the area has taken from the frontier.
    pub owned: usize,
    /// Bytes of these that are free. A large share is a reason to
    /// [evacuate](crate::Arena::begin_evacuation) the area.
    pub free: usize,
}

/// The accounts of an arena: `live + retired + free + header == frontier`.
///
/// ```
/// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
/// let mut arena = Arena::new(ArenaOptions::default());
/// arena.alloc(20, Kind(3), Area::Nodes)?;
/// let m = arena.memory();
/// assert_eq!((m.live, m.kinds[3].count, m.kinds[3].bytes), (24, 1, 24));
/// assert_eq!(m.live + m.retired + m.free + m.header, m.frontier);
/// # Ok::<(), sapwood_arena::ArenaFull>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Bytes in live blocks.
    pub live: usize,
    /// Bytes in retired blocks, which are unlinked but perhaps still read.
    pub retired: usize,
    /// Bytes below the frontier that can be allocated.
    pub free: usize,
    /// Bytes of the header.
    pub header: usize,
    /// Bytes from the base to the highest granule in use.
    pub frontier: usize,
    /// Bytes that the system has to back for this arena. For a heap this is its length. For pages
    /// it is whole pages below the highest frontier so far, whole huge pages where these were asked
    /// for, less the pages that were given back or are zeros
    /// ([`alloc_zeroed`](Arena::alloc_zeroed)). Pages that were never touched cost nothing and are
    /// not counted.
    pub committed: usize,
    /// Bytes of address space held.
    pub reserved: usize,
    /// Free bytes whose pages were given back to the system.
    pub released: usize,
    /// Bytes outside the region: the bitmap (1/64 of the frontier), lists, this arena itself.
    pub overhead: usize,
    /// Live blocks by kind.
    pub kinds: [KindMemory; Kind::COUNT],
    /// The memory of each area.
    pub areas: [AreaMemory; 2],
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, bytes) in [
            ("live", self.live),
            ("retired", self.retired),
            ("free", self.free),
            ("header", self.header),
            ("frontier", self.frontier),
            ("committed", self.committed),
            ("reserved", self.reserved),
            ("released", self.released),
            ("overhead", self.overhead),
        ] {
            writeln!(f, "{what:<16} {bytes:>16} bytes")?;
        }
        let kinds = self.kinds.iter().enumerate();
        for (kind, KindMemory { count, bytes }) in kinds.filter(|(_, kind)| kind.count > 0) {
            writeln!(f, "kind {kind:<3} {count:>8} {bytes:>16} bytes")?;
        }
        Ok(())
    }
}

impl Arena {
    pub(crate) fn space_free(&self, area: usize) -> u32 {
        let s = &self.spaces[area];
        s.lists.units + s.held + (s.bump_end - s.bump)
    }

    /// The accounts. Constant time.
    pub fn memory(&self) -> Memory {
        let bytes = |units: u32| units as usize * UNIT;
        let header = if self.frontier == 0 {
            0
        } else {
            bytes(self.header)
        };
        let released = self.released_pages as usize * crate::region::PAGE;
        let tables = self.bits.bytes() + self.owners.bytes() + self.released.bytes();
        let lists: usize = self.spaces.iter().map(|s| s.lists.bytes()).sum();
        let guard = self.guard.as_ref().map_or(0, |g| g.bytes());
        let mut m = Memory {
            live: bytes(self.live),
            retired: bytes(self.retired),
            free: bytes(self.space_free(0)) + bytes(self.space_free(1)),
            header,
            frontier: bytes(self.frontier),
            committed: self.committed(),
            reserved: self.region.as_ref().map_or(0, |r| r.reserved()),
            released,
            overhead: size_of::<Arena>() + tables + lists + guard,
            ..Memory::default()
        };
        if let Some(guard) = &self.guard {
            m.free = guard.idle;
        }
        for (kind, count) in m.kinds.iter_mut().zip(&self.kinds) {
            *kind = KindMemory {
                count: count.blocks as usize,
                bytes: bytes(count.units),
            };
        }
        for (i, area) in m.areas.iter_mut().enumerate() {
            *area = AreaMemory {
                owned: bytes(self.spaces[i].owned),
                free: bytes(self.space_free(i)),
            };
        }
        m
    }

    /// Walks bitmap and lists and checks that the accounts add up. It takes time proportional to
    /// the arena.
    ///
    /// # Errors
    ///
    /// A message about the first error that it finds.
    pub fn verify(&self) -> Result<(), String> {
        let m = self.memory();
        if m.live + m.retired + m.free + m.header != m.frontier {
            return Err(format!(
                "live, retired, free and header do not add up to the frontier: {m:?}"
            ));
        }
        let kinds: usize = m.kinds.iter().map(|k| k.bytes).sum();
        if kinds != m.live {
            return Err(format!("kinds have {kinds} bytes, live are {}", m.live));
        }
        if self.frontier == 0 {
            return Ok(());
        }
        if self.frontier > self.len || self.frontier > self.limit {
            return Err(format!(
                "frontier {} above length {} or limit {}",
                self.frontier, self.len, self.limit
            ));
        }
        if let Some(guard) = &self.guard {
            return guard.verify(self.live + self.retired);
        }
        self.verify_bits()?;
        for area in 0..2 {
            self.verify_lists(area)?;
        }
        self.verify_released()
    }

    /// Whether a run must end at a unit: at the edges of the area's hole.
    fn is_edge(&self, area: usize, unit: u32) -> bool {
        let s = &self.spaces[area];
        s.hole < s.hole_end && (unit == s.hole || unit == s.hole_end)
    }

    fn is_free(&self, unit: u32) -> bool {
        unit < self.frontier && self.bits.get(unit as usize)
    }

    /// Checks the bits, counters, owners of granules and bump runs.
    fn verify_bits(&self) -> Result<(), String> {
        let mut owned = [0u32; 2];
        let mut set = [0u32; 2];
        let mut held = [0u32; 2];
        let words = self.frontier.div_ceil(GRANULE);
        for w in 0..words {
            let area = self.owner(w * GRANULE);
            let word = self.bits.word(w as usize);
            let units = if w == 0 {
                GRANULE.saturating_sub(self.header)
            } else {
                GRANULE
            };
            if w * GRANULE >= self.header || w == 0 {
                owned[area] += if self.frontier > self.header {
                    units
                } else {
                    0
                };
            } else if word != 0 {
                return Err(format!("free units in the header at granule {w}"));
            }
            set[area] += word.count_ones();
            let s = &self.spaces[area];
            // The edges of a hole lie between granules, except that it may begin after the header.
            if w * GRANULE + GRANULE > s.hole && w * GRANULE < s.hole_end {
                held[area] += word.count_ones();
            }
        }
        if (self.bits.word(0) << (64 - self.header.min(63))) != 0 {
            return Err("free units in the header".into());
        }
        for w in words..words + 64 {
            if self.bits.word(w as usize) != 0 {
                return Err(format!("free units above the frontier at granule {w}"));
            }
        }
        for (area, s) in self.spaces.iter().enumerate() {
            if owned[area] != s.owned {
                return Err(format!(
                    "area {area} owns {} units, counted {}",
                    owned[area], s.owned
                ));
            }
            if set[area] != s.lists.units + s.held || held[area] != s.held {
                let (l, h) = (s.lists.units, s.held);
                return Err(format!(
                    "area {area}: {} bits, listed {l}, held {h} of {}",
                    set[area], held[area]
                ));
            }
            if s.bump > s.bump_end || s.bump_end > self.frontier && s.bump < s.bump_end {
                return Err(format!("area {area}: bump run {}..{}", s.bump, s.bump_end));
            }
            for unit in s.bump..s.bump_end {
                if self.is_free(unit) || self.owner(unit) != area {
                    return Err(format!(
                        "area {area}: unit {unit} of the bump run is listed or foreign"
                    ));
                }
            }
        }
        Ok(())
    }

    fn verify_lists(&self, area: usize) -> Result<(), String> {
        let mem = Mem(self.base);
        let s = &self.spaces[area];
        let mut listed = 0u64;
        for (class, head, flag) in s.lists.classes() {
            if flag != (head != 0) {
                return Err(format!(
                    "area {area}: class {class} is marked {flag}, its head is {head}"
                ));
            }
            let (mut at, mut prev) = (head, 0);
            while at != 0 {
                if !self.is_free(at) || self.owner(at) != area {
                    return Err(format!(
                        "area {area}: class {class} lists unit {at}, which is not free there"
                    ));
                }
                if s.hole <= at && at < s.hole_end {
                    return Err(format!("area {area}: fragment {at} in the hole is listed"));
                }
                let ours = |u: u32| self.is_free(u) && self.owner(u) == area;
                if ours(at - 1) && !self.is_edge(area, at) {
                    return Err(format!("area {area}: fragment {at} does not begin its run"));
                }
                let mut end = at + 1;
                while ours(end) && !self.is_edge(area, end) {
                    end += 1;
                }
                let n = end - at;
                if class_of(n) != class {
                    return Err(format!(
                        "area {area}: fragment {at} of {n} units is in class {class}"
                    ));
                }
                // SAFETY: a free fragment with links in unit 0, and sizes from `TAGGED` units on.
                let (back, next, size) = unsafe {
                    let size = if n >= TAGGED {
                        [mem.read(at + 1, 0), mem.read(end - 1, 1)]
                    } else {
                        [n, n]
                    };
                    (mem.read(at, 0), mem.read(at, 1), size)
                };
                if back != prev || size != [n, n] {
                    return Err(format!(
                        "area {area}: fragment {at} of {n}: previous {back}, sizes {size:?}"
                    ));
                }
                listed += u64::from(n);
                if listed > u64::from(self.frontier) {
                    return Err(format!("area {area}: class {class} has a loop"));
                }
                prev = at;
                at = next;
            }
        }
        if listed != u64::from(s.lists.units) {
            return Err(format!(
                "area {area}: lists have {listed} units, counted {}",
                s.lists.units
            ));
        }
        Ok(())
    }

    fn verify_released(&self) -> Result<(), String> {
        let mut pages = 0;
        let page_units = (crate::region::PAGE / UNIT) as u32;
        for page in 0..self.high / page_units + 1 {
            if !self.released.get(page as usize) {
                continue;
            }
            pages += 1;
            let all_free = (page * page_units..(page + 1) * page_units)
                .all(|u| u >= self.frontier || self.is_free(u));
            if !all_free {
                return Err(format!("page {page} counts as given back, but is in use"));
            }
        }
        if pages != self.released_pages {
            return Err(format!(
                "{pages} pages are given back, counted {}",
                self.released_pages
            ));
        }
        Ok(())
    }
}
