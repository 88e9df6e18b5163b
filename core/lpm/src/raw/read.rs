//! Reading: lookups, exact prefixes, all covering prefixes. A lookup reads one root word and then
//! only memory that does not change any more.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sapwood_arena::prefetch;
use smallvec::SmallVec;

use super::node::{Mem, Prefixes};
use crate::family::Key;
use crate::sync;
use sapwood_format::lpm::{CHILD, REF, SLOTS, STRIDE, Set, Word, child_of, len_of, ones};

/// A source of root words.
pub(crate) trait Words: Copy {
    /// The word of these first bits.
    fn word(self, slot: usize) -> Word;

    /// The address of that word, for a prefetch.
    fn hint(self, slot: usize) -> *const u8;

    /// The first block of root prefixes, or 0.
    fn root_prefixes(self) -> u32;

    /// The words and the bits of the root that has replaced this one, if one has.
    #[inline(always)]
    fn newest(self, mem: Mem) -> Option<(Self, u32)> {
        let _ = mem;
        None
    }

    /// The value of an address by the root that has replaced this one.
    #[inline(always)]
    fn newest_value<K: Key>(self, mem: Mem, native: bool, key: K) -> u32 {
        let _ = (mem, native, key);
        0
    }
}

/// The table that everybody reads.
#[derive(Clone, Copy)]
pub(crate) struct Published<'a> {
    root: *const AtomicU64,
    root_prefixes: &'a AtomicU32,
    /// Where the newest root is, if the root may grow.
    head: Option<&'a AtomicU64>,
}

impl<'a> Published<'a> {
    /// # Safety
    /// `root` is a live root for as long as this is used, and so is what `head` names. Callers ask
    /// only for slots that it has.
    pub(crate) unsafe fn new(
        root: *const AtomicU64,
        root_prefixes: &'a AtomicU32,
        head: Option<&'a AtomicU64>,
    ) -> Self {
        Published {
            root,
            root_prefixes,
            head,
        }
    }

    /// The first word.
    pub(crate) fn root(self) -> *const AtomicU64 {
        self.root
    }
}

impl Words for Published<'_> {
    #[inline(always)]
    fn word(self, slot: usize) -> Word {
        sync::point();
        // SAFETY: the promise of the caller of `new`.
        Word(unsafe { &*self.root.add(slot) }.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn hint(self, slot: usize) -> *const u8 {
        self.root.wrapping_add(slot).cast()
    }

    fn root_prefixes(self) -> u32 {
        sync::point();
        self.root_prefixes.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn newest(self, mem: Mem) -> Option<(Self, u32)> {
        sync::point();
        let head = self.head?.load(Ordering::Acquire);
        // SAFETY: as the caller of `new` promises.
        let root = unsafe { mem.root(head as u32) };
        Some((Published { root, ..self }, (head >> 32) as u32))
    }

    #[inline(always)]
    fn newest_value<K: Key>(self, mem: Mem, native: bool, key: K) -> u32 {
        self.head
            .map_or(0, |head| value_of_newest(head, mem, native, key))
    }
}

/// The value of an address by the newest root. It takes words and no reading: that would have to be
/// in memory, and the compiler would put it there before each lookup.
#[cold]
#[inline(never)]
fn value_of_newest<K: Key>(head: &AtomicU64, mem: Mem, native: bool, key: K) -> u32 {
    /// Not asked for.
    static NO_PREFIXES: AtomicU32 = AtomicU32::new(0);
    sync::point();
    let newest = head.load(Ordering::Acquire);
    // SAFETY: the newest root is live, as the caller of `Published::new` promises, and has the
    // slots of its bits.
    let words = unsafe { Published::new(mem.root(newest as u32), &NO_PREFIXES, Some(head)) };
    let reading = Reading {
        mem,
        words,
        bits: (newest >> 32) as u32,
        native,
    };
    reading.value(key)
}

/// A copy of all root words.
#[derive(Clone, Copy)]
pub(crate) struct Copied<'a> {
    pub(crate) words: &'a [u64],
    pub(crate) root_prefixes: u32,
}

impl Words for Copied<'_> {
    #[inline(always)]
    fn word(self, slot: usize) -> Word {
        Word(self.words[slot])
    }

    #[inline(always)]
    fn hint(self, slot: usize) -> *const u8 {
        self.words.as_ptr().wrapping_add(slot).cast()
    }

    fn root_prefixes(self) -> u32 {
        self.root_prefixes
    }
}

