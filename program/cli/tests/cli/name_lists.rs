//! Plain lists of domain names: what their lines mean, and what no list means.

use serde_json::json;

use crate::common::{Ran, Scratch};

/// Builds the map `map` of domain names from a text.
fn build(s: &Scratch, text: impl AsRef<[u8]>) -> Ran {
    s.run_with(
        &["names", "build", "--dns", "-", "-o", "map"],
        text.as_ref(),
    )
}

/// The names of the map `map`, in the order of their numbers.
fn names(s: &Scratch) -> Vec<String> {
    let ran = s.run(&["names", "range", "--dns", "map", "--json"]);
    let mut found = ran.code(0).documents();
    found.sort_by_key(|entry| entry["value"].as_u64());
    let names = found.iter().map(|entry| entry["key"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[test]
fn comments_marks_and_spaces_are_no_part_of_a_name() {
    let s = Scratch::new();
    let text = "\u{feff}# blocked\r\n; since May\r\na.example # note\r\n  b.example \t\r\n\r\n\
                \tc.example;d.example\n_dmarc.example\t7 # note\ne.example \t 8 ; note\nf.example";
    build(&s, text)
        .code(0)
        .complains("line 6: \"c.example;d.example\" is not a domain name: no host name has the ;")
        .complains("map: 5 keys of ")
        .complains("; 3 lines empty or comments; 1 lines bad and left out");
    assert!(!build(&s, text).stderr().contains("carriage return"));
    assert_eq!(
        names(&s),
        [
            "a.example",
            "b.example",
            "_dmarc.example",
            "e.example",
            "f.example"
        ]
    );
    s.run(&[
        "names",
        "get",
        "--dns",
        "map",
        "_dmarc.example",
        "e.example",
    ])
    .code(0)
    .out("_dmarc.example\t7\ne.example\t8\n");
    // A mark alone, and a mark before the first name.
    build(&s, "\u{feff}").code(0).complains("no keys");
    build(&s, "\u{feff}a.example\n").code(0);
    assert_eq!(names(&s), ["a.example"]);
    s.run_with(
        &["names", "build", "-0k", "--dns", "-", "-o", "map"],
        "\u{feff}a.example \0# note\0b.example\t\0".as_bytes(),
    )
    .code(0);
    assert_eq!(names(&s), ["a.example", "b.example"]);
}

#[test]
fn values_keep_what_looks_like_a_comment() {
    let s = Scratch::new();
    let text = "a.example\tblock ; why #1\r\nb.example \t# red\nc.example # note\twith a tab\n";
    let args = [
        "names", "build", "--dns", "--values", "text", "-", "-o", "map",
    ];
    s.run_with(&args, text.as_bytes()).code(0);
    s.run(&[
        "names",
        "get",
        "--dns",
        "map",
        "a.example",
        "b.example",
        "c.example",
    ])
    .code(0)
    .out("a.example\tblock ; why #1\nb.example\t# red\nc.example\t\n");
}

#[test]
fn names_in_other_scripts_are_found_however_they_are_written() {
    let s = Scratch::new();
    build(
        &s,
        "\u{e4}b.example\nXN--BCHER-KVA.example\n*.\u{4f8b}\u{3048}.test\n",
    )
    .code(0);
    assert_eq!(
        names(&s),
        [
            "xn--b-zfa.example",
            "xn--bcher-kva.example",
            "*.xn--r8jz45g.test"
        ]
    );
    for name in [
        "\u{e4}b.example",
        "\u{c4}B.example.",
        "xn--b-zfa.example",
        "a\u{308}b.example",
    ] {
        s.run(&["names", "get", "--dns", "map", name])
            .code(0)
            .out("1\n");
    }
    let queries = "www.b\u{fc}cher.example\n\u{feff}x.\u{4f8b}\u{3048}.test # note\r\n";
    s.run_with(
        &["names", "longest", "--dns", "map", "-"],
        queries.as_bytes(),
    )
    .code(0)
    .out(
        "www.b\u{fc}cher.example\txn--bcher-kva.example\t2\n\
             x.\u{4f8b}\u{3048}.test\t*.xn--r8jz45g.test\t3\n",
    );
    build(&s, "a.example\n\u{e4}\u{fffd}.example\n")
        .code(0)
        .complains("line 2: \"\u{e4}\u{fffd}.example\" is not a domain name: IDNA allows no such");
    s.run(&["names", "prefix", "--dns", "map", "\u{e4}\u{fffd}"])
        .code(2)
        .complains("IDNA allows no such label");
}

#[test]
fn what_no_host_name_has_is_refused_unless_escaped() {
    let s = Scratch::new();
    let good = r"\124\124x.example
a\/b.example
good.example
other.example
third.example
";
    let bad = "||x.example^\na b.example\n0/25.example\na*.example\n192.0.2.1\n";
    let ran = build(&s, format!("{good}{bad}"));
    ran.code(0)
        .complains("line 6: \"||x.example^\" is not a domain name: no host name has the | at byte 0")
        .complains("line 7: \"a b.example\" is more than one name")
        .complains("line 8: \"0/25.example\" is not a domain name: no host name has the / at byte 1 (\\/ if it is meant)")
        .complains("line 9: \"a*.example\" is not a domain name: a * is a wildcard only as the first label")
        .complains("line 10: \"192.0.2.1\" is not a domain name: it is an address")
        .complains("; 5 lines bad and left out");
    // What is printed is read again as it was.
    let printed = s.run(&["names", "range", "--dns", "map"]);
    printed
        .code(0)
        .says("a\\/b.example\t2\n")
        .says("\\|\\|x.example\t1\n");
    s.run_with(
        &["names", "build", "--dns", "--strict", "-", "-o", "again"],
        &printed.0.stdout,
    )
    .code(0);
    s.run(&["names", "diff", "--dns", "map", "again"])
        .code(0)
        .out("");
    // Questions may have any characters.
    s.run(&[
        "names",
        "longest",
        "--dns",
        "map",
        "a/c.good.example",
        "a/b.example",
    ])
    .code(0)
    .out("a/c.good.example\tgood.example\t3\na/b.example\ta\\/b.example\t2\n");
    let strict = ["names", "build", "--dns", "--strict", "-", "-o", "none"];
    s.run_with(&strict, format!("{good}{bad}").as_bytes())
        .code(2)
        .complains("sapwood: standard input: line 6: \"||x.example^\" is not a domain name");
    assert!(!s.path("none").exists());
}

#[test]
fn wildcards_stand_for_all_names_below() {
    let s = Scratch::new();
    build(&s, "*.a.example\na.example\n*.b.example\nc.b.example\n").code(0);
    let longest = |name: &str| s.run(&["names", "longest", "--dns", "map", name]);
    longest("x.a.example").code(0).out("*.a.example\t1\n");
    longest("y.x.a.example").code(0).out("*.a.example\t1\n");
    longest("a.example").code(0).out("a.example\t2\n");
    longest("*.a.example").code(0).out("*.a.example\t1\n");
    longest("x.*.a.example").code(0).out("*.a.example\t1\n");
    longest("b.example").code(1).out("");
    longest("x.b.example").code(0).out("*.b.example\t3\n");
    longest("x.c.b.example").code(0).out("c.b.example\t4\n");
    longest("other.example").code(1).out("");
    s.run(&["names", "longest", "--dns", "map", "y.x.a.example", "--all"])
        .code(0)
        .out("a.example\t2\n*.a.example\t1\n");
    let ran = s.run(&[
        "names",
        "longest",
        "--dns",
        "map",
        "x.c.b.example",
        "-a",
        "--json",
    ]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"query": "x.c.b.example", "found": [
            {"key": "*.b.example", "value": 3}, {"key": "c.b.example", "value": 4}
        ]})]
    );
    s.run(&["names", "get", "--dns", "map", "x.a.example"])
        .code(1);
    // One wildcard for all names.
    build(&s, "*\n").code(0);
    longest("a.example").code(0).out("*\t1\n");
    longest(".").code(1);
}

