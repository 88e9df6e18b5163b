//! The functions of the shim around liburcu, registered threads, and pointers to values that they
//! read.

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

/// The functions of a flavour, or why there are none; determined once.
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
    /// The flavours with which this thread has registered a [`Thread`].
    static REGISTERED: Cell<[bool; FLAVOURS]> = const { Cell::new([false; FLAVOURS]) };
}

/// Records whether this thread is registered; returns the former value.
fn note<F: Flavour>(registered: bool) -> bool {
    REGISTERED.with(|all| {
        let mut flavours = all.get();
        let before = std::mem::replace(&mut flavours[F::NUMBER], registered);
        all.set(flavours);
        before
    })
}

/// The thread's registration with a flavour. Only one exists per thread at a time, and it stays on
/// its thread.
pub struct Thread<F: Flavour> {
    functions: &'static Functions,
    _local: PhantomData<(*const (), F)>,
}

impl<F: Flavour> Thread<F> {
    /// Registers this thread.
    ///
    /// # Panics
    ///
    /// If the thread is already registered, or liburcu is not installed.
    pub(super) fn register() -> Self {
        let functions = functions::<F>().expect("whoever asks has found liburcu");
        assert!(!note::<F>(true), "a thread is registered once at a time");
        // SAFETY: the thread is not registered, because only this function registers. The value
        // that it returns unregisters the thread, and nobody leaks it.
        unsafe { (functions.register)() };
        Self {
            functions,
            _local: PhantomData,
        }
    }

    /// Reports a quiescent state: this thread holds no reference.
    pub(super) fn quiescent(&mut self) {
        // SAFETY: this thread is registered. It is in no section: a section borrows the one
        // `Thread` of this thread, and `&mut` excludes such a borrow.
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

/// A pointer to a value that one thread at a time replaces while others read it.
pub struct Pointer<F: Flavour, T: Send + Sync + 'static> {
    functions: &'static Functions,
    /// The pointer comes from a box that nobody else owns.
    current: AtomicPtr<T>,
    _owned: PhantomData<(T, F)>,
}

impl<F: Flavour, T: Send + Sync + 'static> Pointer<F, T> {
    /// A pointer to a first value.
    ///
    /// # Panics
    ///
    /// If liburcu is not installed.
    pub(super) fn new(value: T) -> Self {
        Self {
            functions: functions::<F>().expect("whoever asks has found liburcu"),
            current: AtomicPtr::new(Box::into_raw(Box::new(value))),
            _owned: PhantomData,
        }
    }

    /// Calls `f` with the current value, in a read-side critical section.
    pub(super) fn read<R>(&self, thread: &Thread<F>, f: impl FnOnce(&T) -> R) -> R {
        let section = Section::new(thread);
        // SAFETY: the pointer comes from a box. The thread that replaces it has liburcu free the
        // box after a grace period, which does not end before this section; `drop` has `&mut`. In
        // the flavour with quiescent states, this thread announces none before the section ends,
        // because the section borrows the thread's one registration.
        let result = f(unsafe { &*self.current.load(Ordering::Acquire) });
        drop(section);
        result
    }

    /// Replaces the value; liburcu frees the old one when no reader can hold it.
    pub(super) fn replace(&self, thread: &Thread<F>, value: T) {
        let new = Box::into_raw(Box::new(value));
        // Release: a thread that loads the new value sees what was written to it. Acquire: this
        // thread sees all of the old value, and through liburcu's queue so does the thread that
        // drops it.
        let old = self.current.swap(new, Ordering::AcqRel);
        let Thread { functions, .. } = thread;
        // SAFETY: the thread is registered, as liburcu requires for this call. `old` comes from a
        // box of this type. It is unlinked, so that readers that begin now do not find it, and only
        // this thread received it from the swap. Values are `Send`, so liburcu's thread may drop
        // them.
        unsafe { (functions.retire)(old.cast(), release::<T>) };
    }

    /// Waits until all values that were replaced before are freed.
    pub(super) fn barrier(&self) {
        // SAFETY: any thread may call it. In a section it prints a complaint and returns, and
        // nothing here relies on its wait.
        unsafe { (self.functions.barrier)() };
    }
}

/// Drops a retired value, on liburcu's thread.
unsafe extern "C" fn release<T>(value: *mut c_void) {
    // SAFETY: `replace` gave this function a box of this type, once.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}

impl<F: Flavour, T: Send + Sync + 'static> Drop for Pointer<F, T> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box, and `&mut` excludes readers and writers.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

/// A read-side critical section of this thread, which ends when the value is dropped.
struct Section<'t, F: Flavour>(&'t Thread<F>);

impl<'t, F: Flavour> Section<'t, F> {
    fn new(thread: &'t Thread<F>) -> Self {
        // SAFETY: this thread is registered. Sections may nest.
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
