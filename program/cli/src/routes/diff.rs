//! `routes diff`: shows the routes that differ between two tables.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde_json::json;

use super::query::{all, hop_json};
use crate::cli::routes::DiffArgs;
use crate::diff::{self, Change};
use crate::errors::{Error, Outcome};
use crate::output::Output;

/// Compares two tables by the names of next hops, as each table numbers its next hops anew.
pub fn run(args: &DiffArgs) -> Outcome {
    let open = |path: &Path| all(path, args.live.wait_for(path));
    let (old, new) = (open(&args.old)?, open(&args.new)?);
    let routes = [&old, &new].map(|table| {
        let routes = table.iter();
        routes.map(|(net, number)| (net, &*table.names[number as usize]))
    });
    let order = |a: &IpNet, b: &IpNet| place(*a).cmp(&place(*b));
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
