//! Every program of this repository loads, whichever clang compiles it, and however much that
//! optimizes. `SAPWOOD_CLANGS` names more compilers, with commas.
#![cfg(feature = "kernel")]

mod kernel;

use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::skipped;
use sapwood_bpf::{BpfArena, Loader};

/// Where the sources are, from the root of the repository.
const FOLDERS: [&str; 7] = [
    "doors/c/tests/c/bpf",
    "examples/bpf",
    "kernel/bpf/bpf/progs",
    "kernel/bpf/tests/bpf",
    "kernel/xdp/bpf/progs",
    "kernel/xdp/tests/bpf",
    "proof/programs/bpf/bench",
];

/// Programs that are refused on purpose: an arena of another version, variables in the arena, and a
/// program that may sleep and writes maps.
const NOT_LOADED: [&str; 4] = ["many-variables", "old", "sleepy-writes", "variables"];

/// What clang 19 and the kernel refuse together, by level. The list shrinks: a program of it that
/// loads is an error, too. At -O1, one function of all maps that programs write has more branches
/// than the verifier follows (`sw_kqp_index_find`).
const REFUSED: [(&str, &[&str]); 1] = [(
    "-O1",
    &[
        "bench-prefixes",
        "bench-queue",
        "bench-writes",
        "bits",
        "bits_storm",
        "count-execs",
        "doorbell",
        "first",
        "frames",
        "interrupt",
        "like_kernel",
        "opens",
        "program-writes",
        "program_map",
        "sleepy-changes",
        "tc-depart",
    ],
)];

const LEVELS: [&str; 4] = ["-O1", "-O2", "-O3", "-Os"];

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        for entry in root.join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let stem = name.strip_suffix(".bpf.c");
            if stem == Some("opens") && !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
                println!("left out: {name} needs libbpf-dev");
                continue;
            }
            if stem.is_some_and(|stem| !NOT_LOADED.contains(&stem)) {
                sources.push(path);
            }
        }
    }
    sources.sort();
    sources
}

/// The compilers of this machine, of 19 and newer.
fn compilers() -> Vec<String> {
    let more = std::env::var("SAPWOOD_CLANGS").unwrap_or_default();
    let more = more
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    let known = ["clang-19", "clang-20", "clang-21"].map(str::to_owned);
    let runs = |clang: &String| Command::new(clang).arg("-dumpversion").output().is_ok();
    known.into_iter().filter(runs).chain(more).collect()
}

fn compile(
    root: &Path,
    clang: &str,
    level: &str,
    source: &Path,
    object: &Path,
) -> Result<(), String> {
    let (target, triple) = match cfg!(target_arch = "aarch64") {
        true => ("-D__TARGET_ARCH_arm64", "aarch64-linux-gnu"),
        false => ("-D__TARGET_ARCH_x86", "x86_64-linux-gnu"),
    };
    // A compiler with options of its own, as `python -m ziglang cc`.
    let mut words = clang.split(' ');
    let done = Command::new(words.next().unwrap())
        .args(words)
        .args(["-g", level, "-target", "bpf", "-mcpu=v4", target])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg("-I")
        .arg(root.join("kernel/bpf/bpf/include"))
        .arg("-I")
        .arg(format!("/usr/include/{triple}"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|error| error.to_string())?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// Loads an object into an arena that allows all programs.
fn load(object: &Path) -> Result<(), String> {
    let arena = BpfArena::create(64 << 20).map_err(|error| error.to_string())?;
    arena.allow_sleepable().map_err(|error| error.to_string())?;
    let loader = Loader::open_file(&arena, object).map_err(|error| error.to_string())?;
    loader.load().map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_object_loads_at_every_level() {
    if skipped() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let (sources, compilers) = (sources(&root), compilers());
    assert!(sources.len() > 30 && !compilers.is_empty());
    let mut wrong = Vec::new();
    for clang in &compilers {
        for level in LEVELS {
            for source in &sources {
                let object = folder.path().join("object.bpf.o");
                let name = source.file_name().unwrap().to_str().unwrap();
                let name = name.trim_end_matches(".bpf.c");
                let mut lists = REFUSED.iter().filter(|(at, _)| *at == level);
                let expected = lists.any(|(_, names)| names.contains(&name));
                let done =
                    compile(&root, clang, level, source, &object).and_then(|()| load(&object));
                match (done, expected && clang == "clang-19") {
                    (Err(why), false) => {
                        let end: Vec<_> = why.trim().lines().rev().take(4).collect();
                        wrong.push(format!("{name} by {clang} {level}: {}", end.join(" / ")));
                    }
                    (Ok(()), true) => wrong.push(format!("{name} loads by {clang} {level}")),
                    _ => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A program that does not say for which processor it is made is no program.
#[test]
fn the_processor_has_to_be_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(clang) = compilers().into_iter().next() else {
        println!("skipped: there is no clang");
        return;
    };
    let done = Command::new(clang)
        .args(["-O2", "-target", "bpf", "-mcpu=v4", "-fsyntax-only", "-I"])
        .arg(root.join("kernel/bpf/bpf/include"))
        .args([
            "-I",
            "/usr/include/x86_64-linux-gnu",
            "-I",
            "/usr/include/aarch64-linux-gnu",
        ])
        .arg(root.join("kernel/bpf/tests/bpf/dwell.bpf.c"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        said.contains("name the processor that the program runs on"),
        "{said}"
    );
}
