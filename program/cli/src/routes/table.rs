//! Tables of routes in files, whose next hops are names. The files are the library's, so a table
//! that another program saved may have numbers, groups and null routes; they are shown as text.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use ipnet::IpNet;
use sapwood::lpm::{FibFile, FibFileBuilder, HopRef, SavedHop};
use sapwood::qp::SaveCause;

use crate::errors::Error;
use crate::names::open_error;
use crate::span;

/// A table that is being built, to be saved as a file. A route without a next hop has an empty
/// name.
#[derive(Default)]
pub struct TableBuilder {
    table: FibFileBuilder,
    /// How many routes have each next hop.
    uses: HashMap<HopRef, u32>,
}

impl TableBuilder {
    /// Adds or replaces a route; returns whether it replaced one.
    pub fn insert(&mut self, net: IpNet, next_hop: &str) -> Result<bool, Error> {
        self.insert_hop(net, &SavedHop::Name(next_hop))
    }

    /// As [`insert`](Self::insert), for what another table has.
    pub fn insert_hop(&mut self, net: IpNet, hop: &SavedHop<'_>) -> Result<bool, Error> {
        let hop = self.table.hop(hop)?;
        let old = self.table.insert(net, hop)?;
        *self.uses.entry(hop).or_default() += 1;
        if let Some(uses) = old.and_then(|old| self.uses.get_mut(&old)) {
            *uses -= 1;
        }
        Ok(old.is_some())
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of next hops that at least one route has.
    pub fn next_hops(&self) -> usize {
        self.uses.values().filter(|uses| **uses > 0).count()
    }

    /// Writes a new file and renames it to `target`. `output` is its name in errors.
    pub fn save(&self, target: &Path, output: &Path) -> Result<(), Error> {
        let _save = span!(INFO, "save", file = %output.display(), entries = self.len());
        self.table.save(target).map_err(|error| match error.cause {
            SaveCause::Io(source) => Error::write(output)(source),
            cause => Error::write(output)(io::Error::other(cause)),
        })
    }
}

/// Opens a table, after checking all of it or only its header.
pub fn open(path: &Path, verify: bool) -> Result<FibFile, Error> {
    let opened = match verify {
        true => FibFile::open(path),
        false => FibFile::open_unverified(path),
    };
    opened.map_err(|error| open_error(path, "table of routes", error.cause))
}

/// Whether the header of the file is that of a table.
pub fn is_one(path: &Path) -> bool {
    FibFile::open_unverified(path).is_ok()
}

/// The text of a next hop. Only a damaged file does not have it.
pub fn text(table: &FibFile, hop: HopRef) -> String {
    let hop = table.hop(hop);
    hop.map_or_else(String::new, |hop| hop.to_string())
}
