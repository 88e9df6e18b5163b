//! Readers of live maps: threads that read what another process writes.

use std::ffi::{c_char, c_int, c_uint};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_live::{CheckedLiveReader, CheckedMap, Error, LiveMap, LiveOffline, LiveReader};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules, Thread, free};
use crate::input::{path, place};
use crate::live_lookups::Lookups;
use crate::output::hand_out;
use crate::value::{SAPWOOD_BYTES, SAPWOOD_NUMBERS, SAPWOOD_POINTERS};
use crate::view::{Anchor, Changes, Viewed, sapwood_view};

/// A reader and, while it is offline, what keeps it so.
struct Held {
    /// It borrows the reader, and is dropped first.
    offline: Option<LiveOffline<'static>>,
    /// Made by `Box::into_raw`, so that a move of this structure does not touch the reader.
    reader: *mut dyn Lookups,
}

impl Held {
    fn new(reader: impl Lookups + 'static) -> Held {
        Held {
            offline: None,
            reader: Box::into_raw(Box::new(reader)),
        }
    }

    fn go_offline(&mut self) {
        // What is there is dropped first: it brings the reader online.
        self.offline = None;
        // SAFETY: the reader lives as long as `self`, which drops the borrow before it, and uses it
        // exclusively only when there is no borrow. Shared uses beside the borrow are allowed.
        self.offline = Some(unsafe { &mut *self.reader }.offline());
    }

    fn quiescent(&mut self) -> Result<(), Error> {
        // A reader that was offline comes online.
        self.offline = None;
        // SAFETY: as above; there is no borrow.
        unsafe { &mut *self.reader }.quiescent()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.offline = None;
        // SAFETY: `new` made it, and nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.reader) });
    }
}

/// The inside of the handle of a reader of a live map.
pub struct LiveReaderBody {
    held: Held,
    thread: Thread,
    checked: bool,
    /// Counts the ends of what the reader may use.
    changes: Changes,
}

impl Body for LiveReaderBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swLr");
    const NAME: &'static str = "reader of a live map";

    fn may_end(&self) -> Outcome<()> {
        self.thread.check("reader", self.checked)
    }

    fn leave(self) {
        // Readers know of forks: that of the parent stays as it is.
        drop(self);
    }
}

impl Viewed for LiveReaderBody {
    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }

    fn stale() -> String {
        "the view was made before the reader's last quiescent state".to_owned()
    }

    fn check_thread(&self, checked: bool) -> Outcome<()> {
        self.thread.check("reader", checked)
    }
}

impl LiveReaderBody {
    /// The reader, for lookups on its thread.
    ///
    /// # Safety
    /// C.
    #[inline]
    pub unsafe fn online<'a>(at: *const sapwood_live_reader) -> Outcome<&'a dyn Lookups> {
        // SAFETY: C.
        let body = unsafe { Handle::shared(at) }?;
        body.thread.check("reader", body.checked)?;
        if body.held.offline.is_some() {
            let text = "the reader is offline".to_owned();
            return Err(Failure::misuse(text, body.checked));
        }
        // SAFETY: the reader lives as long as the handle, and nobody uses it exclusively now.
        Ok(unsafe { &*body.held.reader })
    }
}

/// Where a live map is.
enum Where<'a> {
    /// With the time to wait for one that is not there yet.
    Path(&'a Path, Duration),
    Folder(c_int),
}

impl Where<'_> {
    fn trusting<M: LiveMap>(self) -> Outcome<Held>
    where
        LiveReader<M>: Lookups,
    {
        Ok(Held::new(match self {
            Where::Path(path, wait) => LiveReader::<M>::open_within(path, wait)?,
            Where::Folder(folder) => LiveReader::<M>::open_at(descriptor(folder)?)?,
        }))
    }

    fn checking<M: CheckedMap>(self, registers: bool) -> Outcome<Held>
    where
        CheckedLiveReader<M>: Lookups,
    {
        Ok(Held::new(match (self, registers) {
            (Where::Path(path, wait), true) => CheckedLiveReader::<M>::open_within(path, wait)?,
            (Where::Path(path, wait), false) => {
                CheckedLiveReader::<M>::open_unregistered_within(path, wait)?
            }
            (Where::Folder(folder), true) => CheckedLiveReader::<M>::open_at(descriptor(folder)?)?,
            (Where::Folder(folder), false) => {
                CheckedLiveReader::<M>::open_unregistered_at(descriptor(folder)?)?
            }
        }))
    }

    fn open<M: CheckedMap>(self, flags: c_uint) -> Outcome<Held>
    where
        LiveReader<M>: Lookups,
        CheckedLiveReader<M>: Lookups,
    {
        let registers = flags & SAPWOOD_LIVE_UNREGISTERED == 0;
        match flags & SAPWOOD_LIVE_CHECKED != 0 {
            true => self.checking::<M>(registers),
            false if registers => self.trusting::<M>(),
            false => {
                let text = "a reader that the writer does not know of must be checked";
                Err(Failure::invalid(text))
            }
        }
    }
}

