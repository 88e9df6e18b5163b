//! `sapwood names build`: good and bad input, and the files that it leaves.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::Scratch;

#[test]
fn lines_and_numbers() {
    let s = Scratch::new();
    s.file("text", "elm\noak\t7\n\nash\t18446744073709551615\na\tb\t3");
    let ran = s.run(&["names", "build", "text", "-o", "map"]);
    ran.code(0)
        .out("")
        .complains("map: 4 keys of 12 bytes in a file of ")
        .complains("; 1 lines empty");
    // A key without a number gets the number of its line.
    s.run(&["names", "prefix", "map", ""])
        .code(0)
        .out("a\tb\t3\nash\t18446744073709551615\nelm\t1\noak\t7\n");
    assert_eq!(s.names(), ["map", "text"]);
}

#[test]
fn whole_records_as_keys() {
    let s = Scratch::new();
    let ran = s.run_with(
        &["names", "build", "-0", "--keys-only", "-", "-o", "map"],
        b"a\tb\0c\nd\0",
    );
    ran.code(0);
    s.run(&["names", "prefix", "map", "", "--null"])
        .code(0)
        .out("a\tb\t1\0c\nd\t2\0");
}

#[test]
fn quiet_says_nothing() {
    let s = Scratch::new();
    let ran = s.run_with(&["names", "build", "-q", "-", "-o", "map"], b"a\nb\n");
    ran.code(0).out("").quiet();
}

#[test]
fn bad_lines_are_reported_and_left_out() {
    let s = Scratch::new();
    let long = "x".repeat(65_536);
    let very_long = "y".repeat(300_000);
    let longest = "z".repeat(65_535);
    let text = format!(
        "a\n{long}\nb\tten\n{very_long}\n{longest}\nc\t18446744073709551616\nd\t-1\nlast\t\n{longest}\t8"
    );
    s.file("text", text);
    let ran = s.run(&["names", "build", "text", "-o", "map"]);
    ran.code(0)
        .complains("text: line 2: key of 65536 bytes is too long (the limit is 65,535); left out")
        .complains("text: line 3: \"ten\" after the tab is not a number; left out")
        .complains("text: line 4: key of 300001 bytes is too long")
        .complains("text: line 6: 18446744073709551616 does not fit 64 bits")
        .complains("text: line 7: \"-1\" after the tab is not a number")
        .complains("text: line 8: \"\" after the tab is not a number")
        .complains("map: 2 keys of 65536 bytes")
        .complains("; 1 lines came again, the last one won; 6 lines bad and left out");
    s.run(&["names", "get", "map", &longest]).code(0).out("8\n");
}

#[test]
fn strict_stops_at_the_first() {
    let s = Scratch::new();
    s.file("text", "a\nb\tx\nc\ty\n");
    let ran = s.run(&["names", "build", "--strict", "text", "-o", "map"]);
    ran.code(2)
        .out("")
        .complains("sapwood: text: line 2: \"x\" after the tab is not a number\n");
    assert_eq!(s.names(), ["text"]);
    let ran = s.run_with(
        &["names", "build", "--strict", "-0", "-", "-o", "map"],
        b"a\0b\tx\0",
    );
    ran.code(2).complains("standard input: record 2: ");
}

#[test]
fn reports_have_an_end() {
    let s = Scratch::new();
    let ran = s.build("map", "k\tbad\n".repeat(50));
    assert_eq!(ran.stderr().matches("; left out").count(), 20, "{ran}");
    ran.complains("standard input: 30 more bad lines, left out")
        .complains("50 lines bad and left out");
}

#[test]
fn duplicates_the_last_wins() {
    let s = Scratch::new();
    let ran = s.build("map", "a\t1\nb\t2\na\t3\na\t4\n");
    ran.complains("2 keys of 2 bytes")
        .complains("2 lines came again, the last one won");
    s.run(&["names", "get", "map", "a"]).code(0).out("4\n");
}

#[test]
fn any_bytes_are_keys() {
    let s = Scratch::new();
    s.build("map", b"\xff\xfe\n\x00\x01\n\t5\n");
    s.run(&["names", "prefix", "map", ""])
        .code(0)
        .out(b"\t5\n\x00\x01\t2\n\xff\xfe\t1\n");
}

#[test]
fn carriage_returns() {
    let s = Scratch::new();
    s.build("map", "a\r\nb\t2\r\n")
        .complains("\"2\\r\" after the tab is not a number")
        .complains("warning: 2 lines end in a carriage return");
    let ran = s.run_with(
        &["names", "build", "--crlf", "-", "-o", "map"],
        b"a\r\nb\t2\r\n\r\n",
    );
    ran.code(0);
    assert!(!ran.stderr().contains("warning"), "{ran}");
    s.run(&["names", "prefix", "map", ""]).out("a\t1\nb\t2\n");
}

