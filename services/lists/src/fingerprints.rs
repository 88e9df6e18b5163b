//! A table of the rules of a map without its names: hashes in their place.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use sapwood::qp::OrderedRead;
use siphasher::sip::SipHasher13;

use crate::map::rule_entries;
use crate::meta::Meta;
use crate::value::{self, NotRules};
use crate::verdict::{Verdict, best};

/// The rules of a map, found by hashes of 64 bits of their names. It takes nine bytes a name at
/// most, from some thousand names on; with two million names, less than eight.
///
/// The hash is SipHash-1-3 of the key, under a seed that is random unless it is given. A name that
/// has no rule is taken for one that has a rule with probability `n / 2^64`, where `n` is the
/// number of names with rules. A question asks for its own name and those above it. So for two
/// million names and questions of five labels (six names, with the root), one question in 1.5
/// million millions is answered by a rule that is not for it. The order of rules is that of the
/// map.
///
/// ```
/// use sapwood_lists::{Action, Fingerprints, Loader, Options, Source};
///
/// let list = Source::text("a", "||ads.example^\n@@||good.ads.example^\n");
/// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
/// let small = Fingerprints::new(map.entries())?;
/// let key = sapwood::key::dns_name("x.ads.example")?;
/// assert_eq!(small.verdict(&key, 1), map.verdict("x.ads.example".as_ref(), 1)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fingerprints {
    seed: [u8; 16],
    meta: Meta,
    /// The different values of the map.
    values: Vec<Vec<u8>>,
    /// Bytes of a hash that its bucket says; the others are kept.
    bucket_bytes: usize,
    /// Where each bucket begins, and where the last one ends.
    buckets: Vec<u32>,
    /// The kept bytes of the hashes, the greatest first, in ascending order in their bucket.
    prints: Vec<u8>,
    /// The number of each one's value, in one byte or two.
    codes: Vec<u8>,
    code_bytes: usize,
}

/// The most different values.
pub const MAX_VALUES: usize = 1 << 16;

/// The first bytes of a saved table.
pub const FINGERPRINTS_MAGIC: [u8; 8] = *b"SWPRINTS";
/// The version of the form of a saved table.
const VERSION: u32 = 1;

