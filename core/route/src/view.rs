//! Views of a route table.

use core::fmt;
use core::net::IpAddr;

use sapwood_qsbr::Guard;

use super::decision::Decision;
use super::group::Group;
use super::places::{Held, Place};
use ipnet::IpNet;
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
    /// Whether packets whose group is void follow a shorter prefix.
    pub(super) covers: bool,
}

impl<'g, F: Family, H: NextHop> FamilyRoutes<'g, F, H> {
    /// The next hop of a flow to an address. `None` without a prefix, for a null route, and for a
    /// group without a weight, unless the table's [`VoidGroups`](super::VoidGroups) say otherwise;
    /// [`decide`](Self::decide) tells them apart.
    ///
    /// The lookup of the prefix, one place beyond it, and the choice ([`Group::member`]).
    #[inline(always)]
    pub fn lookup(&self, addr: F::Addr, flow: u64) -> Option<&'g H> {
        let held = self.held(addr);
        match held.member(flow) {
            None if self.covers && held.is_void() => self.covering(addr)?.1.member(flow),
            found => found,
        }
    }

    /// What becomes of a packet of a flow to an address: its next hop, or why it has none.
    ///
    /// As [`lookup`](Self::lookup).
    pub fn decide(&self, addr: F::Addr, flow: u64) -> Decision<&'g H> {
        let held = self.held(addr);
        match self.covers && held.is_void() {
            true => match self.covering(addr) {
                Some((_, group)) => group.decide(flow),
                None => Decision::Void,
            },
            false => held.decide(flow),
        }
    }

    /// The prefix that a lookup of an address uses, and its group: the longest one, or where
    /// [`VoidGroups::Cover`](super::VoidGroups) was chosen the longest whose group is not void.
    ///
    /// The lookup of the prefix; with void groups that of all prefixes of the address.
    pub fn route(&self, addr: F::Addr) -> Option<(F::Net, &'g Group<H>)> {
        let (net, place) = self.fib.lookup(addr)?;
        let group = &place.0.get(self.guard).group;
        match self.covers && group.is_void() {
            true => self.covering(addr),
            false => Some((net, group)),
        }
    }

    /// All prefixes of an address with their groups, shortest first.
    ///
    /// The lookup of the prefix, and two loads for each match.
    pub fn matches(
        &self,
        addr: F::Addr,
    ) -> impl ExactSizeIterator<Item = (F::Net, &'g Group<H>)> + DoubleEndedIterator + use<'g, F, H>
    {
        let guard = self.guard;
        let found = self.fib.matches(addr);
        found.map(move |(net, place)| (net, &place.0.get(guard).group))
    }

    /// The longest prefix of an address whose group is not void.
    #[cold]
    fn covering(&self, addr: F::Addr) -> Option<(F::Net, &'g Group<H>)> {
        self.matches(addr).rev().find(|(_, group)| !group.is_void())
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
            let packets = addrs.iter().zip(flows);
            for ((place, (addr, flow)), hop) in places.iter().zip(packets).zip(hops) {
                let held = place.0.get(self.guard);
                let found = match held.member(*flow) {
                    None if self.covers && held.is_void() => self.lookup(*addr, *flow),
                    found => found,
                };
                *hop = found.unwrap_or(default);
            }
        }
    }

    /// The group of the longest prefix of an address, even if it is void.
    ///
    /// The lookup of the prefix, and one load.
    #[inline]
    pub fn group(&self, addr: F::Addr) -> Option<&'g Group<H>> {
        Some(&self.fib.lookup_value(addr)?.0.get(self.guard).group)
    }

    #[inline(always)]
    fn held(&self, addr: F::Addr) -> &'g Held<H> {
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

    /// What becomes of a packet of a flow to an address: its next hop, or why it has none.
    ///
    /// As [`FamilyRoutes::decide`].
    ///
    /// ```
    /// use sapwood::route::{Decision, Group, NullRoute, RouteTable};
    /// let table = RouteTable::new()?;
    /// table.insert("10.0.0.0/8".parse()?, Group::single(1))?;
    /// table.insert("10.9.0.0/16".parse()?, Group::null(NullRoute::Unreachable))?;
    /// table.read(|view| {
    ///     let decide = |addr: [u8; 4]| view.decide(addr.into(), 7);
    ///     assert_eq!(decide([10, 1, 2, 3]), Decision::Hop(&1));
    ///     assert_eq!(decide([10, 9, 2, 3]), Decision::Null(NullRoute::Unreachable));
    ///     assert_eq!(decide([192, 0, 2, 1]), Decision::NoRoute);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide(&self, addr: IpAddr, flow: u64) -> Decision<&'g H> {
        match addr {
            IpAddr::V4(addr) => self.v4.decide(addr, flow),
            IpAddr::V6(addr) => self.v6.decide(addr, flow),
        }
    }

    /// The prefix that a lookup of an address uses, and its group.
    ///
    /// As [`FamilyRoutes::route`].
    pub fn route(&self, addr: IpAddr) -> Option<(IpNet, &'g Group<H>)> {
        match addr {
            IpAddr::V4(addr) => self.v4.route(addr).map(|(net, group)| (net.into(), group)),
            IpAddr::V6(addr) => self.v6.route(addr).map(|(net, group)| (net.into(), group)),
        }
    }

    /// All prefixes of an address with their groups, shortest first.
    ///
    /// As [`FamilyRoutes::matches`].
    ///
    /// ```
    /// use sapwood::route::{Group, RouteTable};
    /// let table = RouteTable::new()?;
    /// table.insert("10.0.0.0/8".parse()?, Group::single(1))?;
    /// table.insert("10.9.0.0/16".parse()?, Group::single(2))?;
    /// table.read(|view| {
    ///     let nets = view.matches([10, 9, 2, 3].into()).map(|(net, _)| net.to_string());
    ///     assert_eq!(nets.collect::<Vec<_>>(), ["10.0.0.0/8", "10.9.0.0/16"]);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matches(
        &self,
        addr: IpAddr,
    ) -> impl DoubleEndedIterator<Item = (IpNet, &'g Group<H>)> + use<'g, H> {
        let (v4, v6) = match addr {
            IpAddr::V4(addr) => (Some(self.v4.matches(addr)), None),
            IpAddr::V6(addr) => (None, Some(self.v6.matches(addr))),
        };
        let v4 = v4
            .into_iter()
            .flatten()
            .map(|(net, group)| (net.into(), group));
        v4.chain(
            v6.into_iter()
                .flatten()
                .map(|(net, group)| (net.into(), group)),
        )
    }

    /// The group of the longest prefix of an address, even if it is void.
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
