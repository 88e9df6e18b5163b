//! Tables of bit strings in files: answers, names, and replaced files; damaged and hostile files do
//! no harm.
#![cfg(all(unix, not(miri)))]

use std::fs;

use crate::support::bitfile::{is_whole, prefixes, query_everything};
use crate::support::folder::{Folder, decoded};
use sapwood::arena::{HEADER_LEN, Header};
use sapwood::lpm::{BitFib, BitFile, BitFileBuilder, BitString};
use sapwood::qp::{OpenCause, OpenError, QpFile, QpMap};
use sapwood_format::header::bits_hash;

fn sample(count: usize) -> (BitFib<u64>, BitFileBuilder<u64>) {
    let mut rng = fastrand::Rng::with_seed(count as u64);
    let entries: Vec<_> = prefixes(count, &mut rng).into_iter().zip(0..).collect();
    let mut builder = BitFileBuilder::new();
    builder.extend(entries.iter().cloned());
    (entries.into_iter().collect(), builder)
}

fn corrupt<V>(opened: Result<BitFile<V>, OpenError>) -> bool {
    opened.is_err_and(|error| matches!(error.cause, OpenCause::Corrupt(_)))
}

#[test]
fn a_file_answers_as_the_table_does() {
    let folder = Folder::new("bit-answers");
    let (path, built) = (folder.file("saved"), folder.file("built"));
    for count in [1, 2, 40, 20_000] {
        let (fib, builder) = sample(count);
        fib.snapshot().save(&path).unwrap();
        builder.save(&built).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(&built).unwrap());
        let file = BitFile::<u64>::open(&path).unwrap();
        file.verify().unwrap();
        let table = fib.snapshot();
        assert_eq!((file.len(), builder.len()), (table.len(), table.len()));
        assert!(!file.is_empty() && file.file_bytes() > HEADER_LEN);
        assert!(file.iter().eq(table.iter()));
        assert!(file.iter().rev().eq(table.iter().rev()));
        let mut rng = fastrand::Rng::with_seed(77);
        let queries = prefixes(500, &mut rng);
        for query in &queries {
            assert_eq!(file.get(query), table.get(query));
            assert_eq!(file.lookup(query), table.lookup(query));
            assert!(file.matches(query).eq(table.matches(query)));
            assert!(file.children(query).eq(table.children(query)));
            assert!(file.covered_by(query).eq(table.covered_by(query)));
        }
        let mut found = vec![None; queries.len()];
        file.lookup_batch(&queries, &mut found);
        assert!(
            found
                .into_iter()
                .eq(queries.iter().map(|q| table.lookup(q)))
        );
        assert_eq!((file.names_len(), file.names().count()), (0, 0));
    }
}

#[test]
fn a_table_with_inline_clusters_is_loaded_from_a_file() {
    let folder = Folder::new("bit-inline");
    let path = folder.file("saved");
    let (fib, _) = sample(5_000);
    fib.snapshot().save(&path).unwrap();
    let leaves = BitFib::<u64>::builder().load(&path).unwrap();
    let inline = BitFib::<u64>::builder().load_inline(&path).unwrap();
    inline.verify().unwrap();
    assert_eq!((inline.version(), inline.len()), (fib.version(), fib.len()));
    assert!(inline.snapshot().iter().eq(fib.snapshot().iter()));
    let own_leaves = |fib: &BitFib<u64>| fib.memory().map.leaves.0;
    assert_eq!(own_leaves(&leaves), fib.len());
    assert!(2 * own_leaves(&inline) < fib.len());
    let mut rng = fastrand::Rng::with_seed(78);
    for (i, query) in prefixes(500, &mut rng).iter().enumerate() {
        assert_eq!(inline.lookup(query), fib.lookup(query));
        match i % 2 {
            0 => assert_eq!(inline.remove(query).unwrap(), fib.remove(query).unwrap()),
            _ => assert_eq!(
                inline.insert(query, i as u64).unwrap(),
                fib.insert(query, i as u64).unwrap()
            ),
        }
    }
    inline.verify().unwrap();
    assert!(inline.snapshot().iter().eq(fib.snapshot().iter()));
}

#[test]
fn a_file_with_names_is_not_loaded() {
    let folder = Folder::new("bit-names-refused");
    let path = folder.file("named");
    let (_, mut builder) = sample(40);
    builder.push_name("uplink").unwrap();
    builder.save(&path).unwrap();
    for loaded in [
        BitFib::<u64>::builder().load(&path),
        BitFib::<u64>::builder().load_inline(&path),
    ] {
        let refused = loaded.err().unwrap();
        assert!(refused.to_string().contains("1 names"), "{refused}");
    }
}

