//! What followers and leaders say of damage, and what they show meanwhile.

use std::fs;
use std::path::PathBuf;

use sapwood_sync::{Error, Head, Kind};

use crate::support::{Place, entries, put, store, until};

/// The file of the newest frame.
fn newest_frame(place: &Place) -> PathBuf {
    let files = fs::read_dir(place.path().join("log/map/log")).unwrap();
    files.map(|file| file.unwrap().path()).max().unwrap()
}

/// Followers of a damaged log, and of one in a newer format, say so and show the old data; they go
/// on when the log is mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_frame_is_named_and_old_data_are_served() {
    let place = Place::new();
    let copy = store();
    let mut follower = place.follow("one", &copy);
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    follower.reached(1).await.unwrap();
    follower.stop().await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    let path = newest_frame(&place);
    let whole = fs::read(&path).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        (whole[..10].to_vec(), "too short"),
        (with(0, b'X'), "no entry of a log of Sapwood"),
        (
            with(3, 9),
            "format 9, and this version knows formats up to 1",
        ),
        (with(30, whole[30] ^ 1), "the checksum is wrong"),
        (b"".to_vec(), "too short"),
    ];
    for (bytes, says) in cases {
        fs::write(&path, bytes).unwrap();
        let mut follower = place.follow("one", &copy);
        until(says, || {
            let trouble = follower.status().trouble.unwrap_or_default();
            trouble.contains(says) && trouble.contains(path.to_str().unwrap())
        })
        .await;
        assert_eq!(entries(&copy).len(), 1);
        fs::write(&path, &whole).unwrap();
        follower.reached(2).await.unwrap();
        assert_eq!(follower.status().trouble, None);
        assert_eq!(entries(&copy).len(), 2);
        let mut txn = copy.begin();
        txn.remove("b").unwrap();
        txn.commit();
        follower.stop().await.unwrap();
    }
}

/// A snapshot that is damaged, or in a newer format, is named; old data are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_is_named_and_old_data_are_served() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    let manifest = publisher.snapshot().await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    let copy = store();
    let mut txn = copy.begin();
    txn.insert("old", &b"data"[..]).unwrap();
    txn.commit();
    let folder = place.path().join("snapshots/map");
    let object = folder.join(&manifest.object);
    let text = object.with_extension("json");
    let (object_bytes, text_bytes) = (fs::read(&object).unwrap(), fs::read(&text).unwrap());
    let mut other = object_bytes.clone();
    *other.last_mut().unwrap() ^= 1;
    let newer = String::from_utf8(text_bytes.clone()).unwrap();
    let newer = newer.replace("\"format\": 2", "\"format\": 3");
    let wrong = String::from_utf8(text_bytes.clone()).unwrap();
    let digest = manifest.digest.to_string();
    let wrong = wrong.replace(&digest, &"0".repeat(32));
    for (path, bytes, says) in [
        (&object, other, "its hash is not the manifest's"),
        (&object, b"short".to_vec(), "its hash is not the manifest's"),
        (&text, b"{}".to_vec(), "missing field"),
        (
            &text,
            newer.into_bytes(),
            "format 3, and this version knows",
        ),
        (&text, wrong.into_bytes(), "the digest is"),
    ] {
        fs::write(path, bytes).unwrap();
        let mut follower = place.follow("one", &copy);
        until(says, || {
            let trouble = follower.status().trouble.unwrap_or_default();
            trouble.contains(says)
        })
        .await;
        assert!(copy.contains_key("old"));
        fs::write(&object, &object_bytes).unwrap();
        fs::write(&text, &text_bytes).unwrap();
        follower.reached(2).await.unwrap();
        assert_eq!(entries(&copy).len(), 2);
        let mut txn = copy.begin();
        txn.insert("old", &b"data"[..]).unwrap();
        txn.commit();
        follower.stop().await.unwrap();
    }
}

/// A missing commit is never skipped: the follower goes on with the last one before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_commit_is_not_skipped() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    let copy = store();
    let mut follower = place.follow("one", &copy);
    follower.reached(1).await.unwrap();
    follower.stop().await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    let lost = newest_frame(&place);
    let bytes = fs::read(&lost).unwrap();
    publisher.commit(put("c", "3")).await.unwrap();
    fs::remove_file(&lost).unwrap();
    let mut follower = place.follow("one", &copy);
    let says = "the log does not have commit 2 any more";
    until(says, || {
        follower.status().trouble.unwrap_or_default().contains(says)
    })
    .await;
    assert_eq!(entries(&copy).len(), 1);
    fs::write(&lost, bytes).unwrap();
    follower.reached(3).await.unwrap();
    assert_eq!(entries(&copy).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_kind_is_refused() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    publisher.close().await.unwrap();
    let options = sapwood_sync::PublisherOptions::new("other");
    let (log, snapshots) = (place.log.clone(), place.snapshots.clone());
    let other = sapwood_sync::Publisher::lead(log, snapshots, Kind::Routes, options).await;
    let error = other.err().unwrap();
    assert!(matches!(error, Error::Kind { .. }));
    assert_eq!(
        error.to_string(),
        "map: this is a map of names, not of routes"
    );
}

#[test]
fn names_that_cannot_be_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", "a/b", "a b", &"x".repeat(101)] {
        let log = sapwood_sync::FolderLog::new(folder.path(), name);
        assert!(matches!(log, Err(Error::Change(_))), "{name:?}");
    }
}

/// A leader that was paused while it saved a snapshot, and that led no more when it went on, takes
/// nothing away from those who come later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_snapshot_does_no_harm() {
    let place = Place::new();
    let publisher = place.lead(|_| ()).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    let late = publisher.entries();
    let digest = publisher.status().digest;
    publisher.snapshot().await.unwrap();
    for number in 2..=4 {
        publisher
            .commit(put("a", &number.to_string()))
            .await
            .unwrap();
        let saved = publisher.snapshot().await.unwrap();
        assert_eq!((saved.commit, saved.before), (number, number - 1));
    }
    // Saved again without a new commit: the one before stays.
    let again = publisher.snapshot().await.unwrap();
    assert_eq!((again.commit, again.before), (4, 3));
    let (snapshots, kind) = (&place.snapshots, Kind::Names);
    let log = again.log;
    let head = Head {
        log,
        epoch: 1,
        commit: 1,
        ..Head::default()
    };
    snapshots.save(kind, head, digest, late).await.unwrap();
    let newest = snapshots.newest(log).await.unwrap().unwrap();
    assert_eq!(newest, again);
    snapshots.open(&newest).await.unwrap();
    let name = |commit: u64, ending| format!("{commit:016x}-1-{}.{ending}", log.unwrap());
    let is_there = |name: &str| place.path().join("snapshots/map").join(name).exists();
    assert!(is_there(&name(3, "qp")) && is_there(&name(3, "json")));
    assert!(!is_there(&name(2, "qp")));
    publisher.close().await.unwrap();
    // What comes later finds the newest state.
    let publisher = place.lead(|_| ()).await.unwrap();
    assert_eq!(publisher.status().commit, 4);
    let copy = store();
    let mut follower = place.follow("one", &copy);
    follower.reached(4).await.unwrap();
    assert_eq!(copy.get("a").as_deref(), Some(&b"4"[..]));
    follower.stop().await.unwrap();
    publisher.close().await.unwrap();
}
