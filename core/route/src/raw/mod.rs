//! The slots of a table's groups.

#![allow(unsafe_code)]

pub(crate) mod slot;
