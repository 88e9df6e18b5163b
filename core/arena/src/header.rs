//! The header page of a memory that other programs may open. It says what the memory is, and
//! whether it is whole.
//!
//! Numbers are little-endian. Bytes from the start of the page, in rows of eight:
//!
//! ```text
//!    0 | magic: "SAPWOOD\0"              |
//!    8 | version: u32  | state: u32      |   state "LIVE": an owner may be writing, no checksums; "SEAL": whole
//!   16 | layout hash                     |   what the structure calls its layout
//!   24 | length                          |   bytes of the whole memory, this page included
//!   32 | frontier                        |   bytes in use
//!   40 | generation                      |   counted by the structure
//!   48 | roots, 8 words                  |
//!  112 | body checksum                   |   XXH3 of everything after this page
//!  120 | header checksum                 |   XXH3 of this page without these 8 bytes
//!  128 | zeros                           |
//! 1024 | words of the structure's own    |   zeros, unless the owner keeps more than eight words here
//!      | to 4096                         |
//! ```

use crate::arena::Arena;
use crate::options::HeaderMode;
use crate::reference::UNIT;
use crate::region::{ArenaFull, PAGE};
use core::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of the header page.
pub const HEADER_LEN: usize = PAGE;
/// The first bytes of the header page.
pub const MAGIC: [u8; 8] = *b"SAPWOOD\0";
/// The version of this header's format.
pub const FORMAT_VERSION: u32 = 1;

/// The offset of the structure's further words: see [`Arena::set_extra`].
pub const EXTRA_AT: usize = 1024;

/// The offset of the roots: see [`Arena::set_roots`].
pub const ROOTS_AT: usize = 48;
const CHECKSUM_AT: usize = 120;
const LIVE: u32 = u32::from_le_bytes(*b"LIVE");
const SEALED: u32 = u32::from_le_bytes(*b"SEAL");

/// The places and numbers of the header page that readers in other languages need, with the names
/// that `doors/go` gives them.
#[doc(hidden)]
pub const HEADER_LAYOUT: [(&str, u64); 11] = [
    ("headerMagic", u64::from_le_bytes(MAGIC)),
    ("headerVersion", FORMAT_VERSION as u64),
    ("headerVersionAt", 8),
    ("headerStateAt", 12),
    ("headerLive", LIVE as u64),
    ("headerSealed", SEALED as u64),
    ("headerLengthAt", 24),
    ("headerFrontierAt", 32),
    ("headerRootsAt", ROOTS_AT as u64),
    ("headerBodySumAt", 112),
    ("headerSumAt", CHECKSUM_AT as u64),
];

/// The content of a header page.
///
/// ```
/// use sapwood_arena::{Header, HEADER_LEN};
/// let mut header = Header::new(0xABCD);
/// header.roots[0] = 42;
/// let image = header.seal(&[1, 2, 3]);
/// assert_eq!(image.len(), HEADER_LEN);
/// let mut whole = image.to_vec();
/// whole.extend([1, 2, 3]);
/// let read = Header::decode(&whole, 0xABCD)?;
/// assert_eq!(read.roots[0], 42);
/// read.check_body(&whole[HEADER_LEN..])?;
/// # Ok::<(), sapwood_arena::HeaderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The format of the page.
    pub version: u32,
    /// Whether the memory is whole and has checksums. If not, an owner may still be writing.
    pub sealed: bool,
    /// The hash by which the structure names its layout.
    pub layout_hash: u64,
    /// Bytes of the whole memory, this page included.
    pub length: u64,
    /// Bytes in use.
    pub frontier: u64,
    /// A number that the structure counts.
    pub generation: u64,
    /// The structure's own words.
    pub roots: [u64; 8],
    /// XXH3 of everything after the page.
    pub body_checksum: u64,
}

