//! The table for addresses of one family: its handle, its builder, changes.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;
use core::marker::PhantomData;

use sapwood_arena::{ArenaOptions, Backing};
use sapwood_qsbr::{Domain, Guard};

use super::family::{Family, Key, V4, V6};
use super::memory::FibMemory;
use super::raw::build::Entry;
use super::raw::table::FibShared;
use super::raw::writer::Writer;
use super::snapshot::FibSnapshot;
use super::txn::FibTxn;
use super::view::FibView;
use crate::sync::Mutex;
use crate::{Buildable, Builder, Error, OldestSnapshot, Readable, Rejected};
use sapwood_common::raw::memory::MemoryOptions;
use sapwood_common::reading_methods;
use sapwood_format::lpm::MAX_BYTES;

/// The bounds on a table's values. They are comparable, because equal values are stored once, and
/// cloneable, because others may still read a value that was replaced.
///
/// Every type that meets the bounds implements it. The table calls `Eq`, `Hash` and `Clone` while
/// it holds the writer's lock: if they change the table, they panic.
pub trait NextHop: Clone + Eq + Hash + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> NextHop for T {}

/// A longest-prefix-match table of IPv4 prefixes.
pub type Ipv4Fib<V> = Fib<V4, V>;
/// A longest-prefix-match table of IPv6 prefixes.
pub type Ipv6Fib<V> = Fib<V6, V>;

/// A longest-prefix-match table with one writer at a time and readers that never wait. [`Ipv4Fib`]
/// and [`Ipv6Fib`] are this type for one family each.
///
/// - A [`Reader`](sapwood_common::Reader) (one per thread) gives [`FibView`]s. A lookup loads one
///   root word and reads memory that does not change any more: it takes no lock, retries nothing
///   and writes nothing. Its answer is that of the table before a change or after it.
/// - Every lookup that begins after [`insert`](Self::insert) or [`remove`](Self::remove) has
///   returned sees the change. A [`FibTxn`] collects changes; its commit stores all root words that
///   differ, one after the other. Meanwhile each lookup sees the table before or after, but two
///   lookups of one thread may see one each. The same holds for a change of a prefix that is
///   shorter than the root, which stores several words.
/// - A [`FibSnapshot`] is one whole version: for walks, and for answers that must agree with each
///   other. It copies nothing: the first change of a page of the root after a snapshot does.
///
/// Equal values are stored once and counted. Handles are cheap to clone.
///
/// ```
/// use sapwood::lpm::Ipv4Fib;
///
/// let fib = Ipv4Fib::new()?;
/// fib.insert("10.0.0.0/8".parse()?, "core")?;
/// fib.insert("10.1.2.0/24".parse()?, "lab")?;
///
/// let mut reader = fib.reader("worker")?;
/// let view = reader.view();
/// assert_eq!(view.lookup_value([10, 1, 2, 3].into()), Some(&"lab"));
/// let (net, hop) = view.lookup([10, 9, 9, 9].into()).unwrap();
/// assert_eq!((net.to_string().as_str(), *hop), ("10.0.0.0/8", "core"));
/// assert_eq!(view.lookup([192, 0, 2, 1].into()), None);
/// reader.quiescent();
///
/// assert_eq!(fib.remove("10.1.2.0/24".parse()?)?, Some("lab"));
/// assert_eq!(fib.lookup([10, 1, 2, 3].into()).unwrap().1, "core");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// A lookup passes the root and one node for each 6 bits behind it on the path to the longest
/// prefix. A change copies the nodes on that path and at most 64 nodes below it, and stores one
/// word. A change of a prefix shorter than the root stores `2^(bits - length)` words.
pub struct Fib<F: Family, V: NextHop> {
    shared: Arc<FibShared<V>>,
    family: PhantomData<F>,
}

impl<F: Family, V: NextHop> Clone for Fib<F, V> {
    fn clone(&self) -> Self {
        Fib {
            shared: Arc::clone(&self.shared),
            family: PhantomData,
        }
    }
}

/// The choices that only this kind of table has.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct FibChoices {
    /// Bits of the root; `None` for one that grows.
    pub(super) bits: Option<u8>,
}

/// Bytes of address space that a family of a table reserves at first, unless its memory is limited:
/// a process may have many tables.
const RESERVE: usize = 4 << 20;

impl FibChoices {
    /// The memory and the choices of a builder.
    pub(super) fn defaults() -> (MemoryOptions, FibChoices) {
        let backing = Backing::Growing { reserve: RESERVE };
        let memory = MemoryOptions {
            options: ArenaOptions::default().backing(backing),
            limit: None,
        };
        (memory, FibChoices { bits: None })
    }

