//! Reading in order: a place for any map that can be read so.

use std::cell::RefCell;

use sapwood::qp::{AttachedView, Ordered as InOrder, OrderedRead, QpSharedView, QpView, ReadEntry};

use crate::value::{BATCH, CValue, Key, sapwood_entry};

thread_local! {
    /// What the last call of this thread copied.
    static COPIES: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// The keys that a call copies for its caller, because the map does not have them in one piece:
/// stores and files have the bytes that some keys share only once. They live until the next such
/// call of the thread.
#[derive(Default)]
pub struct Copies(Vec<Box<[u8]>>);

impl Copies {
    /// A copy of a key.
    ///
    /// # Safety
    /// It is used until the end of the next call of the thread that copies keys.
    unsafe fn of<'a>(&mut self, key: &[u8]) -> &'a [u8] {
        self.0.push(key.into());
        let copy = &self.0[self.0.len() - 1];
        // SAFETY: the caller's promise; the bytes of a box do not move.
        unsafe { std::slice::from_raw_parts(copy.as_ptr(), copy.len()) }
    }

    /// An entry as C gets it: its key lies in the map, or is a copy.
    #[inline(always)]
    pub fn entry<V: ?Sized + CValue>(&mut self, (key, value): ReadEntry<'_, V>) -> sapwood_entry {
        let lying = match key.in_place() {
            Some(key) => key,
            // SAFETY: C is told how long it lives.
            None => unsafe { self.of(&key) },
        };
        sapwood_entry::new((lying, value))
    }

    /// An entry that may not be there.
    pub fn maybe<V: ?Sized + CValue>(&mut self, entry: Option<ReadEntry<'_, V>>) -> sapwood_entry {
        entry.map_or(sapwood_entry::NONE, |entry| self.entry(entry))
    }

    /// An entry whose key was lent for a moment, from this source.
    pub fn lent<V: ?Sized + CValue>(
        &mut self,
        source: &Source<V>,
        (key, value): (&[u8], &V),
    ) -> sapwood_entry {
        match source {
            Source::Store(_) | Source::Pieces(_) => {
                // SAFETY: C is told how long it lives.
                sapwood_entry::new((unsafe { self.of(key) }, value))
            }
            Source::Shared(_) | Source::Attached(_) | Source::Whole(_) => {
                sapwood_entry::new((key, value))
            }
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let copies = std::mem::take(&mut self.0);
            // Without the thread's place, which ends before the thread, nobody may use them.
            let _ = COPIES.try_with(|last| last.replace(copies));
        }
    }
}

/// Looks up at most [`BATCH`] keys.
pub fn get_some<'a, V: ?Sized + CValue>(
    map: &'a dyn OrderedRead<V>,
    keys: &[Key],
    out: &mut [Option<&'a V>],
) {
    let mut some: [&[u8]; BATCH] = [&[]; BATCH];
    for (place, key) in some.iter_mut().zip(keys) {
        *place = key.as_ref();
    }
    map.get_many(&some[..keys.len()], out);
}

/// What a view reads. The views of stores and shared maps lie in it; the rest lies in its handle.
pub enum Source<V: ?Sized + CValue> {
    /// A version of a store.
    Store(QpView<'static, V>),
    /// A shared map.
    Shared(QpSharedView<'static, V>),
    /// A shared map of another process.
    Attached(AttachedView<'static, InOrder, V>),
    /// An owned map, which has each key in one piece.
    Whole(&'static dyn OrderedRead<V>),
    /// A snapshot, a transaction or a file, which may have keys in two pieces.
    Pieces(&'static dyn OrderedRead<V>),
}

impl<V: ?Sized + CValue> Clone for Source<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized + CValue> Copy for Source<V> {}

impl<V: ?Sized + CValue> Source<V> {
    /// What it is, for reading.
    ///
    /// # Safety
    /// What is read with it is used only as long as the source may be.
    #[inline]
    pub unsafe fn reading(&self) -> &'static dyn OrderedRead<V> {
        let borrowed: &dyn OrderedRead<V> = match self {
            Source::Store(view) => view,
            Source::Shared(view) => view,
            Source::Attached(view) => view,
            Source::Whole(handle) | Source::Pieces(handle) => *handle,
        };
        // SAFETY: the caller's promise. What is read lies in the structure, not in the source.
        unsafe { std::mem::transmute::<&dyn OrderedRead<V>, &'static dyn OrderedRead<V>>(borrowed) }
    }
}
