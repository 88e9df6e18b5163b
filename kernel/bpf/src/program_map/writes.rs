//! Changes by user space: orders in words of the arena, which a program carries out.

use libbpf_rs::ProgramInput;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arena::BpfArena;
use crate::checked::{CheckedValue, StoredValue};
use crate::error::Error;
use crate::layout::program_map as k;
use crate::loader::{Loader, Programs};
use crate::words::Words;

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/program-writes.bpf.o"));

/// The words of the room for orders: enough for seven of the longest keys and values.
const ROOM: usize = 8192;
/// The most orders of one run, which bounds the time for which a processor runs nothing else.
const ORDERS: usize = 512;
/// The words of an order before its value.
const HEAD: usize = 3;
/// The result of an order that the program did not come to.
const UNTOUCHED: i64 = i64::MIN;
/// The return value of a program that accepts a packet (`XDP_PASS`).
const PASS: u32 = 2;

const REMOVE: u64 = 3;
const COMPARE_EXCHANGE: u64 = 4;

/// The numbers of errors, the same on all processors that run Linux.
mod errno {
    pub const ENOENT: i64 = -2;
    pub const E2BIG: i64 = -7;
    pub const EAGAIN: i64 = -11;
    pub const ENOMEM: i64 = -12;
    pub const EBUSY: i64 = -16;
    pub const EEXIST: i64 = -17;
    pub const ENOSPC: i64 = -28;
    pub const ELOOP: i64 = -40;
}

/// A change of a [`ProgramMap`](crate::ProgramMap) by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'k, V> {
    /// Inserts a key, or replaces its value.
    Insert(&'k [u8], V),
    /// Inserts an absent key; else [`WriteError::Exists`].
    InsertNew(&'k [u8], V),
    /// Replaces the value of a present key; else [`WriteError::Absent`].
    Replace(&'k [u8], V),
    /// Removes a present key; else [`WriteError::Absent`].
    Remove(&'k [u8]),
    /// Replaces the value of a key if it is the expected one; else [`WriteError::Changed`] or
    /// [`WriteError::Absent`]. Values have 8 bytes.
    CompareExchange {
        /// The key.
        key: &'k [u8],
        /// The value that the key must have.
        expected: V,
        /// The new value.
        value: V,
    },
}

impl<'k, V> Write<'k, V> {
    /// The key that is changed.
    pub fn key(&self) -> &'k [u8] {
        match self {
            Write::Insert(key, _) | Write::InsertNew(key, _) | Write::Replace(key, _) => key,
            Write::Remove(key) | Write::CompareExchange { key, .. } => key,
        }
    }

    /// The number of the order's kind, as the program has it.
    fn kind(&self) -> u64 {
        match self {
            Write::Insert(..) => 0,
            Write::InsertNew(..) => 1,
            Write::Replace(..) => 2,
            Write::Remove(_) => REMOVE,
            Write::CompareExchange { .. } => COMPARE_EXCHANGE,
        }
    }

    fn value(&self) -> Option<&V> {
        match self {
            Write::Insert(_, value) | Write::InsertNew(_, value) | Write::Replace(_, value) => {
                Some(value)
            }
            Write::CompareExchange { value, .. } => Some(value),
            Write::Remove(_) => None,
        }
    }
}

impl<V: StoredValue> Write<'_, V> {
    /// Checks that a map whose values have this many bytes can make the change.
    pub(super) fn check(&self, value_bytes: usize) -> Result<(), Error> {
        let refuse = |what, why| Err(Error::Setting { what, why });
        if value_bytes != 8 && matches!(self, Write::CompareExchange { .. }) {
            let why = format!("values have 8 bytes, not {value_bytes}");
            return refuse("compare_exchange", why);
        }
        let expected = match self {
            Write::CompareExchange { expected, .. } => Some(expected),
            _ => None,
        };
        let mut lengths = expected
            .into_iter()
            .chain(self.value())
            .map(|value| value.stored().len());
        match lengths.find(|len| *len != value_bytes) {
            Some(len) => refuse(
                "value",
                format!("values have {value_bytes} bytes, not {len}"),
            ),
            None => Ok(()),
        }
    }
}

/// Why one change was not made. The map has the same entries as before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError<V> {
    /// The key is present (`EEXIST`).
    Exists,
    /// The key is absent (`ENOENT`).
    Absent,
    /// The key has another value than the expected one (`EAGAIN`).
    Changed {
        /// The value that the key had.
        found: V,
    },
    /// The key has more bytes than the map's longest (`E2BIG`).
    TooLong,
    /// The map has as many entries as it may have (`E2BIG`).
    Full,
    /// No slot near the key's home is free, in a map without a trie (`ENOSPC`).
    NoSlot,
    /// There is no block for the change, also after a step of service (`ENOMEM`).
    NoMemory,
    /// Other writers had the lock for the whole time of the attempt (`EBUSY`).
    Busy,
    /// Another error of the kernel's side: its number, which is negative.
    Other(i64),
}