#[test]
fn a_file_of_another_form_is_an_error_that_names_the_form() {
    let s = Scratch::new();
    s.file("map", "precious");
    for (text, lines, form) in [
        (&b"# hosts\n127.0.0.1 localhost\n0.0.0.0\ta.example\n::1 b.example c.example\n"[..], 3,
            "it looks like a hosts file"),
        (b"[Adblock Plus]\n! Title: x\n||a.example^\n@@||b.example^$important\nc.example\n", 5,
            "it looks like a list for AdGuard or another ad blocker"),
        (b"address=/a.example/0.0.0.0\nserver=/b.example/\n", 2, "it looks like a list for dnsmasq"),
        (b"server:\nlocal-zone: \"a.example\" always_nxdomain\n", 2,
            "it looks like a list for Unbound"),
        (b"$TTL 60\n@ SOA ns. root. 1 2 3 4 5\n@ NS ns.\na.example CNAME .\n*.a.example CNAME .\n",
            5, "it looks like a response policy zone (RPZ)"),
        (b"$ORIGIN example.\n@ IN SOA ns root (\n 1 2 3 4 5 )\nwww IN A 192.0.2.1\n", 4,
            "it looks like a zone file"),
        (b"<!DOCTYPE html>\n<html><body>\n<p>404</p>\n", 3, "it looks like a page of the web (HTML)"),
        (b"\xff\xfea\0.\0b\0\n\0c\0\n\0", 3, "it looks like a text in UTF-16, not in UTF-8"),
        (b"\x1f\x8b\x08\0\0\0\0\0\n\x03\xff\xfe\n", 2, "it looks like a binary or compressed file"),
        (b"what is this\n", 1, "lines have no name; a plain list has one name in each line"),
    ] {
        for quiet in [&[][..], &["--quiet"]] {
            s.file("list", text);
            let args = [&["names", "build", "--dns", "list", "-o", "map"][..], quiet].concat();
            let ran = s.run(&args);
            ran.code(2)
                .out("")
                .complains(&format!("of {lines} lines have no name"))
                .complains(form)
                .complains("list: line ");
        }
        assert_eq!(std::fs::read(s.path("map")).unwrap(), b"precious");
        assert_eq!(s.names(), ["list", "map"]);
    }
    // The first few are named, the others counted.
    let many = "0.0.0.0 x.example\n".repeat(30) + "a.example\n";
    let ran = build(&s, many);
    ran.code(2)
        .complains("standard input: 30 of 31 lines have no name, it looks like a hosts");
    assert_eq!(ran.stderr().matches("; left out").count(), 20, "{ran}");
    // As many good ones as bad ones are a list.
    build(&s, "a.example\nb c\n").code(0);
}

