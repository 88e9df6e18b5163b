//! Maps in files that a writer changes while another reads them word by word. A snapshot keeps all
//! memory, as grace periods that wait for the reader do, so answers are exact.

#![cfg(unix)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use sapwood::lpm::{Fib, V4};
use sapwood::qp::QpStore;
use sapwood_checked::lpm::CheckedFib;
use sapwood_checked::{Bytes, CheckedReader, Publisher, Source, Trouble, Window};
use sapwood_model::oracle::Prefix;

use crate::fibs::{Kind, number, prefix, walked};
use crate::support::Folder;

/// A file that another thread writes by its mapping.
#[derive(Clone)]
struct Beside(Arc<File>);

#[derive(Clone)]
struct Reading {
    file: Arc<File>,
    len: usize,
}

impl Reading {
    /// Reads bytes until two reads agree, so that none is torn.
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(at % N == 0 && at + N <= self.len, "{at}");
        let read = || {
            let mut bytes = [0; N];
            self.file.read_exact_at(&mut bytes, at as u64).unwrap();
            bytes
        };
        let mut last = read();
        loop {
            match read() {
                bytes if bytes == last => return bytes,
                bytes => last = bytes,
            }
        }
    }
}

impl Window for Reading {
    fn len(&self) -> usize {
        self.len
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }
}

impl Source for Beside {
    type Window = Reading;
    type Error = Trouble;

    fn open(&self) -> Result<(Reading, Publisher), Trouble> {
        let file = Arc::clone(&self.0);
        let len = file.metadata().unwrap().len() as usize;
        Ok((Reading { file, len }, Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Trouble {
        trouble
    }
}

/// Calls `write` on a thread until `read` returns.
fn beside(mut write: impl FnMut() + Send, read: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                write();
            }
        });
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
        over.store(true, Ordering::Relaxed);
        read.unwrap();
    });
}

#[test]
fn snapshots_of_a_store_are_whole() {
    let folder = Folder::new();
    let arena = folder.arena("store", QpStore::<u64>::layout_hash());
    let store = QpStore::<u64>::builder().build_in(arena).unwrap();
    let reader = CheckedReader::<_, u64>::new(Beside(folder.open("store"))).unwrap();
    let commit = |version: u64, rng: &mut Rng| {
        // Each version has other keys, and the version's number as each value.
        let mut txn = store.begin();
        txn.remove_prefix("").unwrap();
        for i in 0..40 + version % 7 {
            let key = format!("{}/{}", i % 5, (i * i) ^ rng.u64(..4));
            txn.insert(key, version).unwrap();
        }
        txn.insert("stays", version).unwrap();
        txn.commit();
    };
    let mut rng = Rng::with_seed(1);
    commit(0, &mut rng);
    let kept = store.snapshot();
    let mut version = 0;
    let write = || {
        version += 1;
        commit(version, &mut rng);
        // A reader on few processors must get its turn.
        std::thread::sleep(std::time::Duration::from_micros(200));
    };
    beside(write, || {
        let (mut least, mut versions) = (0, 0);
        while versions < 30 {
            let snapshot = reader.snapshot().unwrap();
            let len = snapshot.len().unwrap();
            let all: Result<BTreeMap<_, _>, _> = snapshot.iter().collect();
            let all = all.unwrap();
            let newest = all[&b"stays"[..]];
            assert!(all.values().all(|value| *value == newest), "{all:?}");
            assert_eq!((all.len(), snapshot.verify()), (len, Ok(len)));
            for (key, value) in &all {
                assert_eq!(snapshot.get(key), Ok(Some(*value)));
            }
            assert!(newest >= least);
            versions += u32::from(newest > least);
            let now = reader.get("stays").unwrap().unwrap();
            assert!(now >= newest);
            least = newest;
        }
    });
    assert!(kept.iter().all(|(_, value)| *value == 0));
}

