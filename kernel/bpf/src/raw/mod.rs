//! The unsafe core: the arena's mapping, and its header page.

#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod sleep;
pub(crate) mod space;
pub(crate) mod window;
