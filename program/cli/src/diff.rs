//! Compares two sorted lists: for `diff` of all kinds of files, and for maps that become what a
//! list says.

use std::cmp::Ordering;

use serde_json::json;

use crate::errors::{Answer, Error, Outcome};
use crate::live::changes::Difference;
use crate::output::Output;

/// A key whose value differs between the lists.
pub struct Change<K, V> {
    /// The key.
    pub key: K,
    /// Its value in the old list.
    pub old: Option<V>,
    /// Its value in the new list.
    pub new: Option<V>,
}

impl<K, V> Change<K, V> {
    /// The first characters of its line, and its name in a document.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match (&self.old, &self.new) {
            (None, _) => ("+ ", "added"),
            (_, None) => ("- ", "removed"),
            _ => ("~ ", "changed"),
        }
    }
}

/// Walks both lists in order of keys, and calls `each` with what differs. Returns the counts.
pub fn differences<K, V: PartialEq, E>(
    old: impl Iterator<Item = (K, V)>,
    new: impl Iterator<Item = (K, V)>,
    order: impl Fn(&K, &K) -> Ordering,
    mut each: impl FnMut(Change<K, V>) -> Result<(), E>,
) -> Result<Difference, E> {
    let (mut a, mut b) = (old.peekable(), new.peekable());
    let mut difference = Difference::default();
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return Ok(difference),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => order(old, new),
        };
        let (old, new) = (a.next_if(|_| order.is_le()), b.next_if(|_| order.is_ge()));
        let (key, old, new) = match (old, new) {
            (Some((key, old)), new) => (key, Some(old), new.map(|(_, new)| new)),
            (None, Some((key, new))) => (key, None, Some(new)),
            (None, None) => return Ok(difference),
        };
        match (&old, &new) {
            (old, new) if old == new => continue,
            (Some(_), Some(_)) => difference.changed += 1,
            (Some(_), None) => difference.removed += 1,
            _ => difference.added += 1,
        }
        each(Change { key, old, new })?;
    }
}

/// Walks both lists in order of keys, and prints each change, or for a summary the counts of
/// changes.
pub fn run<K, V: PartialEq>(
    mut out: Output,
    summary: bool,
    [old, new]: [impl Iterator<Item = (K, V)>; 2],
    order: impl Fn(&K, &K) -> Ordering,
    show: impl Fn(&mut Output, &Change<K, V>) -> Result<(), Error>,
) -> Outcome {
    let difference = differences(old, new, order, |change| match summary {
        true => Ok(()),
        false => show(&mut out, &change),
    })?;
    if summary && out.json {
        let Difference {
            added,
            removed,
            changed,
        } = difference;
        out.document(&json!({ "added": added, "removed": removed, "changed": changed }))?;
    } else if summary {
        out.text(&format!("{difference}\n"))?;
    }
    out.flush()?;
    Ok(Answer::from_bool(difference.is_empty()))
}
