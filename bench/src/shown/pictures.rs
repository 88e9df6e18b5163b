//! Pictures of records: bars in panels, as SVG.
//!
//! A picture has its own white background, so that it is readable on light and on dark pages. The
//! viewer's fonts show the text; no font of this machine determines its size.

use std::fs;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::pages::PROCESSORS;
use super::{Record, short};

/// The rows that a record must have for a complete picture: suite, case, engine, metric.
const WHOLE: [[[&str; 4]; 2]; 2] = [
    [
        ["names", "kallsyms", "sapwood-index", "scan_mkeys"],
        ["names", "domains-1m", "hashbrown-foldhash", "hit_mops"],
    ],
    [
        ["versions", "rw-1w4r", "sapwood", "reader_mops"],
        ["versions", "readers-1", "rwlock-btreemap", "reader_mops"],
    ],
];

/// The records for the pictures of the documents: the newest of each suite, on the first processor
/// that has one.
pub fn shown(records: &[Record]) -> Vec<&Record> {
    let newest = |rows: &[[&str; 4]; 2]| {
        PROCESSORS.iter().find_map(|processor| {
            let mut records = records.iter();
            records.find(|record| {
                let has = |[suite, case, engine, metric]: &[&str; 4]| {
                    record.value(suite, case, engine, metric).is_some()
                };
                record.machine.contains(processor) && rows.iter().all(has)
            })
        })
    };
    WHOLE.iter().filter_map(newest).collect()
}

type Problem = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture: a row of panels, each with the same groups of bars.
struct Picture {
    title: &'static str,
    groups: Vec<String>,
    series: Vec<(&'static str, RGBColor)>,
    panels: Vec<Panel>,
    source: String,
}

/// One panel.
struct Panel {
    title: &'static str,
    /// For each group, the value of each series that has one.
    bars: Vec<Vec<Option<f64>>>,
}

const INK: RGBColor = RGBColor(0x24, 0x29, 0x2F);
const FAINT: RGBColor = RGBColor(0x57, 0x60, 0x6A);
const RULE: RGBColor = RGBColor(0xD0, 0xD7, 0xDE);
const OURS: RGBColor = RGBColor(0x1A, 0x7F, 0x37);
const OURS_TOO: RGBColor = RGBColor(0x7C, 0xC2, 0x8C);
const PEER: RGBColor = RGBColor(0x54, 0x7D, 0xB0);
const OTHER: RGBColor = RGBColor(0xD3, 0x8B, 0x34);

const WIDTH: i32 = 880;
/// The left edge of the panels; the names of the groups are left of it.
const LEFT: i32 = 138;
const TOP: i32 = 78;
const BAR: i32 = 11;
const BETWEEN: i32 = 9;
const FOOT: i32 = 30;
/// The width of a bar's number, to its right.
const NUMBER: i32 = 38;

/// Makes the picture of a record; returns the name of its file and its contents.
pub fn picture(record: &Record) -> Result<(&'static str, String), Problem> {
    let (file, picture) = match record.suite() {
        "names" => ("names.svg", names(record)),
        "versions" => ("readers.svg", readers(record)),
        other => {
            return Err(format!(
                "{}: there is no picture of the suite {other:?}",
                record.name
            )
            .into());
        }
    };
    if picture.groups.is_empty() {
        return Err(format!("{}: has no row that the picture shows", record.name).into());
    }
    Ok((file, draw(&picture)?))
}

/// Makes the pictures of some records in a folder; reports the files written.
pub fn write<'r>(
    records: impl IntoIterator<Item = &'r Record>,
    folder: &Path,
) -> Result<Vec<PathBuf>, Problem> {
    fs::create_dir_all(folder)?;
    let mut written = Vec::new();
    for record in records {
        let (name, svg) = picture(record)?;
        let file = folder.join(name);
        fs::write(&file, svg)?;
        written.push(file);
    }
    Ok(written)
}

