//! Addresses and prefixes, as C gives them: bytes in network order.

use std::ffi::{c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::input;

impl sapwood_prefix {
    /// The prefix as Rust has it. Bits after its length stay.
    pub fn net(&self) -> Outcome<IpNet> {
        let net = match self.addr_len {
            4 => {
                let [a, b, c, d, ..] = self.addr;
                Ipv4Net::new(Ipv4Addr::new(a, b, c, d), self.bits).map(IpNet::V4)
            }
            16 => Ipv6Net::new(Ipv6Addr::from(self.addr), self.bits).map(IpNet::V6),
            other => return Err(no_family(other.into())),
        };
        net.map_err(|_| {
            Failure::invalid(format!(
                "a prefix of {} bits does not fit an address of {} bytes",
                self.bits, self.addr_len
            ))
        })
    }
}

#[cold]
fn no_family(len: usize) -> Failure {
    Failure::invalid(format!(
        "an address has 4 or 16 bytes, and this one has {len}"
    ))
}

impl From<IpNet> for sapwood_prefix {
    fn from(net: IpNet) -> Self {
        let mut addr = [0; 16];
        let addr_len = match net.addr() {
            IpAddr::V4(v4) => {
                addr[..4].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                addr = v6.octets();
                16
            }
        };
        sapwood_prefix {
            addr,
            addr_len,
            bits: net.prefix_len(),
        }
    }
}

/// The prefix that C points to.
///
/// # Safety
/// `at` is NULL, or it points to a prefix.
pub unsafe fn prefix(at: *const sapwood_prefix) -> Outcome<IpNet> {
    if at.is_null() {
        return Err(Failure::null("the prefix"));
    }
    // SAFETY: the caller's promise. All its fields are bytes, so it is aligned.
    unsafe { &*at }.net()
}

/// The prefixes of both families in a list.
pub fn families(all: &[sapwood_prefix]) -> Outcome<(Vec<Ipv4Net>, Vec<Ipv6Net>)> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in all {
        match prefix.net()? {
            IpNet::V4(net) => v4.push(net),
            IpNet::V6(net) => v6.push(net),
        }
    }
    Ok((v4, v6))
}

/// The address that C points to.
///
/// # Safety
/// `at` is NULL, or it points to `len` bytes.
#[inline]
pub unsafe fn address(at: *const c_void, len: usize) -> Outcome<IpAddr> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { input::bytes(at, len, "the address") }?;
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(v4));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(IpAddr::from(v6)),
        Err(_) => Err(no_family(len)),
    }
}

/// How many addresses a part of a batch has. Their answers lie on the stack.
const PART: usize = 64;

/// Looks up addresses in parts. `look_up` gets the place of a part, its addresses, and room for
/// their answers, each of which is `none` before.
pub fn in_parts<'v, K: Copy, A: Copy + From<K>>(
    addrs: &[K],
    none: &'v u64,
    values: &mut [u64],
    mut look_up: impl FnMut(usize, &[A], &mut [&'v u64]),
) {
    let parts = addrs.chunks(PART).zip(values.chunks_mut(PART));
    for (part, (addrs, values)) in parts.enumerate() {
        let mut keys = [A::from(addrs[0]); PART];
        for (key, addr) in keys.iter_mut().zip(addrs) {
            *key = A::from(*addr);
        }
        let mut found = [none; PART];
        look_up(part * PART, &keys[..addrs.len()], &mut found[..addrs.len()]);
        for (value, found) in values.iter_mut().zip(found) {
            *value = *found;
        }
    }
}

c_api!(
    /// Common to the tables of this part and the next. Readers never wait; one writer works at a
    /// time, and others wait for it. Values are numbers, which are copied out, so nothing that a
    /// lookup stored can become stale. Where a function takes a reader, NULL means: pin this thread
    /// for the moment, which costs some nanoseconds; a reader costs nothing. All functions of a
    /// table may be called by any thread, unless something else is said. A thread that has a
    /// transaction or a reservation of a table open gets -EDEADLK from functions that would wait
    /// for it. Places for results may be NULL where their names are in parentheses in the comment.
    ///
    /// Changes return -ENOMEM at the memory limit, and -EAGAIN at the domain's hard limit of
    /// garbage; then nothing has changed. After -EFAULT a table is as it was, or refuses changes
    /// (its lock is poisoned).
    const SECTION: &str = "Routes";

    /// A prefix of an address, in network order. Bytes after addr_len are not looked at.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct sapwood_prefix {
        pub addr: [u8; 16],
        /// 4 or 16
        pub addr_len: u8,
        /// the length of the prefix
        pub bits: u8,
    }

    /// Reads a prefix such as 10.0.0.0/8 or 2001:db8::/32; an address without a length is a prefix
    /// of all its bits. -EINVAL: it is not one, or has bits set after its length. Any thread.
    fn sapwood_prefix_parse(text: *const c_char, out: *mut sapwood_prefix) -> c_int {
        let out = input::place(out, "the prefix")?;
        let text = input::text(text, "the text")?.to_string_lossy();
        let net = match text.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) => match text.parse::<IpAddr>() {
                Ok(addr) => IpNet::from(addr),
                Err(_) => {
                    return Err(Failure::invalid(format!(
                        "{text:?} is not a prefix such as 10.0.0.0/8 or 2001:db8::/32"
                    )));
                }
            },
        };
        if net.trunc() != net {
            return Err(sapwood::lpm::Error::HostBitsSet { prefix: net }.into());
        }
        out.write(net.into());
        Ok(0)
    }

    /// Writes a prefix as text, cut to len - 1 bytes and ended by a zero; returns the whole length.
    fn sapwood_prefix_format(prefix: *const sapwood_prefix, buf: *mut c_char, len: usize) -> c_int {
        let text = self::prefix(prefix)?.to_string();
        if !buf.is_null() && len > 0 {
            let bytes = text.len().min(len - 1);
            // At most `len - 1` bytes and a zero are written.
            buf.cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), bytes);
            *buf.add(bytes) = 0;
        }
        // A prefix has some fifty characters at most.
        Ok(text.len() as c_int)
    }
);