#[test]
fn names_lie_beside_the_table() {
    let folder = Folder::new("bit-names");
    let path = folder.file("file");
    let mut builder = BitFileBuilder::<u32>::new();
    builder.save(&path).unwrap();
    let empty = BitFile::<u32>::open(&path).unwrap();
    assert!(empty.is_empty() && empty.iter().next().is_none());
    assert_eq!((empty.names_len(), empty.name(0)), (0, None));

    let long = "n".repeat(65_530);
    let names = ["", "via", "via", "other \0 name", &long];
    for (i, name) in names.iter().enumerate() {
        assert_eq!(builder.push_name(name), Ok(i as u32));
    }
    assert!(builder.push_name("n".repeat(65_531)).is_err());
    assert!(builder.is_empty());
    // A string of ones, which is the last in order.
    let last = BitString::from_number(u128::MAX, 128).unwrap();
    assert_eq!(builder.insert(&last, 4), Ok(None));
    assert_eq!(builder.insert(BitString::new(), 1), Ok(None));
    assert_eq!(builder.insert(BitString::new(), 2), Ok(Some(1)));
    builder.save(&path).unwrap();
    let file = BitFile::<u32>::open(&path).unwrap();
    assert_eq!((file.len(), file.names_len()), (2, 5));
    assert!(file.names().eq(names.map(str::as_bytes)));
    for (i, name) in names.iter().enumerate() {
        assert_eq!(file.name(i as u32), Some(name.as_bytes()));
    }
    assert_eq!(file.name(5), None);
    let all = [(BitString::new(), &2), (last.clone(), &4)];
    assert!(file.iter().eq(all.clone()));
    assert!(file.iter().rev().eq(all.into_iter().rev()));
    assert!(file.children(BitString::new()).eq([(last.clone(), &4)]));
    assert_eq!(file.lookup(&last), Some((128, &4)));
    // The replaced file stays unchanged for the process that has it open.
    assert!(empty.is_empty());
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn maps_with_other_keys_are_refused() {
    let folder = Folder::new("bit-foreign");
    let path = folder.file("file");
    let name = |number: u32| [&[255][..], &number.to_be_bytes(), b"name"].concat();
    let keys: [&[Vec<u8>]; 8] = [
        &[vec![0]],
        &[vec![31]],
        &[vec![1, 4]],
        &[vec![4; 513]],
        &[name(1)],
        &[name(0), name(2)],
        &[name(u32::MAX)],
        &[vec![4], name(0), vec![255, 0, 0]],
    ];
    for keys in keys {
        let map: QpMap<u64> = keys.iter().map(|key| (key, 1)).collect();
        map.save_as(bits_hash(8, 8), &path).unwrap();
        assert!(corrupt(BitFile::<u64>::open(&path)), "{keys:?}");
        if let Ok(file) = BitFile::<u64>::open_unverified(&path) {
            assert!(file.verify().is_err());
            query(&file);
        }
    }
    let right: QpMap<u64> = [vec![], vec![30], name(0), name(1)]
        .map(|key| (key, 1))
        .into();
    right.save_as(bits_hash(8, 8), &path).unwrap();
    assert_eq!(BitFile::<u64>::open(&path).unwrap().len(), 2);
    let map = QpFile::<u64>::open(&path).unwrap_err();
    assert!(map.to_string().contains("BitFile opens"), "{map}");
    let other = BitFile::<u32>::open(&path).unwrap_err();
    assert!(matches!(other.cause, OpenCause::Values { size: 8, .. }));
    assert_eq!(other.path, path);
}

#[test]
fn every_flipped_byte_is_refused() {
    let folder = Folder::quick("bit-flipped");
    let path = folder.file("file");
    let (_, mut builder) = sample(12);
    for i in 0..4 {
        builder.push_name(format!("name {i}")).unwrap();
    }
    builder.save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, damaged).unwrap();
        assert!(BitFile::<u64>::open(&path).is_err(), "byte {at}");
        if let Ok(file) = BitFile::<u64>::open_unverified(&path) {
            assert!(at >= HEADER_LEN, "byte {at} of the header");
            query(&file);
        }
    }
}

/// Calls every query.
fn query(file: &BitFile<u64>) {
    let mut rng = fastrand::Rng::with_seed(5);
    query_everything(file, &prefixes(25, &mut rng));
}

/// A file with valid checksums and any contents.
fn sealed(header: Header, body: &[u8]) -> Vec<u8> {
    [&header.seal(body)[..], body].concat()
}

#[test]
fn hostile_files_do_no_harm() {
    let folder = Folder::quick("bit-hostile");
    let path = folder.file("file");
    let (_, mut builder) = sample(120);
    for i in 0..10 {
        builder.push_name(format!("name {i}")).unwrap();
    }
    builder.save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let (mut opened, mut unverified) = (0, 0);
    for seed in 0..1_500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut header, mut body) = (decoded(&bytes), bytes[HEADER_LEN..].to_vec());
        for _ in 0..rng.usize(1..6) {
            let (word, other) = (
                rng.usize(..body.len() / 4) * 4,
                rng.usize(..body.len() / 4) * 4,
            );
            let there = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
            let value = match rng.u8(..6) {
                // Another cell or header, an offset somewhere inside, a bit, a byte that is no
                // code.
                0 | 1 => there(other),
                2 => (HEADER_LEN as u32 + rng.u32(..header.length as u32)) / 4,
                3 => there(word) ^ 1 << rng.u32(..32),
                4 => there(word) ^ 0x1f << (8 * rng.u32(..4)),
                _ => rng.u32(..),
            };
            body[word..word + 4].copy_from_slice(&value.to_le_bytes());
            if rng.u8(..10) == 0 {
                header.roots[rng.usize(..2)] ^= u64::from(rng.u32(..200));
            }
        }
        fs::write(&path, sealed(header, &body)).unwrap();
        if let Ok(file) = BitFile::<u64>::open(&path) {
            // An opened file keeps its guarantees, whoever made it.
            opened += 1;
            is_whole(&file);
            query(&file);
        }
        if let Ok(file) = BitFile::<u64>::open_unverified(&path) {
            unverified += 1;
            query(&file);
        }
    }
    println!("{opened} files opened, {unverified} opened unverified");
    assert!(unverified > 500 && opened > 0 && opened < 1_000);
}
