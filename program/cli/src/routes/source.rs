//! Reads routes from a text, a dump or the kernel, with a progress bar.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use sapwood_input::Counted;
use sapwood_routes::{
    Error as RouteError, Format, Peer, Reading, Route, RouteSource, kernel_routes,
};

use crate::cli::routes::{RouteFormat, SourceArgs};
use crate::errors::{Error, shown};
use crate::progress::Progress;
use crate::records::{input, is_no_text, leave_out, report_others};

/// The name of the kernel's routes in messages, in place of a file name.
const KERNEL: &str = "the kernel's routes";

/// A source of routes that is open for reading.
pub struct Source {
    path: PathBuf,
    routes: Box<dyn RouteSource>,
    /// What the file is read as.
    format: Option<Format>,
    read: Rc<Cell<u64>>,
    total: Option<u64>,
    skip_bad: bool,
}

/// The counts of a reading.
#[derive(Default)]
pub struct Counts {
    /// Lines or records that are no routes.
    pub bad: u64,
    /// Other counts, each with its text for the summary.
    pub remarks: Vec<(u64, String)>,
    /// What the file was read as.
    pub format: Option<Format>,
}

impl Source {
    /// Opens a file, or stdin for `-`.
    pub fn open(path: &Path, args: &SourceArgs) -> Result<Self, Error> {
        let (input, total) = input(path)?;
        let read = Rc::new(Cell::new(0));
        let counted = Counted::new(input, Rc::clone(&read));
        let reading = Reading {
            format: args.format.map(Format::from),
            truncate: args.truncate,
            peer: args.peer.map_or(Peer::First, Peer::Address),
            partial: args.partial,
        };
        let (format, routes) = match reading.open(counted) {
            Ok(opened) => opened,
            Err(error) => return Err(whole_error(path, error)),
        };
        if format != Format::Mrt && args.peer.is_some() {
            let what = format!(
                "{}: a text has no peers, so --peer cannot be used",
                shown(path)
            );
            return Err(Error::Usage(what));
        }
        Ok(Source {
            path: path.into(),
            routes,
            format: Some(format),
            read,
            total,
            skip_bad: args.skip_bad,
        })
    }

    /// Opens the routes of a table of the running kernel.
    pub fn kernel(table: u32) -> Result<Self, Error> {
        let routes = kernel_routes(table).map_err(Error::read(Path::new(KERNEL)))?;
        Ok(Source {
            path: KERNEL.into(),
            routes: Box::new(routes),
            format: None,
            read: Rc::default(),
            total: None,
            skip_bad: false,
        })
    }

    /// The name of the source in messages.
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// Reads all routes, and calls `take` with each of them.
    pub fn each(
        mut self,
        mut take: impl FnMut(Route<'_>) -> Result<(), Error>,
    ) -> Result<Counts, Error> {
        let name = self.name();
        let mut progress = Progress::new(format!("reading {name}"), self.total, true);
        let mut bad = 0;
        for number in 1u64.. {
            match self.routes.next_route() {
                Ok(None) => break,
                Ok(Some(route)) => take(route)?,
                Err(RouteError::Bad(place)) if self.skip_bad => {
                    leave_out(&mut bad, &progress, &name, place);
                }
                Err(error) => return Err(whole_error(&self.path, error)),
            }
            if number % 4096 == 0 {
                progress.at(self.read.get());
            }
        }
        drop(progress);
        report_others(bad, &name, "");
        Ok(Counts {
            bad,
            remarks: self.routes.remarks(),
            format: self.format,
        })
    }
}

/// The error of a file that cannot be read to its end.
fn whole_error(path: &Path, error: RouteError) -> Error {
    match error {
        RouteError::Io(error) => Error::read(path)(error),
        RouteError::Bad(place) | RouteError::Broken(place) => Error::Record {
            path: path.into(),
            unit: place.unit,
            number: place.number,
            what: place.what,
        },
        RouteError::Foreign(kind) if kind == "a saved file" => is_no_text(path, &kind),
        foreign @ RouteError::Foreign(_) => Error::Usage(format!("{}: {foreign}", shown(path))),
    }
}

impl From<RouteFormat> for Format {
    fn from(format: RouteFormat) -> Self {
        match format {
            RouteFormat::Text => Format::Text,
            RouteFormat::Pfx2as => Format::Pfx2as,
            RouteFormat::IpRoute => Format::IpRoute,
            RouteFormat::RouteN => Format::Netstat,
            RouteFormat::ShowIpBgp => Format::ShowBgp,
            RouteFormat::Bird => Format::Bird,
            RouteFormat::Json => Format::Json,
            RouteFormat::Mrt => Format::Mrt,
        }
    }
}
