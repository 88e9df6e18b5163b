//! Growth, faults, debug modes, headers, and readers beside the owner.

use super::*;
use alloc::boxed::Box;
use alloc::vec;

#[test]
fn growing_keeps_contents_where_it_moves() {
    let backings = [
        Backing::Auto,
        Backing::Heap,
        Backing::Mmap { reserve: 1 << 30 },
    ];
    for backing in backings {
        let mut arena = Arena::new(ArenaOptions::default().backing(backing));
        let mut moved = 0;
        let mut refs = Vec::new();
        let n: u64 = if cfg!(miri) { 30 } else { 40_000 };
        for i in 0..n {
            let base = arena.base();
            let r = arena
                .alloc(1000, Kind(0), Area::ALL[(i % 2) as usize])
                .unwrap();
            moved += usize::from(base != arena.base());
            // SAFETY: fresh blocks.
            unsafe { arena.base().add(r.byte_offset()).cast::<u64>().write(i) };
            refs.push(r);
        }
        assert_eq!(arena.is_stable(), moved <= 1, "moved {moved} times");
        for (i, r) in refs.iter().enumerate() {
            let p = arena.base().wrapping_add(r.byte_offset()).cast::<u64>();
            // SAFETY: live blocks of more than 8 bytes.
            let value = unsafe { p.read() };
            assert_eq!(value, i as u64);
        }
        let m = arena.memory();
        // Under Miri, what stands in for pages is one allocation of full size.
        assert!(
            cfg!(miri) || m.committed < m.frontier + m.frontier / 7 + 8192,
            "{m:?}"
        );
    }
}

#[test]
fn faults_come_when_told() {
    let mut arena = Arena::new(ArenaOptions::default().fail_every(3));
    let ok: Vec<bool> = (0..9)
        .map(|_| arena.alloc(8, Kind(0), Area::Nodes).is_ok())
        .collect();
    assert_eq!(
        ok,
        [true, true, false, true, true, false, true, true, false]
    );
    arena.fail_after(1);
    assert!(arena.ensure(100).is_err());
    assert!(arena.ensure(100).is_ok());
    arena.fail_after(1);
    // Promised blocks do not fail; the first beyond them does.
    for _ in 0..12 {
        arena.alloc(8, Kind(0), Area::Leaves).unwrap();
    }
    arena.alloc(4, Kind(0), Area::Leaves).unwrap();
    assert!(arena.alloc(8, Kind(0), Area::Leaves).is_err());
    arena.verify().unwrap();
}

#[test]
#[should_panic(expected = "written after free")]
fn poison_finds_a_write_after_free() {
    let mut arena = Arena::new(ArenaOptions::default().debug(DebugMode::Poison));
    let r = arena.alloc(64, Kind(0), Area::Nodes).unwrap();
    let _between = arena.alloc(64, Kind(0), Area::Nodes).unwrap();
    // SAFETY: the free is right; the write after it is the mistake under test, into memory that the
    // arena still holds.
    unsafe {
        arena.free(r, 64, Kind(0));
        arena.base().add(r.byte_offset() + 40).write(1);
    }
    let _ = arena.alloc(64, Kind(0), Area::Nodes);
}

#[test]
#[should_panic(expected = "freed twice")]
fn poison_finds_a_double_free() {
    let mut arena = Arena::new(ArenaOptions::default().debug(DebugMode::Poison));
    let refs: Vec<Ref> = (0..3)
        .map(|_| arena.alloc(64, Kind(0), Area::Nodes).unwrap())
        .collect();
    // SAFETY: the second is the mistake under test; it panics before it does harm.
    unsafe {
        arena.free(refs[1], 64, Kind(0));
        arena.free(refs[1], 64, Kind(0));
    }
}

#[test]
fn clear_begins_anew() {
    for seed in 0..4 {
        let mut c = Checked::new(Arena::new(options(seed)), seed);
        for _ in 0..2 {
            c.arena.set_roots([7; 8]).unwrap();
            for _ in 0..STEPS / 4 {
                c.step(200);
            }
            c.arena.begin_evacuation(Area::Nodes);
            c.check();
            c.arena.clear();
            c.blocks.clear();
            c.used.clear();
            c.check();
            assert_eq!(c.arena.roots(), [0; 8]);
            assert_eq!(c.arena.memory().frontier, c.arena.memory().header);
        }
    }
}

