//! What befalls a log is told, and readers see the old data until there is a sound newer log. Each
//! test is one of both engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sapwood_sync::{Changes, Error, Follower, FollowerStatus, StoreTarget};

use crate::lab::Lab;
use crate::support::{Store, entries, put, store};

/// The longest time that anything takes, on a machine with other work.
const LONG: Duration = Duration::from_secs(60);

type Following = Follower<StoreTarget<Store>>;

/// Makes each of these a test of a log in a directory, and of one in etcd.
macro_rules! both {
    ($($name:ident),* $(,)?) => {
        mod folder {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::lab::Lab::folder().await.unwrap()).await;
            })*
        }
        #[cfg(all(feature = "etcd", target_os = "linux"))]
        mod etcd {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(lab) = crate::lab::Lab::etcd().await {
                    super::$name(lab).await;
                }
            })*
        }
    };
}

both!(
    a_removed_log_is_told_and_followed_again_when_it_is_back,
    an_emptied_log_is_told_and_nothing_is_removed,
    an_older_log_is_told_until_a_leader_writes_anew,
    a_term_of_a_known_number_is_another_one_after_a_restore,
    a_follower_beyond_a_log_that_goes_on_is_brought_back,
    another_log_is_adopted_by_its_differences,
    an_empty_log_is_adopted_only_when_asked,
    a_restarted_follower_adopts_no_empty_log,
    a_commit_that_removes_everything_is_followed,
    a_log_without_identity_is_told,
    a_gap_is_told_and_healed_by_a_new_history,
    a_torn_last_entry_is_told_and_healed_by_a_new_history,
    what_a_living_leader_wrote_and_others_damaged_is_healed_by_its_snapshot,
    a_publisher_whose_log_is_removed_ends,
    a_publisher_whose_log_is_put_back_ends,
    a_publisher_that_nobody_asks_notices_what_befell_its_log,
    a_publisher_does_not_begin_anew_in_silence,
    snapshots_of_a_lost_log_stand_against_an_empty_one,
    the_end_of_a_log_is_one_error_for_all,
    the_term_is_known_at_once_after_a_restore,
);

/// Waits until a follower's status is so.
async fn until(
    what: &str,
    follower: &Following,
    mut is_so: impl FnMut(&FollowerStatus) -> bool,
) -> FollowerStatus {
    let mut status = follower.watch();
    let waited = tokio::time::timeout(LONG, status.wait_for(|now| is_so(now))).await;
    match waited {
        Ok(now) => now.unwrap().clone(),
        Err(_) => panic!("{what}: {:?}", follower.status()),
    }
}

/// Waits until a follower tells that its log is lost, in these words.
async fn tells(follower: &Following, words: &str) {
    let is_told = |now: &FollowerStatus| {
        now.lost
            && now
                .trouble
                .as_ref()
                .is_some_and(|text| text.contains(words))
    };
    until(words, follower, is_told).await;
}

async fn has(store: &Store, wanted: &[(&str, &str)]) {
    let all = entries(store);
    let all: Vec<_> = all
        .iter()
        .map(|(key, value)| [key, value].map(|text| String::from_utf8_lossy(text).into_owned()))
        .collect();
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(key, value)| [key, value].map(|text| text.to_string()))
        .collect();
    assert_eq!(all, wanted);
}

