//! Next hops that share the flows of a route by their weights.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::hash::{StableHasher, scaled, spread};
use super::rendezvous;

/// The most members of a group.
pub(super) const MEMBERS_MAX: usize = 1 << 16;

/// Members that are compared one by one.
const FEW: usize = 32;

/// A group of weighted next hops, of which each flow takes one.
///
/// A flow's number selects one of 2,048 buckets, and each bucket has one member. Weighted
/// rendezvous hashing assigns the buckets (Thaler and Ravishankar 1998; the weights as in
/// Schindelhauer and Schomaker 2005): a bucket gets the member whose `-ln(u) / weight` is least,
/// `u` being a hash of bucket and member. So when a member leaves, only its flows move. When a
/// member joins or gets more weight, only the flows that it takes move. Groups with the same
/// members and weights are equal, whatever their history, when no two members have the same hash of
/// 64 bits (test `members_of_one_hash`). The method has integers only, so the answers are the same
/// on every machine (test `golden`) for next hops that hash the same there, as numbers and strings
/// do.
///
/// A member's share of the buckets is that of its weight, with the deviation of 2,048 random draws:
/// with two equal members a standard deviation of 1.1 percent of all flows.
///
/// Cheap to clone.
///
/// ```
/// use sapwood::route::Group;
///
/// let group = Group::new([("a", 2), ("b", 1), ("c", 1)]);
/// let without = group.without(&"b");
/// for flow in 0..10_000 {
///     let member = group.member(flow).unwrap();
///     assert!(*member == "b" || without.member(flow) == Some(member));
/// }
/// ```
pub struct Group<H> {
    /// In the order of their hashes, so that equal groups are the same.
    members: Arc<[Member<H>]>,
    /// Positions in `members`: one for each bucket, a single one if one member has all flows, none
    /// if no member has a weight. A position takes a byte, or two in groups of more than 256
    /// members.
    buckets: Arc<[u8]>,
    wide: bool,
}

struct Member<H> {
    hop: H,
    weight: u32,
    hash: u64,
}

impl<H: Clone + Eq + Hash> Group<H> {
    /// A group of members with their weights. The weights of equal members are added, up to
    /// `u32::MAX`. A member of weight 0 gets no flow.
    ///
    /// O(members), with 2,048 draws for each if there are two or more.
    ///
    /// # Panics
    ///
    /// With more than 65,536 members.
    pub fn new(members: impl IntoIterator<Item = (H, u32)>) -> Self {
        let mut all: Vec<Member<H>> = Vec::new();
        // Where members are, when there are too many to look at each.
        let mut places = crate::HashMap::default();
        for (hop, weight) in members {
            let known = match all.len() < FEW {
                true => all.iter().position(|member| member.hop == hop),
                false => {
                    for (place, member) in all.iter().enumerate().skip(places.len()) {
                        places.insert(member.hop.clone(), place);
                    }
                    places.get(&hop).copied()
                }
            };
            match known.map(|place| &mut all[place]) {
                Some(member) => member.weight = member.weight.saturating_add(weight),
                None => {
                    let hash = StableHasher::hash_one(&hop);
                    all.push(Member { hop, weight, hash });
                }
            }
        }
        assert!(all.len() <= MEMBERS_MAX, "too many members");
        all.sort_by_key(|member| member.hash);
        let scores: Vec<_> = all
            .iter()
            .map(|member| (member.hash, member.weight))
            .collect();
        let buckets = rendezvous::buckets(&scores).into_iter();
        let wide = all.len() > 256;
        Self {
            members: all.into(),
            buckets: match wide {
                false => buckets.map(|at| at as u8).collect(),
                true => buckets.flat_map(u16::to_ne_bytes).collect(),
            },
            wide,
        }
    }

    /// A group of one member.
    ///
    /// O(1).
    pub fn single(hop: H) -> Self {
        Self::new([(hop, 1)])
    }

    /// The member for a flow; `None` if no member has any weight. Any number that is the same for
    /// all packets of a flow will do, also a counter, as this mixes it.
    ///
    /// O(1): one bucket and one member are read.
    #[inline(always)]
    pub fn member(&self, flow: u64) -> Option<&H> {
        let (flow, all) = (spread(flow), &*self.buckets);
        let at = match self.wide {
            false => usize::from(*all.get(scaled(flow, all.len()))?),
            true => {
                let place = 2 * scaled(flow, all.len() / 2);
                let bucket = all.get(place..place + 2)?;
                usize::from(u16::from_ne_bytes([bucket[0], bucket[1]]))
            }
        };
        self.members.get(at).map(|member| &member.hop)
    }

