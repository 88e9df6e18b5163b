//! `sapwood_fib_file`: saved tables of routes, read where they lie.

use std::ffi::{c_char, c_int, c_uint, c_void};

use ipnet::IpNet;
use sapwood::lpm::{FibFile, HopRef, SavedHop};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::file::SAPWOOD_UNVERIFIED;
use crate::handle::{Body, Handle, free};
use crate::input::{self, place};
use crate::prefix::{self, sapwood_prefix};
use crate::value::sapwood_bytes;

impl Body for FibFile {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRf");
    const NAME: &'static str = "file of routes";
}

/// What a prefix leads to, as C has it.
fn hop_of(file: &FibFile, hop: HopRef) -> Outcome<sapwood_hop> {
    let Some(hop) = file.hop(hop) else {
        return Err(Failure::new(
            libc::EPROTO,
            "the file is damaged: a next hop is not there",
        ));
    };
    let (kind, number, bytes) = match &hop {
        SavedHop::Number(number) => (SAPWOOD_HOP_NUMBER, *number, &[][..]),
        SavedHop::Name(name) => (SAPWOOD_HOP_NAME, 0, name.as_bytes()),
        SavedHop::Bytes(bytes) => (SAPWOOD_HOP_BYTES, 0, *bytes),
        SavedHop::Null(null) => (SAPWOOD_HOP_NULL, null.number().into(), &[][..]),
        SavedHop::Group(members) => (SAPWOOD_HOP_GROUP, members.len() as u64, &[][..]),
        other => {
            let text = format!("this library does not know {}", other.kind());
            return Err(Failure::new(libc::ENOTSUP, text));
        }
    };
    Ok(sapwood_hop {
        kind,
        reserved: 0,
        number,
        bytes: sapwood_bytes {
            data: bytes.as_ptr().cast(),
            len: bytes.len(),
        },
    })
}

/// Writes what was found, where C wants it.
///
/// # Safety
/// Each place is NULL, or there is room for what its type says.
unsafe fn put(
    file: &FibFile,
    found: Option<(IpNet, HopRef)>,
    prefix: *mut sapwood_prefix,
    hop: *mut sapwood_hop,
) -> Outcome {
    let Some((net, found)) = found else {
        return Ok(-libc::ENOENT);
    };
    if !hop.is_null() {
        let found = hop_of(file, found)?;
        // SAFETY: the caller's promise.
        unsafe { hop.write(found) };
    }
    if !prefix.is_null() {
        // SAFETY: the caller's promise.
        unsafe { prefix.write(net.into()) };
    }
    Ok(0)
}

c_api!(
    /// A saved table of routes, read where it lies. The program `sapwood`, the Python package, and
    /// the snapshots of sapwood_fib and of sapwood_routes save such files. Its next hops may have
    /// names; of one whose next hops are numbers, sapwood_fib_open makes a table, and of one with
    /// groups of numbers sapwood_routes_open.
    pub type sapwood_fib_file = Handle<FibFile>;

    /// What a prefix leads to.
    pub enum sapwood_hop_kind {
        /// a next hop by number
        SAPWOOD_HOP_NUMBER = 1,
        /// a next hop by name, which may be empty
        SAPWOOD_HOP_NAME = 2,
        /// a next hop of more than 8 bytes
        SAPWOOD_HOP_BYTES = 3,
        /// a null route
        SAPWOOD_HOP_NULL = 4,
        /// a group of next hops
        SAPWOOD_HOP_GROUP = 5,
    }

    /// A next hop. Name and bytes lie in the file until it is freed, without a zero behind them.
    #[derive(Clone, Copy)]
    pub struct sapwood_hop {
        /// enum sapwood_hop_kind
        pub kind: c_int,
        /// 0
        pub reserved: c_uint,
        /// of a null route: 0 blackhole, 1 unreachable, 2 prohibit, 3 throw; of a group: members
        pub number: u64,
        /// the name, or the bytes
        pub bytes: sapwood_bytes,
    }

    /// Maps a saved table into memory. Each step in it is checked, so a damaged file gives wrong
    /// answers at worst. -EPROTO: it is damaged, of another kind, or of an earlier version; the
    /// message says which. O(bytes); O(1) with SAPWOOD_UNVERIFIED. The file may be replaced by a
    /// rename, but not be changed or cut.
    fn sapwood_fib_file_open(
        path: *const c_char,
        flags: c_uint,
        out: *mut *mut sapwood_fib_file,
    ) -> c_int {
        let out = place(out, "out")?;
        known_flags(flags, SAPWOOD_CHECKED | SAPWOOD_UNVERIFIED)?;
        let path = input::path(path)?;
        let file = match flags & SAPWOOD_UNVERIFIED != 0 {
            true => FibFile::open_unverified(path)?,
            false => FibFile::open(path)?,
        };
        *out = Handle::into_c(file, flags & SAPWOOD_CHECKED != 0);
        Ok(0)
    }

    /// Any thread. What they give is valid until sapwood_fib_file_free.
    fn sapwood_fib_file_free(file: *mut sapwood_fib_file) {
        free(file)
    }

    fn sapwood_fib_file_len(file: *const sapwood_fib_file, len: *mut usize) -> c_int {
        *place(len, "len")? = Handle::shared(file)?.len();
        Ok(0)
    }

    /// The longest (prefix) of an address, or exactly this one, and what it leads to. prefix and
    /// hop may be NULL. -ENOENT: there is none.
    fn sapwood_fib_file_lookup(
        file: *const sapwood_fib_file,
        addr: *const c_void,
        addr_len: usize,
        prefix: *mut sapwood_prefix,
        hop: *mut sapwood_hop,
    ) -> c_int {
        let file = Handle::shared(file)?;
        let found = file.lookup(prefix::address(addr, addr_len)?);
        put(file, found, prefix, hop)
    }

    fn sapwood_fib_file_get(
        file: *const sapwood_fib_file,
        prefix: *const sapwood_prefix,
        hop: *mut sapwood_hop,
    ) -> c_int {
        let file = Handle::shared(file)?;
        let net = prefix::prefix(prefix)?;
        let found = file.get(net).map(|found| (net, found));
        put(file, found, std::ptr::null_mut(), hop)
    }

    /// Is called with routes in order, IPv4 first. It returns 0 to go on; another number ends the
    /// walk.
    pub type sapwood_fib_file_fn = Option<
        unsafe extern "C" fn(
            prefix: *const sapwood_prefix,
            hop: *const sapwood_hop,
            ctx: *mut c_void,
        ) -> c_int,
    >;

    /// Calls each(prefix, hop, ctx) with all routes, and returns 0 or what `each` returned. O(n).
    fn sapwood_fib_file_each(
        file: *const sapwood_fib_file,
        each: sapwood_fib_file_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let file = Handle::shared(file)?;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        for (net, hop) in file.iter() {
            let (prefix, hop) = (sapwood_prefix::from(net), hop_of(file, hop)?);
            let answer = each(&raw const prefix, &raw const hop, ctx);
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(0)
    }

    /// Checks everything. -EPROTO: the file is damaged; the message says where. O(bytes).
    fn sapwood_fib_file_verify(file: *const sapwood_fib_file) -> c_int {
        let whole = Handle::shared(file)?.verify();
        whole.map_err(|text| Failure::new(libc::EPROTO, text))?;
        Ok(0)
    }
);
