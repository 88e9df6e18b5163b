//! Stores whose clusters hold their entries: old values, differences, limits and lack of memory.

use std::collections::BTreeMap;

use sapwood::Builder;
#[cfg(all(unix, not(miri)))]
use sapwood::arena::{Arena, HeaderMode};
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
#[cfg(all(unix, not(miri)))]
use sapwood::qp::QpFile;
use sapwood::qp::{Change, Error, Key, QpMap, QpStore};
use sapwood::qsbr::Domain;

#[cfg(all(unix, not(miri)))]
use crate::support::folder::Folder;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys with long parts in common, keys that are prefixes of others, and long ones.
fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut key = vec![b'k'; rng.usize(..4) * 40];
    key.extend((0..rng.usize(..4)).map(|_| rng.u8(..4) * 60));
    if rng.u8(..4) == 0 {
        key.extend(std::iter::repeat_n(b'z', rng.usize(..300)));
    }
    key
}

/// Values that fit into a cluster, just fit, and do not.
fn value(rng: &mut fastrand::Rng) -> Vec<u8> {
    const LENGTHS: [usize; 9] = [0, 1, 7, 8, 63, 64, 65, 300, 5000];
    vec![rng.u8(..); LENGTHS[rng.usize(..9)]]
}

fn store_of(builder: Builder<QpStore<[u8]>>, options: ArenaOptions) -> QpStore<[u8]> {
    let backing = Backing::Mmap { reserve: 1 << 28 };
    let builder = builder.options(options.backing(backing));
    builder.build_inline().unwrap()
}

/// Changes a store by transactions of a few steps, some of them undone, and compares each answer
/// with the model; returns how many steps failed.
fn changes(store: &QpStore<[u8]>, seed: u64, rounds: usize) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    let mut kept = Vec::new();
    let mut failed = 0;
    for round in 0..rounds {
        let mut txn = store.begin();
        let mut next = model.clone();
        for _ in 0..rng.usize(1..12) {
            let near = match next.range(key(&mut rng)..).next() {
                Some((near, _)) if rng.bool() => near.clone(),
                _ => key(&mut rng),
            };
            let grows = round % 400 < 250;
            match rng.u8(..16) {
                0 => match txn.remove_prefix(&near) {
                    Ok(n) => {
                        let before = next.len();
                        next.retain(|key, _| !key.starts_with(&near));
                        assert_eq!(n, before - next.len());
                    }
                    Err(_) => failed += 1,
                },
                n if (n < 6) == grows => match txn.remove(&near) {
                    Ok(old) => assert_eq!(old.map(Vec::from), next.remove(&near)),
                    Err(_) => failed += 1,
                },
                _ => {
                    let value = value(&mut rng);
                    match txn.insert(&near, &value[..]) {
                        Ok(old) => assert_eq!(old.map(Vec::from), next.insert(near, value)),
                        Err(_) => failed += 1,
                    }
                }
            }
            assert_eq!(txn.len(), next.len());
        }
        let same = |(k, v): (Key<'_>, &[u8])| (k.to_vec(), v.to_vec());
        assert!(txn.iter().map(same).eq(next.clone()), "{round}");
        match rng.u8(..5) {
            0 => txn.rollback(),
            _ => {
                txn.commit();
                model = next;
            }
        }
        store.verify().unwrap();
        if rng.u8(..4) == 0 && store.compact_step(rng.usize(1..8)).is_err() {
            failed += 1;
        }
        if rng.u8(..6) == 0 {
            kept.push((store.snapshot(), model.clone()));
        }
        if kept.len() > 5 {
            kept.swap_remove(rng.usize(..kept.len()));
        }
        for (snapshot, model) in &kept {
            assert!(snapshot.iter().map(same).eq(model.clone()), "{round}");
        }
        if let [(old, before), .., (new, after)] = &kept[..] {
            assert!(QpStore::diff(old, new).eq(differences(before, after)));
        }
    }
    drop(kept);
    store.reclaim(usize::MAX);
    assert_eq!(store.memory().waiting, (0, 0), "all garbage is freed");
    failed
}

/// The differences of two models.
fn differences<'a>(old: &'a Model, new: &'a Model) -> Vec<Change<'a, [u8]>> {
    let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let change = |key: &'a Vec<u8>| match (old.get(key), new.get(key)) {
        (Some(old), None) => Some(Change::Removed(Key::from(key), &old[..])),
        (None, Some(new)) => Some(Change::Added(Key::from(key), &new[..])),
        (Some(old), Some(new)) if old != new => {
            Some(Change::Changed(Key::from(key), &old[..], &new[..]))
        }
        _ => None,
    };
    keys.into_iter().filter_map(change).collect()
}

