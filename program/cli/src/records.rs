//! Reads the records of a text, lines or parts that end in NUL, in bounded memory.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use sapwood::arena::MAGIC;
use sapwood::qp::MAX_KEY;

use crate::errors::{Error, complain, shown};
use crate::progress::Progress;
use crate::saved::saved_kind;

/// The byte order mark of UTF-8, which some editors put before a text.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

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

/// A line of stdin as text: without a byte order mark and without white space around it. `None` if
/// nothing is left.
pub fn line_text(line: &[u8]) -> Option<Cow<'_, str>> {
    let line = line.strip_prefix(MARK).unwrap_or(line).trim_ascii();
    (!line.is_empty()).then(|| String::from_utf8_lossy(line))
}

/// Reads a list, and calls `take` with the number and the text of each record. Its inner error is
/// the fault of a bad record: it ends the reading if `strict`, else the record is left out. Returns
/// how many were left out; the first of them are described.
pub fn each_record(
    path: &Path,
    null: bool,
    strict: bool,
    mut take: impl FnMut(u64, Record<'_>) -> Result<Result<(), String>, Error>,
) -> Result<u64, Error> {
    if let Some(kind) = saved_kind(path) {
        return Err(is_no_text(path, kind));
    }
    let mut records = Records::open(path, null)?;
    let unit = records.unit();
    let input = shown(path);
    let mut progress = Progress::new(format!("reading {input}"), records.total, true);
    let mut bad = 0;
    while let Some((number, record)) = records.read()? {
        if number == 1 && matches!(record, Record::Whole(text) if text.starts_with(&MAGIC)) {
            return Err(is_no_text(path, "a saved file"));
        }
        match take(number, record)? {
            Ok(()) => {}
            Err(what) if strict => {
                return Err(Error::Record {
                    path: path.into(),
                    unit,
                    number,
                    what,
                });
            }
            Err(what) => {
                let what = format!("{unit} {number}: {what}");
                leave_out(&mut bad, &progress, &input, what);
            }
        }
        if number % 4096 == 0 {
            progress.at(records.bytes());
        }
    }
    Ok(bad)
}

/// The error of a saved file that is given as a text.
pub fn is_no_text(path: &Path, kind: &str) -> Error {
    let export = match kind {
        "a map of names" => "\"names range\" prints its entries as a text",
        "a map of ranges" => "\"ranges export\" makes a text from it",
        "a table of routes" => "\"routes export\" makes a text from it",
        _ => "the commands \"names range\", \"ranges export\" and \"routes export\" print texts",
    };
    Error::Usage(format!("{} is {kind}, not a text; {export}", shown(path)))
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
#[derive(Clone, Copy, Debug)]
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
