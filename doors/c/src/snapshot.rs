//! Snapshots of stores, and what changed between two of them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use sapwood::qp::{Change, QpSnapshot, QpStore};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{self, bytes};
use crate::maps::sapwood_snapshot;
use crate::ordered::Source;
use crate::output::put;
use crate::retire::Pointer;
use crate::value::{
    CValue, Kinds, each, map_kinds, no_pointers, sapwood_bytes, sapwood_entry, sapwood_value,
};
use crate::view::{Anchor, Viewed, found, sapwood_view};

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    /// The version that it keeps.
    pub snapshot: Kinds<QpSnapshot<u64>, QpSnapshot<Pointer>, QpSnapshot<[u8]>>,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swSn");
    const NAME: &'static str = "snapshot";
}

impl Viewed for SnapshotBody {}

impl sapwood_change {
    fn new<V: ?Sized + CValue>(change: &Change<'_, V>) -> Self {
        let none = sapwood_entry::NONE.value;
        let (kind, old_value, new_value) = match change {
            Change::Added(_, new) => (SAPWOOD_ADDED, none, new.output()),
            Change::Removed(_, old) => (SAPWOOD_REMOVED, old.output(), none),
            Change::Changed(_, old, new) => (SAPWOOD_CHANGED, old.output(), new.output()),
        };
        sapwood_change {
            size: size_of::<Self>(),
            kind,
            reserved: 0,
            key: sapwood_bytes::new(change.key()),
            old_value,
            new_value,
        }
    }
}

fn diff<V: ?Sized + CValue>(
    old: &QpSnapshot<V>,
    new: &QpSnapshot<V>,
    tell: unsafe extern "C" fn(*const sapwood_change, *mut c_void) -> c_int,
    ctx: *mut c_void,
) -> Outcome {
    for change in QpStore::diff(old, new) {
        let change = sapwood_change::new(&change);
        // SAFETY: C gave both for this.
        let answer = unsafe { tell(&raw const change, ctx) };
        if answer != 0 {
            return Ok(answer);
        }
    }
    Ok(0)
}

c_api!(
    /// Snapshots. Any thread. Values that they give are valid until sapwood_snapshot_free.
    fn sapwood_snapshot_free(snapshot: *mut sapwood_snapshot) {
        free(snapshot)
    }

    fn sapwood_snapshot_get(
        snapshot: *const sapwood_snapshot,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let body = Handle::shared(snapshot)?;
        let key = bytes(key, key_len, "the key")?;
        each!(&body.snapshot, snapshot => found(snapshot.get(key), value))
    }

    fn sapwood_snapshot_len(snapshot: *const sapwood_snapshot, len: *mut usize) -> c_int {
        let body = Handle::shared(snapshot)?;
        put(
            len,
            "len",
            each!(&body.snapshot, snapshot => snapshot.len()),
        )
    }

    fn sapwood_snapshot_version(snapshot: *const sapwood_snapshot, version: *mut u64) -> c_int {
        let body = Handle::shared(snapshot)?;
        put(
            version,
            "version",
            each!(&body.snapshot, snapshot => snapshot.version().get()),
        )
    }

    fn sapwood_snapshot_view(snapshot: *const sapwood_snapshot, view: *mut sapwood_view) -> c_int {
        let body: &'static SnapshotBody = Handle::shared(snapshot)?;
        let source = map_kinds!(&body.snapshot, snapshot => Source::Pieces(snapshot));
        sapwood_view::write(view, Anchor::handle(snapshot, body), source)
    }

    /// As sapwood_map_save, with the number of the version.
    fn sapwood_snapshot_save(snapshot: *const sapwood_snapshot, path: *const c_char) -> c_int {
        let (body, path) = (Handle::shared(snapshot)?, input::path(path)?);
        match &body.snapshot {
            Kinds::Numbers(snapshot) => snapshot.save(path)?,
            Kinds::Bytes(snapshot) => snapshot.save(path)?,
            Kinds::Pointers(_) => return Err(no_pointers()),
        }
        Ok(0)
    }

    pub enum sapwood_change_kind {
        SAPWOOD_ADDED = 0,
        SAPWOOD_REMOVED = 1,
        SAPWOOD_CHANGED = 2,
    }

    pub struct sapwood_change {
        pub size: usize,
        /// enum sapwood_change_kind
        pub kind: c_int,
        /// 0
        pub reserved: c_uint,
        pub key: sapwood_bytes,
        /// unless added
        pub old_value: sapwood_value,
        /// unless removed
        pub new_value: sapwood_value,
    }

    /// Returns 0 to go on; anything else ends the walk.
    pub type sapwood_change_fn =
        Option<unsafe extern "C" fn(change: *const sapwood_change, ctx: *mut c_void) -> c_int>;

    /// Calls each(change, ctx) for each key that was written between two snapshots, in order; not
    /// for one with the same number or bytes as before. Keys are valid until the callback returns.
    /// Returns 0, or what ended the walk. O(changes), if the store was not compacted in between.
    /// -EINVAL: the kinds of values differ.
    fn sapwood_snapshot_diff(
        before: *const sapwood_snapshot,
        after: *const sapwood_snapshot,
        each: sapwood_change_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let (before, after) = (Handle::shared(before)?, Handle::shared(after)?);
        let tell = each.ok_or_else(|| Failure::null("the function"))?;
        match (&before.snapshot, &after.snapshot) {
            (Kinds::Numbers(before), Kinds::Numbers(after)) => diff(before, after, tell, ctx),
            (Kinds::Pointers(before), Kinds::Pointers(after)) => diff(before, after, tell, ctx),
            (Kinds::Bytes(before), Kinds::Bytes(after)) => diff(before, after, tell, ctx),
            _ => Err(Failure::invalid(
                "the snapshots have different kinds of values",
            )),
        }
    }
);
