//! Transactions, snapshots and iterators of `sapwood_fib`.

use std::ffi::{c_char, c_int, c_void};

use sapwood::lpm::IpFib;

use crate::call::{call, call_void};
use crate::fib::{put_old, sapwood_fib};
use crate::handle::{Handle, free};
use crate::prefix::{self, sapwood_prefix};
use crate::versions::{self, IterBody, SnapshotBody, TxnBody, Versioned};

/// C's `sapwood_fib_txn`.
pub type sapwood_fib_txn = Handle<TxnBody<IpFib<u64>>>;

/// Begins a transaction; waits for others.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_begin(
    fib: *mut sapwood_fib,
    out: *mut *mut sapwood_fib_txn,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::begin("sapwood_fib_begin", fib, out, Versioned::begin) }
}

/// Begins a transaction, unless another is open.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_try_begin(
    fib: *mut sapwood_fib,
    out: *mut *mut sapwood_fib_txn,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::begin("sapwood_fib_try_begin", fib, out, Versioned::try_begin) }
}

/// Publishes all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_commit(txn: *mut sapwood_fib_txn) -> c_int {
    // SAFETY: C.
    unsafe { versions::commit("sapwood_fib_txn_commit", txn) }
}

/// Discards all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_rollback(txn: *mut sapwood_fib_txn) -> c_int {
    // SAFETY: C.
    unsafe { versions::rollback("sapwood_fib_txn_rollback", txn) }
}

/// Inserts a prefix in a transaction, or replaces its value.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_insert(
    txn: *mut sapwood_fib_txn,
    of: *const sapwood_prefix,
    value: u64,
    old: *mut u64,
) -> c_int {
    call("sapwood_fib_txn_insert", || {
        // SAFETY: C.
        let open = unsafe { versions::opened(txn) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        let before = open.txn.insert(net, value)?.copied();
        // SAFETY: C.
        Ok((unsafe { put_old(before, old) } == 0).into())
    })
}

/// Removes a prefix in a transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_remove(
    txn: *mut sapwood_fib_txn,
    of: *const sapwood_prefix,
    old: *mut u64,
) -> c_int {
    call("sapwood_fib_txn_remove", || {
        // SAFETY: C.
        let open = unsafe { versions::opened(txn) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        let before = open.txn.remove(net)?.copied();
        // SAFETY: C.
        Ok(unsafe { found(before, old) })
    })
}

/// The value of the longest prefix of an address, as the transaction has it.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_lookup(
    txn: *mut sapwood_fib_txn,
    addr: *const c_void,
    addr_len: usize,
    value: *mut u64,
) -> c_int {
    call("sapwood_fib_txn_lookup", || {
        // SAFETY: C.
        let open = unsafe { versions::opened(txn) }?;
        // SAFETY: C.
        let addr = unsafe { prefix::address(addr, addr_len) }?;
        let answer = open.txn.lookup_value(addr).copied();
        // SAFETY: C.
        Ok(unsafe { found(answer, value) })
    })
}

/// Writes an answer; returns 0, or that there is none.
///
/// # Safety
/// `to` is NULL, or there is room for a number.
unsafe fn found(answer: Option<u64>, to: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { put_old(answer, to) } {
        1 => 0,
        _ => -libc::ENOENT,
    }
}

/// C's `sapwood_fib_snapshot`.
pub type sapwood_fib_snapshot = Handle<SnapshotBody<IpFib<u64>>>;

/// Makes a snapshot of the newest version.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_new(
    fib: *const sapwood_fib,
    out: *mut *mut sapwood_fib_snapshot,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::snapshot("sapwood_fib_snapshot_new", fib, out) }
}

/// Frees a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_free(snapshot: *mut sapwood_fib_snapshot) {
    // SAFETY: C.
    call_void("sapwood_fib_snapshot_free", || unsafe { free(snapshot) });
}

/// The value of the longest prefix of an address, in a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_lookup(
    snapshot: *const sapwood_fib_snapshot,
    addr: *const c_void,
    addr_len: usize,
    value: *mut u64,
) -> c_int {
    call("sapwood_fib_snapshot_lookup", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        // SAFETY: C.
        let addr = unsafe { prefix::address(addr, addr_len) }?;
        let answer = body.snapshot.lookup_value(addr).copied();
        // SAFETY: C.
        Ok(unsafe { found(answer, value) })
    })
}

/// The number of prefixes of a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_len(
    snapshot: *const sapwood_fib_snapshot,
    len: *mut usize,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::len("sapwood_fib_snapshot_len", snapshot, len) }
}

/// Saves a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_save(
    snapshot: *const sapwood_fib_snapshot,
    path: *const c_char,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::save("sapwood_fib_snapshot_save", snapshot, path) }
}

/// C's `sapwood_fib_iter`.
pub type sapwood_fib_iter = Handle<IterBody<IpFib<u64>>>;

/// Makes an iterator over a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_iter_new(
    snapshot: *const sapwood_fib_snapshot,
    out: *mut *mut sapwood_fib_iter,
) -> c_int {
    // SAFETY: C.
    unsafe { versions::iter("sapwood_fib_iter_new", snapshot, out) }
}

/// The next prefix, if there is one.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_iter_next(
    iter: *mut sapwood_fib_iter,
    at: *mut sapwood_prefix,
    value: *mut u64,
) -> c_int {
    call("sapwood_fib_iter_next", || {
        // SAFETY: C.
        unsafe {
            versions::next(iter, at, |found| {
                put_old(Some(*found), value);
                Ok(())
            })
        }
    })
}

/// Frees an iterator.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_iter_free(iter: *mut sapwood_fib_iter) {
    // SAFETY: C.
    call_void("sapwood_fib_iter_free", || unsafe { free(iter) });
}
