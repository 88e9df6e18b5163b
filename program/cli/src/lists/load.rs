//! Reads lists: their sources by the options, messages and progress meanwhile, and the summary.

use std::io::Read;
use std::path::Path;

use sapwood_lists::{Event, LeftOut, Loader, Options, Source, Summary};
use serde_json::{Map, Value, json};

use super::zones::Zones;
use crate::cli::lists::RulesArgs;
use crate::errors::{Error, complain, shown};
use crate::progress::Progress;
use crate::records::{is_no_text, leave_out, report_others};
use crate::saved::saved_kind;

/// The loader of the lists that the options name. `allow_shrunk` is whether a list may have lost
/// most of its rules.
pub fn loader(
    args: &RulesArgs,
    allow_shrunk: bool,
    zones: &Zones,
) -> Result<Loader<'static>, Error> {
    let lists = args.lists.iter().map(|path| (path, false));
    let exceptions = args.exceptions.iter().map(|path| (path, true));
    let mut sources = Vec::new();
    for (path, is_exception) in lists.chain(exceptions) {
        let source = source(path)?.exceptions(is_exception).below(args.below);
        sources.push(match args.format {
            Some(format) => source.format(format),
            None => source,
        });
    }
    sources.extend(zones.sources());
    let options = Options {
        block: args.block.clone(),
        strict: args.strict,
        allow_empty: args.allow_empty,
        allow_shrunk,
    };
    Ok(Loader::new(sources, options).tell(told()))
}

/// What tells of a loading: progress, and lines that are left out.
pub fn told() -> impl FnMut(Event<'_>) {
    let mut teller = Teller::default();
    move |event| teller.tell(event)
}

/// A list of a file, or of stdin for `-`.
pub fn source(path: &Path) -> Result<Source, Error> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut text)
            .map_err(Error::read(path))?;
        return Ok(Source::text(shown(path), text));
    }
    match saved_kind(path) {
        Some(kind) => Err(is_no_text(path, kind)),
        None => Ok(Source::file(path)),
    }
}

/// Tells what happens while lists are read.
#[derive(Default)]
struct Teller {
    list: String,
    progress: Option<Progress>,
    bad: u64,
}

impl Teller {
    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Begin { list, bytes, .. } => {
                self.end();
                self.list = list.into();
                self.progress = Some(Progress::new(format!("reading {list}"), Some(bytes), true));
            }
            Event::At(bytes) => {
                if let Some(progress) = &mut self.progress {
                    progress.at(bytes);
                }
            }
            Event::Refused { line, what, .. } => {
                if let Some(progress) = &self.progress {
                    let what = format!("line {line}: {what}");
                    leave_out(&mut self.bad, progress, &self.list, what);
                }
            }
            Event::Settle => self.end(),
        }
    }

    /// Says how many lines were not described.
    fn end(&mut self) {
        self.progress = None;
        report_others(std::mem::take(&mut self.bad), &self.list, " lines");
    }
}

/// Prints a line for each list.
pub fn report(summary: &Summary) {
    for (list, counts) in summary.meta.lists().iter().zip(&summary.counts) {
        let mut text = format!(
            "{}: {}, {} rules in {} lines, {} kept",
            list.name, list.format, list.rules, list.lines, list.kept
        );
        for (what, count) in LeftOut::ALL.into_iter().zip(counts.left_out) {
            if count > 0 {
                text += &format!("; {count} {}", what.words());
            }
        }
        if list.refused > 0 {
            text += &format!("; {} lines bad and left out", list.refused);
        }
        complain(&text);
    }
}

/// The lists of a summary as a document.
pub fn json(summary: &Summary) -> Value {
    let lists = summary.meta.lists().iter().zip(&summary.counts);
    let lists = lists.map(|(list, counts)| {
        let left_out = LeftOut::ALL.into_iter().zip(counts.left_out);
        let left_out: Map<String, Value> = left_out
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| (what.words().into(), count.into()))
            .collect();
        json!({
            "list": list.name,
            "format": list.format.word(),
            "exceptions": list.exceptions,
            "lines": list.lines,
            "rules": list.rules,
            "kept": list.kept,
            "left_out": left_out,
            "refused": list.refused,
        })
    });
    Value::Array(lists.collect())
}
