//! MRT dumps and updates of bgpkit-parser's encoder and of this file's own: whole, cut and garbled.

use std::net::IpAddr;

use bgpkit_parser::BgpElem;
use bgpkit_parser::encoder::MrtRibEncoder;
use bgpkit_parser::models::Asn;
use sapwood_routes::{Error, MrtRoutes, Peer, RouteSource};

/// A dump of these entries, each a prefix, a peer and a next hop.
fn encoded(entries: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut encoder = MrtRibEncoder::new();
    for (prefix, peer, next_hop) in entries {
        let mut elem = BgpElem {
            timestamp: 1.0,
            peer_ip: peer.parse().unwrap(),
            peer_asn: Asn::from(65000),
            next_hop: Some(next_hop.parse().unwrap()),
            ..BgpElem::default()
        };
        elem.prefix.prefix = prefix.parse().unwrap();
        encoder.process_elem(&elem).unwrap();
    }
    encoder.export_bytes().unwrap().to_vec()
}

/// A record of a table dump.
fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0, 0, 1, 0, 13];
    record.extend(subtype.to_be_bytes());
    record.extend((body.len() as u32).to_be_bytes());
    record.extend(body);
    record
}

/// A table of the two peers 192.0.2.1 and 192.0.2.2.
fn peers() -> Vec<u8> {
    let mut body = vec![9, 9, 9, 9, 0, 0, 0, 2];
    for last in [1, 2] {
        body.extend([2, 9, 9, 9, last, 192, 0, 2, last, 0, 0, 0xfd, 0xe8]);
    }
    record(1, &body)
}

/// An entry of a RIB with the attributes ORIGIN and NEXT_HOP 198.51.100.`last`.
fn entry(peer: u8, path: Option<u32>, last: u8) -> Vec<u8> {
    let attributes = [0x40, 1, 1, 0, 0x40, 3, 4, 198, 51, 100, last];
    let mut entry = vec![0, peer, 0, 0, 0, 1];
    entry.extend(path.into_iter().flat_map(u32::to_be_bytes));
    entry.extend([0, attributes.len() as u8]);
    entry.extend(attributes);
    entry
}

/// A RIB record of a prefix, which is given in its wire form.
fn rib(subtype: u16, prefix: &[u8], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 7];
    body.extend(prefix);
    body.extend((entries.len() as u16).to_be_bytes());
    body.extend(entries.concat());
    record(subtype, &body)
}

/// All routes and bad records, sorted, and the error that ended the reading.
fn read(bytes: &[u8], peer: Peer) -> (Vec<String>, Option<String>) {
    let mut routes = MrtRoutes::new(bytes, peer);
    let mut all = Vec::new();
    let broken = loop {
        match routes.next_route() {
            Ok(Some(route)) => all.push(format!("{} {}", route.net, route.hop)),
            Ok(None) => break None,
            Err(Error::Bad(place)) => all.push(place.to_string()),
            Err(error) => break Some(error.to_string()),
        }
    };
    all.sort();
    (all, broken)
}

/// The remarks that count something.
fn told<R: std::io::Read>(routes: &MrtRoutes<R>) -> Vec<String> {
    let all = routes.remarks().into_iter().filter(|(count, _)| *count > 0);
    all.map(|(count, what)| format!("{count} {what}")).collect()
}

fn peer(address: &str) -> Peer {
    Peer::Address(address.parse::<IpAddr>().unwrap())
}

#[test]
fn both_families() {
    let bytes = encoded(&[
        ("10.0.0.0/8", "192.0.2.1", "198.51.100.1"),
        ("0.0.0.0/0", "192.0.2.1", "198.51.100.2"),
        ("10.1.2.3/32", "192.0.2.1", "198.51.100.3"),
        ("2001:db8::/33", "2001:db8::1", "2001:db8::2"),
        ("::/0", "2001:db8::1", "2001:db8::3"),
    ]);
    let (routes, broken) = read(&bytes, Peer::First);
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 198.51.100.2",
            "10.0.0.0/8 198.51.100.1",
            "10.1.2.3/32 198.51.100.3",
            "2001:db8::/33 2001:db8::2",
            "::/0 2001:db8::3",
        ]
    );
    assert_eq!(broken, None);
}

