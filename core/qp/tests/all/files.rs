//! Saved maps: round trips, and saves that fail or are interrupted.
#![cfg(all(unix, not(miri)))]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::folder::{Folder, sample, save_bytes};
use sapwood::arena::{Arena, ArenaOptions, Backing, DebugMode, HEADER_LEN, HeaderMode};
use sapwood::qp::{PointMap, QpFile, QpMap, QpShared, QpStore, SaveCause, SaveError};
use sapwood_model::keys::{KeyPool, Shape};

fn same(file: &QpFile<u64>, map: &QpMap<u64>) {
    assert_eq!(file.len(), map.len());
    assert!(file.iter().eq(map.iter()));
    assert!(file.iter().rev().eq(map.iter().rev()));
    assert!(file.keys().eq(map.keys()) && file.values().eq(map.values()));
    let (mut all, mut left) = (map.iter(), map.len() / 2);
    let end = file.for_each::<[u8], _, _>(.., |key, value| {
        if left == 0 {
            return ControlFlow::Break(key.to_vec());
        }
        left -= 1;
        let (k, v) = all.next().unwrap();
        assert_eq!((key, value), (&*k, v));
        ControlFlow::Continue(())
    });
    assert_eq!(end.break_value(), all.next().map(|(key, _)| key.to_vec()));
    for (key, value) in map {
        assert_eq!(file.get(&key), Some(value));
        let longer = [&key, &b"+"[..]].concat();
        assert_eq!(file.get(&longer), map.get(&longer));
    }
}

// Round trips

#[test]
fn round_trips_of_all_sizes() {
    let folder = Folder::quick("sizes");
    let path = folder.file("map");
    for n in (0..=70).chain([254, 255, 256, 257, 258, 1_000, 5_000, 30_000]) {
        let map = sample(n);
        map.save(&path).unwrap();
        let file = QpFile::<u64>::open(&path).unwrap();
        same(&file, &map);
        file.verify().unwrap();
        let shape = file.shape().unwrap();
        assert_eq!(shape.entries, n);
        assert_eq!(shape.depths.iter().sum::<usize>(), n);
        assert_eq!(shape.fills.iter().sum::<usize>(), shape.clusters.0);
        let depths = shape.depths.iter().enumerate();
        let mean =
            depths.map(|(depth, leaves)| depth * leaves).sum::<usize>() as f64 / n.max(1) as f64;
        assert!((mean - shape.depth_mean).abs() < 1e-9);
        assert_eq!(
            shape.depths.len(),
            if n == 0 { 0 } else { shape.depth_max + 1 }
        );
        assert_eq!(file.file_bytes() as u64, fs::metadata(&path).unwrap().len());
        same(&QpFile::open_unverified(&path).unwrap(), &map);
        let keys: Vec<_> = map.keys().step_by(3).map(Vec::from).collect();
        let mut found = vec![None; keys.len()];
        file.get_many(&keys, &mut found);
        assert!(
            found
                .iter()
                .zip(&keys)
                .all(|(v, k)| *v == map.get(k) && v.is_some())
        );
    }
    assert_eq!(folder.names(), ["map"]);
}

/// The file of a small map has no room of leaves that were there until their clusters were made.
#[test]
fn a_small_file_has_little_that_is_free() {
    let folder = Folder::new("small");
    let path = folder.file("small.qp");
    let mut rng = fastrand::Rng::with_seed(9);
    for n in [0, 1, 2, 23, 24, 25, 100, 300, 1000, 3000] {
        let mut map = QpMap::<[u8]>::new();
        while map.len() < n {
            // Entries with long keys and values have leaves of their own.
            let mut key = rng.u32(..).to_le_bytes().to_vec();
            match rng.u8(..64) {
                0 => key.extend([7; 300]),
                1..8 => key.extend([7; 90]),
                _ => {}
            }
            let value = vec![1; [0, 3, 200][rng.usize(..64).saturating_sub(61)]];
            map.insert(&key, &value[..]).unwrap();
        }
        map.save(&path).unwrap();
        let file = QpFile::<[u8]>::open(&path).unwrap();
        assert!(file.iter().eq(map.iter()), "{n}");
        for (key, value) in &map {
            assert_eq!(file.get(&key), Some(value));
        }
        let shape = file.shape().unwrap();
        let used = shape.branches.1 + shape.clusters.1 + shape.leaf_bytes;
        let body = file.file_bytes() - HEADER_LEN;
        assert!(body <= used + used / 15 + 1024, "{n}: {body} of {used}");
    }
    // Values that no cluster holds.
    for n in 1..40_u64 {
        let map: QpMap<[u64; 9]> = (0..n).map(|i| (i.to_le_bytes(), [i; 9])).collect();
        map.save(&path).unwrap();
        let file = QpFile::<[u64; 9]>::open(&path).unwrap();
        assert!(file.iter().eq(map.iter()), "{n}");
    }
}

