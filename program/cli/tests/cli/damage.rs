//! Files that are not sound maps: every command reports the fault and fails, and none crashes.

use crate::common::Scratch;

/// All commands that open a map, each with its arguments.
const QUERIES: [&[&str]; 10] = [
    &["names", "get", "bad", "key"],
    &["names", "has", "bad", "key"],
    &["names", "prefix", "bad", "k"],
    &["names", "range", "bad"],
    &["names", "next", "bad", "k"],
    &["names", "prev", "bad", "k"],
    &["names", "longest", "bad", "key"],
    &["names", "count", "bad"],
    &["names", "stats", "bad"],
    &["names", "diff", "good", "bad"],
];

fn good() -> (Scratch, Vec<u8>) {
    let s = Scratch::new();
    let text: String = (0..3000).map(|i| format!("key number {i}\n")).collect();
    s.build("good", text);
    let bytes = std::fs::read(s.path("good")).unwrap();
    (s, bytes)
}

#[test]
fn what_cannot_be_read() {
    let (s, _) = good();
    std::fs::create_dir(s.path("folder")).unwrap();
    for query in QUERIES {
        s.run(query)
            .code(2)
            .out("")
            .complains("sapwood: cannot read bad: No such file or directory");
    }
    s.run(&["names", "verify", "bad"]).code(2);
    s.run(&["names", "count", "folder"])
        .code(2)
        .complains("cannot read folder: is a directory");
    s.run(&["names", "count", "/dev/null"])
        .code(2)
        .complains("/dev/null: not a regular file");
}

#[test]
fn what_is_no_map() {
    let (s, bytes) = good();
    let half = &bytes[..bytes.len() / 2];
    let mut foreign = bytes.clone();
    foreign[16] ^= 1;
    for (contents, why) in [
        (&b""[..], "too short"),
        (b"some text", "too short"),
        (&b"text ".repeat(2000), "not a sapwood memory"),
        (half, "bytes, but the header says"),
        (&bytes[..bytes.len() - 1], "bytes, but the header says"),
        (
            &[&bytes[..], b"more"].concat(),
            "bytes, but the header says",
        ),
        (&foreign, ""),
    ] {
        s.file("bad", contents);
        for query in QUERIES {
            s.run(query)
                .code(2)
                .out("")
                .complains("sapwood: bad: not a sound map: ")
                .complains(why);
        }
        s.run(&["names", "verify", "bad"])
            .code(1)
            .says("bad: not a sound map: ")
            .says(why);
        let documents = s.run(&["names", "verify", "bad", "--json"]).documents();
        assert_eq!(documents[0]["ok"], false);
        assert!(documents[0]["error"].as_str().unwrap().contains(why));
    }
}

#[test]
fn flipped_bits() {
    let (s, bytes) = good();
    s.run(&["names", "verify", "good"])
        .code(0)
        .says("good: ok: 3000 entries");
    for i in 0..40 {
        let mut flipped = bytes.clone();
        let at = if i < 20 {
            i * 7
        } else {
            i * (bytes.len() - 1) / 40
        };
        flipped[at] ^= 1 << (i % 8);
        s.file("bad", flipped);
        s.run(&["names", "verify", "bad"])
            .code(1)
            .says("bad: not a sound map: ");
        s.run(&["names", "get", "bad", "key number 7"])
            .code(2)
            .out("")
            .complains("sapwood: bad: not a sound map: ");
    }
}

#[test]
fn without_verification_damage_does_no_harm() {
    let (s, bytes) = good();
    s.run(&["names", "get", "--no-verify", "good", "key number 7"])
        .code(0)
        .out("8\n");
    for i in 0..30 {
        let mut garbled = bytes.clone();
        let from = 4096 + i * (bytes.len() - 4200) / 30;
        garbled[from..from + 64].fill(0xff);
        s.file("bad", garbled);
        for query in [
            &["names", "range", "bad", "--no-verify"][..],
            &["names", "prev", "bad", "key number 5", "--no-verify"],
            &[
                "names",
                "longest",
                "bad",
                "key number 55",
                "--all",
                "--no-verify",
            ],
        ] {
            let code = s.run(query).0.status.code();
            assert!(matches!(code, Some(0..=2)), "{query:?}: {code:?}");
        }
    }
}