#[test]
fn a_region_of_ones_own() {
    let region = HeapRegion::fixed(10_000).unwrap();
    let mut arena = Arena::with_region(Box::new(region), ArenaOptions::default()).unwrap();
    assert!(arena.is_stable());
    arena.set_root(3, 99).unwrap();
    let base = arena.base();
    while arena.alloc(100, Kind(0), Area::Leaves).is_ok() {}
    assert!(arena.memory().live > 9_000);
    arena.verify().unwrap();
    arena.clear();
    assert_eq!((arena.base(), arena.roots()), (base, [0; 8]));
    assert!(
        Arena::with_region(
            Box::new(HeapRegion::fixed(0).unwrap()),
            ArenaOptions::default()
        )
        .is_err()
    );
}

#[test]
fn headers_survive_no_damage() {
    let mut header = Header::new(77);
    header.roots = [1, 2, 3, 4, 5, 6, 7, u64::MAX];
    header.generation = 12;
    let body = vec![0xA5u8; 40];
    let mut image = header.seal(&body).to_vec();
    image.extend(&body);
    let read = Header::decode(&image, 77).unwrap();
    read.check_body(&image[HEADER_LEN..]).unwrap();
    assert_eq!(
        (read.roots, read.generation, read.sealed),
        (header.roots, 12, true)
    );
    assert_eq!(
        Header::decode(&image, 78),
        Err(HeaderError::Layout {
            found: 77,
            expected: 78
        })
    );
    let whole =
        |image: &[u8]| Header::decode(image, 77).and_then(|h| h.check_body(&image[HEADER_LEN..]));
    let every = if cfg!(miri) { 1511 } else { 1 };
    for bit in (0..image.len() * 8).step_by(every) {
        image[bit / 8] ^= 1 << (bit % 8);
        assert!(whole(&image).is_err(), "bit {bit}");
        image[bit / 8] ^= 1 << (bit % 8);
    }
    for len in (0..image.len()).step_by(every) {
        assert!(whole(&image[..len]).is_err(), "length {len}");
    }
    image.push(0);
    let stated = (HEADER_LEN + 40) as u64;
    assert_eq!(
        whole(&image),
        Err(HeaderError::Length {
            stated,
            actual: stated + 1
        })
    );
}

#[test]
fn readers_beside_the_owner() {
    // Under Miri and the thread sanitizer this shows that the owner never touches live blocks.
    let mut arena = Arena::new(ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 }));
    let refs: Vec<Ref> = (0..50)
        .map(|_| arena.alloc(32, Kind(0), Area::Nodes).unwrap())
        .collect();
    let others: Vec<Ref> = (0..50)
        .map(|_| arena.alloc(32, Kind(0), Area::Nodes).unwrap())
        .collect();
    let kept: Vec<Ref> = refs.iter().step_by(2).copied().collect();
    let mixed = refs.iter().skip(1).step_by(2).chain(&others);
    struct Base(*mut u8);
    // SAFETY: the memory is shared on purpose; the reader reads only blocks that stay live.
    unsafe impl Send for Base {}
    for r in &kept {
        // SAFETY: live blocks.
        unsafe { arena.base().add(r.byte_offset()).write_bytes(0x5A, 32) };
    }
    let base = Base(arena.base());
    std::thread::scope(|s| {
        s.spawn(move || {
            let base = base;
            for _ in 0..if cfg!(miri) { 3 } else { 300 } {
                for r in &kept {
                    for i in 0..32 {
                        // SAFETY: these blocks stay live, and nobody writes them.
                        assert_eq!(unsafe { base.0.add(r.byte_offset() + i).read() }, 0x5A);
                    }
                }
            }
        });
        for r in mixed {
            // SAFETY: known only here.
            unsafe { arena.free(*r, 32, Kind(0)) };
        }
        for i in 0..200 {
            let r = arena.alloc(8 + i % 60, Kind(0), Area::Nodes).unwrap();
            if i % 3 == 0 {
                // SAFETY: known only here.
                unsafe { arena.free(r, 8 + i % 60, Kind(0)) };
            }
        }
    });
    arena.verify().unwrap();
}
