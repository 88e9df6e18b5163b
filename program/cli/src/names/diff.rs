//! `names diff`: shows the entries that differ between two maps.

use std::path::Path;

use sapwood::qp::Key;
use serde_json::json;

use super::view::Source;
use super::{Opened, SavedValue, open, open_file};
use crate::cli::DiffArgs;
use crate::diff::{self, Change};
use crate::errors::{Answer, Error, Outcome};
use crate::output::Output;

/// Compares two maps and prints the differences.
pub fn run(args: &DiffArgs) -> Outcome {
    let open = |path: &Path| match args.query.live.wait_for(path) {
        None => open_file(path, &args.query),
        Some(_) => open(path, &args.query),
    };
    let (old, new) = (open(&args.old)?, open(&args.new)?);
    match (old, new) {
        (Opened::Numbers(mut old), Opened::Numbers(mut new)) => compare(args, &mut *old, &mut *new),
        (Opened::Texts(mut old), Opened::Texts(mut new)) => compare(args, &mut *old, &mut *new),
        (old, new) => Err(Error::Usage(format!(
            "the values of {} are {}, those of {} are {}",
            args.old.display(),
            old.values(),
            args.new.display(),
            new.values()
        ))),
    }
}

fn compare<V: ?Sized + SavedValue>(
    args: &DiffArgs,
    old: &mut dyn Source<V>,
    new: &mut dyn Source<V>,
) -> Outcome {
    let mut answer = Answer::No;
    old.read(&mut |old| {
        new.read(&mut |new| {
            let out = Output::new(&args.query);
            let maps = [old.prefix(b""), new.prefix(b"")];
            answer = diff::run(out, args.summary, maps, |a, b| a.cmp(b), line)?;
            Ok(())
        })
    })?;
    Ok(answer)
}

fn line<V: ?Sized + SavedValue>(
    out: &mut Output,
    change: &Change<Key<'_>, &V>,
) -> Result<(), Error> {
    let (sign, word) = change.kind();
    let (old, new) = (change.old, change.new);
    if out.json {
        let key = out.key_json(&change.key)?;
        let (old, new) = (old.map(V::json), new.map(V::json));
        return out.document(&json!({ "change": word, "key": key, "old": old, "new": new }));
    }
    let key = out.form.show(&change.key).map_err(Error::Usage)?;
    let first = [sign.as_bytes(), &key].concat();
    let values = [old, new].map(|value| value.map(V::text));
    let mut fields = vec![&first[..]];
    fields.extend(values.iter().flatten().map(|value| &**value));
    out.fields(&fields)
}
