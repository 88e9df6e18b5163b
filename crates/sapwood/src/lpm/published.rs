//! A table that programs in other languages read where it lies.

use core::fmt;

use sapwood_arena::{Arena, HeaderMode};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::family::Family;
use super::fib::{Fib, FibBuilder, NextHop};
use super::raw::format::{LEN_WORD, MAX_BYTES, ROOT_PREFIXES_WORD, ROOT_WORD, published_layout};
use super::raw::table::FibShared;
use crate::Error;
use crate::seed::seed;

/// Where others find a published table: the words of the arena's header page. A second
/// implementation is written from `docs/lpm.md` and these numbers.
///
/// ```
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::lpm::{Ipv4Fib, Published, V4};
/// let options = ArenaOptions::default()
///     .backing(Backing::Mmap { reserve: 1 << 20 })
///     .header(HeaderMode::Page)
///     .layout_hash(Published::layout_hash::<V4, u32>());
/// let fib = Ipv4Fib::builder().root_bits(12).build_in(Arena::create(options)?)?;
/// fib.insert("10.0.0.0/8".parse()?, 7u32)?;
/// assert_eq!(fib.lookup([10, 1, 2, 3].into()).unwrap().1, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Published(());

impl Published {
    /// Root word: bytes of a value, a multiple of 4.
    pub const VALUE_BYTES: usize = 0;
    /// Root word: bits of an address, 32 or 128.
    pub const WIDTH: usize = 1;
    /// Root word: the reference of the block of root words; in its upper half, how many bits of an
    /// address it resolves. Both never change.
    pub const ROOT: usize = ROOT_WORD;
    /// Root word: the first block of root prefixes (in C, a shelf), 0 for none.
    pub const SHELF: usize = ROOT_PREFIXES_WORD;
    /// Root word: how many prefixes there are.
    pub const LEN: usize = LEN_WORD;
    /// The most bytes of a table: references have 27 bits.
    pub const BYTES_MAX: usize = MAX_BYTES;

    /// Numbers of the layouts of root words, nodes and blocks of root prefixes that others are
    /// compiled with: names as in `docs/lpm.md`, in capitals, and values.
    pub fn layout() -> impl Iterator<Item = (&'static str, u64)> {
        published_layout().into_iter()
    }

    /// What the header calls the layout of a table of this family with values of this type.
    pub fn layout_hash<F: Family, V>() -> u64 {
        const FORMAT: u64 = 1;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let words = [
            F::WIDTH.into(),
            size_of::<V>() as u64,
            align_of::<V>() as u64,
            FORMAT,
        ];
        for byte in b"sapwood lpm".iter().copied().map(u64::from).chain(words) {
            hash = (hash ^ byte).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Published")
    }
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> FibBuilder<F, V> {
    /// An empty table in an arena that others read: its header page says where the root is
    /// ([`Published`]). The options given to the builder are not used.
    ///
    /// Others read as `docs/lpm.md` says: they need a part in the domain's grace periods, as a
    /// [`GraceSource`](sapwood_qsbr::GraceSource), or else must take every reference as hostile.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the root.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use, or when a value is not a
    /// multiple of 4 bytes.
    pub fn build_in(self, mut arena: Arena) -> Result<Fib<F, V>, Error> {
        const {
            assert!(
                size_of::<V>() % 4 == 0 && align_of::<V>() <= 8,
                "published values are whole words"
            )
        };
        assert!(arena.is_stable(), "{}", crate::memory::NEEDS_STABLE);
        let has_page = arena.options().header_mode() == HeaderMode::Page;
        assert!(has_page, "others find the table by its header page");
        assert!(arena.memory().live == 0, "the arena is the table's alone");
        arena.limit_to(MAX_BYTES);
        let roots = arena.roots_at();
        let domain = self.domain.unwrap_or_default();
        let mut shared = FibShared::new_in(arena, self.bits.into(), domain, seed())?;
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
