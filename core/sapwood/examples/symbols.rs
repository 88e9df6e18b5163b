//! A symbol table. It finds the address of a name, the names with a prefix, and the symbol of an
//! address. It is saved to a file that another program maps into its memory.
//!
//! The symbols are those of `/proc/kallsyms`, or generated ones where it cannot be read. Generated
//! addresses replace those that the kernel hides.
//!
//! `cargo run --release --example symbols -- vfs_`

use std::collections::BTreeMap;
use std::time::Instant;

use sapwood::qp::{QpFile, QpMap};

/// The names of the symbols and their addresses.
fn symbols() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut found: BTreeMap<String, u64> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((words.nth(1)?.to_owned(), address))
        })
        .collect();
    if found.is_empty() {
        let parts = [
            "vfs", "tcp", "page", "read", "write", "init", "lock", "free",
        ];
        found = (0..4096)
            .map(|i| {
                (
                    format!(
                        "{}_{}_{}{}",
                        parts[i % 8],
                        parts[i / 8 % 8],
                        parts[i / 64 % 8],
                        i / 512
                    ),
                    0,
                )
            })
            .collect();
    }
    for (i, address) in found.values_mut().enumerate() {
        if *address == 0 {
            *address = 0xffff_ffff_8100_0000 + i as u64 * 64;
        }
    }
    found
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = std::env::args().nth(1).unwrap_or("vfs_".to_owned());
    let symbols = symbols();

    // A build from sorted entries is the fastest one, and stores the trie in depth-first order.
    let begun = Instant::now();
    let by_name = QpMap::from_sorted_iter(symbols.iter().map(|(name, address)| (name, *address)))?;
    println!("{} symbols in {:.1?}", by_name.len(), begun.elapsed());
    print!("{}", by_name.memory());

    println!("the first names that begin with {start:?}:");
    for (name, address) in by_name.prefix(&start).take(5) {
        println!("  {address:#x} {}", String::from_utf8_lossy(&name));
    }

    // Big-endian bytes sort like numbers. The symbol of an address is the last one at or before it.
    let mut by_address = QpMap::new();
    for (name, address) in &symbols {
        by_address
            .insert(address.to_be_bytes(), name.as_str())
            .map_err(sapwood::Error::from)?;
    }
    let somewhere = symbols
        .values()
        .nth(symbols.len() / 2)
        .map_or(0, |address| address + 9);
    let around = by_address.range(..=somewhere.to_be_bytes()).next_back();
    if let Some((address, name)) = around {
        let base = u64::from_be_bytes(address[..].try_into()?);
        println!("{somewhere:#x} is {name}+{}", somewhere - base);
        assert!(base <= somewhere);
    }

    // A batch of lookups is faster than single lookups.
    let names: Vec<&String> = symbols.keys().collect();
    let mut addresses = vec![None; names.len()];
    let begun = Instant::now();
    by_name.get_many(&names, &mut addresses);
    println!("{} lookups in {:.1?}", names.len(), begun.elapsed());
    assert!(
        addresses
            .iter()
            .zip(symbols.values())
            .all(|(found, address)| *found == Some(address))
    );

    // Another program opens the file and reads it in place.
    let path = std::env::temp_dir().join(format!("sapwood-symbols-{}.qp", std::process::id()));
    by_name.save(&path)?;
    let begun = Instant::now();
    let file = QpFile::<u64>::open(&path)?;
    println!(
        "{} bytes opened and checked in {:.1?}",
        file.file_bytes(),
        begun.elapsed()
    );
    assert!(file.iter().eq(&by_name));
    std::fs::remove_file(&path)?;
    Ok(())
}
