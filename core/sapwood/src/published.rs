//! Structures that a process publishes in an arena, for readers in other processes and in the
//! kernel: what live maps and windows of BPF arenas ask of all of them.

use sapwood_arena::Arena;
use sapwood_checked::{Bytes, CheckedValue};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::lpm::{BitFib, Family, Fib, NextHop};
use crate::maple::{MapleMap, PlainValue};
use crate::qp::{self, Accepts, IntoValue, PointMap, QpShared, QpStore, Value};
use crate::{Buildable, Builder, Error};

/// A structure that can be built in an arena which others read.
///
/// ```
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::published::Published;
/// use sapwood::{maple::MapleMap, qp::QpStore};
///
/// /// An empty structure in a memory of its own that others could map.
/// fn empty<M: Published>() -> Result<M, sapwood::Error> {
///     let options = ArenaOptions::default()
///         .backing(Backing::Mmap { reserve: 1 << 20 })
///         .header(HeaderMode::Page)
///         .layout_hash(M::layout_hash());
///     M::build_in(M::builder(), Arena::new(options))
/// }
/// assert_eq!(empty::<QpStore<u64>>()?.len(), 0);
/// assert_eq!(empty::<MapleMap<u64>>()?.len(), 0);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub trait Published: Buildable + Sized {
    /// The structure's builder, with its defaults.
    fn builder() -> Builder<Self>;

    /// The layout hash in the header page of such a structure.
    fn layout_hash() -> u64;

    /// An empty structure in an arena, which is published when this returns.
    ///
    /// O(1).
    ///
    /// # Errors
    /// When the arena has no room for what the header page leads to.
    ///
    /// # Panics
    /// As the `build_in` of the structure's builder.
    fn build_in(builder: Builder<Self>, arena: Arena) -> Result<Self, Error>;
}

macro_rules! published {
    ([$($generics:tt)*] $map:ty, $layout:expr) => {
        impl<$($generics)*> Published for $map {
            fn builder() -> Builder<Self> {
                <$map>::builder()
            }

            fn layout_hash() -> u64 {
                $layout
            }

            fn build_in(builder: Builder<Self>, arena: Arena) -> Result<Self, Error> {
                Ok(builder.build_in(arena)?)
            }
        }
    };
}

published!([V: ?Sized + PublishedValue] QpStore<V>, Self::layout_hash());
published!([V: ?Sized + PublishedValue] QpShared<V>, Self::layout_hash());
published!([V: ?Sized + PublishedValue] PointMap<V>, Self::layout_hash());
published!([V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static] BitFib<V>,
    QpStore::<V>::layout_hash());
published!([F: Family, V: NextHop + FromBytes + IntoBytes + Immutable] Fib<F, V>,
    Self::layout_hash());
published!([V: PlainValue] MapleMap<V>, Self::layout_hash());

/// A value of a published map over byte strings: plain bytes of a fixed size that is a multiple of
/// 8, or byte strings (`[u8]`). All such types implement it.
pub trait PublishedValue:
    Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static
{
    /// The type that a checked reader returns for such a value.
    type Read: CheckedValue + Send;

    /// The value in what a checked reader returned.
    #[doc(hidden)]
    fn of_read(read: &Self::Read) -> &Self;

    /// Builds a map from the entries of another one, which are in ascending order of keys if
    /// `sorted`. Returns the first error among the entries, too.
    #[doc(hidden)]
    fn restore<M: PublishedNames<Value = Self>, E: From<qp::Error>>(
        builder: Builder<M>,
        arena: Arena,
        entries: impl Iterator<Item = Result<(Vec<u8>, Self::Read), E>>,
        sorted: bool,
    ) -> Result<M, E>;
}

/// A published map over byte strings, which a new owner builds anew from its entries.
pub trait PublishedNames: Published {
    /// The values of the map.
    type Value: ?Sized + PublishedValue;

    /// Whether it is built from entries in ascending order of keys.
    const SORTED: bool;

    /// A map of these entries in an arena. They ascend if [`SORTED`](Self::SORTED).
    ///
    /// O(entries).
    ///
    /// # Errors
    /// When the arena has no room.
    fn build_from<K: AsRef<[u8]>, N: IntoValue<Self::Value>>(
        builder: Builder<Self>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<Self, qp::Error>
    where
        Self::Value: Accepts<N>;
}

macro_rules! published_names {
    ($map:ident, $sorted:literal, |$builder:ident, $arena:ident, $entries:ident| $build:expr) => {
        impl<V: ?Sized + PublishedValue> PublishedNames for $map<V> {
            type Value = V;

            const SORTED: bool = $sorted;

            fn build_from<K: AsRef<[u8]>, N: IntoValue<V>>(
                $builder: Builder<Self>,
                $arena: Arena,
                $entries: impl Iterator<Item = (K, N)>,
            ) -> Result<Self, qp::Error>
            where
                V: Accepts<N>,
            {
                $build
            }
        }
    };
}

published_names!(QpStore, true, |builder, arena, entries| {
    builder.build_sorted_in(arena, entries)
});
published_names!(QpShared, true, |builder, arena, entries| {
    builder.build_sorted_in(arena, entries)
});
published_names!(PointMap, false, |builder, arena, entries| {
    let map = builder.build_in(arena)?;
    for (key, value) in entries {
        map.insert(key, value)?;
    }
    Ok(map)
});

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> PublishedValue for V {
    type Read = V;

    fn of_read(read: &V) -> &V {
        read
    }

    fn restore<M: PublishedNames<Value = V>, E: From<qp::Error>>(
        builder: Builder<M>,
        arena: Arena,
        mut entries: impl Iterator<Item = Result<(Vec<u8>, V), E>>,
        sorted: bool,
    ) -> Result<M, E> {
        if M::SORTED && !sorted {
            return Ok(M::build_from(
                builder,
                arena,
                in_order(entries)?.into_iter(),
            )?);
        }
        let mut failed = None;
        let read = entries.by_ref();
        let read = read.map_while(|entry| entry.map_err(|error| failed = Some(error)).ok());
        let map = M::build_from(builder, arena, read);
        match failed {
            Some(error) => Err(error),
            None => Ok(map?),
        }
    }
}

impl PublishedValue for [u8] {
    type Read = Bytes;

    fn of_read(read: &Bytes) -> &[u8] {
        &read.0
    }

    fn restore<M: PublishedNames<Value = [u8]>, E: From<qp::Error>>(
        builder: Builder<M>,
        arena: Arena,
        entries: impl Iterator<Item = Result<(Vec<u8>, Bytes), E>>,
        _: bool,
    ) -> Result<M, E> {
        let entries = in_order(entries)?;
        let entries = entries.iter().map(|(key, Bytes(value))| (key, &value[..]));
        Ok(M::build_from(builder, arena, entries)?)
    }
}

/// All entries in order of their keys, or the first error.
#[doc(hidden)]
pub fn in_order<V, E>(
    entries: impl Iterator<Item = Result<(Vec<u8>, V), E>>,
) -> Result<Vec<(Vec<u8>, V)>, E> {
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}
