//! Maps over byte strings: this process writes them, and programs read them.

use sapwood::Builder;
use sapwood::lpm::{BitFib, BitString};
use sapwood::published::{PublishedValue as WindowValue, in_order};
use sapwood::qp::{Accepts, IntoValue, PointMap, QpShared, QpStore};
use sapwood_arena::Arena;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::Error;
use crate::layout::Kind;
use crate::window_map::{CountedInWindow, MapInWindow, NamesInWindow, WindowMap, WindowMapBuilder};

/// An ordered map over byte strings in an arena. This process writes it, with all methods of
/// [`QpShared`], and BPF programs look keys up (`sapwood/qp.bpf.h`).
///
/// Values are plain bytes, whose size is a multiple of 8, or byte strings of any length
/// (`UserMap<[u8]>`). Programs copy byte strings with `sw_qp_value`. Programs find keys of up to
/// 4,096 bytes. Longer keys may be stored, but no program finds them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let names = UserMap::<u64>::builder(&arena, "blocked").with_index().build()?;
/// names.insert("example.org", 1)?;
/// println!("programs name it {}", names.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a map belongs to the process that made it. When that process dies, programs go on reading
/// what it left, and another process [takes it over](WindowMapBuilder::take_over).
pub type UserMap<V> = WindowMap<QpShared<V>>;

/// Builds a [`UserMap`].
pub type UserMapBuilder<V> = WindowMapBuilder<QpShared<V>>;

/// An unordered map over byte strings in an arena. This process writes it, with all methods of
/// [`PointMap`], and BPF programs look whole keys up (`sapwood/qp.bpf.h`).
///
/// It has only the hash index of a [`UserMap`], and no trie. A change takes a fraction of the time,
/// and an entry takes less memory. An ordered operation fails: with `-EOPNOTSUPP` in programs, with
/// [`Error::Setting`] in readers.
///
/// Values are those of a [`UserMap`]. Programs find keys of up to 4,096 bytes. Longer keys may be
/// stored, but no program finds them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserPointMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let hosts = UserPointMap::<u64>::builder(&arena, "hosts").build()?;
/// hosts.insert("example.org", 1)?;
/// println!("programs name it {}", hosts.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a map belongs to the process that made it. When that process dies, programs go on reading
/// what it left, and another process [takes it over](WindowMapBuilder::take_over).
pub type UserPointMap<V> = WindowMap<PointMap<V>>;

/// Builds a [`UserPointMap`].
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserPointMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let seen = UserPointMap::<u64>::builder(&arena, "seen");
/// let seen = seen.bytes(64 << 20).max_entries(100_000).build()?;
/// assert_eq!(seen.max_entries(), Some(100_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type UserPointMapBuilder<V> = WindowMapBuilder<PointMap<V>>;

/// A store in an arena. This process changes it in transactions, with all methods of [`QpStore`],
/// and one write publishes each commit to BPF programs (`sapwood/qp.bpf.h`). A program that loads
/// the root once (`sw_qp_root`) reads one version throughout its run.
///
/// Values are those of a [`UserMap`]. Programs find keys of up to 4,096 bytes. Longer keys may be
/// stored, but no program finds them. As in any store, snapshots hold memory back.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserStore};
/// let arena = BpfArena::create(256 << 20)?;
/// let zone = UserStore::<u64>::builder(&arena, "zone").build()?;
/// let mut txn = zone.begin();
/// txn.insert("example.org", 1)?;
/// txn.insert("www.example.org", 2)?;
/// txn.commit();
/// println!("programs name it {}", zone.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a store belongs to the process that made it. When that process dies, programs go on reading
/// the last commit, and another process [takes it over](WindowMapBuilder::take_over).
pub type UserStore<V> = WindowMap<QpStore<V>>;

/// A longest-prefix-match table of bit strings in an arena. A bit string is, for example, an
/// address behind a network number, or an address and a port. This process writes the table, with
/// all methods of [`BitFib`], and BPF programs look bit strings up (`sapwood/bits.bpf.h`). For
/// addresses alone, a [`FibMap`](crate::FibMap) is faster.
///
/// Values are plain bytes, whose size is a multiple of 8. Prefixes of more than 1,016 bits may be
/// stored, but no program finds them.
///
/// ```no_run
/// use sapwood::lpm::BitString;
/// use sapwood_bpf::{BitFibMap, BpfArena};
/// let arena = BpfArena::create(256 << 20)?;
/// let table = BitFibMap::<u64>::builder(&arena, "tenants").build()?;
/// let net: ipnet::Ipv4Net = "10.0.0.0/8".parse()?;
/// table.insert(BitString::from_number(7, 24)?.join(BitString::try_from(net)?)?, 1)?;
/// println!("programs name it {}", table.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One write publishes a commit, and programs see the whole of it. A program that loads the root
/// once (`sw_qp_root`) reads one version throughout its run. When the owner dies, another process
/// [takes the table over](WindowMapBuilder::take_over). It may take over any kind of map whose keys
/// are all keys of prefixes.
pub type BitFibMap<V> = WindowMap<BitFib<V>>;

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> MapInWindow for BitFib<V> {
    const KIND: Kind = Kind::Qp;
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> NamesInWindow for BitFib<V> {
    type Value = V;

    fn restore_in(
        builder: Builder<BitFib<V>>,
        memory: Arena,
        entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
        _: bool,
    ) -> Result<Self, Error> {
        let entries = in_order(entries)?;
        let is_prefix = |key: &[u8]| BitString::from_key(key).is_some();
        if let Some((key, _)) = entries.iter().find(|(key, _)| !is_prefix(key)) {
            let key = key.escape_ascii();
            return Err(Error::Damaged(format!(
                "the key \"{key}\" is not that of a prefix"
            )));
        }
        Ok(builder.build_of_keys_in(memory, entries)?)
    }
}

impl<V: ?Sized + WindowValue> UserMapBuilder<V> {
    /// Adds a hash index beside the trie, for lookups of whole keys.
    pub fn with_index(mut self) -> Self {
        self.map = self.map.with_index();
        self
    }

    /// Builds a map from entries in ascending order of keys. Of equal keys, the last one counts.
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of `Builder::build_sorted`.
    pub fn build_sorted<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<UserMap<V>, Error>
    where
        V: Accepts<N>,
    {
        self.build_by(|map, memory| Ok(map.build_sorted_in(memory, entries)?))
    }
}

/// Implements the traits for a map over byte strings, and for one whose entries can be limited.
macro_rules! in_window {
    ($map:ident) => {
        impl<V: ?Sized + WindowValue> MapInWindow for $map<V> {
            const KIND: Kind = Kind::Qp;
        }

        impl<V: ?Sized + WindowValue> NamesInWindow for $map<V> {
            type Value = V::Read;

            fn restore_in(
                builder: Builder<$map<V>>,
                memory: Arena,
                entries: impl Iterator<Item = Result<(Vec<u8>, V::Read), Error>>,
                sorted: bool,
            ) -> Result<Self, Error> {
                V::restore(builder, memory, entries, sorted)
            }
        }
    };
    (counted $map:ident) => {
        in_window!($map);

        impl<V: ?Sized + WindowValue> CountedInWindow for $map<V> {
            fn max_entries(builder: Builder<$map<V>>, most: usize) -> Builder<$map<V>> {
                builder.max_entries(most)
            }
        }
    };
}

in_window!(QpStore);
in_window!(counted QpShared);
in_window!(counted PointMap);
