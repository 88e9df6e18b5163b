//! Views: what a map shows to a reader, for everything that needs order.

use std::ffi::{c_int, c_uchar, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::c_api::{c_api, searches};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules};
use crate::input::{bytes, items, place};
use crate::ordered::{Copies, Source, get_some};
use crate::output::{as_int, put};
use crate::reader::{ReaderBody, sapwood_reader};
use crate::retire::Pointer;
use crate::value::{
    CValue, Key, Kinds, each, get_many, sapwood_bytes, sapwood_entry, sapwood_value,
};

/// Changes of an owned map or a transaction: what was read under another number is stale.
#[derive(Debug, Default)]
pub struct Changes(AtomicU64);

impl Changes {
    /// Counts a change.
    pub fn count(&mut self) {
        *self.0.get_mut() += 1;
    }

    fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A body whose handle a view can read.
pub trait Viewed: Body {
    /// The number of changes, if changes end views.
    fn changes(&self) -> Option<&Changes> {
        None
    }
    /// What is wrong with a view that such a change has ended.
    fn stale() -> String {
        format!("the {} was changed after the view was made", Self::NAME)
    }
    /// A failure if this thread may not use it.
    fn check_thread(&self, _checked: bool) -> Outcome<()> {
        Ok(())
    }
}

/// What a view depends on, which is looked at before each use.
#[derive(Clone, Copy)]
pub struct Anchor {
    reader: *const sapwood_reader,
    epoch: u64,
    handle: *const c_void,
    /// Looks at the handle.
    look: unsafe fn(handle: *const c_void, epoch: u64, through_reader: bool) -> Outcome<()>,
}

impl Anchor {
    /// A view of a handle, read through a reader.
    pub fn reader<T: Viewed>(
        at: *const Handle<T>,
        reader: *const sapwood_reader,
        epoch: u64,
    ) -> Self {
        Anchor {
            reader,
            epoch,
            handle: at.cast(),
            look: look::<T>,
        }
    }

    /// A view of a handle.
    pub fn handle<T: Viewed>(at: *const Handle<T>, body: &T) -> Self {
        Anchor {
            reader: std::ptr::null(),
            epoch: body.changes().map_or(0, Changes::now),
            handle: at.cast(),
            look: look::<T>,
        }
    }

    /// The rules for what is made of the view.
    ///
    /// # Safety
    /// As for [`check`](Self::check).
    pub unsafe fn rules(&self) -> Rules {
        // SAFETY: the caller's promise. All handles begin in the same way.
        unsafe { Handle::<ReaderBody>::rules(self.handle.cast()) }
    }

    /// A failure if what the view reads may be gone.
    ///
    /// # Safety
    /// The reader and the handle may be used, or one of them is checked.
    #[inline]
    pub unsafe fn check(&self, what: &str) -> Outcome<()> {
        if !self.reader.is_null() {
            // SAFETY: the caller's promise.
            let reader = unsafe { Handle::shared(self.reader) }?;
            reader.still(self.epoch, what)?;
            if !reader.checked() {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { (self.look)(self.handle, self.epoch, !self.reader.is_null()) }
    }
}

unsafe fn look<T: Viewed>(handle: *const c_void, epoch: u64, through_reader: bool) -> Outcome<()> {
    let handle = handle.cast::<Handle<T>>();
    // SAFETY: the caller's promise.
    let body = unsafe { Handle::shared(handle) }?;
    if through_reader {
        return Ok(());
    }
    // SAFETY: the same.
    let checked = unsafe { Handle::is_checked(handle) };
    body.check_thread(checked)?;
    match body.changes() {
        Some(changes) if changes.now() != epoch => Err(Failure::misuse(T::stale(), checked)),
        _ => Ok(()),
    }
}

/// Any source.
pub type AnySource = Kinds<Source<u64>, Source<Pointer>, Source<[u8]>>;

/// The inside of a view.
pub struct ViewBody {
    magic: u64,
    /// What it depends on.
    pub anchor: Anchor,
    /// What it reads.
    pub source: AnySource,
}

const MAGIC: u64 = u64::from_be_bytes(*b"sw view!");

const _: () = assert!(size_of::<ViewBody>() <= size_of::<sapwood_view>());
const _: () = assert!(align_of::<ViewBody>() <= align_of::<sapwood_view>());
const _: () = assert!(!std::mem::needs_drop::<ViewBody>());

impl sapwood_view {
    /// Writes a view into the caller's memory.
    ///
    /// # Safety
    /// `at` is NULL, or it points to room for a view.
    pub unsafe fn write(at: *mut Self, anchor: Anchor, source: AnySource) -> Outcome {
        let body = ViewBody {
            magic: MAGIC,
            anchor,
            source,
        };
        // SAFETY: the caller's promise, and it fits.
        unsafe { place(at, "view")?.cast::<ViewBody>().write(body) };
        Ok(0)
    }

    /// The inside of a view that may be used.
    ///
    /// # Safety
    /// `at` is NULL, or a view that C may use now.
    #[inline]
    pub unsafe fn body<'a>(at: *const Self) -> Outcome<&'a ViewBody> {
        if at.is_null() || !at.is_aligned() {
            return Err(Failure::null("view"));
        }
        // SAFETY: the caller's promise; the word can be read.
        if unsafe { (&raw const (*at.cast::<ViewBody>()).magic).read() } != MAGIC {
            return Err(Failure::invalid("the pointer is not to a view"));
        }
        // SAFETY: the word says that `write` wrote it.
        let body = unsafe { &*at.cast::<ViewBody>() };
        // SAFETY: the caller's promise.
        unsafe { body.anchor.check("view") }?;
        Ok(body)
    }
}

/// Stores what a lookup found, if the caller wants it.
///
/// # Safety
/// `value` is NULL, or a place for a value.
#[inline(always)]
pub unsafe fn found<V: ?Sized + CValue>(result: Option<&V>, value: *mut sapwood_value) -> Outcome {
    // SAFETY: the caller's promise.
    Ok(unsafe { answer(result, value) })
}

/// The same, for lookups that cannot fail.
///
/// # Safety
/// As for [`found`].
#[inline(always)]
pub unsafe fn answer<V: ?Sized + CValue>(result: Option<&V>, value: *mut sapwood_value) -> c_int {
    match result {
        Some(stored) => {
            if !value.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *value = stored.output() };
            }
            0
        }
        None => -libc::ENOENT,
    }
}

/// Looks for one entry, and stores it.
unsafe fn one(
    view: *const sapwood_view,
    (key, key_len): (*const c_void, usize),
    entry: *mut sapwood_entry,
    search: Search,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = sapwood_view::body(view)?;
        let key = bytes(key, key_len, "the key")?;
        let entry = place(entry, "entry")?;
        each!(&body.source, source => {
            let reading = source.reading();
            let result = match search {
                Search::First => reading.first_key_value(),
                Search::Last => reading.last_key_value(),
                Search::After => reading.successor(key),
                Search::Before => reading.predecessor(key),
                Search::LongestPrefix => reading.longest_prefix(key),
            };
            match result {
                Some(result) => *entry = Copies::default().entry(result),
                None => return Ok(-libc::ENOENT),
            }
        });
    }
    Ok(0)
}

