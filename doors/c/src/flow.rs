//! Hashes of flows, which choose members of groups.

use std::ffi::{c_int, c_uint};

use sapwood::route::{FlowHasher, FlowKey};

use crate::call::call;
use crate::error::{Failure, Outcome};
use crate::input;
use crate::prefix;

/// A flow's addresses, ports and protocol.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sapwood_flow {
    /// The source address in network order.
    pub source: [u8; 16],
    /// The destination address in network order.
    pub destination: [u8; 16],
    /// 4 or 16, of both addresses.
    pub addr_len: u8,
    /// The IP protocol number.
    pub protocol: u8,
    /// The source port in the host's order.
    pub source_port: u16,
    /// The destination port in the host's order.
    pub destination_port: u16,
    /// 0.
    pub reserved: u16,
}

/// The flag for a hash that is the same in both directions.
const SYMMETRIC: c_uint = 1;

impl sapwood_flow {
    fn key(&self) -> Outcome<FlowKey> {
        let len = usize::from(self.addr_len);
        let address = |bytes: &[u8; 16]| {
            // SAFETY: 16 bytes are there, and other lengths than 4 and 16 are refused.
            unsafe { prefix::address(bytes.as_ptr().cast(), len.min(17)) }
        };
        if !matches!(len, 4 | 16) {
            return Err(Failure::invalid(format!(
                "an address has 4 or 16 bytes, and those of the flow have {len}"
            )));
        }
        Ok(FlowKey {
            source: address(&self.source)?,
            destination: address(&self.destination)?,
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
        })
    }
}

/// The hash of a flow.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_flow_hash(
    seed: u64,
    flow: *const sapwood_flow,
    flags: c_uint,
    hash: *mut u64,
) -> c_int {
    call("sapwood_flow_hash", || {
        crate::domain::known_flags(flags, SYMMETRIC)?;
        let hash = input::place(hash, "the place for the hash")?;
        let flow = input::place(flow.cast_mut(), "the flow")?;
        // SAFETY: C.
        let key = unsafe { &*flow }.key()?;
        let hasher = FlowHasher::new(seed);
        let found = match flags & SYMMETRIC {
            0 => hasher.hash(&key),
            _ => hasher.hash_symmetric(&key),
        };
        // SAFETY: C.
        unsafe { *hash = found };
        Ok(0)
    })
}
