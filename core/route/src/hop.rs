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
    /// The most bytes of an IP packet on that interface; 0: not known. With
    /// [`KERNEL`](Self::KERNEL), the number of the reason ([`reason`](Self::reason)).
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

    /// A hop that leaves packets to the kernel for a reason.
    ///
    /// O(1).
    pub const fn kernel(reason: KernelReason) -> MirrorHop {
        MirrorHop {
            ifindex: 0,
            mtu: reason as u16,
            action: MirrorHop::KERNEL,
            family: 0,
            smac: [0; 6],
            dmac: [0; 6],
            gateway: [0; 16],
        }
    }

    /// Why packets are left to the kernel; `None` for a hop of another action.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::route::{KernelReason, MirrorHop};
    /// let hop = MirrorHop::kernel(KernelReason::Blackhole);
    /// assert_eq!(hop.reason(), Some(KernelReason::Blackhole));
    /// assert_eq!(MirrorHop::default().reason(), None);
    /// ```
    pub fn reason(&self) -> Option<KernelReason> {
        let number = usize::from(self.mtu);
        let known = KernelReason::ALL.get(number).copied();
        (self.action == MirrorHop::KERNEL).then_some(known.unwrap_or(KernelReason::Other))
    }

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

/// Why a hop of a mirrored table leaves packets to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum KernelReason {
    /// For a reason without a name here.
    Other = 0,
    /// An address of this machine, or of a group of receivers.
    Local = 1,
    /// A null route: packets are dropped without a reply.
    Blackhole = 2,
    /// A null route: the sender is told that the destination cannot be reached.
    Unreachable = 3,
    /// A null route: the sender is told that the way is forbidden.
    Prohibit = 4,
    /// A null route: the search goes on in the next table.
    Throw = 5,
    /// The route is for some packets only, by their source or type of service.
    SomePackets = 6,
    /// The next hop is in a tunnel, or the route has an MTU of its own.
    Tunnel = 7,
    /// Several next hops, and the tables have no group for them.
    Several = 8,
    /// Several routes of IPv6 with one metric, of which the kernel prefers a reachable one.
    Equal = 9,
    /// A next-hop object that is not known or not a path.
    Object = 10,
    /// The interface is down, not known, or has no hardware addresses.
    Link = 11,
    /// A link-local prefix, which no router forwards to.
    LinkLocal = 12,
    /// An injected route none of whose gateways is known.
    Unresolved = 13,
}

impl KernelReason {
    const ALL: [Self; 14] = [
        Self::Other,
        Self::Local,
        Self::Blackhole,
        Self::Unreachable,
        Self::Prohibit,
        Self::Throw,
        Self::SomePackets,
        Self::Tunnel,
        Self::Several,
        Self::Equal,
        Self::Object,
        Self::Link,
        Self::LinkLocal,
        Self::Unresolved,
    ];
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_numbers() {
        for (number, reason) in KernelReason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason as u16), number);
            assert_eq!(MirrorHop::kernel(reason).reason(), Some(reason));
        }
        let mut strange = MirrorHop::kernel(KernelReason::Other);
        strange.mtu = 1500;
        assert_eq!(strange.reason(), Some(KernelReason::Other));
    }
}
