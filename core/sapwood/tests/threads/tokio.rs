//! Tokio tasks that read through the hooks of the feature `tokio`.
#![cfg(all(feature = "tokio", not(any(shuttle, miri))))]

use std::sync::Arc;
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;
use sapwood::qsbr::tokio_hooks;

#[test]
fn tasks_read_without_a_pin_and_parked_workers_hold_nothing_back() {
    let store = Arc::new(QpStore::new().unwrap());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    tokio_hooks::install(builder.worker_threads(2), store.domain());
    let runtime = builder.build().unwrap();
    let commit = |value: u64| {
        let mut txn = store.begin();
        txn.insert("a", value).unwrap();
        txn.insert("b", value).unwrap();
        txn.commit();
    };
    commit(0);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            runtime.spawn(async move {
                let mut last = 0;
                for _ in 0..1_000 {
                    let seen = tokio_hooks::with_guard(store.domain(), |guard| {
                        let view = store.view(guard);
                        (view.get("a").copied(), view.get("b").copied())
                    });
                    let (Some(a), Some(b)) = seen else {
                        panic!("both are there: {seen:?}")
                    };
                    assert!(a == b && a >= last, "{a} {b} after {last}");
                    last = a;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for value in 1..2_000 {
        commit(value);
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    // The workers are alive and parked.
    let end = Instant::now() + Duration::from_secs(20);
    while store.memory().waiting.0 > 0 && Instant::now() < end {
        store.reclaim(usize::MAX);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(store.memory().waiting.0, 0);
    store.verify().unwrap();
}
