//! Programs that may sleep: a lookup's result stays while a program sleeps, in arenas that allow
//! such programs, for all owners and processes.
#![cfg(feature = "kernel")]

#[path = "../kernel/mod.rs"]
mod kernel;
mod writes;

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Beside, Ends, Pins, Poke, skipped, value_of, word};
use libbpf_rs::{MapCore, MapFlags, ProgramInput, UprobeOpts};
use sapwood_bpf::layout::{Kind, page};
use sapwood_bpf::{
    BpfArena, Error, KernelGrace, Loader, ProgramMap, Programs, UserMap, Way, Words,
};
use sapwood_qsbr::{Domain, GraceSource};

const SLEEPY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sleepy.bpf.o"));
const WRITES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sleepy-writes.bpf.o"));

/// Bytes of a question, and the places of its parts.
const ASK: usize = 360;
const RESULT: usize = 32;
const CHANGES: usize = 40;
const SLEEPS: usize = 48;
const VALUE: usize = 56;
const KEY: usize = 64;
const UPDATE: usize = 320;
const INNER: usize = 356;

const NAME: &[u8] = b"key";

/// How long a program sleeps at least, while the writer uses memory again.
const LONG: Duration = Duration::from_millis(1500);

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

fn set(programs: &Programs, ask: &[u8]) {
    programs
        .update("sleepers", &0u32.to_ne_bytes(), ask)
        .unwrap();
}

fn get(programs: &Programs) -> Vec<u8> {
    let asks = programs.map("sleepers").unwrap();
    let found = asks.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap();
    found.expect("the question")
}

/// The program looks `NAME` up, and sleeps until the second word is set. Returns the question with
/// the answer.
fn sleep(programs: &Programs, window: u32, words: usize) -> Vec<u8> {
    let mut ask = vec![0; ASK];
    let fd = |name: &str| programs.map(name).unwrap().as_fd().as_raw_fd() as u32;
    put(&mut ask, 0, &window.to_ne_bytes());
    // Each round sleeps for some milliseconds.
    put(&mut ask, 4, &1000u32.to_ne_bytes());
    put(&mut ask, 8, &(words as u64).to_ne_bytes());
    put(&mut ask, KEY, &kernel::short(NAME));
    put(&mut ask, UPDATE, &fd("outer").to_ne_bytes());
    put(&mut ask, INNER, &fd("inner").to_ne_bytes());
    set(programs, &ask);
    let program = programs.program("sw_sleep").unwrap();
    let done = program.test_run(ProgramInput::default()).unwrap();
    assert_eq!(done.return_value, 0);
    get(programs)
}

/// Waits until the program sleeps.
fn asleep(words: &Words) {
    let began = Instant::now();
    while words.get(0) == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "no program");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The changes of a map while a program sleeps.
trait Changes: Sync {
    fn window(&self) -> u32;
    fn put(&self, key: &[u8], value: u64);
    fn take(&self, key: &[u8]);
    /// Frees what programs no longer use.
    fn tidy(&self);
}

impl Changes for UserMap<u64> {
    fn window(&self) -> u32 {
        self.window().number
    }

    fn put(&self, key: &[u8], value: u64) {
        self.insert(key, value).unwrap();
    }

    fn take(&self, key: &[u8]) {
        self.remove(key).unwrap();
    }

    fn tidy(&self) {
        self.reclaim(1000);
    }
}

impl Changes for ProgramMap<u64> {
    fn window(&self) -> u32 {
        self.window().number
    }

    fn put(&self, key: &[u8], value: u64) {
        self.insert(key, value).unwrap().unwrap();
    }

    fn take(&self, key: &[u8]) {
        self.remove(key).unwrap().unwrap();
    }

    fn tidy(&self) {
        self.service().unwrap();
    }
}

/// Uses free memory again for some time. Returns the number of the insertions.
fn churn(names: &impl Changes, long: Duration) -> u64 {
    let began = Instant::now();
    let mut i = 1;
    while began.elapsed() < long {
        for other in [b"kez".as_slice(), b"kex", b"kew"] {
            names.put(other, i << 8);
            names.take(other);
            i += 1;
        }
        names.tidy();
        std::thread::sleep(Duration::from_millis(1));
    }
    i
}

/// Lets the program go on, on drop, even when a test fails.
struct GoesOn<'a>(&'a Words);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        self.0.set(1, 1);
    }
}

