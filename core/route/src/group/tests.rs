//! Tests of groups.

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
    assert!(worst_error(&group) < 0.01, "{}", worst_error(&group));
    assert_eq!(share(&group, 4), 0.0);
}

/// The number of buckets of each member.
fn counts(group: &Group<u32>) -> Vec<u32> {
    let mut counts = alloc::vec![0; group.members().len()];
    for bucket in 0..rendezvous::BUCKETS as u32 {
        counts[group.position(bucket).unwrap()] += 1;
    }
    counts
}

/// The most by which a member's buckets differ from those of its weight, divided by these.
fn worst_error(group: &Group<u32>) -> f64 {
    let total: f64 = group.members().map(|(_, weight)| f64::from(weight)).sum();
    let all = counts(group).into_iter().zip(group.members());
    let errors = all
        .filter(|(_, (_, weight))| *weight > 0)
        .map(|(is, (_, weight))| {
            let right = rendezvous::BUCKETS as f64 * f64::from(weight) / total;
            (f64::from(is) / right - 1.0).abs()
        });
    errors.fold(0.0, f64::max)
}

#[test]
fn equal_members_have_equal_shares() {
    if cfg!(miri) {
        return; // Minutes, and nothing here is unsafe.
    }
    for (members, groups, most) in [(2, 6, 0.005), (4, 4, 0.005), (10, 2, 0.01), (64, 1, 0.025)]
        .into_iter()
        .chain([(256, 3, 0.05), (1000, 1, 0.12)])
    {
        for first in (0..groups).map(|group| group * 100_000) {
            let group = Group::new((first..first + members).map(|hop| (hop, 7)));
            let worst = worst_error(&group);
            assert!(worst < most, "{members} members: {worst}");
        }
    }
}

#[test]
fn a_light_member_has_its_share() {
    if cfg!(miri) {
        return; // Minutes, and nothing here is unsafe.
    }
    for (heavy, most) in [(10, 0.02), (100, 0.05), (1000, 0.15)] {
        for first in (0..5).map(|group| group * 1000) {
            let group = Group::new([(first, 1), (first + 1, heavy)]);
            let worst = worst_error(&group);
            assert!(worst < most, "{heavy} to 1: {worst}");
        }
    }
    // Also in a group whose buckets are in a table.
    let group = Group::new((0..100).map(|hop| (hop, if hop < 50 { 1 } else { 10 })));
    let worst = worst_error(&group);
    assert!(worst < 0.1, "{worst}");
}

#[test]
fn every_member_has_a_bucket() {
    if cfg!(miri) {
        return; // Minutes, and nothing here is unsafe.
    }
    let lightest = [(1, 1), (2, u32::MAX), (3, u32::MAX), (4, 0)];
    let counts_of = |group: &Group<u32>| {
        let all = counts(group).into_iter().zip(group.members());
        all.for_each(|(is, (hop, weight))| assert_eq!(is > 0, weight > 0, "{hop}"));
    };
    counts_of(&Group::new(lightest));
    let others = (10..300).map(|hop| (hop, hop * hop * hop));
    counts_of(&Group::new(lightest.into_iter().chain(others)));
    counts_of(&Group::new((0..1 << 16).map(|hop| (hop, 1))));
}

/// Groups that choose in another way than before: by ranks, by bytes, by words.
#[test]
fn only_flows_that_must_move_do_in_groups_of_all_sizes() {
    if cfg!(miri) {
        return; // Minutes, and nothing here is unsafe.
    }
    for (members, weight) in [(2, 1), (5, 3), (64, 1), (65, 2), (257, 9)] {
        let light = |hop| if hop == 1 { 1 } else { weight };
        let group = Group::new((0..members).map(|hop| (hop, light(hop))));
        for left in [group.without(&0), group.with(0, 0)] {
            let mut there = left.members().map(|(hop, _)| *hop);
            let all: Vec<_> = group.members().map(|(hop, _)| *hop).collect();
            let places = [
                all.iter().position(|hop| *hop == 0),
                there.position(|hop| hop == 0),
            ];
            for bucket in (0..rendezvous::BUCKETS as u32).step_by(101) {
                let (before, after) = (group.position(bucket), left.position(bucket));
                if before != places[0] {
                    // The others move up where it is gone.
                    let gone = usize::from(places[1].is_none() && before > places[0]);
                    assert_eq!(after, before.map(|at| at - gone), "{members}");
                }
            }
        }
        assert_eq!(group.without(&0).with(0, light(0)), group);
    }
}

#[test]
fn null_routes() {
    let null = Group::<u32>::null(NullRoute::Prohibit);
    assert_eq!(null.null_route(), Some(NullRoute::Prohibit));
    assert_eq!((null.member(7), null.members().len()), (None, 0));
    assert_eq!(null.member_where(7, |_| true), None);
    assert_eq!(null.decide(7), Decision::Null(NullRoute::Prohibit));
    assert_eq!(null.without(&1), null);
    assert_eq!(null.with(1, 2), Group::new([(1, 2)]));
    assert_ne!(null, Group::null(NullRoute::Blackhole));
    assert_ne!(null, Group::new([]));
    assert!(!null.is_void() && Group::new([(1, 0)]).is_void());
    assert_eq!(Group::new([(1, 0)]).decide(7), Decision::Void);
    assert_eq!(Group::single(1).decide(7), Decision::Hop(&1));
    let goes_on = |group: &Group<u32>| group.decide(7).goes_on();
    assert!(goes_on(&Group::null(NullRoute::Throw)) && !goes_on(&null));
    assert_eq!(format!("{null:?}"), "Group(Prohibit)");
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
    "eth2", "eth2", "eth0", "eth1", "eth2", "eth2", "eth2", "eth1",
];
const GOLDEN_WITHOUT: [&str; 8] = [
    "eth1", "eth1", "eth0", "eth1", "eth1", "eth1", "eth0", "eth1",
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
        for down in [&|_| false, &|hop| hop == 1, &|hop| hop % 5 == 2] as [&dyn Fn(u32) -> bool; 3]
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
    let seen: std::collections::HashSet<_> = flows().map(|f| *many.member(f).unwrap()).collect();
    assert!(seen.len() == 300, "{}", seen.len());
    let few = (296..300).fold(many.clone(), |group, hop| group.without(&hop));
    moved(&many, &few, |from, to| from >= 296 && to < 296);
    assert_eq!(few, Group::new((0..296).map(|hop| (hop, 1))));
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
