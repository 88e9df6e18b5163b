//! The tables of the pages, as `tables.txt` describes them.

use super::figure::{Cell, Table};

const TEXT: &str = include_str!("../../tables.txt");

/// Variables, and what they stand for.
type Turn = Vec<(&'static str, &'static str)>;

/// The variables of a loop, and its lines.
type Loop = (Vec<&'static str>, Vec<&'static str>);

/// The parts of the text: each with its heading and its lines.
fn parts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = TEXT.split("\n# ").skip(1);
    parts.map(|part| part.split_once('\n').unwrap_or((part, "")))
}

/// The first word of a heading.
fn name_of(heading: &str) -> &str {
    heading.split(' ').next().unwrap_or_default()
}

/// The names of all tables.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    let tables = parts().filter(|(_, lines)| lines.is_empty() || lines.starts_with('|'));
    tables.map(|(heading, _)| name_of(heading))
}

/// The table with a name.
///
/// # Errors
///
/// There is no such table, or a line of it cannot be understood.
pub fn named(name: &str) -> Result<Table, String> {
    let unknown = || format!("no table is called {name:?}");
    let mut parts = parts().skip_while(|(heading, _)| name_of(heading) != name);
    let (heading, lines) = parts.next().ok_or_else(unknown)?;
    // Headings after each other begin tables with the same text.
    let mut lines = std::iter::once(lines).chain(parts.map(|(_, lines)| lines));
    let lines = lines.find(|lines| !lines.is_empty()).ok_or_else(unknown)?;
    let given = heading.split(' ').filter_map(|word| word.split_once('='));
    table(lines, &given.collect()).map_err(|what| format!("the table {name:?}: {what}"))
}

fn table(lines: &'static str, given: &Turn) -> Result<Table, String> {
    let mut table = Table::default();
    let (mut loops, mut rows): (Vec<Loop>, Vec<&str>) = Default::default();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('|') && table.head.is_empty() {
            table.head = cells(line).map(str::to_owned).collect();
        } else if line.starts_with('|') {
            rows.push(line);
        } else if let Some(each) = line.strip_prefix("each ") {
            if !rows.is_empty() {
                add(&mut table, &mut loops, &mut rows, given)?;
            }
            let (names, of) = each.split_once(" of ").unwrap_or((each, ""));
            let list = parts().find(|(heading, _)| *heading == of);
            let lines = list.map_or("", |(_, lines)| lines).lines();
            let lines = lines.filter(|line| !line.is_empty());
            loops.push((cells(names).collect(), lines.collect()));
        } else {
            let (_, lines) = loops
                .last_mut()
                .ok_or_else(|| format!("{line:?} is in no loop"))?;
            lines.push(line);
        }
    }
    add(&mut table, &mut loops, &mut rows, given)?;
    Ok(table)
}

/// Adds rows to a table, once for each turn of the loops.
fn add(
    table: &mut Table,
    loops: &mut Vec<Loop>,
    rows: &mut Vec<&str>,
    given: &Turn,
) -> Result<(), String> {
    let mut turns = vec![given.clone()];
    for (names, lines) in loops.drain(..) {
        let longer = |turn: &Turn, line| -> Turn {
            let values = names.iter().copied().zip(cells(line));
            turn.iter().copied().chain(values).collect()
        };
        turns = turns
            .iter()
            .flat_map(|turn| lines.iter().map(|line| longer(turn, line)))
            .collect();
    }
    for turn in turns {
        for row in rows.iter() {
            let fill = |row: String, (name, value): &(&str, &str)| row.replace(name, value);
            let row = turn.iter().fold((*row).to_owned(), fill);
            table
                .rows
                .push(cells(&row).map(Cell::parse).collect::<Result<_, _>>()?);
        }
    }
    rows.clear();
    Ok(())
}

/// The cells of a line.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').map(str::trim)
}
