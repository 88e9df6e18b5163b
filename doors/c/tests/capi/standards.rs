//! The header, and all C that users are shown, under the standards of C and C++ and the warnings
//! with which users compile: the examples, the programs of `tests/c`, the fences of the README, and
//! the example of the manual page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{folder, has, here, ok};

/// The headers that are made of the library's declarations, whatever it was built with.
const GENERATED: [&str; 2] = ["sapwood.h", "sapwood_bpf.h"];

/// The warnings that everybody has, and some that careful users have. All are errors.
const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wshadow",
    "-Wundef",
];

/// The standards of both languages.
const STANDARDS: [&str; 6] = ["c99", "c11", "c17", "c++11", "c++17", "c++20"];

/// The compilers that are there; each knows both languages.
fn compilers() -> Vec<&'static str> {
    let clang = ["clang-19", "clang-20", "clang-21", "clang"];
    let clang = clang.into_iter().find(|clang| has(clang));
    ["gcc"].into_iter().chain(clang).collect()
}

/// Compiles these files, which are of both languages.
fn compile(compiler: &str, standard: &str, files: &[PathBuf]) {
    assert!(!files.is_empty());
    let language = standard.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut cc = Command::new(compiler);
    cc.args(["-x", language, "-fsyntax-only", "-m64"]);
    cc.arg(format!("-std={standard}")).args(WARNINGS);
    match language {
        "c" => cc.args(["-Wstrict-prototypes", "-Wmissing-prototypes"]),
        _ => cc.args(["-fno-exceptions", "-fno-rtti"]),
    };
    if compiler.starts_with("clang") {
        // Names that only the compiler and its library may use. Users set those that the standards
        // of the system ask for.
        cc.args(["-Wreserved-identifier", "-Wno-reserved-macro-identifier"]);
    }
    ok(cc.arg("-I").arg(here().join("include")).args(files));
}

/// The same by each compiler and under each standard.
fn compile_all(files: &[PathBuf]) {
    for compiler in compilers() {
        for standard in STANDARDS {
            compile(compiler, standard, files);
        }
    }
}

/// The files of a directory of the project with this ending.
fn sources(of: &Path, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(of).unwrap();
    let mut all: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == ending));
    all.sort();
    all
}

fn project() -> PathBuf {
    here().join("../..")
}

/// Each fence of C in a document, as a file.
fn fences(document: &str, text: &str) -> Vec<PathBuf> {
    let programs = text.split("```c\n").skip(1);
    let write = |(number, rest): (usize, &str)| {
        let (program, _) = rest.split_once("```").expect("the fence ends");
        let file = folder().join(format!("{document}-{number}.c"));
        fs::write(&file, program).unwrap();
        file
    };
    programs.enumerate().map(write).collect()
}

/// The headers need nothing before them, and may be included twice. Only one has inline code.
#[test]
fn the_header_is_c99_to_c17_and_cpp11_to_cpp20() {
    let file = folder().join("alone.c");
    let text = |name| {
        format!(
            "#include \"{name}\"\n#include \"{name}\"\nint main(void);\n\
             int main(void) {{ return sapwood_strerror(0) == NULL; }}\n"
        )
    };
    fs::write(&file, text("sapwood.h")).unwrap();
    let inline = folder().join("alone-inline.c");
    fs::write(&inline, text("sapwood_inline.h")).unwrap();
    let calls = folder().join("alone-calls.c");
    let program = format!("#define SAPWOOD_NO_INLINE\n{}", text("sapwood_inline.h"));
    fs::write(&calls, program).unwrap();
    let bpf = folder().join("alone-bpf.c");
    fs::write(&bpf, text("sapwood_bpf.h")).unwrap();
    compile_all(&[file, inline, calls, bpf]);
    for name in GENERATED {
        let header = fs::read_to_string(here().join("include").join(name)).unwrap();
        assert!(!header.contains("static inline"), "it is in another header");
        assert!(header.contains("extern \"C\" {"));
    }
}

/// No macro of the header but those of its own, and no name that belongs to the implementation.
#[test]
fn the_header_defines_only_its_own_names() {
    let read = |name| fs::read_to_string(here().join("include").join(name)).unwrap();
    let header = GENERATED.map(read).concat();
    for line in header.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("#define") {
            let name = words.next().unwrap();
            assert!(name.starts_with("SAPWOOD_"), "{line}");
        }
    }
    let names = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let reserved: Vec<_> = names
        .filter(|name| name.starts_with('_') || name.contains("__"))
        // The second is libbpf's, in a comment.
        .filter(|name| !["__cplusplus", "bpf_map__reuse_fd"].contains(name))
        .collect();
    assert!(reserved.is_empty(), "{reserved:?}");
}

#[test]
fn the_examples_are_c99_to_c17_and_cpp11_to_cpp20() {
    let mut examples = sources(&project().join("examples/c"), "c");
    assert!(examples.len() >= 2, "{examples:?}");
    if !Path::new("/usr/include/uv.h").exists() {
        eprintln!("skipped: uv-loop.c, because libuv1-dev is not installed");
        examples.retain(|path| !path.ends_with("uv-loop.c"));
    }
    examples.extend(sources(&project().join("examples/cmake"), "c"));
    compile_all(&examples);
}

#[test]
fn what_the_documents_show_is_c99_to_c17_and_cpp11_to_cpp20() {
    let readme = fs::read_to_string(here().join("README.md")).unwrap();
    let mut all = fences("readme", &readme);
    assert!(all.len() >= 2, "the README has lost its examples");
    let page = fs::read_to_string(project().join("packaging/sapwood.3")).unwrap();
    let (_, example) = page.split_once(".EX\n").unwrap();
    let (example, _) = example.split_once(".EE").unwrap();
    let file = folder().join("manual.c");
    fs::write(&file, example.replace("\\e", "\\")).unwrap();
    all.push(file);
    compile_all(&all);
}
