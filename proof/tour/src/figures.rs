//! Measures time, and formats figures and tables of figures.

use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use rustix::time::{ClockId, clock_gettime};

/// Formats a table. The first column is text, the others are figures.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header.iter().copied());
    table.add_rows(rows.iter().cloned());
    for column in 1..header.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// The processor time that this thread has used.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// The text of a number with a comma between each three digits.
pub fn grouped(number: usize) -> String {
    crate::numbers::thousands(number as u64)
}

/// The rate of `count` operations in `time`, in millions of operations a second.
pub fn mega(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9) / 1e6
}

/// The text of a value with about three digits.
pub fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The median of the values; of an even number of values, the upper one of the middle two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs `work`; returns its result and the time that it took.
pub fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let began = Instant::now();
    let result = std::hint::black_box(work());
    (result, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(grouped(123), "123");
        assert_eq!(figure(123.4), "123");
        assert_eq!(figure(0.5), "0.50");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
