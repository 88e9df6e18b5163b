//! Tables of bit strings: the naive oracle checks every answer.
//!
//! `SAPWOOD_OPS` sets the number of changes in each test (default 20,000).

use std::ops::RangeInclusive;

use sapwood::arena::{ArenaOptions, Backing};
use sapwood::lpm::{AsBits, BitFib, BitPrefix, BitString};
use sapwood_model::oracle::BitPrefixes;

use crate::support::bits::{owned, run_bits, same_answers, string};

fn operations() -> usize {
    let default = if cfg!(miri) { 200 } else { 20_000 };
    let set = std::env::var("SAPWOOD_OPS")
        .ok()
        .and_then(|n| n.parse().ok());
    set.unwrap_or(default).min(default)
}

fn random_changes(seed: u64, changes: usize, lens: RangeInclusive<usize>, most: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Values that own memory.
    let built = BitFib::<Box<usize>>::new();
    run_bits(built, &mut rng, changes, 30, lens.clone(), most, false);
    let built = BitFib::<usize>::builder().build_inline();
    run_bits(built, &mut rng, changes, 30, lens, most, false);
}

/// Some changes fail because an allocation fails.
#[test]
fn without_memory_nothing_changes() {
    for every in if cfg!(miri) { 2..3 } else { 2..12 } {
        let options = ArenaOptions::default()
            .backing(Backing::Mmap { reserve: 1 << 26 })
            .fail_every(every);
        let changes = operations() / 80;
        let mut rng = fastrand::Rng::with_seed(every);
        let built = BitFib::<Box<usize>>::builder()
            .options(options.clone())
            .build();
        let failed = run_bits(built, &mut rng, changes, 30, 0..=20, 60, true);
        assert!(failed > 0);
        let built = BitFib::<usize>::builder().options(options).build_inline();
        let failed = run_bits(built, &mut rng, changes, 30, 0..=20, 60, true);
        assert!(failed > 0);
    }
}

#[test]
fn short_strings() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        random_changes(seed, operations() / 16, 0..=9, 60);
    }
}

#[test]
fn strings_as_long_as_addresses() {
    for seed in 10..if cfg!(miri) { 11 } else { 14 } {
        random_changes(seed, operations() / 16, 0..=40, 100);
    }
}

#[test]
fn the_longest_strings() {
    for seed in 20..if cfg!(miri) { 20 } else { 22 } {
        random_changes(seed, operations() / 80, 0..=2048, 60);
    }
    random_changes(22, operations() / 80, 2030..=2048, 40);
}

/// The prefix with number `n` in a space of `bits` bits; number 0 is the root.
fn prefix(n: u32, bits: u32) -> (u32, u32) {
    let len = (n + 1).ilog2();
    assert!(len <= bits);
    (n + 1 - (1 << len), len)
}

fn bits_of(value: u32, len: u32) -> Vec<bool> {
    (0..len).map(|i| value >> (len - 1 - i) & 1 == 1).collect()
}

#[test]
fn all_pairs_of_prefixes_of_six_bits() {
    const BITS: u32 = 6;
    let all = if cfg!(miri) { 15 } else { (2 << BITS) - 1 };
    let strings: Vec<BitString> = (0..all)
        .map(|n| prefix(n, BITS))
        .map(|(value, len)| string(&bits_of(value, len)))
        .collect();
    let covers = |a: u32, b: u32| {
        let ((a, a_len), (b, b_len)) = (prefix(a, BITS), prefix(b, BITS));
        a_len <= b_len && b >> (b_len - a_len) == a
    };
    let fib = BitFib::new().unwrap();
    let mut reader = fib.reader("test").unwrap();
    for a in 0..all {
        assert_eq!(fib.insert(&strings[a as usize], a), Ok(None));
        for b in a..all {
            let old = fib.insert(&strings[b as usize], b);
            assert_eq!(old, Ok((a == b).then_some(a)));
            let view = reader.view();
            for q in 0..all {
                // Of two prefixes that match, the later number is the longer prefix.
                let longest = [b, a].into_iter().find(|p| covers(*p, q));
                let wanted = longest.map(|p| strings[p as usize].len());
                let found = view.lookup(&strings[q as usize]);
                assert_eq!(found.map(|(len, _)| len), wanted);
                assert_eq!(found.map(|(_, value)| *value), longest);
            }
            if a != b {
                assert_eq!(fib.remove(&strings[b as usize]), Ok(Some(b)));
            }
            reader.quiescent();
        }
        assert_eq!(fib.remove(&strings[a as usize]), Ok(Some(a)));
        assert_eq!(fib.remove(&strings[a as usize]), Ok(None));
    }
    assert!(fib.is_empty());
    fib.verify().unwrap();
}

