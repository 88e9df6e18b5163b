//! Maps that are made, changed by the difference, refused and saved.

use std::path::Path;

use sapwood::qp::{OrderedRead, QpMap, QpStore};
use sapwood_lists::{
    Action, Event, Fingerprints, Format, ListError, Loader, META_KEY, Options, Source, Summary,
    check, open, rule_entries, verdict,
};

pub fn store() -> QpStore<[u8]> {
    QpStore::builder().build_inline().unwrap()
}

pub fn load(texts: &[&str], store: &QpStore<[u8]>) -> Result<Summary, ListError> {
    let sources = texts.iter().enumerate();
    let sources = sources.map(|(n, text)| Source::text(format!("list {n}"), text));
    Loader::new(sources.collect(), Options::default()).reload(store)
}

/// The names of a map, with the number of rules of each.
pub fn names(map: &dyn OrderedRead<[u8]>) -> Vec<String> {
    rule_entries(map)
        .map(|(key, _)| sapwood::key::dns_name_to_text(&key).unwrap())
        .collect()
}

/// The action of a store for a name.
pub fn action(store: &QpStore<[u8]>, name: &str) -> Option<Action> {
    let snapshot = store.snapshot();
    let meta = check(&snapshot).unwrap();
    let key = sapwood::key::dns_name(name).unwrap();
    let found = verdict(&snapshot, &meta, &key, 1).unwrap();
    found.map(|found| found.terms.action)
}

#[test]
fn names_below_blocked_ones_are_left_out_wherever_they_come() {
    let store = store();
    let summary = load(
        &["||a.b.x^\n||b.x^\n||c.b.x^\n||y^\n", "d.b.x\nz.y\nx\n"],
        &store,
    )
    .unwrap();
    let kept: Vec<_> = summary
        .meta
        .lists()
        .iter()
        .map(|list| (list.rules, list.kept))
        .collect();
    assert_eq!(kept, [(4, 2), (3, 1)]);
    assert_eq!(names(&store.snapshot()), ["x", "b.x", "y"]);
    // The name above goes: those below it count again.
    let summary = load(&["||a.b.x^\n||c.b.x^\n||y^\n", "d.b.x\nz.y\nx\n"], &store).unwrap();
    assert_eq!(
        names(&store.snapshot()),
        ["x", "a.b.x", "c.b.x", "d.b.x", "y"]
    );
    assert_eq!((summary.added, summary.removed, summary.passes), (3, 1, 1));
    // It comes back.
    let summary = load(
        &["||a.b.x^\n||c.b.x^\n||y^\n||b.x^\n", "d.b.x\nz.y\nx\n"],
        &store,
    )
    .unwrap();
    assert_eq!((summary.added, summary.removed, summary.passes), (1, 3, 1));
}

#[test]
fn a_pass_that_comes_later_keeps_the_block_below_it() {
    let text = "address=/x/\naddress=/a.c.x/\nserver=/c.x/#\n";
    let store = store();
    let summary = load(&[text], &store).unwrap();
    assert_eq!(summary.passes, 2, "the second line was left out at first");
    assert_eq!(action(&store, "a.c.x"), Some(Action::Nxdomain));
    assert_eq!(action(&store, "b.c.x"), Some(Action::Pass));
    assert_eq!(action(&store, "b.x"), Some(Action::Nxdomain));
}

#[test]
fn bad_filters_take_rules_of_all_lists_away_wherever_they_come() {
    let lists = [
        "||a.x^\n||b.a.x^\n",
        "||a.x^$badfilter\n||c.x^$badfilter\n||d.x^\n",
    ];
    let store = store();
    let sources: Vec<Source> = lists
        .iter()
        .map(|text| Source::text("list", text))
        .collect();
    let mut loader = Loader::new(sources, Options::default());
    let summary = loader.reload(&store).unwrap();
    assert_eq!((summary.passes, summary.cancelled), (2, 1));
    assert_eq!(names(&store.snapshot()), ["b.a.x", "d.x"]);
    let summary = loader.reload(&store).unwrap();
    assert_eq!(
        (summary.passes, summary.is_unchanged()),
        (1, true),
        "they are remembered"
    );
    load(&["||a.x^\n||b.a.x^\n", "||d.x^\n"], &store).unwrap();
    assert_eq!(names(&store.snapshot()), ["a.x", "d.x"]);
}

