//! What the border costs: the same lookups by Rust and through the C functions, interleaved in one
//! process. It prints nanoseconds a lookup (medians of rounds): by Rust as compiled into the loop,
//! by a Rust function that is called, as a lookup in a larger program is, and by the C function,
//! with the ratio to both.
//!
//! `cargo run --release -p sapwood-capi --example border`

use std::hint::black_box;
use std::ptr::{from_ref, null, null_mut};
use std::time::Instant;

use sapwood::qp::{QpMap, QpShared, QpStore};
use sapwood_capi::domain::{sapwood_domain, sapwood_domain_new};
use sapwood_capi::map::{sapwood_map_get, sapwood_map_insert, sapwood_map_new};
use sapwood_capi::maps::{sapwood_map, sapwood_options};
use sapwood_capi::reader::{sapwood_reader, sapwood_reader_new};
use sapwood_capi::shared_map::{sapwood_shared_get, sapwood_shared_insert, sapwood_shared_new};
use sapwood_capi::store::{sapwood_store_get, sapwood_store_insert, sapwood_store_new};
use sapwood_capi::value::sapwood_value;

const ROUNDS: usize = 31;

fn names(count: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count)
        .map(|_| {
            let zone = random.u32(..5000);
            let host = random.u32(..);
            format!("org\0example{zone}\0host{host}\0").into_bytes()
        })
        .collect()
}

/// Lookups of all keys in one loop: nanoseconds of each, and the sum of the answers.
fn round(keys: &[Vec<u8>], mut get: impl FnMut(&[u8]) -> u64) -> (f64, u64) {
    let start = Instant::now();
    let mut sum = 0u64;
    for key in keys {
        sum = sum.wrapping_add(get(key));
    }
    (start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64, sum)
}

/// Measures three lookups in turn.
fn compare(
    what: &str,
    keys: &[Vec<u8>],
    rust: impl Fn(&[u8]) -> Option<u64> + Copy,
    mut c: impl FnMut(&[u8]) -> u64,
) {
    #[inline(never)]
    fn called(get: impl Fn(&[u8]) -> Option<u64>, key: &[u8]) -> Option<u64> {
        get(key)
    }
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let rounds = [
            round(keys, |key| rust(key).unwrap()),
            round(keys, |key| called(rust, key).unwrap()),
            round(keys, &mut c),
        ];
        assert!(
            rounds.iter().all(|(_, sum)| *sum == rounds[0].1),
            "the answers differ"
        );
        for (times, (time, _)) in times.iter_mut().zip(rounds) {
            times.push(time);
        }
    }
    let [inlined, called, c] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "{what:32} in the loop {inlined:6.1} ns  called {called:6.1} ns  C {c:6.1} ns  ratios \
         {:.3} {:.3}",
        c / inlined,
        c / called
    );
}

fn main() {
    for count in [1000, 100_000] {
        let mut keys = names(count);
        let mut domain: *mut sapwood_domain = null_mut();
        let mut reader: *mut sapwood_reader = null_mut();
        // SAFETY: the arguments are as the header asks for.
        unsafe {
            assert_eq!(sapwood_domain_new(null(), &raw mut domain), 0);
            assert_eq!(
                sapwood_reader_new(domain, c"main".as_ptr(), &raw mut reader),
                0
            );
        }
        for index in [false, true] {
            let mut map = if index {
                QpMap::with_index()
            } else {
                QpMap::new()
            };
            let options = sapwood_options {
                flags: if index { 4 } else { 0 },
                ..Default::default()
            };
            let mut c: *mut sapwood_map = null_mut();
            // SAFETY: as above.
            unsafe { assert_eq!(sapwood_map_new(from_ref(&options), &raw mut c), 0) };
            for (i, key) in keys.iter().enumerate() {
                let value = sapwood_value { number: i as u64 };
                map.insert(key, i as u64).unwrap();
                // SAFETY: as above.
                unsafe { sapwood_map_insert(c, key.as_ptr().cast(), key.len(), &raw const value) };
            }
            fastrand::Rng::with_seed(1).shuffle(&mut keys);
            let get: unsafe extern "C" fn(_, _, _, _) -> _ = black_box(sapwood_map_get);
            let what = format!("{count} names, owned, index {index}");
            compare(
                &what,
                &keys,
                |key| map.get(key).copied(),
                |key| {
                    let mut value = sapwood_value { number: 0 };
                    // SAFETY: as above.
                    unsafe {
                        get(
                            c.cast_const(),
                            key.as_ptr().cast(),
                            key.len(),
                            &raw mut value,
                        );
                        value.number
                    }
                },
            );
        }
        let store = QpStore::new().unwrap();
        let options = sapwood_options {
            domain,
            ..Default::default()
        };
        let mut c = null_mut();
        // SAFETY: as above.
        unsafe { assert_eq!(sapwood_store_new(from_ref(&options), &raw mut c), 0) };
        let mut txn = store.begin();
        for (i, key) in keys.iter().enumerate() {
            let value = sapwood_value { number: i as u64 };
            txn.insert(key, i as u64).unwrap();
            // SAFETY: as above.
            unsafe { sapwood_store_insert(c, key.as_ptr().cast(), key.len(), &raw const value) };
        }
        txn.commit();
        let ours = store.reader("ours").unwrap();
        let get: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(sapwood_store_get);
        compare(
            &format!("{count} names, store"),
            &keys,
            |key| ours.view().get(key).copied(),
            |key| {
                let mut value = sapwood_value { number: 0 };
                // SAFETY: as above.
                unsafe {
                    get(
                        c.cast_const(),
                        reader.cast_const(),
                        key.as_ptr().cast(),
                        key.len(),
                        &raw mut value,
                    );
                    value.number
                }
            },
        );
        let shared = QpShared::builder().with_index().build().unwrap();
        let options = sapwood_options {
            flags: 4,
            domain,
            ..Default::default()
        };
        let mut c = null_mut();
        // SAFETY: as above.
        unsafe { assert_eq!(sapwood_shared_new(from_ref(&options), &raw mut c), 0) };
        for (i, key) in keys.iter().enumerate() {
            let value = sapwood_value { number: i as u64 };
            shared.insert(key, i as u64).unwrap();
            // SAFETY: as above.
            unsafe { sapwood_shared_insert(c, key.as_ptr().cast(), key.len(), &raw const value) };
        }
        let ours = shared.reader("ours").unwrap();
        let get: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(sapwood_shared_get);
        compare(
            &format!("{count} names, shared, index"),
            &keys,
            |key| ours.view().get(key).copied(),
            |key| {
                let mut value = sapwood_value { number: 0 };
                // SAFETY: as above.
                unsafe {
                    get(
                        c.cast_const(),
                        reader.cast_const(),
                        key.as_ptr().cast(),
                        key.len(),
                        &raw mut value,
                    );
                    value.number
                }
            },
        );
    }
}
