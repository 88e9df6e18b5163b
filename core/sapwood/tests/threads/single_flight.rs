//! One resolver for a key at a time: who waits for whom, and whose answer is taken.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use sapwood::route::{RouteCache, Unresolved};

type Cache = RouteCache<u64, u64>;

fn cache(capacity: usize) -> Cache {
    Cache::builder()
        .capacity(capacity)
        .single_flight(true)
        .build()
}

/// The answer for a key, by this resolver.
fn ask(cache: &Cache, key: u64, resolver: impl FnOnce() -> u64) -> u64 {
    let resolve = |_: &u64| Ok::<_, ()>(resolver());
    cache
        .get_or_resolve(&key, cache.hash(&key), 7, resolve)
        .unwrap()
}

/// Waits until a number of threads is inside a resolver or waits for one: they have no mark, so
/// this waits for a while after they have come as far as they can tell.
fn settle() {
    thread::sleep(Duration::from_millis(if cfg!(miri) { 1 } else { 100 }));
}

#[test]
fn a_resolver_that_asks_for_its_own_key_is_answered_by_calling() {
    for capacity in [0, 64] {
        let cache = cache(capacity);
        let answer = ask(&cache, 1, || ask(&cache, 1, || 5) + 1);
        assert!(answer == 6 || answer == 5, "{answer}");
        // Through another key, and through another cache.
        let other = self::cache(capacity);
        let answer = ask(&cache, 2, || {
            ask(&cache, 3, || {
                ask(&other, 4, || ask(&cache, 2, || 10) + 1) + 1
            }) + 1
        });
        assert_eq!(answer, 13);
        cache.verify().unwrap();
        other.verify().unwrap();
    }
}

#[test]
fn resolvers_that_ask_for_each_others_keys_are_answered_by_calling() {
    for (threads, caches) in [(2u64, 1u64), (3, 1), (2, 2), (4, 3)] {
        let all: Vec<_> = (0..caches).map(|_| cache(64)).collect();
        let barrier = Barrier::new(threads as usize);
        let calls = AtomicUsize::new(0);
        let cache_of = |key: u64| &all[(key % caches) as usize];
        let (all_of, barrier, calls) = (&cache_of, &barrier, &calls);
        thread::scope(|scope| {
            for me in 0..threads {
                scope.spawn(move || {
                    let next = (me + 1) % threads;
                    let answer = ask(all_of(me), me, || {
                        barrier.wait();
                        // Each leads its own key now, and asks for the next one's.
                        let inner = ask(all_of(next), next, || {
                            calls.fetch_add(1, SeqCst);
                            1000 + next
                        });
                        assert!(inner == 1000 + next || inner == 2000 + next, "{inner}");
                        2000 + me
                    });
                    assert_eq!(answer, 2000 + me);
                });
            }
        });
        // At least one of them closed the circle; others may have waited for it.
        let calls = calls.load(SeqCst);
        assert!((1..=threads as usize).contains(&calls), "{calls}");
        all.iter().for_each(|cache| cache.verify().unwrap());
    }
}

/// Threads that wait take the answer, whether the cache keeps it or not.
#[test]
fn waiting_threads_take_the_answer_of_a_cache_that_keeps_nothing() {
    for capacity in [0, 1] {
        let cache = cache(capacity);
        let calls = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        let (cache, calls) = (&cache, &calls);
        thread::scope(|scope| {
            let leader = scope.spawn(move || {
                ask(cache, 1, || {
                    calls.fetch_add(1, SeqCst);
                    receive.recv().unwrap();
                    42
                })
            });
            while calls.load(SeqCst) == 0 {
                thread::yield_now();
            }
            let waiting: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(move || {
                        ask(cache, 1, || {
                            calls.fetch_add(1, SeqCst);
                            42
                        })
                    })
                })
                .collect();
            settle();
            send.send(()).unwrap();
            assert_eq!(leader.join().unwrap(), 42);
            for thread in waiting {
                assert_eq!(thread.join().unwrap(), 42);
            }
        });
        // A thread that was slow to start finds nobody to wait for in an empty cache.
        let calls = calls.load(SeqCst);
        assert!(calls < 8, "{calls} calls");
        let stats = cache.stats();
        assert_eq!((stats.hit + stats.miss, stats.miss), (9, calls as u64));
        cache.verify().unwrap();
    }
}

