//! Answers the queries of a command one by one: those of its arguments, and for `-` those of stdin.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;

use crate::errors::{Error, complain};
use crate::output::Output;
use crate::records::{Record, Records};

/// How the queries of a command are read.
pub struct Batch {
    /// The name of a query in documents.
    pub field: &'static str,
    /// Whether the queries on stdin end in NUL.
    pub null: bool,
    /// Whether the first bad query ends the command.
    pub strict: bool,
}

/// Where a query is on stdin: the word for its record, and the record's number. `None` for an
/// argument.
pub type Place = Option<(&'static str, u64)>;

/// Calls `ask` with each query. Its inner error is the fault of a bad one, which is reported; the
/// others are answered, and then the command fails. What was written is flushed before the command
/// waits for stdin, since whoever waits for the answer may ask again only then.
pub fn each<'g>(
    given: impl IntoIterator<Item = &'g OsStr>,
    batch: &Batch,
    out: &mut Output,
    mut ask: impl FnMut(&mut Output, Record<'_>, Place) -> Result<Result<(), String>, Error>,
) -> Result<(), Error> {
    let (mut bad, mut all) = (0u64, 0u64);
    let mut refuse = |out: &mut Output, text: &[u8], error: Error| {
        if batch.strict {
            return Err(error);
        }
        bad += 1;
        complain(&error.to_string());
        if out.json {
            let text = String::from_utf8_lossy(text);
            let error = error.to_string();
            out.document(&json!({ batch.field: text, "error": error }))?;
        }
        Ok(())
    };
    for given in given {
        if given != "-" {
            all += 1;
            let text = given.as_bytes();
            if let Err(what) = ask(out, Record::Whole(text), None)? {
                refuse(out, text, Error::Usage(what))?;
            }
            continue;
        }
        let mut records = Records::open(Path::new("-"), batch.null)?;
        let unit = records.unit();
        loop {
            if records.will_wait() {
                out.flush()?;
            }
            let Some((number, record)) = records.read()? else {
                break;
            };
            all += 1;
            if let Err(what) = ask(out, record, Some((unit, number)))? {
                let path = "-".into();
                let error = Error::Record {
                    path,
                    unit,
                    number,
                    what,
                };
                let text = match record {
                    Record::Whole(text) => text,
                    Record::TooLong(_) => b"",
                };
                refuse(out, text, error)?;
            }
        }
    }
    out.flush()?;
    match bad {
        0 => Ok(()),
        bad => Err(Error::Queries { bad, all }),
    }
}
