//! What a child of `fork` finds of its parent's live maps, and what it leaves of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};

use super::Process;
use crate::{CheckedLiveReader, Error, Live, LiveReader};

/// Runs `f` in a child of `fork`, and fails unless it returns true there.
fn child(f: impl FnOnce() -> bool) {
    // SAFETY: the child uses what this thread has, and ends without running anything else.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let well = catch_unwind(AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: it ends this process, in which only this thread is left.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place for the number.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child ended with {status:#x}"
    );
}

/// What `f` says when it panics.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => String::new(),
        Err(payload) => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => payload.downcast_ref::<&str>().unwrap_or(&"").to_string(),
        },
    }
}

fn is_forked<R>(result: Result<R, Error>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

#[test]
fn a_child_and_its_child_are_processes_of_their_own() {
    let mine = Process::current();
    assert!(mine.is_current() && mine.number() != 0);
    child(|| {
        let first = Process::current();
        child(|| !mine.is_current() && !first.is_current() && Process::current() != mine);
        !mine.is_current() && first != mine && first.is_current() && first == Process::current()
    });
    assert!(mine.is_current());
}

/// Threads of a child that all look first agree about its number.
#[test]
fn threads_of_a_child_have_one_number() {
    let mine = Process::current();
    for _ in 0..20 {
        child(|| {
            let look = || std::thread::spawn(Process::current);
            let looks: Vec<_> = (0..4).map(|_| look()).collect();
            let seen: Vec<_> = looks.into_iter().map(|look| look.join().unwrap()).collect();
            seen.iter().all(|&number| number == seen[0]) && seen[0] != mine
        });
    }
}

#[test]
fn a_child_of_fork_cannot_use_the_writer_of_its_parent() {
    fn check<M: crate::LiveMap>(folder: &Path, change: impl Fn(&M) -> bool) {
        let live = Live::<M>::create(folder).unwrap();
        assert!(change(live.ours().unwrap()));
        child(|| {
            let mut well = is_forked(live.ours());
            well &= panic_of(|| change(&live)).contains("child of fork");
            well &= panic_of(|| live.readers()).contains("child of fork");
            well && matches!(Live::<M>::open(folder), Err(Error::Owned { .. }))
        });
        assert!(change(&live), "the parent goes on");
        let live = std::cell::Cell::new(Some(live));
        child(|| live.take().is_some_and(|live| is_forked(live.remove_map())));
        assert!(folder.join("control").exists(), "the child removed the map");
        live.take().unwrap().remove_map().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check::<QpStore<u64>>(&folder.join("store"), |store| {
        let mut txn = store.begin();
        let inserted = txn.insert("elm", 7).is_ok();
        txn.commit();
        inserted
    });
    check::<QpShared<[u8]>>(&folder.join("shared"), |map| {
        map.insert("elm", b"7").is_ok()
    });
    check::<PointMap<u64>>(&folder.join("point"), |map| map.insert("elm", 7).is_ok());
    check::<IpFib<u64>>(&folder.join("fib"), |fib| {
        fib.insert("10.0.0.0/8".parse().unwrap(), 7).is_ok()
    });
    check::<MapleMap<u64>>(&folder.join("ranges"), |map| map.store(1..=9, 7).is_ok());
}

/// The parent dies: its children have copies of its lock, and the one that drops its copy of the
/// map lets go of it, so that it can take the map over itself.
#[test]
fn a_child_that_drops_its_copy_lets_go_of_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("live");
    child(|| {
        let live = Live::<QpShared<u64>>::create(&folder).unwrap();
        live.insert("elm", 7).unwrap();
        let parent = std::process::id();
        // SAFETY: as in `child`.
        let pid = unsafe { libc::fork() };
        if pid > 0 {
            // The parent ends without a drop, as if it were killed. Its child reports later.
            std::mem::forget(live);
            return true;
        }
        while std::os::unix::process::parent_id() == parent {
            std::thread::yield_now();
        }
        let mut well = matches!(
            Live::<QpShared<u64>>::open(&folder),
            Err(Error::Owned { .. })
        );
        drop(live);
        let heir = Live::<QpShared<u64>>::open(&folder);
        well &= heir.is_ok_and(|heir| {
            heir.insert("oak", 8).is_ok() && heir.pin().view().get("elm") == Some(&7)
        });
        std::fs::write(folder.join(if well { "well" } else { "badly" }), "").unwrap();
        // SAFETY: as in `child`.
        unsafe { libc::_exit(0) }
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !folder.join("well").exists() {
        assert!(!folder.join("badly").exists());
        assert!(
            std::time::Instant::now() < deadline,
            "the child said nothing"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_child_cannot_publish_or_remove_what_its_parent_makes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("live");
    let make = || Live::<QpShared<u64>>::builder().create_unpublished(&folder);
    let (live, unpublished) = make().unwrap();
    live.insert("elm", 7).unwrap();
    let mut unpublished = Some(unpublished);
    child(|| {
        drop(unpublished.take());
        true
    });
    child(|| is_forked(unpublished.take().unwrap().publish()) && !folder.exists());
    unpublished.take().unwrap().publish().unwrap();
    let reader = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    assert_eq!(reader.view().get("elm"), Some(&7));
}

/// A child has a copy of the lock, for a moment before it calls `exec`, or for long. A writer that
/// ends in order takes the lock from it.
#[test]
fn the_drop_of_a_writer_frees_the_lock_though_children_live() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("live");
    let live = Live::<QpShared<u64>>::create(&folder).unwrap();
    live.insert("elm", 7).unwrap();
    let (hear, tell) = std::io::pipe().unwrap();
    // SAFETY: the child waits for the end of the pipe, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(tell);
        let _ = std::io::Read::read(&mut &hear, &mut [0]);
        // SAFETY: as in `child`.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0);
    let owned = Live::<QpShared<u64>>::open(&folder);
    assert!(matches!(owned, Err(Error::Owned { .. })), "{owned:?}");
    drop(live);
    let heir = Live::<QpShared<u64>>::open(&folder).unwrap();
    assert_eq!(heir.pin().view().get("elm"), Some(&7));
    drop(tell);
    let mut status = 0;
    // SAFETY: `status` is a place for the number.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
}

#[test]
fn a_child_of_fork_cannot_use_the_readers_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("live");
    let live = Live::<QpShared<u64>>::create(&folder).unwrap();
    live.insert("elm", 7).unwrap();
    let mut reader = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let mut idle = LiveReader::<QpShared<u64>>::open(&folder).unwrap().idle();
    let mut checked = CheckedLiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let before = live.readers();
    assert_eq!(before.len(), 3);
    {
        let view = checked.view().unwrap();
        child(|| is_forked(view.get("elm")));
    }
    let all = std::cell::Cell::new(Some((reader, idle, checked)));
    child(|| {
        let Some((mut reader, mut idle, mut checked)) = all.take() else {
            return false;
        };
        let mut well = panic_of(|| reader.view().get("elm").copied()).contains("child of fork");
        well &= is_forked(reader.quiescent()) && is_forked(idle.read(|_| ()));
        well &= is_forked(checked.view().map(|_| ())) && is_forked(checked.quiescent());
        // Nothing of this takes the parent's readers offline, or ends them.
        drop(reader.offline());
        drop((reader, idle, checked));
        // A reader of its own works, and ends.
        let mut own = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
        well &= own.view().get("elm") == Some(&7) && own.quiescent().is_ok();
        well
    });
    assert_eq!(
        live.readers(),
        before,
        "the child changed the parent's readers"
    );
    (reader, idle, checked) = all.take().unwrap();
    live.insert("oak", 8).unwrap();
    reader.quiescent().unwrap();
    checked.quiescent().unwrap();
    assert_eq!(reader.view().get("oak"), Some(&8));
    assert_eq!(idle.read(|view| view.get("oak").copied()).unwrap(), Some(8));
    assert_eq!(checked.view().unwrap().get("oak").unwrap(), Some(8));
}

/// A fork while a reader of the kind that is online only during a call reads: the child returns
/// from the call, and the parent's reader stays online until its own call returns.
#[test]
fn a_fork_inside_a_read_leaves_the_reader_online() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("live");
    let live = Live::<QpShared<u64>>::create(&folder).unwrap();
    let mut idle = LiveReader::<QpShared<u64>>::open(&folder).unwrap().idle();
    let online = || live.readers()[0].seen != 0;
    let mut forked = 1;
    let inside = idle.read(|_| {
        // SAFETY: as in `child`.
        forked = unsafe { libc::fork() };
        if forked == 0 {
            return true;
        }
        let mut status = 0;
        // SAFETY: `status` is a place for the number.
        unsafe { libc::waitpid(forked, &raw mut status, 0) };
        online()
    });
    if forked == 0 {
        // SAFETY: as in `child`.
        unsafe { libc::_exit(0) };
    }
    assert!(
        inside.unwrap(),
        "the child took the parent's reader offline"
    );
    assert!(!online());
}