/// The result of one change: what it gives, or why it was not made.
pub type Written<T, V> = Result<T, WriteError<V>>;

/// An entry that was taken: its key and its value.
pub type Taken<V> = (Vec<u8>, V);

impl<V> fmt::Display for WriteError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteError::Exists => "the key is present",
            WriteError::Absent => "the key is absent",
            WriteError::Changed { .. } => "the key has another value than the expected one",
            WriteError::TooLong => "the key is longer than the map's longest key",
            WriteError::Full => "the map has as many entries as it may have",
            WriteError::NoSlot => "no slot of the index is free for the key",
            WriteError::NoMemory => "no memory for the change",
            WriteError::Busy => "other writers have the lock",
            WriteError::Other(number) => return write!(f, "the program's error {number}"),
        })
    }
}

impl<V: fmt::Debug> std::error::Error for WriteError<V> {}

/// As `struct run` in the program.
#[derive(Clone, IntoBytes, FromBytes, Immutable)]
#[repr(C)]
struct Run {
    map: u32,
    room: u32,
    count: u32,
    value_words: u32,
    done: u32,
    unused: u32,
    expected: u64,
    value: [u64; k::VALUE_SHORT / 8],
    key: [u64; 32],
}

/// The program that carries orders out, and its room.
pub(super) struct Writer {
    words: Words,
    programs: Option<Programs>,
}

impl Writer {
    /// The name of the room for the orders to this map.
    fn name(map: &str) -> String {
        format!("{map}.w")
    }

    /// A room beside the map of this name.
    pub(super) fn create(arena: &BpfArena, map: &str) -> Result<Writer, Error> {
        Words::create(arena, &Writer::name(map), ROOM).map(Writer::with)
    }

    /// The room of a dead owner. `None` if it had none.
    pub(super) fn adopt(arena: &BpfArena, map: &str) -> Option<Writer> {
        let words = Words::adopt(arena, &Writer::name(map))?;
        (words.len() >= ROOM).then(|| Writer::with(words))
    }

    fn with(words: Words) -> Writer {
        Writer {
            words,
            programs: None,
        }
    }

    /// Leaves the room for another owner.
    pub(super) fn leave(self) {
        self.words.leave();
    }

