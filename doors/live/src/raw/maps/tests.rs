//! Stores that an earlier version of the library made, and its readers beside the maps of this one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use sapwood::Builder;
use sapwood::published::PublishedValue;
use sapwood::qp::{
    AttachedMap, AttachedView, Ordered, PointMap, QpFile, QpShared, QpStore, QpView,
};
use sapwood_checked::CheckedReader;
use sapwood_qsbr::Domain;

use super::{Base, CheckedMap, Left, LiveMap, Memory};
use crate::raw::window::LiveSource;
use crate::{CheckedLiveReader, CheckedNames, Error, Live, LiveReader};

/// A store as an earlier version made it: with leaves. That version knew no other layout.
struct Before<V: ?Sized + PublishedValue>(QpStore<V>);

// SAFETY: as that of a store.
unsafe impl<V: ?Sized + PublishedValue> LiveMap for Before<V> {
    type View<'r> = QpView<'r, V>;
    type Builder = Builder<QpStore<V>>;
    type Attached = Base;
    const KIND: (u64, &'static str) = QpStore::<V>::KIND;

    fn layouts() -> Vec<u64> {
        vec![PointMap::<V>::layout_hash()]
    }

    fn builder() -> Self::Builder {
        QpStore::builder()
    }

    fn create(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let arena = memory.arena(0, Self::layouts()[0])?;
        Ok(Before(builder.domain(domain).build_in(arena)?))
    }

    fn inherit(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        QpStore::inherit(builder, domain, memory, left).map(Before)
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Base, String> {
        // SAFETY: the caller's promise.
        unsafe { QpStore::<V>::attach(bases) }
    }

    unsafe fn view<'r>(attached: &'r Base) -> QpView<'r, V> {
        // SAFETY: the caller's promise.
        unsafe { <QpStore<V> as LiveMap>::view(attached) }
    }
}

impl<V: ?Sized + PublishedValue> CheckedMap for Before<V> {
    type Checked<'r> = CheckedReader<&'r LiveSource, V::Read>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        QpStore::<V>::check(sources)
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("map");
    (temp, folder)
}

/// Keys with long and short parts in common, and some that are prefixes of others.
fn entries(seed: u64) -> BTreeMap<Vec<u8>, u64> {
    let key = |i: u64| {
        let long = "n".repeat((i % 5 * 40) as usize);
        format!("{long}{}/{}", i % 17, i * i).into_bytes()
    };
    (seed..seed + 700).map(|i| (key(i), i)).collect()
}

fn commit(store: &QpStore<u64>, entries: &BTreeMap<Vec<u8>, u64>) {
    let mut txn = store.begin();
    txn.remove_prefix("").unwrap();
    for (key, value) in entries {
        txn.insert(key, *value).unwrap();
    }
    txn.commit();
}

fn read(view: QpView<'_, u64>, checked: &mut CheckedNames<QpStore<u64>>) -> BTreeMap<Vec<u8>, u64> {
    let all: BTreeMap<_, _> = view.iter().map(|(key, n)| (key.to_vec(), *n)).collect();
    let asked = checked.ask(|map| {
        let entries = map.range::<[u8], _>(..);
        let found: BTreeMap<_, _> = entries.map(|(key, n)| (key.to_vec(), *n)).collect();
        assert_eq!(map.len(), found.len());
        assert!(found.iter().all(|(key, n)| map.get(key) == Some(n)));
        found
    });
    assert_eq!(asked.unwrap(), all);
    assert!(all.iter().all(|(key, n)| view.get(key) == Some(n)));
    all
}

/// Readers and an heir of an earlier version refuse a store of this one, before they read a node.
#[test]
fn an_earlier_version_refuses_a_new_store() {
    fn refused<T>(what: Result<T, Error>, hashes: [u64; 2]) {
        match what.map(drop) {
            Err(Error::Layout { found, wanted, .. }) => assert_eq!([found, wanted], hashes),
            other => panic!("{other:?}"),
        }
    }
    fn ask<V: ?Sized + PublishedValue>(folder: &Path) {
        let hashes = [QpStore::<V>::layout_hash(), PointMap::<V>::layout_hash()];
        assert_ne!(hashes[0], hashes[1]);
        refused(LiveReader::<Before<V>>::open(folder), hashes);
        refused(CheckedLiveReader::<Before<V>>::open(folder), hashes);
        let reader = CheckedLiveReader::<Before<V>>::open_unregistered(folder);
        refused(reader, hashes);
    }
    let (_temp, folder) = folder();
    let store = Live::<QpStore<u64>>::create(&folder).unwrap();
    commit(&store, &entries(0));
    ask::<u64>(&folder);
    drop(store);
    let hashes = [
        QpStore::<u64>::layout_hash(),
        PointMap::<u64>::layout_hash(),
    ];
    refused(Live::<Before<u64>>::open(&folder), hashes);
    let texts = folder.join("texts");
    let store = Live::<QpStore<[u8]>>::create(&texts).unwrap();
    ask::<[u8]>(&texts);
    store.remove_map().unwrap();
}

