//! The frame of a page: its head, its style, its contents list.

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sapwood_records::draw::THEME;

use super::{Inputs, maps, records};
use crate::errors::Error;

/// A chapter: sections under a heading.
pub struct Chapter {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Its sections.
    pub sections: Vec<Section>,
}

/// A section with a heading.
pub struct Section {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is below the heading.
    pub text: Markup,
}

/// The whole page.
pub fn page(inputs: &Inputs) -> Result<String, Error> {
    let mut chapters = records::chapters(&inputs.records)?;
    if !inputs.shapes.is_empty() {
        chapters.push(maps::chapter(&inputs.shapes)?);
    }
    let overview = match inputs.records.is_empty() {
        true => None,
        false => Some(records::overview(&inputs.records, &inputs.left_out)?),
    };
    let version = env!("CARGO_PKG_VERSION");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Sapwood report" }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { "Sapwood report" }
                    p.lead { (summary(inputs)) " Made by sapwood " (version) "." }
                }
                (contents(&chapters, overview.is_some()))
                main {
                    @if let Some(overview) = overview {
                        section #overview { h2 { "Overview" } (overview) }
                    }
                    @for chapter in chapters {
                        section id=(chapter.id) {
                            h2 { (chapter.title) }
                            @for section in chapter.sections {
                                section id=(section.id) {
                                    h3 { (section.title) " " a.up href="#top" title="to the contents" { "↑" } }
                                    (section.text)
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// What the page is about, in a sentence.
fn summary(inputs: &Inputs) -> String {
    let count = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        n => Some(format!("{n} {many}")),
    };
    let parts = [
        count(
            inputs.records.len(),
            "one record of benchmarks",
            "records of benchmarks",
        ),
        count(inputs.shapes.len(), "one saved map", "saved maps"),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let text = parts.join(" and ");
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", chars.as_str())
}

fn contents(chapters: &[Chapter], overview: bool) -> Markup {
    html! {
        nav #top aria-label="Contents" {
            h2 { "Contents" }
            ul {
                @if overview { li { a href="#overview" { "Overview" } } }
                @for chapter in chapters {
                    li {
                        a href={ "#" (chapter.id) } { (chapter.title) }
                        ul { @for section in &chapter.sections {
                            li { a href={ "#" (section.id) } { (section.title) } }
                        } }
                    }
                }
            }
        }
    }
}

/// The style of the page, and the colours of pictures on dark pages.
fn style() -> String {
    let mut style = STYLE.to_owned();
    style += "@media (prefers-color-scheme: dark) {\n";
    for (light, dark) in THEME {
        // A picture has its colours as attributes, which any rule overrides.
        let _ = writeln!(
            style,
            "svg [fill=\"{light}\"] {{ fill: {dark} }} svg [stroke=\"{light}\"] {{ stroke: {dark} }}"
        );
    }
    style + "}\n"
}

const STYLE: &str = include_str!("page.css");
