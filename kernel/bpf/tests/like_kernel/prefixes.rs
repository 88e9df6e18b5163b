//! Prefixes: LPM_TRIE, tables of bit strings that programs write, and tables of addresses that this
//! process writes, against an oracle.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use libbpf_rs::{MapCore, MapHandle, MapType, libbpf_sys};
use sapwood::lpm::BitString;
use sapwood_bpf::{BitFibMap, BpfArena, IpMap, ProgramMap};
use sapwood_model::oracle::{Lpm, Prefix};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kernel::{short, skipped};
use crate::{ANY, Asking, E2BIG, EEXIST, EINVAL, ENOENT, ENOSPC, EXIST, NOEXIST, What, zeros};

/// `struct prefix` of the program.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Question {
    what: u32,
    family: u32,
    windows: [u32; 2],
    flags: u64,
    value: u64,
    length: u32,
    matched: u32,
    fib_matched: u32,
    unused: u32,
    data: [u8; 16],
    results: [i64; 3],
    values: [u64; 3],
    key: [u8; 256],
}

/// The tables of one family, with the kernel's among the programs.
struct Tables {
    asking: Asking,
    width: u8,
    bits: ProgramMap<u64>,
    addresses: IpMap<u64>,
}

impl Tables {
    /// Tables of `width` bits. Those of the kernel and of programs have this many entries.
    fn new(width: u8, entries: usize) -> Tables {
        let arena = BpfArena::create(128 << 20).unwrap();
        let bits = ProgramMap::<u64>::builder(&arena, "bits").with_trie();
        // Four bits take a byte of a key.
        let bits = bits
            .max_entries(entries)
            .longest_key(usize::from(width) / 4);
        Tables {
            asking: Asking::new(&arena, entries as u32),
            width,
            bits: bits.bytes(16 << 20).build().unwrap(),
            addresses: IpMap::new(&arena, "addresses", 24 << 20).unwrap(),
        }
    }

    fn question(&self, what: What, bits: u128, len: u32, flags: u64, value: u64) -> Question {
        let family = if self.width == 32 { 4 } else { 6 };
        let fib = match family {
            4 => self.addresses.window4(),
            _ => self.addresses.window6(),
        };
        let data = bits.to_be_bytes();
        // A string may be longer than an address.
        let longer = [&data[..], &[0; 8]].concat();
        let string = BitString::truncated(&longer, len as usize).unwrap();
        Question {
            what: what as u32,
            family,
            windows: [self.bits.window().number, fib.number],
            flags,
            value,
            length: len,
            data,
            key: short(&string.key()),
            ..zeros()
        }
    }

    /// A change of LPM_TRIE, and of the table of strings: both results.
    fn change(&self, what: What, (bits, len): (u128, u32), flags: u64, value: u64) -> [i64; 2] {
        let mut question = self.question(what, bits, len, flags, value);
        self.asking.run("sw_kernels_prefix", &mut question);
        self.asking.run("sw_ours_prefix", &mut question);
        [question.results[0], question.results[1]]
    }

    fn insert(&self, prefix: Prefix, flags: u64, value: u64) -> [i64; 2] {
        let at = (prefix.bits, prefix.len.into());
        self.change(What::Insert, at, flags, value)
    }

    fn remove(&self, prefix: Prefix) -> [i64; 2] {
        self.change(What::Remove, (prefix.bits, prefix.len.into()), 0, 0)
    }

    /// A lookup of an address in all three: the values or errors, and the lengths, which LPM_TRIE
    /// does not say.
    fn lookup(&self, address: u128) -> ([Result<u64, i64>; 3], [u32; 2]) {
        let mut question = self.question(What::Lookup, address, self.width.into(), 0, 0);
        for program in ["sw_kernels_prefix", "sw_ours_prefix", "sw_fib_prefix"] {
            self.asking.run(program, &mut question);
        }
        let results = std::array::from_fn(|i| match question.results[i] {
            1 => Ok(question.values[i]),
            error => Err(error),
        });
        (results, [question.matched, question.fib_matched])
    }

