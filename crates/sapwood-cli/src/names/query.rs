//! The queries: `names get`, `has`, `prefix`, `range`, `next`, `prev`, `longest`, `count`.

use std::borrow::Cow;
use std::collections::Bound;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;

use super::view::{Entries, Entry, Names, Source};
use super::{Opened, SavedValue, either, open};
use crate::cli::{
    CountArgs, HasArgs, KeyArgs, KeysArgs, Listing, LongestArgs, PrefixArgs, Query, RangeArgs,
};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::{KeyForm, looks_like_dns};
use crate::output::Output;
use crate::records::{Record, Records, is_single};

/// Prints the values of keys.
pub fn get(args: &KeysArgs) -> Outcome {
    either!(open_for(&args.map, &args.query)?, mut map => values(&mut *map, args))
}

fn values<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &KeysArgs) -> Outcome {
    let mut out = Output::new(&args.query);
    let single = is_single(&args.keys);
    let mut all = true;
    each_key(map, args, &mut out, |out, map, given, key| {
        let value = key.and_then(|key| map.get(key));
        all &= value.is_some();
        if out.json {
            let value = value.map(V::json);
            return out.document(&json!({ "key": given_json(out, given, key)?, "value": value }));
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
    either!(open_for(&args.keys.map, &args.keys.query)?, mut map => presence(&mut *map, args))
}

fn presence<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &HasArgs) -> Outcome {
    let mut out = Output::new(&args.keys.query);
    let single = is_single(&args.keys.keys);
    let mut all = true;
    each_key(map, &args.keys, &mut out, |out, map, given, key| {
        let present = key.is_some_and(|key| map.get(key).is_some());
        all &= present;
        let word: &[u8] = if present { b"yes" } else { b"no" };
        match (out.json, args.verbose, single) {
            (true, ..) => {
                out.document(&json!({ "key": given_json(out, given, key)?, "present": present }))
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
    entries: Entries<'a, V>,
) -> Result<(), Error> {
    let mut out = Output::new(query);
    let limit = listing.limit.unwrap_or(usize::MAX);
    let mut write = |(key, value): (&[u8], &V)| out.entry(key, value);
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
    find: impl for<'m> Fn(&'m dyn Names<V>, &[u8]) -> Option<Entry<'m, V>>,
) -> Outcome {
    let key = parse(&args.query, &args.key)?;
    let mut out = Output::new(&args.query);
    let mut answer = Answer::No;
    map.read(&mut |map| {
        let found = find(map, &key);
        answer = Answer::from_bool(found.is_some());
        if out.json {
            let entry = found.map(|(k, v)| out.entry_json(k, v)).transpose()?;
            out.document(&json!({ "query": out.key_json(&key)?, "found": entry }))?;
        } else if let Some((key, value)) = found {
            out.entry(key, value)?;
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
    each_key(map, &args.keys, &mut out, |out, map, given, key| {
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
            let query = given_json(out, given, key)?;
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
    let mut count = 0;
    either!(map, mut map => map.read(&mut |map| {
        count = match &prefix {
            Some(prefix) => map.prefix(prefix).count(),
            None => map.len(),
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
fn open_for(path: &Path, query: &Query) -> Result<Opened, Error> {
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
fn note_names<V: ?Sized>(path: &Path, map: &dyn Names<V>) {
    let mut entries = map.iter();
    let ends = [entries.next(), entries.next_back()];
    let mut ends = ends.into_iter().flatten().map(|(key, _)| key);
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

/// The stored key of an argument.
fn parse(query: &Query, key: &OsStr) -> Result<Vec<u8>, Error> {
    let key = query.form().parse(key.as_bytes()).map_err(Error::Usage)?;
    Ok(key.into_owned())
}

/// Calls `each` with each key as it was given and as it is stored; the latter is `None` if the key
/// is too long to be stored. Each key finds the newest version of a live map, which holds nothing
/// back while the command waits for stdin.
fn each_key<V: ?Sized + SavedValue>(
    map: &mut dyn Source<V>,
    args: &KeysArgs,
    out: &mut Output,
    mut each: impl FnMut(&mut Output, &dyn Names<V>, &[u8], Option<&[u8]>) -> Result<(), Error>,
) -> Result<(), Error> {
    let form = args.query.form();
    for given in &args.keys {
        if given != "-" {
            let key = form.parse(given.as_bytes()).map_err(Error::Usage)?;
            map.read(&mut |map| each(out, map, given.as_bytes(), Some(&key)))?;
            continue;
        }
        let input = Path::new("-");
        let mut records = Records::open(input, args.query.null)?;
        let unit = records.unit();
        loop {
            // Whoever waits for the answer may ask again only then.
            if args.query.live && records.will_wait() {
                out.flush()?;
            }
            match records.read()? {
                None => break,
                Some((number, Record::TooLong(bytes))) => {
                    let text = format!("({unit} {number}, of {bytes} bytes)");
                    map.read(&mut |map| each(out, map, text.as_bytes(), None))?;
                }
                Some((number, Record::Whole(given))) => {
                    let key: Cow<[u8]> = form.parse(given).map_err(|what| Error::Record {
                        path: input.into(),
                        unit,
                        number,
                        what,
                    })?;
                    map.read(&mut |map| each(out, map, given, Some(&key)))?;
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
