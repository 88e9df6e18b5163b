//! A primary in threads of this process, which answers as a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::rdata::UnknownRecordData;
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, Key, ServerSequence};
use sapwood_lists::transfer::{Limits, Secondary, TransferKey, Zone};

/// A record: its name, type and data.
pub type Rec = (String, u16, Vec<u8>);

/// What a primary answers.
#[derive(Clone)]
pub struct Reply {
    pub rcode: Rcode,
    pub is_authority: bool,
    pub messages: Vec<Vec<Rec>>,
    /// Messages from this one on have no signature.
    pub unsigned_from: usize,
    /// Whether it says nothing more after its messages, instead of closing the connection.
    pub hangs: bool,
    /// Whether some bytes of each message are others, and which.
    pub damage: Option<u64>,
}

impl Reply {
    pub fn of(messages: Vec<Vec<Rec>>) -> Self {
        Reply {
            rcode: Rcode::NOERROR,
            is_authority: true,
            messages,
            unsigned_from: usize::MAX,
            hangs: false,
            damage: None,
        }
    }

    pub fn refused(rcode: Rcode) -> Self {
        Reply {
            rcode,
            ..Reply::of(vec![vec![]])
        }
    }
}

pub type Answers = Box<dyn FnMut(Rtype, Option<u32>) -> Reply + Send>;

/// A primary in threads of this process.
pub struct Primary {
    pub address: SocketAddr,
    pub answers: Arc<Mutex<Answers>>,
    pub asked: Arc<Mutex<Vec<Rtype>>>,
}

pub fn key(name: &str, secret: &[u8]) -> Arc<Key> {
    let name = name.parse().unwrap();
    Arc::new(Key::new(Algorithm::Sha256, secret, name, None, None).unwrap())
}

impl Primary {
    pub fn new(key: Option<Arc<Key>>, answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let primary = Primary {
            address: listener.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(answers)),
            asked: Arc::default(),
        };
        let (answers, asked) = (Arc::clone(&primary.answers), Arc::clone(&primary.asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                let key = key.clone();
                thread::spawn(move || {
                    // The other side may go at any time.
                    let _ = serve(stream, key, &answers, &asked);
                });
            }
        });
        primary
    }

    pub fn set(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
    }

    /// The questions since the last call.
    pub fn asked(&self) -> Vec<Rtype> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    pub fn secondary(&self, key: Option<&str>, folder: &Path) -> Secondary {
        let key = key.map(|text| TransferKey::parse(text).unwrap());
        let zone = Zone::new("rpz.test", self.address, key).unwrap();
        Secondary::new(zone, folder, limits()).unwrap()
    }
}

pub fn limits() -> Limits {
    Limits {
        answer: Duration::from_millis(700),
        whole: Duration::from_secs(3),
        pause: (Duration::from_millis(50), Duration::from_secs(3600)),
        ..Limits::default()
    }
}

pub fn send(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(message.len() as u16).to_be_bytes())?;
    stream.write_all(message)
}

pub fn receive(stream: &mut TcpStream) -> std::io::Result<Message<Vec<u8>>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut bytes = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut bytes)?;
    Ok(Message::from_octets(bytes).unwrap())
}

pub fn serve(
    mut stream: TcpStream,
    key: Option<Arc<Key>>,
    answers: &Mutex<Answers>,
    asked: &Mutex<Vec<Rtype>>,
) -> std::io::Result<()> {
    let mut message = receive(&mut stream)?;
    let mut signed = None;
    if let Some(key) = &key {
        match ServerSequence::request(key, &mut message, Time48::now()) {
            Ok(sequence) => signed = sequence,
            Err(error) => {
                let answer = error.build_message(&message, MessageBuilder::new_vec());
                return send(&mut stream, answer.unwrap().as_slice());
            }
        }
    }
    let rtype = message.sole_question().unwrap().qtype();
    let since = message.authority().unwrap().next().map(|record| {
        let record = record.unwrap();
        let data: UnknownRecordData<&[u8]> = record.to_record().unwrap().unwrap().into_data();
        let numbers = data.data().len() - 20;
        u32::from_be_bytes(data.data()[numbers..numbers + 4].try_into().unwrap())
    });
    asked.lock().unwrap().push(rtype);
    let reply = (answers.lock().unwrap())(rtype, since);
    for (number, records) in reply.messages.iter().enumerate() {
        let mut answer = MessageBuilder::new_vec()
            .start_answer(&message, reply.rcode)
            .unwrap();
        answer.header_mut().set_aa(reply.is_authority);
        for (name, rtype, data) in records {
            let name: Name<Vec<u8>> = name.parse().unwrap();
            let data = UnknownRecordData::from_octets(Rtype::from_int(*rtype), &data[..]).unwrap();
            answer
                .push((name, Class::IN, Ttl::from_secs(60), data))
                .unwrap();
        }
        let mut answer = answer.additional();
        if let Some(signed) = signed.as_mut().filter(|_| number < reply.unsigned_from) {
            signed.answer(&mut answer, Time48::now()).unwrap();
        }
        let mut bytes = answer.as_slice().to_vec();
        if let Some(seed) = reply.damage {
            let mut random = fastrand::Rng::with_seed(seed + number as u64);
            for _ in 0..random.usize(1..4) {
                // Most of the header is checked at once.
                let at = random.usize(4..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        send(&mut stream, &bytes)?;
    }
    if reply.hangs {
        thread::sleep(Duration::from_secs(5));
    }
    Ok(())
}

pub fn wire(name: &str) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().unwrap();
    name.as_slice().to_vec()
}

pub fn soa_with(serial: u32, times: [u32; 3]) -> Rec {
    let mut data = [wire("ns.rpz.test."), wire("mail.rpz.test.")].concat();
    for number in [serial, times[0], times[1], times[2], 60] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    ("rpz.test.".into(), 6, data)
}

pub fn soa(serial: u32) -> Rec {
    soa_with(serial, [3600, 600, 86400])
}

/// A rule that blocks a name.
pub fn rule(name: &str) -> Rec {
    (format!("{name}.rpz.test."), 5, wire("."))
}

/// A zone with these names, as it is transferred, so many records in a message.
pub fn whole(serial: u32, names: &[&str], chunk: usize) -> Vec<Vec<Rec>> {
    let mut all = vec![soa(serial), ("rpz.test.".into(), 2, wire("ns.rpz.test."))];
    all.extend(names.iter().map(|name| rule(name)));
    all.push(soa(serial));
    all.chunks(chunk).map(<[Rec]>::to_vec).collect()
}

/// A primary's answers about one version, without changes.
pub fn version(serial: u32, names: &'static [&'static str], chunk: usize) -> Answers {
    Box::new(move |rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(serial)]]),
        Rtype::AXFR => Reply::of(whole(serial, names, chunk)),
        _ => Reply::refused(Rcode::NOTIMP),
    })
}
