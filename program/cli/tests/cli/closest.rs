//! `sapwood names closest`: what a zone has around names.

use serde_json::json;

use crate::common::Scratch;

/// A zone with a delegation and its glue, a wildcard, and a name that exists by what is below it.
fn zone() -> Scratch {
    let s = Scratch::new();
    let text = "example\tSOA\na.example\tA\n*.w.example\tTXT\nb.e.example\tA\nsub.example\tNS\n\
                ns.sub.example\tA\nz.example\tA\n";
    let args = [
        "names", "build", "--dns", "--values", "text", "-", "-o", "zone",
    ];
    s.run_with(&args, text.as_bytes()).code(0);
    s
}

#[test]
fn a_name_that_is_there() {
    let s = zone();
    s.run(&["names", "closest", "zone", "A.example."])
        .code(0)
        .out(
            "exists\tyes\nexact\ta.example\tA\nencloser\ta.example\nancestor\ta.example\tA\n\
             wildcard_exists\tno\npredecessor\texample\tSOA\n",
        );
    // It exists, because a name lies below it.
    s.run(&["names", "closest", "--dns", "zone", "e.example"])
        .code(0)
        .out(
            "exists\tyes\nencloser\te.example\nancestor\texample\tSOA\nwildcard_exists\tno\n\
             predecessor\ta.example\tA\n",
        );
}

#[test]
fn a_name_that_is_not_there() {
    let s = zone();
    s.run(&["names", "closest", "zone", "x.y.e.example"])
        .code(1)
        .out(
            "exists\tno\nencloser\te.example\nnext_closer\ty.e.example\nancestor\texample\tSOA\n\
             wildcard_exists\tno\npredecessor\tb.e.example\tA\n\
             wildcard_predecessor\ta.example\tA\n",
        );
    s.run(&["names", "closest", "zone", "x.y.w.example"])
        .code(0)
        .out(
            "exists\tno\nencloser\tw.example\nnext_closer\ty.w.example\nancestor\texample\tSOA\n\
             wildcard\t*.w.example\tTXT\nwildcard_exists\tyes\npredecessor\t*.w.example\tTXT\n\
             wildcard_predecessor\tns.sub.example\tA\n",
        );
    s.run(&["names", "closest", "zone", "org"])
        .code(1)
        .says("encloser\t.\nnext_closer\torg\n");
}

#[test]
fn predecessors_pass_over_what_is_below_a_zone_cut() {
    let s = zone();
    let closest =
        |options: &[&str]| s.run(&[&["names", "closest", "zone", "t.example"], options].concat());
    closest(&[])
        .code(1)
        .says("\npredecessor\tns.sub.example\tA\n");
    closest(&["--cut", "NS"])
        .code(1)
        .says("\npredecessor\tsub.example\tNS\nwildcard_predecessor\texample\tSOA\n");
}

#[test]
fn a_wildcard_may_exist_by_what_is_below_it() {
    let s = Scratch::new();
    let names = b"example\na.example\nf.*.e.example\n";
    s.run_with(
        &["names", "build", "--dns", "--strict", "-", "-o", "zone"],
        b"example\na.example\nf.\\042.e.example\n",
    )
    .code(0);
    // A list means no such thing by it, but a zone may have it.
    s.run_with(
        &["names", "build", "--dns", "--strict", "-", "-o", "x"],
        names,
    )
    .code(2)
    .complains("a * is a wildcard only as the first label");
    s.run(&["names", "closest", "zone", "something.e.example"])
        .code(0)
        .says("exists\tno\n")
        .says("\nwildcard_exists\tyes\n")
        .says("\nwildcard_predecessor\ta.example\t2\n");
    let ran = s.run(&["names", "closest", "zone", "something.e.example"]);
    assert!(
        !String::from_utf8_lossy(&ran.0.stdout).contains("\nwildcard\t"),
        "{ran}"
    );
}

#[test]
fn zone_cuts_are_entries_with_a_value() {
    let s = zone();
    s.run(&[
        "names",
        "closest",
        "zone",
        "x.ns.sub.example",
        "--cut",
        "NS",
    ])
    .code(1)
    .says("ancestor\tns.sub.example\tA\n")
    .says("cut\tsub.example\tNS\n");
    s.run(&[
        "names",
        "closest",
        "zone",
        "ns.sub.example",
        "--cut",
        "MX",
        "--cut",
        "A",
    ])
    .code(0)
    .says("cut\tns.sub.example\tA\n");
    let ran = s.run(&["names", "closest", "zone", "sub.example"]);
    assert!(
        !String::from_utf8_lossy(&ran.0.stdout).contains("cut"),
        "{ran}"
    );
    // The values of other maps are numbers.
    s.run_with(
        &["names", "build", "--dns", "-", "-o", "map"],
        b"org\na.org\n",
    )
    .code(0);
    s.run(&["names", "closest", "map", "x.a.org", "--cut", "1"])
        .code(1)
        .says("cut\torg\t1\n");
}

#[test]
fn documents_have_every_part() {
    let s = zone();
    let ran = s.run(&[
        "names",
        "closest",
        "zone",
        "q.w.example",
        "--json",
        "--no-verify",
    ]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({
            "query": "q.w.example",
            "exists": false,
            "exact": null,
            "encloser": "w.example",
            "next_closer": "q.w.example",
            "ancestor": {"key": "example", "value": "SOA"},
            "wildcard": {"key": "*.w.example", "value": "TXT"},
            "wildcard_exists": true,
            "predecessor": {"key": "*.w.example", "value": "TXT"},
            "wildcard_predecessor": {"key": "ns.sub.example", "value": "A"},
            "cut": null,
        })]
    );
}

#[test]
fn many_names_come_with_their_names() {
    let s = zone();
    s.run_with(
        &["names", "closest", "zone", "-"],
        b"example\n\nb.e.example\n",
    )
    .code(0)
    .says("example\texists\tyes\nexample\texact\texample\tSOA\n")
    .says("b.e.example\texact\tb.e.example\tA\n");
    s.run(&["names", "closest", "zone", "--hex", "61"])
        .code(2)
        .complains("--hex cannot be used");
    s.build("words", "oak\n");
    s.run(&["names", "closest", "words", "z.z"])
        .code(2)
        .complains("key \"oak\" is not a domain name; was the map built with --dns?");
}
