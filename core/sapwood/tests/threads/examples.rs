//! The programs in `examples/`, which the guides explain: each must run to its end, and asserts its
//! own claims.
#![cfg(not(any(shuttle, miri)))]

#[path = "../../examples/allocator.rs"]
mod allocator;
#[path = "../../examples/dns.rs"]
mod dns;
#[path = "../../examples/mappings.rs"]
mod mappings;
#[path = "../../examples/misuse.rs"]
mod misuse;
#[path = "../../examples/mmap.rs"]
mod mmap;
#[path = "../../examples/routes.rs"]
mod routes;
#[path = "../../examples/tracker.rs"]
mod tracker;

#[test]
fn example_allocator() {
    allocator::main().unwrap();
}

#[test]
fn example_dns() {
    dns::main().unwrap();
}

#[test]
fn example_mappings() {
    mappings::main().unwrap();
}

#[test]
fn example_misuse() {
    misuse::main().unwrap();
}

#[test]
fn example_mmap() {
    mmap::main().unwrap();
}

#[test]
fn example_routes() {
    routes::main().unwrap();
}

#[test]
fn example_tracker() {
    tracker::main().unwrap();
}
