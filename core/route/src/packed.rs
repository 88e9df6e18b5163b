//! Groups as bytes: for memory that other processes read.
//!
//! ```text
//! bytes of the bucket list, a multiple of 4: u32
//! buckets: u32
//! members: u32
//! bytes of a next hop: u32
//! the bucket list: a byte for each bucket, or two in groups of more than 256 members; zeros
//! weights: u32 for each member, in the order of the group's members
//! next hops, in the same order
//! ```
//!
//! Numbers have the machine's byte order. A group says which member a bucket has, so a reader of
//! the bytes needs no hash.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::group::{Group, MEMBERS_MAX};
use super::hash::{scaled, spread};
use super::rendezvous::BUCKETS;
use sapwood_lpm::NextHop;

/// Words before the buckets.
const HEAD: usize = 4;

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
    /// One byte or two for each bucket.
    buckets: &'a [u8],
    wide: bool,
    weights: &'a [u8],
    hops: &'a [u8],
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
        let buckets = self.bucket_bytes();
        let wide = self.members().len() > 256;
        let list = buckets.len().next_multiple_of(4);
        let count = buckets.len() / if wide { 2 } else { 1 };
        let head = [list, count, self.members().len(), size_of::<H>()];
        let mut bytes: Vec<u8> = head
            .iter()
            .flat_map(|n| (*n as u32).to_ne_bytes())
            .collect();
        bytes.extend_from_slice(buckets);
        bytes.resize(4 * HEAD + list, 0);
        for (_, weight) in self.members() {
            bytes.extend_from_slice(&weight.to_ne_bytes());
        }
        for (hop, _) in self.members() {
            bytes.extend_from_slice(hop.as_bytes());
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
        let word = |at: usize| {
            let word = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_ne_bytes(word) as usize
        };
        let (list, count, members, hop) = (word(0), word(4), word(8), word(12));
        let wide = members > 256;
        let used = count.checked_mul(if wide { 2 } else { 1 })?;
        if hop != size_of::<H>() || members > MEMBERS_MAX || used > list || count > BUCKETS {
            return None;
        }
        let (buckets, rest) = rest.split_at_checked(list)?;
        let (weights, hops) = rest.split_at_checked(4 * members)?;
        (hops.len() == members.checked_mul(hop)?).then_some(PackedGroup {
            buckets: &buckets[..used],
            wide,
            weights,
            hops,
            values: PhantomData,
        })
    }

    /// The member for a flow, as [`Group::member`] says.
    #[inline]
    pub fn member(&self, flow: u64) -> Option<H> {
        let flow = spread(flow);
        let at = match self.wide {
            false => usize::from(*self.buckets.get(scaled(flow, self.buckets.len()))?),
            true => {
                let place = 2 * scaled(flow, self.buckets.len() / 2);
                let bucket = self.buckets.get(place..place + 2)?;
                usize::from(u16::from_ne_bytes([bucket[0], bucket[1]]))
            }
        };
        self.hop(at)
    }

    #[inline(always)]
    fn hop(&self, at: usize) -> Option<H> {
        let from = at * size_of::<H>();
        H::read_from_bytes(self.hops.get(from..from + size_of::<H>())?).ok()
    }

    /// The members with their weights.
    ///
    /// O(1); each step is O(1).
    pub fn members(&self) -> impl Iterator<Item = (H, u32)> {
        let weights = self.weights.chunks_exact(4).enumerate();
        let (me, word) = (*self, |w: &[u8]| {
            u32::from_ne_bytes([w[0], w[1], w[2], w[3]])
        });
        weights.filter_map(move |(at, weight)| Some((me.hop(at)?, word(weight))))
    }

    /// The group made anew of its members, whatever its bytes say of buckets; `None` if two members
    /// are equal.
    ///
    /// As [`Group::new`].
    pub fn to_group(&self) -> Option<Group<H>>
    where
        H: NextHop,
    {
        let group = Group::new(self.members());
        let members = group.members().len();
        (members == self.weights.len() / 4).then_some(group)
    }
}

impl<H: FromBytes + fmt::Debug> fmt::Debug for PackedGroup<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.members()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_groups_choose_as_groups_do() {
        for members in [0u64, 1, 2, 7, 256, 257, 600] {
            let group = Group::new((0..members).map(|hop| (hop * 3, hop as u32 % 5)));
            let bytes = group.to_bytes();
            let packed = PackedGroup::<u64>::new(&bytes).unwrap();
            for flow in 0..1000 {
                assert_eq!(
                    packed.member(flow),
                    group.member(flow).copied(),
                    "{members}"
                );
            }
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
                let at = state as usize % damaged.len();
                damaged[at] ^= 1 << (state >> 60 & 7);
                if let Some(packed) = PackedGroup::<u64>::new(&damaged) {
                    for flow in 0..50 {
                        let _ = packed.member(flow);
                    }
                    // Making a group takes long.
                    if round % 8 == 0 {
                        packed.to_group();
                    }
                }
            }
        }
    }
}
