//! Compiles BPF programs in build scripts: those of `sapwood-bpf` and `sapwood-xdp`.
//!
//! When only the documentation is built (docs.rs sets `DOCS_RS`), this writes empty files in place
//! of the programs, and calls no compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that provide the requirements.
const PACKAGES: &str = "clang-19 libelf-dev zlib1g-dev linux-libc-dev make pkg-config gcc";

/// The variable that asks for the objects of tests.
const TEST_OBJECTS: &str = "SAPWOOD_TEST_OBJECTS";

/// The work of a build script. With the feature `kernel`, it checks the requirements and compiles
/// each `bpf/*/NAME.bpf.c` of the package to `NAME.bpf.o` in `OUT_DIR`. In this repository, whose
/// `.cargo/config.toml` sets `SAPWOOD_TEST_OBJECTS`, it compiles those of `tests/bpf`, too; for
/// users it does not. `include` is the directory of Sapwood's headers.
///
/// A fault ends the build script with a message.
pub fn programs(include: &Path) {
    println!("cargo::rerun-if-env-changed=SAPWOOD_CLANG");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    println!("cargo::rerun-if-env-changed={TEST_OBJECTS}");
    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    if let Err(why) = build(include) {
        // Each line has its own directive, so that cargo shows all lines.
        for line in why.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn build(include: &Path) -> Result<(), String> {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Err("the feature `kernel` is for Linux".into());
    }
    let clang = match env::var_os("DOCS_RS") {
        Some(_) => None,
        None => {
            for header in ["libelf.h", "zlib.h"] {
                has_header(header)?;
            }
            Some(clang()?)
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    // The programs of tests and benchmarks are compiled like those for users.
    let mut directories = entries(Path::new("bpf"))?;
    let tests = PathBuf::from("tests/bpf");
    if tests.is_dir() && env::var_os(TEST_OBJECTS).is_some() {
        println!("cargo::rerun-if-changed={}", tests.display());
        directories.push(tests);
    }
    for directory in directories {
        if !directory.is_dir() {
            continue;
        }
        for source in entries(&directory)? {
            if !source.to_string_lossy().ends_with(".bpf.c") {
                continue;
            }
            let object = object(&source, &out)?;
            match &clang {
                Some(clang) => compile(clang, include, &source, &object)?,
                None => {
                    std::fs::write(&object, []).map_err(|e| format!("{}: {e}", object.display()))?
                }
            }
        }
    }
    Ok(())
}

/// The paths in a directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let fail = |error| format!("{}: {error}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(fail)?;
    let paths = entries.map(|entry| Ok(entry.map_err(fail)?.path()));
    paths.collect()
}

/// A clang that supports address spaces of BPF: 19 or newer.
fn clang() -> Result<String, String> {
    let chosen = env::var("SAPWOOD_CLANG").ok();
    let candidates = match &chosen {
        Some(one) => vec![one.as_str()],
        None => vec!["clang-19", "clang-20", "clang-21", "clang"],
    };
    for clang in candidates {
        let Ok(output) = Command::new(clang).arg("-dumpversion").output() else {
            continue;
        };
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let major = version
            .split('.')
            .next()
            .and_then(|v| v.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 19) {
            return Ok(clang.to_owned());
        }
        if chosen.is_some() {
            return Err(format!(
                "SAPWOOD_CLANG is {clang} of version {version}; BPF programs need 19 or newer"
            ));
        }
    }
    Err(format!(
        "BPF programs are compiled by clang 19 or newer, which was not found.\n\
         On Debian and Ubuntu: apt-get install {PACKAGES}\n\
         Or set SAPWOOD_CLANG, or build without the feature `bpf`."
    ))
}

fn has_header(header: &str) -> Result<(), String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    let probe = out.join("probe.c");
    std::fs::write(&probe, format!("#include <{header}>\n"))
        .map_err(|e| format!("{}: {e}", probe.display()))?;
    let done = Command::new(&compiler)
        .args(["-fsyntax-only"])
        .arg(&probe)
        .output();
    if done.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(format!(
        "{header} was not found; the loader of BPF programs needs it.\n\
         On Debian and Ubuntu: apt-get install {PACKAGES}"
    ))
}

/// The path of a program's object.
fn object(source: &Path, out: &Path) -> Result<PathBuf, String> {
    let name = source.file_stem().ok_or("a source without a name")?;
    // The file stem is "name.bpf".
    Ok(out.join(name).with_extension("bpf.o"))
}

fn compile(clang: &str, include: &Path, source: &Path, object: &Path) -> Result<(), String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let (target, triple) = match arch.as_str() {
        "aarch64" => ("-D__TARGET_ARCH_arm64", "aarch64-linux-gnu"),
        _ => ("-D__TARGET_ARCH_x86", "x86_64-linux-gnu"),
    };
    let done = Command::new(clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v4", target])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg("-I")
        .arg(include)
        .arg("-I")
        .arg(format!("/usr/include/{triple}"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("{clang}: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{}:\n{said}", source.display()));
    }
    Ok(())
}
