//! Damaged, foreign and hostile files are refused, or read without harm.
#![cfg(all(unix, not(miri)))]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::folder::{Folder, decoded, refused, sample, save_bytes};
use sapwood::arena::{self, HEADER_LEN, Header, HeaderError};
use sapwood::qp::{OpenCause, OpenError, QpFile, QpMap, ReadEntry};

fn header_error(path: &Path) -> HeaderError {
    match refused(path) {
        OpenCause::Image(arena::OpenError::Header(error)) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_file_of_an_earlier_format_is_refused_with_its_number() {
    let folder = Folder::quick("earlier");
    let path = folder.file("map");
    // FNV-1a of the facts on which a reader must agree: the structure, the size and alignment of
    // values, and the format.
    let words = b"sapwood qp".iter().copied().map(u64::from);
    let hash = words
        .chain([8, 8, 1])
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, word| {
            (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
        });
    arena::write_image(&path, &[], Header::new(hash)).unwrap();
    for error in [
        QpFile::<u64>::open(&path).unwrap_err(),
        QpFile::<u64>::open_unverified(&path).unwrap_err(),
    ] {
        assert!(
            matches!(error.cause, OpenCause::OldFormat { found: 1, reads: 3 }),
            "{error}"
        );
        assert!(error.to_string().contains("format 1"), "{error}");
    }
}

// Damage

#[test]
fn every_flipped_bit_is_refused() {
    let folder = Folder::quick("flipped");
    let path = folder.file("map");
    let bytes = save_bytes(&sample(12), &path);
    let opened = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            opened
                .write_all_at(&[bytes[at - 1]], at as u64 - 1)
                .unwrap();
        }
        opened
            .write_all_at(&[byte ^ 1 << (at % 8)], at as u64)
            .unwrap();
        refused(&path);
        if let Ok(file) = QpFile::open_unverified(&path) {
            assert!(at >= HEADER_LEN, "byte {at} of the header");
            query_everything(&file, &sample(12));
        }
    }
}

#[test]
fn truncated_and_extended_files_are_refused() {
    let folder = Folder::quick("truncated");
    let path = folder.file("map");
    let bytes = save_bytes(&sample(12), &path);
    let opened = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for len in (0..bytes.len()).rev() {
        opened.set_len(len as u64).unwrap();
        let error = header_error(&path);
        if len < HEADER_LEN {
            assert_eq!(error, HeaderError::TooShort { len });
        } else {
            assert!(matches!(error, HeaderError::Length { .. }), "{error}");
        }
        assert!(QpFile::<u64>::open_unverified(&path).is_err());
    }
    for more in [1, 7, 8, 4096] {
        fs::write(&path, [&bytes[..], &vec![0; more]].concat()).unwrap();
        assert!(matches!(header_error(&path), HeaderError::Length { .. }));
        assert!(QpFile::<u64>::open_unverified(&path).is_err());
    }
}

#[test]
fn torn_writes_are_refused() {
    let folder = Folder::quick("torn");
    let path = folder.file("map");
    let old = save_bytes(&sample(3_000), &path);
    let mut other = sample(3_000);
    other.values_mut().for_each(|v| *v += 1);
    let new = save_bytes(&other, &path);
    assert_eq!(old.len(), new.len());
    // Some pages of one file and the rest of the other; or zeros, as after a crash of the machine.
    for page in 1..old.len() / 4096 {
        let at = page * 4096;
        let zeros = vec![0; old.len() - at];
        for (head, tail) in [(&old, &new[at..]), (&new, &old[at..]), (&old, &zeros)] {
            fs::write(&path, [&head[..at], tail].concat()).unwrap();
            assert_eq!(header_error(&path), HeaderError::BodyChecksum);
        }
    }
}

#[test]
fn foreign_files_are_refused_with_the_reason() {
    let folder = Folder::new("foreign");
    let path = folder.file("file");
    let io_error = |error| matches!(error, OpenCause::Image(arena::OpenError::Io(_)));
    assert!(io_error(refused(&path)), "the file does not exist");
    let is_no_file = |error| matches!(error, OpenCause::Image(arena::OpenError::NotAFile));
    assert!(is_no_file(refused(&folder.0)), "a folder");
    assert!(is_no_file(refused(Path::new("/dev/zero"))));
    fs::write(&path, "").unwrap();
    assert_eq!(header_error(&path), HeaderError::TooShort { len: 0 });
    fs::write(&path, "words, words, words\n".repeat(1_000)).unwrap();
    assert!(matches!(header_error(&path), HeaderError::Magic { .. }));
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    assert!(matches!(
        header_error(&path),
        HeaderError::Magic {
            found: [0x7f, b'E', b'L', b'F', ..]
        }
    ));
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert!(matches!(header_error(&path), HeaderError::Magic { .. }));
    // A file of maps with other values.
    sample(10).save(&path).unwrap();
    let layout = |error: OpenError| {
        let said = error.to_string();
        assert!(said.contains("values of 8 bytes, aligned to 8; "), "{said}");
        matches!(
            error.cause,
            OpenCause::Values {
                size: 8,
                align: 8,
                ..
            }
        )
    };
    assert!(
        QpFile::<u32>::open(&path).is_err_and(layout),
        "another size"
    );
    assert!(
        QpFile::<[u8; 8]>::open(&path).is_err_and(layout),
        "another alignment"
    );
    assert!(QpFile::<()>::open_unverified(&path).is_err_and(layout));
    // A valid header of another structure.
    arena::write_image(&path, &[b"whatever"], Header::new(77)).unwrap();
    assert!(matches!(
        header_error(&path),
        HeaderError::Layout { found: 77, .. }
    ));
}

