//! Hashes of flows, which choose members of groups.

use std::ffi::{c_int, c_uint};

use sapwood::route::{FlowHasher, FlowKey};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::input;
use crate::prefix;

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

c_api!(
    /// What a packet's flow is known by.
    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_flow {
        /// in network order
        pub source: [u8; 16],
        /// in network order
        pub destination: [u8; 16],
        /// 4 or 16, of both
        pub addr_len: u8,
        /// the IP protocol number
        pub protocol: u8,
        /// in the host's order; 0 where there is none
        pub source_port: u16,
        /// the same
        pub destination_port: u16,
        /// 0
        pub reserved: u16,
    }

    /// the same hash in both directions
    pub const SAPWOOD_SYMMETRIC: c_uint = 1;

    /// The hash of a flow, the same on every machine and in programs of eBPF. Without the seed,
    /// nobody can choose packets that all take one path. Any thread. O(1).
    fn sapwood_flow_hash(
        seed: u64,
        flow: *const sapwood_flow,
        flags: c_uint,
        hash: *mut u64,
    ) -> c_int {
        crate::domain::known_flags(flags, SAPWOOD_SYMMETRIC)?;
        let hash = input::place(hash, "the place for the hash")?;
        let flow = input::place(flow.cast_mut(), "the flow")?;
        let key = (&*flow).key()?;
        let hasher = FlowHasher::new(seed);
        let found = match flags & SAPWOOD_SYMMETRIC {
            0 => hasher.hash(&key),
            _ => hasher.hash_symmetric(&key),
        };
        *hash = found;
        Ok(0)
    }
);
