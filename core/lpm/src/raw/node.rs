//! The blocks of a table in memory: nodes, and root prefixes. Their words are those of
//! [`format`](super::format).

use core::slice;
use core::sync::atomic::AtomicU64;

use sapwood_arena::Kind;

use crate::garbage::Block;
use sapwood_format::lpm::{
    CHILD, FRESH, LONE_BYTES, LONE_MAX, NODE_BASE, NODE_COUNT, NODE_RUNS, NODE_SLOTS,
    ROOT_PREFIXES_KIDS, ROOT_PREFIXES_VALUES, SET, SLOTS, STRIDE, Set, child_of, is_lone, len_of,
    lone_len, lone_matches, lone_word, node_bytes, node_tail, ones, rank_of, root_prefixes_bytes,
};

/// The kinds of blocks in the arena's accounts.
pub(crate) const NODE: Kind = Kind(0);
pub(crate) const ROOT_PREFIXES: Kind = Kind(1);
pub(crate) const VALUE: Kind = Kind(2);
pub(crate) const ROOT: Kind = Kind(3);
/// Free memory that the writer keeps.
pub(crate) const POOLED: Kind = Kind(4);

/// The memory that references point into. It does not move.
#[derive(Clone, Copy)]
pub(crate) struct Mem(pub(crate) *mut u8);

impl Mem {
    /// The address of a block. Only the address of a live block may be followed.
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
    /// `r` is a live block of root prefixes.
    pub(crate) unsafe fn root_prefixes(self, r: u32) -> RootPrefixes {
        RootPrefixes(self.hint(r))
    }

    /// # Safety
    /// `r` is a live root.
    #[inline(always)]
    pub(crate) unsafe fn root(self, r: u32) -> *const AtomicU64 {
        self.hint(r).cast_const().cast()
    }
}

/// The only prefix from a node's place on: its remaining bits and its value. With more bits than a
/// stride it takes a lone prefix's block, else a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lone {
    /// The remaining bits, as [`lone_word`] writes them.
    pub(crate) word: u64,
    pub(crate) value: u32,
}

impl Lone {
    /// The first `len` of these bits, with a value; none when they are too many.
    pub(crate) fn new(bits: u64, len: u32, value: u32) -> Option<Self> {
        (len <= LONE_MAX).then(|| Lone {
            word: lone_word(bits, len),
            value,
        })
    }

    /// The prefix of this number in a node.
    pub(crate) fn of_node(heap: usize, value: u32) -> Option<Self> {
        let len = len_of(heap);
        // The number's highest bit stands before the prefix's own.
        Lone::new((heap as u64) << (64 - len), len, value)
    }

    /// The number of remaining bits.
    pub(crate) fn len(self) -> u32 {
        lone_len(self.word)
    }

    /// Whether this is no prefix, but the mark in all words of a root that has grown. It matches no
    /// address.
    #[inline(always)]
    pub(crate) fn is_moved(self) -> bool {
        self.word == 0
    }

    /// The remaining bits, with zeros behind.
    pub(crate) fn bits(self) -> u64 {
        self.word & (self.word - 1)
    }

    /// Whether the prefix matches the bits of an address from the node's place on.
    pub(crate) fn matches(self, bits: u64) -> bool {
        lone_matches(self.word, bits)
    }

    /// The same prefix, seen from the node above, in whose slot it lies; none when it has too many
    /// bits left then.
    pub(crate) fn seen_above(self, slot: usize) -> Option<Self> {
        let bits = self.bits() >> STRIDE | (slot as u64) << (64 - STRIDE);
        Lone::new(bits, self.len() + STRIDE, self.value)
    }
}

/// A live node, or a lone prefix in the place of one. Its methods rely on that.
#[derive(Clone, Copy)]
pub(crate) struct Node(pub(crate) *mut u8);

impl Node {
    /// The block as garbage.
    pub(crate) fn block(self, r: u32) -> Block {
        let bytes = match self.lone() {
            Some(_) => LONE_BYTES,
            None => node_bytes(self.cells().len(), self.count()),
        };
        Block::new(r, NODE, bytes)
    }

    /// The prefix, when it is the only one from here on and has few enough bits left.
    pub(crate) fn sole(self) -> Option<Lone> {
        if let Some(lone) = self.lone() {
            return Some(lone);
        }
        let Prefixes { set, values } = self.prefixes();
        let &[value] = values else { return None };
        let heap = set.iter().next()?;
        match self.children().next() {
            Some(_) => None,
            None => Lone::of_node(heap, value),
        }
    }

    /// The lone prefix, when this is one.
    #[inline(always)]
    pub(crate) fn lone(self) -> Option<Lone> {
        let word = self.runs();
        is_lone(word).then(|| {
            // SAFETY: a lone prefix has two cells.
            let value = unsafe { self.cell(1) };
            Lone { word, value }
        })
    }

    /// The runs, or the first word of a lone prefix.
    #[inline(always)]
    pub(crate) fn runs(self) -> u64 {
        // SAFETY: a node begins with its runs.
        unsafe { self.0.add(NODE_RUNS).cast::<u64>().read() }
    }

    #[inline(always)]
    pub(crate) fn base(self) -> u32 {
        // SAFETY: 16 bytes and more.
        unsafe { self.0.add(NODE_BASE).cast::<u32>().read() }
    }

