//! What tests find in the HTML of a page.

/// The parts of a text between two marks.
pub fn between<'t>(text: &'t str, from: &'t str, to: &'t str) -> impl Iterator<Item = &'t str> {
    let parts = text.split(from).skip(1);
    parts.map(move |part| part.split(to).next().unwrap())
}

/// The text of an element's contents.
pub fn plain(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<') {
        text += part.split_once('>').map_or(part, |(_, text)| text);
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// The rows of the tables of a part of a page, as texts of their cells.
pub fn rows(part: &str) -> Vec<Vec<String>> {
    let rows = between(part, "<tr>", "</tr>");
    let cells = rows.map(|row| {
        let cells = row.split("<t").skip(1);
        cells.map(|cell| plain(&format!("<t{cell}"))).collect()
    });
    cells.collect()
}

/// Nothing in a page is loaded, and nothing runs.
#[track_caller]
pub fn stands_alone(page: &str) {
    let page = page.to_lowercase();
    for part in [
        "<script",
        "http",
        "src=",
        "url(",
        "@import",
        "<link",
        "<img",
        "<iframe",
        "<object",
        "javascript:",
        " onload",
        "<foreignobject",
    ] {
        assert!(!page.contains(part), "the page has {part}");
    }
    for target in between(&page, "href=\"", "\"") {
        let anchor = target.strip_prefix('#').expect("links stay in the page");
        assert!(page.contains(&format!("id=\"{anchor}\"")), "{target}");
    }
}
