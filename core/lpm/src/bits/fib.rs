//! The table itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::code::{self, Key, encode};
use super::string::AsBits;
use super::txn::BitTxn;
use super::view::{BitSnapshot, BitView};
use crate::{Buildable, Builder, Error, OldestSnapshot, Readable, Rejected};
use sapwood_common::reading_methods;
use sapwood_qp::{QpStore, QpStoreMemory, Version};

/// A longest-prefix-match table of bit strings of 0 to 2,048 bits: an address with a port, a
/// network number with an address, a label stack. It has one writer at a time, readers that never
/// wait, and snapshots.
///
/// - A lookup descends once in a [`QpStore`], whose keys have a byte for each four bits, and goes
///   back up along the path to the longest match. It is not for addresses alone: there a
///   [`Fib`](crate::Fib) answers many times as many, and prefix-trie three to ten times as many
///   (`docs/figures.md`).
/// - A lookup works on one version, so it sees all of a commit or nothing. [`insert`](Self::insert)
///   and [`remove`](Self::remove) commit one change each; a [`BitTxn`] publishes any number with
///   one store.
/// - Values are of any type. They lie in the table, one for each prefix.
///
/// Prefixes and queries are [`AsBits`]: a [`BitString`](super::BitString), a
/// [`BitPrefix`](super::BitPrefix), an address. Handles are cheap to clone.
///
/// ```
/// use std::net::Ipv4Addr;
/// use sapwood::lpm::{BitFib, BitString, ipnet::Ipv4Net};
///
/// // Keyed by a network number of 24 bits and an address.
/// let prefix = |network, net: &str| -> Result<BitString, Box<dyn std::error::Error>> {
///     let net: Ipv4Net = net.parse()?;
///     Ok(BitString::from_number(network, 24)?.join(BitString::try_from(net)?)?)
/// };
/// let fib = BitFib::new()?;
/// fib.insert(prefix(7, "0.0.0.0/0")?, "uplink")?;
/// fib.insert(prefix(7, "10.0.0.0/8")?, "inside")?;
/// assert_eq!(fib.insert(prefix(7, "10.0.0.0/8")?, "core")?, Some("inside"));
///
/// let reader = fib.reader("worker")?;
/// let query = BitString::from_number(7, 24)?.join(Ipv4Addr::new(10, 1, 2, 3))?;
/// assert_eq!(reader.view().lookup(&query), Some((32, &"core")));
/// assert_eq!(reader.view().matches(&query).count(), 2);
/// let other = BitString::from_number(8, 24)?.join(Ipv4Addr::new(10, 1, 2, 3))?;
/// assert_eq!(reader.view().lookup(&other), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BitFib<V: Send + Sync + 'static> {
    pub(super) store: QpStore<V>,
}

impl<V: Send + Sync + 'static> Clone for BitFib<V> {
    fn clone(&self) -> Self {
        BitFib {
            store: self.store.clone(),
        }
    }
}

impl<V: Send + Sync + 'static> Buildable for BitFib<V> {
    type Choices = sapwood_qp::parts::StoreChoices;
    type Builder = Builder<Self>;
}

