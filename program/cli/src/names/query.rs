//! The queries: `names get`, `has`, `prefix`, `range`, `next`, `prev`, `longest`, `count`.

use std::collections::Bound;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sapwood::qp::{OrderedRange, OrderedRead, ReadEntry};
use serde_json::json;

use super::view::Source;
use super::{Opened, SavedValue, either, open};
use crate::cli::{
    CountArgs, HasArgs, KeyArgs, KeysArgs, Listing, LongestArgs, PrefixArgs, Query, RangeArgs,
};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::{KeyForm, looks_like_dns};
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, is_single, too_long};

/// Prints the values of keys.
pub fn get(args: &KeysArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, mut map => values(&mut *map, args))
}

fn values<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &KeysArgs) -> Outcome {
    let mut out = Output::new(&args.query);
    let single = is_single(&args.keys);
    let mut all = true;
    each_key(map, args, (&mut out, "key"), |out, map, key| {
        let value = key.stored.and_then(|key| map.get(key));
        all &= value.is_some();
        match value {
            value if out.json => {
                let value = value.map(V::json);
                out.document(&json!({ "key": given_json(out, key)?, "value": value }))?;
            }
            Some(value) if single => out.fields(&[&value.text()])?,
            Some(value) => out.fields(&[key.given, &value.text()])?,
            None => complain(&format!("no key \"{}\"", key.given.escape_ascii())),
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// Answers whether the map has all keys.
pub fn has(args: &HasArgs) -> Outcome {
    either!(open_for(&args.keys.map, &args.keys.query)?, mut map => presence(&mut *map, args))
}

fn presence<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &HasArgs) -> Outcome {
    let mut out = Output::new(&args.keys.query);
    let single = is_single(&args.keys.keys);
    let mut all = true;
    each_key(map, &args.keys, (&mut out, "key"), |out, map, key| {
        let present = key.stored.is_some_and(|key| map.get(key).is_some());
        all &= present;
        let word: &[u8] = if present { b"yes" } else { b"no" };
        match (out.json, args.verbose, single) {
            (true, ..) => {
                out.document(&json!({ "key": given_json(out, key)?, "present": present }))?;
            }
            (_, true, true) => out.fields(&[word])?,
            (_, true, false) => out.fields(&[key.given, word])?,
            _ => {}
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// Prints the entries whose keys start with a prefix.
pub fn prefix(args: &PrefixArgs) -> Outcome {
    let map = open_for(&args.map, &args.query)?;
    let prefix = parse(&args.query, &args.prefix)?;
    either!(map, mut map => map.read(&mut |map| {
        list(&args.query, &args.listing, map.prefix(&prefix))
    }))?;
    Ok(Answer::Yes)
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
    either!(map, mut map => map.read(&mut |map| {
        list(&args.query, &args.listing, map.range((from, to)))
    }))?;
    Ok(Answer::Yes)
}

fn list<'a, V: ?Sized + SavedValue + 'a>(
    query: &Query,
    listing: &Listing,
    entries: OrderedRange<'a, V>,
) -> Result<(), Error> {
    let mut out = Output::new(query);
    let limit = listing.limit.unwrap_or(usize::MAX);
    let mut write = |(key, value): ReadEntry<'_, V>| out.entry(&key, value);
    if listing.reverse {
        entries.rev().take(limit).try_for_each(&mut write)?;
    } else {
        entries.take(limit).try_for_each(&mut write)?;
    }
    out.flush()
}

/// Prints the entry after a key.
pub fn next(args: &KeyArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, mut map => {
        neighbour(&mut *map, args, |map, key| map.successor(key))
    })
}

/// Prints the entry before a key.
pub fn prev(args: &KeyArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, mut map => {
        neighbour(&mut *map, args, |map, key| map.predecessor(key))
    })
}

fn neighbour<V: ?Sized + SavedValue>(
    map: &mut dyn Source<V>,
    args: &KeyArgs,
    find: impl for<'m> Fn(&'m dyn OrderedRead<V>, &[u8]) -> Option<ReadEntry<'m, V>>,
) -> Outcome {
    let key = parse(&args.query, &args.key)?;
    let mut out = Output::new(&args.query);
    let mut answer = Answer::No;
    map.read(&mut |map| {
        let found = find(map, &key);
        answer = Answer::from_bool(found.is_some());
        if out.json {
            let entry = found.map(|(k, v)| out.entry_json(&k, v)).transpose()?;
            out.document(&json!({ "query": out.key_json(&key)?, "found": entry }))?;
        } else if let Some((key, value)) = found {
            out.entry(&key, value)?;
        }
        out.flush()
    })?;
    Ok(answer)
}

/// Prints the stored prefixes of keys.
pub fn longest(args: &LongestArgs) -> Outcome {
    either!(open_for(&args.keys.map, &args.keys.query)?, mut map => prefixes(&mut *map, args))
}

fn prefixes<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &LongestArgs) -> Outcome {
    let mut out = Output::new(&args.keys.query);
    let single = is_single(&args.keys.keys);
    let mut all = true;
    each_key(map, &args.keys, (&mut out, "query"), |out, map, key| {
        let Some(whole) = key.stored else {
            // Prefixes of this key may be stored, but its bytes were skipped.
            return Ok(Err("the key is too long".into()));
        };
        let mut found = match args.separator {
            Some(separator) => map.ancestors_at(whole, separator),
            None if out.form == KeyForm::Dns => covering(map, whole),
            None if args.all => map.ancestors(whole),
            None => Vec::from_iter(map.longest_prefix(whole)),
        };
        if !args.all {
            found = found.pop().into_iter().collect();
        }
        all &= !found.is_empty();
        if out.json {
            let mut entries = found
                .iter()
                .map(|(k, v)| out.entry_json(k, *v))
                .collect::<Result<Vec<_>, _>>()?;
            let query = given_json(out, key)?;
            let found = if args.all {
                json!(entries)
            } else {
                json!(entries.pop())
            };
            out.document(&json!({ "query": query, "found": found }))?;
            return Ok(Ok(()));
        }
        for (found, value) in found {
            if single {
                out.entry(&found, value)?;
            } else {
                let found = out.form.show(&found).map_err(Error::Usage)?;
                out.fields(&[key.given, &found, &value.text()])?;
            }
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// The entries that cover a domain name, the closest one last: its own, those of the names above
/// it, and the wildcards below the latter. A wildcard stands for all names below its parent, and so
/// it comes after the parent.
fn covering<'m, V: ?Sized + SavedValue>(
    map: &'m dyn OrderedRead<V>,
    name: &[u8],
) -> Vec<ReadEntry<'m, V>> {
    let mut above = map.ancestors(name).into_iter().peekable();
    let ends = (0..name.len()).filter(|at| *at == 0 || name[at - 1] == 0);
    let mut found = Vec::new();
    for end in ends {
        while let Some(entry) = above.next_if(|(key, _)| key.len() <= end) {
            found.push(entry);
        }
        let wildcard = [&name[..end], b"*\0"].concat();
        // A name that begins with * finds itself among those above it.
        found.extend(
            map.get_key_value(&wildcard)
                .filter(|(key, _)| !name.starts_with(key)),
        );
    }
    found.extend(above);
    found
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
    let mut count = 0;
    either!(map, mut map => map.read(&mut |map| {
        count = match &prefix {
            Some(prefix) => map.prefix(prefix).count(),
            None => map.entries(),
        };
        Ok(())
    }))?;
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
pub fn open_for(path: &Path, query: &Query) -> Result<Opened, Error> {
    let mut map = open(path, query)?;
    if query.form() == KeyForm::Bytes {
        either!(&mut map, map => map.read(&mut |map| {
            note_names(path, map);
            Ok(())
        }))?;
    }
    Ok(map)
}

/// Prints the note if the first and the last key look like domain names.
fn note_names<V: ?Sized + SavedValue>(path: &Path, map: &dyn OrderedRead<V>) {
    let is_name = |key: &[u8]| key.is_empty() || looks_like_dns(key);
    let (first, last) = (map.first_key_value(), map.last_key_value());
    if last.is_some_and(|(key, _)| looks_like_dns(&key))
        && first.is_some_and(|(key, _)| is_name(&key))
    {
        complain(&format!(
            "note: the keys of {} look like domain names; use --dns to give and print them \
             as names",
            path.display()
        ));
    }
}

/// The stored key of an argument.
fn parse(query: &Query, key: &OsStr) -> Result<Vec<u8>, Error> {
    let key = query.form().parse(key.as_bytes()).map_err(Error::Usage)?;
    Ok(key.into_owned())
}

/// A key that is asked for.
pub struct Key<'a> {
    /// The key as it was given; a text about its place if it is too long to be a key.
    pub given: &'a [u8],
    /// The stored key; `None` if it is too long to be stored.
    pub stored: Option<&'a [u8]>,
}

/// Calls `ask` with each key. Its inner error is the fault of a bad one, for which `field` is the
/// name in documents. Each key finds the newest version of a live map, which holds nothing back
/// while the command waits for stdin.
pub fn each_key<V: ?Sized + SavedValue>(
    map: &mut dyn Source<V>,
    args: &KeysArgs,
    (out, field): (&mut Output, &'static str),
    mut ask: impl FnMut(&mut Output, &dyn OrderedRead<V>, &Key<'_>) -> Result<Result<(), String>, Error>,
) -> Result<(), Error> {
    let batch = Batch {
        field,
        null: args.query.null,
        strict: args.strict,
    };
    let given = args.keys.iter().map(|key| &**key);
    queries::each(given, &batch, out, |out, record, place| {
        let form = out.form;
        let mut about = String::new();
        let (given, stored) = match (record, place) {
            (Record::Whole(text), None) => (text, form.parse(text)),
            (Record::Whole(text), Some(_)) => match form.on_line(text) {
                Some(text) => (text, form.parse(text)),
                None => return Ok(Ok(())),
            },
            (Record::TooLong(bytes), place) => {
                let (unit, number) = place.unwrap_or_default();
                about = format!("({unit} {number}, of {bytes} bytes)");
                (about.as_bytes(), Err(too_long(bytes)))
            }
        };
        let is_too_long = !about.is_empty() && form == KeyForm::Bytes;
        let stored = match stored {
            Ok(stored) => Some(stored),
            Err(_) if is_too_long => None,
            Err(what) => return Ok(Err(what)),
        };
        let key = Key {
            given,
            stored: stored.as_deref(),
        };
        let mut asked = Ok(());
        map.read(&mut |map| {
            asked = ask(out, map, &key)?;
            Ok(())
        })?;
        Ok(asked)
    })
}

/// The key of a question in a document.
fn given_json(out: &Output, key: &Key<'_>) -> Result<serde_json::Value, Error> {
    match key.stored {
        Some(key) => out.key_json(key),
        None => Ok(String::from_utf8_lossy(key.given).into()),
    }
}
