//! A few next hops in one plain value, for caches.

use core::hash::Hash;

use super::hash::{StableHasher, spread};
use super::rendezvous;
use sapwood_common::{Plain, Words};

/// Up to `N` weighted next hops of which each flow takes one: a value for a
/// cache of routes. It has no heap memory and no buckets, so that it is [`Plain`].
///
/// A lookup draws a number for each member by weighted rendezvous hashing, as a
/// [`Group`](super::Group) does, and a flow takes the member that it takes in a group of the same
/// members. When a member leaves, only its flows move.
///
/// ```
/// use sapwood::route::{HopSet, RouteCache};
///
/// // Keys are destinations: all flows to one share an entry.
/// let cache: RouteCache<u128, HopSet<u32, 4>> = RouteCache::new(1024);
/// let ask = |_: &u128| HopSet::new([(7, 2), (8, 1)]).ok_or("more than four next hops");
/// let (key, now) = (1, 5_000_000);
/// let hops = cache.get_or_resolve(&key, cache.hash(&key), now, ask).unwrap();
/// let (one, other) = (hops.member(1), hops.member(1));
/// assert!(one == other && (one == Some(7) || one == Some(8)));
/// let without = HopSet::<u32, 4>::new([(8, 1)]).unwrap();
/// assert!((0..1000).all(|flow| hops.member(flow) == Some(7) || without.member(flow) == Some(8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopSet<H, const N: usize> {
    /// Next hop, weight and hash, in the order of the hashes.
    members: [Option<(H, u32, u64)>; N],
}

impl<H: Plain + Eq + Hash, const N: usize> HopSet<H, N> {
    /// A set of these members. The weights of equal next hops are added, and members with the
    /// weight 0 are left out. `None` when more than `N` are left.
    ///
    /// O(members * N).
    pub fn new(members: impl IntoIterator<Item = (H, u32)>) -> Option<Self> {
        let mut all = [None; N];
        let mut len = 0;
        for (hop, weight) in members {
            if weight == 0 {
                continue;
            }
            let known = all[..len].iter_mut().flatten();
            let mut known = known.filter(|(known, ..): &&mut (H, u32, u64)| *known == hop);
            if let Some((_, sum, _)) = known.next() {
                *sum = sum.saturating_add(weight);
                continue;
            }
            *all.get_mut(len)? = Some((hop, weight, StableHasher::hash_one(&hop)));
            len += 1;
        }
        all[..len].sort_by_key(|member| member.map(|(.., hash)| hash));
        Some(HopSet { members: all })
    }

    /// The next hop of a flow: any number that is the same for all packets of the flow. `None` if
    /// there are no members.
    ///
    /// O(members).
    #[inline]
    pub fn member(&self, flow: u64) -> Option<H> {
        let all = self.members.iter().flatten();
        let at = rendezvous::best(
            all.enumerate()
                .map(|(at, &(_, weight, hash))| (at, hash, weight)),
            rendezvous::bucket(spread(flow)),
        )?;
        self.members[at].map(|(hop, ..)| hop)
    }

    /// The members with their weights, in the order of their hashes.
    ///
    /// O(1), and O(N) for the whole walk.
    pub fn members(&self) -> impl Iterator<Item = (H, u32)> + use<'_, H, N> {
        let all = self.members.iter().flatten();
        all.map(|&(hop, weight, _)| (hop, weight))
    }
}

impl<H: Plain, const N: usize> Plain for HopSet<H, N> {
    /// For each member its next hop, its weight and its hash; the weight 0 for no member.
    type Words = [(H::Words, [u64; 2]); N];

    #[inline(always)]
    fn to_words(self) -> Self::Words {
        self.members.map(|member| match member {
            Some((hop, weight, hash)) => (hop.to_words(), [u64::from(weight), hash]),
            None => (H::Words::fill(|| 0), [0; 2]),
        })
    }

    #[inline(always)]
    fn from_words(words: Self::Words) -> Self {
        HopSet {
            members: words.map(|(hop, [weight, hash])| {
                (weight != 0).then(|| (H::from_words(hop), weight as u32, hash))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Four = HopSet<u32, 4>;

    #[test]
    fn sets_are_what_they_were_made_of() {
        let set = Four::new([(7, 1), (9, 0), (8, 2), (7, 3)]).unwrap();
        let mut members: alloc::vec::Vec<_> = set.members().collect();
        members.sort_unstable();
        assert_eq!(members, [(7, 4), (8, 2)]);
        assert_eq!(Four::new([(8, 2), (7, 4)]), Some(set));
        assert_eq!(Four::from_words(set.to_words()), set);
        assert_eq!(Four::new((0..5).map(|hop| (hop, 1))), None);
        let none = Four::new([(1, 0)]).unwrap();
        assert_eq!((none.member(7), none.members().count()), (None, 0));
        assert_eq!(Four::from_words(none.to_words()), none);
    }

    #[test]
    fn shares_are_those_of_the_weights_and_only_flows_that_must_move_do() {
        let set = Four::new([(1, 1), (2, 1), (3, 2)]).unwrap();
        let without = Four::new([(1, 1), (3, 2)]).unwrap();
        let group = crate::Group::new([(1, 1), (2, 1), (3, 2)]);
        let mut shares = [0_u32; 4];
        for flow in 0..40_000 {
            let hop = set.member(flow).unwrap();
            shares[hop as usize] += 1;
            assert!(hop == 2 || without.member(flow) == Some(hop));
            assert_eq!(group.member(flow), Some(&hop));
        }
        for (hop, share) in [(1, 10_000), (2, 10_000), (3, 20_000)] {
            let found: u32 = shares[hop];
            assert!(found.abs_diff(share) < 400, "next hop {hop}: {found}");
        }
    }
}
