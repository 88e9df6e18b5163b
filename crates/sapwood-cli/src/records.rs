//! Reads the records of a text, lines or parts that end in NUL, in bounded memory.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use sapwood::qp::MAX_KEY;

use crate::errors::{Error, complain};
use crate::progress::Progress;

/// The length of the longest record in bytes: a key, a tab, the digits of a number, and a carriage
/// return.
pub const LIMIT: usize = MAX_KEY + 1 + 20 + 1;

/// How many bad records messages describe. The others are only counted.
const DESCRIBED: u64 = 20;

/// Counts a record that is left out, and describes it if it is among the first.
pub fn leave_out(bad: &mut u64, progress: &Progress, input: &str, what: impl Display) {
    *bad += 1;
    if *bad <= DESCRIBED {
        progress.hide(|| complain(&format!("{input}: {what}; left out")));
    }
}

/// Reports how many records were left out and not described.
pub fn report_others(bad: u64, input: &str, which: &str) {
    if bad > DESCRIBED {
        let more = bad - DESCRIBED;
        complain(&format!("{input}: {more} more{which}, left out"));
    }
}

/// Opens a file, or stdin for `-`; returns its length too, if it has one.
pub fn input(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Error> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let file = File::open(path).map_err(Error::read(path))?;
    let metadata = file.metadata().map_err(Error::read(path))?;
    if metadata.is_dir() {
        return Err(Error::read(path)(io::ErrorKind::IsADirectory.into()));
    }
    let total = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), total))
}

/// Whether the arguments have one question only, so that the answer need not repeat it.
pub fn is_single(given: &[impl AsRef<OsStr>]) -> bool {
    given.len() == 1 && given[0].as_ref() != "-"
}

/// Parses each argument, and for `-` each line of stdin that is not blank, and calls `each` with
/// the result.
pub fn each_given<T>(
    given: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
    too_long: impl Fn(u64) -> String,
    mut each: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    for given in given {
        if given != "-" {
            each(parse(given).map_err(Error::Usage)?)?;
            continue;
        }
        let input = Path::new("-");
        let mut records = Records::open(input, false)?;
        let unit = records.unit();
        while let Some((number, record)) = records.read()? {
            let parsed = match record {
                Record::Whole(text) if text.trim_ascii().is_empty() => continue,
                Record::Whole(text) => parse(&String::from_utf8_lossy(text.trim_ascii())),
                Record::TooLong(bytes) => Err(too_long(bytes)),
            };
            each(parsed.map_err(|what| Error::Record {
                path: input.into(),
                unit,
                number,
                what,
            })?)?;
        }
    }
    Ok(())
}

/// A reader of the records of a text.
pub struct Records {
    path: PathBuf,
    reader: BufReader<Box<dyn Read>>,
    delimiter: u8,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
    /// The length of the input in bytes, if it has one.
    pub total: Option<u64>,
}

/// One record, without its delimiter.
pub enum Record<'a> {
    /// The bytes of the record.
    Whole(&'a [u8]),
    /// The length in bytes of a record that is too long to be a key. Its bytes were skipped.
    TooLong(u64),
}

impl Records {
    /// Opens a file, or stdin for `-`.
    pub fn open(path: &Path, null: bool) -> Result<Self, Error> {
        let (input, total) = input(path)?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(1 << 16, input),
            delimiter: if null { 0 } else { b'\n' },
            buffer: Vec::new(),
            number: 0,
            bytes: 0,
            total,
        })
    }

    /// Reads the next record; returns its number too, from 1.
    pub fn read(&mut self) -> Result<Option<(u64, Record<'_>)>, Error> {
        self.buffer.clear();
        // A record of LIMIT bytes has its delimiter after them.
        let read = (&mut self.reader)
            .take(LIMIT as u64 + 1)
            .read_until(self.delimiter, &mut self.buffer)
            .map_err(Error::read(&self.path))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        if self.buffer.last() == Some(&self.delimiter) {
            self.buffer.pop();
        } else if read > LIMIT {
            let rest = self
                .reader
                .skip_until(self.delimiter)
                .map_err(Error::read(&self.path))?;
            self.bytes += rest as u64;
            let length = read as u64 + rest as u64;
            return Ok(Some((self.number, Record::TooLong(length))));
        }
        Ok(Some((self.number, Record::Whole(&self.buffer))))
    }

    /// Whether the next record has to be read from the system.
    pub fn will_wait(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// How many bytes were read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The word for a record in messages.
    pub fn unit(&self) -> &'static str {
        if self.delimiter == 0 {
            "record"
        } else {
            "line"
        }
    }
}

/// The message for a key that is too long to be stored.
pub fn too_long(bytes: u64) -> String {
    format!("key of {bytes} bytes is too long (the limit is 65,535)")
}
