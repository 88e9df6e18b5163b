//! Block lists through the C functions: random lists in all formats, as a file, as a table of
//! fingerprints and live, answer as the crate `sapwood-lists` does. What cannot be told is an
//! error.

use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

use ::sapwood_lists::{Fingerprints, Format, ListMap, Loader, Options, Source, Verdict};
use sapwood::qp::QpStore;
use sapwood_capi::error::sapwood_last_error;
use sapwood_capi::file::SAPWOOD_UNVERIFIED;
use sapwood_capi::lists::*;
use sapwood_capi::lists_live::sapwood_lists_open_live;
use sapwood_capi::live_reader::SAPWOOD_LIVE_CHECKED;
use sapwood_live::Live;

use oracle::{TYPES, random_list, random_name};

/// The writer of random lists.
#[allow(dead_code, reason = "the tests of sapwood-lists use the rest")]
#[path = "../../../../services/lists/tests/lists/oracle.rs"]
mod oracle;

struct Lists(*mut sapwood_lists);

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: it was opened, and nobody else has it.
        unsafe { sapwood_lists_free(self.0) };
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn message() -> String {
    let mut text = vec![0_u8; 500];
    // SAFETY: `text` has room for `text.len()` bytes.
    unsafe { sapwood_last_error(text.as_mut_ptr().cast(), text.len()) };
    let text = CStr::from_bytes_until_nul(&text).unwrap();
    text.to_string_lossy().into_owned()
}

impl Lists {
    fn open(path: &Path, flags: u32) -> Result<Self, c_int> {
        let (path, mut out) = (c_path(path), null_mut());
        // SAFETY: the arguments are as the header asks for.
        match unsafe { sapwood_lists_open(path.as_ptr(), flags, &raw mut out) } {
            0 => Ok(Lists(out)),
            error => Err(error),
        }
    }

    fn live(path: &Path, flags: u32) -> Result<Self, c_int> {
        let (path, mut out) = (c_path(path), null_mut());
        // SAFETY: as above.
        match unsafe { sapwood_lists_open_live(path.as_ptr(), flags, 0, &raw mut out) } {
            0 => Ok(Lists(out)),
            error => Err(error),
        }
    }

    fn ask(&self, name: &[u8], rtype: u16) -> (c_int, sapwood_verdict) {
        let name = CString::new(name).unwrap();
        let mut out = sapwood_verdict::default();
        // SAFETY: as above.
        let result = unsafe { sapwood_lists_ask(self.0, name.as_ptr(), rtype, &raw mut out) };
        (result, out)
    }

    /// What C gets, as a text.
    fn answer(&self, name: &str, rtype: u16) -> String {
        let (result, out) = self.ask(name.as_bytes(), rtype);
        assert!(result >= 0, "{name}: {}", message());
        // SAFETY: what it points to is valid until the next question.
        unsafe { shown(result, &out) }
    }
}

/// # Safety
/// The verdict was made by the last question.
unsafe fn shown(result: c_int, out: &sapwood_verdict) -> String {
    if result == 0 {
        assert!(out.rule.is_null() && out.records.is_null() && out.target.is_null());
        assert_eq!((out.action, out.list), (SAPWOOD_LISTS_PASS, -1));
        return "none".into();
    }
    // SAFETY: the caller's promise, here and below.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_str().unwrap();
    let mut shown = format!(
        "{} {} {} {} {} {}",
        out.action,
        out.list,
        out.rank,
        out.others,
        text(out.rule),
        text(out.list_name)
    );
    if !out.target.is_null() {
        shown += &format!(" -> {}", text(out.target));
    }
    for record in 0..out.count {
        // SAFETY: the library says that there are `count` records.
        let record = unsafe { &*out.records.add(record) };
        // SAFETY: the data of a record has `len` bytes.
        let data = unsafe { std::slice::from_raw_parts(record.data.cast::<u8>(), record.len) };
        shown += &format!(" {} {} {data:?}", record.rtype, record.ttl);
    }
    shown
}

/// The same of the crate's verdict.
fn expected(found: Option<&Verdict>, asked: &[u8], rtype: u16) -> String {
    let Some(found) = found else {
        return "none".into();
    };
    let words = [
        "nxdomain",
        "nodata",
        "refused",
        "drop",
        "truncate",
        "pass",
        "null",
        "addresses",
        "name",
        "records",
    ];
    let word = found.terms.action.word();
    let action = words.iter().position(|it| *it == word).unwrap();
    let list = found.terms.list;
    let mut shown = format!(
        "{action} {list} {} {} {} list {list}",
        found.terms.class as u8,
        found.others,
        found.name()
    );
    let answer = found.answer(asked, rtype).unwrap();
    if let Some(name) = &answer.name {
        let name = sapwood::key::dns_name_to_text(name).unwrap();
        shown += &format!(" -> {name}");
    }
    for record in &answer.records {
        shown += &format!(" {} {} {:?}", record.rtype, record.ttl, record.data);
    }
    shown
}

