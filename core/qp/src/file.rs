//! Maps in files: saved whole, and checked when they are opened.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::path::Path;

use sapwood_arena::{Arena, HeaderError, ImageMap};
use sapwood_format::header;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::iter::Iter;
use super::raw::image::{self, Image, SaveFailed, Unread};
use super::raw::mem::Checked;
use super::raw::tree::Tree;
use super::raw::version::stable_arena;
use super::raw::view::View;
use super::read::{self, point_methods, read_methods};
use super::{QpMap, QpStore, Version};
use sapwood_common::raw::asked::Asked;

use crate::Value;
use crate::figures::{self, ENTRIES};
use crate::{Builder, OpenCause, OpenError, SaveCause, SaveError};

/// The layout hashes of the kinds of files that a type opens, by the size and the alignment of the
/// values. What it saves has the first.
#[doc(hidden)]
pub type Layouts = [fn(usize, usize) -> u64; 2];

/// Those of maps: with inline clusters, and without, as maps were saved before.
const MAPS: Layouts = [
    |size, align| header::layout_hash(size, align, image::INLINE_FORMAT),
    |size, align| header::layout_hash(size, align, image::FORMAT),
];

/// Opens a file that has a trie of one of these layouts. One that was written before clusters held
/// their entries is a trie, too, and reads as well. The file may be replaced by one of the other
/// layout meanwhile.
fn either<V: ?Sized + Value, M>(
    layouts: &Layouts,
    open: impl Fn(u64) -> Result<M, sapwood_arena::OpenError>,
) -> Result<M, OpenCause> {
    let [new, old] = layouts.map(|layout| layout(V::SIZE, V::ALIGN));
    let mut map = open(new);
    for layout in [old, new].into_iter().cycle().take(100) {
        match &map {
            Err(sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. }))
                if *found == layout =>
            {
                map = open(layout);
            }
            _ => break,
        }
    }
    map.map_err(|error| from_image_error::<V>(error, layouts))
}

/// The cause for an error of the image, which may be another format of maps or another type of
/// values.
fn from_image_error<V: ?Sized + Value>(
    error: sapwood_arena::OpenError,
    layouts: &Layouts,
) -> OpenCause {
    match error {
        sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. })
            if image::format_of::<V>(found).is_some() =>
        {
            OpenCause::OldFormat {
                found: image::format_of::<V>(found).unwrap_or_default(),
                reads: image::INLINE_FORMAT,
            }
        }
        sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. }) => {
            let other = layouts.iter().find_map(|layout| {
                let asked = Asked {
                    name: core::any::type_name::<V>(),
                    values: (!V::VARIES).then_some((V::SIZE, V::ALIGN)),
                };
                OpenCause::other_values(found, asked, layout)
            });
            other.unwrap_or_else(|| OpenCause::of_image(error))
        }
        error => OpenCause::Image(error),
    }
}

impl<V: ?Sized + Value + IntoBytes + Immutable> QpMap<V> {
    /// Saves the map to a file. It writes the file beside `path`, flushes it and renames it, so
    /// whoever opens `path` gets the old file or the whole new one. The bytes depend only on the
    /// entries.
    ///
    /// O(entries).
    ///
    /// Values are plain bytes without padding, aligned to at most 8 bytes; the compiler checks
    /// this.
    ///
    /// ```
    /// use sapwood::qp::{QpFile, QpMap};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.qp", std::process::id()));
    /// let map = QpMap::from([("ash", 1u64), ("beech", 2)]);
    /// map.save(&path)?;
    /// let file = QpFile::<u64>::open(&path)?;
    /// assert_eq!(file.get("beech"), Some(&2));
    /// assert_eq!(file.len(), 2);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        save(&self.view(), self.len(), 0, path.as_ref())
    }

    /// Saves the map as the content of another kind of file, which has its own layout hash.
    #[doc(hidden)]
    pub fn save_as(&self, layout: u64, path: &Path) -> Result<(), SaveError> {
        save_as(&self.view(), self.len(), 0, layout, path)
    }
}

/// Saves the entries of a view, and the number of its version.
pub(crate) fn save<V: ?Sized + Value + IntoBytes + Immutable>(
    view: &View<'_, V>,
    len: usize,
    version: u64,
    path: &Path,
) -> Result<(), SaveError> {
    save_as(view, len, version, MAPS[0](V::SIZE, V::ALIGN), path)
}

/// As `save`, with the layout hash of another kind of file.
pub fn save_as<V: ?Sized + Value + IntoBytes + Immutable>(
    view: &View<'_, V>,
    len: usize,
    version: u64,
    layout: u64,
    path: &Path,
) -> Result<(), SaveError> {
    image::save(view, len, version, layout, path)
        .map_err(|failed| match failed {
            SaveFailed::Full(full) => SaveCause::ArenaFull(full),
            SaveFailed::Io(error) => SaveCause::Io(error),
        })
        .map_err(SaveError::at(path))
}