#[test]
fn the_first_entry_or_a_peers() {
    let bytes = [
        peers(),
        rib(2, &[8, 10], &[entry(1, None, 5), entry(0, None, 6)]),
        // Bits after the length have no meaning.
        rib(2, &[9, 11, 0xff], &[entry(0, None, 7)]),
        rib(8, &[8, 12], &[entry(1, Some(3), 8), entry(1, Some(4), 9)]),
        rib(2, &[8, 13], &[]),
        // A multicast record, and one of an unknown kind.
        rib(3, &[8, 224], &[entry(0, None, 1)]),
        record(99, b"what"),
    ]
    .concat();
    let (routes, broken) = read(&bytes, Peer::First);
    assert_eq!(
        (routes, broken),
        (
            vec![
                "10.0.0.0/8 198.51.100.5".to_owned(),
                "11.128.0.0/9 198.51.100.7".into(),
                "12.0.0.0/8 198.51.100.8".into(),
            ],
            None
        )
    );
    let (routes, broken) = read(&bytes, peer("192.0.2.1"));
    assert_eq!(
        routes,
        ["10.0.0.0/8 198.51.100.6", "11.128.0.0/9 198.51.100.7"]
    );
    assert_eq!(broken, None);
    let (routes, broken) = read(&bytes, peer("192.0.2.3"));
    assert!(routes.is_empty());
    assert_eq!(
        broken.unwrap(),
        "record 1: at byte 0: the dump has no peer 192.0.2.3; \
         its peers (2 in all) are 192.0.2.1 192.0.2.2"
    );
    let mut again = MrtRoutes::new(&bytes[..], peer("192.0.2.1"));
    while again.next_route().unwrap().is_some() {}
    assert_eq!(
        told(&again),
        [
            "2 prefixes without an entry of the wanted peer",
            "1 records of another kind: TABLE_DUMP_V2 RIB_IPV4_MULTICAST",
            "1 records of another kind: type 13, subtype 99",
        ]
    );
}

#[test]
fn next_hops_of_ipv6() {
    let global = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    // The attribute in the form of RFC 6396, only the address after its length, and in the form of
    // an update, with a family and a prefix.
    let short = [&[16][..], &global].concat();
    let pair = [&[32][..], &global, &local].concat();
    let only_local = [&[32][..], &[0; 16], &local].concat();
    let nothing = [&[32][..], &[0; 32]].concat();
    let whole = [&[0, 2, 1, 16][..], &global, &[0, 32, 0x20, 1, 0xd, 0xb9]].concat();
    let both = [
        &[0, 2, 1, 32][..],
        &global,
        &local,
        &[0, 32, 0x20, 1, 0xd, 0xb9],
    ]
    .concat();
    let right = "2001:db9::/32 2001:db8::1";
    for (announced, right) in [
        (short, right),
        (pair, right),
        (whole, right),
        (both, right),
        (only_local, "2001:db9::/32 fe80::1"),
        (nothing, "2001:db9::/32 "),
    ] {
        let mut attributes = vec![0x40, 1, 1, 0, 0x80, 14, announced.len() as u8];
        attributes.extend(&announced);
        let mut entry = vec![0, 0, 0, 0, 0, 1, 0, attributes.len() as u8];
        entry.extend(attributes);
        let bytes = [peers(), rib(4, &[32, 0x20, 1, 0xd, 0xb9], &[entry])].concat();
        let (routes, broken) = read(&bytes, Peer::First);
        assert_eq!(routes, [right], "{announced:?}");
        assert_eq!(broken, None);
    }
}

#[test]
fn the_next_usable_entry_is_taken() {
    let without = |peer| {
        let mut entry = entry(peer, None, 1);
        entry.truncate(12);
        entry[7] = 4;
        entry
    };
    let nowhere = |peer| {
        let mut entry = entry(peer, None, 0);
        let end = entry.len();
        entry[end - 4..].fill(0);
        entry
    };
    let bytes = [
        peers(),
        rib(2, &[8, 10], &[without(0), nowhere(1), entry(1, None, 7)]),
        rib(2, &[8, 11], &[without(0), without(1)]),
    ]
    .concat();
    let (routes, broken) = read(&bytes, Peer::First);
    assert_eq!(routes, ["10.0.0.0/8 198.51.100.7", "11.0.0.0/8 "]);
    assert_eq!(broken, None);
    let (routes, _) = read(&bytes, peer("192.0.2.1"));
    assert_eq!(routes, ["10.0.0.0/8 ", "11.0.0.0/8 "]);
}

