//! The processes under faults: publishers, followers, and the recorder of the log. Each writes what
//! it does and sees into a file (see `history`).

use std::fs::File;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;
use sapwood_live::{Live, LiveReader};
use sapwood_sync::{
    Assembler, Change, Changes, Commit, Digest, Each, Error, EtcdLog, EtcdOptions, Follower,
    FollowerOptions, Kind, Log, Publisher, PublisherOptions, Slowest, Snapshots, StoreTarget,
    Target,
};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::support::{Oracle, Store, digest, entries, store};

/// The map's name.
pub const MAP: &str = "faults";
/// The key whose value each commit changes.
const TAG: &[u8] = b"tag";

/// What a process is told by its environment.
struct Told {
    name: String,
    folder: PathBuf,
    endpoints: Vec<String>,
}

/// The file of a process's history.
pub fn history_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.history"))
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let told = |name: &str| std::env::var(format!("SAPWOOD_{name}"));
    let (Ok(task), Ok(name), Ok(folder), Ok(endpoints)) = (
        told("TASK"),
        told("NAME"),
        told("FOLDER"),
        told("ENDPOINTS"),
    ) else {
        return;
    };
    let told = Told {
        name,
        folder: folder.into(),
        endpoints: endpoints.split(',').map(String::from).collect(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match task.as_str() {
            "publish" => publish(&told).await,
            "follow" => {
                let store = store();
                read_beside(store.clone(), told.history());
                follow(&told, store).await;
            }
            "follow-live" => follow(&told, live(&told)).await,
            "read-live" => read_live(&told),
            "record" => record(&told).await,
            "alarm" => alarm(&told).await,
            _ => panic!("no task {task}"),
        }
    });
    // Tasks that wait for etcd hold nothing up.
    runtime.shutdown_timeout(Duration::ZERO);
}

impl Told {
    fn history(&self) -> History {
        let path = history_of(&self.folder, &self.name);
        let file = File::options().append(true).create(true).open(path);
        History(Arc::new(file.unwrap()))
    }