    /// # Panics
    /// When a root cannot have this number of bits.
    pub fn new(bits: u8) -> Self {
        assert!(
            matches!(bits, 6 | 12 | 18 | 24),
            "a root has 6, 12, 18 or 24 bits, not {bits}"
        );
        FibChoices { bits: Some(bits) }
    }
}

impl<F: Family, V: NextHop> Buildable for Fib<F, V> {
    type Choices = FibChoices;
    type Builder = Builder<Self>;
}

impl<F: Family, V: NextHop> Builder<Fib<F, V>> {
    /// Bits of an address that the root resolves with one load: 6, 12, 18 (for full tables) or 24.
    /// The root takes `8 << bits` bytes.
    ///
    /// By default the root grows with the table: 6 bits, from 256 prefixes on 12, from 16,384 on
    /// 18. So a process can have many tables. In an arena that others read
    /// ([`build_in`](Self::build_in)) the default is 18.
    ///
    /// O(1).
    ///
    /// # Panics
    /// With any other number.
    pub fn root_bits(mut self, bits: u8) -> Self {
        self.choices = FibChoices::new(bits);
        self
    }

    /// An empty table.
    ///
    /// O(1): it reserves address space for the root, in which pages come as they are used.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system does not give the backing.
    ///
    /// # Panics
    /// When the backing moves as it grows: [`Backing::Auto`](sapwood_arena::Backing), the default
    /// of [`ArenaOptions`], and `Backing::Heap` do.
    pub fn build(self) -> Result<Fib<F, V>, Error> {
        let domain = self.domain_or_new();
        let options = self.memory.stable().limit_to(MAX_BYTES);
        let shared = FibShared::new(options, self.choices.bits, domain, crate::seed::seed())?;
        Ok(Fib::from_shared(shared))
    }

    /// Builds a table of prefixes in any order; of equal prefixes, the last wins. Three to five
    /// times quicker than inserting them one by one.
    ///
    /// O(n log n), as the prefixes are sorted.
    ///
    /// # Errors
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_from(
        self,
        prefixes: impl IntoIterator<Item = (F::Net, V)>,
    ) -> Result<Fib<F, V>, Error> {
        let fib = self.build()?;
        fib.fill(prefixes)?;
        Ok(fib)
    }
}

