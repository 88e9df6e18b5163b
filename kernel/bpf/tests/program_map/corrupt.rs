//! Windows of random bytes. Programs end with an answer or an error, and write nothing outside the
//! window. This process reads nothing outside the window, and all operations end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sapwood_bpf::layout::program_map as k;
use sapwood_bpf::{BpfArena, KernelGrace, ProgramMap, UserMap, WindowInfo};
use sapwood_format::header;
use sapwood_qsbr::Domain;

use crate::asks::{ANY, Kernel, Side, User, What};
use crate::kernel::{Damage, Poke};
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
            (k::USES, k::EACH + 4),
            (k::LANES_AT, k::LANES_AT + k::LANE_SCRATCH + 336),
            (k::LANES_AT + k::LANE_STOCK, k::LANES_AT + k::LANE_BYTES),
        ],
        Where::All => &[
            (64, 112),
            (k::ROOT_LOCK, k::MAX),
            (k::USES, k::EACH + 4),
            (k::RINGS, frontier),
        ],
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
fn outside(arena: &BpfArena, window: &WindowInfo) -> Vec<u8> {
    let mut image = arena.image();
    let end = (window.at + window.len).min(image.len());
    image[window.at.min(end)..end].fill(0);
    image
}

/// What all rounds share, because its construction takes some grace periods.
struct Graces {
    grace: Arc<KernelGrace>,
    domain: Domain,
}

