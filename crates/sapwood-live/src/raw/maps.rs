//! The structures that can be live: how a writer makes and inherits them, and how readers in other
//! processes see them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use ipnet::IpNet;
use sapwood::Builder;
use sapwood::lpm::{Family, Fib, FibView, IpFib, IpFibView, NextHop, V4, V6};
use sapwood::maple::{MapleMap, MaplePublished, MapleView, PlainValue};
use sapwood::qp::{
    Accepts, AttachedMap, AttachedView, IntoValue, Order, Ordered, PointMap, QpFile, QpStore,
    QpView, SharedMap, Unordered, Value,
};
use sapwood::route::PackedGroup;
use sapwood_arena::Arena;
use sapwood_checked::lpm::CheckedFib;
use sapwood_checked::{Bytes, CheckedReader, CheckedValue};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::window::{LiveSource, LiveWindow};
use crate::checked::{CheckedIp, CheckedRanges, CheckedRoutes};
use crate::error::Error;
use crate::routes::{Routes, RoutesBuilder, RoutesView};

/// The memory of the parts of a map, each a file.
#[doc(hidden)]
pub trait Memory {
    /// New memory for a part with this layout.
    ///
    /// # Errors
    /// The system's error.
    fn arena(&mut self, part: usize, layout: u64) -> Result<Arena, Error>;
}

/// The files that a dead writer left.
#[derive(Debug)]
#[doc(hidden)]
pub struct Left {
    pub(crate) folder: PathBuf,
    pub(crate) parts: Vec<PathBuf>,
}

impl Left {
    /// The error for what is damaged in a part.
    fn damaged(&self, part: usize, why: impl std::fmt::Display) -> Error {
        let name = self.parts[part].file_name().unwrap_or_default();
        Error::Damaged {
            path: self.folder.clone(),
            why: format!("{}: {why}", Path::new(name).display()),
        }
    }

    /// A part, to be read with checks. Nobody writes it any more.
    fn source(&self, part: usize) -> Result<LiveSource, Error> {
        let path = &self.parts[part];
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(LiveSource {
            window: LiveWindow::open(path, true)?,
            name: name.into_owned(),
            folder: self.folder.clone(),
            slot: None,
        })
    }
}

/// A structure that one process can write and others can read in place: [`QpStore`],
/// [`QpShared`](sapwood::qp::QpShared), [`PointMap`](sapwood::qp::PointMap),
/// [`Fib`](sapwood::lpm::Fib), [`IpFib`], [`Routes`], [`MapleMap`]. Its values are plain bytes.
///
/// # Safety
/// The reader's half reads what the writer's half publishes, and nothing else; the kind of the
/// structure and the layouts of its parts tell apart what cannot be read as each other.
pub unsafe trait LiveMap: Sized + 'static {
    /// The structure as a [`LiveReader`](crate::LiveReader) shows it.
    type View<'r>: Copy;

    /// The choices that only this structure has; those of [`sapwood::Builder`].
    type Builder: Send;

    /// What a reader keeps of the structure.
    #[doc(hidden)]
    type Attached: Send;

    /// The number of this kind of structure, and its name in messages.
    #[doc(hidden)]
    const KIND: (u64, &'static str);

    /// The layouts of the parts, and of what lies in them.
    #[doc(hidden)]
    fn layouts() -> Vec<u64>;

    /// The number of parts, each with a file of its own.
    #[doc(hidden)]
    fn parts() -> usize {
        Self::layouts().len()
    }

    #[doc(hidden)]
    fn builder() -> Self::Builder;

    /// An empty structure.
    #[doc(hidden)]
    fn create(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error>;

    /// A structure with the entries that a dead writer left, all of which are checked.
    #[doc(hidden)]
    fn inherit(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error>;

    /// # Safety
    /// At each base lies the header page of a published part of such a structure. The memory stays
    /// mapped as long as the result is used, and only the structure's writer changes it.
    /// # Errors
    /// A text that says what is wrong with a header page.
    #[doc(hidden)]
    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Self::Attached, String>;

    /// # Safety
    /// Until the end of `'r`, the writer frees nothing that is in the structure now or later.
    #[doc(hidden)]
    unsafe fn view<'r>(attached: &'r Self::Attached) -> Self::View<'r>;
}

/// A structure that a [`CheckedLiveReader`](crate::CheckedLiveReader) can read.
pub trait CheckedMap: LiveMap {
    /// The structure as such a reader shows it.
    type Checked<'r>;

    #[doc(hidden)]
    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error>;
}

/// A value of a live map over byte strings: plain bytes of a fixed size that is a multiple of 8, or
/// byte strings (`[u8]`). The crate implements it for all such types.
pub trait LiveValue: Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static {
    /// The type that a checked reader returns for such a value.
    type Read: CheckedValue;

    #[doc(hidden)]
    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, Self>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, Self::Read)>,
    ) -> Result<SharedMap<O, Self>, sapwood::Error>;
}