#[test]
fn of_alike_rules_of_a_list_the_first_counts_and_addresses_gather() {
    let rpz = |records: &str| format!("@ SOA a. b. 1 2 3 4 5\n@ NS a.\n{records}");
    let store = store();
    load(
        &[&rpz(
            "a.x CNAME .\na.x CNAME *.\nb.x A 192.0.2.2\nb.x A 192.0.2.1\n",
        )],
        &store,
    )
    .unwrap();
    assert_eq!(action(&store, "a.x"), Some(Action::Nxdomain));
    let two = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    assert_eq!(action(&store, "b.x"), Some(Action::Addresses(two.to_vec())));
    // The same in another order is no change, but the order of what excludes each other counts.
    let other = rpz("b.x A 192.0.2.1\na.x CNAME *.\na.x CNAME .\nb.x A 192.0.2.2\n");
    let summary = load(&[&other], &store).unwrap();
    assert_eq!((summary.added, summary.removed, summary.changed), (0, 0, 1));
    assert_eq!(action(&store, "a.x"), Some(Action::Nodata));
    load(&[&rpz("b.x A 192.0.2.1\na.x CNAME .\n")], &store).unwrap();
    assert_eq!(
        action(&store, "b.x"),
        Some(Action::Addresses(two[..1].to_vec()))
    );
}

#[test]
fn lists_that_become_empty_or_small_are_refused_unless_they_may() {
    let store = store();
    load(&["a.x\nb.x\nc.x\nd.x\ne.x\n"], &store).unwrap();
    let refused = [
        (
            "",
            "list 0: it has no rule; an empty list has to be allowed",
        ),
        (
            "# nothing\n",
            "list 0: it has no rule; an empty list has to be allowed",
        ),
        (
            "a.x\n",
            "list 0: it has 1 rules, and had 5; that it shrinks so has to be allowed",
        ),
        (
            "<html>\n<p>\na.x\n",
            "list 0: this is no list: it looks like a page of the web (HTML)",
        ),
        (
            "\x1f\u{0}",
            "list 0: this is no list: it looks like a binary or compressed file",
        ),
    ];
    for (text, why) in refused {
        let version = store.version();
        assert_eq!(load(&[text], &store).unwrap_err().to_string(), why);
        assert_eq!(
            (store.version(), names(&store.snapshot()).len()),
            (version, 5)
        );
    }
    assert!(load(&["a.x\nb.x\n"], &store).is_err(), "less than half");
    load(&["a.x\nb.x\nc.x\n"], &store).unwrap();
    let may = |options| Loader::new(vec![Source::text("list 0", "")], options).reload(&store);
    let shrunk = Options {
        allow_shrunk: true,
        ..Options::default()
    };
    assert!(may(shrunk).is_err());
    let empty = Options {
        allow_empty: true,
        ..Options::default()
    };
    assert_eq!(may(empty).unwrap().removed, 3);
    assert_eq!(store.len(), 1, "what the map says of its lists is left");
}

#[test]
fn files_are_read_as_they_are_and_faults_are_told_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ads");
    std::fs::write(&path, "a.x\nb|c\nd.x\n").unwrap();
    let mut told = Vec::new();
    let loader = Loader::new(vec![Source::file(&path)], Options::default());
    let (map, summary) = loader
        .tell(|event| match event {
            Event::Refused { line, what, .. } => told.push(format!("{line}: {what}")),
            Event::Begin { bytes, pass, .. } => told.push(format!("{bytes} {pass}")),
            _ => {}
        })
        .build()
        .unwrap();
    let fault = "2: \"b|c\" is not a domain name: no host name has the | at byte 1 (\\| if it is \
                 meant)";
    assert_eq!(told, ["12 0", fault]);
    assert_eq!((summary.counts[0].refused, map.len()), (1, 2));
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let error = Loader::new(vec![Source::file(&path)], strict)
        .build()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ads: line 2: \"b|c\" is not a domain name"),
        "{error}"
    );
    let missing = Source::file(folder.path().join("none"));
    let error = Loader::new(vec![missing], Options::default())
        .build()
        .unwrap_err();
    assert!(matches!(error, ListError::Read { .. }), "{error}");
}

