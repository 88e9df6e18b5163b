//! `lists ask`: what happens to questions, and by which rule of which list.

use std::ffi::OsStr;
use std::path::Path;

use sapwood_lists::names::asked_name;
use sapwood_lists::{Meta, Verdict, verdict};
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
        // Lists are large, and questions on stdin are many.
        let line = match (&found, place) {
            (Some(found), None) => line(found, &meta),
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

/// The line of a rule in its list as it is now, if it can be read.
fn line(found: &Verdict, meta: &Meta) -> Option<u64> {
    let list = meta.lists().get(usize::from(found.terms.list))?;
    list.line_of(&found.key, &found.terms).ok().flatten()
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
