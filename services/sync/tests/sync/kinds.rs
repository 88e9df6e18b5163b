//! Routes, ranges and numbers follow into maps of all kinds, and hostile bytes change nothing.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::QpStore;
use sapwood::route::RouteTable;
use sapwood_live::{Live, LiveMap, LiveReader, LiveTextReader, LiveTexts, Routes};
use sapwood_sync::routes::{self, Hops};
use sapwood_sync::{
    Changes, Error, FibTarget, Follower, FollowerOptions, GroupTarget, Kind, LiveFibTarget,
    LiveGroupTarget, LiveRangesTarget, NumberTarget, Publisher, PublisherOptions, Target, numbers,
    ranges,
};

use crate::support::{Oracle, Place, open, until};

async fn lead(place: &Place, kind: Kind) -> Publisher {
    let mut options = PublisherOptions::new("leader");
    options.snapshot_commits = 20;
    let (log, snapshots) = open(place.path());
    Publisher::lead(log, snapshots, kind, options)
        .await
        .unwrap()
}

fn follow<T: Target>(place: &Place, kind: Kind, name: &str, target: T) -> Follower<T> {
    let mut options = FollowerOptions::new(name);
    options.report_every = Duration::from_millis(50);
    options.retry_at_most = Duration::from_millis(100);
    let (log, snapshots) = open(place.path());
    Follower::start(log, snapshots, kind, target, options)
}

/// Makes a live map with texts, or takes it over.
fn live<M: LiveMap>(folder: &Path) -> (Live<M>, LiveTexts) {
    let texts = LiveTexts::folder(folder);
    match folder.exists() {
        false => Live::builder()
            .create_with_texts(folder, Live::builder())
            .unwrap(),
        true => (
            Live::open(folder).unwrap(),
            LiveTexts::new(Live::open(texts).unwrap()).unwrap(),
        ),
    }
}

fn of(target: &impl Target) -> Oracle {
    let mut entries = Oracle::new();
    let mut last = None;
    target
        .for_each(&mut |key, value| {
            assert!(last.as_deref() < Some(key), "keys out of order");
            last = Some(key.to_vec());
            assert_eq!(target.get(key).as_deref(), Some(value));
            entries.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
        .unwrap();
    entries
}

fn random_net(rng: &mut fastrand::Rng) -> IpNet {
    match rng.bool() {
        true => {
            let bits = rng.u8(0..=32);
            Ipv4Net::new([10, rng.u8(0..4), rng.u8(0..4), 0].into(), bits)
                .unwrap()
                .trunc()
                .into()
        }
        false => {
            let words = [0x2001, 0xdb8, rng.u16(0..4), 0, 0, 0, 0, rng.u16(0..2)];
            Ipv6Net::new(words.into(), rng.u8(0..=128))
                .unwrap()
                .trunc()
                .into()
        }
    }
}

fn random_hops(rng: &mut fastrand::Rng, groups: bool) -> Hops {
    if !groups || rng.bool() {
        return Hops::one(format!("192.0.2.{}", rng.u8(0..9))).unwrap();
    }
    let members: BTreeMap<_, _> = (0..rng.u8(1..5))
        .map(|_| (format!("198.51.100.{}", rng.u8(0..9)), rng.u32(0..4)))
        .collect();
    Hops::group(members, []).unwrap()
}

/// Commits of random routes, also with changes that take each other back.
fn random_routes(rng: &mut fastrand::Rng, groups: bool, oracle: &mut Oracle) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..rng.usize(1..12) {
        let key = routes::key(random_net(rng));
        if rng.u8(0..3) == 0 {
            changes.remove(&key).unwrap();
            oracle.remove(&key);
        } else {
            let value = random_hops(rng, groups).to_value();
            changes.put(&key, &value).unwrap();
            oracle.insert(key, value);
        }
    }
    changes
}

/// Routes with one next hop follow into tables in memory and into a live one, whose reader finds
/// the texts; a new owner goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_follow_into_tables() {
    let place = Place::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let mut oracle = Oracle::new();
    let folder = place.path().join("live");
    let publisher = lead(&place, Kind::Routes).await;
    for round in 0..2 {
        let memory = Arc::new(IpFib::<Arc<str>>::new().unwrap());
        let mut one = follow(&place, Kind::Routes, "memory", FibTarget(memory.clone()));
        let (table, texts) = live::<IpFib<u32>>(&folder);
        let target = LiveFibTarget::new(table, texts);
        let mut two = follow(&place, Kind::Routes, "live", target);
        let mut last = 0;
        for _ in 0..60 {
            let changes = random_routes(&mut rng, false, &mut oracle);
            last = publisher.commit(changes).await.unwrap();
        }
        one.reached(last).await.unwrap();
        two.reached(last).await.unwrap();
        assert_eq!(
            two.status().digest,
            publisher.status().digest,
            "round {round}"
        );
        let one = one.stop().await.unwrap();
        assert_eq!(of(&one), oracle);
        memory.verify().unwrap();
        let reader = LiveReader::<IpFib<u32>>::open(&folder).unwrap();
        let mut texts = LiveTextReader::open(&folder).unwrap();
        for (key, value) in &oracle {
            let net = routes::prefix(key).unwrap();
            let number = *reader.view().get(net).unwrap();
            let found = texts.find(|text| Ok::<_, sapwood_live::Error>(text(number)));
            let hops = Hops::from_value(value).unwrap();
            assert_eq!(Some(&*found.unwrap()), hops.text());
            assert_eq!(memory.get(net).as_deref(), hops.text());
        }
        drop(reader);
        let two = two.stop().await.unwrap();
        assert_eq!(of(&two), oracle);
        two.table().verify().unwrap();
    }
}

