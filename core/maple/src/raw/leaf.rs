//! Leaves: entries as three arrays, ends first. Ends and starts are distances from the base, in
//! units of `1 << shift` indices, in 2, 4 or 8 bytes each.
//!
//! ```text
//! 0  n | width | shift | lines | starts at (16 bits) | values at (16 bits)
//! 8  base (64 bits): the first entry's start, or an index before it
//! 16 ends; starts; values, aligned to 8
//! ```

use sapwood_format::maple::{LEAF_HEAD, LINE, LeafHead, leaf_bytes, leaf_places};

use super::rank;

/// How the borders in a leaf are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) base: u64,
    pub(crate) shift: u32,
    /// 1, 2 or 3: 2, 4 or 8 bytes.
    pub(crate) width: u32,
}

impl Encoding {
    /// The narrowest encoding of at least one entry; the entries are sorted.
    pub(crate) fn new(starts: &[u64], ends: &[u64]) -> Encoding {
        let base = starts[0];
        let mut bits = 0;
        for (&start, &end) in starts.iter().zip(ends) {
            bits |= start.wrapping_sub(base) | end.wrapping_add(1).wrapping_sub(base);
        }
        // Without a bit that is set, there is one entry over all indices.
        let shift = bits.trailing_zeros().min(63);
        let width = match (ends[ends.len() - 1] - base) >> shift {
            0..=0xFFFF => 1,
            0x1_0000..=0xFFFF_FFFF => 2,
            _ => 3,
        };
        Encoding { base, shift, width }
    }

    /// This encoding with a lower base, so that borders on both sides of these up to `last` can be
    /// written, too.
    pub(crate) fn centered(self, last: u64) -> Encoding {
        let most = u64::MAX >> (64 - (8 << self.width));
        let spare = most - ((last - self.base) >> self.shift);
        let below = (spare / 2).min(self.base >> self.shift);
        Encoding {
            base: self.base - (below << self.shift),
            ..self
        }
    }

    /// The offsets of starts and of values in a leaf of `n` entries, and its end.
    pub(crate) fn places(self, n: usize, slot: usize) -> (usize, usize, usize) {
        leaf_places(n, self.width, slot)
    }

    /// Bytes of a leaf.
    pub(crate) fn size(self, n: usize, slot: usize) -> usize {
        leaf_bytes(n, self.width, slot)
    }
}

/// The mark of a leaf of a transaction that has not ended, beside its width.
const FRESH: u8 = 0x80;

/// The least bytes of a leaf, however few entries it has.
pub(crate) const LEAF_LEAST: usize = 192;

