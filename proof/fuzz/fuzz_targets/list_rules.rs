//! Block lists in all formats: any text is rules or an error. A map that is changed from one text
//! to another has the bytes of one that is made of the second text, and its values are sound.
#![no_main]

use std::ops::Bound;

use libfuzzer_sys::fuzz_target;
use sapwood::qp::QpStore;
use sapwood_lists::{Fingerprints, Format, Loader, Options, Source, check, rule_entries, verdict};

/// What the inputs that begin with an odd byte are made of: pieces of lists.
const PIECES: [&str; 48] = [
    "a",
    "b",
    "x",
    ".",
    ".",
    "*.",
    "||",
    "^",
    "^",
    "|",
    "@@",
    "$",
    "important",
    "badfilter",
    "dnstype=A",
    "dnstype=~AAAA",
    "denyallow=a.x",
    "dnsrewrite=",
    ",",
    "192.0.2.1",
    "::1",
    "0.0.0.0 ",
    " ",
    "\n",
    "\n",
    "\n",
    "\n",
    "\"",
    "(",
    ")",
    ";",
    " CNAME .",
    " CNAME *.",
    " CNAME rpz-passthru.",
    " A 192.0.2.2",
    "local-zone: ",
    "local-data: ",
    " redirect",
    " refuse",
    " transparent",
    "address=/",
    "server=/",
    "/",
    "/#",
    "#",
    "\u{fc}",
    "$ORIGIN x.",
    "\\",
];

/// The lists of a text: two, of the formats that a byte says.
fn lists(formats: u8, text: &[u8]) -> Vec<Source> {
    let middle = text.len() / 2;
    let cut = text[middle..].iter().position(|byte| *byte == b'\n');
    let (first, second) = text.split_at(cut.map_or(text.len(), |cut| middle + cut));
    let format = |n: u8| Format::ALL[usize::from(n) % Format::ALL.len()];
    vec![
        Source::text("first", first).format(format(formats)),
        Source::text("second", second).format(format(formats / 6)),
    ]
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, formats, rest @ ..] = bytes else {
        return;
    };
    let made: Vec<u8>;
    let text = match kind % 2 {
        1 => {
            let pieces = rest
                .iter()
                .map(|byte| PIECES[usize::from(*byte) % PIECES.len()].as_bytes());
            made = pieces.flatten().copied().collect();
            &made
        }
        _ => rest,
    };
    let _ = Format::of_text(text, true);
    let options = Options {
        allow_empty: true,
        allow_shrunk: true,
        ..Options::default()
    };
    let (before, after) = text.split_at(text.len() / 3);
    let store = QpStore::<[u8]>::builder().build_inline().unwrap();
    let _ = Loader::new(lists(*formats, before), options.clone()).reload(&store);
    let was = store.version();
    let changed = Loader::new(lists(*formats, after), options.clone()).reload(&store);
    let built = Loader::new(lists(*formats, after), options).build();
    let (map, summary) = match (changed, built) {
        (Ok(changed), Ok((map, built))) => {
            assert_eq!(changed.meta, built.meta);
            (map, built)
        }
        (Err(changed), Err(built)) => {
            assert_eq!(changed.to_string(), built.to_string());
            assert_eq!(store.version(), was);
            return;
        }
        (changed, built) => panic!("{changed:?} {built:?}"),
    };
    assert_eq!(check(map.entries()).as_ref(), Ok(&summary.meta));
    let all = || (Bound::Unbounded, Bound::Unbounded);
    let built: Vec<_> = map
        .entries()
        .range(all())
        .map(|(k, v)| (k.to_vec(), v))
        .collect();
    let snapshot = store.snapshot();
    let loaded: Vec<_> = snapshot.iter().map(|(k, v)| (k.to_vec(), v)).collect();
    assert_eq!(built, loaded);
    let small = Fingerprints::with_seed(map.entries(), [0; 16]).unwrap();
    for (key, _) in rule_entries(map.entries()) {
        for rtype in [1, 28] {
            let found = verdict(map.entries(), &summary.meta, &key, rtype).unwrap();
            assert_eq!(small.verdict(&key, rtype), found);
        }
    }
});