/// A saved map, mapped into memory and read in place. It has all reading methods of [`QpMap`].
///
/// Every reference is checked against the file's length before it is followed, so a hostile file
/// gives wrong answers at worst. Nobody may change the file in place while it is open. Saving again
/// replaces the file; a `QpFile` that is open stays as it was.
pub struct QpFile<V: ?Sized + Value> {
    image: Image<V>,
}

impl<V: ?Sized + Value + FromBytes + Immutable> QpFile<V> {
    /// Opens a file that [`QpMap::save`] wrote with values of the same size and alignment. The file
    /// says nothing else about their type. `open` reads the whole file once, and checks the header,
    /// the checksums and every invariant of the trie.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// [`OpenError`], with the path and the cause.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_as(path, &MAPS, true).map_err(OpenError::at(path))
    }

    /// Opens a file of a kind that has these layouts. With `verify`, checks all of it.
    #[doc(hidden)]
    pub fn open_as(path: &Path, layouts: &Layouts, verify: bool) -> Result<Self, OpenCause> {
        let map = either::<V, _>(layouts, |layout| ImageMap::open(path, layout, verify))?;
        let image = Image::new(map).map_err(OpenCause::Corrupt)?;
        if verify {
            image.verify().map_err(OpenCause::Corrupt)?;
        }
        Ok(QpFile { image })
    }

    /// Opens a file and checks only its header, so the time does not depend on the file's size.
    /// Damage in the rest shows as wrong answers, never as a fault; [`verify`](Self::verify) finds
    /// it.
    ///
    /// # Errors
    /// [`OpenError`], with the path and the cause.
    pub fn open_unverified(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_as(path, &MAPS, false).map_err(OpenError::at(path))
    }

    /// Opens the file in which a store was published ([`Builder::build_in`] with
    /// [`Backing::File`](sapwood_arena::Backing::File)), after its writer has ended: its last
    /// commit. `open_published` walks the whole trie, and checks every invariant. Nobody may change
    /// the file meanwhile, nor as long as it is open. Its [`version`](Self::version) is 0.
    ///
    /// O(bytes of the file), all of which is checked.
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::qp::{QpFile, QpStore};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.live", std::process::id()));
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::File(path.clone()))
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(QpStore::<u64>::layout_hash());
    /// let store = QpStore::builder().build_in(Arena::create(options)?)?;
    /// let mut txn = store.begin();
    /// txn.insert("larch", 7u64)?;
    /// txn.commit();
    /// drop(store);
    /// let left = QpFile::<u64>::open_published(&path)?;
    /// assert_eq!((left.len(), left.get("larch")), (1, Some(&7)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`], with the path and the cause.
    #[cfg(all(unix, not(miri)))]
    pub fn open_published(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let open = || {
            let map = either::<V, _>(&MAPS, |layout| sapwood_arena::FileMap::open(path, layout))?;
            let image = Image::published(map).map_err(OpenCause::Corrupt)?;
            image.verify().map_err(OpenCause::Corrupt)?;
            Ok(QpFile { image })
        };
        open().map_err(OpenError::at(path))
    }

    #[inline(always)]
    #[doc(hidden)]
    pub fn view(&self) -> View<'_, V, Checked> {
        self.image.view()
    }

    /// Number of entries.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.image.len()
    }

    /// The number of the version that a [`QpSnapshot`](super::QpSnapshot) saved; 0 for a map
    /// without versions.
    ///
    /// O(1).
    pub fn version(&self) -> Version {
        Version(self.image.version())
    }

    /// Size of the file in bytes.
    ///
    /// O(1).
    pub fn file_bytes(&self) -> usize {
        self.image.file_bytes()
    }

    /// An empty trie, filled with the entries of the file, which was verified.
    pub(super) fn fill(&self, tree: Tree<V>) -> Result<Tree<V>, OpenCause> {
        self.image.fill(tree).map_err(|unread| match unread {
            Unread::Full(full) => OpenCause::Table(full.into()),
            Unread::Corrupt(what) => OpenCause::Corrupt(what),
        })
    }

    fn is_large(&self) -> bool {
        self.file_bytes() >= read::BATCH_FROM
    }

    /// Checks every invariant of the trie.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.image.verify().map(drop)
    }

    /// The shape of the trie, from a walk over all of it.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn shape(&self) -> Result<QpShape, String> {
        self.image.verify().map(QpShape::from_walk)
    }

    read_methods!(['s] 's [&'s ] self Checked);
    point_methods!(['s] 's [&'s ] self Checked);
}

impl<V: ?Sized + Value + FromBytes + Immutable + Send + Sync + 'static> Builder<QpStore<V>> {
    /// Loads a store from a file that [`QpSnapshot::save`](super::QpSnapshot::save) or
    /// [`QpMap::save`] wrote with values of the same size and alignment. It checks the whole file
    /// first. O(bytes of the file).
    ///
    /// The store's first version has the number of the saved version, and later versions count on
    /// from there. Commits to the store do not change the file.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.store", std::process::id()));
    /// let store = QpStore::new()?;
    /// let mut txn = store.begin();
    /// txn.insert("ash", 1u64)?;
    /// let saved = txn.commit();
    /// store.snapshot().save(&path)?;
    ///
    /// let store = QpStore::<u64>::builder().load(&path)?;
    /// assert_eq!((store.version(), store.get("ash")), (saved, Some(1)));
    /// let mut txn = store.begin();
    /// txn.insert("beech", 2)?;
    /// assert_eq!(txn.commit().get(), saved.get() + 1);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`], with the path and the cause.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<QpStore<V>, OpenError> {
        self.load_file(&QpFile::open(&path)?)
            .map_err(OpenError::at(path.as_ref()))
    }

    /// As [`load`](Self::load), for a store whose clusters hold their entries, as
    /// [`build_inline`](Self::build_inline) makes it.
    ///
    /// O(bytes of the file).
    ///
    /// ```
    /// use sapwood::qp::{QpMap, QpStore};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.inline", std::process::id()));
    /// QpMap::from([("ash", 1u64), ("beech", 2)]).save(&path)?;
    /// let store = QpStore::<u64>::builder().load_inline(&path)?;
    /// assert_eq!((store.len(), store.get("beech")), (2, Some(2)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`], with the path and the cause.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load_inline(self, path: impl AsRef<Path>) -> Result<QpStore<V>, OpenError>
    where
        V: IntoBytes,
    {
        self.load_file_inline(&QpFile::open(&path)?)
            .map_err(OpenError::at(path.as_ref()))
    }

    /// A store of the entries of a verified file.
    #[doc(hidden)]
    pub fn load_file(self, file: &QpFile<V>) -> Result<QpStore<V>, OpenCause> {
        self.load_into(file, |_, arena| Tree::new(arena))
    }

    /// As `load_file`, with inline clusters.
    #[doc(hidden)]
    pub fn load_file_inline(self, file: &QpFile<V>) -> Result<QpStore<V>, OpenCause>
    where
        V: IntoBytes,
    {
        self.load_into(file, Self::inline_tree)
    }

    /// As `load_file`, of the form that `tree` makes.
    fn load_into(
        self,
        file: &QpFile<V>,
        tree: impl FnOnce(&Self, Arena) -> Tree<V>,
    ) -> Result<QpStore<V>, OpenCause> {
        let arena = stable_arena(self.memory.clone().stable());
        let arena = arena.map_err(|full| OpenCause::Table(full.into()))?;
        let tree = file.fill(tree(&self, arena))?;
        let store = self.build_over(tree, None);
        store.begin_at(file.version());
        Ok(store)
    }
}

impl<V: ?Sized + Value + FromBytes + Immutable + fmt::Debug> fmt::Debug for QpFile<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl<'s, V: ?Sized + Value + FromBytes + Immutable> IntoIterator for &'s QpFile<V> {
    type Item = crate::ReadEntry<'s, V>;
    type IntoIter = Iter<'s, V, Checked>;

    fn into_iter(self) -> Iter<'s, V, Checked> {
        self.iter()
    }
}

/// The shape of a trie: how many nodes it has, how large and how deep they are.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QpShape {
    /// Number of entries.
    pub entries: usize,
    /// Sum of the lengths of all keys, in bytes.
    pub key_bytes: usize,
    /// Leaves: entries that no cluster holds itself.
    pub leaves: usize,
    /// Their bytes, with keys and values.
    pub leaf_bytes: usize,
    /// Branches: number and bytes.
    pub branches: (usize, usize),
    /// Clusters: number and bytes.
    pub clusters: (usize, usize),
    /// Entries in a cluster, on average.
    pub fill_mean: f64,
    /// Branches above an entry, on average.
    pub depth_mean: f64,
    /// Branches above the deepest entry.
    pub depth_max: usize,
    /// Number of entries below no branch, below one branch, and so on.
    pub depths: Vec<usize>,
    /// Number of clusters with no entry, with one entry, and so on.
    pub fills: Vec<usize>,
}

impl fmt::Display for QpShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = [
            ("branches", self.branches),
            ("clusters", self.clusters),
            ("leaves", (self.leaves, self.leaf_bytes)),
        ];
        let sums = [("keys", self.key_bytes)];
        figures::table(f, ENTRIES, self.entries, &blocks, &sums)?;
        writeln!(f, "{:<16} {:>12.2}", "mean fill", self.fill_mean)?;
        writeln!(f, "{:<16} {:>12.2}", "mean depth", self.depth_mean)?;
        figures::counts(f, &[("greatest depth", self.depth_max as u64)])
    }
}

impl QpShape {
    fn from_walk(walked: super::raw::verify::Walked) -> Self {
        QpShape {
            entries: walked.leaves,
            key_bytes: walked.key_bytes,
            leaves: walked.own_leaves,
            leaf_bytes: walked.leaf_bytes,
            branches: (walked.branches, walked.branch_bytes),
            clusters: (walked.clusters, walked.cluster_bytes),
            fill_mean: walked.clustered as f64 / walked.clusters.max(1) as f64,
            depth_mean: walked.depth_sum as f64 / walked.leaves.max(1) as f64,
            depth_max: walked.depth_max,
            depths: walked.depths,
            fills: walked.fills,
        }
    }
}
