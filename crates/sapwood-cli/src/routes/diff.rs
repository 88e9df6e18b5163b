//! `routes diff`: shows the routes that differ between two tables.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::json;

use super::query::hop_json;
use super::table::Table;
use crate::cli::routes::DiffArgs;
use crate::diff::{self, Change};
use crate::errors::{Error, Outcome};
use crate::output::Output;

/// Compares two tables by the names of next hops, as each table numbers its next hops anew.
pub fn run(args: &DiffArgs) -> Outcome {
    let (old, new) = (Table::open(&args.old, true)?, Table::open(&args.new, true)?);
    let hops = [old.next_hops(), new.next_hops()];
    let [before, after] = &hops;
    let routes = [(&old, before), (&new, after)].map(|(table, hops)| {
        let routes = table.iter();
        routes.map(|(net, number)| (net, &*hops[number as usize]))
    });
    let order = |a, b| place(a).cmp(&place(b));
    diff::run(Output::lines(args.json), args.summary, routes, order, line)
}

/// The sort key of a prefix in a table's order.
fn place(net: IpNet) -> (bool, IpAddr, u8) {
    (net.addr().is_ipv6(), net.addr(), net.prefix_len())
}

fn line(out: &mut Output, change: &Change<IpNet, &str>) -> Result<(), Error> {
    let (sign, word) = change.kind();
    let hops = [change.old, change.new];
    if out.json {
        let [old, new] = hops.map(|hop| hop.map(hop_json));
        let prefix = change.key.to_string();
        return out.document(&json!({ "change": word, "prefix": prefix, "old": old, "new": new }));
    }
    let first = format!("{sign}{}", change.key);
    let mut fields = vec![first.as_bytes()];
    fields.extend(hops.iter().flatten().map(|hop| hop.as_bytes()));
    out.fields(&fields)
}
