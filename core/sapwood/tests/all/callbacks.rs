//! What closures, comparisons, drops and iterators of the user may call of the structure that calls
//! them. `docs/guards.md` has the list. A call that would wait for its own thread panics with the
//! reason; every other call succeeds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use sapwood::lpm::Ipv4Fib;
use sapwood::lpm::ipnet::Ipv4Net;
use sapwood::maple::MapleMap;
use sapwood::qp::{Key, PointMap, QpShared, QpStore};
use sapwood::qsbr::Domain;
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

/// The methods of a shared map, by name; those that only `$more` has come last.
macro_rules! calls {
    ($map:ty $(, $name:literal: $more:expr)*) => {{
        let calls: Vec<(&str, fn(&$map))> = vec![
            ("insert", |map| _ = map.insert("inside", Value::new(1)).unwrap()),
            ("remove", |map| _ = map.remove("inside").unwrap()),
            ("remove its own key", |map| _ = map.remove("key").unwrap()),
            ("replace its own key", |map| {
                _ = map.insert("key", Value::new(2)).unwrap();
            }),
            ("remove_if", |map| _ = map.remove_if("other", |_| true).unwrap()),
            ("retain", |map| _ = map.retain(|_, _| true).unwrap()),
            ("update", |map| _ = map.update("other", |_| Value::new(3)).unwrap()),
            ("compare_exchange", |map| {
                _ = map.compare_exchange("inside", &Value::new(0), Value::new(4));
            }),
            ("clear", |map| _ = map.clear().unwrap()),
            ("get", |map| _ = map.contains_key("key")),
            ("for_each", |map| {
                _ = map.for_each::<()>(|_, _| std::ops::ControlFlow::Continue(()));
            }),
            ("reclaim", |map| _ = map.reclaim(usize::MAX)),
            ("verify", |map| map.verify().unwrap()),
            ("memory", |map| _ = map.memory()),
            ("contention", |map| _ = map.contention()),
            ("clone and drop", |map| drop(map.clone())),
            $(($name, $more),)*
        ];
        calls
    }};
}

/// A value whose comparison may call something.
#[derive(Clone, Debug)]
struct Value(u64);

type Hook = Box<dyn Fn()>;

thread_local!(static COMPARING: std::cell::RefCell<Option<Hook>> = const {
    std::cell::RefCell::new(None)
});

impl Value {
    fn new(value: u64) -> Value {
        Value(value)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        // The comparisons of the hook itself call nothing.
        let hook = COMPARING.take();
        if let Some(hook) = &hook {
            hook();
        }
        COMPARING.set(hook);
        self.0 == other.0
    }
}

/// Runs every call in every closure that a shared map takes.
macro_rules! inside_closures {
    ($new:expr, $calls:expr) => {
        for (name, call) in $calls {
            let map = $new;
            let fill = || {
                for key in ["key", "inside", "other"] {
                    map.insert(key, Value::new(7)).unwrap();
                }
            };
            let check = |what: &str| {
                map.verify()
                    .unwrap_or_else(|error| panic!("{name} in {what}: {error}"));
                fill();
            };
            fill();
            let mut times = 0;
            map.remove_if("key", |_| {
                times += 1;
                if times < 3 {
                    call(&map);
                }
                true
            })
            .unwrap();
            check("remove_if");
            map.read(|view| {
                let mut times = 0;
                view.remove_if("key", |_| {
                    times += 1;
                    call(&map);
                    times % 2 == 0
                })
                .unwrap();
            });
            check("remove_if of a view");
            // A closure that changes the tested key each time would be asked for ever.
            let mut times = 0;
            map.retain(|_, _| {
                times += 1;
                if times < 9 {
                    call(&map);
                }
                false
            })
            .unwrap();
            check("retain");
            let mut times = 0;
            let updated = map.update("key", |_| {
                times += 1;
                if times < 3 {
                    call(&map);
                }
                Value::new(8)
            });
            assert!(updated.is_ok());
            check("update");
            drop(map.remove("new"));
            map.get_or_insert_with("new", || {
                call(&map);
                Value::new(9)
            })
            .unwrap();
            check("get_or_insert_with");
            let _ = map.for_each::<()>(|_, _| {
                call(&map);
                std::ops::ControlFlow::Continue(())
            });
            check("for_each");
            let handle = map.clone();
            let times = AtomicUsize::new(0);
            COMPARING.set(Some(Box::new(move || {
                if times.fetch_add(1, SeqCst) < 3 {
                    call(&handle);
                }
            })));
            let _ = map.compare_exchange("key", &Value::new(7), Value::new(10));
            COMPARING.set(None);
            check("compare_exchange");
        }
    };
}

