//! Which process this is, and whose a value is: a child of `fork` has a copy of all values, but the
//! files of live maps, and what is mapped of them, are still those of its parent.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

#[cfg(test)]
mod tests;

/// A process, as forks tell it from its parent and its children.
///
/// ```
/// use sapwood_live::Process;
/// let mine = Process::current();
/// assert!(mine.is_current()); // not in a child of `fork`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process(u32);

/// What there is before the page: no number.
static NONE: AtomicU32 = AtomicU32::new(0);
/// The word with the number of this process. It lies in a page that the kernel empties in the child
/// of a fork, so that a look at it needs no system call, however the process was forked.
static NUMBER: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NONE).cast_mut());
/// At least the greatest number that this process or one before it in the line has had.
static LAST: AtomicU32 = AtomicU32::new(0);

impl Process {
    /// This process. O(1): two loads, and some system calls once in each process.
    #[inline(always)]
    pub fn current() -> Process {
        // SAFETY: it points to `NONE` or to a page that stays mapped.
        match unsafe { &*NUMBER.load(Ordering::Acquire) }.load(Ordering::Relaxed) {
            0 => first_look(),
            number => Process(number),
        }
    }

    /// Whether this is the process. O(1).
    #[inline(always)]
    pub fn is_current(self) -> bool {
        // SAFETY: it points to `NONE` or to a page that stays mapped.
        let number = unsafe { &*NUMBER.load(Ordering::Acquire) }.load(Ordering::Relaxed);
        number == self.0 || self.is_found()
    }

    /// As [`is_current`](Self::is_current), where the number is not there yet, or another.
    #[cold]
    #[inline(never)]
    fn is_found(self) -> bool {
        self == Process::current()
    }

    /// Its number, which is not 0.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Gives this process a number.
#[cold]
#[inline(never)]
fn first_look() -> Process {
    let mut page = NUMBER.load(Ordering::Acquire);
    if std::ptr::eq(page, &raw const NONE) {
        let Some(made) = page_of_one_process() else {
            // A kernel before Linux 4.14, or no address space: a system call for each look.
            return Process(
                rustix::process::getpid()
                    .as_raw_nonzero()
                    .get()
                    .unsigned_abs(),
            );
        };
        // A thread that comes second leaves its page behind.
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        page = match NUMBER.compare_exchange(page, made, set, get) {
            Ok(_) => made,
            Err(first) => first,
        };
    }
    // Counted before it is used: a child that is forked in between counts on from there.
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: the page stays mapped.
    let word = unsafe { &*page };
    match word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Process(number),
        Err(first) => Process(first),
    }
}

/// A page of zeros that has zeros again in each child of a fork.
fn page_of_one_process() -> Option<*mut AtomicU32> {
    const BYTES: usize = 4096;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh mapping at an address of the system's choice disturbs nothing, and the advice
    // and the end concern this mapping only.
    unsafe {
        let page = rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, access, flags).ok()?;
        if rustix::mm::madvise(page, BYTES, Advice::LinuxWipeOnFork).is_err() {
            let _ = rustix::mm::munmap(page, BYTES);
            return None;
        }
        Some(page.cast())
    }
}

/// A value of the process that made it. In a child of `fork` it cannot be had, and its drop does
/// nothing: the memory to which it refers is the parent's.
pub(crate) struct Ours<T> {
    value: ManuallyDrop<T>,
    process: Process,
}

impl<T> Ours<T> {
    pub(crate) fn new(value: T) -> Self {
        Ours {
            value: ManuallyDrop::new(value),
            process: Process::current(),
        }
    }

    /// Whether this process made it.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// The value; none in a child of the process that made it.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        self.is_ours().then_some(&*self.value)
    }
}

impl<T> Deref for Ours<T> {
    type Target = T;

    /// # Panics
    /// In a child of the process that made it.
    #[inline(always)]
    fn deref(&self) -> &T {
        match self.get() {
            Some(value) => value,
            None => not_ours(),
        }
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, and not used after that.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Ends the use of a live map, or of a reader, by a child of the process that opened it.
#[cold]
#[inline(never)]
pub(crate) fn not_ours() -> ! {
    panic!(
        "this process is a child of fork, and must not use the live maps and the readers that its \
         parent opened: open them here"
    );
}
