//! Tables beside figures that others have published, from other machines. Only the ratios inside
//! one table can be compared.

use super::pages::{Cell, How, Table};
use super::tables::{head, of, text};

pub fn bpf() -> Table {
    // The published figures: hash, qp-trie, and their sizes in MiB.
    type Set = (&'static str, &'static str, Option<[f64; 2]>, [f64; 2]);
    let sets: [Set; 5] = [
        (
            "random bytes, 16k",
            "random-binary",
            Some([5.062, 10.161]),
            [8.13, 4.85],
        ),
        ("kernel symbols", "kallsyms", None, [33.6, 18.3]),
        ("BTF strings", "btf", Some([9.889, 5.132]), [15.07, 10.72]),
        ("file paths", "paths", Some([8.418, 4.966]), [14.21, 9.36]),
        (
            "domain names, 1M",
            "domains-1m",
            Some([4.551, 2.804]),
            [190.8, 83.2],
        ),
    ];
    let rows = sets.map(|(name, case, theirs, sizes)| {
        let bpf = |engine, metric, how| of("bpf", case, engine, metric, how);
        let number = |i: usize| theirs.map_or("–".into(), |theirs| format!("{:.2}", theirs[i]));
        let ratio = theirs.map_or("–".into(), |[hash, trie]| format!("{:.2}", trie / hash));
        vec![
            text(name),
            Cell::Text(number(0)),
            Cell::Text(number(1)),
            Cell::Text(ratio),
            bpf("kernel-hash", "lookup_ns", How::Rate),
            bpf("sapwood-bpf", "lookup_ns", How::Rate),
            bpf("sapwood-bpf", "lookup_ns", How::Faster("kernel-hash")),
            bpf("sapwood-bpf-index", "lookup_ns", How::Faster("kernel-hash")),
            Cell::Text(format!("{:.2}", sizes[1] / sizes[0])),
            bpf("sapwood-bpf", "memory_mb", How::Of("kernel-hash")),
            bpf("sapwood-bpf-index", "memory_mb", How::Of("kernel-hash")),
        ]
    });
    Table {
        head: head(&[
            "lookups, M/s",
            "theirs: hash",
            "qp-trie",
            "qp / hash",
            "here: HASH",
            "trie",
            "trie / HASH",
            "index / HASH",
            "memory, theirs: qp / hash",
            "here: trie / HASH",
            "index / HASH",
        ]),
        rows: rows.into(),
    }
}

pub fn bpf_updates() -> Table {
    let ours = |engine, how| of("bpf", "kallsyms", engine, "update_bpf_ns", how);
    let rows = [
        ("hash", "2.85", "1.00", "kernel-hash"),
        ("qp-trie", "1.16", "0.41", "sapwood-bpf"),
        ("index alone", "–", "–", "sapwood-bpf-index"),
        ("index and trie", "–", "–", "sapwood-bpf-both"),
    ];
    let rows = rows.map(|(name, theirs, ratio, engine)| {
        vec![
            text(name),
            text(theirs),
            text(ratio),
            ours(engine, How::Rate),
            ours(engine, How::Faster("kernel-hash")),
        ]
    });
    Table {
        head: head(&[
            "updates by programs, kernel symbols, one thread",
            "theirs, M/s",
            "of hash",
            "here, M/s",
            "of HASH",
        ]),
        rows: rows.into(),
    }
}

