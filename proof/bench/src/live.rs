//! The maps that the suite `live` compares: each with a writer, and readers in other processes, or
//! in threads where another process cannot read.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heed::byteorder::LittleEndian;
use heed::types::{Bytes, U64};
use redb::{Database, ReadableDatabase, TableDefinition};
use sapwood::qp::QpStore;
use sapwood_live::{Live, LiveReader};

use crate::keylist::KeyList;

/// A reader of a map.
pub trait Reads {
    /// Reads some keys, in one view, transaction or turn; returns the number of values that are not
    /// as they should be.
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String>;

    /// The value of a key.
    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String>;
}

/// Makes readers for threads of the writer's process.
pub type ReadersHere = Box<dyn Fn() -> Box<dyn Reads> + Sync>;

/// A map, as its writer has it.
pub trait Engine {
    /// Inserts all keys.
    fn fill(&mut self, keys: &KeyList) -> Result<(), String>;

    /// Changes one key, in a commit of its own.
    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String>;

    /// The bytes that the map takes.
    fn bytes(&self) -> Result<f64, String>;

    /// Readers for threads of this process, if other processes do not read the map.
    fn reader_here(&self) -> Option<ReadersHere> {
        None
    }
}

/// The error as a text.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A folder that the drop deletes.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder.
    pub fn new(base: &Path) -> Result<Folder, String> {
        let name = format!("sapwood-bench-{}-{}", std::process::id(), fastrand::u64(..));
        let path = base.join(name);
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes keys and values for the readers.
pub fn write_keys(path: &Path, keys: &KeyList) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for (key, value) in keys.iter() {
            file.write_all(&(key.len() as u32).to_ne_bytes())?;
            file.write_all(&value.to_ne_bytes())?;
            file.write_all(key)?;
        }
        file.flush()
    };
    write().map_err(text)
}

/// Reads what [`write_keys`] has written.
pub fn read_keys(path: &Path) -> Result<KeyList, String> {
    let bytes = std::fs::read(path).map_err(text)?;
    let mut all = Vec::new();
    let mut rest = &bytes[..];
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        let (value, behind) = behind.split_first_chunk::<8>().ok_or("a cut file")?;
        let (key, behind) = behind.split_at(u32::from_ne_bytes(*len) as usize);
        all.push((key, u64::from_ne_bytes(*value)));
        rest = behind;
    }
    Ok(KeyList::new(all))
}

/// The bytes of memory that the files of a folder take.
fn files(folder: &Path) -> Result<f64, String> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).map_err(text)? {
        let meta = entry.and_then(|entry| entry.metadata()).map_err(text)?;
        sum += if meta.is_file() {
            meta.blocks() * 512
        } else {
            0
        };
    }
    Ok(sum as f64)
}

/// Makes an empty map. The inner error says why this machine does not have it.
pub fn open(name: &str, folder: &Path) -> Result<Result<Box<dyn Engine>, String>, String> {
    Ok(Ok(match name {
        "sapwood-live" => Box::new(LiveEngine {
            store: Live::create(folder.join("map")).map_err(text)?,
            folder: folder.join("map"),
        }),
        "sapwood-store" => Box::new(Store(QpStore::new().map_err(text)?)),
        "lmdb" => Box::new(Lmdb::open(&folder.join("lmdb"))?),
        "redb" => Box::new(Redb::open(&folder.join("redb"))?),
        _ => match Redis::start(folder)? {
            Ok(redis) => Box::new(redis),
            Err(why) => return Ok(Err(why)),
        },
    }))
}

/// A reader in a process of its own.
pub fn reader(name: &str, folder: &Path) -> Result<Box<dyn Reads>, String> {
    Ok(match name {
        "sapwood-live" => {
            Box::new(LiveReader::<QpStore<u64>>::open(folder.join("map")).map_err(text)?)
        }
        "lmdb" => Box::new(Lmdb::open(&folder.join("lmdb"))?),
        "redis-unix" => Box::new(Connection::open(&folder.join("redis.sock"))?),
        _ => return Err(format!("{name} has no readers in other processes")),
    })
}

struct LiveEngine {
    store: Live<QpStore<u64>>,
    folder: PathBuf,
}

impl Engine for LiveEngine {
    fn fill(&mut self, keys: &KeyList) -> Result<(), String> {
        fill(&self.store, keys)
    }

    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String> {
        update(&self.store, key, value)
    }

    fn bytes(&self) -> Result<f64, String> {
        files(&self.folder)
    }
}

/// Inserts all keys, a thousand a commit.
fn fill(store: &QpStore<u64>, keys: &KeyList) -> Result<(), String> {
    let all: Vec<_> = keys.iter().collect();
    for part in all.chunks(1000) {
        let mut txn = store.begin();
        for (key, value) in part {
            txn.insert(key, *value).map_err(text)?;
        }
        txn.commit();
    }
    while store.compact_step(4096).map_err(text)? {}
    store.reclaim(usize::MAX);
    Ok(())
}