#[test]
fn all_reading_methods_answer_as_the_map_does() {
    let folder = Folder::quick("reading");
    let path = folder.file("map");
    for seed in 0..12 {
        let shapes = if seed % 4 == 0 {
            &[Shape::Long][..]
        } else {
            &Shape::SHORT
        };
        let mut pool = KeyPool::with_shapes(seed, 150, shapes);
        let map: QpMap<u64> = pool.by_ref().take(200).zip(0..).collect();
        map.save(&path).unwrap();
        let file = QpFile::<u64>::open(&path).unwrap();
        same(&file, &map);
        assert_eq!(file.first_key_value(), map.first_key_value());
        assert_eq!(file.last_key_value(), map.last_key_value());
        for (key, other) in
            pool.by_ref()
                .take(200)
                .zip(KeyPool::with_shapes(seed + 99, 150, shapes))
        {
            assert_eq!(file.get_key_value(&key), map.get_key_value(&key));
            assert_eq!(file.contains_key(&key), map.contains_key(&key));
            assert_eq!(file.successor(&key), map.successor(&key));
            assert_eq!(file.predecessor(&key), map.predecessor(&key));
            assert_eq!(file.longest_prefix(&key), map.longest_prefix(&key));
            assert_eq!(file.ancestors(&key), map.ancestors(&key));
            assert_eq!(file.ancestors_at(&key, b'.'), map.ancestors_at(&key, b'.'));
            assert!(file.prefix(&key).eq(map.prefix(&key)));
            let half = &key[..key.len() / 2];
            assert!(file.prefix(half).rev().eq(map.prefix(half).rev()));
            let bounds = &key..&other;
            assert!(
                file.range::<Vec<u8>, _>(bounds.clone())
                    .eq(map.range::<Vec<u8>, _>(bounds))
            );
        }
    }
}

#[test]
fn values_of_other_plain_types() {
    fn round_trip<V>(folder: &Folder, make: impl Fn(u32) -> V)
    where
        V: zerocopy::FromBytes
            + zerocopy::IntoBytes
            + zerocopy::Immutable
            + PartialEq
            + std::fmt::Debug,
    {
        let path = folder.file("map");
        let map: QpMap<V> = (0..300u32)
            .map(|i| (vec![i as u8; i as usize % 40], make(i)))
            .collect();
        map.save(&path).unwrap();
        let file = QpFile::<V>::open(&path).unwrap();
        assert!(file.iter().eq(map.iter()));
        assert_eq!(format!("{file:?}"), format!("{map:?}"));
        assert_eq!((&file).into_iter().count(), map.len());
    }
    let folder = Folder::new("types");
    round_trip(&folder, |_| ());
    round_trip(&folder, |i| i as u8);
    round_trip(&folder, |i| [i as u8; 3]);
    round_trip(&folder, |i| i as u16);
    round_trip(&folder, |i| [i as u16; 5]);
    round_trip(&folder, |i| i);
    round_trip(&folder, f64::from);
    round_trip(&folder, |i| [u64::from(i); 40]);
}

#[test]
fn the_same_entries_give_the_same_bytes() {
    let folder = Folder::quick("same");
    let path = folder.file("map");
    for n in [0, 1, 2, 300, 20_000] {
        let map = sample(n);
        let bytes = save_bytes(&map, &path);
        let sorted = QpMap::from_sorted_iter(map.iter().map(|(k, v)| (k, *v))).unwrap();
        assert!(save_bytes(&sorted, &path) == bytes);
        let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut entries);
        let loud = ArenaOptions::default().debug(DebugMode::Poison);
        let mut churned = QpMap::with_options(loud).unwrap();
        for (key, value) in &entries {
            churned
                .insert([&key[..], &[0xee; 9]].concat(), !value)
                .unwrap();
            churned.insert(key, !value).unwrap();
        }
        churned.retain(|key, _| !key.ends_with(&[0xee; 9]));
        for (key, value) in &entries {
            churned.insert(key, *value).unwrap();
        }
        assert!(save_bytes(&churned, &path) == bytes, "{n} entries");
        churned.compact().unwrap();
        assert!(save_bytes(&churned, &path) == bytes);
        assert!(save_bytes(&churned.clone(), &path) == bytes);
    }
}

