//! The tables of IP prefixes compared with the oracle, and their failures.

use sapwood::lpm::Error;
use sapwood::lpm::{Fib, IpFib, Ipv4Fib, Ipv6Fib, V4, V6};
use sapwood_model::oracle::{Lpm, Prefix};

use crate::support::lpm::{
    self as table, Kind, address, agree, builder, prefix, run_fib, small, steps,
};

fn differential<F: Kind>(bits: u8, seed: u64, count: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    run_fib::<F>(builder(bits), &mut rng, count, 8, false);
}

#[test]
fn v4_small_root() {
    differential::<V4>(6, 1, steps(3000));
}

#[test]
fn v4_middle_root() {
    differential::<V4>(12, 2, steps(3000));
}

#[test]
fn v6_small_root() {
    differential::<V6>(6, 3, steps(3000));
}

#[test]
fn v6_middle_root() {
    differential::<V6>(12, 4, steps(2000));
}

#[test]
fn v4_full_root() {
    // Verifying reads each of the 2^18 words.
    differential::<V4>(18, 5, if cfg!(miri) { 3 } else { steps(150) });
}

/// All prefixes of a 10-bit space, after `skip` bits that are equal in all.
fn all_of_ten_bits(skip: u8) -> Vec<Prefix> {
    let at = |len: u8, bits: u128| {
        // A fixed, irregular beginning.
        let front = (0xa5c3_96f0_u128 << 96) & !(u128::MAX.checked_shr(skip.into()).unwrap_or(0));
        Prefix::truncated(front | bits << (128 - skip - len).min(127), skip + len)
    };
    (0..=10)
        .flat_map(|len| {
            (0..1_u128 << len).map(move |bits| at(len, if len == 0 { 0 } else { bits }))
        })
        .collect()
}

/// Inserts and removes every prefix of a small space in random order. After some steps, looks up
/// every address of the space.
fn exhaustive<F: Kind>(bits: u8, skip: u8, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut all = all_of_ten_bits(skip);
    let addresses: Vec<u128> = all
        .iter()
        .filter(|p| p.len == skip + 10)
        .map(|p| {
            p.bits
                | (u128::MAX >> 1 >> (p.len - 1))
                    & !(u128::MAX.checked_shr(F::WIDTH.into()).unwrap_or(0))
        })
        .collect();
    assert_eq!((all.len(), addresses.len()), (2047, 1024));
    let fib: Fib<F, u32> = builder(bits).build().unwrap();
    let mut oracle = Lpm::new(F::WIDTH);
    let compare = |fib: &Fib<F, u32>, oracle: &Lpm<u32>| {
        agree(fib, oracle);
        let addrs: Vec<F::Addr> = addresses.iter().map(|a| F::addr(*a)).collect();
        fib.read(|view| {
            let mut batch = vec![None; addrs.len()];
            view.lookup_batch(&addrs, &mut batch);
            for ((a, addr), found) in addresses.iter().zip(&addrs).zip(batch) {
                assert_eq!(found, oracle.lookup(*a).map(|f| f.1));
                assert_eq!(found, view.lookup_value(*addr));
                assert_eq!(view.lookup_value_or(*addr, &99), found.unwrap_or(&99));
            }
            let mut batch = vec![&0; addrs.len()];
            view.lookup_batch_or(&addrs, &99, &mut batch);
            assert!(
                addrs
                    .iter()
                    .zip(batch)
                    .all(|(a, v)| v == view.lookup_value_or(*a, &99))
            );
        });
    };
    for removing in [false, true] {
        rng.shuffle(&mut all);
        for (i, p) in all.iter().enumerate() {
            if removing {
                assert_eq!(fib.remove(F::net(*p)).unwrap(), oracle.remove(*p));
            } else {
                let v = rng.u32(0..4);
                assert_eq!(fib.insert(F::net(*p), v).unwrap(), oracle.insert(*p, v));
            }
            if i % if cfg!(miri) { 1000 } else { 200 } == 0 {
                compare(&fib, &oracle);
            }
        }
        compare(&fib, &oracle);
    }
    assert!(fib.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "minutes; the differential tests meet the same code")]
fn all_prefixes_of_a_small_space_in_the_root() {
    exhaustive::<V4>(12, 0, 1);
}

