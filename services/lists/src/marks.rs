//! Marks of rules that a map has: whether the text that is read has them, too.
//!
//! A rule is known by the address of its value's bytes, which lie where they are as long as the map
//! does not change. So a mark takes a bit for each two bytes, where a set of keys would take as
//! much as the map.

use std::collections::{HashMap, HashSet};

/// Words of 64 bits in a page.
const WORDS: usize = 64;

/// A set of addresses, `1 << SHIFT` bytes a bit.
#[derive(Default)]
struct Bits<const SHIFT: u32> {
    pages: HashMap<usize, Box<[u64; WORDS]>>,
}

impl<const SHIFT: u32> Bits<SHIFT> {
    fn place(at: usize) -> (usize, usize, u64) {
        let bit = at >> SHIFT;
        (bit / 64 / WORDS, bit / 64 % WORDS, 1 << (bit % 64))
    }

    /// Sets a bit; returns whether it was set.
    fn set(&mut self, at: usize) -> bool {
        let (page, word, bit) = Self::place(at);
        let page = self
            .pages
            .entry(page)
            .or_insert_with(|| Box::new([0; WORDS]));
        let was = page[word] & bit != 0;
        page[word] |= bit;
        was
    }

    fn clear(&mut self, at: usize) {
        let (page, word, bit) = Self::place(at);
        if let Some(page) = self.pages.get_mut(&page) {
            page[word] &= !bit;
        }
    }

    fn get(&self, at: usize) -> bool {
        let (page, word, bit) = Self::place(at);
        self.pages
            .get(&page)
            .is_some_and(|page| page[word] & bit != 0)
    }
}

/// The marks of the rules of one version of a map.
///
/// Entries begin at multiples of four bytes. So the values of two entries, each of which has a byte
/// before it, never share such a multiple, and the first rules of values never share a bit. A value
/// of two rules has at least two bytes, and two bytes of its entry are before it: the bit of the
/// second rule, which is the next one, is its own, too. Further rules are in a set.
#[derive(Default)]
pub struct Marks {
    marked: Bits<1>,
    /// Marked rules behind the second of their value.
    further: HashSet<(usize, usize)>,
    /// First bytes of values that make a rule of the text unnecessary, four bytes a bit.
    needed: Bits<2>,
    /// Whether there is any of them.
    is_needed: bool,
}

impl Marks {
    /// Marks the rule of this number in a value.
    pub fn mark(&mut self, value: &[u8], number: usize) {
        let at = value.as_ptr() as usize;
        match number {
            0 | 1 => drop(self.marked.set(at + 2 * number)),
            _ => drop(self.further.insert((at, number))),
        }
    }

    /// Takes the mark of the rule of this number in a value away.
    pub fn unmark(&mut self, value: &[u8], number: usize) {
        let at = value.as_ptr() as usize;
        match number {
            0 | 1 => self.marked.clear(at + 2 * number),
            _ => drop(self.further.remove(&(at, number))),
        }
    }

    /// Whether the rule of this number in a value is marked.
    pub fn is_marked(&self, value: &[u8], number: usize) -> bool {
        let at = value.as_ptr() as usize;
        match number {
            0 | 1 => self.marked.get(at + 2 * number),
            _ => self.further.contains(&(at, number)),
        }
    }

    /// Notes that a rule of the text was left out because of rules of this value.
    pub fn need(&mut self, value: &[u8]) {
        self.needed.set(value.as_ptr() as usize);
        self.is_needed = true;
    }

    /// Whether [`need`](Self::need) was called with this value.
    pub fn is_needed(&self, value: &[u8]) -> bool {
        self.needed.get(value.as_ptr() as usize)
    }

    /// Whether [`need`](Self::need) was called.
    pub fn needs_any(&self) -> bool {
        self.is_needed
    }

    /// Forgets what [`need`](Self::need) has noted.
    pub fn forget_needs(&mut self) {
        self.needed = Bits::default();
        self.is_needed = false;
    }

    /// Bytes of the marks.
    pub fn bytes(&self) -> usize {
        let pages = self.marked.pages.capacity() + self.needed.pages.capacity();
        let filled = self.marked.pages.len() + self.needed.pages.len();
        pages * 16 + filled * WORDS * 8 + self.further.capacity() * 17
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sapwood::qp::{OrderedRead, QpStore};

    use super::*;

    /// Values of many lengths beside each other, each rule marked or not, as a set says.
    #[test]
    fn every_rule_of_a_map_has_a_mark_of_its_own() {
        let mut random = fastrand::Rng::with_seed(3);
        let store = QpStore::<[u8]>::builder().build_inline().unwrap();
        let mut txn = store.begin();
        for _ in 0..20_000 {
            let key: Vec<u8> = (0..random.usize(1..12))
                .map(|_| random.u8(b'a'..=b'd'))
                .collect();
            // As many rules as bytes: the closest that they can be.
            let len = match random.u8(..4) {
                0 => 2,
                1 => random.usize(3..90),
                _ => 1,
            };
            txn.insert(&key, &vec![7; len]).unwrap();
        }
        txn.commit();
        let snapshot = store.snapshot();
        let all: Vec<(Vec<u8>, usize)> = snapshot
            .iter()
            .flat_map(|(key, value)| (0..value.len()).map(move |rule| (key.to_vec(), rule)))
            .collect();
        assert!(all.len() > 40_000);
        let mut marks = Marks::default();
        let map: &dyn OrderedRead<[u8]> = &snapshot;
        let chosen: BTreeSet<_> = all.iter().filter(|_| random.bool()).cloned().collect();
        for (key, rule) in &chosen {
            marks.mark(map.get(key).unwrap(), *rule);
        }
        for (key, value) in snapshot.iter() {
            for rule in 0..value.len() {
                let expected = chosen.contains(&(key.to_vec(), rule));
                assert_eq!(marks.is_marked(value, rule), expected, "{key:?} {rule}");
            }
        }
        // Every other mark goes, and no other one goes with it.
        for (key, rule) in chosen.iter().step_by(2) {
            marks.unmark(map.get(key).unwrap(), *rule);
        }
        let left: BTreeSet<_> = chosen.iter().skip(1).step_by(2).cloned().collect();
        for (key, value) in snapshot.iter() {
            for rule in 0..value.len() {
                let expected = left.contains(&(key.to_vec(), rule));
                assert_eq!(marks.is_marked(value, rule), expected, "{key:?} {rule}");
            }
        }
        let needed: BTreeSet<_> = all
            .iter()
            .map(|(key, _)| key)
            .filter(|_| random.bool())
            .collect();
        assert!(!marks.needs_any());
        needed
            .iter()
            .for_each(|key| marks.need(map.get(key).unwrap()));
        for (key, value) in snapshot.iter() {
            assert_eq!(marks.is_needed(value), needed.contains(&key.to_vec()));
        }
        assert!(marks.needs_any() && marks.bytes() > 10_000);
        marks.forget_needs();
        assert!(snapshot.iter().all(|(_, value)| !marks.is_needed(value)) && !marks.needs_any());
    }
}
