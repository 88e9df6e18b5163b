//! Lines of a text, in bounded memory.

use std::io::{self, BufRead, Read};

use crate::{Error, Place};

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 1 << 16;

/// Reads lines of UTF-8.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    line: String,
    /// Where the text of the line begins, after a byte order mark.
    begins: usize,
    number: u64,
    partial: bool,
    cut: bool,
}

impl<R: BufRead> Lines<R> {
    /// With `partial`, an input that ends too early ends before the line that it cuts.
    pub(crate) fn new(input: R, partial: bool) -> Self {
        Lines {
            input,
            line: String::new(),
            begins: 0,
            number: 0,
            partial,
            cut: false,
        }
    }

    /// Reads the next line; false at the end.
    pub(crate) fn read(&mut self) -> Result<bool, Error> {
        let mut line = std::mem::take(&mut self.line).into_bytes();
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut line);
        match read {
            Ok(0) => return Ok(false),
            Err(error) if self.is_cut(&error) => return Ok(false),
            read => read?,
        };
        self.number += 1;
        if line.last() != Some(&b'\n') && line.len() > MAX_LINE {
            match self.input.skip_until(b'\n') {
                Err(error) if !self.is_cut(&error) => return Err(error.into()),
                _ => {}
            }
            return Err(self.bad(format!("the line has more than {MAX_LINE} bytes")));
        }
        self.line = String::from_utf8(line).map_err(|error| {
            let bytes = error.as_bytes();
            let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
            let what = if is_utf16 {
                "UTF-16, not UTF-8"
            } else {
                "not UTF-8"
            };
            self.bad(what.into())
        })?;
        let text = match self.number {
            1 => without_mark(&self.line),
            _ => &self.line,
        };
        self.begins = self.line.len() - text.len();
        Ok(true)
    }

    /// Whether the input ends too early, and that is allowed.
    fn is_cut(&mut self, error: &io::Error) -> bool {
        self.cut = self.partial && error.kind() == io::ErrorKind::UnexpectedEof;
        self.cut
    }

    /// The line that was read, without a byte order mark.
    pub(crate) fn text(&self) -> &str {
        self.line[self.begins..].trim_end_matches(['\n', '\r'])
    }

    pub(crate) fn bad(&self, what: String) -> Error {
        Error::Bad(Place {
            unit: "line",
            number: self.number,
            what,
        })
    }

    /// The remark on an end that came too early.
    pub(crate) fn remark(&self) -> Option<(u64, String)> {
        let what = "input that ends too early: what was read before is taken";
        self.cut.then(|| (1, what.into()))
    }
}

/// The first line of a text without the byte order mark that some editors put before it.
///
/// ```
/// use sapwood_routes::without_mark;
///
/// assert_eq!(without_mark("\u{feff}10.0.0.0/8"), "10.0.0.0/8");
/// ```
pub fn without_mark(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

/// The part of a line before its comment. A `#` begins a comment at the beginning of the line or
/// after white space.
///
/// ```
/// use sapwood_routes::without_comment;
///
/// assert_eq!(without_comment("10.0.0.0/8 a#b # a comment"), "10.0.0.0/8 a#b ");
/// ```
pub fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let begins =
        |at: &usize| bytes[*at] == b'#' && (*at == 0 || bytes[*at - 1].is_ascii_whitespace());
    match (0..bytes.len()).find(begins) {
        Some(at) => &line[..at],
        None => line,
    }
}