    /// The member for a flow among the members that are `usable`, for members that are down for a
    /// while. The answer is that of the group without the others: only their flows move, and the
    /// same flows return when they are usable again. `None` if no usable member has any weight.
    ///
    /// Cost: as [`member`](Self::member) if that member is usable, else O(members).
    ///
    /// ```
    /// use sapwood::route::Group;
    ///
    /// let group = Group::new([("a", 2), ("b", 1), ("c", 1)]);
    /// let backup = Group::single("d");
    /// let up = |member: &&str| *member != "b";
    /// let member = group.member_where(7, up).or_else(|| backup.member_where(7, up));
    /// assert_eq!(member, group.without(&"b").member(7));
    /// ```
    pub fn member_where(&self, flow: u64, mut usable: impl FnMut(&H) -> bool) -> Option<&H> {
        let first = self.member(flow)?;
        if usable(first) {
            return Some(first);
        }
        let bucket = scaled(spread(flow), rendezvous::BUCKETS) as u64;
        let members = self.members.iter().enumerate();
        let scores = members.map(|(at, member)| (at, member.hash, member.weight));
        let at = rendezvous::best(
            scores.filter(|(at, ..)| usable(&self.members[*at].hop)),
            bucket,
        )?;
        Some(&self.members[at].hop)
    }

    /// The members' hashes, in the order of [`members`](Self::members). With them, programs and
    /// other languages choose as this group does (`sapwood/group.bpf.h` of `sapwood-bpf`).
    ///
    /// O(1); each step is O(1).
    pub fn member_hashes(&self) -> impl Iterator<Item = u64> {
        self.members.iter().map(|member| member.hash)
    }

    /// The members with their weights.
    ///
    /// O(1); each step is O(1).
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&H, u32)> {
        let members = self.members.iter();
        members.map(|member| (&member.hop, member.weight))
    }

    /// The weight of a member.
    ///
    /// O(members).
    pub fn weight(&self, hop: &H) -> Option<u32> {
        self.members().find(|member| member.0 == hop).map(|m| m.1)
    }

    /// The group with another weight for a member, which may be new.
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with(&self, hop: H, weight: u32) -> Self {
        let others = self.members().filter(|member| *member.0 != hop);
        let others: Vec<_> = others.map(|(hop, weight)| (hop.clone(), weight)).collect();
        Self::new(others.into_iter().chain([(hop, weight)]))
    }

    /// The group without a member.
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn without(&self, hop: &H) -> Self {
        let others = self.members().filter(|member| member.0 != hop);
        Self::new(others.map(|(hop, weight)| (hop.clone(), weight)))
    }
}

impl<H> Group<H> {
    /// The positions of the members that buckets have: a byte each, or two in groups of more than
    /// 256 members.
    pub(super) fn bucket_bytes(&self) -> &[u8] {
        &self.buckets
    }

    /// Bytes of the group, including those that it shares with its copies.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.members) + size_of_val(&*self.buckets) + 32 + size_of::<Self>()
    }
}

impl<H> Clone for Group<H> {
    fn clone(&self) -> Self {
        Self {
            members: Arc::clone(&self.members),
            buckets: Arc::clone(&self.buckets),
            wide: self.wide,
        }
    }
}

impl<H: PartialEq> PartialEq for Group<H> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.members, &other.members);
        let same = |(a, b): (&Member<H>, &Member<H>)| a.hop == b.hop && a.weight == b.weight;
        Arc::ptr_eq(a, b) || a.len() == b.len() && a.iter().zip(b.iter()).all(same)
    }
}

impl<H: Eq> Eq for Group<H> {}