/// A source whose map is changed once, right after the source was opened.
struct ChangedAtOpen<'a> {
    inner: Beside,
    change: Cell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Source for ChangedAtOpen<'_> {
    type Window = Reading;
    type Error = Trouble;

    fn open(&self) -> Result<(Reading, Publisher), Trouble> {
        let opened = self.inner.open();
        if let Some(change) = self.change.take() {
            change();
        }
        opened
    }

    fn error(&self, trouble: Trouble) -> Trouble {
        trouble
    }
}

#[test]
fn a_snapshot_has_the_memory_that_its_version_needs() {
    let folder = Folder::new();
    let arena = folder.arena("store", QpStore::<u64>::layout_hash());
    let store = QpStore::<u64>::builder().build_in(arena).unwrap();
    let commit = |keys: std::ops::Range<u64>| {
        let mut txn = store.begin();
        for i in keys {
            txn.insert(i.to_be_bytes(), i).unwrap();
        }
        txn.commit();
    };
    commit(0..10);
    let source = ChangedAtOpen {
        inner: Beside(folder.open("store")),
        change: Cell::new(None),
    };
    let reader = CheckedReader::<_, u64>::new(source).unwrap();
    let len = || folder.open("store").metadata().unwrap().len();
    let before = len();
    let change = || commit(10..10_000);
    reader.source().change.set(Some(Box::new(change)));
    let snapshot = reader.snapshot().unwrap();
    assert!(len() > before, "the map has not grown");
    assert_eq!(snapshot.verify(), Ok(10_000));
    let all: Vec<(Vec<u8>, u64)> = snapshot.iter().collect::<Result<_, _>>().unwrap();
    let expected = (0..10_000u64).map(|i| (i.to_be_bytes().to_vec(), i));
    assert!(all.into_iter().eq(expected));
}

#[test]
fn a_table_of_prefixes() {
    let folder = Folder::new();
    let arena = folder.arena("fib", Fib::<V4, u32>::layout_hash());
    let mut rng = Rng::with_seed(2);
    // Prefixes that stay have values from 1000 on; the others come and go.
    let stays: BTreeMap<Prefix, u32> = (0..60)
        .map(|i| (prefix::<V4>(&mut rng), 1000 + i))
        .collect();
    let table = stays
        .iter()
        .map(|(prefix, value)| (V4::net(*prefix), *value));
    let fib = Fib::<V4, u32>::builder().root_bits(6);
    let fib = fib.build_from_in(arena, table).unwrap();
    let reader = CheckedFib::<_, Bytes>::new(Beside(folder.open("fib"))).unwrap();
    let kept = fib.snapshot();
    let write = || {
        let new = prefix::<V4>(&mut rng);
        if !stays.contains_key(&new) {
            match rng.bool() {
                true => drop(fib.insert(V4::net(new), rng.u32(..1000)).unwrap()),
                false => drop(fib.remove(V4::net(new)).unwrap()),
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(300));
    };
    let mut others = 0;
    beside(write, || {
        let mut rng = Rng::with_seed(3);
        for _ in 0..60 {
            let all = walked(&reader).unwrap();
            assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let all: BTreeMap<_, _> = all.into_iter().collect();
            others += all.len() - stays.len();
            for (prefix, value) in &all {
                let value = (*value >= 1000).then_some(value);
                assert_eq!(stays.get(prefix), value, "{prefix:?}");
            }
            assert!(stays.keys().all(|prefix| all.contains_key(prefix)));
            for (prefix, value) in &stays {
                let inside = rng.u128(..).checked_shr(prefix.len.into()).unwrap_or(0);
                let asked = V4::address(prefix.bits | inside);
                let (len, found) = reader.lookup(asked).unwrap().unwrap();
                assert!(len >= prefix.len);
                assert_eq!(len == prefix.len, number(&found) == *value);
            }
        }
    });
    assert!(others > 0);
    assert_eq!(kept.len(), stays.len());
    let (verified, len) = (reader.verify().unwrap(), fib.len());
    assert!(verified.is_settled() && verified.prefixes == len);
}
