//! Compiles the BPF programs, and tells the build scripts of other crates where the headers are.

use std::path::Path;

fn main() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/include");
    println!("cargo::metadata=include={}", include.display());
    sapwood_bpf_build::programs(&include);
}