/// Damages a map of values of this many words more and more. Returns the longest operation.
fn lead_astray<const WORDS: usize>(
    round: usize,
    place: Where,
    graces: &Graces,
    rng: &mut fastrand::Rng,
) -> (Duration, What) {
    let arena = BpfArena::create(8 << 20).unwrap();
    let poke = Poke::new(&arena);
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(Kernel::new(&arena)),
        Box::new(crate::values::kernel(&arena)),
    ];
    if matches!(place, Where::All) {
        sides.extend(User::new(&arena, "gcc").map(|side| Box::new(side) as Box<dyn Side>));
    }
    let before = UserMap::<u64>::builder(&arena, "before")
        .bytes(256 << 10)
        .domain(&graces.domain)
        .build()
        .unwrap();
    let map = with(
        ProgramMap::<[u64; WORDS]>::builder(&arena, "map"),
        PARTS[round % 3],
    )
    .max_entries(400)
    .bytes(512 << 10)
    .ring(16)
    .grace(&graces.grace)
    .build()
    .unwrap();
    let after = UserMap::<u64>::builder(&arena, "after")
        .with_index()
        .bytes(256 << 10)
        .domain(&graces.domain)
        .build()
        .unwrap();
    for i in 0..200u64 {
        before.insert(i.to_le_bytes(), i).unwrap();
        after.insert(i.to_le_bytes(), i).unwrap();
    }
    let window = map.window().clone();
    let whole = outside(&arena, &window);
    for _ in 0..400 {
        let key = key(rng);
        let what = match WORDS {
            0..=8 => What::InsertValue,
            _ => What::Insert,
        };
        sides[0].ask(what, window.number, ANY, &key, &[1, 2]);
        map.service().unwrap();
    }
    assert!(map.len() > 100, "{}", map.len());
    map.verify().unwrap();
    let memory = map.memory().unwrap();
    let mut slowest = (Duration::ZERO, What::Lookup);
    for share in [5000, 2000, 1000, 400, 200, 50, 10, 3, 1] {
        let bounds = (window.at, memory.fixed, memory.frontier);
        spoil(&poke, bounds, place, rng, share);
        if share <= 3 && matches!(place, Where::Header | Where::All) {
            // Values of another size, for which the map has no rooms, and no classes of blocks.
            let at = window.at + header::root_at(header::VALUE_BYTES);
            poke.words(at as u64, &[rng.u64(1..=512) * 8]);
        }
        for step in 0..200 {
            let key = key(rng);
            let side = rng.usize(..sides.len());
            let what = [
                What::Insert,
                What::InsertValue,
                What::Remove,
                What::Take,
                What::CompareExchange,
                What::GetOrInsert,
                What::Lookup,
                What::Trie,
                What::Index,
                What::PopFirst,
                What::PopDue,
                What::PushDue,
                What::SetFrom,
                What::UpdateWith,
                What::Count,
                What::Sum,
            ][rng.usize(..16)];
            let flags = rng.u64(..3);
            let value = match what {
                // A place of the map, and the bytes of a value.
                What::SetFrom => [window.at as u64, 8 * WORDS as u64],
                What::UpdateWith => [1, WORDS as u64],
                _ => [5, 6],
            };
            let began = Instant::now();
            sides[side].ask(what, window.number, flags, &key, &value);
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
    assert_same(
        &whole,
        &outside(&arena, &window),
        &format!("{place:?}, round {round}"),
    );
    before.verify().unwrap();
    after.verify().unwrap();
    slowest
}

/// Two images have the same words. The failure shows those that differ, with their neighbours.
fn assert_same(whole: &[u8], now: &[u8], what: &str) {
    let words = |image: &[u8]| -> Vec<u64> {
        let words = image.chunks_exact(8);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect()
    };
    let near = |words: &[u64], at: usize| {
        let end = words.len().min(at + 2);
        format!("{:#x?}", &words[at.saturating_sub(1)..end])
    };
    let (whole, now) = (words(whole), words(now));
    assert_eq!(whole.len(), now.len());
    let changed = (0..now.len()).filter(|&at| now[at] != whole[at]);
    let changed: Vec<_> = changed
        .take(20)
        .map(|at| {
            let at_byte = 8 * at;
            format!("{at_byte:#x}: {} for {}", near(&now, at), near(&whole, at))
        })
        .collect();
    assert!(
        changed.is_empty(),
        "{what}: words outside of the window were changed: {changed:#?}"
    );
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
    let grace = KernelGrace::new().unwrap();
    let graces = Graces {
        domain: Domain::builder().source(grace.clone()).build(),
        grace,
    };
    // The environment may extend the test.
    let soak = std::env::var("SAPWOOD_SOAK").ok();
    let soak = Duration::from_secs(soak.and_then(|text| text.parse().ok()).unwrap_or(0));
    let begin = Instant::now();
    for round in 0.. {
        if round >= 9 && begin.elapsed() >= soak {
            println!("{round} rounds; the longest operation: {slowest:?}");
            return;
        }
        let place = places[round % 4];
        // Values of one word are replaced in place, and those of sixteen wait in rooms.
        let longest = match (round + round / 3) % 3 {
            0 => lead_astray::<2>(round, place, &graces, &mut rng),
            1 => lead_astray::<1>(round, place, &graces, &mut rng),
            _ => lead_astray::<16>(round, place, &graces, &mut rng),
        };
        slowest = longest.max(slowest);
    }
}

/// Where a window has the cell of the trie's root, and the reference of the index's table.
const ROOT_AT: usize = 64;
const TABLE_AT: usize = 72;

/// A map that is damaged on purpose, and another window whose bits are all set.
struct Trap<const WORDS: usize> {
    arena: BpfArena,
    sides: Vec<Box<dyn Side>>,
    before: UserMap<[u64; 8]>,
    /// The place of the eight words of the other window whose bits are all set.
    ones: u64,
    map: ProgramMap<[u64; WORDS]>,
    damage: Damage,
}

impl<const WORDS: usize> Trap<WORDS> {
    fn new(parts: (bool, bool)) -> Self {
        let arena = BpfArena::create(8 << 20).unwrap();
        let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Kernel::new(&arena))];
        sides.extend(User::new(&arena, "gcc").map(|side| Box::new(side) as Box<dyn Side>));
        let before = UserMap::<[u64; 8]>::builder(&arena, "before")
            .bytes(256 << 10)
            .build()
            .unwrap();
        before.insert("ones", [u64::MAX; 8]).unwrap();
        let image = arena.image();
        let ones = image.windows(64).position(|bytes| bytes == [0xff; 64]);
        let map = with(ProgramMap::<[u64; WORDS]>::builder(&arena, "map"), parts)
            .max_entries(400)
            .bytes(512 << 10)
            .build()
            .unwrap();
        for i in 0..40u64 {
            let key = (i * i).to_le_bytes();
            sides[0].ask(What::InsertValue, map.window().number, ANY, &key, &[i; 8]);
        }
        let damage = Damage::new(&arena, map.window());
        Trap {
            arena,
            sides,
            before,
            ones: ones.expect("the value is in the image") as u64,
            map,
            damage,
        }
    }

    /// A half of a word of the undamaged window, at this byte.
    fn half(&self, at: usize) -> u32 {
        (self.damage.whole[at / 8] >> (at % 8 * 8)) as u32
    }

    fn lanes(&self) -> usize {
        let lanes = self.half(k::LANES) as usize;
        assert!((1..=k::LANES_MAX).contains(&lanes), "{lanes}");
        lanes
    }

    /// Changes a half of a word.
    fn set_half(&self, at: usize, half: u32) {
        let word = self.damage.whole[at / 8].to_ne_bytes();
        let mut word: [[u8; 4]; 2] = [word[..4].try_into().unwrap(), word[4..].try_into().unwrap()];
        word[at / 4 % 2] = half.to_ne_bytes();
        let word = u64::from_ne_bytes(word.concat().try_into().unwrap());
        self.damage.words(at / 8, &[word]);
    }

    /// Inserts and removes keys by all sides, with values that are places of the other window; then
    /// mends the header and the lanes. Nothing outside of it has changed.
    fn spring(&mut self, rng: &mut fastrand::Rng, what: &str) {
        let number = self.map.window().number;
        let value: [u64; 8] = std::array::from_fn(|i| self.ones + 8 * i as u64);
        for ask in [
            What::Insert,
            What::InsertValue,
            What::Remove,
            What::PopFirst,
        ] {
            for side in &mut self.sides {
                // Keys of one word and of two; some are in the map.
                let mut key = (rng.u64(..40) * rng.u64(..40)).to_le_bytes().to_vec();
                if rng.bool() {
                    key.extend(self.ones.to_le_bytes());
                }
                side.ask(ask, number, ANY, &key, &value);
            }
        }
        assert_eq!(self.before.get("ones"), Some([u64::MAX; 8]), "{what}");
        self.damage
            .put_back(0, (k::LANES_AT + self.lanes() * k::LANE_BYTES) / 8);
    }

    /// Mends everything, and checks the map.
    fn end(&self) {
        self.damage.put_back(0, self.damage.last + 1);
        self.map.verify().unwrap();
    }
}