/// Why there is no table of fingerprints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintsError {
    /// The map has other values than rules.
    #[error(transparent)]
    NotRules(#[from] NotRules),
    /// The map has too many different values. Rewritings of each name to an address of its own are
    /// not for such a table.
    #[error("the rules have more than {MAX_VALUES} different forms")]
    TooManyValues,
    /// The map has too many names.
    #[error("{names} names are too many for a table of fingerprints")]
    TooManyNames {
        /// How many.
        names: usize,
    },
    /// Bytes are not those of a saved table.
    #[error("this is no table of fingerprints: {0}")]
    Damaged(&'static str),
}

impl Fingerprints {
    /// The table of a map of rules, with a random seed.
    ///
    /// O(entries), and 16 bytes a name while it is made.
    ///
    /// # Errors
    /// [`FingerprintsError`].
    pub fn new(map: &dyn OrderedRead<[u8]>) -> Result<Self, FingerprintsError> {
        let random = || RandomState::new().build_hasher().finish().to_le_bytes();
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&random());
        seed[8..].copy_from_slice(&random());
        Self::with_seed(map, seed)
    }

    /// The table of a map of rules, with this seed. If two names have the same hash under it, the
    /// next seed is taken, with one added to its first bytes.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// [`FingerprintsError`].
    pub fn with_seed(
        map: &dyn OrderedRead<[u8]>,
        seed: [u8; 16],
    ) -> Result<Self, FingerprintsError> {
        let mut seed = seed;
        loop {
            if let Some(table) = Self::try_seed(map, seed)? {
                return Ok(table);
            }
            let number = u128::from_le_bytes(seed).wrapping_add(1);
            seed = number.to_le_bytes();
        }
    }

    fn try_seed(
        map: &dyn OrderedRead<[u8]>,
        seed: [u8; 16],
    ) -> Result<Option<Self>, FingerprintsError> {
        let meta = Meta::of(map)?;
        let names = map.entries() - 1;
        if u32::try_from(names).is_err() {
            return Err(FingerprintsError::TooManyNames { names });
        }
        let mut numbers: HashMap<Vec<u8>, u16> = HashMap::new();
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut all: Vec<(u64, u16)> = Vec::with_capacity(names);
        for (key, value) in rule_entries(map) {
            let number = match numbers.get(value) {
                Some(number) => *number,
                None => {
                    value::terms(value)?;
                    let number = u16::try_from(values.len());
                    let number = number.map_err(|_| FingerprintsError::TooManyValues)?;
                    values.push(value.to_vec());
                    numbers.insert(value.to_vec(), number);
                    number
                }
            };
            let mut hasher = SipHasher13::new_with_key(&seed);
            hasher.write(&key);
            all.push((hasher.finish(), number));
        }
        Ok(Self::of_hashes(seed, meta, values, all))
    }

    /// The table of hashes and numbers of values; `None` if two hashes are the same.
    fn of_hashes(
        seed: [u8; 16],
        meta: Meta,
        values: Vec<Vec<u8>>,
        mut all: Vec<(u64, u16)>,
    ) -> Option<Self> {
        all.sort_unstable();
        if all.windows(2).any(|two| two[0].0 == two[1].0) {
            return None;
        }
        let bucket_bytes = match all.len() {
            ..1024 => 0,
            1024..1_000_000 => 1,
            _ => 2,
        };
        let code_bytes = if values.len() > 256 { 2 } else { 1 };
        let mut buckets = vec![0_u32; (1 << (8 * bucket_bytes)) + 1];
        let mut prints = Vec::with_capacity(all.len() * (8 - bucket_bytes));
        let mut codes = Vec::with_capacity(all.len() * code_bytes);
        for (hash, number) in &all {
            let hash = hash.to_be_bytes();
            buckets[bucket(&hash, bucket_bytes) + 1] += 1;
            prints.extend_from_slice(&hash[bucket_bytes..]);
            codes.extend_from_slice(&number.to_le_bytes()[..code_bytes]);
        }
        let mut sum = 0;
        for begin in &mut buckets {
            sum += *begin;
            *begin = sum;
        }
        Some(Fingerprints {
            seed,
            meta,
            values,
            bucket_bytes,
            buckets,
            prints,
            codes,
            code_bytes,
        })
    }

    /// The value of the name with this hash.
    fn find(&self, hash: u64) -> Option<&[u8]> {
        let hash = hash.to_be_bytes();
        let bucket = bucket(&hash, self.bucket_bytes);
        let (print, size) = (&hash[self.bucket_bytes..], 8 - self.bucket_bytes);
        let (mut from, mut to) = (
            self.buckets[bucket] as usize,
            self.buckets[bucket + 1] as usize,
        );
        while from < to {
            let middle = from + (to - from) / 2;
            match self.prints[middle * size..][..size].cmp(print) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
                std::cmp::Ordering::Equal => {
                    let code = &self.codes[middle * self.code_bytes..][..self.code_bytes];
                    let high = code.get(1).copied().unwrap_or(0);
                    let number = u16::from_le_bytes([code[0], high]);
                    return self.values.get(usize::from(number)).map(Vec::as_slice);
                }
            }
        }
        None
    }

    /// The rule that answers a question for the name of a key, of this type; `None` if none
    /// applies.
    ///
    /// O(length of the key + labels * log(names / 65,536)).
    pub fn verdict(&self, key: &[u8], rtype: u16) -> Option<Verdict> {
        let mut hasher = SipHasher13::new_with_key(&self.seed);
        let mut found = Vec::new();
        let mut begin = 0;
        // Each label ends with a zero byte, and no other byte of a key is zero.
        let ends = key.iter().enumerate().filter(|(_, byte)| **byte == 0);
        for end in std::iter::once(0).chain(ends.map(|(at, _)| at + 1)) {
            hasher.write(&key[begin..end]);
            begin = end;
            if let Some(value) = self.find(hasher.finish()) {
                found.push((end, value::terms(value).unwrap_or_default()));
            }
        }
        best(key, rtype, self.meta.tiers(), found.into_iter())
    }

    /// What it knows of its lists.
    ///
    /// O(1).
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The seed of the hashes.
    ///
    /// O(1).
    pub fn seed(&self) -> [u8; 16] {
        self.seed
    }

    /// Number of names.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.codes.len() / self.code_bytes
    }

    /// Whether no name has a rule.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Bytes of hashes, numbers of values and places of buckets.
    ///
    /// O(1).
    pub fn bytes(&self) -> usize {
        self.prints.len() + self.codes.len() + 4 * self.buckets.len()
    }

    /// The bytes of a saved table.
    ///
    /// O(names).
    ///
    /// ```
    /// use sapwood_lists::{Fingerprints, Loader, Options, Source};
    ///
    /// let list = Source::text("a", "ads.example\n");
    /// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
    /// let bytes = Fingerprints::new(map.entries())?.to_bytes();
    /// assert_eq!(Fingerprints::from_bytes(&bytes)?.len(), 1);
    /// assert!(Fingerprints::from_bytes(&bytes[1..]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FINGERPRINTS_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([self.bucket_bytes as u8, self.code_bytes as u8, 0, 0]);
        bytes.extend(self.seed);
        let meta = self.meta.value();
        for number in [self.len(), self.values.len(), meta.len()] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(meta);
        for value in &self.values {
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value);
        }
        self.buckets
            .iter()
            .for_each(|begin| bytes.extend(begin.to_le_bytes()));
        bytes.extend(&self.prints);
        bytes.extend(&self.codes);
        bytes.extend(checksum(&self.seed, &bytes).to_le_bytes());
        bytes
    }

    /// Reads the bytes of a saved table, all of which are checked.
    ///
    /// O(bytes).
    ///
    /// # Errors
    /// [`FingerprintsError::Damaged`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FingerprintsError> {
        use FingerprintsError::Damaged;
        let mut rest = bytes
            .strip_prefix(&FINGERPRINTS_MAGIC)
            .ok_or(Damaged("it begins with other bytes"))?;
        if take(&mut rest, 4)? != VERSION.to_le_bytes() {
            return Err(Damaged("it has another version"));
        }
        let sizes = take(&mut rest, 4)?;
        let (bucket_bytes, code_bytes) = (usize::from(sizes[0]), usize::from(sizes[1]));
        let seed: [u8; 16] = take(&mut rest, 16)?
            .try_into()
            .map_err(|_| Damaged("it has no seed"))?;
        let (body, sum) = bytes
            .split_last_chunk::<8>()
            .ok_or(Damaged("it is too short"))?;
        if checksum(&seed, body) != u64::from_le_bytes(*sum) {
            return Err(Damaged("its checksum is another one"));
        }
        let len = take_number(&mut rest)?;
        let count = take_number(&mut rest)?;
        let meta_len = take_number(&mut rest)?;
        let meta =
            Meta::read(take(&mut rest, meta_len)?).ok_or(Damaged("its lists are unsound"))?;
        let mut values = Vec::new();
        for _ in 0..count {
            let len = take_number(&mut rest)?;
            let value = take(&mut rest, len)?;
            value::terms(value)?;
            values.push(value.to_vec());
        }
        if bucket_bytes > 2 || !(1..=2).contains(&code_bytes) || count > MAX_VALUES {
            return Err(Damaged("its sizes are unsound"));
        }
        let places = take(&mut rest, 4 * ((1 << (8 * bucket_bytes)) + 1))?;
        let place = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let buckets: Vec<u32> = places.chunks_exact(4).map(place).collect();
        let of = |size: usize| len.checked_mul(size).ok_or(Damaged("it is too short"));
        let prints = take(&mut rest, of(8 - bucket_bytes)?)?.to_vec();
        let codes = take(&mut rest, of(code_bytes)?)?.to_vec();
        let is_ordered = buckets.windows(2).all(|two| two[0] <= two[1]);
        if rest.len() != 8 || !is_ordered || buckets.last().is_none_or(|end| *end as usize != len) {
            return Err(Damaged("its parts are unsound"));
        }
        Ok(Fingerprints {
            seed,
            meta,
            values,
            bucket_bytes,
            buckets,
            prints,
            codes,
            code_bytes,
        })
    }
}

