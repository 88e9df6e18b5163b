//! `sapwood routes`: building, queries, formats, exit codes, damaged files.

use std::io::Write;

use crate::common::{Ran, Scratch};
use serde_json::json;

const TEXT: &str = "# A few routes.
0.0.0.0/0       192.0.2.1
10.0.0.0/8      192.0.2.2   # twice
10.1.0.0/16     dev eth0
10.1.2.3        192.0.2.3
10.0.0.0/8      192.0.2.1

2001:db8::/32   2001:db8::1
2001:db8:1::/48
";

/// Builds the table `name` from a text, and expects exit code 0.
fn build(s: &Scratch, name: &str, text: impl AsRef<[u8]>) -> Ran {
    let ran = s.run_with(&["routes", "build", "-", "-o", name], text.as_ref());
    ran.code(0).out("");
    ran
}

fn table() -> Scratch {
    let s = Scratch::new();
    build(&s, "t", TEXT);
    s
}

#[test]
fn build_says_what_it_made() {
    let s = Scratch::new();
    s.file("text", TEXT);
    s.run(&["routes", "build", "text", "-o", "t"])
        .code(0)
        .out("")
        .complains("sapwood: t: 6 routes by 5 next hops in a file of ")
        .complains("bytes; 1 prefixes came again, the last one won; read as lines of prefixes and next hops\n");
    s.run(&["routes", "build", "-q", "text", "-o", "t"])
        .code(0)
        .quiet();
    build(&s, "empty", "# nothing\n")
        .complains("standard input: warning: no routes, empty is an empty table")
        .complains("empty: 0 routes by 0 next hops");
    s.run(&["routes", "export", "empty"]).code(0).out("");
    s.run(&["routes", "stats", "empty"]).code(0);
    s.run(&["routes", "lookup", "empty", "::"]).code(1);
}

#[test]
fn lookup() {
    let s = table();
    s.run(&["routes", "lookup", "t", "10.1.2.3"])
        .code(0)
        .out("10.1.2.3/32\t192.0.2.3\n")
        .quiet();
    s.run(&["routes", "lookup", "t", "10.1.2.4", "8.8.8.8", "2001:db8:1::1"])
        .code(0)
        .out("10.1.2.4\t10.1.0.0/16\tdev eth0\n8.8.8.8\t0.0.0.0/0\t192.0.2.1\n2001:db8:1::1\t2001:db8:1::/48\n");
    s.run(&["routes", "lookup", "t", "10.1.2.3", "--all"])
        .code(0)
        .out("0.0.0.0/0\t192.0.2.1\n10.0.0.0/8\t192.0.2.1\n10.1.0.0/16\tdev eth0\n10.1.2.3/32\t192.0.2.3\n");
    s.run(&["routes", "lookup", "t", "2001:db9::1", "2001:db8::9"])
        .code(1)
        .out("2001:db8::9\t2001:db8::/32\t2001:db8::1\n")
        .complains("sapwood: no route to 2001:db9::1\n");
    // The default route of one family does not cover addresses of the other.
    s.run(&["routes", "lookup", "t", "::", "--all"])
        .code(1)
        .out("");
    s.run_with(&["routes", "lookup", "t", "-"], b" 10.9.9.9\r\n\n10.1.2.3")
        .code(0)
        .out("10.9.9.9\t10.0.0.0/8\t192.0.2.1\n10.1.2.3\t10.1.2.3/32\t192.0.2.3\n");
    s.run(&["routes", "lookup", "t", "10.1"])
        .code(2)
        .complains("sapwood: \"10.1\" is not an address");
    s.run_with(&["routes", "lookup", "t", "-"], b"10.0.0.1\nhost\n")
        .code(2)
        .complains("sapwood: standard input: line 2: \"host\" is not an address");
    s.run(&["routes", "lookup", "t"])
        .code(2)
        .complains("<ADDR>");
    s.run(&["routes", "lookup", "t", "--no-verify", "10.9.9.9"])
        .code(0)
        .out("10.0.0.0/8\t192.0.2.1\n");
}

