//! The program `xdp-route`: packets are forwarded as the kernel would, without going through it.

use std::fmt;

use crate::arena::BpfArena;
use crate::counts::PacketCounts;
use crate::error::Error;
use crate::layout::route::{MODE_CACHE, MODE_RESOLVER, MODE_TABLE, RouteVerdict};
use crate::loader::{Loader, Programs};
use crate::mirror::RouteMirror;
use crate::route_cache::ProgramRouteCache;
use crate::xdp::{XdpLink, XdpLinks, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-route.bpf.o"));

/// The program's name in its object.
const PROGRAM: &str = "sw_xdp_route";

/// The one that passes everything.
const PASS: &str = "sw_xdp_pass";

/// The name of the map that it counts in.
const COUNTS: &str = "sw_xdp_counts";

/// Whom the program asks for next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteMode {
    /// The kernel's table, for each packet (`bpf_fib_lookup`).
    Resolver,
    /// The route cache, and the kernel's table for flows that it does not know.
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

/// Packets by what became of them.
pub type RouteCounts = PacketCounts<RouteVerdict>;

/// Forwards IPv4 and IPv6 packets on network interfaces, to where the kernel would.
///
/// Next hops are the kernel's (`bpf_fib_lookup`: rules, several tables, several ways to one
/// destination, neighbours). With a route cache in front, an answer holds for its destination and
/// flow for as long as the cache says that answers are fresh: that late, at most, does a change of
/// the kernel's routes or neighbours take effect. [`ProgramRouteCache::invalidate_all`] makes it
/// take effect at once.
///
/// With a mirror of the kernel's tables ([`RouteMirror`]) neither is asked: a change takes effect
/// as soon as the mirror has heard of it, in a millisecond or so. Rules, other tables and whether
/// the kernel forwards at all (`net.ipv4.ip_forward`) do not count then, and prefixes with several
/// ways are left to the kernel.
///
/// Everything else passes to the kernel as it came, and is counted by the reason: packets for this
/// machine, without a known neighbour, too long, with options, at their last hop. The source of a
/// packet is not checked (`rp_filter`), and firewall rules do not see what is forwarded.
///
/// Packets can be redirected to an interface whose driver takes them. A veth does so when its peer
/// runs a program: [`attach_pass`](Self::attach_pass).
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, ProgramRouteCache, XdpRoute, interface_index};
/// let arena = BpfArena::create(64 << 20)?;
/// let cache = ProgramRouteCache::builder(&arena, "flows").capacity(65_536).build()?;
/// let mut router = XdpRoute::cached(cache)?;
/// router.attach(interface_index("eth0")?, None)?;
/// router.attach(interface_index("eth1")?, None)?;
/// println!("{} packets forwarded", router.counts()?.forwarded());
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct XdpRoute {
    // Dropped first: programs without a cache would ask the kernel for each packet.
    links: XdpLinks,
    programs: Programs,
    mode: RouteMode,
    cache: Option<ProgramRouteCache>,
    mirror: Option<RouteMirror>,
}

impl XdpRoute {
    /// Loads the program so that it asks the kernel's table for each packet.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn resolver(arena: &BpfArena) -> Result<XdpRoute, Error> {
        let programs = load(arena, [MODE_RESOLVER, 0, 0, 0])?;
        Ok(XdpRoute::new(programs, RouteMode::Resolver))
    }

    /// Loads the program so that it asks this cache first. Keys are [`RouteKey`](crate::RouteKey)s
    /// with the packet's destination, a hash of its flow, and in `other` twice the number of the
    /// interface that it came from, one more for IPv6; values are [`NextHop`](crate::NextHop)s.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn cached(cache: ProgramRouteCache) -> Result<XdpRoute, Error> {
        let programs = load(cache.arena(), [MODE_CACHE, cache.window().number, 0, 0])?;
        Ok(XdpRoute {
            cache: Some(cache),
            ..XdpRoute::new(programs, RouteMode::Cache)
        })
    }

    /// Loads the program so that it asks the tables of this mirror, which must be of the network
    /// namespace that the interfaces are in.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, IpMap, RouteMirror, XdpRoute};
    /// let arena = BpfArena::create(256 << 20)?;
    /// let mirror = RouteMirror::start(IpMap::new(&arena, "routes", 64 << 20)?)?;
    /// let router = XdpRoute::mirrored(mirror)?;
    /// # let _ = router;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn mirrored(mirror: RouteMirror) -> Result<XdpRoute, Error> {
        let map = mirror.map();
        let [v4, v6] = [map.window4().number, map.window6().number];
        let programs = load(map.arena(), [MODE_TABLE, 0, v4, v6])?;
        Ok(XdpRoute {
            mirror: Some(mirror),
            ..XdpRoute::new(programs, RouteMode::Table)
        })
    }

    fn new(programs: Programs, mode: RouteMode) -> XdpRoute {
        XdpRoute {
            links: XdpLinks::default(),
            programs,
            mode,
            cache: None,
            mirror: None,
        }
    }

    /// Whom the program asks.
    pub fn mode(&self) -> RouteMode {
        self.mode
    }

    /// The cache, if there is one.
    pub fn cache(&self) -> Option<&ProgramRouteCache> {
        self.cache.as_ref()
    }

    /// The mirror, if there is one.
    pub fn mirror(&self) -> Option<&RouteMirror> {
        self.mirror.as_ref()
    }

    /// The programs and their maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Puts the program on the interface of this number, until it is taken off, or this is dropped;
    /// see [`XdpLink::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PROGRAM, interface, mode)
    }

    /// Puts a program on an interface that passes everything: what the other end of a veth pair
    /// needs, so that packets can be redirected into the pair. As [`attach`](Self::attach).
    ///
    /// # Errors
    /// As there.
    pub fn attach_pass(
        &mut self,
        interface: u32,
        mode: Option<XdpMode>,
    ) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PASS, interface, mode)
    }

    /// Takes the programs off interfaces of this number; whether there were any.
    pub fn detach(&mut self, interface: u32) -> bool {
        self.links.detach(interface)
    }

    /// Where the programs are.
    pub fn links(&self) -> &[XdpLink] {
        self.links.all()
    }

    /// What became of all packets so far, on all interfaces together.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<RouteCounts, Error> {
        PacketCounts::read(&self.programs.map(COUNTS)?)
    }
}

impl fmt::Debug for XdpRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpRoute")
            .field("mode", &self.mode)
            .field("cache", &self.cache)
            .field("mirror", &self.mirror)
            .field("links", &self.links())
            .finish_non_exhaustive()
    }
}

/// The programs, loaded with this configuration: `struct sw_xdp_config`.
fn load(arena: &BpfArena, config: [u32; 4]) -> Result<Programs, Error> {
    let config: Vec<u8> = config.into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut loader = Loader::open(arena, OBJECT)?;
    loader.set_constant(".rodata.config", "sw_xdp_config", &config)?;
    loader.load()
}
