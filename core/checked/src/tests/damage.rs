//! Damaged tries: `verify` finds the damage, or the bytes are another trie.

use std::ops::Range;
use std::sync::atomic::Ordering;

use fastrand::Rng;
use sapwood_format::header::{self, PAGE};
use sapwood_format::inline::{self, Extent};
use sapwood_format::{self as format, branch, cluster};

use super::build::{Builder, Map, any_key, entries_of, some_trie};
use super::tries::{as_it_is, compare, walk};
use super::{Words, get, nodes};
use crate::clusters::Cluster;
use crate::nodes::{Branch, Nodes};
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
            let verified = verify_alone(&nodes(&words));
            let (entries, _) = walk(&words, &[]);
            for _ in 0..5 {
                let _ = get(&nodes(&words), &any_key(&mut rng, 6));
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
        assert_eq!(verify_alone(&nodes(&words)), Ok(map.len()));
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
    let all = [(0, 0, 0), (1, 3, 0), (2, 4, 0), (3, 5, 0), (4, 10, 0)];
    let inline = [(5, 10, 10), (6, 4, 10), (7, 3, 10), (8, 5, 5)];
    for (seed, clusters, inline) in all.into_iter().chain(inline) {
        let words = Words::new(PAGE / 8 + 200);
        let mut rng = Rng::with_seed(seed);
        let mut builder = Builder::new(&words, &mut rng, [clusters, inline, 0]);
        builder.build(&map);
        let end = builder.end;
        let nodes = nodes(&words);
        let mut path = Path::default();
        path.first(&nodes).unwrap();
        let mut parts = Vec::new();
        while path.entry.is_some() {
            parts.extend(path.new_branches().map(|branch| of_branch(&words, branch)));
            parts.extend(
                path.new_cluster()
                    .map(|cluster| of_cluster(&words, cluster)),
            );
            path.step(&nodes).unwrap();
        }
        assert!(!parts.is_empty() && end <= words.0.len() * 8);
        for part in parts {
            for at in part.all.clone() {
                let old = words.byte(at);
                for new in (0..=255).filter(|new| *new != old) {
                    words.write(at, &[new]);
                    let answer = verify_alone(&nodes);
                    if answer.is_err() {
                        continue;
                    }
                    // Exceptions are locks, and bytes that lead to the same child as the old
                    // ones.
                    let is_lock = at == part.all.start + 3 && (new ^ old) & 0x7b == 0;
                    if is_lock || part.leads.contains(&at) {
                        // 0 says that a key ends there.
                        let ends = part.is_cluster && (old == 0 || new == 0);
                        assert!(is_lock || !ends, "{at}");
                        compare(&words, &map, &mut rng);
                    } else {
                        // Part of a leaf may look like another leaf, and a block may end later.
                        let is_size = part.is_inline && at == part.all.start + 5;
                        assert!(is_size || part.leaves.contains(&at), "{at}: {old} {new}");
                        if !part.is_inline || rng.u8(..) == 0 {
                            let there = as_it_is(walk(&words, &[]).0);
                            compare(&words, &there, &mut rng);
                        }
                    }
                }
                words.write(at, &[old]);
            }
        }
    }
}

/// The bytes of a branch or cluster.
struct Part {
    all: Range<usize>,
    /// Bytes of which some may be others.
    leads: Range<usize>,
    /// Cells, or what lies behind the borders of an inline cluster.
    leaves: Range<usize>,
    is_cluster: bool,
    is_inline: bool,
}

fn of_branch(words: &Words, branch: &Branch) -> Part {
    let at = branch.block().0;
    let header = words.u32(at);
    let (cells, end) = (at + branch::cells_at(header), at + branch::size_of(header));
    Part {
        all: at..end,
        leads: at + 4..cells,
        leaves: cells..end,
        is_cluster: false,
        is_inline: false,
    }
}

