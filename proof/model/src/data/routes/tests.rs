//! Tests of the properties of generated tables.

use std::path::Path;

use super::*;
use crate::oracle::LpmByLength;

/// FNV-1a over the first thousand prefixes, so that no change of the generator goes unnoticed.
fn checksum(prefixes: &[Prefix]) -> u64 {
    let bytes = prefixes.iter().take(1000).flat_map(|prefix| {
        let mut bytes = prefix.bits.to_be_bytes().to_vec();
        bytes.push(prefix.len);
        bytes
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn tables_are_a_function_of_the_seed() {
    let tables = [routes_v4(5000, 1), routes_v6(5000, 1), random_v4(5000, 1)];
    assert_eq!(
        tables.map(|table| checksum(&table)),
        [
            13_239_928_861_288_357_979,
            9_591_710_818_825_899_860,
            10_212_617_059_191_642_805
        ]
    );
    assert_ne!(routes_v4(1000, 1), routes_v4(1000, 2));
}

#[test]
fn tables_have_the_real_shares_of_lengths() {
    for (global, make) in [
        (&global::V4, routes_v4 as fn(usize, u64) -> Vec<Prefix>),
        (&global::V6, routes_v6),
    ] {
        let count = 20_000;
        let table = make(count, 7);
        assert_eq!(table.len(), count);
        assert!(
            table.windows(2).all(|pair| pair[0] < pair[1]),
            "sorted, distinct"
        );
        let real: u32 = global.lengths.iter().map(|length| length.count).sum();
        let (mut covered, mut real_covered) = (0, 0.0);
        for length in global.lengths {
            let share = f64::from(length.count) / f64::from(real);
            let here = table
                .iter()
                .filter(|prefix| prefix.len == length.len)
                .count();
            assert!(
                (here as f64 / count as f64 - share).abs() < 0.01,
                "/{}: {here}",
                length.len
            );
            real_covered += share * f64::from(length.covered) / 1000.0;
        }
        let whole: LpmByLength<()> = table.iter().map(|prefix| (*prefix, ())).collect();
        for prefix in &table {
            assert_eq!(*prefix, Prefix::truncated(prefix.bits, prefix.len));
            let shorter = (0..prefix.len).map(|len| Prefix::truncated(prefix.bits, len));
            covered += usize::from(shorter.rev().any(|outer| whole.get(outer).is_some()));
        }
        let covered = covered as f64 / count as f64;
        assert!(
            (covered - real_covered).abs() < 0.03,
            "{covered} covered, not {real_covered}"
        );
    }
}

#[test]
fn tiny_and_empty_tables_come_out_whole() {
    for count in [0, 1, 2, 10, 300] {
        assert_eq!(routes_v4(count, 3).len(), count);
        assert_eq!(routes_v6(count, 3).len(), count);
        assert_eq!(random_v4(count, 3).len(), count);
    }
}

#[test]
fn next_hops_are_skewed_and_clustered() {
    let share = |hops: &[u32], hop| {
        hops.iter().filter(|drawn| **drawn == hop).count() as f64 / hops.len() as f64
    };
    let same = |hops: &[u32]| {
        let same = hops.windows(2).filter(|pair| pair[0] == pair[1]).count();
        same as f64 / hops.len() as f64
    };
    let (plain, clustered) = (next_hops(50_000, 1), next_hops_clustered(50_000, 1));
    for hops in [&plain, &clustered] {
        assert!(hops.iter().all(|hop| *hop < NEXT_HOPS));
        assert!((0.19..0.23).contains(&share(hops, 0)), "{}", share(hops, 0));
        assert!((0.002..0.006).contains(&share(hops, 63)));
    }
    assert!(same(&plain) < 0.1 && same(&clustered) > 0.7);
    assert_eq!(plain, next_hops(50_000, 1));
}

#[test]
fn addresses_lie_where_they_should() {
    let table = routes_v4(2000, 5);
    let whole: LpmByLength<()> = table.iter().map(|prefix| (*prefix, ())).collect();
    let inside = addresses_within(&table, 32, 5000, 1);
    for address in &inside {
        assert!(whole.lookup(*address).is_some());
        assert_eq!(*address, Prefix::truncated(*address, 32).bits);
    }
    let anywhere = random_addresses(32, 5000, 1);
    let hits = anywhere
        .iter()
        .filter(|a| whole.lookup(**a).is_some())
        .count();
    assert!(hits < 2500, "{hits}");
    // All bits after the prefix are random.
    let ever_set = inside.iter().fold(0, |all, address| all | address);
    assert_eq!(ever_set >> 96, u128::from(u32::MAX));
}

#[test]
fn lists_are_read_with_line_numbers() {
    let text = "10.0.0.0/8\n\n2001:db8::/32 peer\n10.0.0.0/8\n9.0.0.0/8 192.0.2.1\n";
    let routes = read_prefixes(text.as_bytes()).unwrap();
    assert_eq!(
        routes.v4,
        [[9, 0, 0, 0], [10, 0, 0, 0]].map(|address| Prefix::v4(address.into(), 8))
    );
    assert_eq!(routes.v6, [Prefix::v6("2001:db8::".parse().unwrap(), 32)]);
    for bad in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0", "::/129", "x/8"] {
        let error = read_prefixes(format!("::/0\n{bad}\n").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("line 2: not a prefix: {bad}"));
    }
    let error = routes_gz(Path::new("/nowhere/none.gz")).unwrap_err();
    assert!(
        error.to_string().starts_with("no routes: none.gz: "),
        "{error}"
    );
}