fn update(store: &QpStore<u64>, key: &[u8], value: u64) -> Result<(), String> {
    let mut txn = store.begin();
    txn.insert(key, value).map_err(text)?;
    txn.commit();
    Ok(())
}

impl Reads for LiveReader<QpStore<u64>> {
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String> {
        let view = self.view();
        let wrong = |(key, value): &&(&[u8], u64)| view.get(key) != Some(value);
        let wrong = keys.iter().filter(wrong).count() as u64;
        self.quiescent().map_err(text)?;
        Ok(wrong)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String> {
        let value = self.view().get(key).copied();
        self.quiescent().map_err(text)?;
        Ok(value)
    }
}

struct Store(QpStore<u64>);

impl Engine for Store {
    fn fill(&mut self, keys: &KeyList) -> Result<(), String> {
        fill(&self.0, keys)
    }

    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String> {
        update(&self.0, key, value)
    }

    fn bytes(&self) -> Result<f64, String> {
        Ok(self.0.memory().map.total() as f64)
    }

    fn reader_here(&self) -> Option<ReadersHere> {
        let store = self.0.clone();
        Some(Box::new(move || {
            Box::new(store.reader("reader").expect("a reader")) as Box<dyn Reads>
        }))
    }
}

impl Reads for sapwood::Reader<QpStore<u64>> {
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String> {
        let view = self.view();
        let wrong = |(key, value): &&(&[u8], u64)| view.get(key) != Some(value);
        let wrong = keys.iter().filter(wrong).count() as u64;
        self.quiescent();
        Ok(wrong)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String> {
        let value = self.view().get(key).copied();
        self.quiescent();
        Ok(value)
    }
}

/// LMDB, by heed. It does not wait for the disk.
struct Lmdb {
    env: heed::Env,
    table: heed::Database<Bytes, U64<LittleEndian>>,
    folder: PathBuf,
}

impl Lmdb {
    fn open(folder: &Path) -> Result<Lmdb, String> {
        std::fs::create_dir_all(folder).map_err(text)?;
        let env = crate::shim::lmdb(folder).map_err(text)?;
        let mut txn = env.write_txn().map_err(text)?;
        let table = env.create_database(&mut txn, None).map_err(text)?;
        txn.commit().map_err(text)?;
        Ok(Lmdb {
            env,
            table,
            folder: folder.to_owned(),
        })
    }
}

impl Engine for Lmdb {
    fn fill(&mut self, keys: &KeyList) -> Result<(), String> {
        let mut txn = self.env.write_txn().map_err(text)?;
        for (key, value) in keys.iter() {
            self.table.put(&mut txn, key, &value).map_err(text)?;
        }
        txn.commit().map_err(text)
    }

    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String> {
        let mut txn = self.env.write_txn().map_err(text)?;
        self.table.put(&mut txn, key, &value).map_err(text)?;
        txn.commit().map_err(text)
    }

    fn bytes(&self) -> Result<f64, String> {
        files(&self.folder)
    }
}

impl Reads for Lmdb {
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String> {
        let txn = self.env.read_txn().map_err(text)?;
        let mut wrong = 0;
        for (key, value) in keys {
            wrong += u64::from(self.table.get(&txn, key).map_err(text)? != Some(*value));
        }
        Ok(wrong)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String> {
        let txn = self.env.read_txn().map_err(text)?;
        self.table.get(&txn, key).map_err(text)
    }
}

const TABLE: TableDefinition<'static, &[u8], u64> = TableDefinition::new("names");

struct Redb {
    base: std::sync::Arc<Database>,
}

impl Redb {
    fn open(file: &Path) -> Result<Redb, String> {
        let mut redb = Redb {
            base: std::sync::Arc::new(Database::create(file).map_err(text)?),
        };
        redb.change(|_| Ok(()))?;
        Ok(redb)
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut redb::Table<'_, &[u8], u64>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut txn = self.base.begin_write().map_err(text)?;
        txn.set_durability(redb::Durability::None).map_err(text)?;
        change(&mut txn.open_table(TABLE).map_err(text)?)?;
        txn.commit().map_err(text)
    }
}

impl Engine for Redb {
    fn fill(&mut self, keys: &KeyList) -> Result<(), String> {
        self.change(|table| {
            for (key, value) in keys.iter() {
                table.insert(key, value).map_err(text)?;
            }
            Ok(())
        })
    }

    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String> {
        self.change(|table| table.insert(key, value).map(drop).map_err(text))
    }

    fn bytes(&self) -> Result<f64, String> {
        let stats = self.base.begin_write().map_err(text)?;
        let stats = stats.stats().map_err(text)?;
        Ok((stats.allocated_pages() * stats.page_size() as u64) as f64)
    }

