//! The cache.

use std::collections::HashMap;

use sapwood_capi::cache::*;

use super::{ABSENT, ops, rng};

/// The cache answers a value that was stored under the key in the last `fresh_ns`, or nothing. A
/// key that has just been stored is there.
#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn caches_answer_what_was_stored() {
    let (mut rng, _) = rng();
    let options = sapwood_cache_options {
        size: size_of::<sapwood_cache_options>(),
        capacity: 64,
        fresh_ns: 1000,
        keep_ns: 5000,
        ..sapwood_cache_options::default()
    };
    let mut cache = std::ptr::null_mut();
    assert_eq!(
        unsafe { sapwood_cache_new(&raw const options, &raw mut cache) },
        0
    );
    let mut stored: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
    let mut now = 1_000_000;
    let mut hits = 0;
    for _ in 0..ops(5_000) {
        now += rng.u64(0..20);
        let key: Vec<u8> = (0..rng.usize(0..3)).map(|_| rng.u8(0..6)).collect();
        let (at, len) = (key.as_ptr().cast(), key.len());
        let mut value = 0;
        match rng.u8(0..10) {
            0..3 => {
                let new = rng.u64(..);
                assert_eq!(unsafe { sapwood_cache_put(cache, at, len, now, new) }, 0);
                assert_eq!(
                    unsafe { sapwood_cache_get(cache, at, len, now, &raw mut value) },
                    0
                );
                assert_eq!(value, new);
                stored.insert(key, (now, new));
            }
            3 => {
                let result = unsafe { sapwood_cache_invalidate(cache, at, len) };
                assert!(result == ABSENT || result == 0 && stored.contains_key(&key));
                stored.remove(&key);
            }
            4 if rng.u8(0..50) == 0 => {
                assert_eq!(unsafe { sapwood_cache_invalidate_all(cache) }, 0);
                stored.clear();
            }
            4 => assert!(unsafe { sapwood_cache_sweep(cache, now, 64) } >= 0),
            _ => {
                let fresh = stored.get(&key).filter(|(then, _)| now - then < 1000);
                match unsafe { sapwood_cache_get(cache, at, len, now, &raw mut value) } {
                    0 => {
                        assert_eq!(Some(value), fresh.map(|(_, value)| *value));
                        hits += 1;
                    }
                    result => assert_eq!(result, ABSENT),
                }
            }
        }
    }
    assert!(hits > ops(5_000) / 10, "{hits}");
    assert_eq!(unsafe { sapwood_cache_verify(cache) }, 0);
    unsafe { sapwood_cache_free(cache) };
}
