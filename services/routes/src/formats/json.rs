//! JSON of `ip -j route`, and of FRR's `show bgp json` and `show ip route json`. It is read element
//! by element, so only routes are kept.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead};

use ipnet::IpNet;
use sapwood::lpm::NullRoute;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::ip_route::{Member, Open};
use super::show_bgp::NO_BEST;
use crate::best::{Best, Given};
use crate::hop::{Hop, hop_name};
use crate::text::{parse_prefix, shown};
use crate::{Error, Place, Route, RouteSource};

/// The names of fields that a message about other JSON shows.
const NAMED: usize = 4;

/// The routes of JSON documents, one after the other.
pub(crate) struct JsonRoutes<R> {
    input: R,
    best: Best,
    faults: VecDeque<Place>,
    /// Elements that were read.
    elements: u64,
    given: Given,
    partial: bool,
    cut: bool,
}

impl<R: BufRead> JsonRoutes<R> {
    pub(crate) fn new(input: R, truncate: bool, partial: bool) -> Self {
        JsonRoutes {
            input,
            best: Best::new(truncate),
            faults: VecDeque::new(),
            elements: 0,
            given: Given::default(),
            partial,
            cut: false,
        }
    }

    /// Passes over white space; false at the end.
    fn has_more(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.input.fill_buf()?;
            let blank = bytes
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            let is_end = bytes.is_empty();
            let is_all = blank == bytes.len();
            self.input.consume(blank);
            if is_end || !is_all {
                return Ok(!is_end);
            }
        }
    }

    /// Reads all documents.
    fn read(&mut self) -> Result<(), Error> {
        while self.has_more()? {
            let mut walk = Walk {
                best: &mut self.best,
                faults: &mut self.faults,
                elements: &mut self.elements,
                foreign: None,
            };
            let mut json = serde_json::Deserializer::from_reader(&mut self.input);
            let read = (&mut walk).deserialize(&mut json);
            if let Some(kind) = walk.foreign {
                return Err(Error::Foreign(kind));
            }
            let Err(error) = read else {
                continue;
            };
            let is_cut =
                error.is_eof() || error.io_error_kind() == Some(io::ErrorKind::UnexpectedEof);
            if is_cut && self.partial {
                self.cut = true;
                return Ok(());
            }
            if error.is_io() {
                return Err(Error::Io(error.into()));
            }
            let number = error.line() as u64;
            let (unit, what) = ("line", error.to_string());
            return Err(Error::Broken(Place { unit, number, what }));
        }
        Ok(())
    }
}

impl<R: BufRead> RouteSource for JsonRoutes<R> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        if !self.given.is_begun() {
            self.read()?;
            self.given.begin(&mut self.best);
        }
        if let Some(place) = self.faults.pop_front() {
            return Err(Error::Bad(place));
        }
        Ok(self.given.next())
    }

    fn remarks(&self) -> Vec<(u64, String)> {
        let what = "input that ends too early: what was read before is taken";
        let cut = self.cut.then(|| (1, what.to_owned()));
        self.best.remarks.all().into_iter().chain(cut).collect()
    }
}

/// The walk through one document.
struct Walk<'a> {
    best: &'a mut Best,
    faults: &'a mut VecDeque<Place>,
    elements: &'a mut u64,
    /// What the document is, if it has no routes.
    foreign: Option<String>,
}

impl Walk<'_> {
    fn element(&mut self, take: impl FnOnce(&mut Best) -> Result<(), String>) {
        *self.elements += 1;
        if let Err(what) = take(self.best) {
            let (unit, number) = ("element", *self.elements);
            self.faults.push_back(Place { unit, number, what });
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object with routes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let mut has_routes = false;
        while let Some(element) = all.next_element::<Value>()? {
            if element.get("dst").is_none() && !has_routes {
                self.foreign = Some(format!(
                    "JSON of another kind: an array of {} without \"dst\"",
                    kind_of(&element)
                ));
                // The rest is passed over, so that the error is the document's.
                while all.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            has_routes = true;
            self.element(|best| of_ip(&element, best));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let (mut has_routes, mut others, mut is_empty) = (false, Vec::new(), true);
        while let Some(key) = all.next_key::<String>()? {
            is_empty = false;
            if key == "routes" {
                all.next_value_seed(Nested(self))?;
                has_routes = true;
            } else if parse_prefix(&key).is_ok() {
                let value: Value = all.next_value()?;
                self.element(|best| of_frr(&key, &value, best));
                has_routes = true;
            } else {
                all.next_value::<IgnoredAny>()?;
                if others.len() < NAMED {
                    others.push(format!("\"{}\"", shown(&key)));
                }
            }
        }
        if !has_routes && !is_empty {
            let others = others.join(", ");
            self.foreign = Some(format!("JSON of another kind: an object with {others}"));
        }
        Ok(())
    }
}

/// The object of prefixes inside of another.
struct Nested<'a, 'b>(&'a mut Walk<'b>);

impl<'de> DeserializeSeed<'de> for Nested<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of prefixes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(key) = all.next_key::<String>()? {
            let value: Value = all.next_value()?;
            self.0.element(|best| of_frr(&key, &value, best));
        }
        Ok(())
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nulls",
        Value::Bool(_) => "booleans",
        Value::Number(_) => "numbers",
        Value::String(_) => "strings",
        Value::Array(_) => "arrays",
        Value::Object(_) => "objects",
    }
}

