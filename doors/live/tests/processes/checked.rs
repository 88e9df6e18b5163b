//! Readers that check what they read, and can be evicted.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_checked::Bytes;
use sapwood_live::{CheckedLiveReader, CheckedMap, Error, Live, LiveReader};
use sapwood_qsbr::Domain;

use crate::beside::folder;

fn names() -> Vec<String> {
    (0..2000)
        .map(|n| format!("{:x}.example.{}", n * 7919, n % 13))
        .collect()
}

/// The value that a key has at round `round`: it says of which key it is.
fn value(key: &str, round: u64) -> u64 {
    let sum = key
        .bytes()
        .fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
    sum << 20 | round
}

#[test]
fn checked_readers_answer_as_the_maps_do() {
    let (_temp, base) = folder();
    std::fs::create_dir(&base).unwrap();
    let names = names();
    let wanted: BTreeMap<_, _> =
        (names.iter().map(|name| (name.clone(), value(name, 0)))).collect();
    let entries = || wanted.iter().map(|(k, v)| (k.as_bytes().to_vec(), *v));

    let store = Live::<QpStore<u64>>::create(base.join("store")).unwrap();
    let shared = Live::<QpShared<u64>>::builder().map(|map| map.with_index());
    let shared = shared.create(base.join("shared")).unwrap();
    let point = Live::<PointMap<u64>>::create(base.join("point")).unwrap();
    let texts = Live::<QpStore<[u8]>>::create(base.join("texts")).unwrap();
    let (mut numbers, mut strings) = (store.begin(), texts.begin());
    for (key, value) in &wanted {
        numbers.insert(key, *value).unwrap();
        strings.insert(key, key.repeat(3).as_bytes()).unwrap();
        shared.insert(key, *value).unwrap();
        point.insert(key, *value).unwrap();
    }
    numbers.commit();
    strings.commit();

    /// Compares a map whose values are numbers.
    macro_rules! compare {
        ($map:ty, $name:literal, $sorted:expr) => {
            let reader = CheckedLiveReader::<$map>::open(base.join($name)).unwrap();
            let view = reader.view().unwrap();
            assert_eq!(view.verify().unwrap(), wanted.len());
            let mut all: Vec<_> = view.unordered().map(|entry| entry.unwrap()).collect();
            if !$sorted {
                all.sort();
            }
            assert!(all.into_iter().eq(entries()), $name);
            for name in &names {
                assert_eq!(view.get(name).unwrap(), Some(wanted[name]));
                assert_eq!(view.get(format!("{name}.")).unwrap(), None);
            }
            // A reader that trusts the memory gives the same.
            let trusting = LiveReader::<$map>::open(base.join($name)).unwrap();
            let view = trusting.view();
            let mut all: Vec<_> = view.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
            if !$sorted {
                all.sort();
            }
            assert!(all.into_iter().eq(entries()), $name);
            for name in &names {
                assert_eq!(view.get(name), Some(&wanted[name]));
            }
        };
    }
    compare!(QpStore<u64>, "store", true);
    compare!(QpShared<u64>, "shared", true);
    compare!(PointMap<u64>, "point", false);
    let reader = CheckedLiveReader::<QpStore<[u8]>>::open(base.join("texts")).unwrap();
    let view = reader.view().unwrap();
    for name in &names {
        let text = name.repeat(3).into_bytes();
        assert_eq!(view.get(name).unwrap(), Some(Bytes(text)));
    }
    // The new owner of a store of texts has them, too.
    drop(texts);
    let texts = Live::<QpStore<[u8]>>::open(base.join("texts")).unwrap();
    assert_eq!(
        texts.get(&names[7]).as_deref(),
        Some(names[7].repeat(3).as_bytes())
    );

    // Ordered queries of a reader that trusts a shared map.
    let trusting = LiveReader::<QpShared<u64>>::open(base.join("shared")).unwrap();
    let view = trusting.view();
    let within = |low: &str, high: &str| wanted.range(low.to_owned()..high.to_owned()).count();
    assert_eq!(view.range("2"..="4~").count(), within("2", "5"));
    assert_eq!(view.prefix("1").rev().count(), within("1", "2"));
    let (key, _) = view.longest_prefix(format!("{}.below", names[9])).unwrap();
    assert_eq!(key, names[9].as_bytes());
    let after = wanted.range("3".to_owned()..).next().unwrap();
    assert_eq!(
        view.successor("3").map(|(k, v)| (k.to_vec(), *v)),
        Some((after.0.clone().into_bytes(), *after.1))
    );
    assert_eq!(store.readers().len(), 2);
}

