//! The kinds of values that leaves hold: types of a fixed size, and byte strings.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr;

use sapwood_format::inline::Entries;
use sapwood_format::leaf::{self, LONG};

use super::leaf::{LeafOf, MAX_VALUE};
use crate::{Error, Rejected};

/// A value that a leaf can hold: any type of a fixed size, or a byte string. The two differ in the
/// place of the value in the leaf, and in how it is written and taken out.
///
/// # Safety
/// `BLOCK` and the sizes are those of the blocks that `write` fills; `value_ptr` points at the
/// value that `write` wrote.
pub unsafe trait Stored {
    /// A value that is to be stored: the value itself, or a reference to bytes that are copied.
    type New<'a>;
    /// What the caller keeps of a new value after it was written: nothing, or the reference.
    type Spare<'a>: Copy;
    /// A value that a map returns by value.
    type Taken;
    /// What a map drops with a leaf: the value, or nothing.
    type Held;

    /// Whether the value lies behind a pointer.
    const BOXED: bool;
    /// Whether something must be dropped with a leaf.
    const NEEDS_DROP: bool;
    /// Bytes and alignment of a value, as published maps and files state them.
    const SIZE: usize;
    const ALIGN: usize;
    /// Whether values have different lengths.
    const VARIES: bool;
    /// The place of the key's length, in bytes from the leaf.
    const LEN_AT: usize;

    /// A new value made of one that a map returned, which stays in `place` if only a reference is
    /// needed.
    fn lend<'a>(taken: Self::Taken, place: &'a mut Option<Self::Taken>) -> Self::New<'a>;

    /// A new value made of one that lies elsewhere: a copy of its bits, or a reference.
    ///
    /// # Safety
    /// Any bytes are a value of this type, or only one of both values is used.
    unsafe fn copied(value: &Self) -> Self::New<'_>;

    /// What the caller of a rejected insertion gets back of a new value.
    fn held(new: Self::New<'_>) -> Self::Held;

    /// The new value's length if lengths vary, otherwise 0.
    fn new_len(new: &Self::New<'_>) -> usize;

    /// What the caller keeps of a new value after it was written.
    fn spare<'a>(new: &Self::New<'a>) -> Self::Spare<'a>;

    /// The new value again, from what `take` has moved out of its leaf.
    fn again<'a>(spare: Self::Spare<'a>, dropped: Self::Held) -> Self::New<'a>;

    /// Bytes that a value of this length (0 if lengths do not vary) takes behind the key.
    fn behind(value_len: usize) -> usize;

    /// The length of the value in a leaf if lengths vary, otherwise 0.
    ///
    /// # Safety
    /// `p` points at a leaf.
    unsafe fn value_len(p: *const u8) -> usize;

    /// A pointer to the value.
    ///
    /// # Safety
    /// `p` points at a leaf.
    unsafe fn value_ptr(p: *const u8) -> *mut Self;

    /// Writes the value.
    ///
    /// # Safety
    /// `p` is a block of the right size, which nobody reads; key and length are written.
    unsafe fn write(p: *mut u8, new: Self::New<'_>);

    /// Replaces the value of a leaf and returns the old one. If the new value needs another leaf,
    /// it returns the new value.
    ///
    /// # Safety
    /// `p` points at a leaf that nobody else uses.
    unsafe fn overwrite<'a>(p: *mut u8, new: Self::New<'a>) -> Result<Self::Taken, Self::New<'a>>;

    /// Moves out what must be dropped.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn take(p: *mut u8) -> Self::Held;

    /// Moves the value out.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn take_value(p: *mut u8) -> Self::Taken;

    /// A copy of the value's bits, or a reference to it.
    ///
    /// # Safety
    /// `p` points at a leaf that lives for `'a`. Only one of both values is used.
    unsafe fn second<'a>(p: *const u8) -> Self::New<'a>;

    /// Frees what a leaf has outside its block, after its value was moved out bit by bit.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn forget(p: *mut u8);

    // In an inline cluster, a value has a *slot*: the bytes behind the tail of its key for a byte
    // string, and otherwise the beginning of its entry.

    /// Whether inline clusters may hold such values.
    const INLINE: bool;
    /// The layout of entries in them.
    const ENTRIES: Entries;

    /// Bytes that a new value takes behind the tail of its key.
    fn slot_behind(new: &Self::New<'_>) -> usize;

    /// Bytes that the value behind a tail takes.
    ///
    /// # Safety
    /// `behind` points behind the tail of an entry that is in its block.
    unsafe fn slot_len(behind: *const u8) -> usize;

    /// A pointer to the value.
    ///
    /// # Safety
    /// `slot` is one with a value.
    unsafe fn slot_value(slot: *const u8) -> *mut Self;

    /// Writes the value.
    ///
    /// # Safety
    /// The slot has as many bytes as it takes, and nobody reads it.
    unsafe fn slot_write(slot: *mut u8, new: Self::New<'_>);

    /// Moves out what must be dropped.
    ///
    /// # Safety
    /// `slot` is one with a value, which nobody uses afterwards.
    unsafe fn slot_take(slot: *mut u8) -> Self::Held;

    /// Moves the value out.
    ///
    /// # Safety
    /// As for `slot_take`.
    unsafe fn slot_take_value(slot: *mut u8) -> Self::Taken;

    /// Replaces the value, and returns the old one. If the new one needs another entry, it returns
    /// the new value.
    ///
    /// # Safety
    /// `slot` is one with a value that nobody else uses.
    unsafe fn slot_overwrite<'a>(
        slot: *mut u8,
        new: Self::New<'a>,
    ) -> Result<Self::Taken, Self::New<'a>>;

    /// Frees what a slot has outside, after its value was moved out bit by bit.
    ///
    /// # Safety
    /// As for `slot_take`.
    unsafe fn slot_forget(slot: *mut u8);
}