/// Readers of this version read a store of an earlier one. An heir of this version keeps its form,
/// so that readers of the earlier version read on.
#[test]
fn a_store_of_an_earlier_version_is_read_and_inherited() {
    let (_temp, folder) = folder();
    let before = Live::<Before<u64>>::create(&folder).unwrap();
    let first = entries(0);
    commit(&before.0, &first);
    let mut reader = LiveReader::<QpStore<u64>>::open(&folder).unwrap();
    let open = || CheckedLiveReader::<QpStore<u64>>::open(&folder).unwrap();
    let mut checked = CheckedNames::new(open());
    assert_eq!(read(reader.view(), &mut checked), first);
    let mut earlier = LiveReader::<Before<u64>>::open(&folder).unwrap();
    drop(before);
    let heir = Live::<QpStore<u64>>::open(&folder).unwrap();
    assert_eq!(heir.generation(), 1);
    let second = entries(400);
    commit(&heir, &second);
    heir.verify().unwrap();
    reader.quiescent().unwrap();
    earlier.quiescent().unwrap();
    assert_eq!(read(reader.view(), &mut checked), second);
    assert_eq!(read(earlier.view(), &mut checked), second);
    drop(heir);
    let back = Live::<Before<u64>>::open(&folder).unwrap();
    assert_eq!(back.0.snapshot().len(), second.len());
    let left = QpFile::<u64>::open_published(folder.join("data-3-0")).unwrap();
    assert!(left.iter().all(|(key, n)| second.get(&key[..]) == Some(n)));
}

/// A shared map as an earlier version made it: without dead slots. That version knew no others.
struct SharedBefore(QpShared<u64>);

// SAFETY: as that of a shared map.
unsafe impl LiveMap for SharedBefore {
    type View<'r> = AttachedView<'r, Ordered, u64>;
    type Builder = Builder<QpShared<u64>>;
    type Attached = AttachedMap<Ordered, u64>;
    const KIND: (u64, &'static str) = QpShared::<u64>::KIND;

    fn layouts() -> Vec<u64> {
        vec![PointMap::<u64>::layout_hash()]
    }

    fn builder() -> Self::Builder {
        QpShared::builder()
    }

    fn create(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        let arena = memory.arena(0, Self::layouts()[0])?;
        Ok(SharedBefore(builder.domain(domain).build_in(arena)?))
    }

    fn inherit(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        QpShared::inherit(builder, domain, memory, left).map(SharedBefore)
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Self::Attached, String> {
        // SAFETY: the caller's promise.
        unsafe { <QpShared<u64> as LiveMap>::attach(bases) }
    }

    unsafe fn view<'r>(attached: &'r Self::Attached) -> Self::View<'r> {
        // SAFETY: the caller's promise.
        unsafe { <QpShared<u64> as LiveMap>::view(attached) }
    }
}

impl CheckedMap for SharedBefore {
    type Checked<'r> = CheckedReader<&'r LiveSource, u64>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        QpShared::<u64>::check(sources)
    }
}

/// Fills a shared map with these entries, after neighbours of them that are removed again.
fn fill_shared(map: &QpShared<u64>, entries: &BTreeMap<Vec<u8>, u64>) {
    for (key, value) in entries {
        map.insert(key, *value).unwrap();
        map.insert(gone(key), *value).unwrap();
    }
    for key in entries.keys() {
        assert!(map.remove(gone(key)).unwrap());
    }
    map.verify().unwrap();
}

/// The neighbour of a key that was removed.
fn gone(key: &[u8]) -> Vec<u8> {
    [key, b"+"].concat()
}

