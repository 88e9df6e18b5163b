//! `routes aggregate`: the fewest routes with the same answers.

use sapwood::lpm::aggregate;
use sapwood_routes::parse_hop;
use serde_json::json;

use super::query::{all, print};
use super::table::{self, TableBuilder};
use crate::cli::routes::AggregateArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::output::{Output, document};
use crate::signals::HeldSignals;
use crate::target::target;

/// Aggregates a table, and prints the routes or writes them as a table.
pub fn run(args: &AggregateArgs) -> Outcome {
    if let Some(output) = &args.output {
        return write(args, output);
    }
    let table = all(&args.table, args.live.wait())?;
    let routes = table.iter();
    let routes = routes.map(|(net, number)| (net, &*table.names[number as usize]));
    let fewest = aggregate(routes);
    if !args.summary {
        return print(&args.table, args.json, fewest.into_iter());
    }
    let (before, after) = (table.len(), fewest.len());
    if args.json {
        return document(&json!({ "routes": before, "aggregated": after }));
    }
    let mut out = Output::lines(false);
    out.text(&format!("{before} routes, {after} when aggregated\n"))?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Writes the aggregated table. Numbers, groups and null routes of a file stay what they are.
fn write(args: &AggregateArgs, output: &std::path::Path) -> Outcome {
    let target = target(output, Some(&args.table))?;
    let mut fewest = TableBuilder::default();
    let before = match args.live.wait() {
        Some(_) => {
            let table = all(&args.table, args.live.wait())?;
            let routes = table.iter();
            let routes = routes.map(|(net, number)| (net, &*table.names[number as usize]));
            for (net, next_hop) in aggregate(routes) {
                fewest.insert(net, &parse_hop(next_hop))?;
            }
            table.len()
        }
        None => {
            let file = table::open(&args.table, true)?;
            for (net, hop) in aggregate(file.iter()) {
                let hop = file.hop(hop).ok_or_else(|| Error::NotAMap {
                    path: args.table.clone(),
                    what: format!("{net} leads to nothing"),
                })?;
                fewest.insert(net, &hop)?;
            }
            file.len()
        }
    };
    {
        let _held = HeldSignals::begin();
        fewest.save(&target, output)?;
    }
    if !args.quiet {
        let output = output.display();
        complain(&format!(
            "{output}: {} routes in place of {before}",
            fewest.len()
        ));
    }
    Ok(Answer::Yes)
}
