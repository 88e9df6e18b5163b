//! `names stats` and `names verify`: figures and checks of a whole map.

use sapwood::qp::{AnyFile, OpenCause};
use serde_json::json;

use super::{open_error, values_of, with_file};
use crate::cli::MapArgs;
use crate::errors::{Error, Outcome};
use crate::live;
use crate::output::{document, figures};
use crate::saved::{Sound, report_soundness};

/// Opens a map after checking all of it. A live map stays as it is as long as the second part of
/// the result lives.
fn whole(args: &MapArgs) -> Result<(Result<AnyFile, OpenCause>, Option<live::names::Held>), Error> {
    let (map, held) = match args.live.wait() {
        Some(wait) => {
            let (map, held) = live::names::whole(&args.map, wait)?;
            (map, Some(held))
        }
        None => (AnyFile::open_any(&args.map), None),
    };
    Ok((map.map_err(|error| error.cause), held))
}

/// Prints the size and the shape of a map.
pub fn stats(args: &MapArgs) -> Outcome {
    let (map, _held) = whole(args)?;
    let map = map.map_err(|cause| open_error(&args.map, "map", cause))?;
    let shape = with_file!(&map, map => map.shape()).map_err(|what| Error::NotAMap {
        path: args.map.clone(),
        what,
    })?;
    let each = |bytes: usize| bytes as f64 / shape.entries.max(1) as f64;
    let file_bytes = with_file!(&map, map => map.file_bytes());
    let beyond = file_bytes.saturating_sub(shape.key_bytes);
    if args.json {
        return document(&json!({
            "file": args.map.to_string_lossy(),
            "entries": shape.entries,
            "key_bytes": shape.key_bytes,
            "key_bytes_mean": each(shape.key_bytes),
            "depth_mean": shape.depth_mean,
            "depth_max": shape.depth_max,
            "branches": { "count": shape.branches.0, "bytes": shape.branches.1 },
            "clusters": {
                "count": shape.clusters.0,
                "bytes": shape.clusters.1,
                "leaves_mean": shape.fill_mean,
            },
            "leaves": shape.leaves,
            "leaf_bytes": shape.leaf_bytes,
            "file_bytes": file_bytes,
            "bytes_per_key": each(file_bytes),
            "bytes_per_key_beyond_it": each(beyond),
        }));
    }
    let (branches, clusters) = (shape.branches, shape.clusters);
    let rows = [
        ("entries", shape.entries.to_string()),
        (
            "key bytes",
            format!("{} ({:.1} a key)", shape.key_bytes, each(shape.key_bytes)),
        ),
        (
            "depth",
            format!(
                "{:.1} branches on average, {} at most",
                shape.depth_mean, shape.depth_max
            ),
        ),
        (
            "branches",
            format!("{} of {} bytes", branches.0, branches.1),
        ),
        (
            "clusters",
            format!(
                "{} of {} bytes, {:.1} entries in each",
                clusters.0, clusters.1, shape.fill_mean
            ),
        ),
        (
            "leaves",
            format!(
                "{} of {} bytes, keys and {} included",
                shape.leaves,
                shape.leaf_bytes,
                values_of(&map)
            ),
        ),
        ("file", format!("{file_bytes} bytes")),
        (
            "bytes a key",
            format!(
                "{:.1} in all, {:.1} beyond the key's own",
                each(file_bytes),
                each(beyond)
            ),
        ),
    ];
    figures(&rows)
}

/// Checks the file and prints whether it is sound.
pub fn verify(args: &MapArgs) -> Outcome {
    let (opened, _held) = whole(args)?;
    let opened = opened.map(|map| Sound {
        count: map.entries(),
        what: "entries",
        file_bytes: with_file!(&map, map => map.file_bytes()),
        // A live map has no checksums.
        checked: match args.live.wait() {
            Some(_) => &["header", "structure", "order of keys", "number of entries"],
            None => &[
                "header",
                "checksums",
                "structure",
                "order of keys",
                "number of entries",
            ],
        },
    });
    report_soundness(&args.map, "map", args.json, opened)
}