/// Operations in key order and point lookups, beside a tree and a hash map.
fn names(record: &Record) -> Picture {
    let sets = [
        ("kallsyms", "kernel symbols, 121k"),
        ("btf", "BTF strings, 125k"),
        ("paths", "file paths, 100k"),
        ("domains-real", "domain names, 20k"),
        ("domains-1m", "domain names, 1M"),
    ];
    let engines = [
        ("sapwood", "QpMap", OURS),
        ("sapwood-index", "QpMap with index", OURS_TOO),
        ("std-btreemap", "BTreeMap", PEER),
        ("hashbrown-foldhash", "hashbrown", OTHER),
    ];
    let metrics = [
        ("scan_mkeys", "scan, million keys/s"),
        ("range10_mops", "search and ten entries, M/s"),
        ("hit_mops", "lookup of a key, M/s"),
        ("bytes_per_key", "bytes a key beyond the key"),
    ];
    let sets = sets.into_iter();
    let sets: Vec<_> = sets
        .filter(|(case, _)| record.has_case("names", case))
        .collect();
    let bars = |metric: &str| {
        let of_set = |case: &str| {
            let engines = engines.iter();
            engines
                .map(|(engine, ..)| record.value("names", case, engine, metric))
                .collect()
        };
        sets.iter().map(|(case, _)| of_set(case)).collect()
    };
    Picture {
        title: "Ordered work, lookups and memory: one thread, live maps after random insertion",
        panels: metrics
            .map(|(metric, title)| Panel {
                title,
                bars: bars(metric),
            })
            .into(),
        groups: sets.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: engines.map(|(_, name, colour)| (name, colour)).into(),
        source: source(record),
    }
}

/// Readers alone, and beside a writer that is never idle.
fn readers(record: &Record) -> Picture {
    let engines = [
        ("sapwood", "QpStore"),
        ("urcu-qp", "same trie, liburcu"),
        ("arcswap-qp", "same trie, arc-swap"),
        ("rwlock-qp", "same trie, RwLock"),
        ("rwlock-btreemap", "RwLock, BTreeMap"),
        ("arcswap-imbl", "arc-swap, imbl"),
        ("left-right", "left-right, BTreeMap"),
        ("crossbeam-skipmap", "crossbeam SkipMap"),
    ];
    let value =
        |case: &str, engine: &str, metric: &str| record.value("versions", case, engine, metric);
    let engines = engines.into_iter();
    let engines: Vec<_> = engines
        .filter(|(engine, _)| value("rw-1w1r", engine, "reader_mops").is_some())
        .collect();
    let panel = |title, metric: &str, cases: [Option<&str>; 3]| Panel {
        title,
        bars: engines
            .iter()
            .map(|(engine, _)| {
                let cases = cases.iter();
                cases
                    .map(|case| case.and_then(|case| value(case, engine, metric)))
                    .collect()
            })
            .collect(),
    };
    let beside = [None, Some("rw-1w1r"), Some("rw-1w4r")];
    Picture {
        title: "Readers beside a writer that is never idle: a map of kernel symbols, two cores",
        panels: vec![
            panel(
                "lookups, M/s of a reader's time",
                "reader_mops",
                [Some("readers-1"), Some("rw-1w1r"), Some("rw-1w4r")],
            ),
            panel("changes, M/s of the writer's time", "writer_mops", beside),
            panel(
                "lookups of all readers, M/s on the clock",
                "reader_wall_mops",
                [Some("readers-1"), Some("rw-1w1r"), Some("rw-1w4r")],
            ),
        ],
        groups: engines.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: vec![
            ("one reader alone", OURS),
            ("one reader beside the writer", OURS_TOO),
            ("four readers beside the writer", PEER),
        ],
        source: source(record),
    }
}

fn source(record: &Record) -> String {
    format!("bench/record/{}: {}", record.name, record.machine)
}

