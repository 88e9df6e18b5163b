//! A list of changes to a table, with the answer of every lookup after each of them, for readers
//! beside the writer. An answer is right if it is that of a table between two changes: the last one
//! completed before the lookup began, and the last one begun before it ended.
#![allow(dead_code)] // Each test uses only a part of it.

use sapwood::lpm::{Fib, FibTxn};
use sapwood_model::oracle::{Lpm, Prefix};

use super::lpm::Kind;
use super::progress::Progress;

/// One step of the writer.
#[derive(Clone, Debug)]
pub enum Step {
    Insert(Prefix, u32),
    Remove(Prefix),
    /// Several changes in one transaction.
    All(Vec<Step>),
    Compact,
}

/// The steps, and the table after each.
pub struct Script {
    pub addresses: Vec<u128>,
    pub nets: Vec<Prefix>,
    pub steps: Vec<Step>,
    /// By number of completed steps: for each address the longest prefix and its value.
    pub found: Vec<Vec<Option<(Prefix, u32)>>>,
    /// By number of completed steps: for each prefix its value.
    pub values: Vec<Vec<Option<u32>>>,
}

impl Script {
    /// Random steps on the prefixes of a few addresses, with these lengths.
    pub fn new<F: Kind>(seed: u64, addresses: &[u128], lens: &[u8], count: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut nets: Vec<Prefix> = addresses
            .iter()
            .flat_map(|a| lens.iter().map(|len| Prefix::truncated(*a, *len)))
            .collect();
        nets.sort();
        nets.dedup();
        let mut version = 0;
        let mut one = |rng: &mut fastrand::Rng| {
            let net = nets[rng.usize(0..nets.len())];
            version += 1;
            // Each value is inserted only once, so that an answer shows its time.
            match rng.bool() {
                true => Step::Insert(net, version),
                false => Step::Remove(net),
            }
        };
        let steps: Vec<Step> = (0..count)
            .map(|_| match rng.u8(0..10) {
                0..7 => one(&mut rng),
                7..9 => Step::All((0..rng.usize(1..5)).map(|_| one(&mut rng)).collect()),
                _ => Step::Compact,
            })
            .collect();
        let mut oracle = Lpm::new(F::WIDTH);
        let answers = |oracle: &Lpm<u32>| -> Vec<_> {
            let found = addresses.iter().map(|a| oracle.lookup(*a));
            found.map(|f| f.map(|(p, v)| (p, *v))).collect()
        };
        let exact = |oracle: &Lpm<u32>| nets.iter().map(|p| oracle.get(*p).copied()).collect();
        let (mut found, mut values) = (vec![answers(&oracle)], vec![exact(&oracle)]);
        for step in &steps {
            step.on_oracle(&mut oracle);
            found.push(answers(&oracle));
            values.push(exact(&oracle));
        }
        Script {
            addresses: addresses.to_vec(),
            nets,
            steps,
            found,
            values,
        }
    }
}

impl Step {
    fn on_oracle(&self, oracle: &mut Lpm<u32>) {
        match self {
            Step::Insert(net, value) => drop(oracle.insert(*net, *value)),
            Step::Remove(net) => drop(oracle.remove(*net)),
            Step::All(steps) => steps.iter().for_each(|step| step.on_oracle(oracle)),
            Step::Compact => {}
        }
    }

    fn on_txn<F: Kind>(&self, txn: &mut FibTxn<'_, F, u32>) {
        match self {
            Step::Insert(net, value) => drop(txn.insert(F::net(*net), *value).unwrap()),
            Step::Remove(net) => drop(txn.remove(F::net(*net)).unwrap()),
            Step::All(_) | Step::Compact => unreachable!("transactions do not nest"),
        }
    }

    pub fn on_fib<F: Kind>(&self, fib: &Fib<F, u32>) {
        match self {
            Step::Insert(net, value) => drop(fib.insert(F::net(*net), *value).unwrap()),
            Step::Remove(net) => drop(fib.remove(F::net(*net)).unwrap()),
            Step::All(steps) => {
                let mut txn = fib.begin();
                steps.iter().for_each(|step| step.on_txn(&mut txn));
                txn.commit();
            }
            Step::Compact => fib.compact().unwrap(),
        }
    }
}

/// Makes one round of queries of a reader beside the writer, and checks each answer.
pub fn ask_beside<F: Kind>(
    fib: &Fib<F, u32>,
    view: sapwood::lpm::FibView<'_, F, u32>,
    script: &Script,
    progress: &Progress,
    rng: &mut fastrand::Rng,
) {
    let from = progress.done();
    match rng.u8(0..6) {
        0 | 1 => {
            let i = rng.usize(0..script.addresses.len());
            let found = view.lookup_value(F::addr(script.addresses[i])).copied();
            let to = progress.begun();
            let mut right = script.found[from..=to].iter().map(|at| at[i].map(|f| f.1));
            assert!(right.any(|r| r == found), "{found:?} in {from}..={to}");
        }
        2 => {
            let i = rng.usize(0..script.addresses.len());
            let found = view.lookup(F::addr(script.addresses[i]));
            let found = found.map(|(net, value)| (F::prefix(net), *value));
            let to = progress.begun();
            let mut right = script.found[from..=to].iter().map(|at| at[i]);
            assert!(right.any(|r| r == found), "{found:?} in {from}..={to}");
        }
        3 => {
            let addrs: Vec<F::Addr> = script.addresses.iter().map(|a| F::addr(*a)).collect();
            let mut values = vec![None; addrs.len()];
            view.lookup_batch(&addrs, &mut values);
            let to = progress.begun();
            for (i, value) in values.iter().enumerate() {
                let mut right = script.found[from..=to].iter().map(|at| at[i].map(|f| f.1));
                assert!(
                    right.any(|r| r == value.copied()),
                    "lane {i}: {value:?} in {from}..={to}"
                );
            }
        }
        4 => {
            let i = rng.usize(0..script.nets.len());
            let value = view.get(F::net(script.nets[i])).copied();
            let to = progress.begun();
            let mut right = script.values[from..=to].iter().map(|at| at[i]);
            assert!(right.any(|r| r == value), "{value:?} in {from}..={to}");
        }
        _ => {
            // All answers of a snapshot are those of one table.
            let snapshot = fib.snapshot();
            let to = progress.begun();
            let found: Vec<_> = script
                .addresses
                .iter()
                .map(|a| snapshot.lookup(F::addr(*a)))
                .map(|f| f.map(|(net, value)| (F::prefix(net), *value)))
                .collect();
            assert!(
                script.found[from..=to].contains(&found),
                "{found:?} in {from}..={to}"
            );
        }
    }
}
