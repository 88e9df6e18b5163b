//! Files of bit strings, valid and hostile ones, and queries of every kind.

use sapwood::lpm::{BitFile, BitString};
use sapwood_model::choices::Choices;

/// Prefixes of addresses that contain each other, some long ones, and the empty one.
pub fn prefixes(count: usize, choices: &mut impl Choices) -> Vec<BitString> {
    let mut all = vec![BitString::new()];
    while all.len() < count {
        let mut bytes = [0; 256];
        bytes[..2].copy_from_slice(&[choices.below(4) as u8, choices.below(256) as u8]);
        bytes[2..].fill(choices.below(3) as u8);
        let len = if choices.below(20) == 0 { 2048 } else { 33 };
        all.push(BitString::truncated(&bytes, choices.below(len + 1)).unwrap());
    }
    all
}

/// Calls every query; the answers may be wrong, but each call must return.
pub fn query_everything(file: &BitFile<u64>, queries: &[BitString]) {
    let mut sum = file.iter().take(300).fold(0, |sum, (_, v)| sum ^ v);
    sum ^= file.iter().rev().take(300).fold(0, |sum, (_, v)| sum ^ v);
    for query in queries {
        sum ^= file.get(query).copied().unwrap_or(0);
        sum ^= file.lookup(query).map_or(0, |(len, v)| len as u64 ^ v);
        sum ^= file.matches(query).fold(0, |sum, (_, v)| sum ^ v);
        let covered = file.covered_by(query).take(20);
        sum ^= covered.fold(0, |sum, (_, v)| sum ^ v);
        // Steps only go forward, so there are at most as many as prefixes.
        let children = file.children(query).take(3_000).count();
        assert!(children < 3_000);
    }
    let mut found = vec![None; queries.len()];
    file.lookup_batch(queries, &mut found);
    sum ^= found.into_iter().flatten().fold(0, |sum, (_, v)| sum ^ v);
    sum ^= file
        .names()
        .take(50)
        .map(|name| name.len() as u64)
        .sum::<u64>();
    sum ^= file.name(3).map_or(0, |name| name.len() as u64);
    std::hint::black_box(sum);
    let _ = (file.verify(), file.len(), file.is_empty());
}

/// Checks that a file opened with all checks keeps its guarantees, whoever made it.
pub fn is_whole(file: &BitFile<u64>) {
    assert_eq!(file.iter().count(), file.len());
    assert_eq!(file.iter().rev().count(), file.len());
    assert_eq!(file.names().count(), file.names_len() as usize);
    let mut before = None;
    for (prefix, value) in file.iter() {
        assert_eq!(file.get(&prefix), Some(value));
        assert_eq!(file.lookup(&prefix), Some((prefix.len(), value)));
        assert!(before.is_none_or(|before| before < prefix), "not in order");
        before = Some(prefix);
    }
    for (index, name) in file.names().enumerate() {
        assert_eq!(file.name(index as u32), Some(name));
    }
    file.verify().unwrap();
}
