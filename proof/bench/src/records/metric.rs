//! What the name and the unit of a metric say: whether more is better, and how people call it.

use crate::records::record::Row;

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The greater one, as of rates.
    More,
    /// The smaller one, as of times and bytes.
    Less,
}

/// Whether an engine is one of Sapwood.
pub fn is_ours(engine: &str) -> bool {
    engine
        .strip_prefix("sapwood")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Which of two values in a unit is better; `None` for units that do not say.
pub fn better(unit: &str) -> Option<Better> {
    match unit {
        "ns" | "us" | "µs" | "ms" | "s" => Some(Better::Less),
        _ if is_memory(unit) => Some(Better::Less),
        // Shares that are lost, dropped or waited for; wrong answers; allocations.
        "share" | "answers" | "allocs" => Some(Better::Less),
        // The share of hits.
        "%" => Some(Better::More),
        _ if unit.ends_with("/s") => Some(Better::More),
        _ => None,
    }
}

/// Whether a unit is one of memory.
pub fn is_memory(unit: &str) -> bool {
    matches!(
        unit,
        "B" | "bytes" | "kB" | "KiB" | "MB" | "MiB" | "GB" | "GiB"
    )
}

/// Whether a unit is one of time.
pub fn is_time(unit: &str) -> bool {
    matches!(unit, "ns" | "us" | "µs" | "ms" | "s")
}

/// The ends of metrics' names that repeat the unit.
const ENDS: [&str; 13] = [
    "_mops", "_mlps", "_mkeys", "_mpps", "_kpps", "_ns", "_us", "_ms", "_mb", "_share", "mpps",
    "kpps", "_bytes",
];

/// The metric in words, with its unit: `range10, Mop/s`.
pub fn title(row: &Row) -> String {
    let metric = &row.metric;
    let end = ENDS.iter().find_map(|end| metric.strip_suffix(end));
    let words = end.filter(|words| !words.is_empty()).unwrap_or(metric);
    let words = words.replace('_', " ");
    let unit = match &*row.unit {
        "us" => "µs",
        unit => unit,
    };
    format!("{words}, {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_say_what_is_better() {
        assert_eq!(better("ns"), Some(Better::Less));
        assert_eq!(better("B"), Some(Better::Less));
        assert_eq!(better("Mop/s"), Some(Better::More));
        assert_eq!(better("kpacket/s"), Some(Better::More));
        assert_eq!(better("%"), Some(Better::More));
        assert_eq!(better("nodes"), None);
    }

    #[test]
    fn ours_are_those_of_sapwood() {
        assert!(is_ours("sapwood") && is_ours("sapwood-index"));
        assert!(!is_ours("sapwoods") && !is_ours("urcu-qp"));
    }

    #[test]
    fn every_unit_of_the_repository_is_known() {
        for record in crate::records::read_records(&crate::shown::records()).unwrap() {
            for row in &record.rows {
                let known = better(&row.unit).is_some() || row.unit == "nodes";
                assert!(known, "{}: {row:?}", record.name);
                assert!(!title(row).starts_with(','), "{row:?}");
            }
        }
    }
}
