//! Maps with indices of other types than `u64`, compared with the naive oracle of `u64`; the edges
//! of each type; half-open ranges; trees of 128 bits that grow, shrink and are kept.

use std::fmt::Debug;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::support::maple::{Number, Pair, loud, loud_heap, run, transaction};
use crate::support::owned::OwnedPair;
use crate::support::spaces::{Odd, Scaled, Signed, Space};
use crate::support::steps::steps;
use sapwood::arena::ArenaOptions;
use sapwood::maple::{Error, Index, MapleMap, RangeMap, Split, Window, Word};
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

/// Whether a space can make an operation: alignments are those of the numbers in some only.
fn fits<S: Space>(op: &RangeOp) -> bool {
    match op {
        RangeOp::Alloc { align, .. } | RangeOp::FindGap { align, .. } => *align == 1 || S::ALIGNS,
        _ => true,
    }
}

fn ops<S: Space>(domain: Domain, count: usize) -> impl Iterator<Item = RangeOp> {
    let ops = RangeOps::new(domain, 5).filter(fits::<S>);
    ops.take(steps(count))
}

/// A map of numbers in nodes of this many bytes and children.
fn concurrent<S: Space>(nodes: (usize, usize)) -> MapleMap<u64, S::Key> {
    let builder = MapleMap::<u64, S::Key>::keyed().options(loud());
    builder.nodes(nodes.0, nodes.1).build()
}

/// Small nodes, and those of the usual size.
const NODES: [(usize, usize); 2] = [(192, 4), (512, 36)];

fn concurrent_as_the_model<S: Space>() {
    for domain in Domain::ALL {
        for nodes in NODES {
            let map = concurrent::<S>(nodes);
            let mut pair = Pair::<_, _, S>::in_space(map, |n| n);
            run(&mut pair, ops::<S>(domain, 1_000), 1);
        }
    }
}

#[test]
fn concurrent_maps() {
    concurrent_as_the_model::<Signed>();
    concurrent_as_the_model::<Scaled>();
    concurrent_as_the_model::<Odd>();
}

/// Values that own memory, in blocks of their own.
#[test]
fn values_apart() {
    for domain in Domain::ALL {
        let map = MapleMap::<(Box<u64>, u64), u128>::keyed().options(loud());
        let mut pair = Pair::<_, _, Odd>::in_space(map.build(), |n| (Box::new(n), n));
        run(&mut pair, ops::<Odd>(domain, 1_000), 3);
    }
}

fn owned_as_the_model<S: Space, V: Number>(make: impl Fn(u64) -> V + Copy) -> usize {
    let mut height = 0;
    for domain in Domain::ALL {
        let map = RangeMap::<V, S::Key>::keyed(loud_heap(), Split::by_clone());
        let mut pair = OwnedPair::<_, _, S>::in_space(map, make);
        for (turn, op) in ops::<S>(domain, 3_000).enumerate() {
            pair.step(turn, &op);
            pair.agree();
            height = height.max(pair.map.memory().height);
        }
    }
    height
}

#[test]
fn owned_maps() {
    assert!(owned_as_the_model::<Signed, _>(|n| n) >= 1 || steps(3_000) < 3_000);
    assert!(owned_as_the_model::<Scaled, _>(|n| n) >= 1 || steps(3_000) < 3_000);
    assert!(owned_as_the_model::<Odd, _>(|n| (Box::new(n), n)) >= 1 || steps(3_000) < 3_000);
}

#[test]
fn transactions() {
    for domain in Domain::ALL {
        let map = concurrent::<Odd>((192, 4));
        let mut pair = Pair::<_, _, Odd>::in_space(map, |n| n);
        let all: Vec<_> = ops::<Odd>(domain, 600).collect();
        for (i, group) in all.chunks(12).enumerate() {
            transaction(&mut pair, group, i % 3 > 0);
            pair.agree();
        }
    }
}