#[test]
#[cfg_attr(miri, ignore = "as above")]
fn all_prefixes_of_a_small_space_across_the_root() {
    exhaustive::<V4>(6, 0, 2);
    exhaustive::<V6>(6, 3, 3);
}

#[test]
#[cfg_attr(miri, ignore = "as above")]
fn all_prefixes_of_a_small_space_at_the_end_of_addresses() {
    exhaustive::<V4>(12, 22, 4);
    exhaustive::<V6>(12, 118, 5);
}

#[test]
#[cfg_attr(miri, ignore = "as above")]
fn all_prefixes_of_a_small_space_while_the_root_grows() {
    exhaustive::<V4>(0, 0, 6);
    exhaustive::<V4>(0, 13, 7);
    exhaustive::<V6>(0, 3, 8);
}

/// `count` different prefixes of a family, with values, in random order. Some are shorter than the
/// smallest root, and some lie in others.
fn many<F: Kind>(count: usize, seed: u64) -> Vec<(Prefix, u32)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut all = std::collections::BTreeMap::new();
    while all.len() < count {
        let len = [3, 6, 8, 12, 16, 17, 18, 19, 22, 24, 24, 24, 28, 32][rng.usize(0..14)];
        all.insert(Prefix::truncated(rng.u128(..), len), rng.u32(0..50));
    }
    let mut all: Vec<_> = all.into_iter().collect();
    rng.shuffle(&mut all);
    all
}

/// The bits of the root at a number of prefixes.
const ROOTS: [(usize, u8); 4] = [(255, 6), (256, 12), (16_383, 12), (16_384, 18)];

