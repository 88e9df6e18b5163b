//! Chapter: all kinds of lookups in a map.

use std::ops::Bound;

use sapwood::key::dns_name;
use serde_json::{Value, json};

use super::data::{Flat, SAMPLE, Set, as_entry};
use super::{Chapter, Tour, figure, grouped, mega, timed};
use crate::errors::Error;
use crate::progress::Progress;

/// The chapter on lookups, misses, scans, prefixes, neighbours and longest prefixes.
pub struct Lookups;

impl Chapter for Lookups {
    fn name(&self) -> &'static str {
        "lookups"
    }

    fn title(&self) -> &'static str {
        "Asking a map"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        tour.say(
            "BTreeMap answers every question, too, and all answers are compared. The figures are \
             millions of answers a second, on one thread: hit, the lookup of a stored key; batch, \
             16 keys at a time by get_many; miss, the lookup of a key that is not stored; scan, \
             all entries in order; prefix, the first ten entries of a prefix; next, the entry \
             before or after a key; longest, the longest stored key that is a prefix of a key.\n ",
        )?;
        let sets = std::mem::take(&mut tour.sets);
        let mut progress = Progress::new("asking", Some(6 * sets.len() as u64), false);
        let (mut rows, mut figures) = (Vec::new(), Vec::new());
        for set in &sets {
            progress.doing(format!("asking {}", set.name));
            let mut speeds = Vec::new();
            speeds.extend(points(tour, set)?);
            progress.step();
            for part in [scan, prefixes, neighbours, longest] {
                speeds.push(part(tour, set)?);
                progress.step();
            }
            progress.step();
            let names = ["hit", "batch", "miss", "scan", "prefix", "next", "longest"];
            let mut entry = json!({ "set": set.name });
            for (name, speed) in names.iter().zip(&speeds) {
                entry[format!("{name}_mops")] = (*speed).into();
            }
            figures.push(entry);
            let mut row = vec![set.name.clone()];
            row.extend(speeds.iter().map(|speed| figure(*speed)));
            rows.push(row);
        }
        drop(progress);
        tour.table(
            &[
                "M/s", "hit", "batch", "miss", "scan", "prefix", "next", "longest",
            ],
            &rows,
        )?;
        for set in &sets {
            if set.dns {
                zones(tour, set)?;
            } else if set.name == "file paths" {
                folder(tour, set)?;
            }
        }
        tour.sets = sets;
        Ok(figures.into())
    }
}

/// Measures hits one by one and in batches, and misses.
fn points(tour: &mut Tour, set: &Set) -> Result<[f64; 3], Error> {
    let (map, oracle) = (&set.map, &set.oracle);
    let hits = Flat::drawn(&set.keys, SAMPLE, 1);
    let misses = Flat::drawn(&set.misses, SAMPLE, 2);
    let sum: u64 = hits.iter().filter_map(|key| oracle.get(key)).sum();
    let (ours, hit) = timed(|| hits.iter().filter_map(|key| map.get(key)).sum::<u64>());
    tour.check(ours == sum, || format!("{}: lookups", set.name))?;

    let keys: Vec<&[u8]> = hits.iter().collect();
    let mut out = [None; 16];
    let (ours, batch) = timed(|| {
        let mut sum = 0;
        for keys in keys.chunks(16) {
            map.get_many(keys, &mut out[..keys.len()]);
            sum += out[..keys.len()].iter().flatten().copied().sum::<u64>();
        }
        sum
    });
    tour.check(ours == sum, || format!("{}: batched lookups", set.name))?;

    let (found, miss) = timed(|| misses.iter().filter(|key| map.contains_key(key)).count());
    tour.check(found == 0, || format!("{}: {found} misses hit", set.name))?;
    Ok([
        mega(hits.len(), hit),
        mega(hits.len(), batch),
        mega(misses.len(), miss),
    ])
}

/// Checks all entries forwards and backwards, and measures a walk forwards.
fn scan(tour: &mut Tour, set: &Set) -> Result<f64, Error> {
    let theirs = || set.oracle.iter().map(as_entry);
    tour.check(set.map.iter().eq(theirs()), || {
        format!("{}: scan", set.name)
    })?;
    tour.check(set.map.iter().rev().eq(theirs().rev()), || {
        format!("{}: scan backwards", set.name)
    })?;
    let (_, time) = timed(|| {
        set.map
            .iter()
            .map(|(key, value)| key.len() as u64 + u64::from(key[key.len() / 2]) + value)
            .sum::<u64>()
    });
    Ok(mega(set.map.len(), time))
}

/// Measures the first ten entries below prefixes, which are the first halves of keys.
fn prefixes(tour: &mut Tour, set: &Set) -> Result<f64, Error> {
    let asked = Flat::drawn(&set.keys, 20_000, 3);
    let half = |key: &'_ [u8]| key.len().div_ceil(2);
    let (count, time) = timed(|| {
        asked
            .iter()
            .map(|key| set.map.prefix(&key[..half(key)]).take(10).count())
            .sum::<usize>()
    });
    let mut theirs = 0;
    for key in asked.iter() {
        let prefix = &key[..half(key)];
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let expected = || {
            let entries = set.oracle.range::<[u8], _>(from).map(as_entry);
            entries.take_while(|(k, _)| k.starts_with(prefix))
        };
        theirs += expected().take(10).count();
        let equal = set.map.prefix(prefix).take(200).eq(expected().take(200));
        tour.check(equal, || {
            format!("{}: below \"{}\"", set.name, prefix.escape_ascii())
        })?;
    }
    tour.check(count == theirs, || format!("{}: prefixes", set.name))?;
    Ok(mega(asked.len(), time))
}

