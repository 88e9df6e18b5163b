//! MRT table dumps of bgpkit-parser's encoder and of this file's own: whole, cut and garbled.

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
            Ok(Some(route)) => all.push(format!("{} {}", route.net, route.next_hop)),
            Ok(None) => break None,
            Err(Error::Bad(place)) => all.push(place.to_string()),
            Err(error) => break Some(error.to_string()),
        }
    };
    all.sort();
    (all, broken)
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
        again.remarks(),
        [
            (2, "prefixes without an entry of the wanted peer"),
            (2, "records of other kinds")
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
    let whole = [&[0, 2, 1, 16][..], &global, &[0, 32, 0x20, 1, 0xd, 0xb9]].concat();
    let both = [
        &[0, 2, 1, 32][..],
        &global,
        &local,
        &[0, 32, 0x20, 1, 0xd, 0xb9],
    ]
    .concat();
    for announced in [short, pair, whole, both] {
        let mut attributes = vec![0x40, 1, 1, 0, 0x80, 14, announced.len() as u8];
        attributes.extend(&announced);
        let mut entry = vec![0, 0, 0, 0, 0, 1, 0, attributes.len() as u8];
        entry.extend(attributes);
        let bytes = [peers(), rib(4, &[32, 0x20, 1, 0xd, 0xb9], &[entry])].concat();
        let (routes, broken) = read(&bytes, Peer::First);
        assert_eq!(routes, ["2001:db9::/32 2001:db8::1"], "{announced:?}");
        assert_eq!(broken, None);
    }
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
            "record 2: at byte 46: a prefix of 33 bits",
            "record 3: at byte 89: 11.0.0.0/8 has no next hop",
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

    let updates = {
        let mut record = record(4, b"12345678");
        record[5] = 16;
        record.repeat(2)
    };
    let (_, broken) = read(&updates, Peer::First);
    let why = "record 3: at byte 40: no prefixes: 2 records, \
               but none is a unicast RIB of a TABLE_DUMP_V2";
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
