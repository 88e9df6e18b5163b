//! Compiles the BPF programs with the headers of `sapwood-bpf`.

use std::path::Path;

fn main() {
    let include =
        std::env::var_os("DEP_SAPWOOD_BPF_INCLUDE").expect("sapwood-bpf tells its headers");
    sapwood_bpf_build::programs(Path::new(&include));
}
