//! The header that C programs include agrees with Rust.

use std::path::Path;

use sapwood_bpf::layout;

#[test]
fn the_header_is_what_rust_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/include/sapwood/layout.h");
    let wanted = layout::header();
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        std::fs::write(&path, &wanted).expect("the header can be written");
    }
    let there = std::fs::read_to_string(&path).expect("the header is there");
    assert!(
        there == wanted,
        "layout.h has drifted from src/layout.rs; write it anew: \
         SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --test layout"
    );
}
