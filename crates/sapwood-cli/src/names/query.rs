//! The queries: `names get`, `has`, `prefix`, `range`, `next`, `prev`, `longest`, `count`.

use std::borrow::Cow;
use std::collections::Bound;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sapwood::qp::QpFile;
use serde_json::json;

use super::{Map, SavedValue, either, open};
use crate::cli::{
    CountArgs, HasArgs, KeyArgs, KeysArgs, Listing, LongestArgs, PrefixArgs, Query, RangeArgs,
};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::{KeyForm, looks_like_dns};
use crate::output::Output;
use crate::records::{Record, Records, is_single};

/// Prints the values of keys.
pub fn get(args: &KeysArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, map => values(&map, args))
}

fn values<V: ?Sized + SavedValue>(map: &QpFile<V>, args: &KeysArgs) -> Outcome {
    let mut out = Output::new(&args.query);
    let single = is_single(&args.keys);
    let mut all = true;
    each_key(args, |given, key| {
        let value = key.and_then(|key| map.get(key));
        all &= value.is_some();
        if out.json {
            let value = value.map(V::json);
            return out.document(&json!({ "key": given_json(&out, given, key)?, "value": value }));
        }
        match value {
            Some(value) if single => out.fields(&[&value.text()]),
            Some(value) => out.fields(&[given, &value.text()]),
            None => {
                complain(&format!("no key \"{}\"", given.escape_ascii()));
                Ok(())
            }
        }
    })?;
    out.flush()?;
    Ok(Answer::from_bool(all))
}

/// Answers whether the map has all keys.
pub fn has(args: &HasArgs) -> Outcome {
    let map = open_for(&args.keys.map, &args.keys.query)?;
    let mut out = Output::new(&args.keys.query);
    let single = is_single(&args.keys.keys);
    let mut all = true;
    each_key(&args.keys, |given, key| {
        let present = key.is_some_and(|key| either!(&map, map => map.contains_key(key)));
        all &= present;
        let word: &[u8] = if present { b"yes" } else { b"no" };
        match (out.json, args.verbose, single) {
            (true, ..) => {
                out.document(&json!({ "key": given_json(&out, given, key)?, "present": present }))
            }
            (_, true, true) => out.fields(&[word]),
            (_, true, false) => out.fields(&[given, word]),
            _ => Ok(()),
        }
    })?;
    out.flush()?;
    Ok(Answer::from_bool(all))
}

/// Prints the entries whose keys start with a prefix.
pub fn prefix(args: &PrefixArgs) -> Outcome {
    let map = open_for(&args.map, &args.query)?;
    let prefix = parse(&args.query, &args.prefix)?;
    either!(map, map => list(&args.query, &args.listing, map.prefix(&*prefix)))
}

/// Prints the entries between two keys.
pub fn range(args: &RangeArgs) -> Outcome {
    let map = open_for(&args.map, &args.query)?;
    let bound = |key: &Option<_>| {
        key.as_deref()
            .map(|key| parse(&args.query, key))
            .transpose()
    };
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
    {
        complain("warning: --from sorts after --to, so no key is between them");
    }
    let from = match &from {
        Some(key) if args.exclude_from => Bound::Excluded(&**key),
        Some(key) => Bound::Included(&**key),
        None => Bound::Unbounded,
    };
    let to = match &to {
        Some(key) if args.include_to => Bound::Included(&**key),
        Some(key) => Bound::Excluded(&**key),
        None => Bound::Unbounded,
    };
    either!(map, map => list(&args.query, &args.listing, map.range::<[u8], _>((from, to))))
}

fn list<'a, V: ?Sized + SavedValue + 'a>(
    query: &Query,
    listing: &Listing,
    entries: impl DoubleEndedIterator<Item = (&'a [u8], &'a V)>,
) -> Outcome {
    let mut out = Output::new(query);
    let limit = listing.limit.unwrap_or(usize::MAX);
    let mut write = |(key, value): (&[u8], &V)| out.entry(key, value);
    if listing.reverse {
        entries.rev().take(limit).try_for_each(&mut write)?;
    } else {
        entries.take(limit).try_for_each(&mut write)?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints the entry after a key.
pub fn next(args: &KeyArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, map => neighbour(args, |key| map.successor(key)))
}

/// Prints the entry before a key.
pub fn prev(args: &KeyArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, map => neighbour(args, |key| map.predecessor(key)))
}

fn neighbour<'m, V: ?Sized + SavedValue + 'm>(
    args: &KeyArgs,
    find: impl FnOnce(&[u8]) -> Option<(&'m [u8], &'m V)>,
) -> Outcome {
    let key = parse(&args.query, &args.key)?;
    let mut out = Output::new(&args.query);
    let found = find(&key);
    if out.json {
        let entry = found.map(|(k, v)| out.entry_json(k, v)).transpose()?;
        out.document(&json!({ "query": out.key_json(&key)?, "found": entry }))?;
    } else if let Some((key, value)) = found {
        out.entry(key, value)?;
    }
    out.flush()?;
    Ok(Answer::from_bool(found.is_some()))
}

