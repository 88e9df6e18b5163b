//! `xdp-route` with what it has to know of the kernel's tables and VLANs.

use std::ops::{Deref, DerefMut};

use sapwood_bpf::{Error, HopTables};
use sapwood_xdp::{XdpLink, XdpMode, XdpRoute};

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
        })
    }

    /// The mirror, if there is one.
    pub fn mirror(&self) -> Option<&RouteMirror<HopTables>> {
        self.mirror.as_ref()
    }

    /// Reads the VLANs ([`update_vlans`](Self::update_vlans)), and then attaches the program
    /// ([`XdpRoute::attach`]).
    ///
    /// # Errors
    /// As [`XdpRoute::attach`], and as [`update_vlans`](Self::update_vlans).
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.update_vlans()?;
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
}

/// A router without a mirror.
impl From<XdpRoute> for XdpRouter {
    fn from(program: XdpRoute) -> XdpRouter {
        XdpRouter {
            program,
            mirror: None,
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
