//! Numbers as values of names: decimal digits in the log.

use crate::Error;

/// A number as the log has it: its decimal digits. So a follower may keep it as a number or as a
/// text.
pub fn value(number: u64) -> String {
    number.to_string()
}

/// The number in a value of a log.
///
/// ```
/// use sapwood_sync::numbers;
///
/// assert_eq!(numbers::number(b"42")?, 42);
/// assert!(numbers::number(b"042").is_err());
/// # Ok::<(), sapwood_sync::Error>(())
/// ```
///
/// # Errors
/// [`Error::Change`] for all but what [`value`] makes.
pub fn number(value: &[u8]) -> Result<u64, Error> {
    let is_plain =
        value.iter().all(u8::is_ascii_digit) && (value == b"0" || !value.starts_with(b"0"));
    let text = is_plain.then_some(value);
    let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    number.ok_or_else(|| {
        let shown = value[..value.len().min(40)].escape_ascii();
        Error::Change(format!("the value \"{shown}\" is not a number of 64 bits"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_is_a_number() {
        for number in [0, 1, 9, 10, 1 << 40, u64::MAX] {
            assert_eq!(super::number(value(number).as_bytes()).unwrap(), number);
        }
        for bad in [
            "",
            "00",
            "01",
            "+1",
            "-1",
            " 1",
            "1 ",
            "x",
            "18446744073709551616",
        ] {
            let error = number(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("is not a number"), "{error}");
        }
        assert!(number(&[b'1'; 1000]).unwrap_err().to_string().len() < 100);
    }
}
