//! Keys and values in consecutive memory, in the order of the lookups.

use std::ops::ControlFlow;

use fastrand::Rng;

/// Keys in one block, one after the other, each with its value.
///
/// Engines are asked with these copies and not with the keys that they hold, in the order of the
/// list. Fetching the next key therefore costs the same for all engines, and almost nothing.
#[derive(Clone)]
pub struct KeyList {
    bytes: Vec<u8>,
    /// Where each key starts, and where the last one ends.
    bounds: Vec<usize>,
    values: Vec<u64>,
}

impl KeyList {
    /// A list of pairs in their order.
    pub fn new<K: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (K, u64)>) -> Self {
        let mut list = Self {
            bytes: Vec::new(),
            bounds: vec![0],
            values: Vec::new(),
        };
        for (key, value) in pairs {
            list.bytes.extend_from_slice(key.as_ref());
            list.bounds.push(list.bytes.len());
            list.values.push(value);
        }
        list
    }

    /// The keys with values that depend on their places and look random, so that errors do not
    /// cancel out in a sum.
    pub fn numbered(keys: &[Box<[u8]>]) -> Self {
        Self::new(keys.iter().zip(0..).map(|(key, at)| (&**key, scramble(at))))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The sum of the lengths of the keys.
    pub fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The sum of the values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.values
            .iter()
            .fold(0, |sum, value| sum.wrapping_add(*value))
    }

    /// The bytes of all keys, where each starts and the last one ends, and the values.
    pub fn parts(&self) -> (&[u8], &[usize], &[u64]) {
        (&self.bytes, &self.bounds, &self.values)
    }

    /// The key at a place.
    pub fn key(&self, at: usize) -> &[u8] {
        &self.bytes[self.bounds[at]..self.bounds[at + 1]]
    }

    /// The value at a place.
    pub fn value(&self, at: usize) -> u64 {
        self.values[at]
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        self.run(0, self.len())
    }

    /// The `count` keys and values from the place `from` on.
    pub fn run(&self, from: usize, count: usize) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        let bounds = &self.bounds[from..=from + count];
        let values = &self.values[from..from + count];
        bounds
            .windows(2)
            .zip(values)
            .map(|(ends, value)| (&self.bytes[ends[0]..ends[1]], *value))
    }

    /// The same pairs in a random order.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut places: Vec<usize> = (0..self.len()).collect();
        Rng::with_seed(seed).shuffle(&mut places);
        self.picked(places)
    }

    /// The same pairs in the order of the keys.
    pub fn sorted(&self) -> Self {
        let mut places: Vec<usize> = (0..self.len()).collect();
        places.sort_unstable_by_key(|at| self.key(*at));
        self.picked(places)
    }

    /// The first place whose key is not less than `key`, in a list that is sorted by key.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The place of a key in a list that is sorted by key.
    pub fn place_of(&self, key: &[u8]) -> Option<usize> {
        let at = self.lower_bound(key);
        (at < self.len() && self.key(at) == key).then_some(at)
    }

    /// The pairs at these places.
    pub fn picked(&self, places: impl IntoIterator<Item = usize>) -> Self {
        Self::new(places.into_iter().map(|at| (self.key(at), self.value(at))))
    }

    /// The same pairs with keys in another form.
    pub fn in_form(&self, form: Form) -> Self {
        let mut list = Self {
            bytes: Vec::new(),
            bounds: vec![0],
            values: self.values.clone(),
        };
        for (key, _) in self.iter() {
            form.write(key, &mut list.bytes);
            list.bounds.push(list.bytes.len());
        }
        list
    }
}

/// The form in which an engine needs its keys when it cannot take all byte strings. The keys are
/// converted before the clock starts, because a user of the engine would keep them in that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The keys unchanged.
    Plain,
    /// Keys with a zero byte added at the end; only for keys without zeros.
    Terminated,
    /// Each zero as 0, 255, and 0, 0 at the end. No key is then a prefix of another, and the order
    /// does not change.
    Escaped,
}

impl Form {
    /// The cheapest form in which no key of the set is a prefix of another.
    pub fn prefix_free(keys: &KeyList) -> Self {
        if keys.iter().all(|(key, _)| key.len() == keys.key(0).len()) {
            Self::Plain
        } else if !keys.bytes.contains(&0) {
            Self::Terminated
        } else {
            Self::Escaped
        }
    }

    fn write(self, key: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Plain => to.extend_from_slice(key),
            Self::Terminated => {
                to.extend_from_slice(key);
                to.push(0);
            }
            Self::Escaped => {
                for byte in key {
                    to.push(*byte);
                    if *byte == 0 {
                        to.push(255);
                    }
                }
                to.extend_from_slice(&[0, 0]);
            }
        }
    }
}

/// A bijection of 64-bit numbers whose results look random (the finisher of splitmix64).
pub fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The result of a pass of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tally {
    /// How many keys were found.
    pub found: u64,
    /// The sum of their values, modulo 2^64.
    pub sum: u64,
}

