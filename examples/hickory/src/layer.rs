//! A layer in front of any handler of requests, which asks the rules first.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hickory_server::authority::{MessageRequest, MessageResponse, MessageResponseBuilder};
use hickory_server::proto::ProtoError;
use hickory_server::proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_server::proto::rr::rdata::{CNAME, NULL};
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::proto::serialize::binary::{BinDecodable, BinEncodable, BinEncoder};
use hickory_server::proto::xfer::Protocol;
use hickory_server::server::{Request, RequestHandler, RequestInfo, ResponseHandler, ResponseInfo};
use sapwood::key::{dns_name_from_wire, dns_name_to_text};
use sapwood_lists::Action;

use crate::lists::{AskError, Found, Lists};

/// The names that rules may put in the place of one question's name, one after the other.
const MOST_NAMES: usize = 8;
/// The time to live of a rewriting.
const TTL: u32 = 60;
/// The bytes of a datagram that this server sends at most.
const MOST_BYTES: u16 = 1232;

/// Answers questions by the rules of lists, and hands all others to another handler.
///
/// A question whose name cannot be looked up gets SERVFAIL: an error never means that the name is
/// not listed.
pub struct ListLayer<H> {
    lists: Lists,
    inner: H,
    /// The last trouble, which is told once.
    trouble: Mutex<Option<String>>,
}

/// What becomes of a question.
enum Fate {
    /// The other handler answers.
    Pass,
    /// Nobody answers.
    Drop,
    /// The client shall ask by TCP.
    Truncate,
    /// An answer, and its records.
    Answer(ResponseCode, Vec<Record>),
}

impl<H: RequestHandler> ListLayer<H> {
    /// Puts rules in front of a handler.
    pub fn new(lists: Lists, inner: H) -> Self {
        ListLayer {
            lists,
            inner,
            trouble: Mutex::default(),
        }
    }

    /// What the rules say about a name.
    fn ask(&self, name: &Name, rtype: RecordType) -> Result<Option<Found>, AskError> {
        // Letter case does not matter to keys.
        let key = dns_name_from_wire(&name.to_bytes()?)?;
        self.lists.ask(&key, rtype.into())
    }

    /// Follows the rules from the name of a question.
    async fn fate(&self, request: &Request, info: &RequestInfo<'_>) -> Result<Fate, AskError> {
        let rtype = info.query.query_type();
        let mut name = info.query.original().name().clone();
        let mut records = Vec::new();
        for _ in 0..MOST_NAMES {
            let Some(found) = self.ask(&name, rtype)? else {
                return self.passed(request, name, records).await;
            };
            let code = match &found.action {
                Action::Nxdomain => ResponseCode::NXDomain,
                Action::Refused => ResponseCode::Refused,
                Action::Drop => return Ok(Fate::Drop),
                Action::Truncate if info.protocol == Protocol::Udp => return Ok(Fate::Truncate),
                Action::Truncate | Action::Pass => {
                    return self.passed(request, name, records).await;
                }
                Action::Name(_) => {
                    let key = found.answer.name.unwrap_or_default();
                    let target = name_of(&key)?;
                    let alias = RData::CNAME(CNAME(target.clone()));
                    records.push(Record::from_rdata(name, TTL, alias));
                    if rtype == RecordType::CNAME {
                        return Ok(Fate::Answer(ResponseCode::NoError, records));
                    }
                    name = target;
                    continue;
                }
                Action::Nodata | Action::Null | Action::Addresses(_) | Action::Records(_) => {
                    ResponseCode::NoError
                }
            };
            for record in found.answer.records {
                let data = RData::Unknown {
                    code: RecordType::from(record.rtype),
                    rdata: NULL::with(record.data),
                };
                records.push(Record::from_rdata(name.clone(), record.ttl, data));
            }
            return Ok(Fate::Answer(code, records));
        }
        // As far as the names lead, like other servers with a loop of aliases.
        Ok(Fate::Answer(ResponseCode::NoError, records))
    }

    /// What becomes of a question whose name passes. Behind aliases, the other handler is asked for
    /// the last one.
    async fn passed(
        &self,
        request: &Request,
        name: Name,
        mut records: Vec<Record>,
    ) -> Result<Fate, AskError> {
        if records.is_empty() {
            return Ok(Fate::Pass);
        }
        let info = request.request_info()?;
        let mut question = Message::new();
        let query = Query::query(name, info.query.query_type());
        question
            .set_id(request.id())
            .set_recursion_desired(request.recursion_desired())
            .set_checking_disabled(request.checking_disabled())
            .add_query(query);
        let question = MessageRequest::from_bytes(&question.to_vec()?)?;
        // Over TCP, so that the answer is not cut.
        let question = Request::new(question, request.src(), Protocol::Tcp);
        let kept = Kept::default();
        self.inner.handle_request(&question, kept.clone()).await;
        let answer = kept
            .message()
            .ok_or("the name behind an alias has no answer")??;
        records.extend(answer.answers().iter().cloned());
        Ok(Fate::Answer(answer.response_code(), records))
    }