fn options() -> Options {
    Options {
        allow_empty: true,
        allow_shrunk: true,
        ..Options::default()
    }
}

fn random_sources(random: &mut fastrand::Rng) -> Vec<Source> {
    let source = |list| {
        let format = random.choice(Format::ALL).unwrap();
        let lines = random.usize(1..80);
        let (text, _) = random_list(random, format, list, lines);
        Source::text(format!("list {list}"), text).format(format)
    };
    (0..4).map(source).collect()
}

#[test]
fn random_lists_answer_as_the_crate_does() {
    let folder = tempfile::tempdir().unwrap();
    let (file, small, live) = (
        folder.path().join("map"),
        folder.path().join("small"),
        folder.path().join("live"),
    );
    let mut random = fastrand::Rng::with_seed(37);
    let store = Live::<QpStore<[u8]>>::create(&live).unwrap();
    let mut readers: Vec<Lists> = Vec::new();
    let mut answered = 0;
    for round in 0..40 {
        let sources = random_sources(&mut random);
        let load = || Loader::new(sources.clone(), options());
        let (map, _): (ListMap, _) = load().build().unwrap();
        map.save(&file).unwrap();
        let table = Fingerprints::with_seed(map.entries(), [7; 16]).unwrap();
        std::fs::write(&small, table.to_bytes()).unwrap();
        load().reload(&store).unwrap();
        if readers.is_empty() {
            // They stay open while the map changes.
            readers.extend([0, SAPWOOD_LIVE_CHECKED].map(|it| Lists::live(&live, it).unwrap()));
        }
        let opened = [(&file, 0), (&file, SAPWOOD_UNVERIFIED), (&small, 0)];
        let opened = opened.map(|(path, flags)| Lists::open(path, flags).unwrap());
        for _ in 0..100 {
            let name = random_name(&mut random, 6).join(".");
            let key = sapwood::key::dns_name(&name).unwrap();
            for (rtype, _) in TYPES {
                let found = map.verdict(name.as_ref(), rtype).unwrap();
                answered += usize::from(found.is_some());
                let expected = expected(found.as_ref(), &key, rtype);
                for (at, lists) in opened.iter().chain(&readers).enumerate() {
                    let about = format!("round {round}, {name} {rtype}, map {at}");
                    assert_eq!(lists.answer(&name, rtype), expected, "{about}");
                }
            }
        }
    }
    assert!(answered > 2000, "{answered}");
    let (dead, other) = (store.readers().len(), readers.len());
    assert_eq!(dead, other, "each reader is registered once");
    drop(readers);
    store.remove_map().unwrap();
}

