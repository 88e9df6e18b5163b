//! The texts of live maps of the program `sapwood`, whose values are numbers.

use std::path::Path;
use std::time::Duration;

use pyo3::prelude::*;
use sapwood::qp::QpStore;
use sapwood_live::{CheckedNames, Error};

use crate::live::{Pool, Trusting, not_live};

/// The texts of a live map, which the program `sapwood` keeps in a directory inside that of the
/// map.
pub enum Texts {
    Trusting(Trusting<QpStore<[u8]>>),
    Checked(Pool<CheckedNames<QpStore<[u8]>>>),
}

impl Texts {
    /// Opens the texts of the live map in a directory, if there are any.
    pub fn of_map(map: &Path, registered: bool) -> Result<Option<Texts>, Error> {
        let (folder, wait) = (map.join("texts"), Duration::ZERO);
        Ok(match (folder.join("control").exists(), registered) {
            (false, _) => None,
            (true, true) => Some(Texts::Trusting(Pool::open(&folder, wait)?)),
            (true, false) => Some(Texts::Checked(Pool::open(&folder, wait)?)),
        })
    }

    /// The text of a number.
    pub fn of(&self, number: u32) -> PyResult<Option<String>> {
        let (key, shown) = (number.to_be_bytes(), String::from_utf8_lossy);
        let text = match self {
            Texts::Trusting(pool) => {
                pool.read(|texts| texts.get(key).map(|text| shown(text).into_owned()))
            }
            Texts::Checked(pool) => {
                pool.read(|texts| texts.get(key).map(|text| shown(text).into_owned()))
            }
        };
        text.map_err(not_live)
    }

    /// All numbers with their texts.
    pub fn all(&self) -> PyResult<Vec<(u32, String)>> {
        fn entry((key, text): (&[u8], &[u8])) -> Option<(u32, String)> {
            let number = u32::from_be_bytes(key.try_into().ok()?);
            Some((number, String::from_utf8_lossy(text).into_owned()))
        }
        let all = match self {
            Texts::Trusting(pool) => pool.read(|texts| texts.iter().filter_map(entry).collect()),
            Texts::Checked(pool) => {
                pool.read(|texts| texts.range::<[u8], _>(..).filter_map(entry).collect())
            }
        };
        all.map_err(not_live)
    }
}
