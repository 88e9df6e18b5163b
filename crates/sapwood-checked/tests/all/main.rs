//! The crate's tests from outside, in one program. Each subject is a module.

mod damage;
mod evicted;
mod maps;
mod support;
