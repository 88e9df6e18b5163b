//! The bytes of a table: root words, nodes, blocks of prefixes. Drawn in `docs/lpm.md`.
//!
//! References are 27 bits, in units of 8 bytes: a table has at most 1 GiB.
//!
//! ```text
//! root word (u64, one for each value of the first 6, 12, 18 or 24 bits)
//!     bit  0..27  node below, or 0
//!     bit 27..32  length + 1 of the prefix that the value is of, or 0
//!     bit 32..59  value of the longest prefix that is not longer than the root, or 0
//!
//! node (64 slots, one for each value of the next 6 bits; equal neighbours are stored once)
//!     0   u64  runs: bit i says that slot i differs from slot i - 1; bit 0 is set
//!     8   u32  base: the value at the node's own slot in its parent, or 0
//!     12  u32  number of prefixes that end inside the node; bit 31: FRESH
//!     16  u32  slots: 0, or a value, or CHILD | node
//!     then, at the next multiple of 8, if there are prefixes (lookups of values never touch this):
//!         u64  two words of 64 bits: bit 1 << length | bits
//!         u32  values, in the order of the bits
//!
//! shelf (prefixes that end inside the root, by 6 bits a level; lookups never touch it)
//!     0   u64  two words, as above; bit 1 is the prefix of length 0, on the first level; bit 0: FRESH
//!     16  u64  which of the 64 have a shelf below
//!     24  u32  values, then shelves below
//! ```

use core::slice;
use core::sync::atomic::AtomicU64;

use sapwood_arena::Kind;

/// The bits of a reference.
pub(crate) const REF: u32 = (1 << 27) - 1;
/// The most bytes of a table.
pub(crate) const MAX_BYTES: usize = (REF as usize) * 8;
/// Tag of a slot: a node.
pub(crate) const CHILD: u32 = 1 << 31;
/// Tag of a node's number of prefixes: made by the open transaction, read by nobody else.
pub(crate) const FRESH: u32 = 1 << 31;
/// Bits of a stride.
pub(crate) const STRIDE: u32 = 6;
/// Slots of a node.
pub(crate) const SLOTS: usize = 1 << STRIDE;

/// What a block is, for the arena's accounts.
pub(crate) const NODE: Kind = Kind(0);
pub(crate) const SHELF: Kind = Kind(1);
pub(crate) const VALUE: Kind = Kind(2);
pub(crate) const ROOT: Kind = Kind(3);
/// Free memory that the writer keeps.
pub(crate) const POOLED: Kind = Kind(4);

/// A word of the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) fn new(child: u32, mark: u32, value: u32) -> Self {
        debug_assert!(child <= REF && value <= REF && mark < 32);
        Word(u64::from(value) << 32 | u64::from(mark << 27 | child))
    }

    /// The node below.
    #[inline(always)]
    pub(crate) fn child(self) -> u32 {
        self.0 as u32 & REF
    }

    /// Length + 1 of the value's prefix.
    #[inline(always)]
    pub(crate) fn mark(self) -> u32 {
        self.0 as u32 >> 27
    }

    #[inline(always)]
    pub(crate) fn value(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn with_child(self, child: u32) -> Self {
        Word::new(child, self.mark(), self.value())
    }

    pub(crate) fn with_value(self, mark: u32, value: u32) -> Self {
        Word::new(self.child(), mark, value)
    }
}

/// The memory that references point into. It does not move.
#[derive(Clone, Copy)]
pub(crate) struct Mem(pub(crate) *mut u8);

impl Mem {
    /// Where a block is; not to be followed unless it is one.
    #[inline(always)]
    pub(crate) fn hint(self, r: u32) -> *mut u8 {
        self.0.wrapping_add(r as usize * 8)
    }

    /// # Safety
    /// `r` is a live node.
    #[inline(always)]
    pub(crate) unsafe fn node(self, r: u32) -> Node {
        Node(self.hint(r))
    }

    /// # Safety
    /// `r` is a live shelf.
    pub(crate) unsafe fn shelf(self, r: u32) -> Shelf {
        Shelf(self.hint(r))
    }

    /// # Safety
    /// `r` is a live root.
    #[inline(always)]
    pub(crate) unsafe fn root(self, r: u32) -> *const AtomicU64 {
        self.hint(r).cast_const().cast()
    }
}

/// Set bits of a word, for machines of which it is not known that they can count them in one step.
#[inline(always)]
pub(crate) fn ones(word: u64) -> u32 {
    word.count_ones()
}

/// A live node. Its methods rely on that.
#[derive(Clone, Copy)]
pub(crate) struct Node(pub(crate) *mut u8);

impl Node {
    /// Where the prefixes of a node with so many runs are.
    pub(crate) fn tail(runs: usize) -> usize {
        (16 + 4 * runs).next_multiple_of(8)
    }