#[test]
fn the_line_of_a_rule_is_found_again_if_it_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ads");
    std::fs::write(&path, "! x\n||a.x^\n||a.x^$dnstype=A\n@@||b.a.x^\n").unwrap();
    let (map, _) = Loader::new(vec![Source::file(&path)], Options::default())
        .build()
        .unwrap();
    let line = |name: &str, rtype| {
        let found = map.verdict(name.as_bytes(), rtype).unwrap().unwrap();
        map.meta().lists()[0]
            .line_of(&found.key, &found.terms)
            .unwrap()
    };
    assert_eq!(line("a.x", 28), Some(2));
    assert_eq!(line("c.b.a.x", 1), Some(4));
    std::fs::write(&path, "||b.x^\n@@||b.a.x^\n").unwrap();
    assert_eq!((line("a.x", 28), line("b.a.x", 1)), (None, Some(2)));
    std::fs::remove_file(&path).unwrap();
    let found = map.verdict(b"a.x", 1).unwrap().unwrap();
    assert!(
        map.meta().lists()[0]
            .line_of(&found.key, &found.terms)
            .is_err()
    );
}

#[test]
fn saved_files_answer_as_the_map_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let lists = vec![
        Source::text("a", "||ads.example^\n||t.example^$dnsrewrite=192.0.2.1\n"),
        Source::text("b", "good.ads.example\n")
            .exceptions(true)
            .below(true),
    ];
    let (map, _) = Loader::new(lists, Options::default()).build().unwrap();
    map.save(&path).unwrap();
    let (file, meta) = open(&path).unwrap();
    assert_eq!(&meta, map.meta());
    for name in [
        "ads.example",
        "x.good.ads.example",
        "t.example",
        "other.example",
    ] {
        let key = sapwood::key::dns_name(name).unwrap();
        let found = verdict(&file, &meta, &key, 1).unwrap();
        assert_eq!(found, map.verdict(name.as_bytes(), 1).unwrap(), "{name}");
    }
    let refused = |path: &Path| open(path).unwrap_err().to_string();
    let mut other = QpMap::<[u8]>::new();
    other.insert("x\0", b"\x20").unwrap();
    other.save(&path).unwrap();
    assert_eq!(refused(&path), "a value is not that of a list's rules");
    for (key, value) in [
        (&b"x"[..], &b"\x20"[..]),
        (b"x\0", b"\xff"),
        (b"x\0", b""),
        (b"", b"\xff"),
        (b"x\0", b"\xa0\x07"),
    ] {
        let mut other = QpMap::<[u8]>::new();
        other.insert(META_KEY, file.get(META_KEY).unwrap()).unwrap();
        other.insert(key, value).unwrap();
        other.save(&path).unwrap();
        assert_eq!(
            refused(&path),
            "a value is not that of a list's rules",
            "{key:?}"
        );
    }
    let numbers = QpMap::from([("a", 1u64)]);
    numbers.save(&path).unwrap();
    assert!(refused(&path).contains("values"), "{}", refused(&path));
    // A store of other values is no map to change.
    let store = store();
    let mut txn = store.begin();
    txn.insert("a", b"x").unwrap();
    txn.commit();
    assert!(matches!(
        load(&["a.x\n"], &store),
        Err(ListError::NotRules(_))
    ));
}

#[test]
fn a_reading_of_a_large_list_takes_little_beside_the_map() {
    let name = |n: u32| {
        let word = n.wrapping_mul(2_654_435_761);
        format!("w{:x}.h{:x}.example{}\n", word & 0xffff, word >> 16, n % 50)
    };
    let text = |from: u32| (from..from + 60_000).map(name).collect::<String>();
    let store = store();
    let list = |text: String| {
        let list = Source::text("ads", text).format(Format::Plain).below(true);
        Loader::new(vec![list], Options::default())
            .reload(&store)
            .unwrap()
    };
    list(text(0));
    let map = store.memory().map.total();
    let summary = list(text(600));
    assert_eq!(
        (summary.added, summary.removed, summary.passes),
        (600, 600, 1)
    );
    let extra = summary.extra_bytes;
    assert!(extra * 10 < map, "{extra} bytes beside {map}");
    store.reclaim(usize::MAX);
    let now = store.memory().map.total();
    assert!(now * 100 < map * 115, "{now} after {map}");
    let rule = store.get(sapwood::key::dns_name(name(600).trim_end()).unwrap());
    assert_eq!(rule.as_deref(), Some(&b"\x20"[..]), "a rule takes one byte");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    std::fs::write(&path, "a.x\n").unwrap();
    let store = store();
    let changing = path.clone();
    let mut loader =
        Loader::new(vec![Source::file(&path)], Options::default()).tell(move |event| {
            if matches!(event, Event::Begin { .. }) {
                std::fs::write(&changing, "a.x\nb.x\n").unwrap();
            }
        });
    let error = loader.reload(&store).unwrap_err();
    assert!(matches!(error, ListError::Changed { .. }), "{error}");
    assert!(store.is_empty());
}