/// A value that a map can hold: any type that has a size, or a byte string of any length as `[u8]`.
///
/// All types that have a size, and `[u8]`, implement this trait; users need not implement it.
pub trait Value: Stored {}

impl<V: ?Sized + Stored> Value for V {}

/// A value that can be inserted into a map of `V`: a `V`, which moves in. For a map of `[u8]`, it
/// is a reference to a slice, an array or a vector of bytes, which are copied.
///
/// Users need not implement this trait.
///
/// ```
/// use sapwood::qp::QpMap;
/// let mut numbers = QpMap::new();
/// numbers.insert("elm", 7u32)?;
/// let mut texts: QpMap<[u8]> = QpMap::new();
/// texts.insert("elm", b"Ulmus")?;
/// texts.insert("oak", "Quercus".as_bytes())?;
/// texts.insert("ash", &vec![0; 1000])?;
/// assert_eq!(texts.get("oak"), Some(&b"Quercus"[..]));
/// # Ok::<(), sapwood::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inserted into a map of `{V}`",
    note = "a map of `[u8]` takes `&[u8]`: texts as `text.as_bytes()`, vectors by reference"
)]
pub trait IntoValue<V: ?Sized + Value>: Sized {
    /// The value, or a reference to its bytes.
    #[doc(hidden)]
    fn into_new<'a>(self) -> V::New<'a>
    where
        Self: 'a;
}

/// A type of values whose maps take an `N`: the other half of [`IntoValue`]. By it the compiler
/// infers the inserted type from the map, as in `map.insert(key, text.parse()?)`.
///
/// Users need not implement this trait.
pub trait Accepts<N> {}

impl<T> Accepts<T> for T {}

impl Accepts<&[u8]> for [u8] {}

impl<const N: usize> Accepts<&[u8; N]> for [u8] {}

impl Accepts<&Vec<u8>> for [u8] {}

impl<T> IntoValue<T> for T {
    #[inline(always)]
    fn into_new<'a>(self) -> T
    where
        T: 'a,
    {
        self
    }
}

impl<'b> IntoValue<[u8]> for &'b [u8] {
    #[inline(always)]
    fn into_new<'a>(self) -> &'a [u8]
    where
        'b: 'a,
    {
        self
    }
}

