//! Saved maps, read where they lie.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use sapwood::qp::QpFile;

use crate::call::{call, call_void};
use crate::domain::{CHECKED, known_flags};
use crate::error::Failure;
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, items, path, place};
use crate::ordered::Source;
use crate::value::{Key, Kinds, get_many, kind_of, no_pointers, sapwood_bytes, sapwood_value};
use crate::view::{Anchor, Changes, Viewed, found, sapwood_view};

/// The inside of a file's handle.
pub enum FileBody {
    /// Its values are numbers.
    Numbers(QpFile<u64>),
    /// Its values are byte strings.
    Bytes(QpFile<[u8]>),
}

impl Body for FileBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swFi");
    const NAME: &'static str = "file";
}

impl Viewed for FileBody {
    fn changes(&self) -> Option<&Changes> {
        None
    }
}

/// C's `sapwood_file`.
pub type sapwood_file = Handle<FileBody>;

/// Runs the same body with a file of either kind.
macro_rules! either {
    ($file:expr, $open:pat => $body:expr) => {
        match $file {
            FileBody::Numbers($open) => $body,
            FileBody::Bytes($open) => $body,
        }
    };
}

/// The flag of a file whose content is not looked at when it is opened.
const UNVERIFIED: c_uint = 16;

/// Opens a saved map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_open(
    from: *const c_char,
    values: c_int,
    flags: c_uint,
    out: *mut *mut sapwood_file,
) -> c_int {
    call("sapwood_file_open", || {
        let out = place(out, "out")?;
        known_flags(flags, CHECKED | UNVERIFIED)?;
        // SAFETY: C.
        let from = unsafe { path(from) }?;
        let trusting = flags & UNVERIFIED != 0;
        let file = match kind_of(values, true)? {
            Kinds::Numbers(()) if trusting => FileBody::Numbers(QpFile::open_unverified(from)?),
            Kinds::Numbers(()) => FileBody::Numbers(QpFile::open(from)?),
            Kinds::Bytes(()) if trusting => FileBody::Bytes(QpFile::open_unverified(from)?),
            Kinds::Bytes(()) => FileBody::Bytes(QpFile::open(from)?),
            Kinds::Pointers(()) => return Err(no_pointers()),
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(file, flags & CHECKED != 0) };
        Ok(0)
    })
}

/// Closes a file.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_free(file: *mut sapwood_file) {
    // SAFETY: C.
    call_void("sapwood_file_free", || unsafe { free(file) });
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_get(
    file: *const sapwood_file,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    call("sapwood_file_get", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(file)?;
            let key = bytes(key, key_len, "the key")?;
            either!(body, file => found(file.get(key), value))
        }
    })
}

/// Looks up many keys.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_get_many(
    file: *const sapwood_file,
    keys: *const sapwood_bytes,
    count: usize,
    values: *mut sapwood_value,
    found: *mut c_uchar,
) -> c_int {
    call("sapwood_file_get_many", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(file)?;
            let keys = Key::all(items(keys, count, "keys")?)?;
            either!(body, file => {
                get_many(keys, values, found, |keys, out| file.get_many(keys, out))
            })
        }
    })
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_len(file: *const sapwood_file, len: *mut usize) -> c_int {
    call("sapwood_file_len", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(file)?;
            *place(len, "len")? = either!(body, file => file.len());
        }
        Ok(0)
    })
}

/// Checks the whole file.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_verify(file: *const sapwood_file) -> c_int {
    call("sapwood_file_verify", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(file) }?;
        either!(body, file => file.verify()).map_err(|text| Failure::new(libc::EPROTO, text))?;
        Ok(0)
    })
}

/// A view of the file, until it is closed.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_file_view(
    file: *const sapwood_file,
    view: *mut sapwood_view,
) -> c_int {
    call("sapwood_file_view", || {
        // SAFETY: C.
        unsafe {
            let body: &'static FileBody = Handle::shared(file)?;
            let view = place(view, "view")?;
            let source = match body {
                FileBody::Numbers(file) => Kinds::Numbers(Source::Handle(file)),
                FileBody::Bytes(file) => Kinds::Bytes(Source::Handle(file)),
            };
            sapwood_view::write(view, Anchor::handle(file, body), source);
        }
        Ok(0)
    })
}
