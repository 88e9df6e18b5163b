//! Snapshots of stores, and what changed between two of them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use sapwood::qp::{Change, QpSnapshot, QpStore};

use crate::call::{call, call_void};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, path, place};
use crate::ordered::Source;
use crate::retire::Pointer;
use crate::value::{
    CValue, Kinds, each, map_kinds, no_pointers, sapwood_bytes, sapwood_entry, sapwood_value,
};
use crate::view::{Anchor, Changes, Viewed, found, sapwood_view};

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    /// The version that it keeps.
    pub snapshot: Kinds<QpSnapshot<u64>, QpSnapshot<Pointer>, QpSnapshot<[u8]>>,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swSn");
    const NAME: &'static str = "snapshot";
}

impl Viewed for SnapshotBody {
    fn changes(&self) -> Option<&Changes> {
        None
    }
}

/// C's `sapwood_snapshot`.
pub type sapwood_snapshot = Handle<SnapshotBody>;

/// Frees a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_free(snapshot: *mut sapwood_snapshot) {
    // SAFETY: C.
    call_void("sapwood_snapshot_free", || unsafe { free(snapshot) });
}

/// The value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_get(
    snapshot: *const sapwood_snapshot,
    key: *const c_void,
    key_len: usize,
    value: *mut sapwood_value,
) -> c_int {
    call("sapwood_snapshot_get", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(snapshot)?;
            let key = bytes(key, key_len, "the key")?;
            each!(&body.snapshot, snapshot => found(snapshot.get(key), value))
        }
    })
}

/// The number of entries.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_len(
    snapshot: *const sapwood_snapshot,
    len: *mut usize,
) -> c_int {
    call("sapwood_snapshot_len", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(snapshot)?;
            *place(len, "len")? = each!(&body.snapshot, snapshot => snapshot.len());
        }
        Ok(0)
    })
}

/// The number of the version.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_version(
    snapshot: *const sapwood_snapshot,
    version: *mut u64,
) -> c_int {
    call("sapwood_snapshot_version", || {
        // SAFETY: C.
        unsafe {
            let body = Handle::shared(snapshot)?;
            let version = place(version, "version")?;
            *version = each!(&body.snapshot, snapshot => snapshot.version().get());
        }
        Ok(0)
    })
}

/// A view of the snapshot, until its end.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_view(
    snapshot: *const sapwood_snapshot,
    view: *mut sapwood_view,
) -> c_int {
    call("sapwood_snapshot_view", || {
        // SAFETY: C.
        unsafe {
            let body: &'static SnapshotBody = Handle::shared(snapshot)?;
            let view = place(view, "view")?;
            let source = map_kinds!(&body.snapshot, snapshot => Source::Handle(snapshot));
            sapwood_view::write(view, Anchor::handle(snapshot, body), source);
        }
        Ok(0)
    })
}

/// Saves the snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_save(
    snapshot: *const sapwood_snapshot,
    to: *const c_char,
) -> c_int {
    call("sapwood_snapshot_save", || {
        // SAFETY: C.
        let (body, to) = unsafe { (Handle::shared(snapshot)?, path(to)?) };
        match &body.snapshot {
            Kinds::Numbers(snapshot) => snapshot.save(to)?,
            Kinds::Bytes(snapshot) => snapshot.save(to)?,
            Kinds::Pointers(_) => return Err(no_pointers()),
        }
        Ok(0)
    })
}

/// A key that was written between two snapshots.
#[repr(C)]
pub struct sapwood_change {
    /// `sizeof` this structure.
    pub size: usize,
    /// `enum sapwood_change_kind`.
    pub kind: c_int,
    /// Always 0.
    pub reserved: c_uint,
    /// The key.
    pub key: sapwood_bytes,
    /// Its value before, unless it was added.
    pub old_value: sapwood_value,
    /// Its value after, unless it was removed.
    pub new_value: sapwood_value,
}

/// C's function that is told of a change.
pub type sapwood_change_fn =
    Option<unsafe extern "C" fn(change: *const sapwood_change, ctx: *mut c_void) -> c_int>;

impl sapwood_change {
    fn new<V: ?Sized + CValue>(change: &Change<'_, V>) -> Self {
        let none = sapwood_entry::NONE.value;
        let (kind, old_value, new_value) = match change {
            Change::Added(_, new) => (0, none, new.output()),
            Change::Removed(_, old) => (1, old.output(), none),
            Change::Changed(_, old, new) => (2, old.output(), new.output()),
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

/// What changed between two snapshots.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_snapshot_diff(
    old: *const sapwood_snapshot,
    new: *const sapwood_snapshot,
    each: sapwood_change_fn,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_snapshot_diff", || {
        // SAFETY: C.
        let (old, new) = unsafe { (Handle::shared(old)?, Handle::shared(new)?) };
        let tell = each.ok_or_else(|| Failure::null("the function"))?;
        match (&old.snapshot, &new.snapshot) {
            (Kinds::Numbers(old), Kinds::Numbers(new)) => diff(old, new, tell, ctx),
            (Kinds::Pointers(old), Kinds::Pointers(new)) => diff(old, new, tell, ctx),
            (Kinds::Bytes(old), Kinds::Bytes(new)) => diff(old, new, tell, ctx),
            _ => Err(Failure::invalid(
                "the snapshots have different kinds of values",
            )),
        }
    })
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
