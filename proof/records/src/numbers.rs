//! Numbers as people write them.

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
