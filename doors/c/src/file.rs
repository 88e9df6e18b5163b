//! Saved maps, read where they lie.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use sapwood::qp::{AnyFile, QpFile};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::Failure;
use crate::handle::{Body, Handle, free};
use crate::input::{self, bytes, items, place};
use crate::maps::sapwood_file;
use crate::ordered::Source;
use crate::output::{hand_out, put};
use crate::value::{Key, Kinds, get_many, kind_of, no_pointers, sapwood_bytes, sapwood_value};
use crate::view::{Anchor, Viewed, found, sapwood_view};

impl Body for AnyFile {
    const MAGIC: u32 = u32::from_be_bytes(*b"swFi");
    const NAME: &'static str = "file";
}

impl Viewed for AnyFile {}

/// Runs the same body with a file of either kind.
macro_rules! either {
    ($file:expr, $open:pat => $body:expr) => {
        match $file {
            AnyFile::Numbers($open) => $body,
            AnyFile::Bytes($open) => $body,
        }
    };
}

c_api!(
    const SECTION: &str = "Files";

    /// do not read the whole file when it is opened
    pub const SAPWOOD_UNVERIFIED: c_uint = 16;

    /// Maps a saved map into memory. Each step in it is checked, so a damaged file gives wrong
    /// answers at worst. values: SAPWOOD_NUMBERS or SAPWOOD_BYTES, as it was saved. -EPROTO: it is
    /// damaged, of another kind, or no saved map. Other errors are those of the system. O(bytes);
    /// O(1) with SAPWOOD_UNVERIFIED. The file may be replaced by a rename, but not be changed or
    /// cut.
    fn sapwood_file_open(
        path: *const c_char,
        values: c_int,
        flags: c_uint,
        out: *mut *mut sapwood_file,
    ) -> c_int {
        let out = place(out, "out")?;
        known_flags(flags, SAPWOOD_CHECKED | SAPWOOD_UNVERIFIED)?;
        let path = input::path(path)?;
        let trusting = flags & SAPWOOD_UNVERIFIED != 0;
        let file = match kind_of(values, true)? {
            Kinds::Numbers(()) if trusting => AnyFile::Numbers(QpFile::open_unverified(path)?),
            Kinds::Numbers(()) => AnyFile::Numbers(QpFile::open(path)?),
            Kinds::Bytes(()) if trusting => AnyFile::Bytes(QpFile::open_unverified(path)?),
            Kinds::Bytes(()) => AnyFile::Bytes(QpFile::open(path)?),
            Kinds::Pointers(()) => return Err(no_pointers()),
        };
        hand_out(out, file, flags & SAPWOOD_CHECKED != 0)
    }

    /// Any thread. Values that they give are valid until sapwood_file_free, also those of views;
    /// keys, see struct sapwood_entry.
    fn sapwood_file_free(file: *mut sapwood_file) {
        free(file)
    }

    fn sapwood_file_get(
        file: *const sapwood_file,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let body = Handle::shared(file)?;
        let key = bytes(key, key_len, "the key")?;
        either!(body, file => found(file.get(key), value))
    }

    fn sapwood_file_get_many(
        file: *const sapwood_file,
        keys: *const sapwood_bytes,
        count: usize,
        values: *mut sapwood_value,
        found: *mut c_uchar,
    ) -> c_int {
        let body = Handle::shared(file)?;
        let keys = Key::all(items(keys, count, "keys")?)?;
        either!(body, file => {
            get_many(keys, values, found, |keys, out| file.get_many(keys, out))
        })
    }

    fn sapwood_file_len(file: *const sapwood_file, len: *mut usize) -> c_int {
        let body = Handle::shared(file)?;
        put(len, "len", body.entries())
    }

    /// Checks everything. -EPROTO: the file is damaged; the message says where. O(bytes).
    fn sapwood_file_verify(file: *const sapwood_file) -> c_int {
        let body = Handle::shared(file)?;
        either!(body, file => file.verify()).map_err(|text| Failure::new(libc::EPROTO, text))?;
        Ok(0)
    }

    fn sapwood_file_view(file: *const sapwood_file, view: *mut sapwood_view) -> c_int {
        let body: &'static AnyFile = Handle::shared(file)?;
        let source = match body {
            AnyFile::Numbers(file) => Kinds::Numbers(Source::Pieces(file)),
            AnyFile::Bytes(file) => Kinds::Bytes(Source::Pieces(file)),
        };
        sapwood_view::write(view, Anchor::handle(file, body), source)
    }
);
