//! Keys that maps give.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use crate::raw::keys::Short;

/// A key that a map has. It is the key's bytes, wherever the map keeps them.
///
/// A map that keeps many keys in one block stores the bytes that they share once. Such a key is
/// copied together: up to 126 bytes into the `Key` itself, longer ones into a box.
///
/// ```
/// use sapwood::qp::QpMap;
/// let map = QpMap::from([("ash", 1), ("elm", 2)]);
/// let (key, value) = map.first_key_value().unwrap();
/// assert!(key == "ash" && key.len() == 3 && key.starts_with(b"a"));
/// assert_eq!((key.to_vec(), *value), (b"ash".to_vec(), 1));
/// ```
#[derive(Clone)]
pub struct Key<'a>(pub(crate) Bytes<'a>);

#[derive(Clone)]
pub(crate) enum Bytes<'a> {
    Whole(&'a [u8]),
    Short(Short),
    Long(Box<[u8]>),
}

/// The bytes of a key where a map has them: those that its block's keys share, and its own.
#[derive(Clone, Copy)]
pub struct Pieces<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// A key in one piece.
    #[inline(always)]
    pub(crate) fn whole(key: &'a [u8]) -> Self {
        Pieces {
            head: &[],
            tail: key,
        }
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The byte at an offset.
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> Option<u8> {
        match i.checked_sub(self.head.len()) {
            None => Some(self.head[i]),
            Some(i) => self.tail.get(i).copied(),
        }
    }

    /// The key's bytes from an offset on, if they lie in one piece.
    #[cfg(feature = "std")]
    pub(crate) fn from(self, at: usize) -> Option<&'a [u8]> {
        match at.checked_sub(self.head.len()) {
            Some(at) => self.tail.get(at..),
            None if self.tail.is_empty() => self.head.get(at..),
            None => None,
        }
    }

    /// Whether the key begins with these bytes.
    pub(crate) fn starts_with(self, prefix: &[u8]) -> bool {
        prefix.len() <= self.len() && self.mismatch(prefix).is_none_or(|at| at == prefix.len())
    }

    /// The length of the prefix that the key shares with another one, or `None` if both are equal.
    #[inline(always)]
    pub(crate) fn mismatch(self, other: &[u8]) -> Option<usize> {
        use crate::raw::leaf::mismatch;
        let head = self.head.len();
        if head == 0 {
            return mismatch(self.tail, other);
        }
        if other.len() < head {
            return mismatch(self.head, other);
        }
        match mismatch(self.head, &other[..head]) {
            None => mismatch(self.tail, &other[head..]).map(|at| head + at),
            at => at,
        }
    }

    /// The length of the prefix that two keys share, or `None` if both are equal.
    pub(crate) fn unlike(self, other: Pieces<'_>) -> Option<usize> {
        if other.head.is_empty() {
            return self.mismatch(other.tail);
        }
        let len = self.len().max(other.len());
        (0..len).find(|i| self.at(*i) != other.at(*i))
    }

    /// The order of two keys.
    pub(crate) fn cmp(self, other: Pieces<'_>) -> Ordering {
        match self.unlike(other) {
            None => Ordering::Equal,
            Some(at) => self.at(at).cmp(&other.at(at)),
        }
    }

    /// Adds the key's bytes to a vector.
    pub(crate) fn add_to(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.head);
        bytes.extend_from_slice(self.tail);
    }

    /// A copy of the key.
    pub(crate) fn to_box(self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(self.len());
        self.add_to(&mut bytes);
        bytes.into_boxed_slice()
    }
}

impl fmt::Debug for Pieces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_box().fmt(f)
    }
}

impl<'a> From<Pieces<'a>> for Key<'a> {
    #[inline(never)]
    fn from(pieces: Pieces<'a>) -> Self {
        if pieces.head.is_empty() {
            return Key(Bytes::Whole(pieces.tail));
        }
        match Short::copy(pieces) {
            Some(short) => Key(Bytes::Short(short)),
            None => Key(Bytes::Long(pieces.to_box())),
        }
    }
}

impl<'a> Key<'a> {
    /// The bytes in the map's own memory, which live as long as the borrow of the map; `None` where
    /// the map does not keep the key in one piece. Maps with leaves, and those with whole keys
    /// ([`QpMap::with_whole_keys`](crate::QpMap::with_whole_keys)), keep all keys so.
    ///
    /// O(1).
    #[inline]
    pub fn in_place(&self) -> Option<&'a [u8]> {
        match self.0 {
            Bytes::Whole(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Key<'a> {
    #[inline]
    fn from(bytes: &'a B) -> Self {
        Key(Bytes::Whole(bytes.as_ref()))
    }
}

impl From<Key<'_>> for Box<[u8]> {
    fn from(key: Key<'_>) -> Self {
        match key.0 {
            Bytes::Long(bytes) => bytes,
            _ => Box::from(&*key),
        }
    }
}

impl From<Key<'_>> for Vec<u8> {
    fn from(key: Key<'_>) -> Self {
        Box::<[u8]>::from(key).into_vec()
    }
}

impl Deref for Key<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Whole(bytes) => bytes,
            Bytes::Short(short) => short.bytes(),
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key<'_> {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key<'_> {}

/// Comparisons with what else is bytes, from both sides.
macro_rules! equals {
    ($([$($generics:tt)*] $other:ty),* $(,)?) => {$(
        impl<$($generics)*> PartialEq<$other> for Key<'_> {
            #[inline]
            fn eq(&self, other: &$other) -> bool {
                let other: &[u8] = other.as_ref();
                **self == *other
            }
        }

        impl<$($generics)*> PartialEq<Key<'_>> for $other {
            #[inline]
            fn eq(&self, other: &Key<'_>) -> bool {
                other == self
            }
        }
    )*};
}

equals!(
    [] [u8], [] &[u8], [const N: usize] [u8; N], [const N: usize] &[u8; N], [] Vec<u8>,
    [] &Vec<u8>, [] Box<[u8]>, [] str, [] &str,
);

impl PartialOrd for Key<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_key() {
        let key: Vec<u8> = (0..60).collect();
        for len in 0..key.len() {
            for cut in 0..=len {
                let key = &key[..len];
                let pieces = Pieces {
                    head: &key[..cut],
                    tail: &key[cut..],
                };
                assert_eq!(Key::from(pieces), key);
                assert_eq!(Key::from(pieces).in_place().is_some(), cut == 0);
                assert_eq!(*pieces.to_box(), *key);
                assert!(pieces.mismatch(key).is_none());
                for i in 0..len {
                    assert_eq!(pieces.at(i), Some(key[i]));
                    let mut other = key.to_vec();
                    other[i] ^= 1;
                    assert_eq!(pieces.mismatch(&other), Some(i));
                    assert_eq!(pieces.mismatch(&key[..i]), Some(i));
                    assert!(pieces.starts_with(&key[..i]) && !pieces.starts_with(&other));
                    #[cfg(feature = "std")]
                    match pieces.from(i) {
                        Some(bytes) => assert_eq!(bytes, &key[i..]),
                        None => assert!(i < cut && cut < len),
                    }
                    let whole = Pieces::whole(&other);
                    let halves = Pieces {
                        head: &other[..i / 2],
                        tail: &other[i / 2..],
                    };
                    for other in [whole, halves] {
                        assert_eq!(pieces.unlike(other), Some(i));
                        assert_eq!(pieces.cmp(other), key[i].cmp(&(key[i] ^ 1)));
                    }
                }
                assert_eq!(pieces.at(len), None);
                assert!(!pieces.starts_with(&[key, &[7]].concat()));
            }
        }
    }
}
