//! `closest` and `denial` on every kind of map, compared with the definitions of their answers.

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood::qp::{Key, QpFile, QpMap, QpShared, QpStore, ReadEntry};
use sapwood_model::oracle::{self, ByteMap};

use crate::support::folder::Folder;
use crate::support::values::{denial_of, keys_of};

const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
const QUERIES: usize = if cfg!(miri) { 20 } else { 100 };

/// A name of some labels out of a small set, so that names share labels. Long labels move clusters
/// far apart.
fn name(rng: &mut fastrand::Rng, labels: usize) -> Vec<u8> {
    let long = [b'l'; 63];
    let choice: [&[u8]; 8] = [b"a", b"b", b"*", b"ab", b"-", b"xn", &long, b"~"];
    let mut name = Vec::new();
    for _ in 0..rng.usize(..=labels) {
        match rng.u8(..8) {
            0 => name.extend((0..rng.usize(1..4)).map(|_| rng.u8(1..))),
            _ => name.extend(choice[rng.usize(..choice.len())]),
        }
        name.push(0);
    }
    name
}

/// A key that is a name, or now and then one that ends within a label and so is above no name.
fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut key = name(rng, 6);
    if rng.u8(..8) == 0 {
        key.pop();
    }
    key
}

fn is_cut(value: &u32) -> bool {
    value % 3 == 0
}

#[test]
fn it_answers_as_the_definitions_do() {
    let mut rng = fastrand::Rng::with_seed(16);
    let folder = Folder::quick("closest");
    let path = folder.file("map");
    // Predecessors that lie below cuts, and wildcards without an entry.
    let (mut skipped, mut bare) = (0, 0);
    for round in 0..ROUNDS {
        let mut model = ByteMap::new();
        let mut map = QpMap::new();
        let store = QpStore::new().unwrap();
        let shared = QpShared::new().unwrap();
        let mut txn = store.begin();
        for value in 0..rng.u32(..if round % 8 == 0 { 400 } else { 40 }) {
            let name = key(&mut rng);
            model.insert(&name, value);
            map.insert(&name, value).unwrap();
            txn.insert(&name, value).unwrap();
            shared.insert(&name, value).unwrap();
        }
        let open: Vec<_> = (0..QUERIES).map(|_| name(&mut rng, 7)).collect();
        let stored: Vec<_> = map.keys().map(Vec::from).collect();
        for name in open.iter().chain(&stored) {
            assert_eq!(
                keys_of(&txn.closest(name, 0, |_, v| is_cut(v))),
                model.closest(name, 0, is_cut)
            );
            assert_eq!(
                denial_of(&txn.denial(name, 0, |_, v| is_cut(v))),
                model.denial(name, 0, is_cut)
            );
        }
        txn.commit();
        let snapshot = store.snapshot();
        let file = (!cfg!(miri)).then(|| {
            map.save(&path).unwrap();
            QpFile::<u32>::open(&path).unwrap()
        });
        let pin = shared.pin();
        for name in open.iter().chain(&stored) {
            let wanted = model.closest(name, 0, is_cut);
            assert_eq!(
                keys_of(&map.closest(name, 0, |_, v| is_cut(v))),
                wanted,
                "{name:?}"
            );
            assert_eq!(
                keys_of(&snapshot.closest(name, 0, |_, v| is_cut(v))),
                wanted
            );
            assert_eq!(
                keys_of(&pin.view().closest(name, 0, |_, v| is_cut(v))),
                wanted
            );
            let proof = model.denial(name, 0, is_cut);
            let found = map.denial(name, 0, |_, v| is_cut(v));
            assert_eq!(denial_of(&found), proof, "{name:?}");
            let found = snapshot.denial(name, 0, |_, v| is_cut(v));
            assert_eq!(denial_of(&found), proof, "{name:?}");
            let found = pin.view().denial(name, 0, |_, v| is_cut(v));
            assert_eq!(denial_of(&found), proof, "{name:?}");
            if let Some(file) = &file {
                assert_eq!(keys_of(&file.closest(name, 0, |_, v| is_cut(v))), wanted);
                let found = file.denial(name, 0, |_, v| is_cut(v));
                assert_eq!(denial_of(&found), proof, "{name:?}");
            }
            skipped += usize::from(proof.predecessor != wanted.predecessor);
            bare += usize::from(proof.wildcard_exists && wanted.wildcard.is_none());
        }
    }
    assert!(
        cfg!(miri) || skipped > 1000 && bare > 1000,
        "{skipped} {bare}"
    );
}

