//! A log of either engine, and what can befall it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use sapwood_sync::{
    Error, FolderLog, Follower, FollowerOptions, Kind, Log, Publisher, PublisherOptions, Snapshots,
    StoreTarget,
};

#[cfg(all(feature = "etcd", target_os = "linux"))]
use crate::cluster::{Cluster, Setup};
use crate::support::Store;

const MAP: &str = "map";

/// Where the log is.
enum Engine {
    Folder,
    #[cfg(all(feature = "etcd", target_os = "linux"))]
    Etcd(Cluster),
}

/// A log with its snapshots.
pub struct Lab {
    engine: Engine,
    folder: tempfile::TempDir,
}

impl Lab {
    pub async fn folder() -> Option<Lab> {
        Some(Lab {
            engine: Engine::Folder,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// `None` if etcd is not installed.
    #[cfg(all(feature = "etcd", target_os = "linux"))]
    pub async fn etcd() -> Option<Lab> {
        Some(Lab {
            engine: Engine::Etcd(Cluster::start(Setup::default()).await?),
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// The directory of the log, or of what is beside etcd.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn map(&self) -> PathBuf {
        self.path().join("log").join(MAP)
    }

    pub async fn log(&self) -> Arc<dyn Log> {
        match &self.engine {
            Engine::Folder => Arc::new(FolderLog::new(self.path().join("log"), MAP).unwrap()),
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                Arc::new(sapwood_sync::EtcdLog::new(cluster.options(), MAP).unwrap())
            }
        }
    }

    pub fn snapshots(&self) -> Snapshots {
        Snapshots::in_folder(self.path().join("snapshots"), MAP).unwrap()
    }

    /// Becomes the leader.
    pub async fn lead(&self, anew: bool) -> Result<Publisher, Error> {
        let mut options = PublisherOptions::new("leader");
        options.anew = anew;
        Publisher::lead(self.log().await, self.snapshots(), Kind::Names, options).await
    }

    /// A follower into a store.
    pub async fn follow(&self, name: &str, store: &Store) -> Follower<StoreTarget<Store>> {
        self.follow_with(name, store, |_| ()).await
    }

    pub async fn follow_with(
        &self,
        name: &str,
        store: &Store,
        set: impl FnOnce(&mut FollowerOptions),
    ) -> Follower<StoreTarget<Store>> {
        let mut options = FollowerOptions::new(name);
        options.report_every = Duration::from_millis(200);
        options.retry_at_most = Duration::from_millis(200);
        set(&mut options);
        let target = StoreTarget(store.clone());
        let log = self.log().await;
        Follower::start(log, self.snapshots(), Kind::Names, target, options)
    }

    /// The log is gone: its directory is removed, or etcd has lost all that it had.
    pub async fn remove(&mut self) {
        match &mut self.engine {
            Engine::Folder => {
                while std::fs::remove_dir_all(self.map()).is_err() && self.map().exists() {}
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.wipe(0);
                cluster.wait().await;
            }
        }
    }

    /// The commits are gone, and nothing else.
    pub fn empty(&self) {
        match &self.engine {
            Engine::Folder => {
                let frames = std::fs::read_dir(self.map().join("log"));
                for frame in frames.into_iter().flatten() {
                    // A leader may trim it meanwhile.
                    let _ = std::fs::remove_file(frame.unwrap().path());
                }
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.ctl(0, &["del", "--prefix", "/sapwood/map/log/"]);
                cluster.ctl(0, &["del", "/sapwood/map/head"]);
            }
        }
    }

    /// A copy of the log as it is now.
    pub fn save(&self, name: &str) {
        let copy = self.path().join(name);
        match &self.engine {
            Engine::Folder => copy_all(&self.map(), &copy),
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => cluster.save(0, &copy),
        }
    }

    /// The log is what a copy has.
    pub async fn restore(&mut self, name: &str) {
        let (copy, map) = (self.path().join(name), self.map());
        match &mut self.engine {
            Engine::Folder => {
                while std::fs::remove_dir_all(&map).is_err() && map.exists() {}
                copy_all(&copy, &map);
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.restore(&copy);
                cluster.wait().await;
            }
        }
    }

    /// Forgets what followers have reported.
    pub fn forget_reports(&self) {
        match &self.engine {
            Engine::Folder => {
                let _ = std::fs::remove_dir_all(self.map().join("followers"));
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.ctl(0, &["del", "--prefix", "/sapwood/map/followers/"]);
            }
        }
    }

    /// The log has no identity any more.
    pub fn lose_identity(&self) {
        match &self.engine {
            Engine::Folder => drop(std::fs::remove_file(self.map().join("meta.json"))),
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.ctl(0, &["del", "/sapwood/map/meta"]);
            }
        }
    }

    /// Only the first bytes of the newest entry are there; in etcd, no entry is.
    pub fn tear(&self) {
        match &self.engine {
            Engine::Folder => {
                let frames = std::fs::read_dir(self.map().join("log"));
                let frames = frames.into_iter().flatten();
                let frames = frames.map(|frame| frame.unwrap().path());
                let whole = frames.filter(|path| !path.to_str().unwrap().contains(".new-"));
                if let Some(path) = whole.max() {
                    // A leader may trim it meanwhile.
                    let bytes = std::fs::read(&path).unwrap_or_default();
                    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
                }
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                cluster.ctl(0, &["del", "--prefix", "/sapwood/map/log/"]);
            }
        }
    }

    /// The entry of a commit of the first term is gone, or only its first bytes are there.
    pub fn spoil(&self, commit: u64, is_torn: bool) {
        match &self.engine {
            Engine::Folder => {
                let name = format!("{commit:016x}.1.0000.{commit:016x}");
                let path = self.map().join("log").join(name);
                let whole = std::fs::read(&path).unwrap();
                std::fs::remove_file(&path).unwrap();
                if is_torn {
                    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
                }
            }
            #[cfg(all(feature = "etcd", target_os = "linux"))]
            Engine::Etcd(cluster) => {
                let key = format!("/sapwood/map/log/0{commit:x}.01");
                assert!(cluster.ctl(0, &["del", &key]).starts_with('1'), "{key}");
                if is_torn {
                    cluster.ctl(0, &["put", &key, "SWL"]);
                }
            }
        }
    }
}

/// Copies a directory. Files that are there for a moment only may be missing.
fn copy_all(from: &Path, to: &Path) {
    // What was removed before is a copy with nothing in it.
    let _ = std::fs::create_dir_all(from);
    let mut command = Command::new("cp");
    let copied = command.arg("-a").arg(from).arg(to).output().unwrap();
    assert!(to.is_dir(), "{copied:?}");
}
