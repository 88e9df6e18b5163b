//! Published tables of prefixes, read through a copy and compared with the oracle: both families,
//! roots of all sizes, damaged and truncated copies, and tables that were left in a change.
//! `SAPWOOD_OPS` sets how many damaged copies of each table are read (default 150).

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{Family, Fib, V4, V6};
use sapwood_checked::lpm::{CheckedFib, FibCensus};
use sapwood_checked::{Bytes, Source, Trouble, Values};
use sapwood_format::lpm::header;
use sapwood_model::oracle::{Lpm, Prefix};

use crate::support::{Copy, Error, Folder};

/// The oracle's values are the four bytes of a number.
pub type Oracle = Lpm<u32>;

/// The prefix of the oracle as one of a family.
pub trait Kind: Family {
    fn net(prefix: Prefix) -> Self::Net;
    fn address(bits: u128) -> IpAddr;
}

impl Kind for V4 {
    fn net(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new(prefix.v4_addr(), prefix.len).unwrap()
    }

    fn address(bits: u128) -> IpAddr {
        Ipv4Addr::from((bits >> 96) as u32).into()
    }
}

impl Kind for V6 {
    fn net(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new(prefix.bits.into(), prefix.len).unwrap()
    }

    fn address(bits: u128) -> IpAddr {
        Ipv6Addr::from(bits).into()
    }
}

/// An address of which few bits vary, at the borders of strides and at both ends.
pub fn address(rng: &mut Rng) -> u128 {
    const PLACES: [u32; 14] = [0, 1, 5, 11, 12, 17, 18, 23, 24, 28, 31, 47, 64, 127];
    let set = rng.u32(..) & rng.u32(..);
    let set = PLACES.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
    set.fold(0, |bits, (_, at)| bits | 1 << (127 - at))
}

pub fn prefix<F: Kind>(rng: &mut Rng) -> Prefix {
    const LENGTHS: [u8; 16] = [0, 1, 6, 7, 12, 13, 18, 19, 24, 25, 30, 31, 48, 63, 64, 127];
    let len = match rng.u8(..3) {
        0 => rng.u8(..=F::WIDTH),
        1 => LENGTHS[rng.usize(..16)].min(F::WIDTH),
        _ => F::WIDTH,
    };
    // Some prefixes are alone below a node.
    let alone = rng.u128(..) & u128::MAX << rng.u32(0..100);
    let bits = if rng.u8(..3) == 0 {
        alone
    } else {
        address(rng)
    };
    Prefix::truncated(bits, len)
}

/// A table of random prefixes in a file, changed in all ways, and what it has.
fn filled<F: Kind>(folder: &Folder, bits: u8, rng: &mut Rng, ops: usize) -> (Fib<F, u32>, Oracle) {
    let arena = folder.arena("fib", Fib::<F, u32>::layout_hash());
    let mut oracle = Lpm::new(F::WIDTH);
    let first: Vec<(Prefix, u32)> = (0..ops / 2).map(|i| (prefix::<F>(rng), i as u32)).collect();
    for &(prefix, value) in &first {
        oracle.insert(prefix, value);
    }
    let first = first.iter().map(|&(prefix, value)| (F::net(prefix), value));
    let fib = Fib::builder()
        .root_bits(bits)
        .build_from_in(arena, first)
        .unwrap();
    for i in 0..ops / 2 {
        let known = oracle.iter().nth(rng.usize(..oracle.len().max(1)));
        let known = known.map(|(prefix, _)| prefix);
        match (rng.u8(..4), known) {
            (0, Some(known)) => {
                assert_eq!(fib.remove(F::net(known)).unwrap(), oracle.remove(known));
            }
            (1, _) => {
                let mut txn = fib.begin();
                for _ in 0..3 {
                    let (new, value) = (prefix::<F>(rng), rng.u32(..20));
                    txn.insert(F::net(new), value).unwrap();
                    oracle.insert(new, value);
                }
                txn.commit();
            }
            _ => {
                let new = prefix::<F>(rng);
                fib.insert(F::net(new), i as u32 % 50).unwrap();
                oracle.insert(new, i as u32 % 50);
            }
        }
    }
    fib.verify().unwrap();
    (fib, oracle)
}