#[test]
fn a_file_of_a_snapshot_has_the_number_of_its_version() {
    let folder = Folder::quick("number");
    let path = folder.file("map");
    let map = sample(300);
    let bytes = save_bytes(&map, &path);
    let store = QpStore::from_map(map).unwrap();
    let saved = |store: &QpStore<u64>| {
        store.snapshot().save(&path).unwrap();
        let file = QpFile::<u64>::open(&path).unwrap();
        assert_eq!(file.version(), store.version());
        fs::read(&path).unwrap()
    };
    assert!(saved(&store) == bytes);
    // The same entries again, two versions later.
    for insert in [true, false] {
        let mut txn = store.begin();
        match insert {
            true => assert!(txn.insert("only for now", 1).unwrap().is_none()),
            false => assert!(txn.remove("only for now").unwrap().is_some()),
        }
        txn.commit();
    }
    let later = saved(&store);
    assert_eq!(later.len(), bytes.len());
    let differ = later.iter().zip(&bytes).filter(|(a, b)| a != b).count();
    assert!((1..=24).contains(&differ), "{differ} bytes");
    // A loaded store continues from that version.
    let again = QpStore::<u64>::builder().load(&path).unwrap();
    assert!(saved(&again) == later);
}

#[test]
fn an_open_file_stays_as_it_was_when_it_is_replaced_or_removed() {
    let folder = Folder::new("replaced");
    let path = folder.file("map");
    let (one, two) = (sample(100), sample(2_000));
    one.save(&path).unwrap();
    let first = QpFile::open(&path).unwrap();
    two.save(&path).unwrap();
    let second = QpFile::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    same(&first, &one);
    same(&second, &two);
    let kept = std::thread::spawn(move || second.values().sum::<u64>());
    assert_eq!(kept.join().unwrap(), (0..2_000).sum());
}

// Snapshots of stores

#[test]
fn a_snapshot_saves_the_bytes_of_its_version_while_the_store_goes_on() {
    let folder = Folder::new("snapshot");
    let (path, bytes) = (folder.file("map"), |n| {
        save_bytes(&sample(n), &folder.file("of a map"))
    });
    let n = if cfg!(miri) { 100 } else { 2_000 };
    let store = QpStore::from_map(sample(n)).unwrap();
    store.snapshot().save(&path).unwrap();
    assert!(fs::read(&path).unwrap() == bytes(n));
    let snapshot = store.snapshot();
    std::thread::scope(|s| {
        let saved = s.spawn(|| {
            snapshot.save(&path).unwrap();
            fs::read(&path).unwrap()
        });
        for (i, key) in sample(n).keys().enumerate() {
            let mut txn = store.begin();
            if i % 3 == 0 {
                txn.remove(key).unwrap();
            } else {
                txn.insert(key, u64::MAX).unwrap();
            }
            txn.commit();
            store.compact_step(4).unwrap();
        }
        assert!(saved.join().unwrap() == bytes(n));
    });
    let file = QpFile::<u64>::open(&path).unwrap();
    assert_eq!(file.len(), snapshot.len());
    assert!(file.iter().eq(snapshot.iter()));
    assert!(store.len() < n && store.get("none").is_none());
    // An empty version can be saved, too.
    let empty = QpStore::<u64>::new().unwrap();
    empty.snapshot().save(&path).unwrap();
    assert!(QpFile::<u64>::open(&path).unwrap().is_empty() && empty.is_empty());
    let failed = store.snapshot().save(folder.file("no/folder/map"));
    assert_eq!(failed.unwrap_err().path, folder.file("no/folder/map"));
}

// Saving that fails

/// Checks a failed save over `path`: the old bytes are still there, and no other file.
fn assert_untouched(folder: &Folder, path: &Path, bytes: &[u8], failed: Result<(), SaveError>) {
    assert!(
        matches!(
            failed,
            Err(SaveError {
                cause: SaveCause::Io(_),
                ..
            })
        ),
        "{failed:?}"
    );
    assert!(fs::read(path).unwrap() == bytes);
    assert_eq!(
        folder.names(),
        [path.file_name().unwrap().to_str().unwrap()]
    );
}

