//! The errors of saved files.

use alloc::string::String;
use std::path::{Path, PathBuf};

use sapwood_arena::{ArenaFull, HeaderError};
use sapwood_format::header;
use sapwood_qsbr::GarbageLimit;

use crate::raw::asked::{Asked, BYTE_STRINGS};

/// The error of saving a map: the path and the cause. The old file, if there is one, is unchanged.
///
/// Its `Display` text names the path and the cause.
///
/// ```
/// use sapwood::qp::{QpMap, SaveCause};
/// let refused = QpMap::from([("ash", 1u64)]).save("no/such/folder/map").unwrap_err();
/// assert!(refused.to_string().starts_with("cannot save no/such/folder/map: "));
/// let SaveCause::Io(error) = refused.cause else { panic!("the directory is not there") };
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot save {}: {cause}", .path.display())]
#[non_exhaustive]
pub struct SaveError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// Why it was not written.
    pub cause: SaveCause,
}

/// Why a map could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveCause {
    /// There is no memory for the image.
    #[error(transparent)]
    ArenaFull(ArenaFull),
    /// The system refused: a directory that is not there, a full disk, no permission.
    #[error(transparent)]
    Io(std::io::Error),
}

impl SaveError {
    /// Adds the path of the file to a cause.
    #[doc(hidden)]
    pub fn at(path: &Path) -> impl FnOnce(SaveCause) -> Self {
        move |cause| SaveError {
            path: path.to_owned(),
            cause,
        }
    }
}

/// Why a table refused the entries of a sound file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no memory for them.
    #[error(transparent)]
    ArenaFull(#[from] ArenaFull),
    /// Memory that waits for readers has reached the hard limit of the domain.
    #[error(transparent)]
    GarbageLimit(#[from] GarbageLimit),
    /// An entry is one that the table never takes.
    #[error("{0}")]
    Refused(String),
}

/// The error of opening a file: the path and the cause.
///
/// Its `Display` text names the path and the cause.
///
/// ```
/// use sapwood::qp::{OpenCause, QpFile};
/// let refused = QpFile::<u64>::open("no/such/file").unwrap_err();
/// assert!(refused.to_string().starts_with("cannot open no/such/file: "));
/// assert!(matches!(refused.cause, OpenCause::Image(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot open {}: {cause}", .path.display())]
#[non_exhaustive]
pub struct OpenError {
    /// The file that was to be opened.
    pub path: PathBuf,
    /// Why it was not opened.
    pub cause: OpenCause,
}

impl OpenError {
    /// Adds the path of the file to a cause.
    #[doc(hidden)]
    pub fn at(path: &Path) -> impl FnOnce(OpenCause) -> Self {
        move |cause| OpenError {
            path: path.to_owned(),
            cause,
        }
    }
}

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenCause {
    /// The file is not a saved arena, or it is torn, damaged or from another program; or the system
    /// refused to open it.
    #[error(transparent)]
    Image(#[from] sapwood_arena::OpenError),
    /// The checksums are right, but the bytes are not a valid map.
    #[error("not a valid map: {0}")]
    Corrupt(String),
    /// The file is right, but the table that was to load it refused its entries.
    #[error("the table cannot be filled: {0}")]
    Table(TableError),
    /// The file has values of another size or alignment than the type that was asked for.
    #[error(
        "the file has values of {size} bytes, aligned to {align}; {asked} has {} bytes, aligned to \
         {}", .wanted.0, .wanted.1
    )]
    Values {
        /// Bytes of a value in the file.
        size: usize,
        /// Their alignment.
        align: usize,
        /// The type that was asked for.
        asked: &'static str,
        /// Its size and alignment.
        wanted: (usize, usize),
    },
    /// The file's values are byte strings, as those of `QpMap<[u8]>` are, but the caller
    /// asked for values of a type.
    #[error("the file has byte strings for values, as a map of [u8] has; not {asked}")]
    ByteStrings {
        /// The type that was asked for.
        asked: &'static str,
    },
    /// The caller asked for byte strings, but the file has values of one size.
    #[error("the file has values of {size} bytes, aligned to {align}, and not byte strings")]
    NotByteStrings {
        /// Bytes of a value in the file.
        size: usize,
        /// Their alignment.
        align: usize,
    },
    /// An earlier version of this library saved the map, in a format that this version does not
    /// read.
    #[error("the map was saved in format {found}; this library reads format {reads}: save it anew")]
    OldFormat {
        /// The number of the file's format.
        found: u64,
        /// The number of the format that is read.
        reads: u64,
    },
    /// An earlier version of this project made the file, in a format that nothing reads any more.
    #[error("the file is {file}, of an earlier version; {remedy}")]
    OldFile {
        /// What the file is.
        file: &'static str,
        /// How a file of today's format is made.
        remedy: &'static str,
    },
    /// The file is sound as far as its header says, but of another kind.
    #[error("the file is {kind}")]
    OtherKind {
        /// The kind, and the type that opens it.
        kind: &'static str,
    },
    /// The file is sound, but it has an entry of a kind that the caller does not hold.
    #[error("the file has {0}")]
    NotHeld(String),
}

