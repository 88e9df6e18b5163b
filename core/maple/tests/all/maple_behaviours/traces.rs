//! Traces of the address spaces of programs: one system call per line, in pages. The map is
//! verified after each call.

use crate::support::ranges::{Checked, Range, copied, each};

/// A program starts: its file is mapped, its parts get their protection, the linker and libraries
/// follow, and excess mappings are removed.
const A_PROGRAM_STARTS: &str = "
    map 0x400 0x1 1
    map 0x401 0x60 2
    map 0x461 0x20 1
    map 0x482 0x4 3
    map 0x486 0x9 4
    map 0x7fff0 0x21 5
    map 0x7f000 0x2 6
    map 0x7f002 0x26 7
    map 0x7f028 0xb 6
    map 0x7f033 0x2 8
    map 0x7f035 0x2 9
    map 0x7effe 0x2 10
    map 0x7ed00 0x1e0 11
    map 0x7ed28 0x170 12
    map 0x7ee98 0x40 11
    map 0x7eed8 0x4 11
    map 0x7eedc 0x2 13
    map 0x7eede 0x2 14
    map 0x7ec00 0xe8 15
    map 0x7ec10 0x78 16
    map 0x7ec88 0x5f 15
    map 0x7ece7 0x1 17
    protect 0x7eed8 0x4 18
    protect 0x482 0x2 18
    protect 0x7f033 0x1 18
    unmap 0x7effe 0x2
    grow 0x486 0x21
    map 0x7ebfc 0x4 19
    unmap 0x7ee98 0x8
    grow 0x486 0x44
    map 0x7eb00 0x80 20
    unmap 0x7eb00 0x80
";

/// Stacks with guard pages, from the top down. They end in another order, and new ones take the
/// holes.
const THREADS_COME_AND_GO: &str = "
    map 0x7f7fe 0x801 1
    protect 0x7f7fe 0x1 2
    map 0x7effd 0x801 3
    protect 0x7effd 0x1 2
    map 0x7e7fc 0x801 4
    protect 0x7e7fc 0x1 2
    map 0x7dffb 0x801 5
    protect 0x7dffb 0x1 2
    unmap 0x7effd 0x801
    map 0x7d000 0x400 6
    protect 0x7d000 0x21 7
    unmap 0x7e7fc 0x801
    map 0x7e7fd 0x1000 8
    protect 0x7e7fd 0x21 9
    protect 0x7e7fd 0x80 9
    protect 0x7e7fd 0x1000 9
    unmap 0x7f7fe 0x801
    map 0x7f7fe 0x801 10
    protect 0x7f7fe 0x1 2
    unmap 0x7d000 0x1000
    unmap 0x7dffb 0x2002
    unmap 0x7f7fe 0x801
";

/// A heap grows, is cut in the middle, moves, and returns single pages.
const A_HEAP_GROWS_AND_IS_TRIMMED: &str = "
    map 0x1000 0x21 1
    grow 0x1000 0x42
    grow 0x1000 0x63
    grow 0x1000 0xa5
    protect 0x1040 0x1 2
    protect 0x1041 0x1 2
    protect 0x1043 0x1 2
    protect 0x1042 0x1 2
    unmap 0x1080 0x25
    map 0x1080 0x25 1
    unmap 0x1010 0x1
    unmap 0x1012 0x1
    unmap 0x1014 0x1
    unmap 0x1016 0x1
    unmap 0x1018 0x1
    unmap 0x101a 0x1
    unmap 0x101c 0x1
    unmap 0x101e 0x1
    unmap 0x1020 0x1
    unmap 0x1022 0x1
    unmap 0x1024 0x1
    unmap 0x1026 0x1
    map 0x1000 0x100 3
    move 0x1000 0x9000
    grow 0x9000 0x400
    protect 0x9080 0x10 4
    protect 0x9100 0x10 4
    protect 0x9180 0x10 4
    protect 0x9200 0x10 4
    protect 0x9280 0x10 4
    protect 0x9300 0x10 4
    protect 0x9380 0x10 4
    protect 0x90c0 0x280 5
    unmap 0x9000 0x1000
";

