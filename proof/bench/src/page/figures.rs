//! Figures of a page: a picture, its caption, and a table of the same numbers.

use crate::records::Record;
use crate::records::bars::{Bars, Panel};
use crate::records::draw::Problem;
use crate::records::lines::Lines;
use maud::{Markup, PreEscaped, html};
use sapwood_cli::errors::Error;
use sapwood_cli::numbers::short;

/// A table: the first columns are names, the others are numbers.
pub struct Table {
    /// How many columns are names.
    pub names: usize,
    /// The headings.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table in the page.
    pub fn markup(&self) -> Markup {
        html! {
            div.table {
                table {
                    thead { tr { @for (i, name) in self.head.iter().enumerate() {
                        th scope="col" class=[(i < self.names).then_some("name")] { (name) }
                    } } }
                    tbody { @for row in &self.rows {
                        tr { @for (i, cell) in row.iter().enumerate() {
                            @if i < self.names { th scope="row" { (cell) } }
                            @else { td { (cell) } }
                        } }
                    } }
                }
            }
        }
    }

    /// The numbers of a picture of bars.
    pub fn of_bars(picture: &Bars) -> Self {
        // Names of series that only tell colours apart are no names of numbers.
        let names = if picture.one_each { 1 } else { 2 };
        let mut head = vec![String::new(); names];
        head.extend(picture.panels.iter().map(|panel| panel.title.clone()));
        let mut rows = Vec::new();
        let shown = |panel: &Panel, value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| panel.text(value))
        };
        for (i, group) in picture.groups.iter().enumerate() {
            if picture.one_each {
                let values = picture.panels.iter().map(|panel| {
                    let mut bars = panel.bars[i].iter();
                    shown(panel, bars.find_map(|value| *value))
                });
                rows.push([group.clone()].into_iter().chain(values).collect());
                continue;
            }
            for (j, (series, _)) in picture.series.iter().enumerate() {
                let values = picture
                    .panels
                    .iter()
                    .map(|panel| shown(panel, panel.bars[i][j]));
                let names = [group.clone(), series.clone()];
                rows.push(names.into_iter().chain(values).collect());
            }
        }
        Table { names, head, rows }
    }

    /// The numbers of a picture of lines.
    fn of_lines(picture: &Lines) -> Self {
        let mut points: Vec<&String> = Vec::new();
        for point in picture.panels.iter().flat_map(|panel| &panel.points) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        let mut head = vec![String::new(), String::new()];
        head.extend(points.iter().map(|point| (*point).clone()));
        let mut rows = Vec::new();
        for panel in &picture.panels {
            for ((engine, _), values) in picture.engines.iter().zip(&panel.values) {
                if values.iter().all(Option::is_none) {
                    continue;
                }
                let mut row = vec![panel.title.clone(), engine.clone()];
                row.extend(points.iter().map(|point| {
                    let at = panel.points.iter().position(|known| known == *point);
                    let value = at.and_then(|at| values[at]);
                    value.map_or_else(|| "–".to_owned(), short)
                }));
                rows.push(row);
            }
        }
        Table {
            names: 2,
            head,
            rows,
        }
    }
}

/// A figure: a picture, a sentence about it, its source, and its numbers.
pub fn figure(
    svg: Result<String, Problem>,
    about: &str,
    source: &Markup,
    table: &Table,
) -> Result<Markup, Error> {
    let svg = svg.map_err(|error| Error::Usage(format!("cannot draw a picture: {error}")))?;
    Ok(html! {
        figure {
            div.picture { (PreEscaped(inline(&svg))) }
            figcaption { (about) " " (source) }
            details.numbers { summary { "The numbers" } (table.markup()) }
        }
    })
}

/// A figure of lines.
pub fn lines(picture: &Lines, about: &str, source: &Markup) -> Result<Markup, Error> {
    figure(picture.draw(), about, source, &Table::of_lines(picture))
}

/// A figure of bars.
pub fn bars(picture: &Bars, about: &str, source: &Markup) -> Result<Markup, Error> {
    figure(picture.draw(), about, source, &Table::of_bars(picture))
}

/// A picture as a part of a page, which needs no name of a namespace.
fn inline(svg: &str) -> String {
    svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
}

/// Where a figure comes from: the record, its machine, its date, its commit and its command.
pub fn source(record: &Record) -> Markup {
    html! {
        span.source {
            "Record " b { (record.name) }
            @if !record.machine.is_empty() { " · " (record.machine) }
            " · " @if record.date.is_empty() { "no date recorded" } @else { (record.date) }
            " · " @if record.commit.is_empty() { "no commit recorded" } @else { "commit " (record.commit) }
            @if !record.command.is_empty() { " · " (command(&record.command)) }
        }
    }
}

/// A command, whose options are not broken after their hyphens.
fn command(command: &str) -> Markup {
    html! {
        code { @for (i, word) in command.split(' ').enumerate() {
            @if i > 0 { " " }
            @if word.starts_with('-') && word.len() < 30 { span.word { (word) } } @else { (word) }
        } }
    }
}
