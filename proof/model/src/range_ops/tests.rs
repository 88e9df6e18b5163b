//! Tests of what the generators promise.

use super::*;
use std::collections::HashSet;
use std::mem::discriminant;

/// Runs operations; returns how many kinds of operations and of outcomes came, and the largest
/// number of entries.
fn run(ops: impl Iterator<Item = RangeOp>) -> (usize, usize, usize) {
    let mut map = RangeMap::new();
    let (mut kinds, mut outcomes, mut most) = (HashSet::new(), HashSet::new(), 0);
    for op in ops {
        kinds.insert(discriminant(&op));
        let before = (!op.writes()).then(|| map.clone());
        outcomes.insert(discriminant(&op.apply(&mut map)));
        assert!(before.is_none_or(|before| before == map));
        most = most.max(map.len());
    }
    (kinds.len(), outcomes.len(), most)
}

#[test]
fn every_domain_draws_everything_and_the_map_grows() {
    let most = [10, 10, 300, 200, 60, 200, 150];
    for (domain, least) in Domain::ALL.into_iter().zip(most) {
        let (kinds, outcomes, most) = run(RangeOps::new(domain, 1).take(5_000));
        assert_eq!((kinds, outcomes), (15, 10), "{domain:?}");
        assert!(most > least, "{domain:?}: at most {most} entries");
    }
}

#[test]
fn ranges_lie_in_their_domain() {
    let mut rng = Rng::with_seed(2);
    for domain in Domain::ALL {
        for _ in 0..1000 {
            let start = domain.start(&mut rng);
            assert!(domain.window().contains(&start), "{domain:?}: {start}");
            assert_eq!(start % domain.unit(), 0);
            assert_eq!((domain.length(&mut rng) + 1) % domain.unit(), 0);
            assert!(!domain.wide(&mut rng).is_empty());
        }
    }
}

#[test]
fn clusters_are_far_apart() {
    let mut rng = Rng::with_seed(3);
    let starts = (0..5000).map(|_| Domain::Clusters.start(&mut rng));
    let places: HashSet<_> = starts.map(|start| start >> 32).collect();
    assert_eq!(places.len(), 8);
}

#[test]
fn operations_from_bytes() {
    let mut bytes = vec![0; 60_000];
    Rng::with_seed(4).fill(&mut bytes);
    let mut domains = HashSet::new();
    for first in 0..50 {
        bytes[0] = first;
        let ops = RangeOps::from_bytes(&bytes);
        domains.insert(ops.domain());
        let (kinds, ..) = run(ops.take(300));
        assert!(kinds >= 13, "{kinds}");
    }
    assert_eq!(domains.len(), Domain::ALL.len());
    let all = RangeOps::from_bytes(&bytes).count();
    assert!((5_000..30_000).contains(&all), "{all} operations");
    assert_eq!(RangeOps::from_bytes(&[]).count(), 0);
    let mut few = &[7, 1][..];
    assert_eq!((few.below(1), few.below(257), few.any()), (0, 263 % 257, 0));
}
