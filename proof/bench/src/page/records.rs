//! The parts of a page about records: an overview, and a section for each record.

use crate::records::bars::{Bars, Panel};
use crate::records::compare::{Ratio, ratios};
use crate::records::draw::{OURS, PEER};
use crate::records::metric::{is_memory, is_ours, title};
use crate::records::ratios::{ENGINES, draw, factor};
use crate::records::record::in_order;
use crate::records::{Record, Row, pictures, series};
use maud::{Markup, html};
use sapwood_cli::errors::Error;
use sapwood_cli::numbers::{short, thousands};
use sapwood_cli::report::page::{Chapter, Section};

use super::figures::{Table, bars, figure, lines, source};

/// The suites of `sapwood-bench` in the order of their chapters, with their titles.
const SUITES: [(&str, &str); 11] = [
    ("names", "Names"),
    ("versions", "Stores: readers beside a writer"),
    ("routes", "Routes"),
    ("ranges", "Ranges"),
    ("cache", "Route cache"),
    ("bpf", "In the kernel"),
    ("live", "Live maps"),
    ("sync", "Many machines"),
    ("lists", "Block lists"),
    ("c", "From C"),
    ("python", "From Python"),
];

/// The place of a suite's chapter, and its title.
fn place(suite: &str) -> (usize, &str) {
    let mut suites = SUITES.iter();
    match suites.position(|(name, _)| *name == suite) {
        Some(at) => (at, SUITES[at].1),
        None if suite.is_empty() => (SUITES.len() + 1, "Records without figures"),
        None => (SUITES.len(), suite),
    }
}

/// The chapters about records, each with its sections.
pub fn chapters(records: &[Record]) -> Result<Vec<Chapter>, Error> {
    let mut suites = in_order(records.iter().map(Record::suite));
    suites.sort_by_key(|suite| place(suite).0);
    let mut chapters = Vec::new();
    for suite in suites {
        let mut sections = Vec::new();
        for (i, record) in records.iter().enumerate() {
            if record.suite() == suite {
                sections.push(Section {
                    id: id(i),
                    title: record.name.clone(),
                    text: section(record)?,
                });
            }
        }
        chapters.push(Chapter {
            id: format!("suite-{}", chapters.len() + 1),
            title: place(suite).1.to_owned(),
            sections,
        });
    }
    Ok(chapters)
}

/// The anchor of a record's section, by the record's place.
fn id(at: usize) -> String {
    format!("record-{}", at + 1)
}

/// What all records say in a few lines, and the pictures of the documents.
pub fn overview(records: &[Record], left_out: &[String]) -> Result<Markup, Error> {
    let mut figures = Vec::new();
    for record in pictures::shown(records) {
        let (_, mut picture) = match pictures::bars(record) {
            Ok(picture) => picture,
            // A record of two suites may have no row of the picture's.
            Err(_) => continue,
        };
        picture.source.clear();
        let about = format!("{}. Medians of the rounds.", picture.title);
        figures.push(bars(&picture, &about, &source(record))?);
    }
    Ok(html! {
        p {
            "Ratios are the result; absolute figures are context, and differ from machine to machine \
             and from day to day. A ratio above 1 says that an engine of Sapwood is better than the \
             best peer of the same run in the same metric, also for times and bytes. Engines differ \
             in what they can do: some keep no order, some have no versions, some answer many \
             questions at once. The table counts each engine of Sapwood."
        }
        @for figure in figures { (figure) }
        h3 { "All records" }
        div.table {
            table.glance {
                thead { tr {
                    th.name scope="col" { "Record" } th.name scope="col" { "Machine" }
                    th scope="col" { "Date" } th scope="col" { "Figures" } th scope="col" { "Compared" }
                    th scope="col" { "Ours better" } th scope="col" { "Peer better" }
                    th scope="col" { "Median ratio" }
                } }
                tbody { @for (i, record) in records.iter().enumerate() { (glance(record, &id(i))) } }
            }
        }
        @if !left_out.is_empty() {
            p.note { "Left out, as they only compare two builds: " (left_out.join(", ")) "." }
        }
    })
}

