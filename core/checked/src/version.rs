//! One version of a store.

use std::fmt;

use sapwood_format::{Window, header};

use crate::source::attempts;
use crate::{Publisher, Source, Trouble};

/// The source of one version of a store, which
/// [`CheckedReader::snapshot`](crate::CheckedReader::snapshot) makes.
pub struct Version<'a, S: Source> {
    source: &'a S,
    window: VersionWindow<S::Window>,
    publisher: Publisher,
}

impl<'a, S: Source> Version<'a, S> {
    pub(crate) fn newest(source: &'a S) -> Result<Self, S::Error> {
        attempts(source, || {
            let root = match root_of(&source.open()?.0) {
                Ok(root) => root,
                Err(trouble) => return Ok(Err(trouble)),
            };
            // Memory that is opened after the root was read has all that the root leads to: it may
            // have grown for this version.
            let (window, publisher) = source.open()?;
            Ok(match root_of(&window) {
                Ok(now) if now == root => Ok(Version {
                    source,
                    window: VersionWindow { root, window },
                    publisher,
                }),
                Ok(_) => Err(Trouble::Changed),
                Err(trouble) => Err(trouble),
            })
        })
    }
}

/// The root word of a store.
fn root_of(window: &impl Window) -> Result<u64, Trouble> {
    match window.len() {
        header::PAGE.. => Ok(window.u64(ROOT)),
        len => Err(Trouble::Damaged("no room for a header page", len)),
    }
}

impl<S: Source> Source for Version<'_, S> {
    type Window = VersionWindow<S::Window>;
    type Error = S::Error;

    fn open(&self) -> Result<(Self::Window, Publisher), S::Error> {
        Ok((self.window.clone(), self.publisher))
    }

    fn error(&self, trouble: Trouble) -> S::Error {
        self.source.error(trouble)
    }

    fn refresh(&self) {
        self.source.refresh();
    }

    fn still_valid(&self) -> Result<(), S::Error> {
        self.source.still_valid()
    }
}

impl<S: Source> fmt::Debug for Version<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("root", &self.window.root)
            .finish_non_exhaustive()
    }
}

/// The place of the root word.
const ROOT: usize = header::root_at(header::ROOT);

/// The window of a store with the root word of one version.
#[derive(Clone, Debug)]
pub struct VersionWindow<W> {
    window: W,
    root: u64,
}

impl<W: Window> Window for VersionWindow<W> {
    #[inline]
    fn len(&self) -> usize {
        self.window.len()
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        self.window.u32(at)
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        match at {
            ROOT => self.root,
            _ => self.window.u64(at),
        }
    }
}
