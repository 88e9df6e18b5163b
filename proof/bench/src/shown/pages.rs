//! Tables in pages: the text between two marks is made anew from the records.

use std::collections::BTreeSet;

use crate::records::{PROCESSORS, Record};
use sapwood_cli::numbers::short;

use super::tables;

/// A table whose figures are not filled in.
pub struct Table {
    /// The headings.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// The contents of a cell of a table.
pub enum Cell {
    /// A text, such as a figure that others have published.
    Text(String),
    /// A figure for both processors: `EPYC / Xeon`.
    Both(Ask),
    /// A name and a figure. All figures of a row are of one processor: the first one that has the
    /// row's first figure.
    Named(&'static str, Ask),
}

/// A figure that a record may contain.
#[derive(Clone)]
pub struct Ask {
    /// The suite.
    pub suite: &'static str,
    /// The case; with `*` at its end, the first case that begins with the rest.
    pub case: &'static str,
    /// The engine that decides the record: the newest record with a row of this engine is taken.
    pub ours: &'static str,
    /// The engine of the figure.
    pub engine: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// How the figure is shown.
    pub how: How,
}

/// How a figure is shown.
#[derive(Clone, Copy)]
pub enum How {
    /// The recorded value.
    Plain,
    /// Nanoseconds per operation, shown as millions per second.
    Rate,
    /// A multiple of another engine's value.
    Of(&'static str),
    /// How many times as fast as another engine, for times.
    Faster(&'static str),
    /// A multiple of another metric of the same engine.
    OfMetric(&'static str),
}

impl Ask {
    /// The newest record of a processor that has this figure, and its value.
    fn answer<'a>(&self, records: &'a [Record], processor: &str) -> Option<(f64, &'a Record)> {
        let of_processor = records.iter().filter(|r| r.machine.contains(processor));
        for record in of_processor {
            let value = |engine, metric| match self.case.strip_suffix('*') {
                Some(start) => record.value_of_cases(self.suite, start, engine, metric),
                None => record.value(self.suite, self.case, engine, metric),
            };
            if value(self.ours, self.metric).is_none() {
                continue;
            }
            // Use only this record: figures of two runs are not compared.
            let own = value(self.engine, self.metric)?;
            let shown = match self.how {
                How::Plain => own,
                How::Rate => 1000.0 / own,
                How::Of(base) => own / value(base, self.metric)?,
                How::Faster(base) => value(base, self.metric)? / own,
                How::OfMetric(metric) => own / value(self.engine, metric)?,
            };
            return Some((shown, record));
        }
        None
    }

    fn text(&self, value: f64) -> String {
        match self.how {
            How::Plain | How::Rate => short(value),
            How::OfMetric(_) => format!("{value:.3}"),
            How::Of(_) | How::Faster(_) if value < 0.01 => format!("{value:.4}"),
            How::Of(_) | How::Faster(_) => format!("{value:.2}"),
        }
    }
}

impl Table {
    /// The table as Markdown, with the names of its records below it. Rows that should have a
    /// figure of ours, and have none, are left out.
    fn markdown(&self, records: &[Record]) -> String {
        let mut used = BTreeSet::new();
        let mut rows = String::new();
        for row in &self.rows {
            let mut asked = false;
            let mut found = false;
            let mut take = |ask: &Ask, processor: &str| {
                asked = true;
                let (value, record) = ask.answer(records, processor)?;
                found = true;
                used.insert(record.name.clone());
                Some(ask.text(value))
            };
            let first = row.iter().find_map(|cell| match cell {
                Cell::Named(_, ask) => Some(ask),
                _ => None,
            });
            let processor = PROCESSORS.into_iter().find(|processor| {
                first.is_some_and(|ask| ask.answer(records, processor).is_some())
            });
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell {
                    Cell::Text(text) => text.clone(),
                    Cell::Both(ask) => {
                        let both = PROCESSORS.map(|processor| take(ask, processor));
                        match both {
                            [None, None] => "–".to_owned(),
                            both => both.map(|text| text.unwrap_or("–".into())).join(" / "),
                        }
                    }
                    Cell::Named(name, ask) => {
                        let text = processor.and_then(|processor| take(ask, processor));
                        text.map_or_else(|| "–".to_owned(), |text| format!("{name} {text}"))
                    }
                })
                .collect();
            if found || !asked {
                rows += &format!("| {} |\n", cells.join(" | "));
            }
        }
        let head = format!(
            "| {} |\n{}|\n",
            self.head.join(" | "),
            "|---".repeat(self.head.len())
        );
        // Without the trailing line, no record would belong to the table.
        let names: Vec<_> = used.iter().map(|name| format!("`{name}`")).collect();
        let names = match &names[..] {
            [] => "No record has these figures yet.".to_owned(),
            names => format!("Records: {}.", names.join(", ")),
        };
        format!("{head}{rows}\n{}", wrapped(&names))
    }
}

/// Text in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column + word.len() + 1 > 100 {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += word.len();
    }
    lines + "\n"
}

/// A page with its tables made anew.
///
/// # Errors
///
/// A mark names an unknown table, or has no end.
pub fn renewed(page: &str, records: &[Record]) -> Result<String, String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += line;
        text.push('\n');
        let name = line.strip_prefix("<!-- figures: ");
        let Some(name) = name.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = tables::named(name).ok_or_else(|| format!("no table is called {name:?}"))?;
        text += &format!("\n{}\n<!-- end -->\n", table.markdown(records));
        lines
            .find(|line| *line == "<!-- end -->")
            .ok_or_else(|| format!("the table {name:?} has no end"))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::records::read_records;

