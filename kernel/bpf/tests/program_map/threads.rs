//! The C headers in user space: four threads write one map in a copy of an arena, which is then
//! written back. Between two runs, this process services the map.

use std::path::Path;
use std::process::Command;

use sapwood_bpf::{BpfArena, ProgramMap};

use crate::kernel::Poke;
use crate::{PARTS, can, with};

/// The part of a key that all threads change, as in the program.
const COMMON: &[u8] = b"/4/";

/// Compiles `threads.c` with the thread sanitizer; `None` when there is no gcc with it.
fn compiled(folder: &Path) -> Option<std::path::PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = folder.join("threads");
    let done = Command::new("gcc")
        .args(["-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=thread", "-pthread", "-I"])
        .arg(here.join("bpf/include"))
        .arg(here.join("tests/program_map/threads.c"))
        .arg("-o")
        .arg(&binary)
        .output();
    let done = done.ok()?;
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("cannot find") && said.contains("tsan") {
        return None;
    }
    assert!(done.status.success(), "{said}");
    Some(binary)
}

/// Runs the program on the arena: what it printed.
fn run(program: &Path, arena: &BpfArena, poke: &Poke, window: u32, seed: u64) -> [u64; 5] {
    let file = program.with_extension("image");
    let before = arena.image();
    std::fs::write(&file, &before).unwrap();
    // The sanitizer cannot map its shadow where the kernel places memory with much randomness.
    let run = Command::new("setarch")
        .arg("-R")
        .arg(program)
        .arg(&file)
        .args([window.to_string(), seed.to_string()])
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {errors}", run.status);
    assert!(!errors.contains("WARNING"), "{errors}");
    let after = std::fs::read(&file).unwrap();
    for (i, (old, new)) in before.chunks(2048).zip(after.chunks(2048)).enumerate() {
        if old != new {
            let words = new.chunks_exact(8);
            let words = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
            poke.words(i as u64 * 2048, &words.collect::<Vec<_>>());
        }
    }
    let text = String::from_utf8(run.stdout).unwrap();
    let numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    numbers.collect::<Vec<u64>>().try_into().unwrap()
}

#[test]
fn four_threads_under_the_thread_sanitizer() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else {
        println!("skipped: no gcc with a thread sanitizer");
        return;
    };
    for (i, parts) in PARTS.into_iter().enumerate() {
        let arena = BpfArena::create(32 << 20).unwrap();
        let poke = Poke::new(&arena);
        let map = with(ProgramMap::<[u64; 2]>::builder(&arena, "map"), parts)
            .max_entries(600)
            .bytes(24 << 20)
            .ring(4096)
            .full_rings()
            .build()
            .unwrap();
        let (mut all, mut busy) = (0, 0);
        for seed in 0..4 {
            let window = map.window().number;
            let [done, no_memory, was_busy, wrong, own] =
                run(&program, &arena, &poke, window, seed + 10 * i as u64);
            assert_eq!(wrong, 0, "{parts:?}");
            println!("{parts:?}: {done} done, {no_memory} without memory, {was_busy} busy");
            (all, busy) = (all + done, busy + was_busy);
            let shape = map.verify().unwrap();
            assert_eq!((shape.entries, shape.refused), (map.len(), 0));
            let (mut entries, mut common) = (0, 0);
            map.for_each(|key, value| {
                let number = u64::from(key[key.len() - 1]);
                assert_eq!(value[0] ^ value[1], number, "{key:?}");
                entries += 1;
                common += u64::from(key[2..].starts_with(COMMON));
            })
            .unwrap();
            assert_eq!((entries, entries - common), (map.len() as u64, own));
            let drops: u64 = map.drops().iter().map(|drops| drops.sum()).sum();
            assert!(drops >= no_memory + was_busy, "{drops}");
            let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while map.memory().unwrap().waiting + map.memory().unwrap().retired > 0 {
                map.service().unwrap();
                assert!(std::time::Instant::now() < until);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        assert!(all > 1000, "{all}");
        println!("{parts:?}: {busy} of {all} were busy");
    }
}