impl<H: Hash> Hash for Group<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        for member in self.members.iter() {
            (member.hash, member.weight).hash(state);
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Group<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.iter();
        f.debug_map()
            .entries(members.map(|member| (&member.hop, member.weight)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows as an application may number them.
    fn flows() -> impl Iterator<Item = u64> {
        0..20_000
    }

    fn share(group: &Group<u32>, hop: u32) -> f64 {
        flows().filter(|f| group.member(*f) == Some(&hop)).count() as f64 / 20_000.0
    }

    /// The share of flows that get another member in another group. `right` checks each of them.
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
            let deviation = (expected * (1.0 - expected) / 2048.0).sqrt();
            assert!(
                (is - expected).abs() <= 3.0 * deviation,
                "{hop}: {is} for {expected}"
            );
        }
        assert_eq!(share(&group, 4), 0.0);
    }

    /// The answers that other machines and other languages must give: see `rendezvous`.
    #[test]
    fn golden() {
        let group = Group::new([("eth0", 1), ("eth1", 2), ("eth2", 5)]);
        let members: Vec<_> = (0..8).map(|flow| *group.member(flow).unwrap()).collect();
        assert_eq!(members, GOLDEN);
        let without = |flow| *group.member_where(flow, |hop| *hop != "eth2").unwrap();
        assert_eq!((0..8).map(without).collect::<Vec<_>>(), GOLDEN_WITHOUT);
    }
    const GOLDEN: [&str; 8] = [
        "eth2", "eth0", "eth1", "eth2", "eth1", "eth2", "eth1", "eth2",
    ];
    const GOLDEN_WITHOUT: [&str; 8] = [
        "eth1", "eth0", "eth1", "eth1", "eth1", "eth1", "eth1", "eth1",
    ];

    #[test]
    fn only_flows_that_must_move_do() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let group = Group::new((0..10).map(|hop| (hop, 10)));
        // A member leaves: a tenth of the flows move, all of them its own, to all others.
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

    /// Next hops that cannot be told apart by their hash.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Blunt(u32);

    impl Hash for Blunt {
        fn hash<S: Hasher>(&self, _: &mut S) {}
    }

    #[test]
    fn members_of_one_hash() {
        let group = Group::new((0..5).map(|i| (Blunt(i), i + 1)));
        // Draws are equal, so the member with the most weight is first in each bucket.
        assert!(flows().all(|flow| group.member(flow) == Some(&Blunt(4))));
        let without = group.without(&Blunt(1));
        assert!(flows().all(|flow| without.member(flow) == Some(&Blunt(4))));
        assert_eq!(group.without(&Blunt(4)).member(7), Some(&Blunt(3)));
        assert_eq!(group.members().map(|(_, weight)| weight).sum::<u32>(), 15);
        // Their order is that in which they came, so equal members do not make equal groups.
        assert_ne!(without.with(Blunt(1), 2), group);
    }

    #[test]
    fn weights_are_added_up_to_the_largest() {
        let most = Group::new([(1, u32::MAX), (2, u32::MAX), (1, 7)]);
        assert_eq!(most.weight(&1), Some(u32::MAX));
        let share = share(&most, 1);
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn members_that_are_down() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        for members in [1, 2, 3, 8, 300] {
            let group = Group::new((0..members).map(|hop| (hop, hop % 4)));
            // No member is down, one, or every fifth.
            for down in
                [&|_| false, &|hop| hop == 1, &|hop| hop % 5 == 2] as [&dyn Fn(u32) -> bool; 3]
            {
                let oracle = Group::new(
                    group
                        .members()
                        .map(|(hop, weight)| (*hop, weight))
                        .filter(|(hop, _)| !down(*hop)),
                );
                for flow in flows().take(5_000) {
                    let member = group.member_where(flow, |hop| !down(*hop));
                    assert_eq!(member, oracle.member(flow), "flow {flow} of {members}");
                }
            }
            assert_eq!(group.member_where(1, |_| false), None);
        }
    }

    /// More members than a byte can number.
    #[test]
    fn many_members() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let many = Group::new((0..300).map(|hop| (hop, 1)));
        let seen: std::collections::HashSet<_> =
            flows().map(|f| *many.member(f).unwrap()).collect();
        assert!(seen.len() > 290, "{}", seen.len());
        let few = (256..300).fold(many.clone(), |group, hop| group.without(&hop));
        moved(&many, &few, |from, to| from >= 256 && to < 256);
        assert_eq!(few, Group::new((0..256).map(|hop| (hop, 1))));
    }

    #[test]
    fn equal_groups() {
        let hash = |group: &Group<u32>| StableHasher::hash_one(group);
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
