//! Maps over byte strings that this process writes and programs read.

use std::fmt;
use std::ops::Deref;

use sapwood::qp::{Published, QpShared, QpSharedBuilder};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;

/// An ordered map over byte strings in an arena: this process writes it, with all methods of [`QpShared`], and BPF programs look
/// names up (`sapwood/qp.bpf.h`).
///
/// Values are plain bytes, a multiple of 8. Keys of more than 254 bytes may be stored, but no program finds them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, NameMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let names = NameMap::<u64>::builder(&arena, "blocked").with_index().build()?;
/// names.insert("example.org", 1)?;
/// println!("programs name it {}", names.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a map belongs to the process that made it. When that dies, programs go on reading what it left, and another process
/// [takes it over](NameMapBuilder::take_over).
pub struct NameMap<V: Send + Sync + 'static> {
    map: QpShared<V>,
    arena: BpfArena,
    window: WindowInfo,
}

/// How a [`NameMap`] is made.
pub struct NameMapBuilder<V> {
    arena: BpfArena,
    name: String,
    bytes: Option<usize>,
    domain: Option<Domain>,
    map: QpSharedBuilder<V>,
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> NameMapBuilder<V> {
    /// Bytes of address space, which are also the most that the map can take. Default: all that the arena has left.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Keeps a hash index beside the trie, for lookups of whole keys.
    pub fn with_index(mut self) -> Self {
        self.map = self.map.with_index();
        self
    }

    /// The most entries.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.map = self.map.max_entries(most);
        self
    }

    /// The domain whose grace periods are waited for. It must have the kernel as a source
    /// ([`KernelGrace`](crate::KernelGrace)), or programs may read what was freed: wrong answers, though never a fault. Default: one
    /// of its own, with the kernel.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// An empty map.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::Name`], [`Error::NoGrace`] and others, when arena or domain have it not.
    pub fn build(self) -> Result<NameMap<V>, Error> {
        self.build_sorted(std::iter::empty::<(&[u8], V)>())
    }

    /// A map of entries in ascending order of keys. Of equal keys, the last wins.
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of [`QpSharedBuilder::build_sorted`].
    pub fn build_sorted<K: AsRef<[u8]>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<NameMap<V>, Error> {
        let domain = match self.domain {
            Some(domain) => domain,
            None => kernel_domain()?,
        };
        let bytes = self.bytes.unwrap_or_else(|| self.arena.bytes_left());
        let (memory, window) =
            self.arena
                .make_window(&self.name, bytes, Published::layout_hash::<V>())?;
        let map = self.map.domain(&domain).build_sorted_in(memory, entries);
        let map = map.inspect_err(|_| self.arena.let_go(&window))?;
        self.arena.open_window(&window, Kind::Qp);
        Ok(NameMap::of(map, self.arena, window))
    }

    /// Takes over the map that a dead owner left: reads it, checking every word, builds it anew in another window, and lets programs see
    /// that one under the same number, in one store. They find all entries at any time. Then it waits for the programs that may still
    /// read the old one, and gives its memory back: 4 to 20 ms.
    ///
    /// It may have been a [`PointNameMap`](crate::PointNameMap) before.
    ///
    /// What the owner was doing when it died is done or not done: entries whose insertion had returned are there. Both maps are in the arena
    /// for a time, so it must have room for them.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, NameMap};
    /// let arena = BpfArena::open("/sys/fs/bpf/names/arena")?;
    /// let names = NameMap::<u64>::builder(&arena, "blocked").with_index().take_over()?;
    /// names.insert("example.org", 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Owned`] while the owner lives; [`Error::NoWindow`]; [`Error::Value`]; [`Error::Damaged`]: the map stays as it is, for
    /// programs too, and [`BpfArena::remove_window`] makes way for another of its name. And those of [`build`](Self::build).
    pub fn take_over(self) -> Result<NameMap<V>, Error> {
        let old = self.arena.inherit(&self.name, Kind::Qp)?;
        let domain = match self.domain {
            Some(domain) => domain,
            None => kernel_domain()?,
        };
        let reader = self.arena.reader_of::<V>(old.clone())?;
        reader.verify()?;
        let bytes = self.bytes.unwrap_or_else(|| self.arena.bytes_left());
        let hash = Published::layout_hash::<V>();
        let (memory, window) = self.arena.make_successor(&old, bytes, hash)?;
        let mut failed = None;
        let read = reader
            .unordered()
            .map_while(|entry| entry.map_err(|error| failed = Some(error)).ok());
        let map = self.map.domain(&domain);
        let map = match reader.has_order()? {
            true => map.build_sorted_in(memory, read),
            false => {
                let mut entries: Vec<_> = read.collect();
                entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                map.build_sorted_in(memory, entries)
            }
        };
        let map = match (map, failed) {
            (Ok(map), None) => map,
            (map, failed) => {
                // The region first, then the place.
                let error = failed.or(map.err().map(Error::Map));
                self.arena.let_go(&window);
                return Err(error.unwrap_or(Error::Damaged(self.name)));
            }
        };
        self.arena.replace_window(&old, &window);
        self.arena.reclaim()?;
        Ok(NameMap::of(map, self.arena, window))
    }
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> NameMap<V> {
    /// A map of this name in the arena, made to measure.
    pub fn builder(arena: &BpfArena, name: &str) -> NameMapBuilder<V> {
        NameMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            bytes: None,
            domain: None,
            map: QpShared::builder(),
        }
    }
}

impl<V: Send + Sync + 'static> NameMap<V> {
    fn of(map: QpShared<V>, arena: BpfArena, window: WindowInfo) -> NameMap<V> {
        let window = WindowInfo {
            kind: Kind::Qp,
            ..window
        };
        NameMap { map, arena, window }
    }

    /// Its window: the number is how programs name it.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The arena that it lies in.
    pub fn arena(&self) -> &BpfArena {
        &self.arena
    }
}

impl<V: Send + Sync + 'static> Deref for NameMap<V> {
    type Target = QpShared<V>;

    fn deref(&self) -> &QpShared<V> {
        &self.map
    }
}

impl<V: Send + Sync + 'static> Drop for NameMap<V> {
    fn drop(&mut self) {
        // The memory stays as it is for programs that are running.
        self.arena.close_window(self.window.number);
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for NameMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameMap")
            .field("window", &self.window)
            .field("map", &self.map)
            .finish()
    }
}
