//! Loads routes into memory from a table, a text or a dump.

use std::collections::HashMap;
use std::path::Path;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{FibFile, SavedHop};
use sapwood_routes::{Error as RouteError, RouteSource, TextRoutes};
use tracing::field::Empty;

use super::source::Source;
use super::table;
use crate::cli::routes::SourceArgs;
use crate::errors::{Error, shown};
use crate::saved::is_saved;
use crate::span;

/// Parses the route of the command `add`: its prefix and its next hop.
pub fn parse_route(text: &[u8], truncate: bool) -> Result<(IpNet, String), String> {
    let mut routes = TextRoutes::new(text, truncate);
    match routes.next_route() {
        Ok(Some(route)) => Ok((route.net, route.hop.to_string())),
        Ok(None) => Err("the route is missing: add PREFIX NEXT-HOP".into()),
        Err(RouteError::Bad(place) | RouteError::Broken(place)) => Err(place.what),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the prefix of `remove` and `get`, as it is shown.
pub fn parse_prefix(text: &[u8], truncate: bool) -> Result<Vec<u8>, String> {
    match parse_route(text, truncate)? {
        (net, rest) if rest.is_empty() => Ok(net.to_string().into_bytes()),
        (_, rest) => Err(format!("\"{}\" after the prefix", rest.escape_debug())),
    }
}

/// Routes of both families, each sorted by prefix and without repetition. A next hop is a place in
/// `names`.
#[derive(Default)]
pub struct Routes {
    /// The routes of IPv4.
    pub v4: Vec<(Ipv4Net, u32)>,
    /// The routes of IPv6.
    pub v6: Vec<(Ipv6Net, u32)>,
    /// The texts of the next hops, groups and null routes.
    pub names: Vec<String>,
}

impl Routes {
    /// Reads the routes of a file.
    pub fn load(path: &Path, args: &SourceArgs) -> Result<Self, Error> {
        let load = span!(INFO, "load", list = %shown(path), entries = Empty);
        let routes = Self::read(path, args)?;
        load.record("entries", routes.len());
        Ok(routes)
    }

    fn read(path: &Path, args: &SourceArgs) -> Result<Self, Error> {
        if is_saved(path) {
            return Ok(Self::of_table(&table::open(path, true)?));
        }
        let mut routes = Routes::default();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let names = &mut routes.names;
        let mut all = Vec::new();
        Source::open(path, args)?.each(|route| {
            // A live table has the texts of groups and null routes as well.
            let group;
            let text = match &route.hop {
                SavedHop::Name(name) => name,
                other => {
                    group = other.to_string();
                    &*group
                }
            };
            let number = match numbers.get(text) {
                Some(number) => *number,
                None => {
                    let number = names.len() as u32;
                    names.push(text.into());
                    numbers.insert(text.into(), number);
                    number
                }
            };
            all.push((route.net, number));
            Ok(())
        })?;
        all.into_iter().for_each(|(net, hop)| routes.add(net, hop));
        last_of_each(&mut routes.v4);
        last_of_each(&mut routes.v6);
        Ok(routes)
    }

    /// The routes of a table.
    pub fn of_table(table: &FibFile) -> Self {
        let mut routes = Routes::default();
        let mut numbers = HashMap::new();
        for (net, hop) in table.iter() {
            let number = *numbers.entry(hop).or_insert_with(|| {
                routes.names.push(table::text(table, hop));
                routes.names.len() as u32 - 1
            });
            routes.add(net, number);
        }
        routes
    }

    /// These routes, without repetition and each family in order, with the numbers of their next
    /// hops in `names`.
    pub fn new(all: impl IntoIterator<Item = (IpNet, u32)>, names: Vec<String>) -> Self {
        let mut routes = Routes {
            names,
            ..Routes::default()
        };
        all.into_iter().for_each(|(net, hop)| routes.add(net, hop));
        routes
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All routes with the numbers of their next hops, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, u32)> {
        let v4 = self.v4.iter().map(|(net, hop)| (IpNet::V4(*net), *hop));
        let v6 = self.v6.iter().map(|(net, hop)| (IpNet::V6(*net), *hop));
        v4.chain(v6)
    }

    /// As [`load`](Self::load); a file without routes is an error.
    pub fn load_some(path: &Path, args: &SourceArgs) -> Result<Self, Error> {
        let routes = Self::load(path, args)?;
        if routes.is_empty() {
            let what = format!("{}: it has no routes to measure", shown(path));
            return Err(Error::Usage(what));
        }
        Ok(routes)
    }

    fn add(&mut self, net: IpNet, hop: u32) {
        match net {
            IpNet::V4(net) => self.v4.push((net, hop)),
            IpNet::V6(net) => self.v6.push((net, hop)),
        }
    }
}

/// Sorts the routes, and keeps the last one of equal prefixes.
fn last_of_each<N: Ord + Copy>(routes: &mut Vec<(N, u32)>) {
    // The sort is stable: equal prefixes stay in their order.
    routes.sort_by_key(|(net, _)| *net);
    routes.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_prefixes_the_last_stays() {
        let mut routes = vec![(3, 1), (1, 2), (3, 3), (1, 4), (2, 5), (1, 6)];
        last_of_each(&mut routes);
        assert_eq!(routes, [(1, 6), (2, 5), (3, 3)]);
    }
}