    use super::super::{records, root};
    use super::*;

    fn record(name: &str, date: &str, machine: &str, rows: &str) -> Record {
        let columns = crate::records::record::COLUMNS.join(",");
        let text = format!("# date: {date}\n# machine: {machine}\n{columns}\n{rows}");
        Record::parse(name, &text).unwrap()
    }

    #[test]
    fn the_committed_pages_are_what_the_command_makes() {
        let records = read_records(&records()).unwrap();
        for page in ["docs/figures.md", "README.md"] {
            let text = fs::read_to_string(root().join(page)).unwrap();
            assert!(
                renewed(&text, &records).unwrap() == text,
                "{page} has other figures than the records: run `cargo run --release -p \
                 sapwood-bench -- figures`"
            );
        }
    }

    #[test]
    fn every_table_of_the_repository_has_figures() {
        let records = read_records(&records()).unwrap();
        for name in tables::NAMES {
            let table = tables::named(name).unwrap();
            assert!(
                table.rows.iter().all(|row| row.len() == table.head.len()),
                "{name}"
            );
            let text = table.markdown(&records);
            assert!(text.contains("Records: `"), "{name}:\n{text}");
        }
    }

    #[test]
    fn the_newest_record_of_each_processor_answers_alone() {
        let row =
            |engine: &str, value: f64| format!("names,btf,{engine},hit_mops,{value},Mop/s,1,1,1\n");
        let records = [
            record("new.csv", "2026-02-02", "EPYC", &row("sapwood", 9.0)),
            record(
                "old.csv",
                "2026-02-01",
                "EPYC",
                &(row("sapwood", 8.0) + &row("std-btreemap", 4.0)),
            ),
            record(
                "xeon.csv",
                "2026-01-01",
                "Xeon",
                &(row("sapwood", 6.0) + &row("std-btreemap", 3.0)),
            ),
        ];
        let asked = |engine, how| Ask {
            suite: "names",
            case: "btf",
            ours: "sapwood",
            engine,
            metric: "hit_mops",
            how,
        };
        let ask = |engine, how| Cell::Both(asked(engine, how));
        let named = |name, engine| Cell::Named(name, asked(engine, How::Plain));
        let table = Table {
            head: vec!["a".into(), "b".into(), "c".into()],
            rows: vec![
                vec![
                    ask("sapwood", How::Plain),
                    ask("std-btreemap", How::Plain),
                    ask("sapwood", How::Of("std-btreemap")),
                ],
                // The Xeon's figure must not stand beside the EPYC's.
                vec![
                    Cell::Text(String::new()),
                    named("ours", "sapwood"),
                    named("peer", "std-btreemap"),
                ],
                vec![
                    Cell::Text("not there".into()),
                    ask("papaya", How::Plain),
                    Cell::Text(String::new()),
                ],
            ],
        };
        assert_eq!(
            table.markdown(&records),
            "| a | b | c |\n|---|---|---|\n| 9.00 / 6.00 | – / 3.00 | – / 2.00 |\n\
             |  | ours 9.00 | – |\n\n\
             Records: `new.csv`, `xeon.csv`.\n"
        );
    }

    #[test]
    fn a_page_keeps_what_is_not_between_marks() {
        let page = "a\n<!-- figures: cache -->\nold\n<!-- end -->\nb\n";
        let new = renewed(page, &[]).unwrap();
        assert!(new.starts_with("a\n<!-- figures: cache -->\n\n| "));
        assert!(new.ends_with("\n<!-- end -->\nb\n") && !new.contains("old"));
        assert_eq!(renewed(&new, &[]).unwrap(), new);
        assert!(renewed("<!-- figures: none -->\n", &[]).is_err());
        assert!(renewed("<!-- figures: cache -->\n", &[]).is_err());
    }
}
