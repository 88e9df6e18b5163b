//! Maps over byte strings without order that this process writes and programs read.

use std::fmt;
use std::ops::Deref;

use sapwood::qp::{PointMap, PointMapBuilder, Published};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;

/// A map over byte strings without order in an arena: this process writes it, with all methods of [`PointMap`], and BPF programs look
/// whole keys up (`sapwood/qp.bpf.h`).
///
/// It has only the hash index of a [`NameMap`](crate::NameMap), and no trie: a change takes a fraction of the time, and there is less memory to
/// an entry. What asks for order, of programs (`-EOPNOTSUPP`) and of readers ([`Error::Setting`]), is refused.
///
/// Values are plain bytes, a multiple of 8. Keys of more than 254 bytes may be stored, but no program finds them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, PointNameMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let hosts = PointNameMap::<u64>::builder(&arena, "hosts").build()?;
/// hosts.insert("example.org", 1)?;
/// println!("programs name it {}", hosts.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a map belongs to the process that made it. When that dies, programs go on reading what it left, and another process
/// [takes it over](PointNameMapBuilder::take_over).
pub struct PointNameMap<V: Send + Sync + 'static> {
    map: PointMap<V>,
    arena: BpfArena,
    window: WindowInfo,
}

/// How a [`PointNameMap`] is made.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, PointNameMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let seen = PointNameMap::<u64>::builder(&arena, "seen").bytes(64 << 20).max_entries(100_000).build()?;
/// assert_eq!(seen.max_entries(), Some(100_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PointNameMapBuilder<V> {
    arena: BpfArena,
    name: String,
    bytes: Option<usize>,
    domain: Option<Domain>,
    map: PointMapBuilder<V>,
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> PointNameMapBuilder<V> {
    /// Bytes of address space, which are also the most that the map can take. Default: all that the arena has left.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
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
    pub fn build(self) -> Result<PointNameMap<V>, Error> {
        let domain = match self.domain {
            Some(domain) => domain,
            None => kernel_domain()?,
        };
        let bytes = self.bytes.unwrap_or_else(|| self.arena.bytes_left());
        let hash = Published::layout_hash::<V>();
        let (memory, window) = self.arena.make_window(&self.name, bytes, hash)?;
        let map = self.map.domain(&domain).build_in(memory);
        let map = map.inspect_err(|_| self.arena.let_go(&window))?;
        self.arena.open_window(&window, Kind::Qp);
        Ok(PointNameMap::of(map, self.arena, window))
    }

    /// Takes over the map that a dead owner left, as [`NameMapBuilder::take_over`](crate::NameMapBuilder::take_over) does: reads it, checking every
    /// word, builds it anew in another window, and lets programs see that one under the same number, in one store. It may have been a
    /// [`NameMap`](crate::NameMap) before: then its trie is read, and goes.
    ///
    /// What the owner was doing when it died is done or not done: entries whose insertion had returned are there. Both maps are in the arena
    /// for a time, so it must have room for them.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, PointNameMap};
    /// let arena = BpfArena::open("/sys/fs/bpf/names/arena")?;
    /// let hosts = PointNameMap::<u64>::builder(&arena, "hosts").take_over()?;
    /// hosts.insert("example.org", 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Owned`] while the owner lives; [`Error::NoWindow`]; [`Error::Value`]; [`Error::Damaged`]: the map stays as it is, for
    /// programs too, and [`BpfArena::remove_window`] makes way for another of its name. And those of [`build`](Self::build).
    pub fn take_over(self) -> Result<PointNameMap<V>, Error> {
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
        let fill = || -> Result<PointMap<V>, Error> {
            let map = self.map.domain(&domain).build_in(memory)?;
            for entry in reader.unordered() {
                let (key, value) = entry?;
                map.insert(key, value)
                    .map_err(|rejected| Error::Map(rejected.error))?;
            }
            Ok(map)
        };
        // On an error the region goes first, with the map, then the place.
        let map = fill().inspect_err(|_| self.arena.let_go(&window))?;
        self.arena.replace_window(&old, &window);
        self.arena.reclaim()?;
        Ok(PointNameMap::of(map, self.arena, window))
    }
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> PointNameMap<V> {
    /// A map of this name in the arena, made to measure.
    pub fn builder(arena: &BpfArena, name: &str) -> PointNameMapBuilder<V> {
        PointNameMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            bytes: None,
            domain: None,
            map: PointMap::builder(),
        }
    }
}

impl<V: Send + Sync + 'static> PointNameMap<V> {
    fn of(map: PointMap<V>, arena: BpfArena, window: WindowInfo) -> PointNameMap<V> {
        let window = WindowInfo {
            kind: Kind::Qp,
            ..window
        };
        PointNameMap { map, arena, window }
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

impl<V: Send + Sync + 'static> Deref for PointNameMap<V> {
    type Target = PointMap<V>;

    fn deref(&self) -> &PointMap<V> {
        &self.map
    }
}

impl<V: Send + Sync + 'static> Drop for PointNameMap<V> {
    fn drop(&mut self) {
        // The memory stays as it is for programs that are running.
        self.arena.close_window(self.window.number);
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for PointNameMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointNameMap")
            .field("window", &self.window)
            .field("map", &self.map)
            .finish()
    }
}
