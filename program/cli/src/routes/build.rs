//! `routes build`: builds a table from a text, a dump, or the routes of the kernel.

use std::fs;

use tracing::field::Empty;

use super::source::{Counts, Source};
use super::table::TableBuilder;
use crate::cli::routes::BuildArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::saved::{is_saved, kind};
use crate::signals::HeldSignals;
use crate::span;
use crate::target::target;

/// Builds the table and writes it.
pub fn run(args: &BuildArgs) -> Outcome {
    let input = args.input.as_deref();
    let target = target(&args.output, input)?;
    if let Some(input) = input
        && is_saved(input)
    {
        let what = match kind(input) {
            Some(kind) if kind != "a table of routes" => format!("{} is {kind}", input.display()),
            _ => format!(
                "{} is a table already; \"routes export\" makes a text from it",
                input.display()
            ),
        };
        return Err(Error::Usage(what));
    }
    let source = match input {
        Some(input) => Source::open(input, &args.source)?,
        None => Source::kernel(args.table)?,
    };
    let name = source.name();
    let mut table = TableBuilder::default();
    let mut duplicates = 0;
    let counts = {
        let load = span!(INFO, "load", list = %name, entries = Empty);
        let counts = source.each(|route| {
            duplicates += u64::from(table.insert(route.net, &route.hop)?);
            Ok::<_, Error>(())
        })?;
        load.record("entries", table.len());
        counts
    };
    {
        let _held = HeldSignals::begin();
        table.save(&target, &args.output)?;
    }
    report(args, &name, &table, &counts, duplicates);
    Ok(Answer::Yes)
}

/// Prints the summary and the warnings.
fn report(args: &BuildArgs, input: &str, table: &TableBuilder, counts: &Counts, duplicates: u64) {
    let output = args.output.display();
    if table.len() == 0 {
        complain(&format!(
            "{input}: warning: no routes, {output} is an empty table"
        ));
    }
    if args.quiet {
        return;
    }
    let mut summary = format!(
        "{output}: {} routes by {} next hops",
        table.len(),
        table.next_hops()
    );
    if let Ok(metadata) = fs::metadata(&args.output) {
        summary += &format!(" in a file of {} bytes", metadata.len());
    }
    let own = [
        (
            duplicates,
            "prefixes came again, the last one won".to_owned(),
        ),
        (counts.bad, "bad and left out".to_owned()),
    ];
    for (count, what) in own.iter().chain(&counts.remarks) {
        if *count > 0 {
            summary += &format!("; {count} {what}");
        }
    }
    if let Some(format) = counts.format {
        summary += &format!("; read as {format}");
    }
    complain(&summary);
}