/// A record of the older dumps.
fn old(prefix: [u8; 4], length: u8, peer: u8, last: u8) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 7];
    body.extend(prefix);
    body.extend([length, 1, 0, 0, 0, 1, 192, 0, 2, peer, 0xfd, 0xe8]);
    // The path has numbers of two bytes.
    let path = [0x40, 2, 4, 2, 1, 0xfd, 0xe9];
    let attributes = [
        &[0x40, 1, 1, 0][..],
        &path,
        &[0x40, 3, 4, 198, 51, 100, last],
    ]
    .concat();
    body.extend([0, attributes.len() as u8]);
    body.extend(attributes);
    let mut record = record(1, &body);
    record[5] = 12;
    record
}

#[test]
fn dumps_of_the_older_kind() {
    let bytes = [
        old([10, 0, 0, 0], 8, 2, 5),
        old([10, 0, 0, 0], 8, 1, 6),
        old([11, 1, 0, 0], 16, 1, 7),
    ]
    .concat();
    let first = ["10.0.0.0/8 198.51.100.5", "11.1.0.0/16 198.51.100.7"];
    assert_eq!(
        read(&bytes, Peer::First),
        (first.map(String::from).into(), None)
    );
    let his = ["10.0.0.0/8 198.51.100.6", "11.1.0.0/16 198.51.100.7"];
    assert_eq!(
        read(&bytes, peer("192.0.2.1")),
        (his.map(String::from).into(), None)
    );
    let (_, broken) = read(&bytes, peer("192.0.2.9"));
    let why = "the dump has no peer 192.0.2.9; its peers (2 in all) are 192.0.2.1 192.0.2.2";
    assert!(broken.unwrap().contains(why));
    let mut routes = MrtRoutes::new(&bytes[..], Peer::First);
    routes.next_route().unwrap().unwrap();
    assert_eq!(routes.origin(), Some(65001));
}

#[test]
fn dumps_one_after_the_other_are_put_together() {
    let dump = |last, second: u8| {
        let first = rib(2, &[8, 10], &[entry(0, None, last)]);
        [
            peers(),
            first,
            rib(2, &[8, second], &[entry(1, None, last)]),
        ]
        .concat()
    };
    let bytes = [dump(1, 11), dump(2, 12)].concat();
    let mut routes = MrtRoutes::new(&bytes[..], Peer::First);
    let mut all = Vec::new();
    while let Some(route) = routes.next_route().unwrap() {
        all.push(format!("{} {}", route.net, route.hop));
    }
    let right = [
        "10.0.0.0/8 198.51.100.2",
        "11.0.0.0/8 198.51.100.1",
        "12.0.0.0/8 198.51.100.2",
    ];
    assert_eq!(all, right);
    assert_eq!(told(&routes), ["1 dumps more, their union was taken"]);
}

#[test]
fn a_cut_file_is_read_to_its_end_when_asked() {
    let bytes = [
        peers(),
        rib(2, &[8, 10], &[entry(0, None, 1)]),
        rib(2, &[8, 11], &[entry(0, None, 2)]),
    ]
    .concat();
    let mut routes = MrtRoutes::new(&bytes[..bytes.len() - 3], Peer::First).partial(true);
    let route = routes.next_route().unwrap().unwrap();
    assert_eq!(route.net.to_string(), "10.0.0.0/8");
    assert!(routes.next_route().unwrap().is_none());
    let what = "1 input that ends too early: what was read before is taken";
    assert_eq!(told(&routes), [what]);
}

/// A record of `BGP4MP` (with numbers of four bytes) from a peer: what it withdraws, attributes,
/// and what it announces.
fn update(subtype: u16, peer: u8, gone: &[u8], attributes: &[u8], come: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    message.extend([0, 0, 2]);
    message.extend((gone.len() as u16).to_be_bytes());
    message.extend(gone);
    message.extend((attributes.len() as u16).to_be_bytes());
    message.extend(attributes);
    message.extend(come);
    message[17] = message.len() as u8;
    let mut body = vec![
        0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, peer,
    ];
    body.extend([192, 0, 2, 100]);
    body.extend(message);
    let mut record = record(subtype, &body);
    record[5] = 16;
    record
}