impl<V: FromBytes + IntoBytes + Immutable + Send + Sync + 'static> LiveValue for V {
    type Read = V;

    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, V>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, V)>,
    ) -> Result<SharedMap<O, V>, sapwood::Error> {
        O::build_from(builder, arena, entries.into_iter())
    }
}

impl LiveValue for [u8] {
    type Read = Bytes;

    fn restore<O: SharedKind>(
        builder: Builder<SharedMap<O, [u8]>>,
        arena: Arena,
        entries: Vec<(Vec<u8>, Bytes)>,
    ) -> Result<SharedMap<O, [u8]>, sapwood::Error> {
        let entries = entries.iter().map(|(key, Bytes(value))| (key, &value[..]));
        O::build_from(builder, arena, entries)
    }
}

/// The base of a part, which stays mapped and readable.
#[derive(Debug)]
#[doc(hidden)]
pub struct Base(NonNull<u8>);

// SAFETY: an address. Who follows it is unsafe and promises that the memory is there.
unsafe impl Send for Base {}

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
        let damaged = |why: String| left.damaged(0, why);
        let file = QpFile::<V>::open_published(&left.parts[0]);
        let file = file.map_err(|error| damaged(error.cause.to_string()))?;
        let arena = memory.arena(0, QpStore::<V>::layout_hash())?;
        let store = builder.domain(domain).restore_in(arena, &file);
        store.map_err(|cause| damaged(cause.to_string()))
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
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
    where
        V: ?Sized + LiveValue;

    /// A map of these entries; in a map with an order they come in it.
    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
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
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
    where
        V: ?Sized + LiveValue,
    {
        builder.build_in(arena)
    }

    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
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
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
    where
        V: ?Sized + LiveValue,
    {
        builder.build_in(arena)
    }

    fn build_from<V, K, N>(
        builder: Builder<SharedMap<Self, V>>,
        arena: Arena,
        entries: impl Iterator<Item = (K, N)>,
    ) -> Result<SharedMap<Self, V>, sapwood::Error>
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

// SAFETY: a lookup reads a root word, and then only what does not change.
unsafe impl<F, V> LiveMap for Fib<F, V>
where
    F: Family,
    V: NextHop + FromBytes + IntoBytes + Immutable,
{
    type View<'r> = FibView<'r, F, V>;
    type Builder = Builder<Self>;
    type Attached = Base;
    const KIND: (u64, &'static str) = match F::WIDTH {
        32 => (4, "table of IPv4 routes"),
        _ => (5, "table of IPv6 routes"),
    };

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
        Ok(builder.domain(domain).build_in(arena)?)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        inherit_fib(builder.domain(domain), memory, left, 0)
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Base, String> {
        Ok(Base(bases[0]))
    }

    #[inline]
    unsafe fn view<'r>(attached: &'r Base) -> FibView<'r, F, V> {
        // SAFETY: the callers' promises.
        unsafe { FibView::of_published(attached.0) }
    }
}

