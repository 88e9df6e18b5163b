//! Names with byte strings or numbers that follow.

use std::ops::Deref;

use sapwood::key::dns_name_to_text;
use sapwood::qp::QpStore;

use super::{Each, Target};
use crate::{Changes, Error, numbers};

/// About how many old nodes are freed at a time.
pub(super) const BUDGET: usize = 1 << 16;

/// A store of byte strings that follows: one of this process, or a live one that other processes
/// read. `S` is what leads to the store: an `Arc<QpStore<[u8]>>`, or a `Live<QpStore<[u8]>>`.
///
/// Readers see a commit at once.
pub struct StoreTarget<S>(pub S);

impl<S> Target for StoreTarget<S>
where
    S: Deref<Target = QpStore<[u8]>> + Send + 'static,
{
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let snapshot = self.0.snapshot();
        let mut entries = snapshot.iter();
        entries.try_for_each(|(key, value)| each(&key, value))
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let mut txn = self.0.begin();
        for change in changes.iter() {
            let made = match change.value {
                Some(value) => txn.insert(change.key, value).map(drop).map_err(Error::map),
                None => txn.remove(change.key).map(drop).map_err(Error::map),
            };
            // A transaction that is dropped leaves nothing.
            made?;
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&mut self) {
        self.0.reclaim(BUDGET);
    }
}

/// A store of numbers that follows: one of this process, a live one, or one in a window that BPF
/// programs read. `S` is what leads to the store. A value of the log that is no such number is an
/// [`Error::Change`], and the commit changes nothing.
///
/// Readers see a commit at once.
pub struct NumberTarget<S> {
    store: S,
    check: fn(&[u8]) -> Result<(), Error>,
    number: fn(&[u8]) -> Result<u64, Error>,
    value: fn(u64) -> Vec<u8>,
    /// Whether values are rules, of which that of a wildcard is a part of the entry above it.
    is_rules: bool,
}

impl<S> NumberTarget<S> {
    /// A store of numbers of 64 bits, whose digits the log has ([`numbers`](crate::numbers)).
    pub fn new(store: S) -> Self {
        NumberTarget {
            store,
            check: |_| Ok(()),
            number: numbers::number,
            value: |number| numbers::value(number).into_bytes(),
            is_rules: false,
        }
    }

    /// A store of rules for domain names: keys are those of [`dns_name`](sapwood::key::dns_name),
    /// and the log has `block`, which is 1, or `allow`, which is 0. The program `xdp-names` of
    /// `sapwood-xdp` reads such a store.
    ///
    /// A name whose first label is `*` is a wildcard. The entry of the name above it has the rule,
    /// too, as `EntryRules` of `sapwood-xdp` says. So the store may have entries that the log does
    /// not have.
    pub fn rules(store: S) -> Self {
        NumberTarget {
            store,
            check: |key| match dns_name_to_text(key) {
                Ok(_) => Ok(()),
                Err(_) => Err(Error::Change(
                    "this is not the key of a domain name; the list is to be published as one of \
                     them (--dns)"
                        .into(),
                )),
            },
            number: |value| match value {
                b"block" => Ok(1),
                b"allow" => Ok(0),
                value => {
                    let shown = value[..value.len().min(40)].escape_ascii();
                    let what = format!("the value \"{shown}\" is neither block nor allow");
                    Err(Error::Change(what))
                }
            },
            value: |rule| match rule {
                1 => b"block".to_vec(),
                _ => b"allow".to_vec(),
            },
            is_rules: true,
        }
    }

    /// The value that the log has for an entry; `None` if it has only the rule of a wildcard.
    fn shown(&self, number: u64) -> Option<Vec<u8>> {
        let number = match self.is_rules {
            true => own_rule(number)?,
            false => number,
        };
        Some((self.value)(number))
    }

    /// What leads to the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What leads to the store.
    pub fn into_store(self) -> S {
        self.store
    }
}

impl<S> Target for NumberTarget<S>
where
    S: Deref<Target = QpStore<u64>> + Send + 'static,
{
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.store.get(key).and_then(|number| self.shown(number))
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let snapshot = self.store.snapshot();
        let mut entries = snapshot.iter();
        entries.try_for_each(|(key, number)| match self.shown(*number) {
            Some(value) => each(&key, &value),
            None => Ok(()),
        })
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let mut txn = self.store.begin();
        for change in changes.iter() {
            let number = change.value.map(|value| {
                let number = (self.check)(change.key).and_then(|()| (self.number)(value));
                number.map_err(|error| named(change.key, error))
            });
            // A transaction that is dropped leaves nothing.
            let number = number.transpose()?;
            let mut sets = [None, Some((change.key, number))];
            if self.is_rules {
                let wildcard = txn.get(change.key).and_then(|of| wildcard_rule(*of));
                sets[1] = Some((change.key, rules(number, wildcard)));
                sets[0] = above_wildcard(change.key).map(|above| {
                    let own = txn.get(above).and_then(|of| own_rule(*of));
                    (above, rules(own, number))
                });
            }
            for (key, number) in sets.into_iter().flatten() {
                match number {
                    Some(number) => txn.insert(key, number).map(drop).map_err(Error::map),
                    None => txn.remove(key).map(drop).map_err(Error::map),
                }?;
            }
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&mut self) {
        self.store.reclaim(BUDGET);
    }
}

/// The key of the name above a wildcard, if the key is that of a wildcard.
fn above_wildcard(key: &[u8]) -> Option<&[u8]> {
    let above = key.strip_suffix(b"*\0")?;
    (above.is_empty() || above.ends_with(&[0])).then_some(above)
}

/// The rule of a name in the value of its entry.
fn own_rule(value: u64) -> Option<u64> {
    match value >> 1 {
        0 => Some(value),
        1 => None,
        own => Some(own - 2),
    }
}

/// The rule of the wildcard below a name in the value of its entry.
fn wildcard_rule(value: u64) -> Option<u64> {
    (value >> 1 > 0).then_some(value & 1)
}

/// The value of an entry with these rules.
fn rules(own: Option<u64>, wildcard: Option<u64>) -> Option<u64> {
    match (own, wildcard) {
        (own, None) => own,
        (None, Some(wildcard)) => Some(2 | wildcard),
        (Some(own), Some(wildcard)) => Some((4 + 2 * own) | wildcard),
    }
}

/// An error with the key that it is about.
fn named(key: &[u8], error: Error) -> Error {
    let key = key[..key.len().min(100)].escape_ascii();
    Error::Change(format!("\"{key}\": {error}"))
}
