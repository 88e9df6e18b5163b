//! `routes lookup` and `routes export`.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::FibFile;
use sapwood_routes::{Route, show_route};
use serde_json::{Value, json};

use super::load::Routes;
use super::table;
use crate::cli::routes::{ExportArgs, LookupArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::live;
use crate::live::routes::LiveTable;
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, is_single, line_text};

/// Prints the routes of addresses.
pub fn lookup(args: &LookupArgs) -> Outcome {
    let mut table = match args.live.wait() {
        Some(wait) => Source::Live(Box::new(LiveTable::open(&args.table, wait)?)),
        None => Source::Saved(table::open(&args.table, !args.no_verify)?),
    };
    let mut out = Output::lines(args.json);
    let single = is_single(&args.addresses);
    let mut all = true;
    let batch = Batch {
        field: "query",
        null: false,
        strict: args.strict,
    };
    let given = args.addresses.iter().map(OsStr::new);
    queries::each(given, &batch, &mut out, |out, record, place| {
        let address = match record {
            Record::TooLong(bytes) => Err(format!("a line of {bytes} bytes is not an address")),
            Record::Whole(text) => match line_text(text) {
                None if place.is_some() => return Ok(Ok(())),
                text => address(&text.unwrap_or_default()),
            },
        };
        let address = match address {
            Ok(address) => address,
            Err(what) => return Ok(Err(what)),
        };
        let found = table.find(address, args.all)?;
        all &= !found.is_empty();
        print(out, address, found, args, single)?;
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// Prints the routes of an address.
fn print(
    out: &mut Output,
    address: IpAddr,
    found: Vec<(IpNet, String)>,
    args: &LookupArgs,
    single: bool,
) -> Result<(), Error> {
    if args.json {
        let mut found: Vec<Value> = found.iter().map(document).collect();
        let found = match args.all {
            true => json!(found),
            false => json!(found.pop()),
        };
        return out.document(&json!({ "query": address.to_string(), "found": found }));
    }
    if found.is_empty() {
        complain(&format!("no route to {address}"));
    }
    for (net, next_hop) in found {
        let [address, net] = [address.to_string(), net.to_string()];
        let mut fields = vec![net.as_bytes()];
        if !single {
            fields.insert(0, address.as_bytes());
        }
        if !next_hop.is_empty() {
            fields.push(next_hop.as_bytes());
        }
        out.fields(&fields)?;
    }
    Ok(())
}

/// The table of a lookup.
enum Source {
    Saved(FibFile),
    Live(Box<LiveTable>),
}

impl Source {
    /// The longest prefix that covers an address, or all of them, shortest first.
    fn find(&mut self, address: IpAddr, all: bool) -> Result<Vec<(IpNet, String)>, Error> {
        Ok(match (self, all) {
            (Source::Saved(file), all) => {
                let longest = || Vec::from_iter(file.lookup(address));
                let found = if all {
                    file.matches(address).collect()
                } else {
                    longest()
                };
                let found = found.into_iter();
                found
                    .map(|(net, hop)| (net, table::text(file, hop)))
                    .collect()
            }
            (Source::Live(table), true) => table.matches(address)?,
            (Source::Live(table), false) => Vec::from_iter(table.lookup(address)?),
        })
    }
}

/// All routes of a table in a file, or of a live one, for which it waits this long.
pub fn all(path: &Path, wait: Option<Duration>) -> Result<Routes, Error> {
    match wait {
        Some(wait) => live::routes::whole(path, wait),
        None => Ok(Routes::of_table(&table::open(path, true)?)),
    }
}

/// A route as a document. An empty next hop is null.
fn document((net, next_hop): &(IpNet, String)) -> Value {
    json!({ "prefix": net.to_string(), "next_hop": hop_json(next_hop) })
}

/// A next hop in a document. An empty one is null.
pub fn hop_json(next_hop: &str) -> Value {
    match next_hop {
        "" => Value::Null,
        next_hop => next_hop.into(),
    }
}

/// Parses an address.
fn address(text: &str) -> Result<IpAddr, String> {
    let shown = || text.chars().take(60).collect::<String>();
    text.parse()
        .map_err(|_| format!("\"{}\" is not an address", shown().escape_debug()))
}

/// Prints the text from which the same table is built.
pub fn export(args: &ExportArgs) -> Outcome {
    let table = all(&args.table, args.live.wait())?;
    let mut out = Output::lines(false);
    for (net, number) in table.iter() {
        let next_hop = &*table.names[number as usize];
        let line = show_route(&Route { net, next_hop }).ok_or_else(|| Error::NotAMap {
            path: args.table.clone(),
            what: format!(
                "{net}: a text cannot have the next hop \"{}\"",
                next_hop.escape_debug()
            ),
        })?;
        out.fields(&[line.as_bytes()])?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}
