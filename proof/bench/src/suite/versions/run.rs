//! One round of one store: builds it, runs the work on it, and checks its answers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::work::{Churn, Keys, Plan, Work};
use crate::alloc;
use crate::clock::CpuClock;
use crate::engines::settle;
use crate::keylist::KeyList;
use crate::report::Measure;
use crate::stores::{Reader, Seen, Store, Txn, Writer};
use crate::suite::mops;

/// The measurements of one round.
pub type Measured = Vec<Measure>;

/// Runs one round.
pub fn run_store<S: Store>(keys: &Keys, work: &Work) -> Measured {
    settle();
    alloc::trim();
    match *work {
        Work::Threads {
            readers,
            plan,
            writer,
            window,
        } => threads::<S>(keys, readers, plan, writer, window),
        Work::Items { plan, window } => items::<S>(keys, plan, window),
        Work::Commits { operations, window } => commits::<S>(keys, operations, window),
    }
}

/// A full store, filled in transactions of a thousand changes. An empty transaction follows: a
/// store that updates a second copy one transaction later has done so by then.
fn full<S: Store>(keys: &Keys) -> S {
    let store = S::new();
    let mut writer = store.writer();
    for from in (0..keys.len()).step_by(1000) {
        let mut txn = writer.begin();
        for (key, value) in keys.all.run(from, 1000.min(keys.len() - from)) {
            txn.insert(key, value);
        }
        txn.commit();
        writer.pause();
    }
    let mut txn = writer.begin();
    txn.insert(keys.all.key(0), keys.all.value(0));
    txn.commit();
    drop(writer);
    store
}

fn threads<S: Store>(
    keys: &Keys,
    readers: usize,
    plan: Plan,
    writer: Option<Plan>,
    window: Duration,
) -> Measured {
    let store: S = full(keys);
    let store = &store;
    let stop = AtomicBool::new(false);
    let start = Barrier::new(readers + usize::from(writer.is_some()) + 1);
    let (reads, writes) = std::thread::scope(|scope| {
        let (stop, start) = (&stop, &start);
        let going = move || !stop.load(Relaxed);
        let reading: Vec<_> = (0..readers)
            .map(|number| {
                // Each reader starts at another place, so that no reader warms the cache for
                // another.
                let from = keys.len() * number / readers;
                scope.spawn(move || {
                    let mut reader = store.reader();
                    start.wait();
                    read(&mut reader, &keys.all, from, plan, going)
                })
            })
            .collect();
        let writing = writer.map(|plan| {
            scope.spawn(move || {
                let mut churn = Churn::new(&keys.moving);
                let mut writer = store.writer();
                start.wait();
                let writes = write(&mut writer, &mut churn, plan, going);
                (writes, churn)
            })
        });
        start.wait();
        std::thread::sleep(window);
        stop.store(true, Relaxed);
        let reads: Vec<_> = reading
            .into_iter()
            .map(|thread| thread.join().expect("a reader ends"))
            .collect();
        (
            reads,
            writing.map(|thread| thread.join().expect("the writer ends")),
        )
    });

    for Reads { seen, .. } in &reads {
        assert_eq!(seen.wrong, 0, "{}: wrong answers", S::NAME);
        assert!(
            writer.is_some() || seen.absent == 0,
            "{}: keys are missing",
            S::NAME
        );
    }
    let lookups: u64 = reads.iter().map(|reads| reads.seen.count()).sum();
    let cpu = reads.iter().map(|reads| reads.cpu).sum();
    let wall = reads
        .iter()
        .map(|reads| reads.wall)
        .max()
        .unwrap_or_default();
    let mut measures = vec![
        mops("reader_mops", lookups as usize, cpu),
        mops("reader_wall_mops", lookups as usize, wall),
    ];
    if let Some((writes, churn)) = writes {
        verify(store, keys, &churn);
        measures.extend(writes.measures());
        measures.extend([
            mops("writer_wall_mops", writes.operations, writes.wall),
            mops("commit_wall_mops", writes.transactions, writes.wall),
        ]);
    }
    measures
}

fn items<S: Store>(keys: &Keys, plan: Plan, window: Duration) -> Measured {
    let (store, allocated) = alloc::counted(|| full::<S>(keys));
    let bytes = (allocated + store.mapped_bytes() as i64) as f64 / keys.len() as f64;
    let ends = Instant::now() + window;
    let reads = read(&mut store.reader(), &keys.all, 0, plan, || {
        Instant::now() < ends
    });
    assert_eq!(
        reads.seen.found,
        reads.seen.count(),
        "{}: wrong or missing answers",
        S::NAME
    );
    let ends = Instant::now() + window;
    let mut churn = Churn::new(&keys.moving);
    let writes = write(&mut store.writer(), &mut churn, plan, || {
        Instant::now() < ends
    });
    verify(&store, keys, &churn);
    let mut measures = vec![
        Measure::new("bytes_per_item", bytes, "B"),
        mops("reader_mops", reads.seen.count() as usize, reads.cpu),
    ];
    measures.extend(writes.measures());
    measures
}