// SAFETY: as for `Fib`, for each family.
unsafe impl<V: NextHop + FromBytes + IntoBytes + Immutable> LiveMap for IpFib<V> {
    type View<'r> = IpFibView<'r, V>;
    type Builder = Builder<Self>;
    type Attached = [Base; 2];
    const KIND: (u64, &'static str) = (6, "table of routes");

    fn layouts() -> Vec<u64> {
        vec![Fib::<V4, V>::layout_hash(), Fib::<V6, V>::layout_hash()]
    }

    fn builder() -> Builder<Self> {
        Self::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let (v4, v6) = builder.domain(domain).families();
        let v4 = v4.build_in(memory.arena(0, Fib::<V4, V>::layout_hash())?)?;
        let v6 = v6.build_in(memory.arena(1, Fib::<V6, V>::layout_hash())?)?;
        Ok(IpFib::from_tables(v4, v6))
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let (v4, v6) = builder.domain(domain).families();
        let v4 = inherit_fib(v4, memory, left, 0)?;
        let v6 = inherit_fib(v6, memory, left, 1)?;
        Ok(IpFib::from_tables(v4, v6))
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<[Base; 2], String> {
        Ok([Base(bases[0]), Base(bases[1])])
    }

    #[inline]
    unsafe fn view<'r>([v4, v6]: &'r [Base; 2]) -> IpFibView<'r, V> {
        // SAFETY: the callers' promises.
        unsafe { IpFibView::from_views(FibView::of_published(v4.0), FibView::of_published(v6.0)) }
    }
}

/// A table of one family with the prefixes that a dead writer left in this part.
fn inherit_fib<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable>(
    builder: Builder<Fib<F, V>>,
    memory: &mut dyn Memory,
    left: &Left,
    part: usize,
) -> Result<Fib<F, V>, Error> {
    let table = CheckedFib::<_, V>::new(left.source(part)?)?;
    table.check_layout(Fib::<F, V>::layout_hash())?;
    table.verify()?;
    let net = |prefix: Result<(IpNet, V), Error>| {
        let (net, value) = prefix?;
        let net = F::from_net(net).ok_or_else(|| left.damaged(part, "another family"))?;
        Ok((net, value))
    };
    let prefixes = table.iter().map(net).collect::<Result<Vec<_>, Error>>()?;
    let arena = memory.arena(part, Fib::<F, V>::layout_hash())?;
    Ok(builder.build_from_in(arena, prefixes)?)
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> CheckedMap for Fib<F, V> {
    type Checked<'r> = CheckedFib<&'r LiveSource, V>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedFib::new(&sources[0])
    }
}

impl<V: NextHop + FromBytes + IntoBytes + Immutable> CheckedMap for IpFib<V> {
    type Checked<'r> = CheckedIp<'r, V>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        Ok(CheckedIp {
            v4: CheckedFib::new(&sources[0])?,
            v6: CheckedFib::new(&sources[1])?,
        })
    }
}

// SAFETY: a change of a range map becomes visible by one store, and readers of other processes read
// as those of this process do.
unsafe impl<V: PlainValue> LiveMap for MapleMap<V> {
    type View<'r> = MapleView<'r, V>;
    type Builder = Builder<Self>;
    type Attached = MaplePublished<V>;
    const KIND: (u64, &'static str) = (8, "range map");

    fn layouts() -> Vec<u64> {
        vec![MapleMap::<V>::layout_hash()]
    }

    fn builder() -> Builder<Self> {
        MapleMap::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let arena = memory.arena(0, MapleMap::<V>::layout_hash())?;
        Ok(builder.domain(domain).build_in(arena)?)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let old = left.source(0)?.window;
        let arena = memory.arena(0, MapleMap::<V>::layout_hash())?;
        let map = builder.domain(domain).restore_in(arena, old);
        map.map_err(|cause| left.damaged(0, cause))
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<MaplePublished<V>, String> {
        // SAFETY: the caller's promise.
        unsafe { MaplePublished::new(bases[0]) }.map_err(|cause| cause.to_string())
    }

    #[inline]
    unsafe fn view<'r>(attached: &'r MaplePublished<V>) -> MapleView<'r, V> {
        // SAFETY: the callers' promises.
        unsafe { attached.view() }
    }
}

