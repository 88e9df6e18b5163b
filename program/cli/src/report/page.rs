//! The frame of a page without scripts that needs no network: its head, its style, its contents
//! list.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page: chapters below an introduction.
pub struct Page {
    /// What the page is about, in a sentence.
    pub about: String,
    /// What stands before the chapters, if anything.
    pub overview: Option<Markup>,
    /// The chapters.
    pub chapters: Vec<Chapter>,
    /// Rules of style for this page alone.
    pub style: String,
}

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

impl Page {
    /// The page as HTML.
    pub fn html(self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "Sapwood report" }
                    style { (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                }
                body {
                    header {
                        h1 { "Sapwood report" }
                        p.lead { (self.about) " Made by sapwood " (version) "." }
                    }
                    (contents(&self.chapters, self.overview.is_some()))
                    main {
                        @if let Some(overview) = self.overview {
                            section #overview { h2 { "Overview" } (overview) }
                        }
                        @for chapter in self.chapters {
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
        page.into_string()
    }
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

const STYLE: &str = include_str!("page.css");