#[test]
fn domain_names() {
    let s = Scratch::new();
    let text = "example\nZ.a.example\nyljkjljk.a.example\na.example\nz.example\n*.z.example\na..b\nA.EXAMPLE.\n.\n";
    s.file("text", text);
    s.run(&["names", "build", "--dns", "text", "-o", "map"])
        .code(0)
        .complains("text: line 7: \"a..b\" is not a domain name: empty label at byte 2; left out")
        .complains("1 lines came again");
    let order = ".\t9\nexample\t1\na.example\t8\nyljkjljk.a.example\t3\nz.a.example\t2\nz.example\t5\n*.z.example\t6\n";
    s.run(&["names", "prefix", "--dns", "map", "."])
        .code(0)
        .out(order)
        .quiet();
    let long = format!("{}.org", "x".repeat(64));
    s.run_with(
        &["names", "build", "--dns", "--strict", "-", "-o", "map"],
        long.as_bytes(),
    )
    .code(2)
    .complains("label of more than 63 bytes");
}

#[test]
fn an_empty_text_makes_an_empty_map() {
    let s = Scratch::new();
    s.file("text", "");
    s.run(&["names", "build", "text", "-o", "map"])
        .code(0)
        .complains("text: warning: no keys, map is an empty map");
    s.run(&["names", "count", "map"]).code(0).out("0\n");
    s.run(&["names", "verify", "map"])
        .code(0)
        .says("ok: 0 entries");
    s.run(&["names", "prefix", "map", ""]).code(0).out("");
    s.run(&["names", "next", "map", ""]).code(1).out("");
    s.run(&["names", "stats", "map"]).code(0);
}

#[test]
fn inputs_that_cannot_be_read() {
    let s = Scratch::new();
    s.file("old", "precious");
    s.run(&["names", "build", "nothing", "-o", "old"])
        .code(2)
        .complains("sapwood: cannot read nothing: No such file or directory");
    s.run(&["names", "build", ".", "-o", "old"])
        .code(2)
        .complains("sapwood: cannot read .: is a directory");
    let locked = s.file("locked", "a\n");
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o0)).unwrap();
    // Root may read every file.
    if std::fs::read(&locked).is_err() {
        s.run(&["names", "build", "locked", "-o", "old"])
            .code(2)
            .complains("sapwood: cannot read locked: Permission denied");
    }
    assert_eq!(std::fs::read(s.path("old")).unwrap(), b"precious");
    assert_eq!(s.names(), ["locked", "old"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let s = Scratch::new();
    s.file("text", "a\n");
    std::fs::create_dir(s.path("folder")).unwrap();
    symlink("nowhere", s.path("dangling")).unwrap();
    for (output, why) in [
        ("folder", "cannot write folder: is a directory"),
        (".", "cannot write .: is a directory"),
        (
            "none/map",
            "cannot write none/map: No such file or directory",
        ),
        ("text/map", "cannot write text/map: "),
        ("/dev/null", "cannot write /dev/null: not a regular file"),
        ("text", "cannot write text: it is the input"),
        (
            "dangling",
            "cannot write dangling: it is a link to something that is not there",
        ),
        ("-", "-o must name a file"),
    ] {
        s.run(&["names", "build", "text", "-o", output])
            .code(2)
            .out("")
            .complains(why);
    }
    assert_eq!(std::fs::read(s.path("text")).unwrap(), b"a\n");
    assert_eq!(s.names(), ["dangling", "folder", "text"]);
}

#[test]
fn a_link_stays_a_link() {
    let s = Scratch::new();
    s.file("real", "old");
    symlink("real", s.path("link")).unwrap();
    s.build("link", "a\n");
    assert!(s.path("link").is_symlink());
    s.run(&["names", "count", "real"]).code(0).out("1\n");
}

/// The unit of the shell's limit on the size of files is 512 or 1024 bytes.
#[test]
fn a_file_that_grows_too_large_leaves_nothing() {
    let s = Scratch::new();
    let text: String = (0..20_000).map(|i| format!("key number {i}\n")).collect();
    s.file("text", text);
    s.file("map", "precious");
    s.shell("ulimit -f 64; exec \"$0\" names build text -o map")
        .code(2)
        .complains("sapwood: cannot write map: File too large");
    assert_eq!(std::fs::read(s.path("map")).unwrap(), b"precious");
    assert_eq!(s.names(), ["map", "text"]);
}

#[test]
fn a_full_disk_leaves_nothing() {
    let s = Scratch::new();
    let text: String = (0..20_000).map(|i| format!("key number {i}\n")).collect();
    s.file("text", text);
    std::fs::create_dir(s.path("small")).unwrap();
    let script = "unshare -rm sh -c '
        mount -t tmpfs -o size=128k none small || exit 77
        echo precious > small/map
        \"$0\" names build text -o small/map; code=$?
        cat small/map; ls -A small; exit $code' \"$0\" || exit $?";
    let ran = s.shell(script);
    if ran.0.status.code() != Some(2) || !ran.stderr().contains("sapwood") {
        eprintln!("skipped: this system allows no file system of one's own: {ran}");
        return;
    }
    ran.complains("sapwood: cannot write small/map: No space left on device")
        .out("precious\nmap\n");
}
