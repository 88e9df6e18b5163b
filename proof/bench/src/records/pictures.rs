//! The pictures of the documents: names, and readers beside a writer.

use std::fs;
use std::path::{Path, PathBuf};

use crate::records::PROCESSORS;
use crate::records::bars::{Bars, Panel};
use crate::records::draw::{OTHER, OURS, OURS_TOO, PEER, Problem};
use crate::records::record::Record;

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
/// that has one, otherwise on any.
pub fn shown(records: &[Record]) -> Vec<&Record> {
    let newest = |rows: &[[&str; 4]; 2]| {
        // The empty name fits all processors.
        let processors = PROCESSORS.into_iter().chain([""]);
        processors.into_iter().find_map(|processor| {
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

/// The picture of a record, with the name of its file.
///
/// # Errors
///
/// There is no picture of the record's suite, or the record has no row that it shows.
pub fn bars(record: &Record) -> Result<(&'static str, Bars), Problem> {
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
    Ok((file, picture))
}

/// Makes the picture of a record; returns the name of its file and its contents.
///
/// # Errors
///
/// As [`bars`].
pub fn picture(record: &Record) -> Result<(&'static str, String), Problem> {
    let (file, picture) = bars(record)?;
    Ok((file, picture.draw()?))
}

/// Makes the pictures of some records in a folder; reports the files written.
///
/// # Errors
///
/// As [`bars`], or a file cannot be written.
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
fn names(record: &Record) -> Bars {
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
    Bars {
        title: "Ordered work, lookups and memory: one thread, live maps after random insertion"
            .into(),
        one_each: false,
        across: 4,
        panels: metrics
            .map(|(metric, title)| Panel {
                title: title.to_owned(),
                bars: bars(metric),
                whole: false,
            })
            .into(),
        groups: sets.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: engines
            .map(|(_, name, colour)| (name.to_owned(), colour))
            .into(),
        source: source(record),
    }
}

/// Readers alone, and beside a writer that is never idle.
fn readers(record: &Record) -> Bars {
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
    let panel = |title: &str, metric: &str, cases: [Option<&str>; 3]| Panel {
        title: title.to_owned(),
        whole: false,
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
    Bars {
        title: "Readers beside a writer that is never idle: a map of kernel symbols, two cores"
            .into(),
        one_each: false,
        across: 3,
        panels: vec![
            panel(
                "lookups, M/s of a reader's time",
                "reader_mops",
                [Some("readers-1"), Some("rw-1w1r"), Some("rw-1w4r")],
            ),
            panel("changes, M/s of the writer's time", "writer_mops", beside),
            panel(
                "lookups of all, M/s on the clock",
                "reader_wall_mops",
                [Some("readers-1"), Some("rw-1w1r"), Some("rw-1w4r")],
            ),
        ],
        groups: engines.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: vec![
            ("one reader alone".to_owned(), OURS),
            ("one reader beside the writer".to_owned(), OURS_TOO),
            ("four readers beside the writer".to_owned(), PEER),
        ],
        source: source(record),
    }
}

fn source(record: &Record) -> String {
    format!("proof/bench/record/{}: {}", record.name, record.machine)
}

#[cfg(test)]
mod tests {
    use sapwood_cli::numbers::short;

    use super::*;
    use crate::records::read_records;
    use crate::shown::root;

    fn recorded() -> Vec<Record> {
        read_records(&crate::shown::records()).unwrap()
    }

    #[test]
    fn the_committed_pictures_are_what_the_command_makes() {
        let records = recorded();
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
        let records = recorded();
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
        let text = "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n\
            routes,c,e,m,1,u,1,1,1\n";
        let record = Record::parse("r.csv", text).unwrap();
        let why = picture(&record).unwrap_err().to_string();
        assert_eq!(why, "r.csv: there is no picture of the suite \"routes\"");
        let record = Record::parse("r.csv", &text.replace("routes", "names")).unwrap();
        let why = picture(&record).unwrap_err().to_string();
        assert_eq!(why, "r.csv: has no row that the picture shows");
    }
}
