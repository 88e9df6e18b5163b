//! `lists build` and `lists check`.

use std::fs;
use std::io::Error as IoError;

use sapwood::qp::SaveCause;
use sapwood_lists::Fingerprints;
use serde_json::json;

use super::load;
use super::zones::Zones;
use crate::cli::lists::{BuildListsArgs, CheckListsArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::output::{Output, document};
use crate::signals::HeldSignals;
use crate::span;
use crate::target::{replace, target};

/// Builds a map and writes it.
pub fn run(args: &BuildListsArgs) -> Outcome {
    let mut to = target(&args.output, None)?;
    for list in args.rules.lists.iter().chain(&args.rules.exceptions) {
        to = target(&args.output, Some(list))?;
    }
    let (map, summary) = {
        let _load = span!(INFO, "load", lists = args.rules.lists.len());
        let mut zones = Zones::begin(&args.rules)?;
        zones.refresh_all()?;
        load::loader(&args.rules, true, &zones)?.build()?
    };
    let _save = span!(INFO, "save", file = %args.output.display(), entries = map.len());
    if args.fingerprints {
        let small = Fingerprints::new(map.entries());
        let small = small.map_err(|error| Error::Usage(error.to_string()))?;
        replace(&to, &small.to_bytes()).map_err(Error::write(&args.output))?;
    } else {
        let saved = {
            let _held = HeldSignals::begin();
            map.save(&to)
        };
        saved.map_err(|error| match error.cause {
            SaveCause::Io(source) => Error::write(&args.output)(source),
            cause => Error::write(&args.output)(IoError::other(cause)),
        })?;
    }
    let file_bytes = fs::metadata(&to).map_err(Error::read(&args.output))?.len();
    if args.json {
        return document(&json!({
            "names": map.len(),
            "file_bytes": file_bytes,
            "lists": load::json(&summary),
            "cancelled": summary.cancelled,
        }));
    }
    if !args.rules.quiet {
        load::report(&summary);
        let place = args.output.display();
        complain(&format!(
            "{place}: {} names in a file of {file_bytes} bytes",
            map.len()
        ));
    }
    Ok(Answer::Yes)
}

/// Reads lists, and prints what they have.
pub fn check(args: &CheckListsArgs) -> Outcome {
    let mut zones = Zones::begin(&args.rules)?;
    zones.refresh_all()?;
    let (map, summary) = load::loader(&args.rules, true, &zones)?.build()?;
    let lists = summary.meta.lists();
    let is_clean = lists.iter().all(|list| list.refused == 0);
    if args.json {
        document(&json!({
            "ok": is_clean,
            "names": map.len(),
            "lists": load::json(&summary),
            "cancelled": summary.cancelled,
        }))?;
        return Ok(Answer::from_bool(is_clean));
    }
    let mut out = Output::lines(false);
    for list in lists {
        let numbers = [list.lines, list.rules, list.left_out, list.refused];
        let numbers = numbers.map(|number| number.to_string());
        let mut fields = vec![list.name.as_bytes(), list.format.word().as_bytes()];
        fields.extend(numbers.iter().map(|number| number.as_bytes()));
        out.fields(&fields)?;
    }
    out.flush()?;
    Ok(Answer::from_bool(is_clean))
}
