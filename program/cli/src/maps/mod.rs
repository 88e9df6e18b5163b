//! `sapwood maps`: the memory mappings of a process as a map of ranges.

pub mod proc;

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use sapwood::maple::{MapleMap, Window};
use serde_json::{Value, json};

use crate::cli::ranges::MapsArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::numbers::{Base, bytes, count_json, length};
use crate::output::Output;
use crate::ranges::query::gap_json;
use proc::Mapping;

/// The lowest address that a process may map by default, where the system does not tell it.
const LOWEST: u64 = 65_536;

/// The mappings of a process.
pub struct Maps {
    /// Maps addresses to places in `mappings`.
    pub map: MapleMap<u32>,
    /// The mappings in order of addresses.
    pub mappings: Vec<Mapping>,
}

impl Maps {
    /// Reads the mappings of a process; without a number, of this process.
    pub fn read(pid: Option<u32>) -> Result<Self, Error> {
        let process = pid.map_or("self".into(), |pid| pid.to_string());
        let path = PathBuf::from(format!("/proc/{process}/maps"));
        let text = std::fs::read(&path).map_err(|error| match (pid, error.kind()) {
            _ if !cfg!(target_os = "linux") => {
                Error::Usage("only Linux tells the mappings of a process".into())
            }
            // The file is missing if the process has ended; a read fails with ESRCH if it ends now.
            (Some(pid), io::ErrorKind::NotFound) => no_process(pid),
            (Some(pid), _)
                if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
            {
                no_process(pid)
            }
            (Some(pid), io::ErrorKind::PermissionDenied) => Error::Usage(format!(
                "process {pid} is another user's or protects itself: {error}; \
                 root may read its mappings"
            )),
            _ => Error::read(&path)(error),
        })?;
        let mappings = proc::parse(&text).map_err(|(number, what)| Error::Record {
            path,
            unit: "line",
            number,
            what,
        })?;
        let map = MapleMap::new();
        for (mapping, number) in mappings.iter().zip(0..) {
            // The kernel does not write the table at one moment, so two mappings may overlap.
            map.store(mapping.range.clone(), number)
                .map_err(sapwood::Error::from)?;
        }
        Ok(Maps { map, mappings })
    }

    fn mapping(&self, number: u32) -> &Mapping {
        &self.mappings[number as usize]
    }
}

fn no_process(pid: u32) -> Error {
    Error::Usage(format!("there is no process {pid}"))
}

/// Answers the question of the arguments.
pub fn run(args: &MapsArgs) -> Outcome {
    let maps = Maps::read(args.pid)?;
    let mut out = Output::lines(args.json);
    let answer = match (args.at, args.gap) {
        (Some(address), _) => at(&mut out, &maps, address),
        (_, Some(size)) => gap(&mut out, &maps, size, args),
        _ => all(&mut out, &maps),
    }?;
    out.flush()?;
    Ok(answer)
}

/// A mapping as a document.
fn document(range: &RangeInclusive<u64>, mapping: &Mapping) -> Value {
    let name = Some(&mapping.name).filter(|name| !name.is_empty());
    json!({
        "start": range.start(),
        "end": range.end(),
        "size": count_json(length(range)),
        "permissions": mapping.permissions,
        "offset": mapping.offset,
        "device": mapping.device,
        "inode": mapping.inode,
        "name": name,
        "deleted": mapping.deleted,
    })
}

/// Prints a mapping.
fn line(out: &mut Output, range: &RangeInclusive<u64>, mapping: &Mapping) -> Result<(), Error> {
    let [start, end] = [range.start(), range.end()].map(|address| Base::Address.show(*address));
    let (size, name) = (bytes(length(range)), mapping.full_name());
    let fields = [&*start, &end, &size, &mapping.permissions, &name];
    let fields = fields.iter().filter(|field| !field.is_empty());
    out.fields(&fields.map(|field| field.as_bytes()).collect::<Vec<_>>())
}

/// Prints all mappings.
fn all(out: &mut Output, maps: &Maps) -> Outcome {
    maps.map.read(|view| {
        view.iter().try_for_each(|(range, number)| {
            let mapping = maps.mapping(*number);
            match out.json {
                true => out.document(&document(&range, mapping)),
                false => line(out, &range, mapping),
            }
        })
    })?;
    if maps.mappings.is_empty() {
        complain("the process has no mappings: it has ended, or it is a thread of the kernel");
    }
    Ok(Answer::Yes)
}

/// Prints the mapping at an address.
fn at(out: &mut Output, maps: &Maps, address: u64) -> Outcome {
    let (range, number) = maps.map.read(|view| {
        let (range, number) = view.locate(address);
        (range, number.copied())
    });
    let found = number.map(|number| maps.mapping(number));
    if out.json {
        let gap = found.is_none().then(|| gap_json(&range));
        let found = found.map(|mapping| document(&range, mapping));
        out.document(&json!({ "query": address, "found": found, "gap": gap }))?;
    } else if let Some(mapping) = found {
        line(out, &range, mapping)?;
    } else {
        let (address, gap) = (Base::Sixteen.show(address), Base::Sixteen.span(&range));
        let size = bytes(length(&range));
        complain(&format!(
            "no mapping has {address}: it is in the gap {gap} of {size}"
        ));
    }
    Ok(Answer::from_bool(found.is_some()))
}

/// Prints the lowest gap of a size.
fn gap(out: &mut Output, maps: &Maps, size: u64, args: &MapsArgs) -> Outcome {
    let (from, to) = (
        args.from.unwrap_or_else(lowest),
        args.to.unwrap_or(u64::MAX),
    );
    let align = args.align.unwrap_or(rustix::param::page_size() as u64);
    let wrong = |what: String| Err(Error::Usage(what));
    if size == 0 {
        return wrong("--gap must be at least one byte".into());
    }
    if !align.is_power_of_two() {
        return wrong(format!("--align {align} is not a power of two"));
    }
    let window = from..=to;
    if from > to || length(&window) < size.into() {
        let (window, size) = (Base::Sixteen.span(&window), bytes(size.into()));
        return wrong(format!("{window} is shorter than {size}"));
    }
    let found = maps
        .map
        .find_gap(size, Window::new(window.clone()).aligned(align));
    if out.json {
        let range = found.as_ref().map(gap_json);
        out.document(&json!({ "size": size, "align": align, "found": range }))?;
    } else if let Some(range) = &found {
        let [start, end] = [range.start(), range.end()].map(|at| Base::Address.show(*at));
        out.fields(&[
            start.as_bytes(),
            end.as_bytes(),
            bytes(length(range)).as_bytes(),
        ])?;
    } else {
        let (size, window) = (bytes(size.into()), Base::Sixteen.span(&window));
        complain(&format!("no gap of {size} in {window}"));
    }
    Ok(Answer::from_bool(found.is_some()))
}

/// The lowest address that a process may map.
fn lowest() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr");
    let lowest = text.ok().and_then(|text| text.trim().parse().ok());
    lowest.unwrap_or(LOWEST)
}
