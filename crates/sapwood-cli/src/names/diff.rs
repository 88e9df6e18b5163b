//! `names diff`: shows the entries that differ between two maps.

use sapwood::qp::QpFile;
use serde_json::json;

use super::{Map, SavedValue, open};
use crate::cli::DiffArgs;
use crate::diff::{self, Change};
use crate::errors::{Error, Outcome};
use crate::output::Output;

/// Compares two maps and prints the differences.
pub fn run(args: &DiffArgs) -> Outcome {
    let verify = !args.query.no_verify;
    let (old, new) = (open(&args.old, verify)?, open(&args.new, verify)?);
    match (&old, &new) {
        (Map::Numbers(old), Map::Numbers(new)) => compare(args, [old, new]),
        (Map::Texts(old), Map::Texts(new)) => compare(args, [old, new]),
        _ => Err(Error::Usage(format!(
            "the values of {} are {}, those of {} are {}",
            args.old.display(),
            old.values(),
            args.new.display(),
            new.values()
        ))),
    }
}

fn compare<V: ?Sized + SavedValue>(args: &DiffArgs, maps: [&QpFile<V>; 2]) -> Outcome {
    let out = Output::new(&args.query);
    diff::run(
        out,
        args.summary,
        maps.map(QpFile::iter),
        |a, b| a.cmp(b),
        line,
    )
}

fn line<V: ?Sized + SavedValue>(out: &mut Output, change: &Change<&[u8], &V>) -> Result<(), Error> {
    let (sign, word) = change.kind();
    let (old, new) = (change.old, change.new);
    if out.json {
        let key = out.key_json(change.key)?;
        let (old, new) = (old.map(V::json), new.map(V::json));
        return out.document(&json!({ "change": word, "key": key, "old": old, "new": new }));
    }
    let key = out.form.show(change.key).map_err(Error::Usage)?;
    let first = [sign.as_bytes(), &key].concat();
    let values = [old, new].map(|value| value.map(V::text));
    let mut fields = vec![&first[..]];
    fields.extend(values.iter().flatten().map(|value| &**value));
    out.fields(&fields)
}