/// Makes changes until `done`, with the limit of garbage that readers can hold back.
fn changes(map: &QpShared<u64>, round: &mut u64, done: impl Fn() -> bool) {
    let names = names();
    while !done() {
        *round += 1;
        for name in names.iter().skip(*round as usize % 5).step_by(5) {
            while map.insert(name, value(name, *round)).is_err() {
                map.reclaim(usize::MAX);
                std::thread::yield_now();
            }
        }
        map.reclaim(usize::MAX);
    }
}

#[test]
fn a_checked_reader_that_stands_still_is_evicted() {
    let (_temp, folder) = folder();
    let age = Duration::from_millis(30);
    let domain = Domain::builder().hard_limit(1 << 20);
    let builder = Live::<QpShared<u64>>::builder()
        .domain(domain)
        .evict_after(age);
    let map = builder.create(&folder).unwrap();
    for name in names() {
        map.insert(&name, value(&name, 0)).unwrap();
    }
    let mut checked = CheckedLiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let name = &names()[3];
    assert_eq!(
        checked.view().unwrap().get(name).unwrap(),
        Some(value(name, 0))
    );
    let (begin, mut round) = (Instant::now(), 0);
    changes(&map, &mut round, || {
        begin.elapsed() > Duration::from_millis(200)
    });
    let infos = map.readers();
    assert!(
        infos.len() == 1 && infos[0].checked && infos[0].evicted,
        "{infos:?}"
    );
    let late = Instant::now() + Duration::from_secs(10);
    while map.domain().garbage() > 0 {
        assert!(
            Instant::now() < late,
            "an evicted reader holds nothing back"
        );
        map.reclaim(usize::MAX);
    }
    let evicted = checked.view().and_then(|view| view.get(name)).unwrap_err();
    assert!(matches!(evicted, Error::Evicted { .. }), "{evicted}");
    checked.quiescent().unwrap();
    let found = checked.view().unwrap().get(name).unwrap().unwrap();
    assert_eq!(found >> 20, value(name, 0) >> 20);
    assert!(!map.readers()[0].evicted);

    // A reader that trusts the memory is waited for, whatever its age.
    let trusting = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let view = trusting.view();
    let before: Vec<_> = view.iter().map(|(k, v)| (k.to_vec(), v)).collect();
    let values: Vec<u64> = before.iter().map(|(_, v)| **v).collect();
    for name in names() {
        round += 1;
        if map.insert(&name, value(&name, round)).is_err() {
            break;
        }
    }
    std::thread::sleep(3 * age);
    map.reclaim(usize::MAX);
    std::thread::sleep(3 * age);
    map.reclaim(usize::MAX);
    assert!(map.domain().garbage() > 0);
    assert!(before.iter().zip(&values).all(|((_, v), was)| *v == was));
    drop(trusting);
    map.verify().unwrap();
}