/// The attributes of an announcement by 198.51.100.`last`.
fn by(last: u8) -> Vec<u8> {
    let path = [0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8];
    [
        &[0x40, 1, 1, 0][..],
        &path,
        &[0x40, 3, 4, 198, 51, 100, last],
    ]
    .concat()
}

/// Routes as `next_change` leaves them.
fn changes(bytes: &[u8], peer: Peer) -> Vec<String> {
    let mut routes = MrtRoutes::new(bytes, peer);
    let mut all = std::collections::BTreeMap::new();
    while let Some((net, route)) = routes.next_change().unwrap() {
        match route {
            Some(hop) => drop(all.insert(net, hop)),
            None => assert!(all.remove(&net).is_some(), "{net}"),
        }
    }
    let show = |hop: &Option<IpAddr>| hop.map_or_else(String::new, |hop| hop.to_string());
    let mut all: Vec<_> = all
        .iter()
        .map(|(net, hop)| format!("{net} {}", show(hop)))
        .collect();
    all.sort();
    all
}

#[test]
fn updates_on_top_of_a_dump() {
    let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let reach = [
        &[0x80, 14, 26, 0, 2, 1, 16][..],
        &six,
        &[0, 32, 0x20, 1, 0xd, 0xb9],
    ]
    .concat();
    let unreach = [0x80, 15, 8, 0, 2, 1, 32, 0x20, 1, 0xd, 0xb9];
    let dump = [
        peers(),
        rib(2, &[8, 10], &[entry(0, None, 1), entry(1, None, 2)]),
        rib(2, &[8, 11], &[entry(0, None, 3)]),
        rib(2, &[8, 12], &[entry(1, None, 4)]),
    ]
    .concat();
    let mut file = dump;
    let mut is = |record: Vec<u8>, right: &[&str]| {
        file.extend(record);
        assert_eq!(
            read(&file, Peer::First),
            (right.iter().map(|r| r.to_string()).collect(), None)
        );
        assert_eq!(changes(&file, Peer::First), right);
    };
    let (a, b) = ("10.0.0.0/8 198.51.100.2", "12.0.0.0/8 198.51.100.4");
    is(update(4, 1, &[8, 10, 8, 11], &[], &[]), &[a, b]);
    // What the collector sent is no news, and a withdrawal of what is not there changes nothing.
    is(update(7, 2, &[8, 10], &[], &[]), &[a, b]);
    is(update(4, 1, &[8, 12], &[], &[]), &[a, b]);
    // One message withdraws and announces.
    let c = "13.128.0.0/9 198.51.100.9";
    is(update(4, 2, &[8, 12], &by(9), &[9, 13, 0x80]), &[a, c]);
    let d = "2001:db9::/32 2001:db8::7";
    is(update(4, 1, &[], &reach, &[]), &[a, c, d]);
    is(update(4, 1, &[], &by(8), &[8, 10]), &[a, c, d]);
    is(
        update(4, 2, &[8, 10], &[], &[]),
        &["10.0.0.0/8 198.51.100.8", c, d],
    );
    is(
        update(4, 1, &[], &unreach, &[]),
        &["10.0.0.0/8 198.51.100.8", c],
    );
    // The session of a peer ends, and his routes go.
    let mut end = vec![0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 2];
    end.extend([192, 0, 2, 100, 0, 6, 0, 1]);
    let mut end = record(5, &end);
    end[5] = 16;
    is(end, &["10.0.0.0/8 198.51.100.8"]);
}

#[test]
fn updates_alone_and_those_of_one_peer() {
    let bytes = [
        update(4, 1, &[], &by(1), &[8, 10, 8, 11]),
        update(4, 2, &[], &by(2), &[8, 10, 8, 12]),
        // Paths with numbers, of which one goes.
        update(9, 1, &[], &by(5), &[0, 0, 0, 5, 8, 13]),
        update(9, 1, &[], &by(6), &[0, 0, 0, 6, 8, 13]),
        update(9, 1, &[0, 0, 0, 5, 8, 13], &[], &[]),
    ]
    .concat();
    let (routes, broken) = read(&bytes, Peer::First);
    let right = [
        "10.0.0.0/8 198.51.100.1",
        "11.0.0.0/8 198.51.100.1",
        "12.0.0.0/8 198.51.100.2",
        "13.0.0.0/8 198.51.100.6",
    ];
    assert_eq!(routes, right);
    assert_eq!(broken, None);
    let (routes, _) = read(&bytes, peer("192.0.2.2"));
    assert_eq!(
        routes,
        ["10.0.0.0/8 198.51.100.2", "12.0.0.0/8 198.51.100.2"]
    );
    assert_eq!(changes(&bytes, peer("192.0.2.2")), routes);
    let (routes, broken) = read(&bytes, peer("192.0.2.3"));
    assert!(routes.is_empty());
    assert!(broken.unwrap().contains("no peer 192.0.2.3"));
}

