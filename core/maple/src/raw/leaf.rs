//! Leaves: entries as three arrays, ends first. Ends and starts are distances from the base, in
//! units of `1 << shift` indices, in 2, 4, 8 or, where indices have 128 bits, 16 bytes each.
//!
//! ```text
//! 0  n | width | shift | lines | starts at (16 bits) | values at (16 bits)
//! 8  base (a word, of 8 or 16 bytes): the first entry's start, or an index before it
//!    ends; starts; values, aligned to 8
//! ```

use sapwood_format::maple::word::Word;
use sapwood_format::maple::{LINE, LeafHead, leaf_bytes, leaf_head, leaf_places};

use super::rank;

/// How the borders in a leaf are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding<W> {
    pub(crate) base: W,
    pub(crate) shift: u32,
    /// 1, 2, 3 or 4: 2, 4, 8 or 16 bytes.
    pub(crate) width: u32,
}

impl<W: Word> Encoding<W> {
    /// The narrowest encoding of at least one entry; the entries are sorted.
    pub(crate) fn new(starts: &[W], ends: &[W]) -> Self {
        let base = starts[0];
        let mut bits = W::ZERO;
        for (&start, &end) in starts.iter().zip(ends) {
            bits = bits | start.wrapping_sub(base) | end.above().wrapping_sub(base);
        }
        // Without a bit that is set, there is one entry over all indices.
        let shift = bits.trailing_zeros().min(W::BITS - 1);
        let last = (ends[ends.len() - 1] - base) >> shift;
        let width = match last.low() {
            _ if last > W::from_u64(u64::MAX) => W::WIDEST,
            0..=0xFFFF => 1,
            0x1_0000..=0xFFFF_FFFF => 2,
            _ => 3,
        };
        Encoding { base, shift, width }
    }

    /// This encoding with a lower base, so that borders on both sides of these up to `last` can be
    /// written, too.
    pub(crate) fn centered(self, last: W) -> Self {
        let spare = self.most() - ((last - self.base) >> self.shift);
        let below = (spare >> 1).min(self.base >> self.shift);
        Encoding {
            base: self.base - (below << self.shift),
            ..self
        }
    }

    /// The highest border of this width.
    #[inline(always)]
    fn most(self) -> W {
        W::MAX >> (W::BITS - (8 << self.width))
    }

    /// The offsets of starts and of values in a leaf of `n` entries, and its end.
    pub(crate) fn places(self, n: usize, slot: usize) -> (usize, usize, usize) {
        leaf_places(Leaf::<W>::HEAD, n, self.width, slot)
    }

    /// Bytes of a leaf.
    pub(crate) fn size(self, n: usize, slot: usize) -> usize {
        leaf_bytes(Leaf::<W>::HEAD, n, self.width, slot)
    }
}

/// The mark of a leaf of a transaction that has not ended, beside its width.
const FRESH: u8 = 0x80;

/// The least bytes of a leaf, however few entries it has.
pub(crate) const LEAF_LEAST: usize = 192;

/// Entries that a leaf of at most `bytes` bytes has room for, whatever their borders.
pub(crate) fn leaf_holds<W: Word>(bytes: usize, slot: usize, width: u32) -> usize {
    let encoding = Encoding {
        base: W::ZERO,
        shift: 0,
        width,
    };
    (1..=u8::MAX as usize)
        .take_while(|&n| encoding.places(n, slot).2 <= bytes)
        .last()
        .unwrap_or(0)
}

/// A border as a leaf has it.
pub(crate) trait Border: Copy {
    fn to_word<W: Word>(self) -> W;
    /// The border of a number that has one.
    fn of<W: Word>(number: W) -> Self;
}

macro_rules! borders {
    ($($border:ty),*) => {$(
        impl Border for $border {
            #[inline(always)]
            fn to_word<W: Word>(self) -> W {
                W::from_u64(self.into())
            }

            #[inline(always)]
            fn of<W: Word>(number: W) -> Self {
                number.low() as $border
            }
        }
    )*};
}

borders!(u16, u32, u64);

