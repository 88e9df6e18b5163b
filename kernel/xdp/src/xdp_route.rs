//! The program `xdp-route`, which forwards packets as the kernel would, but before they reach the
//! kernel's network stack.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags};
use sapwood::route::Vlan;
use sapwood_bpf::layout::route::{
    MODE_CACHE, MODE_RESOLVER, MODE_TABLE, ROUTE_MTUS, RouteVerdict, VLANS,
};
use sapwood_bpf::{BpfArena, Error, HopTables, Loader, ProgramRouteCache, Programs};

use crate::counts::PacketCounts;
use crate::xdp::{XdpLink, XdpLinks, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-route.bpf.o"));

/// The program's name in its object.
const PROGRAM: &str = "sw_xdp_route";

/// The name of the program that passes all packets.
const PASS: &str = "sw_xdp_pass";

/// The name of the map in which it counts.
const COUNTS: &str = "sw_xdp_counts";

/// The name of the map of VLANs.
const VLAN_MAP: &str = "sw_xdp_vlans";

/// The names of the map of routes with an MTU, and of that of the least such MTU.
const MTU_MAP: &str = "sw_xdp_mtus";
const LEAST_MTU_MAP: &str = "sw_xdp_least_mtu";

/// The source of the program's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteMode {
    /// The kernel's table, for every packet (`bpf_fib_lookup`).
    Resolver,
    /// The route cache, and the kernel's table for flows that are not in the cache.
    Cache,
    /// Tables that mirror the kernel's.
    Table,
}

impl fmt::Display for RouteMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RouteMode::Resolver => "resolver",
            RouteMode::Cache => "cache",
            RouteMode::Table => "table",
        })
    }
}

/// The number of packets for each verdict of `xdp-route`.
pub type RouteCounts = PacketCounts<RouteVerdict>;

/// Forwards IPv4 and IPv6 packets on network interfaces to the next hops that the kernel would
/// choose.
///
/// Next hops are the kernel's (`bpf_fib_lookup`: rules, several tables, several paths to one
/// destination, neighbours). With a route cache, the program uses an answer for its destination and
/// flow while the answer is fresh. A change of the kernel's routes or neighbours takes effect
/// within that time, or at once after [`ProgramRouteCache::invalidate_all`].
///
/// With tables ([`HopTables`]), the program asks neither. `RouteMirror` of `sapwood-routes` keeps
/// them as the kernel's: a change takes effect when the mirror has received it, after about a
/// millisecond. Rules, other tables and the setting `net.ipv4.ip_forward` have no effect then. If
/// the tables have groups ([`HopTables::with_groups`]), a packet to a prefix with
/// several paths goes by the one that its flow chooses: source, destination, protocol and ports.
/// When an interface goes down or comes up, only the flows of its paths move (test
/// `a_link_of_three_goes_down`). Without groups, such packets pass to the kernel.
///
/// All other packets pass to the kernel unchanged, and are counted by the reason: packets for this
/// machine, without a known neighbour, too long, with options, at their last hop, in frames for
/// other machines, with sources that the kernel may refuse. Firewall rules do not see forwarded
/// packets. What comes out is otherwise what the kernel alone sends (test `beside_kernel`).
/// `docs/bpf-programs.md` lists what differs.
///
/// A frame may have one tag of a VLAN (IEEE 802.1Q). If this machine has an interface of that VLAN
/// which is up, its packet is forwarded as from that interface; else it passes to the kernel. A
/// packet whose next hop is behind an interface of a VLAN leaves with its tag, any other one
/// without a tag. The program knows the VLANs from
/// [`set_vlans`](Self::set_vlans). It sees no tag that the hardware has
/// taken off before, or that a sender on a veth leaves to the hardware (`ethtool -K … rxvlan off`,
/// `txvlan off`).
///
/// The kernel can redirect packets to an interface whose driver accepts them. A veth accepts them
/// when its peer runs a program: see [`attach_pass`](Self::attach_pass).
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, ProgramRouteCache};
/// use sapwood_xdp::{XdpRoute, interface_index};
/// let arena = BpfArena::create(64 << 20)?;
/// let cache = ProgramRouteCache::builder(&arena, "flows").capacity(65_536).build()?;
/// let mut router = XdpRoute::cached(cache)?;
/// router.attach(interface_index("eth0")?, None)?;
/// router.attach(interface_index("eth1")?, None)?;
/// println!("{} packets forwarded", router.counts()?.forwarded());
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct XdpRoute {
    // Fields are dropped in this order, because programs without a cache would ask the kernel for
    // each packet.
    links: XdpLinks,
    programs: Programs,
    mode: RouteMode,
    cache: Option<ProgramRouteCache>,
    tables: Option<Arc<HopTables>>,
}