/// Measures predecessors and successors of stored keys, and of keys that are not stored.
fn neighbours(tour: &mut Tour, set: &Set) -> Result<f64, Error> {
    let drawn = [
        Flat::drawn(&set.keys, 25_000, 4),
        Flat::drawn(&set.misses, 25_000, 5),
    ];
    let asked: Vec<&[u8]> = drawn.iter().flat_map(Flat::iter).collect();
    let (_, time) = timed(|| {
        asked
            .iter()
            .map(|key| {
                let before = set.map.predecessor(key).map_or(0, |(_, v)| *v);
                let behind = set.map.successor(key).map_or(0, |(_, v)| *v);
                before.wrapping_add(behind)
            })
            .fold(0, u64::wrapping_add)
    });
    for key in &asked {
        let below = (Bound::Unbounded, Bound::Excluded(*key));
        let above = (Bound::Excluded(*key), Bound::Unbounded);
        let before = set.oracle.range::<[u8], _>(below).next_back();
        let behind = set.oracle.range::<[u8], _>(above).next();
        let right = set.map.predecessor(key) == before.map(as_entry)
            && set.map.successor(key) == behind.map(as_entry);
        tour.check(right, || {
            format!("{}: beside \"{}\"", set.name, key.escape_ascii())
        })?;
    }
    Ok(mega(2 * asked.len(), time))
}

/// Measures the longest stored prefix of stored keys with a suffix, and of keys that are not
/// stored.
fn longest(tour: &mut Tour, set: &Set) -> Result<f64, Error> {
    let mut asked: Vec<Vec<u8>> = Vec::new();
    for key in Flat::drawn(&set.keys, 20_000, 6).iter() {
        let tail: &[u8] = if set.dns { b"www\0" } else { b"/more" };
        asked.push([key, tail].concat());
    }
    asked.extend(
        Flat::drawn(&set.misses, 20_000, 7)
            .iter()
            .map(<[u8]>::to_vec),
    );
    let (_, time) = timed(|| {
        asked
            .iter()
            .filter_map(|key| set.map.longest_prefix(key))
            .map(|(_, value)| *value)
            .fold(0, u64::wrapping_add)
    });
    for key in &asked {
        // The oracle tries every prefix, longest first.
        let expected = (0..=key.len())
            .rev()
            .find_map(|len| set.oracle.get_key_value(&key[..len]))
            .map(as_entry);
        tour.check(set.map.longest_prefix(key) == expected, || {
            format!("{}: longest prefix of \"{}\"", set.name, key.escape_ascii())
        })?;
    }
    Ok(mega(asked.len(), time))
}

/// Shows domain names: a zone is a range, and the longest prefix is the closest enclosing name.
fn zones(tour: &mut Tour, set: &Set) -> Result<(), Error> {
    tour.say(
        "\nDomain names are stored in the canonical order of DNSSEC (key::dns_name). In this \
         order a zone is one contiguous range, and the longest stored prefix is the closest \
         enclosing name:",
    )?;
    for (key, _) in set.map.iter().step_by((set.map.len() / 3).max(1)).take(3) {
        let name = format!("host.deep.{}", set.show(&key));
        let asked = dns_name(&name).map_err(|e| Error::Tour(e.to_string()))?;
        let (zone, _) = set
            .map
            .longest_prefix(&asked)
            .ok_or_else(|| Error::Wrong(format!("no zone encloses {name}")))?;
        tour.check(asked.starts_with(&zone) && zone.len() >= key.len(), || {
            format!("the zone of {name}")
        })?;
        tour.say(format!("  {name} is enclosed by {}", set.show(&zone)))?;
    }
    let com = set.map.prefix(b"com\0").count();
    let theirs = set
        .oracle
        .keys()
        .filter(|key| key.starts_with(b"com\0"))
        .count();
    tour.check(com == theirs, || "names below com".into())?;
    tour.say(format!(
        "  {} of {} names are below com",
        grouped(com),
        grouped(set.map.len())
    ))
}

/// Shows file paths: the stored ancestors of the deepest path.
fn folder(tour: &mut Tour, set: &Set) -> Result<(), Error> {
    let Some((path, _)) = set
        .map
        .iter()
        .max_by_key(|(key, _)| key.iter().filter(|b| **b == b'/').count())
    else {
        return Ok(());
    };
    let ancestors = set.map.ancestors_at(&path, b'/');
    let mut expected: Vec<&[u8]> = (0..=path.len())
        .filter(|len| *len == path.len() || path[*len] == b'/')
        .map(|len| &path[..len])
        .collect();
    expected.retain(|key| set.oracle.contains_key(*key));
    tour.check(ancestors.iter().map(|(k, _)| &**k).eq(expected), || {
        "ancestors of a path".into()
    })?;
    tour.say(format!(
        "\nA path has a stored ancestor at every slash. The deepest path has {} of them:",
        ancestors.len()
    ))?;
    for (key, _) in ancestors.iter().take(3) {
        tour.say(format!("  {}", set.show(key)))?;
    }
    tour.say("  ...")?;
    tour.say(format!("  {}", set.show(&path)))
}
