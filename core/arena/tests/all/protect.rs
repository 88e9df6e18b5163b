//! `DebugMode::Protect`: a use after free must kill. A child process does the dying.
#![cfg(all(unix, not(miri)))]

use sapwood_arena::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const ROLE: &str = "SAPWOOD_ARENA_PROTECT_CHILD";
const SIGSEGV: i32 = 11;
const SIGBUS: i32 = 10;

fn arena() -> Arena {
    Arena::new(
        ArenaOptions::default()
            .backing(Backing::Mmap { reserve: 4 << 30 })
            .debug(DebugMode::Protect),
    )
}

#[test]
fn a_use_after_free_dies_at_once() {
    if let Ok(role) = std::env::var(ROLE) {
        let mut arena = arena();
        let keep = arena.alloc(40, Kind(0), Area::Nodes).unwrap();
        let r = arena.alloc(40, Kind(0), Area::Nodes).unwrap();
        let p = arena.base().wrapping_add(r.byte_offset());
        let q = arena.base().wrapping_add(keep.byte_offset());
        // SAFETY: both blocks are live until the free; the access after it is the mistake under
        // test, in this arena's own mapping.
        unsafe {
            p.write_volatile(1);
            q.write_volatile(1);
            arena.free(r, 40, Kind(0));
            assert_eq!(q.read_volatile(), 1);
            match role.as_str() {
                "read" => std::hint::black_box(p.read_volatile()),
                "write" => {
                    p.write_volatile(2);
                    0
                }
                _ => 0,
            };
        }
        std::process::exit(0);
    }
    let run = |role: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "protect::a_use_after_free_dies_at_once"])
            .env(ROLE, role)
            .output()
            .unwrap()
            .status
    };
    for role in ["read", "write"] {
        let status = run(role);
        assert!(
            matches!(status.signal(), Some(SIGSEGV | SIGBUS)),
            "{role}: {status}"
        );
    }
    assert!(run("neither").success());
}

#[test]
fn accounting_holds_and_pages_return_late() {
    let mut arena = arena();
    let mut seen = std::collections::HashSet::new();
    let mut reused = false;
    let mut kept = Vec::new();
    for i in 0..40_000usize {
        let bytes = 8 + i * 37 % 6000;
        arena.ensure(bytes).unwrap();
        let r = arena.alloc(bytes, Kind(1), Area::Leaves).unwrap();
        if !seen.insert(r) {
            assert!(i > 5_000, "reused after {i} blocks");
            reused = true;
        }
        // SAFETY: a fresh block.
        unsafe { arena.base().add(r.byte_offset()).write_bytes(9, bytes) };
        if i % 100 == 0 {
            kept.push((r, bytes));
        } else if i % 2 == 0 {
            // SAFETY: known only here.
            unsafe { arena.free(r, bytes, Kind(1)) };
        } else {
            arena.retire(bytes, Kind(1));
            // SAFETY: known only here.
            unsafe { arena.free_retired(r, bytes, Kind(1)) };
        }
        if i % 5000 == 0 {
            arena.verify().unwrap();
        }
    }
    assert!(reused);
    arena.verify().unwrap();
    assert_eq!(arena.memory().kinds[1].count, kept.len());
    for (r, bytes) in &mut kept {
        // SAFETY: live, known only here.
        unsafe { arena.shrink(*r, (*bytes, Kind(1)), (bytes.div_ceil(3), Kind(2))) };
        *bytes = bytes.div_ceil(3);
        let last = arena.base().wrapping_add(r.byte_offset() + *bytes - 1);
        // SAFETY: what is left is still live.
        let value = unsafe { last.read() };
        assert_eq!(value, 9);
    }
    arena.verify().unwrap();
    for (r, bytes) in kept {
        // SAFETY: known only here.
        unsafe { arena.free(r, bytes, Kind(2)) };
    }
    arena.verify().unwrap();
    assert_eq!(arena.memory().live, 0);
    assert!(!arena.begin_evacuation(Area::Leaves));
    assert!(arena.evacuation_step(Area::Leaves, 100).done);
    arena.clear();
    arena.verify().unwrap();
    arena.alloc(100, Kind(0), Area::Nodes).unwrap();
}
