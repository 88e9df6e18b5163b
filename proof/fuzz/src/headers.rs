//! Queries to the headers for BPF programs, compiled for user space.
#![allow(unsafe_code)]

use std::ffi::c_void;

unsafe extern "C" {
    fn sapwood_fuzz_answer(ask: *mut c_void, base: *mut c_void, bytes: usize);
}

/// A query with the layout of `struct ask` in `user.c`.
#[repr(C, align(8))]
struct Ask([u8; 344]);

/// Queries the headers about the memory of an arena that this process has mapped; returns the query
/// with its answer.
pub fn ask(arena: &sapwood_bpf::BpfArena, question: &[u8; 344]) -> [u8; 344] {
    let mut ask = Ask(*question);
    let base = std::ptr::with_exposed_provenance_mut(arena.address());
    // SAFETY: the query has the size and the alignment of `struct ask`. The arena stays mapped
    // while it is borrowed, and the headers access only its bytes.
    unsafe { sapwood_fuzz_answer((&raw mut ask).cast(), base, arena.bytes()) };
    ask.0
}