impl Tally {
    /// Adds one answer.
    #[inline]
    pub fn add(&mut self, answer: Option<u64>) {
        if let Some(value) = answer {
            self.found += 1;
            self.sum = self.sum.wrapping_add(value);
        }
    }

    /// Looks all keys up.
    #[inline]
    pub fn of(keys: &KeyList, mut get: impl FnMut(&[u8]) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        for (key, _) in keys.iter() {
            tally.add(get(key));
        }
        tally
    }
}

impl Tally {
    /// Looks all keys up, each only after the answer to the one before is known: the next place is
    /// computed from that answer. A processor cannot overlap such lookups, whereas it overlaps
    /// those of [`of`](Self::of).
    #[inline]
    pub fn chained(keys: &KeyList, mut get: impl FnMut(&[u8]) -> Option<u64>) -> Self {
        let mut tally = Self::default();
        // This is zero, but the compiler must not know it.
        let none = std::hint::black_box(0);
        let mut at = 0;
        while at < keys.len() {
            let answer = get(keys.key(at));
            tally.add(answer);
            at += 1 + (answer.unwrap_or(0) & none) as usize;
        }
        tally
    }
}

/// The result of a scan, which also shows entries out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ScanSum {
    /// The number of entries.
    pub count: u64,
    /// The sum of the values, modulo 2^64.
    pub sum: u64,
    /// The exclusive or of all key bytes, rotated between keys.
    pub keys: u64,
}

impl ScanSum {
    /// Adds one entry and reads its whole key.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: u64) {
        let mut folded = 0;
        let mut words = key.chunks_exact(8);
        for word in &mut words {
            folded ^= u64::from_le_bytes(word.try_into().expect("a chunk has 8 bytes"));
        }
        for (byte, shift) in words.remainder().iter().zip((0..).step_by(8)) {
            folded ^= u64::from(*byte) << shift;
        }
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.keys = self.keys.rotate_left(5) ^ folded;
    }

    /// What adds the entries that a walk lends, with the numbers of their values, and ends it after
    /// the first `most`.
    #[inline]
    pub fn each<V: ?Sized>(
        &mut self,
        most: Option<usize>,
        number: impl Fn(&V) -> u64,
    ) -> impl FnMut(&[u8], &V) -> ControlFlow<()> {
        let end = most.map(|most| self.count + most as u64);
        move |key, value| {
            self.add(key, number(value));
            match end == Some(self.count) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    /// Adds all entries of an iterator.
    #[inline]
    pub fn of<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Self {
        let mut sum = Self::default();
        for (key, value) in entries {
            sum.add(key.as_ref(), value);
        }
        sum
    }

    /// For each key, adds the first `count` entries that `from` returns.
    #[inline]
    pub fn ranges<K: AsRef<[u8]>, I: Iterator<Item = (K, u64)>>(
        starts: &KeyList,
        count: usize,
        from: impl Fn(&[u8]) -> I,
    ) -> Self {
        let mut sum = Self::default();
        for (key, _) in starts.iter() {
            for (key, value) in from(key).take(count) {
                sum.add(key.as_ref(), value);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(keys: &[&[u8]]) -> KeyList {
        KeyList::numbered(&keys.iter().map(|key| Box::from(*key)).collect::<Vec<_>>())
    }

    #[test]
    fn orders_keep_the_pairs() {
        let keys = list(&[b"b", b"", b"abcdefghi", b"a\0"]);
        let shuffled = keys.shuffled(1);
        assert_eq!((shuffled.len(), shuffled.sum()), (keys.len(), keys.sum()));
        let sorted = shuffled.sorted();
        assert_eq!(
            sorted.iter().map(|pair| pair.0).collect::<Vec<_>>(),
            [&b""[..], b"a\0", b"abcdefghi", b"b"]
        );
        assert_eq!(sorted.value(3), keys.value(0));
        assert_eq!(
            ScanSum::of(sorted.iter()),
            ScanSum::of(keys.sorted().iter())
        );
        assert_ne!(ScanSum::of(sorted.iter()), ScanSum::of(keys.iter()));
    }

    #[test]
    fn forms_are_prefix_free_and_keep_the_order() {
        let keys = list(&[b"a", b"a\0", b"a\0\0b", b"ab", b"a\xff", b""]);
        assert_eq!(Form::prefix_free(&keys), Form::Escaped);
        assert_eq!(Form::prefix_free(&list(&[b"a", b"ab"])), Form::Terminated);
        assert_eq!(Form::prefix_free(&list(&[b"\0a", b"ab"])), Form::Plain);
        let plain = keys.sorted();
        let escaped = keys.in_form(Form::Escaped).sorted();
        for at in 0..keys.len() {
            assert_eq!(plain.value(at), escaped.value(at));
            for other in 0..keys.len() {
                assert!(at == other || !escaped.key(at).starts_with(escaped.key(other)));
            }
        }
    }
}
