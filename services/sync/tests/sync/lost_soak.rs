//! Logs of both engines that are removed, emptied, torn, put back and made anew at random, while
//! publishers and followers come and go. Readers see what was published, and nothing else; never an
//! empty map; and all end with the newest list.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sapwood_sync::{Error, Follower, Publisher, StoreTarget};

use crate::lab::Lab;
use crate::support::{Oracle, Store, digest, entries, random, store};

/// The longest time in which followers have the newest list when all is well again.
const LONG: Duration = Duration::from_secs(60);
const FOLLOWERS: usize = 3;

/// The digests of all versions that anybody may see.
type Versions = Arc<Mutex<HashSet<u128>>>;

/// Reads a store until it is told to stop; returns how many versions it saw.
fn read(store: Store, versions: Versions, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut seen, mut last, mut has_begun) = (0, None, false);
        while !stop.load(Ordering::Relaxed) {
            let now = entries(&store);
            has_begun |= !now.is_empty();
            assert!(!now.is_empty() || !has_begun, "readers saw an empty map");
            let now = digest(&now);
            if has_begun && last != Some(now) {
                let known = versions.lock().unwrap().contains(&now.0);
                assert!(known, "a version that nobody published");
                (last, seen) = (Some(now), seen + 1);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        seen
    })
}

/// A publisher of lists, as `sync publish` is.
struct Lists {
    publisher: Option<Publisher>,
    oracle: Oracle,
    versions: Versions,
}

impl Lists {
    /// Publishes the list, with random changes; leads first, if that has ended.
    async fn publish(&mut self, lab: &Lab, rng: &mut fastrand::Rng) -> Result<(), Error> {
        let mut oracle = self.oracle.clone();
        let _ = random(rng, 8, &mut oracle);
        oracle.insert(b"tag".to_vec(), rng.u64(..).to_string().into_bytes());
        self.oracle = oracle;
        self.versions.lock().unwrap().insert(digest(&self.oracle).0);
        if self.publisher.as_ref().is_none_or(Publisher::has_ended) {
            self.publisher = None;
            self.publisher = Some(lab.lead(true).await?);
        }
        let publisher = self.publisher.as_ref().unwrap();
        publisher.replace(&self.oracle).await.map(drop)
    }
}

async fn soak(mut lab: Lab) {
    let seed = match std::env::var("SAPWOOD_SEED") {
        Ok(text) => text.parse().expect("SAPWOOD_SEED: a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("SAPWOOD_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    // Both engines, one after the other, take as long as the faults of `faults`.
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(6, |text| text.parse().unwrap());
    let seconds = seconds / 2;
    let versions = Versions::default();
    let mut lists = Lists {
        publisher: None,
        oracle: Oracle::new(),
        versions: versions.clone(),
    };
    lists.publish(&lab, &mut rng).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stores: Vec<_> = (0..FOLLOWERS).map(|_| store()).collect();
    let readers: Vec<_> = stores
        .iter()
        .map(|store| read(store.clone(), versions.clone(), stop.clone()))
        .collect();
    let mut followers: Vec<Option<Follower<StoreTarget<Store>>>> = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        followers.push(Some(lab.follow(&format!("f{number}"), store).await));
    }
    let mut faults = BTreeMap::<&str, u64>::new();
    let mut copies = 0u32;
    let (mut published, mut refused) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..rng.u32(0..6) {
            match lists.publish(&lab, &mut rng).await {
                Ok(()) => published += 1,
                Err(_) => refused += 1,
            }
            tokio::time::sleep(Duration::from_millis(rng.u64(0..60))).await;
        }
        let fault = match rng.u32(0..10) {
            0 => {
                // A leader may have removed it itself, to begin anew.
                lab.remove().await;
                "removed"
            }
            1 => {
                lab.empty();
                "emptied"
            }
            2 => {
                lab.tear();
                "torn"
            }
            3 if copies > 0 => {
                lab.restore(&format!("copy{}", rng.u32(0..copies))).await;
                "put back"
            }
            4 => {
                lab.lose_identity();
                "without identity"
            }
            5 => {
                let one = rng.usize(0..FOLLOWERS);
                drop(followers[one].take().unwrap().stop().await);
                let name = format!("f{one}");
                followers[one] = Some(lab.follow(&name, &stores[one]).await);
                "followers restarted"
            }
            6 => {
                if let Some(publisher) = lists.publisher.take() {
                    let _ = publisher.close().await;
                }
                "publishers ended"
            }
            7 => {
                if let Some(publisher) = &lists.publisher {
                    let _ = publisher.snapshot().await;
                }
                "snapshots"
            }
            _ => {
                lab.save(&format!("copy{copies}"));
                copies += 1;
                "copies"
            }
        };
        *faults.entry(fault).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..900))).await;
        if lists.publish(&lab, &mut rng).await.is_err() {
            refused += 1;
        }
    }
    // All is well again: the list is published until it stays.
    let until = Instant::now() + LONG;
    loop {
        let wanted = match lists.publish(&lab, &mut rng).await {
            Ok(()) => digest(&lists.oracle),
            Err(error) => {
                assert!(Instant::now() < until, "{error}");
                continue;
            }
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        let all = followers.iter().flatten().map(Follower::status);
        let all: Vec<_> = all.collect();
        if all
            .iter()
            .all(|now| now.digest == wanted && now.trouble.is_none())
        {
            break;
        }
        assert!(Instant::now() < until, "wanted {wanted}: {all:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let seen: u64 = readers
        .into_iter()
        .map(|reader| reader.join().unwrap())
        .sum();
    for store in &stores {
        assert_eq!(entries(store), lists.oracle);
    }
    let all: u64 = faults.values().sum();
    println!(
        "{all} faults ({faults:?}); {published} lists published, {refused} refused, {seen} \
         versions seen"
    );
    assert!(published > 0 && seen > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_keep_their_maps_whatever_befalls_a_log_in_a_folder() {
    soak(Lab::folder().await.unwrap()).await;
}

#[cfg(all(feature = "etcd", target_os = "linux"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_keep_their_maps_whatever_befalls_a_log_in_etcd() {
    if let Some(lab) = Lab::etcd().await {
        soak(lab).await;
    }
}
