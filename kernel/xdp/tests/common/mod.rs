//! Code that several tests share.
#![allow(dead_code)]

#[path = "../../../bpf/tests/common/beside.rs"]
pub mod beside;
pub mod dns;
pub mod frames;
#[path = "../../../bpf/tests/common/netns.rs"]
pub mod netns;