/// A border of 16 bytes, aligned to 8.
#[derive(Clone, Copy)]
pub(crate) struct Wide([u64; 2]);

impl Border for Wide {
    #[inline(always)]
    fn to_word<W: Word>(self) -> W {
        W::from_u128(u128::from(self.0[0]) | u128::from(self.0[1]) << 64)
    }

    #[inline(always)]
    fn of<W: Word>(number: W) -> Self {
        let number = number.to_u128();
        Wide([number as u64, (number >> 64) as u64])
    }
}

/// Evaluates an expression with a name for the type of borders of a width.
macro_rules! by_width {
    ($word:ty, $width:expr, $border:ident => $call:expr) => {
        match $width {
            1 => {
                type $border = u16;
                $call
            }
            2 => {
                type $border = u32;
                $call
            }
            4 if <$word>::WIDEST == 4 => {
                type $border = crate::raw::leaf::Wide;
                $call
            }
            _ => {
                type $border = u64;
                $call
            }
        }
    };
}
pub(crate) use by_width;

/// A leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<W> {
    p: *const u8,
    n: usize,
    encoding: Encoding<W>,
    starts: usize,
    values: usize,
    lines: usize,
}

impl<W: Word> Leaf<W> {
    /// Bytes before the ends.
    pub(crate) const HEAD: usize = leaf_head(W::BYTES);

