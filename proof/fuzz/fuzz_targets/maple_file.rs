//! Malicious files of ranges: every file that opens is a map in order.
//!
//! Some inputs are complete files. Most are changes to the image of a real map, sealed again with
//! valid checksums, so that the fuzzer reaches the checks behind the checksums.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use sapwood::maple::{MapleFile, MapleMap, save_strings};
use sapwood_fuzz::Input;
use sapwood_fuzz::image::{Scratch, change, changes};

/// Every file that opens is a map in order.
fn in_order<V: PartialEq + std::fmt::Debug + Send + Sync>(file: &MapleFile<V>) {
    let mut free = Some(0);
    for (range, value) in file.view().iter() {
        assert!(free.is_some_and(|free| *range.start() >= free));
        assert_eq!(
            file.view().get_entry(*range.end()),
            Some((range.clone(), value))
        );
        free = range.end().checked_add(1);
    }
    assert!(file.view().gaps(0..=u64::MAX).count() <= file.view().len() + 1);
}

fuzz_target!(|bytes: &[u8]| {
    let scratch = Scratch::new("ranges");
    let input = Input::new(bytes);
    if input.below(16) == 0 {
        fs::write(&scratch.0, input.rest()).unwrap();
    } else {
        let map = MapleMap::<u64>::new();
        for i in 0..input.below(40) as u64 {
            let start = input.below(1 << 12) as u64;
            map.store(start..=start + input.below(40) as u64, i)
                .unwrap();
        }
        match input.below(2) {
            0 => map.snapshot().save(&scratch.0).unwrap(),
            _ => {
                let texts = map
                    .iter()
                    .map(|(range, i)| (range, "text".repeat(i as usize % 3)));
                save_strings(texts, &scratch.0).unwrap();
            }
        }
        let file = change(fs::read(&scratch.0).unwrap(), &changes(&input));
        fs::write(&scratch.0, file).unwrap();
    }
    let numbers = MapleFile::<u64>::open(&scratch.0);
    let texts = MapleFile::open_strings(&scratch.0, <[u8]>::to_vec);
    match (&numbers, &texts) {
        (Ok(file), Err(_)) => in_order(file),
        (Err(_), Ok(file)) => in_order(file),
        (Err(one), Err(other)) => assert!(!format!("{one}{other}").is_empty()),
        (Ok(_), Ok(_)) => panic!("a file of both kinds"),
    }
    // With values of another size, the layout differs.
    assert!(MapleFile::<u32>::open(&scratch.0).is_err());
});
