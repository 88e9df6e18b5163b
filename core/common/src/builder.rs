//! The builder of all structures with registered readers.

use core::fmt;

use sapwood_arena::ArenaOptions;
use sapwood_qsbr::Domain;

use crate::memory::MemoryOptions;

/// A structure that a [`Builder`] makes.
pub trait Buildable {
    /// The choices that only this structure has.
    #[doc(hidden)]
    type Choices: Clone + fmt::Debug;
}

/// A builder of a structure. The structure's `builder()` makes it, and `build()` makes the
/// structure.
///
/// For all structures with registered readers, a builder chooses how much memory they may take,
/// where it comes from, and which domain's grace periods they wait for. The choices of single
/// structures are listed below by structure.
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
    /// header. A change that needs more fails with [`ArenaFull`](crate::Error::ArenaFull). The
    /// limit holds whatever [`options`](Self::options) say. Default: as much as the backing has
    /// room for.
    ///
    /// A structure with registered readers cannot move its memory. So it reserves address space, in
    /// which pages come as they are used: as much as the limit says, or 64 MiB without a limit. A
    /// structure without a limit then grows where it lies, to at most 8 GiB (LPM tables: 1 GiB for
    /// each family). Structures lie far from each other, so that there is room beside them. If
    /// another mapping lies there all the same, a change fails with an error that says so
    /// ([`Lack::Beside`](sapwood_arena::Lack)); a limit avoids that. Where the process's address
    /// space is limited (`ulimit -v`), less is reserved at first.
    ///
    /// In an [`IpFib`](crate::lpm::IpFib) and a [`RouteTable`](crate::route::RouteTable), the limit
    /// holds for the prefixes of each family by itself. The groups of a `RouteTable` are not
    /// counted.
    ///
    /// O(1).
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory.limit = Some(bytes);
        self
    }

    /// The arena's options. The backing must be one that does not move; for the default, see
    /// [`memory_limit`](Self::memory_limit).
    ///
    /// Shared maps use small pages by default, because an insertion that touches a new huge page
    /// takes 0.2 to 5 ms. With [`huge_pages`](ArenaOptions::huge_pages), lookups in maps larger
    /// than the cache are up to a fifth quicker (both figures are notes of one measurement).
    ///
    /// O(1).
    pub fn options(mut self, options: ArenaOptions) -> Self {
        self.memory.options = options;
        self
    }

    /// The domain whose grace periods the structure waits for; several structures may share one.
    /// Default: its own.
    ///
    /// Before a change, a writer reserves the most garbage that the change may leave against the
    /// domain's [hard limit](sapwood_qsbr::DomainBuilder::hard_limit). When there is no room, the
    /// change fails with [`Error::GarbageLimit`](crate::Error::GarbageLimit), or waits. In an
    /// ordered shared map it reserves 1.6 KiB and the leaf, for each writer at work. An index grows
    /// only when there is room for the chunk of a table that it gives back, of up to 33 KiB. A
    /// change of a range map with a [reservation](crate::maple::Reservation) cannot fail: `reserve`
    /// has asked for the room for its garbage.
    ///
    /// O(1).
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
