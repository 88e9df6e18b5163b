//! A map in a window of an arena: this process writes it, and programs read it.

use std::fmt;
use std::ops::Deref;

use sapwood_arena::Arena;
use sapwood_qsbr::Domain;

use crate::arena::{BpfArena, WindowInfo};
use crate::checked::CheckedValue;
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;
use crate::own_window::OwnWindow;

/// A map that this process writes and BPF programs read, in a window of an arena. It has all
/// methods of the map `M`. [`UserMap`](crate::UserMap), [`UserPointMap`](crate::UserPointMap) and
/// [`FibMap`](crate::FibMap) are this.
///
/// Such a map belongs to the process that made it. When that process dies, programs go on reading
/// what it left. Another process takes maps over byte strings over
/// ([`take_over`](WindowMapBuilder::take_over)).
pub struct WindowMap<M> {
    // Dropped first: no program finds the window when the map goes.
    window: OwnWindow,
    map: M,
}

/// How a [`WindowMap`] is made.
pub struct WindowMapBuilder<M: MapInWindow> {
    arena: BpfArena,
    name: String,
    bytes: Option<usize>,
    domain: Option<Domain>,
    pub(crate) map: M::Builder,
}

/// A map that can lie in a window. This crate implements it for `QpShared`, `PointMap`,
/// `QpStore` and `Fib`.
pub trait MapInWindow: Sized {
    /// How the map itself is made.
    type Builder;

    /// What a window with such a map holds.
    const KIND: Kind;

    /// The most bytes that such a map can use.
    const BYTES_MAX: usize = usize::MAX;

    /// How the map itself is made, with nothing set yet.
    fn builder() -> Self::Builder;

    /// What the header page calls the layout of such a map.
    fn layout_hash() -> u64;

    /// An empty map in this memory.
    ///
    /// # Errors
    /// [`Error::Map`].
    fn build_in(builder: Self::Builder, domain: &Domain, memory: Arena) -> Result<Self, Error>;
}

/// A map over byte strings that can lie in a window.
pub trait NamesInWindow: MapInWindow {
    /// What it holds for a key.
    type Value: CheckedValue;

    /// A map of the entries of another one, which come in ascending order of keys if `sorted`.
    ///
    /// # Errors
    /// [`Error::Map`], and the first error among the entries.
    fn restore_in(
        builder: Self::Builder,
        domain: &Domain,
        memory: Arena,
        entries: impl Iterator<Item = Result<(Vec<u8>, Self::Value), Error>>,
        sorted: bool,
    ) -> Result<Self, Error>;
}

/// A map in a window whose number of entries can be limited.
pub trait CountedInWindow: MapInWindow {
    /// Limits the number of entries.
    fn max_entries(builder: Self::Builder, most: usize) -> Self::Builder;
}

impl<M: CountedInWindow> WindowMapBuilder<M> {
    /// The most entries.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.map = M::max_entries(self.map, most);
        self
    }
}

impl<M: MapInWindow> WindowMapBuilder<M> {
    /// Bytes of address space, which are also the most that the map can take. Default: all that the
    /// arena has left, or as many as such a map can use.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// The domain whose grace periods are waited for. It must have the kernel as a source
    /// ([`KernelGrace`](crate::KernelGrace)), or programs may read what was freed: wrong answers,
    /// though never a fault. Default: a domain of its own, with the kernel.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// An empty map.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::Name`], [`Error::NoGrace`], and others that arena or domain
    /// give.
    pub fn build(self) -> Result<WindowMap<M>, Error> {
        self.build_by(M::build_in)
    }

    /// A map that `build` makes in the memory of a new window.
    pub(crate) fn build_by(
        self,
        build: impl FnOnce(M::Builder, &Domain, Arena) -> Result<M, Error>,
    ) -> Result<WindowMap<M>, Error> {
        let (domain, bytes) = self.domain_and_bytes()?;
        let (memory, mut window) = self
            .arena
            .make_window(&self.name, bytes, M::layout_hash())?;
        let map = build(self.map, &domain, memory)?;
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
    /// Takes over the map that a dead owner left: reads it, checking every word, builds it anew in
    /// another window, and lets programs see that one under the same number, in one store. They
    /// find all entries at any time. Then it waits for the programs that may still read the old
    /// one, and gives its memory back: 4 to 20 ms.
    ///
    /// The dead owner may have had a [`UserMap`](crate::UserMap), a
    /// [`UserPointMap`](crate::UserPointMap) or a [`UserStore`](crate::UserStore): this makes any
    /// of any. Of a store, the last commit is there, whole.
    ///
    /// What the owner was doing when it died is done or not done: entries whose insertion had
    /// returned are there. Both maps are in the arena for a time, so it must have room for them.
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
    /// [`Error::Damaged`]: the map stays as it is, for programs too, and
    /// [`BpfArena::remove_window`] makes way for another of its name. And those of
    /// [`build`](Self::build).
    pub fn take_over(self) -> Result<WindowMap<M>, Error> {
        let old = self.arena.inherit(&self.name, M::KIND)?;
        let reader = self.arena.reader_of::<M::Value>(old.clone())?;
        reader.verify_layout(M::layout_hash())?;
        reader.verify()?;
        let (domain, bytes) = self.domain_and_bytes()?;
        let sorted = reader.has_order()?;
        let (memory, mut window) = self.arena.make_successor(&old, bytes, M::layout_hash())?;
        let map = M::restore_in(self.map, &domain, memory, reader.unordered(), sorted)?;
        window.replace(&old);
        self.arena.reclaim()?;
        Ok(WindowMap { window, map })
    }
}

impl<M: MapInWindow> WindowMap<M> {
    /// A map of this name in the arena, made to measure.
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
    /// Its window: the number is how programs name it.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The arena that it lies in.
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
