//! Windows of random bytes. Programs end with an answer or an error, and write nothing outside the
//! window. This process reads nothing outside the window, and all operations end.

use std::time::{Duration, Instant};

use sapwood_bpf::layout::program_map as k;
use sapwood_bpf::{BpfArena, KernelGrace, ProgramMap, UserMap};
use sapwood_qsbr::Domain;

use crate::asks::{ANY, Kernel, Side, User, What};
use crate::kernel::Poke;
use crate::pair::wrong_word;
use crate::{PARTS, can, key, with};

/// The words that the test damages.
#[derive(Clone, Copy, Debug)]
enum Where {
    /// Everything behind the rings: index, branches, leaves.
    Nodes,
    /// The heads and the contents of the rings.
    Rings,
    /// Counts and scratch, root and table.
    Header,
    All,
}

fn spoil(
    poke: &Poke,
    map: (usize, usize, usize),
    place: Where,
    rng: &mut fastrand::Rng,
    share: usize,
) {
    let (at, fixed, frontier) = map;
    let ranges: &[(usize, usize)] = match place {
        Where::Nodes => &[(fixed / 2, frontier)],
        Where::Rings => &[(k::RINGS, fixed)],
        Where::Header => &[
            (64, 112),
            (k::ROOT_LOCK, k::MAX),
            (k::LANES_AT, k::LANES_AT + k::LANE_SCRATCH + 256),
            (k::LANES_AT + k::LANE_STOCK, k::LANES_AT + k::LANE_BYTES),
        ],
        Where::All => &[(64, 112), (k::ROOT_LOCK, k::MAX), (k::RINGS, frontier)],
    };
    for (start, end) in ranges {
        let words = (end - start) / 8;
        // Single words, or runs of words.
        let run = (256 / share).clamp(1, words);
        for _ in 0..(words / share / run).max(1) {
            let place = at + start / 8 * 8 + rng.usize(..=words - run) * 8;
            let spoilt: Vec<_> = (0..run)
                .map(|_| wrong_word(rng, (frontier / 8) as u32))
                .collect();
            poke.words(place as u64, &spoilt);
        }
    }
}

/// The words of the arena outside a window, and outside the header's word for barriers.
fn outside(arena: &BpfArena, window: std::ops::Range<usize>) -> Vec<u8> {
    let mut image = arena.image();
    let end = window.end.min(image.len());
    image[window.start.min(end)..end].fill(0);
    image
}

