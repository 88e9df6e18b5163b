//! What a saved table has for a prefix, and its bytes in the file.

use alloc::vec::Vec;
use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::NullRoute;

/// What a saved table has for a prefix: a next hop, a group of them, or a null route.
///
/// ```
/// use sapwood::lpm::SavedHop;
/// assert_eq!(SavedHop::of(&7u32), SavedHop::Number(7));
/// assert_eq!(SavedHop::Number(7).value::<u64>(), Some(7));
/// assert_eq!(SavedHop::Number(700).value::<u8>(), None);
/// let group = SavedHop::Group(vec![(SavedHop::Name("left"), 2), (SavedHop::Name("right"), 1)]);
/// assert_eq!(group.to_string(), "left weight 2, right weight 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SavedHop<'a> {
    /// A next hop that is a number, or a plain value of up to 8 bytes as a number.
    Number(u64),
    /// A next hop that has a name. The name may be empty.
    Name(&'a str),
    /// A next hop that is a plain value of more than 8 bytes.
    Bytes(&'a [u8]),
    /// Packets go nowhere.
    Null(NullRoute),
    /// Several next hops with their weights. They are numbers, names or bytes.
    Group(Vec<(SavedHop<'a>, u32)>),
}

impl<'a> SavedHop<'a> {
    /// The next hop that a plain value is: a number of up to 8 bytes, or bytes.
    ///
    /// O(1).
    pub fn of<V: IntoBytes + Immutable>(value: &'a V) -> Self {
        let bytes = value.as_bytes();
        let mut number = [0; 8];
        match number.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                SavedHop::Number(u64::from_le_bytes(number))
            }
            None => SavedHop::Bytes(bytes),
        }
    }

    /// The plain value that this next hop is, if the type holds it: a number that fits into the
    /// type's bytes, or as many bytes as the type has.
    ///
    /// O(1).
    pub fn value<V: FromBytes>(&self) -> Option<V> {
        match self {
            SavedHop::Number(number) => {
                let bytes = number.to_le_bytes();
                let (low, high) = bytes.split_at_checked(size_of::<V>())?;
                let fits = high.iter().all(|byte| *byte == 0);
                fits.then(|| V::read_from_bytes(low).ok())?
            }
            SavedHop::Bytes(bytes) => V::read_from_bytes(bytes).ok(),
            _ => None,
        }
    }

    /// What this is, for messages.
    ///
    /// O(1).
    pub fn kind(&self) -> &'static str {
        match self {
            SavedHop::Number(_) => "a next hop by number",
            SavedHop::Name(_) => "a next hop by name",
            SavedHop::Bytes(_) => "a next hop of more than 8 bytes",
            SavedHop::Null(_) => "a null route",
            SavedHop::Group(_) => "a group of next hops",
        }
    }
}

/// The text of a next hop: its number, its name, or bytes as `0x0a0b`; the word of a null route;
/// the members of a group with their weights.
impl fmt::Display for SavedHop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedHop::Number(number) => number.fmt(f),
            SavedHop::Name(name) => f.write_str(name),
            SavedHop::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            SavedHop::Null(null) => null.fmt(f),
            SavedHop::Group(members) => {
                for (i, (hop, weight)) in members.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{hop} weight {weight}")?;
                }
                Ok(())
            }
        }
    }
}

/// The next hop of a prefix within a saved table: a number, or a position in the table's list.
/// Equal next hops of a file have equal references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HopRef(pub(super) u32);

/// What the word of a prefix refers to.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Number(u32),
    Listed(u32),
    Null(NullRoute),
}

/// The kind of a word is in its upper two bits, and this many bits below are a number, a position
/// in the list, or the kind of a null route.
const PAYLOAD: u32 = 30;
/// The words with a payload are less than this.
pub(super) const PAYLOADS: u32 = 1 << PAYLOAD;

impl Word {
    pub(super) fn encode(self) -> HopRef {
        let (kind, payload) = match self {
            Word::Number(number) => (0, number),
            Word::Listed(position) => (1, position),
            Word::Null(null) => (2, null.number()),
        };
        debug_assert!(payload < PAYLOADS);
        HopRef(kind << PAYLOAD | payload)
    }

    pub(super) fn decode(word: HopRef) -> Option<Self> {
        let payload = word.0 % PAYLOADS;
        match word.0 >> PAYLOAD {
            0 => Some(Word::Number(payload)),
            1 => Some(Word::Listed(payload)),
            2 => NullRoute::from_number(payload).map(Word::Null),
            _ => None,
        }
    }
}

impl HopRef {
    /// The position in the list of the file, if the next hop is listed. All names are.
    ///
    /// O(1).
    pub fn position(self) -> Option<u32> {
        match Word::decode(self) {
            Some(Word::Listed(position)) => Some(position),
            _ => None,
        }
    }
}

/// The first byte of an entry of the list: what follows it.
pub(super) mod entry {
    /// A name in UTF-8.
    pub(crate) const NAME: u8 = 0;
    /// A number of 8 bytes, little-endian.
    pub(crate) const NUMBER: u8 = 1;
    /// Bytes.
    pub(crate) const BYTES: u8 = 2;
    /// The members of a group: for each, weight and word, of 4 bytes each, little-endian.
    pub(crate) const GROUP: u8 = 3;
    /// More members of the group before.
    pub(crate) const MEMBERS: u8 = 4;
}
/// Bytes of a member.
pub(super) const MEMBER: usize = 8;
/// The most members of an entry, as an entry has at most 65,530 bytes.
pub(super) const MEMBERS: usize = 8000;

/// The numbers of a saved table that readers in other languages need, with the names that
/// `doors/go` gives them.
#[doc(hidden)]
pub const FIB_FILE_LAYOUT: [(&str, u64); 14] = [
    ("savedWordKindAt", PAYLOAD as u64),
    ("savedNumber", 0),
    ("savedListed", 1),
    ("savedNull", 2),
    ("listName", entry::NAME as u64),
    ("listNumber", entry::NUMBER as u64),
    ("listBytes", entry::BYTES as u64),
    ("listGroup", entry::GROUP as u64),
    ("listMembers", entry::MEMBERS as u64),
    ("listMemberBytes", MEMBER as u64),
    ("listKey", super::super::bits::NAME as u64),
    ("listKeyBytes", super::super::bits::NAME_AT as u64),
    ("familyBits", super::key::FAMILY as u64),
    ("prefixKeysEnd", super::super::bits::END_OF_PREFIXES as u64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_words_are_those_of_the_layout() {
        let of = |word: Word| u64::from(word.encode().0 >> PAYLOAD);
        let named = |name| FIB_FILE_LAYOUT.iter().find(|(known, _)| *known == name);
        for (name, word) in [
            ("savedNumber", Word::Number(7)),
            ("savedListed", Word::Listed(7)),
            ("savedNull", Word::Null(NullRoute::Throw)),
        ] {
            assert_eq!(named(name), Some(&(name, of(word))));
        }
    }
}
