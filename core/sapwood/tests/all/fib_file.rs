//! Saved tables of routes: every kind of next hop, and torn, foreign, hostile and old files.
#![cfg(all(unix, not(miri)))]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sapwood::arena::{HEADER_LEN, write_image};
use sapwood::lpm::ipnet::IpNet;
use sapwood::lpm::{
    BitFileBuilder, BitString, FibFile, FibFileBuilder, IpFib, Ipv4Fib, NullRoute, SavedHop,
};
use sapwood::maple::MapleMap;
use sapwood::qp::{OpenCause, QpFile, QpMap};
use sapwood::route::{Group, RouteTable};

use crate::saved_files::committed;
use crate::support::fibfile::{built, hop, is_whole, nets, query_everything};
use crate::support::folder::{Folder, decoded};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Why a file is not opened; the error names the file.
fn refused(path: &Path) -> OpenCause {
    let error = FibFile::open(path).expect_err("a bad file");
    let said = format!("cannot open {}: {}", path.display(), error.cause);
    assert_eq!((error.to_string(), &*error.path), (said, path));
    error.cause
}

#[test]
fn routes_come_back() {
    let folder = Folder::quick("fib-file");
    let path = folder.file("routes");
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..60 {
        let count = rng.usize(..150);
        let all: BTreeMap<IpNet, SavedHop<'static>> = nets(count, &mut rng)
            .into_iter()
            .map(|net| (net, hop(&mut rng)))
            .collect();
        let mut builder = FibFileBuilder::new();
        for (net, hop) in &all {
            let first = builder.hop(&SavedHop::Number(9)).unwrap();
            assert_eq!(builder.insert(*net, first).unwrap(), None);
            let hop = builder.hop(hop).unwrap();
            assert_eq!(builder.insert(*net, hop).unwrap(), Some(first));
            assert_eq!(builder.hop(&all[net]).unwrap(), hop, "stored once");
        }
        assert_eq!(
            (builder.len(), builder.is_empty()),
            (all.len(), all.is_empty())
        );
        builder.save(&path).unwrap();
        let file = FibFile::open(&path).unwrap();
        is_whole(&file);
        let found = file.iter().map(|(net, hop)| (net, file.hop(hop).unwrap()));
        assert!(found.eq(all.iter().map(|(net, hop)| (*net, hop.clone()))));
        for net in nets(30, &mut rng).iter().chain(all.keys()) {
            let address = net.addr();
            let covers = |to: u8| {
                let all = all
                    .keys()
                    .filter(move |n| n.prefix_len() <= to && n.contains(&address));
                let mut all: Vec<IpNet> = all.copied().collect();
                all.sort_by_key(IpNet::prefix_len);
                all
            };
            let matches = file.matches(address).map(|(net, _)| net);
            assert_eq!(matches.collect::<Vec<_>>(), covers(128));
            assert_eq!(file.lookup(address).map(|f| f.0), covers(128).pop());
            assert_eq!(
                file.lookup_value(address),
                file.lookup(address).map(|f| f.1)
            );
            let covering = file.covering(*net).map(|f| f.0);
            assert_eq!(covering.collect::<Vec<_>>(), covers(net.prefix_len()));
            assert_eq!(file.get(*net).is_some(), all.contains_key(net));
        }
    }
    let refused = FibFileBuilder::new().hop(&SavedHop::Name(&"x".repeat(65_530)));
    assert!(refused.is_err());
    let mut builder = FibFileBuilder::new();
    let hop = builder.hop(&SavedHop::Name(&"x".repeat(65_529))).unwrap();
    assert!(builder.insert("10.0.0.1/8".parse().unwrap(), hop).is_err());
}

