//! Random operations on tables of bit strings; the naive oracle checks each answer.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use sapwood::lpm::Error;
use sapwood::lpm::{BitFib, BitString};
use sapwood_model::choices::Choices;
use sapwood_model::oracle::BitPrefixes;

pub fn string(bits: &[bool]) -> BitString {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    for (i, bit) in bits.iter().enumerate() {
        bytes[i / 8] |= u8::from(*bit) << (7 - i % 8);
    }
    BitString::from_bytes(&bytes, bits.len()).unwrap()
}

/// Strings that have much in common: prefixes of a few strings, some with a bit flipped near the
/// end.
pub struct Strings {
    bases: Vec<Vec<bool>>,
    lens: RangeInclusive<usize>,
}

impl Strings {
    pub fn new(choices: &mut impl Choices, lens: RangeInclusive<usize>) -> Self {
        let mut base = || {
            let bytes: Vec<usize> = (0..lens.end().div_ceil(8))
                .map(|_| choices.below(256))
                .collect();
            (0..*lens.end())
                .map(|i| bytes[i / 8] >> (i % 8) & 1 == 1)
                .collect()
        };
        let bases = vec![base(), base(), base()];
        Strings { bases, lens }
    }

    pub fn one(&self, choices: &mut impl Choices) -> Vec<bool> {
        let base = choices.pick(&self.bases);
        let (least, most) = (*self.lens.start(), *self.lens.end());
        let mut bits = base[..least + choices.below(most - least)].to_vec();
        for _ in 0..choices.below(3) {
            if let Some(at) = bits.len().checked_sub(1 + choices.below(8)) {
                bits[at] ^= true;
            }
        }
        bits
    }
}

type Entries<'a, V> = Vec<(BitString, &'a V)>;

pub fn owned<'a, V>(entries: Vec<(&'a [bool], &'a V)>) -> Entries<'a, V> {
    let entries = entries.into_iter();
    entries.map(|(bits, value)| (string(bits), value)).collect()
}

/// Compares the answers of all queries about one string.
macro_rules! same_answers {
    ($reader:expr, $oracle:expr, $bits:expr) => {{
        let (reader, oracle, bits) = (&$reader, &$oracle, $bits);
        let query = string(bits);
        assert_eq!(reader.get(&query), oracle.get(bits), "{query}");
        assert_eq!(reader.lookup(&query), oracle.lookup(bits), "{query}");
        let matches: Vec<_> = reader.matches(&query).collect();
        assert_eq!(matches, oracle.matches(bits), "{query}");
        let covered = owned(oracle.covered_by(bits));
        assert!(
            reader.covered_by(&query).eq(covered.iter().cloned()),
            "{query}"
        );
        let backwards = covered.into_iter().rev();
        assert!(reader.covered_by(&query).rev().eq(backwards), "{query}");
        let children: Vec<_> = reader.children(&query).collect();
        assert_eq!(children, owned(oracle.children(bits)), "{query}");
    }};
}

#[allow(unused_imports)] // The fuzz target does not use it.
pub(crate) use same_answers;

macro_rules! same_tables {
    ($reader:expr, $oracle:expr) => {{
        let (reader, oracle) = (&$reader, &$oracle);
        assert_eq!(reader.len(), oracle.len());
        assert_eq!(reader.is_empty(), oracle.is_empty());
        assert!(reader.iter().eq(owned(oracle.iter())));
    }};
}

/// The result; `None` if memory has run out and `scarce` allows that.
fn done<T>(result: Result<T, impl Into<Error>>, scarce: bool, failed: &mut usize) -> Option<T> {
    match result.map_err(Into::into) {
        Ok(done) => Some(done),
        Err(Error::ArenaFull(_) | Error::GarbageLimit(_)) if scarce => {
            *failed += 1;
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs up to `changes` transactions on a new table of about `most` strings of these lengths, and
/// calls `verify` about once in `every` of them. `scarce` says that memory may run out: a failed
/// operation must change nothing. Returns the number of failed operations.
pub fn run_bits<V>(
    built: Result<BitFib<V>, Error>,
    choices: &mut impl Choices,
    changes: usize,
    every: usize,
    lens: RangeInclusive<usize>,
    most: usize,
    scarce: bool,
) -> usize
where
    V: From<usize> + Clone + PartialEq + Debug + Send + Sync + 'static,
{
    let strings = Strings::new(choices, lens);
    let mut failed = 0;
    let Some(fib) = done(built, scarce, &mut failed) else {
        return failed;
    };
    let mut reader = fib.reader("test").unwrap();
    let mut oracle = BitPrefixes::new();
    let mut kept = None;
    let mut gone: Vec<Vec<bool>> = Vec::new();
    for change in 0..changes {
        if !choices.more() {
            break;
        }
        let held: Vec<_> = reader
            .view()
            .matches(string(&strings.one(choices)))
            .collect();
        let before: Vec<_> = held
            .iter()
            .map(|(len, value)| (*len, (*value).clone()))
            .collect();
        let mut now = oracle.clone();
        let mut txn = fib.begin();
        for _ in 0..1 + choices.below(3) {
            // Removed strings are inserted again more often than by chance.
            let bits = match gone.pop() {
                Some(bits) if choices.below(4) == 0 => bits,
                _ => strings.one(choices),
            };
            if choices.below(most) < now.len() {
                let removed = txn.remove(string(&bits)).map(Option::<&_>::cloned);
                if let Some(old) = done(removed, scarce, &mut failed) {
                    assert_eq!(old, now.remove(&bits));
                    gone.push(bits);
                }
            } else {
                let value = V::from(change);
                let inserted = txn.insert(string(&bits), value.clone());
                let inserted = inserted.map(Option::<&_>::cloned);
                if let Some(old) = done(inserted, scarce, &mut failed) {
                    assert_eq!(old, now.insert(&bits, value));
                }
            }
        }
        same_answers!(txn, now, &strings.one(choices));
        same_answers!(reader.view(), oracle, &strings.one(choices));
        if choices.below(10) == 0 {
            txn.rollback();
        } else {
            txn.commit();
            oracle = now;
        }
        same_answers!(reader.view(), oracle, &strings.one(choices));
        if choices.below(every) == 0 {
            fib.verify().unwrap();
            same_tables!(fib.snapshot(), oracle);
        }
        match choices.below(60) {
            0 | 1 => {
                let (snapshot, then) = kept.insert((fib.snapshot(), oracle.clone()));
                same_tables!(snapshot, then);
            }
            2 => kept = None,
            3 => drop(done(fib.compact(), scarce, &mut failed)),
            4 => drop(fib.reclaim(choices.below(40))),
            _ => {}
        }
        if let Some((snapshot, then)) = &kept {
            same_answers!(snapshot, then, &strings.one(choices));
        }
        let held = held.iter().map(|(len, value)| (*len, (*value).clone()));
        assert!(held.eq(before), "changed under a reader");
        reader.quiescent();
    }
    let view = reader.view();
    let queries: Vec<BitString> = (0..50).map(|_| string(&strings.one(choices))).collect();
    let mut found = vec![None; queries.len()];
    view.lookup_batch(&queries, &mut found);
    for (query, found) in queries.iter().zip(found) {
        assert_eq!(found, view.lookup(query));
    }
    done(fib.compact(), scarce, &mut failed);
    fib.verify().unwrap();
    same_tables!(fib.snapshot(), oracle);
    failed
}