    fn net(&self, prefix: Prefix) -> IpNet {
        match self.width {
            32 => Ipv4Net::new(prefix.v4_addr(), prefix.len).unwrap().into(),
            _ => Ipv6Net::new(prefix.v6_addr(), prefix.len).unwrap().into(),
        }
    }

    /// Inserts or replaces in all tables and in the oracle.
    fn put(&self, oracle: &mut Lpm<u64>, prefix: Prefix, value: u64) {
        assert_eq!(self.insert(prefix, ANY, value), [0, 0], "{prefix:?}");
        let old = self.addresses.insert(self.net(prefix), value).unwrap();
        assert_eq!(old, oracle.insert(prefix, value));
    }

    /// Removes from all tables and from the oracle.
    fn take(&self, oracle: &mut Lpm<u64>, prefix: Prefix) {
        let old = oracle.remove(prefix);
        let wanted = if old.is_some() { 0 } else { ENOENT };
        assert_eq!(self.remove(prefix), [wanted; 2], "{prefix:?}");
        assert_eq!(self.addresses.remove(self.net(prefix)).unwrap(), old);
    }

    /// Compares all answers for an address.
    fn check(&self, oracle: &Lpm<u64>, address: u128) {
        let address = Prefix::truncated(address, self.width).bits;
        let (results, lengths) = self.lookup(address);
        match oracle.lookup(address) {
            Some((prefix, value)) => {
                assert_eq!(results, [Ok(*value); 3], "{address:032x}");
                assert_eq!(lengths, [u32::from(prefix.len); 2], "{address:032x}");
            }
            None => assert_eq!(results, [Err(ENOENT); 3], "{address:032x}"),
        }
    }

    /// The prefixes of LPM_TRIE, as a walk of system calls gives them.
    fn kernels_order(&self) -> Vec<Prefix> {
        let name = if self.width == 32 { "lpm4" } else { "lpm6" };
        let map = self.asking.0.map(name).unwrap();
        map.keys()
            .take(100_000)
            .map(|key| prefix_of(&key))
            .collect()
    }

    /// Those of the table of strings.
    fn our_order(&self) -> Vec<Prefix> {
        let reader = self.bits.reader().unwrap();
        let keys = reader.iter().map(|entry| entry.unwrap().0);
        keys.map(|key| {
            let string = BitString::from_key(&key).unwrap();
            let mut bits = [0; 16];
            bits[..string.as_bytes().len()].copy_from_slice(string.as_bytes());
            Prefix {
                bits: u128::from_be_bytes(bits),
                len: string.len() as u8,
            }
        })
        .collect()
    }
}

/// The prefix of a key of LPM_TRIE.
fn prefix_of(key: &[u8]) -> Prefix {
    let (len, data) = key.split_at(4);
    let mut bits = [0; 16];
    bits[..data.len()].copy_from_slice(data);
    Prefix {
        bits: u128::from_be_bytes(bits),
        len: u32::from_ne_bytes(len.try_into().unwrap()) as u8,
    }
}

/// The order of LPM_TRIE: each prefix comes behind those that it covers. The order of `Prefix` is
/// ours: before them.
fn covered_first(prefix: &Prefix) -> (u128, u8) {
    let ones = u128::MAX.checked_shr(prefix.len.into()).unwrap_or(0);
    (prefix.bits | ones, 128 - prefix.len)
}

/// An address with few ones, so that prefixes nest.
fn address(rng: &mut fastrand::Rng, width: u8) -> u128 {
    let few = rng.u128(..) & rng.u128(..) & rng.u128(..);
    let top = rng.u128(..) & 0xf << 124;
    Prefix::truncated(if rng.bool() { few } else { top }, width).bits
}

