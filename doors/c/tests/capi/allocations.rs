//! What the table of the README says of memory: lookups and steps allocate nothing.

use std::ffi::c_int;
use std::ptr::{from_ref, null, null_mut};

use sapwood_capi::cache::*;
use sapwood_capi::closest::*;
use sapwood_capi::domain::sapwood_domain_new;
use sapwood_capi::fib::*;
use sapwood_capi::iter::*;
use sapwood_capi::live_read::*;
use sapwood_capi::live_reader::*;
use sapwood_capi::live_writers::*;
use sapwood_capi::map::*;
use sapwood_capi::maps::*;
use sapwood_capi::point_map::*;
use sapwood_capi::prefix::{sapwood_prefix, sapwood_prefix_parse};
use sapwood_capi::ranges::*;
use sapwood_capi::ranges_plans::*;
use sapwood_capi::ranges_read::*;
use sapwood_capi::ranges_versions::*;
use sapwood_capi::reader::*;
use sapwood_capi::routes::*;
use sapwood_capi::shared_map::*;
use sapwood_capi::snapshot::*;
use sapwood_capi::store::*;
use sapwood_capi::value::*;
use sapwood_capi::view::*;

use sapwood_model::allocations::{Counting, allocations};

use crate::door::{NOTHING, raw};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a call that must have this result, and allocate nothing.
fn quiet(what: &str, wanted: c_int, call: impl Fn() -> c_int) {
    let before = allocations();
    let result = call();
    let allocations = allocations() - before;
    assert_eq!(
        (result, allocations),
        (wanted, 0),
        "{what}: result, allocations"
    );
}

const NAMES: [&[u8]; 4] = [b"ash", b"elm", b"elmwood", b"oak"];

