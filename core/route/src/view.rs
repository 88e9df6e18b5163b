//! Views of a route table.

use core::fmt;
use core::net::IpAddr;

use sapwood_qsbr::Guard;

use super::group::Group;
use super::places::Place;
use sapwood_lpm::{Family, FibView, NextHop, V4, V6};

/// The table, read under a guard. It stays on its thread.
pub struct RouteView<'g, H: NextHop> {
    pub(super) v4: FamilyRoutes<'g, V4, H>,
    pub(super) v6: FamilyRoutes<'g, V6, H>,
}

/// The routes of one family, read under a guard. The view stays on its thread.
///
/// ```
/// use sapwood::route::{Group, RouteTable};
///
/// let table = RouteTable::new()?;
/// table.insert("10.0.0.0/8".parse()?, Group::new([(1, 1), (2, 1)]))?;
/// table.read(|view| {
///     let routes = view.v4();
///     let packets = [[10, 1, 2, 3].into(), [192, 0, 2, 1].into()];
///     let mut hops = [&0; 2];
///     routes.lookup_batch_or(&packets, &[7, 8], &0, &mut hops);
///     assert_eq!(hops[0], routes.lookup(packets[0], 7).unwrap());
///     assert_eq!(hops[1], &0);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FamilyRoutes<'g, F: Family, H: NextHop> {
    pub(super) fib: FibView<'g, F, Place<H>>,
    pub(super) nowhere: &'g Place<H>,
    pub(super) guard: Guard<'g>,
}

impl<'g, F: Family, H: NextHop> FamilyRoutes<'g, F, H> {
    /// The next hop of a flow to an address.
    ///
    /// The lookup of the prefix, and four loads: slot, group, bucket, member.
    #[inline(always)]
    pub fn lookup(&self, addr: F::Addr, flow: u64) -> Option<&'g H> {
        self.group_or_none(addr).member(flow)
    }

    /// [`lookup`](Self::lookup) of many packets, whose waits for memory overlap. `hops[i]` becomes
    /// the next hop of `flows[i]` to `addrs[i]`, or `default`: a packet path needs a next hop for
    /// such packets, too.
    ///
    /// The sum of the lookups, of which many wait at once.
    ///
    /// # Panics
    ///
    /// When the three slices differ in length.
    pub fn lookup_batch_or(
        &self,
        addrs: &[F::Addr],
        flows: &[u64],
        default: &'g H,
        hops: &mut [&'g H],
    ) {
        assert_eq!(addrs.len(), flows.len(), "a flow for each address");
        assert_eq!(addrs.len(), hops.len(), "a place for each answer");
        const LANES: usize = 32;
        let mut places = [self.nowhere; LANES];
        let packets = addrs.chunks(LANES).zip(flows.chunks(LANES));
        for ((addrs, flows), hops) in packets.zip(hops.chunks_mut(LANES)) {
            let places = &mut places[..addrs.len()];
            self.fib.lookup_batch_or(addrs, self.nowhere, places);
            for ((place, flow), hop) in places.iter().zip(flows).zip(hops) {
                *hop = place.0.get(self.guard).member(*flow).unwrap_or(default);
            }
        }
    }

    /// The group of the longest prefix of an address.
    ///
    /// The lookup of the prefix, and two loads: slot and group.
    #[inline]
    pub fn group(&self, addr: F::Addr) -> Option<&'g Group<H>> {
        Some(self.fib.lookup_value(addr)?.0.get(self.guard))
    }

    #[inline(always)]
    fn group_or_none(&self, addr: F::Addr) -> &'g Group<H> {
        let place = self.fib.lookup_value_or(addr, self.nowhere);
        place.0.get(self.guard)
    }
}

impl<F: Family, H: NextHop> Clone for FamilyRoutes<'_, F, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Family, H: NextHop> Copy for FamilyRoutes<'_, F, H> {}

impl<F: Family, H: NextHop> fmt::Debug for FamilyRoutes<'_, F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FamilyRoutes").finish_non_exhaustive()
    }
}

impl<'g, H: NextHop> RouteView<'g, H> {
    /// The next hop of a flow to an address.
    ///
    /// As [`FamilyRoutes::lookup`].
    #[inline]
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Option<&'g H> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup(addr, flow),
            IpAddr::V6(addr) => self.v6.lookup(addr, flow),
        }
    }

    /// The group of the longest prefix of an address.
    ///
    /// As [`FamilyRoutes::group`].
    #[inline]
    pub fn group(&self, addr: IpAddr) -> Option<&'g Group<H>> {
        match addr {
            IpAddr::V4(addr) => self.v4.group(addr),
            IpAddr::V6(addr) => self.v6.group(addr),
        }
    }

    /// The routes of IPv4 alone: for packet paths that know the family, and for batches.
    ///
    /// O(1).
    #[inline]
    pub fn v4(&self) -> FamilyRoutes<'g, V4, H> {
        self.v4
    }

    /// The routes of IPv6 alone.
    ///
    /// O(1).
    #[inline]
    pub fn v6(&self) -> FamilyRoutes<'g, V6, H> {
        self.v6
    }
}

impl<H: NextHop> Clone for RouteView<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: NextHop> Copy for RouteView<'_, H> {}

impl<H: NextHop> fmt::Debug for RouteView<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteView").finish_non_exhaustive()
    }
}