    fn is_there(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    /// The log, as soon as etcd answers.
    async fn log(&self) -> Arc<EtcdLog> {
        log_of(&self.endpoints).await
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::in_folder(self.folder.join("snapshots"), MAP).unwrap()
    }
}

/// The log of these nodes, as soon as one of them answers.
async fn log_of(endpoints: &[String]) -> Arc<EtcdLog> {
    let mut options = EtcdOptions::new(endpoints);
    options.timeout = Duration::from_millis(700);
    options.lease = Duration::from_secs(3);
    loop {
        match EtcdLog::connect(options.clone(), MAP).await {
            Ok(log) => return Arc::new(log),
            Err(error) => assert!(error.may_pass(), "{error}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A file of lines. Each is one write, so that a killed process leaves whole lines.
#[derive(Clone)]
struct History(Arc<File>);

impl History {
    fn line(&self, line: std::fmt::Arguments<'_>) {
        (&*self.0)
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }
}

/// Publishes one random commit after another whenever it leads, until it is told to stop.
async fn publish(told: &Told) {
    let history = told.history();
    let log = told.log().await;
    let mut rng = fastrand::Rng::new();
    while !told.is_there("stop") {
        let mut options = PublisherOptions::new(&told.name);
        options.snapshot_commits = 400;
        // A follower that is paused for long is evicted, unless the log is trimmed before.
        options.max_lag = 250;
        options.slowest = Slowest::Evict;
        let snapshots = told.snapshots();
        // A wait for the other publisher's end must end with the test.
        options.wait = false;
        let publisher = match Publisher::lead(log.clone(), snapshots, Kind::Names, options).await {
            Ok(publisher) => publisher,
            Err(error) => {
                let passes = error.may_pass()
                    || matches!(
                        error,
                        Error::Led { .. } | Error::Deposed { .. } | Error::Gap { .. }
                    );
                assert!(passes, "{error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let mut seq = 0;
        while !told.is_there("stop") {
            seq += 1;
            let mut waiting = Vec::new();
            for part in 0..rng.u32(1..4) {
                let epoch = publisher.status().epoch;
                let tag = format!("{}.{}.{epoch}.{seq}.{part}", told.name, std::process::id());
                let mut changes = crate::support::random(&mut rng, 8, &mut Oracle::new());
                changes.put(TAG, &tag).unwrap();
                history.line(format_args!("I {tag}"));
                if let Ok(submitted) = publisher.submit(changes).await {
                    waiting.push((tag, submitted));
                }
            }
            let mut is_over = waiting.is_empty();
            for (tag, submitted) in waiting {
                match submitted.stored().await {
                    Ok(commit) => history.line(format_args!("A {commit} {tag}")),
                    Err(error) => is_over |= !matches!(error, Error::NoSpace { .. }),
                }
            }
            if is_over {
                break;
            }
            sleep(Duration::from_millis(rng.u64(0..25))).await;
        }
        let _ = publisher.close().await;
    }
}

/// A store that writes down each version that readers may see.
struct Recorded<S> {
    target: StoreTarget<S>,
    history: History,
}

impl<S: Deref<Target = QpStore<[u8]>> + Send + 'static> Target for Recorded<S> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.target.get(key)
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        self.target.for_each(each)
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        self.target.commit(changes)?;
        if let Some((tag, digest)) = version(&entries(&self.target.0)) {
            self.history.line(format_args!("V {tag} {digest}"));
        }
        Ok(())
    }

    fn reclaim(&mut self) {
        self.target.reclaim();
    }
}

/// The tag and the digest of what a reader saw. `None` before the first version.
fn version(now: &Oracle) -> Option<(String, Digest)> {
    let tag = String::from_utf8(now.get(TAG)?.clone()).unwrap();
    Some((tag, digest(now)))
}

/// Writes down the versions that somebody sees, each once.
struct Reader {
    history: History,
    last: String,
}

impl Reader {
    fn saw(&mut self, now: &Oracle) {
        if let Some((tag, digest)) = version(now).filter(|(tag, _)| *tag != self.last) {
            self.history.line(format_args!("S {tag} {digest}"));
            self.last = tag;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Reads a store of this process on a thread of its own.
fn read_beside(store: Store, history: History) {
    let mut reader = Reader {
        history,
        last: String::new(),
    };
    std::thread::spawn(move || {
        loop {
            reader.saw(&entries(&store));
        }
    });
}

/// The directory of the live map of a follower and its reader, `live2` and `reader2` for example.
fn live_folder(told: &Told) -> PathBuf {
    let number = told.name.trim_start_matches(char::is_alphabetic);
    told.folder.join(format!("map{number}"))
}

/// Takes over the live map that an earlier process has left, or makes it.
fn live(told: &Told) -> Live<QpStore<[u8]>> {
    let folder = live_folder(told);
    match Live::open(&folder) {
        Err(sapwood_live::Error::NotYet { .. }) => Live::create(&folder).unwrap(),
        live => live.unwrap(),
    }
}

/// Reads a live map of another process, and goes on when another one takes it over. A map that is
/// not there yet, or not whole yet, is waited for.
fn read_live(told: &Told) {
    let begin = Instant::now();
    let mut reader = loop {
        match LiveReader::<QpStore<[u8]>>::open(live_folder(told)) {
            Ok(reader) => break reader,
            Err(sapwood_live::Error::NotYet { .. }) => {
                assert!(
                    begin.elapsed() < Duration::from_secs(60),
                    "no map after a minute"
                );
            }
            Err(error) => panic!("{error}"),
        }
        if told.is_there("ended") {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut writes = Reader {
        history: told.history(),
        last: String::new(),
    };
    while !told.is_there("ended") {
        let view = reader.view();
        let entries = view.iter();
        let now = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
        writes.saw(&now.collect());
        reader.quiescent().unwrap();
    }
}

/// Follows until the commit in the file `final` is there.
async fn follow<S>(told: &Told, store: S)
where
    S: Deref<Target = QpStore<[u8]>> + Send + 'static,
{
    let history = told.history();
    history.line(format_args!("start"));
    let mut options = FollowerOptions::new(&told.name);
    options.report_every = Duration::from_millis(300);
    options.retry_at_most = Duration::from_millis(300);
    let target = Recorded {
        target: StoreTarget(store),
        history: history.clone(),
    };
    let log = told.log().await;
    let follower = Follower::start(log, told.snapshots(), Kind::Names, target, options);
    let (mut restored, mut evicted) = (0, 0);
    loop {
        let status = follower.status();
        if status.evicted > evicted {
            evicted = status.evicted;
            history.line(format_args!("X {evicted}"));
        }
        if status.restored > restored {
            restored = status.restored;
            history.line(format_args!("R {restored}"));
        }
        let last = std::fs::read_to_string(told.folder.join("final"));
        let last: Option<u64> = last.ok().and_then(|last| last.trim().parse().ok());
        if last.is_some_and(|last| status.commit == Some(last)) {
            let target = follower.stop().await.unwrap();
            let digest = digest(&entries(&target.target.0));
            history.line(format_args!("E {} {digest}", status.commit.unwrap()));
            return;
        }
        if let Some(trouble) = status.trouble {
            let file = format!("{}.trouble", told.name);
            std::fs::write(told.folder.join(file), trouble).unwrap();
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Commits of the log as a node tells them: the frame's term and numbers, and the number of the
/// first of the commits.
struct Heard {
    term: u64,
    frame: (u64, u64),
    first: u64,
    commits: Vec<Commit>,
}

/// Reads the log through one node, always behind the newest commit that the recorder has from any.
async fn listen(
    log: Arc<EtcdLog>,
    last: Arc<AtomicU64>,
    heard: mpsc::Sender<Result<Heard, Error>>,
) {
    let mut gap = (0, Instant::now());
    loop {
        let from = last.load(Ordering::SeqCst);
        if from > gap.0 {
            gap = (from, Instant::now());
        }
        let mut tail = match log.follow(from).await {
            Ok(tail) => tail,
            Err(error) => {
                // The log may have been trimmed up to where the recorder soon is by other nodes.
                let is_soon = gap.1.elapsed() < Duration::from_secs(10);
                let passes = matches!(error, Error::Gap { .. }) && is_soon;
                if !passes && !error.may_pass() {
                    let _ = heard.send(Err(error)).await;
                    return;
                }
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let mut assembler = Assembler::default();
        loop {
            let frame = match tail.next().await {
                Err(error) if error.may_pass() => break,
                frame => frame,
            };
            let commits = frame.and_then(|frame| {
                let (first, commits) = assembler.push(&frame, MAP)?;
                Ok(Heard {
                    term: frame.epoch(),
                    frame: (frame.first(), frame.last()),
                    first,
                    commits,
                })
            });
            let is_bad = commits.is_err();
            if heard.send(commits).await.is_err() || is_bad {
                return;
            }
        }
    }
}

/// Writes down the whole log: the truth that all others are compared with. It reads the log through
/// each node, because the log is trimmed before a node that was parted from the others tells it.
/// All nodes must tell the same. After the file `stop` is there and everything is read, it writes
/// the number of the newest commit to the file `final`.
async fn record(told: &Told) {
    let history = told.history();
    let log = told.log().await;
    let newest = Arc::new(AtomicU64::new(0));
    let (send, mut heard) = mpsc::channel(16);
    for node in &told.endpoints {
        let (node, newest, send) = ([node.clone()], newest.clone(), send.clone());
        tokio::spawn(async move { listen(log_of(&node).await, newest, send).await });
    }
    let mut map = Oracle::new();
    let mut now = Digest::default();
    let mut digests = vec![now];
    loop {
        let last = digests.len() as u64 - 1;
        newest.store(last, Ordering::SeqCst);
        let heard = tokio::select! {
            heard = heard.recv() => heard.unwrap().unwrap_or_else(|error| panic!("{error}")),
            () = sleep(Duration::from_millis(300)) => {
                let is_last = told.is_there("stopped")
                    && log.head().await.is_ok_and(|head| head.commit == last);
                if is_last {
                    std::fs::write(told.folder.join("final.new"), last.to_string()).unwrap();
                    let (from, to) = ("final.new", "final");
                    std::fs::rename(told.folder.join(from), told.folder.join(to)).unwrap();
                    return;
                }
                continue;
            }
        };
        let Heard { term, frame, .. } = heard;
        for (number, commit) in (heard.first..).zip(heard.commits) {
            if let Some(known) = digests.get(number as usize) {
                assert_eq!(*known, commit.digest, "commit {number} by another node");
                continue;
            }
            assert_eq!(number, digests.len() as u64, "a hole in the log");
            let before = (now, map.clone());
            for Change { key, value } in commit.changes.iter() {
                let old = match value {
                    Some(value) => {
                        now.add(key, value);
                        map.insert(key.to_vec(), value.to_vec())
                    }
                    None => map.remove(key),
                };
                if let Some(old) = old {
                    now.remove(key, &old);
                }
            }
            if now != commit.digest {
                panic!(
                    "commit {number} of term {term} in frame {frame:?} has the digest {}, but \
                     these changes make {now}: {:?}; before, the digest was {} of {:?}",
                    commit.digest, commit.changes, before.0, before.1
                );
            }
            digests.push(now);
            let tag = String::from_utf8_lossy(&map[TAG]);
            history.line(format_args!("T {number} {term} {tag} {now}"));
        }
    }
}

/// Raises the alarm that etcd raises when its database is full.
async fn alarm(told: &Told) {
    use etcd_client::{AlarmAction, AlarmType, Client};
    if let Ok(mut client) = Client::connect(&told.endpoints, None).await {
        let raised = client.alarm(AlarmAction::Activate, AlarmType::Nospace, None);
        let _ = tokio::time::timeout(Duration::from_secs(2), raised).await;
    }
}
