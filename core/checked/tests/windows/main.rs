//! The crate's tests from outside, in one program. Each subject is a module.

mod beside;
mod damage;
mod evicted;
mod fibs;
mod maps;
mod support;
