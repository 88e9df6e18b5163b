//! The header that C programs include, and the constants of the reader in Go, agree with Rust.

use std::path::Path;

use sapwood_bpf::layout;

/// Compares a file of the project with what Rust says, or writes it.
fn is_what_rust_says(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        std::fs::write(&path, wanted).expect("the file can be written");
    }
    let there = std::fs::read_to_string(&path).expect("the file is there");
    assert!(
        there == wanted,
        "{file} has drifted from src/layout.rs; write it anew: \
         SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --test layout"
    );
}

#[test]
fn the_header_is_what_rust_says() {
    is_what_rust_says("bpf/include/sapwood/layout.h", &layout::header());
}

#[test]
fn the_go_constants_are_what_rust_says() {
    is_what_rust_says("../../doors/go/layout.go", &layout::go_source());
}
