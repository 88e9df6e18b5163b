//! The shim around DPDK: its functions, and tables made of them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::thread;

use crate::shim::{Link, Recipe};

/// What DPDK may take, in megabytes: address space, which it fills only as far as tables need.
const MEGABYTES: &CStr = c"3072";

/// What "no route" is in the tables.
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

/// The functions for one kind. An address is four bytes of the host's order or sixteen of the
/// network's.
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

/// The library, or why there is none; found out once.
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
    // Its memory pools come from a driver that nothing names.
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
        // SAFETY: these are the types of the functions in `shim.c`, up to pointers to bytes and to
        // anything, which are passed alike.
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
    // SAFETY: as above.
    let (init, allocated) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(find(
                "init",
            )?),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(find("allocated")?),
        )
    };
    // It ties the thread that calls it to a core: that shall not be this one.
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

/// A table of DPDK. `A` is an address as the kind takes it: see [`Functions`].
pub(super) struct Table<A> {
    functions: Functions,
    table: *mut c_void,
    bytes: usize,
    addresses: std::marker::PhantomData<fn(A)>,
}

// SAFETY: a table is not bound to a thread.
unsafe impl<A> Send for Table<A> {}

// SAFETY: through a shared reference it is only looked up, which any number of threads may do.
unsafe impl<A> Sync for Table<A> {}

/// An address that DPDK takes, in bytes without padding.
pub(super) trait Address: Copy + Default {
    /// Whether tables of the kind take it.
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
    /// A table for as many routes and further tables of 256 entries.
    pub(super) fn new(kind: Kind, routes: usize, tbl8s: usize) -> Result<Self, String> {
        assert!(A::suits(kind), "an address of another family");
        let library = library()?;
        let functions = library.functions[kind as usize];
        let (routes, tbl8s) = (c_int::try_from(routes), u32::try_from(tbl8s));
        let (Ok(routes), Ok(tbl8s)) = (routes, tbl8s) else {
            return Err("too many routes for DPDK".into());
        };
        // SAFETY: DPDK was started; the functions take any numbers.
        let (table, bytes) = unsafe {
            let before = (library.allocated)();
            let table = (functions.new)(routes, tbl8s);
            (table, (library.allocated)() - before)
        };
        if table.is_null() {
            return Err(format!(
                "DPDK makes no table for {routes} routes and {tbl8s} tables below the first"
            ));
        }
        Ok(Self {
            functions,
            table,
            bytes: bytes as usize,
            addresses: std::marker::PhantomData,
        })
    }

    /// What it has allocated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores a route. A refusal shows in the answers.
    pub(super) fn add(&mut self, address: A, len: u8, hop: u32) {
        // SAFETY: the table is live and of a kind that takes such addresses; `&mut` keeps everybody
        // else away.
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
        // SAFETY: the table is live and of a kind that takes such addresses; there are as many as
        // is said, and room for as many answers. Nobody changes the table meanwhile, which `&mut`
        // in the other functions sees to.
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
