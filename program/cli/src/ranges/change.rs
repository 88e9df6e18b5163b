//! `ranges store`, `ranges remove`, `ranges merge` and `ranges diff`.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use sapwood::maple::Error as MapError;
use serde_json::json;

use super::alloc::{editable, usable_value};
use super::query::gap_json;
use super::table::Ranges;
use super::text::overlap;
use crate::cli::ranges::{DiffArgs, MergeArgs, RemoveArgs, StoreArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::numbers::Base;
use crate::output::Output;
use crate::target::target;

/// Stores a range and writes the file.
pub fn store(args: &StoreArgs) -> Outcome {
    usable_value(&args.value)?;
    if args.start > args.end {
        let what = format!(
            "the range ends at {}, before its start {}",
            args.end, args.start
        );
        return Err(Error::Usage(what));
    }
    let range = args.start..=args.end;
    let edited = editable(&args.map)?;
    let (mut ranges, _) = Ranges::open(&args.map)?;
    let number = ranges.push(&args.value)?;
    let map = ranges.map();
    let stored = match args.overwrite {
        true => map.store(range.clone(), number),
        false => map.insert_new(range.clone(), number),
    };
    match stored.map_err(MapError::from) {
        Ok(()) => {}
        Err(MapError::Occupied { start, end }) => {
            complain(&overlap(&range, &(start..=end)));
            return Ok(Answer::No);
        }
        Err(error) => return Err(error.into()),
    }
    ranges.save(&edited.target, &args.map)?;
    Ok(Answer::Yes)
}

/// Removes numbers and writes the file.
pub fn remove(args: &RemoveArgs) -> Outcome {
    let end = args.end.unwrap_or(args.start);
    if args.start > end {
        let what = format!("the range ends at {end}, before its start {}", args.start);
        return Err(Error::Usage(what));
    }
    let edited = editable(&args.map)?;
    let (ranges, _) = Ranges::open(&args.map)?;
    let map = ranges.map();
    let removed = match args.whole {
        // The ranges that have one of the numbers, each whole.
        true => {
            let touched: Vec<_> = map
                .range(args.start..=end)
                .map(|(range, _)| range)
                .collect();
            match (touched.first(), touched.last()) {
                (Some(first), Some(last)) => map.take_range(*first.start()..=*last.end()),
                _ => Ok(Vec::new()),
            }
        }
        false => map.take_range(args.start..=end),
    }?;
    if !removed.is_empty() {
        ranges.save(&edited.target, &args.map)?;
    }
    let base = Base::new(args.form.hex);
    let mut out = Output::lines(args.form.json);
    for (range, number) in &removed {
        let text = ranges.text(*number);
        match args.form.json {
            true => {
                let mut document = gap_json(range);
                document["value"] = json!(text);
                out.document(&document)?;
            }
            false => {
                let [start, end] = [range.start(), range.end()].map(|at| base.show(*at));
                out.fields(&[start.as_bytes(), end.as_bytes(), text.as_bytes()])?;
            }
        }
    }
    out.flush()?;
    Ok(Answer::from_bool(!removed.is_empty()))
}

/// Makes one map of several, and writes it.
pub fn merge(args: &MergeArgs) -> Outcome {
    let target = target(&args.output, None)?;
    let mut all = Ranges::default();
    // Values are compared by their texts: equal ones have one number.
    let mut numbers = HashMap::new();
    for path in &args.maps {
        let (ranges, _) = Ranges::open(path)?;
        let mut occupied = None;
        ranges.each(0..=u64::MAX, |range, text| {
            let number = match numbers.get(text) {
                Some(number) => *number,
                None => {
                    let number = all.push(text)?;
                    numbers.insert(text.to_owned(), number);
                    number
                }
            };
            let map = all.map();
            let there = map.range(range.clone()).next().map(|(there, _)| there);
            if let Some(there) = there.filter(|_| !args.overwrite) {
                occupied.get_or_insert((range, there));
                return Ok(());
            }
            let stored = match args.join {
                true => map.store_coalescing(range, number).map(|_| ()),
                false => map.store(range, number),
            };
            stored.map_err(MapError::from)?;
            Ok(())
        })?;
        if let Some((new, old)) = occupied {
            complain(&format!("{}: {}", path.display(), overlap(&new, &old)));
            return Ok(Answer::No);
        }
    }
    all.save(&target, &args.output)?;
    Ok(Answer::Yes)
}

/// Prints what is different in the second map.
pub fn diff(args: &DiffArgs) -> Outcome {
    let (old, _) = Ranges::open(&args.old)?;
    let (new, _) = Ranges::open(&args.new)?;
    let base = Base::new(args.form.hex);
    let mut out = Output::lines(args.form.json);
    let mut same = true;
    // Parts of one range with equal values are printed as one.
    let mut last: Option<Change<'_>> = None;
    let (before, after) = (old.map().snapshot(), new.map().snapshot());
    let mut print = |(range, old, new): Change<'_>| {
        same = false;
        if args.form.json {
            let mut document = gap_json(&range);
            document["old"] = json!(old);
            document["new"] = json!(new);
            return out.document(&document);
        }
        let [start, end] = [range.start(), range.end()].map(|at| base.show(*at));
        for (sign, value) in [("-", old), ("+", new)] {
            if let Some(value) = value {
                let fields = [sign, &start, &end, value].map(str::as_bytes);
                out.fields(&fields)?;
            }
        }
        Ok(())
    };
    for (range, left, right) in before.view().overlay(&after.view()) {
        let left = left.map(|number| old.text(*number));
        let right = right.map(|number| new.text(*number));
        if left == right {
            continue;
        }
        last = match last.take() {
            Some((part, l, r))
                if (l, r) == (left, right) && part.end().checked_add(1) == Some(*range.start()) =>
            {
                Some((*part.start()..=*range.end(), l, r))
            }
            Some(change) => {
                print(change)?;
                Some((range, left, right))
            }
            None => Some((range, left, right)),
        };
    }
    if let Some(change) = last {
        print(change)?;
    }
    out.flush()?;
    Ok(Answer::from_bool(same))
}

/// A part that differs: the old value and the new one.
type Change<'a> = (RangeInclusive<u64>, Option<&'a str>, Option<&'a str>);
