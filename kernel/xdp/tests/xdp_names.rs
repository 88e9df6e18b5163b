//! The program `xdp-names` between two network namespaces. Real queries are answered or dropped
//! while its list changes.
#![cfg(feature = "kernel")]

mod common;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::dns::{message, query, wire};
use common::netns::Netns;
use sapwood_bpf::{BpfArena, Error};
use sapwood_xdp::NamesVerdict::{self, *};
use sapwood_xdp::{NameRule, NamesCounts, XdpMode, XdpNames};

const CLIENT: &str = "10.53.0.1";
const SERVER: &str = "10.53.0.2";
const CLIENT6: &str = "fd53::1";
const SERVER6: &str = "fd53::2";
/// The address in the server's answers.
const ADDRESS: [u8; 4] = [192, 0, 2, 53];

/// A server that answers every query that it can read, and keeps all other packets unchanged.
struct Server {
    odd: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    fn start(namespace: &Netns, addresses: &[&str]) -> Server {
        let odd = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let threads = addresses.iter().map(|address| {
            let address: IpAddr = address.parse().unwrap();
            let socket = namespace.inside(|| UdpSocket::bind((address, 53)).unwrap());
            let timeout = Some(Duration::from_millis(50));
            socket.set_read_timeout(timeout).unwrap();
            let (odd, stop) = (Arc::clone(&odd), Arc::clone(&stop));
            std::thread::spawn(move || serve(&socket, &odd, &stop))
        });
        let threads = threads.collect();
        Server { odd, stop, threads }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, odd: &Mutex<Vec<Vec<u8>>>, stop: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let message = &buffer[..bytes];
        match answer(message) {
            Some(answer) => {
                let _ = socket.send_to(&answer, from);
            }
            None => odd.lock().unwrap().push(message.to_vec()),
        }
    }
}

/// An answer of one address to a query of one whole name.
fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let header = message.get(..12)?;
    if header[2] & 0xf8 != 0 || header[4..6] != [0, 1] {
        return None;
    }
    let mut end = 12;
    while let length @ 1..=63 = *message.get(end)? {
        end += 1 + usize::from(length);
    }
    if message.get(end) != Some(&0) || message.len() < end + 5 {
        return None;
    }
    let mut out = message[..end + 5].to_vec();
    out[2..12].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    out.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    out.extend(ADDRESS);
    Some(out)
}

/// A sender that knows which of its queries were answered.
struct Client {
    socket: UdpSocket,
    server: SocketAddr,
    number: u16,
    sent: u64,
}

impl Client {
    fn new(namespace: &Netns, from: &str, to: &str) -> Client {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let socket = namespace.inside(|| UdpSocket::bind((from, 0)).unwrap());
        Client {
            socket,
            server: (to, 53).into(),
            number: 0,
            sent: 0,
        }
    }

    fn send(&mut self, message: &[u8]) {
        self.socket.send_to(message, self.server).unwrap();
        self.sent += 1;
    }

    /// Sends a query for each name, then waits for the expected answers. No other query may be
    /// answered. Packets keep their order, so this is known once the last query is answered; the
    /// last one must be expected.
    #[track_caller]
    fn ask(&mut self, names: &[(&str, bool)]) {
        assert!(names.last().unwrap().1, "the last one is answered");
        let mut wanted = HashMap::new();
        for (name, answered) in names {
            self.number = self.number.wrapping_add(1);
            wanted.insert(self.number, (*name, *answered));
            self.send(&message(self.number, 0x0100, &wire(name)));
        }
        let end = Instant::now() + Duration::from_secs(10);
        let mut buffer = [0; 4096];
        while wanted.values().any(|(_, answered)| *answered) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no answers: {wanted:?}");
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok(bytes) = self.socket.recv(&mut buffer) else {
                continue;
            };
            let number = u16::from_be_bytes([buffer[0], buffer[1]]);
            let of = wanted.remove(&number);
            assert!(
                matches!(of, Some((_, true))),
                "{number}: {of:?} was answered"
            );
            assert_eq!(buffer[bytes - 4..bytes], ADDRESS);
        }
    }
}

