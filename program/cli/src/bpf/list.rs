//! The rules of a filter of names: those of a list in text, or of a map of lists.

use std::path::Path;

use sapwood::key::dns_name_to_text;
use sapwood::qp::OrderedRead;
use sapwood_lists::{Fate, Loader, Meta, NotRules, Options, Source, closest_entries};
use sapwood_xdp::{EntryRules, NameRule};

use crate::cli::live::LiveArgs;
use crate::errors::Error;
use crate::lists::{self, Opened, load};
use crate::saved::is_saved;

/// Names, or wildcards, and their rules, of which the closest one decides.
type Rules = Vec<(String, NameRule)>;

/// Reads the rules of a list, or of a map of `lists build`. A line that is not understood is
/// reported and left out; under `strict` it is an error.
pub fn read(path: &Path, strict: bool) -> Result<Rules, Error> {
    if !is_saved(path) {
        return of_list(load::source(path)?, strict);
    }
    let Opened::Map(mut map) = lists::open(path, &LiveArgs::default())? else {
        return Err(lists::no_rules(path, NotRules));
    };
    lists::read(&mut *map, path, |map, meta| {
        rules(map, meta).map_err(|error| lists::no_rules(path, error))
    })
}

fn of_list(list: Source, strict: bool) -> Result<Rules, Error> {
    let options = Options {
        strict,
        // Commands add names.
        allow_empty: true,
        ..Options::default()
    };
    let list = list.below(true).marks(true);
    let path = list.name().to_owned();
    let (map, _) = Loader::new(vec![list], options)
        .tell(load::told())
        .build()?;
    let rules = rules(map.entries(), map.meta());
    rules.map_err(|error| lists::no_rules(path.as_ref(), error))
}

/// The rule of a filter.
fn rule(fate: Fate) -> NameRule {
    match fate {
        Fate::Block => NameRule::Block,
        Fate::Truncate => NameRule::Truncate,
        Fate::Pass => NameRule::Allow,
    }
}

/// The entries of a live map of lists for a filter, by their keys.
pub fn entries(path: &Path, live: &LiveArgs) -> Result<Vec<(Vec<u8>, u64)>, Error> {
    let Opened::Map(mut map) = lists::open(path, live)? else {
        return Err(lists::no_rules(path, NotRules));
    };
    let entries = lists::read(&mut *map, path, |map, meta| {
        closest_entries(map, meta).map_err(|error| lists::no_rules(path, error))
    })?;
    let entries = entries.into_iter().map(|entry| {
        let below = (entry.below != entry.itself).then(|| rule(entry.below));
        let rules = EntryRules {
            own: Some(rule(entry.itself)),
            wildcard: below,
        };
        (entry.key, rules.value().unwrap_or_default())
    });
    Ok(entries.collect())
}

fn rules(map: &dyn OrderedRead<[u8]>, meta: &Meta) -> Result<Rules, NotRules> {
    let mut all = Vec::new();
    for entry in closest_entries(map, meta)? {
        // A filter takes a name whose first label is a star for a wildcard. The resolver knows it.
        if entry.key == b"*\0" || entry.key.ends_with(b"\0*\0") {
            continue;
        }
        let name = dns_name_to_text(&entry.key).map_err(|_| NotRules)?;
        if entry.itself != entry.above {
            all.push((name.clone(), rule(entry.itself)));
        }
        if entry.itself != entry.below {
            let wildcard = match name.as_str() {
                "." => "*".to_owned(),
                name => format!("*.{name}"),
            };
            all.push((wildcard, rule(entry.below)));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Rules {
        of_list(Source::text("list", text), true).unwrap()
    }

    #[test]
    fn lines_of_all_forms_are_rules() {
        let block = |name: &str| (name.to_owned(), NameRule::Block);
        let allow = |name: &str| (name.to_owned(), NameRule::Allow);
        for (text, rules) in [
            (&b"  # nothing"[..], vec![]),
            (b"ads.example # why", vec![block("ads.example")]),
            (b"ads.example\r\n", vec![block("ads.example")]),
            // What nothing blocks passes without a rule.
            (b"!good.example", vec![]),
            (
                b"ads.example\n!good.ads.example\n0.0.0.0 two.test one.test",
                vec![
                    block("ads.example"),
                    allow("good.ads.example"),
                    block("one.test"),
                    block("two.test"),
                ],
            ),
            (b"::1 a.example !b.example", vec![block("a.example")]),
            ("b\u{fc}cher.example".as_bytes(), vec![block("xn--bcher-kva.example")]),
            (b"*.a.example", vec![block("*.a.example")]),
            (b"*", vec![block("*")]),
            (b".", vec![block(".")]),
            (
                "example\n!*.b\u{fc}cher.example".as_bytes(),
                vec![block("example"), allow("*.xn--bcher-kva.example")],
            ),
            // The closest rule decides, and of one name the last line.
            (
                b"a.example\n!b.a.example\nc.b.a.example\n*.b.a.example\n",
                vec![
                    block("a.example"),
                    allow("b.a.example"),
                    block("*.b.a.example"),
                ],
            ),
            (b"a.example\n!a.example\n", vec![]),
            (b"!a.example\na.example\n", vec![block("a.example")]),
            // Other formats, with the order of rules that they have.
            (
                b"||a.example^\n||c.b.a.example^\n@@||b.a.example^\n! a comment\n!x\n||a.b^$client=x\n",
                vec![block("a.example"), allow("b.a.example")],
            ),
            (b"address=/a.example/\n", vec![block("a.example")]),
            (b"local-zone: a.example deny\n", vec![block("a.example")]),
            (
                b"@ SOA a. b. 1 2 3 4 5\nx.a.example CNAME .\n*.a.example CNAME rpz-drop.\n",
                vec![block("*.a.example")],
            ),
            // Addresses are the answers of a resolver, and names of the machine are its own.
            (b"192.0.2.1 a.example\n127.0.0.1 localhost\n", vec![]),
            (b"\\*.a.example\n", vec![]),
        ] {
            assert_eq!(of(text), rules, "{}", text.escape_ascii());
        }
        for (line, why) in [
            (&b"10.0.0.1"[..], "it is an address"),
            (b"a*.example", "a * is a wildcard only as the first label"),
            (b"a.*.example", "a * is a wildcard only as the first label"),
            (
                b"0.0.0.0 *x.example",
                "a * is a wildcard only as the first label",
            ),
            (
                "\u{2603}\u{fe0f}\u{200d}.example".as_bytes(),
                "IDNA allows no such label",
            ),
            (
                b"a.example\nb\n!a|b.example",
                "line 3: \"a|b.example\" is not a domain name",
            ),
            (b"a.example b.example", "more than one name"),
            (b"a..example", "empty label at byte 2"),
            (b"\xff", "is not UTF-8"),
            (b"<html>\n<p>", "it looks like a page of the web"),
        ] {
            let error = of_list(Source::text("list", line), true).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
