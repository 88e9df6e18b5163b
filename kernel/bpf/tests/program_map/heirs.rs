//! The owner is killed while programs write; another process takes the map over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Error, ProgramMap, Write, WriteError};

use crate::asks::{ANY, EINVAL, Kernel, Side, What};
use crate::kernel::{Beside, Pins, Poke, Timers};
use crate::storm::{Counts, Interrupts, KEYS, is_whole, key, pin, run, settle, value};
use crate::{PARTS, can, with};
use sapwood_bpf::layout::program_map as k;

/// The part of an owner that is killed: it makes a map of each kind, or takes them over, services
/// the maps, and writes, reads and verifies them.
pub fn child() {
    let Some((order, path)) = Beside::order() else {
        return;
    };
    let arena = BpfArena::open(path).unwrap();
    let maps = PARTS.map(|parts| {
        let name = format!("{parts:?}");
        let map = match order.as_str() {
            "own" => with(ProgramMap::<[u64; 4]>::builder(&arena, &name), parts)
                .max_entries(KEYS as usize)
                .bytes(8 << 20)
                .ring(256)
                .user_writes()
                .build(),
            _ => ProgramMap::adopt(&arena, &name),
        };
        let map = map.unwrap();
        let service = map.spawn_service(Duration::from_micros(300)).unwrap();
        (map, service)
    });
    println!("ready");
    let end = Instant::now() + Duration::from_secs(60);
    let mut done = 0;
    while Instant::now() < end {
        for (map, _) in &maps {
            done += write(map);
        }
        println!("at {done}.");
    }
}

/// Writes many keys, reads as many, and verifies the map. Returns the number of changes.
fn write(map: &ProgramMap<[u64; 4]>) -> u64 {
    let mut rng = fastrand::Rng::new();
    let numbers: Vec<u32> = (0..200).map(|_| rng.u32(..KEYS)).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
    let changes: Vec<_> = (keys.iter().zip(&numbers))
        .map(|(key, number)| match rng.u8(..4) {
            0 => Write::Remove(key),
            1 => Write::InsertNew(key, value(*number, rng.u64(..))),
            2 => Write::Replace(key, value(*number, rng.u64(..))),
            _ => Write::Insert(key, value(*number, rng.u64(..))),
        })
        .collect();
    let mut done = 0;
    for (change, result) in changes.iter().zip(map.write_many(&changes).unwrap()) {
        let expected = match (change, result) {
            (_, Ok(())) => {
                done += 1;
                true
            }
            (_, Err(WriteError::Busy | WriteError::NoMemory)) => true,
            (Write::InsertNew(..), Err(error)) => error == WriteError::Exists,
            (Write::Replace(..) | Write::Remove(_), Err(error)) => error == WriteError::Absent,
            _ => false,
        };
        assert!(expected, "{change:?}: {result:?}");
    }
    for key in &keys {
        if let Some(value) = map.get(key).unwrap_or(None) {
            assert!(is_whole(key, value), "{key:?} {value:x?}");
        }
    }
    assert!(map.len() <= KEYS as usize);
    // Beside writers, it may say that the map was changed meanwhile.
    let _ = map.verify();
    done
}