impl<F: Family, V: NextHop> Fib<F, V> {
    /// An empty table, whose root grows with it: to one that resolves 18 bits and takes 2 MiB, from
    /// 16,384 prefixes on. See [`root_bits`](Builder::root_bits).
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
        let (memory, choices) = FibChoices::defaults();
        Builder::begin(memory, choices)
    }

    /// Held while a transaction of this table and another is published, and while both are kept.
    pub(super) fn commits(&self) -> &Mutex<()> {
        self.shared.commits()
    }

    pub(super) fn from_shared(shared: FibShared<V>) -> Self {
        Fib {
            shared: Arc::new(shared),
            family: PhantomData,
        }
    }

    /// Fills an empty table.
    pub(super) fn fill(
        &self,
        prefixes: impl IntoIterator<Item = (F::Net, V)>,
    ) -> Result<(), Error> {
        let mut dropped = Vec::new();
        let mut writer = self.shared.write();
        let mut entries: Vec<Entry<F::Key>> = Vec::new();
        for (net, value) in prefixes {
            let (key, len) = strict::<F>(net)?;
            let value = self.shared.intern(&mut writer, value, &mut dropped)?;
            entries.push((key, len, value));
        }
        if entries.is_empty() {
            return Ok(());
        }
        // The sort is stable, so that of equal ones the last comes last.
        entries.sort_by_key(|&(key, len, _)| (key, len));
        entries.dedup_by(|later, earlier| {
            let same = (later.0, later.1) == (earlier.0, earlier.1);
            if same {
                earlier.2 = later.2;
            }
            same
        });
        self.shared.build(&mut writer, &entries, &mut dropped)?;
        drop(writer);
        Ok(())
    }

    /// Bits of an address that the root resolves now.
    ///
    /// O(1).
    pub fn root_bits(&self) -> u8 {
        self.shared.bits() as u8
    }

    reading_methods!(FibView<'g, F, V>);

    /// The longest prefix of an address, with a copy of its value. [`FibView`] gives references.
    ///
    /// A pin, and the cost of [`FibView::lookup`]. It needs the feature `std`.
    #[cfg(feature = "std")]
    pub fn lookup(&self, addr: F::Addr) -> Option<(F::Net, V)> {
        self.read(|view| view.lookup(addr).map(|(net, value)| (net, value.clone())))
    }

    /// A copy of the value of exactly this prefix.
    ///
    /// A pin, and one node for each six bits behind the root. It needs the feature `std`.
    #[cfg(feature = "std")]
    pub fn get(&self, net: F::Net) -> Option<V> {
        self.read(|view| view.get(net).cloned())
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts or replaces the value of a prefix; returns the old value. All lookups that begin
    /// afterwards see the change.
    ///
    /// It copies one node for each six bits of the prefix behind the root. A prefix that is shorter
    /// than the root writes all root words that it covers. The insertion with which the root grows
    /// (see [`root_bits`](Builder::root_bits)) makes the table anew, of 256 or 16,384 prefixes.
    ///
    /// ```
    /// use sapwood::lpm::{Error, Ipv4Fib};
    /// let fib = Ipv4Fib::new()?;
    /// assert_eq!(fib.insert("10.0.0.0/8".parse()?, 1)?, None);
    /// assert_eq!(fib.insert("10.0.0.0/8".parse()?, 2)?, Some(1));
    /// let refused_net: ipnet::Ipv4Net = "10.0.0.1/8".parse()?;
    /// let refused = fib.insert(refused_net, 3).unwrap_err();
    /// assert!(matches!(refused.error, Error::HostBitsSet { .. }));
    /// assert_eq!(fib.insert(refused_net.trunc(), 3)?, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::HostBitsSet`] (`net.trunc()` has none), [`Error::ArenaFull`],
    /// [`Error::GarbageLimit`], with the value given back.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn insert(&self, net: F::Net, value: V) -> Result<Option<V>, Rejected<V>> {
        match strict::<F>(net) {
            Ok(at) => self.put(at, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    #[track_caller]
    fn put(&self, at: (F::Key, u8), value: V) -> Result<Option<V>, Rejected<V>> {
        // Dropped after the writer's lock is released: a value's `drop` may use the table.
        let mut dropped = Vec::new();
        self.shared.prefetch(at.0);
        let mut writer = self.shared.write();
        match self.shared.put(&mut writer, at, value, &mut dropped) {
            Ok(old) => Ok(self.finish(&mut writer, old, &mut dropped)),
            Err((value, error)) => Err(Rejected { value, error }),
        }
    }

    fn finish(&self, writer: &mut Writer<V>, old: Option<u32>, dropped: &mut Vec<V>) -> Option<V> {
        let old = old.map(|block| self.shared.value_of(writer, block).clone());
        self.shared.tidy(writer, dropped);
        old
    }

    /// Removes a prefix; returns its value, or `None` when it was not there. All lookups that begin
    /// afterwards see the change. Bits behind the prefix's length are taken as zeros.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] (the path to the prefix is copied), [`Error::GarbageLimit`].
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn remove(&self, net: F::Net) -> Result<Option<V>, Error> {
        let mut dropped = Vec::new();
        let at = truncated::<F>(net);
        self.shared.prefetch(at.0);
        let mut writer = self.shared.write();
        let old = self.shared.take(&mut writer, at, &mut dropped)?;
        Ok(self.finish(&mut writer, old, &mut dropped))
    }

    /// Begins a transaction. If another thread has one open, this waits for its end.
    ///
    /// O(1), apart from the wait.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn begin(&self) -> FibTxn<'_, F, V> {
        FibTxn::new(&self.shared, self.shared.write())
    }

    /// Begins a transaction, unless another is open.
    ///
    /// O(1). It does not wait.
    pub fn try_begin(&self) -> Option<FibTxn<'_, F, V>> {
        Some(FibTxn::new(&self.shared, self.shared.try_write()?))
    }

    /// A snapshot of the newest version. Making it takes a lock for a short time; the first one of
    /// a table also takes 16 bytes for each 512 words of the root. Reading it takes no lock.
    ///
    /// What later changes replace is kept in the table's memory as long as the snapshot is: pages
    /// of the root, nodes and values. It counts against the limit of memory and the domain's limits
    /// of garbage, at which changes fail.
    pub fn snapshot(&self) -> FibSnapshot<F, V> {
        FibSnapshot::new(self.shared.keep())
    }

    /// The number of snapshots that are alive. Waits for no transaction.
    ///
    /// O(versions that snapshots keep).
    pub fn snapshots(&self) -> usize {
        self.shared.versions().snapshots()
    }

    /// The oldest version that snapshots keep, and how much garbage it holds back. The newest 64
    /// blocks may not be counted yet, as the domain does not know of them. This waits for no
    /// transaction: a monitor can call it while a writer is blocked at the hard limit of garbage.
    ///
    /// O(1), and a short lock.
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.shared.versions().oldest()
    }

    /// The number of the newest version. Each published change increases it by one.
    ///
    /// O(1).
    pub fn version(&self) -> u64 {
        self.shared.version()
    }

    /// Frees up to `budget` blocks that no reader and no snapshot can reach any more; returns how
    /// many.
    ///
    /// O(budget), and a look at each reader.
    ///
    /// Changes free some blocks as well; call this in an idle loop, or after a stall. It drops
    /// values on the calling thread. It returns 0 when a transaction is open. The call that frees
    /// the last block of an empty table gives all memory back to the system.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut dropped = Vec::new();
        let Some(mut writer) = self.shared.try_write() else {
            return 0;
        };
        self.shared.reclaim(&mut writer, budget, &mut dropped)
    }

    /// Copies all nodes into fresh memory in the order of addresses, which makes lookups quicker
    /// after many changes. It works in steps: readers are not disturbed, and writers wait for a
    /// step at most.
    ///
    /// O(nodes).
    ///
    /// # Errors
    /// As [`compact_step`](Self::compact_step).
    ///
    /// # Panics
    /// As [`compact_step`](Self::compact_step).
    #[track_caller]
    pub fn compact(&self) -> Result<(), Error> {
        while self.compact_step(1 << 12)? {}
        Ok(())
    }

    /// A step of [`compact`](Self::compact): moves the nodes below up to `budget` words of the
    /// root. Returns whether there is more to do. When there is no more, the next call begins anew.
    ///
    /// O(nodes below `budget` words of the root). It passes up to 64 times as many words without
    /// nodes. A step gives at most 512 KiB back to the system.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]: nothing is lost, and the next call
    /// continues.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        let mut dropped = Vec::new();
        let mut writer = self.shared.write();
        self.shared.compact_step(&mut writer, budget, &mut dropped)
    }

    /// The memory that the table uses. Waits for an open transaction;
    /// [`snapshots`](Self::snapshots) and [`oldest_snapshot`](Self::oldest_snapshot) do not.
    ///
    /// It reads the accounts and walks nothing.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn memory(&self) -> FibMemory {
        let writer = self.shared.write();
        FibMemory::new(&writer, &self.shared)
    }

    /// Walks the newest version and checks every invariant, and compares the accounts with what the
    /// walk found. Waits for an open transaction.
    ///
    /// O(size of the root + nodes).
    ///
    /// # Errors
    /// A message that says what is wrong.
    ///
    /// # Panics
    /// When this thread has a transaction of the table open: it would wait for itself.
    #[track_caller]
    pub fn verify(&self) -> Result<(), String> {
        let writer = self.shared.write();
        self.shared.verify(&writer, u32::from(F::WIDTH))
    }
}

