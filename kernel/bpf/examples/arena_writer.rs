//! Makes an arena with maps over byte strings of all kinds, pins it, says what is in the maps, and
//! changes them until its input ends. Programs in other languages test their readers with it.
//!
//! ```sh
//! cargo run -p sapwood-bpf --features kernel --example arena_writer -- /sys/fs/bpf/maps
//! ```
//!
//! It prints a line `map NAME`, with `ordered` behind it if the map has an order, then a line
//! `entry KEY VALUE` in hexadecimal for each entry, and `ready` at last. A line of its input, of
//! any text, begins the changes: of entries whose keys begin with `goes/`. The others stay.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sapwood_bpf::{BpfArena, KernelGrace, Pinned, ProgramMap, UserMap, UserPointMap, UserStore};
use sapwood_qsbr::Domain;

type Failure = Box<dyn Error>;
/// A change of one key.
type Change = Box<dyn Fn(&[u8]) -> Result<(), Failure>>;

/// A map, and what was written into it.
struct Map {
    name: &'static str,
    ordered: bool,
    longest: usize,
    value: fn(&[u8]) -> Vec<u8>,
    put: Change,
    take: Change,
}

/// The value of a key: a number.
fn number(key: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    key.iter().fold(key.len() as u64 + 7, mix)
}

fn numbers(key: &[u8]) -> [u64; 3] {
    [number(key), !number(key), key.len() as u64]
}

/// The value of a key: a byte string, which is empty for some keys and long for others.
fn text(key: &[u8]) -> Vec<u8> {
    key.repeat([0, 1, 2, 40][number(key) as usize % 4])
}

const BYTES: usize = 16 << 20;
const LONGEST: usize = 400;

// Before each change, what was replaced is freed, once its grace period is over.
macro_rules! user {
    ($name:literal, $ordered:literal, $map:expr, |$key:ident| $value:expr, $bytes:expr) => {{
        let map = std::rc::Rc::new($map);
        let other = std::rc::Rc::clone(&map);
        Map {
            name: $name,
            ordered: $ordered,
            longest: LONGEST,
            value: $bytes,
            put: Box::new(move |$key| {
                drop(map.pin());
                map.insert($key, $value)?;
                Ok(())
            }),
            take: Box::new(move |key| {
                drop(other.pin());
                other.remove(key)?;
                Ok(())
            }),
        }
    }};
}

macro_rules! store {
    ($name:literal, $map:expr, |$key:ident| $value:expr, $bytes:expr) => {{
        let map = std::rc::Rc::new($map);
        let other = std::rc::Rc::clone(&map);
        Map {
            name: $name,
            ordered: true,
            longest: LONGEST,
            value: $bytes,
            put: Box::new(move |$key| {
                map.reclaim(100);
                let mut txn = map.begin();
                txn.insert($key, $value)?;
                txn.commit();
                Ok(())
            }),
            take: Box::new(move |key| {
                other.reclaim(100);
                let mut txn = other.begin();
                txn.remove(key)?;
                txn.commit();
                Ok(())
            }),
        }
    }};
}

/// The value of a key that programs cannot write at once: words.
fn long(key: &[u8]) -> [u64; 20] {
    std::array::from_fn(|i| number(key).wrapping_add(i as u64))
}

