//! Changes to the image of a file, sealed again with valid checksums.

use std::fs;
use std::path::{Path, PathBuf};

use arbitrary::{Arbitrary, Unstructured};
use sapwood::arena::{HEADER_LEN, Header};

use crate::Input;
use crate::fence::Fence;

/// The path of a temporary file, which is removed when the value is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A path that is unique in this process and ends in `kind`; the file does not exist yet.
    pub fn new(kind: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        Scratch(folder.join(format!("sapwood-fuzz-{}.{kind}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A change to an image.
#[derive(Arbitrary, Debug)]
#[allow(missing_docs)] // The names say it.
pub enum Change {
    Flip {
        at: u32,
        bit: u8,
    },
    Word {
        at: u32,
        value: u32,
    },
    /// Copies one cell, or header of a branch, over another: shared and circular references.
    Copy {
        from: u32,
        to: u32,
    },
    /// Makes a reference slightly wrong.
    Shift {
        at: u32,
        by: i8,
    },
    Bytes {
        at: u32,
        bytes: [u8; 12],
    },
    Truncate {
        to: u32,
    },
    Extend {
        #[arbitrary(with = |u: &mut Unstructured<'_>| u.int_in_range(0..=9_000))]
        by: usize,
    },
    Root {
        value: u32,
    },
    Entries {
        value: u64,
    },
    Root64 {
        index: u8,
        value: u64,
    },
    Generation {
        value: u64,
    },
    /// A change that the seal does not cover.
    Header {
        at: u16,
        bit: u8,
    },
}

/// The changed image, sealed again.
pub fn change(image: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    let mut header = {
        let hash = u64::from_le_bytes(image[16..24].try_into().unwrap());
        Header::decode(&image, hash).unwrap()
    };
    let mut body = image[HEADER_LEN..].to_vec();
    let mut late = Vec::new();
    for change in changes {
        let words = body.len() / 4;
        let place = |at: u32| at as usize % words.max(1) * 4;
        let word =
            |body: &[u8], at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        match *change {
            Change::Truncate { to } => {
                let to = to as usize % (body.len() + 1);
                body.truncate(to);
            }
            Change::Extend { by } => body.resize(body.len() + by, 0),
            Change::Root { value } => header.roots[0] = value.into(),
            Change::Entries { value } => header.roots[1] = value,
            Change::Root64 { index, value } => header.roots[usize::from(index % 8)] = value,
            Change::Generation { value } => header.generation = value,
            Change::Header { at, bit } => late.push((usize::from(at) % HEADER_LEN, bit)),
            _ if words == 0 => {}
            Change::Flip { at, bit } => {
                let at = at as usize % body.len();
                body[at] ^= 1 << (bit % 8);
            }
            Change::Word { at, value } => {
                body[place(at)..][..4].copy_from_slice(&value.to_le_bytes());
            }
            Change::Copy { from, to } => {
                let value = word(&body, place(from));
                body[place(to)..][..4].copy_from_slice(&value.to_le_bytes());
            }
            Change::Shift { at, by } => {
                let value = word(&body, place(at)).wrapping_add_signed(by.into());
                body[place(at)..][..4].copy_from_slice(&value.to_le_bytes());
            }
            Change::Bytes { at, bytes } => {
                for (i, byte) in bytes.into_iter().enumerate() {
                    let at = (at as usize + i) % body.len();
                    body[at] = byte;
                }
            }
        }
    }
    let mut file = header.seal(&body).to_vec();
    file.extend(body);
    for (at, bit) in late {
        file[at] ^= 1 << (bit % 8);
    }
    file
}

/// Up to 40 changes.
pub fn changes(input: &Input<'_>) -> Vec<Change> {
    std::iter::from_fn(|| input.draw()).take(40).collect()
}

/// Forbids reads behind the end of an open file of `len` bytes.
pub fn fenced(path: &Path, len: usize) -> Fence {
    let fence = Fence::behind(path, len);
    if cfg!(target_os = "linux") && len % 4096 != 0 {
        assert!(fence.count() > 0 || !cfg!(sanitize = "address"));
    }
    fence
}