/// Watches that a store is never empty, until this is dropped.
struct NeverEmpty(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl NeverEmpty {
    fn watch(store: &Store) -> Self {
        let (store, stop) = (store.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = stop.clone();
        let reader = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                assert!(!store.is_empty(), "readers saw an empty map");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        NeverEmpty(stop, Some(reader))
    }
}

impl Drop for NeverEmpty {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A log with two commits, a copy of it, and a third commit; and a follower that has all of them.
async fn three(lab: &Lab) -> (Store, Following) {
    let publisher = lab.lead(false).await.unwrap();
    let copy = store();
    let mut follower = lab.follow("edge", &copy).await;
    publisher.commit(put("a", "1")).await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    follower.reached(2).await.unwrap();
    publisher.close().await.unwrap();
    lab.save("old");
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("c", "3")).await.unwrap();
    follower.reached(3).await.unwrap();
    publisher.close().await.unwrap();
    lab.save("new");
    (copy, follower)
}

const OLD: [(&str, &str); 3] = [("a", "1"), ("b", "2"), ("c", "3")];
const LIST: [(&str, &str); 2] = [("a", "1"), ("d", "4")];

async fn a_removed_log_is_told_and_followed_again_when_it_is_back(mut lab: Lab) {
    let (copy, mut follower) = three(&lab).await;
    let watch = NeverEmpty::watch(&copy);
    lab.remove().await;
    tells(
        &follower,
        "the log is gone or empty, and commit 3 of term 2 was there",
    )
    .await;
    has(&copy, &OLD).await;
    lab.restore("new").await;
    until("no trouble", &follower, |now| now.trouble.is_none()).await;
    assert_eq!(follower.status().replaced, 0);
    let publisher = lab.lead(false).await.unwrap();
    assert_eq!(publisher.commit(put("d", "4")).await.unwrap(), 4);
    follower.reached(4).await.unwrap();
    drop(watch);
    assert_eq!(copy.len(), 4);
    publisher.close().await.unwrap();
    follower.stop().await.unwrap();
}

async fn an_emptied_log_is_told_and_nothing_is_removed(lab: Lab) {
    let (copy, mut follower) = three(&lab).await;
    lab.empty();
    tells(&follower, "the log is gone or empty").await;
    has(&copy, &OLD).await;
    // A publisher that knows its list begins anew; there is no other way.
    let refused = loop {
        match lab.lead(false).await {
            Err(error) => break error,
            // The follower has not reported since.
            Ok(publisher) => drop(publisher.close().await),
        }
    };
    assert!(matches!(refused, Error::Lost { .. }), "{refused}");
    let publisher = lab.lead(true).await.unwrap();
    let why = publisher.status().anew.unwrap();
    assert!(
        why.contains("follower edge has commit 3 of term 2, and the log is empty"),
        "{why}"
    );
    assert!(publisher.status().epoch > 2);
    let watch = NeverEmpty::watch(&copy);
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| now.replaced == 1).await;
    has(&copy, &LIST).await;
    assert_eq!(follower.status().trouble, None);
    assert_eq!(follower.status().log, publisher.status().log);
    publisher.commit(put("e", "5")).await.unwrap();
    follower.reached(2).await.unwrap();
    drop(watch);
    assert_eq!(copy.len(), 3);
}

async fn an_older_log_is_told_until_a_leader_writes_anew(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.restore("old").await;
    tells(
        &follower,
        "put back to an earlier state: the log ends with commit 2 of term 1",
    )
    .await;
    has(&copy, &OLD).await;
    let log = lab.log().await;
    let is_told = async {
        while !log
            .followers()
            .await
            .unwrap()
            .iter()
            .any(|it| it.trouble.is_some())
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, is_told)
        .await
        .expect("a report of the trouble");
    let refused = lab.lead(false).await.err().unwrap().to_string();
    assert!(refused.contains("follower edge has commit 3"), "{refused}");
    let publisher = lab.lead(true).await.unwrap();
    assert!(publisher.status().anew.is_some());
    has(&copy, &OLD).await;
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| now.replaced == 1 && !now.lost).await;
    has(&copy, &LIST).await;
    publisher.close().await.unwrap();
}

async fn a_term_of_a_known_number_is_another_one_after_a_restore(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.restore("old").await;
    lab.forget_reports();
    // Term 2 begins a second time, and writes the third commit a second time.
    let publisher = lab.lead(true).await.unwrap();
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| now.replaced == 1 && !now.lost).await;
    has(&copy, &LIST).await;
    assert_eq!(follower.status().digest, publisher.status().digest);
    publisher.close().await.unwrap();
}

/// A leader that knows nothing of the loss, and has nothing to change, shows by a commit that its
/// log is the newer one.
async fn a_follower_beyond_a_log_that_goes_on_is_brought_back(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.restore("old").await;
    lab.forget_reports();
    let publisher = lab.lead(true).await.unwrap();
    publisher.replace([("a", "1"), ("b", "2")]).await.unwrap();
    until("the list", &follower, |now| now.replaced == 1 && !now.lost).await;
    has(&copy, &[("a", "1"), ("b", "2")]).await;
    publisher.close().await.unwrap();
}

