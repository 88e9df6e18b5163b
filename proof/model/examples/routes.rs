//! Compares generated routing tables with a real one: `cargo run --example routes [FILE.gz]`.
use sapwood_model::data::routes::{routes_gz, routes_v4, routes_v6};
use sapwood_model::oracle::Prefix;
use std::collections::HashSet;
use std::path::Path;

fn main() {
    if let Some(file) = std::env::args().nth(1) {
        match routes_gz(Path::new(&file)) {
            Ok(real) => {
                describe("real v4", &real.v4, 32);
                describe("real v6", &real.v6, 128);
            }
            Err(missing) => println!("{missing}"),
        }
    }
    describe("generated v4", &routes_v4(901_899, 1), 32);
    describe("generated v6", &routes_v6(160_147, 1), 128);
}

fn describe(name: &str, table: &[Prefix], width: u8) {
    let all: HashSet<Prefix> = table.iter().copied().collect();
    let covered = |prefix: &&Prefix| {
        (0..prefix.len).any(|len| all.contains(&Prefix::truncated(prefix.bits, len)))
    };
    let common = if width == 32 { 24 } else { 48 };
    let next = |prefix: &&Prefix| {
        let bits = prefix.bits.checked_add(1 << (128 - u32::from(common)));
        bits.is_some_and(|bits| all.contains(&Prefix { bits, len: common }))
    };
    let of_common: Vec<_> = table.iter().filter(|prefix| prefix.len == common).collect();
    println!(
        "{name}: {} prefixes, {} covered, {} /{common}, {} of them before another",
        table.len(),
        table.iter().filter(covered).count(),
        of_common.len(),
        of_common
            .iter()
            .copied()
            .filter(|prefix| next(prefix))
            .count()
    );
    // A trie with strides of six bits below a root of 18 bits has a node for each such block.
    for len in [16, 18, 24, 30, 36, 42]
        .into_iter()
        .filter(|len| *len < width)
    {
        let longer = table.iter().filter(|prefix| prefix.len > len);
        let nodes: HashSet<_> = longer
            .map(|prefix| Prefix::truncated(prefix.bits, len))
            .collect();
        print!("    {} /{len} with longer ones", nodes.len());
    }
    println!();
}
