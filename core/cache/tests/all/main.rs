//! The tests of the route cache from outside, in one program.
//! Each subject is a module: `cargo test -p sapwood-cache --test all route_cache::` runs one.
//! Tests with threads, and tests of all structures, are in `core/sapwood/tests`.

mod hooks;
mod route_cache;

#[allow(dead_code, unused_imports)] // Each program uses only a part of it.
#[path = "../../../sapwood/tests/support"]
mod support {
    pub mod route_cache;
}