#[test]
fn saving_where_one_cannot_is_an_error_and_leaves_nothing() {
    let folder = Folder::new("cannot");
    let path = folder.file("map");
    let bytes = save_bytes(&sample(20), &path);
    let save = |to: &Path| sample(30).save(to);
    assert_untouched(&folder, &path, &bytes, save(&folder.file("no/folder/map")));
    assert_untouched(&folder, &path, &bytes, save(&path.join("below a file")));
    assert_untouched(&folder, &path, &bytes, save(Path::new("/")));
    assert_untouched(&folder, &path, &bytes, save(Path::new("")));
    assert_untouched(&folder, &path, &bytes, save(&folder.file(&"n".repeat(300))));
    assert_untouched(&folder, &path, &bytes, save(&folder.file("nul\0byte")));
    // Over a directory that is not empty, the renaming fails after all bytes were written.
    fs::create_dir_all(folder.file("folder/inside")).unwrap();
    assert!(matches!(
        save(&folder.file("folder")),
        Err(SaveError {
            cause: SaveCause::Io(_),
            ..
        })
    ));
    assert_eq!(folder.names(), ["folder", "map"]);
    fs::remove_dir_all(folder.file("folder")).unwrap();
    // A directory without permission to write; root, however, may write everywhere.
    let mut permissions = fs::metadata(&folder.0).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&folder.0, permissions.clone()).unwrap();
    let probe = fs::write(folder.file("probe"), "");
    let saved = save(&path);
    permissions.set_mode(0o700);
    fs::set_permissions(&folder.0, permissions).unwrap();
    if probe.is_err() {
        assert_untouched(&folder, &path, &bytes, saved);
    }
}

/// This program again, as the test `child_process`, started by a shell that sets limits.
fn child(limits: &str, path: &Path, what: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!(
            "{limits} exec \"$0\" files::child_process --exact --ignored --nocapture"
        ))
        .arg(std::env::current_exe().unwrap())
        .env("SAPWOOD_CHILD_PATH", path)
        .env("SAPWOOD_CHILD", what)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Ok(path) = std::env::var("SAPWOOD_CHILD_PATH") else {
        return;
    };
    match std::env::var("SAPWOOD_CHILD").as_deref() {
        Ok("fails") => {
            let failed = sample(3_000).save(&path);
            assert!(
                matches!(
                    failed,
                    Err(SaveError {
                        cause: SaveCause::Io(_),
                        ..
                    })
                ),
                "{failed:?}"
            );
        }
        _ => {
            for n in (0..).map(|i| 1_000 + i % 7) {
                sample(n).save(&path).unwrap();
            }
        }
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("full");
    let path = folder.file("map");
    let bytes = save_bytes(&sample(100), &path);
    // A file may have only a few kilobytes, and the child saves more. The signal is ignored, so
    // that the write fails as on a full disk.
    for blocks in [0, 1, 8, 20, 40] {
        let limits = format!("trap '' XFSZ; ulimit -f {blocks};");
        let status = child(&limits, &path, "fails").status().unwrap();
        assert!(
            status.success(),
            "{blocks} blocks: saving has to fail with an error"
        );
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(folder.names(), ["map"]);
    }
    same(&QpFile::open(&path).unwrap(), &sample(100));
}

#[test]
fn a_process_killed_while_it_saves_leaves_a_whole_file() {
    let folder = Folder::new("killed");
    let path = folder.file("map");
    sample(1_000).save(&path).unwrap();
    for round in 0..8 {
        let mut saving = child("", &path, "saves").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(30 + round * 7));
        assert!(
            saving.try_wait().unwrap().is_none(),
            "the child saves until it is killed"
        );
        saving.kill().unwrap();
        saving.wait().unwrap();
        let file = QpFile::open(&path).unwrap();
        assert!((1_000..1_007).contains(&file.len()));
        same(&file, &sample(file.len()));
    }
}

#[test]
fn whoever_opens_beside_a_writer_gets_a_whole_file() {
    let folder = Folder::new("beside");
    let path = folder.file("map");
    sample(500).save(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for writer in 0..2 {
            let (path, stop) = (&path, &stop);
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    sample(500 + writer).save(path).unwrap();
                }
            });
        }
        for _ in 0..200 {
            let file = QpFile::<u64>::open(&path).unwrap();
            assert!((500..502).contains(&file.len()));
            assert_eq!(file.values().sum::<u64>(), (0..file.len() as u64).sum());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(folder.names(), ["map"]);
}