#[test]
fn lookup_in_json() {
    let s = table();
    let ran = s.run(&[
        "routes",
        "lookup",
        "t",
        "10.1.2.4",
        "2001:db8:1::1",
        "::1",
        "--json",
    ]);
    assert_eq!(
        ran.code(1).quiet().documents(),
        [
            json!({"query": "10.1.2.4", "found": {"prefix": "10.1.0.0/16", "next_hop": "dev eth0"}}),
            json!({"query": "2001:db8:1::1", "found": {"prefix": "2001:db8:1::/48", "next_hop": null}}),
            json!({"query": "::1", "found": null}),
        ]
    );
    let ran = s.run(&["routes", "lookup", "t", "10.2.0.0", "--all", "--json"]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"query": "10.2.0.0", "found": [
            {"prefix": "0.0.0.0/0", "next_hop": "192.0.2.1"},
            {"prefix": "10.0.0.0/8", "next_hop": "192.0.2.1"},
        ]})]
    );
}

#[test]
fn routes_that_cover_prefixes_and_routes_inside() {
    let s = table();
    s.run(&["routes", "covering", "t", "10.1.0.0/16"])
        .code(0)
        .out("0.0.0.0/0\t192.0.2.1\n10.0.0.0/8\t192.0.2.1\n10.1.0.0/16\tdev eth0\n")
        .quiet();
    s.run(&["routes", "covered", "t", "10.0.0.0/8"])
        .code(0)
        .out("10.0.0.0/8\t192.0.2.1\n10.1.0.0/16\tdev eth0\n10.1.2.3/32\t192.0.2.3\n")
        .quiet();
    // The prefix need not be in the table, and an address is one of all its bits.
    s.run(&["routes", "covered", "t", "10.1.2.0/24", "2001:db8::/31"])
        .code(0)
        .out(
            "10.1.2.0/24\t10.1.2.3/32\t192.0.2.3\n2001:db8::/31\t2001:db8::/32\t2001:db8::1\n\
             2001:db8::/31\t2001:db8:1::/48\n",
        );
    s.run(&["routes", "covering", "t", "2001:db8:1::1"])
        .code(0)
        .out("2001:db8::/32\t2001:db8::1\n2001:db8:1::/48\n");
    s.run(&["routes", "covering", "t", "2001:db8::/31"])
        .code(1)
        .out("")
        .complains("sapwood: no route covers 2001:db8::/31\n");
    s.run_with(
        &["routes", "covered", "t", "-"],
        b"11.0.0.0/8\n10.1.0.0/16\n",
    )
    .code(1)
    .out("10.1.0.0/16\t10.1.0.0/16\tdev eth0\n10.1.0.0/16\t10.1.2.3/32\t192.0.2.3\n")
    .complains("sapwood: no route inside 11.0.0.0/8\n");
    let ran = s.run(&[
        "routes",
        "covered",
        "t",
        "2001:db8::/32",
        "::/128",
        "--json",
    ]);
    assert_eq!(
        ran.code(1).documents(),
        [
            json!({"query": "2001:db8::/32", "found": [
                {"prefix": "2001:db8::/32", "next_hop": "2001:db8::1"},
                {"prefix": "2001:db8:1::/48", "next_hop": null},
            ]}),
            json!({"query": "::/128", "found": []}),
        ]
    );
    s.run(&["routes", "covering", "t", "10.1.0.0/8", "10.9.9.9"])
        .code(2)
        .out("10.9.9.9/32\t0.0.0.0/0\t192.0.2.1\n10.9.9.9/32\t10.0.0.0/8\t192.0.2.1\n")
        .complains("10.1.0.0/8 has bits set after its length; 10.0.0.0/8 may be meant");
    s.run(&["routes", "covered", "t", "10.0.0.0/33"])
        .code(2)
        .complains("\"10.0.0.0/33\" is not a prefix");
}

