//! A queue that does not copy its items when it grows: a stall may make it long, and a writer must
//! not pause to copy them.

use alloc::collections::VecDeque;

/// The number of items in a piece.
const PIECE: usize = 512;

/// A queue, first in, first out, in pieces of fixed size.
pub(crate) struct Chunks<T> {
    /// All pieces are full, except the first, from which items are taken, and the last, to which
    /// they are added. None is empty.
    pieces: VecDeque<VecDeque<T>>,
    /// An empty piece, kept for reuse.
    spare: Option<VecDeque<T>>,
    len: usize,
}

impl<T> Chunks<T> {
    pub(crate) const fn new() -> Self {
        Self {
            pieces: VecDeque::new(),
            spare: None,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, item: T) {
        self.len += 1;
        match self.pieces.back_mut() {
            Some(piece) if piece.len() < piece.capacity() => piece.push_back(item),
            _ => self.push_piece(item),
        }
    }

    #[cold]
    fn push_piece(&mut self, item: T) {
        let mut piece = self
            .spare
            .take()
            .unwrap_or_else(|| VecDeque::with_capacity(PIECE));
        piece.push_back(item);
        self.pieces.push_back(piece);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let piece = self.pieces.front_mut()?;
        let item = piece.pop_front()?;
        self.len -= 1;
        if piece.is_empty() {
            self.spare = self.pieces.pop_front();
            if self.pieces.is_empty() && self.pieces.capacity() > PIECE {
                // A stall made the list of pieces long.
                self.pieces = VecDeque::new();
            }
        }
        Some(item)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.pieces.front_mut()?.front_mut()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_in_any_mixture() {
        let mut queue = Chunks::new();
        let (mut next_in, mut next_out) = (0u32, 0u32);
        for round in 0..if cfg!(miri) { 20 } else { 200 } {
            for _ in 0..round * 37 % 700 {
                queue.push_back(next_in);
                next_in += 1;
            }
            for _ in 0..round * 53 % 800 {
                let item = queue.pop_front();
                assert_eq!(item, (next_out < next_in).then_some(next_out));
                next_out += u32::from(item.is_some());
            }
            assert_eq!(queue.len(), (next_in - next_out) as usize);
            assert_eq!(queue.is_empty(), next_in == next_out);
        }
        while queue.pop_front().is_some() {
            next_out += 1;
        }
        assert_eq!(next_in, next_out);
        assert!(queue.pieces.is_empty());
    }
}
