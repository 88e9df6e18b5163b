//! Tables of numbers.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::{null, null_mut};

use sapwood_capi::fib::*;
use sapwood_capi::fib_covers::*;
use sapwood_capi::fib_versions::*;
use sapwood_capi::prefix::sapwood_prefix;
use sapwood_model::oracle::Prefix;

use super::{Both, Readers, SMALL, address, c_prefix, net, of_c, ops, rng, same};

#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn fibs_answer_as_the_oracle() {
    let (mut rng, _) = rng();
    let readers = Readers::new();
    let mut oracle = Both::new();
    let mut fib = null_mut();
    assert_eq!(
        unsafe { sapwood_fib_new(readers.domain, &raw const SMALL, &raw mut fib) },
        0
    );
    for step in 0..ops(5_000) {
        let (v4, prefix) = net(&mut rng);
        let given = c_prefix(v4, prefix);
        let (addr, len) = address(v4, prefix);
        let mut value = 0;
        match rng.u8(0..13) {
            12 => {
                let mut expected = Vec::new();
                for len in 0..=prefix.len {
                    let at = Prefix::truncated(prefix.bits, len);
                    expected.extend(oracle.of(v4).get(at).map(|value| (at, *value)));
                }
                let (mut nets, mut values) = ([sapwood_prefix::default(); 129], [0; 129]);
                let (found, longest) = unsafe {
                    let room = (nets.as_mut_ptr(), values.as_mut_ptr());
                    let at = &raw const given;
                    let mut longest = sapwood_prefix::default();
                    let count = sapwood_fib_covering(fib, readers.reader, at, room.0, room.1, 129);
                    let result = sapwood_fib_lookup_prefix(
                        fib,
                        readers.reader,
                        at,
                        &raw mut longest,
                        &raw mut value,
                    );
                    same(result, value, expected.last().map(|(_, value)| *value));
                    (usize::try_from(count).unwrap(), of_c(&longest))
                };
                let found = nets[..found].iter().zip(values);
                let found: Vec<_> = found.map(|(net, value)| (of_c(net).1, value)).collect();
                assert_eq!(found, expected);
                if let Some((last, _)) = expected.last() {
                    assert_eq!(longest, (v4, *last));
                }
            }
            0..4 => {
                let new = rng.u64(0..50);
                let before = oracle.of(v4).insert(prefix, new);
                let result =
                    unsafe { sapwood_fib_insert(fib, &raw const given, new, &raw mut value) };
                assert_eq!(result, c_int::from(before.is_none()));
                assert_eq!(value, before.unwrap_or(0));
            }
            4..6 => {
                let before = oracle.of(v4).remove(prefix);
                let result = unsafe { sapwood_fib_remove(fib, &raw const given, &raw mut value) };
                same(result, value, before);
            }
            6 => {
                let expected = oracle.of(v4).get(prefix).copied();
                let result = unsafe { sapwood_fib_get(fib, &raw const given, &raw mut value) };
                same(result, value, expected);
            }
            7..9 => {
                let reader = if rng.bool() {
                    readers.reader
                } else {
                    null_mut()
                };
                let mut matched = sapwood_prefix::default();
                let result = unsafe {
                    sapwood_fib_lookup(
                        fib,
                        reader,
                        addr.as_ptr().cast(),
                        len,
                        &raw mut matched,
                        &raw mut value,
                    )
                };
                let expected = oracle.of(v4).lookup(prefix.bits);
                same(result, value, expected.map(|(_, value)| *value));
                if let Some((longest, _)) = expected {
                    assert_eq!(of_c(&matched), (v4, longest));
                }
                let result = unsafe {
                    if v4 {
                        let addr = (prefix.bits >> 96) as u32;
                        sapwood_fib_lookup4(fib, reader, addr, &raw mut value)
                    } else {
                        sapwood_fib_lookup6(fib, reader, addr.as_ptr(), &raw mut value)
                    }
                };
                same(result, value, expected.map(|(_, value)| *value));
            }
            9 => {
                let many = rng.usize(0..200);
                let nets: Vec<Prefix> = std::iter::repeat_with(|| net(&mut rng))
                    .filter(|(family, _)| *family == v4)
                    .map(|(_, prefix)| prefix)
                    .take(many)
                    .collect();
                let mut values = vec![0; many];
                let result = unsafe {
                    if v4 {
                        let addrs: Vec<u32> = nets.iter().map(|p| (p.bits >> 96) as u32).collect();
                        sapwood_fib_lookup4_bulk(
                            fib,
                            readers.reader,
                            addrs.as_ptr(),
                            many,
                            77,
                            values.as_mut_ptr(),
                        )
                    } else {
                        let addrs: Vec<u8> =
                            nets.iter().flat_map(|p| p.bits.to_be_bytes()).collect();
                        sapwood_fib_lookup6_bulk(
                            fib,
                            readers.reader,
                            addrs.as_ptr(),
                            many,
                            77,
                            values.as_mut_ptr(),
                        )
                    }
                };
                assert_eq!(result, 0);
                let table = oracle.of(v4);
                for (net, value) in nets.iter().zip(values) {
                    let expected = table.lookup(net.bits).map_or(77, |(_, value)| *value);
                    assert_eq!(value, expected);
                }
            }
            10 => {
                let mut txn = null_mut();
                assert_eq!(unsafe { sapwood_fib_begin(fib, &raw mut txn) }, 0);
                let mut next = oracle.clone();
                for _ in 0..rng.u8(0..20) {
                    let (v4, prefix) = net(&mut rng);
                    let given = c_prefix(v4, prefix);
                    let mut value = 0;
                    if rng.bool() {
                        let new = rng.u64(0..50);
                        let before = next.of(v4).insert(prefix, new);
                        let result = unsafe {
                            sapwood_fib_txn_insert(txn, &raw const given, new, &raw mut value)
                        };
                        assert_eq!(
                            (result, value),
                            (c_int::from(before.is_none()), before.unwrap_or(0))
                        );
                    } else {
                        let before = next.of(v4).remove(prefix);
                        let result = unsafe {
                            sapwood_fib_txn_remove(txn, &raw const given, &raw mut value)
                        };
                        same(result, value, before);
                    }
                    let (addr, len) = address(v4, prefix);
                    let result = unsafe {
                        sapwood_fib_txn_lookup(txn, addr.as_ptr().cast(), len, &raw mut value)
                    };
                    same(
                        result,
                        value,
                        next.of(v4).lookup(prefix.bits).map(|(_, value)| *value),
                    );
                }
                if rng.bool() {
                    assert_eq!(unsafe { sapwood_fib_txn_commit(txn) }, 0);
                    oracle = next;
                } else {
                    assert_eq!(unsafe { sapwood_fib_txn_rollback(txn) }, 0);
                }
            }
            _ => {
                // All of a snapshot, in order.
                let (mut snapshot, mut iter) = (null_mut(), null_mut());
                unsafe {
                    assert_eq!(sapwood_fib_snapshot_new(fib, &raw mut snapshot), 0);
                    assert_eq!(sapwood_fib_iter_new(snapshot, &raw mut iter), 0);
                    sapwood_fib_snapshot_free(snapshot);
                }
                let mut at = sapwood_prefix::default();
                let mut last = None;
                let mut count = 0;
                while unsafe { sapwood_fib_iter_next(iter, &raw mut at, &raw mut value) } == 0 {
                    let (v4, prefix) = of_c(&at);
                    assert_eq!(oracle.of(v4).get(prefix), Some(&value));
                    assert!(last < Some((!v4, prefix)), "{last:?}");
                    last = Some((!v4, prefix));
                    count += 1;
                }
                assert_eq!(count, oracle.len());
                unsafe { sapwood_fib_iter_free(iter) };
            }
        }
        let mut len = 0;
        assert_eq!(unsafe { sapwood_fib_len(fib, &raw mut len) }, 0);
        assert_eq!(len, oracle.len());
        if step % 256 == 0 {
            readers.quiescent();
            assert_eq!(unsafe { sapwood_fib_verify(fib) }, 0);
        }
    }
    unsafe { sapwood_fib_free(fib) };
    println!("{} operations", ops(5_000));
}

