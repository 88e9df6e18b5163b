//! All ordered maps behind one trait give the answers of a sorted list.

use std::collections::BTreeMap;
use std::ops::Bound;

use sapwood::Readable;
use sapwood::qp::{AnyFile, AnyValues, OrderedRead, QpFile, QpMap, QpShared, QpStore, ReadEntry};

type Oracle = BTreeMap<Vec<u8>, u64>;

fn owned((key, value): ReadEntry<'_, u64>) -> (Vec<u8>, u64) {
    assert_eq!(key.in_place(), Some(&*key));
    (key.to_vec(), *value)
}

/// Asks a map everything, for keys that are there and others.
fn agrees(map: &dyn OrderedRead<u64>, oracle: &Oracle, asked: &[Vec<u8>]) {
    let pair = |(key, value): (&Vec<u8>, &u64)| (key.clone(), *value);
    assert_eq!(map.entries(), oracle.len());
    assert_eq!(
        map.first_key_value().map(owned),
        oracle.first_key_value().map(pair)
    );
    assert_eq!(
        map.last_key_value().map(owned),
        oracle.last_key_value().map(pair)
    );
    let mut values = vec![None; asked.len()];
    let keys: Vec<&[u8]> = asked.iter().map(|key| &key[..]).collect();
    map.get_many(&keys, &mut values);
    for (key, value) in asked.iter().zip(values) {
        assert_eq!(value, oracle.get(key));
        assert_eq!(map.get(key), oracle.get(key));
        assert_eq!(
            map.get_key_value(key).map(owned),
            oracle.get_key_value(key).map(pair)
        );
        let before = oracle.range(..key.clone()).next_back();
        assert_eq!(map.predecessor(key).map(owned), before.map(pair));
        let after = (Bound::Excluded(key.clone()), Bound::Unbounded);
        assert_eq!(
            map.successor(key).map(owned),
            oracle.range(after.clone()).next().map(pair)
        );
        let above: Vec<_> = (oracle.iter().filter(|(k, _)| key.starts_with(k)))
            .map(pair)
            .collect();
        assert_eq!(map.longest_prefix(key).map(owned).as_ref(), above.last());
        let found: Vec<_> = map.ancestors(key).into_iter().map(owned).collect();
        assert_eq!(found, above);
        let below: Vec<_> = (oracle.iter().filter(|(k, _)| k.starts_with(key)))
            .map(pair)
            .collect();
        assert_eq!(map.prefix(key).map(owned).collect::<Vec<_>>(), below);
        let mut behind: Vec<_> = oracle.range(after).map(pair).collect();
        let bounds = (Bound::Excluded(&key[..]), Bound::Unbounded);
        assert_eq!(map.range(bounds).map(owned).collect::<Vec<_>>(), behind);
        behind.reverse();
        assert_eq!(
            map.range(bounds).rev().map(owned).collect::<Vec<_>>(),
            behind
        );
    }
}

fn names() -> (Oracle, Vec<Vec<u8>>) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut name = || {
        let labels = rng.usize(0..4);
        let name = (0..labels).flat_map(|_| [b"abc*"[rng.usize(0..4)], 0]);
        name.collect::<Vec<u8>>()
    };
    let oracle: Oracle = (0..60).map(|i| (name(), i)).collect();
    let asked: Vec<_> = (0..60)
        .map(|_| name())
        .chain(oracle.keys().cloned())
        .collect();
    (oracle, asked)
}

#[test]
fn every_kind_of_map_answers_as_a_sorted_list() {
    let (oracle, asked) = names();
    let entries = || oracle.iter().map(|(key, value)| (key.clone(), *value));
    let map: QpMap<u64> = entries().collect();
    agrees(&map, &oracle, &asked);

    let folder = crate::support::folder::Folder::new("ordered-read");
    let path = folder.file("names.qp");
    map.save(&path).unwrap();
    agrees(&QpFile::open(&path).unwrap(), &oracle, &asked);

    let store = QpStore::new().unwrap();
    let mut txn = store.begin();
    for (key, value) in entries() {
        txn.insert(key, value).unwrap();
    }
    agrees(&txn, &oracle, &asked);
    txn.commit();
    let snapshot = store.snapshot();
    agrees(&snapshot, &oracle, &asked);
    agrees(&store.pin().view(), &oracle, &asked);

    let shared = QpShared::new().unwrap();
    for (key, value) in entries() {
        shared.insert(key, value).unwrap();
    }
    agrees(&shared.pin().view(), &oracle, &asked);

    // All kinds tell the same of names in a zone.
    let mut reader = store.reader("test").unwrap();
    let view = Readable::view(&store, reader.reader_mut().guard());
    let kinds: [&dyn OrderedRead<u64>; 3] = [&map, &snapshot, &view];
    for name in &asked {
        let cut = |_: &[u8], value: &u64| value % 3 == 0;
        let [first, others @ ..] = kinds.map(|kind| {
            let denial = kind.denial(name, 0, &mut { cut });
            assert_eq!(
                format!("{:?}", kind.closest(name, 0, &mut { cut })),
                format!("{:?}", denial.closest)
            );
            format!("{denial:?}")
        });
        assert!(others.iter().all(|other| *other == first));
        assert_eq!(format!("{:?}", map.denial(name, 0, cut)), first);
    }
}

#[test]
fn a_file_opens_with_the_values_that_it_has() {
    let folder = crate::support::folder::Folder::new("any-file");
    let (numbers, bytes, other) = (folder.file("n"), folder.file("b"), folder.file("o"));
    QpMap::from([("ash", 1u64)]).save(&numbers).unwrap();
    let mut texts = QpMap::<[u8]>::new();
    for tree in ["ash", "elm"] {
        texts.insert(tree, b"tree").unwrap();
    }
    texts.save(&bytes).unwrap();
    QpMap::from([("ash", [1u64; 3])]).save(&other).unwrap();
    for open in [AnyFile::open_any, AnyFile::open_any_unverified] {
        let found = [&numbers, &bytes].map(|path| open(path).unwrap());
        assert!(matches!(
            found,
            [AnyValues::Numbers(_), AnyValues::Bytes(_)]
        ));
        assert_eq!(found.map(|file| file.entries()), [1, 2]);
        let error = open(&other).unwrap_err();
        assert!(error.cause.is_other_layout(), "{error}");
        assert!(error.to_string().contains("24 bytes"), "{error}");
    }
    std::fs::write(&other, b"no map").unwrap();
    assert!(
        !AnyFile::open_any(&other)
            .unwrap_err()
            .cause
            .is_other_layout()
    );
}
