//! `ranges stats` and `ranges verify`: figures and checks of a whole map.

use sapwood::qp::OpenCause;
use serde_json::{Value, json};

use super::query::gap_json;
use super::table::{KIND, Ranges};
use crate::cli::MapArgs;
use crate::errors::Outcome;
use crate::live;
use crate::numbers::{Base, count_json, length};
use crate::output::{document, figures};
use crate::saved::{Sound, report_soundness};

/// Prints the counts and sizes of a map.
pub fn stats(args: &MapArgs) -> Outcome {
    let (ranges, file_bytes) = match args.live.wait() {
        Some(wait) => (
            live::ranges::whole(&args.map, wait)?,
            live::data_bytes(&args.map)?,
        ),
        None => Ranges::open(&args.map)?,
    };
    let map = ranges.map();
    let memory = map.memory();
    let ends = map.first().zip(map.last());
    let span = ends.map(|((first, _), (last, _))| *first.start()..=*last.end());
    let (mut covered, mut gaps, mut largest) = (0u128, 0u64, None);
    map.read(|view| {
        covered = view.iter().map(|(range, _)| length(&range)).sum();
        // The space before the first range and after the last one is no gap between ranges.
        for gap in span.iter().flat_map(|span| view.gaps(span.clone())) {
            gaps += 1;
            if largest
                .as_ref()
                .is_none_or(|best| length(&gap) > length(best))
            {
                largest = Some(gap);
            }
        }
    });
    let between = span.as_ref().map_or(0, length) - covered;
    let each = |bytes: usize| bytes as f64 / memory.entries.max(1) as f64;
    let parts = [
        ("leaves", memory.leaves),
        ("inner", memory.inner),
        ("values", memory.values),
        ("reserved", memory.reserved),
        ("waiting", memory.waiting),
    ];
    if args.json {
        let part = |(name, (count, bytes)): (&str, (usize, usize))| {
            (name.to_owned(), json!({ "count": count, "bytes": bytes }))
        };
        let parts: serde_json::Map<String, Value> = parts.into_iter().map(part).collect();
        return document(&json!({
            "file": args.map.to_string_lossy(),
            "ranges": memory.entries,
            "covered": count_json(covered),
            "span": span.as_ref().map(gap_json),
            "gaps": gaps,
            "gaps_size": count_json(between),
            "largest_gap": largest.as_ref().map(gap_json),
            "height": memory.height,
            "nodes": memory.leaves.0 + memory.inner.0,
            "memory": { "parts": parts, "bytes": memory.total(), "bytes_per_range": each(memory.total()) },
            "file_bytes": file_bytes,
            "bytes_per_range": each(file_bytes),
        }));
    }
    let spans = |range: &_| format!("{} ({})", Base::Ten.span(range), Base::Sixteen.span(range));
    let mut rows = vec![("ranges", memory.entries.to_string())];
    if let Some(span) = &span {
        rows.push(("between", spans(span)));
    }
    rows.push(("covered", covered.to_string()));
    rows.push(("gaps", format!("{gaps} between ranges, {between} in all")));
    if let Some(gap) = &largest {
        rows.push(("largest gap", format!("{}, at {}", length(gap), spans(gap))));
    }
    let nodes = format!(
        "{} leaves, {} above them; height {}",
        memory.leaves.0, memory.inner.0, memory.height
    );
    rows.push(("nodes", nodes));
    let bytes = parts.map(|(name, (_, bytes))| format!("{name} {bytes}"));
    let each_range = each(memory.total());
    rows.push((
        "memory",
        format!(
            "{} bytes, {each_range:.1} a range: {}",
            memory.total(),
            bytes.join(", ")
        ),
    ));
    rows.push((
        "file",
        format!("{file_bytes} bytes, {:.1} a range", each(file_bytes)),
    ));
    figures(&rows)
}

/// Checks the file and prints whether it is sound.
pub fn verify(args: &MapArgs) -> Outcome {
    let opened = match args.live.wait() {
        Some(wait) => live::ranges::verified(&args.map, wait)?,
        None => Ranges::open_checked(&args.map).and_then(|(ranges, file_bytes)| {
            ranges.map().verify().map_err(OpenCause::Corrupt)?;
            Ok((ranges.map().len(), file_bytes))
        }),
    };
    let opened = opened.map(|(count, file_bytes)| Sound {
        count,
        what: "ranges",
        file_bytes,
        // A live map has no checksums.
        checked: match args.live.wait() {
            Some(_) => &["header", "structure", "order of ranges"],
            None => &["header", "checksums", "order of ranges", "number of ranges"],
        },
    });
    report_soundness(&args.map, KIND, args.json, opened)
}