#[test]
fn changes_are_those_of_a_model() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let options = ArenaOptions::default().debug(DebugMode::Poison);
        for cut in [true, false] {
            let store = store_of(QpStore::builder().cut_prefixes(cut), options.clone());
            let failed = changes(&store, seed, if cfg!(miri) { 20 } else { 800 });
            assert_eq!(failed, 0);
        }
    }
}

#[test]
fn a_change_that_fails_for_lack_of_memory_changes_nothing() {
    let mut failed = 0;
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        let options = ArenaOptions::default().debug(DebugMode::Poison);
        let builder = QpStore::builder().cut_prefixes(seed % 2 == 0);
        let store = store_of(builder, options.fail_every(2 + seed % 7));
        failed += changes(&store, seed, if cfg!(miri) { 20 } else { 400 });
    }
    assert!(failed > 0, "memory never ran out");
}

#[test]
fn garbage_never_passes_a_hard_limit() {
    let limit = 24 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let builder = QpStore::builder().domain(&domain);
    let store = store_of(builder, ArenaOptions::default());
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut refused, mut done, mut held) = (0, 0, None);
    for round in 0..if cfg!(miri) { 20 } else { 6_000 } {
        let mut txn = store.begin();
        for _ in 0..rng.usize(1..5) {
            let result = match rng.u8(..12) {
                0 => txn.remove_prefix(key(&mut rng)).map(drop),
                1..6 => txn.remove(key(&mut rng)).map(drop),
                _ => {
                    let value = value(&mut rng);
                    let put = txn.insert(key(&mut rng), &value[..]).map(drop);
                    put.map_err(|rejected| rejected.error)
                }
            };
            match result {
                Ok(()) => done += 1,
                Err(error) => {
                    assert!(matches!(error, Error::GarbageLimit(_)), "{error}");
                    refused += 1;
                }
            }
        }
        match rng.u8(..4) {
            0 => txn.rollback(),
            _ => drop(txn.commit()),
        }
        assert!(domain.garbage() <= limit, "{} in {round}", domain.garbage());
        if round % 50 == 0 {
            held = (round % 100 == 0).then(|| store.snapshot());
        }
    }
    drop(held);
    store.verify().unwrap();
    store.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0);
    assert!(
        done > refused && (refused > 0 || cfg!(miri)),
        "{done} {refused}"
    );
}

#[test]
fn an_equal_value_is_no_difference() {
    let store = QpStore::<u64>::builder().build_inline().unwrap();
    let write = |value: u64| {
        let mut txn = store.begin();
        for i in 0..40_u64 {
            txn.insert(i.to_be_bytes(), if i == 7 { value } else { i })
                .unwrap();
        }
        txn.commit();
        store.snapshot()
    };
    let (one, two, three) = (write(1), write(1), write(2));
    assert_eq!(QpStore::diff(&one, &two).count(), 0);
    let changes: Vec<_> = QpStore::diff(&two, &three).collect();
    let key = 7_u64.to_be_bytes();
    assert_eq!(changes, [Change::Changed(Key::from(&key[..]), &1, &2)]);
    // A compaction moves entries, and changes none.
    while store.compact_step(3).unwrap() {}
    assert_eq!(QpStore::diff(&three, &store.snapshot()).count(), 0);
}

#[test]
fn values_that_do_not_fit_have_leaves() {
    #[derive(zerocopy::IntoBytes, zerocopy::Immutable, Clone, Copy)]
    #[repr(C, align(64))]
    struct Line([u8; 64]);
    fn kinds<V>(value: V) -> (usize, usize)
    where
        V: zerocopy::IntoBytes + zerocopy::Immutable + Copy + Send + Sync + 'static,
    {
        let entries = (0..100_u32).map(|i| (i.to_be_bytes(), value));
        let builder = QpStore::<V>::builder();
        let store = builder.build_inline_sorted(entries).unwrap();
        store.verify().unwrap();
        let mut txn = store.begin();
        txn.insert(50_u32.to_be_bytes(), value).unwrap();
        txn.commit();
        store.verify().unwrap();
        let memory = store.memory().map;
        (memory.leaves.0, memory.clusters.0)
    }
    let (leaves, clusters) = kinds([1_u8; 64]);
    assert!(leaves < 3 && clusters > 3, "{leaves} {clusters}");
    for leaves in [kinds([1_u8; 65]).0, kinds(Line([1; 64])).0] {
        assert!(leaves >= 100, "{leaves}");
    }
}

