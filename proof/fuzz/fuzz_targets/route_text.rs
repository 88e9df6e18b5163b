//! Lines of text as routes: every line is a route, empty, or an error with its line number. A route
//! that is written and read again is the same. In every other format the text is routes or errors,
//! and each route has its prefix once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sapwood_routes::{Error, Format, Reading, RouteSource, TextRoutes, decompressed, show_route};

/// The routes as lines that read the same, and the numbers of bad lines.
fn read(text: &[u8], truncate: bool) -> (Vec<String>, Vec<u64>) {
    let mut routes = TextRoutes::new(text, truncate);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    loop {
        match routes.next_route() {
            Ok(Some(route)) => {
                assert_eq!(route.net, route.net.trunc());
                good.push(show_route(&route).expect("a line can hold the route"));
            }
            Ok(None) => break,
            Err(Error::Bad(place)) => {
                assert!(place.what.len() < 1000, "{place}");
                bad.push(place.number);
            }
            Err(error) => panic!("memory can be read: {error}"),
        }
    }
    (good, bad)
}

/// Reads a text as one of the formats of other programs.
fn read_as(bytes: &[u8], format: Option<Format>, partial: bool) {
    let reading = Reading {
        format,
        partial,
        ..Reading::default()
    };
    let Ok((told, mut routes)) = reading.open(bytes) else {
        return;
    };
    let mut last = None;
    loop {
        match routes.next_route() {
            Ok(Some(route)) => {
                assert_eq!(route.net, route.net.trunc());
                let is_list = matches!(told, Format::Text | Format::Pfx2as);
                assert!(is_list || last.is_none_or(|last| last < route.net));
                last = Some(route.net);
            }
            Ok(None) | Err(Error::Foreign(_) | Error::Broken(_) | Error::Io(_)) => break,
            Err(Error::Bad(place)) => assert!(place.what.len() < 1000, "{place}"),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for format in [
        Format::Pfx2as,
        Format::IpRoute,
        Format::Netstat,
        Format::ShowBgp,
        Format::Bird,
        Format::Json,
    ] {
        read_as(bytes, Some(format), false);
    }
    read_as(bytes, None, true);
    let (strict, refused) = read(bytes, false);
    let lines = bytes.split(|b| *b == b'\n').count() as u64;
    assert!(refused.is_sorted_by(|a, b| a < b) && refused.iter().all(|n| (1..=lines).contains(n)));
    assert!(strict.len() as u64 + refused.len() as u64 <= lines);
    let (lenient, still) = read(bytes, true);
    // Truncation turns bad lines into routes, and never removes a route.
    assert_eq!(strict.len() + refused.len(), lenient.len() + still.len());
    assert!(still.iter().all(|n| refused.contains(n)));
    let mut written = lenient.join("\n");
    assert_eq!(
        read(written.as_bytes(), false),
        (lenient.clone(), Vec::new())
    );
    written.push('\n');
    assert_eq!(read(written.as_bytes(), true), (lenient, Vec::new()));

    // Decompressing any input ends, or fails.
    if let Ok(input) = decompressed(bytes, None) {
        let mut routes = TextRoutes::new(std::io::Read::take(input, 1 << 20), false);
        while !matches!(routes.next_route(), Ok(None) | Err(Error::Io(_))) {}
    }
});