/// Two namespaces, a server in one of them, and a filter before it.
struct Lab {
    server: Server,
    filter: XdpNames,
    client: Netns,
    behind: Netns,
}

impl Lab {
    fn new(
        names: impl IntoIterator<Item = (String, NameRule)>,
        mode: Option<XdpMode>,
    ) -> Option<Lab> {
        if let Err(why) = sapwood_bpf::check() {
            println!("skipped: {why}");
            return None;
        }
        let [client, behind] = Netns::some(["client", "server"])?;
        Netns::veth(
            (&client, "c0", &["10.53.0.1/24", "fd53::1/64"]),
            (&behind, "s0", &["10.53.0.2/24", "fd53::2/64"]),
        );
        let server = Server::start(&behind, &[SERVER, SERVER6]);
        let arena = BpfArena::create(512 << 20).unwrap();
        let mut filter = XdpNames::load(&arena, "blocked", names).unwrap();
        let index = behind.index("s0");
        let link = behind.inside(|| {
            let link = filter.attach(index, mode).unwrap();
            (link.mode(), link.native_refused().map(str::to_owned))
        });
        let wanted = mode.unwrap_or(XdpMode::Native);
        assert_eq!(link, (wanted, None));
        Some(Lab {
            server,
            filter,
            client,
            behind,
        })
    }

    /// Packets that the client's end has sent so far.
    fn sent(&self) -> u64 {
        let out = self.client.run(&["cat", "/proc/net/dev"]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("c0:"));
        line.unwrap()
            .split_whitespace()
            .nth(9)
            .unwrap()
            .parse()
            .unwrap()
    }

    /// The number of packets and their verdicts, at a moment when no packet is in transit.
    fn quiet(&self) -> (u64, NamesCounts) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let (before, counts) = (self.sent(), self.filter.counts().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            if before == self.sent() && counts == self.filter.counts().unwrap() {
                return (before, counts);
            }
            assert!(Instant::now() < end, "packets come and come");
        }
    }

    /// Whether `dig` in the client's namespace gets an answer.
    #[track_caller]
    fn dig(&self, name: &str, more: &[&str]) -> bool {
        let at = format!("@{SERVER}");
        let args = ["dig", &at, name, "+tries=1", "+time=1", "+short"];
        let out = self.client.run(&[&args, more].concat());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let [a, b, c, d] = ADDRESS;
        match out.status.code() {
            Some(0) => assert_eq!(text.trim(), format!("{a}.{b}.{c}.{d}")),
            // No reply.
            code => assert_eq!(code, Some(9), "{text}"),
        }
        out.status.success()
    }
}

fn blocked(names: &[&str]) -> Vec<(String, NameRule)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), NameRule::Block))
        .collect()
}

#[track_caller]
fn expect(counts: &NamesCounts, wanted: &[(NamesVerdict, u64)]) {
    for verdict in NamesVerdict::ALL {
        let known = wanted.iter().find(|(one, _)| *one == verdict);
        // The kernel resolves neighbours and joins groups meanwhile.
        if verdict != Other {
            let wanted = known.map_or(0, |(_, count)| *count);
            assert_eq!(counts.get(verdict), wanted, "{verdict:?} of {counts:?}");
        }
    }
}

