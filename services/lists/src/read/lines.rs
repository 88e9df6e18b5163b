//! Lines of a text, in bounded memory.

use std::io::{self, BufRead, Read};

/// The longest line that is read, in bytes. Longer ones are skipped, and count as lines that are
/// not understood.
pub const MAX_LINE: usize = 1 << 16;

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Its length, which is greater than [`MAX_LINE`].
    TooLong(u64),
}

/// A reader of lines.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Lines that were read.
    pub number: u64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines {
            input,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// Those of the input.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let most = MAX_LINE as u64 + 1;
        let read = (&mut self.input)
            .take(most)
            .read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            return Ok(Some(Line::Whole(&self.buffer)));
        }
        if read <= MAX_LINE {
            return Ok(Some(Line::Whole(&self.buffer)));
        }
        let rest = self.input.skip_until(b'\n')? as u64;
        Ok(Some(Line::TooLong(read as u64 + rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_end() {
        let long = [vec![b'x'; MAX_LINE], b"\ny\n".to_vec()].concat();
        let longer = [vec![b'x'; MAX_LINE + 1], b"\ny".to_vec()].concat();
        let texts: [(&[u8], Vec<Line<'_>>); 5] = [
            (b"", vec![]),
            (
                b"a\n\nb",
                vec![Line::Whole(b"a"), Line::Whole(b""), Line::Whole(b"b")],
            ),
            (b"a\r\n", vec![Line::Whole(b"a\r")]),
            (
                &long,
                vec![Line::Whole(&long[..MAX_LINE]), Line::Whole(b"y")],
            ),
            (
                &longer,
                vec![Line::TooLong(MAX_LINE as u64 + 2), Line::Whole(b"y")],
            ),
        ];
        for (text, expected) in texts {
            let mut lines = Lines::new(text);
            for line in &expected {
                assert_eq!(lines.read().unwrap().as_ref(), Some(line));
            }
            assert_eq!(lines.read().unwrap(), None);
            assert_eq!(lines.number, expected.len() as u64);
        }
    }
}
