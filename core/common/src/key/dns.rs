//! Domain names as keys, in the canonical order of RFC 4034, section 6.1.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use smallvec::SmallVec;

use super::{push_escaped, take_escaped};

/// The longest label, in bytes.
const MAX_LABEL: usize = 63;
/// The longest name in wire form, in bytes.
const MAX_WIRE: usize = 255;
/// The most labels of a name. Each takes two bytes at least, and the root takes one.
const MAX_LABELS: usize = (MAX_WIRE - 1) / 2;
/// The greatest number of compression pointers that are followed in a name: one for each label.
const MAX_POINTERS: usize = MAX_LABELS;

/// The fewest labels that a name of 255 bytes may have.
const LABELS_OF_LONGEST: usize = (MAX_WIRE - 1).div_ceil(1 + MAX_LABEL);

/// The length of the longest key of a domain name, in bytes: 504.
///
/// It is more than the 255 bytes of the longest name in wire form, because a byte 0 or 1 within a
/// label takes two bytes of the key. A name of `n` labels has at most 254 - `n` bytes within them.
/// If all of these are 0 or 1, the key has 508 - `n` bytes with the ends of labels. Labels of 63
/// bytes make the fewest labels, which are four.
///
/// ```
/// use sapwood::key::{DNS_KEY_MAX, dns_name};
/// let zeros = |n| "\\000".repeat(n);
/// let longest = format!("{0}.{0}.{0}.{1}", zeros(63), zeros(61));
/// assert_eq!(dns_name(longest)?.len(), DNS_KEY_MAX);
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
pub const DNS_KEY_MAX: usize = 2 * (MAX_WIRE - 1 - LABELS_OF_LONGEST) + LABELS_OF_LONGEST;

/// The length of the longest text that [`dns_name_to_text`] makes, in bytes: 1,003.
///
/// A byte within a label takes up to four bytes, `\DDD`, and dots stand between labels.
pub const DNS_TEXT_MAX: usize = 4 * (MAX_WIRE - 1 - LABELS_OF_LONGEST) + LABELS_OF_LONGEST - 1;

/// The reason why an input is not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DnsNameError {
    /// Two dots in a row, or one at the start.
    #[error("empty label at byte {at}")]
    EmptyLabel {
        /// Position in the input.
        at: usize,
    },
    /// A label of more than 63 bytes.
    #[error("label of more than 63 bytes, which ends at byte {at}")]
    LabelTooLong {
        /// Position in the input.
        at: usize,
    },
    /// More than 255 bytes in wire form.
    #[error("name of {len} bytes in wire form (the limit is 255)")]
    NameTooLong {
        /// Bytes in wire form. Of a name in wire form or in a message, only the labels up to the
        /// first that is too much are counted.
        len: usize,
    },
    /// A backslash that neither three digits up to 255 nor another character follow.
    #[error("bad escape at byte {at}")]
    BadEscape {
        /// Position in the input.
        at: usize,
    },
    /// Wire form that ends early, goes on behind the root, has an unknown kind of label, or has a
    /// compression pointer where none is allowed.
    #[error("bad wire form at byte {at}")]
    BadWire {
        /// Position in the input.
        at: usize,
    },
    /// A compression pointer that does not lead back before everything that was read of the name
    /// so far, or one pointer more than a name has labels.
    #[error("bad compression pointer at byte {at}")]
    BadPointer {
        /// Position in the message.
        at: usize,
    },
    /// A key that `dns_name` did not make.
    #[error("not the key of a domain name")]
    NotAKey,
}

/// The key of a domain name in text form: its labels in reverse order, ASCII letters in lower case,
/// each ended by a zero byte. The root is the empty key; a trailing dot makes no difference.
///
/// Keys sort in the canonical order of DNSSEC. The names of a zone are exactly those whose keys
/// start with the zone's key: `prefix(dns_name("example.org")?)`. `longest_prefix` finds the
/// closest enclosing name. The function reads the escapes `\.` and `\DDD` of master files.
///
/// O(length of the name).
///
/// ```
/// use sapwood::key::dns_name;
/// assert_eq!(dns_name("www.Example.org.")?, b"org\0example\0www\0");
/// assert_eq!(dns_name(".")?, b"");
/// assert!(dns_name("example")? < dns_name("a.example")?);
/// assert!(dns_name("a..b").is_err());
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
///
/// # Errors
/// [`DnsNameError`] says what is wrong, and at which byte.
pub fn dns_name(name: impl AsRef<[u8]>) -> Result<Vec<u8>, DnsNameError> {
    let name = name.as_ref();
    if let Some(key) = plain_key(name) {
        return Ok(key);
    }
    let mut labels: Vec<Vec<u8>> = Vec::new();
    if name != b"." && !name.is_empty() {
        let mut label = Vec::new();
        let mut at = 0;
        while at < name.len() {
            match name[at] {
                b'.' => {
                    end_label(&mut labels, &mut label, at)?;
                    at += 1;
                    continue;
                }
                b'\\' => {
                    let (byte, used) =
                        escape(&name[at + 1..]).ok_or(DnsNameError::BadEscape { at })?;
                    label.push(byte);
                    at += used;
                }
                byte => label.push(byte),
            }
            at += 1;
        }
        if !label.is_empty() {
            end_label(&mut labels, &mut label, at)?;
        }
    }
    key_of(&labels)
}

