//! `routes stats` and `routes verify`: figures and checks of a whole table.

use std::collections::BTreeMap;
use std::io::Write;

use ipnet::IpNet;
use sapwood::lpm::FibFile;
use serde_json::{Value, json};

use super::load::Routes;
use super::query::hop_json;
use super::table;
use crate::cli::routes::TableArgs;
use crate::errors::{Answer, Outcome};
use crate::live;
use crate::output::{document, figures};
use crate::saved::{Sound, report_soundness};

/// How many next hops the text names.
const NAMED: usize = 10;

/// The counts of one family.
#[derive(Default)]
struct Family {
    routes: u64,
    lengths: BTreeMap<u8, u64>,
}

impl Family {
    fn json(&self) -> Value {
        let lengths = self.lengths.iter();
        let lengths = lengths.map(|(length, count)| (length.to_string(), json!(count)));
        let lengths = Value::Object(lengths.collect());
        json!({ "routes": self.routes, "lengths": lengths })
    }
}

/// Prints the counts of routes, by prefix length and by next hop.
pub fn stats(args: &TableArgs) -> Outcome {
    let (table, bytes) = match args.live.wait() {
        Some(wait) => (
            live::routes::whole(&args.table, wait)?,
            live::data_bytes(&args.table)?,
        ),
        None => {
            let table = table::open(&args.table, true)?;
            (Routes::of_table(&table), table.file_bytes())
        }
    };
    let mut families = [Family::default(), Family::default()];
    let mut by_hop = vec![0u64; table.names.len()];
    for (net, number) in table.iter() {
        let family = &mut families[usize::from(matches!(net, IpNet::V6(_)))];
        family.routes += 1;
        *family.lengths.entry(net.prefix_len()).or_default() += 1;
        by_hop[number as usize] += 1;
    }
    let [v4, v6] = &families;
    let mut hops: Vec<(&str, u64)> = table.names.iter().map(|name| &**name).zip(by_hop).collect();
    // A next hop whose routes were all replaced is still in the list of names.
    hops.retain(|(_, count)| *count > 0);
    hops.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let each = bytes as f64 / table.len().max(1) as f64;
    if args.json {
        let by_hop = hops.iter();
        let by_hop =
            by_hop.map(|(name, count)| json!({ "next_hop": hop_json(name), "routes": count }));
        return document(&json!({
            "file": args.table.to_string_lossy(),
            "routes": table.len(),
            "ipv4": v4.json(),
            "ipv6": v6.json(),
            "next_hops": hops.len(),
            "by_next_hop": by_hop.collect::<Vec<_>>(),
            "file_bytes": bytes,
            "bytes_per_route": each,
        }));
    }
    figures(&[
        ("routes", table.len().to_string()),
        ("IPv4", v4.routes.to_string()),
        ("IPv6", v6.routes.to_string()),
        ("next hops", hops.len().to_string()),
        ("file", format!("{bytes} bytes, {each:.1} a route")),
    ])?;
    let mut out = std::io::stdout().lock();
    for (family, name) in [(v4, "IPv4"), (v6, "IPv6")] {
        if family.routes == 0 {
            continue;
        }
        writeln!(out, "\n{name:<12} routes   share")?;
        for (length, count) in &family.lengths {
            let share = *count as f64 * 100.0 / family.routes as f64;
            let length = format!("/{length}");
            writeln!(out, "{length:<9} {count:>9} {share:>6.2}%")?;
        }
    }
    if !hops.is_empty() {
        writeln!(out, "\n             routes next hop")?;
    }
    for (name, count) in hops.iter().take(NAMED) {
        let name = if name.is_empty() { "(none)" } else { name };
        writeln!(out, "{count:>19} {name}")?;
    }
    if hops.len() > NAMED {
        writeln!(out, "{:>19} ... and {} more", "", hops.len() - NAMED)?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Checks the file and prints whether it is sound.
pub fn verify(args: &TableArgs) -> Outcome {
    let checked: &[&str] = match args.live.wait() {
        Some(_) => &["structure", "prefixes", "next hops"],
        None => &["header", "checksums", "structure", "prefixes", "next hops"],
    };
    let opened = match args.live.wait() {
        Some(wait) => live::routes::verified(&args.table, wait)?,
        None => FibFile::open(&args.table)
            .map(|table| (table.len(), table.file_bytes()))
            .map_err(|error| error.cause),
    };
    let opened = opened.map(|(count, file_bytes)| Sound {
        count,
        what: "routes",
        file_bytes,
        checked,
    });
    report_soundness(&args.table, "table of routes", args.json, opened)
}