    /// Carries out orders, as many as one run takes, and adds their results. All keys have at most
    /// `longest` bytes, or are refused here. All values have `value_bytes`. Whether the last result
    /// is for want of memory.
    pub(super) fn run<V: StoredValue>(
        &mut self,
        map: u32,
        (longest, value_bytes): (usize, usize),
        orders: &[Write<'_, V>],
        results: &mut Vec<Result<(), WriteError<V>>>,
    ) -> Result<bool, Error> {
        let mut places = Vec::new();
        let mut at = 1;
        let mut taken = 0;
        for order in orders.iter().take(ORDERS) {
            let place = match order.key().len() > longest {
                true => None,
                false => {
                    let words = words_of(order.key(), value_bytes);
                    if at + words > ROOM {
                        break;
                    }
                    self.put(at, words, order, value_bytes);
                    at += words;
                    Some(at - words)
                }
            };
            places.push(place);
            taken += usize::from(place.is_some());
        }
        if taken > 0 {
            self.call(map, taken, value_bytes / 8)?;
        }
        for (order, place) in orders.iter().zip(places) {
            let Some(place) = place else {
                results.push(Err(WriteError::TooLong));
                continue;
            };
            match self.words.get(place + 2) as i64 {
                // The kernel ended the loop. The next run goes on here.
                UNTOUCHED => break,
                result => results.push(self.result(order, place, result)),
            }
            if let Some(Err(WriteError::NoMemory)) = results.last() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes an order.
    fn put<V: StoredValue>(
        &self,
        at: usize,
        words: usize,
        order: &Write<'_, V>,
        value_bytes: usize,
    ) {
        let key = order.key();
        let head = order.kind() | (key.len() as u64) << 8 | (words as u64 * 8) << 32;
        self.words.set(at, head);
        if let Write::CompareExchange { expected, .. } = order {
            self.words.set(at + 1, word(expected.stored()));
        }
        self.words.set(at + 2, UNTOUCHED as u64);
        if let Some(value) = order.value() {
            for (i, bytes) in value.stored().chunks(8).enumerate() {
                self.words.set(at + HEAD + i, word(bytes));
            }
        }
        let mut to = at + HEAD + value_bytes / 8;
        let mut rest = key;
        if key.len() <= k::SHORT_KEY_MAX {
            // A short key begins with its length.
            let (first, others) = key.split_at(key.len().min(7));
            self.words.set(to, word(first) << 8 | key.len() as u64);
            to += 1;
            rest = others;
        }
        for bytes in rest.chunks(8) {
            self.words.set(to, word(bytes));
            to += 1;
        }
        // Zeros follow a short key, up to a multiple of 32 bytes.
        for zero in to..at + words {
            self.words.set(zero, 0);
        }
    }

    fn call(&mut self, map: u32, count: usize, value_words: usize) -> Result<(), Error> {
        let programs = match &mut self.programs {
            Some(programs) => programs,
            none => {
                let arena = self.words.arena();
                none.insert(Loader::open(arena, PROGRAM)?.load()?)
            }
        };
        self.words.set(0, 8);
        let run = Run {
            map,
            room: self.words.window().number,
            count: count as u32,
            value_words: value_words as u32,
            done: 0,
            unused: 0,
            expected: 0,
            value: [0; k::VALUE_SHORT / 8],
            key: [0; 32],
        };
        let mut answer = run.clone();
        let input = ProgramInput {
            data_in: Some(run.as_bytes()),
            data_out: Some(answer.as_mut_bytes()),
            ..ProgramInput::default()
        };
        let ran = programs
            .program("sw_program_writes")?
            .test_run(input)
            .map_err(|error| Error::system("running the program that writes", error))?;
        match ran.return_value == PASS && (answer.done as usize) <= count {
            true => Ok(()),
            false => Err(Error::Damaged("the room of orders is not there".into())),
        }
    }

    fn result<V: CheckedValue>(
        &self,
        order: &Write<'_, V>,
        place: usize,
        result: i64,
    ) -> Result<(), WriteError<V>> {
        use errno::*;
        Err(match result {
            0 => return Ok(()),
            EEXIST => WriteError::Exists,
            ENOENT => WriteError::Absent,
            EAGAIN if order.kind() == COMPARE_EXCHANGE => {
                let found = self.words.get(place + 1).to_ne_bytes();
                match V::of(&found) {
                    Some(found) => WriteError::Changed { found },
                    None => WriteError::Other(result),
                }
            }
            E2BIG => WriteError::Full,
            ENOSPC => WriteError::NoSlot,
            ENOMEM => WriteError::NoMemory,
            EBUSY => WriteError::Busy,
            _ => WriteError::Other(result),
        })
    }
}

/// The result of an order that the kernel does not come to, in a run of its own.
pub(super) fn not_reached<V>() -> WriteError<V> {
    WriteError::Other(errno::ELOOP)
}

/// The words of an order.
fn words_of(key: &[u8], value_bytes: usize) -> usize {
    let key = match key.len() {
        short @ 0..=k::SHORT_KEY_MAX => (short / 32 + 1) * 4,
        long => long.div_ceil(8),
    };
    // The program reads as many words of a value there as a short one has.
    (HEAD + value_bytes / 8 + key).max(HEAD + k::VALUE_SHORT / 8)
}

/// The word of up to eight bytes, with zeros behind them.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}