/// A program sleeps after its lookup while the writer removes the entry and goes on; or after it
/// has removed the entry itself, if it `takes`. Returns
/// whether a grace period that began meanwhile ended before the program did, and how many of the
/// two words of the entry had changed at the end.
fn sleeps_while_removed(
    programs: &Programs,
    names: &impl Changes,
    words: &Words,
    grace: &KernelGrace,
    takes: bool,
) -> (bool, u64) {
    names.put(NAME, 1);
    words.set(0, 0);
    words.set(1, 0);
    let window = names.window();
    std::thread::scope(|scope| {
        let goes_on = GoesOn(words);
        let program = scope.spawn(|| sleep(programs, window, words.window().at));
        asleep(words);
        let token = grace.start();
        if !takes {
            names.take(NAME);
        }
        let insertions = churn(names, LONG);
        let ended = grace.elapsed(token);
        drop(goes_on);
        let answer = program.join().unwrap();
        assert!(word(&answer, RESULT) as i64 > 0, "the name was there");
        println!(
            "{} sleeps, {insertions} insertions, ended: {ended}",
            word(&answer, SLEEPS)
        );
        // Nothing sleeps any more.
        grace.wait().unwrap();
        assert!(grace.elapsed(token));
        (ended, word(&answer, CHANGES))
    })
}

fn map(arena: &BpfArena, grace: &std::sync::Arc<KernelGrace>) -> UserMap<u64> {
    let domain = Domain::builder().source(grace.clone()).build();
    let names = UserMap::<u64>::builder(arena, "names").domain(&domain);
    names.with_index().bytes(4 << 20).build().unwrap()
}

fn memory_stays(way: Way) {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let grace = KernelGrace::by(way).unwrap();
    let names = map(&arena, &grace);
    let words = Words::create(&arena, "words", 2).unwrap();
    arena.allow_sleepable().unwrap();
    let programs = Loader::open(&arena, SLEEPY).unwrap().load().unwrap();
    let (ended, changes) = sleeps_while_removed(&programs, &names, &words, &grace, false);
    assert!(!ended, "a grace period did not wait for a sleeping program");
    assert_eq!(changes, 0, "the entry stayed while the program slept");
    assert!(grace.name().ends_with("sleepable programs)"));
    // The name is gone.
    assert_eq!(
        word(&sleep(&programs, names.window().number, 0), RESULT) as i64,
        -2
    );
}

#[test]
fn memory_stays_while_a_program_sleeps() {
    memory_stays(Way::MapInMap);
}

#[test]
fn memory_stays_beside_membarrier() {
    memory_stays(Way::Membarrier);
}

/// In a map that programs write, by programs that look up, or take.
fn memory_of_program_maps(object: &[u8], takes: bool) {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    arena.allow_sleepable().unwrap();
    let grace = KernelGrace::new().unwrap();
    let words = Words::create(&arena, "words", 2).unwrap();
    let names = ProgramMap::<u64>::builder(&arena, "names").grace(&grace);
    let names = names
        .with_index()
        .with_trie()
        .max_entries(30_000)
        .user_writes()
        .build()
        .unwrap();
    let programs = Loader::open(&arena, object).unwrap().load().unwrap();
    let (ended, changes) = sleeps_while_removed(&programs, &names, &words, &grace, takes);
    assert!(!ended && changes == 0);
}

#[test]
fn memory_of_program_maps_stays() {
    memory_of_program_maps(SLEEPY, false);
}

#[test]
fn what_a_sleeping_program_took_stays() {
    memory_of_program_maps(writes::CHANGES, true);
}

#[test]
fn without_the_permission_memory_is_used_again() {
    // This shows that the tests above can fail.
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let grace = KernelGrace::new().unwrap();
    // Other tests of this process may allow sleepable programs meanwhile. So the wait is an RCU
    // grace period alone, in a process of its own.
    let pins = Pins::new("sleepy");
    arena.pin(pins.path("arena")).unwrap();
    drop((grace, arena));
    let mut child = Beside::start("without", &pins.0);
    child.wait_for("changed true, ended true");
}

#[test]
fn sleepable_programs_need_a_permission() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    assert!(!arena.allows_sleepable());
    let refused = Loader::open(&arena, SLEEPY).unwrap().load();
    let error = refused.err().expect("refused");
    assert!(matches!(error, Error::Sleepable(_)));
    assert!(error.to_string().contains("BpfArena::allow_sleepable"));
    arena.allow_sleepable().unwrap();
    assert!(arena.allows_sleepable());
    Loader::open(&arena, SLEEPY).unwrap().load().unwrap();
}

