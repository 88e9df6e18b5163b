//! Reports of memory.

use std::ffi::c_int;

use sapwood::qp::{QpMemory, QpSharedMemory, QpStoreMemory};

use crate::error::{Failure, Outcome};

/// What a map's memory holds, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sapwood_memory {
    /// `sizeof` this structure.
    pub size: usize,
    /// Number of entries.
    pub entries: usize,
    /// All bytes that the map takes from the system.
    pub total: usize,
    /// Bytes of branches and clusters.
    pub nodes: usize,
    /// Bytes of leaves, with keys and values.
    pub leaves: usize,
    /// Bytes of the point index.
    pub index: usize,
    /// Bytes that wait for readers and snapshots.
    pub waiting: usize,
    /// Number of snapshots.
    pub snapshots: usize,
}

impl sapwood_memory {
    /// The report of an owned map.
    pub fn from_map(memory: &QpMemory) -> Self {
        sapwood_memory {
            size: size_of::<Self>(),
            entries: memory.entries,
            total: memory.total(),
            nodes: memory.branches.1 + memory.clusters.1,
            leaves: memory.leaves.1,
            index: memory.index,
            waiting: 0,
            snapshots: 0,
        }
    }

    /// The report of a store.
    pub fn from_store(memory: &QpStoreMemory) -> Self {
        sapwood_memory {
            waiting: memory.waiting.1,
            snapshots: memory.snapshots,
            ..Self::from_map(&memory.map)
        }
    }

    /// The report of a shared map or a point map.
    pub fn from_shared(memory: &QpSharedMemory) -> Self {
        sapwood_memory {
            size: size_of::<Self>(),
            entries: memory.entries,
            total: memory.total(),
            nodes: memory.branches.1 + memory.clusters.1,
            leaves: memory.leaves.1,
            index: memory.index,
            waiting: memory.waiting.1,
            snapshots: 0,
        }
    }
}

/// Stores as much of a report as the caller knows.
///
/// # Safety
/// `at` is NULL, or it points to as many bytes as its first field says.
pub unsafe fn store_memory(at: *mut sapwood_memory, report: sapwood_memory) -> Outcome<c_int> {
    if at.is_null() {
        return Err(Failure::null("memory"));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { (&raw const (*at).size).read() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::invalid(format!(
            "the field size of sapwood_memory is {size}; set it to sizeof(sapwood_memory)"
        )));
    }
    let mut report = report;
    report.size = size;
    let known = size.min(size_of::<sapwood_memory>());
    // SAFETY: both have that many bytes; the rest of the caller's are `size` bytes in all.
    unsafe {
        let to = at.cast::<u8>();
        to.copy_from_nonoverlapping((&raw const report).cast(), known);
        to.add(known).write_bytes(0, size - known);
    }
    Ok(0)
}
