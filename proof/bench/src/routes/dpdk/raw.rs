//! The functions of the shim around DPDK, and safe tables over them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::thread;

use crate::shim::{Link, Recipe};

/// The limit of DPDK's memory in megabytes: address space, which it fills only as far as tables
/// need.
const MEGABYTES: &CStr = c"3072";

/// The next hop that stands for "no route" in the tables.
const NONE: u64 = 0x7fff_ffff;

/// The kinds of tables, as the shim's functions name them.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Fib,
    Fib6,
    Lpm6,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Fib, "fib"),
    (Kind::Fib6, "fib6"),
    (Kind::Lpm6, "lpm6"),
];

/// The functions for one kind of table. An address is four bytes in the host's order, or sixteen in
/// network order.
#[derive(Clone, Copy)]
struct Functions {
    new: unsafe extern "C" fn(c_int, u32) -> *mut c_void,
    add: unsafe extern "C" fn(*mut c_void, *const c_void, u8, u32) -> c_int,
    delete: unsafe extern "C" fn(*mut c_void, *const c_void, u8) -> c_int,
    lookup: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut u64, c_int) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
}

struct Library {
    allocated: unsafe extern "C" fn() -> u64,
    functions: [Functions; 3],
}

/// The library, or why there is none; determined once.
fn library() -> Result<&'static Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(String::clone)
}

const RECIPE: Recipe = Recipe {
    library: "DPDK",
    link: Link::PkgConfig("libdpdk"),
    compiler: "cc",
    file: "shim.c",
    source: include_str!("shim.c"),
    // Its memory pools come from a driver that nothing else refers to.
    arguments: [
        &["-DALLOW_EXPERIMENTAL_API"],
        &["-Wl,--no-as-needed", "-lrte_mempool_ring"],
    ],
};

fn load() -> Result<Library, String> {
    let shim = RECIPE.load()?;
    let find = |name: &str| shim.find(name);
    let functions = |kind: &str| -> Result<Functions, String> {
        let find = |what: &str| find(&format!("{kind}_{what}"));
        // SAFETY: these are the types of the functions in `shim.c`, except that pointers to bytes
        // are untyped pointers here, which are passed in the same way.
        unsafe {
            Ok(Functions {
                new: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, u32) -> *mut c_void,
                >(find("new")?),
                add: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, *const c_void, u8, u32) -> c_int,
                >(find("add")?),
                delete: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, *const c_void, u8) -> c_int,
                >(find("delete")?),
                lookup: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut u64, c_int) -> c_int,
                >(find("lookup")?),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(
                    "free",
                )?),
            })
        }
    };
    let [fib, fib6, lpm6] = KINDS.map(|(_, name)| functions(name));
    // SAFETY: these are the types of the functions in `shim.c`.
    let (init, allocated) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(find(
                "init",
            )?),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(find("allocated")?),
        )
    };
    // `init` pins the thread that calls it to a core, so it runs on a thread of its own.
    // SAFETY: it is called once, with a C string, which DPDK only reads.
    let started = thread::spawn(move || unsafe { init(MEGABYTES.as_ptr()) }).join();
    match started {
        Ok(0) => Ok(Library {
            allocated,
            functions: [fib?, fib6?, lpm6?],
        }),
        Ok(code) => Err(format!("DPDK does not start: error {}", -code)),
        Err(_) => Err("DPDK does not start".into()),
    }
}

/// A table of DPDK. `A` is an address in the form of [`Functions`].
pub(super) struct Table<A> {
    functions: Functions,
    table: *mut c_void,
    bytes: usize,
    addresses: std::marker::PhantomData<fn(A)>,
}

// SAFETY: a table is not bound to a thread.
unsafe impl<A> Send for Table<A> {}

// SAFETY: a shared reference only allows lookups, which any number of threads may do.
unsafe impl<A> Sync for Table<A> {}

/// An address in DPDK's form, in bytes without padding.
pub(super) trait Address: Copy + Default {
    /// Whether tables of this kind take such addresses.
    fn suits(kind: Kind) -> bool;
}

impl Address for u32 {
    fn suits(kind: Kind) -> bool {
        matches!(kind, Kind::Fib)
    }
}

impl Address for [u8; 16] {
    fn suits(kind: Kind) -> bool {
        matches!(kind, Kind::Fib6 | Kind::Lpm6)
    }
}

/// The most lookups in one call.
pub(super) const MOST: usize = 64;

impl<A: Address> Table<A> {
    /// A table for this number of routes and of second-level tables of 256 entries.
    pub(super) fn new(kind: Kind, routes: usize, tbl8s: usize) -> Result<Self, String> {
        assert!(A::suits(kind), "an address of another family");
        let library = library()?;
        let functions = library.functions[kind as usize];
        let (routes, tbl8s) = (c_int::try_from(routes), u32::try_from(tbl8s));
        let (Ok(routes), Ok(tbl8s)) = (routes, tbl8s) else {
            return Err("too many routes for DPDK".into());
        };
        // SAFETY: DPDK was started; the functions accept all numbers.
        let (table, bytes) = unsafe {
            let before = (library.allocated)();
            let table = (functions.new)(routes, tbl8s);
            (table, (library.allocated)() - before)
        };
        if table.is_null() {
            return Err(format!(
                "DPDK cannot make a table for {routes} routes and {tbl8s} second-level tables"
            ));
        }
        Ok(Self {
            functions,
            table,
            bytes: bytes as usize,
            addresses: std::marker::PhantomData,
        })
    }

    /// The number of bytes that the table has allocated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores a route. If DPDK refuses it, the answers show that.
    pub(super) fn add(&mut self, address: A, len: u8, hop: u32) {
        // SAFETY: the table is live and of a kind that takes such addresses; `&mut` excludes all
        // other users.
        unsafe { (self.functions.add)(self.table, (&raw const address).cast(), len, hop) };
    }

    /// Removes a route.
    pub(super) fn delete(&mut self, address: A, len: u8) {
        // SAFETY: as for `add`.
        unsafe { (self.functions.delete)(self.table, (&raw const address).cast(), len) };
    }

    /// Looks up at most [`MOST`] addresses.
    pub(super) fn lookup(&self, addresses: &mut [A], mut each: impl FnMut(Option<u32>)) {
        assert!(addresses.len() <= MOST, "too many at once");
        let mut hops = [NONE; MOST];
        // SAFETY: the table is live and of a kind that takes such addresses. The call passes the
        // number of addresses, and has room for as many answers. Nobody changes the table
        // meanwhile, because the functions that do take `&mut`.
        unsafe {
            (self.functions.lookup)(
                self.table,
                addresses.as_mut_ptr().cast(),
                hops.as_mut_ptr(),
                addresses.len() as c_int,
            )
        };
        for hop in &hops[..addresses.len()] {
            each((*hop != NONE).then_some(*hop as u32));
        }
    }
}

impl<A> Drop for Table<A> {
    fn drop(&mut self) {
        // SAFETY: the table is live, and this is the last use of it.
        unsafe { (self.functions.free)(self.table) };
    }
}
