//! A browser for tests of pages: what it makes of them, and how they look. Without Chromium these
//! tests do nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Scratch;

/// The time that the browser has.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser, if there is one.
pub fn chromium() -> Option<PathBuf> {
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
pub fn browse(chromium: &Path, s: &Scratch, page: &str, args: &[&str]) -> String {
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
pub fn picture(chromium: &Path, s: &Scratch, page: &str, dark: bool) -> ((u32, u32), Vec<[u8; 3]>) {
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
pub fn of(pixels: &[[u8; 3]], colour: u32) -> usize {
    let [_, rgb @ ..] = colour.to_be_bytes();
    pixels.iter().filter(|pixel| **pixel == rgb).count()
}

/// Expects as many of these tags in the browser's tree as in the page, and at least `least`.
///
/// The browser closes what a page leaves open and moves what may not be where it is. So equal
/// counts say that the page is well formed.
#[track_caller]
pub fn has_all(dom: &str, page: &str, tags: &[&str], least: usize) {
    for tag in tags {
        let count = page.matches(tag).count();
        assert!(count >= least, "{tag}: {count}");
        assert_eq!(dom.matches(tag).count(), count, "{tag}");
    }
}
