//! Damaged tries: `verify` finds the damage, or the bytes are another trie.

use std::sync::atomic::Ordering;

use fastrand::Rng;
use sapwood_format::header::{self, PAGE};
use sapwood_format::{self as format, branch, cluster};

use super::build::{Builder, Map, any_key, entries_of, some_trie};
use super::tries::{as_it_is, compare, walk};
use super::{Words, get};
use crate::nodes::Nodes;
use crate::path::Path;
use crate::verify::verify_alone;
use crate::{Trouble, Window};

/// `verify` finds damage, or the bytes are a valid map: then all methods agree.
#[test]
fn damaged_tries() {
    let mut rng = Rng::with_seed(2);
    let (mut caught, mut whole) = (0, 0);
    for round in 0..60 {
        let (words, end, map, _) = some_trie(&mut rng, [3, 30, 300][round % 3]);
        for _ in 0..60 {
            let len = [1, 1, 1, 4, 8, 100][rng.usize(..6)];
            let at = rng.usize(PAGE..end + 8);
            let at = if len == 1 { at } else { at / 4 * 4 };
            let len = len.min(words.0.len() * 8 - at);
            let from = rng.usize(PAGE..=PAGE.max(end - len));
            let old: Vec<u8> = (at..at + len).map(|at| words.byte(at)).collect();
            let kind = rng.u8(..3);
            let mut new = |i: usize, old: &u8| match kind {
                0 => old ^ 1 << rng.u8(..8),
                1 => rng.u8(..),
                _ => words.byte(from + i),
            };
            let new: Vec<u8> = old.iter().enumerate().map(|(i, old)| new(i, old)).collect();
            words.write(at, &new);
            let verified = verify_alone(&Nodes::new(&words, 8));
            let (entries, _) = walk(&words, &[]);
            for _ in 0..5 {
                let _ = get(&Nodes::new(&words, 8), &any_key(&mut rng, 6));
                let _ = walk(&words, &any_key(&mut rng, 6));
            }
            match verified {
                Err(_) => caught += 1,
                Ok(count) => {
                    whole += 1;
                    let there = as_it_is(entries);
                    assert_eq!(count, there.len());
                    compare(&words, &there, &mut rng);
                }
            }
            words.write(at, &old);
        }
        assert_eq!(verify_alone(&Nodes::new(&words, 8)), Ok(map.len()));
    }
    assert!(caught > 500 && whole > 100, "{caught} {whole}");
}

/// A change of any byte that describes a cluster or a branch is found.
#[test]
fn every_byte_is_checked() {
    let keys = [
        "", "a", "ab", "abc", "abd", "b", "ba", "bb", "c", "larch", "larches", "x",
    ];
    let map: Map = keys
        .iter()
        .map(|key| (key.as_bytes().to_vec(), 1))
        .collect();
    for (seed, clusters) in [(0, 0), (1, 3), (2, 4), (3, 5), (4, 10)] {
        let words = Words::new(PAGE / 8 + 200);
        let mut rng = Rng::with_seed(seed);
        let mut builder = Builder {
            words: &words,
            rng: &mut rng,
            end: PAGE,
            clusters,
            dying: 0,
            dead: Vec::new(),
            wrote: [0; 3],
        };
        builder.build(&map);
        let end = builder.end;
        let nodes = Nodes::new(&words, 8);
        let mut path = Path::default();
        path.first(&nodes).unwrap();
        let mut blocks = Vec::new();
        while path.leaf != 0 {
            blocks.extend(path.new_branches().map(|branch| (branch.block(), false)));
            blocks.extend(path.new_cluster().map(|cluster| (cluster.block(), true)));
            path.step(&nodes).unwrap();
        }
        assert!(!blocks.is_empty() && end <= words.0.len() * 8);
        for ((from, _), is_cluster) in blocks {
            let header = nodes.window.u32(from);
            let used = match is_cluster {
                true => cluster::size(cluster::capacity_of(header)),
                false => branch::size_of(header),
            };
            for at in from..from + used {
                let old = words.byte(at);
                for new in (0..=255).filter(|new| *new != old) {
                    words.write(at, &[new]);
                    let answer = verify_alone(&nodes);
                    if answer.is_err() {
                        continue;
                    }
                    // Exceptions are locks, and bytes that lead to the same child as the old
                    // ones.
                    let is_lock = at == from + 3 && (new ^ old) & 0x7b == 0;
                    let leads = match is_cluster {
                        true => at > from + cluster::bytes_at(header),
                        false => (from + 4..from + branch::cells_at(header)).contains(&at),
                    };
                    if is_lock || leads {
                        // 0 says that a key ends there.
                        assert!(is_lock || !is_cluster || (old != 0 && new != 0), "{at}");
                        compare(&words, &map, &mut rng);
                    } else {
                        // Part of a leaf may look like another leaf.
                        let cells = match is_cluster {
                            true => cluster::cells_at(header)..cluster::borders_at(header),
                            false => branch::cells_at(header)..used,
                        };
                        assert!(cells.contains(&(at - from)), "{at}: {old} {new}");
                        let there = as_it_is(walk(&words, &[]).0);
                        compare(&words, &there, &mut rng);
                    }
                }
                words.write(at, &[old]);
            }
        }
    }
}