/// The key of a name without escapes, and without bytes that a key escapes; `None` for others, and
/// for names with a fault.
fn plain_key(name: &[u8]) -> Option<Vec<u8>> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_long = name.len() + 2 > MAX_WIRE;
    if is_long || name.iter().any(|byte| matches!(byte, 0 | 1 | b'\\')) {
        return None;
    }
    let mut key = Vec::with_capacity(name.len() + 1);
    for label in name.rsplit(|byte| *byte == b'.') {
        if label.is_empty() || label.len() > MAX_LABEL {
            return None;
        }
        key.extend(label.iter().map(u8::to_ascii_lowercase));
        key.push(0);
    }
    Some(key)
}

fn end_label(
    labels: &mut Vec<Vec<u8>>,
    label: &mut Vec<u8>,
    at: usize,
) -> Result<(), DnsNameError> {
    if label.is_empty() {
        return Err(DnsNameError::EmptyLabel { at });
    }
    if label.len() > MAX_LABEL {
        return Err(DnsNameError::LabelTooLong { at });
    }
    labels.push(core::mem::take(label));
    Ok(())
}

/// The byte behind a backslash, and how many bytes of text it takes.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    match *text.first()? {
        b'0'..=b'9' => {
            let digits = text.get(..3)?;
            let mut n = 0u16;
            for d in digits {
                n = n * 10 + u16::from(d.checked_sub(b'0').filter(|d| *d < 10)?);
            }
            Some((u8::try_from(n).ok()?, 3))
        }
        byte => Some((byte, 1)),
    }
}

/// The key of a domain name in uncompressed wire form, which `wire` holds and nothing else.
///
/// For a name within a message, see [`dns_name_in_message`].
///
/// ```
/// use sapwood::key::{dns_name, dns_name_from_wire};
/// assert_eq!(dns_name_from_wire(b"\x03WWW\x07example\x00")?, dns_name("www.example")?);
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
///
/// # Errors
/// [`DnsNameError`] says what is wrong, and at which byte.
pub fn dns_name_from_wire(wire: &[u8]) -> Result<Vec<u8>, DnsNameError> {
    let (labels, end) = read_labels(wire, 0, 0)?;
    if end != wire.len() {
        return Err(DnsNameError::BadWire { at: end });
    }
    key_of(&labels)
}

/// The key of the domain name that begins at byte `at` of a DNS message, and the place of the first
/// byte behind the name.
///
/// The message begins with its header, as offsets of compression pointers count from there. The
/// name may be compressed (RFC 1035, section 4.1.4), and other bytes may lie behind it. A pointer
/// must lead to a place before the name, or before the place to which the last pointer led. So no
/// message makes the function run in circles. It follows at most 127 pointers, as many as a name
/// can have labels, and stops at the first label with which the name is too long.
///
/// O(length of the name): at most 255 bytes and 127 compression pointers are read.
///
/// ```
/// use sapwood::key::{dns_name, dns_name_in_message};
/// // A query for the address of `example.org`, and an answer about `www` below it.
/// let mut message = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
/// message.extend(b"\x07example\x03org\x00\x00\x01\x00\x01");
/// let answer = message.len();
/// message.extend(b"\x03WWW\xc0\x0c\x00\x01\x00\x01");
///
/// let (question, end) = dns_name_in_message(&message, 12)?;
/// assert_eq!((question, end + 4), (dns_name("example.org")?, answer));
/// let (owner, end) = dns_name_in_message(&message, answer)?;
/// assert_eq!((owner, end), (dns_name("www.example.org")?, answer + 6));
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
///
/// # Errors
/// [`DnsNameError`] says what is wrong, and at which byte of the message.
pub fn dns_name_in_message(message: &[u8], at: usize) -> Result<(Vec<u8>, usize), DnsNameError> {
    let (labels, end) = read_labels(message, at, MAX_POINTERS)?;
    Ok((key_of(&labels)?, end))
}

/// The labels of a name, the first one first.
type Labels<'a> = SmallVec<[&'a [u8]; 8]>;

