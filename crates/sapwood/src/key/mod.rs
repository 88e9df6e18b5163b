//! Keys whose byte order is the order that you want.
//!
//! A qp-trie sorts byte strings. These helpers turn names, numbers and tuples into byte strings
//! that sort the way the things themselves do, and back.

pub mod dns;
pub mod tuple;

pub use dns::{DnsNameError, dns_name, dns_name_from_wire, dns_name_to_text};
pub use tuple::{TupleError, TupleReader, tuple};

use alloc::vec::Vec;

/// A key backwards, so that a suffix becomes a prefix: all names that end in `.rs` are a range of
/// reversed keys.
///
/// ```
/// use sapwood::key::reverse;
/// assert_eq!(reverse("lib.rs"), b"sr.bil");
/// assert_eq!(reverse(reverse("lib.rs")), b"lib.rs");
/// ```
pub fn reverse(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().iter().rev().copied().collect()
}

/// A key with its components in reverse order, each as it was: `a/b/c` becomes `c/b/a`.
///
/// ```
/// use sapwood::key::reverse_components;
/// assert_eq!(reverse_components("www.example.org", b'.'), b"org.example.www");
/// ```
pub fn reverse_components(key: impl AsRef<[u8]>, separator: u8) -> Vec<u8> {
    let key = key.as_ref();
    let mut out = Vec::with_capacity(key.len());
    for (i, part) in key.rsplit(|&b| b == separator).enumerate() {
        if i > 0 {
            out.push(separator);
        }
        out.extend_from_slice(part);
    }
    out
}

/// Ends a component that may hold any byte.
const STOP: u8 = 0;
/// Precedes a byte that would be taken for [`STOP`] or for itself.
const ESCAPE: u8 = 1;

/// Appends bytes so that they sort as they are and end before anything longer: 0 becomes 1 1, 1
/// becomes 1 2, and a 0 ends them.
fn push_escaped(out: &mut Vec<u8>, bytes: impl IntoIterator<Item = u8>) {
    for byte in bytes {
        if byte <= ESCAPE {
            out.push(ESCAPE);
            out.push(byte + 1);
        } else {
            out.push(byte);
        }
    }
    out.push(STOP);
}

/// Reads what [`push_escaped`] wrote: the bytes, and what follows them.
fn take_escaped(key: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    let mut rest = key.iter();
    loop {
        match *rest.next()? {
            STOP => return Some((out, rest.as_slice())),
            ESCAPE => match *rest.next()? {
                escaped @ 1..=2 => out.push(escaped - 1),
                _ => return None,
            },
            byte => out.push(byte),
        }
    }
}
