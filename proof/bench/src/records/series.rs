//! Cases that differ in one number, and latencies by percentile: what lines show.

use crate::records::draw::colours;
use crate::records::lines::{LinePanel, Lines};
use crate::records::metric::{is_time, title};
use crate::records::record::{Record, Row, in_order};

/// A case's name in parts: the text with `N` for each number, the numbers, and their places.
#[derive(Debug, PartialEq)]
struct Name {
    pattern: String,
    numbers: Vec<Number>,
}

#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: f64,
    from: usize,
    to: usize,
}

impl Name {
    /// Numbers stand at the beginning or after a hyphen, or after a letter behind a number:
    /// `items-1m` has one, `rw-1w4r` has two, `commit1` and `v4` have none.
    fn new(case: &str) -> Self {
        let bytes = case.as_bytes();
        let mut name = Name {
            pattern: String::new(),
            numbers: Vec::new(),
        };
        let mut at = 0;
        while at < bytes.len() {
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let behind_number = name.numbers.last().is_some_and(|last| last.to + 1 == at);
            let starts = match before {
                None | Some(b'-') => true,
                Some(letter) => behind_number && letter.is_ascii_lowercase(),
            };
            let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit());
            let mut to = at + digits.count();
            if !starts || to == at {
                let c = case[at..].chars().next().unwrap_or_default();
                name.pattern.push(c);
                at += c.len_utf8();
                continue;
            }
            let mut value: f64 = case[at..to].parse().unwrap_or_default();
            let ends = bytes.get(to + 1).is_none_or(|b| *b == b'-');
            let factor = match bytes.get(to) {
                Some(b'k') if ends => 1e3,
                Some(b'm') if ends => 1e6,
                _ => 1.0,
            };
            if factor > 1.0 {
                value *= factor;
                to += 1;
            }
            name.pattern.push('N');
            name.numbers.push(Number {
                value,
                from: at,
                to,
            });
            at = to;
        }
        name
    }
}

/// Cases in a row: their common name, and the name of each point.
#[derive(Debug, PartialEq)]
struct Series<'r> {
    suite: &'r str,
    name: String,
    cases: Vec<(&'r str, String)>,
}

/// The cases of a record that differ in numbers, in rows of at least two.
fn series(record: &Record) -> Vec<Series<'_>> {
    let cases = record.cases();
    let named = cases
        .iter()
        .map(|(suite, case)| (*suite, *case, Name::new(case)));
    let named: Vec<_> = named.collect();
    let patterns = in_order(
        named
            .iter()
            .map(|(suite, _, name)| (*suite, &*name.pattern)),
    );
    let mut all = Vec::new();
    for (suite, pattern) in patterns {
        let alike = named
            .iter()
            .filter(|(of, _, name)| (*of, &*name.pattern) == (suite, pattern));
        let mut alike: Vec<_> = alike
            .map(|(_, case, name)| (*case, &name.numbers))
            .collect();
        let Some((_, first)) = alike.first().copied() else {
            continue;
        };
        let varies = |i: &usize| alike.iter().any(|(_, n)| n[*i].value != first[*i].value);
        let varying: Vec<usize> = (0..first.len()).filter(varies).collect();
        let (Some(&from), Some(&to)) = (varying.first(), varying.last()) else {
            continue;
        };
        alike.sort_by(|a, b| a.1[from].value.total_cmp(&b.1[from].value));
        // Two cases with the same first number are no row.
        if alike
            .windows(2)
            .any(|pair| pair[0].1[from].value == pair[1].1[from].value)
        {
            continue;
        }
        let (case, numbers) = alike[0];
        let (before, after) = (&case[..numbers[from].from], &case[numbers[to].to..]);
        let point = if from == to { "N" } else { "NxM" };
        let point_of =
            |case: &str, numbers: &[Number]| case[numbers[from].from..numbers[to].to].to_owned();
        all.push(Series {
            suite,
            name: format!("{before}{point}{after}"),
            cases: alike
                .iter()
                .map(|(case, numbers)| (*case, point_of(case, numbers)))
                .collect(),
        });
    }
    all
}