#[test]
fn a_header_of_a_writer_at_work_is_refused() {
    let folder = Folder::new("live");
    let path = folder.file("map");
    let bytes = save_bytes(&sample(50), &path);
    let mut header = decoded(&bytes);
    header.sealed = false;
    fs::write(&path, [&header.encode()[..], &bytes[HEADER_LEN..]].concat()).unwrap();
    assert!(matches!(header_error(&path), HeaderError::State { .. }));
}

// Hostile files

/// A file with valid checksums and any roots and contents.
fn sealed(header: Header, body: &[u8]) -> Vec<u8> {
    [&header.seal(body)[..], body].concat()
}

/// Calls every query; the answers may be wrong, but each call must return.
fn query_everything(file: &QpFile<u64>, map: &QpMap<u64>) {
    let cap = 4 * map.len() + 100;
    let sum = |entries: &mut dyn Iterator<Item = ReadEntry<u64>>| -> u64 {
        entries
            .take(cap)
            .map(|(k, v)| k.iter().map(|b| u64::from(*b)).sum::<u64>() ^ v)
            .fold(0, u64::wrapping_add)
    };
    let mut all = sum(&mut file.iter()) ^ sum(&mut file.iter().rev());
    let step = map.len() / 40 + 1;
    let keys: Vec<_> = map.keys().step_by(step).collect();
    for key in &keys {
        all ^= file.get(key).copied().unwrap_or(0);
        all ^= sum(&mut file.get_key_value(key).into_iter());
        all ^=
            sum(&mut file.successor(key).into_iter()) ^ sum(&mut file.predecessor(key).into_iter());
        all ^= sum(&mut file.longest_prefix(key).into_iter())
            ^ sum(&mut file.ancestors(key).into_iter());
        let half = &key[..key.len() / 2];
        all ^= sum(&mut file.prefix(half).take(20)) ^ sum(&mut file.prefix(half).rev().take(20));
        all ^= sum(&mut file.range::<&[u8], _>(half..key).take(20))
            ^ sum(&mut file.range::<&[u8], _>(half..key).rev().take(20));
        all ^= u64::from(file.contains_key([&key[..], &[0xfe; 300]].concat()));
        let middle = key[key.len() / 2..].first().copied().unwrap_or(0);
        let found = file.closest(key, middle, |_, v| v % 2 == 0);
        let proof = file.denial(key, middle, |_, v| v % 2 == 0);
        let found = [
            found.exact,
            found.ancestor,
            found.wildcard,
            found.predecessor,
            found.cut,
            proof.predecessor,
            proof.wildcard_predecessor,
        ];
        all ^= sum(&mut found.into_iter().flatten());
    }
    let mut found = vec![None; keys.len()];
    file.get_many(&keys, &mut found);
    all ^= found.into_iter().flatten().fold(0, |a, b| a ^ b);
    all ^=
        sum(&mut file.first_key_value().into_iter()) ^ sum(&mut file.last_key_value().into_iter());
    std::hint::black_box(all);
    let _ = (file.verify(), file.shape());
}

/// Changes a few words of the body, in the ways that are most likely to do harm.
fn patch(body: &mut [u8], header: &mut Header, rng: &mut fastrand::Rng) {
    for _ in 0..rng.usize(1..6) {
        let word = rng.usize(..body.len() / 4) * 4;
        let other = rng.usize(..body.len() / 4) * 4;
        let whole = header.length as u32;
        let value = match rng.u8(..12) {
            // Another word of the body: a cell that points up or sideways, or a header in the place
            // of a cell.
            0..3 => u32::from_le_bytes(body[other..other + 4].try_into().unwrap()),
            // An offset somewhere inside as a branch or as a leaf; one near the end; one into the
            // header.
            3 | 4 => (HEADER_LEN as u32 + rng.u32(..whole)) / 4,
            5 => (whole / 4).wrapping_add(rng.u32(..8)).wrapping_sub(6),
            6 => rng.u32(..1100),
            7 => rng.u32(..),
            8 => [0, 1, u32::MAX, u32::MAX - 1, 1 << 31][rng.usize(..5)],
            // A flipped bit in a header, a label or a length.
            _ => u32::from_le_bytes(body[word..word + 4].try_into().unwrap()) ^ 1 << rng.u32(..32),
        };
        body[word..word + 4].copy_from_slice(&value.to_le_bytes());
        match rng.u8(..20) {
            0 => header.roots[0] = u64::from(value),
            1 => header.roots[0] ^= 1,
            2 => header.roots[1] = rng.u64(..header.length),
            3 => header.roots[rng.usize(..2)] = rng.u64(..),
            4 => body[word..].fill(0),
            _ => {}
        }
    }
}

