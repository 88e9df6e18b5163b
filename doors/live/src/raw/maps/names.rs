//! Live maps over byte strings.

use std::ptr::NonNull;

use sapwood::Builder;
use sapwood::qp::{
    self, Accepts, AttachedMap, AttachedView, IntoValue, Order, Ordered, QpFile, QpStore, QpView,
    SharedMap, Unordered, Value,
};
use sapwood_arena::Arena;
use sapwood_checked::{Bytes, CheckedReader, CheckedValue};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Base, CheckedMap, Left, LiveMap, Memory};
use crate::error::Error;
use crate::raw::window::LiveSource;

/// A value of a live map over byte strings: plain bytes of a fixed size that is a multiple of 8, or
/// byte strings (`[u8]`). The crate implements it for all such types.
pub trait LiveValue: Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static {
    /// The type that a checked reader returns for such a value.
    type Read: CheckedValue + Send;

    /// The value in what a checked reader returned.
    #[doc(hidden)]
    fn of_read(read: &Self::Read) -> &Self;

    #[doc(hidden)]
    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, Self>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, Self::Read)>,
    ) -> Result<SharedMap<O, Self>, qp::Error>;
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> LiveValue for V {
    type Read = V;

    fn of_read(read: &V) -> &V {
        read
    }

    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, V>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, V)>,
    ) -> Result<SharedMap<O, V>, qp::Error> {
        O::build_from(builder, arena, entries.into_iter())
    }
}

impl LiveValue for [u8] {
    type Read = Bytes;

    fn of_read(read: &Bytes) -> &[u8] {
        &read.0
    }

    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, [u8]>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, Bytes)>,
    ) -> Result<SharedMap<O, [u8]>, qp::Error> {
        let entries = entries.iter().map(|(key, Bytes(value))| (key, &value[..]));
        O::build_from(builder, arena, entries)
    }
}

// SAFETY: a store publishes a version by one store, and a view reads one version.
unsafe impl<V> LiveMap for QpStore<V>
where
    V: ?Sized + LiveValue,
{
    type View<'r> = QpView<'r, V>;
    type Builder = Builder<Self>;
    type Attached = Base;
    const KIND: (u64, &'static str) = (1, "store");

    fn layouts() -> Vec<u64> {
        vec![QpStore::<V>::layout_hash()]
    }

    fn builder() -> Builder<Self> {
        QpStore::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let arena = memory.arena(0, QpStore::<V>::layout_hash())?;
        Ok(builder.domain(domain).build_in(arena)?)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let file = QpFile::<V>::open_published(&left.parts[0]);
        let file = file.map_err(|error| left.not_restored(0, error.cause))?;
        let arena = memory.arena(0, QpStore::<V>::layout_hash())?;
        let store = builder.domain(domain).restore_in(arena, &file);
        store.map_err(|cause| left.not_restored(0, cause))
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Base, String> {
        Ok(Base(bases[0]))
    }

    #[inline]
    unsafe fn view<'r>(attached: &'r Base) -> QpView<'r, V> {
        // SAFETY: the callers' promises.
        unsafe { QpView::of_published(attached.0) }
    }
}

/// What differs between the two kinds of shared maps.
#[doc(hidden)]
pub trait SharedKind: Order {
    const KIND: (u64, &'static str);

    fn build_in<V>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue;

    /// A map of these entries; in a map with an order they come in it.
    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue + Accepts<N>,
        K: AsRef<[u8]>,
        N: IntoValue<V>;
}

impl SharedKind for Ordered {
    const KIND: (u64, &'static str) = (2, "shared map");

    fn build_in<V>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue,
    {
        builder.build_in(arena)
    }

    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue + Accepts<N>,
        K: AsRef<[u8]>,
        N: IntoValue<V>,
    {
        builder.build_sorted_in(arena, entries)
    }
}

impl SharedKind for Unordered {
    const KIND: (u64, &'static str) = (3, "point map");

    fn build_in<V>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue,
    {
        builder.build_in(arena)
    }

    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, qp::Error>
    where
        V: ?Sized + LiveValue + Accepts<N>,
        K: AsRef<[u8]>,
        N: IntoValue<V>,
    {
        let map = builder.build_in(arena)?;
        for (key, value) in entries {
            map.insert(key, value).map_err(|rejected| rejected.error)?;
        }
        Ok(map)
    }
}

// SAFETY: the views read by the protocol of `docs/shared.md`, as readers of this process do.
unsafe impl<O, V> LiveMap for SharedMap<O, V>
where
    O: SharedKind,
    V: ?Sized + LiveValue,
{
    type View<'r> = AttachedView<'r, O, V>;
    type Builder = Builder<Self>;
    type Attached = AttachedMap<O, V>;
    const KIND: (u64, &'static str) = <O as SharedKind>::KIND;

    fn layouts() -> Vec<u64> {
        vec![Self::layout_hash()]
    }

    fn builder() -> Builder<Self> {
        Self::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let arena = memory.arena(0, Self::layout_hash())?;
        Ok(O::build_in(builder.domain(domain), arena)?)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let reader = CheckedReader::<_, V::Read>::new(left.source(0)?)?;
        reader.verify()?;
        let entries = reader.unordered().collect::<Result<Vec<_>, _>>()?;
        let arena = memory.arena(0, Self::layout_hash())?;
        Ok(V::restore(builder.domain(domain), arena, entries)?)
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<AttachedMap<O, V>, String> {
        // SAFETY: the caller's promise.
        Ok(unsafe { AttachedMap::attach(bases[0]) })
    }

    #[inline]
    unsafe fn view<'r>(attached: &'r AttachedMap<O, V>) -> AttachedView<'r, O, V> {
        // SAFETY: the caller's promise.
        unsafe { attached.view() }
    }
}

/// A live map over byte strings that a [`CheckedNames`](crate::CheckedNames) can read.
pub trait NameMap: CheckedMap {
    /// The values of the map.
    type Value: ?Sized + LiveValue;

    #[doc(hidden)]
    fn names(
        checked: Self::Checked<'_>,
    ) -> CheckedReader<&LiveSource, <Self::Value as LiveValue>::Read>;
}

impl<V: ?Sized + LiveValue> NameMap for QpStore<V> {
    type Value = V;

    fn names(checked: Self::Checked<'_>) -> CheckedReader<&LiveSource, V::Read> {
        checked
    }
}

impl<O: SharedKind, V: ?Sized + LiveValue> NameMap for SharedMap<O, V> {
    type Value = V;

    fn names(checked: Self::Checked<'_>) -> CheckedReader<&LiveSource, V::Read> {
        checked
    }
}

impl<V: ?Sized + LiveValue> CheckedMap for QpStore<V> {
    type Checked<'r> = CheckedReader<&'r LiveSource, V::Read>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedReader::new(&sources[0])
    }
}

impl<O: SharedKind, V: ?Sized + LiveValue> CheckedMap for SharedMap<O, V> {
    type Checked<'r> = CheckedReader<&'r LiveSource, V::Read>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedReader::new(&sources[0])
    }
}