/// Groups follow into tables in memory and live, and choose as the group of the log does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_follow_into_tables() {
    let place = Place::new();
    let mut rng = fastrand::Rng::with_seed(4);
    let mut oracle = Oracle::new();
    let folder = place.path().join("live");
    let publisher = lead(&place, Kind::Routes).await;
    let table = Arc::new(RouteTable::<Arc<str>>::new().unwrap());
    let all = Arc::new(IpFib::<Hops>::new().unwrap());
    let mut one = follow(&place, Kind::Routes, "groups", GroupTarget(table.clone()));
    let mut two = follow(&place, Kind::Routes, "hops", FibTarget(all.clone()));
    for _ in 0..2 {
        let (routes, texts) = live::<Routes<u32>>(&folder);
        let target = LiveGroupTarget::new(routes, texts);
        let mut three = follow(&place, Kind::Routes, "live", target);
        let mut last = 0;
        for _ in 0..40 {
            let changes = random_routes(&mut rng, true, &mut oracle);
            last = publisher.commit(changes).await.unwrap();
        }
        for follower in [&mut one] {
            follower.reached(last).await.unwrap();
        }
        two.reached(last).await.unwrap();
        three.reached(last).await.unwrap();
        let three = three.stop().await.unwrap();
        assert_eq!(of(&three), oracle);
        three.table().verify().unwrap();
    }
    table.verify().unwrap();
    for (key, value) in &oracle {
        let net = routes::prefix(key).unwrap();
        let hops = Hops::from_value(value).unwrap();
        assert_eq!(all.get(net), Some(hops.clone()));
        let group = table.get(net).unwrap();
        let mut members: Vec<_> = group
            .members()
            .map(|(hop, weight)| (&**hop, weight))
            .collect();
        members.sort();
        assert_eq!(members, hops.members().collect::<Vec<_>>());
    }
    assert_eq!(of(&one.stop().await.unwrap()), oracle);
    assert_eq!(of(&two.stop().await.unwrap()), oracle);
}

