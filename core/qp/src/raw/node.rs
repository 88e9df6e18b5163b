//! Branches and clusters in the arena: searched, read and written through pointers.

use core::sync::atomic::{AtomicU32, Ordering};

use sapwood_format::{branch, cluster, inline};

use super::inline::EntryRef;

#[cfg(feature = "std")]
pub(crate) use sapwood_format::branch::LARGEST;
pub(crate) use sapwood_format::branch::{BIG, FRESH, LABELS_AT, MAP_AT};
pub(crate) use sapwood_format::{CLUSTER, INLINE, KIND, LEAF};

/// Whether a cell is a leaf's.
#[inline(always)]
pub(crate) fn is_leaf(cell: u32) -> bool {
    cell & KIND == LEAF
}

/// The header word of a branch or cluster.
///
/// # Safety
/// `p` is 8-aligned and points at a branch or cluster that stays alive.
#[inline(always)]
unsafe fn header_at(p: *mut u8) -> u32 {
    // SAFETY: the caller's promise; the header changes only before publication.
    unsafe { (*p.cast::<AtomicU32>()).load(Ordering::Relaxed) }
}

/// Sets or clears header bits of an unpublished branch or cluster.
///
/// # Safety
/// The caller may change it.
#[inline(always)]
pub(crate) unsafe fn set_header(p: *mut u8, h: u32) {
    // SAFETY: the header is a 4-aligned u32 at the start.
    unsafe { (*p.cast::<AtomicU32>()).store(h, Ordering::Relaxed) }
}

/// A branch in the arena. All methods need `p` to point at a whole branch whose header is `h`.
#[derive(Clone, Copy)]
pub struct Branch {
    pub(crate) p: *mut u8,
    pub(crate) h: u32,
}

impl Branch {
    /// # Safety
    /// `p` is 8-aligned and points at a branch that stays alive while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *mut u8) -> Self {
        // SAFETY: the caller's promise.
        let h = unsafe { header_at(p) };
        Branch { p, h }
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        branch::offset_of(self.h)
    }

    #[inline(always)]
    pub(crate) fn children(self) -> usize {
        branch::children_of(self.h)
    }

    /// The `i`th child's cell.
    ///
    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, i: usize) -> u32 {
        // SAFETY: cells are 4-aligned u32 inside the branch; they are written with Release.
        unsafe { (*self.cell_ptr(i)).load(Ordering::Acquire) }
    }

    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell_ptr(self, i: usize) -> *const AtomicU32 {
        // SAFETY: in bounds of the branch by the caller's promise.
        unsafe { self.p.add(branch::cells_at(self.h) + 4 * i).cast() }
    }

    /// # Safety
    /// `i < self.children()`, and the caller may change the branch.
    #[inline(always)]
    pub(crate) unsafe fn set_cell(self, i: usize, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.cell_ptr(i)).store(cell, Ordering::Release) }
    }

    /// Label `i`: the least byte of child `i + 1`.
    ///
    /// # Safety
    /// `i + 1 < self.children()`.
    pub(crate) unsafe fn label(self, i: usize) -> u8 {
        if self.h & BIG == 0 {
            // SAFETY: a small branch has this label.
            return unsafe { *self.p.add(LABELS_AT + i) };
        }
        // Only a damaged file has no such byte.
        let reaches = |byte: &u8| self.mapped(*byte) > i;
        (0..=255).find(reaches).unwrap_or(255)
    }

    /// The child of a byte in a big branch.
    #[inline(always)]
    fn mapped(self, byte: u8) -> usize {
        // SAFETY: a big branch has a map of 256 bytes.
        let mapped = unsafe { *self.p.add(MAP_AT + usize::from(byte)) };
        branch::child_of_map(self.h, mapped)
    }

    /// The child of a byte: the number of labels that are not greater than the byte.
    ///
    /// # Safety
    /// The branch is whole. The result may be out of bounds when the branch is big and not well
    /// formed.
    #[inline(always)]
    pub(crate) unsafe fn child(self, byte: u8) -> usize {
        let n = branch::labels_of(self.h);
        if branch::is_up_to_8(self.h) {
            // SAFETY: every branch has at least 16 bytes: up to four labels are padded to 4 bytes
            // and followed by cells.
            let greater = unsafe { wide::greater8(self.p, n, byte) };
            greater.trailing_zeros() as usize
        } else if self.h & BIG == 0 {
            // SAFETY: with nine labels a branch has 4 + 12 + 40 bytes.
            let greater = unsafe { wide::greater32(self.p, n, byte) };
            greater.trailing_zeros() as usize
        } else {
            self.mapped(byte)
        }
    }

    /// The cell of the child that a key leads to. A descent waits for this at each level, so it
    /// does not read the place of the cells from the header again.
    ///
    /// # Safety
    /// The branch is whole and well formed.
    #[inline(always)]
    pub(crate) unsafe fn cell_of(self, key: &[u8]) -> u32 {
        let offset = self.offset();
        // SAFETY: the caller's promise: the child is one of the branch's.
        unsafe {
            if offset >= key.len() {
                return self.cell(0);
            }
            let byte = key[offset];
            let n = branch::labels_of(self.h);
            let (cells, child) = if self.h & BIG != 0 {
                (branch::BIG_CELLS, self.mapped(byte))
            } else {
                let child = match branch::is_up_to_8(self.h) {
                    true => wide::greater8(self.p, n, byte).trailing_zeros(),
                    false => wide::greater32(self.p, n, byte).trailing_zeros(),
                };
                (branch::small_cells_at(self.h), child as usize)
            };
            let cell = self.p.add(cells + 4 * child).cast::<AtomicU32>();
            (*cell).load(Ordering::Acquire)
        }
    }

    /// The number of the child that a key leads to.
    ///
    /// # Safety
    /// As for `child`.
    #[inline(always)]
    pub(crate) unsafe fn child_of(self, key: &[u8]) -> usize {
        let offset = self.offset();
        if offset < key.len() {
            // SAFETY: the caller's promise.
            unsafe { self.child(key[offset]) }
        } else {
            0
        }
    }
}

