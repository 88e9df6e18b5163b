//! Pointers as values, which a callback takes back.

use std::ffi::c_void;
use std::sync::Arc;

use crate::value::sapwood_retire_fn;

/// C's function that takes a value back.
type RetireFn = unsafe extern "C" fn(value: *mut c_void, ctx: *mut c_void);

/// Who takes the values of a structure back.
#[derive(Debug)]
pub struct Owner {
    retire: RetireFn,
    ctx: *mut c_void,
}

// SAFETY: the header says that the function may be called from any thread that uses the structure
// or its domain, with `ctx`.
unsafe impl Send for Owner {}
// SAFETY: the same.
unsafe impl Sync for Owner {}

impl Owner {
    /// The owner of a structure's values; `None` if there is no function.
    pub fn new(retire: sapwood_retire_fn, ctx: *mut c_void) -> Option<Arc<Self>> {
        retire.map(|retire| Arc::new(Owner { retire, ctx }))
    }
}

/// A value that is given back to its owner when it is dropped, which happens once and after the
/// grace period.
#[derive(Debug)]
pub struct Pointer {
    /// C's pointer, which nothing here follows.
    pub value: *mut c_void,
    owner: Option<Arc<Owner>>,
}

// SAFETY: the header asks for values that may be used from all threads that use the structure.
unsafe impl Send for Pointer {}
// SAFETY: the same.
unsafe impl Sync for Pointer {}

impl Pointer {
    /// A value of an owner.
    pub fn new(value: *mut c_void, owner: &Option<Arc<Owner>>) -> Self {
        Pointer {
            value,
            owner: owner.clone(),
        }
    }

    /// The pointer, without giving it back: it belongs to the caller from now on.
    pub fn keep(mut self) -> *mut c_void {
        self.owner = None;
        self.value
    }
}

impl Drop for Pointer {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            // SAFETY: C gave the function for its values; this is one, and this happens once.
            unsafe { (owner.retire)(self.value, owner.ctx) };
        }
    }
}

impl PartialEq for Pointer {
    /// Two values are the same if they are the same pointer.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
