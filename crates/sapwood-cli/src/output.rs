//! Standard output of the queries: text with delimiters, or JSON lines.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::cli::Query;
use crate::errors::{Answer, Error, Outcome};
use crate::keys::KeyForm;
use crate::names::Held;

/// Prints one document, which is all of the answer.
pub fn document(value: &Value) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints figures, each with its name, for people.
pub fn figures(rows: &[(&str, String)]) -> Outcome {
    let mut out = io::stdout().lock();
    for (what, value) in rows {
        writeln!(out, "{what:<12} {value}")?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Where answers go.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    /// How keys are written.
    pub form: KeyForm,
    /// Whether documents are wanted.
    pub json: bool,
    end: u8,
}

impl Output {
    /// As the arguments say.
    pub fn new(query: &Query) -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
            form: query.form(),
            json: query.json,
            end: if query.null { 0 } else { b'\n' },
        }
    }

    /// Lines of text, or documents.
    pub fn lines(json: bool) -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
            form: KeyForm::Bytes,
            json,
            end: b'\n',
        }
    }

    /// One document on a line of its own.
    pub fn document(&mut self, value: &Value) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Fields with tabs between them, as they are, and the delimiter.
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

    /// An entry: `key`, tab, value; or `{"key": …, "value": …}`.
    pub fn entry<V: ?Sized + Held>(&mut self, key: &[u8], value: &V) -> Result<(), Error> {
        if self.json {
            let document = self.entry_json(key, value)?;
            return self.document(&document);
        }
        let key = self.form.show(key).map_err(Error::Usage)?;
        self.fields(&[&key, &value.text()])
    }

    /// An entry as a document.
    pub fn entry_json<V: ?Sized + Held>(&self, key: &[u8], value: &V) -> Result<Value, Error> {
        Ok(serde_json::json!({ "key": self.key_json(key)?, "value": value.json() }))
    }

    /// A key as a part of a document.
    pub fn key_json(&self, key: &[u8]) -> Result<Value, Error> {
        self.form.json(key).map_err(Error::Usage)
    }

    /// Text for people.
    pub fn text(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Everything must have gone out before a command succeeds.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }
}
