//! Iterators: walks over the entries of a view, in both directions.
//!
//! An iterator stands at the entry that it gave last, or between two entries.

use std::ffi::{c_int, c_void};
use std::ops::Bound;

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, place};
use crate::maps::sapwood_iter;
use sapwood::qp::{KeyBounds, OrderedRange};

use crate::ordered::Source;
use crate::output::hand_out;
use crate::retire::Pointer;
use crate::value::{CValue, Kinds, each, map_kinds, sapwood_entry};
use crate::view::{Anchor, sapwood_view};

/// The place of an iterator that does not walk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first entry.
    Start,
    /// Behind the last entry.
    End,
    /// Before the key that lies in `Walker::seek`.
    Before,
    /// At that key, which may be gone.
    At,
}

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

/// A walk over one kind of values.
pub struct Walker<V: ?Sized + CValue> {
    source: Source<V>,
    /// The keys that the iterator is limited to: from `low` on, and below `high`.
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    place: Place,
    seek: Vec<u8>,
    /// The walk under way, its direction, and the entry that it gave last.
    walk: Option<(OrderedRange<'static, V>, Way)>,
    last: Option<&'static [u8]>,
    /// Its key, if the map does not have it in one piece.
    copy: Vec<u8>,
}

impl<V: ?Sized + CValue> Walker<V> {
    fn new(source: Source<V>) -> Self {
        Walker {
            source,
            low: None,
            high: None,
            place: Place::Start,
            seek: Vec::new(),
            walk: None,
            last: None,
            copy: Vec::new(),
        }
    }

    fn stand(&mut self, place: Place) {
        self.place = place;
        self.walk = None;
        self.last = None;
    }

    /// Keeps its place in memory of its own, so that it can go on in another view.
    fn pause(&mut self) {
        if let Some(key) = self.last {
            self.seek.clear();
            self.seek.extend_from_slice(key);
            self.stand(Place::At);
        }
        self.walk = None;
    }

    fn limit(&mut self, low: Option<&[u8]>, high: Option<Vec<u8>>) {
        self.low = low.map(<[u8]>::to_vec);
        self.high = high;
        self.stand(Place::Start);
    }

    fn seek(&mut self, key: &[u8]) {
        self.seek.clear();
        self.seek.extend_from_slice(key);
        self.stand(Place::Before);
    }

    /// Begins a walk at the iterator's place.
    ///
    /// # Safety
    /// The source may be used.
    unsafe fn begin(&mut self, way: Way) {
        let low = self
            .low
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let high = self
            .high
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        // A place outside the limits is one at a limit.
        let from = |key| match low {
            Bound::Included(low) if low > key => Bound::Included(low),
            _ => Bound::Included(key),
        };
        let below = |key| match high {
            Bound::Excluded(high) if high < key => Bound::Excluded(high),
            _ => Bound::Excluded(key),
        };
        let at = Bound::Excluded(&self.seek[..]);
        let bounds: Option<KeyBounds<'_>> = match (way, self.last, &self.place) {
            (Way::Forward, Some(key), _) => Some((Bound::Excluded(key), high)),
            (Way::Backward, Some(key), _) => Some((low, Bound::Excluded(key))),
            (Way::Forward, None, Place::Start) | (Way::Backward, None, Place::End) => {
                Some((low, high))
            }
            (Way::Forward, None, Place::Before) => Some((from(&self.seek), high)),
            (Way::Backward, None, Place::Before) => Some((low, below(&self.seek))),
            (Way::Forward, None, Place::At) => Some((at, high)),
            (Way::Backward, None, Place::At) => Some((low, at)),
            (Way::Forward, None, Place::End) | (Way::Backward, None, Place::Start) => None,
        };
        // SAFETY: the caller's promise.
        let reading = unsafe { self.source.reading() };
        self.walk = bounds
            .filter(|b| !crossed(b))
            .map(|bounds| (reading.range(bounds), way));
    }