#[test]
fn rules_of_the_root_are_rules_as_others() {
    for (text, name, expected) in [
        (".\n", ".", Some(Action::Nxdomain)),
        (".\n", "a.x", None),
        ("*\n", "a.x", Some(Action::Nxdomain)),
        ("*\n", ".", None),
        (
            "address=/#/192.0.2.1\n",
            "x",
            Some(Action::Addresses(vec![[192, 0, 2, 1].into()])),
        ),
        ("", ".", None),
    ] {
        let options = Options {
            allow_empty: true,
            ..Options::default()
        };
        let load = || Loader::new(vec![Source::text("list", text)], options.clone());
        let (map, _) = load().build().unwrap();
        assert_eq!(check(map.entries()).as_ref(), Ok(map.meta()), "{text}");
        assert_eq!(rule_entries(map.entries()).count(), map.len());
        let found = map.verdict(name.as_bytes(), 1).unwrap();
        assert_eq!(
            found.as_ref().map(|found| &found.terms.action),
            expected.as_ref(),
            "{text} {name}"
        );
        let small = Fingerprints::new(map.entries()).unwrap();
        let key = sapwood::key::dns_name(name).unwrap();
        assert_eq!(small.verdict(&key, 1), found);
        let store = store();
        load().reload(&store).unwrap();
        assert_eq!(store.len(), map.len() + 1);
        assert!(load().reload(&store).unwrap().is_unchanged(), "{text}");
    }
}

#[test]
fn names_below_others_take_no_memory_at_a_reading_even_if_they_come_first() {
    // Four names below each of 10,000, before and behind it.
    let line = |n: u32| format!("||a.d{n}.example^\n||b.d{n}.example^\n||c.a.d{n}.example^\n");
    let above = |n: u32| format!("||d{n}.example^\n||z.d{n}.example^\n");
    let text = |names: std::ops::Range<u32>| {
        let lines = names.clone().map(line).collect::<String>();
        lines + &names.map(above).collect::<String>()
    };
    let store = store();
    let summary = load(&[&text(0..10_000)], &store).unwrap();
    let list = &summary.meta.lists()[0];
    assert_eq!(
        (list.rules, list.kept, store.len()),
        (50_000, 10_000, 10_001)
    );
    let map = store.memory().map.total();
    let summary = load(&[&text(0..10_000)], &store).unwrap();
    assert!(summary.is_unchanged() && summary.passes == 1);
    assert!(
        summary.extra_bytes * 5 < map,
        "{} of {map}",
        summary.extra_bytes
    );
    // One of the names above goes, and the names below it that are left come back.
    let changed = text(0..10_000).replace("||d77.example^\n", "");
    let summary = load(&[&changed], &store).unwrap();
    assert_eq!((summary.added, summary.removed, summary.passes), (3, 1, 2));
    assert!(
        summary.extra_bytes * 5 < map,
        "{} of {map}",
        summary.extra_bytes
    );
}

#[test]
fn rules_wait_for_the_marks_of_those_above_and_only_too_many_are_read_again() {
    let below = |n: u32| format!("||a.d{n}.example^\n||b.d{n}.example^\n||c.a.d{n}.example^\n");
    let above = |n: u32| format!("||d{n}.example^\n");
    // A hundred names, and then those above them: ever others wait.
    let text = |is_above: fn(u32) -> bool| {
        let part = |part: u32| {
            let names = part * 100..(part + 1) * 100;
            let lines = names.clone().map(below).collect::<String>();
            lines
                + &names
                    .filter(|n| is_above(*n))
                    .map(above)
                    .collect::<String>()
        };
        (0..100).map(part).collect::<String>()
    };
    let store = store();
    for (is_above, passes) in [
        ((|_| true) as fn(u32) -> bool, 1),
        (|n| n % 200 > 0, 1),
        (|n| n % 8 == 0, 2),
        (|_| true, 1),
        (|_| false, 2),
    ] {
        let text = text(is_above);
        let summary = load(&[&text], &store).unwrap();
        assert_eq!(summary.passes, passes, "{summary:?}");
        let gone = (0..10_000).filter(|n| !is_above(*n)).count();
        let list = &summary.meta.lists()[0];
        // One above, or the two below that are below no other one.
        assert_eq!(list.kept as usize, 10_000 - gone + 2 * gone);
        let anew = Loader::new(vec![Source::text("0", text)], Options::default());
        let (map, _) = anew.build().unwrap();
        let snapshot = store.snapshot();
        let same = rule_entries(map.entries()).eq(rule_entries(&snapshot));
        assert!(same && map.entries().entries() == snapshot.len());
    }
}
