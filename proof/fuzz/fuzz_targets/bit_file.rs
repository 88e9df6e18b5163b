//! Malicious files of bit strings: opened with and without a check, and queried by every method.
//!
//! Some inputs are complete files. Most are changes to the image of a real table with names, sealed
//! again with valid checksums, so that the fuzzer reaches the checks behind the checksums.
#![no_main]

#[path = "../../../core/sapwood/tests/support/bitfile.rs"]
mod answers;

use std::fs;
use std::path::Path;

use answers::{is_whole, prefixes, query_everything};
use libfuzzer_sys::fuzz_target;
use sapwood::lpm::{BitFile, BitFileBuilder, BitString};
use sapwood_fuzz::Input;
use sapwood_fuzz::image::{Scratch, change, changes, fenced};

fn open_and_ask(path: &Path, bytes: &[u8], queries: &[BitString]) {
    fs::write(path, bytes).unwrap();
    for checked in [true, false] {
        let opened = match checked {
            true => BitFile::<u64>::open(path),
            false => BitFile::<u64>::open_unverified(path),
        };
        match opened {
            Ok(file) => {
                let _fence = fenced(path, bytes.len());
                if checked {
                    is_whole(&file);
                }
                query_everything(&file, queries);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    // With values of another size, the layout differs.
    assert!(BitFile::<u32>::open(path).is_err());
}

fuzz_target!(|bytes: &[u8]| {
    let scratch = Scratch::new("bits");
    let mut input = Input::new(bytes);
    if input.below(16) == 0 {
        let queries = [BitString::new(), BitString::from_number(5, 9).unwrap()];
        return open_and_ask(&scratch.0, &input.rest(), &queries);
    }
    let count = input.below(40);
    let mut queries = prefixes(count, &mut input);
    let mut builder = BitFileBuilder::<u64>::new();
    // Some of the queries are not stored.
    builder.extend(queries.iter().skip(input.below(4)).cloned().zip(0..));
    for i in 0..input.below(6) {
        builder.push_name(format!("name {i}")).unwrap();
    }
    builder.save(&scratch.0).unwrap();
    queries.truncate(25);
    let file = change(fs::read(&scratch.0).unwrap(), &changes(&input));
    open_and_ask(&scratch.0, &file, &queries);
});