#[test]
fn a_live_map_keeps_its_names_when_its_list_becomes_another_form() {
    let s = Scratch::new();
    s.file("list", "a.example # note\n\u{e4}b.example\n");
    let commands = "get \u{c4}B.example\n\
                    add ||x^ 7\n\
                    add \u{fc}.example 8\n\
                    get xn--tda.example\n\
                    reload\n\
                    get a.example\n\
                    quit\n";
    std::fs::write(s.path("commands"), commands).unwrap();
    // The list changes before it is read again, and after the map is there.
    let ran = s.shell(
        "{ while [ ! -e live/control ]; do sleep 0.05; done; echo '0.0.0.0 a.example' > list; \
         cat commands; } | exec \"$0\" names serve --dns list --live live",
    );
    ran.code(0)
        .out(
            "found\txn--b-zfa.example\t2\nadded\txn--tda.example\nfound\txn--tda.example\t8\n\
             found\ta.example\t1\n",
        )
        .complains("\"||x^\" is not a domain name")
        .complains("list: 1 of 1 lines have no name, it looks like a hosts file; a plain list has")
        .complains("the map stays as it was");
}

#[test]
fn a_published_list_is_read_alike() {
    let s = Scratch::new();
    let list = "\u{feff}a.example\tblock\r\n\u{e4}b.example\tallow # why\n; nothing\n";
    s.file("list", list);
    let publish = |commands: &str| {
        let args = [
            "sync", "publish", "names", "--dns", "--values", "text", "list", "--map", "m",
            "--folder", "log",
        ];
        s.run_with(&args, commands.as_bytes())
    };
    publish("get a.example\nget \u{e4}b.example\nadd ||x^ block\nquit\n")
        .code(0)
        .out("found\ta.example\tblock\nfound\txn--b-zfa.example\tallow # why\n")
        .complains("\"||x^\" is not a domain name");
    s.file("list", "0.0.0.0 a.example\n0.0.0.0 b.example\n");
    publish("quit\n")
        .code(2)
        .complains("2 of 2 lines have no name, it looks like a hosts file");
}
