//! Longest prefixes found by a BPF program, against a naive oracle, and beside a writer.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::maps::{Kind, Names, Stores, TextStores, Texts, Trie};
use kernel::{
    Answers, INVALID, KEY_MAX, NO_ENTRY, PREFIX, Room, load, question_of, result, skipped,
};
use sapwood_bpf::{BpfArena, Programs, WindowMap};

/// The value and the length of the longest stored prefix, or the error.
fn ask((programs, room): &Asking, window: u32, key: &[u8]) -> Result<(u64, usize), i64> {
    let mut data = question_of([window, 0], 24, &room.image(key));
    programs.answer("sw_ask_prefix", &mut data);
    let value = result(&data, 8)?;
    let length = u32::from_ne_bytes(data[4..8].try_into().unwrap());
    Ok((value, length as usize))
}

/// The programs, and a place for long keys.
type Asking = (Programs, Room);

fn set_up<K: Kind>() -> (WindowMap<K::Map>, Asking) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let room = Room::new(&arena, "room");
    let names = K::builder(&arena, "names").build().unwrap();
    (names, (load(&arena, PREFIX), room))
}

fn random_key(rng: &mut fastrand::Rng, round: u64) -> Vec<u8> {
    // Short keys of few letters are prefixes of each other. Long keys are made of pieces for the
    // same reason.
    if round % 3 != 0 {
        return (0..rng.usize(0..7)).map(|_| rng.u8(b'a'..b'c')).collect();
    }
    let mut key = Vec::new();
    for _ in 0..rng.usize(0..9) {
        let letter = rng.u8(b'a'..b'c' + (round % 5) as u8 * 20);
        key.extend(std::iter::repeat_n(
            letter,
            *rng.choice(&[1, 2, 40, 90]).unwrap(),
        ));
    }
    key
}

tests_of_maps! {
    trie: Trie { as_the_oracle a_prefix_that_stays_is_found_beside_a_writer }
    texts: Texts { as_the_oracle a_prefix_that_stays_is_found_beside_a_writer }
    stores: Stores { as_the_oracle a_prefix_that_stays_is_found_beside_a_writer }
    text_stores: TextStores { as_the_oracle }
}

fn as_the_oracle<K: Kind>() {
    let (names, programs) = set_up::<K>();
    let window = names.window().number;
    let mut oracle = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(2);
    let mut found = [0; 3];
    assert_eq!(ask(&programs, window, b"a"), Err(NO_ENTRY));
    for round in 0..12_000u64 {
        // The map is small, then large, then small again.
        let mut key = random_key(&mut rng, round);
        if round % 7 == 0 {
            // Lengths around the longest short key, or too long for programs, so that the keys are
            // only neighbours of others.
            let length = match round % 5 {
                0 => rng.usize(KEY_MAX..KEY_MAX + 8),
                _ => rng.usize(250..264),
            };
            key.resize(length, b'b');
        }
        let remove = rng.u64(0..12_000) < round;
        if remove {
            assert_eq!(names.take(&key), oracle.remove(&key).is_some());
        } else {
            names.put(&key, round + 1);
            oracle.insert(key.clone(), round + 1);
        }
        for _ in 0..3 {
            let like = round + rng.u64(0..3);
            let mut key = random_key(&mut rng, like);
            if like % 11 == 0 {
                key.resize(rng.usize(200..600), b'b');
            }
            key.truncate(KEY_MAX);
            let wanted = (0..=key.len())
                .rev()
                .find_map(|end| Some((*oracle.get(&key[..end])?, end)));
            found[match wanted {
                None => 0,
                Some((_, end)) if end == key.len() => 1,
                Some(_) => 2,
            }] += 1;
            let answer = ask(&programs, window, &key);
            assert_eq!(answer, wanted.ok_or(NO_ENTRY), "{round} {key:?}");
        }
    }
    println!("{found:?} of {} keys", oracle.len());
    assert!(found.iter().all(|&kind| kind > 1000), "{found:?}");
    assert_eq!(ask(&programs, 17, b""), Err(INVALID));
}

fn a_prefix_that_stays_is_found_beside_a_writer<K: Kind>() {
    let (names, programs) = set_up::<K>();
    let window = names.window().number;
    // The key "k/" and every other key that readers ask for stay. Keys between and beside them come
    // and go.
    names.put(b"k/", 2);
    names.put(b"k/l/m/n/", 8);
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(1.0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let stop = AtomicBool::new(false);
    let (changes, asked) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(3);
            let pieces = [
                "k/l/",
                "k/l/m/",
                "k",
                "",
                "j/",
                "l",
                "k/l/m/n/o",
                "k/l/m/n",
                "k/l/m/o",
            ];
            let mut changes = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let mut key = rng.choice(pieces).unwrap().to_owned();
                if rng.bool() {
                    key += rng
                        .choice(["x", "y", "zzzzzzzzzzzzzzzzzzzzzzzzzzzz"])
                        .unwrap();
                }
                // The value is the key's length, which shows that value and key belong together.
                if rng.bool() {
                    names.put(key.as_bytes(), key.len() as u64);
                } else {
                    names.take(key.as_ref());
                }
                changes += 1;
            }
            changes
        });
        let mut asked = 0u64;
        while Instant::now() < end {
            for (key, least) in [
                (&b"k/l/m/n/o/p"[..], 8),
                (b"k/l/m/n/", 8),
                (b"k/l/m/o/p", 2),
                (b"k/zz", 2),
                (b"k/", 2),
            ] {
                let (value, length) = ask(&programs, window, key).unwrap();
                assert_eq!(value, length as u64);
                assert!(
                    length >= least && length <= key.len(),
                    "{length} of {key:?}"
                );
                asked += 1;
            }
            match ask(&programs, window, b"j/i") {
                Ok((value, length)) => {
                    assert_eq!(value, length as u64);
                    assert!([0, 2].contains(&length));
                }
                Err(code) => assert_eq!(code, NO_ENTRY),
            }
        }
        stop.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), asked)
    });
    println!("{changes} changes, {asked} questions");
    assert!(changes > 100 && asked > 100);
    names.check();
}
