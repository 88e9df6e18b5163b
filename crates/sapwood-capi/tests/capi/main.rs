//! Tests of the C library, and of its header.

mod border;
mod door;
mod header;
mod live;
mod oracle;
mod programs;
mod standards;
mod support;
mod tables;
