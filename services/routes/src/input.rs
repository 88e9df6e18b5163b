//! Tells the kind of a file by its first bytes: compressed or not, text or MRT.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

/// Bytes of one read.
const BUFFER: usize = 1 << 16;

/// The form in which a file has routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of a prefix and a next hop.
    Text,
    /// MRT records.
    Mrt,
}

/// Returns a reader that decompresses an input of gzip or bzip2, and reads any other input
/// unchanged.
///
/// # Errors
///
/// When the first bytes cannot be read. A later fault is an error of the returned reader.
pub fn decompressed<'a>(input: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let (start, rest) = peek(3, input)?;
    let kind = match start[..] {
        [0x1f, 0x8b, ..] => 1,
        [b'B', b'Z', b'h'] => 2,
        _ => 0,
    };
    let input = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(rest));
    Ok(match kind {
        1 => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input))),
        2 => Box::new(BufReader::with_capacity(BUFFER, MultiBzDecoder::new(input))),
        _ => Box::new(input),
    })
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

/// Takes the first `many` bytes, or all bytes if the input is shorter.
fn peek<R: Read>(many: u64, mut input: R) -> io::Result<(Vec<u8>, R)> {
    let mut start = Vec::new();
    input.by_ref().take(many).read_to_end(&mut start)?;
    Ok((start, input))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"10.0.0.0/8 a\n";

    fn all(input: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompressed(input)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn compressed_input_is_decompressed() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(TEXT).unwrap();
        let gz = gz.finish().unwrap();
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bz.write_all(TEXT).unwrap();
        let bz = bz.finish().unwrap();
        for input in [TEXT, &gz, &bz] {
            assert_eq!(all(input).unwrap(), TEXT);
        }
        // A file of several parts is read as one text.
        for part in [&gz, &bz] {
            let twice = [&part[..], part].concat();
            assert_eq!(all(&twice).unwrap(), [TEXT, TEXT].concat());
            assert!(all(&part[..part.len() - 3]).is_err());
            let mut flipped = part.clone();
            flipped[part.len() / 2] ^= 0x10;
            assert!(all(&flipped).is_err());
        }
        for short in [&b""[..], b"B", b"\x1f", b"BZ"] {
            assert_eq!(all(short).unwrap(), short);
        }
    }

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
