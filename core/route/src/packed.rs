//! Groups as bytes: for memory that other processes read.
//!
//! ```text
//! the mark of this format: u32
//! members: u32
//! bytes of a next hop: u32
//! the kind of a null route and one, or 0: u32
//! how a member is chosen: u32
//! the position of the only member with a weight: u32
//! hashes: u64 for each member, in the order of the group's members
//! weights: u32 for each member, in the same order
//! next hops, in the same order
//! the position of the member for each of 2^20 buckets, in groups of more than 64 members: a byte,
//! or two in groups of more than 256 members
//! ```
//!
//! Numbers have the machine's byte order. The mark is no number with which older formats began, so
//! a reader refuses their groups.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::decision::Decision;
use super::group::{Choice, Group, MEMBERS_MAX};
use super::hash::spread;
use super::rendezvous::{self, BUCKETS, FEW};
use sapwood_lpm::{NextHop, NullRoute};

/// Words before the hashes.
const HEAD: usize = 6;
/// The mark of the format.
const MARK: u32 = 0x3247_5753;

/// How a member is chosen.
mod way {
    pub(super) const NOBODY: u32 = 0;
    pub(super) const ONLY: u32 = 1;
    pub(super) const EVEN: u32 = 2;
    pub(super) const FEW: u32 = 3;
    pub(super) const NARROW: u32 = 4;
    pub(super) const WIDE: u32 = 5;
}

/// A [`Group`] in bytes that [`Group::to_bytes`] made, perhaps in another process. It chooses as
/// the group does.
///
/// ```
/// use sapwood::route::{Group, PackedGroup};
/// let group = Group::new([(7u32, 1), (8, 2)]);
/// let bytes = group.to_bytes();
/// let packed = PackedGroup::<u32>::new(&bytes).unwrap();
/// assert_eq!(packed.member(5), group.member(5).copied());
/// assert_eq!(packed.to_group(), Some(group));
/// ```
pub struct PackedGroup<'a, H> {
    null: Option<NullRoute>,
    way: u32,
    only: usize,
    hashes: &'a [u8],
    weights: &'a [u8],
    hops: &'a [u8],
    /// One byte or two for each bucket.
    buckets: &'a [u8],
    values: PhantomData<fn() -> H>,
}

impl<H> Clone for PackedGroup<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for PackedGroup<'_, H> {}

impl<H: NextHop + IntoBytes + Immutable> Group<H> {
    /// The group as bytes, for a [`PackedGroup`]. A next hop is plain bytes.
    ///
    /// O(bytes of the group).
    pub fn to_bytes(&self) -> Vec<u8> {
        let (way, only) = match self.choice() {
            Choice::Nobody => (way::NOBODY, 0),
            Choice::Only(at) => (way::ONLY, *at as u32),
            Choice::Even => (way::EVEN, 0),
            Choice::Few => (way::FEW, 0),
            Choice::Narrow(_) => (way::NARROW, 0),
            Choice::Wide(_) => (way::WIDE, 0),
        };
        let null = self.null_route().map_or(0, |kind| kind.number() + 1);
        let (members, hop) = (self.members().len() as u32, size_of::<H>() as u32);
        let head = [MARK, members, hop, null, way, only];
        let mut bytes: Vec<u8> = head.iter().flat_map(|n| n.to_ne_bytes()).collect();
        bytes.extend(self.member_hashes().flat_map(u64::to_ne_bytes));
        bytes.extend(self.members().flat_map(|(_, weight)| weight.to_ne_bytes()));
        for (hop, _) in self.members() {
            bytes.extend_from_slice(hop.as_bytes());
        }
        match self.choice() {
            Choice::Narrow(all) => bytes.extend_from_slice(all),
            Choice::Wide(all) => bytes.extend(all.iter().flat_map(|at| at.to_ne_bytes())),
            _ => {}
        }
        bytes
    }
}

