//! Longest match where the last byte of a stored key may stand for less than a whole byte of the query.
//!
//! Keys over bit strings have such bytes: one for each whole group of bits, and at the end perhaps one for the bits
//! that are left over. A byte of a query then has *alternatives*, the bytes that stand for its first bits. A stored
//! key matches a query when it is the query's first `k` bytes, or those and one alternative of the next byte.
//! Alternatives end keys, so the trie has them as labels of leaves only.

use super::batch::{LANES, descend};
use super::leaf::mismatch;
use super::mem::Mem;
use super::node::{Branch, END, LEAF};
use super::view::View;

/// The alternatives of a byte, from the one with the most bits down; the rest is 0.
pub(crate) type Alternatives = [u8; 3];

/// How many of the branches passed last a descent knows. Tables of addresses are seldom so deep.
const TRAIL: usize = 16;

/// The branches on the way down; of many, the last.
#[derive(Clone, Copy)]
struct Trail {
    cells: [u32; TRAIL],
    depth: usize,
}

impl Trail {
    const fn new() -> Self {
        Trail {
            cells: [0; TRAIL],
            depth: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, cell: u32) {
        self.cells[self.depth % TRAIL] = cell;
        self.depth += 1;
    }
}

impl<V, M: Mem> View<'_, V, M> {
    /// The leaf of the longest key that matches.
    ///
    /// One descent, one leaf compared, and then up again: the first branch (from below) that lies within what agrees and has
    /// an alternative or an end has the answer. O(branches on the way).
    #[inline]
    pub(crate) fn longest_match(
        &self,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<u32> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        let mut trail = Trail::new();
        while cell & LEAF == 0 {
            (cell, min) = self.toward(cell, min, key, &mut trail, &alternatives)?;
        }
        self.longest_at(cell, key, &trail, alternatives)
    }

    /// Calls `each(i, leaf cell)` in order with the longest match of each key, or with 0. Descents are interleaved.
    pub(crate) fn longest_matches<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        alternatives: impl Fn(u8) -> Alternatives,
        mut each: impl FnMut(usize, u32),
    ) {
        for (g, group) in keys.chunks(LANES).enumerate() {
            let mut lanes: [&[u8]; LANES] = [&[]; LANES];
            for (lane, key) in lanes.iter_mut().zip(group) {
                *lane = key.as_ref();
            }
            let mut trails = [const { Trail::new() }; LANES];
            let cells = descend(self, &lanes, group.len(), |lane, cell, min, key| {
                self.toward(cell, min, key, &mut trails[lane], &alternatives)
                    .unwrap_or((LEAF, 0))
            });
            for (i, key) in lanes[..group.len()].iter().enumerate() {
                let leaf = (cells[i] > LEAF)
                    .then(|| self.longest_at(cells[i], key, &trails[i], &alternatives));
                each(g * LANES + i, leaf.flatten().unwrap_or(0));
            }
        }
    }

    /// One step down: to the child that `key` goes to; or, off the way, to a leaf that agrees with it for as long as any
    /// does.
    #[inline(always)]
    fn toward(
        &self,
        cell: u32,
        min: usize,
        key: &[u8],
        trail: &mut Trail,
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<(u32, usize)> {
        let b = self.branch(cell, min)?;
        let min = b.offset() + 1;
        let next = match self.index(b, key) {
            Some(i) => {
                trail.push(cell);
                self.child(b, i)?
            }
            // What would be the answer also tells how far keys agree here.
            None => match self.best_here(b, key, alternatives) {
                Some(leaf) => leaf,
                None => self.first_below(self.child(b, 0)?, min)?,
            },
        };
        Some((next, min))
    }

    /// The longest match, when the way down ended at this leaf.
    #[inline(always)]
    fn longest_at(
        &self,
        leaf: u32,
        key: &[u8],
        trail: &Trail,
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<u32> {
        let last = self.key(leaf)?;
        let agree = mismatch(key, last).unwrap_or(key.len());
        if is_match(key, last, agree, &alternatives) {
            return Some(leaf);
        }
        let known = trail.depth.saturating_sub(TRAIL);
        for i in (known..trail.depth).rev() {
            let b = self.branch(trail.cells[i % TRAIL], 0)?;
            if b.offset() <= agree {
                if let Some(leaf) = self.best_here(b, key, &alternatives) {
                    return Some(leaf);
                }
            }
        }
        if known == 0 {
            return None;
        }
        self.best_above(key, known, agree, &alternatives)
    }

    /// The longest match among what ends at the first `depth` branches on the way of `key`.
    #[cold]
    fn best_above(
        &self,
        key: &[u8],
        depth: usize,
        agree: usize,
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<u32> {
        let mut best = None;
        let mut cell = self.root;
        let mut min = 0;
        for _ in 0..depth {
            let b = self.branch(cell, min)?;
            if b.offset() > agree {
                break;
            }
            min = b.offset() + 1;
            best = self.best_here(b, key, &alternatives).or(best);
            cell = self.child(b, self.index(b, key)?)?;
        }
        best
    }

    /// Calls `each` with the leaves of all keys that match, the shortest key first.
    pub(crate) fn all_matches(
        &self,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
        mut each: impl FnMut(u32),
    ) -> Option<()> {
        let (last, agree) = self.nearest(key)?;
        let mut cell = self.root;
        let mut min = 0;
        while cell & LEAF == 0 {
            let b = self.branch(cell, min)?;
            let offset = b.offset();
            if offset > agree {
                break;
            }
            min = offset + 1;
            self.end_here(b).into_iter().for_each(&mut each);
            let byte = *key.get(offset)?;
            for other in alternatives(byte).into_iter().rev() {
                self.alternative_here(b, other)
                    .into_iter()
                    .for_each(&mut each);
            }
            // SAFETY: a branch that `branch` returned is whole.
            cell = self.child(b, unsafe { b.find(byte) }?)?;
        }
        if is_match(key, self.key(last)?, agree, alternatives) {
            each(last);
        }
        Some(())
    }

    /// A leaf whose key agrees with `key` for as long as any does, and how long that is.
    fn nearest(&self, key: &[u8]) -> Option<(u32, usize)> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & LEAF == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, self.index(b, key).unwrap_or(0))?;
        }
        let agree = mismatch(key, self.key(cell)?).unwrap_or(key.len());
        Some((cell, agree))
    }

    /// The longest match that ends at a branch, if all keys below it agree with `key` so far.
    #[inline(always)]
    fn best_here(
        &self,
        b: Branch,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<u32> {
        if let Some(byte) = key.get(b.offset()) {
            for other in alternatives(*byte) {
                if let Some(leaf) = self.alternative_here(b, other) {
                    return Some(leaf);
                }
            }
        }
        self.end_here(b)
    }

    /// The leaf of the key that ends with this alternative.
    #[inline(always)]
    fn alternative_here(&self, b: Branch, other: u8) -> Option<u32> {
        if other == 0 {
            return None;
        }
        // SAFETY: a branch that `branch` returned is whole.
        let cell = self.child(b, unsafe { b.find(other) }?)?;
        // Elsewhere than in tables of bit strings, and in damaged files, keys may go on.
        let ends = cell & LEAF != 0 && self.key(cell)?.len() == b.offset() + 1;
        ends.then_some(cell)
    }

    /// The leaf of the key that ends at a branch.
    #[inline(always)]
    fn end_here(&self, b: Branch) -> Option<u32> {
        if b.h & END == 0 {
            return None;
        }
        self.child(b, 0).filter(|cell| cell & LEAF != 0)
    }
}

