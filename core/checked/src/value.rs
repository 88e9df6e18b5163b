//! Values that a checked reader returns.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Trouble;

/// A value that a checked reader returns: plain bytes, copied.
pub trait CheckedValue: Sized {
    /// Whether a value of this type can have this many bytes.
    fn fits(bytes: usize) -> bool;

    /// The value of these bytes, whose number satisfies [`fits`](Self::fits); `None` when no value
    /// has these bytes.
    fn of(bytes: &[u8]) -> Option<Self>;

    /// The alignment of a value, if a map must have been made with this type. The layout hash in
    /// the map's header page then says this alignment and the size.
    fn align() -> Option<usize>;

    /// The layout hash that a table of prefixes with such values has, of addresses of this many
    /// bits, if the table must have been made with this type.
    fn prefix_layout_hash(width: u8) -> Option<u64> {
        let _ = width;
        None
    }

    /// The layout hash that a range map with such values has, if the map must have been made with
    /// this type.
    fn range_layout_hash() -> Option<u64> {
        None
    }
}

impl<V: FromBytes> CheckedValue for V {
    fn fits(bytes: usize) -> bool {
        bytes == size_of::<V>()
    }

    fn of(bytes: &[u8]) -> Option<V> {
        V::read_from_bytes(bytes).ok()
    }

    fn align() -> Option<usize> {
        Some(align_of::<V>())
    }

    fn prefix_layout_hash(width: u8) -> Option<u64> {
        let (size, align) = (size_of::<V>(), align_of::<V>());
        Some(sapwood_format::lpm::header::layout_hash(width, size, align))
    }

    fn range_layout_hash() -> Option<u64> {
        let (size, align) = (size_of::<V>(), align_of::<V>());
        Some(sapwood_format::maple::header::layout_hash(size, align))
    }
}

/// A value of any size: a byte string, or the bytes of a value whose type the reader does not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// The sum of its words of eight bytes, modulo 2^64: of a value that has a count for each
    /// processor, and zeros between them, the count of all. O(bytes).
    ///
    /// ```
    /// use sapwood_checked::Bytes;
    /// let counts = Bytes([3u64, 0, 4].iter().flat_map(|word| word.to_ne_bytes()).collect());
    /// assert_eq!(counts.sum(), 7);
    /// ```
    pub fn sum(&self) -> u64 {
        let word = |bytes: &[u8]| u64::from_ne_bytes(core::array::from_fn(|i| bytes[i]));
        let words = self.0.chunks_exact(8).map(word);
        words.fold(0, u64::wrapping_add)
    }
}

impl CheckedValue for Bytes {
    fn fits(_: usize) -> bool {
        true
    }

    fn of(bytes: &[u8]) -> Option<Bytes> {
        Some(Bytes(bytes.to_vec()))
    }

    fn align() -> Option<usize> {
        None
    }
}

/// A value that a checked reader returns, and whose bytes a writer can store.
///
/// ```
/// use sapwood_checked::{Bytes, StoredValue};
/// assert_eq!(<u64 as StoredValue>::BYTES, Some(8));
/// assert_eq!(Bytes::BYTES, None);
/// assert_eq!(Bytes(vec![1, 2]).stored(), [1, 2]);
/// ```
pub trait StoredValue: CheckedValue {
    /// The bytes of each value; `None` when the map says how many they are.
    const BYTES: Option<usize>;

    /// The bytes of this value.
    fn stored(&self) -> &[u8];
}

impl<V: FromBytes + IntoBytes + Immutable> StoredValue for V {
    const BYTES: Option<usize> = Some(size_of::<V>());

    fn stored(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl StoredValue for Bytes {
    const BYTES: Option<usize> = None;

    fn stored(&self) -> &[u8] {
        &self.0
    }
}

/// What is wrong when a type has no value of an entry's bytes.
pub(crate) const NO_VALUE: Trouble = Trouble::Damaged("a value that its type does not have", 0);
