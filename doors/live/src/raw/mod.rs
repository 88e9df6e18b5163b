//! Memory that processes share: every unsafe block of the crate.
#![allow(unsafe_code)]

pub(crate) mod map;
pub(crate) mod maps;
pub(crate) mod process;
pub(crate) mod reader;
pub(crate) mod region;
pub(crate) mod window;
