//! Results for C: numbers, and what is written where the caller has room for it.

use std::ffi::c_int;

use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle};
use crate::input::{Extensible, place, size_of_extensible};

/// A number of items, up to the largest `int`.
pub fn as_int(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// 0 for what was there, otherwise that it was not.
#[inline(always)]
pub fn or_absent(there: bool) -> c_int {
    if there { 0 } else { -libc::ENOENT }
}

/// What a check of invariants found.
pub fn verified(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Ok(0),
        Err(wrong) => Err(Failure::new(libc::EUCLEAN, wrong)),
    }
}

/// Writes a result, for which the caller must have a place.
///
/// # Safety
/// `at` is NULL, or a place for it.
#[inline(always)]
pub unsafe fn put<T: Copy>(at: *mut T, what: &str, result: T) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { *place(at, what)? = result };
    Ok(0)
}

/// Writes a result, unless the caller does not want it.
///
/// # Safety
/// As for [`put`].
#[inline(always)]
pub unsafe fn put_wanted<T: Copy>(at: *mut T, result: T) {
    if !at.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *at = result };
    }
}

/// Writes what was found, unless the caller does not want it; returns 0, or that there is nothing.
///
/// # Safety
/// As for [`put`].
#[inline(always)]
pub unsafe fn put_found<T: Copy>(at: *mut T, found: Option<impl Into<T>>) -> c_int {
    let Some(found) = found else {
        return -libc::ENOENT;
    };
    // SAFETY: the caller's promise.
    unsafe { put_wanted(at, found.into()) };
    0
}

/// Writes as much of a structure as the caller knows. What this library does not know of it
/// becomes 0.
///
/// # Safety
/// `at` is NULL, or it points to as many bytes as its first field says. The structure has no
/// padding.
pub unsafe fn put_extensible<T: Extensible>(at: *mut T, what: &str, result: &T) -> Outcome {
    let at = place(at, what)?.cast::<u8>();
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_extensible::<T>(at.cast()) }?;
    // The size stays the caller's.
    let (first, known) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: both have that many bytes; the rest of the caller's are `size` bytes in all.
    unsafe {
        let from = std::ptr::from_ref(result).cast::<u8>();
        at.add(first)
            .copy_from_nonoverlapping(from.add(first), known - first);
        at.add(known).write_bytes(0, size - known);
    }
    Ok(0)
}

/// Hands a handle out.
///
/// # Safety
/// `out` is a place for it.
pub unsafe fn hand_out<T: Body>(
    out: *mut *mut Handle<T>,
    body: T,
    rules: impl Into<crate::handle::Rules>,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { *out = Handle::into_c(body, rules) };
    Ok(0)
}
