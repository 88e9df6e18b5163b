//! `routes lookup` and `routes export`.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::{FibFile, SavedHop};
use sapwood_routes::{Format, PLAIN_TEXT, Route, parse_hop, show_route};
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

/// What a prefix leads to in a document: the name of a next hop, or null without one;
/// `{"null_route": "blackhole"}`; `{"group": [{"next_hop": "a", "weight": 2}]}`.
pub fn hop_json(text: &str) -> Value {
    match parse_hop(text) {
        SavedHop::Name("") => Value::Null,
        SavedHop::Null(_) => json!({ "null_route": text }),
        SavedHop::Group(members) => {
            let members = members.iter();
            let members = members.map(|(hop, weight)| {
                let hop = hop.to_string();
                json!({ "next_hop": hop, "weight": weight })
            });
            json!({ "group": members.collect::<Vec<_>>() })
        }
        _ => text.into(),
    }
}

/// Parses an address.
fn address(text: &str) -> Result<IpAddr, String> {
    let shown = || text.chars().take(60).collect::<String>();
    text.parse()
        .map_err(|_| format!("\"{}\" is not an address", shown().escape_debug()))
}

/// Bytes of a text that tell how it is read.
const SAMPLE: usize = 1 << 16;

/// Prints the text from which the same table is built.
pub fn export(args: &ExportArgs) -> Outcome {
    let mut out = Exported::new(args);
    match args.live.wait() {
        Some(wait) => {
            let table = live::routes::whole(&args.table, wait)?;
            for (net, number) in table.iter() {
                let hop = parse_hop(&table.names[number as usize]);
                out.route(net, &hop)?;
            }
        }
        None => {
            let table = table::open(&args.table, true)?;
            for (net, hop) in table.iter() {
                let hop = table.hop(hop).unwrap_or(SavedHop::Name(""));
                out.route(net, &hop)?;
            }
        }
    }
    out.end()?;
    Ok(Answer::Yes)
}

/// Whether a text of a next hop reads as what it was; numbers and bytes become names.
fn reads_the_same(hop: &SavedHop<'_>, read: &SavedHop<'_>) -> bool {
    match (hop, read) {
        (SavedHop::Group(all), SavedHop::Group(read)) => {
            let show = |(hop, weight): &(SavedHop<'_>, u32)| (hop.to_string(), *weight);
            all.iter().map(show).eq(read.iter().map(show))
        }
        (SavedHop::Null(null), SavedHop::Null(read)) => null == read,
        (SavedHop::Group(_) | SavedHop::Null(_), _) => false,
        (_, read) => matches!(read, SavedHop::Name(_)),
    }
}

/// A text of routes while it is printed.
struct Exported<'a> {
    out: Output,
    args: &'a ExportArgs,
    /// The beginning of the text, until it is printed.
    begin: Option<String>,
}

impl<'a> Exported<'a> {
    fn new(args: &'a ExportArgs) -> Self {
        let (out, begin) = (Output::lines(false), Some(String::new()));
        Exported { out, args, begin }
    }

    fn route(&mut self, net: IpNet, hop: &SavedHop<'_>) -> Result<(), Error> {
        let text = hop.to_string();
        let read = parse_hop(&text);
        let is_same = reads_the_same(hop, &read);
        let line = show_route(&Route { net, hop: read }).filter(|_| is_same);
        let line = line.ok_or_else(|| Error::NotAMap {
            path: self.args.table.clone(),
            what: format!(
                "{net}: a text cannot have the next hop \"{}\"",
                text.escape_debug()
            ),
        })?;
        let Some(begin) = &mut self.begin else {
            return self.out.fields(&[line.as_bytes()]);
        };
        *begin += &line;
        begin.push('\n');
        if begin.len() >= SAMPLE {
            self.print_begin()?;
        }
        Ok(())
    }

    /// Prints the beginning, behind a comment if it looks like a text of another format.
    fn print_begin(&mut self) -> Result<(), Error> {
        let Some(begin) = self.begin.take() else {
            return Ok(());
        };
        if !matches!(Format::of(begin.as_bytes()), Ok(Format::Text)) {
            self.out.fields(&[PLAIN_TEXT.as_bytes()])?;
        }
        let mut lines = begin.lines();
        lines.try_for_each(|line| self.out.fields(&[line.as_bytes()]))
    }

    fn end(mut self) -> Result<(), Error> {
        self.print_begin()?;
        self.out.flush()
    }
}
