//! Sets of addresses compared with sets of single addresses, at both ends of each family.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{IpSet, Ipv4Set, Ipv6Set, SetError, V4, V6, supernet};

use crate::support::lpm::steps;

/// Places of addresses: 0 to 63 are the first ones, 64 to 127 the last ones, and 128 is one
/// between.
const PLACES: u32 = 129;

/// The address of a place.
fn addr(v4: bool, place: u32) -> IpAddr {
    let near = |place: u32| {
        if place < 64 {
            place
        } else {
            place.wrapping_sub(128)
        }
    };
    match (v4, place) {
        (true, 128) => IpAddr::V4((1 << 31).into()),
        (true, place) => IpAddr::V4(near(place).into()),
        (false, 128) => IpAddr::V6((1 << 127).into()),
        (false, place) => {
            IpAddr::V6(u128::from_ne_bytes(i128::from(near(place) as i32).to_ne_bytes()).into())
        }
    }
}

/// A range in one of the ends, or over all between them.
fn range(rng: &mut fastrand::Rng) -> (u32, u32) {
    let first = rng.u32(0..128);
    let last = match rng.u8(0..8) {
        0 => rng.u32(first..128),
        _ => (first + rng.u32(0..9)).min(if first < 64 { 63 } else { 127 }),
    };
    (first, last)
}

fn places(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let between = (first < 64 && last >= 64).then_some(128);
    (first..=last).chain(between)
}

type Oracle = BTreeSet<(bool, u32)>;

fn agree(set: &IpSet, oracle: &Oracle) {
    for v4 in [true, false] {
        for place in 0..PLACES {
            let inside = oracle.contains(&(v4, place));
            assert_eq!(set.contains(addr(v4, place)), inside, "{v4} {place}\n{set}");
        }
    }
    let ranges: Vec<_> = set.ranges().collect();
    for pair in ranges.windows(2) {
        let (last, first) = (pair[0].1, pair[1].0);
        let gap = match (last, first) {
            (IpAddr::V4(a), IpAddr::V4(b)) => i128::from(u32::from(b)) - i128::from(u32::from(a)),
            (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(b) - u128::from(a)).min(9) as i128,
            _ => 9,
        };
        assert!(gap > 1, "{last} {first} touch");
    }
    let nets: Vec<IpNet> = set.prefixes().collect();
    for pair in nets.windows(2) {
        let siblings = pair[0].prefix_len() == pair[1].prefix_len()
            && pair[0].prefix_len() > 0
            && pair[0].supernet() == pair[1].supernet();
        assert!(pair[0] < pair[1] && !siblings, "{pair:?} could be one");
    }
    assert!(
        nets.iter()
            .all(|net| set.covers(*net) && *net == net.trunc())
    );
    assert_eq!(&nets.into_iter().collect::<IpSet>(), set);
    assert_eq!(&set.to_string().parse::<IpSet>().unwrap(), set);
    assert_eq!(set.is_empty(), oracle.is_empty());
}

fn random(rng: &mut fastrand::Rng, steps: usize) -> (IpSet, Oracle) {
    let (mut set, mut oracle) = (IpSet::new(), Oracle::new());
    for _ in 0..steps {
        let v4 = rng.bool();
        let (first, last) = range(rng);
        let (from, to) = (addr(v4, first), addr(v4, last));
        let at = places(first, last).map(|place| (v4, place));
        if rng.u8(0..3) > 0 {
            set.insert_range(from, to).unwrap();
            oracle.extend(at);
        } else {
            set.remove_range(from, to).unwrap();
            at.for_each(|at| {
                oracle.remove(&at);
            });
        }
        if rng.u8(0..4) == 0 {
            let net = IpNet::new(from, if v4 { 32 } else { 128 } - rng.u8(0..5)).unwrap();
            let inside: Vec<_> = (0..PLACES)
                .filter(|place| net.contains(&addr(v4, *place)))
                .map(|place| (v4, place))
                .collect();
            assert_eq!(set.covers(net), inside.iter().all(|at| oracle.contains(at)));
            assert_eq!(
                set.overlaps(net),
                inside.iter().any(|at| oracle.contains(at))
            );
            if rng.bool() {
                set.insert(net);
                oracle.extend(inside);
            } else {
                set.remove(net);
                inside.iter().for_each(|at| {
                    oracle.remove(at);
                });
            }
        }
    }
    (set, oracle)
}

#[test]
fn sets_are_those_of_the_oracle() {
    let mut rng = fastrand::Rng::with_seed(1);
    for round in 0..steps(300) {
        let (a, of_a) = random(&mut rng, round % 12);
        let (b, of_b) = random(&mut rng, round % 7);
        agree(&a, &of_a);
        agree(&(&a | &b), &(&of_a | &of_b));
        agree(&(&a & &b), &(&of_a & &of_b));
        agree(&(&a - &b), &(&of_a - &of_b));
        agree(&(&a ^ &b), &(&of_a ^ &of_b));
        let all = [true, false].map(|v4| (0..PLACES).map(move |place| (v4, place)));
        let all: Oracle = all.into_iter().flatten().collect();
        agree(&!&a, &(&all - &of_a));
        assert_eq!(!&!&a, a);
        assert_eq!(a.is_disjoint(&b), of_a.is_disjoint(&of_b));
        assert!((&a & &b).is_subset(&a));
        assert_eq!(a.is_subset(&b), (&a - &b).is_empty());
        let both: IpSet = a.prefixes().chain(b.prefixes()).collect();
        assert_eq!(both, &a | &b);
    }
}

