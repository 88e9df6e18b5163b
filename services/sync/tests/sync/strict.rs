//! A log in memory that takes no wrong frame: each digest is compared with an oracle's, while
//! appends fail, terms end and snapshots are saved.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sapwood_sync::{
    Assembler, Change, Digest, Error, Frame, Head, Kind, Leadership, Log, LogId, Publisher,
    PublisherOptions, Report, Snapshots, Tail,
};

use crate::support::{Oracle, random};

const MAP: &str = "strict";

/// What was stored, and the map that it makes.
#[derive(Default)]
struct Stored {
    frames: Vec<Frame>,
    map: Oracle,
    digest: Digest,
    commit: u64,
    epoch: u64,
    is_led: bool,
    rng: fastrand::Rng,
    /// Appends that were refused, and terms that were ended.
    refused: u64,
    ended: u64,
}

impl Stored {
    fn store(&mut self, frame: &Frame) {
        let (first, commits) = Assembler::default().push(frame, MAP).unwrap();
        assert_eq!((first, frame.epoch()), (self.commit + 1, self.epoch));
        for commit in commits {
            self.commit += 1;
            for Change { key, value } in commit.changes.iter() {
                let old = match value {
                    Some(value) => {
                        self.digest.add(key, value);
                        self.map.insert(key.to_vec(), value.to_vec())
                    }
                    None => self.map.remove(key),
                };
                if let Some(old) = old {
                    self.digest.remove(key, &old);
                }
            }
            assert_eq!(self.digest, commit.digest, "commit {}", self.commit);
        }
        self.frames.push(frame.clone());
    }
}

#[derive(Clone, Default)]
struct Strict(Arc<Mutex<Stored>>);

struct Term {
    stored: Arc<Mutex<Stored>>,
    epoch: u64,
    leads: bool,
}

struct Rest(VecDeque<Frame>);

#[async_trait]
impl Log for Strict {
    fn map(&self) -> &str {
        MAP
    }

    async fn kind(&self) -> Result<Option<Kind>, Error> {
        Ok(Some(Kind::Names))
    }

    async fn lead(&self, _: Kind, _: &str, _: bool) -> Result<Box<dyn Leadership>, Error> {
        let mut stored = self.0.lock().unwrap();
        assert!(!std::mem::replace(&mut stored.is_led, true));
        stored.epoch += 1;
        Ok(Box::new(Term {
            stored: self.0.clone(),
            epoch: stored.epoch,
            leads: true,
        }))
    }

    async fn leader(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    async fn head(&self) -> Result<Head, Error> {
        let stored = self.0.lock().unwrap();
        Ok(Head {
            log: Some(LogId(1)),
            term: sapwood_sync::Term {
                number: stored.epoch,
                mark: 0,
            },
            epoch: stored.epoch,
            commit: stored.commit,
        })
    }

    async fn follow(&self, commit: u64) -> Result<Box<dyn Tail>, Error> {
        let stored = self.0.lock().unwrap();
        let frames = stored.frames.iter().filter(|frame| frame.last() > commit);
        Ok(Box::new(Rest(frames.cloned().collect())))
    }

    async fn report(&self, _: &Report, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    async fn followers(&self) -> Result<Vec<Report>, Error> {
        Ok(Vec::new())
    }

    async fn evict(&self, _: &str, _: u64, _: &str) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl Leadership for Term {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn frame_limit(&self) -> usize {
        1 << 20
    }

    async fn append(&mut self, frame: &Frame) -> Result<(), Error> {
        tokio::task::yield_now().await;
        let mut stored = self.stored.lock().unwrap();
        match stored.rng.u32(0..2000) {
            0..100 => {
                stored.refused += 1;
                return Err(Error::NoSpace {
                    place: MAP.into(),
                    what: "it is full".into(),
                });
            }
            // The term ends, and the frame is there or not.
            end @ 100..104 => {
                if end % 2 == 0 {
                    stored.store(frame);
                }
                stored.ended += 1;
                self.leads = false;
                return Err(Error::Deposed {
                    map: MAP.into(),
                    what: None,
                });
            }
            _ => stored.store(frame),
        }
        Ok(())
    }

    async fn trim(&mut self, commit: u64) -> Result<(), Error> {
        let mut stored = self.stored.lock().unwrap();
        stored.frames.retain(|frame| frame.last() > commit);
        Ok(())
    }

    async fn renew(&mut self, _: u64) -> Result<(), Error> {
        panic!("this log is never lost")
    }

    fn leads(&self) -> bool {
        self.leads
    }

    async fn resign(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.stored.lock().unwrap().is_led = false;
    }
}

#[async_trait]
impl Tail for Rest {
    async fn next(&mut self) -> Result<Frame, Error> {
        Ok(self.0.pop_front().expect("all is read"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_digest_is_wrong_whatever_fails() {
    let most = match std::env::var("SAPWOOD_OPS") {
        Ok(text) => text.parse().expect("SAPWOOD_OPS: a number"),
        Err(_) => 30_000,
    };
    let folder = tempfile::tempdir().unwrap();
    let log = Strict::default();
    let mut rng = fastrand::Rng::with_seed(fastrand::u64(..));
    let (mut submitted, mut stored, mut terms) = (0u64, 0, 0);
    while submitted < most {
        let snapshots = Snapshots::in_folder(folder.path(), MAP).unwrap();
        let mut options = PublisherOptions::new("leader");
        options.snapshot_commits = 400;
        let leading = Publisher::lead(Arc::new(log.clone()), snapshots, Kind::Names, options);
        let publisher = leading.await.unwrap();
        terms += 1;
        'term: while submitted < most {
            let mut waiting = Vec::new();
            for _ in 0..rng.u32(1..6) {
                submitted += 1;
                let mut changes = random(&mut rng, 8, &mut Oracle::new());
                changes.put("tag", submitted.to_string()).unwrap();
                match publisher.submit(changes).await {
                    Ok(one) => waiting.push(one),
                    Err(_) => break,
                }
            }
            for one in waiting {
                match one.stored().await {
                    Ok(_) => stored += 1,
                    Err(Error::NoSpace { .. }) => {}
                    Err(Error::Deposed { .. }) => break 'term,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let _ = publisher.close().await;
    }
    let all = log.0.lock().unwrap();
    println!(
        "{} commits, {stored} acknowledged, {terms} terms, {} refused, {} ended; {} entries",
        all.commit,
        all.refused,
        all.ended,
        all.map.len()
    );
    assert!(all.refused > 0 && stored > most / 2 && stored <= all.commit);
}
