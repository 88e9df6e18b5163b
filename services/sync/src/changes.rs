//! Changes of a map, as bytes.

use crate::Error;

/// The most bytes of a key.
pub const MAX_KEY: usize = u16::MAX as usize;

/// One change: a key, and its new value or `None` for a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` removes the key.
    pub value: Option<&'a [u8]>,
}

/// The changes of one commit, which all machines see at once.
///
/// When a key is changed twice, the later change counts.
///
/// ```
/// use sapwood_sync::Changes;
///
/// let mut changes = Changes::new();
/// changes.put("example.org", "192.0.2.1")?;
/// changes.remove("example.net")?;
/// assert_eq!(changes.iter().count(), 2);
/// # Ok::<(), sapwood_sync::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
    count: usize,
}

impl Changes {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// [`Error::Change`] for a key of more than 65,535 bytes, or a value of more than 4 GiB.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.push(Change {
            key: key.as_ref(),
            value: Some(value.as_ref()),
        })
    }

    /// Removes a key, if the map has it.
    ///
    /// # Errors
    /// [`Error::Change`] for a key of more than 65,535 bytes.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.push(Change {
            key: key.as_ref(),
            value: None,
        })
    }

    /// Adds one change.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn push(&mut self, change: Change<'_>) -> Result<(), Error> {
        let Change { key, value } = change;
        if key.len() > MAX_KEY {
            let bytes = key.len();
            return Err(Error::Change(format!(
                "a key of {bytes} bytes: {MAX_KEY} is the most"
            )));
        }
        let value_bytes = value.map_or(0, <[u8]>::len);
        if u32::try_from(value_bytes).is_err() {
            return Err(Error::Change(format!("a value of {value_bytes} bytes")));
        }
        push_number(
            &mut self.bytes,
            (key.len() as u64) << 1 | u64::from(value.is_some()),
        );
        self.bytes.extend_from_slice(key);
        if let Some(value) = value {
            push_number(&mut self.bytes, value.len() as u64);
            self.bytes.extend_from_slice(value);
        }
        self.count += 1;
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The changes, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| take_change(&mut rest).expect("own bytes"))
        })
    }

    /// The bytes of the changes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Changes from bytes that came from elsewhere; `None` when they are none.
    pub(crate) fn from_bytes(bytes: Vec<u8>, count: usize) -> Option<Self> {
        let mut rest = &bytes[..];
        for _ in 0..count {
            take_change(&mut rest)?;
        }
        let all = rest.is_empty();
        all.then_some(Changes { bytes, count })
    }
}

/// Appends a number, seven bits a byte, the lowest ones first.
pub fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Takes a number from the front; `None` when there is none.
pub fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a number of bytes from the front; `None` when fewer are left.
pub fn take_bytes<'a>(from: &mut &'a [u8], bytes: u64) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(usize::try_from(bytes).ok()?)?;
    *from = rest;
    Some(taken)
}

/// Takes a change from the front.
fn take_change<'a>(from: &mut &'a [u8]) -> Option<Change<'a>> {
    let head = take_number(from)?;
    let bytes = head >> 1;
    if bytes > MAX_KEY as u64 {
        return None;
    }
    let key = take_bytes(from, bytes)?;
    let value = match head & 1 {
        0 => None,
        _ => {
            let bytes = take_number(from)?;
            Some(take_bytes(from, bytes)?)
        }
    };
    Some(Change { key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_back() {
        let long = vec![7; MAX_KEY];
        let mut changes = Changes::new();
        changes.put("", "").unwrap();
        changes.put(&long, &long).unwrap();
        changes.remove("x").unwrap();
        let all: Vec<_> = changes.iter().collect();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].key, all[0].value), (&b""[..], Some(&b""[..])));
        assert_eq!((all[1].key, all[1].value), (&long[..], Some(&long[..])));
        assert_eq!((all[2].key, all[2].value), (&b"x"[..], None));
        let again = Changes::from_bytes(changes.bytes().to_vec(), 3).unwrap();
        assert_eq!(again, changes);
        for count in [2, 4] {
            assert_eq!(Changes::from_bytes(changes.bytes().to_vec(), count), None);
        }
        let too_long = vec![7; MAX_KEY + 1];
        assert!(matches!(changes.remove(&too_long), Err(Error::Change(_))));
        assert_eq!(changes.len(), 3);
    }

    #[test]
    fn torn_bytes_are_no_changes() {
        let mut changes = Changes::new();
        changes.put("key", "value").unwrap();
        changes.remove("other").unwrap();
        let bytes = changes.bytes();
        for end in 0..bytes.len() {
            assert_eq!(Changes::from_bytes(bytes[..end].to_vec(), 2), None, "{end}");
        }
    }

    #[test]
    fn numbers_of_all_sizes() {
        for number in [0, 1, 127, 128, 1 << 20, u64::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            assert_eq!(take_number(&mut &bytes[..]), Some(number));
        }
        assert_eq!(take_number(&mut &[0xff; 11][..]), None);
        assert_eq!(take_number(&mut &[0x80][..]), None);
    }
}
