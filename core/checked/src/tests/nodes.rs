//! Branches, clusters and leaves: all shapes, and what is none.

use sapwood_format::branch::{self, BIG, FRESH, LABELS_AT, LOCKS, MAP_AT};
use sapwood_format::header::PAGE;
use sapwood_format::{CLUSTER, branch_cell, cluster, cluster_cell, leaf_cell};

use super::Words;
use crate::Trouble;
use crate::nodes::{Nodes, mismatch};

/// The reference of the first node.
const FIRST: u32 = (PAGE / 8) as u32;

fn damaged<T>(result: Result<T, Trouble>) -> Option<&'static str> {
    match result {
        Err(Trouble::Damaged(why, _)) => Some(why),
        _ => None,
    }
}

/// Writes a branch with these labels for the sixth byte as the first node.
fn written(words: &Words, labels: &[u8]) -> u32 {
    let header = branch::header(5, labels.len());
    words.write(PAGE, &header.to_ne_bytes());
    if header & BIG == 0 {
        let last = [labels[labels.len() - 1]; 4];
        words.write(PAGE + LABELS_AT, labels);
        let padding = branch::padded(labels.len()) - labels.len();
        words.write(PAGE + LABELS_AT + labels.len(), &last[..padding]);
    } else {
        for byte in 0..=255 {
            let child = labels.iter().filter(|label| **label <= byte).count();
            let mapped = branch::mapped(labels.len(), child);
            words.write(PAGE + MAP_AT + usize::from(byte), &[mapped]);
        }
    }
    header
}

#[test]
fn children_by_runs() {
    let words = Words::new(1024);
    let nodes = Nodes::new(&words, 8);
    let some: [u8; 6] = [0, 1, 63, 64, 200, 255];
    let many: Vec<u8> = (3..=250).step_by(3).collect();
    let all: Vec<u8> = (0..=255).collect();
    for labels in [
        &some[..],
        &[7],
        &many[..32],
        &many[..33],
        &many,
        &all[1..],
        &all,
    ] {
        let header = written(&words, labels);
        let branch = nodes
            .branch(branch_cell(FIRST), 5)
            .unwrap_or_else(|_| panic!());
        nodes.check_branch(&branch, true).unwrap();
        assert_eq!(branch.children(), labels.len() + 1);
        assert_eq!(branch.block(), (PAGE, PAGE + branch::block_of(header)));
        assert_eq!(branch.child(b"short"), 0);
        for byte in 0..=255 {
            let child = labels.iter().filter(|label| **label <= byte).count();
            assert_eq!(branch.child(&[9, 9, 9, 9, 9, byte, 9]), child);
        }
        // The state of locks is ignored, unless they must be free.
        words.write(PAGE, &(header | LOCKS).to_ne_bytes());
        let branch = nodes
            .branch(branch_cell(FIRST), 0)
            .unwrap_or_else(|_| panic!());
        assert!(nodes.is_still(&branch));
        nodes.check_branch(&branch, false).unwrap();
        nodes.check_branch(&branch, true).unwrap_err();
        assert!(damaged(nodes.branch(branch_cell(FIRST), 6)).is_some());
    }
}

#[test]
fn labels_that_are_none() {
    let words = Words::new(1024);
    let nodes = Nodes::new(&words, 8);
    let cell = branch_cell(FIRST);
    for label in [0, 1, 9] {
        written(&words, &[1, 3, 9]);
        words.write(PAGE + LABELS_AT + 1, &[label]);
        assert!(damaged(nodes.branch(cell, 0)).is_some(), "{label}");
    }
    written(&words, &[1, 3, 9]);
    words.write(PAGE + LABELS_AT + 3, &[10]);
    let branch = nodes.branch(cell, 0).unwrap_or_else(|_| panic!());
    assert!(nodes.check_branch(&branch, false).is_err());
    let many: Vec<u8> = (0..=255).step_by(2).collect();
    for byte in [0, 1, 77, 128, 255] {
        written(&words, &many);
        let at = PAGE + MAP_AT + byte;
        let mapped = words.byte(at);
        for wrong in [mapped + 1, mapped.wrapping_sub(1)] {
            words.write(at, &[wrong]);
            // Two bytes have the same child, so the border between two children may be moved.
            let moves = byte % 2 == 1 && byte != 255 && wrong == mapped + 1
                || byte % 2 == 0 && wrong.wrapping_add(1) == mapped;
            assert_eq!(
                damaged(nodes.branch(cell, 0)).is_none(),
                moves,
                "{byte} {wrong}"
            );
        }
    }
}

/// Writes a cluster, and returns the places of its parts.
fn cluster_of(words: &Words, base: usize, borders: &[(u8, u8)], capacity: usize) -> u32 {
    let header = cluster::header(base, borders.len(), capacity);
    words.write(PAGE, &header.to_ne_bytes());
    for (i, (distance, byte)) in borders.iter().enumerate() {
        words.write(PAGE + cluster::borders_at(header) + i, &[*distance]);
        words.write(PAGE + cluster::bytes_at(header) + i, &[*byte]);
    }
    header
}