#[derive(Clone, Copy)]
enum Search {
    First,
    Last,
    After,
    Before,
    LongestPrefix,
}

const NO_KEY: (*const c_void, usize) = (std::ptr::null(), 0);

c_api!(
    const SECTION: &str = "Views";

    /// A view lies in the caller's memory and needs no end. It may be copied. It is used where and
    /// as long as what it was made of: on its reader's thread until the next quiescent state, or
    /// until the next change of the map or transaction, or until the end of the snapshot or file. A
    /// use after that is -EPERM where it is seen. Views are the query handles of name servers: one
    /// for each question.
    pub struct sapwood_view {
        opaque: [MaybeUninit<u64>; 16],
    }

    /// As the functions of maps of these names.
    fn sapwood_view_len(view: *const sapwood_view, len: *mut usize) -> c_int {
        let body = sapwood_view::body(view)?;
        put(
            len,
            "len",
            each!(&body.source, source => source.reading().entries()),
        )
    }

    fn sapwood_view_get(
        view: *const sapwood_view,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let (body, key) = (sapwood_view::body(view)?, bytes(key, key_len, "the key")?);
        each!(&body.source, source => found(source.reading().get(key), value))
    }

    fn sapwood_view_get_many(
        view: *const sapwood_view,
        keys: *const sapwood_bytes,
        count: usize,
        values: *mut sapwood_value,
        found: *mut c_uchar,
    ) -> c_int {
        let body = sapwood_view::body(view)?;
        let keys = Key::all(items(keys, count, "keys")?)?;
        each!(&body.source, source => {
            let reading = source.reading();
            get_many(keys, values, found, |keys, out| get_some(reading, keys, out))
        })
    }

    /// Each stores an entry, or returns -ENOENT.
    fn sapwood_view_first(view: *const sapwood_view, entry: *mut sapwood_entry) -> c_int {
        one(view, NO_KEY, entry, Search::First)
    }

    fn sapwood_view_last(view: *const sapwood_view, entry: *mut sapwood_entry) -> c_int {
        one(view, NO_KEY, entry, Search::Last)
    }

    searches!(
        view: *const sapwood_view, entry: *mut sapwood_entry, one,
        /// The least key greater than `key`, which need not be there.
        sapwood_view_after: Search::After,
        /// The greatest key less than `key`.
        sapwood_view_before: Search::Before,
        /// The longest key that is a prefix of `key`, or `key` itself.
        sapwood_view_longest_prefix: Search::LongestPrefix
    );

    /// Stores the entries whose keys are prefixes of `key`, shortest first, as many as there is
    /// room for. Returns how many there are.
    fn sapwood_view_prefixes(
        view: *const sapwood_view,
        key: *const c_void,
        key_len: usize,
        entries: *mut sapwood_entry,
        room: usize,
    ) -> c_int {
        // No more than `room` entries are written.
        let body = sapwood_view::body(view)?;
        let key = bytes(key, key_len, "the key")?;
        if room > 0 {
            place(entries, "entries")?;
        }
        each!(&body.source, source => {
            let all = source.reading().ancestors(key);
            let count = as_int(all.len());
            let mut copies = Copies::default();
            for (i, entry) in all.into_iter().take(room).enumerate() {
                *entries.add(i) = copies.entry(entry);
            }
            Ok(count)
        })
    }
);
