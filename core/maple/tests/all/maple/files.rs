//! Range maps in files: round trips compared with the map, and torn, foreign or hostile files.
#![cfg(all(unix, not(miri)))]

use std::fs;
use std::path::Path;

use sapwood::arena::{HEADER_LEN, Header};
use sapwood::maple::{MapleFile, MapleMap};
use sapwood::qp::{OpenCause, QpMap, SaveCause};
use sapwood_model::range_ops::{Domain, RangeOps};

use crate::support::folder::{Folder, decoded};
use crate::support::maple::{Pair, loud, tiny_nodes, usual_nodes};
use crate::support::steps::steps;

/// Checks that the file answers as the map does.
fn same(file: &MapleFile<u64>, map: &MapleMap<u64>) {
    let seen = file.view();
    map.read(|view| {
        assert_eq!(seen.len(), view.len());
        assert!(seen.iter().eq(view.iter()) && seen.iter().rev().eq(view.iter().rev()));
        assert!(seen.gaps(0..=u64::MAX).eq(view.gaps(0..=u64::MAX)));
        let places = view.iter().flat_map(|(range, _)| {
            let (start, end) = range.into_inner();
            [start.saturating_sub(1), start, end, end.saturating_add(1)]
        });
        for at in places.chain([0, u64::MAX]).take(200) {
            assert_eq!(seen.get(at), view.get(at));
            assert_eq!(seen.get_entry(at), view.get_entry(at));
            assert_eq!(seen.locate(at), view.locate(at));
            assert_eq!(seen.next_after(at), view.next_after(at));
            assert_eq!(seen.prev_before(at), view.prev_before(at));
            let size = (at % 5_000).max(1);
            assert_eq!(
                seen.find_gap(size, at..=u64::MAX),
                view.find_gap(size, at..=u64::MAX)
            );
        }
    });
}

#[test]
fn round_trips() {
    let folder = Folder::quick("maple");
    let path = folder.file("ranges");
    for (i, domain) in Domain::ALL.into_iter().enumerate() {
        let map = match i % 2 {
            0 => tiny_nodes(loud()),
            _ => usual_nodes(loud()),
        };
        let mut pair = Pair::new(map, |n: u64| n);
        for (turn, op) in RangeOps::new(domain, 3).take(steps(300)).enumerate() {
            pair.step(&op);
            if turn % 25 == 0 {
                pair.map.snapshot().save(&path).unwrap();
                same(&MapleFile::open(&path).unwrap(), &pair.map);
            }
        }
        // A snapshot is saved as it was, and an open file stays unchanged when it is replaced.
        let before = pair.map.dup().unwrap();
        let snapshot = pair.map.snapshot();
        pair.map.store(7..=70, 1).unwrap();
        snapshot.save(&path).unwrap();
        let file = MapleFile::open(&path).unwrap();
        pair.map.snapshot().save(&path).unwrap();
        same(&file, &before);
        same(&MapleFile::open(&path).unwrap(), &pair.map);
    }
    assert_eq!(folder.names(), ["ranges"]);
}

#[test]
fn values_of_other_plain_types() {
    let folder = Folder::quick("maple-types");
    let path = folder.file("ranges");
    let wide = MapleMap::from_iter([(0..=9, [1_u8; 20]), (u64::MAX..=u64::MAX, [2; 20])]);
    wide.snapshot().save(&path).unwrap();
    let file = MapleFile::<[u8; 20]>::open(&path).unwrap();
    assert!(file.view().iter().map(|(r, v)| (r, *v)).eq(&wide));
    let none = MapleMap::from_iter([(3..=4, ()), (5..=6, ())]);
    none.snapshot().save(&path).unwrap();
    assert_eq!(MapleFile::<()>::open(&path).unwrap().view().len(), 2);
    // The same entries give the same bytes, whatever the history of the map.
    let (one, other) = (folder.file("one"), folder.file("other"));
    MapleMap::from_iter([(0..=9, 1_u64), (20..=29, 2)])
        .snapshot()
        .save(&one)
        .unwrap();
    let detour = MapleMap::from_iter([(20..=29, 2_u64), (0..=100, 7), (20..=29, 2), (0..=9, 1)]);
    detour.clear_range(10..=19).unwrap();
    detour.clear_range(30..=u64::MAX).unwrap();
    detour.snapshot().save(&other).unwrap();
    assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
}

