//! Tables of groups.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use fastrand::Rng;
use sapwood::route::{Group, NullRoute};
use sapwood_capi::routes::*;
use sapwood_capi::routes_versions::*;
use sapwood_model::oracle::Prefix;

use super::{ABSENT, Both, Readers, SMALL, address, c_prefix, net, ops, rng, same};

#[test]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "places, handles and lists are this test's"
)]
fn routes_answer_as_the_oracle() {
    let (mut rng, _) = rng();
    let readers = Readers::new();
    let mut oracle: Both<Group<u64>> = Both::new();
    let mut routes = null_mut();
    assert_eq!(
        unsafe { sapwood_routes_new(readers.domain, &raw const SMALL, &raw mut routes) },
        0
    );
    // All prefixes, whose groups change together.
    let mut nets: Vec<(bool, Prefix)> = Vec::new();
    let group = |rng: &mut Rng| -> Vec<sapwood_member> {
        if rng.u8(0..6) == 0 {
            return vec![sapwood_member {
                hop: 0,
                weight: 0,
                null_route: rng.u32(1..5),
            }];
        }
        (0..rng.u8(0..5))
            .map(|_| sapwood_member {
                hop: rng.u64(0..6),
                weight: rng.u32(0..4),
                null_route: 0,
            })
            .collect()
    };
    let nulls = NullRoute::ALL;
    let made = |members: &[sapwood_member]| match members {
        [null] if null.null_route > 0 => Group::null(nulls[null.null_route as usize - 1]),
        members => Group::new(members.iter().map(|m| (m.hop, m.weight))),
    };
    for step in 0..ops(5_000) {
        let (v4, prefix) = net(&mut rng);
        let given = c_prefix(v4, prefix);
        let (addr, len) = address(v4, prefix);
        match rng.u8(0..14) {
            0..4 => {
                let members = group(&mut rng);
                let before = oracle.of(v4).insert(prefix, made(&members));
                let result = unsafe {
                    sapwood_routes_insert(routes, &raw const given, members.as_ptr(), members.len())
                };
                assert_eq!(result, c_int::from(before.is_none()));
                if before.is_none() {
                    nets.push((v4, prefix));
                }
            }
            4..6 => {
                let before = oracle.of(v4).remove(prefix);
                let result = unsafe { sapwood_routes_remove(routes, &raw const given) };
                assert_eq!(result, if before.is_some() { 0 } else { ABSENT });
                nets.retain(|net| *net != (v4, prefix));
            }
            6..10 => {
                let flow = rng.u64(..);
                let mut hop = 0;
                let expected = oracle
                    .of(v4)
                    .lookup(prefix.bits)
                    .and_then(|(_, group)| group.member(flow));
                let expected = expected.copied();
                let result = unsafe {
                    sapwood_routes_lookup(
                        routes,
                        readers.reader,
                        addr.as_ptr().cast(),
                        len,
                        flow,
                        &raw mut hop,
                    )
                };
                same(result, hop, expected);
                // The decision, with the prefix that it uses.
                let longest = oracle.of(v4).lookup(prefix.bits);
                let longest = longest.map(|(used, group)| (used, group.null_route()));
                let (mut matched, mut decided) = (c_prefix(v4, prefix), 0);
                let result = unsafe {
                    sapwood_routes_decide(
                        routes,
                        readers.reader,
                        addr.as_ptr().cast(),
                        len,
                        flow,
                        &raw mut matched,
                        &raw mut decided,
                    )
                };
                let kind = longest.and_then(|(_, kind)| kind);
                match (longest, expected, kind) {
                    (None, ..) => assert_eq!(result, ABSENT),
                    (_, Some(hop), _) => assert_eq!((result, decided), (0, hop)),
                    (_, None, Some(kind)) => {
                        assert_eq!(nulls[result as usize - 1], kind);
                    }
                    (_, None, None) => assert_eq!(result, -libc::ENETDOWN),
                }
                if let Some((used, _)) = longest {
                    assert_eq!(matched, c_prefix(v4, used));
                }
                let (mut all, mut count) = ([matched; 40], 0);
                let result = unsafe {
                    sapwood_routes_matches(
                        routes,
                        null(),
                        addr.as_ptr().cast(),
                        len,
                        all.as_mut_ptr(),
                        all.len(),
                        &raw mut count,
                    )
                };
                assert_eq!(result, 0);
                let covering = nets.iter().filter(|(of, net)| {
                    let there = oracle.of(v4).get(*net).is_some();
                    *of == v4 && there && Prefix::truncated(prefix.bits, net.len) == *net
                });
                assert_eq!(count, covering.count());
                if let Some((used, _)) = longest {
                    assert_eq!(all[count - 1], c_prefix(v4, used));
                }
                let addr4 = (prefix.bits >> 96) as u32;
                let result = unsafe {
                    if v4 {
                        sapwood_routes_lookup4_bulk(
                            routes,
                            null(),
                            &raw const addr4,
                            &raw const flow,
                            1,
                            77,
                            &raw mut hop,
                        )
                    } else {
                        sapwood_routes_lookup6_bulk(
                            routes,
                            null(),
                            addr.as_ptr(),
                            &raw const flow,
                            1,
                            77,
                            &raw mut hop,
                        )
                    }
                };
                assert_eq!((result, hop), (0, expected.unwrap_or(77)));
            }
            10 => {
                let (mut members, mut count) = (
                    [sapwood_member {
                        hop: 0,
                        weight: 0,
                        null_route: 0,
                    }; 8],
                    0,
                );
                let result = unsafe {
                    sapwood_routes_get(
                        routes,
                        &raw const given,
                        members.as_mut_ptr(),
                        8,
                        &raw mut count,
                    )
                };
                match oracle.of(v4).get(prefix) {
                    Some(group) => {
                        assert_eq!(result, 0);
                        assert_eq!(made(&members[..count]), *group);
                    }
                    None => assert_eq!(result, ABSENT),
                }
            }
            11 => {
                let (hop, weight) = (rng.u64(0..6), rng.u32(0..4));
                let remove = rng.bool();
                let mut changed = 0;
                for (v4, prefix) in &nets {
                    let group = oracle.of(*v4).get(*prefix).unwrap().clone();
                    if group.weight(&hop).is_some() {
                        let new = if remove {
                            group.without(&hop)
                        } else {
                            group.with(hop, weight)
                        };
                        oracle.of(*v4).insert(*prefix, new);
                        changed += 1;
                    }
                }
                let result = unsafe {
                    if remove {
                        sapwood_routes_remove_member(routes, hop)
                    } else {
                        sapwood_routes_set_weight(routes, hop, weight)
                    }
                };
                assert_eq!(result, changed);
            }
            12 => {
                let (old, new) = (group(&mut rng), group(&mut rng));
                let mut changed = 0;
                for (v4, prefix) in &nets {
                    if *oracle.of(*v4).get(*prefix).unwrap() == made(&old) {
                        oracle.of(*v4).insert(*prefix, made(&new));
                        changed += 1;
                    }
                }
                let result = unsafe {
                    sapwood_routes_replace_group(
                        routes,
                        old.as_ptr(),
                        old.len(),
                        new.as_ptr(),
                        new.len(),
                    )
                };
                assert_eq!(result, changed);
            }
            _ => {
                let mut txn = null_mut();
                assert_eq!(unsafe { sapwood_routes_begin(routes, &raw mut txn) }, 0);
                let (mut next, mut next_nets) = (oracle.clone(), nets.clone());
                for _ in 0..rng.u8(0..10) {
                    let (v4, prefix) = net(&mut rng);
                    let given = c_prefix(v4, prefix);
                    if rng.bool() {
                        let members = group(&mut rng);
                        let before = next.of(v4).insert(prefix, made(&members));
                        let result = unsafe {
                            sapwood_routes_txn_insert(
                                txn,
                                &raw const given,
                                members.as_ptr(),
                                members.len(),
                            )
                        };
                        assert_eq!(result, c_int::from(before.is_none()));
                        if before.is_none() {
                            next_nets.push((v4, prefix));
                        }
                    } else {
                        let before = next.of(v4).remove(prefix);
                        let result = unsafe { sapwood_routes_txn_remove(txn, &raw const given) };
                        assert_eq!(result, if before.is_some() { 0 } else { ABSENT });
                        next_nets.retain(|net| *net != (v4, prefix));
                    }
                }
                if rng.bool() {
                    assert_eq!(unsafe { sapwood_routes_txn_commit(txn) }, 0);
                    (oracle, nets) = (next, next_nets);
                } else {
                    assert_eq!(unsafe { sapwood_routes_txn_rollback(txn) }, 0);
                }
            }
        }
        if step % 256 == 0 {
            readers.quiescent();
            let mut count = 0;
            assert_eq!(
                unsafe { sapwood_routes_len(routes, &raw mut count, null_mut()) },
                0
            );
            assert_eq!(count, nets.len());
            assert_eq!(unsafe { sapwood_routes_verify(routes) }, 0);
            let mut emptied = 0;
            let result = unsafe { sapwood_routes_emptied(routes, null_mut(), 0, &raw mut emptied) };
            assert_eq!(result, 0);
            let void = nets.iter().filter(|(v4, prefix)| {
                let group = oracle.of(*v4).get(*prefix).unwrap();
                group.is_void()
            });
            assert_eq!(emptied, void.count());
        }
    }
    // Null routes that are none.
    let given = c_prefix(true, Prefix::truncated(0, 0));
    let member = |null_route| sapwood_member {
        hop: 0,
        weight: 1,
        null_route,
    };
    for refused in [&[member(5)][..], &[member(0), member(1)]] {
        let result = unsafe {
            sapwood_routes_insert(routes, &raw const given, refused.as_ptr(), refused.len())
        };
        assert_eq!(result, -libc::EINVAL);
    }
    unsafe { sapwood_routes_free(routes) };
    println!("{} operations", ops(5_000));
}
