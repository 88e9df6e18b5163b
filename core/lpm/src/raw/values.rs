//! The values of a table: equal ones are stored once, and counted.
//!
//! A value's block does not change while a reader can see it, so the count of its prefixes, which
//! only the writer needs, lies elsewhere. After the value comes the number of its count.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::ptr;

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use sapwood_arena::{Area, Arena, ArenaFull, Ref};

use super::node::{Mem, VALUE};

/// The layout of values of type `V`.
struct Layout<V>(PhantomData<V>);

impl<V> Layout<V> {
    /// Values with a larger alignment than a block's are boxed.
    const BOXED: bool = align_of::<V>() > 8;
    const SLOT: usize = if Self::BOXED {
        size_of::<*mut V>()
    } else {
        size_of::<V>()
    };
    /// The offset of the number.
    const NUMBER: usize = Self::SLOT.next_multiple_of(4);
    const BYTES: usize = Self::NUMBER + 4;
}

/// The value in a block.
///
/// # Safety
/// `p` is a live value's block, and stays one for `'a`.
#[inline(always)]
pub(crate) unsafe fn value<'a, V>(p: *mut u8) -> &'a V {
    // SAFETY: a value, or a pointer to one, begins the block; blocks are aligned to 8.
    unsafe {
        if Layout::<V>::BOXED {
            &*p.cast::<*mut V>().read()
        } else {
            &*p.cast::<V>()
        }
    }
}

/// The table's values, and how many prefixes have each.
pub(crate) struct Values<V> {
    /// Blocks by the hash of their values.
    table: HashTable<u32>,
    /// By the number of the value: the count of its prefixes, and its hash. So only
    /// [`find`](Self::find) and [`add`](Self::add) run the values' own code.
    counts: Vec<(u32, u64)>,
    /// Numbers that no value has.
    unused: Vec<u32>,
    state: FixedState,
    values: PhantomData<V>,
}

impl<V: Eq + Hash> Values<V> {
    pub(crate) fn new(seed: u64) -> Self {
        Values {
            table: HashTable::new(),
            counts: Vec::new(),
            unused: Vec::new(),
            state: FixedState::with_seed(seed),
            values: PhantomData,
        }
    }

    /// The block of a value that is equal, if there is one.
    pub(crate) fn find(&self, mem: Mem, wanted: &V) -> Option<u32> {
        let hash = self.state.hash_one(wanted);
        self.table
            // SAFETY: the table holds live blocks.
            .find(hash, |&r| unsafe { value::<V>(mem.hint(r)) } == wanted)
            .copied()
    }

    /// A block for a value that no other block has; its count is 0.
    pub(crate) fn add(&mut self, arena: &mut Arena, new: V) -> Result<u32, (V, ArenaFull)> {
        // Code that may unwind comes first.
        let hash = self.state.hash_one(&new);
        let block = match arena.alloc(Layout::<V>::BYTES, VALUE, Area::Leaves) {
            Ok(block) => block,
            Err(full) => return Err((new, full)),
        };
        let number = self.unused.pop().unwrap_or_else(|| {
            self.counts.push((0, 0));
            (self.counts.len() - 1) as u32
        });
        self.counts[number as usize] = (0, hash);
        let mem = Mem(arena.base());
        let p = mem.hint(block.get());
        // SAFETY: a block of our own of that size, aligned to 8.
        unsafe {
            if Layout::<V>::BOXED {
                p.cast::<*mut V>().write(Box::into_raw(Box::new(new)));
            } else {
                p.cast::<V>().write(new);
            }
            p.add(Layout::<V>::NUMBER).cast::<u32>().write(number);
        }
        let counts = &self.counts;
        self.table.insert_unique(hash, block.get(), |&r| {
            counts[Self::number(mem, r) as usize].1
        });
        Ok(block.get())
    }
}

impl<V> Values<V> {
    fn number(mem: Mem, r: u32) -> u32 {
        // SAFETY: values in use are live blocks, which hold a number.
        unsafe { mem.hint(r).add(Layout::<V>::NUMBER).cast::<u32>().read() }
    }

    /// Counts one prefix more that has the value.
    pub(crate) fn retain(&mut self, mem: Mem, r: u32) {
        self.counts[Self::number(mem, r) as usize].0 += 1;
    }

    /// How many prefixes have the value.
    pub(crate) fn count(&self, mem: Mem, r: u32) -> u32 {
        self.counts[Self::number(mem, r) as usize].0
    }

    /// Counts one prefix less that has the value. When none is left, this forgets the value and
    /// returns true, and the block is the caller's.
    #[must_use]
    pub(crate) fn release(&mut self, mem: Mem, r: u32) -> bool {
        let count = &mut self.counts[Self::number(mem, r) as usize].0;
        *count -= 1;
        let last = *count == 0;
        if last {
            self.forget(mem, r);
        }
        last
    }

    /// Forgets a value that no prefix has.
    pub(crate) fn forget(&mut self, mem: Mem, r: u32) {
        let number = Self::number(mem, r);
        let hash = self.counts[number as usize].1;
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == r) {
            entry.remove();
            self.unused.push(number);
        }
    }

    /// Gives back the memory of the lists, if there is no value.
    pub(crate) fn give_back(&mut self) {
        if self.table.is_empty() {
            self.table = HashTable::new();
            self.counts = Vec::new();
            self.unused = Vec::new();
        }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The blocks of all values.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.table.iter().copied()
    }

    /// Approximate bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        self.table.capacity() * 5 * 8 / 7 + self.counts.capacity() * 16 + self.unused.capacity() * 4
    }
}

/// Takes the value out of its block; the block is to be freed.
///
/// # Safety
/// The block is live, and nobody uses it again.
pub(crate) unsafe fn take<V>(mem: Mem, r: u32) -> V {
    let p = mem.hint(r);
    // SAFETY: the caller's promise.
    unsafe {
        if Layout::<V>::BOXED {
            *Box::from_raw(p.cast::<*mut V>().read())
        } else {
            ptr::read(p.cast::<V>())
        }
    }
}

/// Frees the block of a value that was taken.
///
/// # Safety
/// As for [`Arena::free`].
pub(crate) unsafe fn free<V>(arena: &mut Arena, r: u32, retired: bool) {
    let Some(block) = Ref::new(r) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        if retired {
            arena.free_retired(block, Layout::<V>::BYTES, VALUE);
        } else {
            arena.free(block, Layout::<V>::BYTES, VALUE);
        }
    }
}

/// Frees a block that nobody saw; returns its value.
///
/// # Safety
/// The block is live, the table has forgotten it, and nobody uses it again.
pub(crate) unsafe fn free_new<V>(mem: Mem, arena: &mut Arena, r: u32) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let value = take(mem, r);
        free::<V>(arena, r, false);
        value
    }
}

/// Whether a block holds a pointer to its value.
pub(crate) const fn is_boxed<V>() -> bool {
    Layout::<V>::BOXED
}

/// Bytes of a value's block, in whole units.
pub(crate) const fn bytes<V>() -> usize {
    Layout::<V>::BYTES.next_multiple_of(8)
}
