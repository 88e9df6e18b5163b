//! Records histories of operations on a shared map, and checks that they are *linearizable*.
//!
//! A history is linearizable if each operation can be assigned a moment between its call and its
//! return, such that a map that runs the operations one at a time at these moments gives the same
//! answers. Operations on different keys are independent, so each key is checked by itself, as a
//! register that has a value or none.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//! use sapwood_model::history::{Answer, History, Op, Recorder};
//!
//! let map = Mutex::new(HashMap::new());
//! let recorder = Recorder::new([b"key"]);
//! let logs = std::thread::scope(|scope| {
//!     let threads = [1, 2].map(|value| {
//!         let mut log = recorder.thread();
//!         let map = &map;
//!         scope.spawn(move || {
//!             log.run(0, Op::Insert(value), || {
//!                 Answer::Value(map.lock().unwrap().insert(0, value))
//!             });
//!             log.run(0, Op::Remove, || Answer::Value(map.lock().unwrap().remove(&0)));
//!             log
//!         })
//!     });
//!     threads.map(|thread| thread.join().unwrap())
//! });
//! let stats = History::merge(logs).check().unwrap();
//! assert_eq!((stats.keys, stats.operations), (1, 4));
//! ```

mod check;
mod report;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use check::Stats;
pub use report::NotLinearizable;

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Look the key up. Answers [`Answer::Value`].
    Get,
    /// Store a value. Answers [`Answer::Value`], the value before.
    Insert(u64),
    /// Store a value if the key is absent. Answers [`Answer::Done`], whether the key was absent.
    InsertNew(u64),
    /// Store a value if the key is present. Answers [`Answer::Value`], the value before.
    Replace(u64),
    /// Remove the key. Answers [`Answer::Value`], the value before.
    Remove,
    /// Store `new` if the value is `expected`. Answers [`Answer::Exchange`].
    CompareExchange {
        /// The value that the key must have.
        expected: u64,
        /// The value to store.
        new: u64,
    },
    /// Store a value if the key is absent. Answers [`Answer::Value`], the value after that.
    GetOrInsert(u64),
}

/// The answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value or none.
    Value(Option<u64>),
    /// Whether the operation was done.
    Done(bool),
    /// Done, or the value that the key had instead of the expected one.
    Exchange(Result<(), Option<u64>>),
}

impl Op {
    /// The value after this operation, if the value before was `held` and the answer was `answer`;
    /// `None` if the operation cannot give this answer.
    #[must_use]
    pub fn step(self, held: Option<u64>, answer: Answer) -> Option<Option<u64>> {
        let (right, after) = self.apply(held);
        (right == answer).then_some(after)
    }

    /// The answer of a map that runs one operation at a time, and the value after the operation.
    #[must_use]
    pub fn apply(self, held: Option<u64>) -> (Answer, Option<u64>) {
        match self {
            Op::Get => (Answer::Value(held), held),
            Op::Insert(value) => (Answer::Value(held), Some(value)),
            Op::InsertNew(value) => (Answer::Done(held.is_none()), held.or(Some(value))),
            Op::Replace(value) => (Answer::Value(held), held.map(|_| value)),
            Op::Remove => (Answer::Value(held), None),
            Op::CompareExchange { expected, new } if held == Some(expected) => {
                (Answer::Exchange(Ok(())), Some(new))
            }
            Op::CompareExchange { .. } => (Answer::Exchange(Err(held)), held),
            Op::GetOrInsert(value) => {
                let after = held.or(Some(value));
                (Answer::Value(after), after)
            }
        }
    }

    /// Whether an operation with this answer changed nothing.
    fn only_reads(self, answer: Answer) -> bool {
        match (self, answer) {
            (Op::Get, _) => true,
            (Op::Replace(_) | Op::Remove, Answer::Value(before)) => before.is_none(),
            (Op::GetOrInsert(value), Answer::Value(after)) => after != Some(value),
            (_, Answer::Done(done)) => !done,
            (_, Answer::Exchange(done)) => done.is_err(),
            _ => false,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Get => write!(f, "get()"),
            Op::Insert(value) => write!(f, "insert({value})"),
            Op::InsertNew(value) => write!(f, "insert_new({value})"),
            Op::Replace(value) => write!(f, "replace({value})"),
            Op::Remove => write!(f, "remove()"),
            Op::CompareExchange { expected, new } => {
                write!(f, "compare_exchange({expected}, {new})")
            }
            Op::GetOrInsert(value) => write!(f, "get_or_insert({value})"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Value(Some(value)) => write!(f, "{value}"),
            Answer::Value(None) => write!(f, "none"),
            Answer::Done(done) => write!(f, "{}", if *done { "done" } else { "refused" }),
            Answer::Exchange(Ok(())) => write!(f, "done"),
            Answer::Exchange(Err(Some(value))) => write!(f, "refused, it is {value}"),
            Answer::Exchange(Err(None)) => write!(f, "refused, there is none"),
        }
    }
}

/// An operation with its answer and the stamps of its call and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of its thread.
    pub thread: u32,
    /// The place of its key in the recorder's list.
    pub key: u32,
    /// The stamp before it was called.
    pub called: u64,
    /// The stamp after it returned; greater than `called`.
    pub returned: u64,
    /// The operation.
    pub op: Op,
    /// Its answer.
    pub answer: Answer,
}