impl XdpRoute {
    /// Loads the program, which then asks the kernel's table for each packet.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn resolver(arena: &BpfArena) -> Result<XdpRoute, Error> {
        let programs = load(arena, [MODE_RESOLVER, 0, 0, 0, 0, 0], 0)?;
        Ok(XdpRoute::new(programs, RouteMode::Resolver))
    }

    /// Loads the program, which then asks this cache first. Keys are
    /// [`RouteKey`](sapwood_bpf::RouteKey)s with the packet's destination and a hash of its flow.
    /// Their field `other` is twice the number of the incoming interface, plus one for IPv6. Values
    /// are [`NextHop`](sapwood_bpf::NextHop)s.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn cached(cache: ProgramRouteCache) -> Result<XdpRoute, Error> {
        let window = cache.window().number;
        let programs = load(cache.arena(), [MODE_CACHE, window, 0, 0, 0, 0], 0)?;
        Ok(XdpRoute {
            cache: Some(cache),
            ..XdpRoute::new(programs, RouteMode::Cache)
        })
    }

    /// Loads the program, which then asks these tables. Until the program is detached, somebody has
    /// to keep them as the network namespace of the interfaces is. `XdpRouter` of `sapwood-routes`
    /// does so with the kernel's routes.
    ///
    /// `flow_seed` is the seed of the hash of flows ([`FlowHasher`](sapwood::route::FlowHasher)) by
    /// which the program chooses members of groups. Routers in a row should have different seeds:
    /// else each of them divides only the flows that the one before has sent its way.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn by_tables(tables: Arc<HopTables>, flow_seed: u64) -> Result<XdpRoute, Error> {
        let map = tables.map();
        let [v4, v6] = [map.window4().number, map.window6().number];
        let groups = tables.groups().map_or(0, |groups| groups.window().number);
        let config = [MODE_TABLE, 0, v4, v6, groups, 0];
        let programs = load(map.arena(), config, flow_seed)?;
        Ok(XdpRoute {
            tables: Some(tables),
            ..XdpRoute::new(programs, RouteMode::Table)
        })
    }

    fn new(programs: Programs, mode: RouteMode) -> XdpRoute {
        XdpRoute {
            links: XdpLinks::default(),
            programs,
            mode,
            cache: None,
            tables: None,
        }
    }

    /// The source of the program's next hops.
    pub fn mode(&self) -> RouteMode {
        self.mode
    }

    /// The cache, if there is one.
    pub fn cache(&self) -> Option<&ProgramRouteCache> {
        self.cache.as_ref()
    }

    /// The tables, if the program asks any.
    pub fn tables(&self) -> Option<&Arc<HopTables>> {
        self.tables.as_ref()
    }

    /// The programs and their maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Attaches the program to the interface of this number, until [`detach`](Self::detach) or the
    /// drop detaches it; see [`XdpLink::attach`]. Frames with tags need
    /// [`set_vlans`](Self::set_vlans), too.
    ///
    /// # Errors
    /// As [`XdpLink::attach`].
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PROGRAM, interface, mode)
    }

    /// Tells the program the VLANs of the interfaces' network namespace (`vlans` of
    /// `sapwood-routes`). Call it after interfaces of VLANs were added or removed, or set up or
    /// down. Returns the number of those that the program forwards from and to.
    ///
    /// # Errors
    /// The system's error; [`Error::Setting`] with more than 4,096 VLANs, and then nothing has
    /// changed.
    pub fn set_vlans(&self, vlans: &[Vlan]) -> Result<usize, Error> {
        if vlans.len() > VLANS {
            let why = format!("{VLANS} at most, not {}", vlans.len());
            return Err(Error::Setting { what: "vlans", why });
        }
        let mut wanted = HashMap::new();
        let mut known = 0;
        for Vlan { interface, under } in vlans {
            let word = |(under, id): (u32, u16)| u64::from(under) << 16 | u64::from(id);
            wanted.insert(u64::from(*interface), under.map_or(0, word));
            if let Some(under) = under {
                wanted.insert(word(*under) | 1 << 63, (*interface).into());
                known += 1;
            }
        }
        let map = self.programs.map(VLAN_MAP)?;
        let failed = |error| Error::system("telling the program the VLANs", error);
        for key in map.keys().collect::<Vec<_>>() {
            let word = u64::from_ne_bytes(key.as_slice().try_into().unwrap_or_default());
            if !wanted.contains_key(&word) {
                map.delete(&key).map_err(failed)?;
            }
        }
        for (key, value) in wanted {
            map.update(&key.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed)?;
        }
        Ok(known)
    }

    /// Tells the program the routes that have an MTU of their own: the address and the length of
    /// each prefix, and the MTU. A longer packet to an address of such a prefix passes to the
    /// kernel, which makes fragments or tells the sender. Without this, a program that asks the
    /// kernel's table knows only MTUs that are locked. `XdpRouter` of `sapwood-routes` calls it.
    ///
    /// With more than 4,096 prefixes, the program uses the least of the MTUs for all addresses of
    /// the version.
    ///
    /// # Errors
    /// The system's error, and [`Error::Setting`] for a length that no prefix has. After an error,
    /// the program may know a part of the routes.
    pub fn set_route_mtus(&self, routes: &[(IpAddr, u8, u16)]) -> Result<(), Error> {
        let wanted = mtu_keys(routes)?;
        let failed = |error| Error::system("telling the program the routes with an MTU", error);
        let (map, least) = (
            self.programs.map(MTU_MAP)?,
            self.programs.map(LEAST_MTU_MAP)?,
        );
        // Packets that are shorter do not look for a route. 0: no packet does.
        let tell = |mtu: u32| {
            let set = least.update(&0u32.to_ne_bytes(), &mtu.to_ne_bytes(), MapFlags::ANY);
            set.map_err(failed)
        };
        tell(1)?;
        let keys: HashSet<&[u8]> = wanted.iter().map(|(key, _)| &key[..]).collect();
        for key in map.keys().collect::<Vec<_>>() {
            if !keys.contains(&key[..]) {
                map.delete(&key).map_err(failed)?;
            }
        }
        for (key, mtu) in &wanted {
            let mtu = u32::from(*mtu).to_ne_bytes();
            map.update(key, &mtu, MapFlags::ANY).map_err(failed)?;
        }
        tell(
            wanted
                .iter()
                .map(|(_, mtu)| u32::from(*mtu))
                .min()
                .unwrap_or(0),
        )
    }

    /// Attaches a program that passes all packets to an interface, as [`attach`](Self::attach)
    /// does. The other end of a veth pair needs it, so that the kernel can redirect packets into
    /// the pair.
    ///
    /// # Errors
    /// As [`XdpLink::attach`].
    pub fn attach_pass(
        &mut self,
        interface: u32,
        mode: Option<XdpMode>,
    ) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PASS, interface, mode)
    }

    /// Detaches the programs from the interface of this number. Returns whether there were any.
    pub fn detach(&mut self, interface: u32) -> bool {
        self.links.detach(interface)
    }

    /// The links of the programs to interfaces.
    pub fn links(&self) -> &[XdpLink] {
        self.links.all()
    }

    /// The number of packets for each verdict so far, on all interfaces together.
    ///
    /// # Errors
    /// The system's error.
    pub fn counts(&self) -> Result<RouteCounts, Error> {
        PacketCounts::read(&self.programs.map(COUNTS)?)
    }
}