/// Pictures of all metrics of the cases that differ in numbers: threads, readers, sizes.
pub fn scaling(record: &Record) -> Vec<Lines> {
    let pictures = series(record).into_iter().filter_map(|series| {
        let row_in = |row: &Row| {
            let mut cases = series.cases.iter();
            row.suite == series.suite && cases.any(|(case, _)| *case == row.case)
        };
        let rows: Vec<&Row> = record.rows.iter().filter(|row| row_in(row)).collect();
        let engines = in_order(rows.iter().map(|row| &*row.engine));
        let metrics = in_order(rows.iter().map(|row| (&*row.metric, &*row.unit)));
        let panels = metrics.into_iter().filter_map(|(metric, unit)| {
            let of_metric = |row: &&&Row| (&*row.metric, &*row.unit) == (metric, unit);
            let of_metric: Vec<&Row> = rows.iter().filter(of_metric).copied().collect();
            let has = |case: &str| of_metric.iter().any(|row| row.case == case);
            let cases: Vec<_> = series.cases.iter().filter(|(case, _)| has(case)).collect();
            if cases.len() < 2 {
                return None;
            }
            let value = |engine: &str, case: &str| {
                let mut rows = of_metric.iter();
                let row = rows.find(|row| row.engine == engine && row.case == case);
                row.map(|row| row.value)
            };
            let values = engines.iter().map(|engine| {
                let values = cases.iter().map(|(case, _)| value(engine, case));
                values.collect()
            });
            Some(LinePanel {
                title: title(of_metric[0]),
                points: cases.iter().map(|(_, point)| point.clone()).collect(),
                values: values.collect(),
                logarithmic: false,
            })
        });
        let panels: Vec<_> = panels.collect();
        let points = format!("N of {}", series.name);
        lines(
            format!("Scaling: {}", series.name),
            points,
            &engines,
            panels,
        )
    });
    pictures.collect()
}

/// A percentile in the name of a metric: `update_p999_us` is the 0.999 of `update`.
fn percentile(row: &Row) -> Option<(String, f64, String)> {
    if !is_time(&row.unit) {
        return None;
    }
    let mut words: Vec<&str> = row.metric.split('_').collect();
    words.pop();
    let (at, (place, name)) = words.iter().enumerate().find_map(|(i, word)| {
        if matches!(*word, "max" | "worst") {
            return Some((i, (1.0, "worst".to_owned())));
        }
        let digits = word.strip_prefix('p')?;
        let place: f64 = format!("0.{digits}").parse().ok()?;
        if digits.len() < 2 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (whole, rest) = digits.split_at(2);
        let dot = if rest.is_empty() { "" } else { "." };
        Some((i, (place, format!("p{whole}{dot}{rest}"))))
    })?;
    words.remove(at);
    Some((words.join(" "), place, name))
}