async fn another_log_is_adopted_by_its_differences(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    let watch = NeverEmpty::watch(&copy);
    let before = (copy.version(), follower.status());
    lab.remove().await;
    let publisher = lab.lead(true).await.unwrap();
    publisher.replace(LIST).await.unwrap();
    let now = until("the list", &follower, |now| now.replaced == 1 && !now.lost).await;
    has(&copy, &LIST).await;
    // In one commit.
    assert_eq!(copy.version().get(), before.0.get() + 1);
    assert_ne!((now.log, now.commit), (before.1.log, before.1.commit));
    drop(watch);
    publisher.close().await.unwrap();
}

async fn an_empty_log_is_adopted_only_when_asked(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    let asked = store();
    let set = |options: &mut sapwood_sync::FollowerOptions| options.adopt_empty = true;
    let mut adopts = lab.follow_with("adopts", &asked, set).await;
    adopts.reached(3).await.unwrap();
    lab.remove().await;
    tells(&follower, "it is not adopted").await;
    until("an empty map", &adopts, |now| {
        now.commit == Some(0) && !now.lost
    })
    .await;
    assert!(asked.is_empty());
    has(&copy, &OLD).await;
}

/// The live map of a dead process has entries, whatever its commit was.
async fn a_restarted_follower_adopts_no_empty_log(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    follower.stop().await.unwrap();
    lab.remove().await;
    let follower = lab.follow("edge", &copy).await;
    tells(
        &follower,
        "the log is empty, and the map has entries: it is not adopted",
    )
    .await;
    has(&copy, &OLD).await;
    assert_eq!(follower.status().commit, None);
    let publisher = lab.lead(true).await.unwrap();
    // Nor when a leader has come, and has not written yet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    has(&copy, &OLD).await;
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| now.commit == Some(1)).await;
    has(&copy, &LIST).await;
    publisher.close().await.unwrap();
}

async fn a_commit_that_removes_everything_is_followed(lab: Lab) {
    let (copy, mut follower) = three(&lab).await;
    let publisher = lab.lead(false).await.unwrap();
    let none: [(&str, &str); 0] = [];
    assert_eq!(publisher.replace(none).await.unwrap(), (4, 3));
    follower.reached(4).await.unwrap();
    assert!(copy.is_empty());
    // Also by one that starts then, with what it had.
    let late = store();
    let mut txn = late.begin();
    txn.insert("old", &b"data"[..]).unwrap();
    txn.commit();
    let mut other = lab.follow("late", &late).await;
    other.reached(4).await.unwrap();
    assert!(late.is_empty());
    assert_eq!(
        (follower.status().trouble, other.status().trouble),
        (None, None)
    );
    publisher.close().await.unwrap();
}

async fn a_log_without_identity_is_told(lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.lose_identity();
    tells(&follower, "the log has lost its identity").await;
    has(&copy, &OLD).await;
    // Its next leader gives it another one.
    let publisher = lab.lead(false).await.unwrap();
    until("no trouble", &follower, |now| {
        now.replaced == 1 && !now.lost
    })
    .await;
    has(&copy, &OLD).await;
    publisher.close().await.unwrap();
}

/// A follower that has what is missing goes on; one that has not tells it.
async fn a_gap_is_told_and_healed_by_a_new_history(lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.spoil(2, false);
    let late = store();
    let mut txn = late.begin();
    txn.insert("old", &b"data"[..]).unwrap();
    txn.commit();
    let watch = NeverEmpty::watch(&late);
    let other = lab.follow("late", &late).await;
    let says = "the log does not have commit";
    let is_told = |now: &FollowerStatus| now.trouble.as_ref().is_some_and(|it| it.contains(says));
    until(says, &other, is_told).await;
    assert!(late.contains_key("old"));
    assert_eq!(follower.status().trouble, None);
    let refused = lab.lead(false).await.err().unwrap();
    assert!(matches!(refused, Error::Gap { .. }), "{refused}");
    let publisher = lab.lead(true).await.unwrap();
    publisher.replace(LIST).await.unwrap();
    for (follower, store) in [(&follower, &copy), (&other, &late)] {
        let is_there = |now: &FollowerStatus| now.log == publisher.status().log && !now.lost;
        until("the list", follower, is_there).await;
        has(store, &LIST).await;
    }
    drop(watch);
    publisher.close().await.unwrap();
}

