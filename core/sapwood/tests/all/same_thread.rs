//! A thread that would wait for its own transaction, writer or reservation gets a panic that says
//! so.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use sapwood::lpm::ipnet::{IpNet, Ipv4Net};
use sapwood::lpm::{BitFib, BitString, IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::QpStore;
use sapwood::route::{Group, RouteTable};

/// Checks that the call panics and says that it would wait for itself.
#[track_caller]
fn refused<R>(call: impl FnOnce() -> R) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("the call returned");
    };
    let message = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_default();
    assert!(message.contains("it would wait for itself"), "{message}");
}

#[test]
fn a_store_beside_a_transaction_of_the_same_thread() {
    let store = QpStore::new().unwrap();
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    let other = store.clone();
    refused(|| other.begin());
    refused(|| store.memory());
    refused(|| store.verify());
    refused(|| store.compact_step(10));
    // Calls that take no lock, or do not wait for it, succeed.
    assert!(store.try_begin().is_none());
    assert_eq!(store.reclaim(10), 0);
    assert_eq!((store.snapshots(), store.version().get()), (0, 0));
    assert!(store.snapshot().is_empty() && store.read(|view| view.is_empty()));
    // The transaction is unchanged.
    txn.insert("b", 2).unwrap();
    txn.commit();
    assert_eq!(store.memory().map.entries, 2);
    store.begin().rollback();
    drop(store.try_begin().unwrap());
    store.verify().unwrap();
}

#[test]
fn other_threads_and_other_stores_wait_as_before() {
    let (store, beside) = (QpStore::new().unwrap(), QpStore::new().unwrap());
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    let mut second = beside.begin();
    second.insert("a", 2).unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| {
            let mut txn = store.begin();
            txn.insert("b", 3).unwrap();
            txn.commit().get()
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(!waits.is_finished());
        txn.commit();
        assert_eq!(waits.join().unwrap(), 2);
    });
    second.commit();
    assert_eq!(
        (store.memory().map.entries, beside.memory().map.entries),
        (2, 1)
    );
}

#[test]
fn a_table_beside_a_transaction_of_the_same_thread() {
    let net: Ipv4Net = "10.0.0.0/8".parse().unwrap();
    let mut fib = Ipv4Fib::builder().root_bits(6).build().unwrap();
    let handle = fib.clone();
    let mut txn = handle.begin();
    txn.insert(net, 1).unwrap();
    refused(|| fib.begin());
    refused(|| fib.insert(net, 2));
    refused(|| fib.remove(net));
    refused(|| fib.memory());
    refused(|| fib.verify());
    refused(|| fib.compact());
    refused(|| fib.compact_step(1));
    refused(|| fib.extend([(net, 2)]));
    assert!(fib.try_begin().is_none());
    assert_eq!((fib.reclaim(10), fib.snapshots(), fib.len()), (0, 0, 0));
    assert!(fib.snapshot().is_empty());
    txn.commit();
    assert_eq!(fib.insert(net, 2).unwrap(), Some(1));
    fib.verify().unwrap();

    let both = IpFib::from_tables(
        fib.clone(),
        sapwood::lpm::Ipv6Fib::builder()
            .root_bits(6)
            .domain(fib.domain())
            .build()
            .unwrap(),
    );
    let txn = both.v4().begin();
    refused(|| both.insert(IpNet::V4(net), 3));
    refused(|| both.remove(IpNet::V4(net)));
    refused(|| both.verify());
    refused(|| both.begin());
    assert!(both.try_begin().is_none());
    both.insert("::/0".parse().unwrap(), 4).unwrap();
    txn.commit();
    assert_eq!(both.get(IpNet::V4(net)), Some(2));
    both.verify().unwrap();
}

#[test]
fn a_bit_table_beside_a_transaction_of_the_same_thread() {
    let bits = BitString::from_number(5, 3).unwrap();
    let fib = BitFib::new().unwrap();
    let mut txn = fib.begin();
    txn.insert(&bits, 1).unwrap();
    refused(|| fib.begin());
    refused(|| fib.insert(&bits, 2));
    refused(|| fib.remove(&bits));
    refused(|| fib.memory());
    refused(|| fib.verify());
    refused(|| fib.compact());
    assert_eq!((fib.snapshots(), fib.oldest_snapshot()), (0, None));
    txn.commit();
    assert_eq!(fib.insert(&bits, 2).unwrap(), Some(1));
    fib.verify().unwrap();
}

static TABLE: OnceLock<Ipv4Fib<Meddler>> = OnceLock::new();

/// A value whose comparison changes the table that holds it.
#[derive(Clone)]
struct Meddler(u32);

