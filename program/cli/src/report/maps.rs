//! The page about saved maps.

use maud::{Markup, html};

use super::page::{Chapter, Page, Section};
use super::shape::Shape;
use crate::numbers::{short, thousands};

/// The most rows of a distribution; the rest are one row.
const ROWS: usize = 40;

/// The page about saved maps.
pub fn page(shapes: &[Shape]) -> String {
    let sections = shapes.iter().zip(1..).map(|(shape, number)| Section {
        id: format!("map-{number}"),
        title: shape.path.to_string_lossy().into_owned(),
        text: section(shape),
    });
    let maps = Chapter {
        id: "maps".to_owned(),
        title: "Saved maps".to_owned(),
        sections: sections.collect(),
    };
    Page {
        about: match shapes.len() {
            1 => "One saved map.".to_owned(),
            count => format!("{count} saved maps."),
        },
        overview: None,
        chapters: vec![maps],
        style: String::new(),
    }
    .html()
}

fn section(shape: &Shape) -> Markup {
    html! {
        p {
            span.source {
                "File " b { (shape.path.to_string_lossy()) } " · " (shape.kind) " · "
                (thousands(shape.entries as u64)) " " (shape.unit)
            }
        }
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
        @if let Some(parts) = shape.bytes() {
            (by_kind("The bytes of the file by kind of block. The header, the checksums and the padding \
                      to whole pages are the rest.", shape, &parts))
        }
        @if let Some(trie) = &shape.trie {
            (counts("How many branches are above a leaf.", "leaves", &named(&trie.depths, "no branch", "branches")))
            (counts("How many leaves are in a cluster.", "clusters", &named(&trie.fills, "no leaf", "leaves")))
        }
        @for of in &shape.counts { (counts(of.title, "number", &of.counts)) }
        @if let Some(parts) = shape.memory_bytes() {
            (by_kind("The bytes of the map that the program makes of the file in memory, by kind.", shape, &parts))
        }
    }
}

/// A table of names, numbers, the same numbers in another unit, and bars, which are as long as the
/// numbers are large.
fn bars(about: &str, head: [&str; 2], rows: &[(String, u64, f64)]) -> Markup {
    let most = rows.iter().map(|(_, number, _)| *number).max().unwrap_or(0);
    let width = |number: u64| format!("width:{:.1}%", number as f64 * 100.0 / most.max(1) as f64);
    html! {
        figure {
            figcaption { (about) }
            div.table {
                table {
                    thead { tr { th.name {} @for name in head { th scope="col" { (name) } } th {} } }
                    tbody { @for (name, number, other) in rows {
                        tr {
                            th scope="row" { (name) }
                            td { (thousands(*number)) }
                            td { (short(*other)) }
                            td.bar { div style=(width(*number)) {} }
                        }
                    } }
                }
            }
        }
    }
}

fn by_kind(about: &str, shape: &Shape, parts: &[(&str, usize)]) -> Markup {
    let rows = parts
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), *bytes as u64, shape.each(*bytes)));
    let each = format!("bytes for each {}", shape.unit.trim_end_matches('s'));
    bars(about, ["bytes", &each], &rows.collect::<Vec<_>>())
}

/// A distribution: the number and the share of each size. Nothing, if nothing was counted.
fn counts(about: &str, what: &str, counts: &[(String, u64)]) -> Markup {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let share = |count: u64| count as f64 * 100.0 / all as f64;
    let rows = counts
        .iter()
        .map(|(name, count)| (name.clone(), *count, share(*count)));
    html! { @if all > 0 { (bars(about, [what, "%"], &rows.collect::<Vec<_>>())) } }
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
        let sizes = [0, 0, 3, 0, 1];
        let expected = [("2 leaves", 3), ("3 leaves", 0), ("4 leaves", 1)];
        let found = named(&sizes, "no leaf", "leaves");
        assert!(found.iter().map(|(name, n)| (&**name, *n)).eq(expected));
        let many = named(&[1; 100], "no branch", "branches");
        assert_eq!(many.len(), ROWS);
        assert_eq!(
            (&many[0], &many[1]),
            (&("no branch".into(), 1), &("1 branch".into(), 1))
        );
        assert_eq!(many[ROWS - 1], ("39 branches or more".into(), 61));
        assert_eq!(counts("t", "leaves", &[]).into_string(), "");
    }
}
