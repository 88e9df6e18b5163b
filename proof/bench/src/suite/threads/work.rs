//! The work of the threads of a case: builds a map, runs the threads on it, and checks the answers.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::super::{Options, mega_rate, mops};
use super::distinct;
use crate::alloc;
use crate::clock::CpuClock;
use crate::concurrent::{Answers, Lane, Map, RUN, STAMP, Waits};
use crate::engines::settle;
use crate::keylist::KeyList;
use crate::report::Measure;

/// The keys of a group, and their orders in one of its rounds.
///
/// Inserting or replacing entries in some order leaves them in that order in memory. A pass in the
/// same order would find each entry beside the one before, which real programs do not. Therefore
/// two consecutive phases never have the same order.
pub struct Keys {
    /// The contents of the map, with empty stamps, in the order of the build.
    pub all: KeyList,
    /// Other distinct keys, for writers.
    pub spare: KeyList,
    lookups: KeyList,
    /// Two consecutive cases use different orders.
    updates: [Order; 2],
    replaces: Order,
}

/// The keys in another order.
struct Order {
    keys: KeyList,
    /// Their places in [`Keys::all`].
    places: Vec<usize>,
}

impl Order {
    fn shuffled(all: &KeyList, seed: u64) -> Self {
        let mut places: Vec<usize> = (0..all.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut places);
        Self {
            keys: all.picked(places.iter().copied()),
            places,
        }
    }
}

/// The largest number of keys that writers need.
const SPARE: usize = 200_000;

impl Keys {
    /// The keys of a set, present and absent, in the orders of a round.
    pub fn new(present: &KeyList, absent: &KeyList, round: u64) -> Self {
        let unstamped =
            |keys: &KeyList| KeyList::new(keys.iter().map(|(key, value)| (key, value & !STAMP)));
        let seed = |which| 8 * round + which;
        let all = unstamped(present).shuffled(seed(0));
        let places = distinct(absent);
        let few = &places[..places.len().min(SPARE)];
        Self {
            spare: unstamped(&absent.picked(few.iter().copied())).shuffled(seed(1)),
            lookups: all.shuffled(seed(2)),
            updates: [3, 4].map(|which| Order::shuffled(&all, seed(which))),
            replaces: Order::shuffled(&all, seed(5)),
            all,
        }
    }
}

/// Each measurement of a build covers at least this many inserts.
const INSERTS: usize = 200_000;
const QUICK_INSERTS: usize = 20_000;

/// An engine that loses keys may miss one in this many of the keys, and of the operations of a
/// thread. It may miss a few in any case, because a short phase is a small sample.
const LOSSES: u64 = 1000;
const FEW: u64 = 10;

/// The number of reading threads in a mixed case.
const READERS: usize = 2;

/// One engine's part of a round, with the map that its cases share.
pub struct Round<'k> {
    lane: &'k Lane,
    map: Box<dyn Map>,
    keys: &'k Keys,
    /// The stamps of all keys, in the order of [`Keys::all`].
    stamps: Vec<u16>,
    /// The places of keys that were missing at some time.
    lost: BTreeSet<usize>,
    inserts: u64,
    /// The number of cases so far.
    cases: usize,
    window: Duration,
    bytes_per_key: Option<f64>,
    insert_mops: f64,
}

impl<'k> Round<'k> {
    /// Builds the map, and builds it once more to count its memory if `count_memory`.
    pub fn new(lane: &'k Lane, keys: &'k Keys, options: &Options, count_memory: bool) -> Self {
        settle();
        let bytes_per_key = count_memory.then(|| {
            let (map, allocated) = alloc::counted(|| build(lane, &keys.all));
            let beyond = allocated + map.mapped_bytes() as i64 - keys.all.key_bytes() as i64;
            beyond as f64 / keys.all.len() as f64
        });
        settle();
        alloc::trim();
        let least = options.size(INSERTS, QUICK_INSERTS);
        let passes = least.div_ceil(keys.all.len());
        let mut building = Duration::ZERO;
        let mut map = None;
        for _ in 0..passes {
            drop(map.take());
            let start = Instant::now();
            map = Some(build(lane, &keys.all));
            building += start.elapsed();
        }
        let mut round = Self {
            lane,
            map: map.expect("there is at least one pass"),
            keys,
            stamps: vec![0; keys.all.len()],
            lost: BTreeSet::new(),
            inserts: keys.all.len() as u64,
            cases: 0,
            window: Duration::from_millis(options.size(200, 20) as u64),
            bytes_per_key,
            insert_mops: mega_rate(passes * keys.all.len(), building),
        };
        round.check(&keys.replaces, &[]);
        round
    }