fn commits<S: Store>(keys: &Keys, operations: usize, window: Duration) -> Measured {
    let store: S = full(keys);
    let mut churn = Churn::new(&keys.moving);
    let mut writer = store.writer();
    let mut nanoseconds: Vec<u64> = Vec::with_capacity(4_000_000);
    let plan = Plan {
        transactions: 32.min(32_000 / operations),
        operations,
    };
    let ends = Instant::now() + window;
    let cpu = CpuClock::start();
    loop {
        for _ in 0..plan.transactions {
            let start = Instant::now();
            let mut txn = writer.begin();
            churn.apply(&mut txn, operations);
            txn.commit();
            nanoseconds.push(start.elapsed().as_nanos() as u64);
        }
        writer.pause();
        if Instant::now() >= ends {
            break;
        }
    }
    let cpu = cpu.elapsed();
    let longest_step = writer.longest_step();
    drop(writer);
    verify(&store, keys, &churn);
    snapshot_stays::<S>(keys);

    let count = nanoseconds.len();
    nanoseconds.sort_unstable();
    // The transactions that took longer than the measure says: a half of them, and so on.
    let longer = |metric, share| {
        let at = count - 1 - count / share;
        Measure::new(metric, nanoseconds[at] as f64 / 1e3, "us")
    };
    let mut measures = vec![
        mops("commit_mops", count, cpu),
        mops("writer_mops", count * operations, cpu),
        longer("commit_p50_us", 2),
        longer("commit_p99_us", 100),
        longer("commit_p999_us", 1000),
        longer("commit_p9999_us", 10_000),
        longer("commit_max_us", usize::MAX),
    ];
    if let Some(longest) = longest_step {
        let microseconds = longest.as_nanos() as f64 / 1e3;
        measures.push(Measure::new("compact_step_max_us", microseconds, "us"));
    }
    measures
}

/// Checks that a snapshot does not change, whatever is committed after it. The check is outside the
/// measured time: a snapshot that lived through all of it would add the garbage that it holds back.
fn snapshot_stays<S: Store>(keys: &Keys) {
    let store: S = full(keys);
    let Some(snapshot) = store.snapshot() else {
        return;
    };
    let mut churn = Churn::new(&keys.moving);
    let mut writer = store.writer();
    for _ in 0..1000 {
        let mut txn = writer.begin();
        churn.apply(&mut txn, 1);
        txn.commit();
    }
    drop(writer);
    let kept = Seen::of(&keys.all, 0, keys.len(), snapshot);
    assert_eq!(
        kept.found,
        keys.len() as u64,
        "{}: a snapshot changed",
        S::NAME
    );
}

/// The results of a reading thread.
struct Reads {
    seen: Seen,
    cpu: Duration,
    wall: Duration,
}

fn read(
    reader: &mut impl Reader,
    keys: &KeyList,
    mut from: usize,
    plan: Plan,
    going: impl Fn() -> bool,
) -> Reads {
    let mut seen = Seen::default();
    let (cpu, wall) = (CpuClock::start(), Instant::now());
    // The loop runs at least once: on a busy machine the window may end before the thread gets a
    // core. The same holds for the writer below.
    loop {
        for _ in 0..plan.transactions {
            // A transaction that is longer than the list is split into reads of at most the list's
            // length.
            let mut left = plan.operations;
            while left > 0 {
                let count = left.min(keys.len() - from);
                seen += reader.read(keys, from, count);
                from = (from + count) % keys.len();
                left -= count;
            }
        }
        reader.pause();
        if !going() {
            break;
        }
    }
    Reads {
        seen,
        cpu: cpu.elapsed(),
        wall: wall.elapsed(),
    }
}

/// The results of the writing thread.
struct Writes {
    transactions: usize,
    operations: usize,
    cpu: Duration,
    wall: Duration,
}

impl Writes {
    fn measures(&self) -> [Measure; 2] {
        [
            mops("writer_mops", self.operations, self.cpu),
            mops("commit_mops", self.transactions, self.cpu),
        ]
    }
}

fn write(
    writer: &mut impl Writer,
    churn: &mut Churn<'_>,
    plan: Plan,
    going: impl Fn() -> bool,
) -> Writes {
    let mut transactions = 0;
    let (cpu, wall) = (CpuClock::start(), Instant::now());
    loop {
        for _ in 0..plan.transactions {
            let mut txn = writer.begin();
            churn.apply(&mut txn, plan.operations);
            txn.commit();
        }
        writer.pause();
        transactions += plan.transactions;
        if !going() {
            break;
        }
    }
    let operations = transactions * plan.operations;
    Writes {
        transactions,
        operations,
        cpu: cpu.elapsed(),
        wall: wall.elapsed(),
    }
}

/// Checks each key of a store at rest.
fn verify<S: Store>(store: &S, keys: &Keys, churn: &Churn<'_>) {
    let mut reader = store.reader();
    let all = reader.read(&keys.all, 0, keys.len());
    let absent = churn.absent();
    let expected = Seen {
        found: keys.len() as u64 - absent,
        absent,
        wrong: 0,
    };
    assert_eq!(all, expected, "{}", S::NAME);
    for at in 0..keys.moving.len() {
        let seen = reader.read(&keys.moving, at, 1);
        assert_eq!(seen.absent == 1, churn.is_out(at), "{}: {at}", S::NAME);
    }
}
