//! Tests of what the workloads promise.

use std::collections::HashSet;

use super::*;
use crate::oracle::RangeMap;

fn whole_pages(range: &RangeInclusive<u64>) -> u64 {
    assert!(range.start() % PAGE == 0 && range.end() % PAGE == PAGE - 1);
    (range.end() - range.start()) / PAGE + 1
}

/// Checks that ranges are in order and do not overlap; returns how many come after a gap.
fn gaps(ranges: &[RangeInclusive<u64>]) -> usize {
    let mut gaps = 0;
    for pair in ranges.windows(2) {
        assert!(pair[0].end() < pair[1].start());
        gaps += usize::from(pair[0].end() + 1 < *pair[1].start());
    }
    gaps
}

#[test]
fn pages_have_their_lengths_and_gaps() {
    let Pages {
        ascending,
        mut shuffled,
    } = pages(10_000, 1);
    assert_eq!(ascending.len(), 10_000);
    assert!((6_800..7_200).contains(&gaps(&ascending)));
    let lengths: HashSet<_> = ascending.iter().map(whole_pages).collect();
    assert!(lengths.len() == 16 && lengths.contains(&16) && lengths.contains(&1));
    assert_ne!(ascending, shuffled);
    shuffled.sort_by_key(|range| *range.start());
    assert_eq!(ascending, shuffled);
    assert_ne!(ascending, pages(10_000, 2).ascending);
    let rare = pages_with_rare_gaps(10_000, 1000, 1).ascending;
    let wide = rare
        .windows(2)
        .filter(|pair| pair[1].start() - pair[0].end() > 16 * PAGE + 1);
    assert_eq!(wide.count(), 10);
}

#[test]
fn an_address_space_counts_on_its_changes() {
    let space = vma(300, 1);
    assert_eq!(space.initial.len(), 300);
    let mut map = RangeMap::new();
    gaps(&space.initial);
    for range in &space.initial {
        whole_pages(range);
        map.insert_new(range.clone(), ()).unwrap();
    }
    let mut kinds = HashSet::new();
    for change in space.changes.take(3_000) {
        kinds.insert(std::mem::discriminant(&change));
        whole_pages(change.range());
        assert!(*change.range().end() <= LAST);
        match &change {
            Change::Erase(range) => {
                assert_eq!(map.remove(*range.end()), Some((range.clone(), ())));
            }
            Change::Insert(range) => map.insert_new(range.clone(), ()).unwrap(),
            Change::Alloc {
                size,
                within,
                place,
            } => {
                assert_eq!(map.find_gap(*size, 1, within.clone()).as_ref(), Some(place));
                map.insert_new(place.clone(), ()).unwrap();
            }
            other => panic!("{other:?}"),
        }
        assert!((224..=376).contains(&map.len()), "{}", map.len());
    }
    assert_eq!(kinds.len(), 3);
    assert_eq!(vma(1, 2).changes.take(1_000).count(), 1_000);
}

#[test]
fn wide_changes_store_and_clear() {
    let changes = pages_1m_30erase(20_000, 1);
    let stores = changes.iter().filter(|change| change.stores()).count();
    assert!((13_700..14_300).contains(&stores), "{stores}");
    let pages: Vec<_> = changes.iter().map(|c| whole_pages(c.range())).collect();
    assert!(pages.iter().all(|n| (1..=1_000_000).contains(n)));
    assert!(pages.iter().any(|n| *n < 1_000) && pages.iter().any(|n| *n > 999_000));
    assert!(changes.iter().all(|change| *change.range().end() <= LAST));
}

#[test]
fn small_maps_keep_their_kind() {
    let (sparse, dense) = (sparse_256(1), dense_256(1));
    assert_eq!((sparse.initial.len(), dense.initial.len()), (256, 256));
    assert_eq!((gaps(&sparse.initial), gaps(&dense.initial)), (255, 0));
    let mut map = RangeMap::new();
    for range in &dense.initial {
        map.store(range.clone(), 0);
    }
    let all = 0..=*dense.initial[255].end();
    for change in dense.changes.take(1_000) {
        map.store(change.range().clone(), 1);
        assert!(map.gaps(all.clone()).is_empty());
    }
    assert!((200..600).contains(&map.len()), "{}", map.len());
    let mut map = RangeMap::new();
    for range in &sparse.initial {
        map.store(range.clone(), 0);
    }
    for change in sparse.changes.take(1_000) {
        whole_pages(change.range());
        map.store(change.range().clone(), 1);
    }
    assert!((256..1_500).contains(&map.len()), "{}", map.len());
    let apart = map.gaps(0..=u64::MAX);
    let wide = apart.iter().filter(|gap| gap.end() - gap.start() > 1 << 54);
    assert_eq!(wide.count(), 257);
}

#[test]
fn traces_are_address_spaces() {
    let names: Vec<_> = traces()
        .into_iter()
        .map(|trace| {
            let mut map = RangeMap::new();
            for (i, change) in trace.changes.iter().enumerate() {
                whole_pages(change.range());
                match change {
                    Change::Store(range) => map.store(range.clone(), i),
                    Change::Clear(range) => {
                        // A range that is cleared was mapped as a whole.
                        assert!(map.gaps(range.clone()).is_empty(), "{i}: {range:?}");
                        map.clear_range(range.clone());
                    }
                    other => panic!("{other:?}"),
                }
            }
            (trace.name, trace.changes.len(), map.len())
        })
        .collect();
    assert_eq!(
        names,
        [
            ("static", 51, 9),
            ("dynamic", 395, 164),
            ("threads", 597, 320)
        ]
    );
    assert_eq!(traces(), traces());
}
