//! Handles: what C holds pointers to.
//!
//! A handle begins with a word that says what it is. When it is freed, the word says so. The memory
//! of an unchecked handle then goes back, so a use after that is seen only by luck. That of a
//! checked one stays until the process ends, so each use after that is seen.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::error::{Failure, Outcome};

/// What a handle has inside.
pub trait Body: Sized + 'static {
    /// The word that says what the handle is; different for each type.
    const MAGIC: u32;
    /// The name of the type in C, without `sapwood_`.
    const NAME: &'static str;
}

/// The word of a handle that was freed.
const FREED: u32 = u32::from_be_bytes(*b"dead");

/// A handle. C knows it as a structure without known fields.
#[repr(C)]
pub struct Handle<T> {
    magic: AtomicU32,
    checked: bool,
    body: ManuallyDrop<UnsafeCell<T>>,
}

/// Freed checked handles, so that tools see that their memory is known. Only the address is kept.
static FREED_CHECKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl<T: Body> Handle<T> {
    /// A new handle, which belongs to C.
    pub fn into_c(body: T, checked: bool) -> *mut Self {
        Box::into_raw(Box::new(Handle {
            magic: AtomicU32::new(T::MAGIC),
            checked,
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
        let magic = unsafe { (*at.cast::<AtomicU32>()).load(Relaxed) };
        if magic != T::MAGIC {
            // SAFETY: the same.
            return Err(unsafe { Self::wrong(at, magic) });
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
            if at.is_null() || (*at.cast::<AtomicU32>()).load(Relaxed) != T::MAGIC {
                return None;
            }
            Some(&*(*at).body.get())
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn wrong(at: *const Self, magic: u32) -> Failure {
        if magic == FREED {
            // SAFETY: the word says that a handle was here, so the flag behind it can be read.
            let checked = unsafe { (&raw const (*at).checked).read() };
            return Failure::misuse(format!("the {} was freed before", T::NAME), checked);
        }
        Failure::invalid(format!("the pointer is not to a {}", T::NAME))
    }

    /// Whether the handle is checked.
    ///
    /// # Safety
    /// As for [`shared`](Self::shared).
    pub unsafe fn is_checked(at: *const Self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Self::look(at) }.is_ok_and(|handle| handle.checked)
    }

    /// The flag of a handle of any type.
    ///
    /// # Safety
    /// `at` is a handle of any type that C may use now.
    pub unsafe fn flag(at: *const Self) -> bool {
        // SAFETY: the caller's promise. The flag lies at the same place in all handles.
        unsafe { (&raw const (*at).checked).read() }
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
        let handle = unsafe { Self::look(at) }?;
        let checked = handle.checked;
        handle.magic.store(FREED, Relaxed);
        // SAFETY: the word keeps everybody else from the body from now on.
        let body = unsafe { ManuallyDrop::take(&mut (*at).body) }.into_inner();
        if checked {
            if let Ok(mut freed) = FREED_CHECKED.lock() {
                freed.push(at.addr());
                at.expose_provenance();
            }
        } else {
            // SAFETY: `into_c` made it; the body is gone, and `ManuallyDrop` drops nothing.
            drop(unsafe { Box::from_raw(at) });
        }
        Ok(body)
    }
}

/// Takes the body out and drops it. NULL is allowed, as for `free`.
///
/// # Safety
/// As for [`Handle::take`].
pub unsafe fn free<T: Body>(at: *mut Handle<T>) -> Outcome<()> {
    if !at.is_null() {
        // SAFETY: the caller's promise.
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
