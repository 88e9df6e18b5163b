//! Rules that were left out because of rules that may go.

use crate::rule::Terms;
use crate::value::{self, NotRules};

/// A rule that was left out.
pub struct Left<'p> {
    pub key: &'p [u8],
    /// See [`ReadRule::is_last`](crate::read::ReadRule).
    pub is_last: bool,
    head: &'p [u8],
    terms: &'p [u8],
}

impl Left<'_> {
    /// Its terms.
    pub fn terms(&self) -> Result<Terms, NotRules> {
        let mut all = value::rules(self.terms);
        all.next().ok_or(NotRules)?.map(|(_, terms)| terms)
    }
}

/// Rules in the order of their lines. Each one has the length of the key, with `is_last` above it,
/// the length of the terms, the key, and the terms.
///
/// They are in blocks that the allocator gives back to the system, as it does not with one vector
/// that has grown.
#[derive(Default)]
pub struct Pending {
    blocks: Vec<Vec<u8>>,
    len: usize,
}

/// Bytes before the key.
const HEAD: usize = 2 + 4;
/// The bit of `is_last`; a key is shorter.
const LAST: u16 = 1 << 15;
/// Bytes of a block, if no rule has more.
const BLOCK: usize = 1 << 14;

impl Pending {
    /// Adds a rule, if all of them then take this many bytes at most; returns whether it does.
    /// `buffer` is of use for a moment.
    pub fn push(
        &mut self,
        key: &[u8],
        terms: &Terms,
        is_last: bool,
        most: usize,
        buffer: &mut Vec<u8>,
    ) -> bool {
        buffer.clear();
        value::put(terms, buffer);
        let lens = (u16::try_from(key.len()), u32::try_from(buffer.len()));
        let (Ok(key_len), Ok(terms_len)) = lens else {
            return false;
        };
        if key_len >= LAST || self.len + HEAD + key.len() + buffer.len() > most {
            return false;
        }
        let key_len = if is_last { key_len | LAST } else { key_len };
        let parts = [
            &key_len.to_le_bytes()[..],
            &terms_len.to_le_bytes()[..],
            key,
            buffer,
        ];
        self.put(&parts);
        true
    }

    /// Adds the parts of a rule.
    fn put(&mut self, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let has_room = |block: &&mut Vec<u8>| block.capacity() - block.len() >= len;
        let block = match self.blocks.last_mut().filter(has_room) {
            Some(block) => block,
            None => {
                self.blocks.push(Vec::with_capacity(BLOCK.max(len)));
                let last = self.blocks.len() - 1;
                &mut self.blocks[last]
            }
        };
        parts.iter().for_each(|part| block.extend_from_slice(part));
        self.len += len;
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Left<'_>> {
        self.blocks.iter().flat_map(|block| lefts(block))
    }

    /// Keeps those of which a function says so. After an error, it has some of them.
    pub fn retain<E>(
        &mut self,
        mut keep: impl FnMut(&Left<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        for block in std::mem::take(self).blocks {
            for left in lefts(&block) {
                if keep(&left)? {
                    self.put(&[left.head, left.key, left.terms]);
                }
            }
        }
        Ok(())
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum()
    }

    /// Forgets all of them, and frees their memory.
    pub fn clear(&mut self) {
        *self = Pending::default();
    }
}

/// The rules of a block.
fn lefts(block: &[u8]) -> impl Iterator<Item = Left<'_>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_at_checked(HEAD)?;
        let len = u16::from_le_bytes([head[0], head[1]]);
        let terms = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (key, behind) = behind.split_at_checked(usize::from(len & !LAST))?;
        let (terms, behind) = behind.split_at_checked(terms)?;
        rest = behind;
        let is_last = len & LAST != 0;
        Some(Left {
            key,
            is_last,
            head,
            terms,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::rule::{Action, Scope};

    #[test]
    fn rules_come_back_in_their_order_and_some_are_kept() {
        let mut buffer = Vec::new();
        let mut random = fastrand::Rng::with_seed(4);
        let (mut pending, mut all) = (Pending::default(), Vec::new());
        for number in 0..2000u16 {
            let key: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let terms = match random.u8(..3) {
                0 => Terms::new(Scope::Exact, Action::Name(key.clone()), number),
                _ => Terms::new(Scope::WithBelow, Action::Nxdomain, number),
            };
            let is_last = random.bool();
            assert!(pending.push(&key, &terms, is_last, usize::MAX, &mut buffer));
            all.push((key, terms, is_last));
        }
        let list = |pending: &Pending| -> Vec<(Vec<u8>, Terms, bool)> {
            let left = pending.iter();
            left.map(|left| (left.key.to_vec(), left.terms().unwrap(), left.is_last))
                .collect()
        };
        assert_eq!(list(&pending), all);
        let most = pending.len;
        assert!(pending.blocks.len() > 2);
        let more = Terms::new(Scope::Exact, Action::Pass, 0);
        assert!(!pending.push(b"x", &more, false, most, &mut buffer));
        assert_eq!(list(&pending), all, "one that is too much changes nothing");

        let kept = pending.retain(|left| Ok::<_, Infallible>(left.key.len() % 3 == 0));
        assert_eq!(kept, Ok(()));
        all.retain(|(key, ..)| key.len() % 3 == 0);
        assert_eq!(list(&pending), all);
        assert!(pending.push(b"x", &more, false, most, &mut buffer));
        assert_eq!(pending.iter().count(), all.len() + 1);
        assert_eq!(pending.retain(|_| Err("wrong")), Err("wrong"));
        assert!(pending.bytes() >= pending.len);
        pending.clear();
        assert_eq!((pending.iter().count(), pending.bytes()), (0, 0));
    }
}
