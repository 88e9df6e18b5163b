//! What forwarders know of the kernel's next hops: the hops of a mirrored table, members of groups,
//! and VLANs.

use core::net::IpAddr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A next hop: the value of a mirrored routing table, `struct sw_next_hop` of `sapwood/hop.bpf.h`
/// where BPF programs read it.
///
/// ```text
///    0 | ifindex: u32               | mtu: u16     | action: u8 | family: u8 |
///    8 | smac: 6 bytes                             | dmac: 6 bytes           |
///   20 | gateway: 16 bytes, IPv4 addresses in the first four                 |
/// ```
///
/// The first 20 bytes are as in `struct sw_route_hop` of `sapwood/route.bpf.h`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct MirrorHop {
    /// The interface; 0: none. With [`GROUP`](Self::GROUP), the number of the group.
    pub ifindex: u32,
    /// The most bytes of an IP packet on that interface; 0: not known.
    pub mtu: u16,
    /// What to do: [`FORWARD`](Self::FORWARD), [`KERNEL`](Self::KERNEL),
    /// [`RESOLVE`](Self::RESOLVE), [`GROUP`](Self::GROUP) or [`TAGGED`](Self::TAGGED).
    pub action: u8,
    /// The family of the gateway: 2 for IPv4, 10 for IPv6, 0 when there is none.
    pub family: u8,
    /// The interface's hardware address.
    pub smac: [u8; 6],
    /// The hardware address of the gateway, or of the destination.
    pub dmac: [u8; 6],
    /// The gateway's address.
    pub gateway: [u8; 16],
}

impl MirrorHop {
    /// The program forwards the packet: everything is known.
    pub const FORWARD: u8 = 0;
    /// The same, and the interface is a VLAN of another one, which the program has to know.
    pub const TAGGED: u8 = 4;
    /// The kernel takes the packet: addresses of this machine, tunnels, no route, and everything
    /// else that programs do not handle.
    pub const KERNEL: u8 = 1;
    /// The kernel forwards the packet and resolves the neighbour, which is not known yet.
    pub const RESOLVE: u8 = 2;
    /// The packet's flow chooses a member of a group of next hops (`GroupMap` of
    /// `sapwood-bpf`).
    pub const GROUP: u8 = 3;

    /// Whether a program forwards the packet.
    pub fn is_forwarded(&self) -> bool {
        matches!(self.action, MirrorHop::FORWARD | MirrorHop::TAGGED)
    }

    /// The gateway, if there is one.
    pub fn gateway(&self) -> Option<IpAddr> {
        let [a, b, c, d, ..] = self.gateway;
        match self.family {
            2 => Some([a, b, c, d].into()),
            10 => Some(self.gateway.into()),
            _ => None,
        }
    }
}

const _: () =
    assert!(size_of::<MirrorHop>() == 36 && core::mem::offset_of!(MirrorHop, gateway) == 20);

/// A member of a group of next hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    /// Its identity: flows stay with the member of this number, whatever else of it changes.
    pub id: u64,
    /// Its share of the flows. A member of weight 0 gets none.
    pub weight: u32,
    /// The number of its link. While that is down, the member gets no flow.
    pub link: u32,
    /// Whether it gets flows only while all other members with a weight are down.
    pub backup: bool,
    /// The next hop.
    pub hop: MirrorHop,
}

/// An interface of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// The number of its interface.
    pub interface: u32,
    /// The interface under it and the VLAN's own number (IEEE 802.1Q). `None` when a forwarder must
    /// not use the VLAN: it is down, is of another protocol, or lies on another VLAN.
    pub under: Option<(u32, u16)>,
}
