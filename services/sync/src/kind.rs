//! What a map of a log holds.

use std::fmt;
use std::str::FromStr;

use crate::{Changes, Error, ranges, routes};

/// What a map of a log holds. The log itself has byte strings for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Byte strings with byte strings as values.
    Names = 1,
    /// Prefixes of addresses with a text as the next hop.
    Routes = 2,
    /// Ranges of numbers with a text for each.
    Ranges = 3,
}

impl Kind {
    /// The kind of this number.
    pub(crate) fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Names, Kind::Routes, Kind::Ranges]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Checks that changes are such as a map of this kind can have: any bytes for names, and what
    /// [`routes`] and [`ranges`] say for these.
    ///
    /// # Errors
    /// [`Error::Change`] for the first one that is not.
    pub fn check(self, changes: &Changes) -> Result<(), Error> {
        changes.iter().try_for_each(|change| match self {
            Kind::Names => Ok(()),
            Kind::Routes => {
                let net = routes::prefix(change.key)?;
                let hops = change.value.map(routes::Hops::from_value).transpose();
                match hops {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Error::Change(format!("{net}: {error}"))),
                }
            }
            Kind::Ranges => match change.value {
                Some(value) => ranges::entry(change.key, value).map(drop),
                None => ranges::start(change.key).map(drop),
            },
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Names => "names",
            Kind::Routes => "routes",
            Kind::Ranges => "ranges",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Kind::Names, Kind::Routes, Kind::Ranges]
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| format!("{text:?} is no kind of map, but names, routes and ranges are"))
    }
}
