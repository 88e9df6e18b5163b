//! The server answers by the rules of lists, over UDP and TCP, while they change.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hickory_server::proto::op::{Edns, Message, Query, ResponseCode};
use hickory_server::proto::rr::{Name, RData, RecordType};
use sapwood::qp::QpStore;
use sapwood_lists::{Format, Loader, Options, Source};
use sapwood_live::Live;

const LIMIT: Duration = Duration::from_secs(20);
const UPSTREAM: [u8; 4] = [192, 0, 2, 1];
const RULES: &str = "$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\n\
nx.example CNAME .\n*.nx.example CNAME .\ngood.nx.example CNAME rpz-passthru.\n\
no.example CNAME *.\ndrop.example CNAME rpz-drop.\ntcp.example CNAME rpz-tcp-only.\n\
host.example A 192.0.2.7\nhost.example 30 TXT \"hi\"\nother.example CNAME host.example.\n\
away.example CNAME www.example.org.\nloop.example CNAME loop.example.\n\
*.wild.example CNAME *.nx.example.\n";

/// A server that answers every question for an address, in a thread that never ends.
fn upstream() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            let asked = Message::from_vec(&buffer[..bytes]).unwrap();
            let mut answer = Message::new();
            answer.set_id(asked.id());
            answer.set_message_type(hickory_server::proto::op::MessageType::Response);
            answer.set_recursion_available(true);
            answer.add_queries(asked.queries().iter().cloned());
            let query = &asked.queries()[0];
            if query.query_type() == RecordType::A {
                let [a, b, c, d] = UPSTREAM;
                let data = RData::A(std::net::Ipv4Addr::new(a, b, c, d).into());
                let record =
                    hickory_server::proto::rr::Record::from_rdata(query.name().clone(), 300, data);
                answer.add_answer(record);
            }
            socket.send_to(&answer.to_vec().unwrap(), from).unwrap();
        }
    });
    address
}

/// The running server; dropping it kills it.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(lists: &std::path::Path) -> Server {
        let mut child = command(lists)
            .arg(upstream().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("listens on ").unwrap();
        Server {
            child,
            address: address.parse().unwrap(),
        }
    }

    /// The answer over UDP, `None` without one in this time.
    fn udp(&self, question: &Message, limit: Duration) -> Option<Message> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(limit)).unwrap();
        socket.send(&question.to_vec().unwrap()).unwrap();
        let mut buffer = [0; 4096];
        let bytes = socket.recv(&mut buffer).ok()?;
        Some(Message::from_vec(&buffer[..bytes]).unwrap())
    }

    fn tcp(&self, question: &Message) -> Message {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let bytes = question.to_vec().unwrap();
        stream
            .write_all(&[&(bytes.len() as u16).to_be_bytes(), &bytes[..]].concat())
            .unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut bytes).unwrap();
        Message::from_vec(&bytes).unwrap()
    }

    /// The answer, which has the question's number and the question.
    fn ask(&self, name: &str, rtype: RecordType, tcp: bool) -> Message {
        let question = question(name, rtype);
        let answer = match tcp {
            true => self.tcp(&question),
            false => self.udp(&question, LIMIT).expect(name),
        };
        assert_eq!(answer.id(), question.id());
        assert_eq!(answer.queries(), question.queries(), "{name}");
        answer
    }

    fn code(&self, name: &str) -> ResponseCode {
        let by_udp = self.ask(name, RecordType::A, false).response_code();
        assert_eq!(
            self.ask(name, RecordType::A, true).response_code(),
            by_udp,
            "{name}"
        );
        by_udp
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn command(lists: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hickory-lists"));
    command.arg(lists).arg("127.0.0.1:0");
    command
}

fn question(name: &str, rtype: RecordType) -> Message {
    let mut message = Message::new();
    message.set_id(4711).set_recursion_desired(true);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), rtype));
    message.extensions_mut().replace(Edns::new());
    message
}

/// The data of an answer's records, as text.
fn data(answer: &Message) -> Vec<String> {
    let each = answer.answers().iter();
    each.map(|record| record.data().to_string()).collect()
}

fn sources(zone: &str) -> Vec<Source> {
    let refused = "local-zone: \"refused.example\" refuse\n";
    vec![
        Source::text("zone", zone).format(Format::Rpz),
        Source::text("conf", refused).format(Format::Unbound),
    ]
}

fn loader(zone: &str) -> Loader<'static> {
    let options = Options {
        allow_shrunk: true,
        ..Options::default()
    };
    Loader::new(sources(zone), options)
}