async fn a_torn_last_entry_is_told_and_healed_by_a_new_history(lab: Lab) {
    let publisher = lab.lead(false).await.unwrap();
    let copy = store();
    let mut follower = lab.follow("edge", &copy).await;
    publisher.commit(put("a", "1")).await.unwrap();
    follower.reached(1).await.unwrap();
    follower.stop().await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    publisher.close().await.unwrap();
    lab.spoil(2, true);
    let follower = lab.follow("edge", &copy).await;
    let is_told = |now: &FollowerStatus| {
        let trouble = now.trouble.as_deref().unwrap_or_default();
        trouble.contains("the checksum is wrong") || trouble.contains("too short")
    };
    until("torn", &follower, is_told).await;
    has(&copy, &[("a", "1")]).await;
    let refused = lab.lead(false).await.err().unwrap();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    let publisher = lab.lead(true).await.unwrap();
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| {
        now.log == publisher.status().log
    })
    .await;
    has(&copy, &LIST).await;
    publisher.close().await.unwrap();
}

/// A follower that cannot read an entry asks the leader for a snapshot.
async fn what_a_living_leader_wrote_and_others_damaged_is_healed_by_its_snapshot(lab: Lab) {
    let publisher = lab.lead(false).await.unwrap();
    for (commit, is_torn) in [(1, true), (3, false)] {
        for (key, value) in [("a", "1"), ("b", "2")] {
            publisher.commit(put(key, value)).await.unwrap();
        }
        lab.spoil(commit, is_torn);
        let copy = store();
        let late = lab.follow("late", &copy).await;
        until("healed", &late, |now| now.commit == Some(commit + 1)).await;
        has(&copy, &[("a", "1"), ("b", "2")]).await;
        let status = late.status();
        assert_eq!((status.trouble, status.needs_snapshot), (None, false));
        // The leader notes its snapshot a moment after others can read it.
        let mut leader = publisher.watch();
        let noted = leader.wait_for(|now| now.snapshot == commit + 1);
        tokio::time::timeout(LONG, noted).await.unwrap().unwrap();
        late.stop().await.unwrap();
    }
    publisher.close().await.unwrap();
}

async fn a_publisher_whose_log_is_removed_ends(mut lab: Lab) {
    let publisher = lab.lead(true).await.unwrap();
    let copy = store();
    let mut follower = lab.follow("edge", &copy).await;
    publisher.replace(OLD).await.unwrap();
    follower.reached(1).await.unwrap();
    lab.remove().await;
    let refused = publisher.commit(put("d", "4")).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { .. }), "{refused}");
    let gone = [
        // The leader may look while files are removed one by one.
        "the newest commit is not in the log any more",
        "gone from etcd",
        "removed or replaced",
        "the lease has ended",
    ];
    assert!(
        gone.iter().any(|it| refused.to_string().contains(it)),
        "{refused}"
    );
    while !publisher.has_ended() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tells(&follower, "the log is gone or empty").await;
    assert_eq!(lab.log().await.head().await.unwrap().commit, 0);
    has(&copy, &OLD).await;
}

async fn a_publisher_whose_log_is_put_back_ends(mut lab: Lab) {
    let (copy, mut follower) = three(&lab).await;
    let publisher = lab.lead(true).await.unwrap();
    publisher.commit(put("d", "4")).await.unwrap();
    follower.reached(4).await.unwrap();
    lab.restore("old").await;
    // Its term ends also when nobody asks it for anything, if it can know; else with a commit.
    let refused = publisher.commit(put("e", "5")).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { .. }), "{refused}");
    assert_eq!(lab.log().await.head().await.unwrap().commit, 2);
    tells(&follower, "put back to an earlier state").await;
    assert_eq!(copy.len(), 4);
}

async fn a_publisher_that_nobody_asks_notices_what_befell_its_log(mut lab: Lab) {
    let ends = async |publisher: &sapwood_sync::Publisher| {
        let wait = async {
            while !publisher.has_ended() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LONG, wait).await.expect("the end");
        publisher.status().trouble.unwrap()
    };
    let (_, follower) = three(&lab).await;
    follower.stop().await.unwrap();
    let publisher = lab.lead(true).await.unwrap();
    lab.lose_identity();
    let why = ends(&publisher).await;
    let says = ["lost its identity", "another log has taken the place"];
    assert!(says.iter().any(|it| why.contains(it)), "{why}");
    let publisher = lab.lead(true).await.unwrap();
    lab.empty();
    let why = ends(&publisher).await;
    let says = [
        "gone from etcd",
        "put back to an earlier state",
        "not in the log any more",
    ];
    assert!(says.iter().any(|it| why.contains(it)), "{why}");
    lab.restore("new").await;
    let publisher = lab.lead(true).await.unwrap();
    publisher.commit(put("d", "4")).await.unwrap();
    lab.restore("old").await;
    let why = ends(&publisher).await;
    let says = [
        "put back to an earlier state",
        "not in the log any more",
        "removed or replaced",
        "the lease has ended",
    ];
    assert!(says.iter().any(|it| why.contains(it)), "{why}");
}

