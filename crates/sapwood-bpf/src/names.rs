//! Maps over byte strings that this process writes and programs read.

use sapwood::Builder;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_arena::Arena;
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::Error;
use crate::layout::Kind;
use crate::window_map::{CountedInWindow, MapInWindow, NamesInWindow, WindowMap, WindowMapBuilder};

/// An ordered map over byte strings in an arena: this process writes it, with all methods of
/// [`QpShared`], and BPF programs look names up (`sapwood/qp.bpf.h`).
///
/// Values are plain bytes, a multiple of 8. Keys of more than 254 bytes may be stored, but no
/// program finds them.
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

/// How a [`UserMap`] is made.
pub type UserMapBuilder<V> = WindowMapBuilder<QpShared<V>>;

/// A map over byte strings without order in an arena: this process writes it, with all methods of
/// [`PointMap`], and BPF programs look whole keys up (`sapwood/qp.bpf.h`).
///
/// It has only the hash index of a [`UserMap`], and no trie: a change takes a fraction of the time,
/// and an entry takes less memory. Programs (`-EOPNOTSUPP`) and readers ([`Error::Setting`]) that
/// ask for order are refused.
///
/// Values are plain bytes, a multiple of 8. Keys of more than 254 bytes may be stored, but no
/// program finds them.
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

/// How a [`UserPointMap`] is made.
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

/// A store in an arena: this process changes it in transactions, with all methods of [`QpStore`],
/// and BPF programs see each commit at once, in one store (`sapwood/qp.bpf.h`). A program that
/// takes the root once (`sw_qp_root`) reads one version throughout its run.
///
/// Values are plain bytes, a multiple of 8. Keys of more than 254 bytes may be stored, but no
/// program finds them. Snapshots hold back memory as in any store.
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

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> UserMapBuilder<V> {
    /// Keeps a hash index beside the trie, for lookups of whole keys.
    pub fn with_index(mut self) -> Self {
        self.map = self.map.with_index();
        self
    }

    /// A map of entries in ascending order of keys. Of equal keys, the last wins.
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of [`Builder::build_sorted`].
    pub fn build_sorted<K: AsRef<[u8]>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<UserMap<V>, Error> {
        self.build_by(|map, domain, memory| {
            Ok(map.domain(domain).build_sorted_in(memory, entries)?)
        })
    }
}

/// The two traits for a map over byte strings. `$restore` makes one of the entries of another map.
macro_rules! in_window {
    ($map:ident, $restore:ident) => {
        impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> MapInWindow for $map<V> {
            type Builder = Builder<$map<V>>;

            const KIND: Kind = Kind::Qp;

            fn builder() -> Builder<$map<V>> {
                $map::builder()
            }

            fn layout_hash() -> u64 {
                QpShared::<V>::layout_hash()
            }

            fn build_in(
                builder: Builder<$map<V>>,
                domain: &Domain,
                memory: Arena,
            ) -> Result<Self, Error> {
                Ok(builder.domain(domain).build_in(memory)?)
            }
        }

        impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> NamesInWindow
            for $map<V>
        {
            type Value = V;

            fn restore_in(
                builder: Builder<$map<V>>,
                domain: &Domain,
                memory: Arena,
                entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
                sorted: bool,
            ) -> Result<Self, Error> {
                $restore(builder.domain(domain), memory, entries, sorted)
            }
        }
    };
}

in_window!(QpShared, restore_names);
in_window!(PointMap, restore_points);
in_window!(QpStore, restore_store);

macro_rules! counted_in_window {
    ($map:ident) => {
        impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> CountedInWindow
            for $map<V>
        {
            fn max_entries(builder: Builder<$map<V>>, most: usize) -> Builder<$map<V>> {
                builder.max_entries(most)
            }
        }
    };
}

counted_in_window!(QpShared);
counted_in_window!(PointMap);

/// Entries in ascending order until the first that cannot be read; then a map of them, if there is
/// no such entry.
fn restored<V, M>(
    entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
    sorted: bool,
    build: impl FnOnce(&mut dyn Iterator<Item = (Vec<u8>, V)>) -> Result<M, sapwood::Error>,
) -> Result<M, Error> {
    let mut failed = None;
    let mut entries = entries.map_while(|entry| entry.map_err(|error| failed = Some(error)).ok());
    let map = match sorted {
        true => build(&mut entries),
        false => {
            let mut entries: Vec<_> = entries.collect();
            entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            build(&mut entries.into_iter())
        }
    };
    match failed {
        Some(error) => Err(error),
        None => Ok(map?),
    }
}

fn restore_store<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static>(
    builder: Builder<QpStore<V>>,
    memory: Arena,
    entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
    sorted: bool,
) -> Result<QpStore<V>, Error> {
    restored(entries, sorted, |entries| {
        builder.build_sorted_in(memory, entries)
    })
}

fn restore_names<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static>(
    builder: Builder<QpShared<V>>,
    memory: Arena,
    entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
    sorted: bool,
) -> Result<QpShared<V>, Error> {
    restored(entries, sorted, |entries| {
        builder.build_sorted_in(memory, entries)
    })
}

fn restore_points<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static>(
    builder: Builder<PointMap<V>>,
    memory: Arena,
    entries: impl Iterator<Item = Result<(Vec<u8>, V), Error>>,
    _: bool,
) -> Result<PointMap<V>, Error> {
    let map = builder.build_in(memory)?;
    for entry in entries {
        let (key, value) = entry?;
        map.insert(key, value)
            .map_err(|rejected| Error::Map(rejected.error))?;
    }
    Ok(map)
}
