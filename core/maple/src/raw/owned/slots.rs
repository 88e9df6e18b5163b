//! Values in the slots of leaves.

use alloc::boxed::Box;
use core::mem::ManuallyDrop;

/// Values of more bytes, or of a greater alignment than slots have, lie in boxes.
const SLOT_MOST: usize = 64;

pub(super) const fn is_boxed<V>() -> bool {
    size_of::<V>() > SLOT_MOST || align_of::<V>() > 8
}

/// Bytes of a slot.
pub(super) const fn slot_bytes<V>() -> usize {
    if is_boxed::<V>() {
        size_of::<*mut V>()
    } else {
        size_of::<V>()
    }
}

/// The address of the value of a slot.
///
/// # Safety
/// The slot has a value of this type.
#[inline(always)]
pub(super) unsafe fn place<V>(slot: *const u8) -> *mut V {
    match is_boxed::<V>() {
        // SAFETY: the caller's promise.
        true => unsafe { slot.cast::<*mut V>().read_unaligned() },
        false => slot.cast_mut().cast(),
    }
}

/// A value as a slot has it.
pub(super) enum Filling<V> {
    Here(ManuallyDrop<V>),
    Boxed(*mut V),
}

impl<V> Filling<V> {
    pub(super) fn new(value: V) -> Self {
        match is_boxed::<V>() {
            true => Filling::Boxed(Box::into_raw(Box::new(value))),
            false => Filling::Here(ManuallyDrop::new(value)),
        }
    }

    /// The value of a slot.
    ///
    /// # Safety
    /// The slot has a value of this type. It is used either from here on or from the slot.
    #[inline(always)]
    pub(super) unsafe fn of(slot: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match is_boxed::<V>() {
                true => Filling::Boxed(place(slot)),
                false => Filling::Here(ManuallyDrop::new(place::<V>(slot).read())),
            }
        }
    }

    /// The slot's bytes.
    #[inline(always)]
    pub(super) fn bytes(this: &Option<Self>) -> *const u8 {
        match this {
            Some(Filling::Here(value)) => (&raw const **value).cast(),
            Some(Filling::Boxed(value)) => (&raw const *value).cast(),
            None => core::ptr::null(),
        }
    }

    #[inline(always)]
    pub(super) fn into_value(self) -> V {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the value is taken once, as this is not dropped.
        unsafe {
            match &mut *this {
                Filling::Here(value) => ManuallyDrop::take(value),
                Filling::Boxed(value) => *Box::from_raw(*value),
            }
        }
    }
}

impl<V> Drop for Filling<V> {
    fn drop(&mut self) {
        // SAFETY: the value was not taken.
        unsafe {
            match self {
                Filling::Here(value) => ManuallyDrop::drop(value),
                Filling::Boxed(value) => drop(Box::from_raw(*value)),
            }
        }
    }
}