/// What a table cannot hold is the follower's trouble, and the old routes stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_in_a_table_of_single_next_hops_is_named() {
    let place = Place::new();
    let publisher = lead(&place, Kind::Routes).await;
    let net: IpNet = "10.0.0.0/8".parse().unwrap();
    let put = |hops: Hops| {
        let mut changes = Changes::new();
        changes.put(routes::key(net), hops.to_value()).unwrap();
        changes
    };
    let table = Arc::new(IpFib::<Arc<str>>::new().unwrap());
    let mut follower = follow(&place, Kind::Routes, "one", FibTarget(table.clone()));
    publisher
        .commit(put(Hops::one("a").unwrap()))
        .await
        .unwrap();
    follower.reached(1).await.unwrap();
    let group = Hops::group([("a", 1), ("b", 1)], [("c", 1)]).unwrap();
    publisher.commit(put(group)).await.unwrap();
    until("the trouble", || {
        let trouble = follower.status().trouble.unwrap_or_default();
        trouble.contains("10.0.0.0/8: a group of next hops")
    })
    .await;
    assert_eq!(table.get(net).as_deref(), Some("a"));
    publisher
        .commit(put(Hops::one("d").unwrap()))
        .await
        .unwrap();
    follower.reached(3).await.unwrap();
    assert_eq!(table.get(net).as_deref(), Some("d"));
    assert_eq!(follower.status().trouble, None);
}

/// Bytes that are no entries of a kind are refused by the publisher, and by each target, which
/// changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_bytes_change_nothing() {
    let place = Place::new();
    let publisher = lead(&place, Kind::Routes).await;
    let good = routes::key("10.0.0.0/8".parse().unwrap());
    let mixed = |key: &[u8], value: &[u8]| {
        let mut changes = Changes::new();
        changes.put(&good, b"\x01a").unwrap();
        changes.put(key, value).unwrap();
        changes
    };
    let other = routes::key("11.0.0.0/8".parse().unwrap());
    let bad = [
        (&b"x"[..], &b"\x01a"[..]),
        (&other, b""),
        (&other, b"\x02"),
        (&other, b"\x01\n"),
    ];
    let (table, texts) = live::<IpFib<u32>>(&place.path().join("fib"));
    let mut fib = LiveFibTarget::new(table, texts);
    let (table, texts) = live::<Routes<u32>>(&place.path().join("groups"));
    let mut groups = LiveGroupTarget::new(table, texts);
    let mut memory = FibTarget(Arc::new(IpFib::<Hops>::new().unwrap()));
    for (key, value) in bad {
        let changes = mixed(key, value);
        let refused = publisher.commit(changes.clone()).await;
        assert!(matches!(refused, Err(Error::Change(_))), "{refused:?}");
        for made in [
            fib.commit(&changes),
            groups.commit(&changes),
            memory.commit(&changes),
        ] {
            assert!(matches!(made, Err(Error::Change(_))), "{made:?}");
        }
        let mut removed = Changes::new();
        removed.remove(key).unwrap();
        assert_eq!(Kind::Routes.check(&removed).is_err(), key == b"x");
    }
    assert_eq!(publisher.status().commit, 0);
    assert!(of(&fib).is_empty() && of(&groups).is_empty() && of(&memory).is_empty());

    let (map, texts) = live::<MapleMap<u32>>(&place.path().join("ranges"));
    let mut map = LiveRangesTarget::new(map, texts);
    let range = |start: u64, end: u64| (ranges::key(start), ranges::value(end, "x"));
    let mut first = Changes::new();
    let (key, value) = range(10, 20);
    first.put(key, value).unwrap();
    map.commit(&first).unwrap();
    let before = of(&map);
    let overlaps = [
        [range(0, 5), range(20, 30)],
        [range(0, 5), range(5, 9)],
        [range(11, 12), range(0, 5)],
        [range(0, 100), range(200, 201)],
    ];
    for two in overlaps {
        let mut changes = Changes::new();
        for (key, value) in two {
            changes.put(key, value).unwrap();
        }
        let error = map.commit(&changes).unwrap_err().to_string();
        assert!(error.contains("overlaps"), "{error}");
    }
    let mut changes = Changes::new();
    changes.put(ranges::key(0), ranges::value(5, "x")).unwrap();
    changes.put(b"short", b"").unwrap();
    assert!(matches!(map.commit(&changes), Err(Error::Change(_))));
    assert!(Kind::Ranges.check(&changes).is_err());
    assert_eq!(of(&map), before);

    let mut store = NumberTarget::new(Arc::new(QpStore::<u64>::new().unwrap()));
    let mut changes = Changes::new();
    changes.put("a", "1").unwrap();
    changes.put("b", "two").unwrap();
    let error = store.commit(&changes).unwrap_err().to_string();
    assert!(
        error.contains("\"b\": the value \"two\" is not a number"),
        "{error}"
    );
    assert!(store.store().is_empty());
}

