//! A log in a directory whose file system is full, or cannot be written.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sapwood_sync::{Changes, Error, FolderLog};

use crate::lab::Lab;
use crate::support::{entries, put, store, until};

/// A small file system of its own, which goes with this.
struct Small(PathBuf);

impl Small {
    /// `None` for a user who may not mount one.
    fn mount(at: &Path, size: &str) -> Option<Small> {
        std::fs::create_dir_all(at).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]);
        match command.arg(at).output() {
            Ok(output) if output.status.success() => Some(Small(at.into())),
            tried => {
                println!("skipped: no file system can be mounted: {tried:?}");
                None
            }
        }
    }

    fn remount(&self, how: &str) {
        let mut command = Command::new("mount");
        let done = command.args(["-o", &format!("remount,{how}")]).arg(&self.0);
        assert!(done.status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_file_system_refuses_commits_and_takes_them_when_room_comes_back() {
    let lab = Lab::folder().await.unwrap();
    let at = lab.path().join("log");
    let Some(_small) = Small::mount(&at, "512k") else {
        return;
    };
    let publisher = lab.lead(false).await.unwrap();
    let copy = store();
    let mut follower = lab.follow("edge", &copy).await;
    let mut last = publisher.commit(put("a", "1")).await.unwrap();
    std::fs::write(at.join("others"), vec![7; 300 << 10]).unwrap();
    // Until it is full, with commits of one page and of many.
    let mut refused = 0;
    for number in 0..60 {
        let mut changes = Changes::new();
        changes.put("long", vec![number; 20_000]).unwrap();
        match publisher.commit(changes).await {
            Ok(commit) => last = commit,
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. }), "{error}");
                let text = error.to_string();
                assert!(
                    text.contains("log/map/log") && text.contains("No space left"),
                    "{text}"
                );
                refused += 1;
            }
        }
    }
    assert!(
        refused > 10 && last > 2,
        "{refused} refused, {last} commits"
    );
    follower.reached(last).await.unwrap();
    let now = entries(&copy);
    let trouble = publisher.status().trouble.unwrap_or_default();
    assert!(trouble.contains("No space left"), "{trouble}");
    assert!(!publisher.has_ended());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(follower.status().trouble, None);
    assert_eq!(
        (follower.status().commit, entries(&copy)),
        (Some(last), now)
    );
    // One that starts now gets all that was acknowledged.
    let late = store();
    let mut other = lab.follow("late", &late).await;
    other.reached(last).await.unwrap();
    assert_eq!(entries(&late), entries(&copy));
    // Nothing is left of what was refused.
    let parts = std::fs::read_dir(at.join("map/log")).unwrap();
    let parts = parts.map(|part| part.unwrap().file_name().into_string().unwrap());
    let parts: Vec<_> = parts.filter(|name| name.starts_with('.')).collect();
    assert!(parts.is_empty(), "{parts:?}");
    std::fs::remove_file(at.join("others")).unwrap();
    assert_eq!(publisher.commit(put("b", "2")).await.unwrap(), last + 1);
    assert_eq!(publisher.status().trouble, None);
    for follower in [&mut follower, &mut other] {
        follower.reached(last + 1).await.unwrap();
    }
    // A large commit whose pieces find no room ends the term, and the next one begins it anew.
    let mut large = Changes::new();
    large.put("large", vec![1; 60_000]).unwrap();
    std::fs::write(at.join("others"), vec![7; 350 << 10]).ok();
    let _ = publisher.commit(large).await;
    let _ = publisher.close().await;
    let _ = std::fs::remove_file(at.join("others"));
    let publisher = lab.lead(false).await.unwrap();
    let last = publisher.commit(put("c", "3")).await.unwrap();
    follower.reached(last).await.unwrap();
    assert!(copy.contains_key("c"));
    publisher.close().await.unwrap();
}

/// What a process that was killed had not renamed yet is swept away by the next leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_leader_had_not_finished_is_swept_away() {
    let lab = Lab::folder().await.unwrap();
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    publisher.close().await.unwrap();
    let part = lab.path().join("log/map/log/.new-abc");
    std::fs::write(&part, "SWL").unwrap();
    let publisher = lab.lead(false).await.unwrap();
    assert!(!part.exists());
    assert_eq!(publisher.status().commit, 1);
    publisher.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_is_followed() {
    let lab = Lab::folder().await.unwrap();
    let at = lab.path().join("log");
    let Some(small) = Small::mount(&at, "2m") else {
        return;
    };
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("a", "1")).await.unwrap();
    publisher.close().await.unwrap();
    std::fs::remove_dir_all(at.join("map/followers")).unwrap();
    small.remount("ro");
    FolderLog::new(&at, "map").unwrap();
    let copy = store();
    let mut follower = lab.follow("edge", &copy).await;
    follower.reached(1).await.unwrap();
    until("a report that fails", || {
        let why = follower.status().unreported.unwrap_or_default();
        why.contains("Read-only file system") && why.contains("log/map/followers")
    })
    .await;
    assert_eq!(follower.status().trouble, None);
    let refused = lab.lead(false).await.err().unwrap().to_string();
    assert!(
        refused.contains("Read-only file system") && refused.contains("log/map"),
        "{refused}"
    );
    small.remount("rw");
    let publisher = lab.lead(false).await.unwrap();
    publisher.commit(put("b", "2")).await.unwrap();
    follower.reached(2).await.unwrap();
    until("a report", || follower.status().unreported.is_none()).await;
    publisher.close().await.unwrap();
    follower.stop().await.unwrap();
}