#[test]
fn every_length() {
    if skipped() {
        return;
    }
    for width in [32, 128] {
        let tables = Tables::new(width, 200);
        let mut rng = fastrand::Rng::with_seed(width.into());
        for order in 0..3 {
            let mut oracle = Lpm::new(width);
            let base = Prefix::truncated(rng.u128(..), width).bits;
            let mut lengths: Vec<u8> = (0..=width).collect();
            match order {
                0 => {}
                1 => lengths.reverse(),
                _ => rng.shuffle(&mut lengths),
            }
            // The address itself, and those that part from it at some bit.
            let check = |oracle: &Lpm<u64>, rng: &mut fastrand::Rng| {
                tables.check(oracle, base);
                for _ in 0..4 {
                    tables.check(oracle, base ^ 1 << (127 - rng.u8(..width)));
                }
            };
            for &len in &lengths {
                let prefix = Prefix::truncated(base, len);
                tables.put(&mut oracle, prefix, u64::from(len) + 1000);
                check(&oracle, &mut rng);
            }
            assert_eq!(tables.bits.len(), usize::from(width) + 1);
            // Replaced in place, then removed, those between others, too.
            for &len in &lengths {
                tables.put(
                    &mut oracle,
                    Prefix::truncated(base, len),
                    u64::from(len) + 2000,
                );
            }
            check(&oracle, &mut rng);
            rng.shuffle(&mut lengths);
            for &len in &lengths {
                tables.take(&mut oracle, Prefix::truncated(base, len));
                tables.take(&mut oracle, Prefix::truncated(base, len));
                check(&oracle, &mut rng);
            }
            assert_eq!(tables.kernels_order(), []);
            tables.bits.service().unwrap();
            assert_eq!(tables.bits.verify().unwrap().entries, 0);
        }
    }
}

#[test]
fn lengths_over_the_maximum() {
    if skipped() {
        return;
    }
    for width in [32u8, 128] {
        let tables = Tables::new(width, 16);
        assert_eq!(tables.insert(Prefix::default(), ANY, 7), [0, 0]);
        // Sixteen bytes and more than that are no prefix of an address.
        for len in [u32::from(width) + 1, u32::from(width) + 8] {
            assert_eq!(tables.change(What::Insert, (0, len), ANY, 1), [EINVAL; 2]);
            assert_eq!(tables.change(What::Remove, (0, len), 0, 0), [EINVAL; 2]);
            // A lookup of such a key finds nothing in LPM_TRIE. For ours it is a string that
            // begins with the empty prefix.
            let mut question = tables.question(What::Lookup, 0, len, 0, 0);
            tables.asking.run("sw_kernels_prefix", &mut question);
            tables.asking.run("sw_ours_prefix", &mut question);
            assert_eq!(question.results[..2], [ENOENT, 1], "{len}");
            assert_eq!((question.values[1], question.matched), (7, 0));
        }
        assert_eq!(tables.bits.len(), 1);
    }
    // A table of addresses takes only what is a network.
    assert!(Ipv4Net::new(Ipv4Addr::new(10, 0, 0, 0), 33).is_err());
    // LPM_TRIE has strings of up to 2,048 bits, programs look up 1,016 of ours.
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: libbpf_sys::BPF_F_NO_PREALLOC,
        ..Default::default()
    };
    let made = |bytes: u32| {
        MapHandle::create(MapType::LpmTrie, Some("made"), 4 + bytes, 8, 2, &options).is_ok()
    };
    assert_eq!([0, 1, 256, 257].map(made), [false, true, true, false]);
    let arena = BpfArena::create(16 << 20).unwrap();
    let table = BitFibMap::<u64>::builder(&arena, "long").bytes(4 << 20);
    let table = table.build().unwrap();
    let long = BitString::truncated(&[7; 256], 2048).unwrap();
    table.insert(&long, 9).unwrap();
    assert_eq!(table.get(&long), Some(9));
}

