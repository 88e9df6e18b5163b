//! The page of `sapwood report` in a browser: what the browser makes of it, and how it looks.
//! Without Chromium these tests do nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Scratch;
use crate::report::{RECORD, recorded};

/// The time that the browser has.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser, if there is one.
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: Chromium is not installed (Debian's package chromium)");
    }
    found
}

/// Runs the browser on a page; returns its output.
fn browse(chromium: &Path, s: &Scratch, page: &str, args: &[&str]) -> String {
    let out = s.path("browser.out");
    let profile = tempfile::tempdir().unwrap();
    let mut child = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(args)
        .arg(format!("file://{}", s.path(page).display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the browser did not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
    std::fs::read_to_string(out).unwrap()
}

/// A picture of the page: its size, and its pixels.
fn picture(chromium: &Path, s: &Scratch, page: &str, dark: bool) -> ((u32, u32), Vec<[u8; 3]>) {
    let file = s.path("page.png");
    let shot = format!("--screenshot={}", file.display());
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    browse(
        chromium,
        s,
        page,
        &[&shot, &scheme, "--window-size=1000,3000"],
    );
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    let each = frame.color_type.samples();
    assert!(
        each >= 3 && frame.bit_depth == png::BitDepth::Eight,
        "{frame:?}"
    );
    let pixels = pixels[..frame.buffer_size()].chunks_exact(each);
    let pixels = pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    ((frame.width, frame.height), pixels)
}

/// How many pixels have a colour.
fn of(pixels: &[[u8; 3]], colour: u32) -> usize {
    let [_, rgb @ ..] = colour.to_be_bytes();
    pixels.iter().filter(|pixel| **pixel == rgb).count()
}

#[test]
fn the_browser_finds_all_parts_and_draws_the_bars() {
    let Some(chromium) = chromium() else { return };
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    s.build("words.qp", "ash\nbeech\nelm\n");
    let args = [
        "report",
        "--records",
        "r.csv",
        "--map",
        "words.qp",
        "-o",
        "page.html",
    ];
    s.run(&args).code(0);
    let dom = browse(&chromium, &s, "page.html", &["--dump-dom"]);
    // Seven figures of the record, three of the map. The browser closes what a page leaves open and
    // moves what may not be where it is, so equal counts say that the page is well formed.
    let page = std::fs::read_to_string(s.path("page.html")).unwrap();
    for (tag, count) in [
        ("<figure>", 10),
        ("<svg ", 10),
        ("<table", 11),
        ("<figcaption>", 10),
    ] {
        assert_eq!(dom.matches(tag).count(), count, "{tag}");
        assert_eq!(page.matches(tag).count(), count, "{tag}");
    }
    for tag in [
        "<rect",
        "<polyline",
        "<circle",
        "<text ",
        "<tr>",
        "<th ",
        "<td>",
        "<section",
        "<li>",
    ] {
        assert_eq!(dom.matches(tag).count(), page.matches(tag).count(), "{tag}");
    }
    assert!(!dom.contains("<script") && !dom.contains("<b>set"));
    assert!(dom.contains("&lt;b&gt;set") && dom.contains("&lt;script&gt;alert(1)"));

    let (size, light) = picture(&chromium, &s, "page.html", false);
    assert_eq!((size, light.len()), ((1000, 3000), 3_000_000));
    // The bars of two of ours and of a peer, on white.
    for colour in [0x1a7f37, 0x547db0, 0x7cc28c] {
        assert!(
            of(&light, colour) > 200,
            "{colour:06x}: {}",
            of(&light, colour)
        );
    }
    assert!(of(&light, 0xffffff) > 1_500_000);
    // The same on a dark page, in the colours for it.
    let (_, dark) = picture(&chromium, &s, "page.html", true);
    for colour in [0x3fb950, 0x6ca4e8, 0x2f7d45] {
        assert!(
            of(&dark, colour) > 200,
            "{colour:06x}: {}",
            of(&dark, colour)
        );
    }
    assert!(of(&dark, 0x0d1117) > 1_500_000 && of(&dark, 0xffffff) == 0);
}

#[test]
fn the_browser_reads_the_page_of_all_records() {
    let Some(chromium) = chromium() else { return };
    let s = Scratch::new();
    let folder = recorded();
    let ran = s.run(&[
        "report",
        "--records",
        folder.to_str().unwrap(),
        "-o",
        "page.html",
    ]);
    ran.code(0);
    let dom = browse(&chromium, &s, "page.html", &["--dump-dom"]);
    let page = std::fs::read_to_string(s.path("page.html")).unwrap();
    for tag in [
        "<figure>",
        "<svg ",
        "<table",
        "<rect",
        "<polyline",
        "<text ",
        "<tr>",
        "<td>",
    ] {
        let count = page.matches(tag).count();
        assert!(count > 40, "{tag}");
        assert_eq!(dom.matches(tag).count(), count, "{tag}");
    }
}
