//! What kinds of values leaves hold: those of a fixed size, and byte strings.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr;

use sapwood_format::leaf::{self, LONG};

use super::leaf::{LeafOf, MAX_VALUE};
use crate::{Error, Rejected};

/// What a leaf can hold: any type of a fixed size, or a byte string. The two differ in where the
/// value lies, and in how it gets there and out again.
///
/// # Safety
/// `BLOCK` and the sizes are those of the blocks that `write` fills; `value_ptr` points at what
/// `write` put there.
pub unsafe trait Stored {
    /// A value that is to be stored: the value itself, or a loan of bytes that are copied.
    type New<'a>;
    /// What of a new value stays with the caller when it is written: nothing, or the loan.
    type Spare<'a>: Copy;
    /// A value that comes out of a map.
    type Taken;
    /// What a map owns of a value, and drops with its leaf: the value, or nothing.
    type Held;

    /// The value lies behind a pointer.
    const BOXED: bool;
    /// Something has to be done when a leaf goes.
    const NEEDS_DROP: bool;
    /// Bytes of a value, and what they are aligned to, as published maps and files name them.
    const SIZE: usize;
    const ALIGN: usize;
    /// Values may be longer or shorter than each other.
    const VARIES: bool;
    /// Where the length of the key is.
    const LEN_AT: usize;

    /// A new value of one that came out of a map, which stays in `place` if it is lent.
    fn lend<'a>(taken: Self::Taken, place: &'a mut Option<Self::Taken>) -> Self::New<'a>;

    /// A new value of one that lies elsewhere: a second one bit by bit, or a loan.
    ///
    /// # Safety
    /// Any bytes are a value of this type, or of both values only one is used.
    unsafe fn copied(value: &Self) -> Self::New<'_>;

    /// What the caller of a refused insertion gets back of a new value.
    fn held(new: Self::New<'_>) -> Self::Held;

    /// The new value's length where lengths vary, else 0.
    fn new_len(new: &Self::New<'_>) -> usize;

    /// What is left of a new value when it is written.
    fn spare<'a>(new: &Self::New<'a>) -> Self::Spare<'a>;

    /// The new value again, from what `take` took out of its leaf.
    fn again<'a>(spare: Self::Spare<'a>, dropped: Self::Held) -> Self::New<'a>;

    /// Bytes that a value of this length (0 where lengths do not vary) takes behind the key.
    fn behind(value_len: usize) -> usize;

    /// The length of the value in a leaf where lengths vary, else 0.
    ///
    /// # Safety
    /// `p` points at a leaf.
    unsafe fn value_len(p: *const u8) -> usize;

    /// Where the value is.
    ///
    /// # Safety
    /// `p` points at a leaf.
    unsafe fn value_ptr(p: *const u8) -> *mut Self;

    /// Writes the value.
    ///
    /// # Safety
    /// `p` is a block of the right size, which nobody reads; key and length are written.
    unsafe fn write(p: *mut u8, new: Self::New<'_>);

    /// Puts a value in the place of the one that is there, which comes back; or gives it back if
    /// that wants another leaf.
    ///
    /// # Safety
    /// `p` points at a leaf that nobody else uses.
    unsafe fn overwrite<'a>(p: *mut u8, new: Self::New<'a>) -> Result<Self::Taken, Self::New<'a>>;

    /// Moves out what has to be dropped.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn take(p: *mut u8) -> Self::Held;

    /// Moves the value out.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn take_value(p: *mut u8) -> Self::Taken;

    /// A second one of the value, bit by bit, or a loan of it.
    ///
    /// # Safety
    /// `p` points at a leaf that lives for `'a`. Of both values only one is used.
    unsafe fn second<'a>(p: *const u8) -> Self::New<'a>;

    /// Gives back what a leaf has outside its block, for a value that was moved out bit by bit.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    unsafe fn forget(p: *mut u8);
}

/// What a map can hold: values of any type that has a size, and byte strings of any length as
/// `[u8]`.
///
/// All types that have a size, and `[u8]`, implement it; there is nothing to implement.
pub trait Value: Stored {}

impl<V: ?Sized + Stored> Value for V {}

/// What can be inserted as a value into a map of `V`: a `V`, which moves in; into a map of `[u8]`,
/// a reference to a slice, an array or a vector of bytes, which are copied.
///
/// There is nothing to implement.
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
    /// The value, or a loan of its bytes.
    #[doc(hidden)]
    fn into_new<'a>(self) -> V::New<'a>
    where
        Self: 'a;
}

/// A map of this takes `N`: the other half of [`IntoValue`], by which the compiler knows what is
/// inserted when it knows the map, as in `map.insert(key, text.parse()?)`.
///
/// There is nothing to implement.
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

/// Stores a value that is not too long.
#[inline(always)]
pub(crate) fn storing<'a, V: ?Sized + Value + Accepts<N>, N: IntoValue<V> + 'a, R>(
    value: N,
    store: impl FnOnce(V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
) -> Result<R, Rejected<V::Held>> {
    storing_new::<V, R>(value.into_new(), store)
}

/// Stores a value that a map gave, or a closure, as [`storing`] does; what is lent of it lies in
/// `place`.
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

// SAFETY: the value comes first, in as many bytes as it has, or its pointer.
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
}

/// Where a byte string begins in a leaf, and its length.
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