/// Why a file is not opened; the error names the file.
fn refused(path: &Path) -> OpenCause {
    let error = MapleFile::<u64>::open(path).expect_err("a bad file");
    let said = format!("cannot open {}: {}", path.display(), error.cause);
    assert_eq!((error.to_string(), &*error.path), (said, path));
    error.cause
}

fn saved(folder: &Folder, entries: u64) -> (std::path::PathBuf, Vec<u8>) {
    let path = folder.file("ranges");
    let map: MapleMap<u64> = (0..entries).map(|i| (i * 10..=i * 10 + 6, i)).collect();
    map.snapshot().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn torn_and_foreign_files_are_refused() {
    let folder = Folder::quick("maple-torn");
    let (path, bytes) = saved(&folder, 9);
    for len in 0..bytes.len() {
        fs::write(&path, &bytes[..len]).unwrap();
        assert!(matches!(refused(&path), OpenCause::Image(_)), "{len} bytes");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    assert!(matches!(refused(&path), OpenCause::Image(_)));
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        assert!(matches!(refused(&path), OpenCause::Image(_)), "byte {at}");
    }
    QpMap::from([("ash", 1_u64)]).save(&path).unwrap();
    assert!(matches!(refused(&path), OpenCause::OtherKind { .. }));
    fs::write(&path, &bytes).unwrap();
    assert!(
        MapleFile::<u32>::open(&path).is_err(),
        "values of another size"
    );
    assert!(
        matches!(refused(&folder.0), OpenCause::Image(_)),
        "a folder"
    );
    assert!(matches!(refused(&folder.file("none")), OpenCause::Image(_)));
    let map = MapleMap::from_iter([(0..=9, 1_u64)]);
    let error = map.snapshot().save(folder.file("none/ranges")).unwrap_err();
    assert!(matches!(error.cause, SaveCause::Io(_)));
    assert!(error.to_string().starts_with("cannot save "), "{error}");
}

/// Contents that no map has, with valid checksums.
#[test]
fn hostile_files_are_refused() {
    let folder = Folder::quick("maple-hostile");
    let (path, bytes) = saved(&folder, 8);
    let write = |header: Header, body: &[u8]| {
        fs::write(&path, [&header.seal(body)[..], body].concat()).unwrap();
    };
    let body = &bytes[HEADER_LEN..];
    let header = || decoded(&bytes);
    write(header(), body);
    assert_eq!(MapleFile::<u64>::open(&path).unwrap().view().len(), 8);
    for count in [0, 7, 9, 1 << 32, 1 << 60, (1 << 60) + 8, u64::MAX] {
        let mut other = header();
        other.roots[0] = count;
        write(other, body);
        assert!(
            matches!(refused(&path), OpenCause::Corrupt(_)),
            "{count} entries"
        );
    }
    // Borders that are out of order: entry 3 is 30..=36.
    for (word, value) in [
        (6, 26),
        (6, 37),
        (6, u64::MAX),
        (7, 29),
        (7, 40),
        (7, u64::MAX),
    ] {
        let mut other = body.to_vec();
        other[word * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
        write(header(), &other);
        let OpenCause::Corrupt(why) = refused(&path) else {
            panic!("word {word} is {value}")
        };
        assert!(why.contains("out of order"), "{why}");
    }
    // Any other bytes are a map in order, or refused.
    let mut rng = fastrand::Rng::with_seed(5);
    let mut opened = 0;
    for _ in 0..steps(2_000) {
        let mut other = body.to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..other.len());
            other[at] = rng.u8(..);
        }
        write(header(), &other);
        match MapleFile::<u64>::open(&path) {
            Ok(file) => {
                opened += 1;
                let entries: Vec<_> = file.view().iter().map(|(range, _)| range).collect();
                assert_eq!(entries.len(), 8);
                assert!(entries.iter().all(|range| !range.is_empty()));
                assert!(
                    entries
                        .windows(2)
                        .all(|pair| pair[0].end() < pair[1].start())
                );
            }
            Err(error) => assert!(matches!(error.cause, OpenCause::Corrupt(_)), "{error}"),
        }
    }
    assert!(opened > 0);
}