#[test]
fn closures_of_shared_maps_may_call_everything() {
    let of_trie = || {
        calls!(QpShared<Value>, "compact_step": |map| while map.compact_step(10).unwrap() {},
            "pop_first": |map| _ = map.pop_first().unwrap(),
            "exact": |map| map.read(|view| _ = view.exact(|view| view.len())))
    };
    inside_closures!(QpShared::<Value>::new().unwrap(), of_trie());
    let indexed = || QpShared::<Value>::builder().with_index().build().unwrap();
    inside_closures!(indexed(), of_trie());
    inside_closures!(PointMap::<Value>::new().unwrap(), calls!(PointMap<Value>));
}

/// More tests within each other than a map has shards, on one thread and on many.
#[test]
fn tests_within_each_other_do_not_wait_for_each_other() {
    fn deep(map: &QpShared<u64>, depth: u64) {
        map.insert(depth.to_be_bytes(), depth).unwrap();
        let removed = map.remove_if(depth.to_be_bytes(), |_| {
            if depth < 200 {
                deep(map, depth + 1);
            }
            true
        });
        assert!(removed.unwrap());
    }
    let map = QpShared::new().unwrap();
    deep(&map, 0);
    assert!(map.is_empty());
    let threads = if cfg!(miri) { 3 } else { 40 };
    let barrier = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (map, barrier) = (&map, &barrier);
            scope.spawn(move || {
                map.insert(thread.to_be_bytes(), 1).unwrap();
                let removed = map.remove_if(thread.to_be_bytes(), |_| {
                    barrier.wait();
                    map.insert((1000 + thread).to_be_bytes(), 2).unwrap();
                    true
                });
                assert!(removed.unwrap());
            });
        }
    });
    assert_eq!(map.len(), threads);
    map.verify().unwrap();
}

#[test]
fn an_exact_query_that_changes_its_map_is_refused() {
    for index in [false, true] {
        let builder = QpShared::builder();
        let builder = if index { builder.with_index() } else { builder };
        let map = builder.build().unwrap();
        map.insert("a", 1u64).unwrap();
        let pin = map.pin();
        let view = pin.view();
        refused(|| view.exact(|_| map.insert("b", 2)));
        // Disturbed each time, so that at last writers wait for the query.
        let calls: [fn(&QpShared<u64>); 5] = [
            |map| _ = map.compact_step(10),
            |map| _ = map.verify(),
            |map| _ = map.memory(),
            |map| _ = map.contention(),
            |map| _ = map.remove("a"),
        ];
        for call in calls {
            let tries = AtomicUsize::new(0);
            refused(|| {
                view.exact(|_| {
                    if tries.fetch_add(1, SeqCst) < 8 {
                        map.insert("c", 3).unwrap();
                    } else {
                        call(&map);
                    }
                })
            });
        }
        // What reads, and what does not wait, succeeds.
        let tries = AtomicUsize::new(0);
        let first = view.exact(|view| {
            if tries.fetch_add(1, SeqCst) < 8 {
                map.insert("c", 3).unwrap();
            }
            map.reclaim(usize::MAX);
            view.exact(|view| view.first_key_value())
        });
        assert_eq!(first, Some((Key::from("a"), &1)));
        drop(pin);
        map.insert("d", 4).unwrap();
        map.verify().unwrap();
    }
}

