//! `ranges alloc`: finds room for a new range and stores it there. And what all commands need that
//! change a file.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use sapwood::maple::Error as MapError;
use sapwood::maple::Window;
use serde_json::json;

use super::query::gap_json;
use super::table::Ranges;
use super::text::show_line;
use crate::cli::ranges::AllocArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::numbers::Base;
use crate::output::Output;
use crate::target::target;

/// Finds room, stores the range and writes the file.
pub fn run(args: &AllocArgs) -> Outcome {
    let window = args.window.range()?;
    usable_value(&args.value)?;
    let edited = editable(&args.map)?;
    let (mut ranges, _) = Ranges::open(&args.map)?;
    let number = ranges.push(&args.value)?;
    let map = ranges.map();
    let base = Base::new(args.form.hex);
    let mut place = Window::new(window.clone()).guarded(args.guard);
    place = match args.rest {
        0 => place.aligned(args.align),
        rest => place.congruent_to(rest, args.align),
    };
    if args.highest {
        place = place.from_end();
    }
    if args.tightest {
        place = place.tightest();
    }
    if let Some(index) = args.near {
        place = place.nearest_to(index);
    }
    let found = map.alloc_range(args.size, place, number);
    let found = match found.map_err(MapError::from) {
        Ok(range) => Some(range),
        Err(MapError::NoGap { .. }) => None,
        Err(MapError::ArenaFull(full)) => return Err(MapError::from(full).into()),
        Err(error) => return Err(Error::Usage(error.to_string())),
    };
    let write = found.is_some() && !args.dry_run;
    if write {
        ranges.save(&edited.target, &args.map)?;
    }
    let printed = print(args, &window, &found, write);
    match (printed, &found) {
        // The range is stored, and nobody else knows where.
        (Err(Error::Stdout(error)), Some(range)) if write => Err(Error::Usage(format!(
            "cannot write the output: {error}; the range {} is stored",
            base.span(range)
        ))),
        (printed, _) => printed.map(|()| Answer::from_bool(found.is_some())),
    }
}

/// A map that is about to be changed: the file to replace, which is locked against others who
/// change it.
pub struct Edited {
    /// The file, or what the link of that name links to.
    pub target: PathBuf,
    _locked: File,
}

/// Locks a map that is about to be changed.
pub fn editable(map: &Path) -> Result<Edited, Error> {
    if map == Path::new("-") {
        let what = "standard input cannot be a map of ranges that is changed: it must be a file";
        return Err(Error::Usage(what.into()));
    }
    // A link stays a link, and the file that it links to is replaced.
    let target = target(map, None)?;
    let locked = locked(&target).map_err(Error::read(map))?;
    Ok(Edited {
        target,
        _locked: locked,
    })
}

/// Refuses a value that no text can have.
pub fn usable_value(value: &str) -> Result<(), Error> {
    if show_line(&(0..=0), value, Base::Ten).is_some() {
        return Ok(());
    }
    let value = value.escape_debug();
    Err(Error::Usage(format!(
        "a text cannot have the value \"{value}\": it begins or ends with white space, \
         has a # after white space or a control character, or is too long"
    )))
}

/// Prints what was found.
fn print(
    args: &AllocArgs,
    window: &RangeInclusive<u64>,
    found: &Option<RangeInclusive<u64>>,
    written: bool,
) -> Result<(), Error> {
    let base = Base::new(args.form.hex);
    let mut out = Output::lines(args.form.json);
    match found {
        _ if args.form.json => {
            let range = found.as_ref().map(gap_json);
            out.document(&json!({ "size": args.size, "found": range, "written": written }))?;
        }
        Some(range) => {
            let [start, end] = [range.start(), range.end()].map(|number| base.show(*number));
            out.fields(&[start.as_bytes(), end.as_bytes()])?;
        }
        None => {
            let mut what = format!("no gap of {} in {}", args.size, base.span(window));
            match args.rest {
                0 if args.align > 1 => {
                    what += &format!(" that begins at a multiple of {}", args.align);
                }
                0 => {}
                rest => what += &format!(" that begins {rest} behind a multiple of {}", args.align),
            }
            if args.guard > 0 {
                what += &format!(" with {} free on both sides", args.guard);
            }
            complain(&what);
        }
    }
    out.flush()
}

/// Opens the file and locks it against other writers. Dropping the file releases the lock.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
            .map_err(|error| io::Error::other(format!("it cannot be locked: {error}")))?;
        // The previous holder of the lock may have renamed another file to this path.
        let (ours, now) = (file.metadata()?, path.metadata()?);
        if (ours.dev(), ours.ino()) == (now.dev(), now.ino()) {
            return Ok(file);
        }
    }
}