#[test]
fn tables_read_the_files_of_each_other() {
    let folder = Folder::quick("fib-file-tables");
    let path = folder.file("routes");
    // Numbers have no size in a file, so a table of smaller values takes what fits.
    Ipv4Fib::from_iter([("10.0.0.0/8".parse().unwrap(), 70_000u64)])
        .snapshot()
        .save(&path)
        .unwrap();
    let fib = IpFib::<u32>::builder().load(&path).unwrap();
    assert_eq!(fib.get(net("10.0.0.0/8")), Some(70_000));
    let small = IpFib::<u16>::builder().load(&path).unwrap_err();
    assert!(
        small.to_string().ends_with(
            "the file has a next hop by number for 10.0.0.0/8, \"70000\"; the caller holds values \
             of 2 bytes"
        ),
        "{small}"
    );
    let routes = RouteTable::<u64>::builder().load(&path).unwrap();
    assert_eq!(routes.lookup([10, 1, 2, 3].into(), 5), Some(70_000));
    // A table whose groups have one member each is a table of next hops.
    routes.snapshot().save(&path).unwrap();
    assert_eq!(IpFib::<u64>::builder().load(&path).unwrap().len(), 1);
    let group = Group::new([(1u64 << 40, 1), (2, 3)]);
    routes.insert(net("2001:db8::/32"), group).unwrap();
    routes.snapshot().save(&path).unwrap();
    let file = FibFile::open(&path).unwrap();
    let hop = file.hop(file.get(net("2001:db8::/32")).unwrap()).unwrap();
    let SavedHop::Group(mut members) = hop else {
        panic!("{hop} is no group")
    };
    members.sort_by_key(|(_, weight)| *weight);
    assert_eq!(
        members,
        [(SavedHop::Number(1 << 40), 1), (SavedHop::Number(2), 3)]
    );
    let refused = IpFib::<u64>::builder().load(&path).unwrap_err();
    assert!(
        matches!(&refused.cause, OpenCause::NotHeld(what) if what.contains("a group of next hops")),
        "{refused}"
    );
    for (hop, why) in [
        (
            SavedHop::Name("core"),
            "a next hop by name for 10.0.0.0/8, \"core\"",
        ),
        (
            SavedHop::Null(NullRoute::Throw),
            "a null route for 10.0.0.0/8, \"throw\"",
        ),
        (SavedHop::Bytes(&[1; 9]), "a next hop of more than 8 bytes"),
    ] {
        let mut builder = FibFileBuilder::new();
        let hop = builder.hop(&hop).unwrap();
        builder.insert(net("10.0.0.0/8"), hop).unwrap();
        builder.save(&path).unwrap();
        let fib = IpFib::<u64>::builder().load(&path).unwrap_err();
        let routes = RouteTable::<u64>::builder().load(&path);
        let routes = match why.contains("a null route") {
            // A table of routes holds them.
            true => {
                let null = routes.unwrap().get(net("10.0.0.0/8")).unwrap();
                assert_eq!(null.null_route(), Some(NullRoute::Throw));
                None
            }
            false => Some(routes.unwrap_err()),
        };
        for error in [Some(fib), routes].into_iter().flatten() {
            assert!(matches!(error.cause, OpenCause::NotHeld(_)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}

#[test]
fn torn_and_damaged_files_are_refused() {
    let folder = Folder::quick("fib-file-torn");
    let path = folder.file("routes");
    let mut rng = fastrand::Rng::with_seed(4);
    let queries = nets(25, &mut rng);
    built(&queries[..20], &mut rng).save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(matches!(refused(&path), OpenCause::Image(_)), "{len} bytes");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        refused(&path);
        if let Ok(file) = FibFile::open_unverified(&path) {
            assert!(at >= HEADER_LEN, "byte {at} of the header");
            query_everything(&file, &queries);
        }
    }
    // With valid checksums, other bytes are refused or a table.
    let header = decoded(&whole);
    for _ in 0..2_000 {
        let mut body = whole[HEADER_LEN..].to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..body.len());
            body[at] = rng.u8(..);
        }
        write_image(&path, &[&body], header).unwrap();
        match FibFile::open(&path) {
            Ok(file) => is_whole(&file),
            Err(error) => assert!(matches!(error.cause, OpenCause::Corrupt(_)), "{error}"),
        }
        if let Ok(file) = FibFile::open_unverified(&path) {
            query_everything(&file, &queries);
        }
    }
}

/// Saves a table of bit strings with a list under the header of a table of routes.
fn forge(path: &Path, prefix: (&[u8], usize), word: u32, list: &[&[u8]]) {
    FibFileBuilder::new().save(path).unwrap();
    let layout = decoded(&fs::read(path).unwrap()).layout_hash;
    let mut bits = BitFileBuilder::<u32>::new();
    let prefix = BitString::truncated(prefix.0, prefix.1).unwrap();
    bits.insert(prefix, word).unwrap();
    for entry in list {
        bits.push_name(entry).unwrap();
    }
    bits.save(path).unwrap();
    let bytes = fs::read(path).unwrap();
    let mut header = decoded(&bytes);
    header.layout_hash = layout;
    write_image(path, &[&bytes[HEADER_LEN..]], header).unwrap();
}

#[test]
fn complete_files_that_are_no_tables_are_refused() {
    let folder = Folder::quick("fib-file-forged");
    let path = folder.file("routes");
    let ten = (&[0x40, 0xa0][..], 12);
    let listed = |position: u32| 1 << 30 | position;
    forge(&path, ten, listed(0), &[b"\0core"]);
    let file = FibFile::open(&path).unwrap();
    let found = file.lookup([10, 1, 2, 3].into()).unwrap();
    assert_eq!(
        (found.0, file.hop(found.1)),
        (net("10.0.0.0/8"), Some(SavedHop::Name("core")))
    );
    for prefix in [
        (&[0x50, 0xa0][..], 12),
        (&[0x40], 3),
        (&[0x40; 5], 37),
        (&[0x60; 17], 133),
    ] {
        forge(&path, prefix, 0, &[]);
        let cause = refused(&path);
        assert!(cause.to_string().contains("is not a prefix"), "{cause}");
    }
    let member = |weight: u32, word: u32| [weight.to_le_bytes(), word.to_le_bytes()].concat();
    let of = |kind: u8, members: &[Vec<u8>]| [&[kind][..], &members.concat()].concat();
    let group = of(3, &[member(1, listed(0))]);
    forge(
        &path,
        ten,
        listed(1),
        &[b"\0core", &group, &of(4, &[member(2, 7)])],
    );
    let file = FibFile::open(&path).unwrap();
    let hop = file.hop(file.get(net("10.0.0.0/8")).unwrap()).unwrap();
    assert_eq!(hop.to_string(), "core weight 1, 7 weight 2");
    let nested = [&b"\0core"[..], &group, &of(3, &[member(1, listed(1))])];
    let null_member = of(3, &[member(1, 2 << 30)]);
    let later = of(3, &[member(1, listed(1))]);
    for (word, list, why) in [
        (listed(1), &[&b"\0core"[..]][..], "leads to"),
        (2 << 30 | 4, &[], "leads to"),
        (3 << 30, &[], "leads to"),
        (listed(1), &[&of(3, &[]), &of(4, &[])], "leads to"),
        (0, &[b""], "entry 0 of the list"),
        (0, &[b"\0\xff"], "entry 0 of the list"),
        (0, &[b"\x01short"], "entry 0 of the list"),
        (0, &[b"\x05later"], "entry 0 of the list"),
        (0, &[b"\x03short"], "entry 0 of the list"),
        (0, &[&of(4, &[])], "entry 0 of the list"),
        (0, &[&null_member], "entry 0 of the list"),
        (0, &[&later, b"\0core"], "entry 0 of the list"),
        (0, &nested, "entry 2 of the list"),
    ] {
        forge(&path, ten, word, list);
        let cause = refused(&path);
        assert!(matches!(cause, OpenCause::Corrupt(_)), "{cause}");
        assert!(cause.to_string().contains(why), "{cause}");
        let file = FibFile::open_unverified(&path).unwrap();
        assert!(file.verify().is_err());
        query_everything(&file, &[net("10.0.0.0/8")]);
    }
}

#[test]
fn old_files_and_other_kinds_are_named() {
    let folder = Folder::quick("fib-file-old");
    let path = folder.file("routes");
    // Format 1 of the program, of the library's tables of u32 and of u64.
    assert_eq!(
        refused(&committed("program-1.routes")).to_string(),
        "the file is a table of routes in format 1 of the program `sapwood`, of an earlier \
         version; build it anew by `sapwood routes build`"
    );
    for name in ["library-1.routes", "library-1-wide.routes"] {
        assert_eq!(
            refused(&committed(name)).to_string(),
            "the file is a table of routes in format 1 of the library, of an earlier version; \
             save the table anew: Fib.save() in Python, a snapshot's `save` in Rust and C"
        );
        assert!(IpFib::<u64>::builder().load(committed(name)).is_err());
    }
    // A table of bit strings, whatever its prefixes are.
    let mut table = BitFileBuilder::<u32>::new();
    let bits = BitString::truncated(&[4, 10], 16).unwrap();
    table.insert(bits, 7).unwrap();
    table.save(&path).unwrap();
    let cause = refused(&path);
    assert!(cause.to_string().contains("BitFile opens"), "{cause}");
    // Other kinds.
    QpMap::from([("ash", 1u32)]).save(&path).unwrap();
    let cause = refused(&path);
    assert!(
        cause.to_string().contains("a map of names, which"),
        "{cause}"
    );
    let cause = refused(&committed("leaves-30.map"));
    assert!(cause.to_string().contains("a map of names or"), "{cause}");
    let ranges = MapleMap::from_iter([(0..=9, 1u64)]);
    ranges.snapshot().save(&path).unwrap();
    let cause = refused(&path);
    assert!(cause.to_string().contains("a map of ranges"), "{cause}");
    Ipv4Fib::from_iter([("10.0.0.0/8".parse().unwrap(), 7u32)])
        .snapshot()
        .save(&path)
        .unwrap();
    let error = QpFile::<u32>::open(&path).unwrap_err();
    assert!(error.to_string().contains("a table of routes"), "{error}");
}
