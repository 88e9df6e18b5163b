//! Memory that is read word by word.

/// Memory that is read word by word, and that others may write meanwhile.
///
/// A window begins with the header page of a published map. Where others write the memory, each
/// word is loaded atomically with Acquire, so later loads are at least as new.
///
/// ```
/// use sapwood_format::Window;
/// let copied = [7 << 32 | 5_u64, 9];
/// let window = &copied[..];
/// assert_eq!(Window::len(window), 16);
/// assert_eq!((window.u32(0), window.u32(4), window.u64(8)), (5, 7, 9));
/// ```
pub trait Window {
    /// The bytes of the window. Nothing behind them is read.
    fn len(&self) -> usize;

    /// Whether the window has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word at this byte, a multiple of 4 below `len`.
    fn u32(&self, at: usize) -> u32;

    /// The word at this byte, a multiple of 8 below `len`.
    fn u64(&self, at: usize) -> u64;
}

impl<W: Window + ?Sized> Window for &W {
    #[inline]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        (**self).u32(at)
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        (**self).u64(at)
    }
}

/// Words that nobody writes, such as a copy of a window.
impl Window for [u64] {
    #[inline]
    fn len(&self) -> usize {
        size_of_val(self)
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        debug_assert!(at % 4 == 0);
        let word = self[at / 8].to_ne_bytes();
        let mut half = [0; 4];
        half.copy_from_slice(&word[at % 8..at % 8 + 4]);
        u32::from_ne_bytes(half)
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        debug_assert!(at % 8 == 0);
        self[at / 8]
    }
}
