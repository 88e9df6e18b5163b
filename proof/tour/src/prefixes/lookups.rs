//! Measures lookups in a `Fib` and in hash maps by turns, and compares all answers.

use std::hint::black_box;

use sapwood::lpm::Fib;
use sapwood_model::data::routes::{addresses_within, random_addresses};

use super::family::{Kind, PerLength};
use crate::errors::Error;
use crate::figures::{median, mega, timed};

/// The addresses of a batch.
const BATCH: usize = 32;

/// A table, its rival, and the addresses to look up in both.
pub struct Course<F: Kind> {
    /// The table of the library.
    pub fib: Fib<F, u32>,
    /// The rival, which is also the oracle.
    pub maps: PerLength<F>,
    /// The routes, sorted and without repetition.
    pub routes: Vec<(F::Net, u32)>,
    /// Random addresses of the whole family.
    random: Vec<F::Addr>,
    /// Random addresses inside prefixes, which are drawn evenly.
    pub inside: Vec<F::Addr>,
    /// The seconds to build the table and the rival.
    pub built: [f64; 2],
}

/// Medians in millions of lookups a second, of random addresses and of those inside the table.
pub struct Speeds {
    /// The rates of the table, one by one.
    pub single: [f64; 2],
    /// The rates of the table, 32 at a time.
    pub batch: [f64; 2],
    /// The rates of the rival.
    pub maps: [f64; 2],
    /// How many answers were compared.
    pub checks: u64,
}

impl<F: Kind> Course<F> {
    /// Builds the table and the rival of at least one route.
    pub fn new(routes: Vec<(F::Net, u32)>, addresses: usize) -> Result<Self, Error> {
        let (fib, ours) = timed(|| Fib::builder().build_from(routes.iter().copied()));
        let (maps, theirs) = timed(|| PerLength::new(&routes));
        let fib = fib?;
        if fib.len() != routes.len() {
            return Err(Error::Wrong(format!("{}: number of routes", F::NAME)));
        }
        fib.verify().map_err(Error::Wrong)?;
        let prefixes: Vec<_> = routes.iter().map(|(net, _)| F::split(*net)).collect();
        let all = |bits: Vec<u128>| bits.into_iter().map(F::address).collect();
        Ok(Course {
            fib,
            maps,
            routes,
            random: all(random_addresses(F::WIDTH, addresses, 1)),
            inside: all(addresses_within(&prefixes, F::WIDTH, addresses, 2)),
            built: [ours, theirs].map(|time| time.as_secs_f64()),
        })
    }

    /// Compares all answers, and then measures.
    pub fn run(&self, rounds: u64, mut progress: impl FnMut()) -> Result<Speeds, Error> {
        let mut speeds = Speeds {
            single: [0.0; 2],
            batch: [0.0; 2],
            maps: [0.0; 2],
            checks: self.compare()?,
        };
        let mut reader = self
            .fib
            .reader("lookups")
            .map_err(|e| Error::Usage(e.to_string()))?;
        for (i, asked) in [&self.random, &self.inside].into_iter().enumerate() {
            let (mut single, mut batch, mut maps) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let view = reader.view();
                let found = |hop: Option<u32>| hop.map_or(0, |hop| u64::from(hop) + 1);
                let (wanted, time) = timed(|| {
                    asked
                        .iter()
                        .map(|a| found(self.maps.lookup(*a).map(|(_, hop)| hop)))
                        .sum::<u64>()
                });
                maps.push(mega(asked.len(), time));
                let (sum, time) = timed(|| {
                    asked
                        .iter()
                        .map(|a| found(view.lookup_value(*a).copied()))
                        .sum::<u64>()
                });
                single.push(mega(asked.len(), time));
                let (many, time) = timed(|| {
                    let mut out = [None; BATCH];
                    let mut sum = 0;
                    for asked in asked.chunks(BATCH) {
                        let out = &mut out[..asked.len()];
                        view.lookup_batch(asked, out);
                        sum += out.iter().map(|hop| found(hop.copied())).sum::<u64>();
                    }
                    sum
                });
                batch.push(mega(asked.len(), time));
                if (sum, many) != (wanted, wanted) {
                    return Err(Error::Wrong(format!("{}: lookups", F::NAME)));
                }
                reader.quiescent();
                progress();
            }
            speeds.single[i] = median(single);
            speeds.batch[i] = median(batch);
            speeds.maps[i] = median(maps);
        }
        Ok(speeds)
    }

    /// Compares next hops and prefix lengths of all addresses; returns how many were compared.
    pub fn compare(&self) -> Result<u64, Error> {
        let snapshot = self.fib.snapshot();
        for address in self.random.iter().chain(&self.inside) {
            let theirs = self.maps.lookup(*address);
            let ours = snapshot.lookup(*address);
            let ours = ours.map(|(net, hop)| (F::split(net).len, *hop));
            if black_box(ours) != theirs {
                let what = format!("{address}: {ours:?}, not {theirs:?} (length, next hop)");
                return Err(Error::Wrong(what));
            }
        }
        Ok((self.random.len() + self.inside.len()) as u64)
    }
}