#[test]
fn aggregate() {
    let s = Scratch::new();
    build(
        &s,
        "t",
        "0.0.0.0/0 a\n10.0.0.0/9 b\n10.128.0.0/9 b\n10.1.0.0/16 b\n10.2.0.0/16 a\n192.0.2.0/24 a\n\
         2001:db8::/33 c d\n2001:db8:8000::/33 c d\n2001:db8:1::/48\n",
    );
    let text = "0.0.0.0/0 a\n10.0.0.0/8 b\n10.2.0.0/16 a\n2001:db8::/32 c d\n2001:db8:1::/48\n";
    s.run(&["routes", "aggregate", "t"])
        .code(0)
        .out(text)
        .quiet();
    s.run(&["routes", "aggregate", "t", "-s"])
        .code(0)
        .out("9 routes, 5 when aggregated\n");
    let ran = s.run(&["routes", "aggregate", "t", "--json", "--summary"]);
    assert_eq!(ran.documents(), [json!({"routes": 9, "aggregated": 5})]);
    let ran = s.run(&["routes", "aggregate", "t", "--json"]);
    assert_eq!(
        ran.code(0).documents()[3..],
        [
            json!({"prefix": "2001:db8::/32", "next_hop": "c d"}),
            json!({"prefix": "2001:db8:1::/48", "next_hop": null}),
        ]
    );
    s.run(&["routes", "aggregate", "t", "-o", "fewer"])
        .code(0)
        .out("")
        .complains("fewer: 5 routes in place of 9\n");
    s.run(&["routes", "export", "fewer"]).code(0).out(text);
    s.run(&["routes", "aggregate", "fewer", "-q", "-o", "again"])
        .code(0)
        .quiet();
    s.run(&["routes", "diff", "fewer", "again"]).code(0).out("");
    s.run(&["routes", "aggregate", "t", "-o", "t"])
        .code(2)
        .complains("cannot write t: it is the input");
    s.run(&["routes", "aggregate", "none"])
        .code(2)
        .complains("sapwood: cannot read none: No such file");
    build(&s, "empty", "");
    s.run(&["routes", "aggregate", "empty"]).code(0).out("");
}

/// What a table of the library has stays what it is: groups, numbers and null routes.
#[test]
fn aggregated_tables_keep_their_kinds_of_next_hops() {
    use sapwood::lpm::{FibFile, FibFileBuilder, NullRoute, SavedHop};
    let s = Scratch::new();
    let group = SavedHop::Group(vec![(SavedHop::Number(1), 2), (SavedHop::Number(2), 1)]);
    let null = SavedHop::Null(NullRoute::Blackhole);
    let mut table = FibFileBuilder::new();
    for (net, hop) in [
        ("10.0.0.0/9", &group),
        ("10.128.0.0/9", &group),
        ("12.0.0.0/9", &null),
        ("12.128.0.0/9", &null),
    ] {
        let hop = table.hop(hop).unwrap();
        table.insert(net.parse().unwrap(), hop).unwrap();
    }
    table.save(s.path("t")).unwrap();
    s.run(&["routes", "aggregate", "t", "-o", "fewer"]).code(0);
    let file = FibFile::open(s.path("fewer")).unwrap();
    let all: Vec<_> = file
        .iter()
        .map(|(net, hop)| (net.to_string(), file.hop(hop)))
        .collect();
    assert_eq!(
        all,
        [
            ("10.0.0.0/8".to_owned(), Some(group)),
            ("12.0.0.0/8".to_owned(), Some(null))
        ]
    );
}

#[test]
fn export_builds_the_same() {
    let s = table();
    let text = "0.0.0.0/0 192.0.2.1\n10.0.0.0/8 192.0.2.1\n10.1.0.0/16 dev eth0\n10.1.2.3/32 192.0.2.3\n\
                2001:db8::/32 2001:db8::1\n2001:db8:1::/48\n";
    s.run(&["routes", "export", "t"]).code(0).out(text).quiet();
    build(&s, "again", text);
    s.run(&["routes", "diff", "t", "again"]).code(0).out("");
    s.run(&["routes", "export", "again"]).code(0).out(text);
}