impl<V: PlainValue> CheckedMap for MapleMap<V> {
    type Checked<'r> = CheckedRanges<'r, V>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedRanges::new(&sources[0])
    }
}

// SAFETY: as for its parts. A number that a reader finds has its group until a grace period later.
unsafe impl<H: NextHop + FromBytes + IntoBytes + Immutable> LiveMap for Routes<H> {
    type View<'r> = RoutesView<'r, H>;
    type Builder = RoutesBuilder;
    type Attached = ([Base; 2], AttachedMap<Unordered, [u8]>);
    const KIND: (u64, &'static str) = (7, "table of routes with groups");

    fn layouts() -> Vec<u64> {
        // The size and the alignment of a next hop: groups are byte strings.
        let hop = sapwood_format::header::layout_hash(size_of::<H>(), align_of::<H>(), 1);
        let mut layouts = IpFib::<u32>::layouts();
        layouts.extend([PointMap::<[u8]>::layout_hash(), hop]);
        layouts
    }

    fn parts() -> usize {
        3
    }

    fn builder() -> RoutesBuilder {
        RoutesBuilder {
            fib: IpFib::builder(),
        }
    }

    fn create(
        builder: RoutesBuilder,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let fib = IpFib::create(builder.fib, domain, memory)?;
        let arena = memory.arena(2, PointMap::<[u8]>::layout_hash())?;
        let groups = PointMap::builder().domain(domain).build_in(arena)?;
        Ok(Routes::new(fib, groups))
    }

    fn inherit(
        builder: RoutesBuilder,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let groups = CheckedReader::<_, Bytes>::new(left.source(2)?)?;
        groups.verify()?;
        let mut all = HashMap::new();
        for entry in groups.unordered() {
            let (key, Bytes(bytes)) = entry?;
            let number = <[u8; 4]>::try_from(&key[..]);
            let number = number.map_err(|_| left.damaged(2, "a key that is no number"))?;
            all.insert(u32::from_be_bytes(number), bytes);
        }
        let no_group = |net: IpNet| left.damaged(2, format_args!("{net} has no group"));
        let mut routes = Vec::new();
        for part in 0..2 {
            let table = CheckedFib::<_, u32>::new(left.source(part)?)?;
            table.verify()?;
            for prefix in table.iter() {
                let (net, number) = prefix?;
                let bytes = all.get(&number).ok_or_else(|| no_group(net))?;
                let group = PackedGroup::<H>::new(bytes).and_then(|packed| packed.to_group());
                routes.push((net, Some(group.ok_or_else(|| no_group(net))?)));
            }
        }
        let table = Self::create(builder, domain, memory)?;
        table.apply(routes)?;
        Ok(table)
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Self::Attached, String> {
        // SAFETY: the caller's promise.
        let groups = unsafe { AttachedMap::attach(bases[2]) };
        Ok(([Base(bases[0]), Base(bases[1])], groups))
    }

    #[inline]
    unsafe fn view<'r>((fib, groups): &'r Self::Attached) -> RoutesView<'r, H> {
        // SAFETY: the callers' promises.
        unsafe {
            RoutesView {
                fib: <IpFib<u32> as LiveMap>::view(fib),
                groups: groups.view(),
                hops: std::marker::PhantomData,
            }
        }
    }
}

impl<H: NextHop + FromBytes + IntoBytes + Immutable> CheckedMap for Routes<H> {
    type Checked<'r> = CheckedRoutes<'r, H>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        Ok(CheckedRoutes {
            fib: IpFib::<u32>::check(&sources[..2])?,
            groups: CheckedReader::new(&sources[2])?,
            hops: std::marker::PhantomData,
        })
    }
}