#[test]
fn bad_records_are_passed_over() {
    let good = rib(2, &[8, 10], &[entry(0, None, 1)]);
    let mut no_hop = entry(0, None, 1);
    no_hop.truncate(12);
    no_hop[7] = 4;
    let cut = entry(0, None, 1);
    let cut = &cut[..cut.len() - 1];
    let bytes = [
        peers(),
        rib(2, &[33, 1, 2, 3, 4, 5], &[entry(0, None, 1)]),
        rib(2, &[8, 11], &[no_hop]),
        rib(2, &[8, 12], &[entry(0, None, 1), cut.to_vec()]),
        rib(2, &[8, 12], &[[entry(0, None, 1), vec![0]].concat()]),
        rib(4, &[200], &[]),
        record(4, b"123"),
        good,
    ]
    .concat();
    let (routes, broken) = read(&bytes, Peer::First);
    assert_eq!(
        routes,
        [
            "10.0.0.0/8 198.51.100.1",
            "11.0.0.0/8 ",
            "record 2: at byte 46: a prefix of 33 bits",
            "record 4: at byte 121: 1 bytes of the record are missing",
            "record 5: at byte 178: 1 bytes after its last entry",
            "record 6: at byte 218: a prefix of 200 bits",
            "record 7: at byte 237: 1 bytes of the record are missing",
        ]
    );
    assert_eq!(broken, None);
    let early = rib(2, &[8, 10], &[entry(0, None, 1)]);
    let (routes, _) = read(&early, peer("192.0.2.1"));
    assert_eq!(
        routes,
        ["record 1: at byte 0: a RIB record comes before the table of peers"]
    );
}

#[test]
fn files_that_end_too_early_or_are_something_else() {
    let bytes = encoded(&[
        ("10.0.0.0/8", "192.0.2.1", "198.51.100.1"),
        ("2001:db8::/32", "192.0.2.1", "2001:db8::1"),
    ]);
    let mut whole = 0;
    for len in 0..bytes.len() {
        let (routes, broken) = read(&bytes[..len], Peer::First);
        match broken {
            Some(why) => assert!(why.contains("the file ends within the record"), "{why}"),
            // A file that is cut between records is whole. The table of peers alone has no
            // prefixes.
            None => whole += 1,
        }
        assert!(routes.len() < 2);
    }
    assert_eq!(whole, 3, "nothing, the peers, and one record more");

    let states = {
        let mut record = record(4, b"12345678");
        record[5] = 11;
        record.repeat(2)
    };
    let (_, broken) = read(&states, Peer::First);
    let why = "record 3: at byte 40: no prefixes: 2 records, \
               but none is a unicast RIB or an update of BGP: OSPFv2";
    assert_eq!(broken.as_deref(), Some(why));
    let mut huge = peers();
    huge[8] = 0x7f;
    let (_, broken) = read(&huge, Peer::First);
    assert!(broken.unwrap().starts_with("record 1: at byte 0: "));
    let (_, broken) = read(&[0; 40], Peer::First);
    assert!(broken.is_some());
}

#[test]
fn garbled_bytes_do_no_harm() {
    let bytes = [
        encoded(&[
            ("10.0.0.0/8", "192.0.2.1", "198.51.100.1"),
            ("10.1.0.0/16", "192.0.2.2", "198.51.100.2"),
            ("2001:db8::/32", "2001:db8::1", "2001:db8::2"),
        ]),
        rib(10, &[8, 0x20], &[entry(0, Some(1), 1)]),
        old([10, 0, 0, 0], 8, 2, 5),
        update(4, 2, &[8, 12], &by(9), &[9, 13, 0x80]),
    ]
    .concat();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut found = 0;
    for _ in 0..4000 {
        let mut garbled = bytes.clone();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..garbled.len());
            garbled[at] = rng.u8(..);
        }
        let (routes, _) = read(&garbled, Peer::First);
        found += routes.len();
    }
    assert!(found > 4000, "{found}");
}