/// The names of a zone with their numbers; 3 is a cut.
fn zone(names: &[(&str, u32)]) -> QpMap<u32> {
    let named = |(name, number): &(&str, u32)| (dns_name(name).unwrap(), *number);
    names.iter().map(named).collect()
}

/// The texts of the names whose NSEC records prove that a name is not there: that which covers the
/// name, and that which covers the wildcard. Empty where there is none.
fn proofs(zone: &QpMap<u32>, name: &str) -> [String; 2] {
    let found = zone.denial(dns_name(name).unwrap(), 0, |_, v| *v == 3);
    let text = |(key, _): ReadEntry<u32>| dns_name_to_text(&key).unwrap();
    [found.predecessor, found.wildcard_predecessor].map(|entry| entry.map(text).unwrap_or_default())
}

#[test]
fn no_name_below_a_cut_owns_the_record_that_covers_another() {
    let zone = zone(&[
        ("example", 1),
        ("!.example", 3),
        ("glue.!.example", 1),
        ("a.example", 1),
        ("sub.example", 3),
        ("ns.deep.sub.example", 3),
        ("below.ns.deep.sub.example", 1),
        ("ns.sub.example", 1),
        ("z.example", 1),
    ]);
    // The wildcard lies behind the glue of the cut before it.
    assert_eq!(proofs(&zone, "t.example"), ["sub.example", "!.example"]);
    // Of two cuts, the upper one; also for what lies below the cut itself.
    let below = "x.below.ns.deep.sub.example";
    assert_eq!(proofs(&zone, below), ["sub.example", "sub.example"]);
    assert_eq!(
        proofs(&zone, "u.sub.example"),
        ["sub.example", "sub.example"]
    );
    // The cut itself has a record of its own; what lies before it is the entry before it.
    assert_eq!(proofs(&zone, "sub.example"), ["a.example", ""]);
    assert_eq!(proofs(&zone, "b.example"), ["a.example", "!.example"]);
    // Outside of the zone.
    assert_eq!(proofs(&zone, "f"), ["z.example", ""]);
    assert_eq!(proofs(&zone, "a"), ["", ""]);
}

#[test]
fn a_wildcard_exists_by_a_name_below_it() {
    let zone = zone(&[
        ("example", 1),
        ("a.example", 1),
        ("f.*.e.example", 1),
        ("*.g.example", 1),
        ("x.*.h.example", 1),
        ("*.h.example", 1),
        ("*x.i.example", 1),
    ]);
    let exists = |name: &str| {
        let found = zone.denial(dns_name(name).unwrap(), 0, |_, _| false);
        (found.wildcard_exists, found.closest.wildcard.is_some())
    };
    assert_eq!(exists("something.e.example"), (true, false));
    assert_eq!(
        proofs(&zone, "something.e.example"),
        ["f.*.e.example", "a.example"]
    );
    assert_eq!(exists("something.g.example"), (true, true));
    assert_eq!(exists("something.h.example"), (true, true));
    // A label that begins with an asterisk is no wildcard.
    assert_eq!(exists("something.i.example"), (false, false));
    assert_eq!(exists("something.example"), (false, false));
    // Names that exist, with and without an entry.
    assert_eq!(exists("a.example"), (false, false));
    assert_eq!(exists("e.example"), (false, false));
    // The wildcard itself is asked for: it exists, and one may lie below it.
    assert_eq!(exists("*.e.example"), (false, false));
    assert_eq!(exists("*.example"), (false, false));
    assert_eq!(proofs(&zone, "*.example"), ["example", "example"]);
}

