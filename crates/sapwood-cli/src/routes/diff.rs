//! `routes diff`: what differs between two tables.

use std::cmp::Ordering;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::json;

use super::query::hop_json;
use super::table::Table;
use crate::cli::routes::DiffArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::Output;

/// Walks both tables in order of prefixes, side by side.
pub fn run(args: &DiffArgs) -> Outcome {
    let (old, new) = (Table::open(&args.old, true)?, Table::open(&args.new, true)?);
    let (old_hops, new_hops) = (old.next_hops(), new.next_hops());
    let mut out = Output::lines(args.json);
    let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
    let (mut added, mut removed, mut changed) = (0u64, 0u64, 0u64);
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => place(*old).cmp(&place(*new)),
        };
        let before = a.next_if(|_| order.is_le());
        let after = b.next_if(|_| order.is_ge());
        let Some((net, _)) = before.or(after) else {
            break;
        };
        // Numbers are a table's own; names are what counts.
        let before = before.map(|(_, number)| &*old_hops[number as usize]);
        let after = after.map(|(_, number)| &*new_hops[number as usize]);
        match (before, after) {
            (before, after) if before == after => continue,
            (Some(_), Some(_)) => changed += 1,
            (Some(_), None) => removed += 1,
            _ => added += 1,
        }
        if !args.summary {
            line(&mut out, net, before, after)?;
        }
    }
    if args.summary && out.json {
        out.document(&json!({ "added": added, "removed": removed, "changed": changed }))?;
    } else if args.summary {
        out.text(&format!(
            "{added} added, {removed} removed, {changed} changed\n"
        ))?;
    }
    out.flush()?;
    Ok(Answer::from_bool(added + removed + changed == 0))
}

/// Where a prefix is in a table's order.
fn place(net: IpNet) -> (bool, IpAddr, u8) {
    (net.addr().is_ipv6(), net.addr(), net.prefix_len())
}

fn line(
    out: &mut Output,
    net: IpNet,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), Error> {
    let (sign, word) = match (before, after) {
        (None, _) => ("+", "added"),
        (_, None) => ("-", "removed"),
        _ => ("~", "changed"),
    };
    if out.json {
        let [old, new] = [before, after].map(|hop| hop.map(hop_json));
        let prefix = net.to_string();
        return out.document(&json!({ "change": word, "prefix": prefix, "old": old, "new": new }));
    }
    let first = format!("{sign} {net}");
    let mut fields = vec![first.as_bytes()];
    fields.extend([before, after].iter().flatten().map(|hop| hop.as_bytes()));
    out.fields(&fields)
}
