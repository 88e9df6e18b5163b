//! Programs get blocks of all sizes that they need between two steps of service.

use std::collections::BTreeSet;

use sapwood_bpf::{BpfArena, ProgramMap};

use crate::asks::{ANY, ENOENT, ENOMEM, Kernel, Side, What};
use crate::can;

/// A change: a key that comes or goes.
type Change = (Vec<u8>, bool);

/// Makes a program do all these changes, with a step of service after every `at_once` changes.
/// Returns the number of refused changes.
fn refused(map: &ProgramMap<u64>, side: &mut Kernel, changes: &[Change], at_once: usize) -> usize {
    let window = map.window().number;
    let mut refused = 0;
    for changes in changes.chunks(at_once) {
        map.service().unwrap();
        for (key, comes) in changes {
            let what = if *comes { What::Insert } else { What::Remove };
            match side.ask(what, window, ANY, key, &[7]).0 {
                0 => (),
                ENOMEM => refused += 1,
                // The insertion was refused before.
                ENOENT if what == What::Remove && refused > 0 => (),
                other => panic!("{what:?} {key:?}: {other}"),
            }
        }
    }
    refused
}

/// Random keys of all lengths: the root is copied at each insertion until it has all labels.
fn random(count: usize) -> Vec<Change> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut keys = BTreeSet::new();
    let mut changes = Vec::new();
    while changes.len() < count {
        let len = rng.usize(1..255);
        let key: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        if keys.insert(key.clone()) {
            changes.push((key, true));
        }
    }
    changes
}

/// Several counters at once. The branch of each grows through all sizes.
fn counters() -> Vec<Change> {
    let numbers = (0..600u16).flat_map(|n| (b'a'..b'h').map(move |who| (who, n)));
    let key = |(who, n): (u8, u16)| [&[who][..], &n.to_be_bytes()].concat();
    numbers.map(|number| (key(number), true)).collect()
}

/// One key that comes and goes below a wide branch, which alternates between two sizes.
fn to_and_fro(labels: u8) -> Vec<Change> {
    let wide = (0..labels).map(|label| (vec![b'w', label, 1, 2], true));
    let last = |i: usize| (vec![b'w', labels, 1, 2], i % 2 == 0);
    wide.chain((0..1000).map(last)).collect()
}

#[test]
fn programs_get_blocks_of_all_sizes() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    let plans = [
        ("random", random(16_312)),
        ("counters", counters()),
        ("72 labels", to_and_fro(72)),
        ("255 labels", to_and_fro(255)),
        ("7 labels", to_and_fro(7)),
    ];
    for at_once in [16, 128] {
        for (name, changes) in &plans {
            let map = ProgramMap::builder(&arena, name)
                .max_entries(20_000)
                .bytes(64 << 20)
                .build()
                .unwrap();
            let refused = refused(&map, &mut side, changes, at_once);
            let shape = map.verify().unwrap();
            println!("{name}, {at_once} at once: {refused} refused; {shape:?}");
            assert_eq!(refused, 0, "{name}, {at_once} at once");
            assert_eq!(shape.refused, 0);
        }
    }
}

#[test]
fn an_heir_finds_what_was_cut() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    let map = ProgramMap::<u64>::builder(&arena, "map")
        .max_entries(20_000)
        .bytes(8 << 20)
        .build()
        .unwrap();
    let changes = random(3000);
    assert_eq!(refused(&map, &mut side, &changes[..1000], 100), 0);
    // The owner leaves when programs have cut and retired many blocks that it never saw.
    let window = map.window().number;
    for (key, _) in &changes[1000..1060] {
        assert_eq!(side.ask(What::Insert, window, ANY, key, &[7]).0, 0);
    }
    map.leave();
    let heir = ProgramMap::<u64>::adopt(&arena, "map").unwrap();
    let shape = heir.verify().unwrap();
    assert_eq!((shape.entries, shape.refused), (1060, 0));
    assert_eq!(refused(&heir, &mut side, &changes[1060..], 100), 0);
    let shape = heir.verify().unwrap();
    assert_eq!((shape.entries, shape.refused), (3000, 0));
    let m = heir.memory().unwrap();
    assert_eq!(m.live, m.branches + m.clusters + m.leaves);
}