/// A descriptor of the library's own for the same directory.
fn descriptor(folder: c_int) -> Outcome<OwnedFd> {
    if folder < 0 {
        return Err(Failure::invalid(format!("{folder} is no descriptor")));
    }
    // SAFETY: C: the caller's descriptor is open during the call.
    let folder = unsafe { BorrowedFd::borrow_raw(folder) };
    folder.try_clone_to_owned().map_err(|error| {
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        Failure::new(code, format!("the descriptor of the directory: {error}"))
    })
}

unsafe fn open(
    place_of: Where<'_>,
    (kind, values): (c_int, c_int),
    flags: c_uint,
    out: *mut *mut sapwood_live_reader,
) -> Outcome {
    let out = place(out, "out")?;
    known_flags(
        flags,
        SAPWOOD_CHECKED | SAPWOOD_LIVE_CHECKED | SAPWOOD_LIVE_UNREGISTERED,
    )?;
    let held = match (kind, values) {
        (_, SAPWOOD_POINTERS) => return Err(crate::live_writers::no_pointers()),
        (SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS) => place_of.open::<QpStore<u64>>(flags)?,
        (SAPWOOD_LIVE_STORE, SAPWOOD_BYTES) => place_of.open::<QpStore<[u8]>>(flags)?,
        (SAPWOOD_LIVE_SHARED, SAPWOOD_NUMBERS) => place_of.open::<QpShared<u64>>(flags)?,
        (SAPWOOD_LIVE_SHARED, SAPWOOD_BYTES) => place_of.open::<QpShared<[u8]>>(flags)?,
        (SAPWOOD_LIVE_POINT, SAPWOOD_NUMBERS) => place_of.open::<PointMap<u64>>(flags)?,
        (SAPWOOD_LIVE_POINT, SAPWOOD_BYTES) => place_of.open::<PointMap<[u8]>>(flags)?,
        (SAPWOOD_LIVE_FIB, SAPWOOD_NUMBERS) => place_of.open::<IpFib<u64>>(flags)?,
        (SAPWOOD_LIVE_RANGES, SAPWOOD_NUMBERS) => place_of.open::<MapleMap<u64>>(flags)?,
        (SAPWOOD_LIVE_FIB | SAPWOOD_LIVE_RANGES, SAPWOOD_BYTES) => {
            let text = "tables of prefixes and range maps have numbers as values";
            return Err(Failure::invalid(text));
        }
        (
            SAPWOOD_LIVE_STORE | SAPWOOD_LIVE_SHARED | SAPWOOD_LIVE_POINT | SAPWOOD_LIVE_FIB
            | SAPWOOD_LIVE_RANGES,
            other,
        ) => {
            let text = format!("{other} is no kind of values: see enum sapwood_values");
            return Err(Failure::invalid(text));
        }
        (other, _) => {
            let text = format!("{other} is no structure: see enum sapwood_live_kind");
            return Err(Failure::invalid(text));
        }
    };
    let checked = flags & SAPWOOD_CHECKED != 0;
    let body = LiveReaderBody {
        held,
        thread: Thread::here(),
        checked,
        changes: Changes::default(),
    };
    // SAFETY: C.
    unsafe { hand_out(out, body, Rules::of_this_process(checked)) }
}

/// Changes a reader on its thread, after which nothing that was read may be used.
unsafe fn on(
    reader: *mut sapwood_live_reader,
    f: impl FnOnce(&mut Held) -> Result<(), Error>,
) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(reader) }?;
    body.thread.check("reader", body.checked)?;
    body.changes.count();
    f(&mut body.held)?;
    Ok(0)
}

