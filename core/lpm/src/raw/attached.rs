//! Tables that another process changes and publishes, read in memory that is mapped here.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sapwood_arena::ROOTS_AT;
use sapwood_format::lpm::header;
use zerocopy::{FromBytes, Immutable};

use super::node::Mem;
use super::read::{Published, Reading, has_native};
use super::view::View;
use crate::{Family, FibView, NextHop};

impl<'g, F: Family, V: NextHop + FromBytes + Immutable> FibView<'g, F, V> {
    /// A table that another process publishes ([`Builder::build_in`](crate::Builder::build_in)), in
    /// memory that is mapped here at `base`. It takes one load. For a crate that makes grace
    /// periods wait for readers in other processes, as `sapwood-live` does.
    ///
    /// # Safety
    /// The memory begins with the header page of a published table of this family with these
    /// values. It stays mapped, at least for reading, during `'g`. Until the end of `'g`, its
    /// writer frees nothing that was in the table when this was called, or that comes into it
    /// later.
    #[inline]
    pub unsafe fn of_published(base: NonNull<u8>) -> FibView<'g, F, V> {
        const { assert!(align_of::<V>() <= 8, "such values are not in the arena") };
        let word = |at: usize| base.as_ptr().wrapping_add(ROOTS_AT + 8 * at);
        // A word of the page is a number of 64 bits; this is the place of its lower half.
        let low = |at: usize, bytes: usize| match cfg!(target_endian = "big") {
            true => word(at).wrapping_add(8 - bytes),
            false => word(at),
        };
        let mem = Mem(base.as_ptr());
        // SAFETY: words of the header page, aligned, and accessed only as atomics; the root's word
        // does not change. By the caller's promise the root is a live block for `'g`, and so is
        // what its words reach.
        unsafe {
            let root = AtomicU64::from_ptr(word(header::ROOT).cast()).load(Ordering::Acquire);
            let root_prefixes = AtomicU32::from_ptr(low(header::SHELF, 4).cast());
            let len = AtomicUsize::from_ptr(low(header::LEN, size_of::<usize>()).cast());
            let words = Published::new(mem.root(root as u32), root_prefixes, None);
            let reading = Reading {
                mem,
                words,
                bits: (root >> 32) as u32,
                native: has_native(),
            };
            FibView::new(View::new(reading), len)
        }
    }
}
