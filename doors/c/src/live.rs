//! The directories of live maps, for their writers: options, readers in other processes, the end.

use std::ffi::{c_char, c_int};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use ::sapwood_live::{Error, Live, LiveBuilder, LiveMap, LiveReaderInfo, ReadBy};
use sapwood::qsbr::Domain;

use crate::c_api::c_api;
use crate::domain::{self, sapwood_domain_options};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules};
use crate::input::{self, extensible, given};

/// A live map of any structure, beside the structure's own handle.
pub trait AnyLive: Send + Sync {
    /// See [`Live::readers`].
    fn readers(&self) -> Vec<LiveReaderInfo>;
    /// See [`Live::generation`].
    fn generation(&self) -> u64;
    /// See [`Live::remove_map`].
    fn remove(self: Box<Self>) -> Result<(), Error>;
}

impl<M: LiveMap + Send + Sync> AnyLive for Live<M> {
    fn readers(&self) -> Vec<LiveReaderInfo> {
        Live::readers(self)
    }

    fn generation(&self) -> u64 {
        Live::generation(self)
    }

    fn remove(self: Box<Self>) -> Result<(), Error> {
        (*self).remove_map()
    }
}

/// The inside of the handle of a live map's directory.
pub struct LiveBody {
    /// The map.
    pub live: Box<dyn AnyLive>,
    /// Its domain.
    pub domain: Domain,
    /// Whether its handles are checked.
    pub checked: bool,
}

impl Body for LiveBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swLv");
    const NAME: &'static str = "live map";

    fn leave(self) {
        // `Live` knows of forks, and lets go of the writer's lock. The domain's clone is not the
        // last: the map has one, which is not dropped here.
        drop(self);
    }
}

extensible!(sapwood_live_options);

/// What a writer's functions have in common: the directory, the choices, and what is to be done.
pub struct Plan<'a> {
    folder: &'a Path,
    options: sapwood_live_options,
    domain: sapwood_domain_options,
    take_over: bool,
    /// Whether the handles are checked.
    pub checked: bool,
}