/// The picture of all latencies by percentile: a panel for each case that has at least two.
pub fn latency(record: &Record) -> Option<Lines> {
    let known = record
        .rows
        .iter()
        .filter_map(|row| Some((row, percentile(row)?)));
    let known: Vec<_> = known.collect();
    let all_engines = in_order(known.iter().map(|(row, _)| &*row.engine));
    let keys = in_order(
        known
            .iter()
            .map(|(row, (stem, ..))| (&*row.suite, &*row.case, &*row.unit, &**stem)),
    );
    let panels = keys.into_iter().filter_map(|key| {
        let (_, case, unit, stem) = key;
        let of_key = known
            .iter()
            .filter(|(row, (stem, ..))| (&*row.suite, &*row.case, &*row.unit, &**stem) == key);
        let of_key: Vec<_> = of_key.collect();
        let mut points = in_order(of_key.iter().map(|(_, (_, place, name))| (*place, &**name)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() < 2 {
            return None;
        }
        let value = |engine: &str, place: f64| {
            let mut rows = of_key.iter();
            let row = rows.find(|(row, (_, at, _))| row.engine == engine && *at == place);
            row.map(|(row, _)| row.value)
        };
        let values = all_engines.iter().map(|engine| {
            let values = points.iter().map(|(place, _)| value(engine, *place));
            values.collect()
        });
        let unit = if unit == "us" { "µs" } else { unit };
        Some(LinePanel {
            title: format!("{case}: {stem}, {unit}"),
            points: points.iter().map(|(_, name)| (*name).to_owned()).collect(),
            values: values.collect(),
            logarithmic: true,
        })
    });
    let panels: Vec<_> = panels.collect();
    let title = "Latency of single operations, by percentile".to_owned();
    lines(title, "percentile".into(), &all_engines, panels)
}

/// A picture of the engines that have a value in any panel.
fn lines(
    title: String,
    points: String,
    engines: &[&str],
    mut panels: Vec<LinePanel>,
) -> Option<Lines> {
    let has = |i: usize| {
        panels
            .iter()
            .any(|p| p.values[i].iter().any(Option::is_some))
    };
    let kept: Vec<bool> = (0..engines.len()).map(has).collect();
    for panel in &mut panels {
        let mut kept = kept.iter();
        panel.values.retain(|_| *kept.next().unwrap_or(&false));
    }
    let engines: Vec<_> = engines
        .iter()
        .zip(&kept)
        .filter(|(_, kept)| **kept)
        .collect();
    let engines: Vec<&str> = engines.into_iter().map(|(engine, _)| *engine).collect();
    let named = engines.iter().map(|name| (*name).to_owned());
    (!panels.is_empty()).then(|| Lines {
        title,
        points,
        engines: named.zip(colours(&engines)).collect(),
        panels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rows: &[(&str, &str, &str, f64, &str)]) -> Record {
        let mut text =
            "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n".to_owned();
        for (case, engine, metric, value, unit) in rows {
            text += &format!("s,{case},{engine},{metric},{value},{unit},1,1,1\n");
        }
        Record::parse("r", &text).unwrap()
    }

    #[test]
    fn numbers_in_names_are_found() {
        let parts = |case: &str| {
            let name = Name::new(case);
            let numbers = name.numbers.iter().map(|n| n.value).collect::<Vec<_>>();
            (name.pattern, numbers)
        };
        for (case, pattern, numbers) in [
            ("items-1m", "items-N", &[1e6][..]),
            ("1k", "N", &[1000.0]),
            ("rw-1w4r", "rw-NwNr", &[1.0, 4.0]),
            ("txn-8x128", "txn-NxN", &[8.0, 128.0]),
            ("size-8-2t", "size-N-Nt", &[8.0, 2.0]),
            ("commit1-121k", "commit1-N", &[121e3]),
            ("v4-100k-random", "v4-N-random", &[1e5]),
            ("kallsyms", "kallsyms", &[]),
            ("lpm6-full", "lpm6-full", &[]),
            ("\u{e4}-2", "\u{e4}-N", &[2.0]),
        ] {
            assert_eq!(
                parts(case),
                (pattern.to_owned(), numbers.to_vec()),
                "{case}"
            );
        }
    }

    #[test]
    fn cases_that_differ_in_a_number_are_a_line() {
        let record = record(&[
            ("readers-4", "sapwood", "reader_mops", 9.0, "M/s"),
            ("readers-1", "sapwood", "reader_mops", 3.0, "M/s"),
            ("readers-1", "scc", "reader_mops", 2.0, "M/s"),
            ("readers-1", "scc", "once_ns", 2.0, "ns"),
            ("v4-full", "scc", "once_ns", 2.0, "ns"),
            ("v6-full", "scc", "once_ns", 2.0, "ns"),
            ("txn-8x2", "scc", "reader_mops", 5.0, "M/s"),
            ("txn-2x8", "scc", "reader_mops", 6.0, "M/s"),
        ]);
        let pictures = scaling(&record);
        let titles: Vec<_> = pictures.iter().map(|picture| &*picture.title).collect();
        assert_eq!(titles, ["Scaling: readers-N", "Scaling: txn-NxM"]);
        let readers = &pictures[0];
        assert_eq!(readers.panels.len(), 1);
        let panel = &readers.panels[0];
        assert_eq!(
            (&*panel.title, &panel.points[..]),
            ("reader, M/s", &["1".into(), "4".into()][..])
        );
        let names: Vec<_> = readers.engines.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["sapwood", "scc"]);
        assert_eq!(panel.values, [[Some(3.0), Some(9.0)], [Some(2.0), None]]);
        assert_eq!(pictures[1].panels[0].points, ["2x8", "8x2"]);
    }

    #[test]
    fn percentiles_are_in_order() {
        let record = record(&[
            ("v4", "sapwood", "update_max_us", 90.0, "us"),
            ("v4", "sapwood", "update_p999_us", 30.0, "us"),
            ("v4", "sapwood", "update_p50_us", 2.0, "us"),
            ("v4", "other", "insert_ns", 2.0, "ns"),
            ("v6", "sapwood", "worst_insert_us", 7.0, "us"),
        ]);
        let picture = latency(&record).unwrap();
        assert_eq!(picture.panels.len(), 1);
        let panel = &picture.panels[0];
        assert_eq!(panel.title, "v4: update, µs");
        assert_eq!(panel.points, ["p50", "p99.9", "worst"]);
        assert_eq!(panel.values, [[Some(2.0), Some(30.0), Some(90.0)]]);
        assert!(latency(&super::tests::record(&[("c", "e", "p5_us", 1.0, "us")])).is_none());
    }
}
