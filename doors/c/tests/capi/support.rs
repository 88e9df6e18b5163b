//! The library as C programs get it: the static library, the shared one, programs compiled with
//! both.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The directory of the crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static library that cargo built beside this test program.
pub fn static_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let newest = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libsapwood_capi") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the static library before the tests")
}

/// A directory of this run, with the shared library in it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut link = Command::new(here().join("link.sh"));
        ok(link.arg(static_library()).arg(folder.path()));
        folder
    });
    folder.path()
}

/// Runs a command that must succeed, and returns what it printed.
pub fn ok(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A language that the header is compiled as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C99, without extensions.
    C,
    /// C++17, without extensions.
    Cpp,
}

/// A way to link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// With the shared library.
    Shared,
    /// With the static one.
    Static,
}

/// Compiles a program of `tests/c`, and returns its path.
pub fn compile(source: &Path, language: Language, link: Link, more: &[&str]) -> PathBuf {
    let folder = folder();
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let tag: String = more
        .concat()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let program = folder.join(format!("{stem}-{language:?}-{link:?}-{tag}"));
    let (compiler, standard) = match language {
        Language::C => ("cc", ["-xc", "-std=c99"]),
        Language::Cpp => ("c++", ["-xc++", "-std=c++17"]),
    };
    let mut cc = Command::new(compiler);
    cc.args(standard);
    cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"]);
    cc.arg("-D_POSIX_C_SOURCE=200809L").args(more);
    cc.arg("-I").arg(here().join("include")).arg(source);
    cc.arg("-o").arg(&program).arg("-xnone");
    match link {
        Link::Shared => {
            cc.arg("-L").arg(folder).arg("-lsapwood");
            cc.arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        Link::Static => {
            cc.arg(static_library());
        }
    }
    cc.args(["-lpthread", "-ldl", "-lm"]);
    if cfg!(feature = "bpf") && link == Link::Static {
        cc.args(["-lelf", "-lz"]);
    }
    ok(&mut cc);
    program
}

/// Runs a program in a directory of its own, which is its only argument.
pub fn run(command: &mut Command) -> Output {
    let folder = tempfile::tempdir().unwrap();
    command.arg(folder.path()).output().unwrap()
}
