//! Writers of published maps that are killed at random instructions. Each new owner has the map as
//! it was before the interrupted change, or as it is after it.
//!
//! `SAPWOOD_KILLS` sets how many writers are killed.
#![cfg(all(unix, not(miri)))]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sapwood::arena::{Arena, Backing};
use sapwood::maple::{MapleMap, PlainValue};
use sapwood_checked::Fixed;
use sapwood_checked::maple::CheckedMaple;
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

use crate::support::attached::options;
use crate::support::folder::Folder;
use crate::support::maple::{Number, Pair, Range};
use crate::support::steps::steps;
use crate::support::words::Words;

/// The change of this number.
fn change(n: u64) -> RangeOp {
    let domain = Domain::ALL[(n / 5000) as usize % Domain::ALL.len()];
    let mut ops = RangeOps::new(domain, n).filter(RangeOp::writes);
    ops.find(|op| !matches!(op, RangeOp::Clear) || n % 50 == 0)
        .unwrap()
}

/// The task of a writer: values apart, or in slots; the number of the file that it makes, from the
/// one before; the number of its first change.
fn task() -> Option<(String, bool, u64, u64)> {
    let task = std::env::var("SAPWOOD_MAPLE").ok()?;
    let mut parts = task.rsplitn(4, ' ');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (first, file, apart) = (number()?, number()?, number()?);
    Some((parts.next()?.to_owned(), apart == 1, file, first))
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn a_writer() {
    let (folder, apart, file, first) = task().expect("the test above starts this one");
    let folder = Path::new(&folder);
    match apart {
        true => write(folder, file, first, |n| [n; 3]),
        false => write(folder, file, first, |n: u64| n),
    }
}

/// Takes the map over, and changes it until this process is killed. After each change, `done` has
/// its number.
fn write<V: Number + PlainValue>(folder: &Path, file: u64, first: u64, make: impl Fn(u64) -> V) {
    let nodes = || MapleMap::<V>::builder().nodes(128, 4);
    let at = |number: u64| folder.join(format!("map-{number}"));
    let arena = Arena::create(options::<V>(Backing::File(at(file)))).unwrap();
    let map = match file {
        0 => nodes().build_in(arena).unwrap(),
        _ => nodes().restore_in(arena, Words::of(&at(file - 1))).unwrap(),
    };
    let done = OpenOptions::new()
        .write(true)
        .open(folder.join("done"))
        .unwrap();
    println!("ready");
    let mut pair = Pair::new(MapleMap::new(), make);
    pair.map = map;
    let mut snapshot = None;
    for n in first.. {
        match n % 64 {
            8 => snapshot = Some(pair.map.snapshot()),
            24 => drop(snapshot.take()),
            _ => (),
        }
        pair.change_alone(n, &change(n)).unwrap();
        done.write_all_at(&(n + 1).to_ne_bytes(), 0).unwrap();
    }
}

/// Another process with this test program. The drop kills it.
struct Beside(Child);

impl Beside {
    fn start(task: &str) -> Beside {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "maple::kills::a_writer",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("SAPWOOD_MAPLE", task)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        while !said.ends_with("ready\n") {
            assert!(out.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        child.stdout = Some(out.into_inner());
        Beside(child)
    }

    fn kill(mut self) {
        let ended = self.0.try_wait().unwrap();
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        let mut said = String::new();
        let out = self.0.stdout.take();
        out.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The entries that a map in a file has.
fn entries<V: Number + PlainValue>(memory: &Words) -> Vec<(Range, u64)> {
    let reader = CheckedMaple::<_, V>::new(Fixed(memory.clone())).unwrap();
    let entries = reader.iter().map(|entry| {
        let (range, value) = entry.unwrap();
        (range, value.number())
    });
    let entries: Vec<_> = entries.collect();
    assert_eq!(reader.verify(), Ok(entries.len()));
    entries
}

/// Kills writers; each takes the map over from the one before.
fn kill<V: Number + PlainValue>(name: &str, apart: bool, kills: u64) {
    let folder = Folder::quick(name);
    File::create(folder.file("done")).unwrap();
    let mut model = RangeMap::<u64>::new();
    let mut rng = fastrand::Rng::with_seed(kills);
    let (mut n, mut interrupted, mut idle) = (0_u64, 0, 0_u32);
    for file in 0..kills {
        let path = folder.file(&format!("map-{file}"));
        let done = File::open(folder.file("done")).unwrap();
        std::fs::write(folder.file("done"), n.to_ne_bytes()).unwrap();
        let task = format!("{} {} {file} {n}", folder.0.display(), u64::from(apart));
        let writer = Beside::start(&task);
        // On a busy machine a writer may not run for a while.
        let longer = (idle + 1).pow(2).min(100);
        let end = Instant::now() + longer * Duration::from_nanos(rng.u64(0..3_000_000));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        writer.kill();

        let mut word = [0; 8];
        done.read_exact_at(&mut word, 0).unwrap();
        for n in n..u64::from_ne_bytes(word) {
            change(n).apply(&mut model);
        }
        idle = if u64::from_ne_bytes(word) > n {
            0
        } else {
            idle + 1
        };
        n = u64::from_ne_bytes(word);
        let memory = Words::of(&path);
        let found = entries::<V>(&memory);
        if found != model.to_vec() {
            change(n).apply(&mut model);
            n += 1;
            interrupted += 1;
            assert_eq!(found, model.to_vec(), "after {n} changes");
        }
        let options = options::<V>(Backing::Mmap { reserve: 1 << 26 });
        let heir = MapleMap::<V>::builder().restore_in(Arena::create(options).unwrap(), memory);
        let heir = heir.unwrap();
        assert_eq!(heir.verify(), Ok(()));
        assert!(heir.iter().map(|(range, v)| (range, v.number())).eq(found));
        if file > 0 {
            std::fs::remove_file(folder.file(&format!("map-{}", file - 1))).unwrap();
        }
    }
    assert!(n > kills / 10, "{n} changes");
    println!("{kills} writers killed, {n} changes, {interrupted} of them there without a return");
}

fn kills() -> u64 {
    let kills = std::env::var("SAPWOOD_KILLS").ok();
    kills.map_or(steps(100) as u64, |kills| kills.parse().expect("a number"))
}

#[test]
fn heirs_of_killed_writers_have_every_change_whole() {
    kill::<u64>("maple-kills", false, kills());
}

#[test]
fn heirs_of_killed_writers_have_every_value() {
    kill::<[u64; 3]>("maple-kills-apart", true, kills());
}
