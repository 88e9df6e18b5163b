//! The header is what the library declares.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use sapwood_capi::c_api::What;

use crate::print::{self, HEADERS, items};
use crate::support::{folder, here, ok, static_library};

/// Any change of a declaration or a comment changes these committed files, so that it is seen in
/// review.
#[test]
fn the_headers_are_what_the_library_declares() {
    for header in HEADERS {
        let path = here().join("include").join(header.file);
        let made = print::header(header);
        if std::env::var_os("SAPWOOD_WRITE").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == made,
            "include/{} is not what the library declares; its first lines say how it is made anew",
            header.file
        );
    }
}

/// The names of C's functions in a library, without what stands behind them.
fn symbols(of: &mut Command) -> BTreeSet<String> {
    let names = ok(of);
    let names = names
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    names.map(str::to_owned).collect()
}

/// Both libraries have the functions of the header. The shared one has nothing else, and all of it
/// under the version that is there.
#[test]
fn the_libraries_export_what_the_header_declares() {
    let functions = items().filter(|item| matches!(item.what, What::Function(..)));
    let declared: BTreeSet<String> = functions.map(|item| item.name.to_owned()).collect();
    assert!(declared.len() > 250, "{declared:?}");

    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]);
    let mut shared = symbols(nm.arg(folder().join("libsapwood.so.0")));
    shared.remove("SAPWOOD_0.1");
    let versioned = |name: &String| format!("{name}@@SAPWOOD_0.1");
    assert_eq!(shared, declared.iter().map(versioned).collect());

    let mut nm = Command::new("nm");
    let mut all = symbols(nm.args(["-g", "--defined-only"]).arg(static_library()));
    all.retain(|name| name.starts_with("sapwood_"));
    assert_eq!(all, declared);

    let mut readelf = Command::new("readelf");
    let dynamic = ok(readelf.arg("-d").arg(folder().join("libsapwood.so")));
    assert!(
        dynamic.contains("Library soname: [libsapwood.so.0]"),
        "{dynamic}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// The numbers by which inline lookups read tables are those of the format.
#[test]
fn inline_lookups_have_the_numbers_of_the_format() {
    let header = fs::read_to_string(here().join("include/sapwood_inline.h")).unwrap();
    let mut compared = 0;
    for line in header.lines() {
        let Some(rest) = line.strip_prefix("#define SAPWOOD_LPM_") else {
            continue;
        };
        let (name, number) = rest.split_once(' ').unwrap();
        let number: u64 = number.trim_end_matches('u').parse().unwrap();
        let there = sapwood_format::lpm::LAYOUT
            .into_iter()
            .find(|(other, _)| *other == name);
        assert_eq!(there.map(|(_, number)| number), Some(number), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 7);
}

/// The rooms that the header names are those that the longest key and the longest text need.
#[test]
fn the_rooms_for_names_are_the_librarys() {
    use sapwood::key::{DNS_KEY_MAX, DNS_TEXT_MAX};
    use sapwood_capi::key::{SAPWOOD_KEY_DNS_MAX, SAPWOOD_KEY_DNS_TEXT_MAX};
    assert_eq!(usize::try_from(SAPWOOD_KEY_DNS_MAX), Ok(DNS_KEY_MAX));
    // A text has a zero behind it.
    let text = usize::try_from(SAPWOOD_KEY_DNS_TEXT_MAX);
    assert_eq!(text, Ok(DNS_TEXT_MAX + 1));
}

/// Structures have the same size and the same places of fields in both languages.
#[test]
fn structures_lie_in_memory_as_the_header_says() {
    let mut tests = String::new();
    for header in HEADERS {
        tests += &format!("#include \"{}\"\n", header.file);
    }
    let mut checked = 0;
    for item in items() {
        let (What::Struct(layout) | What::Union(layout)) = item.what else {
            continue;
        };
        let (name, size) = (item.name, layout.size);
        tests += &format!("typedef char size_of_{name}[sizeof({name}) == {size} ? 1 : -1];\n");
        for field in layout.fields {
            let (field, place) = (field.name, field.offset);
            tests += &format!(
                "typedef char {name}_{field}[offsetof({name}, {field}) == {place} ? 1 : -1];\n"
            );
        }
        checked += 1;
    }
    assert!(checked > 20, "{checked} structures");
    let file = folder().join("structures.c");
    fs::write(&file, tests).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    ok(cc.arg("-I").arg(here().join("include")).arg(&file));
}
