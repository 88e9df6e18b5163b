//! Listens for NOTIFY (RFC 1996), over UDP and TCP.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder};
use domain::rdata::tsig::Time48;
use domain::tsig::ServerTransaction;

use super::wire::send;
use super::{Followed, Zone};

/// How often a thread looks whether it shall end.
const TICK: Duration = Duration::from_millis(200);
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens for messages of primaries that their zones have changed, until it is dropped.
///
/// A message counts if it comes from the address of the zone's primary and, if the zone has a key,
/// is signed with it. Others get no answer.
pub struct Notify {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

struct Target {
    zone: Zone,
    wake: SyncSender<()>,
}

impl Notify {
    /// Listens at an address. With port 0, the system chooses one.
    ///
    /// # Errors
    /// Those of the system, such as that the address is in use.
    pub fn listen(address: SocketAddr, zones: &[Followed]) -> io::Result<Self> {
        let tcp = TcpListener::bind(address)?;
        let address = tcp.local_addr()?;
        let udp = UdpSocket::bind(address)?;
        tcp.set_nonblocking(true)?;
        udp.set_read_timeout(Some(TICK))?;
        let targets = zones.iter().map(|followed| Target {
            zone: followed.zone.clone(),
            wake: followed.wake.clone(),
        });
        let targets: Arc<[Target]> = targets.collect();
        let stop = Arc::new(AtomicBool::new(false));
        let mut notify = Notify {
            address,
            stop: Arc::clone(&stop),
            threads: Vec::new(),
        };
        let name = || thread::Builder::new().name("notify".into());
        let (all, end) = (Arc::clone(&targets), Arc::clone(&stop));
        let thread = name().spawn(move || listen_udp(&udp, &all, &end))?;
        notify.threads.push(thread);
        let thread = name().spawn(move || listen_tcp(&tcp, &targets, &stop))?;
        notify.threads.push(thread);
        Ok(notify)
    }

    /// Where it listens.
    ///
    /// O(1).
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn listen_udp(socket: &UdpSocket, targets: &[Target], stop: &AtomicBool) {
    let mut bytes = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut bytes) {
            Ok((len, from)) => {
                if let Some(answer) = answer(&bytes[..len], from.ip(), targets) {
                    let _ = socket.send_to(&answer, from);
                }
            }
            Err(error) if is_pause(&error) => {}
            // Of an answer that did not arrive, and others that pass.
            Err(_) => thread::sleep(TICK),
        }
    }
}

fn listen_tcp(listener: &TcpListener, targets: &[Target], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // Only primaries may take time.
            Ok((stream, from)) if targets.iter().any(|target| target.is_of(from.ip())) => {
                let _ = connection(stream, from.ip(), targets);
            }
            Ok(_) => {}
            Err(_) => thread::sleep(TICK),
        }
    }
}

/// Answers one message.
fn connection(mut stream: TcpStream, from: IpAddr, targets: &[Target]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > 4096 {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    match answer(&bytes, from, targets) {
        Some(answer) => send(&stream, &answer),
        None => Ok(()),
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Target {
    fn is_of(&self, from: IpAddr) -> bool {
        from.to_canonical() == self.zone.primary.ip().to_canonical()
    }
}

/// The answer to a message, if it is a NOTIFY of a primary; wakes its zone.
fn answer(bytes: &[u8], from: IpAddr, targets: &[Target]) -> Option<Vec<u8>> {
    let mut message = Message::from_octets(bytes.to_vec()).ok()?;
    let header = message.header();
    if header.qr() || header.opcode() != Opcode::NOTIFY {
        return None;
    }
    let question = message.sole_question().ok()?;
    let is_soa = question.qtype() == Rtype::SOA && question.qclass() == Class::IN;
    let is_target = |target: &&Target| target.zone.name == question.qname() && target.is_of(from);
    let target = targets.iter().filter(|_| is_soa).find(is_target)?;
    let signed = match &target.zone.key {
        None => None,
        Some(key) => {
            let signed = ServerTransaction::request(&key.0, &mut message, Time48::now());
            Some(signed.ok().flatten()?)
        }
    };
    // One that waits already is enough.
    let _ = target.wake.try_send(());
    let answer = MessageBuilder::new_vec().start_answer(&message, Rcode::NOERROR);
    let mut answer = answer.ok()?.additional();
    answer.header_mut().set_aa(true);
    if let Some(signed) = signed {
        signed.answer(&mut answer, Time48::now()).ok()?;
    }
    Some(answer.finish())
}