/// The entries that a reader and a checked reader of a shared map see.
fn shared<M>(
    view: AttachedView<'_, Ordered, u64>,
    checked: &CheckedLiveReader<M>,
) -> BTreeMap<Vec<u8>, u64>
where
    M: for<'r> CheckedMap<Checked<'r> = CheckedReader<&'r LiveSource, u64>>,
{
    let all: BTreeMap<_, _> = view.iter().map(|(key, n)| (key.to_vec(), *n)).collect();
    let map = checked.view().unwrap();
    let found: Result<BTreeMap<_, _>, _> = map.iter().collect();
    assert_eq!(found.unwrap(), all);
    for (key, n) in &all {
        assert_eq!((view.get(key), map.get(key).unwrap()), (Some(n), Some(*n)));
        let gone = gone(key);
        assert_eq!((view.get(&gone), map.get(&gone).unwrap()), (None, None));
    }
    assert_eq!(map.verify().unwrap(), all.len());
    all
}

/// Readers and an heir of a version that knows no dead slots refuse a map that may have some.
#[test]
fn an_earlier_version_refuses_a_shared_map_with_dead_slots() {
    fn refused<T>(what: Result<T, Error>) {
        let hashes = [
            QpShared::<u64>::layout_hash(),
            PointMap::<u64>::layout_hash(),
        ];
        match what.map(drop) {
            Err(Error::Layout { found, wanted, .. }) => assert_eq!([found, wanted], hashes),
            other => panic!("{other:?}"),
        }
    }
    let (_temp, folder) = folder();
    let map = Live::<QpShared<u64>>::create(&folder).unwrap();
    let wanted = entries(0);
    fill_shared(&map, &wanted);
    refused(LiveReader::<SharedBefore>::open(&folder));
    refused(CheckedLiveReader::<SharedBefore>::open(&folder));
    refused(CheckedLiveReader::<SharedBefore>::open_unregistered(
        &folder,
    ));
    let reader = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let checked = CheckedLiveReader::<QpShared<u64>>::open(&folder).unwrap();
    assert_eq!(shared(reader.view(), &checked), wanted);
    drop(map);
    refused(Live::<SharedBefore>::open(&folder));
}

/// Readers of this version read a shared map of an earlier one. An heir of this version leaves no
/// dead slots in it, so that readers of the earlier version read on.
#[test]
fn a_shared_map_of_an_earlier_version_is_read_and_inherited() {
    let (_temp, folder) = folder();
    let before = Live::<SharedBefore>::create(&folder).unwrap();
    let mut wanted = entries(0);
    fill_shared(&before.0, &wanted);
    let mut reader = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let mut checked = CheckedLiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let mut earlier = CheckedLiveReader::<SharedBefore>::open(&folder).unwrap();
    assert_eq!(shared(reader.view(), &checked), wanted);
    drop(before);
    let heir = Live::<QpShared<u64>>::open(&folder).unwrap();
    assert_eq!(heir.generation(), 1);
    let second = entries(400);
    fill_shared(&heir, &second);
    wanted.extend(second);
    reader.quiescent().unwrap();
    checked.quiescent().unwrap();
    earlier.quiescent().unwrap();
    assert_eq!(shared(reader.view(), &checked), wanted);
    // In a map of this layout, a dead slot would be damage.
    assert_eq!(shared(reader.view(), &earlier), wanted);
    drop(heir);
    let back = Live::<SharedBefore>::open(&folder).unwrap();
    assert_eq!(back.0.len(), wanted.len());
    back.0.verify().unwrap();
}

/// Other values are refused, whatever the form.
#[test]
fn a_store_of_other_values_is_refused() {
    let (_temp, folder) = folder();
    let before = Live::<Before<u64>>::create(&folder).unwrap();
    commit(&before.0, &entries(0));
    let other = LiveReader::<QpStore<[u32; 2]>>::open(&folder).map(drop);
    assert!(matches!(other, Err(Error::Layout { .. })), "{other:?}");
    let texts = CheckedLiveReader::<QpStore<[u8]>>::open(&folder).map(drop);
    assert!(matches!(texts, Err(Error::Layout { .. })), "{texts:?}");
    drop(before);
    let heir = Live::<QpStore<[u8; 8]>>::open(&folder).map(drop);
    assert!(matches!(heir, Err(Error::Layout { .. })), "{heir:?}");
}