/// An answer that was resolved before an invalidation goes to nobody who asked after it.
#[test]
fn nobody_takes_an_answer_from_before_an_invalidation() {
    type Meanwhile = fn(&Cache);
    let cases: [Meanwhile; 3] = [
        |cache| _ = cache.invalidate(&1),
        |cache| cache.invalidate_all(),
        |cache| cache.insert(&1, cache.hash(&1), 7, 43),
    ];
    for capacity in [0, 64] {
        for meanwhile in cases {
            let cache = cache(capacity);
            let (entered, enter) = mpsc::channel();
            let (send, receive) = mpsc::channel();
            let cache = &cache;
            thread::scope(|scope| {
                let leader = scope.spawn(move || {
                    ask(cache, 1, || {
                        entered.send(()).unwrap();
                        receive.recv().unwrap();
                        42
                    })
                });
                enter.recv().unwrap();
                meanwhile(cache);
                let late = scope.spawn(|| ask(cache, 1, || 43));
                settle();
                send.send(()).unwrap();
                assert_eq!(leader.join().unwrap(), 42);
                assert_eq!(late.join().unwrap(), 43);
            });
            cache.verify().unwrap();
        }
    }
}

/// Two keys may have one hash, by a caller's own hash: the answer is that of one of them.
#[test]
fn an_answer_is_taken_for_its_own_key_only() {
    let cache = cache(0);
    let (entered, enter) = mpsc::channel();
    let (send, receive) = mpsc::channel();
    let ask = |key: u64, resolver: &dyn Fn() -> u64| {
        cache.get_or_resolve(&key, 5, 7, |_| Ok::<_, ()>(resolver()))
    };
    thread::scope(|scope| {
        let ask = &ask;
        let leader = scope.spawn(move || {
            ask(1, &|| {
                entered.send(()).unwrap();
                receive.recv().unwrap();
                42
            })
        });
        enter.recv().unwrap();
        let other = scope.spawn(move || ask(2, &|| 43));
        settle();
        send.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), Ok(42));
        assert_eq!(other.join().unwrap(), Ok(43));
    });
}

/// With a `negative_ttl`, a failure is an answer as well; without one, the next thread resolves.
#[test]
fn a_failure_is_taken_where_failures_are_remembered() {
    for remembers in [false, true] {
        let builder = Cache::builder().capacity(0).single_flight(true);
        let cache = match remembers {
            true => builder.negative_ttl(Duration::from_secs(1)).build(),
            false => builder.build(),
        };
        let (entered, enter) = mpsc::channel();
        let (send, receive) = mpsc::channel();
        let cache = &cache;
        let hash = cache.hash(&1);
        thread::scope(|scope| {
            let leader = scope.spawn(move || {
                cache.get_or_resolve(&1, hash, 7, |_| {
                    entered.send(()).unwrap();
                    receive.recv().unwrap();
                    Err("down")
                })
            });
            enter.recv().unwrap();
            let next = scope.spawn(move || cache.get_or_resolve(&1, hash, 7, |_| Err("still")));
            settle();
            send.send(()).unwrap();
            assert_eq!(leader.join().unwrap(), Err(Unresolved::Error("down")));
            let next = next.join().unwrap();
            if remembers {
                let late = next == Err(Unresolved::Error("still"));
                assert!(late || next == Err(Unresolved::Negative), "{next:?}");
            } else {
                assert_eq!(next, Err(Unresolved::Error("still")));
            }
        });
    }
}
