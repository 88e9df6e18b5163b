//! Live tables of routes.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr::NonNull;

use ipnet::IpNet;
use sapwood::Builder;
use sapwood::lpm::{Family, Fib, FibView, IpFib, IpFibView, NextHop, V4, V6};
use sapwood::qp::{AttachedMap, PointMap, Unordered};
use sapwood::route::PackedGroup;
use sapwood_checked::lpm::CheckedFib;
use sapwood_checked::{Bytes, CheckedReader};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Base, CheckedMap, Left, LiveMap, Memory, made};
use crate::checked::{CheckedIp, CheckedRoutes};
use crate::error::Error;
use crate::raw::window::LiveSource;
use crate::routes::{Routes, RoutesBuilder, RoutesView};

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
        made(builder.domain(domain), memory)
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

// SAFETY: as for its parts. A number that a reader finds has its group until a grace period later.
unsafe impl<H: NextHop + FromBytes + IntoBytes + Immutable> LiveMap for Routes<H> {
    type View<'r> = RoutesView<'r, H>;
    type Builder = RoutesBuilder;
    type Attached = ([Base; 2], AttachedMap<Unordered, [u8]>);
    const KIND: (u64, &'static str) = (7, "table of routes with groups");

    fn layouts() -> Vec<u64> {
        // The size and the alignment of a next hop, and the format of groups, which are byte
        // strings.
        let hop = sapwood_format::header::layout_hash(size_of::<H>(), align_of::<H>(), 2);
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
                hops: PhantomData,
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
            hops: PhantomData,
        })
    }
}
