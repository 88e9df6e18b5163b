//! Random keys.

use fastrand::Rng;

use super::DataSet;

/// Generates `count` distinct random keys of 8 bytes.
#[must_use]
pub fn random_u64(count: usize, seed: u64) -> DataSet {
    let mut rng = Rng::with_seed(seed);
    let keys = std::iter::repeat_with(|| Box::from(rng.u64(..).to_be_bytes()) as Box<[u8]>);
    distinct(
        "random-u64",
        format!("random 8-byte keys, seed {seed}"),
        count,
        keys,
    )
}

/// Generates `count` distinct keys of 1 to 255 random bytes. All lengths are equally likely.
///
/// # Panics
///
/// If `count` is above 1,000,000, for which there are too few keys of one byte.
#[must_use]
pub fn random_binary(count: usize, seed: u64) -> DataSet {
    assert!(count <= 1_000_000, "at most a million keys");
    let mut rng = Rng::with_seed(seed);
    let keys = std::iter::repeat_with(|| {
        let mut key = vec![0; rng.usize(1..=255)];
        rng.fill(&mut key);
        key.into_boxed_slice()
    });
    distinct(
        "random-binary",
        format!("1 to 255 random bytes, seed {seed}"),
        count,
        keys,
    )
}

/// The first `count` distinct keys of an endless source.
pub(super) fn distinct(
    name: &'static str,
    how: String,
    count: usize,
    keys: impl Iterator<Item = Box<[u8]>>,
) -> DataSet {
    let mut seen = std::collections::HashSet::with_capacity(count);
    let keys = keys
        .filter(|key| seen.insert(key.clone()))
        .take(count)
        .collect();
    DataSet { name, keys, how }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn counts_and_lengths_hold() {
        let numbers = random_u64(5000, 1);
        assert!(numbers.keys.iter().all(|key| key.len() == 8));
        assert_eq!(numbers.keys.iter().collect::<HashSet<_>>().len(), 5000);
        assert_ne!(numbers, random_u64(5000, 2));
        let strings = random_binary(16_384, 1);
        let lengths: HashSet<_> = strings.keys.iter().map(|key| key.len()).collect();
        assert_eq!((lengths.len(), strings.keys.len()), (255, 16_384));
    }
}
