//! Reads and prints numbers of 64 bits: decimal or hexadecimal, and sizes with K, M, G or T; and
//! prints numbers as people write them.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

/// Parses a number, decimal or hexadecimal after 0x.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = |text: &str, radix: u32| {
        !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix))
    };
    let (rest, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(rest) => (rest, 16),
        None => (text, 10),
    };
    if !digits(rest, radix) {
        return Err(format!(
            "\"{}\" is not a number, decimal or 0x…",
            shown(text)
        ));
    }
    u64::from_str_radix(rest, radix).map_err(|_| format!("{} does not fit 64 bits", shown(text)))
}

/// Parses a size: a number, and after it K, M, G or T for 2^10, 2^20, 2^30 or 2^40, or nothing.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let wrong = |_| {
        format!(
            "\"{}\" is not a size: a number, decimal or 0x…, and K, M, G or T after it or nothing",
            shown(text)
        )
    };
    let too_large = || format!("{} does not fit 64 bits", shown(text));
    match number(digits) {
        Err(what) if what.ends_with("64 bits") => Err(too_large()),
        count => count
            .map_err(wrong)?
            .checked_mul(1 << shift)
            .ok_or_else(too_large),
    }
}

/// The first 40 characters of a text, escaped, for messages.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    start.escape_debug().to_string()
}

/// The form of numbers in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Decimal.
    Ten,
    /// Hexadecimal after 0x.
    Sixteen,
}

impl Base {
    /// Hexadecimal if `hex`, else decimal.
    pub fn new(hex: bool) -> Self {
        if hex { Base::Sixteen } else { Base::Ten }
    }

    /// The text of a number.
    pub fn show(self, number: u64) -> String {
        match self {
            Base::Ten => number.to_string(),
            Base::Sixteen => format!("{number:#x}"),
        }
    }

    /// The text of a range: its start, `..=` and its end.
    pub fn span(self, range: &RangeInclusive<u64>) -> String {
        format!(
            "{}..={}",
            self.show(*range.start()),
            self.show(*range.end())
        )
    }
}

/// How many numbers a range has: up to 2^64, which does not fit 64 bits.
pub fn length(range: &RangeInclusive<u64>) -> u128 {
    u128::from(*range.end() - *range.start()) + 1
}

/// A count in a document. A count of 2^64 does not fit 64 bits, so it is a float, which is exact.
pub fn count_json(count: u128) -> Value {
    match u64::try_from(count) {
        Ok(count) => json!(count),
        Err(_) => json!(count as f64),
    }
}

/// About three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.01 => format!("{value:.4}"),
        ..0.1 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        ..10_000.0 => format!("{value:.0}"),
        ..1e15 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", thousands(value.abs().round() as u64))
        }
        _ => format!("{value:.2e}"),
    }
}

/// A number with a comma before each group of three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number("0xffffffffff600000"), Ok(0xffff_ffff_ff60_0000));
        assert_eq!(number("0XfF"), Ok(255));
        for text in ["", "0x", "-1", "+1", "1 ", "ff", "0x+1", "1_000", "٣"] {
            let error = number(text).unwrap_err();
            assert!(error.contains("is not a number"), "{error}");
        }
        for text in ["18446744073709551616", "0x10000000000000000"] {
            let error = number(text).unwrap_err();
            assert_eq!(error, format!("{text} does not fit 64 bits"));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4K"), Ok(4096));
        assert_eq!(size("0x10k"), Ok(16 << 10));
        assert_eq!(size("3M"), Ok(3 << 20));
        assert_eq!(size("1G"), Ok(1 << 30));
        assert_eq!(size("2T"), Ok(2 << 40));
        assert_eq!(size("16777215T"), Ok(16_777_215 << 40));
        for text in ["16777216T", "18446744073709551616", "99999999999999999999K"] {
            let error = size(text).unwrap_err();
            assert_eq!(error, format!("{text} does not fit 64 bits"));
        }
        for text in ["", "K", "4KB", "4 K", "-4K", "ü"] {
            assert!(size(text).unwrap_err().contains("is not a size"), "{text}");
        }
    }

    #[test]
    fn shown_as_wanted() {
        assert_eq!(Base::Ten.span(&(16..=31)), "16..=31");
        assert_eq!(Base::Sixteen.span(&(16..=31)), "0x10..=0x1f");
        assert_eq!(length(&(0..=u64::MAX)), 1 << 64);
        assert_eq!(count_json(5), json!(5));
        assert_eq!(count_json(1 << 64), json!(18_446_744_073_709_551_616.0));
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.0042, 0.034, 0.5, 9.999, 45.18, 254.3, 50_590.0];
        let texts = numbers.map(short);
        assert_eq!(
            texts,
            [
                "0", "0.0042", "0.034", "0.50", "10.00", "45.2", "254", "50,590"
            ]
        );
        assert_eq!(
            [-45.18, -50_590.0, 2.5e20].map(short),
            ["-45.2", "-50,590", "2.50e20"]
        );
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
