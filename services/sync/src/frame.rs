//! The entries of a log.
//!
//! A frame has one or several whole commits, or a piece of a commit that is too long for one frame.
//! All numbers of its head are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | `SWL` and the format, 1 |
//! | 4 | the kind of the map |
//! | 5 | 0, or 1 for a piece of a commit, or 2 for the last piece |
//! | 6, 7 | how many commits, or the number of the piece |
//! | 8 to 15 | the leader's term |
//! | 16 to 23 | the number of the first commit |
//! | 24 … | the commits, each with the number of its changes, their bytes, and the digest of the map |
//! | last 16 | the first half of the BLAKE3 hash of all before |

use crate::changes::{push_number, take_bytes, take_number};
use crate::{Changes, Digest, Error, Kind};

/// The format that this version writes and reads.
pub const FORMAT: u8 = 1;
/// The bytes of a frame besides those of its commits.
pub const OVERHEAD: usize = HEAD + SUM;
const HEAD: usize = 24;
const SUM: usize = 16;
/// The most commits in a frame.
pub const MOST_COMMITS: usize = u16::MAX as usize;

/// One commit, with the digest of the map after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// What it changes.
    pub changes: Changes,
    /// The digest of the map after it.
    pub digest: Digest,
}

/// What a frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// So many whole commits.
    Whole(u16),
    /// The piece of this number of one commit, and whether it is the last.
    Piece(u16, bool),
}

/// One entry of a log: whole commits, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Vec<u8>,
    kind: Kind,
    part: Part,
    epoch: u64,
    first: u64,
}

impl Frame {
    /// The frames of commits, of which `first` is the number of the first one. Small commits travel
    /// together, as many as fit into `limit` bytes; a larger one is cut into pieces.
    ///
    /// # Errors
    /// [`Error::Change`] when a commit would be more than 65,536 pieces.
    pub fn of_commits(
        kind: Kind,
        epoch: u64,
        mut first: u64,
        commits: &[Commit],
        limit: usize,
    ) -> Result<Vec<Frame>, Error> {
        assert!(limit > OVERHEAD, "frames of {limit} bytes hold nothing");
        let room = limit - OVERHEAD;
        let mut frames = Vec::new();
        let (mut body, mut count) = (Vec::new(), 0u16);
        for commit in commits {
            let mut bytes = Vec::with_capacity(commit.changes.bytes().len() + 32);
            push_number(&mut bytes, commit.changes.len() as u64);
            push_number(&mut bytes, commit.changes.bytes().len() as u64);
            bytes.extend_from_slice(commit.changes.bytes());
            bytes.extend_from_slice(&commit.digest.0.to_le_bytes());
            let is_full = usize::from(count) == MOST_COMMITS;
            if count > 0 && (body.len() + bytes.len() > room || is_full) {
                frames.push(Self::sealed(kind, Part::Whole(count), epoch, first, &body));
                first += u64::from(count);
                body.clear();
                count = 0;
            }
            if bytes.len() <= room {
                body.extend_from_slice(&bytes);
                count += 1;
                continue;
            }
            let pieces = bytes.chunks(room).len();
            for (number, piece) in bytes.chunks(room).enumerate() {
                let Ok(number) = u16::try_from(number) else {
                    return Err(Error::Change(format!(
                        "commit {first} has {} bytes, too many for pieces of {room}",
                        bytes.len()
                    )));
                };
                let part = Part::Piece(number, usize::from(number) + 1 == pieces);
                frames.push(Self::sealed(kind, part, epoch, first, piece));
            }
            first += 1;
        }
        if count > 0 {
            frames.push(Self::sealed(kind, Part::Whole(count), epoch, first, &body));
        }
        Ok(frames)
    }