/// Whether `stored`, whose first `agree` bytes are those of `key`, matches.
#[inline(always)]
fn is_match(
    key: &[u8],
    stored: &[u8],
    agree: usize,
    alternatives: impl Fn(u8) -> Alternatives,
) -> bool {
    match stored.len() - agree {
        0 => true,
        1 => key
            .get(agree)
            .is_some_and(|byte| stored[agree] != 0 && alternatives(*byte).contains(&stored[agree])),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::qp::QpMap;

    /// `a` to `d`, and `e` to `h`: each letter has those of its group before it as alternatives.
    fn neighbours(byte: u8) -> [u8; 3] {
        [1, 2, 3].map(|n| match byte - b'a' {
            at @ 0..8 if at % 4 >= n => byte - n,
            _ => 0,
        })
    }

    fn matches(key: &[u8], stored: &[u8]) -> bool {
        let Some((last, whole)) = stored.split_last() else {
            return true;
        };
        key.starts_with(stored)
            || (key.starts_with(whole)
                && key
                    .get(whole.len())
                    .is_some_and(|byte| neighbours(*byte).contains(last)))
    }

    #[test]
    fn the_longest_match_is_found_among_all_keys() {
        let mut rng = fastrand::Rng::with_seed(4);
        let word = |rng: &mut fastrand::Rng, most| -> Vec<u8> {
            // Alternatives end keys: all letters but `d` and `h` are only ever last.
            let mut word: Vec<u8> = (0..rng.usize(..most))
                .map(|_| b"dh"[rng.usize(..2)])
                .collect();
            if rng.bool() {
                word.push(b"abcefg"[rng.usize(..6)]);
            }
            word
        };
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let mut map = QpMap::new();
            for _ in 0..rng.usize(..24) {
                map.insert(word(&mut rng, 6), round).unwrap();
            }
            let view = map.view();
            for _ in 0..if cfg!(miri) { 8 } else { 40 } {
                let key = word(&mut rng, 7);
                let mut wanted: Vec<&[u8]> = map.keys().filter(|s| matches(&key, s)).collect();
                wanted.sort_by_key(|s| s.len());
                let longest = wanted.last().map(|s| s.len());
                let found = view.longest_match(&key, neighbours);
                assert_eq!(found.map(|leaf| view.key(leaf).unwrap().len()), longest);
                let many = [&key, &key[..0], &key];
                view.longest_matches(&many, neighbours, |i, leaf| {
                    let single = view.longest_match(many[i], neighbours);
                    assert_eq!(leaf, single.unwrap_or(0));
                });
                let mut all = Vec::new();
                view.all_matches(&key, neighbours, |leaf| all.push(view.key(leaf).unwrap()));
                assert_eq!(
                    all.iter().map(|s| s.len()).collect::<Vec<_>>(),
                    wanted.iter().map(|s| s.len()).collect::<Vec<_>>()
                );
                assert!(all.iter().all(|s| matches(&key, s)));
            }
        }
    }

    #[test]
    fn matches_far_above_are_found() {
        // More branches on the way than a descent remembers, and the match at each depth in turn.
        let (depth, step) = if cfg!(miri) { (20, 19) } else { (100, 1) };
        for top in (0..depth).step_by(step) {
            let mut map = QpMap::new();
            for i in top..depth {
                // A branch at each offset, without a match for the query.
                map.insert([&vec![b'd'; i][..], b"x"].concat(), i).unwrap();
            }
            map.insert(vec![b'd'; depth + 2], 0).unwrap();
            let stored = [&vec![b'd'; top][..], b"b"].concat();
            map.insert(&stored, top).unwrap();
            let view = map.view();
            let query = [&vec![b'd'; depth][..], b"h"].concat();
            let leaf = view.longest_match(&query, neighbours);
            assert_eq!(view.key(leaf.unwrap()).unwrap(), stored, "depth {top}");
        }
    }
}
