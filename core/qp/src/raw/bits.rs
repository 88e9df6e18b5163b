//! Longest matches for bit strings, where the last byte of a stored key may stand for less than a
//! whole byte of the query.
//!
//! The key of a bit string has one byte for each whole group of bits, and perhaps a last byte for
//! the bits that are left over. So a byte of a query has *alternatives*: the bytes that stand for
//! its first bits only. A stored key matches a query if it is the query's first `k` bytes, or these
//! and one alternative of the next byte. An alternative is always the last byte of a key, so in the
//! trie it leads only to leaves.

use smallvec::SmallVec;

use super::batch::{LANES, warm};
use super::inline::EntryRef;
use super::mem::Mem;
use super::node::{Branch, INLINE, KIND, is_leaf};
use super::view::{Near, View};
use crate::raw::leaf::Value;

/// The alternatives of a byte, the one with the most bits first; the rest is 0.
pub type Alternatives = [u8; 3];

impl<V: ?Sized + Value, M: Mem> View<'_, V, M> {
    /// The leaf of the longest key that matches.
    ///
    /// It walks down once, compares one leaf, and walks up again: through the borders of the
    /// cluster, then through the branches. A match can end only at an offset where keys differ from
    /// the query. There, each alternative is looked up in the only place where it can be.
    /// O(branches on the path).
    #[inline]
    pub fn longest_match(
        &self,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
    ) -> Option<EntryRef> {
        let mut longest = None;
        self.matches_up(key, alternatives, |entry| {
            longest = Some(entry);
            true
        });
        longest
    }

    /// Calls `each(i, entry)` in order with the longest match of each key, if there is one.
    /// Interleaved descents first fetch what the searches read.
    pub fn longest_matches<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        alternatives: impl Fn(u8) -> Alternatives,
        mut each: impl FnMut(usize, EntryRef),
    ) {
        for (g, group) in keys.chunks(LANES).enumerate() {
            let group: SmallVec<[&[u8]; LANES]> = group.iter().map(AsRef::as_ref).collect();
            warm(self, group.iter().copied());
            for (i, key) in group.iter().enumerate() {
                let entry = self.longest_match(key, &alternatives);
                each(g * LANES + i, entry.unwrap_or(EntryRef::NONE));
            }
        }
    }

    /// Calls `each` with the leaves of all keys that match, the shortest key first.
    pub fn all_matches(
        &self,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
        each: impl FnMut(EntryRef),
    ) {
        let mut all: SmallVec<[EntryRef; 16]> = SmallVec::new();
        self.matches_up(key, alternatives, |entry| {
            all.push(entry);
            false
        });
        all.into_iter().rev().for_each(each);
    }

    /// Calls `each` with the leaves of keys that match, the longest first, until it returns true.
    #[inline(always)]
    fn matches_up(
        &self,
        key: &[u8],
        alternatives: impl Fn(u8) -> Alternatives,
        mut each: impl FnMut(EntryRef) -> bool,
    ) -> Option<()> {
        let mut trail: SmallVec<[Branch; 16]> = SmallVec::new();
        let mut end = self.root;
        if end == 0 {
            return None;
        }
        let mut min = 0;
        while end & KIND == 0 {
            let b = self.branch(end, min)?;
            trail.push(b);
            end = self.child(b, self.index(b, key))?;
            min = b.offset() + 1;
        }
        let near = self.near(end, key)?;
        let agree = near.part.unwrap_or(key.len());
        let mut built: SmallVec<[u8; 64]> = SmallVec::from_slice(&key[..agree]);
        // Keys that first differ from the query behind the last branch are in the end.
        let mut offsets = SmallVec::new();
        if !M::INLINE || end & KIND != INLINE {
            offsets = self.offsets(end, near, agree, min)?;
        } else if self.matches_in(end, near, key, min, &alternatives, &mut each)? {
            return Some(());
        }
        for offset in offsets {
            built.truncate(offset);
            for other in alternatives_at(key, offset, &alternatives) {
                built.push(other);
                if self.find_in(end, &built).is_some_and(&mut each) {
                    return Some(());
                }
                built.pop();
            }
            if self.find_in(end, &built).is_some_and(&mut each) {
                return Some(());
            }
        }
        for b in trail.into_iter().rev().filter(|b| b.offset() <= agree) {
            let offset = b.offset();
            built.truncate(offset);
            for other in alternatives_at(key, offset, &alternatives) {
                // SAFETY: a branch that `branch` returned is whole.
                let child = self.child(b, unsafe { b.child(other) })?;
                // An alternative is the last byte of a key, so none is below a branch.
                if child & KIND != 0 {
                    built.push(other);
                    if self.find_in(child, &built).is_some_and(&mut each) {
                        return Some(());
                    }
                    built.pop();
                }
            }
            if self.end_here(b).is_some_and(&mut each) {
                return Some(());
            }
        }
        Some(())
    }

    /// Calls `each` with those entries of a query's inline cluster whose keys match, the longest
    /// first, until it returns true; returns whether it did. Keys count that first differ from the
    /// query at `min` or behind.
    ///
    /// It goes down from the query's place, because matches sort before it. The borders tell how
    /// many bytes of the query an entry has, and its length tells whether it can match.
    #[inline(always)]
    fn matches_in(
        &self,
        end: u32,
        near: Near,
        key: &[u8],
        min: usize,
        alternatives: impl Fn(u8) -> Alternatives,
        mut each: impl FnMut(EntryRef) -> bool,
    ) -> Option<bool> {
        let c = self.cluster(end)?;
        // SAFETY: a cluster that `cluster` returned is whole, and has the entry.
        let place = near.part.map_or(near.index + 1, |part| unsafe {
            c.place(near.index, part, near.before)
        });
        let mut agree = near.part.unwrap_or(key.len());
        for i in (0..place).rev() {
            if i < near.index {
                // SAFETY: a border of a whole cluster.
                agree = agree.min(unsafe { c.border(i + 1) });
            }
            if agree < min {
                break;
            }
            let entry = EntryRef::held(end, i);
            let found = self.key_in(c, entry)?;
            let matches = match found.len().wrapping_sub(agree) {
                0 => true,
                1 => alternatives_at(key, agree, &alternatives)
                    .any(|other| found.at(agree) == Some(other)),
                _ => false,
            };
            if matches && each(entry) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The offsets from `min` on at which leaves of a query's end first differ from the query, the
    /// greatest first. Only leaves before the query count, because matches sort before it.
    #[inline(always)]
    fn offsets(
        &self,
        end: u32,
        near: Near,
        agree: usize,
        min: usize,
    ) -> Option<SmallVec<[usize; 16]>> {
        let mut offsets = SmallVec::new();
        let mut least = agree;
        if least >= min {
            offsets.push(least);
        }
        if !is_leaf(end) {
            let c = self.cluster(end)?;
            for i in (1..=near.index).rev() {
                // SAFETY: a border of a whole cluster.
                let border = unsafe { c.border(i) };
                if border < least && border >= min {
                    least = border;
                    offsets.push(border);
                }
            }
        }
        Some(offsets)
    }
}

/// The alternatives of the key's byte at an offset; none if the key ends before it.
#[inline(always)]
fn alternatives_at(
    key: &[u8],
    offset: usize,
    alternatives: impl Fn(u8) -> Alternatives,
) -> impl Iterator<Item = u8> {
    let byte = key.get(offset).copied();
    let all = byte.map_or([0; 3], alternatives);
    all.into_iter().filter(|other| *other != 0)
}

#[cfg(test)]
mod tests {
    use crate::QpMap;

    /// `a` to `d` and `e` to `h` are groups: the alternatives of a letter are the earlier letters
    /// of its group.
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
            // Alternatives end keys, so all letters but `d` and `h` are only the last of a word.
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
                let mut wanted: Vec<_> = map.keys().filter(|s| matches(&key, s)).collect();
                wanted.sort_by_key(|s| s.len());
                let longest = wanted.last().map(|s| s.len());
                let found = view.longest_match(&key, neighbours);
                assert_eq!(found.map(|leaf| view.key(leaf).unwrap().len()), longest);
                let many = [&key, &key[..0], &key];
                view.longest_matches(&many, neighbours, |i, leaf| {
                    let single = view.longest_match(many[i], neighbours);
                    assert_eq!(leaf.some(), single);
                });
                let mut all = Vec::new();
                view.all_matches(&key, neighbours, |leaf| {
                    all.push(view.key(leaf).unwrap().to_box())
                });
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
        // There are more branches on the path than the trail holds without the heap, and the match
        // is at each depth in turn.
        let (depth, step) = if cfg!(miri) { (20, 19) } else { (100, 1) };
        for top in (0..depth).step_by(step) {
            let mut map = QpMap::new();
            for i in top..depth {
                // There is a branch at each offset, without a match for the query.
                map.insert([&vec![b'd'; i][..], b"x"].concat(), i).unwrap();
            }
            map.insert(vec![b'd'; depth + 2], 0).unwrap();
            let stored = [&vec![b'd'; top][..], b"b"].concat();
            map.insert(&stored, top).unwrap();
            let view = map.view();
            let query = [&vec![b'd'; depth][..], b"h"].concat();
            let leaf = view.longest_match(&query, neighbours);
            assert_eq!(
                *view.key(leaf.unwrap()).unwrap().to_box(),
                stored,
                "depth {top}"
            );
        }
    }
}