fn draw(picture: &Picture) -> Result<String, Problem> {
    let group = picture.series.len() as i32 * BAR;
    let groups = picture.groups.len() as i32;
    let bottom = TOP + groups * (group + BETWEEN);
    let mut svg = String::new();
    {
        let size = (WIDTH as u32, (bottom + FOOT) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        text(&area, picture.title, (12, 20), 15, INK, HPos::Left)?;
        legend(&area, picture)?;
        for (i, name) in picture.groups.iter().enumerate() {
            let middle = TOP + i as i32 * (group + BETWEEN) + group / 2;
            text(&area, name, (LEFT - 8, middle), 12, INK, HPos::Right)?;
        }
        let width = (WIDTH - LEFT - 8) / picture.panels.len() as i32;
        for (i, panel) in picture.panels.iter().enumerate() {
            draw_panel(&area, picture, panel, LEFT + i as i32 * width, width)?;
        }
        let foot = bottom + FOOT / 2 + 2;
        text(&area, &picture.source, (12, foot), 11, FAINT, HPos::Left)?;
        area.present()?;
    }
    Ok(svg)
}

fn legend(area: &Area, picture: &Picture) -> Result<(), Problem> {
    let mut x = 12;
    for (name, colour) in &picture.series {
        area.draw(&Rectangle::new([(x, 34), (x + 11, 45)], colour.filled()))?;
        text(area, name, (x + 16, 40), 12, INK, HPos::Left)?;
        // The approximate width of the name in any sans-serif font.
        x += 40 + name.len() as i32 * 7;
    }
    Ok(())
}

fn draw_panel(
    area: &Area,
    picture: &Picture,
    panel: &Panel,
    left: i32,
    width: i32,
) -> Result<(), Problem> {
    let group = picture.series.len() as i32 * BAR;
    let bottom = TOP + picture.groups.len() as i32 * (group + BETWEEN) - BETWEEN;
    text(area, panel.title, (left, TOP - 14), 12, FAINT, HPos::Left)?;
    area.draw(&PathElement::new(
        vec![(left, TOP - 4), (left, bottom + 4)],
        RULE,
    ))?;
    let most = panel.bars.iter().flatten().flatten();
    let most = most.fold(f64::MIN_POSITIVE, |most, value| value.max(most));
    let length = f64::from(width - NUMBER - 8);
    for (i, bars) in panel.bars.iter().enumerate() {
        for (j, value) in bars.iter().enumerate() {
            let Some(value) = value else { continue };
            let top = TOP + i as i32 * (group + BETWEEN) + j as i32 * BAR;
            let right = left + (value / most * length).round().max(1.0) as i32;
            let colour = picture.series[j].1;
            area.draw(&Rectangle::new(
                [(left, top), (right, top + BAR - 2)],
                colour.filled(),
            ))?;
            let middle = (right + 4, top + BAR / 2);
            text(area, &short(*value), middle, 10, INK, HPos::Left)?;
        }
    }
    Ok(())
}

fn text(
    area: &Area,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: RGBColor,
    side: HPos,
) -> Result<(), Problem> {
    // Without a font's measures, the height is assumed to be 1.24 of the size.
    let height = f64::from(size) * 1.24;
    let style = TextStyle::from(("sans-serif", height).into_font())
        .pos(Pos::new(side, VPos::Center))
        .color(&colour);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{read_records, records, root};
    use super::*;

    #[test]
    fn the_committed_pictures_are_what_the_command_makes() {
        let records = read_records(&records()).unwrap();
        let shown = shown(&records);
        assert_eq!(shown.len(), 2);
        for record in shown {
            let (file, svg) = picture(record).unwrap();
            let committed = root().join("docs/pictures").join(file);
            let committed = fs::read_to_string(committed).unwrap();
            assert!(
                svg == committed,
                "docs/pictures/{file} is not that of {}: run `cargo run --release -p \
                 sapwood-bench -- plot`",
                record.name
            );
        }
    }

    #[test]
    fn a_picture_has_its_own_ground_and_names_its_record() {
        let records = read_records(&records()).unwrap();
        let record = shown(&records)[0];
        let (file, svg) = picture(record).unwrap();
        assert_eq!(file, "names.svg");
        assert_eq!(svg, picture(record).unwrap().1);
        // Lines drawn before any other shape: a white rectangle as large as the picture.
        let ground = svg.lines().find(|line| line.contains("<rect")).unwrap();
        assert!(ground.contains("fill=\"#FFFFFF\"") && ground.contains("width=\"880\""));
        assert!(svg.contains(&record.name) && svg.contains("hashbrown"));
        // The record must contain the domain names, where a walk in order loses.
        let loses = record
            .value("names", "domains-real", "sapwood", "scan_mkeys")
            .unwrap();
        assert!(svg.contains(&short(loses)));
    }

    #[test]
    fn what_has_no_picture_says_so() {
        let text = "# date: 2026-01-31\nroutes,c,e,m,1,u,1,1,1\n";
        let record = Record::parse("r.csv", text).unwrap();
        let why = picture(&record).unwrap_err().to_string();
        assert_eq!(why, "r.csv: there is no picture of the suite \"routes\"");
        let record = Record::parse("r.csv", &text.replace("routes", "names")).unwrap();
        let why = picture(&record).unwrap_err().to_string();
        assert_eq!(why, "r.csv: has no row that the picture shows");
    }
}