    /// Runs a case with this many threads that all do the same work.
    pub fn threads(&mut self, threads: usize) -> Vec<Measure> {
        let keys = self.keys;
        let order = &keys.updates[self.cases % 2];
        self.cases += 1;
        let looking = self.everywhere(threads, Task::Lookup, &keys.lookups);
        let before = self.map.waits();
        let updating = self.in_parts(threads, Task::Update, &order.keys);
        let waits = before.and_then(|before| Some(self.map.waits()? - before));
        self.inserts += operations(&updating) / 2;
        self.check(order, &updating);
        let replacing = self.everywhere(threads, Task::Replace, &keys.replaces.keys);
        self.check(&keys.replaces, &replacing);

        let mut measures = vec![
            clock_rate("lookup_mops", &looking),
            clock_rate("update_mops", &updating),
        ];
        if let Some(bytes) = self.bytes_per_key {
            measures.push(Measure::new("bytes_per_key", bytes, "B"));
        }
        measures.extend([
            clock_rate("replace_mops", &replacing),
            cpu_rate("lookup_cpu_mops", &looking),
            cpu_rate("update_cpu_mops", &updating),
            cpu_rate("replace_cpu_mops", &replacing),
        ]);
        if let Some(Waits { met, nanoseconds }) = waits {
            let each = |sum: u64| sum as f64 / operations(&updating) as f64;
            measures.push(Measure::new("met_lock_share", each(met), "share"));
            measures.push(Measure::new("waited_ns_per_op", each(nanoseconds), "ns"));
        }
        if threads == 1 {
            measures.push(Measure::new("insert_mops", self.insert_mops, "Mop/s"));
        }
        measures
    }

    /// Runs readers alone and beside writers; one writer and two.
    pub fn mixed(&mut self) -> Vec<Measure> {
        let other = build(self.lane, &self.keys.all);
        let spare = &self.keys.spare;
        let (here, there) = (&*self.map, &*other);
        let half = spare.len() / 2;
        let writer = |map, which: usize| Job {
            map,
            task: Task::Churn,
            keys: spare,
            walk: Walk::new(which, which * half, half, 0),
        };
        let with_readers = |writers: Vec<_>| {
            let mut jobs = everywhere(here, READERS, Task::Lookup, &self.keys.lookups);
            jobs.extend(writers);
            let mut done = self.together(jobs);
            done.truncate(READERS);
            done
        };
        let alone = with_readers(vec![]);
        let apart = with_readers(vec![writer(there, 0), writer(there, 1)]);
        let beside = with_readers(vec![writer(here, 0), writer(here, 1)]);
        let one = self.together(vec![writer(here, 0)]);
        let two_apart = self.together(vec![writer(here, 0), writer(there, 1)]);
        let two = self.together(vec![writer(here, 0), writer(here, 1)]);
        self.check_spare();
        self.check(&self.keys.replaces, &[]);
        vec![
            cpu_rate("reader_alone_cpu_mops", &alone),
            cpu_rate("reader_apart_cpu_mops", &apart),
            cpu_rate("reader_beside_cpu_mops", &beside),
            sum_of_rates("writers1_cpu_mops", &one),
            sum_of_rates("writers2_apart_cpu_mops", &two_apart),
            sum_of_rates("writers2_cpu_mops", &two),
            Measure::new("insert_mops", self.insert_mops, "Mop/s"),
        ]
    }

