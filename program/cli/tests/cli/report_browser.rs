//! The page of `sapwood report` in a browser.

use crate::browser::{browse, chromium, has_all, of, picture};
use crate::common::Scratch;

#[test]
fn the_browser_finds_all_parts_and_draws_the_bars() {
    let Some(chromium) = chromium() else { return };
    let s = Scratch::new();
    s.build("words.qp", "ash\nbeech\nelm\n");
    s.run(&["report", "--map", "words.qp", "-o", "page.html"])
        .code(0);
    let dom = browse(&chromium, &s, "page.html", &["--dump-dom"]);
    let page = std::fs::read_to_string(s.path("page.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 3);
    let tags = [
        "<figure>",
        "<table",
        "<figcaption>",
        "<tr>",
        "<th ",
        "<td>",
        "<td class=\"bar\"><div ",
        "<section",
        "<li>",
    ];
    has_all(&dom, &page, &tags, 2);

    let (size, light) = picture(&chromium, &s, "page.html", false);
    assert_eq!((size, light.len()), ((1000, 3000), 3_000_000));
    // The bars, on white.
    assert!(of(&light, 0x1a7f37) > 1000, "{}", of(&light, 0x1a7f37));
    assert!(of(&light, 0xffffff) > 1_500_000);
    // The same on a dark page, in the colours for it.
    let (_, dark) = picture(&chromium, &s, "page.html", true);
    assert!(of(&dark, 0x3fb950) > 1000, "{}", of(&dark, 0x3fb950));
    assert!(of(&dark, 0x0d1117) > 1_500_000 && of(&dark, 0xffffff) == 0);
}
