//! The owner is killed while programs write; another process takes the map over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Error, ProgramMap};

use crate::asks::{ANY, EINVAL, Kernel, Side, What};
use crate::kernel::{Beside, Pins, Poke};
use crate::storm::{Counts, KEYS, run, settle};
use crate::{PARTS, can, with};
use sapwood_bpf::layout::program_map as k;

/// The part of the owner that is killed: it makes a map of each kind, and services the maps.
pub fn child() {
    let Some((_, path)) = Beside::order() else {
        return;
    };
    let arena = BpfArena::open(path).unwrap();
    let maps = PARTS.map(|parts| {
        let name = format!("{parts:?}");
        let map = with(ProgramMap::<[u64; 4]>::builder(&arena, &name), parts)
            .max_entries(KEYS as usize)
            .bytes(8 << 20)
            .ring(256)
            .build()
            .unwrap();
        let service = map.spawn_service(Duration::from_micros(300)).unwrap();
        (map, service)
    });
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
    drop(maps);
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
    let windows: Vec<u32> = arena.windows().unwrap().iter().map(|w| w.number).collect();
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
    std::thread::scope(|scope| {
        let storm = scope.spawn(|| {
            let Kernel(programs) = Kernel::new(&arena);
            let mut counts = [Counts::default(); PARTS.len()];
            let mut seed = 0;
            while !ends.load(Ordering::Relaxed) {
                for (window, counts) in windows.iter().zip(&mut counts) {
                    seed += 1;
                    counts.add(run(&programs, *window, seed, 20 + 50 * (seed as u32 % 4)));
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            counts
        });
        wait(300, 20);
        owner.kill();
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
        let counts = storm.join().unwrap();
        for ((map, service), counts) in heirs.into_iter().zip(counts) {
            assert_eq!((counts.torn, counts.full), (0, 0), "{counts:?}");
            assert!(counts.done > 0, "{counts:?}");
            assert!(counts.other == 0 || counts.error == EINVAL, "{counts:?}");
            settle(&map, service);
            println!("{counts:?}");
        }
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
