//! Handles: what C holds pointers to.
//!
//! A handle begins with a word that says what it is. When it is freed, the word says so. The memory
//! of an unchecked handle then goes back, so a use after that is seen only by luck. That of a
//! checked one stays until the process ends, so each use after that is seen.
//!
//! The word's upper half is the number of a process if the handle belongs to a live map: a child of
//! `fork` has a copy of the handle, but what it stands for is still the parent's.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Failure, Outcome};
use crate::process;

/// What a handle has inside.
pub trait Body: Sized + 'static {
    /// The word that says what the handle is; different for each type.
    const MAGIC: u32;
    /// The name of the type in C, without `sapwood_`.
    const NAME: &'static str;

    /// A failure if this thread may not free the handle.
    fn may_end(&self) -> Outcome<()> {
        Ok(())
    }

    /// Lets go of the copy that a child of `fork` has of what belongs to a live map of its parent.
    /// A drop would free what the parent has, unless it knows of forks.
    fn leave(self) {
        let left: *mut Self = Box::into_raw(Box::new(self));
        keep_known(left);
    }
}

/// The word of a handle that was freed.
const FREED: u32 = u32::from_be_bytes(*b"dead");

/// The rules for a handle, and for those that are made of it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether a use against the rules ends the process.
    pub checked: bool,
    /// The only process that may use it; 0: children of `fork` may use their copies.
    process: u32,
}

impl Rules {
    /// The rules for what belongs to a live map: no child of `fork` may use it.
    pub fn of_this_process(checked: bool) -> Self {
        Rules {
            checked,
            process: process::current(),
        }
    }

    /// The same rules, or those of checked handles.
    pub fn or_checked(self, checked: bool) -> Self {
        Rules {
            checked: self.checked || checked,
            ..self
        }
    }
}

impl From<bool> for Rules {
    /// The rules for what any process may use that has a copy of it.
    fn from(checked: bool) -> Self {
        Rules {
            checked,
            process: 0,
        }
    }
}

/// The word of a handle.
#[inline(always)]
const fn word(magic: u32, process: u32) -> u64 {
    magic as u64 | (process as u64) << 32
}

/// Whether a word is that of a handle of this type that this process may use.
#[inline(always)]
fn is_open<T: Body>(found: u64) -> bool {
    found == word(T::MAGIC, 0) || found == word(T::MAGIC, process::current())
}

/// A handle. C knows it as a structure without known fields.
#[repr(C)]
pub struct Handle<T> {
    word: AtomicU64,
    checked: bool,
    body: ManuallyDrop<UnsafeCell<T>>,
}

/// What stays until the process ends, so that tools see that its memory is known. Only the address
/// is kept.
static KNOWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Notes that this memory stays until the process ends.
fn keep_known<T>(at: *mut T) {
    // Tried a few times: another thread may have had the lock when this process was forked.
    for _ in 0..1000 {
        if let Ok(mut known) = KNOWN.try_lock() {
            known.push(at.expose_provenance());
            break;
        }
        std::thread::yield_now();
    }
}

impl<T: Body> Handle<T> {
    /// A new handle, which belongs to C.
    pub fn into_c(body: T, rules: impl Into<Rules>) -> *mut Self {
        let rules = rules.into();
        Box::into_raw(Box::new(Handle {
            word: AtomicU64::new(word(T::MAGIC, rules.process)),
            checked: rules.checked,
            body: ManuallyDrop::new(UnsafeCell::new(body)),
        }))
    }

    /// The handle, if it is one of this type and was not freed.
    ///
    /// # Safety
    /// `at` is NULL, or a handle that C may use now.
    #[inline(always)]
    unsafe fn look<'a>(at: *const Self) -> Outcome<&'a Self> {
        if at.is_null() || !at.is_aligned() {
            return Err(Failure::null(T::NAME));
        }
        // SAFETY: the caller's promise; at least the word can be read.
        let word = unsafe { (*at.cast::<AtomicU64>()).load(Relaxed) };
        if !is_open::<T>(word) {
            // SAFETY: the same.
            return Err(unsafe { Self::wrong(at, word) });
        }
        // SAFETY: the word says that it is a handle of this type.
        Ok(unsafe { &*at })
    }