#[test]
fn what_needs_a_processor_is_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    arena.allow_sleepable().unwrap();
    let all = ["sw_writes", "sw_removes", "sw_long_key", "sw_invalidates"];
    let functions = ["sw_kqp_", "sw_kqp_", "sw_key_put_part", "sw_route_"];
    for (program, prefix) in all.into_iter().zip(functions) {
        let mut loader = Loader::open(&arena, WRITES).unwrap();
        for other in all.into_iter().filter(|other| *other != program) {
            loader = loader.without(other).unwrap();
        }
        match loader.load().err() {
            Some(Error::SleepableCalls {
                program: of,
                function,
            }) => {
                assert!(
                    of == program && function.starts_with(prefix),
                    "{of} {function}"
                );
            }
            other => panic!("{program}: {other:?}"),
        }
    }
}

#[test]
fn a_damaged_permission_does_no_harm() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let poke = Poke::new(&arena);
    // Any other word than 0 is a permission. Grace periods then wait for more programs.
    poke.words(page::SLEEPABLE_AT as u64, &[0xdead << 32]);
    assert!(arena.allows_sleepable());
    // A process that has seen the permission keeps it.
    poke.words(page::SLEEPABLE_AT as u64, &[0]);
    assert!(arena.allows_sleepable());
    KernelGrace::new().unwrap().wait().unwrap();
}

/// The shortest, median and longest of 20 grace periods, in milliseconds.
fn periods(grace: &KernelGrace) -> [f64; 3] {
    let one = |_| {
        let began = Instant::now();
        grace.wait().unwrap();
        began.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..20).map(one).collect();
    times.sort_by(f64::total_cmp);
    [times[0], times[10], times[19]]
}

#[test]
fn periods_end_when_no_program_sleeps() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    for way in [Way::MapInMap, Way::Membarrier] {
        println!(
            "{way:?}: {:.1?} ms",
            periods(&KernelGrace::by(way).unwrap())
        );
    }
    arena.allow_sleepable().unwrap();
    for way in [Way::MapInMap, Way::Membarrier] {
        let times = periods(&KernelGrace::by(way).unwrap());
        println!("{way:?}, sleepable: {times:.1?} ms");
        // Other tests let programs sleep for some seconds.
        assert!(times[2] < 30e3, "{times:?}");
    }
    // The drop of a source does not wait for a period.
    let grace = KernelGrace::new().unwrap();
    grace.start();
    let began = Instant::now();
    drop(grace);
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// The path of the C library that this process uses.
fn c_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let found = paths.find(|path| path.contains("/libc.so") || path.contains("/libc-"));
    found.expect("a shared C library").into()
}

#[test]
fn a_sleepable_probe_looks_names_up() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    arena.allow_sleepable().unwrap();
    let grace = KernelGrace::new().unwrap();
    let names = map(&arena, &grace);
    let programs = Loader::open(&arena, SLEEPY).unwrap().load().unwrap();
    let probe = programs.program("sw_probe").unwrap();
    let options = UprobeOpts {
        func_name: Some("getppid".into()),
        ..Default::default()
    };
    let me = std::process::id() as i32;
    let link = probe.attach_uprobe_with_opts(me, c_library(), 0, options);
    let _link = link.unwrap();
    let name = |i: u32| format!("a name {}", i % 500).into_bytes();
    let last = b"z".as_slice();
    names.insert(last, value_of(last)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(17);
            for i in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Removed memory is held for longer than beside programs that do not sleep.
                if i % 16 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let key = name(rng.u32(..));
                match rng.bool() {
                    true => drop(names.insert(&key, value_of(&key)).unwrap()),
                    false => drop(names.remove(&key).unwrap()),
                }
                names.reclaim(10);
            }
        });
        let (mut found, mut missed) = (0, 0);
        let began = Instant::now();
        for i in 0.. {
            // Periods of programs that sleep may take most of a second on a busy machine.
            let enough = found > 100 && missed > 100 && grace.periods() > 2;
            if began.elapsed() > Duration::from_secs(3) && enough {
                break;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{found} {missed}, {} periods",
                grace.periods()
            );
            let key = name(i * 7);
            let mut ask = vec![0; ASK];
            put(&mut ask, 0, &names.window().number.to_ne_bytes());
            put(&mut ask, 16, &(key.as_ptr().addr() as u64).to_ne_bytes());
            put(&mut ask, 24, &(key.len() as u32).to_ne_bytes());
            set(&programs, &ask);
            assert_ne!(std::os::unix::process::parent_id(), 0);
            let answer = get(&programs);
            assert_eq!(answer[28..32], 1u32.to_ne_bytes(), "one run");
            match word(&answer, RESULT) as i64 {
                -2 => missed += 1,
                place => {
                    assert!(place > 0, "{place}");
                    assert_eq!(word(&answer, VALUE), value_of(&key));
                    found += 1;
                }
            }
            // There is always a name behind it.
            assert_ne!(word(&answer, CHANGES), 0);
        }
        println!(
            "{found} found, {missed} missed, {} periods",
            grace.periods()
        );
    });
    assert!(grace.periods() > 2);
}