/// The lines of a table with groups, null routes, and names that look like other formats.
#[test]
fn groups_and_null_routes() {
    let s = Scratch::new();
    let text = "10.0.0.0/8 192.0.2.1 weight 2, 192.0.2.2 weight 1\n10.9.9.0/24 blackhole\n\
                2001:db8::/32 throw\n";
    build(&s, "t", text).complains("t: 3 routes by 3 next hops");
    s.run(&["routes", "export", "t"]).code(0).out(text);
    s.run(&["routes", "lookup", "t", "10.9.9.1"])
        .code(0)
        .out("10.9.9.0/24\tblackhole\n");
    let ran = s.run(&["routes", "lookup", "t", "10.1.1.1", "10.9.9.1", "--json"]);
    let members = json!([
        {"next_hop": "192.0.2.1", "weight": 2},
        {"next_hop": "192.0.2.2", "weight": 1},
    ]);
    let group = json!({"prefix": "10.0.0.0/8", "next_hop": {"group": members}});
    let nowhere = json!({"prefix": "10.9.9.0/24", "next_hop": {"null_route": "blackhole"}});
    assert_eq!(
        ran.code(0).documents(),
        [
            json!({"query": "10.1.1.1", "found": group}),
            json!({"query": "10.9.9.1", "found": nowhere}),
        ]
    );
    build(
        &s,
        "u",
        "10.0.0.0/8 192.0.2.1 weight 2, 192.0.2.2 weight 2\n10.9.9.0/24 prohibit\n",
    );
    s.run(&["routes", "diff", "t", "u"]).code(1).out(
        "~ 10.0.0.0/8\t192.0.2.1 weight 2, 192.0.2.2 weight 1\t192.0.2.1 weight 2, 192.0.2.2 weight 2\n\
         ~ 10.9.9.0/24\tblackhole\tprohibit\n- 2001:db8::/32\tthrow\n",
    );
    // A name that reads as a line of `ip route` stays one.
    let plain =
        "# routes: a prefix and its next hop in each line\n10.0.0.0/8 via 192.0.2.1 dev a\n";
    build(&s, "v", plain);
    s.run(&["routes", "export", "v"]).code(0).out(plain);
    build(&s, "w", plain.split_once('\n').unwrap().1);
    s.run(&["routes", "export", "w"])
        .code(0)
        .out("10.0.0.0/8 192.0.2.1\n");
}

#[test]
fn formats() {
    let s = Scratch::new();
    for (text, format, right) in [
        (
            "10.0.0.0/8 via 192.0.2.1 dev a metric 2\n10.0.0.0/8 via 192.0.2.2 dev a metric 1\n",
            "the text of \"ip route\"",
            "10.0.0.0/8 192.0.2.2\n",
        ),
        ("1.0.0.0\t24\t15169\n", "pfx2as", "1.0.0.0/24 15169\n"),
        (
            "[{\"dst\": \"10.0.0.0/8\", \"type\": \"prohibit\"}]",
            "JSON",
            "10.0.0.0/8 prohibit\n",
        ),
        (
            "10.0.0.0 255.0.0.0 192.0.2.1\n",
            "lines of prefixes and next hops",
            "10.0.0.0/8 192.0.2.1\n",
        ),
    ] {
        build(&s, "t", text).complains(&format!("; read as {format}\n"));
        s.run(&["routes", "export", "t"]).code(0).out(right);
    }
    s.file("page", "<!DOCTYPE html><title>Not found</title>\n");
    s.run(&["routes", "build", "page", "-o", "t"])
        .code(2)
        .complains("sapwood: page: an HTML page, and no file of routes\n");
    s.file("roas", "{\"roas\": []}");
    s.run(&["routes", "build", "roas", "-o", "t"])
        .code(2)
        .complains("roas: JSON of another kind: an object with \"roas\", and no file of routes");
    s.file("text", "10.0.0.0/8 via 192.0.2.1 dev a\n");
    s.run(&["routes", "build", "text", "--format", "text", "-o", "t"])
        .code(0);
    s.run(&["routes", "export", "t"])
        .code(0)
        .says("10.0.0.0/8 via 192.0.2.1 dev a\n");
    s.file("odd", "10.0.0.0/8 via 192.0.2.1 dev a shiny\n");
    s.run(&["routes", "build", "odd", "-o", "t"])
        .code(2)
        .complains("sapwood: odd: line 1: \"shiny\" is no word of \"ip route\"\n");
    let dump = dump();
    s.file("cut", &dump[..dump.len() - 1]);
    s.run(&["routes", "build", "cut", "--partial", "-o", "t"])
        .code(0)
        .complains("t: 1 routes by 1 next hops")
        .complains("; 1 input that ends too early: what was read before is taken; read as MRT\n");
}

