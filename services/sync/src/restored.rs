//! The newest state of a map, from its snapshot and the log after it.

use std::sync::Arc;

use sapwood::qp::QpStore;

use crate::applied::Applied;
use crate::{Assembler, Digest, Error, Head, Kind, Log, Snapshots, StoreTarget, Tail};

/// A store of this process with a leader's entries.
pub type State = Applied<StoreTarget<Arc<QpStore<[u8]>>>>;

/// How often a snapshot may be deleted while it is read, or the log end after it was read.
const TRIES: usize = 5;

/// The state of a map at the newest commit or a later one, the head that the log had then, and the
/// log after it.
///
/// # Errors
/// [`Error::Gap`] when there is no snapshot from which the log goes on, [`Error::Lost`] when the
/// log ends before its snapshot, [`Error::Kind`], [`Error::Damaged`], [`Error::Digest`], and those
/// of the services.
pub async fn restore(
    log: &dyn Log,
    snapshots: &Snapshots,
    kind: Kind,
) -> Result<(State, Head, Box<dyn Tail>), Error> {
    let mut tries = 1;
    loop {
        match restore_once(log, snapshots, kind).await {
            Err(Error::Gap { .. }) if tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

async fn restore_once(
    log: &dyn Log,
    snapshots: &Snapshots,
    kind: Kind,
) -> Result<(State, Head, Box<dyn Tail>), Error> {
    let map = log.map();
    if let Some(found) = log.kind().await?.filter(|found| *found != kind) {
        let (map, wanted) = (map.to_owned(), kind);
        return Err(Error::Kind { map, wanted, found });
    }
    let id = log.head().await?.log;
    let mut state = match snapshots.newest(id).await? {
        Some(manifest) => {
            let file = snapshots.open(&manifest).await?;
            let map = map.to_owned();
            let load = tokio::task::spawn_blocking(move || {
                let mut digest = Digest::default();
                let entries = file.iter().inspect(|(key, value)| digest.add(key, value));
                let store = QpStore::builder().build_sorted(entries);
                let store = store.map_err(Error::map)?;
                if digest != manifest.digest {
                    return Err(Error::Digest {
                        map,
                        commit: manifest.commit,
                        found: digest.0,
                        wanted: manifest.digest.0,
                    });
                }
                Ok(Applied {
                    target: StoreTarget(Arc::new(store)),
                    commit: manifest.commit,
                    epoch: manifest.epoch,
                    digest,
                    entries: file.len() as u64,
                })
            });
            load.await.map_err(|_| Error::Closed(log.map().into()))??
        }
        None => Applied {
            target: StoreTarget(Arc::new(QpStore::new().map_err(Error::map)?)),
            commit: 0,
            epoch: 0,
            digest: Digest::default(),
            entries: 0,
        },
    };
    let mut tail = log.follow(state.commit).await?;
    // A snapshot can be newer than a head that was read before.
    let head = log.head().await?;
    if head.log != id {
        return Err(Error::Gap {
            map: map.into(),
            wanted: state.commit + 1,
        });
    }
    if head.commit < state.commit {
        return Err(Error::beyond(map, head.commit, state.commit));
    }
    if head.commit == state.commit {
        state.epoch = head.epoch;
    }
    let mut assembler = Assembler::default();
    while state.commit < head.commit {
        let frame = tail.next().await?;
        if frame.is_old(state.commit) {
            continue;
        }
        let (first, commits) = assembler.push(&frame, map)?;
        for (number, commit) in (first..).zip(&commits) {
            state.apply(map, (frame.epoch(), number), commit)?;
        }
    }
    Ok((state, head, tail))
}