fn grows<F: Kind>(seed: u64) {
    let all = many::<F>(17_000, seed);
    let fib: Fib<F, u32> = builder(0).build().unwrap();
    let mut oracle = Lpm::new(F::WIDTH);
    let addresses: Vec<u128> = (all.iter().step_by(97).map(|(p, _)| p.bits))
        .chain((0..200).map(|i| i << 120 | i << 90))
        .collect();
    // A reader without a quiescent state: its first view sees every later table as well.
    let reader = fib.reader("old").unwrap();
    let old = reader.view();
    // Walks that begin before the root grows, with what they have seen and what was there.
    let mut walks = Vec::new();
    for (i, (p, value)) in all.iter().enumerate() {
        assert_eq!(fib.insert(F::net(*p), *value).unwrap(), None);
        oracle.insert(*p, *value);
        let len = i + 1;
        if [1, 200, 250, 5000, 16_000].contains(&len) {
            for steps in [0, 1, len / 3, len / 2, len] {
                let mut walk = old.iter();
                let seen: Vec<_> = walk
                    .by_ref()
                    .take(steps)
                    .map(|(n, _)| F::prefix(n))
                    .collect();
                walks.push((walk, seen, len));
            }
            let mut from = old.iter_from(F::net(*p));
            let seen = vec![F::prefix(from.next().unwrap().0)];
            assert_eq!(seen, [*p]);
            walks.push((from, seen, len));
        }
        if let Some((_, bits)) = ROOTS.iter().find(|(at, _)| *at == len) {
            assert_eq!((fib.root_bits(), fib.len()), (*bits, len));
            assert_eq!(fib.version(), len as u64);
            for &address in &addresses {
                for p in [Prefix::truncated(address, 16), all[i / 2].0] {
                    table::ask(&fib, &oracle, address, p);
                    let addr = F::addr(address);
                    let found = old.lookup(addr).map(|(net, v)| (F::prefix(net), v));
                    assert_eq!(found, oracle.lookup(address));
                    assert_eq!(old.get(F::net(p)), oracle.get(p));
                    let matches: Vec<_> =
                        old.matches(addr).map(|(n, v)| (F::prefix(n), v)).collect();
                    assert_eq!(matches, oracle.matches(address));
                }
            }
            let sorted = |mut some: Vec<Prefix>| {
                some.sort_by_key(|p| (p.bits, p.len));
                some
            };
            let there = sorted(all[..len].iter().map(|(p, _)| *p).collect());
            assert!(
                old.iter()
                    .map(|(n, _)| F::prefix(n))
                    .eq(there.iter().copied())
            );
            for p in [all[i / 2].0, Prefix::truncated(addresses[0], 5)] {
                let behind = there.iter().filter(|q| (q.bits, q.len) >= (p.bits, p.len));
                let from = old.iter_from(F::net(p)).map(|(n, _)| F::prefix(n));
                assert!(from.eq(behind.copied()));
                let inside = there
                    .iter()
                    .filter(|q| q.len >= p.len && Prefix::truncated(q.bits, p.len).bits == p.bits);
                let covered = old.covered_by(F::net(p)).map(|(n, _)| F::prefix(n));
                assert!(covered.eq(inside.copied()));
            }
            let addrs: Vec<F::Addr> = addresses.iter().map(|a| F::addr(*a)).collect();
            let mut batch = vec![None; addrs.len()];
            old.lookup_batch(&addrs, &mut batch);
            let single: Vec<_> = addrs.iter().map(|a| old.lookup_value(*a)).collect();
            assert_eq!(batch, single);
            agree(&fib, &oracle);
        }
    }
    for (walk, mut seen, len) in walks {
        let first = seen.first().map_or((0, 0), |p| (p.bits, p.len));
        seen.extend(walk.map(|(n, _)| F::prefix(n)));
        assert!(
            seen.windows(2)
                .all(|two| (two[0].bits, two[0].len) < (two[1].bits, two[1].len))
        );
        let seen: std::collections::HashSet<_> = seen.iter().map(|p| (p.bits, p.len)).collect();
        let there = all[..len].iter().map(|(p, _)| (p.bits, p.len));
        for p in there.filter(|p| *p >= first) {
            assert!(seen.contains(&p), "a walk of {len} prefixes lost {p:?}");
        }
    }
    // Nothing of the earlier roots stays, and a table that shrinks keeps its root.
    let _ = old;
    drop(reader);
    fib.reclaim(usize::MAX);
    assert_eq!((fib.memory().waiting, fib.memory().root), ((0, 0), 8 << 18));
    for (p, value) in &all {
        assert_eq!(fib.remove(F::net(*p)).unwrap(), Some(*value));
    }
    assert_eq!((fib.len(), fib.root_bits()), (0, 18));
    fib.verify().unwrap();
    // The same table by a transaction, and at once.
    for (len, bits) in ROOTS {
        let some = || all[..len].iter().map(|(p, v)| (F::net(*p), *v));
        let by_txn: Fib<F, u32> = builder(0).build().unwrap();
        let mut txn = by_txn.begin();
        for (net, value) in some() {
            txn.insert(net, value).unwrap();
        }
        assert_eq!(txn.commit(), 1);
        let built = builder::<F>(0).build_from(some()).unwrap();
        for fib in [by_txn, built] {
            assert_eq!((fib.root_bits(), fib.len()), (bits, len));
            fib.verify().unwrap();
            assert!(some().all(|(net, value)| fib.get(net) == Some(value)));
        }
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes; `exhaustive` and `shuttle` meet the same code"
)]
fn a_root_grows_with_its_table() {
    grows::<V4>(1);
    grows::<V6>(2);
}

#[test]
#[cfg_attr(miri, ignore = "as above")]
fn a_root_that_cannot_grow_stays_as_it_is() {
    let all = many::<V4>(40_000, 3);
    let nets = || all.iter().map(|(p, v)| (V4::net(*p), *v));
    // A snapshot has the root of its version.
    let fib: Ipv4Fib<u32> = builder(0).build().unwrap();
    fib.extend_some(nets().take(200));
    let snapshot = fib.snapshot();
    fib.extend_some(nets().skip(200).take(200));
    assert_eq!((fib.root_bits(), snapshot.len()), (6, 200));
    assert!(
        nets()
            .take(200)
            .all(|(net, v)| snapshot.get(net) == Some(&v))
    );
    drop(snapshot);
    fib.extend_some(nets().skip(400).take(1));
    assert_eq!((fib.root_bits(), fib.len()), (12, 401));
    fib.verify().unwrap();
    // A root of 2 MiB has no room.
    let fib = Ipv4Fib::builder().memory_limit(1 << 20).build().unwrap();
    fib.extend_some(nets().take(20_000));
    assert_eq!((fib.root_bits(), fib.len()), (12, 20_000));
    fib.verify().unwrap();
    let built = Ipv4Fib::builder()
        .memory_limit(1 << 20)
        .build_from(nets().take(20_000));
    assert_eq!(built.unwrap().root_bits(), 6);
    // No room for what it would leave behind, until the reader has passed.
    let domain = sapwood::qsbr::Domain::builder()
        .hard_limit(64 << 10)
        .build();
    let fib = Ipv4Fib::builder().domain(&domain).build().unwrap();
    fib.extend_some(nets().take(16_383));
    assert_eq!(fib.root_bits(), 12);
    fib.extend_some(nets().skip(16_383).take(10));
    assert_eq!(fib.root_bits(), 12, "its nodes take more than 64 KiB");
    fib.verify().unwrap();
}

