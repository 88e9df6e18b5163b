//! What allocating, freeing and growing cost here:
//! `cargo run --release -p sapwood-arena --example timing`.

use sapwood_arena::*;
use std::time::Instant;

fn main() {
    let n = 1_000_000u64;
    let start = Instant::now();
    for _ in 0..n {
        std::hint::black_box(Instant::now());
    }
    println!(
        "a clock read: {} ns",
        start.elapsed().as_nanos() / u128::from(n)
    );
    let mmap = Backing::Mmap { reserve: 16 << 30 };
    let kinds = [
        ("auto", Backing::Auto, true),
        ("auto, small pages", Backing::Auto, false),
        ("mmap", mmap.clone(), true),
        ("mmap, small pages", mmap, false),
    ];
    for (name, backing, huge) in kinds {
        let mut arena = Arena::new(ArenaOptions::default().backing(backing).huge_pages(huge));
        let mut x = 1u64;
        let mut size = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            16 + (x % 14) as usize * 8
        };
        let mut worst = 0;
        let start = Instant::now();
        let mut blocks = Vec::with_capacity(n as usize);
        for _ in 0..n {
            let bytes = size();
            let t = Instant::now();
            let r = arena.alloc(bytes, Kind(0), Area::Nodes).unwrap();
            worst = worst.max(t.elapsed().as_nanos());
            // SAFETY: a fresh block.
            unsafe { arena.base().add(r.byte_offset()).write(1) };
            blocks.push((r, bytes));
        }
        let each = start.elapsed().as_nanos() / u128::from(n);
        println!(
            "{name}: first {n} blocks, touched: {each} ns each (with two clock reads), worst {worst} ns"
        );

        let start = Instant::now();
        let (mut churn, mut y) = (0u64, 7u64);
        while churn < 5 * n {
            y = y
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let i = (y >> 33) as usize % 2000 + (churn / 5) as usize % 900_000;
            let (r, bytes) = blocks[i];
            // SAFETY: allocated above, replaced at once.
            unsafe { arena.free(r, bytes, Kind(0)) };
            let bytes = size();
            blocks[i] = (arena.alloc(bytes, Kind(0), Area::Nodes).unwrap(), bytes);
            churn += 1;
        }
        println!(
            "{name}: free + alloc of random sizes, near each other: {} ns",
            start.elapsed().as_nanos() / u128::from(churn)
        );

        let start = Instant::now();
        for _ in 0..n {
            let r = arena.alloc(40, Kind(0), Area::Nodes).unwrap();
            // SAFETY: known only here.
            unsafe { arena.free(r, 40, Kind(0)) };
        }
        println!(
            "{name}: alloc + free of the same: {} ns",
            start.elapsed().as_nanos() / u128::from(n)
        );

        let mut worst = 0;
        let start = Instant::now();
        for (r, bytes) in blocks.drain(..).step_by(2) {
            let t = Instant::now();
            // SAFETY: allocated above.
            unsafe { arena.free(r, bytes, Kind(0)) };
            worst = worst.max(t.elapsed().as_nanos());
        }
        println!(
            "{name}: free every other: {} ns, worst {worst} ns",
            start.elapsed().as_nanos() * 2 / u128::from(n)
        );
        let m = arena.memory();
        println!(
            "{name}: live {} free {} committed {} overhead {}",
            m.live, m.free, m.committed, m.overhead
        );
    }
}
