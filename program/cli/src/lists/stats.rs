//! `lists stats`: how many rules a map has, of which lists and of which kinds.

use std::collections::BTreeMap;

use sapwood_lists::{Meta, rule_entries, rules_of};
use serde_json::{Value, json};

use super::{Opened, no_rules, open, read};
use crate::cli::lists::StatsListsArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::{Output, document};

/// The numbers of a map.
struct Numbers {
    names: usize,
    /// Rules by their actions; none for a table without names.
    actions: BTreeMap<&'static str, u64>,
    meta: Meta,
}

/// Prints the numbers.
pub fn run(args: &StatsListsArgs) -> Outcome {
    let (kind, numbers) = match open(&args.map, &args.live)? {
        Opened::Small(small) => {
            let numbers = Numbers {
                names: small.len(),
                actions: BTreeMap::new(),
                meta: small.meta().clone(),
            };
            ("fingerprints", numbers)
        }
        Opened::Map(mut map) => {
            let numbers = read(&mut *map, &args.map, |map, meta| {
                let mut numbers = Numbers {
                    names: 0,
                    actions: BTreeMap::new(),
                    meta: meta.clone(),
                };
                for (_, value) in rule_entries(map) {
                    numbers.names += 1;
                    let rules = rules_of(value).map_err(|error| no_rules(&args.map, error))?;
                    for rule in rules {
                        *numbers.actions.entry(rule.action.word()).or_default() += 1;
                    }
                }
                Ok(numbers)
            })?;
            ("map", numbers)
        }
    };
    let file_bytes = args.map.metadata().ok().filter(|file| file.is_file());
    let file_bytes = file_bytes.map(|file| file.len());
    match args.json {
        true => document(&as_document(kind, &numbers, file_bytes)),
        false => print(kind, &numbers, file_bytes),
    }
}

fn as_document(kind: &str, numbers: &Numbers, file_bytes: Option<u64>) -> Value {
    let lists = numbers.meta.lists().iter().map(|list| {
        json!({
            "list": list.name,
            "format": list.format.word(),
            "exceptions": list.exceptions,
            "lines": list.lines,
            "rules": list.rules,
            "kept": list.kept,
            "left_out": list.left_out,
            "refused": list.refused,
        })
    });
    json!({
        "kind": kind,
        "names": numbers.names,
        "file_bytes": file_bytes,
        "actions": numbers.actions,
        "lists": lists.collect::<Vec<_>>(),
    })
}

fn print(kind: &str, numbers: &Numbers, file_bytes: Option<u64>) -> Result<Answer, Error> {
    let mut out = Output::lines(false);
    let mut row = |name: &str, value: String| out.fields(&[name.as_bytes(), value.as_bytes()]);
    row("kind", kind.into())?;
    row("names", numbers.names.to_string())?;
    if let Some(bytes) = file_bytes {
        row("file_bytes", bytes.to_string())?;
    }
    for (action, count) in &numbers.actions {
        row(action, count.to_string())?;
    }
    for list in numbers.meta.lists() {
        let about = format!(
            "{}, {} lines, {} rules, {} kept, {} left out, {} bad",
            list.format.word(),
            list.lines,
            list.rules,
            list.kept,
            list.left_out,
            list.refused
        );
        out.fields(&[b"list", list.name.as_bytes(), about.as_bytes()])?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}