/// Insertions one by one.
trait Extended {
    fn extend_some(&self, nets: impl Iterator<Item = (sapwood::lpm::ipnet::Ipv4Net, u32)>);
}

impl Extended for Ipv4Fib<u32> {
    fn extend_some(&self, nets: impl Iterator<Item = (sapwood::lpm::ipnet::Ipv4Net, u32)>) {
        for (net, value) in nets {
            self.insert(net, value).unwrap();
        }
    }
}

/// All lists of up to four operations on the prefixes of a two-bit space, around the border between
/// root and nodes.
#[test]
fn all_orders_of_short_lists_of_operations() {
    let nets: Vec<Prefix> = [(0, 5), (0, 6), (1, 6), (0, 7), (1, 7)]
        .map(|(bits, len): (u128, u8)| Prefix::truncated(bits << (128 - len), len))
        .to_vec();
    let ops = nets.len() * 2;
    let fib: Ipv4Fib<u32> = builder(6).build().unwrap();
    let most = if cfg!(miri) { 2 } else { 4 };
    for code in 0..ops.pow(most) {
        let mut oracle = Lpm::new(32);
        let mut code = code;
        for step in 0..most {
            let (op, p) = (code % 2, nets[code / 2 % nets.len()]);
            code /= ops;
            if op == 0 {
                assert_eq!(
                    fib.insert(V4::net(p), step).unwrap(),
                    oracle.insert(p, step)
                );
            } else {
                assert_eq!(fib.remove(V4::net(p)).unwrap(), oracle.remove(p));
            }
            for a in 0..8 {
                let a = a << 121;
                let found = fib.lookup(V4::addr(a)).map(|(n, v)| (V4::prefix(n), v));
                assert_eq!(found, oracle.lookup(a).map(|(p, v)| (p, *v)));
            }
        }
        for p in &nets {
            fib.remove(V4::net(*p)).unwrap();
        }
    }
    fib.verify().unwrap();
}

#[test]
fn host_bits_are_refused_or_cut_off() {
    let fib: Ipv6Fib<u32> = Ipv6Fib::builder()
        .root_bits(6)
        .options(small())
        .build()
        .unwrap();
    let bad: ipnet::Ipv6Net = "2001:db8::1/32".parse().unwrap();
    let rejected = fib.insert(bad, 7).unwrap_err();
    assert_eq!(rejected.value, 7);
    assert_eq!(
        rejected.error.to_string(),
        "2001:db8::1/32 has bits set after its length"
    );
    assert!(matches!(rejected.error, Error::HostBitsSet { prefix } if prefix == bad.into()));
    assert!(fib.is_empty());
    let mut txn = fib.begin();
    assert!(txn.insert(bad, 7).is_err());
    assert_eq!(txn.insert(bad.trunc(), 8).unwrap(), None);
    txn.commit();
    assert_eq!(fib.get("2001:db8::/32".parse().unwrap()), Some(8));
    let refused = Ipv6Fib::builder()
        .root_bits(6)
        .options(small())
        .build_from([(bad, 1)]);
    assert!(matches!(refused, Err(Error::HostBitsSet { .. })));
}

#[test]
fn whole_addresses_and_nothing() {
    let fib = IpFib::builder().root_bits(12).build().unwrap();
    for net in [
        "0.0.0.0/0",
        "255.255.255.255/32",
        "::/0",
        "::/128",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    ] {
        assert_eq!(
            fib.insert(net.parse().unwrap(), net.to_string()).unwrap(),
            None
        );
    }
    for (addr, net) in [
        ("255.255.255.255", "255.255.255.255/32"),
        ("255.255.255.254", "0.0.0.0/0"),
        ("::", "::/128"),
        ("::1", "::/0"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
        ),
    ] {
        let (found, value) = fib.lookup(addr.parse().unwrap()).unwrap();
        assert_eq!(
            (found.to_string().as_str(), value.as_str()),
            (net, net),
            "{addr}"
        );
    }
    fib.verify().unwrap();
    assert_eq!(
        fib.remove("::/0".parse().unwrap()).unwrap().as_deref(),
        Some("::/0")
    );
    assert_eq!(fib.remove("::/0".parse().unwrap()).unwrap(), None);
    assert_eq!(fib.lookup("::1".parse().unwrap()), None);
}