c_api!(
    /// Readers, in any process. A reader belongs to the thread that opened it. The child of a fork
    /// opens readers of its own: those of its parent, and the live maps that it writes, are -EPERM
    /// there. The child holds the writer's lock, too, until its parent frees the sapwood_live, or
    /// the child frees its copy, ends, or calls exec.
    pub type sapwood_live_reader = Handle<LiveReaderBody>;

    /// The structures that can be live.
    pub enum sapwood_live_kind {
        SAPWOOD_LIVE_STORE = 1,
        SAPWOOD_LIVE_SHARED = 2,
        SAPWOOD_LIVE_POINT = 3,
        SAPWOOD_LIVE_FIB = 6,
        SAPWOOD_LIVE_RANGES = 8,
    }

    /// the reader relies on nothing that lies in the memory
    pub const SAPWOOD_LIVE_CHECKED: c_uint = 32;

    /// and the writer does not know of it
    pub const SAPWOOD_LIVE_UNREGISTERED: c_uint = 64;

    /// Opens a live map of a structure (enum sapwood_live_kind) with values (enum sapwood_values;
    /// SAPWOOD_NUMBERS for tables and ranges). The reader is online. Flags: SAPWOOD_CHECKED, as for
    /// sapwood_reader, SAPWOOD_LIVE_CHECKED and SAPWOOD_LIVE_UNREGISTERED:
    ///
    ///   Without SAPWOOD_LIVE_CHECKED, the reader trusts the memory, and opens only a map that no
    ///   other user than root can write: otherwise -EACCES. It gives out what lies in the map, and
    ///   copies of the keys of a store (struct sapwood_entry).
    ///
    ///   With SAPWOOD_LIVE_CHECKED, the reader checks every word and copies what it gives out, so
    ///   it may read a map that anybody can write. It has no views, and not the functions of which
    ///   that is said. It can be evicted. Its lookups also return -EPROTO: the memory is damaged;
    ///   -EAGAIN: changes disturbed each attempt; -ESTALE: it was evicted, and
    ///   sapwood_live_reader_quiescent brings it back.
    ///
    ///   With SAPWOOD_LIVE_UNREGISTERED as well, the reader writes no file, so that it can read a
    ///   map on a read-only mount, or one of a user who lets nobody register (-EROFS, -EACCES
    ///   otherwise). The writer does not wait for it: it is evicted as soon as the writer uses
    ///   memory again.
    fn sapwood_live_reader_open(
        folder: *const c_char,
        kind: c_int,
        values: c_int,
        flags: c_uint,
        out: *mut *mut sapwood_live_reader,
    ) -> c_int {
        let place_of = Where::Path(path(folder)?, Duration::ZERO);
        open(place_of, (kind, values), flags, out)
    }

    /// The same, which waits up to (wait_ms) milliseconds for a map that is not there yet; then
    /// -ENOENT. UINT64_MAX: as long as it takes.
    fn sapwood_live_reader_open_within(
        folder: *const c_char,
        kind: c_int,
        values: c_int,
        flags: c_uint,
        wait_ms: u64,
        out: *mut *mut sapwood_live_reader,
    ) -> c_int {
        let place_of = Where::Path(path(folder)?, Duration::from_millis(wait_ms));
        open(place_of, (kind, values), flags, out)
    }

    /// The same with a descriptor of the directory, which stays the caller's.
    fn sapwood_live_reader_open_at(
        folder: c_int,
        kind: c_int,
        values: c_int,
        flags: c_uint,
        out: *mut *mut sapwood_live_reader,
    ) -> c_int {
        open(Where::Folder(folder), (kind, values), flags, out)
    }

    /// Ends the reader. Its thread. Nothing that was read with it may be used any more.
    fn sapwood_live_reader_free(reader: *mut sapwood_live_reader) {
        free(reader)
    }

    /// As the functions of sapwood_reader. When another process has taken the map over, or the map
    /// has grown, the reader maps what there is now; a failure of that is returned, and the reader
    /// stays where it was. -ENOENT: the map was removed; a reader that is opened anew finds the one
    /// that may have been made in its place. Its thread. O(1), without a system call, unless it
    /// moves.
    fn sapwood_live_reader_quiescent(reader: *mut sapwood_live_reader) -> c_int {
        let pass = |held: &mut Held| match held.offline {
            // It stays offline.
            Some(_) => Ok(()),
            None => held.quiescent(),
        };
        on(reader, pass)
    }

    fn sapwood_live_reader_offline(reader: *mut sapwood_live_reader) -> c_int {
        let pass = |held: &mut Held| {
            if held.offline.is_none() {
                held.go_offline();
            }
            Ok(())
        };
        on(reader, pass)
    }

    fn sapwood_live_reader_online(reader: *mut sapwood_live_reader) -> c_int {
        let pass = |held: &mut Held| {
            let was_offline = held.offline.is_some();
            let moved = held.quiescent();
            if moved.is_err() && was_offline {
                held.go_offline();
            }
            moved
        };
        on(reader, pass)
    }

    /// Stores how many times processes had taken over the data that it reads. Its thread.
    fn sapwood_live_reader_generation(
        reader: *const sapwood_live_reader,
        generation: *mut u64,
    ) -> c_int {
        let body = Handle::shared(reader)?;
        body.thread.check("reader", body.checked)?;
        let generation = place(generation, "generation")?;
        // SAFETY: the reader lives as long as the handle. C.
        unsafe { *generation = (*body.held.reader).generation() };
        Ok(0)
    }

    /// Returns whether the map's writer lives: 1 or 0. Its thread. A few system calls.
    fn sapwood_live_reader_has_writer(reader: *const sapwood_live_reader) -> c_int {
        let body = Handle::shared(reader)?;
        body.thread.check("reader", body.checked)?;
        // SAFETY: the reader lives as long as the handle.
        Ok(unsafe { &*body.held.reader }.has_writer()?.into())
    }

    /// Lookups. Its thread, while it is online. What a structure does not have is -ENOTSUP.
    ///
    /// Makes a view of a store (of its newest version), or of a shared map, for all functions of
    /// sapwood_view. It is valid until the next quiescent state. sapwood_view_len of a shared map
    /// counts its entries. -ENOTSUP: a reader that checks.
    fn sapwood_live_view(reader: *const sapwood_live_reader, view: *mut sapwood_view) -> c_int {
        // The view's anchor says until when it may be used.
        let lookups: &'static dyn Lookups = LiveReaderBody::online(reader)?;
        let source = lookups.source()?;
        let anchor = Anchor::handle(reader, Handle::shared(reader)?);
        sapwood_view::write(view, anchor, source)
    }
);