#[test]
fn another_process_allows_sleepable_programs() {
    if skipped() {
        return;
    }
    let pins = Pins::new("sleepy");
    let arena = BpfArena::create(16 << 20).unwrap();
    arena.pin(pins.path("arena")).unwrap();
    let grace = KernelGrace::new().unwrap();
    let names = map(&arena, &grace);
    let words = Words::create(&arena, "words", 2).unwrap();
    names.insert(NAME, 1).unwrap();
    let mut child = Beside::start("sleep", &pins.0);
    asleep(&words);
    assert!(arena.allows_sleepable());
    let token = grace.start();
    names.take(NAME);
    churn(&names, LONG);
    assert!(!grace.elapsed(token));
    words.set(1, 1);
    child.wait_for("changes 0");
    grace.wait().unwrap();
    assert!(grace.elapsed(token));
}

#[test]
fn an_heir_keeps_the_permission() {
    if skipped() {
        return;
    }
    let pins = Pins::new("sleepy");
    let mut child = Beside::start("own", &pins.0);
    child.wait_for("ready");
    child.kill();
    // A process without other arenas has the arena's address free.
    let mut heir = Beside::start("inherit", &pins.0);
    heir.wait_for("changed false, ended false");
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((order, folder)) = Beside::order() else {
        return;
    };
    let path = folder.join("arena");
    match order.as_str() {
        "own" => {
            let arena = BpfArena::create(16 << 20).unwrap();
            arena.pin(&path).unwrap();
            arena.allow_sleepable().unwrap();
            let names = map(&arena, &KernelGrace::new().unwrap());
            names.insert(NAME, 1).unwrap();
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        "sleep" => {
            let arena = BpfArena::open(&path).unwrap();
            arena.allow_sleepable().unwrap();
            let programs = Loader::open(&arena, SLEEPY).unwrap().load().unwrap();
            let window = arena.window("names", Kind::Qp).unwrap().number;
            let words = arena.window("words", Kind::Words).unwrap().at;
            let answer = sleep(&programs, window, words);
            println!("changes {}", word(&answer, CHANGES));
        }
        "without" => {
            let arena = BpfArena::open(&path).unwrap();
            let grace = KernelGrace::new().unwrap();
            let names = map(&arena, &grace);
            let words = Words::create(&arena, "words", 2).unwrap();
            let loader = Loader::open(&arena, SLEEPY).unwrap();
            let loader = loader
                .allow_sleepable("sw_sleep")
                .allow_sleepable("sw_probe");
            let programs = loader.load().unwrap();
            let (ended, changes) = sleeps_while_removed(&programs, &names, &words, &grace, false);
            println!("changed {}, ended {ended}", changes > 0);
        }
        "inherit" => {
            let arena = BpfArena::open(&path).unwrap();
            assert!(arena.allows_sleepable());
            let grace = KernelGrace::new().unwrap();
            let domain = Domain::builder().source(grace.clone()).build();
            let names = UserMap::<u64>::builder(&arena, "names").domain(&domain);
            let names = names.with_index().bytes(4 << 20).take_over().unwrap();
            assert_eq!(names.get(NAME), Some(1));
            let words = Words::create(&arena, "heir", 2).unwrap();
            let programs = Loader::open(&arena, SLEEPY).unwrap().load().unwrap();
            let (ended, changes) = sleeps_while_removed(&programs, &names, &words, &grace, false);
            println!("changed {}, ended {ended}", changes > 0);
        }
        other => panic!("{other}"),
    }
}
