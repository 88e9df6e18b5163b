//! `names diff`: what differs between two maps.

use serde_json::json;

use super::open;
use crate::cli::DiffArgs;
use crate::diff::{self, Change};
use crate::errors::{Error, Outcome};
use crate::output::Output;

/// Compares two maps.
pub fn run(args: &DiffArgs) -> Outcome {
    let verify = !args.query.no_verify;
    let (old, new) = (open(&args.old, verify)?, open(&args.new, verify)?);
    let entries = [&old, &new].map(|map| map.iter().map(|(key, value)| (key, *value)));
    let out = Output::new(&args.query);
    diff::run(out, args.summary, entries, |a, b| a.cmp(b), line)
}

fn line(out: &mut Output, change: &Change<&[u8], u64>) -> Result<(), Error> {
    let (sign, word) = change.kind();
    let (old, new) = (change.old, change.new);
    if out.json {
        let key = out.key_json(change.key)?;
        return out.document(&json!({ "change": word, "key": key, "old": old, "new": new }));
    }
    let key = out.form.show(change.key).map_err(Error::Usage)?;
    let first = [sign.as_bytes(), &key].concat();
    let numbers = [old, new].map(|n| n.map(|n| n.to_string().into_bytes()));
    let mut fields = vec![&first[..]];
    fields.extend(numbers.iter().flatten().map(Vec::as_slice));
    out.fields(&fields)
}
