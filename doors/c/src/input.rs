//! Arguments from C: bytes, texts, places for results, structures that may grow.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Failure, Outcome};

/// A byte string, which may be NULL if it is empty.
///
/// # Safety
/// `at` is NULL, or it points to `len` bytes that do not change as long as the result is used.
#[inline(always)]
pub unsafe fn bytes<'a>(at: *const c_void, len: usize, what: &str) -> Outcome<&'a [u8]> {
    if at.is_null() || len > isize::MAX as usize {
        return no_bytes(at, len, what);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) })
}

/// The same, for lookups: nothing if there is something to say about the arguments.
///
/// # Safety
/// As for [`bytes`].
#[inline(always)]
pub unsafe fn quick_bytes<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    if at.is_null() || len > isize::MAX as usize {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) })
}

#[cold]
#[inline(never)]
fn no_bytes<'a>(at: *const c_void, len: usize, what: &str) -> Outcome<&'a [u8]> {
    match (at.is_null(), len) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(Failure::null(what)),
        (false, _) => Err(too_long(what)),
    }
}

#[cold]
#[inline(never)]
fn too_long(what: &str) -> Failure {
    Failure::new(libc::E2BIG, format!("{what} is longer than memory"))
}

/// Items in a row, which may be NULL if there are none.
///
/// # Safety
/// `at` is NULL, or it points to `len` items that do not change as long as the result is used.
#[inline]
pub unsafe fn items<'a, T>(at: *const T, len: usize, what: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    row(at, len, what)?;
    // SAFETY: the caller's promise, and `row` has looked at alignment and size.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// Items in a row that are to be written.
///
/// # Safety
/// `at` is NULL, or it points to `len` initialized items that nobody else uses as long as the
/// result is used.
#[inline]
pub unsafe fn items_mut<'a, T>(at: *mut T, len: usize, what: &str) -> Outcome<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    row(at, len, what)?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

fn row<T>(at: *const T, len: usize, what: &str) -> Outcome<()> {
    if at.is_null() {
        return Err(Failure::null(what));
    }
    if !at.is_aligned() {
        return Err(Failure::invalid(format!("{what} is not aligned")));
    }
    if len
        .checked_mul(size_of::<T>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(too_long(what));
    }
    Ok(())
}

/// A text that ends with a zero.
///
/// # Safety
/// `at` is NULL, or it points to a text that ends with a zero.
pub unsafe fn text<'a>(at: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if at.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(at) })
}

/// A path of a file.
///
/// # Safety
/// As for [`text`].
pub unsafe fn path<'a>(at: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(at, "the path") }?;
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Looks at a place for a result before anything is done for it.
#[inline(always)]
pub fn place<T>(at: *mut T, what: &str) -> Outcome<*mut T> {
    if at.is_null() {
        return Err(Failure::null(what));
    }
    Ok(at)
}

/// A structure that may grow in later versions.
///
/// # Safety
/// The type has only fields for which any bytes are a value, and the first is a `usize`, the number
/// of bytes that the caller knows.
pub unsafe trait Extensible: Default {
    /// Its name in C.
    const NAME: &'static str;
}

/// Makes structures extensible. By default all their fields but the size are 0.
macro_rules! extensible {
    ($($name:ident),*) => { $(
        // SAFETY: integers, pointers, and functions or NULL, which the header promises. The size is
        // first.
        unsafe impl $crate::input::Extensible for $name {
            const NAME: &'static str = stringify!($name);
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    size: size_of::<Self>(),
                    // SAFETY: for such fields, any bytes are a value.
                    ..unsafe { std::mem::zeroed() }
                }
            }
        }
    )* };
}
pub(crate) use extensible;

/// The number of bytes that the caller knows of a structure.
///
/// # Safety
/// `at` points to a structure's first field.
pub unsafe fn size_of_extensible<T: Extensible>(at: *const T) -> Outcome<usize> {
    // SAFETY: the first field is a `usize`, and the caller promises it.
    let size = unsafe { at.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::invalid(format!(
            "the field size of {} is {size}; set it to sizeof({0})",
            T::NAME
        )));
    }
    Ok(size)
}

/// The structure that the caller gave, or the default for NULL. Fields that the caller does not
/// know keep their defaults. Fields that this library does not know must be zero.
///
/// # Safety
/// `at` is NULL, or it points to as many bytes as its first field says.
pub unsafe fn given<T: Extensible>(at: *const T) -> Outcome<T> {
    let mut known = T::default();
    if at.is_null() {
        return Ok(known);
    }
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_extensible(at) }?;
    // SAFETY: the caller promises `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) };
    if let Some(more) = bytes.get(size_of::<T>()..) {
        if more.iter().any(|&byte| byte != 0) {
            return Err(Failure::new(
                libc::E2BIG,
                format!("{} has fields that this version does not know", T::NAME),
            ));
        }
    }
    let copied = size.min(size_of::<T>());
    // SAFETY: both have that many bytes, and any bytes are a value.
    unsafe {
        (&raw mut known)
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), copied)
    };
    Ok(known)
}
