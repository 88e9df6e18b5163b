//! Sockets that send and receive whole frames at an interface (`packet(7)`).

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, SocketType, bind, socket};

/// `struct sockaddr_ll`, as far as it matters for a bind.
#[repr(C)]
struct LinkAddress {
    family: u16,
    protocol: [u8; 2],
    interface: u32,
    unused: [u8; 12],
}

// SAFETY: the pointer is that of a whole address, which lives as long as the closure runs.
unsafe impl SocketAddrArg for LinkAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        f(
            (&raw const *self).cast(),
            size_of::<LinkAddress>() as SocketAddrLen,
        )
    }
}

/// A socket for the frames of an interface of this thread's namespace. It receives all that the
/// interface receives, and nothing that was sent by the socket itself. The type is one that has
/// `send`, `recv` and a time limit.
pub fn end_of(interface: u32) -> io::Result<UdpSocket> {
    let made = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
    let all = LinkAddress {
        family: AddressFamily::PACKET.as_raw(),
        // ETH_P_ALL.
        protocol: [0, 3],
        interface,
        unused: [0; 12],
    };
    bind(&made, &all)?;
    Ok(made.into())
}