#[test]
fn stats() {
    let s = table();
    s.run(&["routes", "stats", "t"])
        .code(0)
        .says("routes       6\n")
        .says("IPv4         4\n")
        .says("next hops    5\n")
        .says("bytes, ")
        .says("/16               1  25.00%\n")
        .says("                  2 192.0.2.1\n")
        .says("                  1 (none)\n");
    let documents = s.run(&["routes", "stats", "t", "--json"]).documents();
    let stats = &documents[0];
    assert_eq!(
        stats["ipv4"]["lengths"],
        json!({"0": 1, "8": 1, "16": 1, "32": 1})
    );
    assert_eq!(
        stats["ipv6"],
        json!({"routes": 2, "lengths": {"32": 1, "48": 1}})
    );
    assert_eq!(
        (&stats["routes"], &stats["next_hops"]),
        (&json!(6), &json!(5))
    );
    assert_eq!(
        stats["by_next_hop"][0],
        json!({"next_hop": "192.0.2.1", "routes": 2})
    );
    let bytes = std::fs::metadata(s.path("t")).unwrap().len();
    assert_eq!(stats["file_bytes"], bytes);
}

#[test]
fn diff() {
    let s = table();
    build(
        &s,
        "new",
        "10.0.0.0/8 a b\n10.0.0.0/9 x\n0.0.0.0/0 192.0.2.1\n10.1.2.3 192.0.2.3\n2001:db8::/32\n2001:db8:1::/48\n",
    );
    s.run(&["routes", "diff", "t", "t"]).code(0).out("");
    s.run(&["routes", "diff", "t", "new"]).code(1).out(
        "~ 10.0.0.0/8\t192.0.2.1\ta b\n+ 10.0.0.0/9\tx\n- 10.1.0.0/16\tdev eth0\n~ 2001:db8::/32\t2001:db8::1\t\n",
    );
    s.run(&["routes", "diff", "-s", "new", "t"])
        .code(1)
        .out("1 added, 1 removed, 2 changed\n");
    let ran = s.run(&["routes", "diff", "t", "new", "--json"]);
    assert_eq!(
        ran.code(1).documents()[1..],
        [
            json!({"change": "added", "prefix": "10.0.0.0/9", "old": null, "new": "x"}),
            json!({"change": "removed", "prefix": "10.1.0.0/16", "old": "dev eth0", "new": null}),
            json!({"change": "changed", "prefix": "2001:db8::/32", "old": "2001:db8::1", "new": null}),
        ]
    );
    let ran = s.run(&["routes", "diff", "-s", "t", "t", "--json"]);
    assert_eq!(
        ran.documents(),
        [json!({"added": 0, "removed": 0, "changed": 0})]
    );
    s.run(&["routes", "diff", "t", "none"])
        .code(2)
        .complains("sapwood: cannot read none: No such file");
}

