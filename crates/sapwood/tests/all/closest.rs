//! `closest` on every kind of map, compared with the definition of each of its answers.

use sapwood::qp::{QpFile, QpMap, QpShared, QpStore};
use sapwood_model::oracle::{self, ByteMap};

use crate::support::folder::Folder;
use crate::support::values::keys_of;

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
        let stored: Vec<_> = map.keys().map(<[u8]>::to_vec).collect();
        for name in open.iter().chain(&stored) {
            assert_eq!(
                keys_of(&txn.closest(name, 0, |_, v| is_cut(v))),
                model.closest(name, 0, is_cut)
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
            if let Some(file) = &file {
                assert_eq!(keys_of(&file.closest(name, 0, |_, v| is_cut(v))), wanted);
            }
        }
    }
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
    assert_eq!(found.cut, Some((&b"org\0a\0"[..], &3)));
    assert_eq!(found.ancestor, Some((&b"org\0a\0b\0"[..], &3)));
    assert_eq!(map.closest(b"net\0", 0, cut).cut, Some((&b""[..], &3)));
    assert!(map.closest(b"", 0, cut).exists);
    let empty = QpMap::<u32>::new();
    let nothing = empty.closest(b"org\0", 0, cut);
    assert!(!nothing.exists && nothing.encloser == 0 && nothing.predecessor.is_none());
}