#[test]
fn dig_gets_no_answer_for_what_is_blocked() {
    let Some(lab) = Lab::new(blocked(&["ads.test", "pop.test"]), None) else {
        return;
    };
    let (sent, before) = lab.quiet();
    // Several clients ask at the same time.
    std::thread::scope(|scope| {
        let cases = [
            ("ads.test", false),
            ("AdS.TeSt", false),
            ("a.b.ads.test", false),
            ("pop.test", false),
            ("www.test", true),
            ("badads.test", true),
            ("test", true),
        ];
        for (name, answered) in cases {
            let lab = &lab;
            scope.spawn(move || assert_eq!(lab.dig(name, &[]), answered, "{name}"));
        }
    });
    assert!(lab.filter.rules().free("pop.test").unwrap());
    assert!(lab.dig("pop.test", &[]));
    assert!(lab.filter.rules().block("www.test").unwrap());
    assert!(lab.filter.rules().allow("good.www.test").unwrap());
    assert!(!lab.dig("www.test", &[]));
    assert!(lab.dig("very.good.www.test", &[]));
    // No server listens on TCP, and the packets are counted.
    assert!(!lab.dig("ads.test", &["+tcp"]));
    let (all, after) = lab.quiet();
    let counts = after.since(&before);
    assert_eq!(counts.total(), all - sent, "{counts:?}");
    assert!(counts.get(Tcp) >= 1);
    expect(
        &counts,
        &[(Dropped, 5), (Passed, 5), (Tcp, counts.get(Tcp))],
    );
}

#[test]
fn a_stream_of_queries_while_the_list_changes() {
    let soak: Option<f64> = std::env::var("SAPWOOD_SOAK")
        .ok()
        .map(|text| text.parse().unwrap());
    let many = if soak.is_some() { 1_000_000 } else { 20_000 };
    let rounds = if soak.is_some() { usize::MAX } else { 250 };
    let end = Instant::now() + Duration::from_secs_f64(soak.unwrap_or(600.0));
    let name = |i: usize| format!("host-{i}.zone-{}.test", i % 997);
    let names = (0..many).map(|i| (name(i), NameRule::Block));
    let Some(lab) = Lab::new(names, None) else {
        return;
    };
    assert_eq!(lab.filter.rules().map().len(), many);
    let (begun, before) = lab.quiet();
    let (mut v4, mut v6) = (
        Client::new(&lab.client, CLIENT, SERVER),
        Client::new(&lab.client, CLIENT6, SERVER6),
    );
    let stop = AtomicBool::new(false);
    let (mut dropped, mut passed, mut changed) = (0, 0, 0);
    let churned = std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            // Names around the queried ones come and go.
            let mut rng = fastrand::Rng::with_seed(4);
            let mut churned = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let i = rng.usize(0..many);
                for name in [
                    format!("x{i}.{}", name(i)),
                    format!("host-{i}x.zone-1.test"),
                ] {
                    lab.filter.rules().block(&name).unwrap();
                    if rng.u8(0..4) > 0 {
                        lab.filter.rules().free(&name).unwrap();
                    }
                }
                churned += 2;
            }
            churned
        });
        let mut rng = fastrand::Rng::with_seed(5);
        for round in 0..rounds {
            if Instant::now() >= end {
                break;
            }
            let client = if round % 2 == 0 { &mut v4 } else { &mut v6 };
            // One name is freed or blocked before each batch, and the change must hold in that
            // batch.
            let turn = name(rng.usize(0..many));
            let free = round % 4 < 2;
            if free {
                assert!(lab.filter.rules().free(&turn).unwrap());
                changed += 1;
            }
            let other = |rng: &mut fastrand::Rng| loop {
                let name = name(rng.usize(0..many));
                if name != turn {
                    return name;
                }
            };
            let mut batch = Vec::new();
            for i in 0..16 {
                let listed = match i % 3 {
                    0 => other(&mut rng),
                    1 => other(&mut rng).to_uppercase(),
                    _ => format!("a.B.{}", other(&mut rng)),
                };
                batch.push((listed, false));
                batch.push((format!("pass-{i}.zone-{i}.test"), true));
            }
            batch.push((turn.clone(), free));
            batch.push(("last.test".into(), true));
            let batch: Vec<_> = batch
                .iter()
                .map(|(name, yes)| (name.as_str(), *yes))
                .collect();
            let answered = batch.iter().filter(|(_, yes)| *yes).count() as u64;
            client.ask(&batch);
            passed += answered;
            dropped += batch.len() as u64 - answered;
            if free {
                assert!(lab.filter.rules().block(&turn).unwrap());
                changed += 1;
                client.ask(&[(&turn, false), ("last.test", true)]);
                dropped += 1;
                passed += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        churn.join().unwrap()
    });
    let (all, after) = lab.quiet();
    let counts = after.since(&before);
    println!(
        "{dropped} dropped, {passed} passed, {changed} changes before their queries, {churned} beside them"
    );
    expect(&counts, &[(Dropped, dropped), (Passed, passed)]);
    assert_eq!(v4.sent + v6.sent, dropped + passed);
    assert_eq!(counts.total(), all - begun, "every packet is counted once");
    assert!(churned > 100);
    assert!(lab.server.odd.lock().unwrap().is_empty());
    lab.filter.rules().map().verify().unwrap();
}

