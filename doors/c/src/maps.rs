//! What all maps over byte strings have in common: their handles, options, reports of memory.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use sapwood::qp::{AnyFile, Ordered, QpMemory, QpSharedMemory, QpStoreMemory, Unordered};

use crate::c_api::c_api;
use crate::domain::sapwood_domain;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::input::extensible;
use crate::iter::IterBody;
use crate::map::MapBody;
use crate::retire::Owner;
use crate::shared::SharedBody;
use crate::snapshot::SnapshotBody;
use crate::store::StoreBody;
use crate::txn::TxnBody;
use crate::value::{Kind, SAPWOOD_POINTERS, kind_of, sapwood_retire_fn};

extensible!(sapwood_options);

impl sapwood_options {
    /// The kind of values and their owner.
    pub fn kind(&self) -> Outcome<(Kind, Option<Arc<Owner>>)> {
        if self.retire.is_some() && self.values != SAPWOOD_POINTERS {
            return Err(Failure::invalid("only pointers can be retired"));
        }
        let kind = kind_of(self.values, self.retire.is_some())?;
        Ok((kind, Owner::new(self.retire, self.ctx)))
    }
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

extensible!(sapwood_memory);

c_api!(
    const SECTION: &str = "Maps over byte strings";

    /// sapwood_map     an owned map: one thread at a time changes it, several read in between
    /// sapwood_store   readers that never wait, one writer at a time, transactions, snapshots
    /// sapwood_shared  many readers and many writers at once
    /// sapwood_point   the same without order: whole keys only
    /// sapwood_file    a saved map, read in place by any number of processes
    ///
    /// All have the same verbs. Order (ranges, prefixes, neighbours, the closest name) is read
    /// through a sapwood_view of any of them.
    ///
    /// Lookups store the value, unless `value` is NULL, and return 0, or -ENOENT.
    /// Insertions return 1 for a new key and 0 for a replaced value. Further errors of changes:
    ///   -E2BIG   the key or value is too long        -ENOMEM  the memory limit is reached
    ///   -EAGAIN  the domain's hard limit is reached  -ENOSPC  max_entries is reached
    /// After each error, -EFAULT excepted, the map is as it was. After -EFAULT of a change, free
    /// the map: the change may be made in part, and its value belongs to the library. Costs:
    /// lookups and changes are O(length of the key).
    pub type sapwood_map = Handle<MapBody>;

    pub type sapwood_store = Handle<StoreBody>;

    pub type sapwood_txn = Handle<TxnBody>;

    pub type sapwood_snapshot = Handle<SnapshotBody>;

    pub type sapwood_shared = Handle<SharedBody<Ordered>>;

    pub type sapwood_point = Handle<SharedBody<Unordered>>;

    pub type sapwood_file = Handle<AnyFile>;

    pub type sapwood_iter = Handle<IterBody>;

    struct sapwood_view;

    /// owned and shared maps: a point index, for quick lookups of whole keys
    pub const SAPWOOD_INDEX: c_uint = 4;

    #[derive(Debug)]
    pub struct sapwood_options {
        /// sizeof(struct sapwood_options)
        pub size: usize,
        /// SAPWOOD_CHECKED, SAPWOOD_INDEX
        pub flags: c_uint,
        /// enum sapwood_values
        pub values: c_int,
        /// of pointers; NULL: nobody takes them back
        pub retire: sapwood_retire_fn,
        /// its second argument
        pub ctx: *mut c_void,
        /// bytes; 0: none
        pub memory_limit: usize,
        /// of shared and point maps; 0: no limit
        pub max_entries: usize,
        /// NULL: one of its own, without readers; not for owned maps
        pub domain: *const sapwood_domain,
    }

    #[derive(Clone, Copy, Debug)]
    pub struct sapwood_memory {
        /// sizeof(struct sapwood_memory), set by the caller
        pub size: usize,
        /// their number; all others but snapshots are bytes
        pub entries: usize,
        /// all that the map takes from the system
        pub total: usize,
        pub nodes: usize,
        /// with keys and values
        pub leaves: usize,
        pub index: usize,
        /// for readers and snapshots
        pub waiting: usize,
        /// their number
        pub snapshots: usize,
    }
);
