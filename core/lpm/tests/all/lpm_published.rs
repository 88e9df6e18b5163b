//! Tables in an arena of which other processes know only the header page. A reader written from
//! `docs/lpm.md`, over a file that both map, answers as the oracle does.

#![cfg(all(unix, not(miri)))]

use std::os::unix::fs::FileExt;

use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood::lpm::{Fib, V4, V6};
use sapwood_format::lpm::header;
use sapwood_model::oracle::{Lpm, Prefix};

use crate::support::folder::Folder;
use crate::support::lpm::Kind;

/// Reads words of a file, as another process does.
struct Other(std::fs::File);

impl Other {
    fn u64(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, at).unwrap();
        u64::from_le_bytes(word)
    }

    fn u32(&self, at: u64) -> u32 {
        let mut word = [0; 4];
        self.0.read_exact_at(&mut word, at).unwrap();
        u32::from_le_bytes(word)
    }

    fn root(&self, index: usize) -> u64 {
        self.u64(48 + 8 * index as u64)
    }

    /// The value of a left-aligned address.
    fn lookup(&self, key: u128) -> Option<u32> {
        let root = self.root(header::ROOT);
        let bits = (root >> 32) as u32;
        let word = self.u64((root & 0xffff_ffff) * 8 + ((key >> (128 - bits)) as u64) * 8);
        let (mut best, mut node) = ((word >> 32) as u32, word as u32 & 0x07ff_ffff);
        let mut rest = key << bits;
        while node != 0 {
            let at = u64::from(node) * 8;
            let slot = (rest >> 122) as u32;
            let word = self.u64(at);
            if word & 1 == 0 {
                // A lone prefix: its bits, then a 1, then zeros.
                let rest = (rest >> 64) as u64;
                let left = 63 - word.trailing_zeros();
                let matches = word >> (64 - left) == rest >> (64 - left);
                assert_eq!(self.u32(at + 12), 1);
                for (value, found) in [(self.u32(at + 8), true), (self.u32(at + 20), matches)] {
                    best = if value != 0 && found { value } else { best };
                }
                break;
            }
            rest <<= 6;
            let rank = (self.u64(at) << (63 - slot)).count_ones() - 1;
            let base = self.u32(at + 8);
            best = if base == 0 { best } else { base };
            let cell = self.u32(at + 16 + 4 * u64::from(rank));
            node = if cell >> 31 == 1 {
                cell & 0x07ff_ffff
            } else {
                0
            };
            best = if node == 0 && cell != 0 { cell } else { best };
        }
        (best != 0).then(|| self.u32(u64::from(best) * 8))
    }
}

fn as_the_oracle<F: Kind>(bits: u8, seed: u64) {
    let name = format!("table-{seed}-{bits}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = Folder::new(&name);
    let path = folder.file("table");
    let options = ArenaOptions::default()
        .backing(Backing::File(path.clone()))
        .header(HeaderMode::Page)
        .layout_hash(Fib::<F, u32>::layout_hash());
    let random = |rng: &mut fastrand::Rng| {
        // Only few first bits vary, so that prefixes nest.
        let bits = rng.u128(..) & (0x8421 << 112 | rng.u128(..) >> 100 << (96 - 28) | 3 << 96);
        Prefix::truncated(bits, rng.u8(0..=F::WIDTH))
    };
    let mut oracle = Lpm::new(F::WIDTH);
    let first: Vec<_> = (0..100).map(|i| (random(&mut rng), i)).collect();
    for &(prefix, value) in &first {
        oracle.insert(prefix, value);
    }
    let fib = Fib::<F, u32>::builder()
        .root_bits(bits)
        .build_from_in(
            Arena::create(options).unwrap(),
            first.iter().map(|&(prefix, value)| (F::net(prefix), value)),
        )
        .unwrap();
    let other = Other(std::fs::File::open(&path).unwrap());
    assert_eq!(other.root(header::VALUE_BYTES), 4);
    assert_eq!(other.root(header::WIDTH), F::WIDTH.into());
    for round in 0..300 {
        let prefix = random(&mut rng);
        match rng.u8(0..3) {
            0 => {
                let known: Vec<Prefix> = oracle.iter().map(|(prefix, _)| prefix).collect();
                let Some(&prefix) = rng.choice(&known) else {
                    continue;
                };
                assert_eq!(fib.remove(F::net(prefix)).unwrap(), oracle.remove(prefix));
            }
            1 => {
                let mut txn = fib.begin();
                txn.insert(F::net(prefix), round).unwrap();
                txn.commit();
                oracle.insert(prefix, round);
            }
            _ => {
                assert_eq!(
                    fib.insert(F::net(prefix), round).unwrap(),
                    oracle.insert(prefix, round)
                );
            }
        }
        assert_eq!(other.root(header::LEN), oracle.len() as u64);
        let short = oracle.iter().any(|(prefix, _)| prefix.len <= bits);
        assert_eq!(other.root(header::SHELF) != 0, short);
        for _ in 0..10 {
            let addr = rng.u128(..) & (0x8421 << 112 | rng.u128(..)) | prefix.bits & rng.u128(..);
            let addr = Prefix::truncated(addr, F::WIDTH).bits;
            let want = oracle.lookup(addr).map(|(_, value)| *value);
            assert_eq!(other.lookup(addr), want, "{addr:032x}");
        }
    }
    fib.compact().unwrap();
    for (prefix, _) in oracle.iter() {
        let want = oracle.lookup(prefix.bits).map(|(_, value)| *value);
        assert_eq!(other.lookup(prefix.bits), want);
    }
    fib.verify().unwrap();
}

#[test]
fn ipv4_is_read_by_others() {
    for bits in [6, 12, 18] {
        as_the_oracle::<V4>(bits, 1);
    }
}

#[test]
fn ipv6_is_read_by_others() {
    for bits in [6, 12, 18] {
        as_the_oracle::<V6>(bits, 2);
    }
}

#[test]
fn a_table_reaches_as_far_as_its_references() {
    let options = ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 31 })
        .header(HeaderMode::Page);
    let fib = Fib::<V4, u64>::builder()
        .root_bits(6)
        .build_in(Arena::create(options).unwrap())
        .unwrap();
    fib.insert("10.0.0.0/8".parse().unwrap(), 1).unwrap();
    fib.verify().unwrap();
}