#[test]
fn ends_and_sizes() {
    assert_eq!(!&IpSet::new(), IpSet::all());
    assert_eq!(IpSet::all().to_string(), "0.0.0.0/0\n::/0\n");
    assert_eq!(Ipv4Set::all().addresses(), 1 << 32);
    assert_eq!(Ipv6Set::all().addresses(), u128::MAX);
    assert!(Ipv6Set::all().covers("::/0".parse().unwrap()));
    assert_eq!((!&Ipv6Set::all()).supernet(), None);
    let host: Ipv6Net = "::1/128".parse().unwrap();
    let mut set = Ipv6Set::all();
    set.remove(host);
    assert_eq!(set.addresses(), u128::MAX);
    assert_eq!(set.prefixes().count(), 128);
    assert_eq!(set.ranges().len(), 2);
    set.insert(host);
    assert_eq!(set, Ipv6Set::all());
    // A range whose end is before its start is empty.
    let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let mut set = Ipv4Set::from_ranges([b..=a]);
    set.insert_range(b..=a);
    assert!(set.is_empty());
    set.insert_range(a..=b);
    set.remove_range(b..=a);
    assert_eq!(format!("{set:?}"), "{10.0.0.1/32, 10.0.0.2/32}");
    // Host bits are taken as zeros.
    let odd: Ipv4Net = "10.1.2.3/8".parse().unwrap();
    assert_eq!(Ipv4Set::from_iter([odd]), Ipv4Set::from_iter([odd.trunc()]));
    assert_eq!(supernet::<V4>([odd]), Some(odd.trunc()));
}

#[test]
fn the_longest_common_supernet() {
    let of = |nets: &[&str]| {
        let nets = nets.iter().map(|net| net.parse().unwrap());
        supernet::<V6>(nets).map(|net| net.to_string())
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&["2001:db8::/32"]).unwrap(), "2001:db8::/32");
    assert_eq!(
        of(&["2001:db8::/32", "2001:db8:1::/48"]).unwrap(),
        "2001:db8::/32"
    );
    assert_eq!(
        of(&["2001:db8::/33", "2001:db8:8000::/33"]).unwrap(),
        "2001:db8::/32"
    );
    assert_eq!(of(&["::/128", "ffff::/16"]).unwrap(), "::/0");
    assert_eq!(of(&["::1/128", "::1/128"]).unwrap(), "::1/128");
    let mut rng = fastrand::Rng::with_seed(2);
    for _ in 0..steps(400) {
        let nets: Vec<Ipv4Net> = (0..rng.usize(1..4))
            .map(|_| {
                Ipv4Net::new((rng.u32(..) & 0x0700_00ff).into(), rng.u8(0..33))
                    .unwrap()
                    .trunc()
            })
            .collect();
        // The longest of all that cover them, by trying.
        let tried = (0..=32)
            .rev()
            .map(|len| Ipv4Net::new(nets[0].addr(), len).unwrap().trunc());
        let expected = tried
            .into_iter()
            .find(|all| nets.iter().all(|net| all.contains(net)));
        assert_eq!(supernet::<V4>(nets.iter().copied()), expected, "{nets:?}");
        let set: Ipv4Set = nets.iter().copied().collect();
        assert_eq!(set.supernet(), expected, "{nets:?}");
    }
}

#[test]
fn texts_that_are_no_sets_say_where() {
    for (text, wrong) in [
        (
            "10.0.0.0/8\nhost",
            "line 2: \"host\" is not a prefix, an address or a range",
        ),
        (
            "10.0.0.1/8",
            "line 1: 10.0.0.1/8 has bits set after its length; 10.0.0.0/8 may be meant",
        ),
        ("\n\n10.0.0.0/33", "line 3: \"10.0.0.0/33\" is not a prefix"),
        ("10.0.0.9-10.0.0.1", "line 1: 10.0.0.1 is before 10.0.0.9"),
        (
            "10.0.0.9 - ::1 # both",
            "line 1: 10.0.0.9 and ::1 are of different families",
        ),
        ("10.0.0.9-", "line 1: \"\" is not an address"),
    ] {
        assert_eq!(text.parse::<IpSet>().unwrap_err().to_string(), wrong);
    }
    let mut set: IpSet = " # nothing\n::1 - ::2\r\n192.0.2.1 # one\n"
        .parse()
        .unwrap();
    assert_eq!(set.to_string(), "192.0.2.1/32\n::1/128\n::2/128\n");
    let (a, b) = ("::9".parse().unwrap(), "::8".parse().unwrap());
    let wrong = set.remove_range(a, b).unwrap_err();
    assert_eq!(wrong, SetError::Backwards { first: a, last: b });
}