/// Numbers follow as numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_follow_into_stores_of_numbers() {
    let place = Place::new();
    let publisher = lead(&place, Kind::Names).await;
    let store = Arc::new(QpStore::<u64>::new().unwrap());
    let mut follower = follow(&place, Kind::Names, "one", NumberTarget::new(store.clone()));
    let list: Vec<_> = (0..100u64)
        .map(|n| (format!("{n:03}"), numbers::value(n * n)))
        .collect();
    let (last, _) = publisher.replace(list).await.unwrap();
    follower.reached(last).await.unwrap();
    assert_eq!(store.get("099"), Some(99 * 99));
    assert_eq!(follower.status().digest, publisher.status().digest);
    let target = follower.stop().await.unwrap();
    assert_eq!(of(&target).len(), 100);
}

/// Rules for names are numbers in the store, and words in the log.
#[test]
fn rules_are_words_in_the_log() {
    let key = |name: &str| sapwood::key::dns_name(name).unwrap();
    let mut target = NumberTarget::rules(Arc::new(QpStore::<u64>::new().unwrap()));
    let mut changes = Changes::new();
    changes.put(key("a"), "block").unwrap();
    changes.put(key("b"), "allow").unwrap();
    target.commit(&changes).unwrap();
    assert_eq!(
        (target.store().get(key("a")), target.store().get(key("b"))),
        (Some(1), Some(0))
    );
    let words = [("a", "block"), ("b", "allow")].map(|(k, v)| (key(k), v.into()));
    assert_eq!(of(&target), Oracle::from(words));
    for word in ["", "Block", "1"] {
        let mut changes = Changes::new();
        changes.remove(key("a")).unwrap();
        changes.put(key("c"), word).unwrap();
        let error = target.commit(&changes).unwrap_err().to_string();
        assert!(error.contains("neither block nor allow"), "{error}");
    }
    let mut changes = Changes::new();
    changes.put("plain.text", "block").unwrap();
    let error = target.commit(&changes).unwrap_err().to_string();
    assert!(error.contains("not the key of a domain name"), "{error}");
    assert_eq!(target.into_store().len(), 2);
}