    fn sealed(kind: Kind, part: Part, epoch: u64, first: u64, body: &[u8]) -> Frame {
        let mut bytes = Vec::with_capacity(body.len() + OVERHEAD);
        bytes.extend_from_slice(b"SWL");
        let (tag, number) = match part {
            Part::Whole(count) => (0, count),
            Part::Piece(number, is_last) => (1 + u8::from(is_last), number),
        };
        bytes.extend_from_slice(&[FORMAT, kind as u8, tag]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&epoch.to_le_bytes());
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&sum(&bytes));
        Frame {
            bytes,
            kind,
            part,
            epoch,
            first,
        }
    }

    /// A frame from bytes that a log had at a place, which errors name.
    ///
    /// # Errors
    /// [`Error::Newer`] for a later format, [`Error::Damaged`].
    pub fn from_bytes(bytes: Vec<u8>, place: &str) -> Result<Frame, Error> {
        let damaged = |what: &str| Error::damaged(place, what);
        let head = bytes
            .first_chunk::<HEAD>()
            .ok_or_else(|| damaged("too short for an entry of a log"))?;
        if &head[..3] != b"SWL" {
            return Err(damaged("no entry of a log of Sapwood"));
        }
        if head[3] > FORMAT {
            return Err(Error::Newer {
                place: place.into(),
                found: head[3].into(),
                known: FORMAT.into(),
            });
        }
        let (content, found) = bytes
            .split_last_chunk::<SUM>()
            .filter(|(content, _)| content.len() >= HEAD && head[3] == FORMAT)
            .ok_or_else(|| damaged("too short for an entry of a log"))?;
        if sum(content) != *found {
            return Err(damaged("the checksum is wrong"));
        }
        let kind = Kind::from_byte(head[4]).ok_or_else(|| damaged("an unknown kind of map"))?;
        let number = u16::from_le_bytes([head[6], head[7]]);
        let part = match head[5] {
            0 if number > 0 => Part::Whole(number),
            tag @ (1 | 2) => Part::Piece(number, tag == 2),
            _ => return Err(damaged("neither commits nor a piece of one")),
        };
        let word = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("8 bytes"));
        let (epoch, first) = (word(8), word(16));
        if first == 0 || first.checked_add(number.into()).is_none() {
            return Err(damaged("a commit with an impossible number"));
        }
        Ok(Frame {
            kind,
            part,
            epoch,
            first,
            bytes,
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is in the map.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The leader's term.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of its first commit, or of the commit of which it is a piece.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of the newest commit that is whole with this frame: one less than
    /// [`first`](Self::first) for all pieces but the last.
    pub fn last(&self) -> u64 {
        match self.part {
            Part::Whole(count) => self.first + u64::from(count) - 1,
            Part::Piece(_, is_last) => self.first - u64::from(!is_last),
        }
    }

    /// Whether a map at a commit needs this frame no more.
    pub fn is_old(&self, commit: u64) -> bool {
        self.first.max(self.last()) <= commit
    }

    /// The number of this piece of a commit; 0 for whole commits.
    pub fn piece(&self) -> u16 {
        match self.part {
            Part::Whole(_) => 0,
            Part::Piece(number, _) => number,
        }
    }

    /// Whether this is a piece of a commit.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_piece(&self) -> bool {
        matches!(self.part, Part::Piece(..))
    }

    fn body(&self) -> &[u8] {
        &self.bytes[HEAD..self.bytes.len() - SUM]
    }
}

/// Frames in, whole commits out.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The pieces so far of a commit: term, number, how many pieces, their bytes.
    pieces: Option<(u64, u64, u16, Vec<u8>)>,
}

impl Assembler {
    /// The commits that a frame completes, with the number of the first.
    ///
    /// Pieces that a later term began anew are forgotten: their leader was deposed before the
    /// commit was whole.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are no commits, or a piece is missing.
    pub fn push(&mut self, frame: &Frame, place: &str) -> Result<(u64, Vec<Commit>), Error> {
        let (count, whole);
        let body = match frame.part {
            Part::Whole(n) => {
                self.pieces = None;
                count = n;
                frame.body()
            }
            Part::Piece(number, is_last) => {
                let place_of = (frame.epoch, frame.first);
                let mut there = match self.pieces.take() {
                    _ if number == 0 => Vec::new(),
                    Some((epoch, first, next, bytes))
                        if (epoch, first) == place_of && next == number =>
                    {
                        bytes
                    }
                    _ => {
                        let what = format!("piece {number} does not follow another one");
                        return Err(Error::damaged(place, what));
                    }
                };
                there.extend_from_slice(frame.body());
                if !is_last {
                    let next = number.wrapping_add(1);
                    self.pieces = Some((frame.epoch, frame.first, next, there));
                    return Ok((frame.first, Vec::new()));
                }
                count = 1;
                whole = there;
                &whole[..]
            }
        };
        let commits = commits_of(body, count)
            .ok_or_else(|| Error::damaged(place, "the bytes are no commits"))?;
        Ok((frame.first, commits))
    }
}

fn commits_of(mut body: &[u8], count: u16) -> Option<Vec<Commit>> {
    let mut commits = Vec::new();
    for _ in 0..count {
        let changes = usize::try_from(take_number(&mut body)?).ok()?;
        let bytes = take_number(&mut body)?;
        let bytes = take_bytes(&mut body, bytes)?.to_vec();
        let changes = Changes::from_bytes(bytes, changes)?;
        let digest = take_bytes(&mut body, 16)?.try_into().expect("16 bytes");
        commits.push(Commit {
            changes,
            digest: Digest(u128::from_le_bytes(digest)),
        });
    }
    body.is_empty().then_some(commits)
}

/// The checksum of bytes.
fn sum(bytes: &[u8]) -> [u8; SUM] {
    *blake3::hash(bytes)
        .as_bytes()
        .first_chunk()
        .expect("32 bytes")
}
