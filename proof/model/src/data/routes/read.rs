//! Reads prefixes from text.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::data::Missing;
use crate::oracle::Prefix;

/// The prefixes of a file, each family sorted and without repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteFile {
    /// The IPv4 prefixes.
    pub v4: Vec<Prefix>,
    /// The IPv6 prefixes.
    pub v6: Vec<Prefix>,
}

/// Reads a gzipped list of prefixes, as [`read_prefixes`] does.
///
/// # Errors
///
/// If the file cannot be read or unpacked, or has a line that is no prefix.
pub fn routes_gz(file: &Path) -> Result<RouteFile, Missing> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let missing = |error| Missing::new("routes", format!("{name}: {error}"));
    let packed = fs::File::open(file).map_err(missing)?;
    read_prefixes(BufReader::new(flate2::read::GzDecoder::new(packed))).map_err(missing)
}

/// Reads prefixes of both families, one in each line. Text after a space is ignored.
///
/// # Errors
///
/// If reading fails, or if a line is no prefix or has bits set after the length. The message has
/// the number of the line.
pub fn read_prefixes(text: impl BufRead) -> io::Result<RouteFile> {
    let mut routes = RouteFile::default();
    for (line, number) in text.lines().zip(1_u64..) {
        let line = line?;
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        let (prefix, is_v4) = parse(word).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {number}: not a prefix: {word}"),
            )
        })?;
        let family = if is_v4 {
            &mut routes.v4
        } else {
            &mut routes.v6
        };
        family.push(prefix);
    }
    for family in [&mut routes.v4, &mut routes.v6] {
        family.sort_unstable();
        family.dedup();
    }
    Ok(routes)
}

fn parse(word: &str) -> Option<(Prefix, bool)> {
    let (address, len) = word.split_once('/')?;
    let len: u8 = len.parse().ok()?;
    let (prefix, back, is_v4) = if let Ok(address) = address.parse::<Ipv4Addr>() {
        let prefix = (len <= 32).then(|| Prefix::v4(address, len))?;
        (prefix, prefix.v4_addr() == address, true)
    } else {
        let address: Ipv6Addr = address.parse().ok()?;
        let prefix = (len <= 128).then(|| Prefix::v6(address, len))?;
        (prefix, prefix.v6_addr() == address, false)
    };
    back.then_some((prefix, is_v4))
}
