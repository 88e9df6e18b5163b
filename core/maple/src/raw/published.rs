//! The tree as readers find it: in this process, and, where the map is published in an arena, in
//! others.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::{HEADER_LEN, ROOTS_AT};
use sapwood_format::maple::header;
use zerocopy::{FromBytes, Immutable};

use super::read::has_native;
use super::seen::Published;
use super::view::View;
use crate::OpenCause;
use crate::header::{Facts, read_header};
use crate::view::MapleView;

/// A published map ([`Builder::build_in`](crate::Builder::build_in)) in memory that this process
/// maps, for reading. The writer may be another process, and may change the map meanwhile.
///
/// This trusts the memory. It is for a crate that makes the writer's grace periods wait for readers
/// in other processes, as `sapwood-live` does.
/// [`CheckedMaple`](sapwood_checked::maple::CheckedMaple) trusts nothing.
///
/// ```
/// use rustix::mm::{MapFlags, ProtFlags, mmap};
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::maple::{MapleMap, MaplePublished};
/// use std::ptr::{NonNull, null_mut};
///
/// const BYTES: usize = 1 << 20;
/// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.attached", std::process::id()));
/// let options = ArenaOptions::default()
///     .backing(Backing::File(path.clone()))
///     .header(HeaderMode::Page)
///     .layout_hash(MapleMap::<u64>::layout_hash())
///     .limit(BYTES);
/// let map = MapleMap::builder().build_in(Arena::create(options)?)?;
///
/// // In another process, whose address space has room for all that the file may grow to.
/// let file = std::fs::File::open(&path)?;
/// // SAFETY: a mapping at an address of the system's choice disturbs nothing.
/// let base = unsafe { mmap(null_mut(), BYTES, ProtFlags::READ, MapFlags::SHARED, &file, 0)? };
/// let base = NonNull::new(base.cast()).unwrap();
/// // SAFETY: the file has a header page, and stays mapped.
/// let attached = unsafe { MaplePublished::<u64>::new(base)? };
///
/// map.store(5..=9, 7_u64)?;
/// // SAFETY: as above; the writer frees nothing meanwhile, as it does nothing.
/// let view = unsafe { attached.view() };
/// assert_eq!((view.get(6), view.len()), (Some(&7), 1));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaplePublished<V> {
    tree: Published,
    values: PhantomData<fn() -> V>,
}

impl<V: FromBytes + Immutable + Send + Sync + 'static> MaplePublished<V> {
    /// Reads the header page at `base`.
    ///
    /// # Errors
    /// [`OpenCause::Image`] when there is no header page of a range map, [`OpenCause::Values`] when
    /// the map has values of another size or alignment, [`OpenCause::Corrupt`] when the page's
    /// numbers contradict each other.
    ///
    /// # Safety
    /// At `base`, which is aligned to 8 bytes, a page is mapped as long as this is used. Others
    /// write its words only atomically.
    pub unsafe fn new(base: NonNull<u8>) -> Result<Self, OpenCause> {
        const { assert!(align_of::<V>() <= 8, "{}", ALIGNED) };
        let mut page = [0; HEADER_LEN];
        for (i, bytes) in page.chunks_exact_mut(8).enumerate() {
            // SAFETY: inside the page, aligned, and accessed only as an atomic.
            let word = unsafe { AtomicU64::from_ptr(base.as_ptr().cast::<u64>().add(i)) };
            bytes.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        let Facts { values, slot } = read_header::<V>(&page, u64::MAX)?;
        Ok(MaplePublished {
            tree: Published {
                root: CachePadded::default(),
                base: AtomicPtr::new(base.as_ptr()),
                len: AtomicUsize::new(0),
                values,
                slot,
                native: has_native(),
                frozen: false,
                settles: false,
                header: Some(ROOTS_AT),
            },
            values: PhantomData,
        })
    }

    /// The map. Each call of a method of the view sees the newest map, as under a guard in the
    /// writer's process.
    ///
    /// # Safety
    /// The memory begins with the header page of a map that was published with these values. All of
    /// it stays mapped for `'g`, also what the map grows into meanwhile. For as long, the writer
    /// frees nothing that its root reaches now or later.
    #[inline]
    pub unsafe fn view<'g>(&'g self) -> MapleView<'g, V> {
        let base = self.tree.base.load(Ordering::Relaxed);
        // SAFETY: a word of the header page, which is accessed only as an atomic.
        let root: &'g AtomicU64 =
            unsafe { AtomicU64::from_ptr(base.add(ROOTS_AT + 8 * header::ROOT).cast()) };
        // SAFETY: the caller's promise.
        MapleView::new(unsafe { View::with_root(&self.tree, root) })
    }
}

/// What is wrong with values that other processes cannot find at the same places.
pub(crate) const ALIGNED: &str = "a published value has an alignment of 8 at most";

impl<V> fmt::Debug for MaplePublished<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaplePublished")
            .field("values", &self.tree.values)
            .field("slot", &self.tree.slot)
            .finish_non_exhaustive()
    }
}