/// A field that is a text, or a number as a text.
fn text<'v>(of: &'v Value, name: &str) -> Result<Option<std::borrow::Cow<'v, str>>, String> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into())),
        Some(Value::Number(number)) => Ok(Some(number.to_string().into())),
        Some(_) => Err(format!("\"{name}\" is no text")),
    }
}

fn whole(of: &Value, name: &str) -> Result<Option<u32>, String> {
    let number = text(of, name)?.map(|text| {
        let wrong = |_| format!("\"{}\" as \"{name}\" is not a number", shown(&text));
        text.parse().map_err(wrong)
    });
    number.transpose()
}

fn address(of: &Value, name: &str) -> Result<Option<std::net::IpAddr>, String> {
    let address = text(of, name)?.map(|text| {
        let wrong = |_| format!("\"{}\" as \"{name}\" is not an address", shown(&text));
        text.parse().map_err(wrong)
    });
    address.transpose()
}

fn is_true(of: &Value, name: &str) -> bool {
    of.get(name) == Some(&Value::Bool(true))
}

/// One of the next hops of `ip -j route`, or the only one.
fn member(of: &Value, six: &mut Option<bool>) -> Result<Member, String> {
    let mut gateway = address(of, "gateway")?;
    if let Some(via) = of.get("via") {
        // It is there when the family is not that of the route.
        gateway = address(via, "host")?;
        six.get_or_insert(gateway.is_some_and(|to| to.is_ipv4()));
    }
    if of.get("encap").is_some() {
        return Err("encap: a next hop in a tunnel, which no text can name".into());
    }
    let flags = of.get("flags").and_then(Value::as_array);
    let dead = flags.is_some_and(|flags| flags.iter().any(|flag| flag == "dead"));
    Ok(Member {
        gateway,
        device: text(of, "dev")?.map(|name| name.into()),
        weight: whole(of, "weight")?,
        dead,
    })
}

/// A route of `ip -j route`.
fn of_ip(route: &Value, best: &mut Best) -> Result<(), String> {
    let mut open = Open::default();
    let to = text(route, "dst")?.ok_or("no \"dst\"")?;
    open.to(&to, best)?;
    open.kind = text(route, "type")?.map(|kind| kind.into());
    open.metric = whole(route, "metric")?.unwrap_or(0);
    open.special = ["from", "tos"].iter().any(|name| route.get(name).is_some());
    open.table = text(route, "table")?.map(|name| name.into());
    open.object = text(route, "nhid")?.map(|id| id.into());
    match route.get("nexthops").and_then(Value::as_array) {
        Some(all) => {
            for one in all {
                let member = member(one, &mut open.six)?;
                open.members.push(member);
            }
        }
        None => open.members.push(member(route, &mut open.six)?),
    }
    if route.get("pref").is_some() {
        open.six.get_or_insert(true);
    }
    open.finish(best)
}

/// The paths of a prefix in FRR's table of BGP, or its routes in that of the daemon `zebra`.
fn of_frr(key: &str, paths: &Value, best: &mut Best) -> Result<(), String> {
    let net = best.net(key)?;
    let paths = paths
        .as_array()
        .ok_or_else(|| format!("{net} has no array of paths"))?;
    let mut members = Vec::new();
    let mut has_best = false;
    for path in paths {
        let hops = path.get("nexthops").and_then(Value::as_array);
        let hops = hops.map_or(&[][..], Vec::as_slice);
        if is_true(path, "selected") {
            return of_zebra(net, hops, best);
        }
        let is_best = match path.get("bestpath") {
            Some(Value::Object(details)) => details.get("overall") == Some(&Value::Bool(true)),
            other => other == Some(&Value::Bool(true)),
        };
        if !is_best && !is_true(path, "multipath") {
            continue;
        }
        has_best |= is_best;
        let hop = hops
            .iter()
            .find(|hop| is_true(hop, "used"))
            .or(hops.first());
        let to = hop.map_or(Ok(None), |hop| address(hop, "ip"))?;
        let to = to.filter(|to| !to.is_unspecified());
        members.push((hop_name(to, None), 1));
    }
    match Hop::of_members(members).filter(|_| has_best) {
        Some(hop) => best.offer(net, 0, hop),
        None => best.remarks.note(NO_BEST),
    }
    Ok(())
}

/// The selected route of a prefix.
fn of_zebra(net: IpNet, hops: &[Value], best: &mut Best) -> Result<(), String> {
    for (name, null) in [
        ("blackhole", NullRoute::Blackhole),
        ("reject", NullRoute::Unreachable),
        ("adminProhibited", NullRoute::Prohibit),
        ("admin-prohibited", NullRoute::Prohibit),
    ] {
        if hops.iter().any(|hop| is_true(hop, name)) {
            best.offer(net, 0, Hop::Null(null));
            return Ok(());
        }
    }
    let installed = hops.iter().any(|hop| is_true(hop, "fib"));
    let mut members = Vec::new();
    for hop in hops {
        let used = match installed {
            true => is_true(hop, "fib"),
            false => is_true(hop, "active") && !is_true(hop, "recursive"),
        };
        if used {
            let device = text(hop, "interfaceName")?;
            let name = hop_name(address(hop, "ip")?, device.as_deref());
            members.push((name, whole(hop, "weight")?.unwrap_or(1)));
        }
    }
    match Hop::of_members(members) {
        Some(hop) => best.offer(net, 0, hop),
        None => best.remarks.note(super::ip_route::DEAD),
    }
    Ok(())
}
