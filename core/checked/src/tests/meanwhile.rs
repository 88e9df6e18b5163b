//! Tries that are written while they are read.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use sapwood_format::header::{self, PAGE};
use sapwood_format::{self as format, branch, cluster};

use super::build::{Builder, any_key, entries_of, some_trie};
use super::{Words, get, nodes};
use crate::find::Lookup;
use crate::path::Path;
use crate::verify::verify_alone;
use crate::{Trouble, Window};

/// A write: its place and its bytes.
type Write = (usize, Vec<u8>);

/// A window to which the test writes before the reads with these numbers.
struct Staged<'a> {
    words: &'a Words,
    read: Cell<usize>,
    writes: [(usize, &'a Write); 2],
}

impl Staged<'_> {
    fn reads(&self) {
        let read = self.read.replace(self.read.get() + 1);
        for (_, (at, bytes)) in self.writes.iter().filter(|(when, _)| *when == read) {
            self.words.write(*at, bytes);
        }
    }
}

impl Window for Staged<'_> {
    fn len(&self) -> usize {
        self.words.len()
    }

    fn u32(&self, at: usize) -> u32 {
        self.reads();
        self.words.u32(at)
    }

    fn u64(&self, at: usize) -> u64 {
        self.reads();
        self.words.u64(at)
    }
}

/// A branch above two clusters, which are inline from 3 on, a write that replaces some of the
/// nodes, and a write that reuses their memory for nodes that resemble them.
fn changed(what: usize) -> (Words, [Write; 2]) {
    let words = Words::new(PAGE / 8 + 200);
    let mut rng = Rng::with_seed(5);
    let of_ten = [10, if what < 3 { 0 } else { 10 }, 0];
    let mut builder = Builder::new(&words, &mut rng, of_ten);
    let left = builder.node(&entries_of(&["a", "ab", "ac"], 1));
    let right = builder.node(&entries_of(&["b", "ba", "bb"], 1));
    let top = builder.branch(0, b"b", &[left, right]);
    words.write(header::root_at(header::ROOT), &u64::from(top).to_ne_bytes());
    let cells = format::byte_of(top) + branch::cells_at(words.u32(format::byte_of(top)));
    let copy = |from: u32, to: u32, len: usize| {
        let (from, to) = (format::byte_of(from), format::byte_of(to));
        (
            to,
            (from..from + len)
                .map(|at| words.byte(at))
                .collect::<Vec<u8>>(),
        )
    };
    let header = words.u32(format::byte_of(left));
    let cluster = nodes(&words).cluster(left);
    let (from, to) = cluster.unwrap_or_else(|_| panic!()).block();
    let size = to - from;
    let writes = match what {
        // A value is replaced.
        0 => {
            let at = format::byte_of(left) + cluster::cells_at(header) + 4;
            let old = words.u32(at);
            let new = builder.leaf(b"ab", 2);
            let other = builder.leaf(b"00", 3);
            [(at, new.to_ne_bytes().to_vec()), copy(other, old, 16)]
        }
        // A cluster is replaced by one with another key.
        1 | 3 => {
            let new = builder.node(&entries_of(&["a", "aa", "ab", "ac"], 1));
            let other = builder.node(&entries_of(&["x", "xa", "xb"], 3));
            let mut reuse = copy(other, left, size);
            reuse.1[..4].copy_from_slice(&header.to_ne_bytes());
            [(cells, new.to_ne_bytes().to_vec()), reuse]
        }
        // The branch is replaced.
        _ => {
            let third = builder.leaf(b"c", 1);
            let new = builder.branch(0, b"bc", &[left, right, third]);
            let other = builder.branch(0, b"x", &[right, third]);
            let at = header::root_at(header::ROOT);
            [(at, new.to_ne_bytes().to_vec()), copy(other, top, 16)]
        }
    };
    (words, writes)
}