#[test]
fn an_inline_store_takes_less_memory() {
    let keys =
        (0..20_000_u32).map(|i| format!("host{}.example.net", i.wrapping_mul(2_654_435_761)));
    let keys: Vec<_> = keys.collect();
    let used = |builder: fn(Builder<QpStore<u64>>) -> QpStore<u64>| {
        let store = builder(QpStore::builder());
        let mut txn = store.begin();
        for key in &keys {
            txn.insert(key, 1).unwrap();
        }
        txn.commit();
        store.verify().unwrap();
        store.memory().map.arena.live
    };
    let leaves = used(|builder| builder.build().unwrap());
    let inline = used(|builder| builder.build_inline().unwrap());
    assert!(10 * inline < 9 * leaves, "{inline} of {leaves}");
    let whole = used(|builder| builder.cut_prefixes(false).build_inline().unwrap());
    assert!(
        inline < whole && 10 * whole < 11 * leaves,
        "{whole} of {leaves}"
    );
}

/// A store with keys that differ before, in and behind 64 bytes, and its keys.
fn whole_keys() -> (QpStore<u64>, Vec<Vec<u8>>) {
    let mut keys: Vec<Vec<u8>> = (0..3000_u32)
        .map(|i| {
            let number = i.wrapping_mul(2_654_435_761) % 100_000;
            format!("{}/{number}", "folder/".repeat(i as usize % 40)).into()
        })
        .collect();
    keys.sort();
    keys.dedup();
    let builder = QpStore::builder().cut_prefixes(false);
    let entries = keys.iter().zip(0_u64..);
    (builder.build_inline_sorted(entries).unwrap(), keys)
}

#[test]
fn whole_keys_lie_in_place_in_every_answer() {
    let (store, keys) = whole_keys();
    store.verify().unwrap();
    let snapshot = store.snapshot();
    let mut lent: Vec<&[u8]> = Vec::new();
    lent.extend(snapshot.keys().map(|key| key.in_place().unwrap()));
    // Later changes do not touch what a snapshot lends.
    let mut txn = store.begin();
    for key in keys.iter().step_by(3) {
        txn.remove(key).unwrap();
        txn.insert([key, &b"/more"[..]].concat(), 1).unwrap();
    }
    txn.commit();
    while store.compact_step(9).unwrap() {}
    store.verify().unwrap();
    assert!(lent.iter().eq(&keys));
    let newest = store.snapshot();
    for key in &keys {
        let found = [
            newest.successor(key),
            newest.predecessor(key),
            newest.longest_prefix(key),
            newest.range(key.clone()..).next(),
            newest.prefix(&key[..key.len() / 2]).next_back(),
            newest.ancestors(key).pop(),
            newest.first_key_value(),
            newest.last_key_value(),
        ];
        for (key, _) in found.into_iter().flatten() {
            assert!(key.in_place().is_some(), "{key:?}");
        }
    }
}

#[test]
fn maps_made_of_one_with_whole_keys_have_whole_keys() {
    let mut map = QpMap::<[u8]>::with_whole_keys(ArenaOptions::default()).unwrap();
    let (_, keys) = whole_keys();
    for key in &keys {
        map.insert(key, b"value").unwrap();
    }
    let is_whole = |map: &QpMap<[u8]>| {
        map.verify().unwrap();
        assert!(map.keys().all(|key| key.in_place().is_some()));
        assert!(map.memory().clusters.0 > 10, "entries lie in clusters");
    };
    is_whole(&map);
    is_whole(&map.clone());
    map.compact().unwrap();
    is_whole(&map);
    map.add_index();
    map.remove_index();
    map.compact().unwrap();
    is_whole(&map);
    let upper = map.split_off(&keys[keys.len() / 2]).unwrap();
    is_whole(&map);
    is_whole(&upper);
    assert!(
        map.keys()
            .chain(upper.keys())
            .eq(keys.iter().map(Key::from))
    );
}

#[test]
#[cfg(all(unix, not(miri)))]
fn the_choice_of_whole_keys_is_not_in_files() {
    let (store, keys) = whole_keys();
    let folder = Folder::new("whole-keys");
    let (whole, cut) = (folder.file("whole"), folder.file("cut"));
    store.snapshot().save(&whole).unwrap();
    let entries = keys.iter().zip(0_u64..);
    QpMap::from_sorted_iter(entries)
        .unwrap()
        .save(&cut)
        .unwrap();
    assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&cut).unwrap());
    for choice in [true, false] {
        let builder = QpStore::<u64>::builder().cut_prefixes(choice);
        let store = builder.load_inline(&cut).unwrap();
        store.verify().unwrap();
        let snapshot = store.snapshot();
        assert!(snapshot.keys().eq(keys.iter().map(Key::from)));
        let in_place = snapshot.keys().all(|key| key.in_place().is_some());
        assert_eq!(in_place, !choice);
    }
}