impl<'a, H: FromBytes> PackedGroup<'a, H> {
    /// The group in these bytes; `None` if they cannot be a group with such next hops.
    ///
    /// O(1).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<{ 4 * HEAD }>()?;
        let word = |at: usize| word(head, at).unwrap_or(0);
        let (mark, members, hop) = (word(0), word(1) as usize, word(2) as usize);
        let null = match word(3) {
            0 => None,
            kind => Some(NullRoute::from_number(kind - 1)?),
        };
        let (way, only) = (word(4), word(5) as usize);
        let buckets = match way {
            way::NARROW => BUCKETS,
            way::WIDE => 2 * BUCKETS,
            _ => 0,
        };
        let few = matches!(way, way::EVEN | way::FEW);
        if mark != MARK
            || hop != size_of::<H>()
            || members > if few { FEW } else { MEMBERS_MAX }
            || way > way::WIDE
            || null.is_some() && members > 0
        {
            return None;
        }
        let (hashes, rest) = rest.split_at_checked(8 * members)?;
        let (weights, rest) = rest.split_at_checked(4 * members)?;
        let (hops, rest) = rest.split_at_checked(members.checked_mul(hop)?)?;
        (rest.len() == buckets).then_some(PackedGroup {
            null,
            way,
            only,
            hashes,
            weights,
            hops,
            buckets: rest,
            values: PhantomData,
        })
    }

    /// The member for a flow, as [`Group::member`] says.
    #[inline]
    pub fn member(&self, flow: u64) -> Option<H> {
        let bucket = rendezvous::bucket(spread(flow));
        let place = bucket as usize;
        let at = match self.way {
            way::ONLY => self.only,
            way::EVEN if !self.hashes.is_empty() => {
                rendezvous::best_of_even(self.member_hashes(), bucket)
            }
            way::FEW => {
                let all = self.member_hashes().enumerate();
                let all = all.map(|(at, hash)| (at, hash, word(self.weights, at).unwrap_or(0)));
                rendezvous::best(all, bucket)?
            }
            way::NARROW => usize::from(*self.buckets.get(place)?),
            way::WIDE => {
                let two = self.buckets.get(2 * place..2 * place + 2)?;
                usize::from(u16::from_ne_bytes([two[0], two[1]]))
            }
            _ => return None,
        };
        self.hop(at)
    }

    /// What becomes of a flow's packets, as [`Group::decide`] says.
    #[inline]
    pub fn decide(&self, flow: u64) -> Decision<H> {
        match (self.null, self.member(flow)) {
            (_, Some(hop)) => Decision::Hop(hop),
            (Some(kind), None) => Decision::Null(kind),
            (None, None) => Decision::Void,
        }
    }

    /// Why packets go nowhere, if this is a null route.
    ///
    /// O(1).
    pub fn null_route(&self) -> Option<NullRoute> {
        self.null
    }

    #[inline(always)]
    fn member_hashes(&self) -> impl Iterator<Item = u64> {
        let hashes = self.hashes.chunks_exact(8);
        hashes.map(|hash| hash.try_into().map_or(0, u64::from_ne_bytes))
    }

    #[inline(always)]
    fn hop(&self, at: usize) -> Option<H> {
        let from = at.checked_mul(size_of::<H>())?;
        H::read_from_bytes(self.hops.get(from..from.checked_add(size_of::<H>())?)?).ok()
    }

    /// The members with their weights.
    ///
    /// O(1); each step is O(1).
    pub fn members(&self) -> impl Iterator<Item = (H, u32)> {
        let weights = self.weights.chunks_exact(4).enumerate();
        let me = *self;
        weights.filter_map(move |(at, weight)| Some((me.hop(at)?, word(weight, 0)?)))
    }

    /// The group made anew of its members, whatever its bytes say of buckets; `None` if two members
    /// are equal.
    ///
    /// As [`Group::new`].
    pub fn to_group(&self) -> Option<Group<H>>
    where
        H: NextHop,
    {
        if let Some(kind) = self.null {
            return Some(Group::null(kind));
        }
        let group = Group::new(self.members());
        let members = group.members().len();
        (members == self.weights.len() / 4).then_some(group)
    }
}

impl<H: FromBytes + fmt::Debug> fmt::Debug for PackedGroup<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.null {
            Some(kind) => f.debug_tuple("Group").field(&kind).finish(),
            None => f.debug_map().entries(self.members()).finish(),
        }
    }
}

/// A word of 4 bytes.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(4 * at..4 * at + 4)?;
    word.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the version before made of two members, of weights 1 and 2.
    #[test]
    fn groups_of_the_older_format_are_refused() {
        let head = [2048u32, 2048, 2, 4].map(u32::to_ne_bytes).concat();
        let members = [1u32, 2, 7, 8].map(u32::to_ne_bytes).concat();
        let bytes = [head, [0, 1].repeat(1024), members].concat();
        assert!(PackedGroup::<u32>::new(&bytes).is_none());
    }

    #[test]
    fn packed_groups_choose_as_groups_do() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let numbered = |members: u64, weights: u32| {
            Group::new((0..members).map(|hop| (hop * 3, 1 + hop as u32 % weights)))
        };
        let mut groups: Vec<_> = [0, 1, 2, 7, 64, 65, 257].map(|n| numbered(n, 5)).into();
        groups.extend([2, 64].map(|n| numbered(n, 1)));
        groups.extend([Group::new([(7, 0), (8, 3)]), Group::new([(7, 0)])]);
        groups.extend(NullRoute::ALL.map(Group::null));
        for group in groups {
            let members = group.members().len();
            let bytes = group.to_bytes();
            let packed = PackedGroup::<u64>::new(&bytes).unwrap();
            for flow in 0..1000 {
                assert_eq!(
                    packed.member(flow),
                    group.member(flow).copied(),
                    "{members}"
                );
            }
            assert_eq!(packed.decide(7).hop(), group.decide(7).hop().copied());
            assert_eq!(packed.null_route(), group.null_route());
            assert_eq!(packed.to_group().unwrap(), group);
            assert!(PackedGroup::<u32>::new(&bytes).is_none(), "other next hops");
            for len in 0..bytes.len().min(3000) {
                assert!(PackedGroup::<u64>::new(&bytes[..len]).is_none(), "{len}");
            }
            // Any other bytes are a group that answers something, or no group.
            let mut state = 7;
            for round in 0..300 {
                let mut damaged = bytes.clone();
                state = super::super::hash::mixed(state + 1);
                // Mostly where more than buckets are.
                let within = damaged
                    .len()
                    .min(if round % 3 == 0 { usize::MAX } else { 200 });
                let at = state as usize % within;
                damaged[at] ^= 1 << (state >> 60 & 7);
                if let Some(packed) = PackedGroup::<u64>::new(&damaged) {
                    for flow in 0..50 {
                        let _ = packed.member(flow);
                    }
                    // Making a group takes long.
                    if round % 8 == 0 && members <= 64 {
                        packed.to_group();
                    }
                }
            }
        }
    }
}
