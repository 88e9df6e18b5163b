//! Tests of the C library, and of its header.

mod allocations;
mod border;
#[cfg(feature = "bpf")]
mod bpf;
mod door;
mod header;
mod lists;
mod live;
mod oracle;
mod print;
mod programs;
mod refusals;
mod standards;
mod support;
mod tables;