    /// A note about the keys that the map lost.
    pub fn end(self) -> Option<String> {
        (!self.lost.is_empty()).then(|| {
            format!(
                "{} keys lost after {} inserts; {}",
                self.lost.len(),
                self.inserts,
                self.lane.loses_keys.unwrap_or_default()
            )
        })
    }

    /// Runs threads that each visit all keys, from different starting places.
    fn everywhere(&self, threads: usize, task: Task, keys: &KeyList) -> Vec<Spent> {
        self.together(everywhere(&*self.map, threads, task, keys))
    }

    /// Runs threads that each visit their own part of the keys.
    fn in_parts(&self, threads: usize, task: Task, keys: &KeyList) -> Vec<Spent> {
        let job = |thread| {
            let [from, to] = [thread, thread + 1].map(|end| keys.len() * end / threads);
            Job {
                map: &*self.map,
                task,
                keys,
                walk: Walk::new(thread, from, to - from, 0),
            }
        };
        self.together((0..threads).map(job).collect())
    }

    /// Runs the jobs for a while, and checks the answers.
    fn together(&self, jobs: Vec<Job<'_>>) -> Vec<Spent> {
        let stop = AtomicBool::new(false);
        let start = Barrier::new(jobs.len() + 1);
        let tasks: Vec<_> = jobs.iter().map(|job| job.task).collect();
        let done: Vec<_> = std::thread::scope(|scope| {
            let (stop, start) = (&stop, &start);
            let working: Vec<_> = jobs
                .into_iter()
                .map(|job| scope.spawn(move || job.run(start, stop)))
                .collect();
            start.wait();
            std::thread::sleep(self.window);
            stop.store(true, Relaxed);
            working
                .into_iter()
                .map(|thread| thread.join().expect("a thread ends"))
                .collect()
        });
        for (task, spent) in tasks.iter().zip(&done) {
            let Answers { missed, wrong, .. } = spent.answers;
            let what = (self.lane.name, task);
            assert_eq!(wrong, 0, "{what:?}: wrong values");
            let gap = *task == Task::Replace && done.len() > 1 && !self.lane.replaces_in_place;
            let loses = self.lane.loses_keys.is_some()
                && missed.saturating_sub(FEW) * LOSSES <= spent.answers.count();
            assert!(missed == 0 || gap || loses, "{what:?}: {missed} missed");
        }
        done
    }

    /// Checks each key. Its value must be its own. Its stamp must be that of the last write of one
    /// of the threads that wrote it in this order, or the stamp before if none did.
    fn check(&mut self, order: &Order, written: &[Spent]) {
        let name = self.lane.name;
        let mut session = self.map.session();
        for (at, (key, value)) in order.keys.iter().enumerate() {
            if at.is_multiple_of(RUN) {
                session.pause();
            }
            let place = order.places[at];
            let Some(found) = session.get(key) else {
                let known = self.lane.loses_keys.is_some();
                assert!(known, "{name}: {} is lost", key.escape_ascii());
                self.lost.insert(place);
                continue;
            };
            let what = key.escape_ascii();
            assert_eq!(found & !STAMP, value, "{name}: {what}");
            let stamp = (found & STAMP) as u16;
            let mut last = written
                .iter()
                .filter_map(|spent| spent.walk.last_stamp(at))
                .peekable();
            let right = match last.peek() {
                Some(_) => last.any(|last| last == stamp),
                None => stamp == self.stamps[place],
            };
            // A lost key may come back with its former value.
            let lost = self.lost.contains(&place);
            assert!(right || lost, "{name}: {what} is old: {stamp:#06x}");
            self.stamps[place] = stamp;
        }
        let (lost, keys) = (self.lost.len() as u64, self.keys.all.len() as u64);
        assert!(
            lost.saturating_sub(FEW) * LOSSES <= keys,
            "{name}: {lost} of {keys} keys lost"
        );
    }

