//! The tables, through the functions of C, beside naive oracles: tables of routes of both kinds,
//! range maps, and the cache. `SAPWOOD_OPS` sets the number of operations of each test,
//! `SAPWOOD_SEED` repeats one.

mod cache;
mod fib;
mod range_txns;
mod ranges;
mod routes;

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use fastrand::Rng;
use sapwood_capi::domain::*;
use sapwood_capi::fib::*;
use sapwood_capi::prefix::sapwood_prefix;
use sapwood_capi::reader::*;
use sapwood_model::oracle::{LpmByLength, Prefix};

pub(crate) fn ops(usual: usize) -> usize {
    std::env::var("SAPWOOD_OPS").map_or(usual, |ops| ops.parse().expect("a number"))
}

/// A generator whose seed is printed, and so shown when the test fails.
pub(crate) fn rng() -> (Rng, u64) {
    let seed = std::env::var("SAPWOOD_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("a number"),
    );
    eprintln!("SAPWOOD_SEED={seed}");
    (Rng::with_seed(seed), seed)
}

pub(crate) const ABSENT: c_int = -libc::ENOENT;

/// A small root: the tables are walked often.
pub(crate) static SMALL: sapwood_fib_options = sapwood_fib_options {
    size: size_of::<sapwood_fib_options>(),
    flags: 0,
    root_bits: 12,
    memory_limit: 0,
};

/// A domain with a reader.
pub(crate) struct Readers {
    pub(crate) domain: *mut sapwood_domain,
    pub(crate) reader: *mut sapwood_reader,
}

impl Readers {
    pub(crate) fn new() -> Self {
        let (mut domain, mut reader) = (null_mut(), null_mut());
        // SAFETY: the places and the text are there; this thread uses the reader.
        unsafe {
            assert_eq!(sapwood_domain_new(null(), &raw mut domain), 0);
            assert_eq!(
                sapwood_reader_new(domain, c"oracle".as_ptr(), &raw mut reader),
                0
            );
        }
        Readers { domain, reader }
    }

    pub(crate) fn quiescent(&self) {
        // SAFETY: it is alive, and this thread's.
        assert_eq!(unsafe { sapwood_reader_quiescent(self.reader) }, 0);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // SAFETY: both are alive, and nothing uses them any more.
        unsafe {
            sapwood_reader_free(self.reader);
            sapwood_domain_free(self.domain);
        }
    }
}

/// The lengths of prefixes: about the bits that the root and the nodes resolve.
const LENGTHS: [&[u8]; 2] = [
    &[0, 1, 8, 12, 13, 16, 18, 22, 23, 24, 31, 32],
    &[0, 1, 12, 16, 32, 44, 48, 64, 65, 127, 128],
];

/// A prefix or an address that others are near to, of either family.
pub(crate) fn net(rng: &mut Rng) -> (bool, Prefix) {
    let v4 = rng.bool();
    let places = if v4 { [120, 106, 96] } else { [120, 80, 0] };
    let address = places.map(|place| u128::from(rng.u8(0..3)) << place);
    let lengths = LENGTHS[usize::from(!v4)];
    let len = lengths[rng.usize(0..lengths.len())];
    let address = address.iter().fold(0, |all, part| all | part);
    (v4, Prefix::truncated(address, len))
}

pub(crate) fn c_prefix(v4: bool, prefix: Prefix) -> sapwood_prefix {
    sapwood_prefix {
        addr: prefix.bits.to_be_bytes(),
        addr_len: if v4 { 4 } else { 16 },
        bits: prefix.len,
    }
}

pub(crate) fn of_c(prefix: &sapwood_prefix) -> (bool, Prefix) {
    let bits = u128::from_be_bytes(prefix.addr);
    (
        prefix.addr_len == 4,
        Prefix {
            bits,
            len: prefix.bits,
        },
    )
}

pub(crate) fn address(v4: bool, prefix: Prefix) -> ([u8; 16], usize) {
    (prefix.bits.to_be_bytes(), if v4 { 4 } else { 16 })
}

/// The oracle of both families.
#[derive(Clone)]
pub(crate) struct Both<V> {
    pub(crate) v4: LpmByLength<V>,
    pub(crate) v6: LpmByLength<V>,
}

impl<V> Both<V> {
    pub(crate) fn new() -> Self {
        Both {
            v4: LpmByLength::new(32),
            v6: LpmByLength::new(128),
        }
    }

    pub(crate) fn of(&mut self, v4: bool) -> &mut LpmByLength<V> {
        if v4 { &mut self.v4 } else { &mut self.v6 }
    }

    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

/// Compares an answer with an optional value.
pub(crate) fn same(result: c_int, value: u64, expected: Option<u64>) {
    match expected {
        Some(expected) => assert_eq!((result, value), (0, expected)),
        None => assert_eq!(result, ABSENT),
    }
}