    /// # Safety
    /// `p` points at a leaf, which stays as it is while this is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *const u8) -> Self {
        // SAFETY: the caller's promise; a leaf begins with its head and its base, aligned to 8.
        let (head, base) = unsafe {
            let base = p.add(8).cast::<W>().read_unaligned();
            (p.cast::<u64>().read(), base)
        };
        let head = LeafHead::from_word(head.to_le());
        Leaf {
            p,
            n: head.n,
            encoding: Encoding {
                base,
                shift: head.shift & (W::BITS - 1),
                width: head.width & (W::WIDEST | 3),
            },
            lines: head.lines,
            starts: head.starts,
            values: head.values,
        }
    }

    /// Whether a leaf is of a transaction that has not ended.
    ///
    /// # Safety
    /// As for [`at`](Self::at).
    pub(crate) unsafe fn is_fresh(p: *const u8) -> bool {
        // SAFETY: the caller's promise; the second byte has the width, and this mark.
        unsafe { p.add(1).read() & FRESH != 0 }
    }

    /// Marks a leaf, or takes its mark.
    ///
    /// # Safety
    /// `p` points at a leaf that nobody else uses.
    pub(crate) unsafe fn set_fresh(p: *mut u8, fresh: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            let width = p.add(1).read() & !FRESH;
            p.add(1).write(width | if fresh { FRESH } else { 0 });
        }
    }

    /// Number of entries, at least one.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.n
    }

    pub(crate) fn bytes(self) -> usize {
        self.lines * LINE
    }

    /// The number of entries that the leaf has room for.
    #[inline(always)]
    pub(crate) fn room(self) -> usize {
        (self.starts - Self::HEAD) >> self.encoding.width
    }

    pub(crate) fn encoding(self) -> Encoding<W> {
        self.encoding
    }

    #[inline(always)]
    fn border(self, array: usize, k: usize) -> W {
        assert!(k < self.n, "an entry of the leaf");
        // SAFETY: the promise of `at`; each array has `n` borders of this width.
        unsafe {
            let p = self.p.add(array);
            by_width!(W, self.encoding.width, B => p.cast::<B>().add(k).read().to_word())
        }
    }

    /// The first index of an entry.
    #[inline(always)]
    pub(crate) fn start(self, k: usize) -> W {
        let Encoding { base, shift, .. } = self.encoding;
        base.wrapping_add(self.border(self.starts, k) << shift)
    }

    /// The last index of an entry.
    #[inline(always)]
    pub(crate) fn end(self, k: usize) -> W {
        let Encoding { base, shift, .. } = self.encoding;
        base.wrapping_add(self.border(Self::HEAD, k) << shift | W::ones(shift))
    }

    /// The first and the last index of an entry, and the address of its slot, decoded together.
    #[inline(always)]
    pub(crate) fn entry(self, k: usize, slot: usize) -> (W, W, *const u8) {
        assert!(k < self.n, "an entry of the leaf");
        let Encoding { base, shift, width } = self.encoding;
        let (ends, starts) = (
            self.p.wrapping_add(Self::HEAD),
            self.p.wrapping_add(self.starts),
        );
        // SAFETY: as in `border`.
        let (start, end): (W, W) = unsafe {
            by_width!(W, width, B => {
                let start = starts.cast::<B>().add(k).read();
                let end = ends.cast::<B>().add(k).read();
                (start.to_word(), end.to_word())
            })
        };
        (
            base.wrapping_add(start << shift),
            base.wrapping_add(end << shift | W::ones(shift)),
            self.p.wrapping_add(self.values + k * slot),
        )
    }

    /// The last index of the last entry.
    #[inline(always)]
    pub(crate) fn last(self) -> W {
        self.end(self.n - 1)
    }

    /// The address of an entry's slot, in a map with slots of `slot` bytes.
    #[inline(always)]
    pub(crate) fn slot(self, k: usize, slot: usize) -> *const u8 {
        assert!(k < self.n, "an entry of the leaf");
        self.p.wrapping_add(self.values + k * slot)
    }

    /// Number of entries that end before `x`.
    #[inline(always)]
    pub(crate) fn rank<const NATIVE: bool>(self, x: W) -> usize {
        let Encoding { base, shift, width } = self.encoding;
        if x < base {
            return 0;
        }
        let x = (x - base) >> shift;
        let p = self.p.wrapping_add(Self::HEAD);
        // SAFETY: there are `n` ends; a leaf has as many bytes as are read; a caller that asks for
        // NATIVE has it.
        unsafe {
            let (n, bytes) = (self.n, self.lines * LINE - Self::HEAD);
            if width == 4 && W::WIDEST == 4 {
                return rank::below_words::<W>(p, n, x);
            }
            if W::BITS > 64 && x > W::from_u64(u64::MAX) {
                return n;
            }
            let x = x.low();
            match width {
                1 => u16::try_from(x).map_or(n, |x| rank::below16::<NATIVE>(p.cast(), n, x, bytes)),
                2 => u32::try_from(x).map_or(n, |x| rank::below32::<NATIVE>(p.cast(), n, x, bytes)),
                _ => rank::below64::<NATIVE>(p.cast(), n, x),
            }
        }
    }

    /// Number of entries that start at or before `x`.
    pub(crate) fn starting_by(self, x: W) -> usize {
        let ended = self.rank::<false>(x);
        ended + usize::from(ended < self.n && self.start(ended) <= x)
    }

    /// All borders and slots, in order.
    #[inline(always)]
    pub(crate) fn decode(
        self,
        from: usize,
        to: usize,
        slot: usize,
        mut each: impl FnMut(W, W, *const u8),
    ) {
        self.fold((from, to), slot, (), |(), start, end, at| {
            each(start, end, at);
        });
    }

    /// Folds over borders and slots, in order.
    #[inline(always)]
    pub(crate) fn fold<B>(
        self,
        (from, to): (usize, usize),
        slot: usize,
        mut result: B,
        mut each: impl FnMut(B, W, W, *const u8) -> B,
    ) -> B {
        assert!(to <= self.n, "entries of the leaf");
        let Encoding { base, shift, width } = self.encoding;
        let fill = W::ones(shift);
        let (ends, starts) = (
            self.p.wrapping_add(Self::HEAD),
            self.p.wrapping_add(self.starts),
        );
        let values = self.p.wrapping_add(self.values);
        by_width!(W, width, Width => {
            for k in from..to {
                // SAFETY: as in `border`.
                let (start, end): (W, W) = unsafe {
                    let start = starts.cast::<Width>().add(k).read();
                    (start.to_word(), ends.cast::<Width>().add(k).read().to_word())
                };
                result = each(
                    result,
                    base.wrapping_add(start << shift),
                    base.wrapping_add(end << shift | fill),
                    values.wrapping_add(k * slot),
                );
            }
        });
        result
    }

    /// Writes a leaf.
    ///
    /// # Safety
    /// `p` points at `encoding.size(room, slot)` bytes, aligned to 8, that nobody else uses. The
    /// encoding fits these `n` entries, each slot has `slot` bytes, and `n <= room < 256`.
    pub(crate) unsafe fn write(
        p: *mut u8,
        encoding: Encoding<W>,
        (room, slot): (usize, usize),
        starts: &[W],
        ends: &[W],
        slots: impl Iterator<Item = *const u8>,
    ) {
        let n = starts.len();
        // SAFETY: the caller's promise.
        unsafe {
            Self::head(p, encoding, (n, room), slot);
            let (starts_at, values_at, _) = encoding.places(room, slot);
            let Encoding { base, shift, width } = encoding;
            by_width!(W, width, B => {
                let to = p.add(Self::HEAD).cast::<B>();
                for (k, &end) in ends.iter().enumerate() {
                    to.add(k).write(B::of((end - base) >> shift));
                }
                let to = p.add(starts_at).cast::<B>();
                for (k, &start) in starts.iter().enumerate() {
                    to.add(k).write(B::of((start - base) >> shift));
                }
            });
            let to = p.add(values_at);
            for (k, from) in slots.enumerate() {
                copy_slot(from, to.add(k * slot), slot);
            }
        }
    }

    /// Whether borders at `a` and behind `b` can be written in this leaf's encoding: those of a new
    /// entry (`put`), or of the rests of others.
    pub(crate) fn can_write(self, a: W, b: W, put: bool, left: bool, right: bool) -> bool {
        let Encoding { base, shift, .. } = self.encoding;
        let even = |border: W| border.wrapping_sub(base) & W::ones(shift) == W::ZERO;
        (!(put || left) || (a >= base && even(a)))
            && (!(put || right) || even(b.above()))
            && (!put || (b - base) >> shift <= self.encoding.most())
    }

    /// Writes a leaf like this one, with other entries between those before `from` and those from
    /// `rest` on.
    ///
    /// # Safety
    /// As for [`write`](Self::write), with this leaf's encoding; `can_write` is true of the new
    /// borders.
    #[inline]
    pub(crate) unsafe fn write_spliced(
        self,
        p: *mut u8,
        slot: usize,
        (from, rest): (usize, usize),
        between: impl ExactSizeIterator<Item = (W, W, *const u8)>,
    ) {
        let count = between.len();
        let behind = self.n - rest;
        let n = from + count + behind;
        let Encoding { base, shift, width } = self.encoding;
        let (starts, values, _) = self.encoding.places(n, slot);
        // SAFETY: the caller's promise: the arrays of both leaves have room for these entries.
        unsafe {
            Self::head(p, self.encoding, (n, n), slot);
            let copy = |to: usize, at: usize, bytes: usize| {
                let (new, old) = (p.add(to), self.p.add(at));
                copy_bytes(old, new, from * bytes);
                let tail = (from + count) * bytes;
                copy_bytes(old.add(rest * bytes), new.add(tail), behind * bytes);
            };
            copy(Self::HEAD, Self::HEAD, 1 << width);
            copy(starts, self.starts, 1 << width);
            copy(values, self.values, slot);
            for (k, (start, end, bytes)) in (from..).zip(between) {
                let (end, start) = ((end - base) >> shift, (start - base) >> shift);
                let (ends, starts) = (p.add(Self::HEAD), p.add(starts));
                by_width!(W, width, B => {
                    ends.cast::<B>().add(k).write(B::of(end));
                    starts.cast::<B>().add(k).write(B::of(start));
                });
                copy_slot(bytes, p.add(values + k * slot), slot);
            }
        }
    }

    /// As [`start`](Self::start).
    ///
    /// # Safety
    /// `k` is an entry's place, and borders have this type.
    #[inline(always)]
    pub(crate) unsafe fn start_as<B: Border>(self, k: usize) -> W {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        let border = unsafe { self.p.add(self.starts).cast::<B>().add(k).read() };
        base.wrapping_add(border.to_word::<W>() << shift)
    }

    /// As [`end`](Self::end).
    ///
    /// # Safety
    /// As for [`start_as`](Self::start_as).
    #[inline(always)]
    pub(crate) unsafe fn end_as<B: Border>(self, k: usize) -> W {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        let border = unsafe { self.p.add(Self::HEAD).cast::<B>().add(k).read() };
        base.wrapping_add(border.to_word::<W>() << shift | W::ones(shift))
    }

    /// Puts other entries in place of some, in the leaf's own block. Slots of replaced entries are
    /// lost. This value does not know the new number of entries.
    ///
    /// # Safety
    /// Nobody else uses the leaf, which may be written and has room. Its borders have this type,
    /// and its encoding can write the new ones.
    #[inline(always)]
    pub(crate) unsafe fn replace<B: Border, const COUNT: usize>(
        self,
        slot: usize,
        (from, rest): (usize, usize),
        by: [(W, W, *const u8); COUNT],
    ) {
        let behind = self.n - rest;
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise: the arrays have room for these entries.
        unsafe {
            let p = self.p.cast_mut();
            let (ends, starts, values) = (
                p.add(Self::HEAD).cast::<B>(),
                p.add(self.starts).cast::<B>(),
                p.add(self.values),
            );
            if rest != from + COUNT && behind > 0 {
                ends.add(rest).copy_to(ends.add(from + COUNT), behind);
                starts.add(rest).copy_to(starts.add(from + COUNT), behind);
                values
                    .add(rest * slot)
                    .copy_to(values.add((from + COUNT) * slot), behind * slot);
            }
            for (k, (start, end, bytes)) in (from..).zip(by) {
                ends.add(k).write(B::of((end - base) >> shift));
                starts.add(k).write(B::of((start - base) >> shift));
                copy_slot(bytes, values.add(k * slot), slot);
            }
            // The first byte of the head is the number of entries.
            p.write((from + COUNT + behind) as u8);
        }
    }

    /// Moves the last index of an entry.
    ///
    /// # Safety
    /// As for [`replace`](Self::replace); `k` is an entry's place.
    #[inline(always)]
    pub(crate) unsafe fn set_end<B: Border>(self, k: usize, end: W) {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        unsafe {
            let ends = self.p.cast_mut().add(Self::HEAD).cast::<B>();
            ends.add(k).write(B::of((end - base) >> shift));
        }
    }

    /// Moves the first index of an entry.
    ///
    /// # Safety
    /// As for [`replace`](Self::replace); `k` is an entry's place.
    #[inline(always)]
    pub(crate) unsafe fn set_start<B: Border>(self, k: usize, start: W) {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        unsafe {
            let starts = self.p.cast_mut().add(self.starts).cast::<B>();
            starts.add(k).write(B::of((start - base) >> shift));
        }
    }

    /// Writes what comes before the arrays.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    pub(crate) unsafe fn head(
        p: *mut u8,
        encoding: Encoding<W>,
        (n, room): (usize, usize),
        slot: usize,
    ) {
        let (starts, values, _) = encoding.places(room, slot);
        let head = LeafHead {
            n,
            width: encoding.width,
            shift: encoding.shift,
            lines: encoding.size(room, slot) / LINE,
            starts,
            values,
        };
        // SAFETY: the caller's promise.
        unsafe {
            p.cast::<u64>().write(head.word().to_le());
            p.add(8).cast::<W>().write_unaligned(encoding.base);
        }
    }
}

/// # Safety
/// Both have `bytes` bytes, and do not overlap.
#[inline(always)]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Copies a slot's bytes.
///
/// # Safety
/// Both have `slot` bytes, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_slot(from: *const u8, to: *mut u8, slot: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match slot {
            8 => to
                .cast::<core::mem::MaybeUninit<[u8; 8]>>()
                .write(from.cast::<core::mem::MaybeUninit<[u8; 8]>>().read()),
            4 => to
                .cast::<core::mem::MaybeUninit<[u8; 4]>>()
                .write(from.cast::<core::mem::MaybeUninit<[u8; 4]>>().read()),
            _ => core::ptr::copy_nonoverlapping(from, to, slot),
        }
    }
}
