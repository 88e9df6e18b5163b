//! The lists that are published, and their entries in the log.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::path::Path;

use sapwood_sync::routes::Hops;
use sapwood_sync::{Kind, ranges, routes};
use serde_json::Value;

use super::draft::Draft;
use crate::cli::ListArgs;
use crate::cli::ranges::TextArgs;
use crate::cli::sync::PublishRoutesArgs;
use crate::errors::Error;
use crate::live::changes::Made;
use crate::names::list::{self, ListedValue};
use crate::numbers::{Base, number};
use crate::ranges::build;
use crate::ranges::query::entry_json;
use crate::ranges::text::{overlap, parse_entry, parse_index};
use crate::routes::load;
use crate::routes::query::hop_json;

/// An entry of the log: a key and a value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A list that is published. A shown key is what commands print.
pub trait Listed {
    /// What is in the list.
    const KIND: Kind;

    /// The list.
    fn path(&self) -> &Path;

    /// Reads the list: the entries of the log in order, and a summary of them.
    fn read(&self) -> Result<Vec<Entry>, Error>;

    /// Parses the entry of `add`: the shown key, and the entry of the log.
    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String>;

    /// Parses the key of `remove` and `get`: the shown key.
    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String>;

    /// Puts an entry into a draft.
    fn put(&self, draft: &mut Draft, (key, value): &Entry) -> Result<Made, String> {
        Ok(Made::new(true, draft.put(key, value)))
    }

    /// The entry of a shown key.
    fn find(&self, draft: &Draft, shown: &[u8]) -> Option<Entry>;

    /// The value of an entry, for a line and for a document.
    fn show(&self, entry: &Entry) -> Option<(Vec<u8>, Value)>;
}

/// A list of names with values of a kind.
pub struct Names<'a, V: ?Sized> {
    args: &'a ListArgs,
    values: PhantomData<fn(&V)>,
}

impl<'a, V: ?Sized> Names<'a, V> {
    /// The list of these arguments.
    pub fn new(args: &'a ListArgs) -> Self {
        Names {
            args,
            values: PhantomData,
        }
    }
}

impl<V: ?Sized + ListedValue> Listed for Names<'_, V> {
    const KIND: Kind = Kind::Names;

    fn path(&self) -> &Path {
        &self.args.input
    }

    fn read(&self) -> Result<Vec<Entry>, Error> {
        let (map, counts) = list::read::<V>(self.args)?;
        list::warn(self.args, &counts);
        let entries = map.iter();
        Ok(entries
            .map(|(key, value)| (key.to_vec(), value.text().into_owned()))
            .collect())
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String> {
        let (key, value) = list::split_command::<V>(text);
        let value = V::parsed(value.unwrap_or_default())?;
        let key = list::parse_listed(key, self.args.form())?.into_owned();
        Ok((key.clone(), (key, V::borrow(&value).text().into_owned())))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        list::parse_key(text, self.args.form()).map(Cow::into_owned)
    }

    fn find(&self, draft: &Draft, shown: &[u8]) -> Option<Entry> {
        Some((shown.to_vec(), draft.get(shown)?.to_vec()))
    }

    fn show(&self, (_, value): &Entry) -> Option<(Vec<u8>, Value)> {
        let parsed = V::parsed(value).ok()?;
        Some((value.clone(), V::borrow(&parsed).json()))
    }
}

/// A list of routes.
pub struct Routes<'a>(pub &'a PublishRoutesArgs);