#[test]
fn nothing_leads_astray() {
    if !can() {
        return;
    }
    let mut slowest = (Duration::ZERO, What::Lookup);
    let seed = std::env::var("SAPWOOD_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut rng = fastrand::Rng::with_seed(seed.unwrap_or(11));
    let places = [Where::Nodes, Where::Rings, Where::Header, Where::All];
    // All rounds share one source, because its construction takes some grace periods.
    let grace = KernelGrace::new().unwrap();
    let domain = Domain::builder().source(grace.clone()).build();
    // The environment may extend the test.
    let soak = std::env::var("SAPWOOD_SOAK").ok();
    let soak = Duration::from_secs(soak.and_then(|text| text.parse().ok()).unwrap_or(0));
    let begin = Instant::now();
    for (round, place) in places.into_iter().cycle().enumerate() {
        if round >= 8 && begin.elapsed() >= soak {
            println!("{round} rounds; the longest operation: {slowest:?}");
            return;
        }
        let arena = BpfArena::create(8 << 20).unwrap();
        let poke = Poke::new(&arena);
        let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Kernel::new(&arena))];
        if round % 4 == 3 {
            sides.extend(User::new(&arena, "gcc").map(|side| Box::new(side) as Box<dyn Side>));
        }
        let before = UserMap::<u64>::builder(&arena, "before")
            .bytes(256 << 10)
            .domain(&domain)
            .build()
            .unwrap();
        let map = with(
            ProgramMap::<[u64; 2]>::builder(&arena, "map"),
            PARTS[round % 3],
        )
        .max_entries(400)
        .bytes(512 << 10)
        .ring(16)
        .grace(&grace)
        .build()
        .unwrap();
        let after = UserMap::<u64>::builder(&arena, "after")
            .with_index()
            .bytes(256 << 10)
            .domain(&domain)
            .build()
            .unwrap();
        for i in 0..200u64 {
            before.insert(i.to_le_bytes(), i).unwrap();
            after.insert(i.to_le_bytes(), i).unwrap();
        }
        let window = map.window().clone();
        let whole = outside(&arena, window.at..window.at + window.len);
        for _ in 0..400 {
            let key = key(&mut rng);
            sides[0].ask(What::InsertValue, window.number, ANY, &key, &[1, 2]);
            map.service().unwrap();
        }
        map.verify().unwrap();
        let memory = map.memory().unwrap();
        for share in [5000, 2000, 1000, 400, 200, 50, 10, 3, 1] {
            let bounds = (window.at, memory.fixed, memory.frontier);
            spoil(&poke, bounds, place, &mut rng, share);
            for step in 0..200 {
                let key = key(&mut rng);
                let side = rng.usize(..sides.len());
                let what = [
                    What::InsertValue,
                    What::Remove,
                    What::Lookup,
                    What::Trie,
                    What::Index,
                    What::PopFirst,
                    What::PopDue,
                    What::PushDue,
                ][rng.usize(..8)];
                let flags = rng.u64(..3);
                let began = Instant::now();
                sides[side].ask(what, window.number, flags, &key, &[5, 6]);
                let took = began.elapsed();
                slowest = (took, what).max(slowest);
                assert!(took < Duration::from_secs(10), "{what:?} took {took:?}");
                // A wrong answer is allowed here, a crash is not.
                let _ = map.get(&key);
                if step % 8 == 0 {
                    let _ = map.service();
                }
            }
            let _ = (map.verify(), map.memory(), map.len());
            let _ = map.for_each(|_, _| ());
            if let Ok(reader) = map.reader() {
                let _ = reader.prefix("a").take(10_000).count();
            }
        }
        let now = outside(&arena, window.at..window.at + window.len);
        // The words that differ, with their neighbours.
        let words = |image: &[u8]| -> Vec<u64> {
            let words = image.chunks_exact(8);
            words
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect()
        };
        let near = |words: &[u64], at: usize| {
            words[at.saturating_sub(1)..words.len().min(at + 2)].to_vec()
        };
        let (whole, now) = (words(&whole), words(&now));
        assert_eq!(whole.len(), now.len());
        let changed: Vec<_> = (0..now.len()).filter(|&at| now[at] != whole[at]).collect();
        assert!(
            changed.is_empty(),
            "{place:?}, round {round}: outside of {window:?}, words were changed: {:?}; {:?}, {:?}",
            changed
                .iter()
                .take(20)
                .map(|&at| format!(
                    "{:#x}: {:#x?} for {:#x?}",
                    8 * at,
                    near(&now, at),
                    near(&whole, at)
                ))
                .collect::<Vec<_>>(),
            before.verify().map(drop),
            after.verify().map(drop),
        );
        before.verify().unwrap();
        after.verify().unwrap();
    }
}

/// A lane that nobody uses says that it holds locks, which lie in another window. Its next writer
/// does not release them.
#[test]
fn locks_of_free_lanes_are_not_believed() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(8 << 20).unwrap();
    let poke = Poke::new(&arena);
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Kernel::new(&arena))];
    sides.extend(User::new(&arena, "gcc").map(|side| Box::new(side) as Box<dyn Side>));
    let before = UserMap::<[u64; 8]>::builder(&arena, "before")
        .bytes(256 << 10)
        .build()
        .unwrap();
    // A release clears bits: all bits of these values are set.
    before.insert("ones", [u64::MAX; 8]).unwrap();
    let image = arena.image();
    let ones = image.windows(64).position(|bytes| bytes == [0xff; 64]);
    let ones = ones.expect("the value is in the image") as u64;
    let map = with(
        ProgramMap::<[u64; 2]>::builder(&arena, "map"),
        PARTS[PARTS.len() - 1],
    )
    .max_entries(400)
    .build()
    .unwrap();
    let window = map.window().clone();
    let lanes = arena.image()[window.at + k::LANES..][..4]
        .try_into()
        .unwrap();
    let lanes = u32::from_ne_bytes(lanes) as usize;
    assert!((1..=k::LANES_MAX).contains(&lanes), "{lanes}");
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..100 {
        // Places of two branches, then of two buckets, whose locks are in their second words.
        let offsets = [0, 8, 16, 24].map(|at| ones + at + round % 4);
        for lane in 0..lanes {
            let held = window.at + k::LANES_AT + lane * k::LANE_BYTES + k::LANE_HELD;
            poke.words(held as u64, &offsets);
        }
        for what in [What::InsertValue, What::Remove] {
            for side in &mut sides {
                side.ask(what, window.number, ANY, &key(&mut rng), &[5, 6]);
            }
        }
        map.service().unwrap();
        assert_eq!(before.get("ones"), Some([u64::MAX; 8]), "round {round}");
    }
    map.verify().unwrap();
}
