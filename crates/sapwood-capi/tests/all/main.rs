//! Tests of the C library, and of its header.

mod header;
mod programs;
mod support;
mod tables;
