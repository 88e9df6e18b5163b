//! `lists diff`: the rules that differ between two maps.

use std::path::Path;

use sapwood::qp::Key;
use sapwood_lists::names::shown_name;
use sapwood_lists::{rule_entries, rules_of};
use serde_json::json;

use super::{Opened, open, read};
use crate::cli::lists::DiffListsArgs;
use crate::diff::{self, Change};
use crate::errors::{Error, Outcome};
use crate::names::view::Source;
use crate::output::Output;

/// Compares two maps and prints the differences.
pub fn run(args: &DiffListsArgs) -> Outcome {
    let open = |path: &Path| match open(path, &args.live)? {
        Opened::Map(map) => Ok::<Box<dyn Source<[u8]>>, Error>(map),
        Opened::Small(_) => Err(Error::Usage(format!(
            "{} has fingerprints, and no names to compare",
            path.display()
        ))),
    };
    let (mut old, mut new) = (open(&args.old)?, open(&args.new)?);
    read(&mut *old, &args.old, |old, _| {
        read(&mut *new, &args.new, |new, _| {
            let out = Output::lines(args.json);
            diff::run(
                out,
                args.summary,
                [rule_entries(old), rule_entries(new)],
                |a, b| a.cmp(b),
                line,
            )
        })
    })
}

/// The rules of a value as text.
fn rules(value: &[u8]) -> Result<Vec<String>, Error> {
    let rules = rules_of(value).map_err(|error| Error::Usage(error.to_string()))?;
    Ok(rules.iter().map(ToString::to_string).collect())
}

fn line(out: &mut Output, change: &Change<Key<'_>, &[u8]>) -> Result<(), Error> {
    let (sign, word) = change.kind();
    let name = shown_name(&change.key).map_err(|error| Error::Usage(error.to_string()))?;
    let old = change.old.map(rules).transpose()?;
    let new = change.new.map(rules).transpose()?;
    if out.json {
        return out.document(&json!({ "change": word, "name": name, "old": old, "new": new }));
    }
    let mut fields = vec![format!("{sign}{name}")];
    fields.extend(
        [old, new]
            .into_iter()
            .flatten()
            .map(|rules| rules.join("; ")),
    );
    let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
    out.fields(&fields)
}