/// A method to count the bits of a word.
pub(crate) trait Count: Copy {
    fn ones(self, word: u64) -> u32;
}

/// Counts as the compiler does for its target.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Count for Portable {
    #[inline(always)]
    fn ones(self, word: u64) -> u32 {
        ones(word)
    }
}

/// Counts with the processor's own instruction.
#[derive(Clone, Copy)]
#[cfg(all(
    feature = "std",
    target_arch = "x86_64",
    target_feature = "sse2",
    not(miri),
    not(target_feature = "popcnt")
))]
pub(crate) struct Native(());

#[cfg(all(
    feature = "std",
    target_arch = "x86_64",
    target_feature = "sse2",
    not(miri),
    not(target_feature = "popcnt")
))]
impl Count for Native {
    #[inline(always)]
    fn ones(self, word: u64) -> u32 {
        let count: u64;
        // SAFETY: this is only made where the processor has the instruction, which has no effect
        // but its result.
        unsafe {
            core::arch::asm!(
                "popcnt {count}, {word}",
                word = in(reg) word,
                count = out(reg) count,
                options(pure, nomem, nostack)
            );
        }
        count as u32
    }
}

/// Whether the processor counts bits in one instruction that the compiler's target lacks.
pub(crate) fn has_native() -> bool {
    #[cfg(all(
        feature = "std",
        target_arch = "x86_64",
        target_feature = "sse2",
        not(miri),
        not(target_feature = "popcnt")
    ))]
    return std::arch::is_x86_feature_detected!("popcnt");
    #[cfg(not(all(
        feature = "std",
        target_arch = "x86_64",
        target_feature = "sse2",
        not(miri),
        not(target_feature = "popcnt")
    )))]
    false
}

/// Calls `$f` with the quickest method to count.
macro_rules! counting {
    ($native:expr, $count:ident => $f:expr) => {{
        #[cfg(all(
            feature = "std",
            target_arch = "x86_64",
            target_feature = "sse2",
            not(miri),
            not(target_feature = "popcnt")
        ))]
        if $native {
            // `has_native` found the instruction.
            let $count = Native(());
            return $f;
        }
        #[cfg(not(all(
            feature = "std",
            target_arch = "x86_64",
            target_feature = "sse2",
            not(miri),
            not(target_feature = "popcnt")
        )))]
        let _ = $native;
        let $count = Portable;
        $f
    }};
}

/// A version of a table, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<W> {
    pub(crate) mem: Mem,
    pub(crate) words: W,
    /// Bits of the root.
    pub(crate) bits: u32,
    /// What [`has_native`] said.
    pub(crate) native: bool,
}

/// Lanes of a batch: enough to fill the processor's queue of loads several times over.
pub(crate) const LANES: usize = 32;

/// A lookup met the mark that a root leaves behind which has grown.
struct Moved;

/// A prefix of an address: length and value.
pub(crate) type Match = (u8, u32);

impl<W: Words> Reading<W> {
    /// The value of the longest prefix of the address, or 0.
    #[inline(always)]
    pub(crate) fn value<K: Key>(self, key: K) -> u32 {
        counting!(self.native, count => self.value_by(key, count))
    }

    #[inline(always)]
    fn value_by<K: Key>(self, key: K, count: impl Count) -> u32 {
        let word = self.words.word(key.top(self.bits));
        let mut best = word.value();
        let mut node = word.child();
        // Turned, not shifted, so that the whole address is still there below the root: it needs no
        // register of its own. What lies behind the last bit matters to no node: there a prefix
        // covers all slots that its bits leave open, and a lone prefix ends before.
        let mut rest = key.turn(self.bits);
        while node != 0 {
            // SAFETY: what a root word reaches is live while the version is kept.
            let n = unsafe { self.mem.node(node) };
            let base = n.base();
            best = if base == 0 { best } else { base };
            if let Some(lone) = n.lone() {
                return if lone.matches(rest.word(0)) {
                    lone.value
                } else if lone.is_moved() {
                    // The mark is nowhere but right below a root.
                    let key = rest.turn_back(self.bits);
                    self.words.newest_value(self.mem, self.native, key)
                } else {
                    best
                };
            }
            let rank = count.ones(n.runs() << (SLOT_MAX - rest.top(STRIDE))) - 1;
            // SAFETY: bit 0 is set, so the rank is that of a run.
            let cell = unsafe { n.cell(rank as usize) };
            if cell & CHILD == 0 {
                return if cell == 0 { best } else { cell };
            }
            node = cell & REF;
            rest = rest.skip(STRIDE);
        }
        best
    }