pub fn number(value: &Bytes) -> u32 {
    // The size of values may be damaged.
    value
        .0
        .first_chunk()
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// All prefixes of a reader, in the form of the oracle, or the first error.
pub fn walked<S: Source<Error = E>, E>(
    reader: &CheckedFib<S, Bytes>,
) -> Result<Vec<(Prefix, u32)>, E> {
    let walked = reader.iter().map(|entry| {
        let (net, value) = entry?;
        assert_eq!(net, net.trunc());
        let bits = match net.addr() {
            IpAddr::V4(addr) => u128::from(u32::from(addr)) << 96,
            IpAddr::V6(addr) => addr.into(),
        };
        let len = net.prefix_len();
        Ok((Prefix { bits, len }, number(&value)))
    });
    walked.collect()
}

fn reader(copy: &Copy) -> CheckedFib<&Copy, Bytes> {
    CheckedFib::new(copy).unwrap()
}

/// Compares lookups of addresses in and beside the oracle's prefixes.
fn compare_lookups<F: Kind, S: Source<Error: Debug>>(
    reader: &CheckedFib<S, Bytes>,
    oracle: &Oracle,
    rng: &mut Rng,
) {
    let mut asked: Vec<u128> = (0..100).map(|_| address(rng)).collect();
    asked.extend((0..50).map(|_| rng.u128(..)));
    for (prefix, _) in oracle.iter() {
        let inside = prefix.bits | rng.u128(..).checked_shr(prefix.len.into()).unwrap_or(0);
        let end = 1_u128.checked_shl(128 - u32::from(prefix.len)).unwrap_or(0);
        asked.extend([prefix.bits, inside, prefix.bits.wrapping_add(end)]);
        asked.push(prefix.bits.wrapping_sub(1));
    }
    for bits in asked {
        let bits = Prefix::truncated(bits, F::WIDTH).bits;
        let want = oracle
            .lookup(bits)
            .map(|(prefix, value)| (prefix.len, *value));
        let found = reader.lookup(F::address(bits)).unwrap();
        let found = found.map(|(len, value)| (len, number(&value)));
        assert_eq!(found, want, "{bits:032x}");
    }
}

/// Compares the prefixes that cover others.
fn compare_covering<F: Kind, S: Source<Error: Debug>>(
    reader: &CheckedFib<S, Bytes>,
    oracle: &Oracle,
    rng: &mut Rng,
) {
    let mut asked: Vec<Prefix> = (0..100).map(|_| prefix::<F>(rng)).collect();
    asked.extend(oracle.iter().map(|(prefix, _)| prefix));
    for prefix in asked {
        let wants = (0..=prefix.len).filter_map(|len| {
            let above = Prefix::truncated(prefix.bits, len);
            oracle.get(above).map(|value| (len, *value))
        });
        let wants: Vec<_> = wants.collect();
        let net = IpNet::new(F::address(prefix.bits), prefix.len).unwrap();
        let found = reader.covering(net).unwrap().into_iter();
        let found: Vec<_> = found.map(|(len, value)| (len, number(&value))).collect();
        assert_eq!(found, wants, "{net}");
        let exact = wants.last().filter(|(len, _)| *len == prefix.len);
        let found = reader.get(net).unwrap();
        assert_eq!(
            found.map(|value| number(&value)),
            exact.map(|(_, value)| *value)
        );
    }
}

fn compare<F: Kind>(copy: &Copy, bits: u8, oracle: &Oracle, rng: &mut Rng) -> FibCensus {
    let reader = reader(copy);
    assert_eq!(
        (reader.width(), reader.root_bits()),
        (Ok(F::WIDTH), Ok(bits))
    );
    assert_eq!(reader.len(), Ok(oracle.len() as u64));
    assert_eq!(reader.is_empty(), Ok(oracle.is_empty()));
    let census = reader.verify().unwrap();
    assert_eq!(census.prefixes, oracle.len());
    assert!(census.is_settled(), "{census:?}");
    let all: Vec<(Prefix, u32)> = oracle
        .iter()
        .map(|(prefix, value)| (prefix, *value))
        .collect();
    assert_eq!(walked(&reader).unwrap(), all);
    compare_lookups::<F, _>(&reader, oracle, rng);
    compare_covering::<F, _>(&reader, oracle, rng);
    let other: IpAddr = match F::WIDTH {
        32 => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    assert_eq!(reader.lookup(other), Ok(None));
    census
}

fn as_the_oracle<F: Kind>(bits: u8) {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(bits.into());
    let (mut nodes, mut lone) = (0, 0);
    for ops in [0, 2, 8, 60, 500, 3000] {
        let (_fib, oracle) = filled::<F>(&folder, bits, &mut rng, ops);
        let census = compare::<F>(&folder.copy("fib"), bits, &oracle, &mut rng);
        nodes += census.nodes;
        lone += census.lone;
    }
    assert!(
        nodes > 100 && lone > 100,
        "{nodes} nodes, {lone} lone prefixes"
    );
}

#[test]
fn ipv4_with_all_roots() {
    for bits in [6, 12, 18] {
        as_the_oracle::<V4>(bits);
    }
}

#[test]
fn ipv6_with_all_roots() {
    for bits in [6, 12, 18] {
        as_the_oracle::<V6>(bits);
    }
}

/// The largest root takes 128 MiB.
#[test]
fn the_largest_root() {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(24);
    let (_fib, oracle) = filled::<V4>(&folder, 24, &mut rng, 30);
    compare::<V4>(&folder.copy("fib"), 24, &oracle, &mut rng);
}

/// What a new owner builds of a copy is the same table.
#[test]
fn an_heir_has_the_same_table() {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(3);
    let (fib, oracle) = filled::<V4>(&folder, 12, &mut rng, 800);
    drop(fib);
    let copy = folder.copy("fib");
    let left = CheckedFib::<_, u32>::new(&copy).unwrap();
    left.check_layout(Fib::<V4, u32>::layout_hash()).unwrap();
    left.verify().unwrap();
    let prefixes: Result<Vec<_>, _> = left
        .iter()
        .map(|entry| entry.map(|(net, value)| (V4::from_net(net).unwrap(), value)))
        .collect();
    let arena = folder.arena("heir", Fib::<V4, u32>::layout_hash());
    let heir = Fib::<V4, u32>::builder().root_bits(18);
    let heir = heir.build_from_in(arena, prefixes.unwrap()).unwrap();
    heir.verify().unwrap();
    assert_eq!(heir.len(), oracle.len());
    for (prefix, value) in oracle.iter() {
        assert_eq!(heir.get(V4::net(prefix)), Some(*value));
    }
}

#[test]
fn values_of_another_type() {
    let folder = Folder::new();
    let arena = folder.arena("fib", Fib::<V4, [u32; 3]>::layout_hash());
    let fib = Fib::<V4, [u32; 3]>::builder()
        .root_bits(6)
        .build_in(arena)
        .unwrap();
    fib.insert("10.0.0.0/8".parse().unwrap(), [1, 2, 3])
        .unwrap();
    let copy = folder.copy("fib");
    let numbers = CheckedFib::<_, [u32; 3]>::new(&copy).unwrap();
    let address: IpAddr = [10, 1, 1, 1].into();
    assert_eq!(numbers.lookup(address), Ok(Some((8, [1, 2, 3]))));
    let net: IpNet = "10.0.0.0/8".parse().unwrap();
    assert_eq!(numbers.iter().collect::<Vec<_>>(), [Ok((net, [1, 2, 3]))]);
    let values = |values| Some(Error::Trouble(Trouble::Values(values)));
    assert_eq!(
        CheckedFib::<_, u32>::new(&copy).err(),
        values(Values::Bytes(12))
    );
    let hash = Fib::<V4, [u32; 3]>::layout_hash();
    let layout = Values::Layout { bytes: 12, hash };
    assert_eq!(CheckedFib::<_, [u8; 12]>::new(&copy).err(), values(layout));
    let other = Fib::<V6, [u32; 3]>::layout_hash();
    assert_eq!(numbers.check_layout(hash), Ok(()));
    assert_eq!(numbers.check_layout(other).err(), values(layout));
}

fn rounds() -> usize {
    std::env::var("SAPWOOD_OPS").map_or(150, |ops| ops.parse().unwrap())
}

/// Reads all of a damaged table. When nothing is found to be wrong, walk and lookups agree.
fn ask_all<F: Kind>(copy: &Copy, rng: &mut Rng) -> bool {
    let Ok(reader) = CheckedFib::<_, Bytes>::new(copy) else {
        return true;
    };
    for _ in 0..20 {
        let _ = reader.lookup(F::address(address(rng)));
        let prefix = prefix::<F>(rng);
        let net = IpNet::new(F::address(prefix.bits), prefix.len).unwrap();
        let found = reader.covering(net).unwrap_or_default();
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(found.iter().all(|(len, _)| *len <= prefix.len));
    }
    let (walk, census) = (walked(&reader), reader.verify());
    if let Ok(walk) = &walk {
        assert!(walk.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    match census {
        Ok(census) if census.is_settled() && reader.width() == Ok(F::WIDTH) => {
            let mut there = Lpm::new(F::WIDTH);
            for (prefix, value) in walk.unwrap() {
                there.insert(prefix, value);
            }
            assert_eq!(there.len(), census.prefixes);
            compare_lookups::<F, _>(&reader, &there, rng);
            false
        }
        _ => true,
    }
}

fn damaged<F: Kind>(bits: u8) {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(bits.into());
    let (_fib, oracle) = filled::<F>(&folder, bits, &mut rng, 400);
    let mut copy = folder.copy("fib");
    let used = copy.words.iter().rposition(|word| *word != 0).unwrap() + 1;
    let whole = copy.words.clone();
    // Most root words are empty.
    let there: Vec<usize> = (512..used).filter(|at| whole[*at] != 0).collect();
    let mut caught = 0;
    for round in 0..rounds() {
        let at = match round % 8 {
            0 => rng.usize(6..11),
            1 => rng.usize(512..used),
            _ => there[rng.usize(..there.len())],
        };
        match rng.u8(..4) {
            0 => copy.words[at] ^= 1 << rng.u8(..64),
            1 => copy.words[at] = rng.u64(..),
            2 => copy.words[at] = whole[there[rng.usize(..there.len())]],
            _ => {
                let (from, len) = (rng.usize(512..used), rng.usize(1..10));
                let len = len.min(used - at).min(used - from);
                copy.words[at..at + len].copy_from_slice(&whole[from..from + len]);
            }
        }
        caught += usize::from(ask_all::<F>(&copy, &mut rng));
        for len in [0, 64, rng.usize(512..used)] {
            let rest = copy.words.split_off(len);
            ask_all::<F>(&copy, &mut rng);
            copy.words.extend(rest);
            if round % 16 != 0 {
                break;
            }
        }
        copy.words.clone_from(&whole);
    }
    assert!(caught > rounds() / 3, "{caught} of {}", rounds());
    compare::<F>(&copy, bits, &oracle, &mut rng);
}

#[test]
fn damaged_ipv4() {
    damaged::<V4>(6);
    damaged::<V4>(12);
}

#[test]
fn damaged_ipv6() {
    damaged::<V6>(6);
    damaged::<V6>(12);
}

/// Nodes that refer to each other: everything ends at once.
#[test]
fn nodes_without_end() {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(9);
    let _ = filled::<V6>(&folder, 6, &mut rng, 400);
    let mut copy = folder.copy("fib");
    let root = (copy.words[6 + header::ROOT] as u32) as usize;
    let used = copy.words.iter().rposition(|word| *word != 0).unwrap() + 1;
    // Each node has the next one in every second slot, so there are 32 to the power of 20 paths.
    let first = (root + 64).max(520);
    assert!(first + 21 * 64 < used);
    for level in 0..21 {
        let at = first + level * 64;
        copy.words[at] = u64::MAX;
        copy.words[at + 1] = 0;
        let below = (1 << 31 | (at + 64)) as u64;
        copy.words[at + 2..at + 34].fill(below);
    }
    copy.words[root..root + 64].fill(first as u64);
    copy.words[6 + header::SHELF] = 0;
    let reader = reader(&copy);
    let began = std::time::Instant::now();
    assert!(matches!(
        walked(&reader),
        Err(Error::Trouble(Trouble::Damaged(..)))
    ));
    assert!(matches!(
        reader.verify(),
        Err(Error::Trouble(Trouble::Damaged(..)))
    ));
    assert!(began.elapsed().as_secs() < 5);
}

/// A table whose writer died between the words of a change of a short prefix.
#[test]
fn left_in_a_change() {
    let folder = Folder::new();
    let arena = folder.arena("fib", Fib::<V4, u32>::layout_hash());
    let fib = Fib::<V4, u32>::builder()
        .root_bits(12)
        .build_in(arena)
        .unwrap();
    for (net, value) in [("10.0.0.0/8", 1), ("10.0.0.0/24", 2), ("11.0.0.0/8", 3)] {
        fib.insert(net.parse().unwrap(), value).unwrap();
    }
    let before = folder.copy("fib");
    fib.insert("10.0.0.0/7".parse().unwrap(), 4).unwrap();
    fib.remove("11.0.0.0/8".parse().unwrap()).unwrap();
    let mut copy = folder.copy("fib");
    // The old header, and some of the old root words.
    copy.words[6..12].copy_from_slice(&before.words[6..12]);
    let root = (copy.words[6 + header::ROOT] as u32) as usize;
    let eleven = root + (11 << 4);
    copy.words[eleven + 3..eleven + 9].copy_from_slice(&before.words[eleven + 3..eleven + 9]);
    let reader = reader(&copy);
    let census = reader.verify().unwrap();
    assert_eq!(
        (census.prefixes, census.stated, census.unsettled),
        (3, 3, 10)
    );
    assert!(!census.is_settled());
    let nets: Vec<String> = reader
        .iter()
        .map(|entry| entry.unwrap().0.to_string())
        .collect();
    assert_eq!(nets, ["10.0.0.0/8", "10.0.0.0/24", "11.0.0.0/8"]);
    let len = |address: [u8; 4]| reader.lookup(address).unwrap().map(|(len, _)| len);
    assert_eq!(len([11, 0, 0, 1]), Some(7));
    assert_eq!(len([11, 0x30, 0, 1]), Some(8));
    assert_eq!(len([10, 0, 0, 1]), Some(24));
}

/// No answer is returned after an eviction.
#[test]
fn no_answer_after_an_eviction() {
    let folder = Folder::new();
    let mut rng = Rng::with_seed(5);
    let (_fib, oracle) = filled::<V4>(&folder, 6, &mut rng, 100);
    let copy = folder.copy("fib");
    let reader = reader(&copy);
    let evicted = |looks: usize, call: &dyn Fn() -> Result<(), Error>| {
        copy.evicted_after.set(looks);
        let result = call();
        copy.evicted_after.set(usize::MAX);
        result == Err(Error::Evicted)
    };
    let address = V4::address(oracle.iter().next().unwrap().0.bits);
    assert!(evicted(0, &|| reader.lookup(address).map(drop)));
    assert!(evicted(0, &|| reader
        .covering(IpNet::from(address))
        .map(drop)));
    assert!(evicted(0, &|| reader.get(IpNet::from(address)).map(drop)));
    assert!(evicted(0, &|| reader.verify().map(drop)));
    assert!(evicted(0, &|| reader.len().map(drop)));
    assert!(!evicted(1, &|| reader.lookup(address).map(drop)));
    for looks in 0..oracle.len() {
        assert!(evicted(looks, &|| walked(&reader).map(drop)), "{looks}");
    }
}