#[test]
fn lookups_and_steps_allocate_nothing() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert!(allocations() > before, "allocations are counted");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        std::ffi::CString::new(
            folder
                .path()
                .join(name)
                .into_os_string()
                .into_encoded_bytes(),
        )
        .unwrap()
    };
    let options = sapwood_options::default();
    let (mut domain, mut reader) = (null_mut(), null_mut());
    let (mut map, mut store, mut shared, mut point) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut fib, mut routes, mut ranges, mut cache) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut snapshot, mut iter) = (null_mut(), null_mut());
    let (mut live, mut zones, mut near) = (null_mut(), null_mut(), null_mut());
    let mut prefix = sapwood_prefix::default();
    let mut view = std::mem::MaybeUninit::<sapwood_view>::uninit();
    let member = sapwood_member {
        hop: 5,
        weight: 1,
        null_route: 0,
    };
    // SAFETY: the arguments are as the header asks for, here and below.
    unsafe {
        assert_eq!(sapwood_domain_new(null(), &raw mut domain), 0);
        assert_eq!(
            sapwood_reader_new(domain, c"main".as_ptr(), &raw mut reader),
            0
        );
        let plain = from_ref(&options);
        let in_domain = sapwood_options {
            domain,
            ..Default::default()
        };
        let with_index = sapwood_options {
            domain,
            flags: 4,
            ..Default::default()
        };
        assert_eq!(sapwood_map_new(plain, &raw mut map), 0);
        assert_eq!(sapwood_store_new(&raw const in_domain, &raw mut store), 0);
        assert_eq!(
            sapwood_shared_new(&raw const with_index, &raw mut shared),
            0
        );
        assert_eq!(sapwood_point_new(&raw const in_domain, &raw mut point), 0);
        assert_eq!(sapwood_fib_new(domain, null(), &raw mut fib), 0);
        assert_eq!(sapwood_routes_new(domain, null(), &raw mut routes), 0);
        assert_eq!(sapwood_ranges_new(domain, null(), &raw mut ranges), 0);
        assert_eq!(sapwood_cache_new(null(), &raw mut cache), 0);
        let at = path("live");
        let made =
            sapwood_store_live_create(at.as_ptr(), null(), plain, &raw mut live, &raw mut zones);
        assert_eq!(made, 0);
        let mut value = NOTHING.value;
        value.number = 7;
        for name in NAMES {
            let ((key, len), value) = (raw(name), from_ref(&value));
            assert_eq!(sapwood_map_insert(map, key, len, value), 1);
            assert_eq!(sapwood_store_insert(store, key, len, value), 1);
            assert_eq!(sapwood_shared_insert(shared, key, len, value), 1);
            assert_eq!(sapwood_point_insert(point, key, len, value), 1);
            assert_eq!(sapwood_store_insert(zones, key, len, value), 1);
        }
        assert_eq!(
            sapwood_prefix_parse(c"10.0.0.0/8".as_ptr(), &raw mut prefix),
            0
        );
        assert_eq!(sapwood_fib_insert(fib, &raw const prefix, 1, null_mut()), 1);
        assert_eq!(
            sapwood_routes_insert(routes, &raw const prefix, &raw const member, 1),
            1
        );
        assert_eq!(sapwood_ranges_store(ranges, 1, 9, 1), 0);
        assert_eq!(sapwood_cache_put(cache, raw(b"key").0, 3, 1, 2), 0);
        assert_eq!(sapwood_store_snapshot(store, &raw mut snapshot), 0);
        assert_eq!(
            sapwood_live_reader_open(at.as_ptr(), 1, 0, 0, &raw mut near),
            0
        );

        let mut place = NOTHING;
        let (out, entry) = (&raw mut value, &raw mut place);
        let (yes, no) = (raw(b"elm"), raw(b"yew"));
        for (key, wanted) in [(yes, 0), (no, -libc::ENOENT)] {
            quiet("map", wanted, || sapwood_map_get(map, key.0, key.1, out));
            quiet("store", wanted, || {
                sapwood_store_get(store, reader, key.0, key.1, out)
            });
            quiet("shared", wanted, || {
                sapwood_shared_get(shared, reader, key.0, key.1, out)
            });
            quiet("point", wanted, || {
                sapwood_point_get(point, reader, key.0, key.1, out)
            });
            quiet("snapshot", wanted, || {
                sapwood_snapshot_get(snapshot, key.0, key.1, out)
            });
            quiet("live", wanted, || sapwood_live_get(near, key.0, key.1, out));
        }
        let mut all = NAMES.map(|name| sapwood_bytes {
            data: raw(name).0,
            len: name.len(),
        });
        let (keys, mut found) = (all.as_mut_ptr(), [0; 4]);
        let mut values = [NOTHING.value; 4];
        let (to, there) = (values.as_mut_ptr(), found.as_mut_ptr());
        quiet("many", 4, || sapwood_map_get_many(map, keys, 4, to, there));
        quiet("many", 4, || {
            sapwood_store_get_many(store, reader, keys, 4, to, there)
        });
        quiet("many", 4, || {
            sapwood_point_get_many(point, reader, keys, 4, to, there)
        });

        for which in 0..4 {
            let view = view.as_mut_ptr();
            quiet("view", 0, || match which {
                0 => sapwood_map_view(map, view),
                1 => sapwood_store_view(store, reader, view),
                2 => sapwood_shared_view(shared, reader, view),
                _ => sapwood_live_view(near, view),
            });
            let (key, len) = yes;
            let mut closest = std::mem::zeroed::<sapwood_closest>();
            closest.size = size_of::<sapwood_closest>();
            let closest = &raw mut closest;
            quiet("view_get", 0, || sapwood_view_get(view, key, len, out));
            quiet("first", 0, || sapwood_view_first(view, entry));
            quiet("last", 0, || sapwood_view_last(view, entry));
            quiet("after", 0, || sapwood_view_after(view, key, len, entry));
            quiet("before", 0, || sapwood_view_before(view, key, len, entry));
            let (long, len) = raw(b"elmwoods");
            // Shared maps gather the whole chain.
            if which != 2 {
                quiet("longest", 0, || {
                    sapwood_view_longest_prefix(view, long, len, entry)
                });
            }
            let none = -libc::ENOENT;
            quiet("closest", none, || {
                sapwood_view_closest(view, long, len, None, null_mut(), closest)
            });
            assert_eq!(sapwood_iter_new(view, &raw mut iter), 0);
            for _ in NAMES {
                quiet("next", 0, || sapwood_iter_next(iter, entry));
            }
            quiet("next", none, || sapwood_iter_next(iter, entry));
            quiet("prev", 0, || sapwood_iter_prev(iter, entry));
            sapwood_iter_free(iter);
        }

        let mut number = 0;
        let (to, mut hops) = (&raw mut number, [0; 2]);
        let addrs = [0x0a00_0001_u32, 0x0b00_0001];
        let (from, into) = (addrs.as_ptr(), hops.as_mut_ptr());
        quiet("lookup4", 0, || {
            sapwood_fib_lookup4(fib, reader, addrs[0], to)
        });
        quiet("lookup4", -libc::ENOENT, || {
            sapwood_fib_lookup4(fib, reader, addrs[1], to)
        });
        quiet("bulk", 0, || {
            sapwood_fib_lookup4_bulk(fib, reader, from, 2, 9, into)
        });
        let (addr, len) = raw(&[10, 0, 0, 1]);
        quiet("fib", 0, || {
            sapwood_fib_lookup(fib, reader, addr, len, null_mut(), to)
        });
        quiet("routes", 0, || {
            sapwood_routes_lookup(routes, reader, addr, len, 3, to)
        });
        quiet("range", 0, || sapwood_ranges_get(ranges, reader, 5, to));
        quiet("gap", 0, || {
            sapwood_ranges_find_gap(ranges, reader, 5, null(), to)
        });
        quiet("covered", 0, || sapwood_ranges_covered(ranges, reader, to));
        let mut txn = null_mut();
        assert_eq!(sapwood_ranges_begin(ranges, &raw mut txn), 0);
        for n in 2..200 {
            assert_eq!(sapwood_ranges_txn_store(txn, 10 * n, 10 * n + 5, n), 0);
        }
        assert_eq!(sapwood_ranges_txn_clear(txn, 1, 9), 0);
        quiet("range in a transaction", 0, || {
            sapwood_ranges_txn_get(txn, 25, to)
        });
        quiet("gap in a transaction", 0, || {
            sapwood_ranges_txn_find_gap(txn, 5, null(), to)
        });
        quiet("commit", 0, || sapwood_ranges_txn_commit(txn));
        let (mut plan, mut held) = (null_mut(), null_mut());
        let planned = sapwood_ranges_plan_store(ranges, 27, 1_000, &raw mut plan);
        assert_eq!(planned, 0);
        assert_eq!(sapwood_ranges_reserve(ranges, plan, &raw mut held), 0);
        quiet("reserved store", 0, || {
            sapwood_ranges_reservation_store(held, 1)
        });
        sapwood_ranges_plan_free(plan);
        let planned = sapwood_ranges_plan_clear(ranges, 100, 1_200, &raw mut plan);
        assert_eq!(planned, 0);
        assert_eq!(sapwood_ranges_reserve(ranges, plan, &raw mut held), 0);
        quiet("reserved removal", 0, || {
            sapwood_ranges_reservation_erase(held)
        });
        sapwood_ranges_plan_free(plan);
        quiet("cache", 0, || {
            sapwood_cache_get(cache, raw(b"key").0, 3, 1, to)
        });
        quiet("quiescent", 0, || sapwood_reader_quiescent(reader));
        quiet("quiescent", 0, || sapwood_live_reader_quiescent(near));
        quiet("offline", 0, || sapwood_reader_offline(reader));
        quiet("online", 0, || sapwood_reader_online(reader));
        // The first pin of a thread may allocate; those after it do not.
        assert_eq!(sapwood_fib_lookup4(fib, null(), addrs[0], to), 0);
        quiet("pinned", 0, || {
            sapwood_fib_lookup4(fib, null(), addrs[0], to)
        });

        sapwood_live_reader_free(near);
        sapwood_snapshot_free(snapshot);
        sapwood_cache_free(cache);
        sapwood_ranges_free(ranges);
        sapwood_routes_free(routes);
        sapwood_fib_free(fib);
        sapwood_point_free(point);
        sapwood_shared_free(shared);
        sapwood_store_free(store);
        sapwood_store_free(zones);
        sapwood_map_free(map);
        sapwood_reader_free(reader);
        sapwood_capi::domain::sapwood_domain_free(domain);
        assert_eq!(sapwood_live_remove(live), 0);
    }
}
