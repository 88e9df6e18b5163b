//! Tests that every engine does what the suite asks of it.

use super::*;
use crate::peers::{dashmap, evicting, papaya, rwlock};

fn keys(n: u32) -> Vec<Key> {
    (0..n).map(|i| (u128::from(i) << 70 | 3, i)).collect()
}

fn works<E: CacheEngine>() {
    let cache = E::new(1000, true);
    let keys = keys(100);
    for key in &keys {
        assert_eq!(cache.get(0, key), None, "{}", E::NAME);
        cache.insert(0, *key, value_of(key));
    }
    cache.settle();
    for key in &keys {
        assert_eq!(cache.get(0, key), Some(value_of(key)), "{}", E::NAME);
    }
    cache.refresh(0, keys[0], [9; 32]);
    assert_eq!(cache.get(0, &keys[0]), Some([9; 32]), "{}", E::NAME);
    cache.remove(0, &keys[1]);
    assert_eq!(cache.get(0, &keys[1]), None, "{}", E::NAME);
    let mut get = cache.reader(0);
    for _ in 0..10 {
        assert_eq!(get(&keys[0]), Some([9; 32]), "{}", E::NAME);
        assert_eq!(get(&keys[1]), None, "{}", E::NAME);
    }
    cache.refresh(0, keys[0], [8; 32]);
    assert_eq!(get(&keys[0]), Some([8; 32]), "{}", E::NAME);
}

/// The number of keys that remain after many were inserted.
fn holds<E: CacheEngine>() -> usize {
    let cache = E::new(64, true);
    let keys = keys(5000);
    for key in &keys {
        cache.insert(0, *key, value_of(key));
        cache.settle();
    }
    keys.iter()
        .filter(|key| cache.get(0, key).is_some())
        .count()
}

#[test]
fn all_work() {
    works::<Sapwood>();
    works::<SapwoodApart>();
    works::<SapwoodFront>();
    works::<rwlock::BtreeCache>();
    works::<rwlock::SipHashCache>();
    works::<rwlock::FoldhashCache>();
    works::<dashmap::Cache>();
    works::<papaya::Cache>();
    works::<evicting::Quick>();
    works::<evicting::Moka>();
}

#[test]
fn all_are_bounded() {
    assert_eq!(holds::<Sapwood>(), 64);
    assert_eq!(holds::<SapwoodFront>(), 64);
    assert_eq!(holds::<rwlock::BtreeCache>(), 64);
    assert_eq!(holds::<rwlock::SipHashCache>(), 64);
    assert_eq!(holds::<rwlock::FoldhashCache>(), 64);
    assert_eq!(holds::<dashmap::Cache>(), 64);
    assert_eq!(holds::<papaya::Cache>(), 64);
    // These divide their capacity among shards, or evict late.
    assert!((32..=64).contains(&holds::<evicting::Quick>()));
    assert!((32..=128).contains(&holds::<evicting::Moka>()));
}

#[test]
fn values_belong_to_keys() {
    let sums: std::collections::HashSet<_> =
        keys(100).iter().map(|k| sum_of(&value_of(k))).collect();
    assert_eq!(sums.len(), 100);
}
