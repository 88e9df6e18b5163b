//! Images of tries: built anew in the order of the keys, saved whole, and read with every reference
//! checked.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::marker::PhantomData;
use core::{ptr, slice};
use std::path::Path;

#[cfg(all(unix, not(miri)))]
use sapwood_arena::FileMap;
use sapwood_arena::{
    Area, Arena, ArenaFull, ArenaOptions, HEADER_LEN, HeaderMode, ImageMap, write_image,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::build::{Builder, Pushed, copy_in_order};
use super::inline::{Held, Inline};
use super::inline_change::write_outside;
use super::leaf::{LeafOf, Stored, Value};
use super::mem::{Checked, byte_of};
use super::node::{CLUSTER, INLINE, KIND, LEAF};
use super::span::Span;
use super::tree::Tree;
use super::verify::{self, Walked};
use super::view::View;
use sapwood_format::{branch_cell, header};

/// The words of the header that a trie uses.
const ROOT: usize = 0;
const LEN: usize = 1;
const VERSION: usize = 2;

/// The greatest version number that a file may have.
const VERSION_MAX: u64 = u64::MAX / 2;

/// The numbers of the formats: of branches, clusters of cells and leaves; with inline clusters; and
/// with dead slots. Each change of a format adds one.
pub(crate) use sapwood_format::header::{FORMAT, INLINE_FORMAT, SHARED_FORMAT};

/// The hash of the layout on which writer and reader must agree: the number of the format, and the
/// size and alignment of a value. It is that of tries without inline clusters.
pub(crate) fn layout_hash<V: ?Sized + Value>() -> u64 {
    layout_hash_of::<V>(FORMAT)
}

/// As `layout_hash`, of tries with inline clusters.
pub(crate) fn inline_hash<V: ?Sized + Value>() -> u64 {
    layout_hash_of::<V>(INLINE_FORMAT)
}

/// As `layout_hash`, of tries with dead slots.
pub(crate) fn shared_hash<V: ?Sized + Value>() -> u64 {
    layout_hash_of::<V>(SHARED_FORMAT)
}

const _: () = {
    let (size, align) = sapwood_common::raw::asked::BYTE_STRINGS;
    assert!(<[u8] as Stored>::SIZE == size && <[u8] as Stored>::ALIGN == align);
};

fn layout_hash_of<V: ?Sized + Value>(format: u64) -> u64 {
    header::layout_hash(V::SIZE, V::ALIGN, format)
}

/// The number of the earlier format whose layout hash this is, for values of `V`'s size and
/// alignment.
pub(crate) fn format_of<V: ?Sized + Value>(hash: u64) -> Option<u64> {
    (1..FORMAT).find(|format| layout_hash_of::<V>(*format) == hash)
}

/// Why a trie could not be saved.
pub(crate) enum SaveFailed {
    /// There is no memory for the image.
    Full(ArenaFull),
    /// The system refused to write the file.
    Io(std::io::Error),
}

/// Why no trie could be made from an image.
pub(crate) enum Unread {
    /// There is no memory for the trie.
    Full(ArenaFull),
    /// The image is wrong; the text says how.
    Corrupt(String),
}

/// Writes a trie beside `path` and renames it. Its clusters hold the entries.
pub(crate) fn save<V: ?Sized + Value + IntoBytes + Immutable>(
    view: &View<'_, V>,
    len: usize,
    version: u64,
    layout: u64,
    path: &Path,
) -> Result<(), SaveFailed> {
    const {
        assert!(
            !LeafOf::<V>::BOXED,
            "saved values are aligned to 8 bytes at most"
        )
    };
    let options = ArenaOptions::default()
        .header(HeaderMode::Page)
        .layout_hash(layout);
    let mut to = Tree::new(Arena::new(options));
    (to.inline, to.tight) = (V::INLINE, true);
    let (arena, root, _) = copy_in_order(view, to, 0).map_err(SaveFailed::Full)?;
    let (arena, root) = without_gaps::<V>(arena, root).map_err(SaveFailed::Full)?;
    let mut header = arena.header(0);
    header.roots[ROOT] = u64::from(root);
    header.roots[LEN] = len as u64;
    header.roots[VERSION] = version;
    let body: &[u8] = if root == 0 {
        &[]
    } else {
        let bytes = arena.frontier() - HEADER_LEN;
        // SAFETY: all bytes below the frontier were zeroed when they were fresh, or written since;
        // values are `IntoBytes`, so they have no uninitialized padding. Nobody changes the arena
        // meanwhile.
        unsafe { slice::from_raw_parts(arena.base().add(HEADER_LEN), bytes) }
    };
    write_image(path, &[body], header).map_err(SaveFailed::Io)
}

/// A new trie's nodes in memory without gaps, if more than a sixteenth of it is free: the leaves of
/// the entries were there until their clusters were made, and in a small trie these are all
/// entries.
fn without_gaps<V: ?Sized + Value>(arena: Arena, root: u32) -> Result<(Arena, u32), ArenaFull> {
    let memory = arena.memory();
    if 16 * memory.free <= memory.frontier {
        return Ok((arena, root));
    }
    let mut to = Arena::new(arena.options().clone());
    // The root of this trie stays empty, so that it drops nothing.
    let mut from = Tree::<V>::new(arena);
    let mut moved = Ok(root);
    from.each_cell(root, |from, cell| {
        if moved.is_ok() {
            // SAFETY: the trie has this node, and those below it came before.
            moved = unsafe { move_node(from, &mut to, cell) };
        }
    });
    // The root comes last.
    moved.map(|root| (to, root))
}

/// Copies a node of a trie that nobody needs afterwards; returns its new cell, which is also
/// written over the beginning of the old node.
///
/// # Safety
/// The node is live, and the nodes below it have moved, but not leaves of an inline cluster's own.
unsafe fn move_node<V: ?Sized + Value>(
    from: &Tree<V>,
    to: &mut Arena,
    cell: u32,
) -> Result<u32, ArenaFull> {
    // SAFETY: the caller's promise; each block has eight bytes at least.
    unsafe {
        let (bytes, kind) = from.block(cell);
        let p = from.pointer(cell);
        let moved = |child| from.pointer(child).cast::<u32>().read();
        match cell & KIND {
            LEAF => {}
            CLUSTER => {
                let c = from.cluster(cell);
                for i in 0..c.leaves() {
                    c.set_cell(i, moved(c.cell(i)));
                }
            }
            INLINE => {
                let c = from.cluster(cell);
                let block = Inline::of(c);
                for i in 0..c.leaves() {
                    if let Held::Leaf(leaf) = block.held::<V>(i) {
                        write_outside::<V>(block.place::<V>(i), move_node(from, to, leaf)?);
                    }
                }
            }
            _ => {
                let b = from.branch(cell);
                for i in 0..b.children() {
                    b.set_cell(i, moved(b.cell(i)));
                }
            }
        }
        let r = to.alloc(bytes, kind, Area::Nodes)?;
        let new = branch_cell(r.get()) | cell & KIND;
        ptr::copy_nonoverlapping(p, to.base().add(byte_of(new)), bytes);
        p.cast::<u32>().write(new);
        Ok(new)
    }
}

/// The memory of an image.
enum Source {
    /// A file that was saved.
    Saved(ImageMap),
    /// A file that a store published.
    #[cfg(all(unix, not(miri)))]
    Published(FileMap),
}

impl Source {
    fn base(&self) -> *const u8 {
        match self {
            Source::Saved(map) => map.base(),
            #[cfg(all(unix, not(miri)))]
            Source::Published(map) => map.base(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Saved(map) => map.len(),
            #[cfg(all(unix, not(miri)))]
            Source::Published(map) => map.len(),
        }
    }
}

/// An opened image.
pub(crate) struct Image<V: ?Sized + Value> {
    map: Source,
    root: u32,
    len: usize,
    version: u64,
    values: PhantomData<V>,
}

// SAFETY: the image is read-only memory; `&V` is given out, values are never moved or dropped.
unsafe impl<V: ?Sized + Value + Sync> Send for Image<V> {}
// SAFETY: as above.
unsafe impl<V: ?Sized + Value + Sync> Sync for Image<V> {}

impl<V: ?Sized + Value + FromBytes + Immutable> Image<V> {
    /// The trie in an opened file.
    pub(crate) fn new(map: ImageMap) -> Result<Self, String> {
        let roots = map.header().roots;
        let version = roots[VERSION];
        if version > VERSION_MAX {
            return Err(alloc::format!("version {version} is too large"));
        }
        Self::of(Source::Saved(map), roots[ROOT], roots[LEN], version)
    }

    /// The newest version of a store that was published in a file. Nobody writes it any more.
    #[cfg(all(unix, not(miri)))]
    pub(crate) fn published(map: FileMap) -> Result<Self, String> {
        use alloc::string::ToString;
        let header = map.header().map_err(|error| error.to_string())?;
        let word = header.roots[header::ROOT];
        let (root, len) = (u64::from(word as u32), word >> 32);
        Self::of(Source::Published(map), root, len, 0)
    }

    fn of(map: Source, root: u64, len: u64, version: u64) -> Result<Self, String> {
        const {
            assert!(
                !LeafOf::<V>::BOXED,
                "saved values are aligned to 8 bytes at most"
            )
        };
        let cell =
            u32::try_from(root).map_err(|_| alloc::format!("root cell {root:#x} is too large"))?;
        let entries = usize::try_from(len)
            .ok()
            .filter(|len| len.saturating_mul(8) <= map.len())
            .ok_or_else(|| alloc::format!("{len} entries do not fit the file"))?;
        if (cell == 0) != (entries == 0) {
            return Err(alloc::format!(
                "root cell {cell:#x} does not fit {entries} entries"
            ));
        }
        Ok(Image {
            map,
            root: cell,
            len: entries,
            version,
            values: PhantomData,
        })
    }

    /// A view of the trie, which checks every step. Any bytes are a value (`FromBytes`).
    #[inline]
    pub(crate) fn view(&self) -> View<'_, V, Checked> {
        let mem = Checked {
            base: self.map.base().cast_mut(),
            len: self.map.len(),
        };
        // SAFETY: the memory is checked, so the root may be anything.
        unsafe { View::new(mem, self.root) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Fills an empty trie with the entries of the image, which was verified.
    ///
    /// # Errors
    /// When there is no room, or when the image was changed meanwhile.
    pub(crate) fn fill(&self, tree: Tree<V>) -> Result<Tree<V>, Unread> {
        let mut builder = Builder::new(tree);
        let view = self.view();
        let mut span = Span::all(view);
        while let Some(entry) = span.next() {
            let (key, value) = view
                .entry(entry)
                .ok_or_else(|| Unread::Corrupt("a leaf is outside".to_owned()))?;
            // SAFETY: any bytes are a value (`FromBytes`).
            let value = unsafe { V::copied(value) };
            match builder.push(&key, value) {
                Ok(Pushed::Added) => {}
                Ok(_) => return Err(Unread::Corrupt("keys do not ascend".to_owned())),
                Err((_, full)) => return Err(Unread::Full(full)),
            }
        }
        builder.finish().map_err(Unread::Full)
    }

    pub(crate) fn file_bytes(&self) -> usize {
        self.map.len()
    }

    /// Walks the whole trie and checks every invariant.
    pub(crate) fn verify(&self) -> Result<Walked, String> {
        let seen = verify::walk(&self.view(), self.len)?;
        if seen.leaves != self.len {
            return Err(alloc::format!(
                "the walk found {} entries, the header says {}",
                seen.leaves,
                self.len
            ));
        }
        Ok(seen)
    }
}