    /// The body, for lookups: nothing if there is something to say about the handle.
    ///
    /// # Safety
    /// As for [`shared`](Self::shared).
    #[inline(always)]
    pub unsafe fn quick<'a>(at: *const Self) -> Option<&'a T> {
        // SAFETY: the caller's promise.
        unsafe {
            if at.is_null() || !is_open::<T>((*at.cast::<AtomicU64>()).load(Relaxed)) {
                return None;
            }
            Some(&*(*at).body.get())
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn wrong(at: *const Self, word: u64) -> Failure {
        let text = match word as u32 {
            FREED => format!("the {} was freed before", T::NAME),
            magic if magic == T::MAGIC => format!(
                "this process is a child of fork, and the {} belongs to a live map of its parent: \
                 a child opens the map anew",
                T::NAME
            ),
            _ => return Failure::invalid(format!("the pointer is not to a {}", T::NAME)),
        };
        // SAFETY: the word says that a handle is or was here, so the flag behind it can be read.
        Failure::misuse(text, unsafe { (&raw const (*at).checked).read() })
    }

    /// The rules for what is made of this handle.
    ///
    /// # Safety
    /// `at` is a handle of any type that C may use now, or a checked one.
    pub unsafe fn rules(at: *const Self) -> Rules {
        // SAFETY: the caller's promise. Both lie at the same places in all handles.
        unsafe {
            Rules {
                checked: (&raw const (*at).checked).read(),
                process: ((*at.cast::<AtomicU64>()).load(Relaxed) >> 32) as u32,
            }
        }
    }

    /// Whether the handle is checked.
    ///
    /// # Safety
    /// As for [`shared`](Self::shared).
    pub unsafe fn is_checked(at: *const Self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Self::look(at) }.is_ok_and(|handle| handle.checked)
    }

    /// The body, for calls that several threads may make at once.
    ///
    /// # Safety
    /// `at` is NULL, or a handle that C may use now; nobody has it exclusively.
    #[inline(always)]
    pub unsafe fn shared<'a>(at: *const Self) -> Outcome<&'a T> {
        // SAFETY: the caller's promise.
        Ok(unsafe { &*Self::look(at)?.body.get() })
    }

    /// The body, for calls that one thread makes at a time.
    ///
    /// # Safety
    /// `at` is NULL, or a handle that only this call uses now.
    #[inline(always)]
    pub unsafe fn exclusive<'a>(at: *mut Self) -> Outcome<&'a mut T> {
        // SAFETY: the caller's promise.
        Ok(unsafe { &mut *Self::look(at)?.body.get() })
    }

    /// Takes the body out, and frees the handle.
    ///
    /// # Safety
    /// `at` is NULL, or a handle that nobody else uses now.
    pub unsafe fn take(at: *mut Self) -> Outcome<T> {
        // SAFETY: the caller's promise.
        unsafe { Self::look(at) }?;
        // SAFETY: it is a handle that was not freed, and the caller's promise.
        Ok(unsafe { Self::end(at) })
    }

    /// Frees a handle of a live map of the parent, of which a child of `fork` has a copy. Returns
    /// whether it is one.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub unsafe fn leave(at: *mut Self) -> bool {
        if at.is_null() || !at.is_aligned() {
            return false;
        }
        // SAFETY: the caller's promise; at least the word can be read.
        let word = unsafe { (*at.cast::<AtomicU64>()).load(Relaxed) };
        let ours = word as u32 != T::MAGIC || is_open::<T>(word);
        if !ours {
            // SAFETY: the word says that it is a handle which was not freed.
            unsafe { Self::end(at) }.leave();
        }
        !ours
    }

    /// Takes the body out, and frees the handle.
    ///
    /// # Safety
    /// `at` is a handle that was not freed, and that nobody else uses now.
    unsafe fn end(at: *mut Self) -> T {
        // SAFETY: the caller's promise.
        let handle = unsafe { &*at };
        let checked = handle.checked;
        handle.word.store(word(FREED, 0), Relaxed);
        // SAFETY: the word keeps everybody else from the body from now on.
        let body = unsafe { ManuallyDrop::take(&mut (*at).body) }.into_inner();
        if checked {
            keep_known(at);
        } else {
            // SAFETY: `into_c` made it; the body is gone, and `ManuallyDrop` drops nothing.
            drop(unsafe { Box::from_raw(at) });
        }
        body
    }
}

/// Takes the body out and drops it. NULL is allowed, as for `free`.
///
/// # Safety
/// As for [`Handle::take`].
pub unsafe fn free<T: Body>(at: *mut Handle<T>) -> Outcome<()> {
    // SAFETY: the caller's promise.
    if !at.is_null() && !unsafe { Handle::leave(at) } {
        // SAFETY: the same.
        unsafe { Handle::shared(at)?.may_end()? };
        // SAFETY: the same.
        drop(unsafe { Handle::take(at) }?);
    }
    Ok(())
}

/// A thread, known by the address of a variable of its own. An address may be used again when the
/// thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(usize);

thread_local! {
    static HERE: u8 = const { 0 };
}

impl Thread {
    /// This thread.
    #[inline]
    pub fn here() -> Self {
        Thread(HERE.with(|here| std::ptr::from_ref(here).addr()))
    }

    /// Its number, which is not 0.
    pub fn number(self) -> usize {
        self.0
    }

    /// A failure if this is another thread.
    #[inline]
    pub fn check(self, what: &str, checked: bool) -> Outcome<()> {
        if self == Thread::here() {
            return Ok(());
        }
        Err(Failure::misuse(
            format!("the {what} belongs to another thread, which made it"),
            checked,
        ))
    }
}