    /// The same table with its newest root, after a lookup met the mark of one that has grown.
    #[inline(always)]
    pub(crate) fn newest(self) -> Option<Self> {
        let (words, bits) = self.words.newest(self.mem)?;
        Some(Reading {
            words,
            bits,
            ..self
        })
    }

    /// Calls `one` with the value, or 0, of each address, and stores its results. Up to [`LANES`]
    /// lookups wait for memory together.
    ///
    /// `one` of 0 is for an address without a prefix.
    #[inline(always)]
    pub(crate) fn values<A: Copy, K: Key, R: Copy>(
        self,
        addrs: &[A],
        key: impl Fn(A) -> K,
        out: &mut [R],
        one: impl Fn(u32) -> R,
    ) {
        counting!(self.native, count => {
            for (addrs, out) in addrs.chunks(LANES).zip(out.chunks_mut(LANES)) {
                self.values_by(addrs, &key, out, &one, count);
            }
        });
    }

    #[inline(always)]
    fn values_by<A: Copy, K: Key, R: Copy>(
        self,
        addrs: &[A],
        key: impl Fn(A) -> K,
        out: &mut [R],
        one: impl Fn(u32) -> R,
        count: impl Count,
    ) {
        let n = addrs.len().min(out.len()).min(LANES);
        let (addrs, out) = (&addrs[..n], &mut out[..n]);
        for &addr in addrs {
            prefetch(self.words.hint(key(addr).top(self.bits)));
        }
        let mut best = [0_u32; LANES];
        // The lanes that have nodes left to pass: lane and node.
        let mut lanes = [0_u64; LANES];
        let mut active = 0;
        for (lane, (&addr, best)) in addrs.iter().zip(best.iter_mut()).enumerate() {
            let word = self.words.word(key(addr).top(self.bits));
            *best = word.value();
            let node = word.child();
            prefetch(self.mem.hint(node));
            lanes[active % LANES] = (lane as u64) << 32 | u64::from(node);
            active += usize::from(node != 0);
        }
        let mut depth = self.bits;
        while active > 0 {
            let mut left = 0;
            for i in 0..active.min(LANES) {
                let lane = (lanes[i] >> 32) as usize;
                // SAFETY: what a root word reaches is live while the version is kept. Lanes are
                // below `n`.
                let (n, addr) = unsafe {
                    let n = self.mem.node(lanes[i] as u32);
                    (n, *addrs.get_unchecked(lane))
                };
                let best = &mut best[lane % LANES];
                if let Some(lone) = n.lone() {
                    let matches = lone.matches(key(addr).word(depth));
                    let mut better = if matches { lone.value } else { n.base() };
                    if lone.is_moved() {
                        better = self.words.newest_value(self.mem, self.native, key(addr));
                    }
                    *best = if better == 0 { *best } else { better };
                    continue;
                }
                let slot = key(addr).six(depth);
                let rank = count.ones(n.runs() << (SLOT_MAX - slot)) - 1;
                // SAFETY: bit 0 is set, so the rank is that of a run.
                let cell = unsafe { n.cell(rank as usize) };
                let below = cell & CHILD != 0;
                let here = if below { 0 } else { cell };
                let better = if here == 0 { n.base() } else { here };
                *best = if better == 0 { *best } else { better };
                prefetch(self.mem.hint(cell & REF));
                lanes[left % LANES] = (lane as u64) << 32 | u64::from(cell & REF);
                left += usize::from(below);
            }
            active = left;
            depth += STRIDE;
        }
        for (out, best) in out.iter_mut().zip(best) {
            *out = one(best);
        }
    }

    /// The longest prefix of the address that has at most this many bits.
    pub(crate) fn longest<K: Key>(self, key: K, most: u8) -> Option<Match> {
        let mut best = None;
        if u32::from(most) < self.bits {
            self.each_root_prefix(key, most, |found| best = Some(found));
            return best;
        }
        let word = self.words.word(key.top(self.bits));
        best = (word.mark() != 0).then(|| (word.mark() as u8 - 1, word.value()));
        match self.on_the_way(word, key, most, |found| best = Some(found)) {
            Ok(()) => best,
            Err(Moved) => self.newest()?.longest(key, most),
        }
    }