#[test]
fn leaves_in_a_wrong_place() {
    let words = Words::new(PAGE / 8 + 100);
    let mut rng = Rng::with_seed(6);
    let mut builder = Builder {
        words: &words,
        rng: &mut rng,
        end: PAGE,
        clusters: 10,
        dying: 0,
        dead: Vec::new(),
        wrote: [0; 3],
    };
    let cell = builder.node(&entries_of(&["a", "ab", "ac"], 1));
    let other = builder.leaf(b"b", 1);
    words.write(
        header::root_at(header::ROOT),
        &u64::from(cell).to_ne_bytes(),
    );
    let nodes = Nodes::new(&words, 8);
    let entry = |from: &[u8], strict| Path::default().entry(&nodes, from, strict, false);
    let keys = [entry(b"", false), entry(b"a", true), entry(b"abx", true)];
    let keys = keys.map(|entry| entry.unwrap().unwrap().0);
    assert_eq!(keys, [&b"a"[..], b"ab", b"ac"]);
    // The keys ascend, but a search in the cluster would not find this one.
    let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
    assert_eq!(cluster.leaves(), 3);
    let header = nodes.window.u32(format::byte_of(cell));
    let third = format::byte_of(cell) + cluster::cells_at(header) + 8;
    words.write(third, &other.to_ne_bytes());
    assert!(matches!(entry(b"abx", true), Err(Trouble::Damaged(..))));
    assert!(matches!(verify_alone(&nodes), Err(Trouble::Damaged(..))));
    assert_eq!(get(&nodes, b"b"), Ok(None));
}

#[test]
fn noise() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..2000 {
        let words = Words::new(PAGE / 8 + rng.usize(..400));
        let most = words.0.len() as u32 * 4;
        for (at, word) in words.0.iter().enumerate().skip(PAGE / 8) {
            let mut half = || match rng.u8(..6) {
                0 => rng.u32(..),
                1 => rng.u32(..300) | rng.u32(..4) << 16 | 2 << 27,
                2 => cluster::header(rng.usize(..9), rng.usize(2..=8), 8),
                3 => u32::from_ne_bytes([rng.u8(..4), rng.u8(4..9), rng.u8(9..), 255]),
                _ => rng.u32(PAGE as u32 / 2..most + 1),
            };
            let halves = [half(), half()].map(u64::from);
            word.store(halves[at % 2] | halves[1 - at % 2] << 32, Ordering::Relaxed);
        }
        let cell = rng.u32(PAGE as u32 / 2..most + 1);
        words.write(
            header::root_at(header::ROOT),
            &u64::from(cell).to_ne_bytes(),
        );
        let _ = walk(&words, &any_key(&mut rng, 6));
        let _ = get(&Nodes::new(&words, 8), &any_key(&mut rng, 6));
        let _ = verify_alone(&Nodes::new(&words, 8));
    }
}