/// A cluster in the arena, of cells or inline. All methods need `p` to point at a whole one whose
/// header is `h`. The searches are the same for both.
#[derive(Clone, Copy)]
pub struct Cluster {
    pub(crate) p: *mut u8,
    pub(crate) h: u32,
    /// The cluster's cell. Only its kind counts where nobody asks for entries of an inline cluster.
    cell: u32,
}

impl Cluster {
    /// A cluster of cells.
    ///
    /// # Safety
    /// `p` is 8-aligned and points at a cluster that stays alive while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *mut u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(p, CLUSTER) }
    }

    /// The cluster of a cell.
    ///
    /// # Safety
    /// As for `at`; the cell has the cluster's kind.
    #[inline(always)]
    pub(crate) unsafe fn of(p: *mut u8, cell: u32) -> Self {
        // SAFETY: the caller's promise.
        let h = unsafe { header_at(p) };
        Cluster { p, h, cell }
    }

    /// A cluster of cells with this header, which may be another than that in memory.
    #[inline(always)]
    pub(crate) fn with(p: *mut u8, h: u32) -> Self {
        Cluster {
            p,
            h,
            cell: CLUSTER,
        }
    }

    /// Whether the cluster holds its entries.
    #[inline(always)]
    pub(crate) fn is_inline(self) -> bool {
        self.cell & KIND == INLINE
    }

    #[inline(always)]
    pub(crate) fn base(self) -> usize {
        cluster::base_of(self.h)
    }

    /// Number of entries.
    #[inline(always)]
    pub(crate) fn leaves(self) -> usize {
        cluster::leaves_of(self.h)
    }

    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        cluster::capacity_of(self.h)
    }

    /// The `i`th leaf's cell, of a cluster of cells.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, i: usize) -> u32 {
        // SAFETY: cells are 4-aligned u32 inside the cluster; they are written with Release.
        unsafe { (*self.cell_ptr(i)).load(Ordering::Acquire) }
    }

    /// The `i`th entry.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn entry(self, i: usize) -> EntryRef {
        match self.is_inline() {
            true => EntryRef::held(self.cell, i),
            // SAFETY: the caller's promise.
            false => EntryRef::leaf(unsafe { self.cell(i) }),
        }
    }

    /// # Safety
    /// `i < self.leaves()`, and this is a cluster of cells.
    #[inline(always)]
    unsafe fn cell_ptr(self, i: usize) -> *const AtomicU32 {
        debug_assert!(!self.is_inline());
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { self.p.add(cluster::cells_at(self.h) + 4 * i).cast() }
    }

    /// # Safety
    /// `i < self.leaves()`, and the caller may change the cluster.
    #[inline(always)]
    pub(crate) unsafe fn set_cell(self, i: usize, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.cell_ptr(i)).store(cell, Ordering::Release) }
    }

    /// The place of the tags, in bytes from `p`.
    #[inline(always)]
    fn tags_at(self) -> usize {
        match self.is_inline() {
            true => inline::TAGS_AT,
            false => cluster::TAGS_AT,
        }
    }

    /// The offsets of the borders; their bytes follow behind `capacity` of them.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    unsafe fn borders(self) -> *const u8 {
        // SAFETY: in bounds of the cluster; the length of the prefix does not change while it is
        // published.
        unsafe {
            let at = match self.is_inline() {
                true => inline::borders_at(self.capacity(), usize::from(*self.p.add(6))),
                false => cluster::borders_at(self.h),
            };
            self.p.add(at)
        }
    }

    /// The `i`th entry's tag.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn tag(self, i: usize) -> u8 {
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { *self.p.add(self.tags_at() + i) }
    }

    /// The offset at which entry `i` first differs from the entry before it.
    ///
    /// # Safety
    /// `0 < i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn border(self, i: usize) -> usize {
        // SAFETY: in bounds of the cluster by the caller's promise.
        let d = unsafe { *self.borders().add(i) };
        self.base() + usize::from(d)
    }

    /// The byte that bytes at the border's offset are compared with; 0 if the entry before it ends
    /// there.
    ///
    /// # Safety
    /// `0 < i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn byte(self, i: usize) -> u8 {
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { *self.borders().add(self.capacity() + i) }
    }

    /// The entries with this tag, as one bit for each.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    pub(crate) unsafe fn with_tag(self, tag: u8) -> u32 {
        // SAFETY: a cluster has at least 32 bytes, and one with more than 16 slots the bytes up to
        // the last tag.
        let hits = unsafe { wide::equal32(self.p.add(self.tags_at() - 4), self.capacity(), tag) };
        hits & (u32::MAX >> (32 - self.leaves()))
    }

    /// The entry that a key leads to by the borders alone. No other entry of the cluster shares a
    /// longer prefix with the key. It takes one pass over the borders and reads no entry.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    pub(crate) unsafe fn blind(self, key: &[u8]) -> usize {
        let base = self.base();
        let Some(key) = key.get(base..).filter(|key| !key.is_empty()) else {
            return 0;
        };
        // SAFETY: `d` and `c` have as many bytes as there are slots, and no more entries than
        // slots.
        unsafe {
            let borders = self.borders();
            blind_search(borders, borders.add(self.capacity()), self.leaves(), key)
        }
    }

    /// The place of an absent key: the number of entries before it. The key first differs from
    /// entry `near`, the result of `blind`, at offset `part`, and sorts before that entry or behind
    /// it.
    ///
    /// # Safety
    /// The cluster is whole and `near` one of its entries.
    #[inline(always)]
    pub(crate) unsafe fn place(self, near: usize, part: usize, before: bool) -> usize {
        let mut at = near;
        // SAFETY: these borders are between entries of the cluster.
        unsafe {
            if before {
                while at > 0 && self.border(at) > part {
                    at -= 1;
                }
            } else {
                at += 1;
                while at < self.leaves() && self.border(at) > part {
                    at += 1;
                }
            }
        }
        at
    }
}