#[test]
fn bad_lines() {
    let s = Scratch::new();
    s.file("text", "10.0.0.0/8 a\n\n10.0.0.1/8 b\nhost c\n::/0 d\n");
    s.file("old", "precious");
    s.run(&["routes", "build", "text", "-o", "old"])
        .code(2)
        .out("")
        .complains("sapwood: text: line 3: 10.0.0.1/8 has bits set after its length; 10.0.0.0/8 may be meant\n");
    assert_eq!(std::fs::read(s.path("old")).unwrap(), b"precious");
    s.run(&["routes", "build", "text", "-o", "t", "--truncate"])
        .code(2)
        .complains("sapwood: text: line 4: \"host\" is not a prefix: it has no address\n");
    s.run(&["routes", "build", "text", "-o", "t", "--skip-bad"])
        .code(0)
        .complains("sapwood: text: line 3: 10.0.0.1/8 has bits set after its length; 10.0.0.0/8 may be meant; left out\n")
        .complains("text: line 4: \"host\" is not a prefix: it has no address; left out\n")
        .complains("t: 2 routes by 2 next hops in a file of ")
        .complains("; 2 bad and left out; read as lines");
    s.run(&["routes", "build", "text", "-o", "t", "--skip-bad", "--truncate"])
        .code(0)
        .complains("; 1 prefixes came again, the last one won; 1 bad and left out; 1 prefixes truncated to their length; read as");
    s.run(&["routes", "export", "t"])
        .out("10.0.0.0/8 b\n::/0 d\n");
    let many = "nothing\n".repeat(50);
    let ran = s.run_with(
        &["routes", "build", "-", "-o", "t", "--skip-bad"],
        many.as_bytes(),
    );
    assert_eq!(
        ran.code(0).stderr().matches("; left out").count(),
        20,
        "{ran}"
    );
    ran.complains("standard input: 30 more, left out")
        .complains("50 bad and left out");
}

