//! The structures that can be live: how a writer makes and inherits them, and how readers in other
//! processes see them.

mod names;
mod ranges;
mod tables;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use sapwood::published::Published;
use sapwood::qp::{self, OpenCause};
use sapwood::{Builder, TableError};
use sapwood_arena::{Arena, OpenError};
use sapwood_qsbr::Domain;

use super::window::{LiveSource, LiveWindow};
use crate::error::Error;

pub use names::NameMap;
pub use sapwood::published::PublishedValue as LiveValue;

/// The memory of the parts of a map, each a file.
#[doc(hidden)]
pub trait Memory {
    /// New memory for a part with this layout.
    ///
    /// # Errors
    /// The system's error.
    fn arena(&mut self, part: usize, layout: u64) -> Result<Arena, Error>;
}

/// The files that a dead writer left.
#[derive(Debug)]
#[doc(hidden)]
pub struct Left {
    pub(crate) folder: PathBuf,
    pub(crate) parts: Vec<PathBuf>,
    /// The layouts of the parts.
    pub(crate) layouts: Vec<u64>,
}

impl Left {
    /// The error for what is damaged in a part.
    fn damaged(&self, part: usize, why: impl std::fmt::Display) -> Error {
        let name = self.parts[part].file_name().unwrap_or_default();
        Error::Damaged {
            path: self.folder.clone(),
            why: format!("{}: {why}", Path::new(name).display()),
        }
    }

    /// The error for a part that could not be copied: what is damaged in it, or what this process
    /// lacks.
    fn not_restored(&self, part: usize, cause: OpenCause) -> Error {
        match cause {
            OpenCause::Table(TableError::ArenaFull(full)) => qp::Error::from(full).into(),
            OpenCause::Table(TableError::GarbageLimit(limit)) => qp::Error::from(limit).into(),
            OpenCause::Image(OpenError::Io(error)) => {
                Error::io("reading", &self.parts[part])(error)
            }
            cause => self.damaged(part, cause),
        }
    }

    /// A part, to be read with checks. Nobody writes it any more.
    fn source(&self, part: usize) -> Result<LiveSource, Error> {
        let path = &self.parts[part];
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(LiveSource {
            window: LiveWindow::open(path, true)?,
            of: (0, part),
            name: name.into_owned(),
            folder: self.folder.clone(),
            slot: None,
        })
    }
}

/// A structure that one process can write and others can read in place:
/// [`QpStore`](sapwood::qp::QpStore), [`QpShared`](sapwood::qp::QpShared),
/// [`PointMap`](sapwood::qp::PointMap), [`Fib`](sapwood::lpm::Fib), [`IpFib`](sapwood::lpm::IpFib),
/// [`Routes`](crate::Routes), [`MapleMap`](sapwood::maple::MapleMap). Its values are plain bytes.
///
/// # Safety
/// The reader's half reads what the writer's half publishes, and nothing else; the kind of the
/// structure and the layouts of its parts tell apart what cannot be read as each other.
pub unsafe trait LiveMap: Sized + 'static {
    /// The structure as a [`LiveReader`](crate::LiveReader) shows it.
    type View<'r>: Copy;

    /// The choices that only this structure has; those of [`sapwood::Builder`].
    type Builder: Send;

    /// What a reader keeps of the structure.
    #[doc(hidden)]
    type Attached: Send;

    /// The number of this kind of structure, and its name in messages.
    #[doc(hidden)]
    const KIND: (u64, &'static str);

    /// The layouts of the parts, and of what lies in them.
    #[doc(hidden)]
    fn layouts() -> Vec<u64>;

    /// The layouts of such structures that earlier versions of this library made. Readers read
    /// them, and heirs keep them, since readers with those versions may be there.
    #[doc(hidden)]
    fn earlier_layouts() -> Vec<Vec<u64>> {
        Vec::new()
    }

    /// The number of parts, each with a file of its own.
    #[doc(hidden)]
    fn parts() -> usize {
        Self::layouts().len()
    }

    #[doc(hidden)]
    fn builder() -> Self::Builder;

    /// An empty structure.
    #[doc(hidden)]
    fn create(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error>;

    /// A structure with the entries that a dead writer left, all of which are checked.
    #[doc(hidden)]
    fn inherit(
        builder: Self::Builder,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error>;

    /// # Safety
    /// At each base lies the header page of a published part of such a structure. The memory stays
    /// mapped as long as the result is used, and only the structure's writer changes it.
    /// # Errors
    /// A text that says what is wrong with a header page.
    #[doc(hidden)]
    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<Self::Attached, String>;

    /// # Safety
    /// Until the end of `'r`, the writer frees nothing that is in the structure now or later.
    #[doc(hidden)]
    unsafe fn view<'r>(attached: &'r Self::Attached) -> Self::View<'r>;
}

/// A structure that a [`CheckedLiveReader`](crate::CheckedLiveReader) can read.
pub trait CheckedMap: LiveMap {
    /// The structure as such a reader shows it.
    type Checked<'r>;

    #[doc(hidden)]
    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error>;
}

/// The base of a part, which stays mapped and readable.
#[derive(Debug)]
#[doc(hidden)]
pub struct Base(NonNull<u8>);

// SAFETY: an address. Who follows it is unsafe and promises that the memory is there.
unsafe impl Send for Base {}

/// An empty structure of one part.
fn made<M: Published>(builder: Builder<M>, memory: &mut dyn Memory) -> Result<M, Error> {
    let arena = memory.arena(0, M::layout_hash())?;
    Ok(M::build_in(builder, arena)?)
}
