//! Domain names as keys, in the canonical order of RFC 4034, section 6.1.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::{push_escaped, take_escaped};

/// The longest label, in bytes.
const MAX_LABEL: usize = 63;
/// The longest name in wire form, in bytes.
const MAX_WIRE: usize = 255;

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
        /// Bytes in wire form.
        len: usize,
    },
    /// A backslash that neither three digits up to 255 nor another character follow.
    #[error("bad escape at byte {at}")]
    BadEscape {
        /// Position in the input.
        at: usize,
    },
    /// Wire form that ends early, goes on behind the root, or has a compression pointer.
    #[error("bad wire form at byte {at}")]
    BadWire {
        /// Position in the input.
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

/// The key of a domain name in uncompressed wire form.
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
    let mut labels = Vec::new();
    let mut at = 0;
    loop {
        let len = usize::from(*wire.get(at).ok_or(DnsNameError::BadWire { at })?);
        if len == 0 {
            break;
        }
        let label = (len <= MAX_LABEL)
            .then(|| wire.get(at + 1..at + 1 + len))
            .flatten()
            .ok_or(DnsNameError::BadWire { at })?;
        labels.push(label);
        at += 1 + len;
    }
    if at + 1 != wire.len() {
        return Err(DnsNameError::BadWire { at: at + 1 });
    }
    key_of(&labels)
}

fn key_of<L: AsRef<[u8]>>(labels: &[L]) -> Result<Vec<u8>, DnsNameError> {
    let len = 1 + labels.iter().map(|l| 1 + l.as_ref().len()).sum::<usize>();
    if len > MAX_WIRE {
        return Err(DnsNameError::NameTooLong { len });
    }
    let mut key = Vec::with_capacity(len);
    for label in labels.iter().rev() {
        push_escaped(&mut key, label.as_ref().iter().map(u8::to_ascii_lowercase));
    }
    Ok(key)
}

/// The name of a key that [`dns_name`] made, without a trailing dot; the root is a single dot.
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
    let mut labels = Vec::new();
    while !key.is_empty() {
        let (label, rest) = take_escaped(key).ok_or(DnsNameError::NotAKey)?;
        if label.is_empty() {
            return Err(DnsNameError::NotAKey);
        }
        labels.push(label);
        key = rest;
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
