//! How structures with readers are made: what all of them can be told.

use core::fmt;

use sapwood_arena::ArenaOptions;
use sapwood_qsbr::Domain;

use crate::memory::MemoryOptions;

/// A structure that a [`Builder`] makes.
pub trait Buildable {
    /// What can be said of this structure and not of others.
    #[doc(hidden)]
    type Choices: Clone + fmt::Debug;
}

/// How a structure is made; its `builder()` begins one, its `build()` ends it.
///
/// All structures with readers can be told how much memory they may take, where it comes from, and
/// whose grace periods they wait for. What only one of them can be told is listed below by
/// structure.
///
/// ```
/// use sapwood::maple::MapleMap;
/// use sapwood::qp::QpStore;
/// use sapwood::qsbr::Domain;
/// // One reader registration serves both; together they hold back 64 MiB of garbage at most.
/// let domain = Domain::builder().hard_limit(64 << 20).build();
/// let names = QpStore::<u64>::builder().domain(&domain).memory_limit(1 << 30).build()?;
/// let ranges = MapleMap::<u64>::builder().domain(&domain).build();
/// # let _ = (names, ranges);
/// # Ok::<(), sapwood::Error>(())
/// ```
#[must_use = "a builder makes nothing before `build`"]
pub struct Builder<M: Buildable> {
    pub(crate) memory: MemoryOptions,
    pub(crate) domain: Option<Domain>,
    pub(crate) choices: M::Choices,
}

impl<M: Buildable> Builder<M> {
    pub(crate) fn begin(memory: MemoryOptions, choices: M::Choices) -> Self {
        Builder {
            memory,
            domain: None,
            choices,
        }
    }

    /// The most bytes of memory: entries, versions, reservations, garbage, free blocks and the
    /// header. A change that needs more is [`ArenaFull`](crate::Error::ArenaFull). It holds
    /// whatever [`options`](Self::options) say. Default: as much as the backing has room for.
    ///
    /// A [`RouteTable`](crate::route::RouteTable) gives as much to the prefixes of each family;
    /// its groups are not counted.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory.limit = Some(bytes);
        self
    }

    /// The arena's options. The backing must be one that does not move; the default reserves 8 GiB
    /// of address space (LPM tables: 1 GiB for each family) and commits memory as it is used.
    ///
    /// Shared maps use small pages by default, so that no insertion waits for long. With
    /// [`huge_pages`](ArenaOptions::huge_pages), lookups in maps larger than the cache are up to a
    /// fifth quicker, and an insertion that touches a new huge page takes 0.2 to 5 ms (a note of
    /// one measurement).
    pub fn options(mut self, options: ArenaOptions) -> Self {
        self.memory.options = options;
        self
    }

    /// The domain whose grace periods the structure waits for; several structures may share one.
    /// Default: its own.
    ///
    /// A change reserves the most garbage that it may leave behind against the domain's
    /// [hard limit](sapwood_qsbr::DomainBuilder::hard_limit); where there is no room it is
    /// [`Error::GarbageLimit`](crate::Error::GarbageLimit), or waits. In an ordered shared map that
    /// is 1.6 KiB and the leaf, for each writer at work. An index grows only where there is room
    /// for the chunk of a table that it gives back, of up to 33 KiB. A change of a range map with
    /// reserved blocks cannot fail: its garbage is asked for when the blocks are reserved.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    pub(crate) fn domain_or_new(&self) -> Domain {
        self.domain.clone().unwrap_or_default()
    }
}

impl<M: Buildable> Clone for Builder<M> {
    fn clone(&self) -> Self {
        Builder {
            memory: self.memory.clone(),
            domain: self.domain.clone(),
            choices: self.choices.clone(),
        }
    }
}

impl<M: Buildable> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("memory", &self.memory)
            .field("domain", &self.domain)
            .field("choices", &self.choices)
            .finish()
    }
}
