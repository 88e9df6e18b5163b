//! What tests share.
#![allow(dead_code)]

pub mod netns;
