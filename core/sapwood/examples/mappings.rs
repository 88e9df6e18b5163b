//! The memory mappings of this process as a map of ranges: the mapping at an address, the gap
//! around an address, and the lowest gap of a size.
//!
//! `cargo run --release -p sapwood --example mappings`

use sapwood::maple::{MapleMap, Window};
use sapwood_model::data::ranges::{PAGE, mappings};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Reads the mappings, and asks which of them has a variable, and where a GiB fits.
pub fn main() -> Result<(), Failure> {
    if !cfg!(target_os = "linux") {
        println!("only Linux tells the mappings of a process");
        return Ok(());
    }
    let mappings = mappings()?;
    let map = MapleMap::new();
    for (mapping, number) in mappings.iter().zip(0usize..) {
        map.store(mapping.range.clone(), number)?;
    }

    let variable = 0u8;
    let address = std::ptr::from_ref(&variable).addr() as u64;
    let (range, number) = map.get_entry(address).ok_or("no mapping has the stack")?;
    assert!(range.contains(&address));
    println!("{address:#x} is in {range:#x?}, {}", mappings[number].name);
    assert!(mappings[number].range.contains(&address));

    // The lowest page is never mapped: the answer is the gap around it.
    let gap = map.read(|view| {
        let (gap, mapping) = view.locate(0);
        assert_eq!(mapping, None);
        gap
    });
    println!(
        "no mapping has the address 0; the gap ends at {:#x}",
        gap.end()
    );
    assert!(
        mappings
            .iter()
            .all(|mapping| mapping.range.start() > gap.end())
    );

    let (size, align) = (1 << 30, 2 << 20);
    let window = Window::new(16 * PAGE..=u64::MAX).aligned(align);
    let gap = map.find_gap(size, window).ok_or("no gap of a GiB")?;
    println!("the lowest gap of a GiB is {gap:#x?}");
    // A walk over all mappings finds no lower one.
    let mut lowest = align;
    for (range, _) in map.snapshot().view().iter() {
        if lowest + size <= *range.start() {
            break;
        }
        lowest = lowest.max((range.end() + 1).next_multiple_of(align));
    }
    assert_eq!(gap, lowest..=lowest + size - 1);
    Ok(())
}