/// Packets other than queries arrive unchanged, and are counted. Names with pointers that lead
/// nowhere are dropped.
fn odd_packets(mode: Option<XdpMode>) {
    let Some(lab) = Lab::new(blocked(&["ads.test"]), mode) else {
        return;
    };
    let mut client = Client::new(&lab.client, CLIENT, SERVER);
    let (begun, before) = lab.quiet();
    let mut sent = Vec::new();
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut compressed, mut malformed, mut not_query) = (0, 0, 0);
    for round in 0..300u16 {
        let noise: Vec<u8> = (0..rng.usize(0..40)).map(|_| rng.u8(..)).collect();
        let mut packet = match round % 6 {
            0 => {
                compressed += 1;
                message(round, 0x0100, b"\x03ads\xc0\x0c")
            }
            1 => {
                compressed += 1;
                message(round, 0x0100, b"\xc0\x0c")
            }
            2 => {
                malformed += 1;
                message(round, 0x0100, b"\x03ads\x4ftest\0")
            }
            3 => {
                malformed += 1;
                let mut cut = query("www.ads.test");
                cut.truncate(rng.usize(0..cut.len()));
                cut
            }
            4 => {
                not_query += 1;
                message(round, 0x8180, &wire("ads.test"))
            }
            _ => {
                not_query += 1;
                message(round, 0x2800, &wire("ads.test"))
            }
        };
        if round % 6 != 3 {
            packet.extend(noise);
        }
        client.send(&packet);
        if round % 6 > 1 {
            sent.push(packet);
        }
        if round % 50 == 49 {
            // The server keeps up.
            client.ask(&[("ads.test", false), ("www.test", true)]);
        }
    }
    // A packet that arrives in three fragments.
    let mut large = message(1, 0x8180, &wire("ads.test"));
    large.resize(4000, 7);
    client.send(&large);
    sent.push(large);
    client.ask(&[("www.test", true)]);
    assert_eq!(
        *lab.server.odd.lock().unwrap(),
        sent,
        "packets were changed or lost"
    );
    // TCP.
    let listener = lab
        .behind
        .inside(|| TcpListener::bind((SERVER, 53)).unwrap());
    let stream = lab
        .client
        .inside(|| TcpStream::connect((SERVER, 53)).unwrap());
    drop((listener.accept().unwrap(), stream));
    let (all, after) = lab.quiet();
    let counts = after.since(&before);
    assert_eq!(counts.total(), all - begun, "every packet is counted once");
    assert!(counts.get(Tcp) >= 3);
    expect(
        &counts,
        &[
            (Compressed, compressed),
            (Malformed, malformed),
            (NotQuery, not_query),
            (Dropped, 6),
            (Passed, 7),
            (Fragment, 3),
            (Tcp, counts.get(Tcp)),
        ],
    );
}

#[test]
fn odd_packets_pass_in_native_mode() {
    odd_packets(None);
}