#[test]
fn flags_and_full_tables() {
    if skipped() {
        return;
    }
    for width in [32, 128] {
        let tables = Tables::new(width, 4);
        let prefix = |len| Prefix::truncated(0xabcd << 112, len);
        assert_eq!(tables.remove(prefix(8)), [ENOENT; 2]);
        assert_eq!(tables.insert(prefix(8), EXIST, 1), [ENOENT; 2]);
        assert_eq!(tables.insert(prefix(8), NOEXIST, 2), [0; 2]);
        assert_eq!(tables.insert(prefix(8), NOEXIST, 3), [EEXIST; 2]);
        assert_eq!(tables.insert(prefix(8), EXIST, 4), [0; 2]);
        for flags in [3, 4, 8, 1 << 32, u64::MAX] {
            assert_eq!(
                tables.insert(prefix(8), flags, 5),
                [EINVAL; 2],
                "{flags:#x}"
            );
            assert_eq!(
                tables.insert(prefix(9), flags, 5),
                [EINVAL; 2],
                "{flags:#x}"
            );
        }
        assert_eq!(tables.lookup(0xabcd << 112).0[..2], [Ok(4); 2]);
        // Both sides of a bit: LPM_TRIE makes a node for what they share, which is no prefix.
        let sides = [0b1000, 0b1001].map(|top: u128| Prefix::truncated(top << 124, 4));
        assert_eq!(sides.map(|side| tables.insert(side, ANY, 6)), [[0; 2]; 2]);
        assert_eq!(
            tables.remove(Prefix::truncated(0b100 << 125, 3)),
            [ENOENT; 2]
        );
        let shared = Prefix::truncated(0b100 << 125, 3);
        assert_eq!(tables.insert(shared, EXIST, 6), [ENOENT; 2]);
        assert_eq!(tables.insert(shared, NOEXIST, 7), [0; 2]);
        // The tables are full, and say it in two ways.
        for flags in [ANY, NOEXIST] {
            assert_eq!(tables.insert(prefix(16), flags, 8), [ENOSPC, E2BIG]);
        }
        assert_eq!(tables.insert(prefix(16), EXIST, 8), [ENOENT; 2]);
        assert_eq!(tables.insert(prefix(8), NOEXIST, 8), [EEXIST; 2]);
        for value in 0..200 {
            assert_eq!(tables.insert(prefix(8), ANY, value), [0; 2]);
            assert_eq!(tables.insert(shared, EXIST, value), [0; 2]);
        }
        assert_eq!(tables.remove(sides[0]), [0; 2]);
        assert_eq!(tables.insert(prefix(16), NOEXIST, 8), [0; 2]);
        assert_eq!(tables.insert(prefix(17), NOEXIST, 8), [ENOSPC, E2BIG]);
        assert_eq!(tables.bits.verify().unwrap().entries, 4);
    }
}

#[test]
fn as_the_oracle() {
    if skipped() {
        return;
    }
    for (width, seed) in [(32, 1), (128, 2)] {
        let tables = Tables::new(width, 500);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut oracle = Lpm::new(width);
        for round in 0..2500u64 {
            let known = oracle.iter().nth(rng.usize(..oracle.len().max(1)));
            let known = known.map(|(prefix, _)| prefix);
            let new = Prefix::truncated(address(&mut rng, width), rng.u8(..=width));
            // More insertions than removals at first.
            match (rng.u64(..5000) < round + 1000, known) {
                (true, Some(known)) => tables.take(&mut oracle, known),
                (true, None) => tables.take(&mut oracle, new),
                (false, Some(known)) if oracle.len() == 500 || rng.u8(..6) == 0 => {
                    tables.put(&mut oracle, known, round);
                }
                (false, _) => tables.put(&mut oracle, new, round),
            }
            tables.bits.service().unwrap();
            for _ in 0..3 {
                tables.check(&oracle, address(&mut rng, width));
            }
            if let Some((prefix, _)) = oracle.iter().nth(rng.usize(..oracle.len().max(1))) {
                tables.check(&oracle, prefix.bits);
                tables.check(&oracle, prefix.bits | rng.u128(..) >> prefix.len.min(127));
            }
            if round % 250 == 0 {
                in_order(&tables, &oracle);
            }
        }
        in_order(&tables, &oracle);
        tables.bits.verify().unwrap();
        tables.addresses.verify().unwrap();
    }
}