/// A reader of a published store needs no flag: it takes the prefix from each block.
#[test]
#[cfg(all(unix, not(miri)))]
fn a_published_store_may_have_whole_keys() {
    let folder = Folder::new("whole-published");
    let (_, keys) = whole_keys();
    for choice in [true, false] {
        let path = folder.file(&format!("{choice}"));
        let options = ArenaOptions::default()
            .backing(Backing::File(path.clone()))
            .header(HeaderMode::Page)
            .layout_hash(QpStore::<u64>::layout_hash());
        let builder = QpStore::builder().cut_prefixes(choice);
        let store = builder.build_in(Arena::create(options).unwrap()).unwrap();
        let mut txn = store.begin();
        for (key, value) in keys.iter().zip(0_u64..) {
            txn.insert(key, value).unwrap();
        }
        txn.commit();
        store.verify().unwrap();
        drop(store);
        let file = QpFile::<u64>::open_published(&path).unwrap();
        file.verify().unwrap();
        assert!(file.keys().eq(keys.iter().map(Key::from)));
        for (key, value) in keys.iter().zip(0_u64..) {
            assert_eq!(file.get(key), Some(&value));
        }
        let in_place = file.keys().all(|key| key.in_place().is_some());
        assert_eq!(in_place, !choice);
    }
}

/// One transaction that fills a store, undone and made again, with removals: the nodes that it has
/// made and unlinked are used again before it ends.
#[test]
fn a_long_transaction_uses_its_own_memory_again() {
    let changes = if cfg!(miri) { 600 } else { 60_000 };
    for inline in [false, true] {
        let builder = QpStore::<u64>::builder();
        let store = match inline {
            true => builder.build_inline().unwrap(),
            false => builder.build().unwrap(),
        };
        for seed in [1, 2] {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut model = BTreeMap::new();
            let mut txn = store.begin();
            for i in 0..changes {
                let key = format!("host{}.example.net", rng.u32(..changes));
                if rng.u8(..10) == 0 {
                    let removed = txn.remove(&key).unwrap().copied();
                    assert_eq!(removed, model.remove(&key));
                    continue;
                }
                let value = u64::from(i);
                assert_eq!(
                    txn.insert(&key, value).unwrap().copied(),
                    model.insert(key, value)
                );
            }
            let found = txn.iter().map(|(key, value)| (key.to_vec(), *value));
            let expected = model
                .into_iter()
                .map(|(key, value)| (key.into_bytes(), value));
            assert!(found.eq(expected));
            if seed == 1 {
                txn.rollback();
                store.verify().unwrap();
                assert_eq!(store.memory().map.arena.live, 0);
                continue;
            }
            txn.commit();
            store.verify().unwrap();
            // A store with leaves keeps those that were replaced, to its next commits.
            let memory = store.memory().map.arena;
            let least = 2 * memory.frontier <= 5 * memory.live;
            assert!(!inline || cfg!(miri) || least, "{memory}");
        }
    }
}

#[cfg(all(unix, not(miri)))]
#[test]
fn saved_maps_become_inline_stores() {
    let folder = crate::support::folder::Folder::new("inline-load");
    let path = folder.file("store");
    let store = store_of(QpStore::builder(), ArenaOptions::default());
    let mut rng = fastrand::Rng::with_seed(8);
    for _ in 0..3 {
        let mut txn = store.begin();
        for _ in 0..400 {
            txn.insert(key(&mut rng), &value(&mut rng)).unwrap();
        }
        txn.commit();
    }
    store.snapshot().save(&path).unwrap();
    let inline = QpStore::<[u8]>::builder().load_inline(&path).unwrap();
    let leaves = QpStore::<[u8]>::builder().load(&path).unwrap();
    for again in [&inline, &leaves] {
        again.verify().unwrap();
        assert_eq!(again.version(), store.version());
        assert!(again.snapshot().iter().eq(store.snapshot().iter()));
    }
    let [inline, leaves] = [inline, leaves].map(|store| store.memory().map);
    assert_eq!(leaves.leaves.0, leaves.entries);
    assert!(inline.leaves.0 < inline.entries / 2 + inline.entries / 8);
}