/// A runtime reserves room, commits it piece by piece, and returns some.
const AN_ARENA_IS_COMMITTED_IN_PIECES: &str = "
    map 0xc0000 0x4000 1
    protect 0xc0000 0x400 2
    protect 0xc0400 0x400 2
    protect 0xc0800 0x1 3
    protect 0xc0802 0x1 3
    protect 0xc0804 0x1 3
    protect 0xc0806 0x1 3
    protect 0xc0808 0x1 3
    protect 0xc080a 0x1 3
    protect 0xc080c 0x1 3
    protect 0xc080e 0x1 3
    protect 0xc0800 0x10 2
    protect 0xc0200 0x900 4
    protect 0xc3fff 0x1 5
    protect 0xc3ffe 0x1 5
    protect 0xc3ff0 0x10 6
    unmap 0xc1000 0x2000
    protect 0xc0100 0x3e00 7
    unmap 0xc0000 0x4000
    map 0xc0000 0x4000 8
";

/// A page's bytes.
fn pages(start: u64, len: u64) -> Range {
    start << 12..=((start + len) << 12) - 1
}

fn replay(map: &mut Checked<u64>, trace: &str, base: u64) -> usize {
    let mut calls = 0;
    for line in trace.lines().filter(|l| !l.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| match words[at].strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => words[at].parse().unwrap(),
        };
        let (start, len) = (base + number(1), number(2));
        match words[0] {
            "map" => drop(map.store(pages(start, len), number(3))),
            "unmap" => drop(map.clear_range(pages(start, len))),
            "protect" => {
                // The mapped parts of the range get another protection, hole by hole.
                let range = pages(start, len);
                let parts: Vec<Range> = map.oracle.range(range.clone()).map(|e| e.0).collect();
                for part in parts {
                    let from = *part.start().max(range.start());
                    map.store(from..=*part.end().min(range.end()), number(3));
                }
            }
            "grow" => {
                let (old, v) = copied(map.oracle.get_entry(start << 12)).unwrap();
                let new = pages(start, len);
                assert!(new.end() > old.end());
                let more = old.end() + 1..=*new.end();
                let free = map.oracle.range(more.clone()).next().is_none();
                assert_eq!(map.insert_new(more, v), free);
                // One entry again, because the kernel merges them.
                let merged = *old.start()..=*new.end();
                map.store(merged.clone(), v);
                assert_eq!(map.map.get_entry(start << 12), Some((merged, v)));
            }
            "move" => {
                let (old, v) = map.remove(start << 12).1.unwrap();
                let to = (base + len) << 12;
                assert!(map.insert_new(to..=to + (old.end() - old.start()), v));
            }
            other => panic!("{other}"),
        }
        calls += 1;
    }
    calls
}

fn check(trace: &str, calls: usize) {
    each(|map| {
        let mut map = Checked::new(map);
        assert_eq!(replay(&mut map, trace, 0), calls);
        // Runs the trace once more over the remaining entries, and beside them.
        replay(&mut map, trace, 0);
        replay(&mut map, trace, 1 << 35);
        replay(&mut map, trace, 1 << 20);
    });
}

#[test]
fn a_program_starts() {
    check(A_PROGRAM_STARTS, 32);
}

#[test]
fn threads_come_and_go() {
    check(THREADS_COME_AND_GO, 22);
}

#[test]
fn a_heap_grows_and_is_trimmed() {
    check(A_HEAP_GROWS_AND_IS_TRIMMED, 34);
}

#[test]
fn an_arena_is_committed_in_pieces() {
    check(AN_ARENA_IS_COMMITTED_IN_PIECES, 20);
}

#[test]
fn many_programs_in_one_map() {
    each(|map| {
        let mut map = Checked::new(map);
        for base in [0, 1 << 21, 3 << 21, 2 << 21] {
            for trace in [
                A_PROGRAM_STARTS,
                THREADS_COME_AND_GO,
                AN_ARENA_IS_COMMITTED_IN_PIECES,
            ] {
                assert!(replay(&mut map, trace, base) > 0);
            }
        }
        // The programs end in another order.
        for base in [2 << 21, 0, 3 << 21, 1 << 21] {
            map.clear_range(pages(base, 1 << 21));
        }
        assert!(map.map.is_empty());
    });
}