impl<F: Family, V: NextHop> Readable for Fib<F, V> {
    type View<'g> = FibView<'g, F, V>;

    fn domain(&self) -> &Domain {
        self.shared.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> FibView<'g, F, V> {
        FibView::new(self.shared.view(guard), self.shared.published_len())
    }
}

/// Bits and length of a prefix without host bits.
pub(super) fn strict<F: Family>(net: F::Net) -> Result<(F::Key, u8), Error> {
    let at = F::parts(net);
    if truncated::<F>(net) != at {
        return Err(Error::HostBitsSet { prefix: net.into() });
    }
    Ok(at)
}

/// Bits and length of a prefix, host bits cut off.
pub(super) fn truncated<F: Family>(net: F::Net) -> (F::Key, u8) {
    let (key, len) = F::parts(net);
    (key.first(u32::from(len)), len)
}

impl<F: Family, V: NextHop> FromIterator<(F::Net, V)> for Fib<F, V> {
    /// # Panics
    /// When a prefix has host bits set, or there is no memory; [`Builder::build_from`] returns
    /// these as errors.
    fn from_iter<I: IntoIterator<Item = (F::Net, V)>>(prefixes: I) -> Self {
        match Self::builder().build_from(prefixes) {
            Ok(fib) => fib,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<F: Family, V: NextHop> Extend<(F::Net, V)> for Fib<F, V> {
    /// Inserts all prefixes in one transaction.
    ///
    /// # Panics
    /// When a prefix has host bits set, or there is no memory: the table is as it was, and a
    /// transaction returns these as errors. Also as [`Fib::begin`].
    fn extend<I: IntoIterator<Item = (F::Net, V)>>(&mut self, prefixes: I) {
        let mut txn = self.begin();
        for (net, value) in prefixes {
            if let Err(rejected) = txn.insert(net, value) {
                panic!("{rejected}");
            }
        }
        txn.commit();
    }
}

impl<F: Family, V: NextHop + fmt::Debug> fmt::Debug for Fib<F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}