impl Hash for Meddler {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Meddler {
    fn eq(&self, other: &Self) -> bool {
        if let Some(fib) = TABLE.get() {
            drop(fib.remove("10.0.0.0/8".parse().unwrap()));
        }
        self.0 == other.0
    }
}

impl Eq for Meddler {}

#[test]
fn a_value_that_changes_its_table_while_it_is_compared() {
    let fib = Ipv4Fib::builder().root_bits(6).build().unwrap();
    let net = "10.0.0.0/8".parse().unwrap();
    fib.insert(net, Meddler(1)).unwrap();
    assert!(TABLE.set(fib.clone()).is_ok());
    refused(|| fib.insert("11.0.0.0/8".parse().unwrap(), Meddler(2)));
    assert_eq!(fib.len(), 1);
    assert_eq!(fib.read(|view| view.get(net).map(|hop| hop.0)), Some(1));
}

#[test]
fn a_range_map_beside_a_writer_of_the_same_thread() {
    let map = MapleMap::from_iter([(0..=9, 1), (20..=29, 2)]);
    let mut writer = map.write();
    refused(|| map.write());
    refused(|| map.store(0..=9, 3));
    refused(|| map.remove(5));
    refused(|| map.plan_store(0..=9, &3));
    refused(|| map.plan_alloc(1, 0..=99, &3));
    refused(|| map.plan_clear(0..=9));
    refused(|| map.plan_remove(5));
    refused(|| map.reserve_unknown(1));
    refused(|| map.dup());
    refused(|| map.memory());
    refused(|| map.verify());
    refused(|| map.reclaim(1));
    assert!(map.try_write().is_none());
    assert_eq!(map.get(5), Some(1));
    writer.store(0..=9, 4).unwrap();
    drop(writer);
    assert_eq!(map.get(5), Some(4));
    map.verify().unwrap();
}

#[test]
fn a_range_map_beside_a_reservation_of_the_same_thread() {
    let map = MapleMap::from_iter([(0..=9, 1), (20..=29, 2)]);
    let plan = map.plan_store(5..=24, &3).unwrap();
    let reservation = map.reserve(plan.clone()).unwrap();
    refused(|| map.insert_new(50..=59, 4));
    refused(|| map.reserve(plan));
    reservation.store(3);
    assert_eq!(map.get(20), Some(3));
    map.verify().unwrap();
}

#[test]
fn the_end_of_an_unknown_reservation_beside_a_writer_of_the_same_thread() {
    let map = MapleMap::from_iter([(0..=9, 1)]);
    let unknown = map.reserve_unknown(2).unwrap();
    let writer = map.write();
    refused(|| drop(unknown));
    drop(writer);
    // A second panic during unwinding would end the process.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let unknown = map.reserve_unknown(2).unwrap();
        let _writer = map.write();
        let _dropped_first = unknown;
        panic!("by the test");
    }));
    assert!(panicked.is_err());
    map.store(0..=9, 2).unwrap();
    map.verify().unwrap();
}

#[test]
fn a_route_table_beside_a_transaction_of_the_same_thread() {
    let net: IpNet = "10.0.0.0/8".parse().unwrap();
    let routes = RouteTable::builder().root_bits(6).build().unwrap();
    let mut txn = routes.begin();
    txn.insert(net, Group::single(1)).unwrap();
    refused(|| routes.begin());
    refused(|| routes.snapshot());
    refused(|| routes.insert(net, Group::single(2)));
    refused(|| routes.remove(net));
    refused(|| routes.get(net));
    refused(|| routes.set_weight(&1, 2));
    refused(|| routes.replace_group(&Group::single(1), &Group::single(2)));
    refused(|| routes.groups());
    refused(|| routes.memory());
    refused(|| routes.verify());
    assert!(routes.is_empty() && routes.lookup("10.1.2.3".parse().unwrap(), 1).is_none());
    txn.commit();
    assert_eq!(routes.get(net), Some(Group::single(1)));
    routes.verify().unwrap();
}

/// Reports on a table of routes wait for no thread.
#[test]
fn a_route_table_tells_of_its_snapshots_beside_a_transaction() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    let net = "10.0.0.0/8".parse().unwrap();
    let kept = table.snapshot();
    for hop in 0..200u32 {
        table.insert(net, Group::single(hop)).unwrap();
    }
    let mut txn = table.begin();
    txn.insert(net, Group::single(7)).unwrap();
    assert_eq!(
        txn.group("10.1.2.3".parse().unwrap()),
        Some(&Group::single(7))
    );
    assert_eq!(txn.group("11.1.2.3".parse().unwrap()), None);
    assert!(table.try_begin().is_none());
    assert_eq!(table.snapshots(), 1);
    assert!(table.oldest_snapshot().unwrap().bytes > 0);
    drop(kept);
    assert!(table.oldest_snapshot().is_none());
    txn.rollback();
    table.try_begin().unwrap().commit();
    table.verify().unwrap();
}