/// The first index and the last one of a type are indices as others.
fn edges<K: Index + Debug>() {
    let mut map = RangeMap::<&str, K>::keyed(ArenaOptions::default(), Split::by_clone());
    let at = |from_lowest: u64| {
        let word = K::MIN.to_word() + K::Word::from_u64(from_lowest);
        K::from_word(word)
    };
    let all = || K::MIN..=K::MAX;
    assert_eq!(map.locate(at(3)), (all(), None));
    assert!(map.gaps(..).eq([all()]));
    map.store(at(3)..=at(5), "few").unwrap();
    assert_eq!(map.locate(K::MIN), (K::MIN..=at(2), None));
    assert_eq!(map.locate(K::MAX), (at(6)..=K::MAX, None));
    assert!(map.gaps(..).eq([K::MIN..=at(2), at(6)..=K::MAX]));
    map.store(.., "all").unwrap();
    assert_eq!(map.first(), Some((all(), &"all")));
    assert_eq!(map.locate(at(9)), (all(), Some(&"all")));
    assert_eq!(map.gaps(..).next(), None);
    let parts = map.view().covered();
    let most = K::MAX.to_word() - K::MIN.to_word();
    assert_eq!(parts, most.to_u128().saturating_add(1));
    map.clear_range(at(4)..at(6)).unwrap();
    assert_eq!(
        map.find_gap(K::Word::from_u64(2), all()),
        Some(at(4)..=at(5))
    );
    assert_eq!(map.find_gap(K::Word::from_u64(3), all()), None);
    map.take_range(at(6)..).unwrap();
    map.take_range(..=at(2)).unwrap();
    assert!(map.iter().eq([(at(3)..=at(3), &"all")]));
    let last = map.find_gap(K::Word::ONE, Window::new(all()).from_end());
    assert_eq!(last, Some(K::MAX..=K::MAX));
    map.verify().unwrap();
    // The best fit counts the indices of the type, not those of its word.
    map.clear();
    let highest = |below: u64| K::from_word(K::MAX.to_word() - K::Word::from_u64(below));
    map.store(K::MIN..=at(2), "low").unwrap();
    map.store(at(20)..=highest(6), "high").unwrap();
    let size = K::Word::from_u64(4);
    let best = map.find_gap(size, Window::new(..).tightest());
    assert_eq!(best, Some(highest(5)..=highest(2)));
    map.take_range(K::MIN..=at(2)).unwrap();
    map.store(at(4)..=at(19), "low").unwrap();
    let best = map.find_gap(size, Window::new(..).tightest());
    assert_eq!(best, Some(K::MIN..=at(3)));
    // An empty range at the lowest index is told with indices of the type, in their order.
    let empty = map.clear_range(..K::MIN).unwrap_err();
    assert!(matches!(empty, Error::EmptyRange { start, end } if start > end));

    let map: MapleMap<u8, K> = MapleMap::default();
    // A new cursor is before the lowest index, which may be an entry's.
    map.store(K::MIN..=at(1), 1).unwrap();
    let mut writer = map.write();
    let mut cursor = writer.cursor();
    assert_eq!(cursor.next_range(K::MAX), Some((K::MIN..=at(1), Some(&1))));
    assert_eq!(cursor.next_range(K::MAX), Some((at(2)..=K::MAX, None)));
    assert_eq!(cursor.next_range(K::MAX), None);
    assert_eq!(cursor.prev_range(K::MIN), Some((at(2)..=K::MAX, None)));
    drop(writer);
    map.clear().unwrap();
    map.store(at(1)..=at(2), 7).unwrap();
    // A move beyond the highest index is refused.
    let refused = map.move_range(at(1)..=at(2), K::MAX).unwrap_err();
    assert!(matches!(refused, Error::WindowTooSmall { end, .. } if end == K::MAX));
    map.move_range(at(1)..=at(2), K::from_word(K::MAX.to_word().below()))
        .unwrap();
    assert_eq!((map.get(at(1)), map.get(K::MAX)), (None, Some(7)));
    assert!(
        map.gaps(..)
            .eq([K::MIN..=K::from_word(K::MAX.to_word() - K::Word::from_u64(2))])
    );
    let kept = map.snapshot();
    map.clear().unwrap();
    assert_eq!(map.locate(at(1)), (all(), None));
    assert_eq!(
        kept.view().last().map(|(range, _)| *range.end()),
        Some(K::MAX)
    );
}

trait Locate<K: Index> {
    fn locate(&self, index: K) -> (RangeInclusive<K>, Option<u8>);
}

impl<K: Index> Locate<K> for MapleMap<u8, K> {
    fn locate(&self, index: K) -> (RangeInclusive<K>, Option<u8>) {
        self.read(|view| {
            let (range, value) = view.locate(index);
            (range, value.copied())
        })
    }
}

#[test]
fn the_edges_of_each_type() {
    edges::<u8>();
    edges::<u16>();
    edges::<u32>();
    edges::<u64>();
    edges::<usize>();
    edges::<u128>();
    edges::<i8>();
    edges::<i16>();
    edges::<i32>();
    edges::<i64>();
    edges::<i128>();
    edges::<Ipv4Addr>();
    edges::<Ipv6Addr>();
}

#[test]
fn numbers_with_a_sign_keep_their_order() {
    let mut map: RangeMap<char, i32> = RangeMap::default();
    map.extend([(-20..=-10, 'a'), (-1..=1, 'b'), (5..=i32::MAX, 'c')]);
    let starts: Vec<_> = map.iter().map(|(range, _)| *range.start()).collect();
    assert_eq!(starts, [-20, -1, 5]);
    assert_eq!(map.find_gap(8, -20..=100), Some(-9..=-2));
    assert_eq!(map.remove(0).unwrap(), Some((-1..=1, 'b')));
}

