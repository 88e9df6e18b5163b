//! The parts of a page about saved maps.

use maud::{Markup, html};
use sapwood_records::bars::{Bars, Panel};
use sapwood_records::draw::OURS;
use sapwood_records::numbers::{short, thousands};

use super::figures::bars;
use super::page::{Chapter, Section};
use super::shape::Shape;
use crate::errors::Error;

/// The most rows of a distribution; the rest are one row.
const ROWS: usize = 40;

/// The chapter about saved maps.
pub fn chapter(shapes: &[Shape]) -> Result<Chapter, Error> {
    let mut sections = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        sections.push(Section {
            id: format!("map-{}", i + 1),
            title: shape.path.to_string_lossy().into_owned(),
            text: section(shape)?,
        });
    }
    Ok(Chapter {
        id: "maps".to_owned(),
        title: "Saved maps".to_owned(),
        sections,
    })
}

fn section(shape: &Shape) -> Result<Markup, Error> {
    let source = html! {
        span.source {
            "File " b { (shape.path.to_string_lossy()) } " · " (shape.kind) " · "
            (thousands(shape.entries as u64)) " " (shape.unit)
        }
    };
    let mut figures = Vec::new();
    if let Some(parts) = shape.bytes() {
        let kinds = by_kind("Bytes of the file by kind", shape, &parts);
        let about = "The file by kind of block. The header, the checksums and the padding to whole \
                     pages are the rest.";
        figures.push(bars(&kinds, about, &source)?);
    }
    if let Some(trie) = &shape.trie {
        let depths = named(&trie.depths, "no branch", "branches");
        if let Some(picture) = counts("Depths of the leaves", "leaves", &depths) {
            let about = "How many branches are above a leaf.";
            figures.push(bars(&picture, about, &source)?);
        }
        let fills = named(&trie.fills, "no leaf", "leaves");
        if let Some(picture) = counts("Fill of the clusters", "clusters", &fills) {
            let about = "How many leaves are in a cluster.";
            figures.push(bars(&picture, about, &source)?);
        }
    }
    for of in &shape.counts {
        if let Some(picture) = counts(of.title, "number", &of.counts) {
            figures.push(bars(&picture, of.title, &source)?);
        }
    }
    if let Some(parts) = shape.memory_bytes() {
        let picture = by_kind("Bytes of the map in memory by kind", shape, &parts);
        let about = "The map that the program makes of the file in memory.";
        figures.push(bars(&picture, about, &source)?);
    }
    Ok(html! {
        p { (source) }
        dl {
            div { dt { "Entries" } dd { (thousands(shape.entries as u64)) } }
            div { dt { "File" } dd { (thousands(shape.file_bytes as u64)) " bytes" } }
            div { dt { "Bytes an entry" } dd { (short(shape.each(shape.file_bytes))) } }
            @if let Some(trie) = &shape.trie {
                div { dt { "Depth" } dd { (format!("{:.1}", trie.depth_mean)) " branches, at most " (trie.depth_max) } }
                div { dt { "Branches" } dd { (thousands(trie.branches.0 as u64)) } }
                div { dt { "Clusters" } dd { (thousands(trie.clusters.0 as u64)) ", " (format!("{:.1}", trie.fill_mean)) " leaves each" } }
            }
            @if let Some(memory) = &shape.memory {
                div { dt { "Height in memory" } dd { (memory.height) } }
                div { dt { "Nodes in memory" } dd { (memory.leaves.0) " leaves, " (memory.inner.0) " above" } }
            }
        }
        @for figure in figures { (figure) }
    })
}

/// Bars of one colour.
fn plain(title: &str, groups: Vec<String>, panels: Vec<(String, bool, Vec<f64>)>) -> Bars {
    let panels = panels.into_iter().map(|(title, whole, values)| Panel {
        title,
        bars: values.into_iter().map(|value| vec![Some(value)]).collect(),
        whole,
    });
    Bars {
        title: title.to_owned(),
        groups,
        series: vec![(String::new(), OURS)],
        one_each: true,
        panels: panels.collect(),
        across: 2,
        source: String::new(),
    }
}

fn by_kind(title: &str, shape: &Shape, parts: &[(&str, usize)]) -> Bars {
    let groups = parts.iter().map(|(name, _)| (*name).to_owned()).collect();
    let bytes = parts.iter().map(|(_, bytes)| *bytes as f64).collect();
    let each = parts.iter().map(|(_, bytes)| shape.each(*bytes)).collect();
    let one = shape.unit.trim_end_matches('s');
    let panels = vec![
        ("bytes".to_owned(), true, bytes),
        (format!("bytes for each {one}"), false, each),
    ];
    plain(title, groups, panels)
}

/// A distribution: the number and the share of each size.
fn counts(title: &str, what: &str, counts: &[(String, u64)]) -> Option<Bars> {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return None;
    }
    let groups = counts.iter().map(|(name, _)| name.clone()).collect();
    let numbers = counts.iter().map(|(_, count)| *count as f64).collect();
    let share = |count: u64| count as f64 * 100.0 / all as f64;
    let shares = counts.iter().map(|(_, count)| share(*count)).collect();
    let panels = vec![
        (what.to_owned(), true, numbers),
        ("%".to_owned(), false, shares),
    ];
    Some(plain(title, groups, panels))
}

/// The counts of a distribution by number, without zeros at both ends.
fn named(counts: &[usize], none: &str, many: &str) -> Vec<(String, u64)> {
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let name = |number: usize| match number {
        0 => none.to_owned(),
        1 => none.replace("no ", "1 "),
        _ => format!("{number} {many}"),
    };
    let named = counts.iter().enumerate().skip(first);
    let mut named: Vec<_> = named.map(|(i, count)| (name(i), *count as u64)).collect();
    if named.len() > ROWS {
        let rest = named.split_off(ROWS - 1);
        let sum = rest.iter().map(|(_, count)| count).sum();
        named.push((format!("{} or more", rest[0].0), sum));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_begin_at_the_first_and_end_in_one_row_for_the_rest() {
        let counts = [0, 0, 3, 0, 1];
        let expected = [("2 leaves", 3), ("3 leaves", 0), ("4 leaves", 1)];
        let found = named(&counts, "no leaf", "leaves");
        assert!(found.iter().map(|(name, n)| (&**name, *n)).eq(expected));
        let many = named(&[1; 100], "no branch", "branches");
        assert_eq!(many.len(), ROWS);
        assert_eq!(
            (&many[0], &many[1]),
            (&("no branch".into(), 1), &("1 branch".into(), 1))
        );
        assert_eq!(many[ROWS - 1], ("39 branches or more".into(), 61));
        assert!(super::counts("t", "leaves", &[]).is_none());
    }
}
