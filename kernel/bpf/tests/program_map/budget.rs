//! Programs with much on the stack change maps: what a change takes of it has a limit.

use sapwood_bpf::{BpfArena, ProgramMap};

use crate::kernel::{Answers, load, short, word};
use crate::{PARTS, can, with};

const BUDGET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/budget.bpf.o"));

/// The functions of changes, as `what` of the question names them.
const INSERT: u32 = 0;
const INSERT_VALUE: u32 = 1;
const REMOVE: u32 = 2;
const TAKE: u32 = 3;

/// That the kernel loads the programs is half of the test; `tests/levels.rs` has the other levels
/// of optimization.
#[test]
fn a_key_or_three_functions_of_a_program_leave_room_on_the_stack() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let programs = load(&arena, BUDGET);
    for (i, parts) in PARTS.into_iter().enumerate() {
        let map: ProgramMap<[u64; 4]> =
            with(ProgramMap::builder(&arena, &format!("budget{i}")), parts)
                .max_entries(1000)
                .bytes(8 << 20)
                .build()
                .unwrap();
        let ask = |program: &str, what: u32, value: u64, name: u64| {
            let name = name.to_be_bytes();
            let mut data = vec![0u8; 40 + 64 + 256];
            data[0..4].copy_from_slice(&map.window().number.to_ne_bytes());
            data[4..8].copy_from_slice(&what.to_ne_bytes());
            data[8..16].copy_from_slice(&value.to_ne_bytes());
            data[32..40].copy_from_slice(&name);
            for (at, word) in [value, 5, 6, 7].into_iter().enumerate() {
                data[40 + at * 8..48 + at * 8].copy_from_slice(&word.to_ne_bytes());
            }
            data[104..360].copy_from_slice(&short(&name));
            programs.answer(program, &mut data);
            (word(&data, 16) as i64, word(&data, 24))
        };
        // As many keys as make branches, and clusters that are split and joined.
        for name in 0..500 {
            assert_eq!(ask("sw_with_key", INSERT, name, name), (0, 8), "{name}");
            let done = ask("sw_with_frames", INSERT_VALUE, name, 1000 + name);
            assert_eq!(done, (0, 2 * name + 6), "{name}");
        }
        assert_eq!(ask("sw_with_frames", INSERT, 0, 2000), (-7, 6));
        assert_eq!(map.verify().unwrap().entries, 1000);
        for name in 0..400 {
            let done = ask("sw_with_key_below", INSERT, 9, name);
            assert_eq!(done, (0, 8), "{name}");
            let done = ask("sw_with_frames", INSERT, 9, name);
            assert_eq!(done, (0, 24), "{name}");
            let done = ask("sw_with_key", INSERT_VALUE, 9, name);
            assert_eq!(done, (0, 8), "{name}");
            map.service().unwrap();
        }
        for name in 0..200 {
            assert_eq!(ask("sw_with_key", REMOVE, 0, name), (0, 8), "{name}");
            assert!(ask("sw_with_key", TAKE, 0, 200 + name).0 > 0, "{name}");
            assert_eq!(ask("sw_with_frames", REMOVE, 0, 1200 + name), (0, 6));
            assert!(ask("sw_with_frames", TAKE, 0, 1000 + name).0 > 0, "{name}");
            assert_eq!(ask("sw_with_frames", TAKE, 0, 1000 + name), (-2, 6));
            map.service().unwrap();
        }
        assert_eq!(map.verify().unwrap().entries, 200);
    }
}
