//! `routes lookup` and `routes export`.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use sapwood_routes::{Route, show_route};
use serde_json::{Value, json};

use super::table::Table;
use crate::cli::routes::{ExportArgs, LookupArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::output::Output;
use crate::records::{each_given, is_single};

/// Prints the routes of addresses.
pub fn lookup(args: &LookupArgs) -> Outcome {
    let table = Table::open(&args.table, !args.no_verify)?;
    let mut out = Output::lines(args.json);
    let single = is_single(&args.addresses);
    let mut all = true;
    let too_long = |bytes| format!("a line of {bytes} bytes is not an address");
    each_given(&args.addresses, address, too_long, |address| {
        let found = match args.all {
            true => table.matches(address),
            false => Vec::from_iter(table.lookup(address)),
        };
        all &= !found.is_empty();
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
    })?;
    out.flush()?;
    Ok(Answer::from_bool(all))
}

/// A route as a document. An empty next hop is null.
pub fn document((net, next_hop): &(IpNet, Cow<'_, str>)) -> Value {
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
    let table = Table::open(&args.table, true)?;
    let next_hops = table.next_hops();
    let mut out = Output::lines(false);
    for (net, number) in table.iter() {
        let next_hop = &next_hops[number as usize];
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