/// Each action of a rule is an answer.
fn answers(server: &Server) {
    use RecordType::{A, AAAA, TXT};
    for (name, code) in [
        ("nx.example.", ResponseCode::NXDomain),
        ("A.b.NX.example.", ResponseCode::NXDomain),
        ("good.nx.example.", ResponseCode::NoError),
        ("no.example.", ResponseCode::NoError),
        ("refused.example.", ResponseCode::Refused),
        ("x.refused.example.", ResponseCode::Refused),
        ("a.wild.example.", ResponseCode::NXDomain),
        ("loop.example.", ResponseCode::NoError),
        ("example.org.", ResponseCode::NoError),
    ] {
        assert_eq!(server.code(name), code, "{name}");
    }
    for (name, rtype, wanted) in [
        ("example.org.", A, &["192.0.2.1"][..]),
        ("good.nx.example.", A, &["192.0.2.1"]),
        ("no.example.", A, &[]),
        ("host.example.", A, &["192.0.2.7"]),
        ("host.example.", AAAA, &[]),
        ("host.example.", TXT, &["hi"]),
        ("other.example.", A, &["host.example.", "192.0.2.7"]),
        ("away.example.", A, &["www.example.org.", "192.0.2.1"]),
        ("a.wild.example.", A, &["a.wild.example.nx.example."]),
    ] {
        for tcp in [false, true] {
            let answer = server.ask(name, rtype, tcp);
            assert_eq!(data(&answer), wanted, "{name} {rtype}");
            assert!(!answer.truncated(), "{name}");
        }
    }
    let short = server.ask("tcp.example.", A, false);
    assert!(short.truncated() && short.answers().is_empty(), "{short}");
    assert_eq!(data(&server.ask("tcp.example.", A, true)), ["192.0.2.1"]);
    let dropped = question("drop.example.", A);
    assert!(server.udp(&dropped, Duration::from_millis(500)).is_none());
    // Two questions in one message are not answered one by one.
    let mut two = question("example.org.", A);
    two.add_query(Query::query(Name::from_ascii("nx.example.").unwrap(), A));
    let answer = server.udp(&two, LIMIT).unwrap();
    assert_eq!(answer.response_code(), ResponseCode::FormErr);
    // The name is too long for the place of the asterisk: neither listed nor not listed.
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.wild.example.", "a".repeat(40));
    assert_eq!(server.code(&long), ResponseCode::ServFail);
}

#[test]
fn a_live_map_answers_and_changes_under_questions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let store = Live::<QpStore<[u8]>>::create(&path).unwrap();
    loader(RULES).reload(&store).unwrap();
    let server = Server::start(&path);
    answers(&server);

    // Names of one text or of the other are blocked. A client that asks for one after the other
    // never finds both, nor none: its answers change sides as often as the rules do, at most.
    let text = |side: usize| {
        let name = |i| format!("n{i}.side{side}.test CNAME .\n");
        let many: String = (0..500).map(name).collect();
        format!("$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\nstays.test CNAME .\n{many}")
    };
    loader(&text(0)).reload(&store).unwrap();
    const RELOADS: usize = 20;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (server, over) = (&server, &over);
                scope.spawn(move || {
                    let (mut side, mut changes, mut asked) = (0, 0, 0);
                    loop {
                        let is_last = over.load(Ordering::Relaxed) && asked >= 50;
                        let i = (asked * 7 + client) % 500;
                        let name = format!("n{i}.side{}.test.", asked % 2);
                        let answer = server.ask(&name, RecordType::A, asked % 25 == 0);
                        let now = match answer.response_code() {
                            ResponseCode::NXDomain => asked % 2,
                            code => {
                                assert_eq!(code, ResponseCode::NoError, "{name}");
                                1 - asked % 2
                            }
                        };
                        changes += usize::from(now != side);
                        side = now;
                        let stays = server.ask("www.stays.test.", RecordType::A, false);
                        assert_eq!(stays.response_code(), ResponseCode::NoError);
                        let stays = server.ask("stays.test.", RecordType::A, false);
                        assert_eq!(stays.response_code(), ResponseCode::NXDomain);
                        asked += 1;
                        if is_last {
                            break;
                        }
                    }
                    assert!(changes <= RELOADS, "{changes} changes of {RELOADS} reloads");
                    (asked, side)
                })
            })
            .collect();
        for reload in 1..=RELOADS {
            std::thread::sleep(Duration::from_millis(20));
            loader(&text(reload % 2)).reload(&store).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        for client in clients {
            let (asked, side) = client.join().unwrap();
            println!("{asked} questions");
            assert_eq!(side, RELOADS % 2);
        }
    });

    // A map that was removed is no list without rules. Another one in its place is found.
    store.remove_map().unwrap();
    assert_eq!(server.code("example.org."), ResponseCode::ServFail);
    let store = Live::<QpStore<[u8]>>::create(&path).unwrap();
    loader(RULES).reload(&store).unwrap();
    assert_eq!(server.code("example.org."), ResponseCode::NoError);
    assert_eq!(server.code("nx.example."), ResponseCode::NXDomain);
    drop(server);
    store.remove_map().unwrap();
}

#[test]
fn a_saved_map_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocked.lists");
    let (map, _) = loader(RULES).build().unwrap();
    map.save(&path).unwrap();
    answers(&Server::start(&path));
}

#[test]
fn what_has_no_rules_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "nx.example\n").unwrap();
    let absent = folder.path().join("absent");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for path in [&text, &absent, &empty] {
        let begun = Instant::now();
        let out = command(path).arg("127.0.0.1:53").output().unwrap();
        let says = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{says}");
        assert!(says.contains(path.to_str().unwrap()), "{says}");
        assert!(begun.elapsed() < LIMIT);
    }
    let out = Command::new(env!("CARGO_BIN_EXE_hickory-lists")).output();
    assert_eq!(out.unwrap().status.code(), Some(2));
}
