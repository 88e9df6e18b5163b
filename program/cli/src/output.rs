//! Writes the answers of queries to stdout: as text with delimiters, or as JSON lines.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::cli::Query;
use crate::errors::{Answer, Error, Outcome};
use crate::keys::KeyForm;
use crate::names::SavedValue;

/// Prints one document as the whole answer.
pub fn document(value: &Value) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints a line of text for each figure: its name and its value.
pub fn figures(rows: &[(&str, String)]) -> Outcome {
    let mut out = io::stdout().lock();
    for (what, value) in rows {
        writeln!(out, "{what:<12} {value}")?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// A buffered writer of answers to stdout.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    /// The form in which keys are printed.
    pub form: KeyForm,
    /// Whether answers are JSON documents.
    pub json: bool,
    end: u8,
}

impl Output {
    /// A writer in the form that the options of a query ask for.
    pub fn new(query: &Query) -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
            form: query.form(),
            json: query.json,
            end: if query.null { 0 } else { b'\n' },
        }
    }

    /// A writer of lines of text, or of documents.
    pub fn lines(json: bool) -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
            form: KeyForm::Bytes,
            json,
            end: b'\n',
        }
    }

    /// Writes one document on a line of its own.
    pub fn document(&mut self, value: &Value) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Writes fields unchanged, with tabs between them, and the delimiter.
    pub fn fields(&mut self, fields: &[&[u8]]) -> Result<(), Error> {
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.out.write_all(b"\t")?;
            }
            self.out.write_all(field)?;
        }
        self.out.write_all(&[self.end])?;
        Ok(())
    }

    /// Writes an entry: key, tab, value; or `{"key": …, "value": …}`.
    pub fn entry<V: ?Sized + SavedValue>(&mut self, key: &[u8], value: &V) -> Result<(), Error> {
        if self.json {
            let document = self.entry_json(key, value)?;
            return self.document(&document);
        }
        let key = self.form.show(key).map_err(Error::Usage)?;
        self.fields(&[&key, &value.text()])
    }

    /// Returns an entry as a document.
    pub fn entry_json<V: ?Sized + SavedValue>(
        &self,
        key: &[u8],
        value: &V,
    ) -> Result<Value, Error> {
        Ok(serde_json::json!({ "key": self.key_json(key)?, "value": value.json() }))
    }

    /// Returns a key as a part of a document.
    pub fn key_json(&self, key: &[u8]) -> Result<Value, Error> {
        self.form.json(key).map_err(Error::Usage)
    }

    /// Writes text unchanged.
    pub fn text(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Flushes the buffer. A command calls this before it reports success.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }
}
