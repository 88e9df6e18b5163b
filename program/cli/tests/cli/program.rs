//! Help, completions and manual pages of the program.

use crate::common::Scratch;

#[test]
fn version_and_help() {
    let s = Scratch::new();
    s.run(&["--version"])
        .code(0)
        .out(concat!("sapwood ", env!("CARGO_PKG_VERSION"), "\n"));
    s.run(&["--help"])
        .code(0)
        .says("Examples:")
        .says("Exit codes:");
    for command in [
        &["names"][..],
        &["names", "build"],
        &["names", "serve"],
        &["names", "get"],
        &["names", "has"],
        &["names", "prefix"],
        &["names", "range"],
        &["names", "next"],
        &["names", "prev"],
        &["names", "longest"],
        &["names", "closest"],
        &["names", "count"],
        &["names", "stats"],
        &["names", "verify"],
        &["names", "diff"],
        &["routes"],
        &["routes", "build"],
        &["routes", "serve"],
        &["routes", "lookup"],
        &["routes", "covering"],
        &["routes", "covered"],
        &["routes", "aggregate"],
        &["routes", "stats"],
        &["routes", "verify"],
        &["routes", "diff"],
        &["routes", "export"],
        &["ranges"],
        &["ranges", "build"],
        &["ranges", "serve"],
        &["ranges", "get"],
        &["ranges", "list"],
        &["ranges", "gaps"],
        &["ranges", "alloc"],
        &["ranges", "stats"],
        &["ranges", "verify"],
        &["ranges", "export"],
        &["live"],
        &["live", "status"],
        &["report"],
        &["completions"],
        &["man"],
    ] {
        s.run(&[command, &["--help"]].concat())
            .code(0)
            .says("Example")
            .says(&format!("sapwood {}", command.join(" ")))
            .quiet();
    }
    s.run(&["nonsense"]).code(2).complains("nonsense");
}

#[test]
fn completions() {
    let s = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = s.run(&["completions", shell]);
        ran.code(0)
            .says("longest")
            .says("serve")
            .says("garbage-limit")
            .says("report")
            .quiet();
    }
    s.run(&["completions", "cobol"]).code(2);
}

#[test]
fn manual_pages() {
    let s = Scratch::new();
    s.run(&["man"]).code(0).says(".TH").says("report");
    s.run(&["man", "names", "build"])
        .code(0)
        .says("sapwood\\-names\\-build")
        .says("renamed");
    s.run(&["man", "names", "nonsense"])
        .code(2)
        .complains("there is no command \"nonsense\"");
    s.run(&["man", "--out", "pages"]).code(0).out("");
    let mut pages: Vec<_> = std::fs::read_dir(s.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in [
        "sapwood.1",
        "sapwood-names.1",
        "sapwood-names-longest.1",
        "sapwood-names-closest.1",
        "sapwood-routes-build.1",
        "sapwood-ranges-alloc.1",
        "sapwood-names-serve.1",
        "sapwood-live-status.1",
        "sapwood-report.1",
    ] {
        assert!(pages.iter().any(|p| p == page), "{page} in {pages:?}");
    }
    assert!(!pages.iter().any(|p| p.contains("measure")), "{pages:?}");
    for page in pages {
        assert!(std::fs::metadata(s.path("pages").join(page)).unwrap().len() > 100);
    }
    s.file("file", "");
    s.run(&["man", "--out", "file"])
        .code(2)
        .complains("cannot write file: ");
}

#[test]
fn the_tour_is_another_program() {
    let s = Scratch::new();
    s.run(&["tour"])
        .code(2)
        .out("")
        .complains("unrecognized subcommand 'tour'");
}
