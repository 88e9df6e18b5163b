//! Live maps over byte strings.

use std::ptr::NonNull;

use sapwood::published::{PublishedNames, PublishedValue as LiveValue};
use sapwood::qp::{
    self, AttachedMap, AttachedView, Order, Ordered, PointMap, QpFile, QpStore, QpView, SharedMap,
    Unordered,
};
use sapwood::{Buildable, Builder};
use sapwood_checked::CheckedReader;
use sapwood_qsbr::Domain;

use super::{Base, CheckedMap, Left, LiveMap, Memory, made};
use crate::error::Error;
use crate::raw::window::LiveSource;

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

    // Stores had leaves, as shared maps still do.
    fn earlier_layouts() -> Vec<Vec<u64>> {
        vec![vec![PointMap::<V>::layout_hash()]]
    }

    fn builder() -> Builder<Self> {
        QpStore::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        made(builder.domain(domain), memory)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let file = QpFile::<V>::open_published(&left.parts[0]);
        let file = file.map_err(|error| left.not_restored(0, error.cause))?;
        let arena = memory.arena(0, left.layouts[0])?;
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

/// An order that shared maps in a directory have.
#[doc(hidden)]
pub trait SharedKind: Order {
    /// The number of the kind, and its name in messages.
    const KIND: (u64, &'static str);
}

impl SharedKind for Ordered {
    const KIND: (u64, &'static str) = (2, "shared map");
}

impl SharedKind for Unordered {
    const KIND: (u64, &'static str) = (3, "point map");
}

// SAFETY: the views read by the protocol of `docs/shared.md`, as readers of this process do.
unsafe impl<O, V> LiveMap for SharedMap<O, V>
where
    O: SharedKind,
    V: ?Sized + LiveValue,
    Self: PublishedNames<Value = V> + Buildable<Builder = qp::Builder<Self>>,
{
    type View<'r> = AttachedView<'r, O, V>;
    type Builder = Builder<Self>;
    type Attached = AttachedMap<O, V>;
    const KIND: (u64, &'static str) = <O as SharedKind>::KIND;

    fn layouts() -> Vec<u64> {
        vec![Self::layout_hash()]
    }

    // Shared maps had no dead slots, as those without a trie still have none.
    fn earlier_layouts() -> Vec<Vec<u64>> {
        let before = vec![PointMap::<V>::layout_hash()];
        let is_earlier = before != Self::layouts();
        is_earlier.then_some(before).into_iter().collect()
    }

    fn builder() -> Builder<Self> {
        Self::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        made(builder.domain(domain), memory)
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
        let arena = memory.arena(0, left.layouts[0])?;
        let entries = entries.into_iter().map(Ok::<_, Error>);
        V::restore(builder.domain(domain), arena, entries, true)
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

impl<O, V> NameMap for SharedMap<O, V>
where
    O: SharedKind,
    V: ?Sized + LiveValue,
    Self: PublishedNames<Value = V> + Buildable<Builder = qp::Builder<Self>>,
{
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

impl<O, V> CheckedMap for SharedMap<O, V>
where
    O: SharedKind,
    V: ?Sized + LiveValue,
    Self: PublishedNames<Value = V> + Buildable<Builder = qp::Builder<Self>>,
{
    type Checked<'r> = CheckedReader<&'r LiveSource, V::Read>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedReader::new(&sources[0])
    }
}