/// A lane that nobody uses says that it holds locks, which lie in another window. Its next writer
/// does not release them.
#[test]
fn locks_of_free_lanes_are_not_believed() {
    if !can() {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(3);
    for parts in PARTS {
        let mut trap = Trap::<8>::new(parts);
        for round in 0..8 {
            // Places of two branches, then of two buckets, whose locks are in their second words.
            let held = [0, 8, 16, 24].map(|at| trap.ones + at + round % 4);
            for lane in 0..trap.lanes() {
                let at = k::LANES_AT + lane * k::LANE_BYTES + k::LANE_HELD;
                trap.damage.words(at / 8, &held);
            }
            trap.spring(&mut rng, &format!("{parts:?}, round {round}"));
        }
        trap.end();
    }
}

/// References lead into the lanes, where writers keep their bounds and the window's place: a writer
/// that follows one would write where its own key says.
#[test]
fn no_reference_leads_into_a_lane() {
    if !can() {
        return;
    }
    for parts in PARTS {
        lead_into_lanes::<1>(parts);
        lead_into_lanes::<8>(parts);
    }
}

fn lead_into_lanes<const WORDS: usize>(parts: (bool, bool)) {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut trap = Trap::<WORDS>::new(parts);
    let window = trap.map.window().clone();
    let whole = outside(&trap.arena, &window);
    let lanes = trap.lanes();
    // The state of each lane: all but its stock, and the scratch that only paths use.
    let state = (0..lanes).flat_map(|lane| {
        let at = k::LANES_AT + lane * k::LANE_BYTES;
        (at / 8..(at + k::LANE_SCRATCH + 256) / 8).map(|unit| unit as u32)
    });
    for unit in state {
        let what = format!("{WORDS} words, {parts:?}, unit {unit}");
        // Blocks in the stocks.
        for lane in 0..lanes {
            let stock = k::LANES_AT + lane * k::LANE_BYTES + k::LANE_STOCK;
            let first = u64::from(unit) << 32 | k::STOCK_MAX as u64;
            let both = u64::from(unit) << 32 | u64::from(unit);
            let classes = [first, both, both, both].repeat(k::CLASSES);
            trap.damage.words(stock / 8, &classes);
        }
        trap.spring(&mut rng, &what);
        // The chunks of retired blocks, and the slabs.
        for lane in 0..lanes {
            let lane = k::LANES_AT + lane * k::LANE_BYTES;
            let tail = u64::from(unit) << 32 | 3;
            trap.damage.words((lane + k::LANE_TAIL) / 8, &[tail]);
            let slab = u64::from(u32::MAX) << 32 | u64::from(unit);
            trap.damage.words((lane + k::LANE_SLAB) / 8, &[slab]);
        }
        trap.spring(&mut rng, &what);
        // The root; the table of the index and its first buckets.
        for kind in 0..3 {
            trap.set_half(ROOT_AT, unit << 2 | kind);
            trap.spring(&mut rng, &what);
        }
        trap.set_half(TABLE_AT, unit);
        trap.spring(&mut rng, &what);
        if parts.0 {
            let directory = trap.half(TABLE_AT) as usize * 8 + 16;
            trap.set_half(directory, unit);
            trap.spring(&mut rng, &what);
            trap.damage.put_back(directory / 8, 1);
        }
    }
    assert_same(&whole, &outside(&trap.arena, &window), "lanes");
    trap.end();
}
