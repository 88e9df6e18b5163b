//! Routes that are collected before the first is given out, because only the best of a prefix
//! counts.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, IntoIter};
use std::io::BufRead;

use ipnet::IpNet;

use crate::hop::Hop;
use crate::lines::Lines;
use crate::text::parse_prefix;
use crate::{Error, Route, RouteSource};

/// Counts of what was left out or changed, each with its text.
#[derive(Debug, Default)]
pub(crate) struct Remarks(Vec<(u64, &'static str)>);

impl Remarks {
    pub(crate) fn note(&mut self, what: &'static str) {
        match self.0.iter_mut().find(|(_, known)| *known == what) {
            Some((count, _)) => *count += 1,
            None => self.0.push((1, what)),
        }
    }

    pub(crate) fn all(&self) -> Vec<(u64, String)> {
        self.0
            .iter()
            .map(|(n, what)| (*n, (*what).into()))
            .collect()
    }
}

/// The best route of each prefix.
#[derive(Debug, Default)]
pub(crate) struct Best {
    routes: BTreeMap<IpNet, (u32, Hop)>,
    pub(crate) remarks: Remarks,
    truncate: bool,
}

impl Best {
    /// With `truncate`, bits after a prefix's length are cleared; else they are an error.
    pub(crate) fn new(truncate: bool) -> Self {
        let (routes, remarks) = Default::default();
        Best {
            routes,
            remarks,
            truncate,
        }
    }

    /// The prefix of a text; an address without a length is a host.
    pub(crate) fn net(&mut self, text: &str) -> Result<IpNet, String> {
        let (net, exact) = parse_prefix(text)?;
        if exact {
            return Ok(net);
        }
        if !self.truncate {
            return Err(too_many_bits(text, net));
        }
        self.remarks.note(TRUNCATED);
        Ok(net.trunc())
    }

    /// Takes a route, if there is none of its prefix with this metric or a lower one.
    pub(crate) fn offer(&mut self, net: IpNet, metric: u32, hop: Hop) {
        match self.routes.entry(net) {
            Entry::Vacant(free) => {
                free.insert((metric, hop));
                return;
            }
            Entry::Occupied(mut known) if metric < known.get().0 => {
                known.insert((metric, hop));
            }
            Entry::Occupied(_) => {}
        }
        self.remarks
            .note("routes beside another of their prefix, which had a lower metric or came first");
    }
}

/// The remark on prefixes whose bits after their length were cleared.
pub(crate) const TRUNCATED: &str = "prefixes truncated to their length";

/// The fault of a prefix with bits after its length.
pub(crate) fn too_many_bits(text: &str, net: IpNet) -> String {
    let net = net.trunc();
    let text = crate::text::shown(text);
    format!("{text} has bits set after its length; {net} may be meant")
}

/// A reader of one kind of lines.
pub(crate) trait LineFormat {
    /// Reads a line. The error is the line's fault.
    fn line(&mut self, line: &str, best: &mut Best) -> Result<(), String>;

    /// Takes what the last lines began.
    fn end(&mut self, best: &mut Best) -> Result<(), String>;
}

/// The routes of a text of which only the best of a prefix count.
pub(crate) struct BestOfLines<R, F> {
    lines: Lines<R>,
    format: F,
    best: Best,
    ended: bool,
    given: Given,
}

impl<R: BufRead, F: LineFormat> BestOfLines<R, F> {
    pub(crate) fn new(lines: Lines<R>, format: F, truncate: bool) -> Self {
        BestOfLines {
            lines,
            format,
            best: Best::new(truncate),
            ended: false,
            given: Given::default(),
        }
    }
}

impl<R: BufRead, F: LineFormat> RouteSource for BestOfLines<R, F> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        if !self.given.is_begun() {
            while self.lines.read()? {
                let line = self.lines.text();
                if let Err(what) = self.format.line(line, &mut self.best) {
                    return Err(self.lines.bad(what));
                }
            }
            if !std::mem::replace(&mut self.ended, true)
                && let Err(what) = self.format.end(&mut self.best)
            {
                return Err(self.lines.bad(what));
            }
            self.given.begin(&mut self.best);
        }
        Ok(self.given.next())
    }

    fn remarks(&self) -> Vec<(u64, String)> {
        let cut = self.lines.remark();
        self.best.remarks.all().into_iter().chain(cut).collect()
    }
}

/// Collected routes while they are given out.
#[derive(Debug, Default)]
pub(crate) struct Given {
    routes: Option<IntoIter<IpNet, (u32, Hop)>>,
    current: Option<Hop>,
}

impl Given {
    pub(crate) fn is_begun(&self) -> bool {
        self.routes.is_some()
    }

    pub(crate) fn begin(&mut self, best: &mut Best) {
        self.routes = Some(std::mem::take(&mut best.routes).into_iter());
    }

    pub(crate) fn next(&mut self) -> Option<Route<'_>> {
        let (net, (_, hop)) = self.routes.as_mut()?.next()?;
        let hop = self.current.insert(hop).as_saved();
        Some(Route { net, hop })
    }
}
