//! Compiles the headers for BPF programs for user space, with the feature `kernel`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/headers.c");
    println!("cargo::rerun-if-changed=../../kernel/bpf/bpf/include");
    println!("cargo::rerun-if-changed=../../kernel/bpf/tests/program_map/user.c");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let run = |command: &mut Command| {
        let status = command.status().expect("a C compiler and ar");
        assert!(status.success(), "{command:?}");
    };
    let (object, library) = (out.join("headers.o"), out.join("libheaders.a"));
    run(Command::new("cc")
        .args(["-O1", "-g", "-std=gnu11", "-Wall", "-Werror", "-c"])
        .args(["-I", "../../kernel/bpf/bpf/include", "src/headers.c"])
        .arg("-o")
        .arg(&object));
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=headers");
}
