//! Reading in order: a place for any map that can be read so.

use sapwood::qp::{AttachedView, Ordered as InOrder, OrderedRead, QpSharedView, QpView, ReadEntry};

use crate::value::{BATCH, CValue, Key};

/// An entry.
pub type Entry<'a, V> = (&'a [u8], &'a V);

/// An entry as C gets it: its key lies in the map.
#[inline(always)]
pub fn lying<V: ?Sized>((key, value): ReadEntry<'_, V>) -> Entry<'_, V> {
    (key.in_place().expect("maps keep keys in one piece"), value)
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
    /// An owned map, a snapshot, a transaction or a file.
    Handle(&'static dyn OrderedRead<V>),
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
            Source::Handle(handle) => *handle,
        };
        // SAFETY: the caller's promise. What is read lies in the structure, not in the source.
        unsafe { std::mem::transmute::<&dyn OrderedRead<V>, &'static dyn OrderedRead<V>>(borrowed) }
    }
}