    /// Checks that the keys that writers inserted are gone. A key that the map lost for a while may
    /// have come back.
    fn check_spare(&self) {
        let mut session = self.map.session();
        let left = (0..self.keys.spare.len())
            .filter(|at| session.get(self.keys.spare.key(*at)).is_some())
            .count() as u64;
        let most = if self.lane.loses_keys.is_some() {
            FEW
        } else {
            0
        };
        assert!(left <= most, "{}: {left} keys came back", self.lane.name);
    }
}

/// Threads that each visit all keys, from different starting places.
fn everywhere<'j>(map: &'j dyn Map, threads: usize, task: Task, keys: &'j KeyList) -> Vec<Job<'j>> {
    let job = |thread| Job {
        map,
        task,
        keys,
        walk: Walk::new(thread, 0, keys.len(), keys.len() * thread / threads),
    };
    (0..threads).map(job).collect()
}

/// A map with these pairs, inserted by one thread in the order of the list.
fn build(lane: &Lane, keys: &KeyList) -> Box<dyn Map> {
    let map = (lane.new)();
    let mut session = map.session();
    let mut answers = Answers::default();
    for from in (0..keys.len()).step_by(RUN) {
        answers += session.inserts(keys, from, RUN.min(keys.len() - from), 0);
        session.pause();
    }
    drop(session);
    assert_eq!(answers.right, keys.len() as u64, "{}: inserts", lane.name);
    map
}

/// The operation of a thread on each run of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Looks them up.
    Lookup,
    /// Removes them and inserts them again.
    Update,
    /// Replaces their values.
    Replace,
    /// Inserts them, and removes the run before.
    Churn,
}

/// The work of one thread.
struct Job<'j> {
    map: &'j dyn Map,
    task: Task,
    keys: &'j KeyList,
    walk: Walk,
}

/// The results of a thread.
struct Spent {
    answers: Answers,
    cpu: Duration,
    began: Instant,
    ended: Instant,
    walk: Walk,
}

impl Job<'_> {
    fn run(self, start: &Barrier, stop: &AtomicBool) -> Spent {
        let Self {
            map,
            task,
            keys,
            mut walk,
        } = self;
        let mut session = map.session();
        let mut answers = Answers::default();
        // The run that is to be removed again.
        let mut standing = None;
        start.wait();
        let (began, cpu) = (Instant::now(), CpuClock::start());
        // The loop runs at least once. On a busy machine the window may end before the thread gets
        // a core, and a rate needs at least one operation.
        loop {
            let (from, count, stamp) = walk.step();
            match task {
                Task::Lookup => answers += session.lookups(keys, from, count),
                Task::Replace => answers += session.replaces(keys, from, count, stamp),
                Task::Update => {
                    answers += session.removes(keys, from, count);
                    answers += session.inserts(keys, from, count, stamp);
                }
                Task::Churn => {
                    answers += session.inserts(keys, from, count, stamp);
                    if let Some((from, count)) = standing.replace((from, count)) {
                        answers += session.removes(keys, from, count);
                    }
                }
            }
            session.pause();
            if stop.load(Relaxed) {
                break;
            }
        }
        let (cpu, ended) = (cpu.elapsed(), Instant::now());
        let mut spent = Spent {
            answers,
            cpu,
            began,
            ended,
            walk,
        };
        // This removal is outside the measured time, so it does not count.
        if let Some((from, count)) = standing {
            let last = session.removes(keys, from, count);
            spent.answers.missed += last.missed;
            spent.answers.wrong += last.wrong;
        }
        spent
    }
}

/// A thread's endless walk through a part of the keys, from some place in it.
#[derive(Clone, Copy, Debug)]
struct Walk {
    thread: usize,
    start: usize,
    len: usize,
    first: usize,
    /// The distance from `start`, all turns added up.
    at: usize,
}

impl Walk {
    fn new(thread: usize, start: usize, len: usize, first: usize) -> Self {
        assert!(first < len, "there is a key for each thread");
        Self {
            thread,
            start,
            len,
            first,
            at: first,
        }
    }

