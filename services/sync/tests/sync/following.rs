//! What followers show.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sapwood_sync::{Changes, Digest, Error, Kind, Slowest};

use crate::support::{Oracle, Place, Store, digest, entries, open, put, random, store, until};

/// Reads a store all the time until it is told to stop: the versions that it saw, without
/// repetitions.
fn watch(store: &Store, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Digest>> {
    let (store, stop) = (store.clone(), stop.clone());
    std::thread::spawn(move || {
        let mut seen = vec![];
        while !stop.load(Ordering::Relaxed) {
            let now = digest(&entries(&store));
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        seen
    })
}

/// Readers of two followers see the leader's versions in order and no others, one of them from the
/// middle on; and all end with what the oracle has. Leaders change meanwhile, snapshots are saved,
/// and the log is trimmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_the_leaders_versions_in_order() {
    let place = Place::new();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut oracle = Oracle::new();
    // The place of each version among all; a version that came back later has several.
    let versions: Mutex<HashMap<u128, Vec<usize>>> = Mutex::new(HashMap::from([(0, vec![0])]));
    let stores = [store(), store()];
    let stop = Arc::new(AtomicBool::new(false));
    let readers = stores.each_ref().map(|store| watch(store, &stop));
    let mut followers = vec![place.follow("early", &stores[0])];
    let mut last = 0;
    for term in 1..=4 {
        let publisher = place
            .lead(|options| options.snapshot_commits = 40)
            .await
            .unwrap();
        assert_eq!(publisher.status().epoch, term);
        assert_eq!(publisher.status().digest, digest(&oracle));
        for round in 0..100 {
            let changes = random(&mut rng, 8, &mut oracle);
            let now = digest(&oracle).0;
            let number = last + 1;
            versions
                .lock()
                .unwrap()
                .entry(now)
                .or_default()
                .push(number as usize);
            last = publisher.commit(changes).await.unwrap();
            assert_eq!(last, number);
            if (term, round) == (2, 50) {
                followers.push(place.follow("late", &stores[1]));
            }
        }
        publisher.close().await.unwrap();
    }
    for follower in &mut followers {
        follower.reached(last).await.unwrap();
        let status = follower.status();
        assert_eq!((status.trouble.clone(), status.lag()), (None, 0));
        assert_eq!(status.digest, digest(&oracle));
        assert_eq!(status.entries, oracle.len() as u64);
    }
    assert_eq!(followers[0].status().commits, last);
    stop.store(true, Ordering::Relaxed);
    let versions = versions.into_inner().unwrap();
    for (reader, store) in readers.into_iter().zip(&stores) {
        let seen = reader.join().unwrap();
        assert!(seen.len() > 10, "{} versions seen", seen.len());
        let mut at = 0;
        for version in seen {
            let places = versions
                .get(&version.0)
                .expect("a version that nobody wrote");
            let next = places.iter().find(|place| **place >= at);
            at = *next.expect("a version that was seen after a later one");
        }
        assert_eq!(entries(store), oracle);
        store.verify().unwrap();
    }
    // The log was trimmed: the oldest commits are in snapshots only.
    assert!(matches!(
        sapwood_sync::Log::follow(&*place.log, 0).await,
        Err(Error::Gap { wanted: 1, .. })
    ));
}

/// Many commits that wait at once travel together, and stay commits of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_travel_together() {
    let place = Place::new();
    let publisher = Arc::new(place.lead(|_| ()).await.unwrap());
    let tasks: Vec<_> = (0..500)
        .map(|i| {
            let publisher = publisher.clone();
            tokio::spawn(async move { publisher.commit(put(&format!("{i}"), "x")).await })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.push(task.await.unwrap().unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=500).collect::<Vec<u64>>());
    let frames = std::fs::read_dir(place.path().join("log/map/log")).unwrap();
    assert!(frames.count() < 400);
    let copy = store();
    let mut follower = place.follow("one", &copy);
    follower.reached(500).await.unwrap();
    assert_eq!(entries(&copy).len(), 500);
}

/// A commit of more bytes than a frame takes is seen whole or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_commit_is_cut_and_seen_whole() {
    let place = Place::new();
    let copy = store();
    let mut follower = place.follow("one", &copy);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (copy, stop) = (copy.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let count = copy.len();
                assert!([0, 1, 100_001].contains(&count), "{count}");
            }
        })
    };
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("first", "1")).await.unwrap();
    let mut large = Changes::new();
    for i in 0..100_000 {
        large.put(format!("large/{i:06}"), [7; 40]).unwrap();
    }
    let number = publisher.commit(large).await.unwrap();
    follower.reached(number).await.unwrap();
    let frames = std::fs::read_dir(place.path().join("log/map/log")).unwrap();
    assert!(frames.count() > 4);
    stop.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    assert_eq!(copy.len(), 100_001);
}

