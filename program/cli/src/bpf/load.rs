//! `sapwood bpf load`: loads the programs of any object file with a pinned arena, and pins them.

use std::collections::BTreeMap;

use sapwood_bpf::{BpfArena, Loader, Pinned, Programs};
use serde_json::json;

use crate::cli::bpf::LoadObjectArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::Output;

/// `load`: loads an object, and pins what it has.
pub fn load(args: &LoadObjectArgs) -> Outcome {
    sapwood_bpf::check()?;
    let named = |error| Error::Usage(format!("{}: {error}", args.object.display()));
    let arena = BpfArena::open(&args.arena)?;
    let mut loader = Loader::open_file(&arena, &args.object).map_err(named)?;
    for program in &args.without {
        loader = loader.without(program).map_err(named)?;
    }
    for program in &args.sleepable {
        loader = loader.allow_sleepable(program);
    }
    let programs = loader.load().map_err(named)?;
    let is_new = !args.pin.exists();
    let pinned = match is_new {
        true => Pinned::create(&args.pin)?,
        false => Pinned::open(&args.pin)?,
    };
    let done = match pinned.pin_all(&programs) {
        Ok(done) => done,
        Err(error) => {
            if is_new {
                let _ = std::fs::remove_dir(&args.pin);
            }
            return Err(error.into());
        }
    };
    let sections = sections(&programs);
    let mut out = Output::lines(args.json);
    let rows = done.iter().map(|(name, kind)| {
        let section = name
            .strip_prefix("prog-")
            .and_then(|name| sections.get(name));
        (name, kind.to_string(), section)
    });
    if args.json {
        let rows: Vec<_> = rows
            .map(|(name, kind, section)| match section {
                Some(section) => json!({ "name": name, "kind": kind, "section": section }),
                None => json!({ "name": name, "kind": kind }),
            })
            .collect();
        let folder = args.pin.display().to_string();
        out.document(&json!({ "folder": folder, "pinned": rows }))?;
    } else {
        for (name, kind, section) in rows {
            let fields = [
                Some(kind.as_str()),
                Some(name.as_str()),
                section.map(String::as_str),
            ];
            let fields: Vec<_> = fields.into_iter().flatten().map(str::as_bytes).collect();
            out.fields(&fields)?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// The sections of an object's programs by their names.
fn sections(programs: &Programs) -> BTreeMap<String, String> {
    let programs = programs.object().progs();
    let sections = programs.map(|program| {
        let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        (text(program.name()), text(program.section()))
    });
    sections.collect()
}
