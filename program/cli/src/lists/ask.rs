//! `lists ask`: what happens to questions, and by which rule of which list.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sapwood_lists::names::asked_name;
use sapwood_lists::{ListInfo, Meta, Terms, Verdict, verdict};
use serde_json::json;

use super::{Opened, no_rules, open, read};
use crate::cli::lists::AskListsArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::keys::KeyForm;
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, too_long};

/// Answers each question.
pub fn run(args: &AskListsArgs) -> Outcome {
    let mut map = open(&args.map, &args.live)?;
    let mut out = Output::lines(args.json);
    let batch = Batch {
        field: "name",
        null: false,
        strict: args.strict,
    };
    let mut all = true;
    let lines = lines(&mut map, args)?;
    let given = args.names.iter().map(OsStr::new);
    queries::each(given, &batch, &mut out, |out, record, place| {
        let text = match (record, place) {
            (Record::TooLong(bytes), _) => return Ok(Err(too_long(bytes))),
            (Record::Whole(text), None) => text.trim_ascii(),
            (Record::Whole(text), Some(_)) => match KeyForm::Dns.on_line(text) {
                Some(text) => text,
                None => return Ok(Ok(())),
            },
        };
        let key = match asked_name(text) {
            Ok(name) => name.key,
            Err(what) => return Ok(Err(what)),
        };
        let (found, meta) = ask(&mut map, &args.map, &key, args.rtype)?;
        all &= found.is_some();
        let line = match (&found, place) {
            (Some(found), None) => lines.get(&place_of(found)).copied(),
            _ => None,
        };
        print(
            out,
            &String::from_utf8_lossy(text),
            found.as_ref(),
            &meta,
            line,
        )?;
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// The rule that wins, and what the map knows of its lists.
fn ask(
    map: &mut Opened,
    path: &Path,
    key: &[u8],
    rtype: u16,
) -> Result<(Option<Verdict>, Meta), Error> {
    match map {
        Opened::Small(small) => Ok((small.verdict(key, rtype), small.meta().clone())),
        Opened::Map(map) => read(&mut **map, path, |map, meta| {
            let found = verdict(map, meta, key, rtype);
            let found = found.map_err(|error| no_rules(path, error))?;
            Ok((found, meta.clone()))
        }),
    }
}

/// A rule of a list: the key of its name, and its terms.
type Place = (Vec<u8>, Terms);

fn place_of(found: &Verdict) -> Place {
    (found.key.clone(), found.terms.clone())
}

/// The lines of the rules that answer the arguments, in their lists as they are now, if these can
/// be read. Lists are large, so each of them is read once, and not for questions on stdin, which
/// are many.
fn lines(map: &mut Opened, args: &AskListsArgs) -> Result<HashMap<Place, u64>, Error> {
    let mut wanted: BTreeMap<u16, (ListInfo, Vec<Place>)> = BTreeMap::new();
    for name in args.names.iter().filter(|name| *name != "-") {
        // What is wrong with a name is told at its turn.
        let Ok(name) = asked_name(name.as_bytes().trim_ascii()) else {
            continue;
        };
        let (Some(found), meta) = ask(map, &args.map, &name.key, args.rtype)? else {
            continue;
        };
        let number = found.terms.list;
        if let Some(list) = meta.lists().get(usize::from(number)) {
            let list = wanted
                .entry(number)
                .or_insert_with(|| (list.clone(), Vec::new()));
            list.1.push(place_of(&found));
        }
    }
    let mut all = HashMap::new();
    for (list, places) in wanted.into_values() {
        let rules: Vec<_> = places
            .iter()
            .map(|(key, terms)| (&key[..], terms))
            .collect();
        let found = list.lines_of(&rules).unwrap_or_default();
        let found = places.into_iter().zip(found);
        all.extend(found.filter_map(|(place, line)| Some((place, line?))));
    }
    Ok(all)
}

fn print(
    out: &mut Output,
    name: &str,
    found: Option<&Verdict>,
    meta: &Meta,
    line: Option<u64>,
) -> Result<(), Error> {
    let list = found.and_then(|found| meta.lists().get(usize::from(found.terms.list)));
    let list = list.map_or("", |list| list.name.as_str());
    if out.json {
        return out.document(&match found {
            None => json!({ "name": name, "action": "none" }),
            Some(found) => json!({
                "name": name,
                "action": found.terms.action.word(),
                "answer": found.terms.action.to_string(),
                "rule": found.name(),
                "class": found.terms.class.word(),
                "list": list,
                "line": line,
                "why": found.why.words(),
                "others": found.others,
            }),
        });
    }
    let Some(found) = found else {
        return out.fields(&[name.as_bytes(), b"none"]);
    };
    let place = match line {
        Some(line) => format!("{list}:{line}"),
        None => list.to_owned(),
    };
    out.fields(&[
        name.as_bytes(),
        found.terms.action.to_string().as_bytes(),
        found.name().as_bytes(),
        place.as_bytes(),
        found.why.words().as_bytes(),
    ])
}