impl<'a> Plan<'a> {
    /// The plan of C. `take_over`: the map of a writer that has ended. `checked`: the flag of the
    /// structure's own options.
    ///
    /// # Safety
    /// C.
    pub unsafe fn new(
        folder: *const c_char,
        options: *const sapwood_live_options,
        take_over: bool,
        checked: bool,
    ) -> Outcome<Plan<'a>> {
        // SAFETY: C.
        unsafe {
            let folder = input::path(folder)?;
            let options: sapwood_live_options = given(options)?;
            let domain: sapwood_domain_options = given(options.domain)?;
            Ok(Plan {
                folder,
                checked: checked || domain.flags & domain::SAPWOOD_CHECKED != 0,
                options,
                domain,
                take_over,
            })
        }
    }

    /// Makes the map, or takes it over, with at most this many bytes for each part; 0: as many as
    /// there may be. Returns the handle of its directory, and the map.
    pub fn make<M>(
        &self,
        bytes: usize,
        choose: impl FnOnce(M::Builder) -> M::Builder,
        domain: impl FnOnce(&M) -> &Domain,
    ) -> Outcome<(*mut sapwood_live, M)>
    where
        M: LiveMap + Clone + Send + Sync,
    {
        let mut builder: LiveBuilder<M> = Live::builder();
        builder = builder.domain(self.domain.builder()?).map(choose);
        if bytes != 0 {
            builder = builder.bytes(bytes);
        }
        builder = match self.options.read_by as c_int {
            SAPWOOD_LIVE_AS_IS => builder,
            SAPWOOD_LIVE_BY_OWNER => builder.read_by(ReadBy::Owner),
            SAPWOOD_LIVE_BY_GROUP => builder.read_by(ReadBy::Group(self.options.group)),
            SAPWOOD_LIVE_BY_ALL => builder.read_by(ReadBy::Everybody),
            other => {
                let text = format!("{other} is no reader: see enum sapwood_live_read_by");
                return Err(Failure::invalid(text));
            }
        };
        if self.options.evict_after_ms != 0 {
            builder = builder.evict_after(Duration::from_millis(self.options.evict_after_ms));
        }
        let live = match self.take_over {
            false => builder.create(self.folder)?,
            true => builder.open(self.folder)?,
        };
        let map = M::clone(&live);
        let body = LiveBody {
            domain: domain(&map).clone(),
            live: Box::new(live),
            checked: self.checked,
        };
        Ok((Handle::into_c(body, self.rules()), map))
    }

    /// The rules for the handles of the map.
    pub fn rules(&self) -> Rules {
        Rules::of_this_process(self.checked)
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let code = match error {
            Error::Io { error, .. } | Error::Unregistered { error, .. } => {
                match (error.raw_os_error(), error.kind()) {
                    (Some(number), _) => number,
                    (None, ErrorKind::OutOfMemory) => libc::ENOMEM,
                    (None, ErrorKind::InvalidData) => libc::EPROTO,
                    (None, _) => libc::EIO,
                }
            }
            Error::Exists { .. } => libc::EEXIST,
            Error::Owned { .. } => libc::EBUSY,
            Error::NotYet { .. } | Error::Removed { .. } | Error::NoMap { .. } => libc::ENOENT,
            Error::NoSpace { .. } => libc::ENOSPC,
            Error::Kind { .. } | Error::Layout { .. } | Error::Damaged { .. } => libc::EPROTO,
            Error::Foreign { .. } => libc::EACCES,
            Error::Busy { .. } => libc::EAGAIN,
            Error::Evicted { .. } => libc::ESTALE,
            Error::Forked { .. } => libc::EPERM,
            Error::Map(error) => return error.into(),
            _ => libc::EIO,
        };
        Failure::new(code, message)
    }
}

c_api!(
    /// A live map is a directory, for example in /dev/shm: one process writes it, and any number of
    /// others read it in place, without locks and without system calls. Linux. docs/live.md has the
    /// protocol.
    ///
    /// Failures of the functions that make or open:
    ///   -EEXIST  the directory has a live map already    -EBUSY   another process writes it
    ///   -ENOENT  there is no live map, or not yet     -EACCES  others can write it, see below
    ///   -EPROTO  it is damaged, another structure, or has other values
    ///   -ENOSPC  the file system is full: nothing is left behind, and a map stays as it was
    /// and those of the system. The message names the file. A change of a map that needs more
    /// memory than the file system has fails with -ENOSPC, too, and changes nothing. Whoever comes
    /// before the writer gets -ENOENT, and may wait: sapwood_live_reader_open_within. A map is
    /// there whole or not at all.
    const SECTION: &str = "Live maps";

    /// Writers. A live map in the directory of this process, beside the handle of its structure.
    pub type sapwood_live = Handle<LiveBody>;

    #[derive(Debug)]
    pub struct sapwood_live_options {
        /// sizeof(struct sapwood_live_options)
        pub size: usize,
        /// of the domain that it gets; NULL: the defaults
        pub domain: *const sapwood_domain_options,
        /// how long it waits for readers that check; 0: for ever
        pub evict_after_ms: u64,
        /// enum sapwood_live_read_by: who may register as a reader
        pub read_by: u32,
        /// the number of the group of SAPWOOD_LIVE_BY_GROUP
        pub group: u32,
    }

    /// Who may register as a reader, beside root. It sets the modes of the directory and its files.
    pub enum sapwood_live_read_by {
        /// of a new map the owner; one that is taken over keeps its modes
        SAPWOOD_LIVE_AS_IS = 0,
        SAPWOOD_LIVE_BY_OWNER = 1,
        /// nobody else may read it then
        SAPWOOD_LIVE_BY_GROUP = 2,
        SAPWOOD_LIVE_BY_ALL = 3,
    }
);