impl<V: Send + Sync + 'static> Builder<BitFib<V>> {
    pub(super) fn store(self) -> sapwood_qp::Builder<QpStore<V>> {
        sapwood_qp::Builder::of_parts(self.into_parts())
    }

    /// An empty table.
    ///
    /// O(1): it reserves address space, in which pages come as they are used.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system does not give the backing.
    ///
    /// # Panics
    /// When the backing moves as it grows.
    pub fn build(self) -> Result<BitFib<V>, Error> {
        let store = self.store().build()?;
        Ok(BitFib { store })
    }

    /// An empty table whose clusters hold their entries: it takes less memory, and lookups are
    /// quicker. Values are plain bytes, which cannot change behind a reference, up to 64 of them;
    /// longer ones get leaves, as in other tables.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::lpm::{BitFib, BitString};
    /// let fib = BitFib::<u32>::builder().build_inline()?;
    /// fib.insert(BitString::from_number(0b101, 3)?, 7)?;
    /// assert_eq!(fib.lookup(BitString::from_number(0b10111, 5)?), Some((3, 7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_inline(self) -> Result<BitFib<V>, Error>
    where
        V: IntoBytes + Immutable,
    {
        let store = self.store().build_inline()?;
        Ok(BitFib { store })
    }

    /// An empty table in an arena that programs in other languages read: a [`QpStore`], whose keys
    /// are those of prefixes ([`BitString::key`](super::BitString::key)). The builder's options are
    /// not used.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is no room for the header.
    ///
    /// # Panics
    /// When the arena moves as it grows, has no header page or is in use, or when a value is not a
    /// multiple of 8 bytes.
    pub fn build_in(self, arena: Arena) -> Result<BitFib<V>, Error>
    where
        V: FromBytes + IntoBytes + Immutable,
    {
        let store = self.store().build_in(arena)?;
        Ok(BitFib { store })
    }

    /// As [`build_in`](Self::build_in), with entries by the keys of their prefixes, ascending.
    #[doc(hidden)]
    pub fn build_of_keys_in<K: AsRef<[u8]>>(
        self,
        arena: Arena,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<BitFib<V>, Error>
    where
        V: FromBytes + IntoBytes + Immutable,
    {
        let entries = entries.into_iter();
        let entries = entries.inspect(|(key, _)| debug_assert!(code::is_key(key.as_ref())));
        let store = self.store().build_sorted_in(arena, entries)?;
        Ok(BitFib { store })
    }

    /// Builds a table of these prefixes, in any order: the quickest way to fill one, and the best
    /// layout for reading it. Of equal prefixes, the last wins.
    ///
    /// O(n log n), as the prefixes are sorted.
    ///
    /// # Errors
    /// [`Error::ArenaFull`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_from<P: AsBits>(
        self,
        prefixes: impl IntoIterator<Item = (P, V)>,
    ) -> Result<BitFib<V>, Error> {
        let store = self.store().build_sorted(sorted(prefixes))?;
        Ok(BitFib { store })
    }

    /// As [`build_from`](Self::build_from), with clusters that hold their entries, as in a table by
    /// [`build_inline`](Self::build_inline).
    ///
    /// O(n log n), as the prefixes are sorted.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use sapwood::lpm::{BitFib, BitString, ipnet::Ipv4Net};
    /// let net: Ipv4Net = "10.0.0.0/8".parse()?;
    /// let routes = [(BitString::try_from(net)?, 7u32)];
    /// let fib = BitFib::builder().build_inline_from(routes)?;
    /// assert_eq!(fib.lookup(Ipv4Addr::new(10, 1, 2, 3)), Some((8, 7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ArenaFull`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_inline_from<P: AsBits>(
        self,
        prefixes: impl IntoIterator<Item = (P, V)>,
    ) -> Result<BitFib<V>, Error>
    where
        V: IntoBytes + Immutable,
    {
        let store = self.store().build_inline_sorted(sorted(prefixes))?;
        Ok(BitFib { store })
    }
}

