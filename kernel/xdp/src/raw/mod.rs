//! The unsafe part: a system call that the bindings do not have.

#![allow(unsafe_code)]

pub(crate) mod xdp;
