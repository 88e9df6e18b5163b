//! Tells the kind of a file by its first bytes: text or MRT.

use std::io::{self, BufRead, Cursor, Read};

use sapwood_input::peek;

/// The form in which a file has routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of a prefix and a next hop.
    Text,
    /// MRT records.
    Mrt,
}

/// Tells MRT from text by the first 12 bytes: an MRT header has bytes of zero, a text has none.
/// What begins with a mark of UTF-16 is a text, which no reader takes.
///
/// # Errors
///
/// When the first bytes cannot be read.
pub fn format_of<'a>(input: impl BufRead + 'a) -> io::Result<(Format, Box<dyn BufRead + 'a>)> {
    let (start, rest) = peek(12, input)?;
    let is_utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    let format = match start.contains(&0) && !is_utf16 {
        true => Format::Mrt,
        false => Format::Text,
    };
    Ok((format, Box::new(Cursor::new(start).chain(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"10.0.0.0/8 a\n";

    #[test]
    fn text_and_mrt_are_told_apart() {
        for (input, format) in [
            (TEXT, Format::Text),
            (b"", Format::Text),
            (b"::/0", Format::Text),
            (b"\xff\xfe1\0", Format::Text),
            (&[1, 2, 3, 4, 0, 13, 0, 1, 0, 0, 0, 9, 7], Format::Mrt),
            (&[0], Format::Mrt),
        ] {
            let (told, mut rest) = format_of(input).unwrap();
            assert_eq!(told, format);
            let mut whole = Vec::new();
            rest.read_to_end(&mut whole).unwrap();
            assert_eq!(whole, input);
        }
    }
}