/// The reason why a memory is not what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The memory is too short for a header.
    #[error("too short for a header: {len} bytes, not {HEADER_LEN}")]
    TooShort {
        /// Bytes of the memory.
        len: usize,
    },
    /// The memory does not begin with [`MAGIC`].
    #[error("not a sapwood memory: it begins with {found:02x?}")]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// The header has another version of the format.
    #[error("format version {found}, this program reads {expected}")]
    Version {
        /// Version of the memory.
        found: u32,
        /// Version of this library.
        expected: u32,
    },
    /// The memory is that of another structure, or of another version of it.
    #[error("layout {found:#018x}, expected {expected:#018x}")]
    Layout {
        /// Layout of the memory.
        found: u64,
        /// Layout that was asked for.
        expected: u64,
    },
    /// The memory was truncated, or something was added.
    #[error("{actual} bytes, but the header says {stated}")]
    Length {
        /// The header's number.
        stated: u64,
        /// The bytes that there are.
        actual: u64,
    },
    /// The frontier lies beyond the end or inside the header.
    #[error("the frontier {frontier} does not lie within {length} bytes")]
    Frontier {
        /// The bytes in use, according to the header.
        frontier: u64,
        /// Bytes of the memory.
        length: u64,
    },
    /// The memory is neither sealed nor live, or it is live where a whole memory was expected.
    #[error(
        "the memory was not sealed: its writer is still at work, or died (state {found:#010x})"
    )]
    State {
        /// The word found.
        found: u32,
    },
    /// The header was damaged.
    #[error("the header is damaged: its checksum differs")]
    HeaderChecksum,
    /// The memory behind the header was damaged.
    #[error("the contents are damaged: their checksum differs")]
    BodyChecksum,
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn header_checksum(page: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&page[..CHECKSUM_AT]);
    hash.update(&page[CHECKSUM_AT + 8..HEADER_LEN]);
    hash.digest()
}

/// The checksum of the memory behind a header: XXH3, 64 bits.
pub fn body_checksum(body: &[u8]) -> u64 {
    xxh3_64(body)
}

impl Header {
    /// The header of an empty memory with this layout.
    pub fn new(layout_hash: u64) -> Header {
        Header {
            version: FORMAT_VERSION,
            sealed: false,
            layout_hash,
            length: HEADER_LEN as u64,
            frontier: HEADER_LEN as u64,
            generation: 0,
            roots: [0; 8],
            body_checksum: 0,
        }
    }

    /// The page of a whole memory that has `body` behind the page. Fills in length, frontier and
    /// checksums.
    pub fn seal(mut self, body: &[u8]) -> [u8; HEADER_LEN] {
        self.length = (HEADER_LEN + body.len()) as u64;
        self.frontier = self.length;
        self.body_checksum = body_checksum(body);
        self.sealed = true;
        self.encode()
    }

    /// The page with these values. A header that is not sealed gets no checksum.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut page = [0; HEADER_LEN];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&self.version.to_le_bytes());
        page[12..16].copy_from_slice(&(if self.sealed { SEALED } else { LIVE }).to_le_bytes());
        let words = [
            self.layout_hash,
            self.length,
            self.frontier,
            self.generation,
        ];
        let words = words
            .into_iter()
            .chain(self.roots)
            .chain([self.body_checksum]);
        for (i, word) in words.enumerate() {
            page[16 + i * 8..24 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        if self.sealed {
            let sum = header_checksum(&page);
            page[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
        }
        page
    }

    /// Reads the header of a whole, sealed memory; `bytes` is all of it.
    /// [`check_body`](Header::check_body) checks the contents, this does not.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] names the first difference.
    pub fn decode(bytes: &[u8], layout_hash: u64) -> Result<Header, HeaderError> {
        let header = Header::decode_parts(bytes, bytes.len() as u64, layout_hash)?;
        if !header.sealed {
            return Err(HeaderError::State { found: LIVE });
        }
        Ok(header)
    }

    /// Reads the header of a memory of `actual` bytes that begins with `page`. The memory may be
    /// live, and may then be longer than the header says.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] names the first difference.
    pub fn decode_parts(page: &[u8], actual: u64, layout_hash: u64) -> Result<Header, HeaderError> {
        if page.len() < HEADER_LEN {
            return Err(HeaderError::TooShort { len: page.len() });
        }
        let mut found = [0; 8];
        found.copy_from_slice(&page[..8]);
        if found != MAGIC {
            return Err(HeaderError::Magic { found });
        }
        let version = u32_at(page, 8);
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version {
                found: version,
                expected: FORMAT_VERSION,
            });
        }
        let sealed = match u32_at(page, 12) {
            SEALED => true,
            LIVE => false,
            found => return Err(HeaderError::State { found }),
        };
        let header = Header {
            version,
            sealed,
            layout_hash: u64_at(page, 16),
            length: u64_at(page, 24),
            frontier: u64_at(page, 32),
            generation: u64_at(page, 40),
            roots: core::array::from_fn(|i| u64_at(page, ROOTS_AT + i * 8)),
            body_checksum: u64_at(page, 112),
        };
        if header.layout_hash != layout_hash {
            return Err(HeaderError::Layout {
                found: header.layout_hash,
                expected: layout_hash,
            });
        }
        // A live memory grows before its header says so.
        if header.length > actual || (sealed && header.length != actual) {
            return Err(HeaderError::Length {
                stated: header.length,
                actual,
            });
        }
        if sealed && u64_at(page, CHECKSUM_AT) != header_checksum(page) {
            return Err(HeaderError::HeaderChecksum);
        }
        if header.frontier > header.length || header.frontier < HEADER_LEN as u64 {
            return Err(HeaderError::Frontier {
                frontier: header.frontier,
                length: header.length,
            });
        }
        Ok(header)
    }