    fn reader_here(&self) -> Option<ReadersHere> {
        let base = std::sync::Arc::clone(&self.base);
        Some(Box::new(move || {
            Box::new(RedbReader(std::sync::Arc::clone(&base))) as Box<dyn Reads>
        }))
    }
}

struct RedbReader(std::sync::Arc<Database>);

impl Reads for RedbReader {
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String> {
        let txn = self.0.begin_read().map_err(text)?;
        let table = txn.open_table(TABLE).map_err(text)?;
        let mut wrong = 0;
        for (key, value) in keys {
            let found = redb::ReadableTable::get(&table, *key).map_err(text)?;
            wrong += u64::from(found.map(|found| found.value()) != Some(*value));
        }
        Ok(wrong)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String> {
        let txn = self.0.begin_read().map_err(text)?;
        let table = txn.open_table(TABLE).map_err(text)?;
        let found = redb::ReadableTable::get(&table, key).map_err(text)?;
        Ok(found.map(|found| found.value()))
    }
}

/// A Redis server that this process has started, and a connection to it.
struct Redis {
    server: Child,
    connection: Connection,
}

impl Redis {
    fn start(folder: &Path) -> Result<Result<Redis, String>, String> {
        let socket = folder.join("redis.sock");
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::null())
            .spawn();
        let server = match started {
            Ok(server) => server,
            Err(error) => return Ok(Err(format!("redis-server: {error}"))),
        };
        let begin = Instant::now();
        loop {
            match Connection::open(&socket) {
                Ok(connection) => return Ok(Ok(Redis { server, connection })),
                Err(why) if begin.elapsed() > Duration::from_secs(10) => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Engine for Redis {
    fn fill(&mut self, keys: &KeyList) -> Result<(), String> {
        for (key, value) in keys.iter() {
            self.update(key, value)?;
        }
        Ok(())
    }

    fn update(&mut self, key: &[u8], value: u64) -> Result<(), String> {
        let value = value.to_string();
        match self.connection.ask(&[b"SET", key, value.as_bytes()])? {
            Some(ok) if ok == b"OK" => Ok(()),
            other => Err(format!("redis: {other:?}")),
        }
    }

    fn bytes(&self) -> Result<f64, String> {
        let file = format!("/proc/{}/statm", self.server.id());
        let said = std::fs::read_to_string(file).map_err(text)?;
        let pages = said
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<f64>().ok());
        Ok(pages.ok_or("no pages")? * 4096.0)
    }
}

/// A connection to a Redis server, by its protocol (RESP 2): one question, one answer.
struct Connection {
    to: UnixStream,
    from: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Connection {
    fn open(socket: &Path) -> Result<Connection, String> {
        let to = UnixStream::connect(socket).map_err(text)?;
        let from = BufReader::new(to.try_clone().map_err(text)?);
        let mut connection = Connection {
            to,
            from,
            line: Vec::new(),
        };
        connection.ask(&[b"PING"])?;
        Ok(connection)
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<Option<Vec<u8>>, String> {
        let mut question = Vec::new();
        write_question(&mut question, words);
        self.to.write_all(&question).map_err(text)?;
        self.answer()
    }

    /// The next answer.
    fn answer(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.line.clear();
        self.from.read_until(b'\n', &mut self.line).map_err(text)?;
        let line = self
            .line
            .strip_suffix(b"\r\n")
            .ok_or("redis: a cut answer")?;
        match line.split_first() {
            Some((b'+', said)) => Ok(Some(said.to_vec())),
            Some((b'$', b"-1")) => Ok(None),
            Some((b'$', len)) => {
                let len = std::str::from_utf8(len).map_err(text)?;
                let len: usize = len.parse().map_err(text)?;
                let mut value = vec![0; len + 2];
                self.from.read_exact(&mut value).map_err(text)?;
                value.truncate(len);
                Ok(Some(value))
            }
            _ => Err(format!("redis: {}", String::from_utf8_lossy(line))),
        }
    }
}

/// Writes a question in Redis's protocol.
fn write_question(to: &mut Vec<u8>, words: &[&[u8]]) {
    to.extend(format!("*{}\r\n", words.len()).into_bytes());
    for word in words {
        to.extend(format!("${}\r\n", word.len()).into_bytes());
        to.extend(*word);
        to.extend(b"\r\n");
    }
}

/// A number in an answer.
fn number(answer: Option<Vec<u8>>) -> Option<u64> {
    std::str::from_utf8(&answer?).ok()?.parse().ok()
}

impl Reads for Connection {
    fn turn(&mut self, keys: &[(&[u8], u64)]) -> Result<u64, String> {
        // The questions of a turn are sent together.
        let mut questions = Vec::new();
        for (key, _) in keys {
            write_question(&mut questions, &[b"GET", key]);
        }
        self.to.write_all(&questions).map_err(text)?;
        let mut wrong = 0;
        for (_, value) in keys {
            wrong += u64::from(number(self.answer()?) != Some(*value));
        }
        Ok(wrong)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, String> {
        Ok(number(self.ask(&[b"GET", key])?))
    }
}