/// The labels of the name at this place, and where it ends. Follows this many pointers at most.
fn read_labels(
    message: &[u8],
    mut at: usize,
    pointers: usize,
) -> Result<(Labels<'_>, usize), DnsNameError> {
    let mut labels = Labels::new();
    // The bytes that the name takes in wire form, with the root's.
    let mut len = 1;
    // The place where the name ends, once a pointer has led elsewhere.
    let mut end = None;
    let (mut begin, mut left) = (at, pointers);
    loop {
        let bad = DnsNameError::BadWire { at };
        let kind = *message.get(at).ok_or(bad)?;
        match kind {
            0 => return Ok((labels, end.unwrap_or(at + 1))),
            0xc0.. if pointers > 0 => {
                let low = *message.get(at + 1).ok_or(bad)?;
                let target = usize::from(kind & 0x3f) << 8 | usize::from(low);
                if target >= begin || left == 0 {
                    return Err(DnsNameError::BadPointer { at });
                }
                end.get_or_insert(at + 2);
                (begin, left) = (target, left - 1);
                at = target;
            }
            _ if usize::from(kind) > MAX_LABEL => return Err(bad),
            _ => {
                let bytes = usize::from(kind);
                labels.push(message.get(at + 1..at + 1 + bytes).ok_or(bad)?);
                len += 1 + bytes;
                if len > MAX_WIRE {
                    return Err(DnsNameError::NameTooLong { len });
                }
                at += 1 + bytes;
            }
        }
    }
}

/// The key of a name of these labels.
fn key_of<L: AsRef<[u8]>>(labels: &[L]) -> Result<Vec<u8>, DnsNameError> {
    let len = wire_len(labels);
    if len > MAX_WIRE {
        return Err(DnsNameError::NameTooLong { len });
    }
    let mut key = Vec::with_capacity(len);
    for label in labels.iter().rev() {
        push_escaped(&mut key, label.as_ref().iter().map(u8::to_ascii_lowercase));
    }
    Ok(key)
}

/// The bytes of a name in wire form.
fn wire_len<L: AsRef<[u8]>>(labels: &[L]) -> usize {
    1 + labels.iter().map(|l| 1 + l.as_ref().len()).sum::<usize>()
}