fn attack(name: &str, map: &QpMap<u64>, seeds: std::ops::Range<u64>) {
    let folder = Folder::quick(name);
    let path = folder.file("map");
    let bytes = save_bytes(map, &path);
    let (mut opened, mut unverified, total) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut header, mut body) = (decoded(&bytes), bytes[HEADER_LEN..].to_vec());
        patch(&mut body, &mut header, &mut rng);
        if rng.u8(..8) == 0 {
            body.truncate(rng.usize(..body.len()));
        }
        fs::write(&path, sealed(header, &body)).unwrap();
        match QpFile::<u64>::open(&path) {
            Ok(file) => {
                // An opened file keeps every guarantee, whoever made it.
                opened += 1;
                let entries: BTreeMap<_, _> = file.iter().collect();
                assert_eq!(entries.len(), file.len(), "seed {seed}");
                assert!(
                    file.iter().eq(entries.iter().map(|(k, v)| (k.clone(), *v))),
                    "seed {seed}: in order"
                );
                assert!(
                    entries.iter().all(|(k, v)| file.get(k) == Some(v)),
                    "seed {seed}"
                );
                query_everything(&file, map);
            }
            Err(error) => assert!(
                matches!(error.cause, OpenCause::Corrupt(_) | OpenCause::Image(_)),
                "seed {seed}: {error}"
            ),
        }
        if let Ok(file) = QpFile::<u64>::open_unverified(&path) {
            unverified += 1;
            query_everything(&file, map);
        }
    }
    println!("{name}: {total} files, {opened} opened, {unverified} opened unverified");
    assert!(unverified > total / 3 && opened < total);
}

/// Lookups compare the length that a key is written with, and would not find what a walk finds.
#[test]
fn a_length_that_is_written_as_if_it_were_longer_is_refused() {
    let folder = Folder::quick("length");
    let path = folder.file("map");
    // A key of 11 bytes, which are those of another leaf's length, and of a key of 9 bytes.
    let key = *b"\x09\0ninebytes";
    let mut map = QpMap::new();
    map.insert(key, 7u64).unwrap();
    let bytes = save_bytes(&map, &path);
    let (header, mut body) = (decoded(&bytes), bytes[HEADER_LEN..].to_vec());
    let at = body.windows(11).position(|bytes| bytes == key).unwrap();
    assert_eq!(body[at - 1], 11);
    body[at - 1] = 255;
    fs::write(&path, sealed(header, &body)).unwrap();
    let refused = QpFile::<u64>::open(&path).unwrap_err();
    assert!(refused.to_string().contains("leaf"), "{refused}");
    let file = QpFile::<u64>::open_unverified(&path).unwrap();
    assert_eq!((file.iter().next(), file.get("ninebytes")), (None, None));
}

#[test]
fn hostile_small_files_do_no_harm() {
    attack("small", &sample(40), 0..2_500);
}

#[test]
fn hostile_files_with_wide_branches_and_long_keys_do_no_harm() {
    let mut map: QpMap<u64> = (0..=255u8).map(|b| (vec![b'w', b], u64::from(b))).collect();
    map.extend((0..30).map(|i| (vec![b'x'; i * 13], i as u64)));
    map.extend([
        (vec![b'y'; 65_535], 1),
        ([vec![b'y'; 65_534], vec![b'z']].concat(), 2),
    ]);
    attack("wide", &map, 10_000..10_800);
}

#[test]
fn hostile_large_files_do_no_harm() {
    // Larger than the size from which lookups are batched.
    let map = sample(22_000);
    attack("large", &map, 20_000..20_120);
}

#[test]
fn a_body_of_noise_does_no_harm() {
    let folder = Folder::quick("noise");
    let path = folder.file("map");
    let map = sample(40);
    let bytes = save_bytes(&map, &path);
    for seed in 0..1_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut header = decoded(&bytes);
        let mut body = vec![0; rng.usize(..3_000)];
        // Small words are more often valid headers and cells.
        let most = [4, 64, 1 << 12, u32::MAX][rng.usize(..4)];
        for word in body.chunks_exact_mut(4) {
            word.copy_from_slice(&rng.u32(..=most).to_le_bytes());
        }
        header.roots[0] = rng.u64(1024..1024 + body.len() as u64 / 4 + 2);
        header.roots[1] = rng.u64(..40);
        fs::write(&path, sealed(header, &body)).unwrap();
        if let Ok(file) = QpFile::<u64>::open(&path) {
            assert_eq!(file.iter().count(), file.len());
        }
        if let Ok(file) = QpFile::<u64>::open_unverified(&path) {
            query_everything(&file, &map);
        }
    }
}
