//! Keys of which the byte order is the order of the things that they stand for.
//!
//! A qp-trie sorts byte strings. These functions make byte strings of names, numbers and tuples,
//! which sort as the things themselves do, and convert them back.

pub mod dns;
pub mod tuple;

pub use dns::{
    DNS_KEY_MAX, DNS_TEXT_MAX, DnsNameError, dns_name, dns_name_from_wire, dns_name_in_message,
    dns_name_to_text,
};
pub use tuple::{TupleError, TupleReader, tuple};

use alloc::vec::Vec;

/// The bytes of a key in reverse order, so that a suffix becomes a prefix: all names that end in
/// `.rs` are a range of reversed keys.
///
/// O(length of the key).
///
/// ```
/// use sapwood::key::reverse;
/// assert_eq!(reverse("lib.rs"), b"sr.bil");
/// assert_eq!(reverse(reverse("lib.rs")), b"lib.rs");
/// ```
pub fn reverse(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().iter().rev().copied().collect()
}

/// A key with its components in reverse order, each component unchanged: `a/b/c` becomes `c/b/a`.
///
/// O(length of the key).
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
/// Precedes a byte that would otherwise read as [`STOP`] or as an escape.
const ESCAPE: u8 = 1;

/// Appends bytes in an encoding that keeps their order and puts a string before its extensions: 0
/// becomes 1 1, 1 becomes 1 2, and a 0 ends them.
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

/// Reads bytes that [`push_escaped`] wrote. Returns them and the rest of the key.
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
