//! Ranges of numbers, as a log has them.
//!
//! | bytes | key |
//! |---|---|
//! | 0 to 7 | the range's first number, most significant byte first |
//!
//! | bytes | value |
//! |---|---|
//! | 0 to 7 | the range's last number, most significant byte first |
//! | 8 … | its text, UTF-8 without control characters |
//!
//! So the order of keys is the order of ranges. The ranges of a map do not overlap.

use std::ops::RangeInclusive;

use crate::Error;
use crate::routes::check_text;

/// The key of the range that begins at a number.
pub fn key(start: u64) -> [u8; 8] {
    start.to_be_bytes()
}

/// The value of a range that ends at a number.
pub fn value(end: u64, text: &str) -> Vec<u8> {
    let mut value = end.to_be_bytes().to_vec();
    value.extend_from_slice(text.as_bytes());
    value
}

/// The first number of a range, of its key.
///
/// # Errors
/// [`Error::Change`] when the bytes are no such key.
pub fn start(key: &[u8]) -> Result<u64, Error> {
    let key = key.try_into().map_err(|_| {
        let shown = key[..key.len().min(20)].escape_ascii();
        Error::Change(format!(
            "a key of {} bytes (\"{shown}\"), but those of ranges have 8",
            key.len()
        ))
    })?;
    Ok(u64::from_be_bytes(key))
}

/// A range and its text, of its key and its value.
///
/// ```
/// use sapwood_sync::ranges;
///
/// let value = ranges::value(443, "web");
/// assert_eq!(ranges::entry(&ranges::key(80), &value)?, (80..=443, "web"));
/// # Ok::<(), sapwood_sync::Error>(())
/// ```
///
/// # Errors
/// [`Error::Change`] when the bytes are no such entry, or the range ends before its start.
pub fn entry<'v>(key: &[u8], value: &'v [u8]) -> Result<(RangeInclusive<u64>, &'v str), Error> {
    let start = start(key)?;
    let Some((end, text)) = value.split_first_chunk::<8>() else {
        return Err(Error::Change(format!(
            "the range from {start}: a value of {} bytes, too short for its end",
            value.len()
        )));
    };
    let end = u64::from_be_bytes(*end);
    if end < start {
        return Err(Error::Change(format!(
            "the range from {start} ends at {end}, before its start"
        )));
    }
    let text = check_text(text)
        .map_err(|what| Error::Change(format!("the text of {start} to {end} {what}")))?;
    Ok((start..=end, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!(key(80), [0, 0, 0, 0, 0, 0, 0, 80]);
        assert_eq!(value(443, "web"), *b"\0\0\0\0\0\0\x01\xbbweb");
        assert_eq!(
            entry(&key(80), &value(443, "web")).unwrap(),
            (80..=443, "web")
        );
        let all = value(u64::MAX, "");
        assert_eq!(entry(&key(0), &all).unwrap(), (0..=u64::MAX, ""));
        assert!(key(255) < key(256) && key(256) < key(u64::MAX));
    }

    #[test]
    fn other_bytes_are_no_ranges() {
        let bad: [(&[u8], &[u8], &str); 6] = [
            (b"", b"", "a key of 0 bytes"),
            (b"123456789", b"12345678", "a key of 9 bytes"),
            (&key(5), b"1234567", "a value of 7 bytes, too short"),
            (&key(5), &value(4, "x"), "ends at 4, before its start"),
            (&key(5), &[0, 0, 0, 0, 0, 0, 0, 9, 0xff], "is not UTF-8"),
            (&key(5), &value(9, "a\nb"), "has a control character"),
        ];
        for (key, value, says) in bad {
            let error = entry(key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
