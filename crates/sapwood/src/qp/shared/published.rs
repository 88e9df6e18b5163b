//! A shared map that programs in other languages read where it lies.

use core::fmt;

use sapwood_arena::{Arena, HeaderMode};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{PointMap, PointMapBuilder, QpShared, QpSharedBuilder, SharedMap};
use crate::Error;
use crate::memory::NEEDS_STABLE;
use crate::qp::map::sorted_tree;
use crate::qp::raw::image::layout_hash;
use crate::qp::raw::index::Index;
use crate::seed::seed;

/// Where others find a published map: the words of the arena's header page. A second implementation
/// is written from `docs/qp.md` and `docs/shared.md` and these numbers.
///
/// ```
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::qp::{Published, QpShared};
/// let options = ArenaOptions::default()
///     .backing(Backing::Mmap { reserve: 1 << 20 })
///     .header(HeaderMode::Page)
///     .layout_hash(Published::layout_hash::<u64>());
/// let map = QpShared::builder().with_index().build_in(Arena::create(options)?)?;
/// map.insert("larch", 7u64)?;
/// assert_eq!(map.get("larch"), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Published(());

impl Published {
    /// Root word: bytes of a value, a multiple of 8. A leaf is a value, a length, and a key; see
    /// `docs/qp.md`.
    pub const VALUE_BYTES: usize = 0;
    /// Root word: 0 when there is only the trie, 1 when there is an index beside it, 2 when there
    /// is only the index ([`PointMap`]).
    pub const HAS_INDEX: usize = 1;
    /// The value of [`HAS_INDEX`](Self::HAS_INDEX) that says that there is no trie.
    pub const ONLY_INDEX: u64 = 2;
    /// Root word: the root cell, 0 while the map is empty, and always when there is no trie.
    pub const ROOT: usize = 2;
    /// Root word: the reference of the index's table where lookups begin; 0: ask the trie, or, when
    /// there is none, the map is empty.
    pub const TABLE: usize = 3;
    /// Words behind [`EXTRA_AT`](sapwood_arena::EXTRA_AT): the secrets of the index's hash, one for
    /// each word of a leaf from the length on; a long key begins with the first again.
    pub const SECRETS: usize = sapwood_format::hash::SECRETS;

    /// Numbers of the layouts of branches, leaves and buckets that others are compiled with: names
    /// as in `docs/qp.md` and `docs/shared.md`, in capitals, and values.
    pub fn layout() -> impl Iterator<Item = (&'static str, u64)> {
        sapwood_format::LAYOUT.into_iter()
    }

    /// What the header calls the layout of a map with values of this type.
    pub fn layout_hash<V>() -> u64 {
        layout_hash::<V>()
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Published")
    }
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> QpSharedBuilder<V> {
    /// An empty map in an arena that others read: its header page says where trie and index begin
    /// ([`Published`]), and the index has a hash that they can compute. The options and the
    /// limit of memory given to the builder are not used: the arena has its own.
    ///
    /// Others read by the protocol of `docs/shared.md`: they need a part in the domain's grace
    /// periods, as a [`GraceSource`](sapwood_qsbr::GraceSource), or else must take every reference
    /// as hostile.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use, or when a value is not a
    /// multiple of 8 bytes.
    pub fn build_in(self, arena: Arena) -> Result<QpShared<V>, Error> {
        self.build_sorted_in(arena, core::iter::empty::<(&[u8], V)>())
    }

    /// As [`build_in`](Self::build_in), with entries in ascending order of keys. Of equal keys, the
    /// last wins.
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`](crate::qp::QpMap::from_sorted_iter); [`Error::Full`].
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn build_sorted_in<K: AsRef<[u8]>>(
        self,
        mut arena: Arena,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<QpShared<V>, Error> {
        header::<V>(&mut arena)?;
        arena.set_root(Published::HAS_INDEX, u64::from(self.index))?;
        let roots = arena.roots_at();
        let index = match self.index {
            true => Some(published_index(&mut arena)?),
            false => None,
        };
        let tree = sorted_tree(arena, entries)?;
        let mut trie = self.trie(tree, index)?;
        trie.publish(roots + 8 * Published::ROOT);
        Ok(SharedMap::of_raw(trie))
    }
}

/// Writes the header of a map with values of this type.
fn header<V>(arena: &mut Arena) -> Result<(), Error> {
    const {
        assert!(
            size_of::<V>() % 8 == 0 && align_of::<V>() <= 8,
            "published values are whole words"
        )
    };
    assert!(arena.is_stable(), "{NEEDS_STABLE}");
    let has_page = arena.options().header_mode() == HeaderMode::Page;
    assert!(has_page, "others find the map by its header page");
    assert!(arena.memory().live == 0, "the arena is the map's alone");
    arena.set_roots([0; 8])?;
    arena.set_root(Published::VALUE_BYTES, size_of::<V>() as u64)?;
    Ok(())
}

/// An index whose table and secrets are in the header.
fn published_index<V>(arena: &mut Arena) -> Result<Index<V, true>, Error> {
    let index = Index::published(seed(), arena.roots_at() + 8 * Published::TABLE);
    if let Some(words) = index.portable_words() {
        arena.set_extra(words)?;
    }
    Ok(index)
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> PointMapBuilder<V> {
    /// An empty map in an arena that others read, as [`QpSharedBuilder::build_in`] makes it: its
    /// header page says where the index begins. The options and the limit of memory given to the
    /// builder are not used: the arena has its own.
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::qp::{PointMap, Published};
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(Published::layout_hash::<u64>());
    /// let map = PointMap::builder().build_in(Arena::create(options)?)?;
    /// map.insert("larch", 7u64)?;
    /// assert_eq!(map.get("larch"), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// As [`QpSharedBuilder::build_in`].
    pub fn build_in(self, mut arena: Arena) -> Result<PointMap<V>, Error> {
        header::<V>(&mut arena)?;
        arena.set_root(Published::HAS_INDEX, Published::ONLY_INDEX)?;
        let index = published_index(&mut arena)?;
        Ok(self.build_over(arena, Some(index)))
    }
}
