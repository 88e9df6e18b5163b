//! Lists that are compressed, too long, or read for the first time, and what limits them.

use std::io::Write;

use sapwood::qp::OrderedRead;
use sapwood_lists::{Action, Event, Format, ListError, Loader, Options, Source, rule_entries};

use crate::loading::{action, load, names, store};

/// A list in gzip.
fn gz(text: &str) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap()
}

#[test]
fn compressed_lists_are_read_and_damaged_ones_and_bombs_leave_the_old_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ads.gz");
    let text: String = (0..20_000)
        .map(|n| format!("0.0.0.0 n{n}.example\n"))
        .collect();
    let packed = gz(&text);
    std::fs::write(&path, &packed).unwrap();
    let store = store();
    let mut places = Vec::new();
    let summary = Loader::new(vec![Source::file(&path)], Options::default())
        .tell(|event| match event {
            Event::Begin { bytes, .. } => assert_eq!(bytes, packed.len() as u64),
            Event::At(bytes) => places.push(bytes),
            _ => {}
        })
        .reload(&store)
        .unwrap();
    assert_eq!(
        (summary.added, summary.meta.lists()[0].format),
        (20_000, Format::Hosts)
    );
    assert!(places.len() > 3 && places.is_sorted(), "{places:?}");
    assert!(
        *places.last().unwrap() <= packed.len() as u64,
        "bytes of the file count"
    );
    // In memory, in two parts, and read twice.
    let parts = [gz("||b.a.x^\n||a.x^\n"), gz("||a.x^$badfilter\n")].concat();
    let loader = Loader::new(vec![Source::text("t", parts)], Options::default());
    let (map, summary) = loader.build().unwrap();
    assert_eq!(
        (names(map.entries()), summary.passes),
        (vec!["b.a.x".to_owned()], 2)
    );

    let version = store.version();
    let file = path.display();
    let refused = |bytes: &[u8], most: u64| {
        std::fs::write(&path, bytes).unwrap();
        let list = Source::file(&path).decompressed_most(most);
        let error = Loader::new(vec![list], Options::default()).reload(&store);
        assert_eq!((store.version(), store.len()), (version, 20_001));
        error.unwrap_err().to_string()
    };
    // Cut, also where most of the list is there, and damaged.
    for len in [
        packed.len() - 1,
        packed.len() * 9 / 10,
        packed.len() / 3,
        12,
    ] {
        let what = refused(&packed[..len], u64::MAX);
        assert!(what.starts_with(&format!("cannot read {file}: ")), "{what}");
    }
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 4;
    let what = refused(&damaged, u64::MAX);
    assert!(what.starts_with(&format!("cannot read {file}: ")), "{what}");
    let bytes = text.len() as u64;
    let limit = bytes - 1;
    assert_eq!(
        refused(&packed, limit),
        format!(
            "cannot read {file}: it has more than {limit} bytes when it is decompressed, which is \
             the limit"
        )
    );
    // A bomb: a name in very many lines, which would be one rule.
    let bomb = gz(&"0.0.0.0 n1.example\n".repeat(300_000));
    assert!(bomb.len() * 100 < 300_000 * 19);
    let what = refused(&bomb, 1 << 20);
    assert!(what.contains("more than 1048576 bytes"), "{what}");
    assert_eq!(
        refused(b"\xfd7zXZ\0\0\x04", u64::MAX),
        format!("{file}: this is no list: it looks like a binary or compressed file")
    );
    // What is packed may be no list, too.
    assert_eq!(
        refused(&gz("<html>\n<p>\n"), u64::MAX),
        format!("{file}: this is no list: it looks like a page of the web (HTML)")
    );
    std::fs::write(&path, &packed).unwrap();
    let list = Source::file(&path).decompressed_most(bytes);
    let mut loader = Loader::new(vec![list], Options::default());
    assert!(loader.reload(&store).unwrap().is_unchanged());
}

