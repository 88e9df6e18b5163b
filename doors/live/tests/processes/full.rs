//! Live maps on file systems that fill at random points: no signal, no wrong answer, nothing lost
//! that was there, nothing left behind, and the map goes on when there is room again.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sapwood::lpm::{IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_live::{CheckedLiveReader, Error, Live, LiveReader, Routes};

use crate::beside::Beside;
use crate::disk::Disk;
use crate::kinds::Subject;

/// Keys are below this number.
const KEYS: u64 = 5_000;

type Oracle = BTreeMap<u64, u64>;

/// What the error of a full file system says.
const FULL: &str = "no space left on device";

fn assert_full(error: &Error) {
    assert!(error.is_no_space(), "{error:?}");
    assert!(error.to_string().contains(FULL), "{error}");
}

/// A map, those that read it in this process, and what it must have.
struct Round<'d, M: Subject> {
    disk: &'d Disk,
    rng: fastrand::Rng,
    live: Option<Live<M>>,
    oracle: Oracle,
    trusting: Option<LiveReader<M>>,
    checked: Option<CheckedLiveReader<M>>,
}

/// A number of bytes that is mostly small.
fn some_room(rng: &mut fastrand::Rng) -> u64 {
    let most = 1 << rng.u32(10..21);
    rng.u64(..most)
}

impl<M: Subject> Round<'_, M> {
    /// Makes a map with as little room as there is, and some more after each failure.
    fn create(&mut self) {
        let mut room = some_room(&mut self.rng) / 4;
        loop {
            self.disk.leave(room);
            match Live::builder().map(M::small).create(self.disk.map()) {
                Ok(live) => break self.live = Some(live),
                Err(error) => assert_full(&error),
            }
            assert_eq!(self.disk.names(), [""; 0], "nothing is left behind");
            room += self.rng.u64(4096..20_000);
        }
    }

    fn live(&self) -> &Live<M> {
        self.live.as_ref().unwrap()
    }

    /// Changes some keys, until there is no room.
    fn change(&mut self) {
        for _ in 0..self.rng.u32(1..150) {
            let key = self.rng.u64(..KEYS);
            let value = (self.rng.u8(..4) > 0).then(|| self.rng.u64(..1 << 40));
            match self.live().set(key, value) {
                Ok(()) => match value {
                    Some(value) => drop(self.oracle.insert(key, value)),
                    None => drop(self.oracle.remove(&key)),
                },
                Err(error) => return assert_full(&error.into()),
            }
        }
    }

    /// Opens readers that are not there.
    fn open_readers(&mut self) {
        let map = self.disk.map();
        if self.trusting.is_none() {
            self.trusting = LiveReader::open(&map).map_err(|no| assert_full(&no)).ok();
        }
        if self.checked.is_none() {
            self.checked = CheckedLiveReader::open(&map)
                .map_err(|no| assert_full(&no))
                .ok();
        }
        let mut silent = CheckedLiveReader::<M>::open_unregistered(&map).unwrap();
        let key = self.rng.u64(..KEYS);
        let found = silent.read(|view| M::ask(&view, key)).unwrap();
        assert_eq!(found, self.oracle.get(&key).copied());
    }

    /// Asks the readers.
    fn ask(&mut self) {
        let keys: Vec<u64> = (0..40).map(|_| self.rng.u64(..KEYS)).collect();
        if let Some(reader) = &mut self.trusting {
            reader.quiescent().unwrap();
            let view = reader.view();
            for key in &keys {
                assert_eq!(M::get(&view, *key), self.oracle.get(key).copied());
            }
        }
        if let Some(reader) = &mut self.checked {
            reader.quiescent().unwrap();
            let view = reader.view().unwrap();
            for key in &keys {
                assert_eq!(M::ask(&view, *key).unwrap(), self.oracle.get(key).copied());
            }
        }
    }

    /// The writer ends, and another one takes the map over, when there is room for the copy.
    fn inherit(&mut self) {
        let map = self.disk.map();
        self.live = None;
        let before = names_of(&map);
        loop {
            match Live::builder().map(M::small).open(&map) {
                Ok(live) => break self.live = Some(live),
                Err(error) => assert_full(&error),
            }
            assert_eq!(names_of(&map), before, "nothing is left behind");
            self.ask();
            // The file system may be too small for the map and its copy.
            if self.disk.is_clear() {
                self.disk.resize(4);
            }
            let room = self.disk.room() + self.rng.u64(4096..200_000);
            self.disk.leave(room);
        }
        self.check();
    }

    fn check(&self) {
        self.live().verify();
        assert_eq!(self.live().all(), self.oracle, "{}", M::NAME);
    }

    fn step(&mut self) {
        match self.rng.u8(..40) {
            0..14 => self.change(),
            14..20 => {
                let room = some_room(&mut self.rng);
                self.disk.leave(room);
            }
            20..24 => self.open_readers(),
            24..30 => self.ask(),
            30 => self.trusting = None,
            31 => self.checked = None,
            32..35 => {
                if let Err(error) = self.live().compact() {
                    assert_full(&error.into());
                }
            }
            35..38 => self.live().reclaim(),
            _ => self.inherit(),
        }
    }

    /// There is room again, also when the map alone has filled the file system.
    fn end(mut self) {
        self.disk.clear();
        self.disk.resize(4);
        for _ in 0..50 {
            let (key, value) = (self.rng.u64(..KEYS), self.rng.u64(..1 << 40));
            self.live().set(key, Some(value)).unwrap();
            self.oracle.insert(key, value);
        }
        self.ask();
        self.check();
        self.inherit();
        self.ask();
        let live = self.live.take().unwrap();
        live.remove_map().unwrap();
        for removed in [
            self.trusting.as_mut().map(LiveReader::quiescent),
            self.checked.as_mut().map(CheckedLiveReader::quiescent),
        ] {
            let told = removed.is_none_or(|told| matches!(told, Err(Error::Removed { .. })));
            assert!(told);
        }
        assert_eq!(self.disk.names(), [""; 0], "nothing is left behind");
        // Readers hold the memory of a map that was removed, which may be more than the disk had.
        (self.trusting, self.checked) = (None, None);
        self.disk.resize(1);
    }
}