fn of_cluster(words: &Words, cluster: &Cluster) -> Part {
    let at = cluster.block().0;
    let (header, extent) = (words.u32(at), Extent::of(words.u32(at + 4)));
    let capacity = cluster::capacity_of(header);
    let [_, bytes] = cluster.borders_at();
    let leads = bytes + 1..bytes + capacity;
    let is_inline = cluster.is_inline();
    Part {
        all: match is_inline {
            true => at..at + extent.end,
            false => at..at + cluster::size(capacity),
        },
        leads: leads.clone(),
        leaves: match is_inline {
            true => leads.end..at + extent.end,
            false => at + cluster::cells_at(header)..at + cluster::borders_at(header),
        },
        is_cluster: true,
        is_inline,
    }
}

#[test]
fn leaves_in_a_wrong_place() {
    let words = Words::new(PAGE / 8 + 100);
    let mut rng = Rng::with_seed(6);
    let mut builder = Builder::new(&words, &mut rng, [10, 0, 0]);
    let cell = builder.node(&entries_of(&["a", "ab", "ac"], 1));
    let other = builder.leaf(b"b", 1);
    words.write(
        header::root_at(header::ROOT),
        &u64::from(cell).to_ne_bytes(),
    );
    let nodes = nodes(&words);
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

/// The last slot of a cluster is never dead. In maps that only one writer changes, no slot is.
#[test]
fn slots_that_cannot_be_dead() {
    let words = Words::new(PAGE / 8 + 100);
    let mut rng = Rng::with_seed(6);
    let mut builder = Builder::new(&words, &mut rng, [10, 0, 0]);
    let cell = builder.node(&entries_of(&["a", "ab", "ac"], 1));
    words.write(
        header::root_at(header::ROOT),
        &u64::from(cell).to_ne_bytes(),
    );
    let shared = nodes(&words);
    let other = Nodes {
        dead_slots: false,
        ..shared.clone()
    };
    let at = format::byte_of(cell) + cluster::cells_at(words.u32(format::byte_of(cell)));
    let walked = || walk(&words, &[]);
    let before = |nodes: &Nodes<&Words>, key| Path::default().before(nodes, key);
    // Each of the slots, the last one at the end: then all are dead.
    for (slot, key) in [&b"a"[..], b"ab", b"ac"].into_iter().enumerate() {
        assert!(get(&shared, key).unwrap().is_some());
        words.write(at + 4 * slot, &[0; 4]);
        let may_be = slot < 2;
        assert_eq!(verify_alone(&shared).is_ok(), may_be);
        assert_eq!(walked().1.is_ok(), may_be);
        assert_eq!(walked().0.len(), if may_be { 2 - slot } else { 0 });
        assert_eq!(get(&shared, key).ok(), may_be.then_some(None));
        assert_eq!(before(&shared, Some(b"b")).is_ok(), may_be);
        assert_eq!(before(&shared, None).is_ok(), may_be);
        assert!(matches!(verify_alone(&other), Err(Trouble::Damaged(..))));
        assert!(matches!(get(&other, key), Err(Trouble::Damaged(..))));
    }
}

/// A word that resembles the extent of an inline cluster of a few entries.
fn extent(rng: &mut Rng) -> u32 {
    let end = rng.usize(10..60) * inline::UNIT;
    let extent = Extent {
        end,
        block: inline::block(end),
        prefix: rng.usize(..9),
        dead: 0,
    };
    extent.word()
}

#[test]
fn noise() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..2000 {
        let words = Words::new(PAGE / 8 + rng.usize(..400));
        let most = words.0.len() as u32 * 4;
        for (at, word) in words.0.iter().enumerate().skip(PAGE / 8) {
            let mut half = || match rng.u8(..7) {
                0 => rng.u32(..),
                1 => rng.u32(..300) | rng.u32(..4) << 16 | 2 << 27,
                2 => cluster::header(rng.usize(..9), rng.usize(2..=8), 8),
                4 => extent(&mut rng),
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
        let _ = get(&nodes(&words), &any_key(&mut rng, 6));
        let _ = verify_alone(&nodes(&words));
    }
}
