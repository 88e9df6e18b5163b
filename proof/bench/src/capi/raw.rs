//! Handles of the C library, and the functions of uthash's shim.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::mem::transmute;
use std::ptr::{null, null_mut};

use sapwood_capi::domain::{sapwood_domain, sapwood_domain_free, sapwood_domain_new};
use sapwood_capi::fib::{
    sapwood_fib, sapwood_fib_build, sapwood_fib_free, sapwood_fib_lookup4,
    sapwood_fib_lookup4_bulk, sapwood_fib_view, sapwood_fib_view_ipv4,
};
use sapwood_capi::map::{sapwood_map_free, sapwood_map_get, sapwood_map_insert, sapwood_map_new};
use sapwood_capi::maps::{sapwood_map, sapwood_options};
use sapwood_capi::prefix::sapwood_prefix;
use sapwood_capi::reader::{sapwood_reader, sapwood_reader_free, sapwood_reader_new};
use sapwood_capi::value::sapwood_value;

use crate::keylist::{KeyList, Tally};
use crate::shim::{Link, Recipe};

/// `SAPWOOD_INDEX`.
const INDEX: c_uint = 4;

// Obligations of all blocks below. A handle is live until it is dropped, and its thread is this
// one. Places and lists are there for as long as the call needs them.

/// A `sapwood_map` with the point index.
pub struct Names(*mut sapwood_map);

impl Names {
    /// A map with these pairs.
    pub fn build(pairs: &KeyList) -> Self {
        let options = sapwood_options {
            size: size_of::<sapwood_options>(),
            flags: INDEX,
            ..sapwood_options::default()
        };
        let mut map = null_mut();
        // SAFETY: as above.
        let made = unsafe { sapwood_map_new(&raw const options, &raw mut map) };
        assert_eq!(made, 0);
        for (key, number) in pairs.iter() {
            let value = sapwood_value { number };
            // SAFETY: as above.
            let result = unsafe {
                sapwood_map_insert(map, key.as_ptr().cast(), key.len(), &raw const value)
            };
            assert_eq!(result, 1);
        }
        Names(map)
    }

    /// Looks all keys up.
    pub fn lookups(&self, keys: &KeyList) -> Tally {
        type Get = unsafe extern "C" fn(
            *const sapwood_map,
            *const c_void,
            usize,
            *mut sapwood_value,
        ) -> c_int;
        let get: Get = black_box(sapwood_map_get);
        Tally::of(keys, |key| {
            let mut value = sapwood_value { number: 0 };
            // SAFETY: as above; the map's values are numbers.
            unsafe {
                let found = get(self.0, key.as_ptr().cast(), key.len(), &raw mut value);
                (found == 0).then_some(value.number)
            }
        })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { sapwood_map_free(self.0) };
    }
}

/// A `sapwood_fib` with a reader.
pub struct Fib {
    domain: *mut sapwood_domain,
    reader: *mut sapwood_reader,
    fib: *mut sapwood_fib,
}

impl Fib {
    /// A table of IPv4 routes: addresses and lengths, and values.
    pub fn build(routes: &[([u8; 4], u8, u64)]) -> Self {
        let prefix = |(addr, bits, _): &([u8; 4], u8, u64)| {
            let mut prefix = sapwood_prefix {
                addr_len: 4,
                bits: *bits,
                ..sapwood_prefix::default()
            };
            prefix.addr[..4].copy_from_slice(addr);
            prefix
        };
        let prefixes: Vec<_> = routes.iter().map(prefix).collect();
        let values: Vec<_> = routes.iter().map(|(_, _, value)| *value).collect();
        let (mut domain, mut reader, mut fib) = (null_mut(), null_mut(), null_mut());
        let name: *const c_char = c"bench".as_ptr();
        // SAFETY: as above.
        unsafe {
            assert_eq!(sapwood_domain_new(null(), &raw mut domain), 0);
            assert_eq!(sapwood_reader_new(domain, name, &raw mut reader), 0);
            let (prefixes, values) = (prefixes.as_ptr(), values.as_ptr());
            let built =
                sapwood_fib_build(domain, null(), prefixes, values, routes.len(), &raw mut fib);
            assert_eq!(built, 0);
        }
        Fib {
            domain,
            reader,
            fib,
        }
    }

    /// Looks all addresses up, one a call; `none` stands for an address without a route. Returns
    /// the sum of the answers.
    pub fn lookups(&self, addrs: &[u32], none: u64) -> u64 {
        type Lookup =
            unsafe extern "C" fn(*const sapwood_fib, *const sapwood_reader, u32, *mut u64) -> c_int;
        let lookup: Lookup = black_box(sapwood_fib_lookup4);
        let mut sum = 0u64;
        for addr in addrs {
            let mut value = none;
            // SAFETY: as above. The value stays as it is where nothing is found.
            unsafe { lookup(self.fib, self.reader, *addr, &raw mut value) };
            sum = sum.wrapping_add(value);
        }
        sum
    }

