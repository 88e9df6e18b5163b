//! Dumps by rtnetlink: all links, neighbours or routes of the kernel.

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// The maximum number of attempts at a dump that changes disturb.
const ATTEMPTS: usize = 10;

/// Opens a socket for requests.
pub(crate) fn asking() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Requests a dump, and repeats it when changes disturb it.
pub(crate) fn dump<M>(socket: &Socket, ask: M) -> io::Result<Vec<M>>
where
    M: Clone + NetlinkSerializable + NetlinkDeserializable,
{
    for _ in 0..ATTEMPTS {
        if let Some(answers) = dump_once(socket, ask.clone())? {
            return Ok(answers);
        }
    }
    let what = "the kernel's tables change faster than they can be read";
    Err(io::Error::new(io::ErrorKind::Interrupted, what))
}

/// Requests a dump once. `None` when a change during the dump made it inconsistent.
fn dump_once<M>(socket: &Socket, ask: M) -> io::Result<Option<Vec<M>>>
where
    M: NetlinkSerializable + NetlinkDeserializable,
{
    socket.send(&request(ask, NLM_F_REQUEST | NLM_F_DUMP), 0)?;
    let mut answers = Vec::new();
    let (mut whole, mut end) = (true, None);
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        each(&datagram, |answer| {
            whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Done(_) => end = Some(Ok(())),
                NetlinkPayload::Error(error) => end = Some(Err(error.to_io())),
                NetlinkPayload::Overrun(_) => end = Some(Err(odd("it was cut off"))),
                _ => {}
            }
        })?;
        if let Some(end) = end {
            return end.map(|()| whole.then_some(answers));
        }
    }
}

/// The bytes of a request with these flags.
pub(crate) fn request<M: NetlinkSerializable>(ask: M, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(ask));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Calls `f` with the messages of a datagram.
pub(crate) fn each<M: NetlinkDeserializable>(
    datagram: &[u8],
    mut f: impl FnMut(NetlinkMessage<M>),
) -> io::Result<()> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::deserialize(rest).map_err(|error| odd(&error.to_string()))?;
        // Messages begin at multiples of four bytes.
        let len = (message.header.length as usize).next_multiple_of(4).max(4);
        f(message);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(())
}

fn odd(why: &str) -> io::Error {
    let what = format!("the kernel's message is not understood: {why}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}