#[test]
fn the_owner_is_killed() {
    if !can() {
        return;
    }
    let pins = Pins::new("heirs");
    let path = pins.path("arena");
    let arena = BpfArena::create(64 << 20).unwrap();
    arena.pin(&path).unwrap();
    let mut owner = Beside::start("own", &path);
    owner.wait_for("ready");
    let wrong = ProgramMap::<u64>::adopt(&arena, &format!("{:?}", PARTS[0]));
    assert!(matches!(wrong, Err(Error::Value { .. })), "{wrong:?}");
    let missing = ProgramMap::<u64>::adopt(&arena, "no such map");
    assert!(
        matches!(missing, Err(Error::NoWindow { .. })),
        "{missing:?}"
    );
    let owned = ProgramMap::<[u64; 4]>::adopt(&arena, &format!("{:?}", PARTS[0]));
    assert!(matches!(owned, Err(Error::Owned { .. })), "{owned:?}");
    let all = arena.windows().unwrap();
    let maps = PARTS.map(|parts| format!("{parts:?}"));
    let windows: Vec<u32> = (all.iter().filter(|w| maps.contains(&w.name)))
        .map(|w| w.number)
        .collect();
    assert_eq!(windows.len(), PARTS.len());
    let ends = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    // Waits for this time, and for this many rounds of the programs, also on a busy machine.
    let wait = |millis, more| {
        let enough = rounds.load(Ordering::Relaxed) + more;
        std::thread::sleep(Duration::from_millis(millis));
        let late = Instant::now() + Duration::from_secs(30);
        while rounds.load(Ordering::Relaxed) < enough && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
    let soak = std::env::var("SAPWOOD_SOAK").map_or(0, |seconds| seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(soak);
    std::thread::scope(|scope| {
        let interrupts = Interrupts::start(&arena, &windows);
        let storms: Vec<_> = (0..cpus)
            .map(|cpu| {
                let (arena, windows, ends, rounds) = (&arena, &windows, &ends, &rounds);
                scope.spawn(move || {
                    pin(cpu);
                    let Kernel(programs) = Kernel::new(arena);
                    let mut counts = [Counts::default(); PARTS.len()];
                    let mut seed = cpu as u64;
                    let timers = Timers::new(10);
                    while !ends.load(Ordering::Relaxed) {
                        for (window, counts) in windows.iter().zip(&mut counts) {
                            seed += cpus as u64;
                            let removals = 20 + 50 * (seed / 8 % 4) as u32;
                            timers.set(2000 + seed * 7919 % 20_000);
                            counts.add(run(&programs, *window, seed, removals));
                        }
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                    counts
                })
            })
            .collect();
        wait(300, 20);
        let mut ordered = owner.kill_at();
        let mut killed = 1;
        while killed < 2 || Instant::now() < until {
            wait(50, 2);
            let mut heir = Beside::start("adopt", &path);
            heir.wait_for("ready");
            wait(if soak == 0 { 200 } else { 2000 }, 20);
            ordered += heir.kill_at();
            killed += 1;
        }
        wait(50, 2);
        let heirs = PARTS.map(|parts| {
            let map = ProgramMap::<[u64; 4]>::adopt(&arena, &format!("{parts:?}")).unwrap();
            let service = map.spawn_service(Duration::from_micros(300)).unwrap();
            (map, service)
        });
        let mine = ProgramMap::<[u64; 4]>::adopt(&arena, &format!("{:?}", PARTS[0]));
        assert!(matches!(mine, Err(Error::Name { .. })), "{mine:?}");
        wait(300, 20);
        ends.store(true, Ordering::Relaxed);
        let interrupted = interrupts.stop();
        println!("in interrupts: {interrupted:?}");
        assert_eq!((interrupted.torn, interrupted.full), (0, 0));
        assert!(interrupted.other == 0 || interrupted.error == EINVAL);
        assert!(interrupted.done > 0 && interrupted.found > 0 && ordered > 0);
        let mut all = [Counts::default(); PARTS.len()];
        for storm in storms {
            for (all, counts) in all.iter_mut().zip(storm.join().unwrap()) {
                all.add(counts);
            }
        }
        let done: u64 = all.iter().map(|counts| counts.done).sum();
        for ((map, service), counts) in heirs.into_iter().zip(all) {
            assert_eq!((counts.torn, counts.full), (0, 0), "{counts:?}");
            assert!(counts.done > 0, "{counts:?}");
            assert!(counts.other == 0 || counts.error == EINVAL, "{counts:?}");
            settle(&map, service);
            println!("{counts:?}");
        }
        let done = done + interrupted.done;
        println!(
            "{killed} owners killed, {done} changes by programs, {ordered} changes by user space"
        );
    });
}

#[test]
fn a_damaged_map_has_no_heir() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let poke = Poke::new(&arena);
    let mut side = Kernel::new(&arena);
    let mut rng = fastrand::Rng::with_seed(5);
    let map = ProgramMap::<u64>::builder(&arena, "map")
        .max_entries(300)
        .bytes(1 << 20)
        .build()
        .unwrap();
    let window = map.window().clone();
    for i in 0..200u64 {
        map.service().unwrap();
        let key = i.to_le_bytes();
        let (result, _) = side.ask(What::Insert, window.number, ANY, &key, &[i]);
        assert_eq!(result, 0);
    }
    // From here on, no owner services the map, as if its process had ended.
    map.leave();
    let frontier = arena.image()[window.at + k::FRONTIER..][..8].to_vec();
    let frontier = u64::from_le_bytes(frontier.try_into().unwrap()) as usize;
    let whole = arena.image();
    let mut refused = 0;
    for round in 0..60 {
        let at = match round % 3 {
            0 => rng.usize(k::GRANTED / 8..(k::LANES + 8) / 8) * 8,
            1 => rng.usize(k::RINGS / 8..frontier / 8) * 8,
            _ => rng.usize(6..14) * 8,
        };
        poke.words((window.at + at) as u64, &[rng.u64(..)]);
        match ProgramMap::<u64>::adopt(&arena, "map") {
            Ok(map) => {
                let _ = (map.verify(), map.service());
                map.leave();
            }
            Err(Error::Damaged(_) | Error::Value { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        // The contents are restored.
        for page in (window.at..window.at + frontier).step_by(2048) {
            let words: Vec<u64> = whole[page..page + 2048]
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect();
            poke.words(page as u64, &words);
        }
    }
    assert!(refused > 10, "{refused}");
    let map = ProgramMap::<u64>::adopt(&arena, "map").unwrap();
    assert_eq!(map.verify().unwrap().entries, 200);
}
