//! Questions to a primary over TCP, and its answers, signed if there is a key.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::rdata::UnknownRecordData;
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::tsig::Time48;
use domain::tsig::{ClientSequence, Key};
use std::sync::Arc;

use super::item::Soa;
use super::{Limits, TransferError, TransferKey};

/// A question that was sent, and what its answers have to be.
pub struct Exchange {
    stream: TcpStream,
    limits: Limits,
    until: Instant,
    id: u16,
    zone: Name<Vec<u8>>,
    rtype: Rtype,
    sequence: Option<ClientSequence<Arc<Key>>>,
    is_first: bool,
}

impl Exchange {
    /// Asks for records of a type of a zone; for changes, since the version of a SOA.
    pub fn begin(
        primary: SocketAddr,
        zone: &Name<Vec<u8>>,
        (rtype, since): (Rtype, Option<&Soa>),
        key: Option<&TransferKey>,
        limits: &Limits,
    ) -> Result<Self, TransferError> {
        let until = Instant::now() + limits.whole;
        let stream = TcpStream::connect_timeout(&primary, limits.answer).map_err(network)?;
        stream
            .set_write_timeout(Some(limits.answer))
            .map_err(network)?;
        let too_long = |_| TransferError::Wrong("the question has no room".into());
        let mut question = MessageBuilder::new_vec().question();
        let id = random();
        question.header_mut().set_id(id);
        question.push((zone, rtype)).map_err(too_long)?;
        let mut authority = question.authority();
        if let Some(soa) = since {
            let data = UnknownRecordData::from_octets(Rtype::SOA, &soa.data[..]);
            let data =
                data.map_err(|_| TransferError::Wrong("the SOA of the copy is too long".into()))?;
            let record = (zone, Class::IN, Ttl::ZERO, data);
            authority.push(record).map_err(too_long)?;
        }
        let mut message = authority.additional();
        let sequence = key.map(|key| {
            ClientSequence::request(Arc::clone(&key.0), &mut message, Time48::now())
                .map_err(too_long)
        });
        let sequence = sequence.transpose()?;
        send(&stream, message.as_slice()).map_err(network)?;
        Ok(Exchange {
            stream,
            limits: limits.clone(),
            until,
            id,
            zone: zone.clone(),
            rtype,
            sequence,
            is_first: true,
        })
    }

    /// The next message of the answer.
    pub fn next(&mut self) -> Result<Message<Vec<u8>>, TransferError> {
        let mut len = [0; 2];
        self.read(&mut len)?;
        let mut bytes = vec![0; u16::from_be_bytes(len).into()];
        self.read(&mut bytes)?;
        let wrong = |what: &str| TransferError::Wrong(what.into());
        let mut message =
            Message::from_octets(bytes).map_err(|_| wrong("it is shorter than a message"))?;
        let header = message.header();
        let rcode = message.opt_rcode();
        if let Some(sequence) = &mut self.sequence {
            let signed = sequence.answer(&mut message, Time48::now());
            signed.map_err(|error| {
                TransferError::Signature(match rcode {
                    domain::base::iana::OptRcode::NOERROR => error.to_string(),
                    rcode => format!("{error} (it says {rcode})"),
                })
            })?;
        }
        if header.id() != self.id || !header.qr() || header.opcode() != Opcode::QUERY {
            return Err(wrong("it is not to this question"));
        }
        if header.rcode() != Rcode::NOERROR {
            return Err(TransferError::Refused(header.rcode().to_string()));
        }
        if header.tc() {
            return Err(wrong("it is truncated"));
        }
        let mut questions = message.question();
        match questions.next() {
            None if !self.is_first || self.rtype != Rtype::SOA => {}
            Some(Ok(question))
                if question.qname() == &self.zone && question.qtype() == self.rtype => {}
            _ => return Err(wrong("it has another question")),
        }
        self.is_first = false;
        Ok(message)
    }

    /// The end of the answer: whether its last message was signed.
    pub fn end(self) -> Result<(), TransferError> {
        let Some(sequence) = self.sequence else {
            return Ok(());
        };
        let signed = sequence.done();
        signed.map_err(|_| TransferError::Signature("the last message has no signature".into()))
    }

    fn read(&mut self, mut bytes: &mut [u8]) -> Result<(), TransferError> {
        while !bytes.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            let slow = TransferError::Slow(self.limits.whole.as_secs());
            if left.is_zero() {
                return Err(slow);
            }
            let wait = left.min(self.limits.answer).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(wait)).map_err(network)?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(TransferError::Cut),
                Ok(read) => bytes = &mut bytes[read..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(TransferError::Cut);
                }
                // The time for all of it was over first.
                Err(error) if is_late(&error) && left <= self.limits.answer => return Err(slow),
                Err(error) => return Err(network(error)),
            }
        }
        Ok(())
    }
}

/// Whether a socket's timeout is over.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn network(error: io::Error) -> TransferError {
    TransferError::Network(match error.kind() {
        // What a socket with a timeout says.
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    })
}

/// Sends a message over TCP.
pub fn send(mut stream: &TcpStream, message: &[u8]) -> io::Result<()> {
    let len = u16::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let mut bytes = len.to_be_bytes().to_vec();
    bytes.extend_from_slice(message);
    stream.write_all(&bytes)
}

/// A number that others do not know.
fn random() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now()) as u16
}