#[test]
fn a_name_with_too_many_rules_loses_those_beyond_and_tells_it() {
    let rule = |n: usize| format!("||x.example^$denyallow=a{n}.x.example\n");
    let all: String = (0..1005).map(rule).collect();
    let text = format!("{all}||y.example^\n");
    let load = |texts: &[&str], told: &mut Vec<String>| {
        let sources = texts.iter().map(|text| Source::text("list", text));
        let loader = Loader::new(sources.collect(), Options::default());
        let loader = loader.tell(|event| {
            if let Event::Refused { line, what, .. } = event {
                told.push(format!("{line}: {what}"));
            }
        });
        loader.build().unwrap()
    };
    let mut told = Vec::new();
    let (map, summary) = load(&[&text], &mut told);
    let fault = "its name has more than 1000 rules with conditions in this list";
    let expected: Vec<_> = (1001..=1005)
        .map(|line| format!("{line}: {fault}"))
        .collect();
    assert_eq!(told, expected);
    let list = &summary.meta.lists()[0];
    assert_eq!((list.rules, list.refused, list.kept), (1001, 5, 1001));
    assert_eq!((map.len(), summary.counts[0].refused), (2, 5));
    for name in ["x.example", "www.x.example", "y.example"] {
        assert!(map.verdict(name.as_bytes(), 1).unwrap().is_some(), "{name}");
    }
    // Rules without conditions are never beyond: the list blocks what it blocks as a whole.
    let exceptions: String = (0..1005)
        .map(|n| format!("@@||x.example^$dnstype=TYPE{}\n", n + 1000))
        .collect();
    let mut told = Vec::new();
    let (map, _) = load(&[&format!("{exceptions}||x.example^\n")], &mut told);
    assert_eq!(told.len(), 5);
    let action = |rtype| {
        map.verdict(b"a.x.example", rtype)
            .unwrap()
            .unwrap()
            .terms
            .action
    };
    assert_eq!((action(1), action(1000)), (Action::Nxdomain, Action::Pass));
    // Each list has a number of its own.
    let mut told = Vec::new();
    let few: String = (0..1000).map(rule).collect();
    let (_, summary) = load(&[&few, &few.replace("||x", "@@||x")], &mut told);
    assert_eq!((told.len(), summary.meta.lists()[1].refused), (0, 0));

    // A map that is changed is the one that is made anew, whatever is beyond.
    let store = store();
    let one = |text: &str| Loader::new(vec![Source::text("list", text)], Options::default());
    let less: String = (1..1005).chain(2000..2003).map(rule).collect();
    for text in [&text, &less, &all] {
        let changed = one(text).reload(&store).unwrap();
        let (map, summary) = one(text).build().unwrap();
        assert_eq!(changed.meta, summary.meta);
        let entries = |map: &dyn OrderedRead<[u8]>| -> Vec<_> {
            let all = rule_entries(map).map(|(key, value)| (key.to_vec(), value.to_vec()));
            all.collect()
        };
        assert_eq!(entries(&store.snapshot()), entries(map.entries()));
    }

    // Addresses of one name, and strict readings.
    let hosts: String = (0..1003)
        .map(|n| format!("192.0.{}.{} x\n", n / 256, n % 256))
        .collect();
    let mut told = Vec::new();
    let (map, _) = load(&[&hosts], &mut told);
    let fault = "1003: its name has more than 1000 addresses or records in this list";
    assert_eq!(
        (told.len(), told.last().map(String::as_str)),
        (3, Some(fault))
    );
    let found = map.verdict(b"x", 1).unwrap().unwrap().terms.action;
    assert!(matches!(found, Action::Addresses(all) if all.len() == 1000));
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let error = Loader::new(vec![Source::text("h", &hosts)], strict).build();
    assert_eq!(
        error.unwrap_err().to_string(),
        "h: line 1001: its name has more than 1000 addresses or records in this list"
    );
}