    /// Bytes of a node with so many runs and prefixes.
    pub(crate) fn size(runs: usize, prefixes: usize) -> usize {
        match prefixes {
            0 => Node::tail(runs),
            _ => Node::tail(runs) + 16 + 4 * prefixes,
        }
    }

    #[inline(always)]
    pub(crate) fn runs(self) -> u64 {
        // SAFETY: a node begins with its runs.
        unsafe { self.0.cast::<u64>().read() }
    }

    #[inline(always)]
    pub(crate) fn base(self) -> u32 {
        // SAFETY: 16 bytes and more.
        unsafe { self.0.add(8).cast::<u32>().read() }
    }

    fn word(self) -> u32 {
        // SAFETY: 16 bytes and more.
        unsafe { self.0.add(12).cast::<u32>().read() }
    }

    /// How many prefixes end here.
    pub(crate) fn count(self) -> usize {
        (self.word() & !FRESH) as usize
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.word() & FRESH != 0
    }

    /// The prefixes that end here.
    pub(crate) fn prefixes<'a>(self) -> Prefixes<'a> {
        let count = self.count();
        if count == 0 {
            return Prefixes::default();
        }
        // SAFETY: behind the cells lie a set and as many values; nodes do not change while anyone can read them, and
        // the slices are dropped before the writer frees the node.
        unsafe {
            let p = self.0.add(Node::tail(self.cells().len()));
            Prefixes {
                set: Set(p.cast::<[u64; 2]>().read()),
                values: slice::from_raw_parts(p.add(16).cast::<u32>(), count),
            }
        }
    }

    /// Takes the FRESH mark away.
    ///
    /// # Safety
    /// Nobody else reads the node.
    pub(crate) unsafe fn unmark(self) {
        // SAFETY: 16 bytes and more, by the caller's promise ours alone.
        unsafe { self.0.add(12).cast::<u32>().write(self.word() & !FRESH) };
    }

    /// The cell of a run.
    ///
    /// # Safety
    /// `rank` is below the number of runs.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, rank: usize) -> u32 {
        // SAFETY: as many cells as runs follow the 16 bytes.
        unsafe { self.0.add(16 + 4 * rank).cast::<u32>().read() }
    }

    /// The run that a slot belongs to.
    #[inline(always)]
    pub(crate) fn rank(self, slot: usize) -> usize {
        (ones(self.runs() << (63 - slot)) - 1) as usize
    }

    pub(crate) fn slot(self, slot: usize) -> u32 {
        // SAFETY: the rank of a slot is below the number of runs, as bit 0 is set.
        unsafe { self.cell(self.rank(slot)) }
    }

    /// The cells of all runs.
    pub(crate) fn cells<'a>(self) -> &'a [u32] {
        // SAFETY: as many cells as runs follow; nodes do not change while anyone can read them. The slices are
        // dropped before the writer frees the node.
        unsafe { slice::from_raw_parts(self.0.add(16).cast::<u32>(), ones(self.runs()) as usize) }
    }

    /// All slots.
    pub(crate) fn expand(self) -> [u32; SLOTS] {
        let mut slots = [0; SLOTS];
        let mut runs = self.runs();
        for &cell in self.cells() {
            let start = runs.trailing_zeros() as usize;
            runs &= runs - 1;
            let end = if runs == 0 {
                SLOTS
            } else {
                runs.trailing_zeros() as usize
            };
            slots[start..end].fill(cell);
        }
        slots
    }

    /// The slots that have a node below, with it.
    pub(crate) fn children(self) -> impl Iterator<Item = (usize, u32)> {
        let mut runs = self.runs();
        self.cells().iter().filter_map(move |&cell| {
            let start = runs.trailing_zeros() as usize;
            runs &= runs - 1;
            (cell & CHILD != 0).then_some((start, cell & REF))
        })
    }
}

/// The runs of 64 slots.
pub(crate) fn runs_of(slots: &[u32; SLOTS]) -> u64 {
    let mut before = [0; SLOTS];
    before[1..].copy_from_slice(&slots[..SLOTS - 1]);
    differences(slots, &before) | 1
}

/// Bit i says that the two differ at i.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn differences(a: &[u32; SLOTS], b: &[u32; SLOTS]) -> u64 {
    use core::arch::x86_64::{_mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps};
    let mut equal = 0;
    for (i, (a, b)) in a.chunks_exact(4).zip(b.chunks_exact(4)).enumerate() {
        // SAFETY: SSE2 is part of x86-64; each chunk has 16 bytes.
        let four = unsafe {
            let (a, b) = (
                _mm_loadu_si128(a.as_ptr().cast()),
                _mm_loadu_si128(b.as_ptr().cast()),
            );
            _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(a, b)))
        };
        equal |= (four as u64) << (4 * i);
    }
    !equal
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn differences(a: &[u32; SLOTS], b: &[u32; SLOTS]) -> u64 {
    let pairs = a.iter().zip(b).enumerate();
    pairs.fold(0, |all, (i, (a, b))| all | u64::from(a != b) << i)
}

