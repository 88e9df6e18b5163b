//! `names closest`: what a zone has around a domain name.

use sapwood::qp::{Denial, ReadEntry, Value};
use serde_json::{Value as Json, json};

use super::query::each_key;
use super::view::Source;
use super::{SavedValue, either, open};
use crate::cli::ClosestArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::keys::KeyForm;
use crate::output::Output;
use crate::records::is_single;

/// The byte at the end of each label of a key.
const SEPARATOR: u8 = 0;

/// Prints what the map has around each name.
pub fn run(args: &ClosestArgs) -> Outcome {
    if args.keys.query.hex {
        let what = "\"names closest\" is about domain names; --hex cannot be used";
        return Err(Error::Usage(what.into()));
    }
    either!(open(&args.keys.map, &args.keys.query)?, mut map => around(&mut *map, args))
}

fn around<V: ?Sized + SavedValue>(map: &mut dyn Source<V>, args: &ClosestArgs) -> Outcome {
    let mut out = Output::new(&args.keys.query);
    out.form = KeyForm::Dns;
    let single = is_single(&args.keys.keys);
    let is_cut = |value: &V| args.cuts.iter().any(|cut| *value.text() == *cut.as_bytes());
    let mut all = true;
    each_key(map, &args.keys, (&mut out, "query"), |out, map, key| {
        let Some(name) = key.stored else {
            return Ok(Err("the name is too long".into()));
        };
        let found = map.denial(name, SEPARATOR, &mut |_, value| is_cut(value));
        all &= found.closest.exists || found.wildcard_exists;
        let parts = parts(name, &found);
        if out.json {
            let mut document = json!({ "query": out.key_json(name)? });
            for (what, part) in &parts {
                document[*what] = part.json(out)?;
            }
            out.document(&document)?;
            return Ok(Ok(()));
        }
        for (what, part) in &parts {
            let Some(texts) = part.texts(out)? else {
                continue;
            };
            let mut fields = vec![what.as_bytes()];
            fields.extend(texts.iter().map(|text| &**text));
            if !single {
                fields.insert(0, key.given);
            }
            out.fields(&fields)?;
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// A part of the answer.
enum Part<'a, V: ?Sized> {
    Yes(bool),
    Name(Option<&'a [u8]>),
    Entry(Option<&'a ReadEntry<'a, V>>),
}

/// The parts of an answer with their names, in the order in which they are printed.
fn parts<'a, V: ?Sized + Value>(
    name: &'a [u8],
    found: &'a Denial<'a, V>,
) -> Vec<(&'static str, Part<'a, V>)> {
    let closest = &found.closest;
    let closer = next_closer(name, closest.encloser);
    vec![
        ("exists", Part::Yes(closest.exists)),
        ("exact", Part::Entry(closest.exact.as_ref())),
        ("encloser", Part::Name(Some(&name[..closest.encloser]))),
        ("next_closer", Part::Name(closer)),
        ("ancestor", Part::Entry(closest.ancestor.as_ref())),
        ("wildcard", Part::Entry(closest.wildcard.as_ref())),
        ("wildcard_exists", Part::Yes(found.wildcard_exists)),
        ("predecessor", Part::Entry(found.predecessor.as_ref())),
        (
            "wildcard_predecessor",
            Part::Entry(found.wildcard_predecessor.as_ref()),
        ),
        ("cut", Part::Entry(closest.cut.as_ref())),
    ]
}

/// The next closer name (RFC 5155): the closest encloser and one more label of the name.
fn next_closer(name: &[u8], encloser: usize) -> Option<&[u8]> {
    let rest = name.get(encloser..)?;
    let label = rest.iter().position(|byte| *byte == SEPARATOR)?;
    Some(&name[..=encloser + label])
}

impl<V: ?Sized + SavedValue> Part<'_, V> {
    /// The part in a document.
    fn json(&self, out: &Output) -> Result<Json, Error> {
        Ok(match self {
            Part::Yes(yes) => json!(yes),
            Part::Name(name) => json!(name.map(|name| out.key_json(name)).transpose()?),
            Part::Entry(entry) => {
                let entry = entry.map(|(key, value)| out.entry_json(key, *value));
                json!(entry.transpose()?)
            }
        })
    }

    /// The fields of its line, if it has one.
    fn texts(&self, out: &Output) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let show = |key| out.form.show(key).map_err(Error::Usage);
        Ok(match self {
            Part::Yes(yes) => Some(vec![if *yes { b"yes".into() } else { b"no".into() }]),
            Part::Name(None) | Part::Entry(None) => None,
            Part::Name(Some(name)) => Some(vec![show(name)?.into_owned()]),
            Part::Entry(Some((key, value))) => {
                Some(vec![show(key)?.into_owned(), value.text().into_owned()])
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_closer_name_has_one_label_more() {
        let name = b"org\0example\0a\0";
        assert_eq!(next_closer(name, 0), Some(&b"org\0"[..]));
        assert_eq!(next_closer(name, 4), Some(&b"org\0example\0"[..]));
        assert_eq!(next_closer(name, name.len()), None);
        assert_eq!(next_closer(b"", 0), None);
    }
}