#[test]
fn all_sets_of_prefixes_across_a_key_byte() {
    // These are below two bits, so that lengths are two to five: in the first key byte and in the
    // second.
    let strings: Vec<Vec<bool>> = (0..15)
        .map(|n| prefix(n, 3))
        .map(|(value, len)| [&[true, false][..], &bits_of(value, len)].concat())
        .collect();
    for fib in [BitFib::new(), BitFib::builder().build_inline()] {
        all_sets_of(&strings, fib.unwrap());
    }
}

fn all_sets_of(strings: &[Vec<bool>], fib: BitFib<u32>) {
    let mut reader = fib.reader("test").unwrap();
    let mut oracle = BitPrefixes::new();
    let sets = if cfg!(miri) { 1 << 5 } else { 1u32 << 15 };
    for set in 1..sets {
        // Each set differs from the one before in one prefix (Gray code).
        let n = set.trailing_zeros();
        let bits = &strings[n as usize];
        if oracle.get(bits).is_some() {
            assert_eq!(fib.remove(string(bits)).unwrap(), oracle.remove(bits));
        } else {
            assert_eq!(fib.insert(string(bits), n), Ok(oracle.insert(bits, n)));
        }
        let view = reader.view();
        for bits in &strings[strings.len() - 8..] {
            assert_eq!(view.lookup(string(bits)), oracle.lookup(bits));
        }
        let bits = &strings[set as usize % strings.len()];
        same_answers!(view, oracle, bits);
        reader.quiescent();
    }
    fib.verify().unwrap();
}

#[test]
fn large_tables_are_looked_up_in_batches() {
    let count = if cfg!(miri) { 400 } else { 40_000 };
    let mut rng = fastrand::Rng::with_seed(9);
    let entries: Vec<(BitString, usize)> = (0..count)
        .map(|i| {
            let len = [8, 13, 16, 19, 20, 22, 24, 32][rng.usize(..8)];
            (
                BitString::truncated(&rng.u32(..).to_be_bytes(), len).unwrap(),
                i,
            )
        })
        .collect();
    let built: BitFib<usize> = entries.iter().cloned().collect();
    let inline = BitFib::builder().build_inline_from(entries.iter().cloned());
    let inline = inline.unwrap();
    let mut extended = BitFib::builder().build_inline().unwrap();
    extended.extend(entries.iter().cloned());
    extended.extend([(BitString::new(), count)]);
    for fib in [&built, &inline, &extended] {
        fib.verify().unwrap();
    }
    let [whole, less] = [&built, &inline].map(|fib| fib.memory().map.total());
    assert!(less < whole, "{less} and {whole} bytes");
    assert!(inline.snapshot().iter().eq(built.snapshot().iter()));
    assert_eq!(extended.len(), built.len() + 1);
    let (built, extended) = (built.snapshot(), extended.snapshot());
    assert!(built.iter().eq(extended.iter().skip(1)));
    let mut queries: Vec<std::net::Ipv4Addr> = (0..1_000).map(|_| rng.u32(..).into()).collect();
    for (prefix, _) in &entries[..count / 4] {
        let net = prefix.as_prefix().to_ipv4_net().unwrap();
        queries.extend([net.network(), net.broadcast()]);
    }
    let mut found = vec![None; queries.len()];
    extended.lookup_batch(&queries, &mut found);
    for (query, found) in queries.iter().zip(found) {
        // By definition: shorten the query step by step.
        let all = BitString::from(*query);
        let wanted = (0..=32).rev().find_map(|len| {
            let value = extended.get(all.as_prefix().truncate(len))?;
            Some((len, value))
        });
        assert_eq!(found, wanted);
        let without = wanted.filter(|(len, _)| *len > 0);
        assert_eq!(built.lookup(query), without);
    }
}