/// The leaf that a key leads to, by `n` borders and their bytes. It is not inlined, so that the
/// loop has all registers: inlined into a search, it made the search take a seventh more time.
///
/// # Safety
/// There are `n` bytes at both pointers, which nobody changes. The key is not empty.
#[inline(never)]
unsafe fn blind_search(borders: *const u8, bytes: *const u8, n: usize, key: &[u8]) -> usize {
    // `at` is the key's place so far. `limit` is the offset of the last border that the key sorts
    // before: borders behind it with greater offsets are not on the key's path.
    let (mut at, mut limit) = (0, 256);
    for i in 1..n {
        // SAFETY: the caller's promise; behind the key's end, its first byte is read instead.
        let (d, right) = unsafe {
            let d = usize::from(*borders.add(i));
            let inside = d < key.len();
            let byte = *key.get_unchecked(if inside { d } else { 0 });
            (d, inside & (byte >= *bytes.add(i)))
        };
        let asked = d < limit;
        at = if asked & right { i } else { at };
        let next = if right { 256 } else { d };
        limit = if asked { next } else { limit };
    }
    at
}

/// Wide loads of labels, tags and short pieces of keys, which may also load what lies beside them:
/// some of the cells, or bytes of a block that were never written.
///
/// In a shared trie a writer may replace such a cell at the same time. The bytes of the cell are
/// not used, but for the language any plain load of them is a data race. So the load is one
/// instruction of inline assembly, into which the compiler does not see. (The processor loads the
/// old or the new value of each byte.) On other processors, and under tools that look for races,
/// only labels and tags are loaded.
#[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
pub(super) mod wide {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8,
    };

    /// The instruction that moves 16 bytes. A build with AVX uses AVX's, because some processors
    /// stall when legacy SSE instructions are mixed with AVX ones.
    #[cfg(target_feature = "avx")]
    macro_rules! load {
        ($rest:literal) => {
            concat!("vmovdqu ", $rest)
        };
    }
    #[cfg(not(target_feature = "avx"))]
    macro_rules! load {
        ($rest:literal) => {
            concat!("movdqu ", $rest)
        };
    }

    /// Loads 16 bytes.
    ///
    /// # Safety
    /// `p` points at 16 bytes.
    #[inline(always)]
    unsafe fn sixteen(p: *const u8) -> __m128i {
        let bytes;
        // SAFETY: the caller's promise; SSE2 is part of x86-64. It reads 16 bytes and does nothing
        // else.
        unsafe {
            core::arch::asm!(
                load!("{bytes}, xmmword ptr [{p}]"),
                p = in(reg) p,
                bytes = out(xmm_reg) bytes,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        bytes
    }

    /// The bytes that are not greater than `byte`, as one bit for each.
    #[inline(always)]
    fn not_greater(bytes: __m128i, byte: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let least = _mm_min_epu8(bytes, _mm_set1_epi8(byte as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(least, bytes)) as u32
        }
    }

    /// Whether a key of eight bytes or more begins with the `len` bytes at `p`, which are fewer.
    ///
    /// # Safety
    /// `p` points at eight bytes, of which those behind `len` may never have been written.
    #[inline(always)]
    pub(in crate::raw) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise; the key has eight bytes.
        let unlike = unsafe { word(p) ^ word(key.as_ptr()) };
        unlike.trailing_zeros() as usize >= 8 * len
    }

    /// Whether a key of eight bytes or more ends with the `len` bytes before `end`, which are
    /// fewer.
    ///
    /// # Safety
    /// Before `end` are eight bytes, of which the first may never have been written.
    #[inline(always)]
    pub(in crate::raw) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise; the key has eight bytes.
        let unlike = unsafe { word(end.sub(8)) ^ word(key.as_ptr().add(key.len() - 8)) };
        unlike.leading_zeros() as usize >= 8 * len
    }

    /// Eight bytes, the first of them as the lowest.
    ///
    /// # Safety
    /// `p` points at eight bytes.
    #[inline(always)]
    unsafe fn word(p: *const u8) -> u64 {
        let word: u64;
        // SAFETY: the caller's promise; it reads eight bytes and does nothing else.
        unsafe {
            core::arch::asm!(
                "mov {word}, qword ptr [{p}]",
                p = in(reg) p,
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        word
    }

    /// For `n` labels, eight at most: the lowest bit of the result is that of the first label that
    /// is greater than the byte. Bit `n` is set.
    ///
    /// # Safety
    /// `p` points at 12 bytes.
    #[inline(always)]
    pub(super) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
        // SAFETY: the caller's promise.
        let word = unsafe { word(p.add(4)) };
        // SAFETY: SSE2 is part of x86-64.
        let bytes = unsafe { _mm_cvtsi64_si128(word as i64) };
        !not_greater(bytes, byte) | 1 << n
    }

    /// As `greater8`, for up to 32 labels.
    ///
    /// # Safety
    /// `p` points at 36 bytes.
    #[inline(always)]
    pub(super) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { (sixteen(p.add(4)), sixteen(p.add(20))) };
        let fits = not_greater(low, byte) | not_greater(high, byte) << 16;
        !u64::from(fits) | 1 << n
    }

    /// The tags behind byte 4 that equal `tag`, as one bit for each of `n` tags. Higher bits have
    /// no meaning.
    ///
    /// # Safety
    /// `p` points at 20 bytes, and at `n + 4`.
    #[inline(always)]
    pub(super) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
        let last = n.max(16) - 16;
        // SAFETY: the caller's promise: the second load ends behind the last tag, or is the first.
        unsafe {
            let want = _mm_set1_epi8(tag as i8);
            let low = _mm_movemask_epi8(_mm_cmpeq_epi8(sixteen(p.add(4)), want)) as u32;
            let high = _mm_movemask_epi8(_mm_cmpeq_epi8(sixteen(p.add(4 + last)), want)) as u32;
            low | high << last
        }
    }
}

/// The functions of the other module `wide`, in plain Rust: they load only labels and tags.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads))))]
pub(super) mod wide {
    /// Sets bit `i` for each `i` below `n` for which `test` returns true for byte `4 + i`.
    ///
    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    unsafe fn passing(p: *const u8, n: usize, test: impl Fn(u8) -> bool) -> u64 {
        // SAFETY: the caller's promise.
        (0..n).fold(0, |bits, i| {
            bits | u64::from(test(unsafe { *p.add(4 + i) })) << i
        })
    }

    /// # Safety
    /// `p` points at `len` bytes, and the key has as many.
    #[inline(always)]
    pub(in crate::raw) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise.
        (0..len).all(|i| unsafe { *p.add(i) } == key[i])
    }

    /// # Safety
    /// Before `end` are `len` bytes, and the key has as many.
    #[inline(always)]
    pub(in crate::raw) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { begins(end.sub(len), len, &key[key.len() - len..]) }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(super) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |label| label > byte) as u32 | 1 << n }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(super) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |label| label > byte) | 1 << n }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(super) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |other| other == tag) as u32 }
    }
}