impl Listed for Routes<'_> {
    const KIND: Kind = Kind::Routes;

    fn path(&self) -> &Path {
        &self.0.input
    }

    fn read(&self) -> Result<Vec<Entry>, Error> {
        let all = load::Routes::load(&self.0.input, &self.0.source)?;
        let values: Result<Vec<Vec<u8>>, _> = all
            .names
            .iter()
            .map(|name| Hops::one(name).map(|hops| hops.to_value()))
            .collect();
        let values = values?;
        let entries = all.iter();
        Ok(entries
            .map(|(net, name)| (routes::key(net), values[name as usize].clone()))
            .collect())
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String> {
        let (net, next_hop) = load::parse_route(text, self.0.source.truncate)?;
        let hops = Hops::one(next_hop).map_err(|error| error.to_string())?;
        let entry = (routes::key(net), hops.to_value());
        Ok((net.to_string().into_bytes(), entry))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        load::parse_prefix(text, self.0.source.truncate)
    }

    fn find(&self, draft: &Draft, shown: &[u8]) -> Option<Entry> {
        let net = std::str::from_utf8(shown).ok()?.parse().ok()?;
        let key = routes::key(net);
        let value = draft.get(&key)?.to_vec();
        Some((key, value))
    }

    fn show(&self, (_, value): &Entry) -> Option<(Vec<u8>, Value)> {
        let hops = Hops::from_value(value).ok()?;
        let next_hop = match hops.text() {
            Some(next_hop) => next_hop.to_owned(),
            None => hops
                .members()
                .map(|(hop, _)| hop)
                .collect::<Vec<_>>()
                .join(","),
        };
        let json = hop_json(&next_hop);
        Some((next_hop.into(), json))
    }
}

/// A list of ranges.
pub struct Ranges<'a>(pub &'a TextArgs);

impl Ranges<'_> {
    /// The range that has a number.
    fn at(draft: &Draft, index: u64) -> Option<Entry> {
        let entry = draft.at_or_before(&ranges::key(index))?;
        let (range, _) = ranges::entry(&entry.0, &entry.1).ok()?;
        range.contains(&index).then_some(entry)
    }
}

impl Listed for Ranges<'_> {
    const KIND: Kind = Kind::Ranges;

    fn path(&self) -> &Path {
        &self.0.input
    }

    fn read(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        build::list(self.0)?.each(0..=u64::MAX, |range, text| {
            let value = ranges::value(*range.end(), text);
            entries.push((ranges::key(*range.start()).to_vec(), value));
            Ok(())
        })?;
        Ok(entries)
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String> {
        let (range, text) = parse_entry(text)?;
        let value = ranges::value(*range.end(), text);
        let entry = (ranges::key(*range.start()).to_vec(), value);
        Ok((Base::Ten.span(&range).into_bytes(), entry))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        parse_index(text)
    }

    /// Puts a range in place of what it overlaps, if that is allowed.
    fn put(&self, draft: &mut Draft, (key, value): &Entry) -> Result<Made, String> {
        let wrong = |error: sapwood_sync::Error| error.to_string();
        let (new, _) = ranges::entry(key, value).map_err(wrong)?;
        let mut had = false;
        while let Some((old_key, old_value)) = draft.at_or_before(&ranges::key(*new.end())) {
            let (old, text) = ranges::entry(&old_key, &old_value).map_err(wrong)?;
            if old.end() < new.start() {
                break;
            }
            had = true;
            if old == new {
                break;
            }
            if !self.0.overwrite {
                return Err(overlap(&new, &old));
            }
            // What reaches out of the new range stays.
            draft.remove(&old_key);
            if old.end() > new.end() {
                draft.put(
                    &ranges::key(new.end() + 1),
                    &ranges::value(*old.end(), text),
                );
            }
            if old.start() < new.start() {
                draft.put(&old_key, &ranges::value(new.start() - 1, text));
                break;
            }
        }
        draft.put(key, value);
        Ok(Made::new(true, had))
    }

    fn find(&self, draft: &Draft, shown: &[u8]) -> Option<Entry> {
        let index = number(std::str::from_utf8(shown).ok()?).ok()?;
        Ranges::at(draft, index)
    }

    fn show(&self, (key, value): &Entry) -> Option<(Vec<u8>, Value)> {
        let (range, text) = ranges::entry(key, value).ok()?;
        let line = format!("{}\t{}\t{text}", range.start(), range.end());
        Some((line.into_bytes(), entry_json(&range, text)))
    }
}
