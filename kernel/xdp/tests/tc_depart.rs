//! `tc-depart.bpf.c` on the egress hook of an interface, with real packets. A second program on the
//! same hook records the times that the packets got.
#![cfg(feature = "kernel")]

mod common;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use common::netns::Netns;
use sapwood_bpf::{BpfArena, Loader, ProgramMap, Programs, Words};
use sapwood_xdp::{TcxHook, TcxLink};

const DEPART: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tc-depart.bpf.o"));
const DEPARTURES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/departures.bpf.o"));

/// Nanoseconds of a byte, and bytes that may wait.
const BYTE_NS: u64 = 20_000;
const LIMIT: u64 = 20_000;
/// Bytes of a packet's payload, and of the frame.
const PAYLOAD: usize = 958;
const FRAME: u64 = 1000;

/// Loads an object with the constants of this section.
fn load(arena: &BpfArena, object: &[u8], section: &str, value: &[u8]) -> Programs {
    let mut loader = Loader::open(arena, object).unwrap();
    loader.set_constants(section, value).unwrap();
    loader.load().unwrap()
}

/// A packet as the second program saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    port: u64,
    bytes: u64,
    departs: u64,
    now: u64,
}

fn seen(words: &Words) -> Vec<Seen> {
    let packet = |at: usize| {
        let [port, bytes, departs, now] = [0, 1, 2, 3].map(|word| words.get(1 + at * 4 + word));
        Seen {
            port,
            bytes,
            departs,
            now,
        }
    };
    (0..words.get(0) as usize).map(packet).collect()
}

#[test]
fn packets_get_times_of_departure() {
    if let Err(why) = sapwood_bpf::check() {
        assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(), "{why}");
        println!("skipped: {why}");
        return;
    }
    let Some([left, right]) = Netns::some(["departs", "arrives"]) else {
        return;
    };
    for namespace in [&left, &right] {
        // Only the test's packets.
        let all = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                   echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        assert!(namespace.run(&["sh", "-c", all]).status.success());
    }
    Netns::veth(
        (&left, "l0", &["10.78.0.1/24"]),
        (&right, "r0", &["10.78.0.2/24"]),
    );
    let arena = BpfArena::create(64 << 20).unwrap();
    let flows = ProgramMap::<u64>::builder(&arena, "flows");
    let flows = flows.max_entries(1000).bytes(16 << 20).build().unwrap();
    let queue = ProgramMap::<u64>::builder(&arena, "queue").with_trie();
    let queue = queue
        .max_entries(1000)
        .longest_key(16)
        .bytes(16 << 20)
        .build()
        .unwrap();
    let waiting = Words::create(&arena, "waiting", 1).unwrap();
    let times = Words::create(&arena, "times", 1 + 4 * 4096).unwrap();
    let _services = [&flows, &queue].map(|map| map.spawn_service(Duration::from_millis(1)));

    let horizon = Duration::from_secs(2).as_nanos() as u64;
    let windows = [&flows, &queue].map(|map| map.window().number);
    let windows = [
        windows[0],
        windows[1],
        waiting.window().number,
        BYTE_NS as u32,
    ];
    let mut settings: Vec<u8> = windows.iter().flat_map(|one| one.to_ne_bytes()).collect();
    settings.extend([LIMIT, horizon].iter().flat_map(|one| one.to_ne_bytes()));
    let programs = load(&arena, DEPART, ".rodata.depart", &settings);
    let number = times.window().number.to_ne_bytes();
    let watcher = load(&arena, DEPARTURES, ".rodata.departures", &number);
    let interface = left.index("l0");
    let _links = left.inside(|| {
        [(&programs, "sw_depart"), (&watcher, "sw_departures")].map(|(programs, name)| {
            TcxLink::attach(programs, name, interface, TcxHook::Egress).unwrap()
        })
    });
    let counts = || programs.counts::<5>("sw_depart_counts").unwrap();

    let server = right.inside(|| UdpSocket::bind("10.78.0.2:7778").unwrap());
    server
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let sockets = [0, 1].map(|_| left.inside(|| UdpSocket::bind("10.78.0.1:0").unwrap()));
    let send = |socket: &UdpSocket| {
        socket.send_to(&[7; PAYLOAD], "10.78.0.2:7778").unwrap();
    };
    // Two flows. A packet takes 20 ms of its flow's time.
    for _ in 0..8 {
        sockets.iter().for_each(send);
    }
    let mut buffer = [0; 2048];
    for _ in 0..16 {
        // Without an fq qdisc nothing holds the packets.
        assert_eq!(server.recv(&mut buffer).unwrap(), PAYLOAD);
    }
    let packets = seen(&times);
    assert_eq!(packets.len(), 16);
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut waited = 0;
    for packet in &packets {
        assert_eq!(packet.bytes, FRAME);
        let before = last.insert(packet.port, packet.departs);
        match before {
            None => assert!(packet.departs <= packet.now, "{packet:?}"),
            Some(before) => {
                let earliest = before + FRAME * BYTE_NS;
                // Late only when the flow had no waiting packet.
                let right = packet.departs == earliest
                    || (packet.departs > earliest && packet.departs <= packet.now);
                assert!(right, "{packet:?} behind {before}");
            }
        }
        waited += u64::from(packet.departs > packet.now);
    }
    assert_eq!(last.len(), 2);
    assert!(waited > 0, "{packets:?}");
    let [scheduled, uncounted, dropped, _, _] = counts();
    assert_eq!((scheduled, uncounted, dropped), (16, 0, 0));

    // More bytes than may wait: some packets are dropped, and all others arrive.
    let mut sent = 16;
    while counts()[2] < 3 {
        assert!(sent < 4000, "{:?}", counts());
        sockets.iter().for_each(send);
        sent += 2;
    }
    let [scheduled, uncounted, dropped, _, _] = counts();
    assert_eq!((scheduled + dropped, uncounted), (sent, 0));
    assert_eq!(times.get(0), scheduled);
    assert!(waiting.get(0) <= LIMIT);
    for _ in 16..scheduled {
        assert_eq!(server.recv(&mut buffer).unwrap(), PAYLOAD);
    }

    // When the packets have departed, the next ones take them, and their flows are forgotten.
    let late = Instant::now() + Duration::from_secs(20);
    while queue.len() > 2 || flows.len() > 2 {
        assert!(Instant::now() < late, "{} {}", queue.len(), flows.len());
        std::thread::sleep(Duration::from_millis(500));
        send(&sockets[0]);
        assert_eq!(server.recv(&mut buffer).unwrap(), PAYLOAD);
    }
    let [scheduled, uncounted, _, _, departed] = counts();
    assert_eq!((scheduled - departed, uncounted), (queue.len() as u64, 0));
    assert_eq!(waiting.get(0), queue.len() as u64 * FRAME);
    queue.verify().unwrap();
    flows.verify().unwrap();
}