impl fmt::Debug for XdpRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpRoute")
            .field("mode", &self.mode)
            .field("cache", &self.cache)
            .field("tables", &self.tables)
            .field("links", &self.links())
            .finish_non_exhaustive()
    }
}

/// Loads the programs with this configuration: `struct sw_xdp_config`.
fn load(arena: &BpfArena, config: [u32; 6], seed: u64) -> Result<Programs, Error> {
    let mut config: Vec<u8> = config.into_iter().flat_map(u32::to_ne_bytes).collect();
    config.extend(seed.to_ne_bytes());
    let mut loader = Loader::open(arena, OBJECT)?;
    loader.set_constants(".rodata.config", &config)?;
    loader.load()
}

/// A key of the program's map of routes with an MTU: the bits that count, of a byte for the version
/// of the protocol and of the address.
type MtuKey = [u8; 21];

/// The keys for these routes. Each has the least MTU of all routes whose prefixes have its
/// addresses: which of them the kernel takes may depend on more than the address.
fn mtu_keys(routes: &[(IpAddr, u8, u16)]) -> Result<Vec<(MtuKey, u16)>, Error> {
    let mut least: HashMap<(bool, u128, u8), u16> = HashMap::new();
    for (address, length, mtu) in routes {
        let (is_v6, bits, most) = match address {
            IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (true, address.to_bits(), 128),
        };
        if *length > most {
            let why = format!("{address}/{length} is no prefix");
            let what = "route mtus";
            return Err(Error::Setting { what, why });
        }
        let length = if routes.len() > ROUTE_MTUS {
            0
        } else {
            *length
        };
        let mtu_of = least.entry((is_v6, masked(bits, length), length));
        let mtu_of = mtu_of.or_insert(*mtu);
        *mtu_of = (*mtu).min(*mtu_of);
    }
    let key = |(is_v6, bits, length): (bool, u128, u8)| {
        let covering =
            (0..=length).filter_map(|length| least.get(&(is_v6, masked(bits, length), length)));
        let mut key = MtuKey::default();
        key[..4].copy_from_slice(&(8 + u32::from(length)).to_ne_bytes());
        key[4] = is_v6.into();
        key[5..].copy_from_slice(&bits.to_be_bytes());
        Some((key, *covering.min()?))
    };
    Ok(least.keys().copied().filter_map(key).collect())
}