    /// Checks the contents after the header page.
    ///
    /// # Errors
    ///
    /// [`HeaderError::BodyChecksum`].
    pub fn check_body(&self, body: &[u8]) -> Result<(), HeaderError> {
        if body_checksum(body) != self.body_checksum {
            return Err(HeaderError::BodyChecksum);
        }
        Ok(())
    }
}

impl Arena {
    /// Writes the header page of a fresh arena.
    pub(crate) fn write_header(&mut self) {
        if self.options.header == HeaderMode::Page {
            let page = Header::new(self.options.layout_hash).encode();
            // SAFETY: the region has at least the header's bytes, and nothing else uses them.
            unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), self.base, HEADER_LEN) };
        }
    }

    /// Writes words of the structure's own into the rest of the header page, from [`EXTRA_AT`] on.
    /// They are constants that readers in other languages need, such as the secrets of a hash. Call
    /// it before anybody reads them.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, HeaderMode};
    /// let mut arena = Arena::new(ArenaOptions::default().header(HeaderMode::Page));
    /// arena.set_extra(&[7, 8])?;
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the arena is empty and there is no memory for the header.
    ///
    /// # Panics
    ///
    /// Without a header page, or with more than 384 words.
    pub fn set_extra(&mut self, words: &[u64]) -> Result<(), ArenaFull> {
        let page = self.options.header == HeaderMode::Page;
        assert!(page, "only a header page has room for further words");
        assert!(
            words.len() * 8 <= HEADER_LEN - EXTRA_AT,
            "384 words at most"
        );
        self.start()?;
        for (i, word) in words.iter().enumerate() {
            let at = EXTRA_AT + 8 * i;
            // SAFETY: inside the header page, aligned; others only read these words.
            let place = unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) };
            place.store(*word, Ordering::Release);
        }
        Ok(())
    }

    /// The header of this arena as it is now, with this generation. It is not sealed.
    pub fn header(&self, generation: u64) -> Header {
        let bytes = (self.frontier.max(self.header) as usize * UNIT) as u64;
        Header {
            length: bytes.max(HEADER_LEN as u64),
            frontier: bytes.max(HEADER_LEN as u64),
            generation,
            roots: self.roots(),
            ..Header::new(self.options.layout_hash)
        }
    }

    /// Updates length, frontier and generation of a live header page, for other processes that map
    /// the same file. The roots are current without it. It does nothing with [`HeaderMode::Line`].
    pub fn refresh_header(&mut self, generation: u64) {
        if self.options.header != HeaderMode::Page || self.frontier == 0 {
            return;
        }
        let header = self.header(generation);
        // A reader of a live file must not see a length that the file does not have: the region has
        // grown already.
        for (at, word) in [(24, header.length), (32, header.frontier), (40, generation)] {
            // SAFETY: inside the header page, aligned; others only read these words.
            let word_in_page = unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) };
            word_in_page.store(word.to_le(), Ordering::Release);
        }
    }
}