/// Beside a writer that changes other names in the same clusters and branches, answers that depend
/// on none of these stay as they are.
#[test]
fn answers_stay_beside_a_writer_of_other_names() {
    let (zones, changes) = if cfg!(miri) { (20, 60) } else { (400, 60_000) };
    for with_index in [false, true] {
        let builder = QpShared::builder();
        let shared = match with_index {
            true => builder.with_index().build().unwrap(),
            false => builder.build().unwrap(),
        };
        let zone = |zone: u32| format!("org\0{zone:03}\0").into_bytes();
        let below = |zone: &[u8], end: &[u8]| [zone, end].concat();
        shared.insert(b"org\0", 1).unwrap();
        for number in (0..2 * zones).step_by(2) {
            shared.insert(zone(number), 3 * number).unwrap();
            shared
                .insert(below(&zone(number), b"*\0"), 3 * number + 1)
                .unwrap();
        }
        let writes = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = fastrand::Rng::with_seed(17);
                for _ in 0..changes {
                    // It lies behind all below the zone before it.
                    let other = zone(2 * rng.u32(..zones) + 1);
                    match rng.bool() {
                        true => drop(shared.insert(&other, 1).unwrap()),
                        false => drop(shared.remove(&other).unwrap()),
                    }
                }
                writes.store(false, std::sync::atomic::Ordering::Relaxed);
            });
            let mut rng = fastrand::Rng::with_seed(18);
            while writes.load(std::sync::atomic::Ordering::Relaxed) {
                let number = 2 * rng.u32(..zones);
                let zone = zone(number);
                let (name, wildcard) = (below(&zone, b"x\0y\0"), below(&zone, b"*\0"));
                let pin = shared.pin();
                let found = pin.view().closest(&name, 0, |_, v| is_cut(v));
                let wanted = oracle::Closest {
                    exact: None,
                    exists: false,
                    encloser: zone.len(),
                    ancestor: Some(&zone[..]),
                    wildcard: Some(&wildcard[..]),
                    predecessor: Some(&wildcard[..]),
                    cut: Some(&zone[..]),
                };
                assert_eq!(keys_of(&found), wanted);
                let exact = pin.view().closest(&zone, 0, |_, v| is_cut(v));
                assert_eq!(keys_of(&exact).exact, Some(&zone[..]));
                assert_eq!(keys_of(&exact).ancestor, Some(&zone[..]));
                let proof = pin.view().denial(&name, 0, |_, v| *v == 1);
                let wanted = oracle::Denial {
                    closest: oracle::Closest {
                        cut: Some(b"org\0"),
                        ..wanted
                    },
                    wildcard_exists: true,
                    predecessor: Some(b"org\0"),
                    wildcard_predecessor: Some(b"org\0"),
                };
                assert_eq!(denial_of(&proof), wanted);
                let proof = pin.view().denial(&name, 0, |_, _| false);
                assert_eq!(denial_of(&proof).predecessor, Some(&wildcard[..]));
                assert_eq!(denial_of(&proof).wildcard_predecessor, Some(&zone[..]));
            }
        });
        shared.verify().unwrap();
    }
}

#[test]
fn a_cut_is_the_topmost_of_several_and_the_root_is_a_name() {
    let mut map = QpMap::new();
    for (name, value) in [
        (&b""[..], 3),
        (b"org\0", 1),
        (b"org\0a\0", 3),
        (b"org\0a\0b\0", 3),
    ] {
        map.insert(name, value).unwrap();
    }
    let cut = |_: &[u8], v: &u32| is_cut(v);
    let found = map.closest(b"org\0a\0b\0c\0", 0, |k, v| !k.is_empty() && cut(k, v));
    assert_eq!(found.cut, Some((Key::from("org\0a\0"), &3)));
    assert_eq!(found.ancestor, Some((Key::from("org\0a\0b\0"), &3)));
    assert_eq!(map.closest(b"net\0", 0, cut).cut, Some((Key::from(""), &3)));
    assert!(map.closest(b"", 0, cut).exists);
    let empty = QpMap::<u32>::new();
    let nothing = empty.closest(b"org\0", 0, cut);
    assert!(!nothing.exists && nothing.encloser == 0 && nothing.predecessor.is_none());
    let nothing = empty.denial(b"org\0", 0, cut);
    assert!(nothing.predecessor.is_none() && nothing.wildcard_predecessor.is_none());
    assert!(!nothing.wildcard_exists && nothing.closest.cut.is_none());
}