/// A map that has something else, as one that its process has left behind, becomes what the
/// leader's is, deletions included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_before_is_compared() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    let list = [("a", "1"), ("b", "2"), ("c", "3")];
    assert_eq!(publisher.replace(list).await.unwrap(), (1, 3));
    assert_eq!(publisher.replace(list).await.unwrap(), (1, 0));
    assert_eq!(publisher.snapshot().await.unwrap().commit, 1);
    let copy = store();
    let mut txn = copy.begin();
    for (key, value) in [("a", "1"), ("aa", "old"), ("b", "old"), ("d", "old")] {
        txn.insert(key, value.as_bytes()).unwrap();
    }
    txn.commit();
    let before = copy.version();
    let mut follower = place.follow("one", &copy);
    follower.reached(1).await.unwrap();
    let wanted: Oracle = list
        .iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    assert_eq!(entries(&copy), wanted);
    // In one commit.
    assert_eq!(copy.version().get(), before.get() + 1);
    let list = [("b", "2"), ("c", "4")];
    assert_eq!(publisher.replace(list).await.unwrap(), (2, 2));
    follower.reached(2).await.unwrap();
    assert_eq!(copy.get("c").as_deref(), Some(&b"4"[..]));
    assert_eq!(copy.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_others_wait() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    match place.lead(|_| ()).await {
        Err(Error::Led { leader, .. }) => assert_eq!(leader, "leader"),
        other => panic!("{:?}", other.err()),
    }
    let leader = sapwood_sync::Log::leader(&*place.log).await.unwrap();
    assert_eq!(leader.as_deref(), Some("leader"));
    let (log, snapshots) = open(place.path());
    let next = tokio::spawn(async move {
        let options = sapwood_sync::PublisherOptions::new("next");
        sapwood_sync::Publisher::lead(log, snapshots, Kind::Names, options).await
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!next.is_finished());
    publisher.close().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.commit(put("b", "2")).await.unwrap(), 2);
    assert_eq!(next.entries().len(), 2);
    assert_eq!(next.status().epoch, 2);
}

/// A follower that does not get on is evicted, and starts again from a snapshot; or the leader
/// waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_followers_are_evicted_or_waited_for() {
    let place = Place::new();
    let report = |commit| sapwood_sync::Report {
        follower: "slow".into(),
        commit,
        ..Default::default()
    };
    let log = || -> &dyn sapwood_sync::Log { &*place.log };
    let life = std::time::Duration::from_secs(60);
    let publisher = place.lead(|options| options.max_lag = 5).await.unwrap();
    log().report(&report(0), life).await.unwrap();
    for i in 0..20 {
        publisher.commit(put("key", &format!("{i}"))).await.unwrap();
    }
    until("an eviction", || publisher.status().evicted == 1).await;
    match log().report(&report(0), life).await {
        Err(Error::Evicted { at: 0, why, .. }) => assert!(why.contains("5 allowed"), "{why}"),
        other => panic!("{other:?}"),
    }
    publisher.close().await.unwrap();

    let publisher = place
        .lead(|options| (options.max_lag, options.slowest) = (5, Slowest::Wait))
        .await
        .unwrap();
    log().report(&report(20), life).await.unwrap();
    let publisher = Arc::new(publisher);
    let writer = {
        let publisher = publisher.clone();
        tokio::spawn(async move {
            for i in 0..500 {
                publisher.commit(put("key", &format!("{i}"))).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
    };
    until("a leader that waits", || publisher.status().lag > 5).await;
    let before = publisher.status().commit;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(publisher.status().commit <= before + 1);
    assert!(!writer.is_finished());
    log().report(&report(10_000), life).await.unwrap();
    writer.await.unwrap();
    assert_eq!(publisher.status().commit, 520);
}

/// The map of a live directory follows, and readers in it see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_map_follows() {
    use sapwood::qp::QpStore;
    use sapwood_live::{Live, LiveReader};

    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    let folder = place.path().join("live");
    for round in 1..=2u64 {
        // The second follower is the new owner of the first one.
        let live = match round {
            1 => Live::<QpStore<[u8]>>::create(&folder).unwrap(),
            _ => Live::<QpStore<[u8]>>::open(&folder).unwrap(),
        };
        let mut options = sapwood_sync::FollowerOptions::new("live");
        options.report_every = std::time::Duration::from_millis(50);
        let (log, snapshots) = open(place.path());
        let target = sapwood_sync::StoreTarget(live);
        let mut follower =
            sapwood_sync::Follower::start(log, snapshots, Kind::Names, target, options);
        let number = publisher.commit(put(&format!("key {round}"), "x"));
        let number = number.await.unwrap();
        assert_eq!(number, round);
        follower.reached(number).await.unwrap();
        let reader = LiveReader::<QpStore<[u8]>>::open(&folder).unwrap();
        assert_eq!(reader.view().len() as u64, round);
        drop(reader);
        follower.stop().await.unwrap();
    }
}