/// A lookup by a function of C gives what one of Rust gives, for addresses written both ways.
#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places and handles are this test's"
)]
fn addresses_are_in_the_orders_that_the_header_says() {
    let readers = Readers::new();
    let mut fib = null_mut();
    let (one, two) = (
        Ipv4Addr::new(192, 0, 2, 1),
        "2001:db8::1".parse::<Ipv6Addr>().unwrap(),
    );
    let mut value = 0;
    unsafe {
        assert_eq!(
            sapwood_fib_new(readers.domain, &raw const SMALL, &raw mut fib),
            0
        );
        let mut net = sapwood_prefix::default();
        for (text, hop) in [(c"192.0.2.0/24", 4), (c"2001:db8::/32", 6)] {
            assert_eq!(
                sapwood_capi::prefix::sapwood_prefix_parse(text.as_ptr(), &raw mut net),
                0
            );
            assert_eq!(sapwood_fib_insert(fib, &raw const net, hop, null_mut()), 1);
        }
        assert_eq!(
            sapwood_fib_lookup4(fib, null(), one.to_bits(), &raw mut value),
            0
        );
        assert_eq!(value, 4);
        let octets = two.octets();
        assert_eq!(
            sapwood_fib_lookup6(fib, null(), octets.as_ptr(), &raw mut value),
            0
        );
        assert_eq!(value, 6);
        let octets = one.octets();
        let at = octets.as_ptr().cast();
        assert_eq!(
            sapwood_fib_lookup(fib, null(), at, 4, null_mut(), &raw mut value),
            0
        );
        assert_eq!(value, 4);
        sapwood_fib_free(fib);
    }
}