    /// The same with a burst of 32 a call.
    pub fn bulk(&self, addrs: &[u32], none: u64) -> u64 {
        type Bulk = unsafe extern "C" fn(
            *const sapwood_fib,
            *const sapwood_reader,
            *const u32,
            usize,
            u64,
            *mut u64,
        ) -> c_int;
        let lookup: Bulk = black_box(sapwood_fib_lookup4_bulk);
        let mut sum = 0u64;
        let mut values = [0; 32];
        for burst in addrs.chunks(values.len()) {
            let (at, len) = (burst.as_ptr(), burst.len());
            // SAFETY: as above.
            let result =
                unsafe { lookup(self.fib, self.reader, at, len, none, values.as_mut_ptr()) };
            assert_eq!(result, 0);
            sum = values[..len]
                .iter()
                .fold(sum, |sum, value| sum.wrapping_add(*value));
        }
        sum
    }
}

/// The function of the shim for `sapwood_inline.h`.
type InlineLookups = unsafe extern "C" fn(*const sapwood_fib_view, *const u32, usize, u64) -> u64;

/// The lookups that `sapwood_inline.h` compiles into a loop in C.
pub struct FibInline {
    fib: Fib,
    lookups: InlineLookups,
}

impl FibInline {
    /// The same of a table, or why there are none.
    pub fn build(fib: Fib) -> Result<Self, String> {
        const RECIPE: Recipe = Recipe {
            library: "sapwood_inline.h",
            link: Link::Source(|folder| {
                let headers = [
                    (
                        "sapwood.h",
                        include_str!("../../../../doors/c/include/sapwood.h"),
                    ),
                    (
                        "sapwood_inline.h",
                        include_str!("../../../../doors/c/include/sapwood_inline.h"),
                    ),
                ];
                for (name, text) in headers {
                    std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
                }
                Ok(format!("-I{}", folder.display()))
            }),
            compiler: "cc",
            file: "inline.c",
            source: include_str!("inline.c"),
            arguments: [&[], &[]],
        };
        let shim = RECIPE.load()?;
        // SAFETY: this is the type of the function in the shim.
        let lookups = unsafe { transmute::<*mut c_void, InlineLookups>(shim.find("lookups")?) };
        Ok(FibInline { fib, lookups })
    }

    /// As `Fib::lookups`.
    pub fn lookups(&self, addrs: &[u32], none: u64) -> u64 {
        let mut view = std::mem::MaybeUninit::uninit();
        // SAFETY: as above; the view is used before the reader's next quiescent state.
        unsafe {
            let made = sapwood_fib_view_ipv4(self.fib.fib, self.fib.reader, view.as_mut_ptr());
            assert_eq!(made, 0);
            (self.lookups)(view.as_ptr(), addrs.as_ptr(), addrs.len(), none)
        }
    }
}

impl Drop for Fib {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            sapwood_fib_free(self.fib);
            sapwood_reader_free(self.reader);
            sapwood_domain_free(self.domain);
        }
    }
}

const RECIPE: Recipe = Recipe {
    library: "uthash",
    link: Link::Source(|_| Ok(String::new())),
    compiler: "cc",
    file: "shim.c",
    source: concat!(
        include_str!("../engines/native/list.h"),
        include_str!("uthash.c")
    ),
    arguments: [&[], &[]],
};

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

/// A map of uthash.
pub struct Uthash {
    map: *mut c_void,
    lookups: unsafe extern "C" fn(*const c_void, *const List) -> Tally,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Uthash {
    /// A map with these pairs, whose keys differ; or why there is none.
    pub fn build(pairs: &KeyList) -> Result<Self, String> {
        type New = unsafe extern "C" fn() -> *mut c_void;
        type Insert = unsafe extern "C" fn(*mut c_void, *const List);
        let shim = RECIPE.load()?;
        // SAFETY: these are the types of the functions in the shim; `List` and `Tally` have the
        // fields of its structures in the same order.
        let (new, insert, lookups, free) = unsafe {
            (
                transmute::<*mut c_void, New>(shim.find("new")?),
                transmute::<*mut c_void, Insert>(shim.find("insert")?),
                transmute::<*mut c_void, unsafe extern "C" fn(*const c_void, *const List) -> Tally>(
                    shim.find("lookups")?,
                ),
                transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(shim.find("free")?),
            )
        };
        // SAFETY: as above.
        let map = unsafe { new() };
        assert!(!map.is_null(), "there is memory");
        // SAFETY: as above.
        unsafe { insert(map, &List::new(pairs)) };
        Ok(Uthash { map, lookups, free })
    }

    /// Looks all keys up.
    pub fn lookups(&self, keys: &KeyList) -> Tally {
        // SAFETY: as above.
        unsafe { (self.lookups)(self.map, &List::new(keys)) }
    }
}

impl Drop for Uthash {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (self.free)(self.map) };
    }
}