/// A set of the prefixes inside a stride: bit `1 << length | bits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Set(pub(crate) [u64; 2]);

impl Set {
    pub(crate) const FRESH: u64 = 1;

    /// The number of a prefix.
    pub(crate) fn heap(len: u32, bits: usize) -> usize {
        1 << len | bits
    }

    pub(crate) fn has(self, heap: usize) -> bool {
        self.0[heap >> 6] >> (heap & 63) & 1 != 0
    }

    pub(crate) fn insert(&mut self, heap: usize) {
        self.0[heap >> 6] |= 1 << (heap & 63);
    }

    pub(crate) fn remove(&mut self, heap: usize) {
        self.0[heap >> 6] &= !(1 << (heap & 63));
    }

    /// How many are before this one.
    pub(crate) fn rank(self, heap: usize) -> usize {
        let low = self.0[0] & !Self::FRESH;
        let below = |word: u64, bit: usize| ones(word & ((1 << bit) - 1)) as usize;
        if heap < 64 {
            below(low, heap)
        } else {
            ones(low) as usize + below(self.0[1], heap & 63)
        }
    }

    pub(crate) fn len(self) -> usize {
        (ones(self.0[0] & !Self::FRESH) + ones(self.0[1])) as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The longest prefix that is a proper prefix of this one, down to number `least`.
    pub(crate) fn cover(self, heap: usize, least: usize) -> Option<usize> {
        let mut h = heap >> 1;
        while h >= least {
            if self.has(h) {
                return Some(h);
            }
            h >>= 1;
        }
        None
    }

    /// The numbers of all, in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut words = [self.0[0] & !Self::FRESH, self.0[1]];
        core::iter::from_fn(move || {
            let i = usize::from(words[0] == 0);
            let bit = words[i].trailing_zeros() as usize;
            words[i] &= words[i].checked_sub(1)?;
            Some(64 * i + bit)
        })
    }
}

/// The length of the prefix of this number.
pub(crate) fn len_of(heap: usize) -> u32 {
    heap.ilog2()
}

/// The slots that a prefix covers.
pub(crate) fn slots_of(heap: usize) -> core::ops::Range<usize> {
    let len = len_of(heap);
    let start = (heap - (1 << len)) << (STRIDE - len);
    start..start + (1 << (STRIDE - len))
}

/// The prefixes that end inside a node.
#[derive(Clone, Copy, Default)]
pub(crate) struct Prefixes<'a> {
    pub(crate) set: Set,
    pub(crate) values: &'a [u32],
}

impl Prefixes<'_> {
    pub(crate) fn get(self, heap: usize) -> Option<u32> {
        let Prefixes { set, values } = self;
        set.has(heap).then(|| values[set.rank(heap)])
    }
}

/// A live shelf. Its methods rely on that.
#[derive(Clone, Copy)]
pub(crate) struct Shelf(pub(crate) *mut u8);

impl Shelf {
    pub(crate) fn size(values: usize, below: usize) -> usize {
        24 + 4 * (values + below)
    }

    pub(crate) fn bytes(self) -> usize {
        Self::size(self.set().len(), ones(self.kids()) as usize)
    }

    pub(crate) fn set(self) -> Set {
        // SAFETY: the block begins with the set.
        Set(unsafe { self.0.cast::<[u64; 2]>().read() })
    }

    /// Which slots have a shelf below.
    pub(crate) fn kids(self) -> u64 {
        // SAFETY: 24 bytes and more.
        unsafe { self.0.add(16).cast::<u64>().read() }
    }

    fn words<'a>(self) -> &'a [u32] {
        let count = self.set().len() + ones(self.kids()) as usize;
        // SAFETY: as many words follow; as for `Node::cells`.
        unsafe { slice::from_raw_parts(self.0.add(24).cast::<u32>(), count) }
    }

    pub(crate) fn values<'a>(self) -> &'a [u32] {
        &self.words()[..self.set().len()]
    }

    /// The shelves below, in the order of their slots.
    pub(crate) fn below<'a>(self) -> &'a [u32] {
        &self.words()[self.set().len()..]
    }

    pub(crate) fn get(self, heap: usize) -> Option<u32> {
        let set = self.set();
        set.has(heap).then(|| self.values()[set.rank(heap)])
    }

    /// The shelf below a slot, or 0.
    pub(crate) fn child(self, slot: usize) -> u32 {
        let kids = self.kids();
        if kids >> slot & 1 == 0 {
            return 0;
        }
        self.below()[ones(kids & ((1 << slot) - 1)) as usize]
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.set().0[0] & Set::FRESH != 0
    }

    /// Takes the FRESH mark away.
    ///
    /// # Safety
    /// Nobody else reads the shelf.
    pub(crate) unsafe fn unmark(self) {
        // SAFETY: the shelf begins with its set, and is by the caller's promise ours alone.
        unsafe { self.0.cast::<u64>().write(self.set().0[0] & !Set::FRESH) };
    }
}
