//! Tables in arenas that programs in other languages read.

use sapwood_arena::{Arena, HeaderMode};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::family::Family;
use super::fib::{Fib, NextHop};
use super::raw::table::FibShared;
use crate::seed::seed;
use crate::{Builder, Error};
use sapwood_format::lpm::{MAX_BYTES, header};

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> Fib<F, V> {
    /// The layout hash in the header page of a published table of this family with values of this
    /// type: see [`Builder::build_in`].
    pub fn layout_hash() -> u64 {
        header::layout_hash(F::WIDTH, size_of::<V>(), align_of::<V>())
    }
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> Builder<Fib<F, V>> {
    /// An empty table in an arena that programs in other languages read. The arena's header page
    /// says where the root is (`sapwood_format::lpm::header`). The builder's options are not used.
    /// `docs/lpm.md` and these numbers suffice to write another reader.
    ///
    /// O(size of the root).
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::lpm::Ipv4Fib;
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::Mmap { reserve: 1 << 20 })
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(Ipv4Fib::<u32>::layout_hash());
    /// let fib = Ipv4Fib::builder().root_bits(12).build_in(Arena::create(options)?)?;
    /// fib.insert("10.0.0.0/8".parse()?, 7u32)?;
    /// assert_eq!(fib.lookup([10, 1, 2, 3].into()).unwrap().1, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Other readers take part in the domain's grace periods as a
    /// [`GraceSource`](sapwood_qsbr::GraceSource). A reader that does not must check every
    /// reference before it follows it.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the root.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use.
    pub fn build_in(self, mut arena: Arena) -> Result<Fib<F, V>, Error> {
        const {
            assert!(
                size_of::<V>() % 4 == 0 && align_of::<V>() <= 8,
                "the size of a published value must be a multiple of 4 bytes"
            )
        };
        assert!(
            arena.is_stable(),
            "{}",
            sapwood_common::raw::memory::NEEDS_STABLE
        );
        let has_page = arena.options().header_mode() == HeaderMode::Page;
        assert!(has_page, "others find the table by its header page");
        assert!(arena.memory().live == 0, "the arena is the table's alone");
        arena.limit_to(MAX_BYTES);
        let roots = arena.roots_at();
        let domain = self.domain_or_new();
        // What the header says of the root does not change.
        let bits = self.choices.bits.unwrap_or(18).into();
        let mut shared = FibShared::new_in(arena, bits, domain, seed())?;
        shared.publish_at(size_of::<V>() as u64, F::WIDTH.into(), roots);
        Ok(Fib::from_shared(shared))
    }

    /// As [`build_in`](Self::build_in), with prefixes in any order; of equal ones, the last wins.
    ///
    /// # Errors
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`].
    ///
    /// # Panics
    /// As [`build_in`](Self::build_in).
    pub fn build_from_in(
        self,
        arena: Arena,
        prefixes: impl IntoIterator<Item = (F::Net, V)>,
    ) -> Result<Fib<F, V>, Error> {
        let fib = self.build_in(arena)?;
        fib.fill(prefixes)?;
        Ok(fib)
    }
}