/// The name of a key that [`dns_name`] made, without a trailing dot; the root is a single dot.
///
/// O(length of the key).
///
/// ```
/// use sapwood::key::{dns_name, dns_name_to_text};
/// assert_eq!(dns_name_to_text(&dns_name("WWW.example")?)?, "www.example");
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
///
/// # Errors
/// [`DnsNameError::NotAKey`].
pub fn dns_name_to_text(mut key: &[u8]) -> Result<String, DnsNameError> {
    if key.len() > DNS_KEY_MAX {
        return Err(DnsNameError::NotAKey);
    }
    let mut labels = Vec::new();
    while !key.is_empty() {
        let (label, rest) = take_escaped(key).ok_or(DnsNameError::NotAKey)?;
        if label.is_empty() || label.len() > MAX_LABEL {
            return Err(DnsNameError::NotAKey);
        }
        labels.push(label);
        key = rest;
    }
    if wire_len(&labels) > MAX_WIRE {
        return Err(DnsNameError::NotAKey);
    }
    if labels.is_empty() {
        return Ok(".".into());
    }
    let mut text = String::new();
    for (i, label) in labels.iter().rev().enumerate() {
        if i > 0 {
            text.push('.');
        }
        for &byte in label {
            match byte {
                b'.' | b'\\' => {
                    text.push('\\');
                    text.push(char::from(byte));
                }
                0x21..=0x7e => text.push(char::from(byte)),
                // Writing to a string cannot fail.
                _ => {
                    let _ = write!(text, "\\{byte:03}");
                }
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_order_of_rfc_4034() {
        let names = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\001.z.example",
            "*.z.example",
            "\\200.z.example",
        ];
        let keys: Vec<_> = names.iter().map(|n| dns_name(n).unwrap()).collect();
        assert!(keys.is_sorted());
        for (key, name) in keys.iter().zip(names) {
            assert_eq!(dns_name_to_text(key).unwrap(), name.to_ascii_lowercase());
            let zone = dns_name("example").unwrap();
            assert!(key.starts_with(&zone));
        }
        assert!(
            !dns_name("examples")
                .unwrap()
                .starts_with(&dns_name("example").unwrap())
        );
    }

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=255u8 {
            let wire = [3, byte, b'x', byte, 0];
            let key = dns_name_from_wire(&wire).unwrap();
            let text = dns_name_to_text(&key).unwrap();
            assert_eq!(dns_name(&text).unwrap(), key, "{text}");
        }
    }

    /// A name in wire form of labels of these lengths, which have only this byte.
    fn wire_of(lengths: &[usize], byte: u8) -> Vec<u8> {
        let mut wire = Vec::new();
        for &length in lengths {
            wire.push(length as u8);
            wire.extend(core::iter::repeat_n(byte, length));
        }
        wire.push(0);
        wire
    }

    /// Only the lengths of labels matter, and a byte 0 takes most room in keys and in texts. A
    /// search over all bytes that are left to the labels finds the longest of each.
    #[test]
    fn the_longest_key_and_the_longest_text_are_the_constants() {
        // The longest key and text of labels that have `n` bytes in wire form, without the root.
        let mut longest: Vec<Option<(usize, usize)>> = vec![None; MAX_WIRE];
        longest[0] = Some((0, 0));
        for n in 2..MAX_WIRE {
            for label in 1..=MAX_LABEL.min(n - 1) {
                if let Some((key, text)) = longest[n - 1 - label] {
                    let grown = (key + 2 * label + 1, text + 4 * label + 1);
                    let most = longest[n].get_or_insert((0, 0));
                    *most = (most.0.max(grown.0), most.1.max(grown.1));
                }
            }
        }
        let all = longest.iter().flatten();
        // Each label was counted with a dot, but the last one has none.
        let (key, text) = all.fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)));
        assert_eq!((key, text - 1), (DNS_KEY_MAX, DNS_TEXT_MAX));
        assert_eq!((DNS_KEY_MAX, DNS_TEXT_MAX), (504, 1003));
        // Both are reached, and no name of many others is beyond them.
        let longest = [63, 63, 63, 61];
        for byte in 0..=255 {
            let mut lengths = vec![longest.to_vec(), vec![1; 127], vec![2; 84]];
            for label in 1..=63 {
                let mut some = vec![label; 254 / (label + 1)];
                if let Some(last) = (254 % (label + 1)).checked_sub(1).filter(|&last| last > 0) {
                    some.push(last);
                }
                lengths.push(some);
            }
            for lengths in lengths {
                let key = dns_name_from_wire(&wire_of(&lengths, byte)).unwrap();
                let text = dns_name_to_text(&key).unwrap();
                assert!(key.len() <= DNS_KEY_MAX && text.len() <= DNS_TEXT_MAX);
                assert_eq!(dns_name(&text).unwrap(), key);
                if lengths == longest && byte == 0 {
                    assert_eq!((key.len(), text.len()), (DNS_KEY_MAX, DNS_TEXT_MAX));
                }
            }
        }
    }

    #[test]
    fn what_no_name_has_as_its_key_is_not_one() {
        let label = |n: usize| [vec![b'a'; n], vec![0]].concat();
        assert!(dns_name_to_text(&label(63)).is_ok());
        assert_eq!(dns_name_to_text(&label(64)), Err(DnsNameError::NotAKey));
        let long = [label(63), label(63), label(63), label(61)].concat();
        assert!(dns_name_to_text(&long).is_ok());
        let longer = [label(63), label(63), label(63), label(62)].concat();
        assert_eq!(dns_name_to_text(&longer), Err(DnsNameError::NotAKey));
        assert_eq!(dns_name_to_text(&label(9999)), Err(DnsNameError::NotAKey));
    }

    #[test]
    fn limits_have_names() {
        let label = "x".repeat(63);
        assert!(dns_name(&label).is_ok());
        assert_eq!(
            dns_name(format!("{label}x.y")),
            Err(DnsNameError::LabelTooLong { at: 64 })
        );
        let longest = format!("{label}.{label}.{label}.{}", "x".repeat(61));
        assert!(dns_name(&longest).is_ok());
        assert_eq!(
            dns_name(format!("{longest}x")),
            Err(DnsNameError::NameTooLong { len: 256 })
        );
        assert_eq!(dns_name("a..b"), Err(DnsNameError::EmptyLabel { at: 2 }));
        assert_eq!(dns_name(".a"), Err(DnsNameError::EmptyLabel { at: 0 }));
        assert_eq!(dns_name("a\\256"), Err(DnsNameError::BadEscape { at: 1 }));
        assert_eq!(dns_name("a\\"), Err(DnsNameError::BadEscape { at: 1 }));
        assert_eq!(
            dns_name_from_wire(b"\x01a"),
            Err(DnsNameError::BadWire { at: 2 })
        );
        assert_eq!(
            dns_name_from_wire(b"\xc0\x00"),
            Err(DnsNameError::BadWire { at: 0 })
        );
        assert_eq!(dns_name_to_text(b"abc"), Err(DnsNameError::NotAKey));
    }
}
