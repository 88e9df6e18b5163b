//! Reads routes from a text, a dump or the kernel, with a progress bar.

use std::cell::Cell;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use sapwood::arena::MAGIC;
use sapwood_input::Counted;
use sapwood_routes::{
    Error as RouteError, Format, MrtRoutes, Peer, Route, RouteSource, TextRoutes, decompressed,
    format_of, kernel_routes,
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
    pub remarks: Vec<(u64, &'static str)>,
}

impl Source {
    /// Opens a file, or stdin for `-`.
    pub fn open(path: &Path, args: &SourceArgs) -> Result<Self, Error> {
        let (input, total) = input(path)?;
        let read = Rc::new(Cell::new(0));
        let counted = Counted::new(input, Rc::clone(&read));
        let input = decompressed(counted, None).map_err(Error::read(path))?;
        let (told, mut input) = format_of(input).map_err(Error::read(path))?;
        // The bytes that told the format.
        let start = input.fill_buf().map_err(Error::read(path))?;
        if start.starts_with(&MAGIC) {
            return Err(is_no_text(path, "a saved file"));
        }
        let format = match args.format {
            Some(RouteFormat::Text) => Format::Text,
            Some(RouteFormat::Mrt) => Format::Mrt,
            None => told,
        };
        let routes: Box<dyn RouteSource> = match (format, args.peer) {
            (Format::Text, None) => Box::new(TextRoutes::new(input, args.truncate)),
            (Format::Text, Some(_)) => {
                let what = format!(
                    "{}: a text has no peers, so --peer cannot be used",
                    shown(path)
                );
                return Err(Error::Usage(what));
            }
            (Format::Mrt, peer) => {
                let peer = peer.map_or(Peer::First, Peer::Address);
                Box::new(MrtRoutes::new(input, peer))
            }
        };
        Ok(Source {
            path: path.into(),
            routes,
            read,
            total,
            skip_bad: args.skip_bad,
        })
    }

    /// Opens the routes of the running kernel.
    pub fn kernel() -> Result<Self, Error> {
        let routes = kernel_routes().map_err(Error::read(Path::new(KERNEL)))?;
        Ok(Source {
            path: KERNEL.into(),
            routes: Box::new(routes),
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
                Err(RouteError::Io(error)) => return Err(Error::read(&self.path)(error)),
                Err(RouteError::Bad(place) | RouteError::Broken(place)) => {
                    return Err(Error::Record {
                        path: self.path,
                        unit: place.unit,
                        number: place.number,
                        what: place.what,
                    });
                }
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
        })
    }
}