/// A reader that is evicted again and again gives right answers, or says that it was.
#[test]
fn evicted_readers_give_no_wrong_answers() {
    let (_temp, folder) = folder();
    let domain = Domain::builder().hard_limit(1 << 20);
    let builder = Live::<QpShared<u64>>::builder().domain(domain);
    let map = builder.evict_after(Duration::ZERO).create(&folder).unwrap();
    for name in names() {
        map.insert(&name, value(&name, 0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            changes(&map, &mut round, || stop.load(Ordering::Relaxed));
            round
        });
        let names = names();
        let mut reader = CheckedLiveReader::<QpShared<u64>>::open(&folder).unwrap();
        let (mut right, mut evicted) = (0, 0);
        let begin = Instant::now();
        let mut rng = fastrand::Rng::with_seed(5);
        while (right < 20_000 || evicted < 20) && begin.elapsed() < Duration::from_secs(20) {
            let name = &names[rng.usize(..names.len())];
            match reader.view().and_then(|view| view.get(name)) {
                Ok(found) => {
                    let found = found.expect("a key that stays");
                    assert_eq!(found >> 20, value(name, 0) >> 20, "a value of another key");
                    right += 1;
                }
                Err(Error::Evicted { .. }) => {
                    evicted += 1;
                    reader.quiescent().unwrap();
                }
                Err(Error::Busy { .. }) => (),
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert!(right > 0 && evicted > 0, "{right} right, {evicted} evicted");
        println!("{right} right answers, {evicted} times evicted");
    });
    map.verify().unwrap();
}

/// Everything asked of a checked reader; none of it may panic or go on for ever.
fn ask<M>(folder: &Path, names: &[String])
where
    for<'r> M:
        CheckedMap<Checked<'r> = sapwood_checked::CheckedReader<&'r sapwood_live::LiveSource, u64>>,
{
    let Ok(mut reader) = CheckedLiveReader::<M>::open(folder) else {
        return;
    };
    for _ in 0..2 {
        if let Ok(view) = reader.view() {
            for name in names.iter().step_by(97) {
                let _ = view.get(name);
            }
            let _ = view.verify();
            let _ = view.unordered().take(5000).filter(Result::is_ok).count();
            let _ = view.prefix("1").take(500).count();
        }
        let _ = reader.quiescent();
    }
}

/// A directory that anybody can write is read by checks alone. Its files are damaged and shortened
/// while they are read.
#[test]
fn hostile_memory_is_read_with_checks() {
    let (_temp, base) = folder();
    std::fs::create_dir(&base).unwrap();
    let (names, mut rng) = (names(), fastrand::Rng::with_seed(11));
    let shared = Live::<QpShared<u64>>::builder().map(|map| map.with_index());
    let shared = shared.create(base.join("shared")).unwrap();
    let point = Live::<PointMap<u64>>::create(base.join("point")).unwrap();
    let store = Live::<QpStore<u64>>::create(base.join("store")).unwrap();
    let mut txn = store.begin();
    for name in &names {
        shared.insert(name, value(name, 0)).unwrap();
        point.insert(name, value(name, 0)).unwrap();
        txn.insert(name, value(name, 0)).unwrap();
    }
    txn.commit();
    drop((shared, point, store));
    let rounds = std::env::var("SAPWOOD_ROUNDS").map_or(6, |text| text.parse().unwrap());
    for map in ["shared", "point", "store"] {
        let folder = base.join(map);
        let data = folder.join("data-1-0");
        // Others may write it, so it is not mapped.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            LiveReader::<QpShared<u64>>::open(&folder),
            Err(Error::Foreign { .. })
        ));
        let whole = std::fs::read(&data).unwrap();
        let control = std::fs::read(folder.join("control")).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
        let page = [&whole, &control];
        for round in 0..rounds.min(400) {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let (stop, mut rng) = (&stop, rng.fork());
                let (folder, data) = (&folder, &data);
                scope.spawn(move || {
                    for _ in 0..40 {
                        let name = [data.clone(), folder.join("control")]
                            [usize::from(rng.u8(..6) == 0)]
                        .clone();
                        let mut bytes = page[usize::from(name != *data)].clone();
                        match rng.u8(..3) {
                            0 => bytes.truncate(rng.usize(..bytes.len())),
                            _ => {
                                let used = if name == *data { used } else { 4096 };
                                for _ in 0..rng.usize(1..40) {
                                    bytes[rng.usize(..used)] ^= 1 << rng.u8(..8);
                                }
                            }
                        }
                        // In place: readers have the file open.
                        std::fs::write(&name, &bytes).unwrap();
                        std::fs::write(&name, page[usize::from(name != *data)]).unwrap();
                    }
                    stop.store(true, Ordering::Relaxed);
                });
                while !stop.load(Ordering::Relaxed) {
                    match map {
                        "shared" => ask::<QpShared<u64>>(folder, &names),
                        "point" => ask::<PointMap<u64>>(folder, &names),
                        _ => ask::<QpStore<u64>>(folder, &names),
                    }
                }
            });
            if round == rounds.min(400) - 1 {
                // Whole again, it is read as it was.
                let reader = CheckedLiveReader::<QpStore<u64>>::open(base.join("store")).unwrap();
                assert_eq!(reader.view().unwrap().verify().unwrap(), names.len());
            }
        }
    }
}
