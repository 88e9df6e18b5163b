//! The shim around liburcu: its functions, registered threads, and pointers that they read.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{FLAVOURS, Flavour};

type Plain = unsafe extern "C" fn();
type Release = unsafe extern "C" fn(*mut c_void);
type Retire = unsafe extern "C" fn(*mut c_void, Release);

/// A shim's functions.
pub struct Functions {
    register: Plain,
    unregister: Plain,
    enter: Plain,
    leave: Plain,
    quiescent: Plain,
    retire: Retire,
    barrier: Plain,
}

/// The functions of a flavour, or why there are none; found out once.
pub(super) fn functions<F: Flavour>() -> Result<&'static Functions, String> {
    let shim = F::shim().get_or_init(load::<F>);
    shim.as_ref().map_err(String::clone)
}

fn load<F: Flavour>() -> Result<Functions, String> {
    let shim = F::RECIPE.load()?;
    // SAFETY: these are the types of the functions in `shim.c`.
    unsafe {
        Ok(Functions {
            register: transmute::<*mut c_void, Plain>(shim.find("register")?),
            unregister: transmute::<*mut c_void, Plain>(shim.find("unregister")?),
            enter: transmute::<*mut c_void, Plain>(shim.find("enter")?),
            leave: transmute::<*mut c_void, Plain>(shim.find("leave")?),
            quiescent: transmute::<*mut c_void, Plain>(shim.find("quiescent")?),
            retire: transmute::<*mut c_void, Retire>(shim.find("retire")?),
            barrier: transmute::<*mut c_void, Plain>(shim.find("barrier")?),
        })
    }
}

thread_local! {
    /// Of which flavours this thread has a [`Thread`].
    static REGISTERED: Cell<[bool; FLAVOURS]> = const { Cell::new([false; FLAVOURS]) };
}

/// Notes whether this thread is registered; whether it was.
fn note<F: Flavour>(registered: bool) -> bool {
    REGISTERED.with(|all| {
        let mut flavours = all.get();
        let before = std::mem::replace(&mut flavours[F::NUMBER], registered);
        all.set(flavours);
        before
    })
}

/// The thread's registration with a flavour. There is one at a time, and it stays on its thread.
pub struct Thread<F: Flavour> {
    functions: &'static Functions,
    _local: PhantomData<(*const (), F)>,
}

impl<F: Flavour> Thread<F> {
    /// Registers this thread.
    ///
    /// # Panics
    ///
    /// If it is registered, or liburcu is not here.
    pub(super) fn register() -> Self {
        let functions = functions::<F>().expect("whoever asks has found liburcu");
        assert!(!note::<F>(true), "a thread is registered once at a time");
        // SAFETY: the thread is not registered, as only this function registers, and what it
        // returns, which nobody leaks, unregisters.
        unsafe { (functions.register)() };
        Self {
            functions,
            _local: PhantomData,
        }
    }

    /// Says that this thread holds nothing.
    pub(super) fn quiescent(&mut self) {
        // SAFETY: this thread is registered. It is in no section: a section borrows the one
        // `Thread` of this thread, and `&mut` says that nobody does.
        unsafe { (self.functions.quiescent)() };
    }
}

impl<F: Flavour> Drop for Thread<F> {
    fn drop(&mut self) {
        // SAFETY: this thread is registered, and in no section, as for `quiescent`.
        unsafe { (self.functions.unregister)() };
        note::<F>(false);
    }
}

/// A pointer to a value that one thread replaces at a time while others read it.
pub struct Pointer<F: Flavour, T: Send + Sync + 'static> {
    functions: &'static Functions,
    /// Comes from a box, which nobody else owns.
    current: AtomicPtr<T>,
    _owned: PhantomData<(T, F)>,
}

impl<F: Flavour, T: Send + Sync + 'static> Pointer<F, T> {
    /// A pointer to a first value.
    ///
    /// # Panics
    ///
    /// If liburcu is not here.
    pub(super) fn new(value: T) -> Self {
        Self {
            functions: functions::<F>().expect("whoever asks has found liburcu"),
            current: AtomicPtr::new(Box::into_raw(Box::new(value))),
            _owned: PhantomData,
        }
    }

    /// Calls `f` with the value of now, in a section.
    pub(super) fn read<R>(&self, thread: &Thread<F>, f: impl FnOnce(&T) -> R) -> R {
        let section = Section::new(thread);
        // SAFETY: the pointer comes from a box. Whoever replaces it lets liburcu free the box after
        // a grace period, which does not end before this section; `drop` has `&mut`. In the flavour
        // with quiescent states, this thread announces none before the section ends, as the section
        // borrows the thread's one registration.
        let result = f(unsafe { &*self.current.load(Ordering::Acquire) });
        drop(section);
        result
    }

    /// Replaces the value; the old one goes when no reader can hold it.
    pub(super) fn replace(&self, thread: &Thread<F>, value: T) {
        let new = Box::into_raw(Box::new(value));
        // Release: whoever loads the new value sees what was written to it. Acquire: this thread
        // sees the old one whole, and through liburcu's queue so does the thread that drops it.
        let old = self.current.swap(new, Ordering::AcqRel);
        let Thread { functions, .. } = thread;
        // SAFETY: the thread is registered, as liburcu wants it for this. `old` comes from a box of
        // this type; it is unlinked, so that readers that begin now do not meet it, and this thread
        // alone was given it. Values are `Send`: liburcu's thread may drop them.
        unsafe { (functions.retire)(old.cast(), release::<T>) };
    }

    /// Waits until all values are gone that were replaced before.
    pub(super) fn barrier(&self) {
        // SAFETY: any thread may call it. In a section it complains and returns, and nothing here
        // relies on its wait.
        unsafe { (self.functions.barrier)() };
    }
}

/// Drops what liburcu was given.
unsafe extern "C" fn release<T>(value: *mut c_void) {
    // SAFETY: `replace` gave this function a box of this type, once.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}

impl<F: Flavour, T: Send + Sync + 'static> Drop for Pointer<F, T> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box, and `&mut` says that nobody reads or replaces it.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

/// A section of this thread, which ends when this is dropped.
struct Section<'t, F: Flavour>(&'t Thread<F>);

impl<'t, F: Flavour> Section<'t, F> {
    fn new(thread: &'t Thread<F>) -> Self {
        // SAFETY: this thread is registered. Sections may be within each other.
        unsafe { (thread.functions.enter)() };
        Self(thread)
    }
}

impl<F: Flavour> Drop for Section<'_, F> {
    fn drop(&mut self) {
        // SAFETY: this thread is registered, and in the section that `new` began.
        unsafe { (self.0.functions.leave)() };
    }
}