#[test]
fn names_come_as_text_wire_and_key_and_what_is_none_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("ads");
    let text = "# ads\n||ads.example^\n||b\u{fc}cher.example^\n||long.example^$dnsrewrite=x.org\n";
    std::fs::write(&list, text).unwrap();
    let zone = "$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\n*.z.example CNAME *.walled.example.\n";
    let sources = vec![
        Source::file(&list),
        Source::text("zone", zone).format(Format::Rpz),
    ];
    let (map, _) = Loader::new(sources, options()).build().unwrap();
    let file = folder.path().join("map");
    map.save(&file).unwrap();
    let lists = Lists::open(&file, 0).unwrap();
    assert_eq!(lists.ask(b"x.ads.example.", 1).0, 1);
    let mut line = 0;
    // SAFETY: the arguments are as the header asks for, here and below.
    let result = unsafe { sapwood_lists_line(lists.0, &raw mut line) };
    assert_eq!((result, line), (0, 2));
    assert_eq!(lists.ask("www.B\u{dc}CHER.example".as_bytes(), 1).0, 1);
    assert_eq!(lists.ask(b"example", 1).0, 0);
    // SAFETY: as above.
    let result = unsafe { sapwood_lists_line(lists.0, &raw mut line) };
    assert_eq!(result, -libc::ENOENT, "no rule answered");
    assert!(
        lists
            .answer("a.z.example", 1)
            .ends_with("-> a.z.example.walled.example")
    );

    // Wire forms and keys.
    let mut out = sapwood_verdict::default();
    let (at, to) = (lists.0, &raw mut out);
    // SAFETY: as above.
    let wire = |bytes: &[u8], to| unsafe {
        sapwood_lists_ask_wire(at, bytes.as_ptr().cast(), bytes.len(), 1, to)
    };
    // SAFETY: as above.
    let key = |bytes: &[u8], to| unsafe {
        sapwood_lists_ask_key(at, bytes.as_ptr().cast(), bytes.len(), 1, to)
    };
    assert_eq!(wire(b"\x01X\x03aDs\x07example\0", to), 1);
    assert_eq!(wire(b"\x03org\0", to), 0);
    assert_eq!(key(b"example\0ads\0", to), 1);
    assert_eq!(key(b"", to), 0);
    assert_eq!(out.action, SAPWOOD_LISTS_PASS);

    // What is no name is refused, and the verdict stays as it was.
    out.action = 77;
    for wrong in [&b"\x03ads"[..], b"", b"\xc0\x0c", b"\x03ads\x07example\0\0"] {
        assert_eq!(wire(wrong, to), -libc::EINVAL, "{wrong:?}");
    }
    for wrong in [&b"\0lists"[..], b"example\0ads", b"\0"] {
        assert_eq!(key(wrong, to), -libc::EINVAL, "{wrong:?}");
    }
    assert_eq!(out.action, 77);
    let long = [["a"; 64].concat(), "ads.example".into()].join(".");
    for wrong in [&b"a..ads.example"[..], long.as_bytes(), b"\\9.ads.example"] {
        assert_eq!(lists.ask(wrong, 1).0, -libc::EINVAL, "{wrong:?}");
        assert!(
            message().starts_with("sapwood_lists_ask: "),
            "{}",
            message()
        );
    }
    // The question is a name, but the other name would be none.
    let labels = [["a"; 60].concat(), ["b"; 60].concat(), ["c"; 60].concat()];
    let long = format!("{}.{}.z.example", labels.join("."), "d".repeat(50));
    assert_eq!(lists.ask(long.as_bytes(), 1).0, -libc::E2BIG);
    // A structure of no known size.
    // SAFETY: it is the structure above.
    unsafe { (*to).size = 3 };
    assert_eq!(key(b"example\0ads\0", to), -libc::EINVAL);
}

#[test]
fn what_is_no_map_of_rules_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    assert_eq!(Lists::open(&path, 0).err(), Some(-libc::ENOENT));
    let mut names = sapwood::qp::QpMap::<[u8]>::new();
    names.insert("a", b"value").unwrap();
    names.save(&path).unwrap();
    for flags in [0, SAPWOOD_UNVERIFIED] {
        assert_eq!(Lists::open(&path, flags).err(), Some(-libc::EPROTO));
        assert!(
            message().contains("no map of \"sapwood lists\""),
            "{}",
            message()
        );
    }
    let list = Source::text("a", "ads.example\n");
    let (map, _) = Loader::new(vec![list.clone()], options()).build().unwrap();
    let mut table = Fingerprints::new(map.entries()).unwrap().to_bytes();
    let last = table.len() - 1;
    table[last] ^= 1;
    std::fs::write(&path, table).unwrap();
    assert_eq!(Lists::open(&path, 0).err(), Some(-libc::EPROTO));
    assert_eq!(Lists::open(&path, 1 << 20).err(), Some(-libc::EINVAL));

    // A live map that is not there, another one, and one that is removed and made again.
    let live = folder.path().join("live");
    assert_eq!(Lists::live(&live, 0).err(), Some(-libc::ENOENT));
    let store = Live::<QpStore<[u8]>>::create(&live).unwrap();
    for flags in [0, SAPWOOD_LIVE_CHECKED] {
        assert_eq!(Lists::live(&live, flags).err(), Some(-libc::EPROTO));
    }
    let load = |store: &Live<QpStore<[u8]>>| {
        let mut loader = Loader::new(vec![list.clone()], options());
        loader.reload(store).unwrap();
    };
    load(&store);
    let readers = [0, SAPWOOD_LIVE_CHECKED].map(|flags| Lists::live(&live, flags).unwrap());
    readers
        .iter()
        .for_each(|it| assert_eq!(it.ask(b"ads.example", 1).0, 1));
    store.remove_map().unwrap();
    for reader in &readers {
        assert_eq!(
            reader.ask(b"ads.example", 1).0,
            -libc::ENOENT,
            "not \"not listed\""
        );
    }
    std::thread::sleep(Duration::from_millis(1));
    let store = Live::<QpStore<[u8]>>::create(&live).unwrap();
    load(&store);
    readers
        .iter()
        .for_each(|it| assert_eq!(it.ask(b"ads.example", 1).0, 1));
    drop(readers);
    store.remove_map().unwrap();
}
