//! `names build`: builds a map from a text.

use std::fs;

use sapwood::qp::SaveCause;

use super::list::{self, ListedValue};
use crate::cli::{BuildArgs, ValueKind};
use crate::errors::{Answer, Error, Outcome};
use crate::signals::HeldSignals;
use crate::span;
use crate::target::target;

/// Builds the map and writes it.
pub fn run(args: &BuildArgs) -> Outcome {
    match args.list.values {
        ValueKind::Numbers => build::<u64>(args),
        ValueKind::Text => build::<[u8]>(args),
    }
}

fn build<V: ?Sized + ListedValue>(args: &BuildArgs) -> Outcome {
    let target = target(&args.output, Some(&args.list.input))?;
    let (map, counts) = list::read::<V>(&args.list)?;
    let saved = {
        let _save = span!(INFO, "save", file = %args.output.display(), entries = map.len());
        let _held = HeldSignals::begin();
        map.save(&target)
    };
    saved.map_err(|error| match error.cause {
        SaveCause::Io(source) => Error::write(&args.output)(source),
        cause => Error::write(&args.output)(std::io::Error::other(cause)),
    })?;
    let mut summary = format!("{} keys of {} bytes", map.len(), counts.key_bytes);
    if let Ok(metadata) = fs::metadata(&args.output) {
        summary += &format!(" in a file of {} bytes", metadata.len());
    }
    let output = args.output.display().to_string();
    list::report(&args.list, &counts, map.len(), &output, &summary);
    Ok(Answer::Yes)
}
