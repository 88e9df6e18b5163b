//! Range maps in arenas that other processes read, and what the next writer makes of them.

use sapwood_arena::{Arena, ArenaFull, HEADER_LEN, HeaderError, HeaderMode, OpenError};
use sapwood_checked::maple::CheckedMaple;
use sapwood_checked::{Fixed, Trouble};
use sapwood_format::Window as Memory;
use sapwood_format::maple::header;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Range;
use super::header::read_header;
use super::map::MapleMap;
use super::raw::published::ALIGNED;
use super::raw::table::{Config, MapleShared};
use super::raw::values::Values;
use crate::OpenCause;
use crate::index::bounds;
use crate::{Builder, Error};
use sapwood_common::raw::memory::NEEDS_STABLE;

/// A value that other processes can read: plain bytes.
///
/// Every type with these properties has it.
pub trait PlainValue: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

impl<V: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> PlainValue for V {}

impl<V: PlainValue> MapleMap<V> {
    /// The number in the header page that identifies the layout of a published map with values of
    /// this type. See [`Builder::build_in`].
    pub fn layout_hash() -> u64 {
        header::layout_hash(size_of::<V>(), align_of::<V>())
    }
}

impl<V: PlainValue> Builder<MapleMap<V>> {
    /// An empty map in an arena that others read. The arena's header page says where the tree
    /// begins (`sapwood_format::maple::header`); `docs/maple.md` and these numbers suffice to write
    /// another reader. The arena has options and a limit of its own, so those of the builder are
    /// not used. A map in a file stays in the file when it is dropped
    /// ([`restore_in`](Self::restore_in)).
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::maple::MapleMap;
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(MapleMap::<u64>::layout_hash());
    /// let map = MapleMap::builder().build_in(Arena::create(options)?)?;
    /// map.store(5..=9, 7_u64)?;
    /// assert_eq!(map.get(6), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Others read by [`MaplePublished`](super::MaplePublished), as a
    /// [`GraceSource`](sapwood_qsbr::GraceSource) of the domain, or by
    /// [`CheckedMaple`].
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use.
    pub fn build_in(self, mut arena: Arena) -> Result<MapleMap<V>, Error> {
        const { assert!(align_of::<V>() <= 8, "{}", ALIGNED) };
        assert!(arena.is_stable(), "{NEEDS_STABLE}");
        let has_page = arena.options().header_mode() == HeaderMode::Page;
        assert!(has_page, "others find the map by the arena's header page");
        assert!(arena.memory().live == 0, "the arena is the map's alone");
        let (slot, apart) = match self.choices.values {
            Values::InSlots => (size_of::<V>(), 0),
            _ => (size_of::<u32>(), 1),
        };
        let mut words = [0; 8];
        words[header::VALUE_BYTES] = size_of::<V>() as u64;
        words[header::SLOT] = slot as u64;
        words[header::APART] = apart;
        arena.set_roots(words)?;
        let roots = arena.roots_at();
        let domain = self.domain_or_new();
        let config = Config {
            options: arena.options().clone(),
            values: self.choices.values,
            split: self.choices.split,
            leaf: self.choices.leaf,
            fanout: self.choices.fanout,
        };
        let shared = MapleShared::new_in(arena, config, domain, Some(roots));
        Ok(MapleMap::from_shared(shared))
    }

    /// A map as that of [`build_in`](Self::build_in), with these entries, which come in order and
    /// do not overlap. It makes each node once. O(n).
    ///
    /// # Errors
    /// [`Error::ArenaFull`], [`Error::EmptyRange`]; [`Error::Occupied`] with the entry before, when
    /// an entry does not lie behind it.
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn build_sorted_in(
        self,
        arena: Arena,
        entries: impl IntoIterator<Item = (Range, V)>,
    ) -> Result<MapleMap<V>, Error> {
        self.fill_in::<Error>(arena, entries.into_iter().map(Ok))
    }

    /// The map of a writer that has ended or was killed, in a new arena: for the process that takes
    /// the map over. It reads the old map's memory, in which nobody writes any more, checks every
    /// node, and copies the entries. O(n).
    ///
    /// A change that had returned is there. One that was interrupted is there as a whole, or not at
    /// all: a change becomes visible by one store, and the number of entries and the sizes of gaps
    /// are counted anew.
    ///
    /// # Errors
    /// [`OpenCause::Image`], [`OpenCause::Values`] and [`OpenCause::Corrupt`] say what is wrong
    /// with the old memory and where; [`OpenCause::Table`] when the new arena has no room.
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn restore_in<W: Memory>(self, arena: Arena, old: W) -> Result<MapleMap<V>, OpenCause> {
        let mut page = [0; HEADER_LEN];
        if old.len() < HEADER_LEN {
            let error = HeaderError::TooShort { len: old.len() };
            return Err(OpenCause::Image(OpenError::Header(error)));
        }
        for (at, word) in (0..).step_by(8).zip(page.chunks_exact_mut(8)) {
            word.copy_from_slice(&old.u64(at).to_ne_bytes());
        }
        read_header::<V>(&page, old.len() as u64)?;
        let damaged = |trouble: Trouble| OpenCause::Corrupt(trouble.to_string());
        let old = CheckedMaple::<_, V>::new(Fixed(&old)).map_err(damaged)?;
        let entries = old.iter().map(|entry| entry.map_err(Refused::Old));
        self.fill_in(arena, entries)
            .map_err(|refused| match refused {
                Refused::Old(trouble) => damaged(trouble),
                Refused::New(error) => OpenCause::Table(error.into()),
            })
    }

    /// A map of these entries. The error of an entry is the error of the whole.
    fn fill_in<E: From<Error> + From<ArenaFull>>(
        self,
        arena: Arena,
        entries: impl Iterator<Item = Result<(Range, V), E>>,
    ) -> Result<MapleMap<V>, E> {
        let map = self.build_in(arena)?;
        let mut before: Option<(u64, u64)> = None;
        let entries = entries.map(|entry| {
            let (range, value) = entry?;
            let (start, end) = bounds::<u64>(range)?;
            if let Some(before) = before.filter(|before| start <= before.1) {
                let (start, end) = before;
                return Err(Error::Occupied { start, end }.into());
            }
            before = Some((start, end));
            Ok::<_, E>((start, end, value))
        });
        let mut writer = map.shared().write();
        let filled = map.shared().fill(&mut writer, entries);
        drop(writer);
        filled?;
        Ok(map)
    }
}

/// Why a new owner was not made.
enum Refused {
    /// The old memory.
    Old(Trouble),
    /// The new arena.
    New(Error),
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Refused::New(error.into())
    }
}
