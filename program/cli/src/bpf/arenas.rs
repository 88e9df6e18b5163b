//! `sapwood bpf list`, `dump`, `verify` and `unload`: show, check and remove pinned arenas.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sapwood_bpf::{BpfArena, Bytes, CheckedReader, Error as BpfError, Pinned, WindowInfo};
use serde_json::json;

use crate::cli::bpf::{DumpArgs, ListArgs, PinArgs, VerifyArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::hex;
use crate::output::Output;

/// `list`: prints the windows of pinned arenas.
pub fn list(args: &ListArgs) -> Outcome {
    sapwood_bpf::check()?;
    let mut paths = Vec::new();
    find(&args.path, &mut paths)?;
    let alone = paths == [args.path.clone()];
    let mut out = Output::lines(args.json);
    for path in &paths {
        let arena = match BpfArena::open(path) {
            Ok(arena) => arena,
            // The pin is a program, a link or another map.
            Err(BpfError::NotAnArena { .. } | BpfError::Io { .. }) if !alone => continue,
            Err(error) if alone => return Err(error.into()),
            Err(error) => {
                complain(&format!("{}: {error}", path.display()));
                continue;
            }
        };
        let windows = match arena.windows() {
            Ok(windows) => windows,
            Err(error) => {
                complain(&format!("{}: {error}", path.display()));
                continue;
            }
        };
        let shown = path.display().to_string();
        if args.json {
            let windows: Vec<_> = windows
                .iter()
                .map(|window| {
                    json!({
                        "number": window.number,
                        "name": window.name,
                        "kind": window.kind.name(),
                        "bytes": window.len,
                    })
                })
                .collect();
            out.document(&json!({
                "arena": shown,
                "bytes": arena.bytes(),
                "bytes_left": arena.bytes_left(),
                "owner": arena.owner().unwrap_or(None),
                "windows": windows,
            }))?;
            continue;
        }
        if windows.is_empty() {
            out.fields(&[shown.as_bytes(), b"-", b"", b"empty", b"0"])?;
        }
        for window in windows {
            show_window(&mut out, path, &window)?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints a window as a line.
pub(super) fn show_window(out: &mut Output, path: &Path, window: &WindowInfo) -> Result<(), Error> {
    out.fields(&[
        path.display().to_string().as_bytes(),
        window.number.to_string().as_bytes(),
        window.name.as_bytes(),
        window.kind.name().as_bytes(),
        window.len.to_string().as_bytes(),
    ])
}

/// Finds the pinned object at a path, or all objects in a directory and below it, in order.
pub(super) fn find(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let metadata = std::fs::symlink_metadata(path).map_err(Error::read(path))?;
    if !metadata.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::read(path))? {
        let entry = entry.map_err(Error::read(path))?;
        // A file that a link leads to is found without the link.
        if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            inside.push(entry.path());
        }
    }
    inside.sort();
    for path in inside {
        // An object that was unpinned meanwhile is skipped.
        match find(&path, found) {
            Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// `dump`: prints the entries of a map.
pub fn dump(args: &DumpArgs) -> Outcome {
    sapwood_bpf::check()?;
    let arena = BpfArena::open(&args.map.arena)?;
    let reader = arena.reader::<Bytes>(&args.map.map)?;
    let form = args.map.form();
    let shown = Shown::of(&reader)?;
    let mut out = Output::lines(args.map.json);
    out.form = form;
    let prefix = match &args.prefix {
        Some(text) => form.parse(text.as_bytes()).map_err(Error::Usage)?,
        None => Default::default(),
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    // The entries of a map without order come in any order, and a prefix filters all of them.
    let entries: Box<dyn Iterator<Item = _>> = match reader.has_order()? {
        true => Box::new(reader.prefix(&prefix)),
        false => Box::new(reader.unordered()),
    };
    let wanted = entries.filter(|entry: &Result<(Vec<u8>, _), _>| match entry {
        Ok((key, _)) => key.starts_with(&prefix),
        Err(_) => true,
    });
    for entry in wanted.take(limit) {
        let (key, value) = entry?;
        show_value(&mut out, &key, &value, shown)?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// How the values of a map are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// A byte string, as text if it is UTF-8.
    Text,
    /// Eight bytes as a number, others as hexadecimal digits.
    Plain,
    /// A count for each processor, as their sum.
    Sum,
}

impl Shown {
    pub(super) fn of(reader: &CheckedReader<Bytes>) -> Result<Shown, Error> {
        Ok(match reader.value_bytes()? {
            None => Shown::Text,
            Some(_) if reader.source().is_per_processor()? => Shown::Sum,
            Some(_) => Shown::Plain,
        })
    }
}

/// Prints an entry.
pub(super) fn show_value(
    out: &mut Output,
    key: &[u8],
    value: &Bytes,
    shown: Shown,
) -> Result<(), Error> {
    if shown == Shown::Sum {
        return out.entry(key, &value.sum());
    }
    let (value, text) = (value.0.as_slice(), shown == Shown::Text);
    if let (false, Ok(word)) = (text, <[u8; 8]>::try_from(value)) {
        return out.entry(key, &u64::from_ne_bytes(word));
    }
    let string = std::str::from_utf8(value).ok().filter(|_| text);
    if out.json {
        let value = match string {
            Some(string) => json!(string),
            None => json!({ "hex": hex(value) }),
        };
        let key = out.key_json(key)?;
        return out.document(&json!({ "key": key, "value": value }));
    }
    let digits = hex(value);
    let shown = string.unwrap_or(&digits).as_bytes();
    let key = out.form.show(key).map_err(Error::Usage)?.into_owned();
    out.fields(&[&key, shown])
}

/// `verify`: checks a map.
pub fn verify(args: &VerifyArgs) -> Outcome {
    sapwood_bpf::check()?;
    let arena = BpfArena::open(&args.arena)?;
    let checked = arena
        .reader::<Bytes>(&args.map)
        .and_then(|reader| reader.verify());
    let mut out = Output::lines(args.json);
    let answer = match checked {
        Ok(entries) if args.json => {
            out.document(&json!({ "ok": true, "entries": entries }))?;
            Answer::Yes
        }
        Ok(entries) => {
            out.text(&format!("{}: {entries} entries, sound\n", args.map))?;
            Answer::Yes
        }
        Err(BpfError::Damaged(what)) => {
            if args.json {
                out.document(&json!({ "ok": false, "error": what }))?;
            } else {
                complain(&format!("damaged: {what}"));
            }
            Answer::No
        }
        Err(error) => return Err(error.into()),
    };
    out.flush()?;
    Ok(answer)
}

/// `unload`: detaches the programs and removes the pins of a directory.
pub fn unload(args: &PinArgs) -> Outcome {
    let gone = Pinned::open(&args.pin)?.take_down()?;
    let mut out = Output::lines(args.json);
    if args.json {
        let gone: Vec<_> = gone
            .iter()
            .map(|(name, kind)| json!({ "name": name, "kind": kind.to_string() }))
            .collect();
        let folder = args.pin.display().to_string();
        out.document(&json!({ "folder": folder, "gone": gone }))?;
    } else {
        for (name, kind) in gone {
            out.fields(&[kind.to_string().as_bytes(), name.as_bytes()])?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}
