//! The builder of all structures with registered readers.

use core::fmt;

use sapwood_arena::ArenaOptions;
use sapwood_qsbr::Domain;

/// A structure that a builder makes.
pub trait Buildable {
    /// The choices that only this structure has.
    #[doc(hidden)]
    type Choices: Clone + fmt::Debug + Send;
    /// The type of its builder.
    type Builder: Configure;
}

/// The builder of a structure.
pub type Builder<M> = <M as Buildable>::Builder;

/// What every builder of a structure with registered readers can choose, for code that is generic
/// over structures. Each builder has these methods itself.
pub trait Configure: Sized {
    /// The most bytes of memory.
    fn memory_limit(self, bytes: usize) -> Self;

    /// The arena's options.
    fn options(self, options: ArenaOptions) -> Self;

    /// The domain whose grace periods the structure waits for.
    fn domain(self, domain: &Domain) -> Self;
}

/// Defines the builder of the structures of a crate. A type of another crate could not get the
/// methods that a structure has by itself.
#[doc(hidden)]
#[macro_export]
macro_rules! builder {
    () => {
        /// A builder of a structure. The structure's `builder()` makes it, and `build()` makes the
        /// structure.
        ///
        /// For all structures with registered readers, a builder chooses how much memory they may
        /// take, where it comes from, and which domain's grace periods they wait for. The choices
        /// of single structures are listed below by structure.
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
        pub struct Builder<M: $crate::Buildable> {
            pub(crate) memory: $crate::raw::memory::MemoryOptions,
            pub(crate) domain: Option<$crate::raw::qsbr::Domain>,
            pub(crate) choices: M::Choices,
        }

        impl<M: $crate::Buildable> Builder<M> {
            pub(crate) fn begin(
                memory: $crate::raw::memory::MemoryOptions,
                choices: M::Choices,
            ) -> Self {
                Self::of_parts((memory, None, choices))
            }

            /// The builder of these choices: for structures that are made of others.
            #[doc(hidden)]
            pub fn of_parts((memory, domain, choices): $crate::raw::Parts<M>) -> Self {
                Builder {
                    memory,
                    domain,
                    choices,
                }
            }

            /// The choices of the builder.
            #[doc(hidden)]
            pub fn into_parts(self) -> $crate::raw::Parts<M> {
                (self.memory, self.domain, self.choices)
            }

            /// The most bytes of memory: entries, versions, reservations, garbage, free blocks and
            /// the header. A change that needs more fails with
            /// [`ArenaFull`]($crate::Error::ArenaFull). The limit holds whatever
            /// [`options`](Self::options) say. Default: as much as the backing has room for.
            ///
            /// A structure with registered readers cannot move its memory. So it reserves address
            /// space, in which pages come as they are used: as much as the limit says, or 64 MiB
            /// without a limit (LPM tables: 4 MiB for each family). A structure without a limit
            /// then grows where it lies, to at most 8 GiB (LPM tables: 1 GiB for each family).
            /// Structures lie far from each other, so that there is room beside them. If another
            /// mapping lies there all the same, a change fails with an error that says so
            /// ([`Lack::Beside`]($crate::raw::arena::Lack)); a limit avoids that. Where the
            /// process's address space is limited (`ulimit -v`), less is reserved at first.
            ///
            /// In an `IpFib` and a `RouteTable`, the limit holds for the prefixes of each family by
            /// itself. The groups of a `RouteTable` are not counted.
            ///
            /// O(1).
            pub fn memory_limit(mut self, bytes: usize) -> Self {
                self.memory.limit = Some(bytes);
                self
            }

            /// The arena's options. The backing must be one that does not move; for the default,
            /// see [`memory_limit`](Self::memory_limit).
            ///
            /// Shared maps use small pages by default, because an insertion that touches a new huge
            /// page takes 0.2 to 5 ms. With
            /// [`huge_pages`]($crate::raw::arena::ArenaOptions::huge_pages), lookups in maps larger
            /// than the cache are up to a fifth quicker (both figures are notes of one
            /// measurement).
            ///
            /// O(1).
            pub fn options(mut self, options: $crate::raw::arena::ArenaOptions) -> Self {
                self.memory.options = options;
                self
            }

            /// The domain whose grace periods the structure waits for; several structures may share
            /// one. Default: its own.
            ///
            /// Before a change, a writer reserves the most garbage that the change may leave
            /// against the domain's [hard limit]($crate::raw::qsbr::DomainBuilder::hard_limit).
            /// When there is no room, the change fails with
            /// [`Error::GarbageLimit`]($crate::Error::GarbageLimit), or waits. In an ordered shared
            /// map it reserves 1.6 KiB and the leaf, for each writer at work. An index grows only
            /// when there is room for the chunk of a table that it gives back, of up to 33 KiB. A
            /// change of a range map with a reservation cannot fail: `reserve` has asked for the
            /// room for its garbage.
            ///
            /// O(1).
            pub fn domain(mut self, domain: &$crate::raw::qsbr::Domain) -> Self {
                self.domain = Some(domain.clone());
                self
            }

            pub(crate) fn domain_or_new(&self) -> $crate::raw::qsbr::Domain {
                self.domain.clone().unwrap_or_default()
            }
        }

        impl<M: $crate::Buildable> Clone for Builder<M> {
            fn clone(&self) -> Self {
                Builder {
                    memory: self.memory.clone(),
                    domain: self.domain.clone(),
                    choices: self.choices.clone(),
                }
            }
        }

        impl<M: $crate::Buildable> core::fmt::Debug for Builder<M> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct("Builder")
                    .field("memory", &self.memory)
                    .field("domain", &self.domain)
                    .field("choices", &self.choices)
                    .finish()
            }
        }

        impl<M: $crate::Buildable> $crate::Configure for Builder<M> {
            fn memory_limit(self, bytes: usize) -> Self {
                Builder::memory_limit(self, bytes)
            }

            fn options(self, options: $crate::raw::arena::ArenaOptions) -> Self {
                Builder::options(self, options)
            }

            fn domain(self, domain: &$crate::raw::qsbr::Domain) -> Self {
                Builder::domain(self, domain)
            }
        }
    };
}
