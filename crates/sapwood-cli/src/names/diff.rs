//! `names diff`: what differs between two maps.

use std::cmp::Ordering;

use serde_json::json;

use super::open;
use crate::cli::DiffArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::Output;

/// Walks both maps in order of keys, side by side.
pub fn run(args: &DiffArgs) -> Outcome {
    let verify = !args.query.no_verify;
    let (old, new) = (open(&args.old, verify)?, open(&args.new, verify)?);
    let mut out = Output::new(&args.query);
    let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
    let (mut added, mut removed, mut changed) = (0u64, 0u64, 0u64);
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = a.next_if(|_| order.is_le());
        let new = b.next_if(|_| order.is_ge());
        let (key, before, after) = match (old, new) {
            (Some((_, x)), Some((_, y))) if x == y => continue,
            (Some((key, x)), Some((_, y))) => {
                changed += 1;
                (key, Some(*x), Some(*y))
            }
            (Some((key, x)), None) => {
                removed += 1;
                (key, Some(*x), None)
            }
            (None, Some((key, y))) => {
                added += 1;
                (key, None, Some(*y))
            }
            (None, None) => break,
        };
        if !args.summary {
            line(&mut out, key, before, after)?;
        }
    }
    if args.summary && out.json {
        out.document(&json!({ "added": added, "removed": removed, "changed": changed }))?;
    } else if args.summary {
        out.text(&format!(
            "{added} added, {removed} removed, {changed} changed\n"
        ))?;
    }
    out.flush()?;
    Ok(Answer::from_bool(added + removed + changed == 0))
}

fn line(
    out: &mut Output,
    key: &[u8],
    before: Option<u64>,
    after: Option<u64>,
) -> Result<(), Error> {
    let (sign, word): (&[u8], _) = match (before, after) {
        (None, _) => (b"+ ", "added"),
        (_, None) => (b"- ", "removed"),
        _ => (b"~ ", "changed"),
    };
    if out.json {
        let key = out.key_json(key)?;
        return out.document(&json!({ "change": word, "key": key, "old": before, "new": after }));
    }
    let key = out.form.show(key).map_err(Error::Usage)?;
    let first = [sign, &key].concat();
    let numbers = [before, after].map(|n| n.map(|n| n.to_string().into_bytes()));
    let mut fields = vec![&first[..]];
    fields.extend(numbers.iter().flatten().map(Vec::as_slice));
    out.fields(&fields)
}
