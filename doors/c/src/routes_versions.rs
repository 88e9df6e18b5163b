//! Transactions, snapshots and iterators of `sapwood_routes`.

use std::ffi::{c_char, c_int, c_void};

use sapwood::route::RouteTable;

use crate::call::{call, call_void};
use crate::error::Failure;
use crate::handle::{Handle, free};
use crate::prefix::{self, sapwood_prefix};
use crate::routes::{group, put_group, sapwood_member, sapwood_routes};
use crate::versions::{self, IterBody, SnapshotBody, TxnBody, Versioned};

/// C's `sapwood_routes_txn`.
pub type sapwood_routes_txn = Handle<TxnBody<RouteTable<u64>>>;

/// Begins a transaction; waits for others.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_begin(
    routes: *mut sapwood_routes,
    out: *mut *mut sapwood_routes_txn,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::begin("sapwood_routes_begin", routes, out, Versioned::begin) }
}

/// Begins a transaction, unless another is open.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_try_begin(
    routes: *mut sapwood_routes,
    out: *mut *mut sapwood_routes_txn,
) -> c_int {
    // SAFETY: C.
    unsafe {
        versions::begin(
            "sapwood_routes_try_begin",
            routes,
            out,
            Versioned::try_begin,
        )
    }
}

/// Publishes all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_txn_commit(txn: *mut sapwood_routes_txn) -> c_int {
    // SAFETY: C.
    unsafe { versions::commit("sapwood_routes_txn_commit", txn) }
}

/// Discards all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_txn_rollback(txn: *mut sapwood_routes_txn) -> c_int {
    // SAFETY: C.
    unsafe { versions::rollback("sapwood_routes_txn_rollback", txn) }
}

/// Inserts a prefix in a transaction, or replaces its group.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_txn_insert(
    txn: *mut sapwood_routes_txn,
    of: *const sapwood_prefix,
    members: *const sapwood_member,
    count: usize,
) -> c_int {
    call("sapwood_routes_txn_insert", || {
        // SAFETY: C.
        let open = unsafe { versions::opened(txn) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        // SAFETY: C.
        let group = unsafe { group(members, count) }?;
        Ok((!open.txn.insert(net, group)?).into())
    })
}

/// Removes a prefix in a transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_txn_remove(
    txn: *mut sapwood_routes_txn,
    of: *const sapwood_prefix,
) -> c_int {
    call("sapwood_routes_txn_remove", || {
        // SAFETY: C.
        let open = unsafe { versions::opened(txn) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        Ok(if open.txn.remove(net)? {
            0
        } else {
            -libc::ENOENT
        })
    })
}

/// C's `sapwood_routes_snapshot`.
pub type sapwood_routes_snapshot = Handle<SnapshotBody<RouteTable<u64>>>;

/// Makes a snapshot of the newest routes.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_new(
    routes: *const sapwood_routes,
    out: *mut *mut sapwood_routes_snapshot,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::snapshot("sapwood_routes_snapshot_new", routes, out) }
}

/// Frees a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_free(snapshot: *mut sapwood_routes_snapshot) {
    // SAFETY: C.
    call_void("sapwood_routes_snapshot_free", || unsafe { free(snapshot) });
}

/// The group of the longest prefix of an address, in a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_group(
    snapshot: *const sapwood_routes_snapshot,
    addr: *const c_void,
    addr_len: usize,
    members: *mut sapwood_member,
    room: usize,
    count: *mut usize,
) -> c_int {
    call("sapwood_routes_snapshot_group", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        // SAFETY: C.
        let addr = unsafe { prefix::address(addr, addr_len) }?;
        match body.snapshot.group(addr) {
            // SAFETY: C.
            Some(group) => unsafe { put_group(group, members, room, count) }.map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    })
}

/// The number of prefixes of a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_len(
    snapshot: *const sapwood_routes_snapshot,
    len: *mut usize,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::len("sapwood_routes_snapshot_len", snapshot, len) }
}

/// Saves a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_save(
    snapshot: *const sapwood_routes_snapshot,
    path: *const c_char,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::save("sapwood_routes_snapshot_save", snapshot, path) }
}

/// C's `sapwood_routes_iter`.
pub type sapwood_routes_iter = Handle<IterBody<RouteTable<u64>>>;

/// Makes an iterator over a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_iter_new(
    snapshot: *const sapwood_routes_snapshot,
    out: *mut *mut sapwood_routes_iter,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::iter("sapwood_routes_iter_new", snapshot, out) }
}

/// The next prefix with its group, if there is one.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_iter_next(
    iter: *mut sapwood_routes_iter,
    at: *mut sapwood_prefix,
    members: *mut sapwood_member,
    room: usize,
    count: *mut usize,
) -> c_int {
    call("sapwood_routes_iter_next", || {
        if members.is_null() && room > 0 {
            return Err(Failure::null("the list of members"));
        }
        // SAFETY: C.
        unsafe { versions::next(iter, at, |group| put_group(group, members, room, count)) }
    })
}

/// Frees an iterator.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_iter_free(iter: *mut sapwood_routes_iter) {
    // SAFETY: C.
    call_void("sapwood_routes_iter_free", || unsafe { free(iter) });
}