#[test]
fn searches_in_clusters() {
    let words = Words::new(1024);
    let nodes = Nodes::new(&words, 8);
    let keys: [&[u8]; 7] = [b"a", b"abba", b"abbey", b"abbot", b"b", b"bee", b"beech"];
    let borders = [
        (0, 0),
        (1, 0),
        (3, b'c'),
        (3, b'o'),
        (0, b'b'),
        (1, 0),
        (3, 0),
    ];
    let header = cluster_of(&words, 0, &borders, 8);
    let cell = cluster_cell(FIRST);
    let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
    assert_eq!((cluster.leaves(), cluster.block().1), (7, PAGE + 64));
    nodes.check_cluster(&cluster, true).unwrap();
    assert!(nodes.borders(&cluster, 1).is_err());
    let borders = nodes.borders(&cluster, 0).unwrap_or_else(|_| panic!());
    for (i, key) in keys.into_iter().enumerate() {
        assert_eq!(borders.search(key), i, "{key:?}");
        for (j, before) in keys.iter().enumerate().take(i) {
            assert!(borders.part((j, i), before, key), "{key:?}");
            assert!(!borders.part((j, i), key, before), "{key:?}");
        }
    }
    for (left, right, part) in [
        ("abbn", "abbo", true),
        ("abba", "abbz", true),
        ("abbo", "abbp", false),
        ("abba", "abbn", false),
        ("abb", "abbo", false),
        ("abba", "abcz", false),
    ] {
        let (left, right) = (left.as_bytes(), right.as_bytes());
        assert_eq!(borders.part((2, 3), left, right), part);
    }
    for (asked, place) in [
        ("", 0),
        ("aa", 1),
        ("abb", 1),
        ("abbb", 2),
        ("abbe", 2),
        ("abbf", 3),
        ("abc", 4),
        ("ax", 4),
        ("be", 5),
        ("beer", 7),
        ("bees", 7),
        ("c", 7),
    ] {
        let asked = asked.as_bytes();
        let found = borders.search(asked);
        let at = mismatch(asked, keys[found]).unwrap();
        assert_eq!(
            borders.place(found, at, asked < keys[found]),
            place,
            "{asked:?}"
        );
    }
    // Locks, and slots that have no leaf.
    words.write(PAGE, &(header | FRESH).to_ne_bytes());
    let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
    assert_eq!(cluster.words().next(), Some((PAGE, !FRESH, header)));
    nodes.check_cluster(&cluster, false).unwrap();
    nodes.check_cluster(&cluster, true).unwrap_err();
    for at in [
        cluster::TAGS_AT + 7,
        cluster::cells_at(header) + 28,
        cluster::cells_at(header) + 31,
        cluster::borders_at(header),
        cluster::borders_at(header) + 7,
        cluster::bytes_at(header),
        cluster::bytes_at(header) + 7,
    ] {
        words.write(PAGE + at, &[1]);
        nodes.check_cluster(&cluster, false).unwrap_err();
        words.write(PAGE + at, &[0]);
    }
    nodes.check_cluster(&cluster, false).unwrap();
}

#[test]
fn nothing_is_read_outside() {
    let words = Words::new(PAGE / 8 + 4);
    let nodes = Nodes::new(&words, 8);
    for reference in [0, 1, FIRST - 1, FIRST + 4, FIRST + 5, u32::MAX >> 2] {
        assert!(damaged(nodes.branch(branch_cell(reference), 0)).is_some());
        assert!(damaged(nodes.cluster(cluster_cell(reference))).is_some());
        assert!(damaged(nodes.leaf(leaf_cell(reference))).is_some());
    }
    // Nodes that begin inside the window and end outside.
    for (header, sound) in [
        (cluster::header(0, 2, 4), true),
        (cluster::header(0, 2, 8), false),
    ] {
        words.write(PAGE, &header.to_ne_bytes());
        assert_eq!(nodes.cluster(cluster_cell(FIRST)).is_ok(), sound);
    }
    for (labels, sound) in [
        (4, true),
        (5, false),
        (32, false),
        (33, false),
        (256, false),
    ] {
        words.write(PAGE, &branch::header(0, labels).to_ne_bytes());
        words.write(PAGE + LABELS_AT, &[1, 2, 3, 4]);
        assert_eq!(
            nodes.branch(branch_cell(FIRST), 0).is_ok(),
            sound,
            "{labels}"
        );
    }
    for (len, sound) in [(23, true), (24, false), (254, false)] {
        words.write(PAGE + 8, &[len]);
        assert_eq!(nodes.leaf(leaf_cell(FIRST)).is_ok(), sound, "{len}");
    }
    // A cell has the kind of its node.
    assert!(damaged(nodes.leaf(leaf_cell(FIRST) | CLUSTER)).is_some());
    assert!(damaged(nodes.leaf(cluster_cell(FIRST))).is_some());
    assert!(damaged(nodes.branch(leaf_cell(FIRST), 0)).is_some());
    assert!(damaged(nodes.cluster(branch_cell(FIRST))).is_some());
}
