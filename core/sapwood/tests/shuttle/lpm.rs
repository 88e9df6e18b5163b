//! Tables of prefixes with threads whose interleaving shuttle chooses: each answer is that of the
//! old table or of the new one.

use std::sync::Arc;

use sapwood::lpm::{Fib, V4};

use crate::check_random;
use crate::runs;
use crate::support::lpm as table;
use crate::support::progress;
use crate::support::script::{Script, ask_beside};

/// Runs a writer with six steps and two readers, under random schedules.
fn beside(seed: u64) {
    let place = |at: u32| 1_u128 << (127 - at);
    let addresses = [0, place(5), place(7), place(7) | place(13)];
    let script = Arc::new(Script::new::<V4>(seed, &addresses, &[0, 5, 6, 8, 14], 6));
    check_random(
        move || {
            let fib: Fib<V4, u32> = table::builder(6).build().unwrap();
            let asked = Arc::clone(&script);
            let write = |number: usize| script.steps[number].on_fib(&fib);
            progress::beside(
                &fib,
                script.steps.len(),
                write,
                move |fib, progress, number| {
                    let mut rng = fastrand::Rng::with_seed(seed + number);
                    let mut handle = fib.reader("test").unwrap();
                    for _ in 0..4 {
                        ask_beside(fib, handle.view(), &asked, progress, &mut rng);
                        handle.quiescent();
                    }
                },
            );
            fib.verify().unwrap();
        },
        runs(60),
    );
}

#[test]
fn lookups_are_of_the_old_table_or_the_new() {
    for seed in 0..40 {
        beside(seed);
    }
}

/// A root grows beside a reader that looks through one view.
#[test]
fn a_root_grows() {
    let (short, long) = ("8.0.0.0/7".parse().unwrap(), "8.1.2.0/24".parse().unwrap());
    check_random(
        move || {
            let fib: Fib<V4, u32> = table::builder(0).build().unwrap();
            let mut txn = fib.begin();
            for i in 0..254_u32 {
                let net = ipnet::Ipv4Net::new((16 << 24 | i << 8).into(), 24);
                txn.insert(net.unwrap(), 3).unwrap();
            }
            txn.insert(short, 1).unwrap();
            txn.commit();
            let reader = {
                let fib = fib.clone();
                shuttle::thread::spawn(move || {
                    let handle = fib.reader("test").unwrap();
                    let view = handle.view();
                    for _ in 0..6 {
                        let addr = [8, 1, 2, 3].into();
                        assert!(view.lookup_value(addr).is_some());
                        assert!(view.lookup(addr).is_some());
                        let mut batch = [None; 2];
                        view.lookup_batch(&[addr, addr], &mut batch);
                        assert!(batch.iter().all(Option::is_some));
                    }
                })
            };
            fib.insert(long, 2).unwrap();
            assert_eq!(fib.root_bits(), 12);
            fib.remove(short).unwrap();
            reader.join().unwrap();
            fib.verify().unwrap();
        },
        runs(60),
    );
}

/// One of two prefixes is present at all times, so every lookup must find one. A lookup that read
/// two root words, or a changing node, could find neither.
#[test]
fn a_long_prefix_comes_and_a_short_one_goes() {
    for (short, long) in [
        ("8.0.0.0/5", "8.1.2.0/24"),
        ("8.0.0.0/7", "8.1.2.0/24"),
        ("8.0.0.0/7", "8.1.0.0/16"),
        ("8.0.0.0/8", "8.1.2.0/23"),
    ] {
        let (short, long) = (short.parse().unwrap(), long.parse().unwrap());
        check_random(
            move || {
                let fib: Fib<V4, u32> = table::builder(6).build().unwrap();
                fib.insert(short, 1).unwrap();
                let reader = {
                    let fib = fib.clone();
                    shuttle::thread::spawn(move || {
                        let mut handle = fib.reader("test").unwrap();
                        for _ in 0..4 {
                            let view = handle.view();
                            let addr = [8, 1, 2, 3].into();
                            assert!(view.lookup_value(addr).is_some());
                            assert!(view.lookup(addr).is_some());
                            let mut batch = [None; 2];
                            view.lookup_batch(&[addr, addr], &mut batch);
                            assert!(batch.iter().all(Option::is_some));
                            handle.quiescent();
                        }
                    })
                };
                for _ in 0..3 {
                    fib.insert(long, 2).unwrap();
                    fib.remove(short).unwrap();
                    fib.insert(short, 1).unwrap();
                    fib.remove(long).unwrap();
                }
                reader.join().unwrap();
            },
            20 * runs(60),
        );
    }
}
