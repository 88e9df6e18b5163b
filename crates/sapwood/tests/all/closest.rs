//! `closest` on every kind of map, against the definition of each of its answers.

use sapwood::qp::{QpFile, QpMap, QpShared, QpStore};
use sapwood_model::oracle::ByteMap;

use crate::support::folder::Folder;
use crate::support::values::keys_of;

const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
const QUERIES: usize = if cfg!(miri) { 20 } else { 100 };

/// A name of a few labels out of few, so that names meet. Long labels part clusters far apart.
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
            let name = name(&mut rng, 6);
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