/// The clock that the threads of one history share, and the keys that they work on.
///
/// Stamps come from one counter, which each operation increments before its call and after its
/// return. So the stamps span a little more than the operation: an operation that began after
/// another one had ended has greater stamps, but two operations whose stamps overlap may have run
/// one after the other. This can hide an error, but it never reports one that did not happen.
#[derive(Debug)]
pub struct Recorder {
    keys: Arc<[Vec<u8>]>,
    clock: AtomicU64,
    threads: AtomicU32,
}

impl Recorder {
    /// A recorder of operations on these keys.
    pub fn new<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            keys: keys.into_iter().map(|key| key.as_ref().to_vec()).collect(),
            clock: AtomicU64::new(0),
            threads: AtomicU32::new(0),
        }
    }

    /// An empty log for another thread.
    #[must_use]
    pub fn thread(&self) -> ThreadLog<'_> {
        ThreadLog {
            recorder: self,
            thread: self.threads.fetch_add(1, Ordering::Relaxed),
            events: Vec::new(),
        }
    }
}

/// The operations of one thread, in their order.
#[derive(Debug)]
pub struct ThreadLog<'r> {
    recorder: &'r Recorder,
    thread: u32,
    events: Vec<Event>,
}

impl ThreadLog<'_> {
    /// Runs an operation on the key at the place `key` of the recorder's list, and records it.
    ///
    /// If `call` panics, nothing is recorded. The map may have changed, so the history must not be
    /// checked.
    ///
    /// # Panics
    ///
    /// If the recorder has no such key.
    pub fn run(&mut self, key: usize, op: Op, call: impl FnOnce() -> Answer) -> Answer {
        assert!(key < self.recorder.keys.len(), "the recorder knows the key");
        let clock = &self.recorder.clock;
        // SeqCst, because under a weaker ordering the processor could move a part of the operation
        // before its first stamp or after its second one.
        let called = clock.fetch_add(1, Ordering::SeqCst);
        let answer = call();
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        self.events.push(Event {
            thread: self.thread,
            key: key as u32,
            called,
            returned,
            op,
            answer,
        });
        answer
    }
}

/// The operations of all threads.
#[derive(Clone, Debug)]
pub struct History {
    keys: Arc<[Vec<u8>]>,
    /// The value of each key before the first operation.
    held: Vec<Option<u64>>,
    events: Vec<Event>,
}

impl History {
    /// The history of a map that had none of the keys at first, from all logs of one recorder.
    ///
    /// # Panics
    ///
    /// If the logs are of several recorders.
    #[must_use]
    pub fn merge<'r>(logs: impl IntoIterator<Item = ThreadLog<'r>>) -> Self {
        let mut keys: Option<Arc<[Vec<u8>]>> = None;
        let mut events = Vec::new();
        for log in logs {
            let known = keys.get_or_insert_with(|| log.recorder.keys.clone());
            assert!(
                Arc::ptr_eq(known, &log.recorder.keys),
                "logs of one recorder"
            );
            events.extend(log.events);
        }
        Self::from_events(keys.unwrap_or_default(), events)
    }

    /// A history of events that were recorded elsewhere. [`Event::key`] is a place in `keys`.
    ///
    /// # Panics
    ///
    /// If an event's key is not in `keys`, or an event returned before it was called.
    #[must_use]
    pub fn from_events(keys: impl Into<Arc<[Vec<u8>]>>, events: Vec<Event>) -> Self {
        let keys = keys.into();
        for event in &events {
            assert!((event.key as usize) < keys.len(), "{event:?}: no such key");
            assert!(
                event.called < event.returned,
                "{event:?}: it returned before its call"
            );
        }
        let held = vec![None; keys.len()];
        Self { keys, held, events }
    }

    /// Sets the value of each key before the first operation, in the order of the recorder's list.
    ///
    /// # Panics
    ///
    /// If `held` does not have one value for each key.
    #[must_use]
    pub fn starting_with(mut self, held: Vec<Option<u64>>) -> Self {
        assert_eq!(held.len(), self.keys.len(), "one for each key");
        self.held = held;
        self
    }

    /// The keys, in the recorder's order.
    #[must_use]
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// All operations, thread after thread.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Checks that the history is linearizable.
    ///
    /// The check is quick while an operation overlaps at most a few dozen others of the same key,
    /// because the search tries no situation twice. A history in which values repeat takes longer
    /// than one in which each value is written once.
    ///
    /// # Errors
    ///
    /// [`NotLinearizable`] has the first key, in the recorder's order, whose operations are not
    /// linearizable, and a small set of them that proves it.
    pub fn check(&self) -> Result<Stats, NotLinearizable> {
        let mut of_key: Vec<Vec<Event>> = vec![Vec::new(); self.keys.len()];
        for event in &self.events {
            of_key[event.key as usize].push(*event);
        }
        let mut stats = Stats::default();
        for (at, mut events) in of_key.into_iter().enumerate() {
            if events.is_empty() {
                continue;
            }
            events.sort_unstable_by_key(|event| event.called);
            if let Err(offence) = check::key(&events, self.held[at], &mut stats) {
                return Err(NotLinearizable::new(self.keys[at].clone(), offence));
            }
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests;