    /// Advances by a run of keys; returns the run, and the stamp of this turn.
    fn step(&mut self) -> (usize, usize, u16) {
        let (turn, from) = (self.at / self.len, self.at % self.len);
        let count = RUN.min(self.len - from);
        self.at += count;
        (self.start + from, count, self.stamp(turn))
    }

    /// A stamp that distinguishes threads, and the last 4096 turns of a thread.
    fn stamp(&self, turn: usize) -> u16 {
        (self.thread << 12 | turn & 0xfff) as u16
    }

    /// The stamp of the walk's last visit to a key.
    fn last_stamp(&self, key: usize) -> Option<u16> {
        let from = key
            .checked_sub(self.start)
            .filter(|from| *from < self.len)?;
        // The last visit lies within one length before the end.
        let turns = (self.at + self.len - 1 - from) / self.len;
        let turn = turns.checked_sub(1)?;
        (turn * self.len + from >= self.first).then(|| self.stamp(turn))
    }
}

fn operations(done: &[Spent]) -> u64 {
    done.iter().map(|spent| spent.answers.count()).sum()
}

/// Operations of all threads over the wall-clock time from the first thread's start to the last
/// one's end.
fn clock_rate(metric: &'static str, done: &[Spent]) -> Measure {
    let began = done.iter().map(|spent| spent.began).min();
    let ended = done.iter().map(|spent| spent.ended).max();
    let time = match (began, ended) {
        (Some(began), Some(ended)) => ended - began,
        _ => Duration::ZERO,
    };
    mops(metric, operations(done) as usize, time)
}

/// Operations of all threads over the processor time of all threads.
fn cpu_rate(metric: &'static str, done: &[Spent]) -> Measure {
    let cpu = done.iter().map(|spent| spent.cpu).sum();
    mops(metric, operations(done) as usize, cpu)
}

/// The sum of the threads' rates, each over the thread's own processor time.
fn sum_of_rates(metric: &'static str, done: &[Spent]) -> Measure {
    let rate = |spent: &Spent| mega_rate(spent.answers.count() as usize, spent.cpu);
    Measure::new(metric, done.iter().map(rate).sum(), "Mop/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_differ_and_hold_the_same() {
        let key = |at: usize| at.to_string().into_bytes().into_boxed_slice();
        let present = KeyList::numbered(&(0..1000).map(key).collect::<Vec<_>>());
        let twice = [1000..1010, 1005..1020].into_iter().flatten();
        let absent = KeyList::numbered(&twice.map(key).collect::<Vec<_>>());
        let keys = Keys::new(&present, &absent, 3);
        assert_eq!(keys.spare.len(), 20);
        let [one, two] = &keys.updates;
        for order in [one, two, &keys.replaces] {
            assert_eq!(order.keys.sum(), keys.all.sum());
            for (at, place) in order.places.iter().enumerate() {
                assert_eq!(order.keys.key(at), keys.all.key(*place));
                assert_eq!(order.keys.value(at) & STAMP, 0);
            }
        }
        let lists = [
            &keys.all,
            &keys.lookups,
            &one.keys,
            &two.keys,
            &keys.replaces.keys,
        ];
        for (at, list) in lists.iter().enumerate() {
            for other in &lists[..at] {
                let same = (0..1000).filter(|at| list.key(*at) == other.key(*at));
                assert!(same.count() < 20);
            }
        }
    }

    #[test]
    fn walks_know_what_they_wrote_last() {
        for (start, len, first) in [(0, 1000, 0), (0, 1000, 700), (300, 257, 0), (5, 100, 99)] {
            let mut walk = Walk::new(3, start, len, first);
            let mut last = vec![None; start + len + 10];
            for _ in 0..20 {
                for (at, last) in last.iter().enumerate() {
                    assert_eq!(walk.last_stamp(at), *last, "{walk:?}: {at}");
                }
                let (from, count, stamp) = walk.step();
                assert!(count > 0 && count <= RUN);
                last[from..from + count].fill(Some(stamp));
            }
        }
    }
}
