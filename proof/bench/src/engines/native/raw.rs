//! The functions of a shim, and safe maps over them.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::transmute;

use super::Library;
use crate::keylist::{KeyList, ScanSum, Tally};

/// `struct list`.
#[repr(C)]
struct List {
    bytes: *const u8,
    bounds: *const usize,
    values: *const u64,
    count: usize,
}

impl List {
    fn new(list: &KeyList) -> Self {
        let (bytes, bounds, values) = list.parts();
        Self {
            bytes: bytes.as_ptr(),
            bounds: bounds.as_ptr(),
            values: values.as_ptr(),
            count: values.len(),
        }
    }
}

type New = unsafe extern "C" fn() -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Bytes = unsafe extern "C" fn(*const c_void) -> usize;
type Insert = unsafe extern "C" fn(*mut c_void, *const List);
type Lookups = unsafe extern "C" fn(*const c_void, *const List, c_int, u64) -> Tally;
type Scan = unsafe extern "C" fn(*const c_void) -> ScanSum;
type Ranges = unsafe extern "C" fn(*const c_void, *const List, usize) -> ScanSum;
type Predecessors = unsafe extern "C" fn(*const c_void, *const List) -> ScanSum;
type Replace = unsafe extern "C" fn(*mut c_void, *const List, *const List);

/// A shim's functions.
pub struct Functions {
    new: New,
    free: Free,
    bytes: Bytes,
    insert: Insert,
    lookups: Lookups,
    scan: Scan,
    ranges: Ranges,
    predecessors: Predecessors,
    replace: Replace,
}

/// The functions, or why there are none; determined once.
pub(super) fn functions<L: Library>() -> Result<&'static Functions, String> {
    let shim = L::shim().get_or_init(load::<L>);
    shim.as_ref().map_err(String::clone)
}

fn load<L: Library>() -> Result<Functions, String> {
    let shim = L::RECIPE.load()?;
    // SAFETY: these are the types of the functions in the shims. A pointer to a map is an untyped
    // pointer here. `List`, `Tally` and `ScanSum` have the fields of the shims' structures in the
    // same order.
    unsafe {
        Ok(Functions {
            new: transmute::<*mut c_void, New>(shim.find("new")?),
            free: transmute::<*mut c_void, Free>(shim.find("free")?),
            bytes: transmute::<*mut c_void, Bytes>(shim.find("bytes")?),
            insert: transmute::<*mut c_void, Insert>(shim.find("insert")?),
            lookups: transmute::<*mut c_void, Lookups>(shim.find("lookups")?),
            scan: transmute::<*mut c_void, Scan>(shim.find("scan")?),
            ranges: transmute::<*mut c_void, Ranges>(shim.find("ranges")?),
            predecessors: transmute::<*mut c_void, Predecessors>(shim.find("predecessors")?),
            replace: transmute::<*mut c_void, Replace>(shim.find("replace")?),
        })
    }
}

/// A map that belongs to this thread.
pub(super) struct Map<L> {
    functions: &'static Functions,
    map: *mut c_void,
    library: PhantomData<L>,
}

// Obligations of all blocks below. The map is live until it is dropped. Functions that change it
// take `&mut`, so nobody else uses it meanwhile. A list is complete while it is borrowed, and its
// keys have the library's `form`.
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
        // SAFETY: as above.
        unsafe { (self.functions.bytes)(self.map) }
    }

    /// Inserts pairs in order.
    pub(super) fn insert(&mut self, pairs: &KeyList) {
        // SAFETY: as above.
        unsafe { (self.functions.insert)(self.map, &List::new(pairs)) };
    }

    /// Looks keys up; if `chained`, each after the answer to the one before is known.
    pub(super) fn lookups(&self, keys: &KeyList, chained: bool) -> Tally {
        let (mask, chained) = (std::hint::black_box(0), c_int::from(chained));
        // SAFETY: as above.
        unsafe { (self.functions.lookups)(self.map, &List::new(keys), chained, mask) }
    }

    /// Reads all entries in order.
    pub(super) fn scan(&self) -> ScanSum {
        // SAFETY: as above.
        unsafe { (self.functions.scan)(self.map) }
    }

    /// See [`Built::ranges`](crate::engines::Built::ranges).
    pub(super) fn ranges(&self, starts: &KeyList, count: usize) -> ScanSum {
        // SAFETY: as above.
        unsafe { (self.functions.ranges)(self.map, &List::new(starts), count) }
    }

    /// See [`Built::predecessors`](crate::engines::Built::predecessors).
    pub(super) fn predecessors(&self, keys: &KeyList) -> ScanSum {
        // SAFETY: as above.
        unsafe { (self.functions.predecessors)(self.map, &List::new(keys)) }
    }

    /// See [`Built::replace`](crate::engines::Built::replace).
    pub(super) fn replace(&mut self, old: &KeyList, new: &KeyList) {
        assert_eq!(old.len(), new.len());
        // SAFETY: as above.
        unsafe { (self.functions.replace)(self.map, &List::new(old), &List::new(new)) };
    }
}

impl<L> Drop for Map<L> {
    fn drop(&mut self) {
        // SAFETY: the map is live, and this is the last use of it.
        unsafe { (self.functions.free)(self.map) };
    }
}