#[test]
fn strings_are_put_together_and_compared_bit_by_bit() {
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..if cfg!(miri) { 30 } else { 2_000 } {
        let parts: Vec<Vec<bool>> = (0..rng.usize(..4))
            .map(|_| (0..rng.usize(..40)).map(|_| rng.bool()).collect())
            .collect();
        let mut joined = BitString::new();
        for part in &parts {
            joined.push(string(part)).unwrap();
        }
        let all = parts.concat();
        assert_eq!(joined, string(&all), "round {round}");
        assert_eq!(joined.len(), all.len());
        let prefix = joined.as_prefix();
        assert!((0..all.len()).all(|i| prefix.bit(i) == Some(all[i])));
        assert_eq!(prefix.bit(all.len()), None);
        let cut = rng.usize(..=all.len());
        assert_eq!(BitString::from(prefix.truncate(cut)), string(&all[..cut]));
        assert!(prefix.truncate(cut).covers(&joined));
        let other: Vec<bool> = (0..rng.usize(..12)).map(|_| rng.bool()).collect();
        assert_eq!(string(&other).cmp(&joined), other.cmp(&all));
        assert_eq!(
            string(&other).as_prefix().covers(&joined),
            all.starts_with(&other)
        );
    }
}

#[test]
fn what_is_no_prefix_is_refused() {
    use sapwood::lpm::Error;
    use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
    let bytes = [0xff; 257];
    assert!(BitString::from_bytes(&bytes[..256], 2048).is_ok());
    let too_long = |bits, limit| Err(Error::PrefixTooLong { bits, limit });
    assert_eq!(BitString::from_bytes(&bytes, 2049), too_long(2049, 2048));
    assert_eq!(BitString::truncated(&bytes[..2], 17), too_long(17, 16));
    assert_eq!(BitString::from_number(0, 129), too_long(129, 128));
    let behind = |bits| Err(Error::BitsBehindPrefix { bits });
    assert_eq!(BitString::from_bytes(&[0x80, 1], 1), behind(1));
    assert_eq!(BitString::from_bytes(&[0xc0], 1), behind(1));
    assert_eq!(BitString::from_bytes(&[1], 0), behind(0));
    assert_eq!(BitString::from_number(4, 2), behind(2));
    assert_eq!(BitString::from_number(0, 0), Ok(BitString::new()));
    let most = BitString::from_number(u128::MAX, 128).unwrap();
    assert_eq!(most.as_bytes(), [0xff; 16]);
    let mut long = BitString::truncated(&bytes, 2047).unwrap();
    assert_eq!(
        long.push(BitPrefix::new(&[0xc0], 2).unwrap()),
        too_long(2049, 2048).map(drop)
    );
    assert_eq!(long.len(), 2047);
    long.push(BitPrefix::new(&[0x80], 1).unwrap()).unwrap();
    assert_eq!(long.as_bytes(), [0xff; 256]);
    let unclean: Ipv4Net = "10.0.0.1/8".parse().unwrap();
    let prefix = IpNet::V4(unclean);
    assert_eq!(
        BitString::try_from(unclean),
        Err(Error::HostBitsSet { prefix })
    );
    let clean = BitString::try_from(unclean.trunc()).unwrap();
    assert_eq!(clean.to_string(), "0a/8");
    assert_eq!(clean.as_prefix().to_ipv4_net(), Some(unclean.trunc()));
    let v6: Ipv6Net = "2001:db8::/33".parse().unwrap();
    let bits = BitString::try_from(v6).unwrap();
    assert_eq!(bits.to_string(), "20010db80/33");
    assert_eq!(bits.as_prefix().to_ipv6_net(), Some(v6));
    assert_eq!(bits.as_prefix().to_ipv4_net(), None);
}

#[test]
fn values_need_no_clone_and_hold_no_version_back() {
    struct Alone(u8);
    let fib = BitFib::builder()
        .build_from([(BitString::new(), Alone(0))])
        .unwrap();
    let before = fib.snapshot();
    let mut txn = fib.begin();
    assert!(fib.try_begin().is_none());
    let host = std::net::Ipv6Addr::LOCALHOST;
    assert!(txn.insert(host, Alone(1)).unwrap().is_none());
    assert_eq!(
        txn.insert(BitString::new(), Alone(2)).unwrap().map(|v| v.0),
        Some(0)
    );
    assert_eq!(txn.lookup(host).map(|(len, v)| (len, v.0)), Some((128, 1)));
    let version = txn.commit();
    assert_eq!(fib.version(), version);
    assert_eq!(before.lookup(host).map(|(len, v)| (len, v.0)), Some((0, 0)));
    let mut txn = fib.begin();
    assert_eq!(txn.clear(), Ok(2));
    txn.commit();
    drop(before);
    assert!(host.with_bits(|bits| fib.read(|view| view.lookup(bits).is_none())));
    assert!(fib.reclaim(100) > 0);
    fib.verify().unwrap();
}