#[test]
fn compressed_texts() {
    let s = Scratch::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(TEXT.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    s.file("text.gz", &gz);
    s.run(&["routes", "build", "text.gz", "-o", "a"]).code(0);
    build(&s, "b", &gz);
    build(&s, "c", TEXT);
    s.run(&["routes", "diff", "a", "c"]).code(0);
    s.run(&["routes", "diff", "b", "c"]).code(0);
    s.file("cut.gz", &gz[..gz.len() - 9]);
    s.run(&["routes", "build", "cut.gz", "-o", "d"])
        .code(2)
        .complains("sapwood: cannot read cut.gz: ");
    assert!(!s.path("d").exists());
}

/// A dump of two prefixes of one peer, 192.0.2.1, with the next hop 198.51.100.1.
fn dump() -> Vec<u8> {
    let record = |subtype: u8, body: &[u8]| {
        let mut record = vec![0, 0, 0, 1, 0, 13, 0, subtype, 0, 0, 0, body.len() as u8];
        record.extend(body);
        record
    };
    let peers = [
        9, 9, 9, 9, 0, 0, 0, 1, 2, 9, 9, 9, 9, 192, 0, 2, 1, 0, 0, 0xfd, 0xe8,
    ];
    let rib = |first: u8| {
        let head = [0, 0, 0, 7, 8, first, 0, 1, 0, 0, 0, 0, 0, 1, 0, 11];
        let attributes = [0x40, 1, 1, 0, 0x40, 3, 4, 198, 51, 100, 1];
        record(2, &[&head[..], &attributes].concat())
    };
    [record(1, &peers), rib(10), rib(11)].concat()
}

#[test]
fn table_dumps() {
    let s = Scratch::new();
    let dump = dump();
    s.file("rib", &dump);
    s.run(&["routes", "build", "rib", "-o", "t"])
        .code(0)
        .complains("t: 2 routes by 1 next hops");
    s.run(&["routes", "export", "t"])
        .out("10.0.0.0/8 198.51.100.1\n11.0.0.0/8 198.51.100.1\n");
    build(&s, "u", &dump);
    s.run(&["routes", "diff", "t", "u"]).code(0);
    s.run(&["routes", "build", "rib", "-o", "t", "--peer", "192.0.2.1"])
        .code(0);
    s.run(&["routes", "build", "rib", "-o", "t", "--peer", "192.0.2.2"])
        .code(2)
        .complains("sapwood: rib: record 1: at byte 0: the dump has no peer 192.0.2.2; its peers (1 in all) are 192.0.2.1\n");
    s.file("cut", &dump[..dump.len() - 1]);
    s.run(&["routes", "build", "cut", "-o", "t"])
        .code(2)
        .complains("sapwood: cut: record 3: at byte 72: the file ends within the record\n");
    s.run(&["routes", "build", "cut", "-o", "t", "--skip-bad"])
        .code(2);
    let mut bad = dump.clone();
    bad[33 + 12 + 4] = 40;
    s.file("bad", &bad);
    s.run(&["routes", "build", "bad", "-o", "t"])
        .code(2)
        .complains("sapwood: bad: record 2: at byte 33: a prefix of 40 bits\n");
    s.run(&["routes", "build", "bad", "-o", "t", "--skip-bad"])
        .code(0)
        .complains("bad: record 2: at byte 33: a prefix of 40 bits; left out\n")
        .complains("t: 1 routes");
    s.file("text", TEXT);
    s.run(&["routes", "build", "text", "-o", "t", "--format", "mrt"])
        .code(2)
        .complains("sapwood: text: record 1: at byte 0: ");
    s.run(&["routes", "build", "rib", "-o", "t", "--format", "text"])
        .code(2)
        .complains("sapwood: rib: line 1: ");
    s.run(&["routes", "build", "text", "-o", "t", "--peer", "192.0.2.1"])
        .code(2)
        .complains("text: a text has no peers");
}

#[test]
fn the_kernels_routes() {
    let s = Scratch::new();
    s.run(&["routes", "build", "-o", "t"])
        .code(2)
        .complains("<FILE>");
    s.run(&["routes", "build", "--kernel", "-o", "t", "text"])
        .code(2);
    let ran = s.run(&["routes", "build", "--kernel", "-o", "t"]);
    if ran.0.status.code() != Some(0) {
        ran.code(2)
            .complains("sapwood: cannot read the kernel's routes: ");
        eprintln!("skipped: this system does not allow netlink: {ran}");
        return;
    }
    ran.complains(" routes by ");
    s.run(&["routes", "verify", "t"]).code(0);
}

/// The routes of a network namespace, where the system allows one.
#[test]
fn the_kernels_routes_as_they_were_made() {
    let s = Scratch::new();
    let script = "unshare -rn sh -ec '
        ip link set lo up
        ip link add d0 type veth peer name d1; ip link set d1 up; ip link set d0 up
        ip address add 192.0.2.1/24 dev d0
        ip -6 address add 2001:db8::1/64 dev d0 nodad
        ip route add 10.0.0.0/8 via 192.0.2.2
        ip route add 10.1.0.0/16 nexthop via 192.0.2.9 nexthop via 192.0.2.8 weight 3
        ip route add 10.2.0.0/16 dev d0 metric 5
        ip route add 10.2.0.0/16 via 192.0.2.3 metric 4
        ip route add default via 192.0.2.254
        ip route add blackhole 10.3.0.0/16
        ip route add throw 10.3.1.0/24
        ip route add 10.4.0.0/16 dev d0 table 77
        ip -6 route add prohibit 2001:db8:3::/48
        ip -6 route add unreachable 2001:db8:4::/48
        ip -6 route add 2001:db8:1::/48 via 2001:db8::2
        ip -6 route add 2001:db8:2::/48 via fe80::2 dev d0
        echo made
        \"$0\" routes build --kernel -o t
        \"$0\" routes export t
        (ip route; ip -6 route) | \"$0\" routes build -q - -o text
        (ip -j route; ip -6 -j route) | \"$0\" routes build -q - -o json
        \"$0\" routes diff t text; \"$0\" routes diff t json
        \"$0\" routes build --kernel --table 77 -o u; echo table 77; \"$0\" routes export u' \"$0\"";
    let ran = s.shell(script);
    let out = String::from_utf8_lossy(&ran.0.stdout).into_owned();
    let Some(lines) = out.strip_prefix("made\n") else {
        eprintln!("skipped: this system allows no network namespace: {ran}");
        return;
    };
    ran.code(0);
    // What `ip` prints is the same table. The kernel adds routes such as fe80::/64.
    for line in [
        "0.0.0.0/0 192.0.2.254",
        "10.0.0.0/8 192.0.2.2",
        "10.1.0.0/16 192.0.2.8 weight 3, 192.0.2.9 weight 1",
        "10.2.0.0/16 192.0.2.3",
        "10.3.0.0/16 blackhole",
        "10.3.1.0/24 throw",
        "192.0.2.0/24 dev d0",
        "2001:db8::/64 dev d0",
        "2001:db8:3::/48 prohibit",
        "2001:db8:4::/48 unreachable",
        "2001:db8:1::/48 2001:db8::2",
        "2001:db8:2::/48 fe80::2%d0",
    ] {
        assert!(lines.lines().any(|l| l == line), "no {line} in:\n{lines}");
    }
    assert!(!lines.contains("10.4.0.0 "), "{lines}");
    let other = lines.split_once("table 77\n").unwrap().1;
    assert_eq!(other, "10.4.0.0/16 dev d0\n");
}

#[test]
fn inputs_and_outputs_that_do_not_work() {
    let s = Scratch::new();
    s.file("text", TEXT);
    for (input, output, why) in [
        ("none", "t", "cannot read none: No such file"),
        (".", "t", "cannot read .: is a directory"),
        ("text", "text", "cannot write text: it is the input"),
        ("text", "none/t", "cannot write none/t: No such file"),
        ("text", "-", "-o must name a file"),
        ("text", ".", "cannot write .: is a directory"),
    ] {
        s.run(&["routes", "build", input, "-o", output])
            .code(2)
            .out("")
            .complains(why);
    }
    build(&s, "table", TEXT);
    s.run(&["routes", "build", "table", "-o", "t"])
        .code(2)
        .complains("sapwood: table is a table already; \"routes export\" makes a text from it");
    assert_eq!(s.names(), ["table", "text"]);
}

#[test]
fn what_is_no_table() {
    let s = table();
    let bytes = std::fs::read(s.path("t")).unwrap();
    s.run(&["routes", "verify", "t"])
        .code(0)
        .says("t: ok: 6 routes in ")
        .says("checked header, checksums, structure, prefixes, next hops");
    let documents = s.run(&["routes", "verify", "t", "--json"]).documents();
    assert_eq!(
        (&documents[0]["ok"], &documents[0]["routes"]),
        (&json!(true), &json!(6))
    );
    // A map of names is a file of another kind.
    s.build("names", "a\nb\n");
    let names = std::fs::read(s.path("names")).unwrap();
    for (contents, why) in [
        (&b""[..], "too short"),
        (TEXT.as_bytes(), "too short"),
        (&TEXT.as_bytes().repeat(100), "not a sapwood memory"),
        (&bytes[..bytes.len() - 1], "bytes, but the header says"),
        (&names, ""),
    ] {
        s.file("bad", contents);
        for query in [
            &["routes", "lookup", "bad", "10.0.0.1"][..],
            &["routes", "export", "bad"],
            &["routes", "stats", "bad"],
            &["routes", "diff", "t", "bad"],
        ] {
            s.run(query)
                .code(2)
                .out("")
                .complains("sapwood: bad: not a sound table of routes: ")
                .complains(why);
        }
        s.run(&["routes", "verify", "bad"])
            .code(1)
            .says("bad: not a sound table of routes: ")
            .says(why);
        let documents = s.run(&["routes", "verify", "bad", "--json"]).documents();
        assert_eq!(documents[0]["ok"], false);
    }
    s.run(&["routes", "verify", "none"]).code(2);
    for i in 0..24 {
        let mut flipped = bytes.clone();
        flipped[i * (bytes.len() - 1) / 23] ^= 1 << (i % 8);
        s.file("bad", flipped);
        s.run(&["routes", "verify", "bad"]).code(1);
        let code = s.run(&[
            "routes",
            "lookup",
            "--no-verify",
            "--all",
            "bad",
            "10.1.2.3",
        ]);
        assert!(matches!(code.0.status.code(), Some(0..=2)), "{code}");
    }
}
