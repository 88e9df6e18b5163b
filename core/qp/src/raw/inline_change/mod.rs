//! Changes of owned tries with inline clusters: entries go into blocks and out of them, and blocks
//! are parted and joined.
//!
//! A block is written anew from *rows*, which name the entries of old blocks and leaves. Rows keep
//! no pointers, so memory may move while new blocks are made. The bits of values are copied, and
//! the old blocks are freed as plain memory when the new ones are linked. So each value is dropped
//! once, and a change that finds no memory leaves everything as it was.

mod insert;
mod remove;
mod replace;
mod rows;
#[cfg(test)]
mod tests;

#[cfg(feature = "std")]
pub(crate) use rows::write_outside;
