//! Next hops that share the flows of a route by their weights.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::decision::Decision;
use super::hash::{StableHasher, spread};
use super::rendezvous;
use sapwood_lpm::NullRoute;

/// The most members of a group.
pub(super) const MEMBERS_MAX: usize = 1 << 16;

/// Members that are compared one by one.
const FEW: usize = 32;

/// A group of weighted next hops, of which each flow takes one; or a null route, which has none.
///
/// A flow's number selects one of 2^20 buckets, and each bucket has one member. Weighted rendezvous
/// hashing assigns the buckets (Thaler and Ravishankar 1998; the weights as in Schindelhauer and
/// Schomaker 2005): a bucket gets the member whose `-ln(1 - u) / weight` is least, `u` being the
/// member's rank in the bucket. A member has each rank once, in an order that its hash chooses. So
/// when a member leaves, only its flows move. When a member joins or gets more weight, only the
/// flows that it takes move. Groups with the same members and weights are equal, whatever their
/// history, when no two members have the same hash of 64 bits (test `members_of_one_hash`). The
/// method has integers only, so the answers are the same on every machine (test `golden`) for next
/// hops that hash the same there, as numbers and strings do.
///
/// A member's share of the buckets is that of its weight, within 1 percent for groups of ten equal
/// members, and within 5 percent for 256 or for weights of 100 to 1 (tests
/// `equal_members_have_equal_shares`, `a_light_member_has_its_share`). Every member with a weight
/// has at least one bucket, up to 65,536 members (test `every_member_has_a_bucket`).
///
/// A group of up to 64 members keeps no buckets: it computes a flow's member. A larger one takes a
/// mebibyte for its buckets, or two with more than 256 members.
///
/// Cheap to clone.
///
/// ```
/// use sapwood::route::{Group, NullRoute};
///
/// let group = Group::new([("a", 2), ("b", 1), ("c", 1)]);
/// let without = group.without(&"b");
/// for flow in 0..10_000 {
///     let member = group.member(flow).unwrap();
///     assert!(*member == "b" || without.member(flow) == Some(member));
/// }
/// let dropped = Group::<&str>::null(NullRoute::Blackhole);
/// assert_eq!(dropped.decide(7), sapwood::route::Decision::Null(NullRoute::Blackhole));
/// ```
pub struct Group<H> {
    body: Arc<Body<H>>,
}

struct Body<H> {
    null: Option<NullRoute>,
    /// In the order of their hashes, so that equal groups are the same.
    members: Vec<Member<H>>,
    choice: Choice,
}

struct Member<H> {
    hop: H,
    weight: u32,
    hash: u64,
}

/// How a flow's member is found.
pub(super) enum Choice {
    /// No member has a weight.
    Nobody,
    /// Only the member at this position has one.
    Only(usize),
    /// All members have the same weight. There are few.
    Even,
    /// There are few members.
    Few,
    /// The position of the member for each bucket: in a byte, or in two.
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl Choice {
    fn of<H>(members: &[Member<H>]) -> Self {
        let mut weighted = (0..members.len()).filter(|at| members[*at].weight > 0);
        let Some(first) = weighted.next() else {
            return Choice::Nobody;
        };
        if weighted.next().is_none() {
            return Choice::Only(first);
        }
        if members.len() <= rendezvous::FEW {
            let even = members.iter().all(|m| m.weight == members[0].weight);
            return if even { Choice::Even } else { Choice::Few };
        }
        let scores: Vec<_> = members.iter().map(|m| (m.hash, m.weight)).collect();
        let buckets = rendezvous::buckets(&scores);
        match members.len() <= 256 {
            true => Choice::Narrow(buckets.into_iter().map(|at| at as u8).collect()),
            false => Choice::Wide(buckets),
        }
    }
}

impl<H: Clone + Eq + Hash> Group<H> {
    /// A group of members with their weights. The weights of equal members are added, up to
    /// `u32::MAX`. A member of weight 0 gets no flow.
    ///
    /// O(members) up to 64 members. With more, the buckets are dealt out: some ten million steps,
    /// tens of milliseconds.
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
        Self::of(None, all)
    }

    /// A group of one member.
    ///
    /// O(1).
    pub fn single(hop: H) -> Self {
        Self::new([(hop, 1)])
    }

    /// The group with another weight for a member, which may be new. A null route becomes a group
    /// of this member.
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with(&self, hop: H, weight: u32) -> Self {
        let others = self.members().filter(|member| *member.0 != hop);
        let others: Vec<_> = others.map(|(hop, weight)| (hop.clone(), weight)).collect();
        Self::new(others.into_iter().chain([(hop, weight)]))
    }

    /// The group without a member. A null route stays what it is.
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn without(&self, hop: &H) -> Self {
        if self.body.null.is_some() {
            return self.clone();
        }
        let others = self.members().filter(|member| member.0 != hop);
        Self::new(others.map(|(hop, weight)| (hop.clone(), weight)))
    }
}

impl<H: Eq> Group<H> {
    /// The weight of a member.
    ///
    /// O(members).
    pub fn weight(&self, hop: &H) -> Option<u32> {
        self.members().find(|member| member.0 == hop).map(|m| m.1)
    }
}

