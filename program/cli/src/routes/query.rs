//! `routes lookup`, `routes covering`, `routes covered` and `routes export`.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::FibFile;
use sapwood_routes::{Route, parse_prefix, show_route};
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

/// Prints the text from which the same table is built.
pub fn export(args: &ExportArgs) -> Outcome {
    let table = all(&args.table, args.live.wait())?;
    let routes = table.iter();
    let routes = routes.map(|(net, number)| (net, &*table.names[number as usize]));
    print(&args.table, false, routes)
}

/// Prints routes as a text, or as documents. The path is that of their table, for errors.
pub fn print<'r>(
    path: &Path,
    json: bool,
    routes: impl Iterator<Item = (IpNet, &'r str)>,
) -> Outcome {
    let mut out = Output::lines(json);
    for (net, next_hop) in routes {
        if json {
            let next_hop = hop_json(next_hop);
            out.document(&json!({ "prefix": net.to_string(), "next_hop": next_hop }))?;
            continue;
        }
        let line = show_route(&Route { net, next_hop }).ok_or_else(|| Error::NotAMap {
            path: path.into(),
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
