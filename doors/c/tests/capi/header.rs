//! The header agrees with the library.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::support::{folder, here, ok};

pub fn header() -> String {
    fs::read_to_string(here().join("include/sapwood.h")).unwrap()
}

/// The declarations without comments, directives and needless white space.
pub fn declarations(header: &str) -> String {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text.push_str(before);
        rest = after.split_once("*/").expect("the comment ends").1;
    }
    text.push_str(rest);
    let lines = text.lines().filter(|line| {
        !line.starts_with('#') || line.starts_with("#define SAPWOOD_") && !line.ends_with("_H")
    });
    let mut joined = String::new();
    for line in lines {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.starts_with("#define") {
            joined.push_str(&format!("{words}\n"));
        } else if !words.is_empty() {
            joined.push_str(&words);
            joined.push(if words.ends_with([';', '}', '{']) {
                '\n'
            } else {
                ' '
            });
        }
    }
    joined
}

/// Compares a text with a committed file, or writes it when `SAPWOOD_WRITE` is set.
fn committed(name: &str, text: &str) {
    let path = here().join(name);
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        there, text,
        "{name} differs; if the change is meant, run the test with SAPWOOD_WRITE=1 and look at \
         the difference"
    );
}

/// Any change of a declaration changes this committed file, so that it is seen in review.
#[test]
fn a_change_of_a_declaration_is_seen() {
    committed("declarations.txt", &declarations(&header()));
}

/// The shared library exports what is in the committed list, under the version that is there, and
/// the header declares exactly this.
#[test]
fn the_library_exports_what_the_header_declares() {
    let mut nm = Command::new("nm");
    let library = folder().join("libsapwood.so.0");
    let symbols = ok(nm
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library));
    let symbols: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|symbol| *symbol != "SAPWOOD_0.1")
        .collect();
    let list: String = symbols.iter().map(|symbol| format!("{symbol}\n")).collect();
    committed("symbols.txt", &list);

    let declared: BTreeSet<String> = declarations(&header())
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with("typedef"))
        .map(|line| {
            let name = line.split('(').next().unwrap();
            name.rsplit([' ', '*']).next().unwrap().to_owned()
        })
        .collect();
    let exported: BTreeSet<String> = symbols
        .iter()
        .map(|symbol| symbol.split('@').next().unwrap().to_owned())
        .collect();
    assert_eq!(exported, declared);
    assert!(
        symbols
            .iter()
            .all(|symbol| symbol.ends_with("@@SAPWOOD_0.1"))
    );
    let mut readelf = Command::new("readelf");
    let dynamic = ok(readelf.arg("-d").arg(folder().join("libsapwood.so")));
    assert!(
        dynamic.contains("Library soname: [libsapwood.so.0]"),
        "{dynamic}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// A C compiler accepts the header's declarations beside those that cbindgen makes of the Rust
/// functions: they have the same types. Structures have the same size and places in both.
#[test]
fn the_header_has_the_types_of_the_functions() {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Type,
        documentation: false,
        no_includes: true,
        usize_is_size_t: true,
        ..cbindgen::Config::default()
    };
    config.export.item_types = vec![cbindgen::ItemType::Functions];
    let bindings = cbindgen::Builder::new()
        .with_crate(here())
        .with_config(config)
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let count = made.matches("sapwood_").count();
    assert!(count > 10, "cbindgen found no functions:\n{made}");
    let file = folder().join("both.c");
    fs::write(&file, format!("#include \"sapwood.h\"\n{made}")).unwrap();
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-I",
    ]);
    ok(cc.arg(here().join("include")).arg(&file));
}

/// The rooms that the header names are those that the longest key and the longest text need.
#[test]
fn the_rooms_for_names_are_the_librarys() {
    use sapwood::key::{DNS_KEY_MAX, DNS_TEXT_MAX};
    let declared = declarations(&header());
    // A text has a zero behind it.
    for (name, bytes) in [("MAX", DNS_KEY_MAX), ("TEXT_MAX", DNS_TEXT_MAX + 1)] {
        let constant = format!("SAPWOOD_KEY_DNS_{name} = {bytes}");
        let found = declared
            .split([',', '{', '}', '\n'])
            .any(|part| part.trim() == constant);
        assert!(found, "{constant}");
    }
}

/// Structures have the same size and the same places of fields in both languages.
#[test]
fn structures_lie_in_memory_as_the_header_says() {
    let mut tests = String::from("#include \"sapwood.h\"\n");
    macro_rules! structures {
        ($($module:ident :: $name:ident { $($field:ident),* $(,)? })*) => { $(
            tests += &format!("typedef char size_of_{}[sizeof({0}) == {} ? 1 : -1];\n",
                stringify!($name), size_of::<sapwood_capi::$module::$name>());
            $(tests += &format!("typedef char {0}_{1}[offsetof({0}, {1}) == {2} ? 1 : -1];\n",
                stringify!($name), stringify!($field),
                std::mem::offset_of!(sapwood_capi::$module::$name, $field));)*
        )* };
    }
    structures! {
        domain::sapwood_domain_options { size, flags, max_readers, soft_limit, hard_limit, stall_after_ms }
        domain::sapwood_stall { size, name, kind, reserved, stood_for_ns, generations, bytes }
        prefix::sapwood_prefix { addr, addr_len, bits }
        fib::sapwood_fib_options { size, flags, root_bits, memory_limit }
        routes::sapwood_member { hop, weight, reserved }
        flow::sapwood_flow { source, destination, addr_len, protocol, source_port, destination_port }
        cache::sapwood_cache_options { size, flags, threads, capacity, fresh_ns, keep_ns, negative_ns }
        cache::sapwood_cache_stats { size, occupancy, capacity, bytes, hit, miss, refresh, insert,
            evict, full, stale, negative, error, swept, invalidated, overtaken, busy, clock_back }
        ranges::sapwood_ranges_options { size, flags, reserved, memory_limit }
        ranges::sapwood_range { start, end, value }
        ranges::sapwood_window { start, end, align, near, flags, reserved }
        live::sapwood_live_options { size, domain, evict_after_ms }
        live::sapwood_live_reader_info { size, name, seen, pid, flags }
        live_read::sapwood_copy { size, key, key_room, key_len, value, value_room, value_len }
        memory::sapwood_memory { size, entries, total, nodes, leaves, index, waiting, snapshots }
        snapshot::sapwood_change { size, kind, reserved, key, old_value, new_value }
        value::sapwood_bytes { data, len }
        value::sapwood_entry { key, value }
        value::sapwood_options { size, flags, values, retire, ctx, memory_limit, max_entries, domain }
        value::sapwood_value { number, pointer, bytes }
        closest::sapwood_closest {
            size, chain, chain_room, chain_len, encloser, exists, reserved, exact, ancestor,
            wildcard, predecessor, cut,
        }
        closest::sapwood_denial {
            size, wildcard_exists, reserved, predecessor, wildcard_predecessor, closest,
        }
        view::sapwood_view {}
    }
    let file = folder().join("structures.c");
    fs::write(&file, tests).unwrap();
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-I",
    ]);
    ok(cc.arg(here().join("include")).arg(&file));
}
