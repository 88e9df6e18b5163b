//! The C library as C programs use it: through the addresses of its functions, so that the compiler
//! does not put them into the loop; and uthash, by a shim, beside it.

mod raw;

pub use raw::{Fib, FibInline, Names, Uthash};