/// Prints the stored prefixes of keys.
pub fn longest(args: &LongestArgs) -> Outcome {
    either!(open_for(&args.keys.map, &args.keys.query)?, map => prefixes(&map, args))
}

fn prefixes<V: ?Sized + SavedValue>(map: &QpFile<V>, args: &LongestArgs) -> Outcome {
    let mut out = Output::new(&args.keys.query);
    let single = is_single(&args.keys.keys);
    let mut all = true;
    each_key(&args.keys, |given, key| {
        // Prefixes of this key may be stored, but its bytes were skipped.
        let whole = key.ok_or_else(|| {
            Error::Usage(format!(
                "{}: the key is too long",
                String::from_utf8_lossy(given)
            ))
        })?;
        let found = match (args.separator, args.all) {
            (Some(separator), true) => map.ancestors_at(whole, separator),
            (Some(separator), false) => Vec::from_iter(map.ancestors_at(whole, separator).pop()),
            (None, true) => map.ancestors(whole),
            (None, false) => Vec::from_iter(map.longest_prefix(whole)),
        };
        all &= !found.is_empty();
        if out.json {
            let mut entries = found
                .iter()
                .map(|(k, v)| out.entry_json(k, *v))
                .collect::<Result<Vec<_>, _>>()?;
            let query = given_json(&out, given, key)?;
            let found = if args.all {
                json!(entries)
            } else {
                json!(entries.pop())
            };
            return out.document(&json!({ "query": query, "found": found }));
        }
        for (key, value) in found {
            if single {
                out.entry(key, value)?;
            } else {
                let key = out.form.show(key).map_err(Error::Usage)?;
                out.fields(&[given, &key, &value.text()])?;
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(Answer::from_bool(all))
}

/// Prints how many entries the map or a prefix has.
pub fn count(args: &CountArgs) -> Outcome {
    let map = open_for(&args.map, &args.query)?;
    let mut out = Output::new(&args.query);
    let prefix = args
        .prefix
        .as_deref()
        .map(|prefix| parse(&args.query, prefix))
        .transpose()?;
    let count = match &prefix {
        Some(prefix) => either!(&map, map => map.prefix(prefix).count()),
        None => map.len(),
    };
    if out.json {
        let prefix = prefix.map(|prefix| out.key_json(&prefix)).transpose()?;
        out.document(&json!({ "prefix": prefix, "count": count }))?;
    } else {
        out.fields(&[count.to_string().as_bytes()])?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Opens a map, and prints a note if its keys look like domain names and `--dns` is not given.
fn open_for(path: &Path, query: &Query) -> Result<Map, Error> {
    let map = open(path, !query.no_verify)?;
    if query.form() == KeyForm::Bytes {
        let ends = either!(&map, map => [map.keys().next(), map.keys().next_back()]);
        let mut ends = ends.into_iter().flatten();
        if ends.next_back().is_some_and(looks_like_dns)
            && ends
                .next_back()
                .is_none_or(|k| k.is_empty() || looks_like_dns(k))
        {
            complain(&format!(
                "note: the keys of {} look like domain names; use --dns to give and print them \
                 as names",
                path.display()
            ));
        }
    }
    Ok(map)
}

/// The stored key of an argument.
fn parse(query: &Query, key: &OsStr) -> Result<Vec<u8>, Error> {
    let key = query.form().parse(key.as_bytes()).map_err(Error::Usage)?;
    Ok(key.into_owned())
}

/// Calls `each` with each key as it was given and as it is stored; the latter is `None` if the key
/// is too long to be stored.
fn each_key(
    args: &KeysArgs,
    mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
) -> Result<(), Error> {
    let form = args.query.form();
    for given in &args.keys {
        if given != "-" {
            let key = form.parse(given.as_bytes()).map_err(Error::Usage)?;
            each(given.as_bytes(), Some(&key))?;
            continue;
        }
        let input = Path::new("-");
        let mut records = Records::open(input, args.query.null)?;
        let unit = records.unit();
        while let Some((number, record)) = records.read()? {
            match record {
                Record::TooLong(bytes) => {
                    let text = format!("({unit} {number}, of {bytes} bytes)");
                    each(text.as_bytes(), None)?;
                }
                Record::Whole(given) => {
                    let key: Cow<[u8]> = form.parse(given).map_err(|what| Error::Record {
                        path: input.into(),
                        unit,
                        number,
                        what,
                    })?;
                    each(given, Some(&key))?;
                }
            }
        }
    }
    Ok(())
}

/// The key of a question in a document.
fn given_json(out: &Output, given: &[u8], key: Option<&[u8]>) -> Result<serde_json::Value, Error> {
    match key {
        Some(key) => out.key_json(key),
        None => Ok(String::from_utf8_lossy(given).into()),
    }
}
