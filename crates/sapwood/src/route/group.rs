//! Next hops that share the flows of a route by their weights.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash, Hasher};

use super::hash::{Secrets, scaled};

/// Buckets of a group with two members or more. A member's share is right within about one in a hundred of all flows.
const BUCKETS: usize = 2048;

/// Weighted next hops of which each flow takes one.
///
/// A flow's hash names one of 2,048 buckets, a bucket its member: one load. Each bucket was given to its member by
/// weighted rendezvous (the member whose `-weight / ln(u)` is greatest, `u` being a hash of bucket and member). So when a
/// member leaves, only its flows move; when one joins, or gets more weight, only flows that it takes move; and groups of the same
/// members and weights are the same, whatever their history.
///
/// Cheap to clone.
///
/// ```
/// use sapwood::route::Group;
///
/// let group = Group::new([("a", 2), ("b", 1), ("c", 1)]);
/// let without = group.without(&"b");
/// for flow in (0..10_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
///     let member = group.member(flow).unwrap();
///     assert!(*member == "b" || without.member(flow) == Some(member));
/// }
/// ```
pub struct Group<H> {
    inner: Arc<Inner<H>>,
}

struct Inner<H> {
    /// By their hashes, so that equal groups are the same.
    members: Box<[Member<H>]>,
    /// Positions in `members`; empty when at most one has any weight.
    buckets: Box<[u16]>,
}

struct Member<H> {
    hop: H,
    weight: u32,
    hash: u64,
}

impl<H: Clone + Eq + Hash> Group<H> {
    /// A group of members with their weights. Weights of equal members are added up. A member of weight 0 gets no flow.
    ///
    /// # Panics
    ///
    /// With more than 65,536 members.
    pub fn new(members: impl IntoIterator<Item = (H, u32)>) -> Self {
        // The same in every process, so that machines agree.
        let state = foldhash::fast::FixedState::with_seed(0x5a70_0d77);
        let mut all: Vec<Member<H>> = Vec::new();
        for (hop, weight) in members {
            match all.iter_mut().find(|member| member.hop == hop) {
                Some(member) => member.weight = member.weight.saturating_add(weight),
                None => {
                    let hash = state.hash_one(&hop);
                    all.push(Member { hop, weight, hash });
                }
            }
        }
        assert!(all.len() <= 1 << 16, "too many members");
        all.sort_by_key(|member| member.hash);
        let buckets = buckets(&all);
        Self {
            inner: Arc::new(Inner {
                members: all.into(),
                buckets,
            }),
        }
    }

    /// A group of one.
    pub fn single(hop: H) -> Self {
        Self::new([(hop, 1)])
    }

    /// The member for a flow; none if no member has any weight. Uses the upper 32 bits of the hash.
    #[inline]
    pub fn member(&self, flow: u64) -> Option<&H> {
        let Inner { members, buckets } = &*self.inner;
        let at = match buckets.len() {
            0 => members.iter().position(|member| member.weight > 0)?,
            n => usize::from(buckets[scaled(flow, n)]),
        };
        members.get(at).map(|member| &member.hop)
    }

    /// The members with their weights.
    pub fn members(&self) -> impl Iterator<Item = (&H, u32)> {
        let members = self.inner.members.iter();
        members.map(|member| (&member.hop, member.weight))
    }

    /// The weight of a member.
    pub fn weight(&self, hop: &H) -> Option<u32> {
        self.members().find(|member| member.0 == hop).map(|m| m.1)
    }

    /// The group with another weight for a member, which may be new.
    #[must_use]
    pub fn with(&self, hop: H, weight: u32) -> Self {
        let others = self.members().filter(|member| *member.0 != hop);
        let others: Vec<_> = others.map(|(hop, weight)| (hop.clone(), weight)).collect();
        Self::new(others.into_iter().chain([(hop, weight)]))
    }

    /// The group without a member.
    #[must_use]
    pub fn without(&self, hop: &H) -> Self {
        let others = self.members().filter(|member| member.0 != hop);
        Self::new(others.map(|(hop, weight)| (hop.clone(), weight)))
    }
}