/// One of a few allocations fails, repeatedly. A failed operation leaves the table unchanged.
#[test]
fn without_memory_nothing_changes() {
    for every in if cfg!(miri) { 2..4 } else { 2..12 } {
        let builder = builder::<V4>(6).options(small().fail_every(every));
        let mut rng = fastrand::Rng::with_seed(every);
        let failed = run_fib(builder, &mut rng, steps(600), 8, true);
        assert!(failed > 0);
    }
}

#[test]
fn snapshots_stay_as_they_were() {
    let mut rng = fastrand::Rng::with_seed(8);
    let fib: Fib<V6, u32> = builder(6).build().unwrap();
    let mut oracle = Lpm::new(128);
    let mut kept = Vec::new();
    for step in 0..steps(800) {
        let (p, v) = (prefix::<V6>(&mut rng), rng.u32(0..9));
        if rng.u8(0..3) > 0 {
            fib.insert(V6::net(p), v).unwrap();
            oracle.insert(p, v);
        } else {
            fib.remove(V6::net(p)).unwrap();
            oracle.remove(p);
        }
        if step % 50 == 0 {
            kept.push((fib.snapshot(), oracle.clone()));
        }
        if step % 120 == 0 {
            fib.compact().unwrap();
            let i = rng.usize(0..kept.len());
            kept.swap_remove(i);
        }
    }
    assert!(fib.memory().snapshots == kept.len() && fib.memory().waiting.0 > 0);
    for (snapshot, oracle) in kept.drain(..) {
        assert_eq!(snapshot.len(), oracle.len());
        let all = oracle.iter().map(|(p, v)| (p, *v));
        assert!(all.eq(table::entries(&snapshot)));
        for _ in 0..20 {
            let a = address(&mut rng);
            let found = snapshot.lookup_value(V6::addr(a));
            assert_eq!(found, oracle.lookup(a).map(|f| f.1));
        }
    }
    drop(kept);
    fib.reclaim(usize::MAX);
    assert_eq!(fib.memory().waiting.0, 0);
    agree(&fib, &oracle);
}

/// Values are dropped once, whichever operation ended them.
#[test]
fn values_are_dropped_once() {
    use std::sync::Arc;
    let values: Vec<Arc<u32>> = (0..40).map(Arc::new).collect();
    let mut rng = fastrand::Rng::with_seed(9);
    for bits in [6, 12].into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
        let fib: Fib<V4, Arc<u32>> = Fib::builder()
            .root_bits(bits)
            .options(table::loud())
            .build()
            .unwrap();
        for _ in 0..steps(600) {
            let p = V4::net(prefix::<V4>(&mut rng));
            let v = values[rng.usize(0..values.len())].clone();
            match rng.u8(0..8) {
                0..4 => drop(fib.insert(p, v).unwrap()),
                4..7 => drop(fib.remove(p).unwrap()),
                _ => {
                    let mut txn = fib.begin();
                    txn.insert(p, v).unwrap();
                    txn.remove(V4::net(prefix::<V4>(&mut rng))).unwrap();
                    if rng.bool() {
                        txn.commit();
                    }
                }
            }
        }
        fib.verify().unwrap();
        let one = fib.snapshot();
        drop(fib);
        assert!(one.iter().all(|(_, v)| Arc::strong_count(v) >= 2));
    }
    assert!(values.iter().all(|v| Arc::strong_count(v) == 1));
}