/// The entry of a name has the rule of the wildcard below it, too. The log has both by themselves.
#[test]
fn rules_of_wildcards_are_in_the_entry_above() {
    let key = |name: &str| sapwood::key::dns_name(name).unwrap();
    let mut target = NumberTarget::rules(Arc::new(QpStore::<u64>::new().unwrap()));
    let mut rng = fastrand::Rng::with_seed(9);
    let names = ["a", "*.a", "b.a", "*.b.a", "*.*.a", "*", ".", "!.a", "~.a"];
    let mut log = Oracle::new();
    for _ in 0..300 {
        let mut changes = Changes::new();
        for _ in 0..rng.usize(1..4) {
            let key = key(rng.choice(&names).copied().unwrap());
            match rng.choice(["block", "allow"]).filter(|_| rng.u8(0..3) > 0) {
                Some(word) => {
                    changes.put(&key, word).unwrap();
                    log.insert(key, word.into());
                }
                None => {
                    changes.remove(&key).unwrap();
                    log.remove(&key);
                }
            }
        }
        target.commit(&changes).unwrap();
        assert_eq!(of(&target), log);
        for name in names {
            let rule = |name: &str| {
                let word: Option<&Vec<u8>> = log.get(&key(name));
                word.map(|word| u64::from(word == b"block"))
            };
            let wildcard = match name {
                "." => rule("*"),
                name => rule(&format!("*.{name}")),
            };
            // As `EntryRules` of sapwood-xdp.
            let wanted = match (rule(name), wildcard) {
                (None, None) => None,
                (Some(own), None) => Some(own),
                (None, Some(wildcard)) => Some(2 + wildcard),
                (Some(0), Some(wildcard)) => Some(4 + wildcard),
                (Some(_), Some(wildcard)) => Some(6 + wildcard),
            };
            assert_eq!(target.store().get(key(name)), wanted, "{name}");
            assert_eq!(target.get(&key(name)), log.get(&key(name)).cloned());
        }
    }
}

/// Makes a list of ranges that do not overlap.
fn random_ranges(rng: &mut fastrand::Rng) -> BTreeMap<u64, (u64, String)> {
    let mut all = BTreeMap::new();
    let mut at = rng.u64(0..50);
    for _ in 0..rng.u64(0..30) {
        let end = at + rng.u64(0..40);
        all.insert(at, (end, format!("text {}", rng.u8(0..6))));
        at = end + 1 + rng.u64(0..20) * rng.u64(0..2);
    }
    if rng.u8(0..4) == 0 {
        all.insert(u64::MAX - 5, (u64::MAX, "last".into()));
    }
    all
}

/// Lists of ranges that move, grow, shrink and go follow; a range that stays is found at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_follow_into_live_maps() {
    let place = Place::new();
    let mut rng = fastrand::Rng::with_seed(5);
    let folder = place.path().join("live");
    let publisher = lead(&place, Kind::Ranges).await;
    let stays = 1 << 40;
    let entries = |list: &BTreeMap<u64, (u64, String)>| -> Oracle {
        let entry = |(start, (end, text)): (&u64, &(u64, String))| {
            (ranges::key(*start).to_vec(), ranges::value(*end, text))
        };
        list.iter().map(entry).collect()
    };
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut watcher = None;
    for _ in 0..2 {
        let (map, texts) = live::<MapleMap<u32>>(&folder);
        let target = LiveRangesTarget::new(map, texts);
        let mut follower = follow(&place, Kind::Ranges, "one", target);
        let mut wanted = Oracle::new();
        for round in 0..60 {
            let mut list = random_ranges(&mut rng);
            list.insert(stays, (stays + 9, format!("round {}", round % 2)));
            wanted = entries(&list);
            let (last, _) = publisher.replace(&wanted).await.unwrap();
            follower.reached(last).await.unwrap();
            if watcher.is_none() {
                let (folder, stop) = (folder.clone(), stop.clone());
                watcher = Some(std::thread::spawn(move || {
                    let mut map = LiveReader::<MapleMap<u32>>::open(&folder).unwrap();
                    let mut looks = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let (range, number) = map.view().locate(stays + 4);
                        let whole: RangeInclusive<u64> = stays..=stays + 9;
                        assert_eq!((range, number.is_some()), (whole, true));
                        map.quiescent().unwrap();
                        looks += 1;
                    }
                    looks
                }));
            }
        }
        assert_eq!(follower.status().digest, publisher.status().digest);
        let target = follower.stop().await.unwrap();
        assert_eq!(of(&target), wanted);
        target.map().verify().unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(watcher.unwrap().join().unwrap() > 10);
}