impl<'b, const N: usize> IntoValue<[u8]> for &'b [u8; N] {
    #[inline(always)]
    fn into_new<'a>(self) -> &'a [u8]
    where
        'b: 'a,
    {
        self
    }
}

impl<'b> IntoValue<[u8]> for &'b Vec<u8> {
    #[inline(always)]
    fn into_new<'a>(self) -> &'a [u8]
    where
        'b: 'a,
    {
        self
    }
}

/// Stores a value by `store`, or rejects it if it is too long.
#[inline(always)]
pub(crate) fn storing<'a, V: ?Sized + Value + Accepts<N>, N: IntoValue<V> + 'a, R>(
    value: N,
    store: impl FnOnce(V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
) -> Result<R, Rejected<V::Held>> {
    storing_new::<V, R>(value.into_new(), store)
}

/// Stores a value that a map or a closure returned, as [`storing`] does. If only a reference is
/// needed, the value lies in `place`.
#[cfg(feature = "std")]
#[inline(always)]
pub(crate) fn storing_taken<'a, V: ?Sized + Value, R>(
    value: V::Taken,
    place: &'a mut Option<V::Taken>,
    store: impl FnOnce(V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
) -> Result<R, Rejected<V::Held>> {
    storing_new::<V, R>(V::lend(value, place), store)
}

#[inline(always)]
fn storing_new<'a, V: ?Sized + Value, R>(
    value: V::New<'a>,
    store: impl FnOnce(V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
) -> Result<R, Rejected<V::Held>> {
    let len = V::new_len(&value);
    let stored = match len > MAX_VALUE {
        true => Err(Rejected {
            value,
            error: Error::ValueTooLong { len },
        }),
        false => store(value),
    };
    stored.map_err(|Rejected { value, error }| Rejected {
        value: V::held(value),
        error,
    })
}

// SAFETY: the value or its pointer comes first, in the bytes of its size.
unsafe impl<T> Stored for T {
    type New<'a> = T;
    type Spare<'a> = ();
    type Taken = T;
    type Held = T;

    const BOXED: bool = align_of::<T>() > 8;
    const NEEDS_DROP: bool = Self::BOXED || core::mem::needs_drop::<T>();
    const SIZE: usize = size_of::<T>();
    const ALIGN: usize = align_of::<T>();
    const VARIES: bool = false;
    const LEN_AT: usize = if Self::BOXED {
        size_of::<*mut T>()
    } else {
        size_of::<T>()
    };

    #[inline(always)]
    fn lend<'a>(taken: T, _: &'a mut Option<T>) -> Self::New<'a> {
        taken
    }

    #[inline(always)]
    unsafe fn copied(value: &T) -> T {
        // SAFETY: the caller's promise.
        unsafe { ptr::read(value) }
    }

    #[inline(always)]
    fn held(new: T) -> T {
        new
    }

    #[inline(always)]
    fn new_len(_: &T) -> usize {
        0
    }

    #[inline(always)]
    fn spare<'a>(_: &Self::New<'a>) -> Self::Spare<'a> {}

    #[inline(always)]
    fn again<'a>((): Self::Spare<'a>, value: T) -> Self::New<'a> {
        value
    }

    #[inline(always)]
    fn behind(_: usize) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn value_len(_: *const u8) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn value_ptr(p: *const u8) -> *mut T {
        if Self::BOXED {
            // SAFETY: the slot holds the pointer that `write` put there.
            unsafe { p.cast::<*mut T>().read() }
        } else {
            p.cast_mut().cast()
        }
    }

    #[inline(always)]
    unsafe fn write(p: *mut u8, value: T) {
        // SAFETY: the block has room for the value.
        unsafe {
            if Self::BOXED {
                p.cast::<*mut T>().write(Box::into_raw(Box::new(value)));
            } else {
                p.cast::<T>().write(value);
            }
        }
    }

    #[inline(always)]
    unsafe fn overwrite<'a>(p: *mut u8, value: Self::New<'a>) -> Result<T, Self::New<'a>> {
        // SAFETY: the caller's promise.
        Ok(unsafe { core::mem::replace(&mut *<T as Stored>::value_ptr(p), value) })
    }

    #[inline(always)]
    unsafe fn take(p: *mut u8) -> T {
        // SAFETY: the caller's promise.
        unsafe {
            if Self::BOXED {
                *Box::from_raw(<T as Stored>::value_ptr(p))
            } else {
                p.cast::<T>().read()
            }
        }
    }

    #[inline(always)]
    unsafe fn take_value(p: *mut u8) -> T {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::take(p) }
    }

    #[inline(always)]
    unsafe fn second<'a>(p: *const u8) -> Self::New<'a> {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::value_ptr(p).read() }
    }

    #[inline]
    unsafe fn forget(p: *mut u8) {
        if Self::BOXED {
            // SAFETY: the pointer came from a box; the value in it is not dropped.
            drop(unsafe { Box::from_raw(<T as Stored>::value_ptr(p).cast::<MaybeUninit<T>>()) });
        }
    }

    const INLINE: bool = Self::BOXED || size_of::<T>() <= sapwood_format::inline::HELD_MAX;
    const ENTRIES: Entries = Entries::of(
        <T as Stored>::LEN_AT,
        if Self::BOXED { 8 } else { align_of::<T>() },
    );

    #[inline(always)]
    fn slot_behind(_: &T) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn slot_len(_: *const u8) -> usize {
        0
    }

    // A slot is as the beginning of a leaf.

    #[inline(always)]
    unsafe fn slot_value(slot: *const u8) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::value_ptr(slot) }
    }

    #[inline(always)]
    unsafe fn slot_write(slot: *mut u8, value: T) {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::write(slot, value) }
    }

    #[inline(always)]
    unsafe fn slot_take(slot: *mut u8) -> T {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::take(slot) }
    }

    #[inline(always)]
    unsafe fn slot_take_value(slot: *mut u8) -> T {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::take(slot) }
    }

    #[inline(always)]
    unsafe fn slot_overwrite<'a>(slot: *mut u8, value: Self::New<'a>) -> Result<T, Self::New<'a>> {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::overwrite(slot, value) }
    }

    #[inline]
    unsafe fn slot_forget(slot: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { <T as Stored>::forget(slot) }
    }
}

