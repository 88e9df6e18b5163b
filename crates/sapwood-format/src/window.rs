//! Words that others write.

/// Words that others write. Each word is loaded atomically with Acquire, so later loads are at
/// least as new.
#[allow(clippy::len_without_is_empty)] // A window without a header is refused by its length.
pub trait Window {
    /// The bytes of the window. Nothing behind them is read.
    fn len(&self) -> usize;

    /// The word at this byte, a multiple of 4 below `len`.
    fn u32(&self, at: usize) -> u32;

    /// The word at this byte, a multiple of 8 below `len`.
    fn u64(&self, at: usize) -> u64;
}
