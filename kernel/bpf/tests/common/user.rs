//! C in user space: the headers compiled by gcc and by clang, with a sanitizer where there is one,
//! and run over a copy of an arena.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilers. Of the arguments below, the first that work are used.
const COMPILERS: [&str; 2] = ["gcc", "clang-19"];
const SANITIZERS: [&[&str]; 2] = [
    &[
        "-fsanitize=address,undefined",
        "-fno-sanitize=alignment",
        "-fno-sanitize-recover=all",
    ],
    &[],
];

/// `tests/bpf/user/NAME.c`, compiled by each compiler.
pub struct Compiled {
    folder: tempfile::TempDir,
    programs: Vec<PathBuf>,
}

impl Compiled {
    /// # Panics
    /// When the program does not compile without warnings, or there is no compiler.
    pub fn new(name: &str) -> Compiled {
        let folder = tempfile::tempdir().unwrap();
        let programs = COMPILERS
            .iter()
            .filter_map(|compiler| compiled(compiler, name, folder.path()));
        let programs: Vec<PathBuf> = programs.collect();
        assert!(!programs.is_empty(), "neither of {COMPILERS:?} is there");
        Compiled { folder, programs }
    }

    /// Runs the programs on a copy of an arena, with questions and their answers.
    ///
    /// # Panics
    /// When an answer is wrong.
    pub fn same_answers(&self, image: &[u8], questions: &[u8]) {
        self.run(image, questions, &[]);
    }

    /// Runs it on a damaged copy, of which any answer will do: how many were strange.
    ///
    /// # Panics
    /// When the program does not end by itself, or when a sanitizer stops it.
    pub fn answers_of_damaged(&self, image: &[u8], questions: &[u8]) -> u64 {
        let said = self.run(image, questions, &["damaged"]);
        let strange = said.iter().map(|said| {
            let said = said.trim_end().strip_suffix(" strange")?;
            said.rsplit(' ').next()?.parse::<u64>().ok()
        });
        strange.map(|count| count.expect("a count")).sum()
    }

    /// Runs what each compiler made; what they printed.
    fn run(&self, image: &[u8], questions: &[u8], more: &[&str]) -> Vec<String> {
        let [image_file, questions_file] =
            ["image", "questions"].map(|name| self.folder.path().join(name));
        std::fs::write(&image_file, image).unwrap();
        std::fs::write(&questions_file, questions).unwrap();
        let run = |program: &PathBuf| {
            let output = Command::new(program)
                .args([&image_file, &questions_file])
                .args(more)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            let (program, status) = (program.display(), output.status);
            assert!(status.success(), "{program}, {status}: {said}{errors}");
            said
        };
        self.programs.iter().map(run).collect()
    }
}

/// Compiles the program; `None` when there is no such compiler.
fn compiled(compiler: &str, name: &str, folder: &Path) -> Option<PathBuf> {
    Command::new(compiler).arg("--version").output().ok()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(format!("{name}-{compiler}"));
    let mut said = String::new();
    for sanitizers in SANITIZERS {
        let output = Command::new(compiler)
            .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
            .args(sanitizers)
            .arg("-I")
            .arg(root.join("bpf/include"))
            .arg("-o")
            .arg(&program)
            .arg(root.join("tests/bpf/user").join(format!("{name}.c")))
            .output()
            .unwrap();
        if output.status.success() {
            return Some(program);
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("{compiler} does not compile {name}.c: {said}");
}