#[test]
fn of_the_zones_of_a_name_in_a_list_for_unbound_the_last_one_counts() {
    let store = store();
    let zone = |name: &str, kind: &str| format!("local-zone: {name} {kind}\n");
    let data = |name: &str, n: u8| format!("local-data: \"{name} A 192.0.2.{n}\"\n");
    let addresses = |all: &[u8]| {
        let all = all.iter().map(|n| [192, 0, 2, *n].into());
        Some(Action::Addresses(all.collect()))
    };
    let refuse = || zone("x", "refuse");
    let redirect = |n| zone("x", "redirect") + &data("x", n);
    for (lines, expected) in [
        (
            [refuse(), zone("x", "static"), String::new()],
            Some(Action::Nxdomain),
        ),
        (
            [zone("x", "static"), refuse(), String::new()],
            Some(Action::Refused),
        ),
        (
            [refuse(), zone("x", "static"), refuse()],
            Some(Action::Refused),
        ),
        ([refuse(), redirect(1), String::new()], addresses(&[1])),
        ([redirect(1), refuse(), redirect(2)], addresses(&[2])),
        (
            [redirect(1), redirect(2), String::new()],
            addresses(&[1, 2]),
        ),
        (
            [redirect(1), zone("y", "deny"), refuse()],
            Some(Action::Refused),
        ),
        (
            [redirect(1), refuse(), zone("x", "redirect")],
            Some(Action::Nodata),
        ),
    ] {
        // Beside a zone above it, which makes one that does the same unnecessary.
        for above in ["", "local-zone: . refuse\n", "local-zone: . static\n"] {
            let text = above.to_owned() + &lines.concat() + &zone("a.x", "refuse");
            let list = || Source::text("list", &text).format(Format::Unbound);
            let allow = Options {
                allow_shrunk: true,
                ..Options::default()
            };
            Loader::new(vec![list()], allow).reload(&store).unwrap();
            for name in ["x", "b.x"] {
                assert_eq!(action(&store, name), expected, "{name}: {text}");
            }
            assert_eq!(action(&store, "b.a.x"), Some(Action::Refused), "{text}");
            let (map, _) = Loader::new(vec![list()], Options::default())
                .build()
                .unwrap();
            assert_eq!(names(map.entries()), names(&store.snapshot()), "{text}");
        }
    }
    // Of several lists, the first one does.
    load(&[&zone("x", "refuse"), &zone("x", "static")], &store).unwrap();
    assert_eq!(action(&store, "x"), Some(Action::Refused));
}

#[test]
fn a_map_that_is_filled_takes_its_own_memory_and_nothing_if_it_fails() {
    let names = sapwood_model::lists::Names::new(5).take(200_000);
    let text: String = names.map(|name| format!("0.0.0.0 {name}\n")).collect();
    let source = || Source::text("ads", &text).format(Format::Hosts);
    let store = store();
    let mut loader = Loader::new(vec![source()], Options::default());
    let summary = loader.fill(&store).unwrap();
    let (map, built) = Loader::new(vec![source()], Options::default())
        .build()
        .unwrap();
    assert_eq!((&summary.meta, summary.added), (&built.meta, built.added));
    assert_eq!((summary.extra_bytes, store.len()), (0, map.len() + 1));
    // The frontier is where the memory ends that was ever used.
    let memory = store.memory().map.arena;
    let (live, most) = (memory.live, memory.frontier);
    assert!(most * 100 < live * 115, "{most} bytes for {live}");
    store.verify().unwrap();
    assert!(loader.reload(&store).unwrap().is_unchanged());
    assert!(matches!(loader.fill(&store), Err(ListError::NotEmpty)));

    // Whatever fails, however late: nothing is left.
    let late = format!("{text}a|b\n");
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let store = self::store();
    let list = Source::text("ads", &late).format(Format::Hosts);
    let error = Loader::new(vec![list], strict).fill(&store).unwrap_err();
    assert!(error.to_string().contains("line 200001: "), "{error}");
    assert!(store.is_empty() && store.memory().map.arena.live < 4096);
    // Readings that go again begin anew.
    let again = "||a.x^\n||b.a.x^\n||a.x^$badfilter\n";
    let mut loader = Loader::new(vec![Source::text("a", again)], Options::default());
    assert_eq!(loader.fill(&store).unwrap().passes, 2);
    assert_eq!(self::names(&store.snapshot()), ["b.a.x"]);
}
