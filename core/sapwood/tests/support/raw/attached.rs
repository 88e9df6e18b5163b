//! Range maps in files that are mapped a second time, as another process maps them.

#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};
use sapwood::Builder;
use sapwood::arena::{Arena, ArenaOptions, Backing, DebugMode, HeaderMode};
use sapwood::maple::{MapleMap, MaplePublished, MapleView, PlainValue};
use sapwood_format::Window;

/// The most bytes of a map.
const BYTES: usize = 1 << 26;

/// The options of an arena for a published map.
pub fn options<V: PlainValue>(backing: Backing) -> ArenaOptions {
    ArenaOptions::default()
        .backing(backing)
        .header(HeaderMode::Page)
        .layout_hash(MapleMap::<V>::layout_hash())
        .limit(BYTES)
}

/// A file, mapped for reading.
pub struct Mapped {
    base: NonNull<u8>,
    file: File,
}

// SAFETY: the mapping belongs to the process, and its words are only loaded as atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(path: &Path) -> Mapped {
        let file = File::open(path).unwrap();
        // SAFETY: a fresh mapping at an address of the system's choice disturbs nothing.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            rustix::mm::mmap(
                std::ptr::null_mut(),
                BYTES,
                ProtFlags::READ,
                flags,
                &file,
                0,
            )
        };
        let base = NonNull::new(base.unwrap().cast()).unwrap();
        Mapped { base, file }
    }

    /// The words that the file has now.
    pub fn window(&self) -> MappedWords<'_> {
        let len = self.file.metadata().unwrap().len() as usize;
        MappedWords {
            mapped: self,
            len: len.min(BYTES),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and whoever uses it borrows this value.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES).unwrap() };
    }
}

/// The words of a file, which others may change.
#[derive(Clone, Copy)]
pub struct MappedWords<'m> {
    mapped: &'m Mapped,
    len: usize,
}

impl Window for MappedWords<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn u32(&self, at: usize) -> u32 {
        assert!(at % 4 == 0 && at + 4 <= self.len, "byte {at}");
        // SAFETY: inside the file, which does not become shorter; aligned; loaded as an atomic.
        let word = unsafe { AtomicU32::from_ptr(self.mapped.base.as_ptr().add(at).cast()) };
        word.load(Ordering::Acquire)
    }

    fn u64(&self, at: usize) -> u64 {
        assert!(at % 8 == 0 && at + 8 <= self.len, "byte {at}");
        // SAFETY: as above.
        let word = unsafe { AtomicU64::from_ptr(self.mapped.base.as_ptr().add(at).cast()) };
        word.load(Ordering::Acquire)
    }
}

/// A map in a file, and the same file mapped once more.
pub struct Attached<V: PlainValue> {
    pub map: MapleMap<V>,
    pub memory: Mapped,
    published: MaplePublished<V>,
}

impl<V: PlainValue> Attached<V> {
    /// A new map in a new file. Freed memory is poisoned.
    pub fn new(builder: Builder<MapleMap<V>>, path: &Path) -> Self {
        let options = options::<V>(Backing::File(path.into())).debug(DebugMode::Poison);
        let map = builder.build_in(Arena::create(options).unwrap()).unwrap();
        let memory = Mapped::new(path);
        // SAFETY: the file has a page at least, and stays mapped as long as this value lives; the
        // writer stores the page's words atomically.
        let published = unsafe { MaplePublished::new(memory.base) }.unwrap();
        Attached {
            map,
            memory,
            published,
        }
    }

    /// Reads by the second mapping. A pin of the map's domain holds grace periods back.
    pub fn read<R>(&self, ask: impl FnOnce(MapleView<'_, V>) -> R) -> R {
        self.map.read(|_| {
            // SAFETY: the file is that of the map, with these values, and the map has a limit of as
            // many bytes as are mapped. The pin keeps the writer from freeing anything meanwhile.
            ask(unsafe { self.published.view() })
        })
    }
}