/// Lookups and updates by one and by two processors that run programs.
pub fn bpf_threads() -> Table {
    const SETS: [(&str, [&str; 2]); 5] = [
        (
            "random bytes, 16k",
            ["writers-random-binary-1", "writers-random-binary-2"],
        ),
        ("kernel symbols", ["writers-1", "writers-2"]),
        ("BTF strings", ["writers-btf-1", "writers-btf-2"]),
        ("file paths", ["writers-paths-1", "writers-paths-2"]),
        (
            "domain names, 1M",
            ["writers-domains-1m-1", "writers-domains-1m-2"],
        ),
    ];
    const ENGINES: [(&str, &str); 3] = [
        ("hash", "kernel-hash"),
        ("trie", "sapwood-bpf"),
        ("index alone", "sapwood-bpf-index"),
    ];
    // The published figures for one and for two threads: hash, then qp-trie.
    let theirs = |set, metric| match (set, metric) {
        ("random bytes, 16k", "lookup_mops") => [["5.06", "10.26"], ["10.16", "20.29"]],
        ("kernel symbols", "update_bpf_mops") => [["2.85", "4.36"], ["1.16", "1.92"]],
        _ => [["–"; 2]; 2],
    };
    let mut rows = Vec::new();
    for (set, cases) in SETS {
        for (what, metric) in [
            ("lookups", "lookup_mops"),
            ("updates", "update_bpf_mops"),
            ("insertions", "insert_bpf_mops"),
        ] {
            for (at, (name, engine)) in ENGINES.into_iter().enumerate() {
                let figure =
                    |case: usize, metric| of("bpf", cases[case], engine, metric, How::Plain);
                let theirs = theirs(set, metric).get(at).copied().unwrap_or(["–"; 2]);
                rows.push(vec![
                    text(set),
                    text(what),
                    text(name),
                    text(theirs[0]),
                    text(theirs[1]),
                    figure(0, metric),
                    figure(1, metric),
                    figure(1, "dropped_share"),
                    figure(0, "memory_mb"),
                ]);
            }
        }
    }
    Table {
        head: head(&[
            "M/s",
            "",
            "",
            "theirs: one thread",
            "two",
            "here: one processor",
            "two",
            "dropped by two",
            "memory here, MB",
        ]),
        rows,
    }
}

pub fn ranges() -> Table {
    let theirs = [
        ("`stress-ng --mmap 4`, before", 46_630_160, 46_184_591),
        ("the same, after", 37_813_856, 43_493_287),
    ];
    let mut rows: Vec<Vec<Cell>> = theirs
        .map(|(name, nodes, ranges)| {
            let a_range = f64::from(nodes) / f64::from(ranges);
            let mut row = vec![text(name), Cell::Text(format!("{a_range:.2} a range"))];
            row.extend((0..3).map(|_| text("–")));
            row
        })
        .into();
    let cases = [
        ("a thousand ranges", "1k"),
        ("an address space", "vma"),
        ("a million ranges", "1m"),
        ("a recorded compiler", "replay-cc"),
    ];
    rows.extend(cases.map(|(name, case)| {
        let nodes = |metric, how| of("ranges", case, "sapwood", metric, how);
        vec![
            text(name),
            nodes("nodes_requested", How::Plain),
            nodes("nodes_used", How::OfMetric("nodes_requested")),
            nodes("nodes_requested_vacant", How::OfMetric("nodes_requested")),
            nodes("nodes_requested_worst", How::OfMetric("nodes_requested")),
        ]
    }));
    Table {
        head: head(&[
            "",
            "nodes planned",
            "made / planned",
            "the vacancy rule asks at least, of ours",
            "the worst case at least, of ours",
        ]),
        rows,
    }
}

