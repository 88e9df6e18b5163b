//! `xdp-route` with what it has to know of the kernel's tables and VLANs.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use sapwood_bpf::{Error, HopTables};
use sapwood_xdp::{RouteMode, XdpLink, XdpMode, XdpRoute};

use crate::mirror::mtus::RouteMtus;
use crate::mirror::{RouteMirror, vlans};

/// An [`XdpRoute`] that knows the VLANs of its network namespace and, by a [`RouteMirror`], the
/// kernel's routes. It has all methods of [`XdpRoute`].
///
/// ```no_run
/// use std::sync::Arc;
/// use sapwood_bpf::{BpfArena, HopTables, IpMap};
/// use sapwood_xdp::interface_index;
/// use sapwood_routes::{RouteMirror, XdpRouter};
/// let arena = BpfArena::create(256 << 20)?;
/// let tables = HopTables::new(IpMap::new(&arena, "routes", 64 << 20)?);
/// let mut router = XdpRouter::mirrored(RouteMirror::start(Arc::new(tables))?, 0)?;
/// router.attach(interface_index("eth0")?, None)?;
/// router.attach(interface_index("eth1")?, None)?;
/// println!("{} packets forwarded", router.counts()?.forwarded());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct XdpRouter {
    // Dropped first, because nobody follows the neighbours after the mirror.
    program: XdpRoute,
    mirror: Option<RouteMirror<HopTables>>,
    mtus: Mutex<Option<RouteMtus>>,
}

impl XdpRouter {
    /// A router whose program asks the tables of this mirror, which must follow the network
    /// namespace of the interfaces. For `flow_seed` see [`XdpRoute::by_tables`].
    ///
    /// # Errors
    /// As [`XdpRoute::by_tables`].
    pub fn mirrored(mirror: RouteMirror<HopTables>, flow_seed: u64) -> Result<XdpRouter, Error> {
        Ok(XdpRouter {
            program: XdpRoute::by_tables(mirror.tables().clone(), flow_seed)?,
            mirror: Some(mirror),
            mtus: Mutex::default(),
        })
    }

    /// The mirror, if there is one.
    pub fn mirror(&self) -> Option<&RouteMirror<HopTables>> {
        self.mirror.as_ref()
    }

    /// Reads the VLANs ([`update_vlans`](Self::update_vlans)) and the routes with an MTU of their
    /// own ([`update_mtus`](Self::update_mtus)), and then attaches the program
    /// ([`XdpRoute::attach`]).
    ///
    /// # Errors
    /// As those methods.
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.update_vlans()?;
        self.update_mtus()?;
        self.program.attach(interface, mode)
    }

    /// Tells the program the VLANs of the network namespace of the calling thread. Call it after
    /// interfaces of VLANs were added or removed, or set up or down. Returns the number of those
    /// that the program forwards from and to: the ones of IEEE 802.1Q that are up and lie on an
    /// interface that is no VLAN.
    ///
    /// # Errors
    /// As [`XdpRoute::set_vlans`], and the system's error.
    pub fn update_vlans(&self) -> Result<usize, Error> {
        let vlans = vlans().map_err(|error| Error::io("reading the VLANs", error))?;
        self.program.set_vlans(&vlans)
    }

    /// Tells the program the routes that have an MTU of their own, which the kernel's table does
    /// not tell it. Call it now and then: about once a second. The first call reads all routes of
    /// the network namespace of the calling thread. Later ones read what the kernel has announced,
    /// and all routes again if that concerns a route with an MTU. Returns the number of prefixes
    /// with such routes. Programs with tables need none, because those leave such routes to the
    /// kernel.
    ///
    /// # Errors
    /// The system's error.
    pub fn update_mtus(&self) -> Result<usize, Error> {
        if self.program.mode() == RouteMode::Table {
            return Ok(0);
        }
        let failed = |error| Error::io("reading the routes", error);
        let mut mtus = self.mtus.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = match &mut *mtus {
            Some(mtus) => mtus.update().map_err(failed)?,
            None => true,
        };
        if mtus.is_none() {
            *mtus = Some(RouteMtus::new().map_err(failed)?);
        }
        let known = mtus.as_ref().map(RouteMtus::known).into_iter().flatten();
        if has_changed {
            let all: Vec<_> = known
                .clone()
                .map(|(net, mtu)| (net.addr(), net.prefix_len(), *mtu))
                .collect();
            self.program.set_route_mtus(&all)?;
        }
        Ok(known.count())
    }
}

/// A router without a mirror.
impl From<XdpRoute> for XdpRouter {
    fn from(program: XdpRoute) -> XdpRouter {
        XdpRouter {
            program,
            mirror: None,
            mtus: Mutex::default(),
        }
    }
}

impl Deref for XdpRouter {
    type Target = XdpRoute;

    fn deref(&self) -> &XdpRoute {
        &self.program
    }
}

impl DerefMut for XdpRouter {
    fn deref_mut(&mut self) -> &mut XdpRoute {
        &mut self.program
    }
}