/// The keys of prefixes with their values, in the order of the keys. Of equal ones, the last stays
/// the last.
fn sorted<P: AsBits, V>(prefixes: impl IntoIterator<Item = (P, V)>) -> Vec<(Key, V)> {
    let mut entries: Vec<(Key, V)> = prefixes
        .into_iter()
        .map(|(prefix, value)| (prefix.with_bits(encode), value))
        .collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

impl<V: Send + Sync + 'static> BitFib<V> {
    /// An empty table with a domain of its own.
    ///
    /// As [`build`](Builder::build).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system gives no address space.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> Builder<Self> {
        Builder::of_parts(QpStore::<V>::builder().into_parts())
    }

    /// Inserts or replaces, as a commit of its own; returns the value that was replaced. A
    /// transaction inserts values that cannot be cloned.
    ///
    /// O(bits of the prefix): the branches on its path are copied.
    ///
    /// # Errors
    /// As [`BitTxn::insert`].
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn insert(&self, prefix: impl AsBits, value: V) -> Result<Option<V>, Rejected<V>>
    where
        V: Clone,
    {
        let mut txn = self.begin();
        let old = txn.insert(prefix, value)?.cloned();
        txn.commit();
        Ok(old)
    }

    /// Removes a prefix, as a commit of its own; returns its value, or `None` when it was not
    /// there.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`BitTxn::remove`].
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn remove(&self, prefix: impl AsBits) -> Result<Option<V>, Error>
    where
        V: Clone,
    {
        let mut txn = self.begin();
        let old = txn.remove(prefix)?.cloned();
        txn.commit();
        Ok(old)
    }

    /// The value of exactly this prefix, cloned. For many reads, take a [`reader`](Self::reader).
    ///
    /// A pin, and O(bits of the prefix).
    pub fn get(&self, prefix: impl AsBits) -> Option<V>
    where
        V: Clone,
    {
        self.read(|view| view.get(prefix).cloned())
    }

    /// The longest stored prefix of `bits`: its length, and its value, cloned. For many reads, take
    /// a [`reader`](Self::reader).
    ///
    /// A pin, and O(number of branches on the path).
    pub fn lookup(&self, bits: impl AsBits) -> Option<(usize, V)>
    where
        V: Clone,
    {
        self.read(|view| view.lookup(bits).map(|(len, value)| (len, value.clone())))
    }

    reading_methods!(BitView<'g, V>);

    /// A snapshot of the newest version.
    ///
    /// O(1).
    pub fn snapshot(&self) -> BitSnapshot<V> {
        BitSnapshot(self.store.snapshot())
    }

    /// The number of snapshots that are alive. Waits for no transaction.
    ///
    /// O(versions that snapshots keep).
    pub fn snapshots(&self) -> usize {
        self.store.snapshots()
    }

    /// The oldest version that snapshots keep, and what it holds back. Waits for no transaction.
    ///
    /// O(1), and a short lock.
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.store.oldest_snapshot()
    }

    /// Begins a transaction. If another thread has one open, this waits for its end.
    ///
    /// O(1), apart from the wait.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn begin(&self) -> BitTxn<'_, V> {
        BitTxn(self.store.begin())
    }

    /// Begins a transaction, unless another is open.
    ///
    /// O(1). It does not wait.
    pub fn try_begin(&self) -> Option<BitTxn<'_, V>> {
        self.store.try_begin().map(BitTxn)
    }

    /// Number of prefixes in the newest version.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there is no prefix.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the newest version.
    ///
    /// O(1).
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// The memory that the table uses. Waits for an open transaction.
    ///
    /// It reads the accounts and walks nothing.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn memory(&self) -> QpStoreMemory {
        self.store.memory()
    }

    /// Frees up to `budget` nodes that no reader and no snapshot can reach any more; returns how
    /// many.
    ///
    /// O(budget), and a look at each reader.
    pub fn reclaim(&self, budget: usize) -> usize {
        self.store.reclaim(budget)
    }

    /// Moves all branches into fresh memory in order, in steps. Readers are not disturbed, and
    /// writers get their turns between the steps.
    ///
    /// O(prefixes).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]: nothing is lost.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn compact(&self) -> Result<(), Error> {
        while self.store.compact_step(1 << 12)? {}
        Ok(())
    }

    /// Walks the newest version and checks every invariant, those of the keys included.
    ///
    /// O(sum of the bits of all prefixes).
    ///
    /// # Errors
    /// A message that says what is wrong.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn verify(&self) -> Result<(), String> {
        self.store.verify()?;
        let snapshot = self.store.snapshot();
        match snapshot.keys().find(|key| !code::is_key(key)) {
            Some(key) => Err(alloc::format!("{key:?} is not the key of a prefix")),
            None => Ok(()),
        }
    }
}

impl<V: Send + Sync + 'static> Readable for BitFib<V> {
    type View<'g> = BitView<'g, V>;

    fn domain(&self) -> &Domain {
        self.store.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> BitView<'g, V> {
        BitView(self.store.view(guard))
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for BitFib<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

impl<P: AsBits, V: Send + Sync + 'static> FromIterator<(P, V)> for BitFib<V> {
    /// # Panics
    /// When there is no memory.
    fn from_iter<I: IntoIterator<Item = (P, V)>>(prefixes: I) -> Self {
        match Self::builder().build_from(prefixes) {
            Ok(fib) => fib,
            Err(error) => panic!("collecting a BitFib: {error}"),
        }
    }
}

impl<P: AsBits, V: Send + Sync + 'static> Extend<(P, V)> for BitFib<V> {
    /// Inserts all prefixes as one commit.
    ///
    /// # Panics
    /// When there is no memory: a transaction returns that as an error. Also as [`BitFib::begin`].
    fn extend<I: IntoIterator<Item = (P, V)>>(&mut self, prefixes: I) {
        let mut txn = self.begin();
        for (prefix, value) in prefixes {
            if let Err(rejected) = txn.insert(prefix, value) {
                panic!("extending a BitFib: {rejected}");
            }
        }
        txn.commit();
    }
}
