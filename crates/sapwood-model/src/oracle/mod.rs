//! Maps that are obviously right: every query is written as its definition, over all keys.

mod bits;
mod map;
mod versions;

pub use bits::BitPrefixes;
pub use map::ByteMap;
pub use versions::{Change, Versions, diff};
