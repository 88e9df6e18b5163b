//! The functions of a shim, and safe maps over them.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::transmute;

use super::{EntrySum, Library, Query, Tally};

type New = unsafe extern "C" fn() -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Bytes = unsafe extern "C" fn(*const c_void) -> usize;
type Store = unsafe extern "C" fn(*mut c_void, u64, u64, u64);
type Clear = unsafe extern "C" fn(*mut c_void, u64, u64);
type Erase = unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int;
type Loads = unsafe extern "C" fn(*const c_void, *const u64, usize, c_int, u64) -> Tally;
type Entries = unsafe extern "C" fn(*const c_void) -> EntrySum;
type Gap = unsafe extern "C" fn(*const c_void, u64, u64, u64, *mut u64) -> c_int;

/// A shim's functions.
pub struct Functions {
    new: New,
    free: Free,
    bytes: Bytes,
    store: Store,
    clear: Clear,
    erase: Erase,
    loads: Loads,
    entries: Entries,
    gap: Gap,
}

/// The functions, or why there are none; determined once.
fn functions<L: Library>() -> Result<&'static Functions, String> {
    let shim = L::shim().get_or_init(load::<L>);
    shim.as_ref().map_err(String::clone)
}

fn load<L: Library>() -> Result<Functions, String> {
    let shim = L::RECIPE.load()?;
    // SAFETY: these are the types of the functions in each source. A pointer to the source's map is
    // an untyped pointer here. `Tally` and `EntrySum` have the fields of the source's structures in
    // the same order.
    unsafe {
        Ok(Functions {
            new: transmute::<*mut c_void, New>(shim.find("new")?),
            free: transmute::<*mut c_void, Free>(shim.find("free")?),
            bytes: transmute::<*mut c_void, Bytes>(shim.find("bytes")?),
            store: transmute::<*mut c_void, Store>(shim.find("store")?),
            clear: transmute::<*mut c_void, Clear>(shim.find("clear")?),
            erase: transmute::<*mut c_void, Erase>(shim.find("erase")?),
            loads: transmute::<*mut c_void, Loads>(shim.find("loads")?),
            entries: transmute::<*mut c_void, Entries>(shim.find("entries")?),
            gap: transmute::<*mut c_void, Gap>(shim.find("gap")?),
        })
    }
}

/// A map of a library, which belongs to this thread.
pub(super) struct Map<L> {
    functions: &'static Functions,
    map: *mut c_void,
    library: PhantomData<L>,
}

impl<L: Library> Map<L> {
    /// An empty map, if the library is installed.
    pub(super) fn new() -> Result<Self, String> {
        let functions = functions::<L>()?;
        // SAFETY: the function takes no argument, and returns a map or ends the program.
        let map = unsafe { (functions.new)() };
        Ok(Self {
            functions,
            map,
            library: PhantomData,
        })
    }

    /// The number of bytes that the map has allocated.
    pub(super) fn bytes(&self) -> usize {
        // SAFETY: the map is live.
        unsafe { (self.functions.bytes)(self.map) }
    }

    /// Stores a value over a range.
    pub(super) fn store(&mut self, start: u64, end: u64, value: u64) {
        // SAFETY: the map is live, and `&mut` excludes all other users.
        unsafe { (self.functions.store)(self.map, start, end, value) };
    }

    /// Removes the contents of a range.
    pub(super) fn clear(&mut self, start: u64, end: u64) {
        // SAFETY: as for `store`.
        unsafe { (self.functions.clear)(self.map, start, end) };
    }

    /// Removes the entry that contains an index.
    pub(super) fn erase(&mut self, index: u64) -> Option<u64> {
        let mut value = 0;
        // SAFETY: as for `store`; the function does not use `value` after it returns.
        let erased = unsafe { (self.functions.erase)(self.map, index, &raw mut value) };
        (erased != 0).then_some(value)
    }

    /// The value at an index.
    pub(super) fn get(&self, index: u64) -> Option<u64> {
        self.loads(&[index], false).only()
    }

    /// Looks indices up; if `dependent`, each after the answer to the one before is known.
    pub(super) fn loads(&self, indices: &[u64], dependent: bool) -> Tally {
        let mask = std::hint::black_box(0);
        let (first, count) = (indices.as_ptr(), indices.len());
        // SAFETY: the map is live, and nobody changes it, because the functions that do take
        // `&mut`. `first` points to `count` indices.
        unsafe { (self.functions.loads)(self.map, first, count, c_int::from(dependent), mask) }
    }

    /// Reads all entries in order.
    pub(super) fn entries(&self) -> EntrySum {
        // SAFETY: as for `loads`.
        unsafe { (self.functions.entries)(self.map) }
    }

    /// The lowest gap within a window.
    pub(super) fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let mut start = 0;
        // SAFETY: as for `loads`; the function does not use `start` after it returns.
        let found = unsafe { (self.functions.gap)(self.map, size, from, to, &raw mut start) };
        (found != 0).then_some(start)
    }
}

impl<L> Drop for Map<L> {
    fn drop(&mut self) {
        // SAFETY: the map is live, and this is the last use of it.
        unsafe { (self.functions.free)(self.map) };
    }
}