    /// All prefixes of the address that have at most this many bits, shortest first.
    pub(crate) fn matches<K: Key>(self, key: K, most: u8) -> SmallVec<[Match; 16]> {
        let mut all = SmallVec::new();
        if u32::from(most) <= self.bits {
            self.each_root_prefix(key, most, |found| all.push(found));
            return all;
        }
        // The word is read first: what it says of the longer prefixes is of one moment.
        let word = self.words.word(key.top(self.bits));
        self.each_root_prefix(key, self.bits as u8, |found| all.push(found));
        match self.on_the_way(word, key, most, |found| all.push(found)) {
            Ok(()) => all,
            Err(Moved) => self
                .newest()
                .map_or(all, |newest| newest.matches(key, most)),
        }
    }

    /// Each prefix of the address that ends inside the root and has at most this length, shortest
    /// first.
    pub(crate) fn each_root_prefix<K: Key>(self, key: K, most: u8, mut f: impl FnMut(Match)) {
        let (mut root_prefixes, mut rest, mut depth) = (self.words.root_prefixes(), key, 0);
        while root_prefixes != 0 {
            // SAFETY: as for nodes.
            let s = unsafe { self.mem.root_prefixes(root_prefixes) };
            let set = s.set();
            for heap in set.around(rest.top(STRIDE)) {
                let len = depth + len_of(heap);
                if len > u32::from(most) {
                    return;
                }
                f((len as u8, s.values()[set.rank(heap)]));
            }
            if depth + STRIDE >= u32::from(most) {
                return;
            }
            root_prefixes = s.child(rest.top(STRIDE));
            rest = rest.skip(STRIDE);
            depth += STRIDE;
        }
    }

    /// Each prefix of the address that is longer than the root and has at most this length,
    /// shortest first.
    fn on_the_way<K: Key>(
        self,
        word: Word,
        key: K,
        most: u8,
        mut f: impl FnMut(Match),
    ) -> Result<(), Moved> {
        let (mut node, mut rest, mut depth) = (word.child(), key.skip(self.bits), self.bits);
        while node != 0 {
            // SAFETY: what a root word reaches is live while the version is kept.
            let n = unsafe { self.mem.node(node) };
            if let Some(lone) = n.lone() {
                if lone.is_moved() {
                    return Err(Moved);
                }
                if depth + lone.len() <= u32::from(most) && lone.matches(rest.word(0)) {
                    f(((depth + lone.len()) as u8, lone.value));
                }
                return Ok(());
            }
            let slot = rest.top(STRIDE);
            let Prefixes { set, values } = n.prefixes();
            for heap in set.around(slot) {
                let len = depth + len_of(heap);
                if len > u32::from(most) {
                    return Ok(());
                }
                f((len as u8, values[set.rank(heap)]));
            }
            if depth + STRIDE >= u32::from(most) {
                return Ok(());
            }
            node = child_of(n.slot(slot));
            rest = rest.skip(STRIDE);
            depth += STRIDE;
        }
        Ok(())
    }

    /// The value of exactly this prefix, or 0.
    pub(crate) fn exact<K: Key>(self, key: K, len: u8) -> u32 {
        let len = u32::from(len);
        if len <= self.bits {
            let mut value = 0;
            self.each_root_prefix(key, len as u8, |(at, found)| {
                if u32::from(at) == len {
                    value = found;
                }
            });
            return value;
        }
        let mut node = self.words.word(key.top(self.bits)).child();
        let (mut rest, mut left) = (key.skip(self.bits), len - self.bits);
        while node != 0 {
            // SAFETY: what a root word reaches is live while the version is kept.
            let n = unsafe { self.mem.node(node) };
            if let Some(lone) = n.lone() {
                if lone.is_moved() {
                    return self
                        .newest()
                        .map_or(0, |newest| newest.exact(key, len as u8));
                }
                let same = lone.len() == left && lone.matches(rest.word(0));
                return if same { lone.value } else { 0 };
            }
            if left <= STRIDE {
                let heap = Set::heap(left, rest.top(left));
                return n.prefixes().get(heap).unwrap_or(0);
            }
            node = child_of(n.slot(rest.top(STRIDE)));
            rest = rest.skip(STRIDE);
            left -= STRIDE;
        }
        0
    }
}

/// The number of the last slot.
const SLOT_MAX: usize = SLOTS - 1;
