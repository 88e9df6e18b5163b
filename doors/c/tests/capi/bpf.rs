//! Maps in the memory of BPF programs, in C: `tests/c/bpf`, plain and with the sanitizers of gcc,
//! as root in a mount namespace of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Language, Link, compile, folder, here, ok};

/// Whether this machine cannot run these tests.
fn skipped() -> bool {
    let Err(why) = sapwood_bpf::check() else {
        return false;
    };
    assert!(
        std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(),
        "the tests must run here: {why}"
    );
    println!("skipped: {why}");
    true
}

/// Compiles an object of programs as the guide says.
fn object(source: &Path) -> PathBuf {
    let name = source.file_name().unwrap().to_str().unwrap();
    let object = folder().join(name.replace(".bpf.c", ".bpf.o"));
    let (target, triple) = match cfg!(target_arch = "aarch64") {
        true => ("-D__TARGET_ARCH_arm64", "aarch64-linux-gnu"),
        false => ("-D__TARGET_ARCH_x86", "x86_64-linux-gnu"),
    };
    let clang = std::env::var("SAPWOOD_CLANG").unwrap_or_else(|_| "clang-19".into());
    let mut cc = Command::new(clang);
    cc.args(["-g", "-O2", "-target", "bpf", "-mcpu=v4", target]);
    cc.args(["-Wall", "-Wextra", "-Werror", "-I"]);
    cc.arg(here().join("../../kernel/bpf/bpf/include"))
        .arg("-I");
    cc.arg(format!("/usr/include/{triple}"));
    ok(cc.arg("-c").arg(source).arg("-o").arg(&object));
    object
}

/// Runs a program with a BPF file system, whose path is its argument. It is seen by these processes
/// only, and ends with them.
fn run(program: &Path, more: &[(&str, PathBuf)]) -> String {
    let place = tempfile::tempdir().unwrap();
    let script = "mount -t bpf bpf \"$1\" && exec \"$2\" \"$1\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]);
    unshare.envs(more.iter().map(|(name, path)| (name, path)));
    ok(unshare.arg(place.path()).arg(program))
}

fn check(language: Language, link: Link, flags: &[&str]) {
    static OBJECTS: OnceLock<[(&str, PathBuf); 2]> = OnceLock::new();
    let source = here().join("tests/c/bpf/bpf.c");
    let program = compile(&source, language, link, flags);
    let variables = here().join("../../kernel/bpf/tests/bpf/variables.bpf.c");
    let objects = OBJECTS.get_or_init(|| {
        [
            (
                "SAPWOOD_OBJECT",
                object(&here().join("tests/c/bpf/frames.bpf.c")),
            ),
            ("SAPWOOD_VARIABLES", object(&variables)),
        ]
    });
    run(&program, objects);
}

#[test]
fn maps_of_bpf_programs() {
    if !skipped() {
        check(Language::C, Link::Shared, &["-D_DEFAULT_SOURCE"]);
        check(Language::Cpp, Link::Static, &["-D_DEFAULT_SOURCE"]);
    }
}

#[test]
fn maps_of_bpf_programs_with_sanitizers() {
    if !skipped() {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        check(Language::C, Link::Shared, &flags);
    }
}

/// The program of the guide, and the process in C that it has beside it.
#[test]
fn the_guides_process_in_c() {
    if skipped() {
        return;
    }
    let page = std::fs::read_to_string(here().join("../../docs/guides/ebpf.md")).unwrap();
    let fence = |with: &str| {
        let mut fences = page.split("```c\n").skip(1);
        let fence = fences.find(|fence| fence.contains(with));
        fence.unwrap().split_once("```").unwrap().0.to_owned()
    };
    let sources = [
        ("known.bpf.c", "int known(struct xdp_md *ctx)"),
        ("guide.c", "int main(void)"),
    ];
    let [kernel, process] = sources.map(|(name, with)| {
        let source = folder().join(name);
        std::fs::write(&source, fence(with)).unwrap();
        source
    });
    object(&kernel);
    let program = compile(&process, Language::C, Link::Shared, &[]);
    let output = ok(Command::new(program).current_dir(folder()));
    assert_eq!(output, "a frame of nobody: dropped\n");
}

/// The example in plain C, built by its own Makefile with bpftool and the system's libbpf: it
/// counts the paths that a command opens, short and long, and prints them in order.
#[test]
fn the_example_counts_opened_paths() {
    let tools = ["/usr/sbin/bpftool", "/usr/include/bpf/libbpf.h"];
    if skipped() {
        return;
    }
    if let Some(missing) = tools.iter().find(|tool| !Path::new(tool).exists()) {
        println!("skipped: {missing} is not there; see ci/packages.sh");
        return;
    }
    let place = folder().join("opens");
    std::fs::create_dir(&place).unwrap();
    let example = here().join("../../examples/bpf");
    for file in ["Makefile", "opens.bpf.c", "opens.c"] {
        std::fs::copy(example.join(file), place.join(file)).unwrap();
    }
    let root = here().join("../..").canonicalize().unwrap();
    let (headers, bpf) = (
        root.join("doors/c/include"),
        root.join("kernel/bpf/bpf/include"),
    );
    let mut make = Command::new("make");
    make.arg("-C").arg(&place);
    let cflags = format!("-I{} -I{}", headers.display(), bpf.display());
    make.arg(format!("SAPWOOD_CFLAGS={cflags}"));
    let libraries = folder().display();
    make.arg(format!(
        "SAPWOOD_LIBS=-L{libraries} -lsapwood -Wl,-rpath,{libraries}"
    ));
    make.arg("CFLAGS=-O2 -Wall -Wextra -Werror");
    ok(&mut make);

    // Files with short paths and long ones, and how often each is opened.
    let files = tempfile::tempdir().unwrap();
    let mut long = files.path().to_owned();
    for _ in 0..10 {
        long.push("d".repeat(100));
    }
    std::fs::create_dir_all(&long).unwrap();
    let wanted = [
        (files.path().join("a"), 3),
        (files.path().join("b"), 1),
        (long.join("c"), 2),
        (files.path().join("e"), 4),
    ];
    // It needs the kernel's list of tracepoints.
    let mut command = String::from(
        "[ -d /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; \
         exec \"$0\" cat",
    );
    for (path, times) in &wanted {
        std::fs::write(path, "").unwrap();
        command += &format!(" {}", path.display()).repeat(*times);
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &command]);
    let output = ok(unshare.arg(place.join("opens")));
    let prefix = files.path().to_str().unwrap();
    let counted: Vec<_> = output
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .filter(|(_, path)| path.starts_with(prefix))
        .map(|(count, path)| (PathBuf::from(path), count.parse::<usize>().unwrap()))
        .collect();
    let mut wanted = wanted.to_vec();
    wanted.sort();
    assert_eq!(counted, wanted, "{output}");
    let paths: Vec<_> = output.lines().map(|line| &line[7..]).collect();
    assert!(paths.is_sorted(), "{output}");
}
