//! The route cache that programs fill. BPF, C in user space and a naive model give the same
//! answers. Other tests run all processors at once beside sweeps and invalidations, damage the
//! memory, and kill processes. `SAPWOOD_SOAK` sets the seconds of the threads' test.
#![cfg(feature = "kernel")]

use sapwood_bpf::{BpfArena, Loader, NextHop, ProgramRouteCache, RouteKey};

mod ask;
mod held;
mod killed;
mod model;
mod same;
mod threads;

use ask::*;

#[test]
fn what_people_do() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = ProgramRouteCache::builder(&arena, "flows").build().unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let hop = NextHop {
        ifindex: 3,
        mtu: 1500,
        dmac: [2, 0, 0, 0, 0, 1],
        ..NextHop::default()
    };
    let key = RouteKey::new("2001:db8::1".parse().unwrap(), 9, 0);
    let now = ProgramRouteCache::now();
    let ask = Ask {
        window: cache.window().number,
        now,
        key,
        ..Ask::default()
    };
    let nothing = run(&programs, "sw_ask", ask);
    assert_eq!(nothing.result, model::ENOENT);
    let ask = Ask {
        what: PUT,
        value: hop.into(),
        ticket: nothing.ticket,
        ..ask
    };
    assert_eq!(run(&programs, "sw_ask", ask).result, 0);
    let seen = cache.get(&key, now + FRESH - 1).unwrap();
    assert_eq!(NextHop::from(seen), hop);
    assert_eq!(hop.to_string(), "dev 3 lladdr 02:00:00:00:00:01 mtu 1500");
    assert_eq!(cache.get(&key, now + FRESH), None);
    // Another handle reads and changes the same cache.
    let other = ProgramRouteCache::open(&arena, "flows").unwrap();
    let entry = other.iter().next().unwrap();
    assert_eq!((entry.key, entry.value), (key, Some(hop.into())));
    assert_eq!(entry.age(now + 5), 5);
    assert_eq!(entry.key.destination(false).to_string(), "2001:db8::1");
    assert_eq!(other.sweep(now + KEEP - 1, usize::MAX).unwrap(), 0);
    assert!(other.invalidate(&key).unwrap());
    assert!(!other.invalidate(&key).unwrap());
    assert_eq!(cache.stats().invalidated, 1);
    // An answer that was being resolved when its key was invalidated.
    assert_eq!(run(&programs, "sw_ask", ask).result, model::ECANCELED);
    let again = run(&programs, "sw_ask", Ask { what: GET, ..ask });
    let ask = Ask {
        ticket: again.ticket,
        ..ask
    };
    assert_eq!(run(&programs, "sw_ask", ask).result, 0);
    cache.invalidate_all();
    assert_eq!((other.get(&key, now), other.iter().count()), (None, 0));
    assert_eq!(run(&programs, "sw_ask", ask).result, model::ECANCELED);
    assert_eq!(other.sweep(now, usize::MAX).unwrap(), 1);
    cache.verify().unwrap();
    assert_eq!(cache.occupancy(), 0);
    // Programs read the same clock.
    assert!(ProgramRouteCache::now() - now < 60_000 * MS);
    drop(other);
    drop(cache.leave());
    let cache = ProgramRouteCache::open(&arena, "flows").unwrap();
    assert_eq!(
        (cache.fresh().as_millis(), cache.keep().as_secs()),
        (100, 1)
    );
    let error = ProgramRouteCache::builder(&arena, "flows")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("there is one of this name"));
    let error = ProgramRouteCache::open(&arena, "other").unwrap_err();
    assert!(error.to_string().contains("\"flows\" (route)"), "{error}");
    let error = ProgramRouteCache::builder(&arena, "huge")
        .capacity(usize::MAX)
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    // A window that never existed, and a closed window.
    let ask = Ask { window: 9, ..ask };
    for what in [GET, PUT, SWEEP, INVALIDATE, INVALIDATE_ALL, 99] {
        assert_eq!(run(&programs, "sw_ask", Ask { what, ..ask }).result, -22);
    }
}