impl OpenCause {
    /// Whether the file is sound, but of another kind of structure or with other values.
    ///
    /// O(1).
    pub fn is_other_layout(&self) -> bool {
        use sapwood_arena::OpenError;
        matches!(
            self,
            OpenCause::Image(OpenError::Header(HeaderError::Layout { .. }))
                | OpenCause::Values { .. }
                | OpenCause::ByteStrings { .. }
                | OpenCause::NotByteStrings { .. }
                | OpenCause::OtherKind { .. }
        )
    }

    /// The cause for an error of the image, which may be the layout of another kind of file.
    #[doc(hidden)]
    pub fn of_image(error: sapwood_arena::OpenError) -> Self {
        let sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. }) = error else {
            return OpenCause::Image(error);
        };
        let maps = |size, align| header::layout_hash(size, align, header::FORMAT);
        let names = |size, align| header::layout_hash(size, align, header::INLINE_FORMAT);
        let shared = |size, align| header::layout_hash(size, align, header::SHARED_FORMAT);
        let kind = if (1..=header::ROUTES_FORMAT).any(|format| found == header::routes_hash(format))
        {
            "a table of routes, which FibFile opens"
        } else if values_of(found, header::ranges_hash).is_some() {
            "a map of ranges, which MapleFile opens"
        } else if values_of(found, header::bits_hash).is_some() {
            "a table of bit strings, which BitFile opens"
        } else if values_of(found, maps).is_some() {
            "a map of names or a table of bit strings, which QpFile or BitFile opens"
        } else if values_of(found, names).is_some() {
            "a map of names, which QpFile opens"
        } else if values_of(found, shared).is_some() {
            "a published shared map, which CheckedReader reads"
        } else {
            return OpenCause::Image(error);
        };
        OpenCause::OtherKind { kind }
    }

    /// The cause for a file whose layout is that of other values; `None` if it is not such a
    /// layout.
    #[doc(hidden)]
    pub fn other_values(
        found: u64,
        asked: Asked,
        layout: impl Fn(usize, usize) -> u64,
    ) -> Option<Self> {
        let (size, align) = values_of(found, layout)?;
        let name = asked.name;
        Some(match asked.values {
            // No type has this size and this alignment.
            _ if (size, align) == BYTE_STRINGS => OpenCause::ByteStrings { asked: name },
            None => OpenCause::NotByteStrings { size, align },
            Some(wanted) => OpenCause::Values {
                size,
                align,
                asked: name,
                wanted,
            },
        })
    }
}

/// The size and the alignment of the values of a layout, if it is one of these.
fn values_of(found: u64, layout: impl Fn(usize, usize) -> u64) -> Option<(usize, usize)> {
    let aligns = [1, 2, 4, 8];
    let mut all = (0..=4096).flat_map(|size| aligns.map(|align| (size, align)));
    all.find(|(size, align)| layout(*size, *align) == found)
}
