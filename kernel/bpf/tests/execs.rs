//! `count-execs.bpf.c`: programs that are started are counted, by path and by command line.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kernel::skipped;
use sapwood_bpf::{BpfArena, KernelGrace, Loader, ProgramMap, Words, layout};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/count-execs.bpf.o"));

/// Starts a program with these arguments this many times.
fn start(program: &Path, args: &[&[u8]], times: usize) {
    for _ in 0..times {
        let args = args.iter().map(|arg| std::ffi::OsStr::from_bytes(arg));
        let done = Command::new(program).args(args).status().unwrap();
        assert!(done.success(), "{program:?}");
    }
}

/// A path of this many bytes in all below a directory, where `true` is a file.
fn long_path(folder: &Path, bytes: usize) -> PathBuf {
    let mut path = folder.to_path_buf();
    let file = "/true".len();
    loop {
        let left = bytes - path.as_os_str().len() - file;
        if left == 0 {
            break;
        }
        // A part has a slash, and 255 bytes at most.
        let part = (left - 1).min(200);
        let part = if left - 1 - part == 1 { part - 1 } else { part };
        path.push("d".repeat(part));
    }
    std::fs::create_dir_all(&path).unwrap();
    path.push("true");
    std::fs::copy("/bin/true", &path).unwrap();
    assert_eq!(path.as_os_str().len(), bytes);
    path
}

/// Runs `what` while programs count. Returns the counts of this test's programs, and the counters.
fn counted(
    by_command_line: bool,
    mine: impl Fn(&[u8]) -> bool,
    what: impl FnOnce(),
) -> (BTreeMap<Vec<u8>, u64>, [u64; 3]) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let counts = ProgramMap::<u64>::builder(&arena, "execs");
    let counts = counts.longest_key(4096).bytes(32 << 20).build().unwrap();
    let processors = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = processors.trim().rsplit(['-', ',']).next().unwrap();
    let processors = last.parse::<usize>().unwrap() + 1;
    let rooms = Words::create(&arena, "rooms", processors * layout::KEY_ROOM_BYTES / 8).unwrap();
    let settings: Vec<u8> = [
        counts.window().number,
        rooms.window().number,
        processors as u32,
        by_command_line.into(),
    ]
    .iter()
    .flat_map(|word| word.to_ne_bytes())
    .collect();
    let mut loader = Loader::open(&arena, OBJECT).unwrap();
    loader.set_constants(".rodata.execs", &settings).unwrap();
    let programs = loader.load().unwrap();
    let service = counts.spawn_service(Duration::from_millis(1)).unwrap();
    let link = programs.program("sw_count_exec").unwrap().attach().unwrap();
    what();
    drop(link);
    // The program may still run on another processor.
    KernelGrace::new().unwrap().wait().unwrap();
    service.stop().unwrap();
    counts.verify().unwrap();
    let (mut all, mut sum) = (BTreeMap::new(), 0);
    counts
        .for_each(|key, count| {
            sum += count;
            if mine(key) {
                all.insert(key.to_vec(), count);
            }
        })
        .unwrap();
    let counters = programs.counts::<3>("sw_execs_counts").unwrap();
    // Other programs of the machine may start meanwhile.
    assert_eq!(sum, counters[0]);
    (all, counters)
}

#[test]
fn programs_are_counted_by_path() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_path_buf();
    let bytes = here.as_os_str().as_bytes().to_vec();
    let paths: Vec<(PathBuf, usize)> = [
        (here.as_os_str().len() + 5, 7),
        (250, 3),
        (254, 4),
        (255, 5),
        (256, 1),
        (1000, 2),
        (4095, 6),
    ]
    .map(|(bytes, times)| (long_path(&here, bytes), times))
    .into();
    let run = || {
        for (path, times) in &paths {
            start(path, &[], *times);
        }
    };
    let (found, counters) = counted(false, |key| key.starts_with(&bytes), run);
    let wanted: BTreeMap<Vec<u8>, u64> = (paths.iter())
        .map(|(path, times)| (path.as_os_str().as_bytes().to_vec(), *times as u64))
        .collect();
    assert_eq!(found, wanted);
    assert_eq!(counters[1..], [0, 0]);
}

#[test]
fn programs_are_counted_by_command_line() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = long_path(folder.path(), folder.path().as_os_str().len() + 5);
    let name = path.as_os_str().as_bytes().to_vec();
    let long = vec![b'x'; 3000];
    let longer = vec![b'y'; 9000];
    let calls: [(&[&[u8]], usize); 5] = [
        (&[], 2),
        (&[b"a", b"", b"b c"], 3),
        (&[b"a", b"", b"b d"], 1),
        (&[&long], 4),
        (&[&longer], 5),
    ];
    let run = || {
        for (args, times) in calls {
            start(&path, args, times);
        }
    };
    let (found, counters) = counted(true, |key| key.starts_with(&name), run);
    let line = |args: &[&[u8]]| {
        let mut line = [&name[..], &[0]].concat();
        for arg in args {
            line.extend(*arg);
            line.push(0);
        }
        // What has more bytes is cut off.
        line.truncate(4096);
        line
    };
    let wanted = calls.map(|(args, times)| (line(args), times as u64)).into();
    assert_eq!(found, wanted);
    assert_eq!(counters[1..], [0, 0]);
}