/// Entries that a leaf of at most `bytes` bytes has room for, whatever their borders.
pub(crate) fn leaf_holds(bytes: usize, slot: usize, width: u32) -> usize {
    let encoding = Encoding {
        base: 0,
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
    fn to_u64(self) -> u64;
    /// The border of a number that has one.
    fn of(number: u64) -> Self;
}

macro_rules! borders {
    ($($border:ty),*) => {$(
        impl Border for $border {
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            fn of(number: u64) -> Self {
                number as $border
            }
        }
    )*};
}

borders!(u16, u32, u64);

/// Calls a function that is generic over the type of a leaf's borders.
macro_rules! by_width {
    ($leaf:expr, $border:ident => $call:expr) => {
        match $leaf.encoding().width {
            1 => {
                type $border = u16;
                $call
            }
            2 => {
                type $border = u32;
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
pub(crate) struct Leaf {
    p: *const u8,
    n: usize,
    encoding: Encoding,
    starts: usize,
    values: usize,
    lines: usize,
}

impl Leaf {
    /// # Safety
    /// `p` points at a leaf, which stays as it is while this is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *const u8) -> Leaf {
        // SAFETY: the caller's promise; a leaf begins with 16 bytes of head, aligned to 8.
        let [head, base] = unsafe { p.cast::<[u64; 2]>().read() };
        let head = LeafHead::from_word(head.to_le());
        Leaf {
            p,
            n: head.n,
            encoding: Encoding {
                base,
                shift: head.shift & 63,
                width: head.width & 3,
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
        (self.starts - LEAF_HEAD) >> self.encoding.width
    }

    pub(crate) fn encoding(self) -> Encoding {
        self.encoding
    }

    #[inline(always)]
    fn border(self, array: usize, k: usize) -> u64 {
        assert!(k < self.n, "an entry of the leaf");
        // SAFETY: the promise of `at`; each array has `n` borders of this width.
        unsafe {
            let p = self.p.add(array);
            match self.encoding.width {
                1 => u64::from(p.cast::<u16>().add(k).read()),
                2 => u64::from(p.cast::<u32>().add(k).read()),
                _ => p.cast::<u64>().add(k).read(),
            }
        }
    }

    /// The first index of an entry.
    #[inline(always)]
    pub(crate) fn start(self, k: usize) -> u64 {
        let Encoding { base, shift, .. } = self.encoding;
        base.wrapping_add(self.border(self.starts, k) << shift)
    }

    /// The last index of an entry.
    #[inline(always)]
    pub(crate) fn end(self, k: usize) -> u64 {
        let Encoding { base, shift, .. } = self.encoding;
        base.wrapping_add(self.border(LEAF_HEAD, k) << shift | ((1 << shift) - 1))
    }

    /// The first and the last index of an entry, and the address of its slot, decoded together.
    #[inline(always)]
    pub(crate) fn entry(self, k: usize, slot: usize) -> (u64, u64, *const u8) {
        assert!(k < self.n, "an entry of the leaf");
        let Encoding { base, shift, width } = self.encoding;
        let (ends, starts) = (
            self.p.wrapping_add(LEAF_HEAD),
            self.p.wrapping_add(self.starts),
        );
        macro_rules! borders {
            ($border:ty) => {
                // SAFETY: as in `border`.
                unsafe {
                    let start = starts.cast::<$border>().add(k).read();
                    let end = ends.cast::<$border>().add(k).read();
                    (u64::from(start), u64::from(end))
                }
            };
        }
        let (start, end) = match width {
            1 => borders!(u16),
            2 => borders!(u32),
            _ => borders!(u64),
        };
        (
            base.wrapping_add(start << shift),
            base.wrapping_add(end << shift | ((1 << shift) - 1)),
            self.p.wrapping_add(self.values + k * slot),
        )
    }

    /// The last index of the last entry.
    #[inline(always)]
    pub(crate) fn last(self) -> u64 {
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
    pub(crate) fn rank<const NATIVE: bool>(self, x: u64) -> usize {
        let Encoding { base, shift, width } = self.encoding;
        if x < base {
            return 0;
        }
        let x = (x - base) >> shift;
        let p = self.p.wrapping_add(LEAF_HEAD);
        // SAFETY: there are `n` ends; a leaf has as many bytes as are read; a caller that asks for
        // NATIVE has it.
        unsafe {
            let (n, bytes) = (self.n, self.lines * LINE - LEAF_HEAD);
            match width {
                1 => u16::try_from(x).map_or(n, |x| rank::below16::<NATIVE>(p.cast(), n, x, bytes)),
                2 => u32::try_from(x).map_or(n, |x| rank::below32::<NATIVE>(p.cast(), n, x, bytes)),
                _ => rank::below64::<NATIVE>(p.cast(), self.n, x),
            }
        }
    }

    /// Number of entries that start at or before `x`.
    pub(crate) fn starting_by(self, x: u64) -> usize {
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
        mut each: impl FnMut(u64, u64, *const u8),
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
        mut each: impl FnMut(B, u64, u64, *const u8) -> B,
    ) -> B {
        assert!(to <= self.n, "entries of the leaf");
        let Encoding { base, shift, width } = self.encoding;
        let fill = (1 << shift) - 1;
        let (ends, starts) = (
            self.p.wrapping_add(LEAF_HEAD),
            self.p.wrapping_add(self.starts),
        );
        let values = self.p.wrapping_add(self.values);
        macro_rules! all {
            ($border:ty) => {
                for k in from..to {
                    // SAFETY: as in `border`.
                    let (start, end) = unsafe {
                        (
                            starts.cast::<$border>().add(k).read(),
                            ends.cast::<$border>().add(k).read(),
                        )
                    };
                    result = each(
                        result,
                        base.wrapping_add(u64::from(start) << shift),
                        base.wrapping_add(u64::from(end) << shift | fill),
                        values.wrapping_add(k * slot),
                    );
                }
            };
        }
        match width {
            1 => all!(u16),
            2 => all!(u32),
            _ => all!(u64),
        }
        result
    }

    /// Writes a leaf.
    ///
    /// # Safety
    /// `p` points at `encoding.size(room, slot)` bytes, aligned to 8, that nobody else uses. The
    /// encoding fits these `n` entries, each slot has `slot` bytes, and `n <= room < 256`.
    pub(crate) unsafe fn write(
        p: *mut u8,
        encoding: Encoding,
        (room, slot): (usize, usize),
        starts: &[u64],
        ends: &[u64],
        slots: impl Iterator<Item = *const u8>,
    ) {
        let n = starts.len();
        // SAFETY: the caller's promise.
        unsafe {
            Leaf::head(p, encoding, (n, room), slot);
            let (starts_at, values_at, _) = encoding.places(room, slot);
            let Encoding { base, shift, width } = encoding;
            macro_rules! all {
                ($border:ty) => {{
                    let to = p.add(LEAF_HEAD).cast::<$border>();
                    for (k, &end) in ends.iter().enumerate() {
                        to.add(k).write(((end - base) >> shift) as $border);
                    }
                    let to = p.add(starts_at).cast::<$border>();
                    for (k, &start) in starts.iter().enumerate() {
                        to.add(k).write(((start - base) >> shift) as $border);
                    }
                }};
            }
            match width {
                1 => all!(u16),
                2 => all!(u32),
                _ => all!(u64),
            }
            let to = p.add(values_at);
            for (k, from) in slots.enumerate() {
                copy_slot(from, to.add(k * slot), slot);
            }
        }
    }

    /// Whether borders at `a` and behind `b` can be written in this leaf's encoding: those of a new
    /// entry (`put`), or of the rests of others.
    pub(crate) fn can_write(self, a: u64, b: u64, put: bool, left: bool, right: bool) -> bool {
        let Encoding { base, shift, width } = self.encoding;
        let even = |border: u64| border.wrapping_sub(base) & ((1 << shift) - 1) == 0;
        let most = u64::MAX >> (64 - (8 << width));
        (!(put || left) || (a >= base && even(a)))
            && (!(put || right) || even(b.wrapping_add(1)))
            && (!put || (b - base) >> shift <= most)
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
        between: impl ExactSizeIterator<Item = (u64, u64, *const u8)>,
    ) {
        let count = between.len();
        let behind = self.n - rest;
        let n = from + count + behind;
        let Encoding { base, shift, width } = self.encoding;
        let (starts, values, _) = self.encoding.places(n, slot);
        // SAFETY: the caller's promise: the arrays of both leaves have room for these entries.
        unsafe {
            Leaf::head(p, self.encoding, (n, n), slot);
            let copy = |to: usize, at: usize, bytes: usize| {
                let (new, old) = (p.add(to), self.p.add(at));
                copy_bytes(old, new, from * bytes);
                let tail = (from + count) * bytes;
                copy_bytes(old.add(rest * bytes), new.add(tail), behind * bytes);
            };
            copy(LEAF_HEAD, LEAF_HEAD, 1 << width);
            copy(starts, self.starts, 1 << width);
            copy(values, self.values, slot);
            for (k, (start, end, bytes)) in (from..).zip(between) {
                let (end, start) = ((end - base) >> shift, (start - base) >> shift);
                let (ends, starts) = (p.add(LEAF_HEAD), p.add(starts));
                match width {
                    1 => {
                        ends.cast::<u16>().add(k).write(end as u16);
                        starts.cast::<u16>().add(k).write(start as u16);
                    }
                    2 => {
                        ends.cast::<u32>().add(k).write(end as u32);
                        starts.cast::<u32>().add(k).write(start as u32);
                    }
                    _ => {
                        ends.cast::<u64>().add(k).write(end);
                        starts.cast::<u64>().add(k).write(start);
                    }
                }
                copy_slot(bytes, p.add(values + k * slot), slot);
            }
        }
    }

    /// As [`start`](Self::start).
    ///
    /// # Safety
    /// `k` is an entry's place, and borders have this type.
    #[inline(always)]
    pub(crate) unsafe fn start_as<B: Border>(self, k: usize) -> u64 {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        let border = unsafe { self.p.add(self.starts).cast::<B>().add(k).read() };
        base.wrapping_add(border.to_u64() << shift)
    }

    /// As [`end`](Self::end).
    ///
    /// # Safety
    /// As for [`start_as`](Self::start_as).
    #[inline(always)]
    pub(crate) unsafe fn end_as<B: Border>(self, k: usize) -> u64 {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        let border = unsafe { self.p.add(LEAF_HEAD).cast::<B>().add(k).read() };
        base.wrapping_add(border.to_u64() << shift | ((1 << shift) - 1))
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
        by: [(u64, u64, *const u8); COUNT],
    ) {
        let behind = self.n - rest;
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise: the arrays have room for these entries.
        unsafe {
            let p = self.p.cast_mut();
            let (ends, starts, values) = (
                p.add(LEAF_HEAD).cast::<B>(),
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
    pub(crate) unsafe fn set_end<B: Border>(self, k: usize, end: u64) {
        let Encoding { base, shift, .. } = self.encoding;
        // SAFETY: the caller's promise.
        unsafe {
            let ends = self.p.cast_mut().add(LEAF_HEAD).cast::<B>();
            ends.add(k).write(B::of((end - base) >> shift));
        }
    }

    /// Moves the first index of an entry.
    ///
    /// # Safety
    /// As for [`replace`](Self::replace); `k` is an entry's place.
    #[inline(always)]
    pub(crate) unsafe fn set_start<B: Border>(self, k: usize, start: u64) {
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
        encoding: Encoding,
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
            p.cast::<[u64; 2]>()
                .write([head.word().to_le(), encoding.base]);
        };
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
