//! Published maps: programs in other languages read them in place.

use sapwood_arena::{Arena, HEADER_LEN, HeaderMode};
use sapwood_format::header;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Order, PointMap, QpShared, SharedMap};
use crate::map::sorted_tree;
use crate::raw::image::{inline_hash, layout_hash, shared_hash};
use crate::raw::index::Index;
use crate::raw::tree::Tree;
use crate::seed::seed;
use crate::{Accepts, IntoValue, OpenCause, QpFile, QpStore, Value};
use crate::{Builder, Error};
use sapwood_common::raw::memory::NEEDS_STABLE;

// The arena and the format, which do not know each other, agree on the header page.
const _: () = assert!(
    header::PAGE == HEADER_LEN
        && header::ROOTS_AT == sapwood_arena::ROOTS_AT
        && header::EXTRA_AT == sapwood_arena::EXTRA_AT
);

impl<O: Order, V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    SharedMap<O, V>
{
    /// The number in the header page that identifies the layout of a published map with values of
    /// this type. See [`Builder::build_in`].
    pub fn layout_hash() -> u64 {
        match O::ONLY_INDEX {
            true => layout_hash::<V>(),
            false => shared_hash::<V>(),
        }
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    Builder<QpShared<V>>
{
    /// An empty map in an arena that others read. The arena's header page says where trie and index
    /// begin (`sapwood_format::header`), and the index has a hash that others can compute. The
    /// arena has options and a limit of its own, so those of the builder are not used. A reader in
    /// another language can be written from `docs/qp.md`, `docs/shared.md` and these numbers. The
    /// size of a value must be a multiple of 8 bytes; the compiler checks this.
    ///
    /// The arena's layout hash says the form. With [`QpShared::layout_hash`], most removals are one
    /// store, which leaves a dead slot in a cluster. With another one, as that of [`PointMap`],
    /// there are no dead slots, and readers that do not know them read the map, too.
    ///
    /// O(processors), as there are shards for them.
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::qp::QpShared;
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(QpShared::<u64>::layout_hash());
    /// let map = QpShared::builder().with_index().build_in(Arena::create(options)?)?;
    /// map.insert("larch", 7u64)?;
    /// assert_eq!(map.get("larch"), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Others read by the protocol of `docs/shared.md`. They take part in the domain's grace
    /// periods as a [`GraceSource`](sapwood_qsbr::GraceSource), or else they must check every
    /// reference.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use.
    pub fn build_in(self, arena: Arena) -> Result<QpShared<V>, Error> {
        self.publish_in(arena, |arena| Ok(Tree::new(arena)))
    }

    /// A published map of the tree that `make` builds in the arena.
    fn publish_in(
        self,
        mut arena: Arena,
        make: impl FnOnce(Arena) -> Result<Tree<V>, Error>,
    ) -> Result<QpShared<V>, Error> {
        write_header::<V>(&mut arena)?;
        arena.set_root(header::HAS_INDEX, u64::from(self.choices.index))?;
        let roots = arena.roots_at();
        let know_dead = arena.header(0).layout_hash == shared_hash::<V>();
        let index = match self.choices.index {
            true => Some(published_index(&mut arena)?),
            false => None,
        };
        let mut trie = self.trie(make(arena)?, index)?;
        trie.publish(roots + 8 * header::ROOT, know_dead);
        Ok(SharedMap::from_raw(trie))
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    Builder<QpShared<V>>
{
    /// A map as that of [`build_in`](Self::build_in), with these entries, which come in ascending
    /// order of keys. Of equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`](crate::QpMap::from_sorted_iter); [`Error::Full`].
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn build_sorted_in<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        arena: Arena,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<QpShared<V>, Error>
    where
        V: Accepts<N>,
    {
        self.publish_in(arena, |arena| sorted_tree(Tree::new(arena), entries))
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static> QpStore<V> {
    /// The number in the header page that identifies the layout of a published store with values of
    /// this type. See [`Builder::build_in`].
    pub fn layout_hash() -> u64 {
        inline_hash::<V>()
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    Builder<QpStore<V>>
{
    /// An empty store in an arena that others read, as they read that of a [`QpShared`]. The
    /// arena's header page has a word that says where the newest version begins. A commit is one
    /// store of that word, so others see all of it or none. Whoever loads the word once reads one
    /// version. A store in a file stays in the file when it is dropped
    /// (`QpFile::open_published`). The arena has options and a limit of its own, so those of the
    /// builder are not used. The size of a value must be a multiple of 8 bytes; the compiler checks
    /// this.
    ///
    /// The arena's layout hash says the form. With [`QpStore::layout_hash`], clusters hold their
    /// entries. With another one, as that of [`PointMap`], there are leaves, which readers that do
    /// not know such clusters read, too.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::qp::QpStore;
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(QpStore::<u64>::layout_hash());
    /// let store = QpStore::builder().build_in(Arena::create(options)?)?;
    /// let mut txn = store.begin();
    /// txn.insert("larch", 7u64)?;
    /// txn.commit();
    /// assert_eq!(store.get("larch"), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use.
    pub fn build_in(self, arena: Arena) -> Result<QpStore<V>, Error> {
        self.publish_in(arena, |builder, arena| Ok(builder.published_tree(arena)))
    }

    /// A store as that of [`build_in`](Self::build_in), whose first version has the entries of a
    /// file. O(bytes of the file).
    ///
    /// # Errors
    /// [`OpenCause::Table`] when the arena has no room; [`OpenCause::Corrupt`] when the file was
    /// not verified, or was changed since.
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn restore_in(self, mut arena: Arena, file: &QpFile<V>) -> Result<QpStore<V>, OpenCause> {
        write_header::<V>(&mut arena).map_err(|error| OpenCause::Table(error.into()))?;
        let root = arena.roots_at() + 8 * header::ROOT;
        let tree = file.fill(self.published_tree(arena))?;
        Ok(self.build_over(tree, Some(root)))
    }

    /// A published store of the tree that `make` builds in the arena.
    fn publish_in(
        self,
        mut arena: Arena,
        make: impl FnOnce(&Self, Arena) -> Result<Tree<V>, Error>,
    ) -> Result<QpStore<V>, Error> {
        write_header::<V>(&mut arena)?;
        let root = arena.roots_at() + 8 * header::ROOT;
        let tree = make(&self, arena)?;
        Ok(self.build_over(tree, Some(root)))
    }

    /// An empty trie for a store in this arena, of the form that the arena's layout hash says.
    fn published_tree(&self, arena: Arena) -> Tree<V> {
        match arena.header(0).layout_hash == inline_hash::<V>() {
            true => self.inline_tree(arena),
            false => Tree::new(arena),
        }
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    Builder<QpStore<V>>
{
    /// A store as that of [`build_in`](Self::build_in), whose first version has these entries,
    /// which come in ascending order of keys. Of equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`](crate::QpMap::from_sorted_iter).
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn build_sorted_in<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        arena: Arena,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<QpStore<V>, Error>
    where
        V: Accepts<N>,
    {
        self.publish_in(arena, |builder, arena| {
            sorted_tree(builder.published_tree(arena), entries)
        })
    }
}

/// Writes the header of a map with values of this type.
fn write_header<V: ?Sized + Value>(arena: &mut Arena) -> Result<(), Error> {
    const {
        assert!(
            V::VARIES || V::SIZE % 8 == 0 && V::ALIGN <= 8,
            "the size of a published value must be a multiple of 8 bytes"
        )
    };
    assert!(arena.is_stable(), "{NEEDS_STABLE}");
    let has_page = arena.options().header_mode() == HeaderMode::Page;
    assert!(
        has_page,
        "the arena has no header page, by which others find the map"
    );
    assert!(arena.memory().live == 0, "the arena is in use");
    arena.set_roots([0; 8])?;
    arena.set_root(header::VALUE_BYTES, V::SIZE as u64)?;
    arena.set_root(header::STEP, V::ENTRIES.step as u64)?;
    Ok(())
}

/// An index whose table and hash secrets are in the header page.
fn published_index<V: ?Sized + Value>(arena: &mut Arena) -> Result<Index<V, true>, Error> {
    let index = Index::published(seed(), arena.roots_at() + 8 * header::TABLE);
    if let Some(words) = index.portable_words() {
        arena.set_extra(words)?;
    }
    Ok(index)
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    Builder<PointMap<V>>
{
    /// An empty map in an arena that others read, as they read that of a [`QpShared`]. The arena's
    /// header page says where the index begins. The arena has options and a limit of its own, so
    /// those of the builder are not used. The size of a value must be a multiple of 8 bytes; the
    /// compiler checks this.
    ///
    /// O(processors), as there are shards for them.
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::qp::PointMap;
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(PointMap::<u64>::layout_hash());
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
    /// When the arena moves as it grows, has no header page or is in use.
    pub fn build_in(self, mut arena: Arena) -> Result<PointMap<V>, Error> {
        write_header::<V>(&mut arena)?;
        arena.set_root(header::HAS_INDEX, header::ONLY_INDEX)?;
        let index = published_index(&mut arena)?;
        Ok(self.build_over(arena, Some(index)))
    }
}