#[test]
fn odd_packets_pass_in_generic_mode() {
    odd_packets(Some(XdpMode::Generic));
}

/// Clients get answers with the bit TC, whose checksums their kernel verifies.
fn truncations(mode: Option<XdpMode>) {
    let rules = [("tcp.test".to_owned(), NameRule::Truncate)];
    let Some(lab) = Lab::new(rules, mode) else {
        return;
    };
    // A veth takes the frames of programs only if its other end has a program, too.
    let arena = BpfArena::create(16 << 20).unwrap();
    let names = [("other.test", NameRule::Block)];
    let mut other = XdpNames::load(&arena, "other", names).unwrap();
    let index = lab.client.index("c0");
    let attach = || other.attach(index, None).map(drop);
    lab.client.inside(attach).unwrap();
    let (_, before) = lab.quiet();
    for (from, to) in [(CLIENT, SERVER), (CLIENT6, SERVER6)] {
        let from: IpAddr = from.parse().unwrap();
        let to: IpAddr = to.parse().unwrap();
        let socket = lab.client.inside(|| UdpSocket::bind((from, 0)).unwrap());
        socket.connect((to, 53)).unwrap();
        let limit = Some(Duration::from_secs(10));
        socket.set_read_timeout(limit).unwrap();
        for name in ["tcp.test", "a.tcp.test", "ab.TCP.test"] {
            let mut wanted = query(name);
            socket.send(&wanted).unwrap();
            let mut buffer = [0; 600];
            let bytes = socket.recv(&mut buffer).unwrap();
            wanted[2] |= 0x82;
            wanted[3] |= 0x80;
            assert_eq!(buffer[..bytes], wanted, "{name}");
        }
    }
    let at = format!("@{SERVER}");
    let args = ["dig", &at, "www.tcp.test", "+ignore", "+tries=1", "+time=5"];
    let out = lab.client.run(&args);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("flags: qr tc rd ra;"), "{text}");
    assert!(text.contains("udp: 1232"), "{text}");
    let (_, after) = lab.quiet();
    expect(&after.since(&before), &[(Truncated, 7)]);
}

#[test]
fn truncations_arrive_in_native_mode() {
    truncations(None);
}

#[test]
fn truncations_arrive_in_generic_mode() {
    truncations(Some(XdpMode::Generic));
}

#[test]
fn on_and_off() {
    let Some(mut lab) = Lab::new(blocked(&["ads.test"]), None) else {
        return;
    };
    let mut client = Client::new(&lab.client, CLIENT, SERVER);
    let on = [("ads.test", false), ("www.test", true)];
    let off = [("ads.test", true), ("www.test", true)];
    client.ask(&on);
    // An interface has one program.
    let index = lab.behind.index("s0");
    let arena = BpfArena::create(1 << 20).unwrap();
    let names = [("ads.test", NameRule::Allow)];
    let mut second = XdpNames::load(&arena, "second", names).unwrap();
    let error = lab
        .behind
        .inside(|| second.attach(index, None).map(drop))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Io { error, .. } if error.kind() == std::io::ErrorKind::ResourceBusy),
        "{error}"
    );
    // This namespace has no such interface.
    assert!(second.attach(0x7fff_0000, None).is_err());
    assert!(sapwood_xdp::interface_index("none-such-0").is_err());
    assert_eq!(
        lab.behind
            .inside(|| sapwood_xdp::interface_index("s0").unwrap()),
        index
    );
    assert!(lab.filter.detach(index));
    assert!(!lab.filter.detach(index));
    client.ask(&off);
    // The drop detaches the program from its interfaces.
    lab.behind
        .inside(|| second.attach(index, None).map(drop))
        .unwrap();
    second.rules().block("ads.test").unwrap();
    assert_eq!(second.links().len(), 1);
    client.ask(&on);
    drop(second);
    client.ask(&off);
}
