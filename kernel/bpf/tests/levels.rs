//! Every program of this repository loads, whichever clang compiles it, and however much that
//! optimizes. `SAPWOOD_CLANGS` names more compilers, and `SAPWOOD_OBJECTS` the only programs, with
//! commas.
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

const LEVELS: [&str; 4] = ["-O1", "-O2", "-O3", "-Os"];

/// The programs that compilers of `SAPWOOD_CLANGS` compile at every level; all others only at -O2,
/// because a load takes the verifier a second or more.
const FEW: [&str; 5] = ["budget", "program_map", "route", "walk", "xdp-route"];

/// The page with the table of compilers, from the root of the repository.
const PAGE: &str = "docs/bpf.md";

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
    match std::env::var("SAPWOOD_OBJECTS") {
        Ok(some) => sources.retain(|path| some.split(',').any(|one| one == name(path))),
        Err(_) => assert!(sources.len() > 30, "{} sources", sources.len()),
    }
    sources
}

/// The name of a source, without its ends.
fn name(source: &Path) -> &str {
    let name = source.file_name().unwrap().to_str().unwrap();
    name.trim_end_matches(".bpf.c")
}

/// The compilers of this machine, of 19 and newer.
fn compilers() -> Vec<String> {
    let known = ["clang-19", "clang-20", "clang-21"].map(str::to_owned);
    known
        .into_iter()
        .filter(|clang| version(clang).is_ok())
        .collect()
}

/// A command for a compiler, which may have options of its own, as `zig clang`.
fn command(clang: &str) -> Command {
    let mut words = clang.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}

/// The major version of a compiler.
fn version(clang: &str) -> Result<u32, String> {
    let done = command(clang).arg("-dumpversion").output();
    let done = done.map_err(|error| format!("{clang}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    let major = said.split('.').next().and_then(|word| word.parse().ok());
    major.ok_or(format!("{clang} has the version {said:?}"))
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
    let done = command(clang)
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

/// Compiles and loads objects at a level: what failed.
fn refused(clang: &str, level: &str, sources: &[PathBuf]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for source in sources {
        let object = folder.path().join("object.bpf.o");
        let done = compile(&root, clang, level, source, &object).and_then(|()| load(&object));
        if let Err(why) = done {
            let end: Vec<_> = why.trim().lines().rev().take(4).collect();
            let (name, end) = (name(source), end.join(" / "));
            wrong.push(format!("{name} by {clang} {level}: {end}"));
        }
    }
    wrong
}

/// Compares a row with the page's table.
fn in_the_table(row: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap();
    assert!(
        page.lines().any(|line| line == row),
        "{PAGE} has no row {row:?}"
    );
}

#[test]
fn every_object_loads_at_every_level() {
    if skipped() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (sources, compilers) = (sources(&root), compilers());
    assert!(!compilers.is_empty());
    for clang in &compilers {
        let all = LEVELS.map(|level| refused(clang, level, &sources)).concat();
        assert!(all.is_empty(), "{}", all.join("\n"));
        let major = version(clang).unwrap();
        if major == 19 {
            in_the_table(&format!("| {major} | all | all | all | all |"));
        }
    }
}

/// The same for compilers that this machine has not installed: ci/clangs.sh fetches some. All
/// objects at -O2, and a few at every level.
#[test]
fn every_object_loads_by_other_compilers() {
    let others = std::env::var("SAPWOOD_CLANGS").unwrap_or_default();
    if others.is_empty() {
        println!("left out: SAPWOOD_CLANGS names no compilers");
        return;
    }
    if skipped() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = sources(&root);
    let mut few = all.clone();
    few.retain(|source| FEW.contains(&name(source)));
    let mut wrong = Vec::new();
    for clang in others.split(',') {
        let major = version(clang).unwrap_or_else(|why| panic!("{why}"));
        assert!(major >= 19, "{clang} is of version {major}");
        for level in LEVELS {
            let sources = if level == "-O2" { &all } else { &few };
            wrong.extend(refused(clang, level, sources));
        }
        in_the_table(&format!("| {major} | some | all | some | some |"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a compiler says of a program, with these options; `None` when there is no compiler.
fn said(options: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(clang) = compilers().into_iter().next() else {
        println!("skipped: there is no clang");
        return None;
    };
    let done = command(&clang)
        .args(["-O2", "-target", "bpf", "-fsyntax-only", "-I"])
        .arg(root.join("kernel/bpf/bpf/include"))
        .args(["-I", "/usr/include/x86_64-linux-gnu"])
        .args(["-I", "/usr/include/aarch64-linux-gnu"])
        .args(options)
        .arg(root.join("kernel/bpf/tests/bpf/dwell.bpf.c"))
        .output()
        .unwrap();
    Some(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// A program that does not say for which processor it is made is no program.
#[test]
fn the_processor_has_to_be_named() {
    let Some(said) = said(&["-mcpu=v4"]) else {
        return;
    };
    let wanted = "name the processor that the program runs on";
    assert!(said.contains(wanted), "{said}");
}

/// Older compilers, and older instructions, are refused with the reason.
#[test]
fn compilers_without_arenas_are_told_what_is_needed() {
    let named = "-D__TARGET_ARCH_x86";
    let older = "-U__BPF_FEATURE_ADDR_SPACE_CAST";
    for (options, wanted) in [
        (
            &["-mcpu=v4", named, older][..],
            "arenas need clang 19 or newer, and -mcpu=v4",
        ),
        (&["-mcpu=v3", named], "arenas need -mcpu=v4"),
        (&[named], "arenas need -mcpu=v4"),
    ] {
        let Some(said) = said(options) else {
            return;
        };
        assert!(said.contains(wanted), "{options:?}: {said}");
    }
    assert_eq!(said(&["-mcpu=v4", named]).unwrap_or_default(), "");
}
