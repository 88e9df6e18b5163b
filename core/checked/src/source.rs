//! What a checked reader is made over: the memory of a map, and what can be wrong with it.

use std::fmt;

use sapwood_format::Window;

/// The memory of a map that a [`CheckedReader`](crate::CheckedReader) reads. The reader opens it
/// anew for each attempt of an operation, because the map may move to other memory.
pub trait Source {
    /// The memory, which begins with the map's header page. A clone reads the same memory.
    type Window: Window + Clone;
    /// The error of the reader's operations.
    type Error;

    /// The memory where the map is now, and who publishes the map.
    ///
    /// # Errors
    /// When there is no map any more.
    fn open(&self) -> Result<(Self::Window, Publisher), Self::Error>;

    /// The error of an operation that met this trouble.
    fn error(&self, trouble: Trouble) -> Self::Error;

    /// Asks for the length of the memory anew, as it may have grown. The reader calls this after an
    /// attempt that met trouble, before the next one.
    fn refresh(&self) {}

    /// Checks that what was read since [`open`](Self::open) may be used. The reader calls this
    /// after each attempt to read, before it returns an answer, and returns the error instead of
    /// the answer. A reader that can be evicted returns an error here once it was.
    ///
    /// # Errors
    /// When nothing that was read may be used.
    fn still_valid(&self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<S: Source + ?Sized> Source for &S {
    type Window = S::Window;
    type Error = S::Error;

    fn open(&self) -> Result<(S::Window, Publisher), S::Error> {
        (**self).open()
    }

    fn error(&self, trouble: Trouble) -> S::Error {
        (**self).error(trouble)
    }

    fn refresh(&self) {
        (**self).refresh();
    }

    fn still_valid(&self) -> Result<(), S::Error> {
        (**self).still_valid()
    }
}

/// Memory that a process publishes and that stays where it is, as a source of readers whose errors
/// are [`Trouble`].
///
/// ```
/// use sapwood_checked::{CheckedReader, Fixed, Trouble};
/// let no_map = [8; 1024];
/// let error = CheckedReader::<_, u64>::new(Fixed(&no_map[..])).unwrap_err();
/// assert!(matches!(error, Trouble::Values(_)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fixed<W>(pub W);

impl<W: Window + Clone> Source for Fixed<W> {
    type Window = W;
    type Error = Trouble;

    fn open(&self) -> Result<(W, Publisher), Trouble> {
        Ok((self.0.clone(), Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Trouble {
        trouble
    }
}

/// The writer of a published map. It decides what the header page says of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// A process, by `build_in`. The header page has the layout hash of the values, which may be
    /// byte strings.
    Process,
    /// Programs in the kernel. The header page has the bytes of a value alone.
    Programs,
}

/// Why a checked read failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The bytes at this place of the window break the format.
    Damaged(&'static str, usize),
    /// A change disturbed the read.
    Changed,
    /// The values are of another type than the reader's.
    Values(Values),
    /// The map has only an index, and so no order.
    NoOrder,
}

/// The values of a map that a reader of another type met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// They are byte strings.
    Strings,
    /// They have this many bytes each.
    Bytes(usize),
    /// They have as many bytes as the reader's, and another layout hash.
    Layout {
        /// The bytes of a value.
        bytes: usize,
        /// The layout hash in the header page.
        hash: u64,
    },
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Strings => f.write_str("they are byte strings"),
            Values::Bytes(bytes) => write!(f, "they have {bytes} bytes each"),
            Values::Layout { bytes, hash } => {
                let other = "but another alignment or layout";
                write!(f, "they have {bytes} bytes, {other} ({hash:#018x})")
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Damaged(why, at) => write!(f, "damaged at byte {at}: {why}"),
            Trouble::Changed => f.write_str("the map was changed during each attempt to read it"),
            Trouble::Values(values) => write!(f, "the values are of another type: {values}"),
            Trouble::NoOrder => f.write_str("the map has only an index, and so no order"),
        }
    }
}

impl std::error::Error for Trouble {}

/// The maximum number of attempts of an operation that changes disturb.
pub const TRIES: usize = 64;
/// The same of one that meets what looks damaged.
const TRIES_DAMAGED: usize = 4;

/// Repeats an attempt, which opens the source and reads, until no change disturbs it: at most
/// [`TRIES`] times.
///
/// # Errors
/// The error that the source makes of the last trouble; its own errors.
pub fn attempts<S: Source, R>(
    source: &S,
    mut attempt: impl FnMut() -> Result<Result<R, Trouble>, S::Error>,
) -> Result<R, S::Error> {
    let mut damaged = 0;
    let mut last = Trouble::Changed;
    for _ in 0..TRIES {
        let result = attempt()?;
        source.still_valid()?;
        match result {
            Ok(result) => return Ok(result),
            Err(trouble) => last = trouble,
        }
        source.refresh();
        damaged += usize::from(last != Trouble::Changed);
        if damaged == TRIES_DAMAGED {
            break;
        }
    }
    Err(source.error(last))
}
