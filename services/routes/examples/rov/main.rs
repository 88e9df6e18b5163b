//! Validates the origins of routes by payloads of the RPKI (RFC 6811): a whole table, in one walk
//! over covering prefixes for each route.
//!
//! ```text
//! cargo run --release -p sapwood-routes --example rov -- VRPS.json ROUTES [--json] [--list STATE]
//! ```
//!
//! VRPS.json is what `routinator vrps -f json` or rpki-client writes. ROUTES is an MRT table dump,
//! or a text with a prefix and the origin in each line (`192.0.2.0/24 AS64496`); an origin that is
//! no number, such as a set, is none. Both may be compressed by gzip or bzip2. It prints how many
//! routes are valid, invalid and not found, and how long that took; with `--list`, the routes of
//! that state.

mod validation;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::Instant;

use ipnet::IpNet;
use sapwood_routes::{Format, MrtRoutes, Peer, Reading, RouteSource, decompressed, format_of};
use serde_json::json;
use validation::{State, read, state, system, table};

type Failure = Box<dyn std::error::Error>;

/// Routes with their origins.
type Routes = Vec<(IpNet, Option<u32>)>;

fn main() -> Result<(), Failure> {
    let (mut paths, mut json, mut list) = (Vec::new(), false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--json" => json = true,
            "--list" => list = Some(arguments.next().ok_or("--list needs a state")?),
            _ => paths.push(argument),
        }
    }
    let [vrps, routes] = &paths[..] else {
        return Err("usage: rov VRPS.json ROUTES [--json] [--list valid|invalid|not-found]".into());
    };
    let states = [State::Valid, State::Invalid, State::NotFound];
    let listed = list.map(|name| {
        let named = states.iter().find(|state| state.to_string() == name);
        named.ok_or(format!("{name:?} is not valid, invalid or not-found"))
    });
    let listed = listed.transpose()?;

    let payloads = read(&fs::read(vrps)?).map_err(|what| format!("{vrps}: {what}"))?;
    let table = table(&payloads)?;
    let routes = origins(routes).map_err(|what| format!("{routes}: {what}"))?;
    let mut found = Vec::with_capacity(routes.len());
    let begin = Instant::now();
    table.read(|view| {
        for (net, origin) in &routes {
            found.push(state(&view, *net, *origin));
        }
    });
    let seconds = begin.elapsed().as_secs_f64();

    let mut out = BufWriter::new(std::io::stdout().lock());
    if let Some(listed) = listed {
        for ((net, origin), _) in routes
            .iter()
            .zip(&found)
            .filter(|(_, state)| *state == listed)
        {
            match origin {
                Some(origin) => writeln!(out, "{net} AS{origin}")?,
                None => writeln!(out, "{net}")?,
            }
        }
        return Ok(out.flush()?);
    }
    let counts = states.map(|of| found.iter().filter(|state| **state == of).count());
    let [valid, invalid, not_found] = counts;
    let rate = routes.len() as f64 / seconds;
    if json {
        let document = json!({
            "payloads": payloads.len(), "routes": routes.len(), "valid": valid,
            "invalid": invalid, "not_found": not_found, "validations_per_second": rate,
        });
        writeln!(out, "{document}")?;
    } else {
        for (state, count) in states.iter().zip(counts) {
            writeln!(out, "{state:<10} {count:>9}")?;
        }
        let million = rate / 1e6;
        writeln!(
            out,
            "{} routes in {seconds:.3} s: {million:.1} million a second",
            routes.len()
        )?;
    }
    Ok(out.flush()?)
}

/// The routes of a text or a dump. Bad lines and records are errors.
fn origins(path: &str) -> Result<Routes, Failure> {
    let (format, input) = format_of(decompressed(File::open(path)?, None)?)?;
    let mut all = Routes::new();
    match format {
        Format::Mrt => {
            let mut routes = MrtRoutes::new(input, Peer::First);
            while let Some(route) = routes.next_route()? {
                let net = route.net;
                all.push((net, routes.origin()));
            }
        }
        format => {
            let reading = Reading {
                format: Some(format),
                ..Reading::default()
            };
            let (_, mut routes) = reading.open(input)?;
            while let Some(route) = routes.next_route()? {
                all.push((route.net, system(route.hop.to_string().trim())));
            }
        }
    }
    Ok(all)
}