/// The first bits of an address.
fn masked(bits: u128, length: u8) -> u128 {
    match length {
        0 => 0,
        length => bits & u128::MAX << (128 - length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_have_the_least_mtu_of_those_that_cover_them() {
        let route = |text: &str, mtu: u16| {
            let (address, length) = text.split_once('/').unwrap();
            (address.parse().unwrap(), length.parse().unwrap(), mtu)
        };
        let routes = [
            route("10.0.0.0/8", 1400),
            route("10.1.0.0/16", 1500),
            route("10.1.2.0/24", 1300),
            route("10.1.2.3/24", 1350),
            route("fd00::/16", 1280),
            route("::/0", 1450),
        ];
        let keys = mtu_keys(&routes).unwrap();
        let of = |text: &str| {
            let (address, length, _) = route(text, 0);
            let bytes = match address {
                IpAddr::V4(address) => [&[0][..], &address.octets(), &[0; 12]].concat(),
                IpAddr::V6(address) => [&[1][..], &address.octets()].concat(),
            };
            let key = [&(8 + u32::from(length)).to_ne_bytes()[..], &bytes].concat();
            keys.iter()
                .find(|(one, _)| one[..] == key)
                .map(|(_, mtu)| *mtu)
        };
        assert_eq!(keys.len(), 5);
        for (prefix, mtu) in [
            ("10.0.0.0/8", 1400),
            ("10.1.0.0/16", 1400),
            ("10.1.2.0/24", 1300),
            ("fd00::/16", 1280),
            ("::/0", 1450),
        ] {
            assert_eq!(of(prefix), Some(mtu), "{prefix}");
        }
        let many: Vec<_> = (0..=ROUTE_MTUS as u32)
            .map(|n| (IpAddr::V4((n << 8).into()), 24, 1400 - (n % 7) as u16))
            .collect();
        let keys = mtu_keys(&many).unwrap();
        assert_eq!(keys.len(), 1);
        assert_eq!((keys[0].0[0], keys[0].1), (8, 1394));
        assert!(mtu_keys(&[route("10.0.0.0/33", 1)]).is_err());
    }
}