// SAFETY: length and bytes follow the key, as `sapwood_format::leaf` lays them out.
unsafe impl Stored for [u8] {
    type New<'a> = &'a [u8];
    type Spare<'a> = &'a [u8];
    type Taken = Box<[u8]>;
    type Held = ();

    const BOXED: bool = false;
    const NEEDS_DROP: bool = false;
    const SIZE: usize = sapwood_format::header::BYTE_STRINGS as usize;
    const ALIGN: usize = 8;
    const VARIES: bool = true;
    const LEN_AT: usize = 0;

    #[inline(always)]
    fn lend(taken: Box<[u8]>, place: &mut Option<Box<[u8]>>) -> &[u8] {
        place.insert(taken)
    }

    #[inline(always)]
    unsafe fn copied(value: &[u8]) -> &[u8] {
        value
    }

    #[inline(always)]
    fn held(_: &[u8]) {}

    #[inline(always)]
    fn new_len(new: &&[u8]) -> usize {
        new.len()
    }

    #[inline(always)]
    fn spare<'a>(new: &Self::New<'a>) -> Self::Spare<'a> {
        new
    }

    #[inline(always)]
    fn again<'a>(spare: Self::Spare<'a>, (): ()) -> Self::New<'a> {
        spare
    }

    #[inline(always)]
    fn behind(value_len: usize) -> usize {
        leaf::bytes_behind(value_len)
    }

    #[inline(always)]
    unsafe fn value_len(p: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { value_at(p) }.1
    }

    #[inline(always)]
    unsafe fn value_ptr(p: *const u8) -> *mut [u8] {
        // SAFETY: the caller's promise.
        let (value, len) = unsafe { value_at(p) };
        ptr::slice_from_raw_parts_mut(value.cast_mut(), len)
    }

    #[inline]
    unsafe fn write(p: *mut u8, new: &[u8]) {
        let (length, n) = leaf::value_length(new.len());
        // SAFETY: the block has room for the length and the bytes behind the key.
        unsafe {
            let key_len = LeafOf::<[u8]>::key_len(p);
            let at = p.add(LeafOf::<[u8]>::key_at(key_len) + key_len);
            ptr::copy_nonoverlapping(length.as_ptr(), at, n);
            ptr::copy_nonoverlapping(new.as_ptr(), at.add(n), new.len());
        }
    }

    #[inline(always)]
    unsafe fn overwrite<'a>(_: *mut u8, new: Self::New<'a>) -> Result<Self::Taken, Self::New<'a>> {
        Err(new)
    }

    #[inline(always)]
    unsafe fn take(_: *mut u8) {}

    #[inline]
    unsafe fn take_value(p: *mut u8) -> Box<[u8]> {
        // SAFETY: the caller's promise.
        unsafe { (*<[u8] as Stored>::value_ptr(p)).into() }
    }

    #[inline(always)]
    unsafe fn second<'a>(p: *const u8) -> Self::New<'a> {
        // SAFETY: the caller's promise.
        unsafe { &*<[u8] as Stored>::value_ptr(p) }
    }

    #[inline(always)]
    unsafe fn forget(_: *mut u8) {}

    const INLINE: bool = true;
    const ENTRIES: Entries = Entries::of(0, 1);

    #[inline(always)]
    fn slot_behind(new: &&[u8]) -> usize {
        leaf::bytes_behind(new.len())
    }

    #[inline(always)]
    unsafe fn slot_len(behind: *const u8) -> usize {
        // A value in a block is short: its length has one byte.
        // SAFETY: the caller's promise.
        1 + usize::from(unsafe { *behind })
    }

    #[inline(always)]
    unsafe fn slot_value(slot: *const u8) -> *mut [u8] {
        // SAFETY: the caller's promise.
        let len = usize::from(unsafe { *slot });
        ptr::slice_from_raw_parts_mut(slot.wrapping_add(1).cast_mut(), len)
    }

    #[inline(always)]
    unsafe fn slot_write(slot: *mut u8, new: &[u8]) {
        // SAFETY: the slot has a byte for the length, and the bytes behind it.
        unsafe {
            *slot = new.len() as u8;
            ptr::copy_nonoverlapping(new.as_ptr(), slot.add(1), new.len());
        }
    }

    #[inline(always)]
    unsafe fn slot_take(_: *mut u8) {}

    #[inline]
    unsafe fn slot_take_value(slot: *mut u8) -> Box<[u8]> {
        // SAFETY: the caller's promise.
        unsafe { (*<[u8] as Stored>::slot_value(slot)).into() }
    }

    #[inline(always)]
    unsafe fn slot_overwrite<'a>(
        slot: *mut u8,
        new: Self::New<'a>,
    ) -> Result<Self::Taken, Self::New<'a>> {
        // SAFETY: the caller's promise; a value of the same length fits.
        unsafe {
            if usize::from(*slot) != new.len() {
                return Err(new);
            }
            let old = Self::slot_take_value(slot);
            Self::slot_write(slot, new);
            Ok(old)
        }
    }

    #[inline(always)]
    unsafe fn slot_forget(_: *mut u8) {}
}

/// The beginning of a byte string in a leaf, and its length.
///
/// # Safety
/// `p` points at a leaf with a byte string.
#[inline(always)]
unsafe fn value_at(p: *const u8) -> (*const u8, usize) {
    // SAFETY: the length follows the key; the bytes of its longer forms are there when its first
    // byte says so.
    unsafe {
        let short = usize::from(*p);
        let end = match short < LONG {
            true => 1 + short,
            false => LeafOf::<[u8]>::key_at(LONG) + LeafOf::<[u8]>::key_len(p),
        };
        let at = p.add(end);
        let first = *at;
        if first < leaf::VALUE_U16 {
            return (at.add(1), usize::from(first));
        }
        let more = leaf::value_length_bytes(first);
        let mut length = [first, 0, 0, 0, 0];
        ptr::copy_nonoverlapping(at.add(1), length.as_mut_ptr().add(1), more - 1);
        (at.add(more), leaf::value_len(length))
    }
}
