//! Malicious tables of routes in files: opened with and without a check, and queried by every
//! method.
//!
//! Some inputs are complete files. Most are changes to the image of a real table with next hops of
//! every kind, sealed again with valid checksums, so that the fuzzer reaches the checks behind the
//! checksums.
#![no_main]

#[path = "../../../core/sapwood/tests/support/fibfile.rs"]
mod answers;

use std::fs;
use std::path::Path;

use answers::{built, is_whole, nets, query_everything};
use libfuzzer_sys::fuzz_target;
use sapwood::lpm::FibFile;
use sapwood::lpm::ipnet::IpNet;
use sapwood_fuzz::Input;
use sapwood_fuzz::image::{Scratch, change, changes, fenced};

fn open_and_ask(path: &Path, bytes: &[u8], queries: &[IpNet]) {
    fs::write(path, bytes).unwrap();
    for checked in [true, false] {
        let opened = match checked {
            true => FibFile::open(path),
            false => FibFile::open_unverified(path),
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
}

fuzz_target!(|bytes: &[u8]| {
    let scratch = Scratch::new("routes");
    let mut input = Input::new(bytes);
    if input.below(16) == 0 {
        let queries = ["10.0.0.0/8".parse().unwrap(), "::/0".parse().unwrap()];
        return open_and_ask(&scratch.0, &input.rest(), &queries);
    }
    let count = input.below(40);
    let mut queries = nets(count, &mut input);
    // Some of the queries are not stored.
    let stored = &queries[input.below(4).min(count)..];
    built(stored, &mut input).save(&scratch.0).unwrap();
    queries.truncate(25);
    let file = change(fs::read(&scratch.0).unwrap(), &changes(&input));
    open_and_ask(&scratch.0, &file, &queries);
});