/// Compares the orders of walks with those that are written down here.
fn in_order(tables: &Tables, oracle: &Lpm<u64>) {
    let mut wanted: Vec<Prefix> = oracle.iter().map(|(prefix, _)| prefix).collect();
    assert!(wanted.is_sorted());
    assert_eq!(tables.our_order(), wanted);
    let snapshot = tables.addresses.snapshot();
    let nets: Vec<IpNet> = snapshot.iter().map(|(net, _)| net).collect();
    assert_eq!(
        nets,
        wanted
            .iter()
            .map(|prefix| tables.net(*prefix))
            .collect::<Vec<_>>()
    );
    wanted.sort_by_key(covered_first);
    assert_eq!(tables.kernels_order(), wanted);
}

/// LPM_TRIE gives a prefix behind those that it covers, and begins anew when the key before is
/// gone. Ours gives it before them, and goes on.
#[test]
fn order() {
    if skipped() {
        return;
    }
    let tables = Tables::new(32, 16);
    let net = |text: &str| {
        let net: Ipv4Net = text.parse().unwrap();
        Prefix::v4(net.network(), net.prefix_len())
    };
    let all = [
        "192.168.0.0/16",
        "192.168.0.0/24",
        "192.168.128.0/24",
        "192.168.1.0/24",
        "10.0.0.0/8",
    ];
    let mut oracle = Lpm::new(32);
    for (text, value) in all.into_iter().zip(1..) {
        tables.put(&mut oracle, net(text), value);
    }
    let kernels = [
        "10.0.0.0/8",
        "192.168.0.0/24",
        "192.168.1.0/24",
        "192.168.128.0/24",
        "192.168.0.0/16",
    ];
    assert_eq!(tables.kernels_order(), kernels.map(net));
    let ours = [
        "10.0.0.0/8",
        "192.168.0.0/16",
        "192.168.0.0/24",
        "192.168.1.0/24",
        "192.168.128.0/24",
    ];
    assert_eq!(tables.our_order(), ours.map(net));
    // The key before is gone.
    let map = tables.asking.0.map("lpm4").unwrap();
    let mut walk = map.keys().map(|key| prefix_of(&key));
    assert_eq!(walk.by_ref().nth(1), Some(net(kernels[1])));
    tables.take(&mut oracle, net(kernels[1]));
    assert_eq!(walk.next(), Some(net(kernels[0])));
    let gone = net("192.168.0.0/24");
    let window = crate::window(&tables.bits);
    let key = BitString::truncated(&gone.v4_addr().octets(), 24)
        .unwrap()
        .key();
    let next = tables
        .asking
        .ask_key(window, What::Next, 0, short(&key), 0, 0);
    let value = oracle.get(net("192.168.1.0/24")).copied();
    assert_eq!((next.result == 1).then_some(next.value), value);
}

/// Bits behind the length of a prefix: LPM_TRIE stores them, and they name no other prefix. A
/// string of bits has none.
#[test]
fn bits_behind_the_length() {
    if skipped() {
        return;
    }
    let tables = Tables::new(32, 16);
    let behind = u128::from(0x0a01_0203u32) << 96;
    assert_eq!(tables.change(What::Insert, (behind, 8), NOEXIST, 1), [0; 2]);
    assert_eq!(
        tables.insert(Prefix::truncated(behind, 8), NOEXIST, 2),
        [EEXIST; 2]
    );
    assert_eq!(tables.lookup(0x0aff << 112).0[..2], [Ok(1); 2]);
    let [kernels, ours] = [tables.kernels_order(), tables.our_order()];
    assert_eq!(
        kernels,
        [Prefix {
            bits: behind,
            len: 8
        }]
    );
    assert_eq!(ours, [Prefix::truncated(behind, 8)]);
    // A table of addresses refuses them.
    let net = Ipv4Net::new(Ipv4Addr::new(10, 1, 2, 3), 8).unwrap();
    let refused = tables.addresses.insert(net.into(), 3).unwrap_err();
    assert!(refused.to_string().contains("10.1.2.3/8"), "{refused}");
    assert_eq!((refused.value, tables.addresses.len()), (3, 0));
    assert_eq!(tables.remove(Prefix::truncated(behind, 8)), [0; 2]);
}
