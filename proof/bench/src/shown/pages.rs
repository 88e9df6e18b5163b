//! Tables in pages: the text between two marks is made anew from the records.

use std::collections::BTreeSet;

use super::figure::{Ask, Cell, Table};
use super::tables;
use crate::records::{PROCESSORS, Record};

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
        let table = tables::named(name)?;
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

    const PAGES: [&str; 2] = ["docs/figures.md", "README.md"];

    fn record(name: &str, date: &str, machine: &str, rows: &str) -> Record {
        let columns = crate::records::record::COLUMNS.join(",");
        let text = format!("# date: {date}\n# machine: {machine}\n{columns}\n{rows}");
        Record::parse(name, &text).unwrap()
    }

    #[test]
    fn the_committed_pages_are_what_the_command_makes() {
        let records = read_records(&records()).unwrap();
        for page in PAGES {
            let text = fs::read_to_string(root().join(page)).unwrap();
            assert!(
                renewed(&text, &records).unwrap() == text,
                "{page} has other figures than the records: run `cargo run --release -p \
                 sapwood-bench -- figures`"
            );
        }
    }

    #[test]
    fn every_table_of_the_repository_has_figures_and_is_in_a_page() {
        let records = read_records(&records()).unwrap();
        let pages = PAGES.map(|page| fs::read_to_string(root().join(page)).unwrap());
        for name in tables::names() {
            let table = tables::named(name).unwrap();
            assert!(
                table.rows.iter().all(|row| row.len() == table.head.len()),
                "{name}"
            );
            let text = table.markdown(&records);
            assert!(text.contains("Records: `"), "{name}:\n{text}");
            let mark = format!("<!-- figures: {name} -->\n");
            assert!(
                pages.iter().any(|page| page.contains(&mark)),
                "no page has {name}"
            );
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
        let row = |cells: [&str; 3]| cells.map(|cell| Cell::parse(cell).unwrap()).into();
        let table = Table {
            head: vec!["a".into(), "b".into(), "c".into()],
            rows: vec![
                row([
                    "{names btf sapwood hit_mops}",
                    "{names btf std-btreemap hit_mops}",
                    "{names btf sapwood hit_mops of std-btreemap}",
                ]),
                // The Xeon's figure must not stand beside the EPYC's.
                row([
                    "",
                    "{ours: names btf sapwood hit_mops}",
                    "{peer: names btf std-btreemap hit_mops}",
                ]),
                row(["not there", "{names btf papaya hit_mops}", ""]),
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