/// A published table of readers: the numbers of readers; for each method, its name and its figures.
pub type Readers = ([&'static str; 3], [(&'static str, [&'static str; 3]); 3]);

/// The published lookups without a writer.
pub const ALONE: Readers = (
    ["1", "5", "10"],
    [
        ("rwlock", ["6.00", "5.53", "4.80"]),
        ("liburcu", ["5.31", "5.57", "4.91"]),
        ("QSBR", ["5.32", "6.10", "5.31"]),
    ],
);
/// The published lookups beside a writer.
pub const BESIDE: Readers = (
    ["1", "5", "9"],
    [
        ("rwlock", ["2.46", "1.81", "1.37"]),
        ("liburcu", ["5.52", "5.54", "5.09"]),
        ("QSBR", ["4.83", "5.43", "5.28"]),
    ],
);
/// The published changes of that writer.
pub const WRITER: Readers = (
    ["1", "5", "9"],
    [
        ("rwlock", ["65,440", "45,504", "41,424"]),
        ("liburcu", ["320", "240", "144"]),
        ("QSBR", ["72,208", "67,024", "42,400"]),
    ],
);
/// The engines here that are closest to those three methods.
const WAYS: [&str; 3] = ["rwlock-qp", "urcu-qp", "sapwood"];

pub fn versions(start: &str, end: &str, metric: &'static str, theirs: &Readers) -> Table {
    // Tables are few and live as long as the program, so the leak is bounded.
    let case = |readers: &str| -> &'static str { format!("{start}{readers}{end}").leak() };
    let (counts, ways) = theirs;
    let mut heads = vec!["".to_owned()];
    heads.extend(counts.map(|count| format!("theirs: {count}")));
    heads.extend(counts.map(|count| format!("here: {count}")));
    let rows = ways.iter().zip(WAYS).map(|((name, figures), engine)| {
        let mut row = vec![text(name)];
        row.extend(figures.map(text));
        row.extend(counts.map(|count| of("versions", case(count), engine, metric, How::Plain)));
        row
    });
    Table {
        head: heads,
        rows: rows.collect(),
    }
}

pub fn operations() -> Table {
    let cases: [(&str, &'static str, [&str; 3]); 6] = [
        ("1", "txn-1024x1", [".36", "4.28", "4.54"]),
        ("8", "txn-128x8", ["1.10", "5.04", "5.23"]),
        ("32", "txn-32x32", ["1.36", "5.28", "5.34"]),
        ("128", "txn-8x128", ["1.70", "5.29", "5.30"]),
        ("512", "txn-2x512", ["2.57", "5.03", "5.28"]),
        ("1,024", "txn-1x1024", ["2.84", "5.17", "5.25"]),
    ];
    let rows = cases.map(|(count, case, theirs)| {
        let mut row = vec![text(count)];
        row.extend(theirs.map(text));
        row.extend(WAYS.map(|engine| of("versions", case, engine, "reader_mops", How::Plain)));
        row
    });
    Table {
        head: head(&[
            "operations a transaction",
            "theirs: rwlock",
            "liburcu",
            "QSBR",
            "here: rwlock",
            "liburcu",
            "QSBR",
        ]),
        rows: rows.into(),
    }
}

pub fn items() -> Table {
    let cases: [(&str, &'static str, &str, &str); 6] = [
        ("10", "items-10", "64.00", "27.73"),
        ("100", "items-100", "17.08", "22.31"),
        ("1,000", "items-1000", "14.49", "20.46"),
        ("10,000", "items-10000", "16.01", "15.80"),
        ("100,000", "items-100000", "14.85", "9.31"),
        ("1,000,000", "items-1000000", "15.14", "5.30"),
    ];
    let rows = cases.map(|(items, case, bytes, reads)| {
        let ours = |metric| of("versions", case, "sapwood", metric, How::Plain);
        vec![
            text(items),
            text(bytes),
            text(reads),
            ours("bytes_per_item"),
            ours("reader_mops"),
        ]
    });
    Table {
        head: head(&[
            "items",
            "theirs: interior bytes an item",
            "reads, M/s",
            "here: all bytes an item, key and value too",
            "reads, M/s",
        ]),
        rows: rows.into(),
    }
}

pub fn cache() -> Table {
    let cases = ["size-0", "size-2", "size-8", "size-512", "size-8192"];
    let theirs = [
        (
            "theirs: BTreeMap insert",
            ["54", "47", "58", "2,411", "50,590"],
        ),
        ("theirs: BTreeMap get", ["0.3", "3.9", "8.9", "7.2", "2.8"]),
        (
            "theirs: HashMap (SipHash) get",
            ["0.3", "23", "23", "21", "21"],
        ),
        ("theirs: HashMap insert", ["47", "44", "67", "302", "232"]),
    ];
    let ours = [
        ("here: lock over BTreeMap, get", "rwlock-btreemap", "get_ns"),
        ("here: the same, insert", "rwlock-btreemap", "insert_ns"),
        (
            "here: lock over HashMap (SipHash), get",
            "rwlock-siphash",
            "get_ns",
        ),
        ("here: the same, insert", "rwlock-siphash", "insert_ns"),
        ("here: `RouteCache` get", "sapwood", "get_ns"),
        ("here: `RouteCache` insert", "sapwood", "insert_ns"),
    ];
    let mut rows: Vec<Vec<Cell>> = theirs
        .iter()
        .map(|(name, figures)| {
            let figures = figures.iter().map(|figure| text(figure));
            std::iter::once(text(name)).chain(figures).collect()
        })
        .collect();
    rows.extend(ours.map(|(name, engine, metric)| {
        let figures = cases.map(|case| of("cache", case, engine, metric, How::Plain));
        std::iter::once(text(name)).chain(figures).collect()
    }));
    Table {
        head: head(&["entries; ns", "0", "2", "8", "512", "8,192"]),
        rows,
    }
}