/// The names in a map's directory, and in that of its readers but for the readers.
fn names_of(map: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(map).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn round<M: Subject>(disk: &Disk, seed: u64) {
    let mut round = Round::<M> {
        disk,
        rng: fastrand::Rng::with_seed(seed),
        live: None,
        oracle: Oracle::new(),
        trusting: None,
        checked: None,
    };
    round.create();
    for _ in 0..round.rng.u32(10..60) {
        round.step();
    }
    round.end();
}

/// Rounds on a file system of this size.
fn rounds(bytes: u64, default: u64) {
    let Some(disk) = Disk::new(bytes) else { return };
    let count = std::env::var("SAPWOOD_ROUNDS").map_or(default, |text| text.parse().unwrap());
    let seed =
        std::env::var("SAPWOOD_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    for at in 0..count {
        let seed = seed.wrapping_add(at);
        println!("SAPWOOD_SEED={seed}");
        match seed % 7 {
            0 => round::<QpStore<u64>>(&disk, seed),
            1 => round::<QpShared<u64>>(&disk, seed),
            2 => round::<PointMap<u64>>(&disk, seed),
            3 => round::<Ipv4Fib<u64>>(&disk, seed),
            4 => round::<IpFib<u64>>(&disk, seed),
            5 => round::<Routes<u64>>(&disk, seed),
            _ => round::<MapleMap<u64>>(&disk, seed),
        }
    }
    println!("{count} points at which a file system of {bytes} bytes was full");
}

#[test]
fn a_file_system_of_2_mb_may_fill_at_any_point() {
    rounds(2 << 20, 10);
}

#[test]
fn a_file_system_of_64_mb_may_fill_at_any_point() {
    rounds(64 << 20, 4);
}

/// Another process that opens readers while there is no room, and ends by itself.
pub fn open_without_room(folder: &Path) {
    let error = LiveReader::<QpStore<u64>>::open(folder).unwrap_err();
    assert_full(&error);
    let error = CheckedLiveReader::<QpStore<u64>>::open(folder).unwrap_err();
    assert_full(&error);
    let mut reader = CheckedLiveReader::<QpStore<u64>>::open_unregistered(folder).unwrap();
    assert_eq!(reader.read(|map| map.get("a")).unwrap(), Some(1));
    println!("refused");
}

#[test]
fn without_room_every_operation_says_so_and_changes_nothing() {
    let Some(disk) = Disk::new(2 << 20) else {
        return;
    };
    let map = disk.map();
    disk.leave(0);
    assert_full(&Live::<QpStore<u64>>::create(map.join("deep/er")).unwrap_err());
    assert_eq!(disk.names(), [""; 0], "no folder above the map is left");
    let with_texts = || {
        let table = Live::<IpFib<u32>>::builder().map(|table| table.root_bits(12));
        table.create_with_texts(&map, Live::builder())
    };
    let mut room = 0;
    let tables = loop {
        disk.leave(room);
        match with_texts() {
            Ok(made) => break made,
            Err(error) => assert_full(&error),
        }
        assert_eq!(disk.names(), [""; 0]);
        room += 4096;
    };
    drop(tables.1);
    tables.0.remove_map().unwrap();

    disk.clear();
    let store = Live::<QpStore<u64>>::create(&map).unwrap();
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    txn.commit();
    // A transaction that has no room for its last change is as it was before, and goes on.
    disk.leave(0);
    let mut txn = store.begin();
    let mut count = 0;
    let error = loop {
        match txn.insert(format!("{count:06}"), count) {
            Ok(_) => count += 1,
            Err(no) => break no.error,
        }
    };
    assert_full(&error.into());
    disk.leave(64 << 10);
    txn.insert("b", 2).unwrap();
    txn.commit();
    assert_eq!(store.snapshot().len() as u64, count + 2);
    disk.leave(0);
    let mut other = Beside::start("open-without-room", &map);
    other.line("refused");
    drop(other);
    // What the new owner would need is not there. The map is as it was.
    drop(store);
    let error = Live::<QpStore<u64>>::open(&map).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_full(&error);
    let mut reader = CheckedLiveReader::<QpStore<u64>>::open_unregistered(&map).unwrap();
    assert_eq!(reader.view().unwrap().verify().unwrap() as u64, count + 2);
    assert_eq!(names_of(&map), ["control", "data-1-0", "readers"]);
    disk.clear();
    let store = Live::<QpStore<u64>>::open(&map).unwrap();
    assert_eq!(store.snapshot().get("b"), Some(&2));
    reader.quiescent().unwrap();
    store.remove_map().unwrap();
    assert_eq!(disk.names(), [""; 0]);
    // A map may lie in the directory itself that is a mount, and stays there.
    disk.leave(4096);
    assert_full(&Live::<QpStore<u64>>::create(disk.path()).unwrap_err());
    assert_eq!(disk.names(), [""; 0]);
    disk.clear();
    let store = Live::<QpStore<u64>>::create(disk.path()).unwrap();
    LiveReader::<QpStore<u64>>::open(disk.path()).unwrap();
    store.remove_map().unwrap();
    assert_eq!(disk.names(), [""; 0]);
}

#[test]
fn space_is_allocated_where_the_file_system_cannot_do_so_ahead() {
    // A file that has some bytes gets zeros behind them.
    let temp = tempfile::tempdir().unwrap();
    let file = std::fs::File::create_new(temp.path().join("file")).unwrap();
    file.write_all_at(b"words", 0).unwrap();
    sapwood_arena::allocate(&file, 0..100_000).unwrap();
    let bytes = std::fs::read(temp.path().join("file")).unwrap();
    assert_eq!((bytes.len(), &bytes[..5]), (100_000, &b"words"[..]));
    assert!(bytes[5..].iter().all(|byte| *byte == 0));
}