    /// The next entry in a direction.
    ///
    /// # Safety
    /// The source may be used.
    #[inline]
    unsafe fn step(&mut self, way: Way) -> Option<(&'static [u8], &'static V)> {
        if !matches!(&self.walk, Some((_, going)) if *going == way) {
            // SAFETY: the caller's promise.
            unsafe { self.begin(way) };
        }
        let entry = self.walk.as_mut().and_then(|(walk, way)| match way {
            Way::Forward => walk.next(),
            Way::Backward => walk.next_back(),
        });
        let Some((key, value)) = entry else {
            self.stand(match way {
                Way::Forward => Place::End,
                Way::Backward => Place::Start,
            });
            return None;
        };
        let lying = key.in_place().unwrap_or_else(|| {
            self.copy.clear();
            self.copy.extend_from_slice(&key);
            // SAFETY: it is used until the next step, or as long as the iterator stands there.
            unsafe { std::slice::from_raw_parts(self.copy.as_ptr(), self.copy.len()) }
        });
        self.last = Some(lying);
        Some((lying, value))
    }
}

/// Whether the bounds leave nothing between them.
fn crossed((low, high): &KeyBounds<'_>) -> bool {
    match (low, high) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)) => low >= high,
        _ => false,
    }
}

/// The least key that is greater than all keys with this prefix; `None` if there is none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut key = prefix[..=keep].to_vec();
    key[keep] += 1;
    Some(key)
}

/// The inside of an iterator's handle.
pub struct IterBody {
    /// What its view depends on; nothing while it is paused.
    anchor: Option<Anchor>,
    walker: Kinds<Walker<u64>, Walker<Pointer>, Walker<[u8]>>,
}

impl Body for IterBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swIt");
    const NAME: &'static str = "iterator";
}

#[cold]
#[inline(never)]
fn paused() -> Failure {
    Failure::misuse("the iterator is paused".to_owned(), false)
}

/// The body of an iterator whose view may be used.
#[inline(always)]
unsafe fn open<'a>(iter: *mut sapwood_iter) -> Outcome<&'a mut IterBody> {
    // SAFETY: the caller's promise.
    unsafe {
        let body = Handle::exclusive(iter)?;
        match &body.anchor {
            Some(anchor) => anchor.check("iterator")?,
            None => return Err(paused()),
        }
        Ok(body)
    }
}

#[inline(always)]
unsafe fn step(iter: *mut sapwood_iter, entry: *mut sapwood_entry, way: Way) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = open(iter)?;
        let entry = place(entry, "entry")?;
        each!(&mut body.walker, walker => match walker.step(way) {
            Some(found) => {
                *entry = sapwood_entry::new(found);
                Ok(0)
            }
            None => Ok(-libc::ENOENT),
        })
    }
}

