//! Malicious files: opened with and without a check, and queried by every method.
//!
//! Some inputs are complete files. Most are changes to the image of a real map, sealed again with
//! valid checksums, so that the fuzzer reaches the checks behind the checksums.
#![no_main]

#[path = "../../../core/sapwood/tests/support/mod.rs"]
mod support;
#[path = "../../../core/sapwood/tests/support/values.rs"]
mod values;

use std::fs;
use std::ops::Bound;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sapwood::qp::{QpFile, QpMap};
use sapwood_fuzz::image::{Change, Scratch, change, changes, fenced};
use sapwood_fuzz::{Input, keys_of};
use sapwood_model::ops::is_cut;
use sapwood_model::oracle::ByteMap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// More entries than any valid image here has; an invalid one may claim any number.
const CAP: usize = 5_000;

/// A type of value that files can hold.
trait Held: support::Value + FromBytes + IntoBytes + Immutable {
    /// A sum over the whole value, which reads all of it.
    fn sum(&self) -> u64 {
        self.as_bytes().iter().map(|byte| u64::from(*byte)).sum()
    }
}

impl Held for u64 {}
impl Held for [u8] {}

/// The image of a map made by operations; `keys` receives keys for queries.
fn image<V: ?Sized + Held>(input: &Input<'_>, path: &Path, keys: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut map = QpMap::<V>::new();
    for op in input.ops(60, 70_000) {
        keys_of(&op, keys);
        support::apply(&mut map, &op);
        if input.below(24) == 0 {
            break;
        }
    }
    map.save(path).unwrap();
    if let [a, .., b] = &keys[..] {
        // Keys that are not stored, but begin like stored ones.
        let longer = [a.as_slice(), b"\0", b.as_slice()].concat();
        keys.push(longer);
    }
    fs::read(path).unwrap()
}

/// Calls every method. `whole` says that the file passed all checks; then the answers must agree.
fn ask<V: ?Sized + Held>(file: &QpFile<V>, keys: &[Vec<u8>], whole: bool) {
    let mut entries = 0;
    let mut last = None;
    for (key, value) in file.iter().take(CAP) {
        entries += 1;
        std::hint::black_box((key.iter().map(|b| u64::from(*b)).sum::<u64>(), value.sum()));
        if whole {
            assert!(last.is_none_or(|last| last < key), "not in order");
            assert!(
                file.get(&key)
                    .is_some_and(|found| std::ptr::eq(found, value))
            );
            assert_eq!(
                file.successor(&key),
                file.range::<[u8], _>((Bound::Excluded(&key[..]), Bound::Unbounded))
                    .next()
            );
            last = Some(key);
        }
    }
    let back = file
        .iter()
        .rev()
        .take(CAP)
        .map(|(key, _)| key.len())
        .count();
    if whole {
        assert!(file.len() > CAP || (entries == file.len() && back == entries));
        assert_eq!(file.shape().unwrap().entries, file.len());
    }
    let _ = file.verify();
    let _ = file.shape();
    let mut both = file.iter();
    for _ in 0..CAP {
        if both.next().is_none() || both.next_back().is_none() {
            break;
        }
    }
    std::hint::black_box((
        file.first_key_value(),
        file.last_key_value(),
        file.file_bytes(),
    ));
    // What a whole file of few entries holds, to compare with.
    let model = (whole && entries == file.len()).then(|| {
        let mut model = ByteMap::new();
        for (key, value) in file.iter() {
            model.insert(&key, value.sum());
        }
        model
    });
    for (i, key) in keys.iter().enumerate() {
        for separator in [0, b'/', key.first().copied().unwrap_or(b'a')] {
            let found = file.closest(key, separator, |_, value| is_cut(value.sum()));
            std::hint::black_box(found.ancestor.as_ref().map(|(_, value)| value.sum()));
            if let Some(model) = &model {
                let wanted = model.closest(key, separator, |value| is_cut(*value));
                assert_eq!(values::keys_of(&found), wanted, "{key:?}, {separator}");
            }
            let found = file.denial(key, separator, |_, value| is_cut(value.sum()));
            std::hint::black_box(found.predecessor.as_ref().map(|(_, value)| value.sum()));
            if let Some(model) = &model {
                let wanted = model.denial(key, separator, |value| is_cut(*value));
                assert_eq!(values::denial_of(&found), wanted, "{key:?}, {separator}");
            }
        }
        let found = file.get(key);
        assert_eq!(found.is_some(), file.contains_key(key));
        assert_eq!(found, file.get_key_value(key).map(|(_, value)| value));
        std::hint::black_box((
            file.predecessor(key),
            file.successor(key),
            file.longest_prefix(key),
            file.ancestors(key).len(),
            file.ancestors_at(key, b'/').len(),
            file.prefix(key).take(CAP).count(),
            file.prefix(key).rev().take(CAP).count(),
        ));
        let other = &keys[(i * 7 + 1) % keys.len()];
        for (from, to) in [
            (Bound::Included(&key[..]), Bound::Included(&other[..])),
            (Bound::Excluded(&key[..]), Bound::Unbounded),
            (Bound::Unbounded, Bound::Excluded(&other[..])),
        ] {
            let range = file.range::<[u8], _>((from, to));
            std::hint::black_box((
                range.clone().take(CAP).count(),
                range.rev().take(CAP).count(),
            ));
        }
    }
    let mut out = vec![None; keys.len()];
    file.get_many(keys, &mut out);
    for (key, found) in keys.iter().zip(out) {
        assert_eq!(found, file.get(key));
    }
}

fn open_and_ask<V: ?Sized + Held>(path: &Path, bytes: &[u8], keys: &[Vec<u8>]) {
    fs::write(path, bytes).unwrap();
    for checked in [true, false] {
        let opened = match checked {
            true => QpFile::<V>::open(path),
            false => QpFile::<V>::open_unverified(path),
        };
        match opened {
            Ok(file) => {
                let _fence = fenced(path, bytes.len());
                ask(&file, keys, checked);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    // With values of another size, the layout differs.
    assert!(QpFile::<u32>::open(path).is_err());
}

fuzz_target!(|bytes: &[u8]| match bytes.len() % 2 {
    0 => run::<u64>(bytes),
    _ => run::<[u8]>(bytes),
});

fn run<V: ?Sized + Held>(bytes: &[u8]) {
    let scratch = Scratch::new("qp");
    let input = Input::new(bytes);
    let mut keys = vec![Vec::new()];
    if input.below(16) == 0 {
        keys.push(b"a".to_vec());
        return open_and_ask::<V>(&scratch.0, &input.rest(), &keys);
    }
    // From half a megabyte on, batched lookups use another path.
    let large = input.below(24) == 0;
    let whole = image::<V>(&input, &scratch.0, &mut keys);
    let mut changes = changes(&input);
    keys.truncate(60);
    if large {
        changes.push(Change::Extend { by: 600 << 10 });
    }
    let file = change(whole, &changes);
    open_and_ask::<V>(&scratch.0, &file, &keys);
}