/// A value with a larger alignment than a block's, and one without bytes.
#[test]
fn values_of_any_layout() {
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    #[repr(align(64))]
    struct Wide(u64);
    let fib: Ipv4Fib<Wide> = Ipv4Fib::builder()
        .root_bits(6)
        .options(small())
        .build()
        .unwrap();
    for i in 0..100_u64 {
        let net = Prefix::truncated(u128::from(i) << 120, 8);
        fib.insert(V4::net(net), Wide(i % 7)).unwrap();
    }
    fib.read(|view| {
        let value = view.lookup_value([9, 1, 1, 1].into()).unwrap();
        assert_eq!(
            (value, std::ptr::from_ref(value) as usize % 64),
            (&Wide(2), 0)
        );
    });
    assert_eq!(fib.memory().values.0, 7);
    let set: Ipv4Fib<()> = Ipv4Fib::builder()
        .root_bits(6)
        .options(small())
        .build()
        .unwrap();
    set.insert("10.0.0.0/8".parse().unwrap(), ()).unwrap();
    assert_eq!(set.lookup([10, 0, 0, 1].into()).unwrap().1, ());
    assert_eq!(set.lookup([11, 0, 0, 1].into()), None);
}

/// A table that has used its last byte can be emptied and filled again: blocks of some sizes that
/// the writer keeps also serve other sizes.
#[test]
fn full_tables_can_be_emptied() {
    for limit in [24 << 10, 48 << 10, 200 << 10] {
        let fib: Ipv4Fib<u64> = Ipv4Fib::builder()
            .root_bits(6)
            .options(small().limit(limit))
            .build()
            .unwrap();
        let mut rng = fastrand::Rng::with_seed(limit as u64);
        let mut most = Vec::new();
        for round in 0..3 {
            let mut nets = Vec::new();
            for value in 0.. {
                let net = Prefix::truncated(rng.u128(..), rng.u8(8..=32));
                match fib.insert(V4::net(net), value % 1000) {
                    Ok(None) => nets.push(net),
                    Ok(Some(_)) => {}
                    Err(_) => break,
                }
            }
            most.push(nets.len());
            rng.shuffle(&mut nets);
            let mut tries = 0;
            while !nets.is_empty() {
                nets.retain(|&net| fib.remove(V4::net(net)).is_err());
                fib.reclaim(usize::MAX);
                tries += 1;
                assert!(tries < 100, "{limit} {round}: {} are left", nets.len());
            }
            assert!(fib.is_empty());
            fib.verify().unwrap();
        }
        assert!(most.iter().all(|&n| n * 2 > most[0]), "{most:?}");
    }
}

/// Random prefixes share few nodes. Each takes one block of 24 bytes, and no chain of nodes, also
/// in a table that is filled one by one, and after neighbours have come and gone.
#[test]
fn a_prefix_with_no_other_near_it_takes_one_block() {
    let mut rng = fastrand::Rng::with_seed(11);
    for len in [25, 48, 64, 80] {
        let mut nets: Vec<_> = (0..1 << 12)
            .map(|first: u128| Prefix::truncated(first << 116 | rng.u128(..) >> 12, len))
            .map(V6::net)
            .collect();
        let build = |nets: &[_]| -> Ipv6Fib<u64> {
            let all = nets.iter().map(|&net| (net, 1));
            Ipv6Fib::builder().root_bits(12).build_from(all).unwrap()
        };
        // Longer ones have nodes that take the bits that are too many for one block.
        let blocks = 1 + usize::from(len - 12).saturating_sub(62).div_ceil(6);
        let expect = |fib: &Ipv6Fib<u64>| {
            fib.verify().unwrap();
            let (count, bytes) = fib.memory().nodes;
            assert_eq!(count, blocks << 12, "{len}");
            assert!(bytes <= (24 + 32 * (blocks - 1)) << 12, "{len}: {bytes}");
        };
        let fib = build(&nets);
        expect(&fib);
        // A neighbour that differs in the last bit only.
        let others: Vec<_> = nets
            .iter()
            .map(|net| V6::prefix(*net))
            .map(|p| Prefix::truncated(p.bits ^ 1 << (128 - len), len))
            .map(V6::net)
            .collect();
        for &net in &others {
            assert_eq!(fib.insert(net, 2).unwrap(), None);
        }
        fib.verify().unwrap();
        assert!(fib.memory().nodes.0 > blocks << 12);
        for &net in &others {
            assert_eq!(fib.remove(net).unwrap(), Some(2));
        }
        fib.reclaim(usize::MAX);
        expect(&fib);
        rng.shuffle(&mut nets);
        let filled = build(&[]);
        for &net in &nets {
            assert_eq!(filled.insert(net, 1).unwrap(), None);
        }
        expect(&filled);
    }
}
