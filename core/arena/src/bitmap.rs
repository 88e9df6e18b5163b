//! Bitmaps in pieces of bounded size, so that growth takes a bounded time.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Words in a full piece: 32 KiB of bits, one per unit of 2 MiB.
const PIECE: usize = 4096;

/// A bitmap that grows, with zeros at first.
///
/// Growth copies one piece at most. Only the first piece is smaller, while the bitmap is short.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    pieces: Vec<Box<[u64]>>,
    words: usize,
}

fn zeros(words: usize) -> Result<Vec<u64>, TryReserveError> {
    let mut v = Vec::new();
    v.try_reserve_exact(words)?;
    v.resize(words, 0);
    Ok(v)
}

impl Bits {
    pub(crate) const fn new() -> Bits {
        Bits {
            pieces: Vec::new(),
            words: 0,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.words * 8 + self.pieces.capacity() * size_of::<Box<[u64]>>()
    }

    /// Makes room for `bits` bits.
    pub(crate) fn ensure(&mut self, bits: usize) -> Result<(), TryReserveError> {
        let need = bits.div_ceil(64);
        if need <= self.words {
            return Ok(());
        }
        self.grow(need)
    }

    #[cold]
    fn grow(&mut self, need: usize) -> Result<(), TryReserveError> {
        if need > PIECE {
            self.pieces
                .try_reserve(need.div_ceil(PIECE) - self.pieces.len())?;
        } else {
            self.pieces.try_reserve_exact(1 - self.pieces.len())?;
        }
        // The first piece doubles up to its full size; the others have it from the start.
        let first = if need > PIECE {
            PIECE
        } else {
            need.max(self.words * 2).min(PIECE)
        };
        if self.words < first {
            let mut piece = zeros(first)?;
            if let Some(old) = self.pieces.first() {
                piece[..old.len()].copy_from_slice(old);
                self.pieces[0] = piece.into_boxed_slice();
            } else {
                self.pieces.push(piece.into_boxed_slice());
            }
            self.words = first;
        }
        while self.words < need {
            self.pieces.push(zeros(PIECE)?.into_boxed_slice());
            self.words += PIECE;
        }
        Ok(())
    }

    /// Gives back the memory of all but the first `bits` bits, of which the others are zeros. If
    /// there is no memory for a smaller piece, the larger one stays.
    pub(crate) fn shrink(&mut self, bits: usize) {
        let need = bits.div_ceil(64);
        let pieces = need.div_ceil(PIECE);
        self.pieces.truncate(pieces);
        self.pieces.shrink_to_fit();
        self.words = self.pieces.iter().map(|piece| piece.len()).sum();
        // Only a bitmap of one piece has a piece of less than the full size.
        if pieces == 1 && need < self.words {
            if let Ok(mut piece) = zeros(need) {
                piece.copy_from_slice(&self.pieces[0][..need]);
                self.pieces[0] = piece.into_boxed_slice();
                self.words = need;
            }
        }
    }

    /// The 64 bits from `64 * w` on; zero beyond the end.
    #[inline]
    pub(crate) fn word(&self, w: usize) -> u64 {
        match self.pieces.get(w / PIECE) {
            Some(piece) => piece.get(w % PIECE).copied().unwrap_or(0),
            None => 0,
        }
    }

    #[inline]
    pub(crate) fn get(&self, bit: usize) -> bool {
        self.word(bit / 64) >> (bit % 64) & 1 == 1
    }

    /// Sets or clears `len` bits from `start` on. `ensure` must have made room for them.
    #[inline]
    pub(crate) fn fill(&mut self, start: usize, len: usize, value: bool) {
        let (mut w, shift) = (start / 64, start % 64);
        if shift + len <= 64 {
            self.mask(w, (u64::MAX >> (64 - len)) << shift, value);
            return;
        }
        self.mask(w, u64::MAX << shift, value);
        let mut left = len - (64 - shift);
        w += 1;
        while left >= 64 {
            let piece = &mut self.pieces[w / PIECE][w % PIECE..];
            let n = piece.len().min(left / 64);
            piece[..n].fill(if value { u64::MAX } else { 0 });
            w += n;
            left -= n * 64;
        }
        if left > 0 {
            self.mask(w, u64::MAX >> (64 - left), value);
        }
    }

    #[inline]
    fn mask(&mut self, w: usize, mask: u64, value: bool) {
        let word = &mut self.pieces[w / PIECE][w % PIECE];
        debug_assert_eq!(
            *word & mask,
            if value { 0 } else { mask },
            "units freed or taken twice"
        );
        if value {
            *word |= mask;
        } else {
            *word &= !mask;
        }
    }

    /// Sets or clears one bit, which may have that value already.
    pub(crate) fn put(&mut self, bit: usize, value: bool) {
        let word = &mut self.pieces[bit / 64 / PIECE][bit / 64 % PIECE];
        *word = *word & !(1 << (bit % 64)) | u64::from(value) << (bit % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_matches_a_plain_vector() {
        let mut bits = Bits::new();
        let mut plain = alloc::vec![false; 64 * if cfg!(miri) { 60 } else { 300 }];
        bits.ensure(plain.len()).unwrap();
        let mut x = 12345u64;
        for _ in 0..if cfg!(miri) { 60 } else { 300 } {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let start = (x >> 33) as usize % (plain.len() - 700);
            let len = 1 + (x >> 20) as usize % 700;
            let value = !plain[start];
            let len = plain[start..start + len]
                .iter()
                .take_while(|&&b| b != value)
                .count();
            bits.fill(start, len, value);
            plain[start..start + len].fill(value);
        }
        for (i, &b) in plain.iter().enumerate() {
            assert_eq!(bits.get(i), b, "bit {i}");
        }
        assert!(!bits.get(1 << 30));
    }

    #[test]
    fn grows_in_pieces_and_keeps_what_it_has() {
        let mut bits = Bits::new();
        let mut n = 10;
        while n < 64 * PIECE * 3 {
            bits.ensure(n).unwrap();
            bits.put(n - 1, true);
            n = n * 3 / 2;
        }
        let mut n = 10;
        while n < 64 * PIECE * 3 {
            assert!(bits.get(n - 1));
            n = n * 3 / 2;
        }
    }
}
