//! Code that several tests share.
#![allow(dead_code)]

pub mod dns;
pub mod netns;