fn buckets<H>(members: &[Member<H>]) -> Box<[u16]> {
    if members.iter().filter(|member| member.weight > 0).count() < 2 {
        return Box::default();
    }
    let secrets = Secrets::new(0);
    let score = |bucket: usize, member: &Member<H>| {
        let hash = secrets.hash(&[bucket as u64, member.hash]);
        // Above 0 and below 1.
        let u = ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        -f64::from(member.weight) / u.ln()
    };
    let best = |bucket| {
        let scores = members.iter().map(|member| score(bucket, member));
        let best = scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(at, _)| at as u16)
    };
    (0..BUCKETS).map(best).collect()
}

impl<H> Clone for Group<H> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<H: PartialEq> PartialEq for Group<H> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.inner.members, &other.inner.members);
        let same = |(a, b): (&Member<H>, &Member<H>)| a.hop == b.hop && a.weight == b.weight;
        Arc::ptr_eq(&self.inner, &other.inner)
            || a.len() == b.len() && a.iter().zip(b.iter()).all(same)
    }
}

impl<H: Eq> Eq for Group<H> {}

impl<H: Hash> Hash for Group<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        for member in &self.inner.members {
            (member.hash, member.weight).hash(state);
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Group<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.inner.members.iter();
        f.debug_map()
            .entries(members.map(|member| (&member.hop, member.weight)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows() -> impl Iterator<Item = u64> {
        let secrets = Secrets::new(3);
        (0..20_000u64).map(move |n| secrets.hash(&[n]))
    }

    fn share(group: &Group<u32>, hop: u32) -> f64 {
        flows().filter(|f| group.member(*f) == Some(&hop)).count() as f64 / 20_000.0
    }

    /// The share of flows that another group treats otherwise. Each is checked.
    fn moved(from: &Group<u32>, to: &Group<u32>, right: impl Fn(u32, u32) -> bool) -> f64 {
        let moved = flows().filter(|flow| {
            let (a, b) = (*from.member(*flow).unwrap(), *to.member(*flow).unwrap());
            assert!(a == b || right(a, b), "a flow went from {a} to {b}");
            a != b
        });
        moved.count() as f64 / 20_000.0
    }

    #[test]
    fn shares_are_as_the_weights() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let group = Group::new([(1, 1), (2, 2), (3, 5), (4, 0), (5, 8)]);
        for (hop, weight) in group.members() {
            let expected = f64::from(weight) / 16.0;
            let is = share(&group, *hop);
            assert!((is - expected).abs() < 0.04, "{hop}: {is} for {expected}");
        }
        assert_eq!(share(&group, 4), 0.0);
    }

    #[test]
    fn only_flows_that_must_move_do() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let group = Group::new((0..10).map(|hop| (hop, 10)));
        // One leaves: a tenth of the flows moves, all of them its own, to all others.
        let left = group.without(&3);
        let share = moved(&group, &left, |from, _| from == 3);
        assert!((0.07..0.13).contains(&share), "{share}");
        for hop in (0..10).filter(|hop| *hop != 3) {
            assert!(self::share(&left, hop) > self::share(&group, hop));
        }
        // It comes back: everything is as it was.
        assert_eq!(left.with(3, 10), group);
        assert_eq!(moved(&left.with(3, 10), &group, |_, _| false), 0.0);
        // A new one takes its share from all, and no other flow moves.
        let share = moved(&group, &group.with(77, 10), |_, to| to == 77);
        assert!((0.06..0.12).contains(&share), "{share}");
        // Half of the weight: half of its flows move, away from it.
        let share = moved(&group, &group.with(5, 5), |from, _| from == 5);
        assert!((0.02..0.09).contains(&share), "{share}");
        let share = moved(&group, &group.with(5, 20), |_, to| to == 5);
        assert!((0.05..0.13).contains(&share), "{share}");
    }

    #[test]
    fn equal_groups() {
        let hash = |group: &Group<u32>| foldhash::fast::FixedState::default().hash_one(group);
        let a = Group::new([(1, 2), (2, 3), (1, 1)]);
        let b = Group::new([(2, 3), (1, 3)]);
        assert_eq!((&a, hash(&a)), (&b, hash(&b)));
        assert_eq!((a.weight(&1), a.weight(&7)), (Some(3), None));
        assert_ne!(a, a.with(1, 4));
        assert_ne!(a, a.without(&1));
        let none = Group::<u32>::new([]);
        assert_eq!(
            (none.member(5), Group::new([(1, 0)]).member(5)),
            (None, None)
        );
        assert_eq!(Group::single(4).member(u64::MAX), Some(&4));
        assert_eq!(Group::new([(1, 0), (2, 9)]).member(0), Some(&2));
    }
}
