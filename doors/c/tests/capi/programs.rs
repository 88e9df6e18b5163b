//! The C programs of `tests/c`: compiled as C99 and as C++17, linked with both libraries, and run
//! plain, under valgrind and with the sanitizers of gcc.
//!
//! A program gets a directory of its own as its only argument, and ends with 0 if all is well.
//! Those whose names begin with `abort-` show one misuse each of a checked handle: the name of a
//! function that must be in the message stands in their first line.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Language, Link, compile, folder, has, here, ok, run};

fn programs(misuse: bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(here().join("tests/c"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("abort-") == misuse
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Tells a program where the shared library is, and the saved files that all languages read.
fn tell(command: &mut Command) {
    command.env("SAPWOOD_LIBRARY", folder().join("libsapwood.so.0"));
    command.env(
        "SAPWOOD_FILES",
        here().join("../../core/sapwood/tests/files"),
    );
}

fn succeeds(mut command: Command) {
    tell(&mut command);
    let output = run(&mut command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn programs_in_c99_with_the_shared_library() {
    for source in programs(false) {
        succeeds(Command::new(compile(
            &source,
            Language::C,
            Link::Shared,
            &[],
        )));
    }
}

#[test]
fn programs_in_cpp17_with_the_static_library() {
    for source in programs(false) {
        succeeds(Command::new(compile(
            &source,
            Language::Cpp,
            Link::Static,
            &[],
        )));
    }
}

#[test]
fn programs_under_valgrind() {
    if !has("valgrind") {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    const LIVE: [&str; 3] = ["fork.c", "live.c", "live-processes.c"];
    let mut checked = 0;
    for source in programs(false) {
        let program = compile(&source, Language::C, Link::Shared, &["-DVALGRIND"]);
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        // The standard library of Rust keeps the main thread's handle by a pointer into it.
        valgrind.args(["--show-leak-kinds=definite,indirect"]);
        valgrind.args(["--errors-for-leak-kinds=definite,indirect"]);
        valgrind.arg("--trace-children=no").arg(program);
        tell(&mut valgrind);
        let output = run(&mut valgrind);
        let text = String::from_utf8_lossy(&output.stderr);
        // Live maps are renamed while they are mapped. Where one of them grows afterwards, valgrind
        // 3.19 fails an assertion of its own about the names of mapped files. The sanitizers check
        // these programs.
        if text.contains("aspacem assertion failed") && LIVE.iter().any(|it| source.ends_with(it)) {
            println!("skipped: valgrind fails by itself in {source:?}");
            continue;
        }
        assert!(output.status.success(), "{valgrind:?}: {text}");
        checked += 1;
    }
    assert!(checked > 10, "{checked} programs under valgrind");
}

/// What a compiler without GCC's builtins gets of `sapwood_inline.h`: the same answers, by calls.
#[test]
fn inline_lookups_of_other_compilers_are_calls() {
    let source = here().join("tests/c/inline.c");
    let flags = ["-DSAPWOOD_NO_INLINE"];
    for (language, link) in [(Language::C, Link::Shared), (Language::Cpp, Link::Static)] {
        succeeds(Command::new(compile(&source, language, link, &flags)));
    }
    let mut cc = Command::new("cc");
    cc.args(["-E", "-P", "-std=c99", "-D_POSIX_C_SOURCE=200809L"]);
    cc.args(flags).arg("-I").arg(here().join("include"));
    let text = ok(cc.arg(&source));
    assert!(text.contains("sapwood_fib_view_lookup4(const"));
    for of_gcc in ["__builtin_popcount", "__atomic_load", "popcnt %1"] {
        assert!(!text.contains(of_gcc), "{of_gcc}");
    }
}

#[test]
fn programs_with_sanitizers() {
    for source in programs(false) {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        succeeds(Command::new(compile(
            &source,
            Language::C,
            Link::Shared,
            &flags,
        )));
    }
}

/// A checked handle ends the process with a message that names the function.
#[test]
fn misuse_of_checked_handles_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    for source in programs(true) {
        let text = fs::read_to_string(&source).unwrap();
        let wanted = text.lines().next().unwrap().trim_matches(['/', '*', ' ']);
        let mut program = Command::new(compile(&source, Language::C, Link::Shared, &[]));
        let output = run(&mut program);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{source:?}: {message}"
        );
        assert!(
            message.contains(wanted),
            "{source:?}: {wanted:?} is not in: {message}"
        );
    }
}

/// The example of the README compiles without a warning, in both languages, and prints what it
/// says.
#[test]
fn the_example_of_the_readme_works() {
    let readme = fs::read_to_string(here().join("README.md")).unwrap();
    let (_, program) = readme.split_once("```c\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let source = folder().join("readme.c");
    fs::write(&source, program).unwrap();
    for (language, link) in [(Language::C, Link::Shared), (Language::Cpp, Link::Static)] {
        let output = ok(&mut Command::new(compile(&source, language, link, &[])));
        assert_eq!(output, "closest: 1\n");
    }
}

/// A full file system is `-ENOSPC`, with the system's words; the old file stays, and nothing else.
#[test]
fn a_full_file_system_is_said_to_be_full() {
    let source = here().join("tests/c/alone/full.c");
    let program = compile(&source, Language::C, Link::Shared, &[]);
    let place = tempfile::tempdir().unwrap();
    // The file system is seen by these processes only, and ends with them.
    let script = "mount -t tmpfs -o size=512k tmpfs \"$1\" || exit 77; exec \"$2\" \"$1\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
    let Ok(output) = unshare.arg(place.path()).arg(program).output() else {
        eprintln!("skipped: there is no program unshare");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || text.starts_with("unshare") {
        eprintln!("skipped: no file system can be mounted here: {text}");
        return;
    }
    assert!(output.status.success(), "{}: {text}", output.status);
}
