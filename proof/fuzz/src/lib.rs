//! The common parts of the fuzz targets: operations and decisions drawn from the input.
#![deny(unsafe_code)]
#![feature(cfg_sanitize)]

pub mod counted;
pub mod fence;
#[cfg(feature = "kernel")]
pub mod headers;
pub mod image;

use std::cell::RefCell;

use arbitrary::{Arbitrary, Unstructured};
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qsbr::Domain;
use sapwood_model::choices::Choices;
use sapwood_model::ops::Op;

/// A fuzzer's input, from which a target draws operations and decisions in order.
pub struct Input<'a>(RefCell<Unstructured<'a>>);

impl<'a> Input<'a> {
    /// An input from its first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input(RefCell::new(Unstructured::new(bytes)))
    }

    /// A number below `n`. After the end of the input it is always the greatest, so that nothing
    /// rare happens then.
    pub fn below(&self, n: usize) -> usize {
        let mut input = self.0.borrow_mut();
        if input.is_empty() {
            return n - 1;
        }
        input.int_in_range(0..=n - 1).unwrap_or(n - 1)
    }

    /// A value; `None` after the end of the input.
    pub fn draw<T: Arbitrary<'a>>(&self) -> Option<T> {
        let mut input = self.0.borrow_mut();
        if input.is_empty() {
            return None;
        }
        T::arbitrary(&mut input).ok()
    }

    /// The rest of the input, unchanged.
    pub fn rest(self) -> Vec<u8> {
        let mut input = self.0.into_inner();
        let left = input.len();
        input.bytes(left).unwrap_or_default().to_vec()
    }

    /// Operations until the input ends: at most `most`, with at most `bytes` of keys together.
    /// Every step is followed by a walk over the whole map, so long keys must be few.
    pub fn ops(&self, most: usize, bytes: usize) -> impl Iterator<Item = Op> + use<'_, 'a> {
        let mut left = bytes;
        std::iter::from_fn(move || {
            let op: Op = self.draw()?;
            left = left.checked_sub(key_bytes(&op))?;
            Some(op)
        })
        .take(most)
    }

    /// An arena with address space that detects misuse; often it is too small, or fails at times.
    /// Also returns whether it may fail.
    pub fn arena(&self) -> (ArenaOptions, bool) {
        // Forbidding freed pages is the strictest check, and the slowest.
        let debug = match self.below(8) {
            0 => DebugMode::Protect,
            1 => DebugMode::Off,
            _ => DebugMode::Poison,
        };
        let options = ArenaOptions::default()
            .debug(debug)
            .backing(Backing::Mmap { reserve: 1 << 26 });
        match self.below(4) {
            0 => (
                options.fail_every([2, 3, 5, 7, 11, 23, 61][self.below(7)]),
                true,
            ),
            // Forbidden pages are not reused before a small arena is full.
            1 => {
                let limit = (8 << 10) << self.below(7);
                (options.debug(DebugMode::Poison).limit(limit), true)
            }
            2 => {
                let fixed = Backing::HeapFixed((8 << 10) << self.below(7));
                (options.debug(DebugMode::Poison).backing(fixed), true)
            }
            _ => (options, false),
        }
    }

    /// A domain that often allows little garbage, but at least that of any one change of a short
    /// key. Also returns whether it may refuse garbage.
    pub fn domain(&self) -> (Domain, bool) {
        match self.below(4) {
            0 => (
                Domain::builder()
                    .hard_limit((16 << 10) << self.below(4))
                    .build(),
                true,
            ),
            _ => (Domain::builder().build(), false),
        }
    }
}

impl Choices for Input<'_> {
    fn below(&mut self, n: usize) -> usize {
        Input::below(self, n)
    }

    fn more(&self) -> bool {
        !self.0.borrow().is_empty()
    }
}

/// The number of key bytes that an operation stores.
fn key_bytes(op: &Op) -> usize {
    match op {
        Op::Insert(key, _) => key.len(),
        Op::Append(list) => list.iter().map(|(key, _)| key.len()).sum(),
        _ => 0,
    }
}

/// Adds the keys of an operation to `into`, for later queries.
pub fn keys_of(op: &Op, into: &mut Vec<Vec<u8>>) {
    match op {
        Op::Insert(key, _)
        | Op::Remove(key)
        | Op::Get(key)
        | Op::Prefix(key, _)
        | Op::Predecessor(key)
        | Op::Successor(key)
        | Op::LongestPrefix(key)
        | Op::Ancestors(key)
        | Op::AncestorsSep(key, _)
        | Op::Closest(key, _)
        | Op::Denial(key, _)
        | Op::RemovePrefix(key)
        | Op::SplitOff(key) => into.push(key.clone()),
        Op::Append(list) => into.extend(list.iter().map(|(key, _)| key.clone())),
        Op::GetMany(keys) => into.extend(keys.iter().cloned()),
        Op::Range(..) | Op::PopFirst | Op::PopLast | Op::Retain(_) | Op::Compact | Op::Clear => {}
    }
}