/// The row of a record in the overview.
fn glance(record: &Record, id: &str) -> Markup {
    let mut ratios: Vec<f64> = ratios(record).iter().map(|ratio| ratio.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let better = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let worse = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let median = match ratios.len() {
        0 => "–".to_owned(),
        n => factor((ratios[(n - 1) / 2] * ratios[n / 2]).sqrt()),
    };
    html! {
        tr {
            th scope="row" { a href={ "#" (id) } { (record.name) } }
            th scope="row" { (record.machine.split(',').next().unwrap_or_default()) }
            td { (record.date) }
            td { (thousands(record.rows.len() as u64)) }
            td { (ratios.len()) } td { (better) } td { (worse) } td { (median) }
        }
    }
}

/// All about a record.
fn section(record: &Record) -> Result<Markup, Error> {
    let source = source(record);
    let mut figures = Vec::new();
    let compared = ratios(record);
    if !compared.is_empty() {
        figures.push(ratio_figure(&compared, &source)?);
    }
    for picture in series::scaling(record) {
        let about = format!("{}: the medians at each N, in equal steps.", picture.points);
        figures.push(lines(&picture, &about, &source)?);
    }
    if let Some(picture) = series::latency(record) {
        let about =
            "The times of single operations: the median, percentiles, and the worst of all.";
        figures.push(lines(&picture, about, &source)?);
    }
    if let Some(picture) = memory(record) {
        let about = "Memory: less is better.";
        figures.push(bars(&picture, about, &source)?);
    }
    let mut cases = Vec::new();
    for case in record.cases() {
        cases.push(case_part(record, case, &source)?);
    }
    Ok(html! {
        p { (source) }
        @if !record.notes.is_empty() {
            details.notes {
                summary { "Notes of the run" }
                ul { @for note in &record.notes { li { (note) } } }
            }
        }
        @for figure in figures { (figure) }
        @if record.rows.is_empty() { p.note { "The record has no figures." } }
        @if !cases.is_empty() { h4 { "All figures by case" } }
        @for case in cases { (case) }
    })
}

fn ratio_figure(ratios: &[Ratio], source: &Markup) -> Result<Markup, Error> {
    let ours = in_order(ratios.iter().map(|ratio| &*ratio.ours.engine));
    let key = |ratio: &Ratio| (ratio.ours.case.clone(), title(ratio.ours));
    let rows = in_order(ratios.iter().map(key)).into_iter().map(|of| {
        let of_key: Vec<_> = ratios.iter().filter(|ratio| key(ratio) == of).collect();
        let peer = of_key[0].peer;
        let peer = format!("{} {}", peer.engine, short(peer.value));
        let mut row = vec![of.0, of.1, peer];
        row.extend(ours.iter().map(|engine| {
            let ratio = of_key.iter().find(|ratio| ratio.ours.engine == *engine);
            ratio.map_or_else(
                || "–".to_owned(),
                |ratio| format!("{} ({})", factor(ratio.ratio), short(ratio.ours.value)),
            )
        }));
        row
    });
    let mut head = ["Case", "Metric", "Best peer"].map(str::to_owned).to_vec();
    head.extend(ours.iter().map(|engine| (*engine).to_owned()));
    let table = Table {
        names: 3,
        head,
        rows: rows.collect(),
    };
    let mut about = "Each of our engines beside the best peer, in each metric of each case, on a \
                     logarithmic scale. Bars to the right are factors by which ours is better, bars \
                     to the left by which the peer is."
        .to_owned();
    let others = ours.len().saturating_sub(ENGINES);
    if others > 0 {
        about += &format!(" The table has {others} more of our engines.");
    }
    let svg = draw("Ours beside the best peer", ratios);
    figure(svg, &about, source, &table)
}

/// A picture with a bar for each engine.
fn engine_bars(heading: &str, engines: &[&str], panels: Vec<(String, Vec<&Row>)>) -> Bars {
    let sides = [("Sapwood", OURS, true), ("peers", PEER, false)];
    let sides: Vec<_> = sides
        .into_iter()
        .filter(|(.., ours)| engines.iter().any(|engine| is_ours(engine) == *ours))
        .collect();
    let panels = panels.into_iter().map(|(title, rows)| {
        let bars = engines.iter().map(|engine| {
            let row = rows.iter().find(|row| row.engine == *engine);
            let bar = |ours| row.filter(|row| is_ours(&row.engine) == ours);
            let bars = sides
                .iter()
                .map(|(.., ours)| bar(*ours).map(|row| row.value));
            bars.collect()
        });
        Panel {
            title,
            bars: bars.collect(),
            whole: false,
        }
    });
    Bars {
        title: heading.to_owned(),
        groups: engines.iter().map(|engine| (*engine).to_owned()).collect(),
        panels: panels.collect(),
        series: sides
            .iter()
            .map(|(name, colour, _)| ((*name).to_owned(), *colour))
            .collect(),
        one_each: true,
        across: 4,
        source: String::new(),
    }
}

/// The memory of all engines in all cases: a panel for each metric of each case.
fn memory(record: &Record) -> Option<Bars> {
    let rows: Vec<&Row> = record
        .rows
        .iter()
        .filter(|row| is_memory(&row.unit))
        .collect();
    let engines = in_order(rows.iter().map(|row| &*row.engine));
    let keys = in_order(
        rows.iter()
            .map(|row| (&*row.suite, &*row.case, &*row.metric)),
    );
    let panels = keys.into_iter().map(|key| {
        let of_key = |row: &&&Row| (&*row.suite, &*row.case, &*row.metric) == key;
        let of_key: Vec<&Row> = rows.iter().filter(of_key).copied().collect();
        (format!("{}: {}", key.1, title(of_key[0])), of_key)
    });
    let mut panels: Vec<(String, Vec<&Row>)> = panels.collect();
    let heading = match in_order(panels.iter().map(|(_, rows)| title(rows[0]))).as_slice() {
        [] => return None,
        [metric] => {
            // The heading names the only metric, so the panels name their cases only.
            panels
                .iter_mut()
                .for_each(|(name, rows)| *name = rows[0].case.clone());
            format!("Memory: {metric}")
        }
        _ => "Memory".to_owned(),
    };
    Some(engine_bars(&heading, &engines, panels))
}

/// All figures of a case: a picture, and a table with the spread of the rounds.
fn case_part(record: &Record, case: (&str, &str), source: &Markup) -> Result<Markup, Error> {
    let rows = record.rows_of(case);
    let engines = in_order(rows.iter().map(|row| &*row.engine));
    let metrics = in_order(rows.iter().map(|row| (&*row.metric, &*row.unit)));
    let of_metric = |metric: &(&str, &str)| -> Vec<&Row> {
        let rows = rows
            .iter()
            .filter(|row| (&*row.metric, &*row.unit) == *metric);
        rows.copied().collect()
    };
    let columns: Vec<_> = metrics.iter().map(of_metric).collect();
    let mut head = vec!["Engine".to_owned()];
    head.extend(columns.iter().map(|rows| title(rows[0])));
    let body = engines.iter().map(|engine| {
        let cells = columns.iter().map(|rows| {
            let cells = rows.iter().filter(|row| row.engine == *engine);
            let cells: Vec<_> = cells.map(|row| cell(row)).collect();
            match cells.is_empty() {
                true => "–".to_owned(),
                false => cells.join("; "),
            }
        });
        [(*engine).to_owned()].into_iter().chain(cells).collect()
    });
    let table = Table {
        names: 1,
        head,
        rows: body.collect(),
    };
    let panels = columns.into_iter().map(|rows| (title(rows[0]), rows));
    let picture = engine_bars(case.1, &engines, panels.collect());
    let note = record.notes.iter().find_map(|note| {
        let rest = note.strip_prefix(case.1)?;
        rest.strip_prefix(": ")
    });
    let about = "All metrics of the case. In the table, the median of the rounds, and the least and \
                 the greatest value.";
    let figure = figure(picture.draw(), about, source, &table)?;
    Ok(html! {
        details.case {
            summary { b { (case.1) } @if let Some(note) = note { " – " (note) } }
            (figure)
        }
    })
}

/// A value with its least and its greatest.
fn cell(row: &Row) -> String {
    let value = short(row.value);
    match row.rounds {
        0 | 1 => value,
        _ => format!("{value} ({}–{})", short(row.min), short(row.max)),
    }
}