c_api!(
    /// After a step, an iterator stands at the entry that it gave: next gives the one after it, and
    /// prev the one before it. After a move, or a step that found nothing, it stands between two
    /// entries. It is used as long as its view, by one thread at a time, and freed then or later.
    /// Steps are amortized O(1), turns and moves O(length of the key).
    const SECTION: &str = "Iterators";

    /// Makes an iterator that stands before the first entry.
    fn sapwood_iter_new(view: *const sapwood_view, out: *mut *mut sapwood_iter) -> c_int {
        let view = sapwood_view::body(view)?;
        let out = place(out, "out")?;
        let body = IterBody {
            anchor: Some(view.anchor),
            walker: map_kinds!(&view.source, source => Walker::<V>::new(*source)),
        };
        hand_out(out, body, view.anchor.rules())
    }

    fn sapwood_iter_free(iter: *mut sapwood_iter) {
        free(iter)
    }

    /// Steps to the next entry, or the one before, and stores it. -ENOENT: there is none.
    fn sapwood_iter_next(iter: *mut sapwood_iter, entry: *mut sapwood_entry) -> c_int {
        step(iter, entry, Way::Forward)
    }

    fn sapwood_iter_prev(iter: *mut sapwood_iter, entry: *mut sapwood_entry) -> c_int {
        step(iter, entry, Way::Backward)
    }

    /// Moves before the first entry whose key is not less than `key`.
    fn sapwood_iter_seek(iter: *mut sapwood_iter, key: *const c_void, key_len: usize) -> c_int {
        let body = open(iter)?;
        let key = bytes(key, key_len, "the key")?;
        each!(&mut body.walker, walker => walker.seek(key));
        Ok(0)
    }

    /// Moves behind the last entry.
    fn sapwood_iter_to_end(iter: *mut sapwood_iter) -> c_int {
        let body = open(iter)?;
        each!(&mut body.walker, walker => walker.stand(Place::End));
        Ok(0)
    }

    /// Limits it to keys from low on and below high, and moves to the start. NULL: no limit.
    fn sapwood_iter_range(
        iter: *mut sapwood_iter,
        low: *const c_void,
        low_len: usize,
        high: *const c_void,
        high_len: usize,
    ) -> c_int {
        let body = open(iter)?;
        let low_key = bytes(low, low_len, "low")?;
        let high_key = bytes(high, high_len, "high")?;
        let low = (!low.is_null()).then_some(low_key);
        let high = (!high.is_null()).then(|| high_key.to_vec());
        each!(&mut body.walker, walker => walker.limit(low, high));
        Ok(0)
    }

    /// Limits the iterator to keys that begin with `prefix`, and moves to its start.
    fn sapwood_iter_prefix(
        iter: *mut sapwood_iter,
        prefix: *const c_void,
        prefix_len: usize,
    ) -> c_int {
        let body = open(iter)?;
        let prefix = bytes(prefix, prefix_len, "the prefix")?;
        each!(&mut body.walker, walker => walker.limit(Some(prefix), behind(prefix)));
        Ok(0)
    }

    /// Moves behind all keys that begin with `prefix`: "not below here".
    fn sapwood_iter_skip(
        iter: *mut sapwood_iter,
        prefix: *const c_void,
        prefix_len: usize,
    ) -> c_int {
        let body = open(iter)?;
        let prefix = bytes(prefix, prefix_len, "the prefix")?;
        match behind(prefix) {
            Some(key) => each!(&mut body.walker, walker => walker.seek(&key)),
            None => each!(&mut body.walker, walker => walker.stand(Place::End)),
        }
        Ok(0)
    }

    /// Keeps the iterator's place, so that it can go on in another view: in a long walk, pause
    /// before a quiescent state or a change, then make a view and resume. Until then only
    /// sapwood_iter_free is allowed. An entry at which it stands may go meanwhile: next gives the
    /// one after its place.
    fn sapwood_iter_pause(iter: *mut sapwood_iter) -> c_int {
        let body = open(iter)?;
        each!(&mut body.walker, walker => walker.pause());
        body.anchor = None;
        Ok(0)
    }

    /// Goes on in a view of the same kind of values. -EINVAL: it is not paused, or another kind.
    fn sapwood_iter_resume(iter: *mut sapwood_iter, view: *const sapwood_view) -> c_int {
        let (body, view) = (Handle::exclusive(iter)?, sapwood_view::body(view)?);
        if body.anchor.is_some() {
            return Err(Failure::invalid("the iterator is not paused"));
        }
        match (&mut body.walker, &view.source) {
            (Kinds::Numbers(walker), Kinds::Numbers(source)) => walker.source = *source,
            (Kinds::Pointers(walker), Kinds::Pointers(source)) => walker.source = *source,
            (Kinds::Bytes(walker), Kinds::Bytes(source)) => walker.source = *source,
            _ => return Err(Failure::invalid("the view has another kind of values")),
        }
        body.anchor = Some(view.anchor);
        Ok(0)
    }
);