#[test]
fn headers_are_looked_at_again() {
    let (words, _) = changed(0);
    let nodes = nodes(&words);
    let mut lookup = Lookup::default();
    for key in [&b"ab"[..], b"abx", b"b"] {
        lookup.find(&nodes, key).unwrap();
        lookup.look_again(&nodes).unwrap();
        let (top, cluster) = (nodes.root(), lookup.end);
        for at in [top, cluster].map(format::byte_of) {
            let old = words.byte(at);
            words.write(at, &[old ^ 1]);
            assert_eq!(lookup.look_again(&nodes), Err(Trouble::Changed));
            // The state of a lock may be either.
            words.write(at, &[old]);
            words.write(at + 3, &[words.byte(at + 3) ^ 4]);
            lookup.look_again(&nodes).unwrap();
        }
    }
}

/// Every operation ends, whatever is written meanwhile.
#[test]
fn written_meanwhile() {
    let mut rng = Rng::with_seed(4);
    for round in 0..40 {
        let (words, end, ..) = some_trie(&mut rng, 200);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::with_seed(round);
                while !over.load(Ordering::Relaxed) {
                    let from = rng.usize(PAGE / 8..end / 8);
                    let word = words.0[from].load(Ordering::Relaxed);
                    let to = &words.0[rng.usize(PAGE / 8..end / 8)];
                    let old = to.swap(word, Ordering::AcqRel);
                    to.store(old, Ordering::Release);
                }
            });
            let nodes = nodes(&words);
            for _ in 0..50 {
                let key = any_key(&mut rng, 6);
                let _ = get(&nodes, &key);
                let _ = verify_alone(&nodes);
                let (mut path, mut from, mut stands) = (Path::default(), key, false);
                let mut left = words.0.len() * 2;
                while let Ok(Some((key, _))) = path.entry(&nodes, &from, stands, stands) {
                    assert!(key > from || !stands);
                    (from, stands, left) = (key, true, left - 1);
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn memory_that_is_used_again() {
    let stay: [&[u8]; 6] = [b"a", b"ab", b"ac", b"b", b"ba", b"bb"];
    let mut disturbed = 0;
    for (what, ask) in (0..5).flat_map(|what| (0..6).map(move |ask| (what, ask))) {
        let mut reads = 0;
        for first in 0.. {
            for second in first.. {
                let (words, [publish, reuse]) = changed(what);
                let staged = Staged {
                    words: &words,
                    read: Cell::new(0),
                    writes: [(first, &publish), (second, &reuse)],
                };
                let nodes = nodes(&staged);
                let mut tries = 0;
                let mut again = |trouble| {
                    tries += 1;
                    assert!(tries < 8, "{trouble:?}");
                };
                let mut path = Path::default();
                if let Some(key) = [&b"ab"[..], b"bb", b"aa"].get(ask) {
                    let found = loop {
                        match get(&nodes, key) {
                            Ok(found) => break found,
                            Err(trouble) => again(trouble),
                        }
                    };
                    let found = found.map(|value| value[0]);
                    match ask {
                        0 => assert!(matches!(found, Some(1 | 2)), "{found:?}"),
                        1 => assert_eq!(found, Some(1)),
                        _ => assert!(matches!(found, None | Some(1)), "{found:?}"),
                    }
                } else {
                    let from = [&b""[..], b"abx", b"b"][ask - 3];
                    let (mut from, mut strict, mut stands) = (from.to_vec(), false, false);
                    let mut left: Vec<&[u8]> = stay.to_vec();
                    left.retain(|key| **key >= *from);
                    loop {
                        match path.entry(&nodes, &from, strict, stands) {
                            Ok(None) => break,
                            Ok(Some((key, value))) => {
                                left.retain(|left| *left != key);
                                assert!(value[0] == 1 || (&*key, value[0]) == (b"ab", 2));
                                (from, strict, stands) = (key, true, true);
                            }
                            Err(_) if stands => stands = false,
                            Err(trouble) => again(trouble),
                        }
                    }
                    assert!(left.is_empty(), "{left:?}");
                }
                disturbed += tries;
                reads = reads.max(staged.read.get());
                if second > reads {
                    break;
                }
            }
            if first > reads {
                break;
            }
        }
    }
    assert!(disturbed > 1000, "{disturbed}");
}
