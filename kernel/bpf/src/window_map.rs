//! A map in a window of an arena: this process writes it, and programs read it.

use std::fmt;
use std::ops::Deref;

use sapwood::published::Published;
use sapwood::{Builder, Configure};
use sapwood_arena::Arena;
use sapwood_qsbr::Domain;

use crate::arena::{BpfArena, WindowInfo};
use crate::checked::CheckedValue;
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;
use crate::own_window::OwnWindow;

/// A map in a window of an arena: this process writes it, and BPF programs read it. It has all
/// methods of the map `M`. [`UserMap`](crate::UserMap), [`UserPointMap`](crate::UserPointMap),
/// [`UserRanges`](crate::UserRanges) and [`FibMap`](crate::FibMap) are aliases for it.
///
/// Such a map belongs to the process that made it. When that process dies, programs go on reading
/// what it left. Another process can take over a map over byte strings
/// ([`take_over`](WindowMapBuilder::take_over)).
pub struct WindowMap<M> {
    // Fields are dropped in this order: programs no longer find the window when the map is dropped.
    window: OwnWindow,
    map: M,
}

/// Builds a [`WindowMap`].
pub struct WindowMapBuilder<M: MapInWindow> {
    arena: BpfArena,
    name: String,
    bytes: Option<usize>,
    domain: Option<Domain>,
    pub(crate) map: Builder<M>,
}

/// A map that can lie in a window. This crate implements it for `QpShared`, `PointMap`,
/// `QpStore`, `MapleMap`, `BitFib` and `Fib`.
pub trait MapInWindow: Published {
    /// The kind of a window that holds such a map.
    const KIND: Kind;

    /// The most bytes that such a map can use.
    const BYTES_MAX: usize = usize::MAX;
}

/// A map over byte strings that can lie in a window.
pub trait NamesInWindow: MapInWindow {
    /// The type of the map's values, as a checked reader returns them.
    type Value: CheckedValue;

    /// Builds a map from the entries of another map, which are in ascending order of keys if
    /// `sorted`.
    ///
    /// # Errors
    /// [`Error::Map`], and the first error among the entries.
    fn restore_in(
        builder: Builder<Self>,
        memory: Arena,
        entries: impl Iterator<Item = Result<(Vec<u8>, Self::Value), Error>>,
        sorted: bool,
    ) -> Result<Self, Error>;
}

/// A map in a window whose number of entries can be limited.
pub trait CountedInWindow: MapInWindow {
    /// Limits the number of entries.
    fn max_entries(builder: Builder<Self>, most: usize) -> Builder<Self>;
}

impl<M: CountedInWindow> WindowMapBuilder<M> {
    /// Limits the number of entries.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.map = M::max_entries(self.map, most);
        self
    }
}

impl<M: MapInWindow> WindowMapBuilder<M> {
    /// Sets the bytes of address space, which also limit the map's memory. Default: the largest
    /// free piece of the arena, or the most bytes that such a map can use if that is less.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets the domain, whose grace periods decide when memory is freed. The domain must have the
    /// kernel as a source ([`KernelGrace`](crate::KernelGrace)). Otherwise programs may read freed
    /// memory and get wrong answers, though never a fault. Default: a new domain with the kernel as
    /// a source.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// Builds an empty map.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::Name`], [`Error::NoGrace`], and other errors of the arena or the
    /// domain.
    pub fn build(self) -> Result<WindowMap<M>, Error> {
        self.build_by(|map, memory| Ok(M::build_in(map, memory)?))
    }

    /// Makes a window, and a map in its memory by `build`.
    pub(crate) fn build_by(
        self,
        build: impl FnOnce(Builder<M>, Arena) -> Result<M, Error>,
    ) -> Result<WindowMap<M>, Error> {
        let (domain, bytes) = self.domain_and_bytes()?;
        let (memory, mut window) = self
            .arena
            .make_window(&self.name, bytes, M::layout_hash())?;
        let map = build(self.map.domain(&domain), memory)?;
        window.open(M::KIND);
        Ok(WindowMap { window, map })
    }

    fn domain_and_bytes(&self) -> Result<(Domain, usize), Error> {
        let domain = match &self.domain {
            Some(domain) => domain.clone(),
            None => kernel_domain()?,
        };
        let bytes = self.bytes.unwrap_or_else(|| self.arena.bytes_left());
        Ok((domain, bytes.min(M::BYTES_MAX)))
    }
}

impl<M: NamesInWindow> WindowMapBuilder<M> {
    /// Takes over the map that a dead owner left. This process reads the old map, checks every
    /// word, and builds a new map in another window. One store then publishes the new window under
    /// the same number, so programs find all entries at any time. At last this process waits 4 to
    /// 20 ms for the programs that may still read the old map, and frees its memory.
    ///
    /// The dead owner may have had a [`UserMap`](crate::UserMap), a
    /// [`UserPointMap`](crate::UserPointMap) or a [`UserStore`](crate::UserStore): each kind can be
    /// built from each. From a store, the new map has exactly the last commit.
    ///
    /// An operation that the owner's death interrupted is done or not done. Entries whose insertion
    /// had returned are there. The arena must have room for both maps, because both exist for a
    /// time.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, UserMap};
    /// let arena = BpfArena::open("/sys/fs/bpf/names/arena")?;
    /// let names = UserMap::<u64>::builder(&arena, "blocked").with_index().take_over()?;
    /// names.insert("example.org", 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Owned`] while the owner lives; [`Error::NoWindow`]; [`Error::Value`];
    /// [`Error::Damaged`]: the map then stays as it is, for programs too, and
    /// [`BpfArena::remove_window`] frees its name for another map. Also those of
    /// [`build`](Self::build).
    pub fn take_over(self) -> Result<WindowMap<M>, Error> {
        let old = self.arena.inherit(&self.name, M::KIND)?;
        let reader = self.arena.reader_of::<M::Value>(old.clone())?;
        reader.check_layout(M::layout_hash())?;
        reader.verify()?;
        let (domain, bytes) = self.domain_and_bytes()?;
        let sorted = reader.has_order()?;
        let (memory, mut window) = self.arena.make_successor(&old, bytes, M::layout_hash())?;
        let map = self.map.domain(&domain);
        let map = M::restore_in(map, memory, reader.unordered(), sorted)?;
        window.replace(&old);
        self.arena.reclaim()?;
        Ok(WindowMap { window, map })
    }
}

impl<M: MapInWindow> WindowMap<M> {
    /// A builder of a map with this name in the arena.
    pub fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<M> {
        WindowMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            bytes: None,
            domain: None,
            map: M::builder(),
        }
    }
}

impl<M> WindowMap<M> {
    /// The map's window. Programs refer to the map by the window's number.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// Drops this handle, and leaves the map to programs. This is for a process that is about to
    /// end. Other processes can read the map afterwards, and another owner can
    /// [take it over](WindowMapBuilder::take_over), if it is one over byte strings.
    pub fn leave(self) {
        // The drop would close the window.
        std::mem::forget(self);
    }

    /// The arena that holds the map.
    pub fn arena(&self) -> &BpfArena {
        self.window.arena()
    }
}

impl<M> Deref for WindowMap<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.map
    }
}

impl<M: fmt::Debug> fmt::Debug for WindowMap<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowMap")
            .field("window", self.window())
            .field("map", &self.map)
            .finish()
    }
}
