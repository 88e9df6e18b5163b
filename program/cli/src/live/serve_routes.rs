//! `routes serve`: keeps a live table of routes.

use std::collections::HashMap;
use std::path::Path;

use ipnet::IpNet;
use sapwood::lpm::{FibMemory, IpFib};
use sapwood_live::{Live, LiveTexts, Unpublished};
use serde_json::Value;

use super::changes::{Asked, Change, Difference, Made};
use super::metrics::State;
use super::serve::{self, BUDGET, Served, Signals};
use crate::cli::routes::ServeArgs;
use crate::errors::{Error, Outcome, complain};
use crate::output::Output;
use crate::routes::load::{Routes, parse_prefix, parse_route};
use crate::routes::query::hop_json;
use crate::span;

/// A live table of routes.
struct Table<'a> {
    table: Live<IpFib<u32>>,
    next_hops: LiveTexts,
    args: &'a ServeArgs,
}

/// Serves a table.
pub fn run(args: &ServeArgs) -> Outcome {
    let _serve = span!(INFO, "serve", map = %args.keep.live.display());
    let begun = serve::begin(&[&args.input], &args.keep)?;
    let routes = Routes::load(&args.input, &args.source)?;
    let signals = Signals::begin()?;
    let folder = &args.keep.live;
    let (table, next_hops, made) = serve::keep_with_texts(folder, &args.keep)?;
    let is_new = made.is_some();
    let mut table = Table {
        table,
        next_hops,
        args,
    };
    for (_, number) in table.table.snapshot().iter() {
        table.next_hops.used(*number);
    }
    let difference = table.adopt(&routes)?;
    made.map_or(Ok(()), Unpublished::publish)?;
    let summary = format!("{} routes, live", routes.len());
    serve::report(folder, &summary, is_new, difference, args.quiet);
    if routes.is_empty() {
        complain(&format!("{}: warning: no routes", folder.display()));
    }
    drop(routes);
    let out = Output::lines(args.keep.json);
    serve::serve(table, &args.keep, out, (signals, begun), difference)
}

/// Parses the key of an entry, as a change has it.
fn net_of(key: &[u8]) -> Option<IpNet> {
    std::str::from_utf8(key).ok()?.parse().ok()
}

impl Table<'_> {
    /// Makes changes in one transaction; returns the old number of each prefix. If that fails, the
    /// table stays as it was.
    fn change(
        &mut self,
        changes: &[(IpNet, Option<u32>)],
    ) -> Result<Vec<Option<u32>>, sapwood::Error> {
        let mut txn = self.table.begin();
        let mut olds = Vec::with_capacity(changes.len());
        for (net, number) in changes {
            olds.push(match number {
                Some(number) => txn
                    .insert(*net, *number)
                    .map_err(sapwood::Error::from)?
                    .copied(),
                None => txn.remove(*net)?.copied(),
            });
        }
        txn.commit();
        for ((_, new), old) in changes.iter().zip(&olds) {
            new.iter().for_each(|number| self.next_hops.used(*number));
            old.iter().for_each(|number| self.next_hops.left(*number));
        }
        Ok(olds)
    }

    /// Makes the table what the routes say.
    fn adopt(&mut self, routes: &Routes) -> Result<Difference, sapwood::Error> {
        let span = Difference::span();
        let numbers = self
            .next_hops
            .numbers(routes.names.iter().map(|name| &**name))?;
        let mut wanted: HashMap<IpNet, u32> = routes
            .iter()
            .map(|(net, name)| (net, numbers[name as usize]))
            .collect();
        let mut difference = Difference::default();
        let mut changes = Vec::new();
        for (net, old) in self.table.snapshot().iter() {
            match wanted.remove(&net) {
                Some(new) if new == *old => {}
                Some(new) => {
                    difference.changed += 1;
                    changes.push((net, Some(new)));
                }
                None => {
                    difference.removed += 1;
                    changes.push((net, None));
                }
            }
        }
        difference.added = wanted.len() as u64;
        changes.extend(wanted.into_iter().map(|(net, number)| (net, Some(number))));
        difference.note_in(&span);
        if !changes.is_empty() {
            let _commit = span!(INFO, "commit", map = %self.args.keep.live.display());
            self.change(&changes)?;
        }
        Ok(difference)
    }
}

impl Served for Table<'_> {
    type Value = String;

    fn list(&self) -> &Path {
        &self.args.input
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, String), String> {
        let (net, next_hop) = parse_route(text, self.args.source.truncate)?;
        Ok((net.to_string().into_bytes(), next_hop))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        parse_prefix(text, self.args.source.truncate)
    }

    fn make(&mut self, changes: &[Asked<String>]) -> Result<Vec<Made>, Error> {
        let names = changes.iter().filter_map(|asked| match &asked.change {
            Change::Add(next_hop) => Some(&**next_hop),
            Change::Remove => None,
        });
        let mut numbers = self.next_hops.numbers(names)?.into_iter();
        let mut all = Vec::with_capacity(changes.len());
        for asked in changes {
            let net = net_of(&asked.key).ok_or_else(|| {
                Error::Usage(format!("{} is no prefix", asked.key.escape_ascii()))
            })?;
            all.push(match asked.change {
                Change::Add(_) => (net, numbers.next()),
                Change::Remove => (net, None),
            });
        }
        let olds = self.change(&all)?;
        let made = all.iter().zip(olds);
        Ok(made
            .map(|((_, new), old)| Made::new(new.is_some(), old.is_some()))
            .collect())
    }

    fn reload(&mut self) -> Result<Difference, Error> {
        let routes = Routes::load(&self.args.input, &self.args.source)?;
        Ok(self.adopt(&routes)?)
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)> {
        let number = self.table.get(net_of(key)?)?;
        let next_hop = self.next_hops.text(number)?;
        Some((next_hop.into(), hop_json(next_hop)))
    }

    fn state(&self) -> State {
        let (memory, (text_bytes, text_garbage)) = (self.table.memory(), self.next_hops.bytes());
        let both = |bytes: fn(&FibMemory) -> usize| bytes(&memory.v4) + bytes(&memory.v6);
        let mut state = State {
            entries: self.table.len(),
            bytes: memory.total() + text_bytes,
            memory: vec![
                ("roots", both(|of| of.root)),
                ("root_prefixes", both(|of| of.shelves.1)),
                ("nodes", both(|of| of.nodes.1)),
                ("values", both(|of| of.values.1)),
                ("pooled", both(|of| of.pooled)),
                ("free", both(|of| of.arena.free)),
                ("texts", text_bytes),
            ],
            garbage: both(|of| of.waiting.1) + text_garbage,
            generation: self.table.generation(),
            readers: self.table.readers(),
            ..State::default()
        };
        state.note(self.table.domain());
        state
    }

    fn reclaim(&mut self) {
        self.table.v4().reclaim(BUDGET);
        self.table.v6().reclaim(BUDGET);
        self.next_hops.tidy(BUDGET);
    }

    fn remove(self) -> Result<(), Error> {
        // The directory of the next hops lies in that of the table.
        Ok(self.table.remove_map()?)
    }
}
