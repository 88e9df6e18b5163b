//! Questions and answers of name servers by UDP, and a server that answers every question.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The type of IPv4 addresses.
pub const A: u16 = 1;
/// The type of IPv6 addresses.
pub const AAAA: u16 = 28;
/// The type of texts.
pub const TXT: u16 = 16;
/// A type that nobody has a use for.
pub const SPF: u16 = 99;

/// A question: a name, perhaps with capitals, and a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name, without a dot at its end.
    pub name: String,
    /// The number of the type.
    pub rtype: u16,
}

/// What a question gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// There is no such name.
    Nxdomain,
    /// The name has no records of this type.
    Nodata,
    /// The server refuses.
    Refused,
    /// No answer.
    Drop,
    /// The answer is to be asked for by TCP.
    Truncated,
    /// What the server behind answers.
    Upstream,
    /// Another name for this one.
    Name(String),
    /// The data of records of the type.
    Records(BTreeSet<Vec<u8>>),
    /// Something else, in words.
    Other(String),
}

impl Answer {
    /// Those of these addresses that have the type; no data if none has it.
    pub fn addresses(addresses: impl IntoIterator<Item = IpAddr>, rtype: u16) -> Self {
        let addresses = addresses.into_iter();
        let all: BTreeSet<_> = addresses.filter_map(|a| octets(a, rtype)).collect();
        match all.is_empty() {
            true => Answer::Nodata,
            false => Answer::Records(all),
        }
    }
}

fn octets(address: IpAddr, rtype: u16) -> Option<Vec<u8>> {
    match (address, rtype) {
        (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
        (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
        _ => None,
    }
}

/// The data of the server behind.
fn upstream(rtype: u16) -> Option<Vec<u8>> {
    match rtype {
        A => Some(Ipv4Addr::new(198, 51, 100, 7).octets().to_vec()),
        AAAA => Some(
            Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 7)
                .octets()
                .to_vec(),
        ),
        TXT | SPF => Some(b"\x08upstream".to_vec()),
        _ => None,
    }
}

/// A question as a message.
fn message(id: u16, question: &Question) -> Vec<u8> {
    let mut wire = id.to_be_bytes().to_vec();
    wire.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in question.name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire.extend(question.rtype.to_be_bytes());
    wire.extend([0, 1]);
    wire
}

/// The name at a place of a message, and the place behind it.
fn name(wire: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut labels, mut behind) = (Vec::new(), None);
    for _ in 0..128 {
        let len = usize::from(*wire.get(at)?);
        match len {
            0 => return Some((labels.join("."), behind.unwrap_or(at + 1))),
            0xc0.. => {
                behind = behind.or(Some(at + 2));
                at = (len & 0x3f) << 8 | usize::from(*wire.get(at + 1)?);
            }
            _ => {
                let label = wire.get(at + 1..at + 1 + len)?;
                labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
                at += 1 + len;
            }
        }
    }
    None
}

/// The answer in a message.
fn answer(wire: &[u8], rtype: u16) -> Option<Answer> {
    if *wire.get(2)? & 2 != 0 {
        return Some(Answer::Truncated);
    }
    let count = u16::from_be_bytes([*wire.get(6)?, *wire.get(7)?]);
    match wire.get(3)? & 15 {
        0 => {}
        // A server that refuses by a wrong code is told apart.
        3 if count == 0 => return Some(Answer::Nxdomain),
        3 => {}
        5 => return Some(Answer::Refused),
        code => return Some(Answer::Other(format!("code {code}"))),
    }
    let (_, mut at) = name(wire, 12)?;
    at += 4;
    let mut all = BTreeSet::new();
    for _ in 0..count {
        let (_, behind) = name(wire, at)?;
        let fixed = wire.get(behind..behind + 10)?;
        let found = u16::from_be_bytes([fixed[0], fixed[1]]);
        let len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let data = behind + 10;
        if found == 5 {
            return Some(Answer::Name(name(wire, data)?.0));
        }
        if found == rtype {
            all.insert(wire.get(data..data + len)?.to_vec());
        }
        at = data + len;
    }
    if all.is_empty() {
        return Some(Answer::Nodata);
    }
    let behind = upstream(rtype).map(|data| BTreeSet::from([data]));
    Some(match Some(&all) == behind.as_ref() {
        true => Answer::Upstream,
        false => Answer::Records(all),
    })
}

/// Asks a server, 64 questions at once. What has no answer after this time gets none.
///
/// # Panics
/// If there is no port.
pub fn ask(server: SocketAddr, questions: &[Question], patience: Duration) -> Vec<Answer> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut answers = vec![Answer::Drop; questions.len()];
    let mut packet = [0; 4096];
    for (number, batch) in questions.chunks(64).enumerate() {
        let first = number * 64;
        for (at, question) in batch.iter().enumerate() {
            // A refused packet is one that is lost.
            let _ = socket.send(&message((first + at) as u16, question));
        }
        let mut open: HashMap<u16, usize> = HashMap::new();
        open.extend((first..first + batch.len()).map(|at| (at as u16, at)));
        while !open.is_empty() {
            let len = match socket.recv(&mut packet) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => break,
            };
            let id = u16::from_be_bytes([packet[0], packet[1]]);
            if let Some(at) = open.remove(&id) {
                let text = format!("{:?}", &packet[..len]);
                let found = answer(&packet[..len], questions[at].rtype);
                answers[at] = found.unwrap_or(Answer::Other(text));
            }
        }
    }
    answers
}

/// A server that has records of four types for every name, and ends when it is dropped.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Upstream {
    /// Starts it.
    ///
    /// # Panics
    /// If there is no port.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let is_told = Arc::clone(&is_over);
        let pause = Some(Duration::from_millis(50));
        socket.set_read_timeout(pause).unwrap();
        let thread = std::thread::spawn(move || {
            let mut packet = [0; 4096];
            while !is_told.load(Ordering::Relaxed) {
                let Ok((len, client)) = socket.recv_from(&mut packet) else {
                    continue;
                };
                if let Some(reply) = reply(&packet[..len]) {
                    let _ = socket.send_to(&reply, client);
                }
            }
        });
        Upstream {
            address,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The upstream server's answer to a message.
fn reply(wire: &[u8]) -> Option<Vec<u8>> {
    let (_, end) = name(wire, 12)?;
    let rtype = u16::from_be_bytes([*wire.get(end)?, *wire.get(end + 1)?]);
    let data = upstream(rtype);
    let mut reply = wire[..2].to_vec();
    let records = u8::from(data.is_some());
    reply.extend([0x81, 0x80, 0, 1, 0, records, 0, 0, 0, 0]);
    reply.extend(wire.get(12..end + 4)?);
    if let Some(data) = data {
        reply.extend([0xc0, 12]);
        reply.extend(rtype.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        reply.extend(data);
    }
    Some(reply)
}

#[test]
fn questions_are_answered_by_the_server_behind() {
    let upstream = Upstream::start();
    let ask_for = |name: &str, rtype| Question {
        name: name.into(),
        rtype,
    };
    let all = [
        ask_for("a.Example", A),
        ask_for("x.test", TXT),
        ask_for("x.test", 15),
    ];
    let answers = ask(upstream.address, &all, Duration::from_secs(5));
    assert_eq!(
        answers,
        [Answer::Upstream, Answer::Upstream, Answer::Nodata]
    );
    assert_eq!(
        answer(&reply(&message(7, &all[0])).unwrap(), A),
        Some(Answer::Upstream)
    );
    assert_eq!(reply(&[0; 11]), None);
}