fn program<const WORDS: usize>(
    map: ProgramMap<[u64; WORDS]>,
    name: &'static str,
    ordered: bool,
    words: fn(&[u8]) -> [u64; WORDS],
    value: fn(&[u8]) -> Vec<u8>,
) -> Result<Map, Failure> {
    let service = map.spawn_service(Duration::from_millis(1))?;
    let map = std::rc::Rc::new((map, service));
    let other = std::rc::Rc::clone(&map);
    Ok(Map {
        name,
        ordered,
        longest: 254,
        value,
        put: Box::new(move |key| {
            // A map that is short of memory for a moment has it after service.
            for _ in 0..1000 {
                if map.0.insert(key, words(key))?.is_ok() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err("a map that programs write takes no entry".into())
        }),
        take: Box::new(move |key| {
            let _ = other.0.remove(key)?;
            Ok(())
        }),
    })
}

fn maps(arena: &BpfArena) -> Result<Vec<Map>, Failure> {
    let one = |key: &[u8]| number(key).to_le_bytes().to_vec();
    let three = |key: &[u8]| numbers(key).map(u64::to_le_bytes).concat();
    // One source of grace periods for all maps.
    let grace = KernelGrace::new()?;
    let domain = Domain::builder().source(grace.clone()).build();
    let shared = UserMap::<u64>::builder(arena, "shared")
        .bytes(BYTES)
        .domain(&domain);
    let both = UserMap::<u64>::builder(arena, "both")
        .bytes(BYTES)
        .domain(&domain);
    let points = UserPointMap::<u64>::builder(arena, "points")
        .bytes(BYTES)
        .domain(&domain);
    let texts = UserMap::<[u8]>::builder(arena, "texts")
        .bytes(BYTES)
        .domain(&domain);
    let wide = UserMap::<[u64; 3]>::builder(arena, "wide")
        .bytes(BYTES)
        .domain(&domain);
    let store = UserStore::<u64>::builder(arena, "store")
        .bytes(BYTES)
        .domain(&domain);
    let text_store = UserStore::<[u8]>::builder(arena, "text-store")
        .bytes(BYTES)
        .domain(&domain);
    let wide_store = UserStore::<[u64; 3]>::builder(arena, "wide-store")
        .bytes(BYTES)
        .domain(&domain);
    let of_programs = |name| {
        let builder = ProgramMap::<[u64; 1]>::builder(arena, name);
        builder
            .bytes(BYTES)
            .max_entries(10_000)
            .user_writes()
            .grace(&grace)
    };
    let long_map = ProgramMap::<[u64; 20]>::builder(arena, "program-long")
        .bytes(BYTES)
        .max_entries(10_000)
        .user_writes()
        .grace(&grace);
    let word = |key: &[u8]| [number(key)];
    Ok(vec![
        user!("shared", true, shared.build()?, |key| number(key), one),
        user!(
            "both",
            true,
            both.with_index().build()?,
            |key| number(key),
            one
        ),
        user!("points", false, points.build()?, |key| number(key), one),
        user!("texts", true, texts.build()?, |key| &text(key)[..], text),
        user!("wide", true, wide.build()?, |key| numbers(key), three),
        store!("store", store.build()?, |key| number(key), one),
        store!(
            "text-store",
            text_store.build()?,
            |key| &text(key)[..],
            text
        ),
        store!("wide-store", wide_store.build()?, |key| numbers(key), three),
        program(
            of_programs("programs").build()?,
            "programs",
            true,
            word,
            one,
        )?,
        program(long_map.build()?, "program-long", true, long, |key| {
            long(key).map(u64::to_le_bytes).concat()
        })?,
        program(
            of_programs("program-trie").with_trie().build()?,
            "program-trie",
            true,
            word,
            one,
        )?,
        program(
            of_programs("program-index").with_index().build()?,
            "program-index",
            false,
            word,
            one,
        )?,
    ])
}

/// Keys of many forms: names, binary numbers, prefixes of each other, long ones, the empty one.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![
        Vec::new(),
        vec![0],
        vec![0, 0],
        vec![255; 20],
        vec![b'l'; 400],
    ];
    for i in 0..600u32 {
        let mixed = i.wrapping_mul(0x9e37_79b9);
        keys.push(format!("example.host{:x}.{i}", mixed >> 24).into_bytes());
        keys.push(mixed.to_be_bytes().to_vec());
        keys.push(vec![(mixed >> 24) as u8; i as usize % 30]);
        keys.push(format!("goes/{}", i % 300).into_bytes());
        if i % 50 == 0 {
            keys.push(vec![b'l'; 200 + i as usize / 4]);
        }
    }
    keys
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1);
    let folder = folder.ok_or("usage: arena_writer FOLDER, in a BPF file system")?;
    let arena = BpfArena::create(256 << 20)?;
    let maps = maps(&arena)?;
    let pins = Pinned::create(folder)?;
    pins.pin_arena(&arena)?;
    for map in &maps {
        println!(
            "map {}{}",
            map.name,
            if map.ordered { " ordered" } else { "" }
        );
        let fitting = keys().into_iter().filter(|key| key.len() <= map.longest);
        let entries: BTreeMap<_, _> = fitting
            .map(|key| (key.clone(), (map.value)(&key)))
            .collect();
        for (key, value) in entries {
            (map.put)(&key)?;
            println!("entry {} {}", hex(&key), hex(&value));
        }
    }
    println!("ready");

    let (begun, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&over));
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            begins.store(true, Ordering::Relaxed);
        }
        ends.store(true, Ordering::Relaxed);
    });
    let mut round = 0u64;
    while !over.load(Ordering::Relaxed) {
        if !begun.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        for map in &maps {
            round = round
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(9);
            let key = format!("goes/{}", (round >> 33) % 3000);
            let change = if round >> 63 == 0 {
                &map.put
            } else {
                &map.take
            };
            // A map that is full of what was removed waits for a grace period of the kernel, which
            // takes long on a busy machine.
            let mut tries = 0;
            while let Err(error) = change(key.as_bytes()) {
                tries += 1;
                if tries == 6000 {
                    return Err(format!("{}: {error}", map.name).into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    pins.remove()?;
    Ok(())
}
