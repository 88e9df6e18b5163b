//! A node of etcd, ways to it that count bytes, and plain keys that are watched.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood_sync::{EtcdLog, EtcdOptions, Log};
use tokio::net::{TcpListener, TcpStream};

use super::logs::Way;
use super::text;

/// A node of etcd that this process has started.
pub struct Node {
    server: Child,
    address: String,
}

impl Node {
    /// Starts a node with its data in a folder. The inner error says why this machine has none.
    pub async fn start(folder: &Path) -> Result<Result<Node, String>, String> {
        let address = free().await?;
        let peer = free().await?;
        let started = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--log-level", "error", "--name", "bench"])
            .args(["--listen-client-urls", &format!("http://{address}")])
            .args(["--advertise-client-urls", &format!("http://{address}")])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
            .args(["--initial-cluster", &format!("bench=http://{peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = match started {
            Ok(server) => server,
            Err(error) => return Ok(Err(format!("etcd: {error}"))),
        };
        let node = Node { server, address };
        let begin = Instant::now();
        loop {
            let client = etcd_client::Client::connect([&node.address], None).await;
            let answer = match client {
                Ok(mut client) => client.get("ready", None).await.map(drop),
                Err(error) => Err(error),
            };
            match answer {
                Ok(()) => return Ok(Ok(node)),
                Err(why) if begin.elapsed() > Duration::from_secs(20) => return Err(text(why)),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// A way to the node, which counts the bytes that come from it.
    pub async fn way(&self) -> Result<EtcdWay, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(text)?;
        let address = listener.local_addr().map_err(text)?.to_string();
        let bytes = Arc::new(AtomicU64::new(0));
        let (node, counted) = (self.address.clone(), bytes.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&node).await else {
                    continue;
                };
                // Each message goes on at once, as without this way.
                if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
                    continue;
                }
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::spawn(copy(near_read, far_write, None));
                tokio::spawn(copy(far_read, near_write, Some(counted.clone())));
            }
        });
        Ok(EtcdWay { address, bytes })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// An address that is free now.
async fn free() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(text)?;
    Ok(listener.local_addr().map_err(text)?.to_string())
}

/// Copies bytes until one side ends.
async fn copy(
    from: tokio::net::tcp::OwnedReadHalf,
    to: tokio::net::tcp::OwnedWriteHalf,
    counted: Option<Arc<AtomicU64>>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (Ok(()), Ok(bytes)) = (from.readable().await, from.try_read(&mut buffer)) else {
            // Not readable after all.
            match from.peer_addr() {
                Ok(_) => continue,
                Err(_) => return,
            }
        };
        if bytes == 0 {
            return;
        }
        if let Some(counted) = &counted {
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let mut rest = &buffer[..bytes];
        while !rest.is_empty() {
            if to.writable().await.is_err() {
                return;
            }
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

/// A way to a node of etcd.
pub struct EtcdWay {
    address: String,
    bytes: Arc<AtomicU64>,
}

impl EtcdWay {
    async fn client(&self) -> Result<etcd_client::Client, String> {
        let client = etcd_client::Client::connect([&self.address], None);
        client.await.map_err(text)
    }
}

impl Way for EtcdWay {
    async fn open(&self) -> Result<Arc<dyn Log>, String> {
        let options = EtcdOptions::new([format!("http://{}", self.address)]);
        let log = EtcdLog::connect(options, "bench").await.map_err(text)?;
        Ok(Arc::new(log))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed))
    }
}

/// The same changes as plain keys of etcd, and watches.
pub mod plain {
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use etcd_client::{Client, GetOptions, Txn, TxnOp, WatchOptions};
    use sapwood::qp::QpStore;
    use tokio::sync::{Semaphore, oneshot};

    use super::super::{CHANGES, Ran, change, commit_of, due, key, text};
    use super::{EtcdWay, Way};

    /// Transactions that are under way at once.
    const AT_ONCE: usize = 64;
    /// The most operations of a transaction of etcd.
    const MOST: usize = 128;

    /// Writes commits at a rate, or as fast as it goes, to watchers.
    pub async fn run(
        leader: &EtcdWay,
        ways: &[EtcdWay],
        first: u64,
        commits: u64,
        rate: Option<u64>,
    ) -> Result<Ran, String> {
        let mut watchers = Vec::new();
        for way in ways {
            let (ready, is_ready) = oneshot::channel();
            let client = way.client().await?;
            let watcher = tokio::spawn(watch(client, first, commits, ready));
            is_ready.await.map_err(|_| "no watch")?;
            watchers.push((watcher, way, way.bytes().unwrap_or(0)));
        }
        let client = leader.client().await?;
        let tickets = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = Vec::new();
        let begin = Instant::now();
        for number in 0..commits {
            tokio::time::sleep_until(due(begin, number, rate).into()).await;
            let ticket = tickets.clone().acquire_owned().await.map_err(text)?;
            let mut client = client.clone();
            tasks.push(tokio::spawn(async move {
                let puts = (0..CHANGES).map(|at| {
                    let (key, value) = change(first + number, at);
                    TxnOp::put(format!("bench/{key}"), value, None)
                });
                let puts: Vec<_> = puts.collect();
                let answer = client.txn(Txn::new().and_then(puts)).await;
                drop(ticket);
                answer.map(drop).map_err(text)
            }));
        }
        for task in tasks {
            task.await.map_err(text)??;
        }
        let (mut lags, mut bytes) = (Vec::new(), 0);
        for (watcher, way, before) in watchers {
            let seen = watcher.await.map_err(text)??;
            lags.extend((0..commits).map(|number| {
                seen[number as usize].saturating_duration_since(due(begin, number, rate))
            }));
            bytes += way.bytes().unwrap_or(0) - before;
        }
        Ok(Ran {
            time: begin.elapsed(),
            lags,
            bytes: bytes as f64 / ways.len() as f64,
        })
    }

    /// Watches until all commits have come; when each was whole.
    async fn watch(
        mut client: Client,
        first: u64,
        commits: u64,
        ready: oneshot::Sender<()>,
    ) -> Result<Vec<Instant>, String> {
        let options = WatchOptions::new().with_prefix();
        let mut stream = client.watch("bench/", Some(options)).await.map_err(text)?;
        let _ = ready.send(());
        let mut map = HashMap::new();
        let mut missing = vec![CHANGES; commits as usize];
        let mut seen = vec![None; commits as usize];
        let mut left = commits;
        while left > 0 {
            let answer = stream.message().await.map_err(text)?.ok_or("no watch")?;
            let now = Instant::now();
            for event in answer.events() {
                let entry = event.kv().ok_or("an event without a key")?;
                let number = commit_of(entry.value())?;
                map.insert(entry.key().to_vec(), entry.value().to_vec());
                let Some(at) = number.checked_sub(first).map(|at| at as usize) else {
                    continue;
                };
                missing[at] -= 1;
                if missing[at] == 0 {
                    seen[at] = Some(now);
                    left -= 1;
                }
            }
        }
        Ok(seen.into_iter().flatten().collect())
    }

    /// Writes names as keys of etcd, then reads all into a map; returns how long reading took.
    pub async fn recover(way: &EtcdWay, names: u64) -> Result<Duration, String> {
        let client = way.client().await?;
        let tickets = Arc::new(Semaphore::new(16));
        let mut tasks = Vec::new();
        for from in (0..names).step_by(MOST) {
            let ticket = tickets.clone().acquire_owned().await.map_err(text)?;
            let mut client = client.clone();
            tasks.push(tokio::spawn(async move {
                let puts: Vec<_> = (from..names.min(from + MOST as u64))
                    .map(|number| {
                        let value = "192.0.2.1 and some more";
                        TxnOp::put(format!("bench/{}", key(number)), value, None)
                    })
                    .collect();
                let answer = client.txn(Txn::new().and_then(puts)).await;
                drop(ticket);
                answer.map(drop).map_err(text)
            }));
        }
        for task in tasks {
            task.await.map_err(text)??;
        }
        let begin = Instant::now();
        let mut client = way.client().await?;
        let store = QpStore::<[u8]>::new().map_err(text)?;
        let mut from = b"bench/".to_vec();
        loop {
            let options = GetOptions::new().with_range("bench0").with_limit(10_000);
            let page = client.get(from, Some(options)).await.map_err(text)?;
            let mut txn = store.begin();
            for entry in page.kvs() {
                let inserted = txn.insert(&entry.key()[6..], entry.value());
                inserted.map_err(|e| text(sapwood::Error::from(e)))?;
            }
            txn.commit();
            match page.kvs().last().filter(|_| page.more()) {
                Some(last) => from = [last.key(), b"\0"].concat(),
                None => break,
            }
        }
        let time = begin.elapsed();
        match store.len() as u64 == names {
            true => Ok(time),
            false => Err(format!("{} names instead of {names}", store.len())),
        }
    }
}