/// A publisher that learns only later what its log has lost ends, unless it may begin anew.
async fn a_publisher_does_not_begin_anew_in_silence(mut lab: Lab) {
    let (copy, follower) = three(&lab).await;
    lab.restore("old").await;
    lab.forget_reports();
    if let Ok(publisher) = lab.lead(false).await {
        let wait = async {
            while !publisher.has_ended() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LONG, wait).await.expect("the end");
        let why = publisher.close().await.unwrap_err();
        assert!(
            why.to_string().contains("follower edge has commit 3"),
            "{why}"
        );
    }
    tells(&follower, "put back to an earlier state").await;
    has(&copy, &OLD).await;
}

async fn snapshots_of_a_lost_log_stand_against_an_empty_one(mut lab: Lab) {
    let publisher = lab.lead(false).await.unwrap();
    publisher.replace(OLD).await.unwrap();
    let saved = publisher.snapshot().await.unwrap();
    publisher.close().await.unwrap();
    lab.remove().await;
    let refused = lab.lead(false).await.err().unwrap();
    let says = "there is a snapshot of commit 1, and the log is empty";
    assert!(refused.to_string().contains(says), "{refused}");
    // A follower with an empty map does not take the empty log for the newest version either.
    let copy = store();
    let follower = lab.follow("new", &copy).await;
    tells(
        &follower,
        "there is a snapshot of commit 1: it is not adopted",
    )
    .await;
    assert_eq!(follower.status().commit, None);
    let publisher = lab.lead(true).await.unwrap();
    assert!(publisher.status().epoch > saved.epoch);
    publisher.replace(LIST).await.unwrap();
    until("the list", &follower, |now| now.commit == Some(1)).await;
    has(&copy, &LIST).await;
    // The new log's snapshots are its own; the old one's go when there are two.
    let (log, snapshots) = (publisher.status().log, lab.snapshots());
    assert_eq!(publisher.snapshot().await.unwrap().log, log);
    assert_eq!(
        snapshots.newest_of_others(log).await.unwrap().unwrap(),
        saved
    );
    publisher.commit(put("e", "5")).await.unwrap();
    publisher.snapshot().await.unwrap();
    assert_eq!(snapshots.newest_of_others(log).await.unwrap(), None);
    let late = store();
    let mut other = lab.follow("late", &late).await;
    other.reached(2).await.unwrap();
    assert_eq!(late.len(), 3);
    publisher.close().await.unwrap();
}

async fn the_end_of_a_log_is_one_error_for_all(lab: Lab) {
    let (_, follower) = three(&lab).await;
    follower.stop().await.unwrap();
    let log = lab.log().await;
    log.follow(3).await.unwrap();
    let error = log.follow(4).await.err().unwrap();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let says = "map: the log ends with commit 3, and commit 4 was there before";
    assert_eq!(error.to_string(), says);
    lab.empty();
    let error = log.follow(1).await.err().unwrap();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
}

async fn the_term_is_known_at_once_after_a_restore(lab: Lab) {
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    publisher.close().await.unwrap();
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    publisher.close().await.unwrap();
    // Of the third term, which saves a snapshot of the second one's commit.
    let publisher = lab.lead(false).await.unwrap();
    let epochs = async |name: &str| {
        let copy = store();
        let mut follower = lab.follow(name, &copy).await;
        follower.reached(2).await.unwrap();
        let status = follower.status();
        follower.stop().await.unwrap();
        (status.epoch, status.term.number)
    };
    assert_eq!(epochs("frames").await, (2, 3));
    publisher.snapshot().await.unwrap();
    assert_eq!(epochs("snapshot").await, (2, 3));
    publisher.commit(Changes::new()).await.unwrap();
    let copy = store();
    let mut follower = lab.follow("next", &copy).await;
    follower.reached(3).await.unwrap();
    assert_eq!(follower.status().epoch, 3);
    publisher.close().await.unwrap();
}
