//! Naive maps and tables: each query is written as its definition and looks at all keys.

mod bits;
pub mod lpm;
mod map;
mod name;
mod ranges;
mod versions;

pub use bits::BitPrefixes;
pub use lpm::{Lpm, LpmByLength, Prefix};
pub use map::{ByteMap, Closest, Denial};
pub use name::name_in_message;
pub use ranges::RangeMap;
pub use versions::{Change, Versions, diff};
