//! Malicious MRT records: complete inputs, and bodies of records with valid lengths, so that the
//! fuzzer reaches the code behind the framing.
#![no_main]

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
                good.push(format!("{} {}", route.net, route.next_hop));
            }
            Ok(None) | Err(Error::Broken(_) | Error::Io(_)) => break,
            Err(Error::Bad(place)) => {
                assert!(!place.what.is_empty());
                bad += 1;
            }
        }
        // Each record has a header of 12 bytes.
        assert!((good.len() + bad) * 12 <= bytes.len());
    }
    (good, bad)
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
        let kind = [13, 13, 13, 13, 12, 16, 17][input.below(7)];
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
        record(&mut file, kind, u16::from(subtype % 14), &body);
    }
    let (all, _) = read(&file, Peer::First);
    let (ours, _) = read(&file, peers[1]);
    assert!(ours.len() <= all.len());
});