    /// Says why questions cannot be looked up, when that changes.
    fn tell(&self, trouble: Option<String>) {
        let mut last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = trouble.as_ref().filter(|_| *last != trouble) {
            eprintln!("a name could not be looked up, and gets SERVFAIL: {why}");
        }
        *last = trouble;
    }
}

#[async_trait]
impl<H: RequestHandler> RequestHandler for ListLayer<H> {
    async fn handle_request<R: ResponseHandler>(&self, request: &Request, out: R) -> ResponseInfo {
        let is_question =
            request.message_type() == MessageType::Query && request.op_code() == OpCode::Query;
        if !is_question {
            return self.inner.handle_request(request, out).await;
        }
        let Ok(info) = request.request_info() else {
            // It has no question, or several, of which another handler may answer each.
            let answer = Fate::Answer(ResponseCode::FormErr, Vec::new());
            return reply(request, answer, out).await;
        };
        let fate = match self.fate(request, &info).await {
            Ok(fate) => {
                self.tell(None);
                fate
            }
            Err(error) => {
                self.tell(Some(error.to_string()));
                Fate::Answer(ResponseCode::ServFail, Vec::new())
            }
        };
        match fate {
            Fate::Pass => self.inner.handle_request(request, out).await,
            fate => reply(request, fate, out).await,
        }
    }
}

/// Sends the answer of a rule.
async fn reply<R: ResponseHandler>(request: &Request, fate: Fate, mut out: R) -> ResponseInfo {
    let mut header = Header::response_from_request(request.header());
    header.set_recursion_available(true);
    let mut records = Vec::new();
    match fate {
        Fate::Drop => return header.into(),
        Fate::Truncate => {
            header.set_truncated(true);
        }
        Fate::Answer(code, all) => {
            header.set_response_code(code);
            records = all;
        }
        Fate::Pass => {}
    }
    let mut builder = MessageResponseBuilder::from_message_request(request);
    if let Some(asked) = request.edns() {
        let mut edns = Edns::new();
        edns.set_max_payload(asked.max_payload().clamp(512, MOST_BYTES));
        builder.edns(edns);
    }
    let response = builder.build(header, &records, [], [], []);
    out.send_response(response).await.unwrap_or_else(|error| {
        eprintln!("an answer could not be sent: {error}");
        header.into()
    })
}

/// The name of a key.
fn name_of(key: &[u8]) -> Result<Name, AskError> {
    let text = dns_name_to_text(key)?;
    Ok(Name::from_labels(
        labels(&text).ok_or("a rule has no name")?,
    )?)
}

/// The labels of a name as text, in which a backslash stands before three digits of a byte, or
/// before a dot or another backslash.
fn labels(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut labels = vec![Vec::new()];
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        let byte = match (byte, more) {
            (b'.', _) => {
                labels.push(Vec::new());
                continue;
            }
            (b'\\', [b'0'..=b'9', _, _, after @ ..]) => {
                rest = after;
                std::str::from_utf8(&more[..3]).ok()?.parse().ok()?
            }
            (b'\\', [other, after @ ..]) => {
                rest = after;
                *other
            }
            _ => byte,
        };
        labels.last_mut()?.push(byte);
    }
    // The root is a single dot.
    labels.retain(|label| !label.is_empty());
    Some(labels)
}

/// Keeps the answer of a handler instead of sending it.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Option<Result<Message, ProtoError>>>>);

impl Kept {
    fn message(&self) -> Option<Result<Message, ProtoError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl ResponseHandler for Kept {
    async fn send_response<'a>(
        &mut self,
        response: MessageResponse<
            '_,
            'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
        >,
    ) -> io::Result<ResponseInfo> {
        let mut bytes = Vec::with_capacity(512);
        let mut encoder = BinEncoder::new(&mut bytes);
        let info = response.destructive_emit(&mut encoder)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Message::from_vec(&bytes));
        Ok(info)
    }
}

/// The sockets of a server, at one address: a datagram socket and a listener.
///
/// # Errors
/// The system's error.
pub async fn sockets(
    address: SocketAddr,
) -> io::Result<(tokio::net::UdpSocket, tokio::net::TcpListener)> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let socket = tokio::net::UdpSocket::bind(listener.local_addr()?).await?;
    Ok((socket, listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_have_the_bytes_of_their_labels() {
        let name = |labels: &[&[u8]]| Name::from_labels(labels.iter().copied()).unwrap();
        for (text, wanted) in [
            ("www.example", name(&[b"www", b"example"])),
            (r"a\.b.\000\255.x\\y", name(&[b"a.b", b"\0\xff", b"x\\y"])),
            (".", Name::root()),
        ] {
            let key = sapwood::key::dns_name(text).unwrap();
            assert_eq!(name_of(&key).unwrap(), wanted, "{text}");
            assert_eq!(
                dns_name_from_wire(&wanted.to_bytes().unwrap()).unwrap(),
                key
            );
        }
        assert!(name_of(b"no end").is_err());
    }
}
