//! Code that several tests share.
#![allow(dead_code)]

pub mod beside;
pub mod netns;