#[test]
fn a_map_whose_arena_is_a_file_can_be_compacted_and_saved() {
    let folder = Folder::new("backing");
    let backing = Backing::File(folder.file("arena"));
    let mut map = QpMap::with_options(ArenaOptions::default().backing(backing)).unwrap();
    for (key, value) in &sample(500) {
        map.insert(key, *value).unwrap();
    }
    let compacted = map.compact();
    map.verify().unwrap();
    assert!(map == sample(500), "compacted: {compacted:?}");
    map.save(folder.file("map")).unwrap();
    same(&QpFile::open(folder.file("map")).unwrap(), &sample(500));
}

/// A file of format 2 with this number of entries, and the map that an earlier version saved.
/// Such files have a leaf for each entry.
fn with_leaves(n: u64) -> (PathBuf, QpMap<u64>) {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sapwood/tests/files");
    let entries = (0..n).map(|i| (format!("{:x}", i * i * 7919), i));
    (files.join(format!("leaves-{n}.map")), entries.collect())
}

#[test]
fn a_map_saved_before_clusters_held_entries_is_read() {
    for n in [1, 30, 300] {
        let (old, map) = with_leaves(n);
        let files = [QpFile::<u64>::open(&old), QpFile::open_unverified(&old)];
        for file in files {
            same(&file.unwrap(), &map);
        }
    }
}

/// The layout hash of an arena says the form of the store that is published in it.
#[test]
fn a_store_in_an_arena_of_the_layout_before_has_leaves() {
    let folder = Folder::new("published");
    let map = sample(3_000);
    let bytes = [
        QpStore::<u64>::layout_hash(),
        PointMap::<u64>::layout_hash(),
    ]
    .map(|layout| {
        let path = folder.file(&format!("{layout:x}"));
        let options = ArenaOptions::default()
            .backing(Backing::File(path.clone()))
            .header(HeaderMode::Page)
            .layout_hash(layout);
        let entries = map.iter().map(|(key, value)| (key.to_vec(), *value));
        let arena = Arena::create(options).unwrap();
        let store = QpStore::<u64>::builder().build_sorted_in(arena, entries);
        let mut txn = store.as_ref().unwrap().begin();
        txn.insert("new", 1).unwrap();
        txn.commit();
        let store = store.unwrap();
        store.verify().unwrap();
        let bytes = store.memory().map.arena.live;
        drop(store);
        let left = QpFile::<u64>::open_published(&path).unwrap();
        assert_eq!((left.len(), left.get("new")), (map.len() + 1, Some(&1)));
        assert!(map.iter().all(|(key, value)| left.get(&key) == Some(value)));
        bytes
    });
    assert!(bytes[0] < bytes[1], "{bytes:?}");
}

/// The message says what the file is.
#[test]
fn a_published_shared_map_is_no_file_of_a_store() {
    let folder = Folder::new("shared");
    let path = folder.file("map");
    let options = ArenaOptions::default()
        .backing(Backing::File(path.clone()))
        .header(HeaderMode::Page)
        .layout_hash(QpShared::<u64>::layout_hash());
    let map = QpShared::<u64>::builder().build_in(Arena::create(options).unwrap());
    map.unwrap().insert("larch", 7).unwrap();
    let error = QpFile::<u64>::open_published(&path).unwrap_err();
    assert!(error.cause.is_other_layout(), "{error}");
    let text = error.to_string();
    assert!(text.contains("published shared map"), "{text}");
}

#[test]
fn whoever_opens_while_a_file_gets_another_format_gets_a_whole_file() {
    let folder = Folder::new("both");
    let path = folder.file("map");
    let (old, map) = with_leaves(300);
    map.save(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::copy(&old, folder.file("copy")).unwrap();
                fs::rename(folder.file("copy"), &path).unwrap();
                map.save(&path).unwrap();
            }
        });
        for _ in 0..500 {
            let file = QpFile::<u64>::open(&path);
            let whole = file.as_ref().is_ok_and(|file| file.iter().eq(map.iter()));
            if !whole {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(whole, "{:?}", file.err());
        }
        stop.store(true, Ordering::Relaxed);
    });
}
