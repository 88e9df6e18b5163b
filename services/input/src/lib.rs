//! Inputs of readers: decompressed while they are read, counted, and within a limit.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

/// Bytes of one read.
const BUFFER: usize = 1 << 16;

/// Returns a reader that decompresses an input of gzip or bzip2, and reads any other input
/// unchanged. The first bytes say what it is. A file of several parts is one text.
///
/// `most` is the most bytes that a compressed input may have when it is decompressed. Without it, a
/// small file may stand for as many bytes as its writer wants. Inputs that are not compressed have
/// no limit.
///
/// It keeps some blocks of 64 KiB in memory, and 4 MiB while it reads bzip2.
///
/// ```
/// use std::io::Read;
///
/// let mut text = String::new();
/// sapwood_input::decompressed(&b"a.example\n"[..], Some(5))?.read_to_string(&mut text)?;
/// assert_eq!(text, "a.example\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// When the first bytes cannot be read. A later fault is an error of the returned reader: the input
/// is cut or damaged, or it has more bytes than `most`.
pub fn decompressed<'a>(
    input: impl Read + 'a,
    most: Option<u64>,
) -> io::Result<Box<dyn BufRead + 'a>> {
    let (start, rest) = peek(3, input)?;
    let kind = match start[..] {
        [0x1f, 0x8b, ..] => 1,
        [b'B', b'Z', b'h'] => 2,
        _ => 0,
    };
    let input = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(rest));
    Ok(match kind {
        1 => within(MultiGzDecoder::new(input), most),
        2 => within(MultiBzDecoder::new(input), most),
        _ => Box::new(input),
    })
}

fn within<'a>(input: impl Read + 'a, most: Option<u64>) -> Box<dyn BufRead + 'a> {
    let most = most.unwrap_or(u64::MAX);
    let left = most;
    Box::new(BufReader::with_capacity(
        BUFFER,
        Within { input, most, left },
    ))
}

/// A reader that fails when its input has more bytes than a limit.
struct Within<R> {
    input: R,
    most: u64,
    left: u64,
}

impl<R: Read> Read for Within<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                let what = format!(
                    "it has more than {} bytes when it is decompressed, which is the limit",
                    self.most
                );
                return Err(io::Error::other(what));
            }
        }
        Ok(read)
    }
}

/// Takes the first `many` bytes, or all bytes if the input is shorter. Returns them, and the rest
/// of the input.
///
/// O(`many`).
///
/// ```
/// let (start, rest) = sapwood_input::peek(2, &b"abc"[..])?;
/// assert_eq!((&start[..], rest), (&b"ab"[..], &b"c"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of the input.
pub fn peek<R: Read>(many: u64, mut input: R) -> io::Result<(Vec<u8>, R)> {
    let mut start = Vec::new();
    input.by_ref().take(many).read_to_end(&mut start)?;
    Ok((start, input))
}

/// A reader that counts the bytes of its input: those of a file, before decompression.
///
/// ```
/// use std::io::Read;
/// use std::rc::Rc;
///
/// let count = Rc::default();
/// let mut input = sapwood_input::Counted::new(&b"abc"[..], Rc::clone(&count));
/// input.read_exact(&mut [0; 2])?;
/// assert_eq!(count.get(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Counted<R> {
    input: R,
    count: Rc<Cell<u64>>,
}

impl<R> Counted<R> {
    /// Adds the bytes that are read of `input` to `count`.
    ///
    /// O(1).
    pub fn new(input: R, count: Rc<Cell<u64>>) -> Self {
        Counted { input, count }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"10.0.0.0/8 a\n";

    fn all(input: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompressed(input, None)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn gz(text: &[u8]) -> Vec<u8> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text).unwrap();
        gz.finish().unwrap()
    }

    fn bz(text: &[u8]) -> Vec<u8> {
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bz.write_all(text).unwrap();
        bz.finish().unwrap()
    }

    #[test]
    fn compressed_input_is_decompressed() {
        let (gz, bz) = (gz(TEXT), bz(TEXT));
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
    fn a_bomb_ends_at_the_limit_and_not_before() {
        // Bytes that compress a thousandfold, in two parts.
        let text = vec![b'a'; 1 << 20];
        for part in [gz(&text), bz(&text)] {
            let bomb = [&part[..], &part].concat();
            assert!(bomb.len() < text.len() / 100, "{}", bomb.len());
            for (most, fits) in [(Some(2 << 20), true), (None, true), (Some(1 << 20), false)] {
                let count = Rc::default();
                let input = Counted::new(&bomb[..], Rc::clone(&count));
                let mut input = decompressed(input, most).unwrap();
                let mut out = Vec::new();
                let read = input.read_to_end(&mut out);
                match fits {
                    true => assert_eq!(read.unwrap(), 2 << 20),
                    false => assert_eq!(
                        read.unwrap_err().to_string(),
                        "it has more than 1048576 bytes when it is decompressed, which is the limit"
                    ),
                }
                assert_eq!(out.len() > 1 << 20, fits);
                assert_eq!(count.get(), bomb.len() as u64);
            }
        }
        let mut text = Vec::new();
        let plain = decompressed(TEXT, Some(1)).unwrap().read_to_end(&mut text);
        assert_eq!(plain.unwrap(), TEXT.len(), "it is not compressed");
    }
}

/// The README, so that its example is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
