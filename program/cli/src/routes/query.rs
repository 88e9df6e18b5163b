//! `routes lookup`, `routes covering`, `routes covered` and `routes export`.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::{FibFile, SavedHop};
use sapwood_routes::{Format, PLAIN_TEXT, Route, parse_hop, parse_prefix, show_route};
use serde_json::{Value, json};

use super::load::Routes;
use super::table;
use crate::cli::routes::{CoverArgs, ExportArgs, LookupArgs, QueryArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::live;
use crate::live::routes::LiveTable;
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, is_single, line_text};

/// What is asked of a table about each prefix of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The longest prefix that covers it.
    Longest,
    /// All prefixes of an address.
    All,
    /// All prefixes that cover it.
    Covering,
    /// It, and all prefixes inside it.
    Covered,
}

impl Question {
    /// What stderr says when there is no route, before the prefix.
    fn nothing(self) -> &'static str {
        match self {
            Question::Longest | Question::All => "no route to",
            Question::Covering => "no route covers",
            Question::Covered => "no route inside",
        }
    }
}

/// Prints the routes of addresses.
pub fn lookup(args: &LookupArgs) -> Outcome {
    let question = match args.all {
        true => Question::All,
        false => Question::Longest,
    };
    ask(&args.query, &args.addresses, question, |text| {
        let address = address(text)?;
        Ok((address.to_string(), address.into()))
    })
}

/// Prints the routes that cover prefixes.
pub fn covering(args: &CoverArgs) -> Outcome {
    ask(&args.query, &args.prefixes, Question::Covering, prefix)
}

/// Prints the routes inside prefixes.
pub fn covered(args: &CoverArgs) -> Outcome {
    ask(&args.query, &args.prefixes, Question::Covered, prefix)
}

/// Answers the queries of a command; `parse` gives the text of one in the answer, and its prefix.
fn ask(
    args: &QueryArgs,
    given: &[String],
    question: Question,
    parse: impl Fn(&str) -> Result<(String, IpNet), String>,
) -> Outcome {
    let mut table = match args.live.wait() {
        Some(wait) => Source::Live(Box::new(LiveTable::open(&args.table, wait)?)),
        None => Source::Saved(table::open(&args.table, !args.no_verify)?),
    };
    let mut out = Output::lines(args.json);
    let single = is_single(given);
    let mut all = true;
    let batch = Batch {
        field: "query",
        null: false,
        strict: args.strict,
    };
    let given = given.iter().map(OsStr::new);
    queries::each(given, &batch, &mut out, |out, record, place| {
        let query = match record {
            Record::TooLong(bytes) => Err(format!("a line of {bytes} bytes is not an address")),
            Record::Whole(text) => match line_text(text) {
                None if place.is_some() => return Ok(Ok(())),
                text => parse(&text.unwrap_or_default()),
            },
        };
        let (query, net) = match query {
            Ok(query) => query,
            Err(what) => return Ok(Err(what)),
        };
        let mut found = table.find(net, question)?;
        all &= !found.is_empty();
        if out.json {
            let found = match question {
                Question::Longest => json!(found.pop().as_ref().map(document)),
                _ => json!(found.iter().map(document).collect::<Vec<_>>()),
            };
            return Ok(Ok(out.document(&json!({ "query": query, "found": found }))?));
        }
        if found.is_empty() {
            complain(&format!("{} {query}", question.nothing()));
        }
        for (net, next_hop) in found {
            let net = net.to_string();
            let mut fields = vec![net.as_bytes()];
            if !single {
                fields.insert(0, query.as_bytes());
            }
            if !next_hop.is_empty() {
                fields.push(next_hop.as_bytes());
            }
            out.fields(&fields)?;
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// The table of queries.
enum Source {
    Saved(FibFile),
    Live(Box<LiveTable>),
}

impl Source {
    /// The routes that are asked for, shortest first.
    fn find(&mut self, net: IpNet, question: Question) -> Result<Vec<(IpNet, String)>, Error> {
        let file = match self {
            Source::Live(table) => {
                return match question {
                    Question::Longest => Ok(Vec::from_iter(table.lookup(net.addr())?)),
                    Question::All | Question::Covering => table.covering(net),
                    Question::Covered => table.covered(net),
                };
            }
            Source::Saved(file) => file,
        };
        let named = |(net, hop)| (net, table::text(file, hop));
        Ok(match question {
            Question::Longest => file.lookup_net(net).into_iter().map(named).collect(),
            Question::All | Question::Covering => file.covering(net).map(named).collect(),
            Question::Covered => file.covered_by(net).map(named).collect(),
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

/// Parses a prefix, or an address as the prefix of this address alone.
fn prefix(text: &str) -> Result<(String, IpNet), String> {
    let (net, exact) = parse_prefix(text)?;
    match exact {
        true => Ok((net.to_string(), net)),
        false => Err(format!(
            "{net} has bits set after its length; {} may be meant",
            net.trunc()
        )),
    }
}

/// Bytes of a text that tell how it is read.
const SAMPLE: usize = 1 << 16;

/// Prints the text from which the same table is built.
pub fn export(args: &ExportArgs) -> Outcome {
    let mut out = Exported::new(&args.table);
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

/// Prints routes as a text, or as documents. The path is that of their table, for errors.
pub fn print<'r>(
    path: &Path,
    json: bool,
    routes: impl Iterator<Item = (IpNet, &'r str)>,
) -> Outcome {
    if json {
        let mut out = Output::lines(true);
        for (net, next_hop) in routes {
            let next_hop = hop_json(next_hop);
            out.document(&json!({ "prefix": net.to_string(), "next_hop": next_hop }))?;
        }
        out.flush()?;
        return Ok(Answer::Yes);
    }
    let mut out = Exported::new(path);
    for (net, next_hop) in routes {
        out.route(net, &parse_hop(next_hop))?;
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
    /// The path of the table, for errors.
    path: &'a Path,
    /// The beginning of the text, until it is printed.
    begin: Option<String>,
}

impl<'a> Exported<'a> {
    fn new(path: &'a Path) -> Self {
        let (out, begin) = (Output::lines(false), Some(String::new()));
        Exported { out, path, begin }
    }

    fn route(&mut self, net: IpNet, hop: &SavedHop<'_>) -> Result<(), Error> {
        let text = hop.to_string();
        let read = parse_hop(&text);
        let is_same = reads_the_same(hop, &read);
        let line = show_route(&Route { net, hop: read }).filter(|_| is_same);
        let line = line.ok_or_else(|| Error::NotAMap {
            path: self.path.into(),
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