/// A value whose drop calls something, once.
struct Last(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

fn last(ran: &Arc<AtomicUsize>, call: impl FnOnce() + Send + Sync + 'static) -> Last {
    let ran = Arc::clone(ran);
    Last(Some(Box::new(move || {
        call();
        ran.fetch_add(1, SeqCst);
    })))
}

#[test]
fn a_drop_may_call_the_shared_map_that_held_the_value() {
    static MAP: OnceLock<QpShared<Last>> = OnceLock::new();
    let map = MAP.get_or_init(|| QpShared::builder().with_index().build().unwrap());
    let calls: [fn(); 6] = [
        || assert!(MAP.get().unwrap().insert("inside", Last(None)).is_ok()),
        || _ = MAP.get().unwrap().remove("inside").unwrap(),
        || _ = MAP.get().unwrap().reclaim(usize::MAX),
        || _ = MAP.get().unwrap().compact_step(10).unwrap(),
        || MAP.get().unwrap().verify().unwrap(),
        || _ = MAP.get().unwrap().clear().unwrap(),
    ];
    for call in calls {
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 0..10 {
            assert!(map.insert("key", last(&ran, call)).is_ok());
            match round % 2 {
                0 => _ = map.remove("key").unwrap(),
                _ => assert!(map.insert("key", Last(None)).is_ok()),
            }
            map.reclaim(usize::MAX);
        }
        while map.compact_step(10).unwrap() {}
        map.reclaim(usize::MAX);
        assert_eq!(ran.load(SeqCst), 10);
        map.verify().unwrap();
    }
}

/// Values of a store, a table and a range map are dropped when the writer's lock is free again.
#[test]
fn a_drop_may_call_the_structure_that_held_the_value() {
    static STORE: OnceLock<QpStore<Last>> = OnceLock::new();
    let store = STORE.get_or_init(|| QpStore::new().unwrap());
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 0..20 {
        let mut txn = store.begin();
        let value = last(&ran, || {
            let store = STORE.get().unwrap();
            let mut txn = store.begin();
            assert!(txn.insert("inside", Last(None)).is_ok());
            txn.commit();
            store.reclaim(usize::MAX);
        });
        assert!(txn.insert("key", value).is_ok());
        match round % 3 {
            0 => drop(txn),
            _ => _ = txn.commit(),
        }
        store.reclaim(usize::MAX);
    }
    let mut txn = store.begin();
    txn.clear().unwrap();
    txn.commit();
    store.reclaim(usize::MAX);
    assert_eq!(ran.load(SeqCst), 20);
    store.verify().unwrap();
}

/// A value, of which every copy calls something when it is dropped.
#[derive(Clone)]
struct Calling(u32, fn());

impl PartialEq for Calling {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Calling {}

impl std::hash::Hash for Calling {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        (self.1)();
    }
}

#[test]
fn a_drop_may_call_the_table_and_the_range_map_that_held_the_value() {
    static FIB: OnceLock<Ipv4Fib<Calling>> = OnceLock::new();
    static MAP: OnceLock<MapleMap<Calling>> = OnceLock::new();
    static RAN: AtomicUsize = AtomicUsize::new(0);
    fn nothing() {}
    let fib = FIB.get_or_init(|| Ipv4Fib::builder().root_bits(6).build().unwrap());
    let map = MAP.get_or_init(MapleMap::new);
    fn inside_fib() {
        let fib = FIB.get().unwrap();
        drop(fib.insert("12.0.0.0/8".parse().unwrap(), Calling(9, nothing)));
        fib.reclaim(usize::MAX);
        fib.verify().unwrap();
        RAN.fetch_add(1, SeqCst);
    }
    fn inside_map() {
        let map = MAP.get().unwrap();
        assert!(map.store(500..=509, Calling(9, nothing)).is_ok());
        map.reclaim(usize::MAX);
        map.verify().unwrap();
        RAN.fetch_add(1, SeqCst);
    }
    let net = "10.0.0.0/8".parse().unwrap();
    for value in 0..10 {
        drop(fib.insert(net, Calling(value, inside_fib)));
        assert!(map.store(0..=99, Calling(value, inside_map)).is_ok());
    }
    drop(fib.remove(net));
    drop(map.remove(5));
    fib.reclaim(usize::MAX);
    map.reclaim(usize::MAX);
    assert!(RAN.load(SeqCst) >= 20, "{RAN:?}");
    fib.verify().unwrap();
    map.verify().unwrap();
}

static RANGES: OnceLock<MapleMap<Cloned>> = OnceLock::new();

/// A value whose copy and drop call the map that holds it.
struct Cloned(fn());

impl Clone for Cloned {
    fn clone(&self) -> Self {
        (self.0)();
        Cloned(self.0)
    }
}

#[test]
fn a_value_that_changes_its_range_map_while_it_is_cloned() {
    let map = RANGES.get_or_init(MapleMap::new);
    let store = |range: std::ops::RangeInclusive<u64>, call| {
        assert!(map.store(range, Cloned(call)).is_ok());
    };
    // A part of the entry is overwritten, so its value is cloned while the map is changed.
    store(0..=99, || drop(RANGES.get().unwrap().remove(5)));
    refused(|| store(40..=49, || ()));
    store(0..=99, || RANGES.get().unwrap().verify().unwrap());
    refused(|| store(40..=49, || ()));
    store(0..=99, || _ = RANGES.get().unwrap().read(|view| view.len()));
    store(40..=49, || ());
    map.verify().unwrap();
    assert_eq!(map.len(), 3);
}

/// Iterators run inside the transaction that takes their items.
#[test]
fn an_iterator_that_changes_the_table_which_takes_its_items() {
    let net = |i: u32| Ipv4Net::new((i << 24).into(), 8).unwrap();
    let mut fib = Ipv4Fib::builder().root_bits(6).build().unwrap();
    let other = fib.clone();
    refused(|| {
        fib.extend((1..4).map(|i| {
            other.insert(net(100 + i), i).unwrap();
            (net(i), i)
        }));
    });
    fib.verify().unwrap();
    fib.extend((1..4).map(|i| {
        assert_eq!(other.get(net(9)), None);
        (net(i), i)
    }));
    assert_eq!(fib.len(), 3);
    fib.verify().unwrap();

    // A map with many writers takes the items of its builder before there is a map.
    let map = QpShared::new().unwrap();
    let entries = (0..100u32).map(|i| {
        map.insert(format!("{i}"), i).unwrap();
        map.verify().unwrap();
        (i.to_be_bytes(), i)
    });
    let built = QpShared::builder().build_sorted(entries).unwrap();
    assert_eq!((map.len(), built.len()), (100, 100));
    map.verify().unwrap();
    built.verify().unwrap();
}

/// Closures that a domain runs while a structure's writer asks for room may not ask for the same
/// writer.
#[test]
fn a_deferred_closure_may_change_a_structure_of_its_domain() {
    let domain = Domain::builder().hard_limit(20_000).build();
    let store = QpStore::builder().domain(&domain).build().unwrap();
    let routes = RouteTable::builder().root_bits(6).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 0..2_000u64 {
        let (store, done) = (store.clone(), Arc::clone(&ran));
        let _ = domain.defer(200, move || {
            // The transaction that made the room may be open on this thread.
            if let Some(mut txn) = store.try_begin() {
                drop(txn.insert("inside", round));
                txn.commit();
            }
            done.fetch_add(1, SeqCst);
        });
        let net = "10.0.0.0/8".parse().unwrap();
        routes.insert(net, Group::single(round)).unwrap();
    }
    // The store's garbage and the closures share the limit; nothing is refused that can be freed.
    for round in 0..2_000u64 {
        let mut txn = store.begin();
        txn.insert("key", round).unwrap();
        txn.commit();
    }
    while domain.poll() > 0 {}
    assert_eq!(ran.load(SeqCst), 2_000);
    store.verify().unwrap();
}
