//! Malicious MRT records: complete inputs, and bodies of records with valid lengths, so that the
//! fuzzer reaches the code behind the framing. Changes that are applied one by one lead to the
//! routes that are read at once.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sapwood_fuzz::Input;
use sapwood_routes::{Error, MrtRoutes, Peer, RouteSource};

/// Reads everything; returns the routes and the number of bad records.
fn read(bytes: &[u8], peer: Peer) -> (Vec<String>, usize) {
    let mut routes = MrtRoutes::new(bytes, peer);
    let (mut good, mut bad) = (Vec::new(), 0);
    loop {
        match routes.next_route() {
            Ok(Some(route)) => {
                assert_eq!(route.net, route.net.trunc());
                good.push(format!("{} {}", route.net, route.hop));
            }
            Ok(None) | Err(Error::Broken(_) | Error::Io(_)) => break,
            Err(Error::Bad(place)) => {
                assert!(!place.what.is_empty());
                bad += 1;
            }
            Err(Error::Foreign(_)) => panic!("records are asked for"),
        }
        // Each record has a header of 12 bytes, and a prefix of an update has at least one.
        assert!(good.len() + bad * 12 <= bytes.len());
    }
    assert!(good.is_sorted_by(|a, b| a != b));
    (good, bad)
}

/// The routes that all changes leave, and how many records were bad.
fn follow(bytes: &[u8], peer: Peer) -> (Vec<String>, usize) {
    let mut routes = MrtRoutes::new(bytes, peer);
    let (mut all, mut bad) = (BTreeMap::new(), 0);
    loop {
        match routes.next_change() {
            Ok(Some((net, Some(hop)))) => drop(all.insert(net, hop)),
            Ok(Some((net, None))) => drop(all.remove(&net)),
            Ok(None) | Err(Error::Broken(_) | Error::Io(_)) => break,
            Err(_) => bad += 1,
        }
    }
    let hop = |hop: Option<std::net::IpAddr>| hop.map_or_else(String::new, |hop| hop.to_string());
    let all = all
        .into_iter()
        .map(|(net, next)| format!("{net} {}", hop(next)));
    (all.collect(), bad)
}

/// Appends a record with a valid header.
fn record(file: &mut Vec<u8>, kind: u16, subtype: u16, body: &[u8]) {
    file.extend([0; 4]);
    file.extend(kind.to_be_bytes());
    file.extend(subtype.to_be_bytes());
    file.extend((body.len() as u32).to_be_bytes());
    file.extend(body);
}

fuzz_target!(|bytes: &[u8]| {
    let peers = [Peer::First, Peer::Address([192, 0, 2, 1].into())];
    for peer in peers {
        read(bytes, peer);
    }
    let input = Input::new(bytes);
    let mut file = Vec::new();
    let table = [
        9, 9, 9, 9, 0, 0, 0, 1, 2, 9, 9, 9, 9, 192, 0, 2, 1, 0, 0, 0xfd, 0xe8,
    ];
    record(&mut file, 13, 1, &table);
    while let Some(subtype) = input.draw::<u8>() {
        let kind = [13, 13, 13, 12, 16, 16, 17][input.below(7)];
        let Some(mut body) = input.draw::<Vec<u8>>() else {
            break;
        };
        // A prefix, one entry of the existing peer, and attributes from the input.
        if input.below(2) == 0 {
            let len = body.len().min(4000) as u16;
            let mut whole = vec![0, 0, 0, 0, 8, 10, 0, 1, 0, 0, 0, 0, 0, 0];
            whole.extend(len.to_be_bytes());
            whole.extend(&body[..usize::from(len)]);
            body = whole;
        }
        // An update of the peer, with withdrawn prefixes, attributes and prefixes from the input.
        if kind == 16 && input.below(2) == 0 {
            let len = body.len().min(4000);
            let mut whole = vec![0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1];
            whole.extend([192, 0, 2, 1, 192, 0, 2, 100]);
            whole.extend([0xff; 16]);
            whole.extend((len as u16 + 19).to_be_bytes());
            whole.push(2);
            whole.extend(&body[..len]);
            record(&mut file, kind, [4, 9][input.below(2)], &whole);
            continue;
        }
        record(&mut file, kind, u16::from(subtype % 14), &body);
    }
    let (all, _) = read(&file, Peer::First);
    let (ours, _) = read(&file, peers[1]);
    assert!(ours.len() <= all.len());
    for peer in peers {
        let (routes, bad) = read(&file, peer);
        // Nothing is read if a record is broken.
        if !routes.is_empty() {
            assert_eq!(follow(&file, peer), (routes, bad));
        }
    }
});