#[test]
fn half_open_ranges() {
    let mut map = RangeMap::new();
    map.store(10..20, 'a').unwrap();
    map.store(30.., 'b').unwrap();
    assert!(map.iter().eq([(10..=19, &'a'), (30..=u64::MAX, &'b')]));
    assert!(map.range(..30).eq([(10..=19, &'a')]));
    assert_eq!(map.range(..=30).count(), 2);
    assert_eq!(map.range(20..20).count(), 0);
    for empty in [7..7, u64::MAX..u64::MAX, 0..0] {
        let refused = map.clear_range(empty.clone()).unwrap_err();
        assert!(
            matches!(refused, Error::EmptyRange { start, end } if start > end),
            "{empty:?}"
        );
    }
    assert_eq!(map.find_gap(11, 10..31), None);
    assert_eq!(map.find_gap(10, 10..31), Some(20..=29));
    assert!(map.clear_range(..0).is_err());
}

/// Windows of 128 bits: alignments, rests and guards above 64 bits.
#[test]
fn windows_of_wide_indices() {
    let mut map: RangeMap<char, u128> = RangeMap::default();
    map.store(0..=5, 'a').unwrap();
    let huge = 1_u128 << 100;
    let found = map.find_gap(3, Window::new(..=u128::MAX).aligned(huge));
    assert_eq!(found, Some(huge..=huge + 2));
    let found = map.find_gap(3, Window::new(..).congruent_to(7, huge + 1));
    assert_eq!(found, Some(7..=9));
    let found = map.find_gap(huge, Window::new(..).guarded(huge));
    assert_eq!(found, Some(6 + huge..=5 + 2 * huge));
    let found = map.find_gap(huge, Window::new(..huge + 9).nearest_to(huge));
    assert_eq!(found, Some(9..=huge + 8));
    assert_eq!(map.find_gap(u128::MAX, ..), None);
    let all = map.find_gap(u128::MAX - 5, ..);
    assert_eq!(all, Some(6..=u128::MAX));
}

/// Entries of IPv6 allocations lie in leaves whose borders are as narrow as those of `u64`.
#[test]
fn borders_of_wide_indices_are_narrow_where_they_can_be() {
    const COUNT: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let base = u128::from("2001:db8::".parse::<Ipv6Addr>().unwrap());
    let mut wide: RangeMap<u64, u128> = RangeMap::default();
    let mut narrow = RangeMap::new();
    for i in 0..COUNT {
        let start = u128::from(i) << 80 | base;
        wide.store(start..=start + (1 << 79) - 1, i).unwrap();
        narrow
            .store(i << 16..=(i << 16) + (1 << 15) - 1, i)
            .unwrap();
    }
    wide.verify().unwrap();
    let (wide, narrow) = (wide.memory().leaves.1, narrow.memory().leaves.1);
    assert!(wide * 10 <= narrow * 13, "{wide} bytes, {narrow} with u64");
}

/// What is written as data of `serde` is read as the same map, and what is no map is refused.
#[cfg(feature = "serde")]
#[test]
fn data_of_serde() {
    let mut map: RangeMap<String, Ipv6Addr> = RangeMap::default();
    let mut rng = fastrand::Rng::with_seed(9);
    for i in 0..500 {
        let start = rng.u128(..);
        let end = start.saturating_add(rng.u128(..1 << 119));
        let range = Ipv6Addr::from_bits(start)..=Ipv6Addr::from_bits(end);
        map.store(range, format!("owner {i}")).unwrap();
    }
    let text = serde_json::to_string(&map).unwrap();
    let read: RangeMap<String, Ipv6Addr> = serde_json::from_str(&text).unwrap();
    read.verify().unwrap();
    assert_eq!(read, map);
    let shared = MapleMap::from_iter([(0..=9, 1_u8), (30..=39, 2)]);
    let kept = shared.snapshot();
    shared.clear().unwrap();
    assert_eq!(serde_json::to_string(&kept).unwrap(), "[[0,9,1],[30,39,2]]");
    for (text, why) in [
        ("[[9,0,1]]", "entry 0: the range 9..=0 is empty"),
        (
            "[[0,9,1],[20,29,1],[9,9,2]]",
            "entry 2: the entry 0..=9 is in the way",
        ),
        ("[[0,9]]", "invalid length 2"),
        ("[[0,9,300]]", "invalid value: integer `300`"),
        ("{}", "invalid type: map, expected a sequence of entries"),
    ] {
        let refused = serde_json::from_str::<RangeMap<u8>>(text).unwrap_err();
        assert!(refused.to_string().starts_with(why), "{refused}");
    }
}