/// The number of the bucket that the first bytes of a hash say.
fn bucket(hash: &[u8; 8], bytes: usize) -> usize {
    hash[..bytes]
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn checksum(seed: &[u8; 16], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(seed);
    hasher.write(bytes);
    hasher.finish()
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Result<&'b [u8], FingerprintsError> {
    let (taken, behind) = rest
        .split_at_checked(len)
        .ok_or(FingerprintsError::Damaged("it is too short"))?;
    *rest = behind;
    Ok(taken)
}

fn take_number(rest: &mut &[u8]) -> Result<usize, FingerprintsError> {
    let bytes = take(rest, 8)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    usize::try_from(number).map_err(|_| FingerprintsError::Damaged("it is too short"))
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprints")
            .field("names", &self.len())
            .field("values", &self.values.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of random hashes, with as many values.
    fn table(count: usize, values: usize) -> (Fingerprints, Vec<(u64, u16)>) {
        let mut random = fastrand::Rng::with_seed(count as u64);
        let mut all: Vec<(u64, u16)> = (0..count)
            .map(|_| (random.u64(..), random.u16(..values as u16)))
            .collect();
        // Neighbours that differ in their last bits only.
        let near: Vec<_> = all.iter().take(3).map(|(hash, _)| (hash ^ 1, 0)).collect();
        all.extend(near);
        let values = (0..values).map(|n| vec![n as u8, (n >> 8) as u8]).collect();
        let table = Fingerprints::of_hashes([7; 16], Meta::default(), values, all.clone());
        (table.unwrap(), all)
    }

    #[test]
    fn every_hash_of_the_table_and_no_other_is_found() {
        for (count, values, bytes) in [
            (0, 1, 0),
            (1, 1, 9),
            (900, 300, 10),
            (5000, 2, 9),
            (50_000, 1000, 10),
            (1_000_000, 3, 8),
        ] {
            let (table, all) = table(count, values);
            assert_eq!(table.len(), all.len());
            assert!(table.bytes() <= bytes * table.len() + 8, "{table:?}");
            let mut random = fastrand::Rng::with_seed(1);
            for (hash, number) in all.iter().take(20_000) {
                let expected = [*number as u8, (*number >> 8) as u8];
                assert_eq!(table.find(*hash), Some(&expected[..]));
                let other = hash ^ (2 << random.u32(..62));
                assert_eq!(table.find(other), None, "{hash:x} {other:x}");
            }
        }
    }

    #[test]
    fn two_names_with_one_hash_need_another_seed() {
        let all = vec![(5, 0), (9, 0), (5, 1)];
        assert!(Fingerprints::of_hashes([0; 16], Meta::default(), vec![], all).is_none());
    }

    #[test]
    fn saved_tables_read_the_same_and_damage_is_refused() {
        let make = |text: &str| {
            let list = crate::Source::text("a", text);
            crate::Loader::new(vec![list], crate::Options::default())
                .build()
                .unwrap()
                .0
        };
        let map = make("||a.example^\n@@||b.a.example^\n||c.example^$dnsrewrite=192.0.2.1\n");
        let table = Fingerprints::with_seed(map.entries(), [3; 16]).unwrap();
        let bytes = table.to_bytes();
        let again = Fingerprints::from_bytes(&bytes).unwrap();
        assert_eq!((again.to_bytes(), again.seed()), (bytes.clone(), [3; 16]));
        for name in ["x.a.example", "b.a.example", "c.example", "example"] {
            let key = sapwood::key::dns_name(name).unwrap();
            assert_eq!(
                again.verdict(&key, 1),
                map.verdict(name.as_ref(), 1).unwrap()
            );
        }
        let other = Fingerprints::new(map.entries()).unwrap();
        assert_ne!(
            other.seed(),
            Fingerprints::new(map.entries()).unwrap().seed()
        );
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            // The two bytes behind the sizes mean nothing, but the checksum has them.
            assert!(Fingerprints::from_bytes(&damaged).is_err(), "{at}");
            assert!(Fingerprints::from_bytes(&bytes[..at]).is_err(), "{at}");
        }
        // Unsound parts under a right checksum are an error or answers, never a panic.
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..5000 {
            let mut damaged = bytes[..bytes.len() - 8].to_vec();
            let at = random.usize(8..damaged.len());
            damaged[at] = random.u8(..);
            let seed: [u8; 16] = damaged[16..32].try_into().unwrap();
            let sum = checksum(&seed, &damaged);
            damaged.extend(sum.to_le_bytes());
            if let Ok(table) = Fingerprints::from_bytes(&damaged) {
                let _ = table.verdict(b"example\0a\0x\0", 1);
            }
        }
        let mut map = sapwood::qp::QpMap::<[u8]>::new();
        map.insert("x\0", b"\x20").unwrap();
        assert_eq!(Fingerprints::new(&map).unwrap_err(), NotRules.into());
    }

    #[test]
    fn too_many_forms_of_rules_are_an_error() {
        let text: String = (0..=MAX_VALUES)
            .map(|n| format!("10.{}.{}.{} a{n}.example\n", n >> 16, n >> 8 & 255, n & 255))
            .collect();
        let list = crate::Source::text("a", text);
        let (map, _) = crate::Loader::new(vec![list], crate::Options::default())
            .build()
            .unwrap();
        let error = Fingerprints::new(map.entries()).unwrap_err();
        assert_eq!(error, FingerprintsError::TooManyValues);
        assert_eq!(
            error.to_string(),
            "the rules have more than 65536 different forms"
        );
    }
}