impl<H> Group<H> {
    fn of(null: Option<NullRoute>, members: Vec<Member<H>>) -> Self {
        let choice = Choice::of(&members);
        let body = Body {
            null,
            members,
            choice,
        };
        Self {
            body: Arc::new(body),
        }
    }

    /// A group without members.
    pub(super) fn new_void() -> Self {
        Self::of(None, Vec::new())
    }

    /// A null route: packets go nowhere, for this reason. It has no members.
    ///
    /// O(1).
    pub fn null(kind: NullRoute) -> Self {
        Self::of(Some(kind), Vec::new())
    }

    /// Why packets go nowhere, if this is a null route.
    ///
    /// O(1).
    #[inline]
    pub fn null_route(&self) -> Option<NullRoute> {
        self.body.null
    }

    /// Whether this is neither a null route nor has any member with a weight: no packet can follow
    /// it.
    ///
    /// O(1).
    #[inline]
    pub fn is_void(&self) -> bool {
        matches!(self.body.choice, Choice::Nobody) && self.body.null.is_none()
    }

    /// The member for a flow; `None` if no member has any weight, and of a null route. Any number
    /// that is the same for all packets of a flow will do, also a counter, as this mixes it.
    ///
    /// O(members) up to 64 members: some 25 instructions for each if their weights are equal, and
    /// twice as many if not. With more members O(1): one bucket is read.
    #[inline(always)]
    pub fn member(&self, flow: u64) -> Option<&H> {
        let at = self.position(rendezvous::bucket(spread(flow)))?;
        self.body.members.get(at).map(|member| &member.hop)
    }

    /// The position of the member that has a bucket.
    #[inline(always)]
    fn position(&self, bucket: u32) -> Option<usize> {
        let body = &*self.body;
        match &body.choice {
            Choice::Even => {
                let hashes = body.members.iter().map(|member| member.hash);
                Some(rendezvous::best_of_even(hashes, bucket))
            }
            Choice::Only(at) => Some(*at),
            Choice::Nobody => None,
            Choice::Few => rendezvous::best(self.draws(), bucket),
            Choice::Narrow(all) => all.get(bucket as usize).copied().map(usize::from),
            Choice::Wide(all) => all.get(bucket as usize).copied().map(usize::from),
        }
    }

    /// What becomes of a flow's packets: the member, or why there is none.
    ///
    /// As [`member`](Self::member).
    #[inline]
    pub fn decide(&self, flow: u64) -> Decision<&H> {
        match (self.member(flow), self.body.null) {
            (Some(hop), _) => Decision::Hop(hop),
            (None, Some(kind)) => Decision::Null(kind),
            (None, None) => Decision::Void,
        }
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
        let members = &self.body.members;
        let usable = self.draws().filter(|(at, ..)| usable(&members[*at].hop));
        let at = rendezvous::best(usable, rendezvous::bucket(spread(flow)))?;
        Some(&members[at].hop)
    }

    /// What a choice needs of the members.
    #[inline]
    fn draws(&self) -> impl Iterator<Item = (usize, u64, u32)> {
        let members = self.body.members.iter().enumerate();
        members.map(|(at, member)| (at, member.hash, member.weight))
    }

    /// The members' hashes, in the order of [`members`](Self::members). With them, programs and
    /// other languages choose as this group does (`sapwood/group.bpf.h` of `sapwood-bpf`).
    ///
    /// O(1); each step is O(1).
    pub fn member_hashes(&self) -> impl Iterator<Item = u64> {
        self.body.members.iter().map(|member| member.hash)
    }

    /// The members with their weights.
    ///
    /// O(1); each step is O(1).
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&H, u32)> {
        let members = self.body.members.iter();
        members.map(|member| (&member.hop, member.weight))
    }

    pub(super) fn choice(&self) -> &Choice {
        &self.body.choice
    }

    /// Bytes of the group, including those that it shares with its copies.
    pub(super) fn bytes(&self) -> usize {
        let buckets = match &self.body.choice {
            Choice::Narrow(all) => all.len(),
            Choice::Wide(all) => 2 * all.len(),
            _ => 0,
        };
        size_of_val(&*self.body.members) + buckets + size_of::<Body<H>>() + 16 + size_of::<Self>()
    }
}

impl<H> Clone for Group<H> {
    fn clone(&self) -> Self {
        Self {
            body: Arc::clone(&self.body),
        }
    }
}

impl<H: PartialEq> PartialEq for Group<H> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.body, &other.body);
        let same = |(a, b): (&Member<H>, &Member<H>)| a.hop == b.hop && a.weight == b.weight;
        Arc::ptr_eq(a, b)
            || a.null == b.null
                && a.members.len() == b.members.len()
                && a.members.iter().zip(&b.members).all(same)
    }
}

impl<H: Eq> Eq for Group<H> {}

impl<H: Hash> Hash for Group<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        self.body.null.hash(state);
        for member in &self.body.members {
            (member.hash, member.weight).hash(state);
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Group<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.body.null {
            Some(kind) => f.debug_tuple("Group").field(&kind).finish(),
            None => f.debug_map().entries(self.members()).finish(),
        }
    }
}

#[cfg(test)]
mod tests;