    fn word(self) -> u32 {
        // SAFETY: 16 bytes and more.
        unsafe { self.0.add(NODE_COUNT).cast::<u32>().read() }
    }

    /// The number of prefixes that end here.
    pub(crate) fn count(self) -> usize {
        (self.word() & !FRESH) as usize
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.word() & FRESH != 0
    }

    /// The prefixes that end here. The node is no lone prefix.
    pub(crate) fn prefixes<'a>(self) -> Prefixes<'a> {
        debug_assert!(!is_lone(self.runs()));
        let count = self.count();
        if count == 0 {
            return Prefixes::default();
        }
        // SAFETY: behind the cells lie a set and as many values; nodes do not change while anyone
        // can read them, and the slices are dropped before the writer frees the node.
        unsafe {
            let p = self.0.add(node_tail(self.cells().len()));
            Prefixes {
                set: Set(p.cast::<[u64; 2]>().read()),
                values: slice::from_raw_parts(p.add(SET).cast::<u32>(), count),
            }
        }
    }

    /// Takes the FRESH mark away.
    ///
    /// # Safety
    /// Nobody else reads the node.
    pub(crate) unsafe fn unmark(self) {
        // SAFETY: the node has 16 bytes and more; by the caller's promise nobody else uses it.
        unsafe {
            self.0
                .add(NODE_COUNT)
                .cast::<u32>()
                .write(self.word() & !FRESH)
        };
    }

    /// The cell of a run.
    ///
    /// # Safety
    /// `rank` is below the number of runs, or below 2 in a lone prefix.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, rank: usize) -> u32 {
        // SAFETY: as many cells as runs, or two, follow the 16 bytes.
        unsafe { self.0.add(NODE_SLOTS + 4 * rank).cast::<u32>().read() }
    }

    /// The run that a slot belongs to.
    #[inline(always)]
    pub(crate) fn rank(self, slot: usize) -> usize {
        rank_of(self.runs(), slot)
    }

    /// Gives a slot that is a run of its own another child.
    ///
    /// # Safety
    /// Nobody else knows the node.
    pub(crate) unsafe fn set_child(self, slot: usize, child: u32) {
        // SAFETY: as for `cell`; by the caller's promise nobody else uses the node.
        unsafe {
            let cell = self.0.add(NODE_SLOTS + 4 * self.rank(slot));
            cell.cast::<u32>().write(CHILD | child);
        }
    }

    pub(crate) fn slot(self, slot: usize) -> u32 {
        // SAFETY: the rank of a slot is below the number of runs, as bit 0 is set.
        unsafe { self.cell(self.rank(slot)) }
    }

    /// The cells of all runs; none for a lone prefix.
    pub(crate) fn cells<'a>(self) -> &'a [u32] {
        let runs = self.runs();
        let count = if is_lone(runs) { 0 } else { ones(runs) };
        // SAFETY: as many cells as runs follow; nodes do not change while anyone can read them. The
        // slices are dropped before the writer frees the node.
        unsafe { slice::from_raw_parts(self.0.add(NODE_SLOTS).cast::<u32>(), count as usize) }
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
            let child = child_of(cell);
            (child != 0).then_some((start, child))
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
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
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

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
fn differences(a: &[u32; SLOTS], b: &[u32; SLOTS]) -> u64 {
    let pairs = a.iter().zip(b).enumerate();
    pairs.fold(0, |all, (i, (a, b))| all | u64::from(a != b) << i)
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

/// A live block of root prefixes, one level of them. Its methods rely on that.
#[derive(Clone, Copy)]
pub(crate) struct RootPrefixes(pub(crate) *mut u8);

impl RootPrefixes {
    /// The block as garbage.
    pub(crate) fn block(self, r: u32) -> Block {
        Block::new(r, ROOT_PREFIXES, root_prefixes_bytes(self.words().len()))
    }

    pub(crate) fn set(self) -> Set {
        // SAFETY: the block begins with the set.
        Set(unsafe { self.0.cast::<[u64; 2]>().read() })
    }

    /// Which slots have a block below.
    pub(crate) fn kids(self) -> u64 {
        // SAFETY: 24 bytes and more.
        unsafe { self.0.add(ROOT_PREFIXES_KIDS).cast::<u64>().read() }
    }

    fn words<'a>(self) -> &'a [u32] {
        let count = self.set().len() + ones(self.kids()) as usize;
        // SAFETY: as many words follow; as for `Node::cells`.
        unsafe { slice::from_raw_parts(self.0.add(ROOT_PREFIXES_VALUES).cast::<u32>(), count) }
    }

    pub(crate) fn values<'a>(self) -> &'a [u32] {
        &self.words()[..self.set().len()]
    }

    /// The blocks below, in the order of their slots.
    pub(crate) fn below<'a>(self) -> &'a [u32] {
        &self.words()[self.set().len()..]
    }

    /// The block below a slot, or 0.
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
    /// Nobody else reads the block.
    pub(crate) unsafe fn unmark(self) {
        // SAFETY: the block begins with its set; by the caller's promise nobody else uses it.
        unsafe { self.0.cast::<u64>().write(self.set().0[0] & !Set::FRESH) };
    }
}
