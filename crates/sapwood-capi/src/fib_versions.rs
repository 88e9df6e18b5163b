//! Transactions, snapshots and iterators of `sapwood_fib`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ipnet::IpNet;
use sapwood::lpm::{IpFib, IpSnapshot, IpTxn};

use crate::call::{call, call_void};
use crate::error::{Failure, Outcome};
use crate::fib::{put_old, sapwood_fib};
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::prefix::{self, sapwood_prefix};
use crate::turn::Turn;

/// The inside of a transaction's handle.
///
/// The fields are dropped in this order: the turn ends, then the transaction with its lock, then
/// the table that the transaction borrows.
pub struct TxnBody {
    turn: Turn,
    txn: IpTxn<'static, u64>,
    _fib: Arc<IpFib<u64>>,
}

impl Body for TxnBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swFt");
    const NAME: &'static str = "fib_txn";
}

/// C's `sapwood_fib_txn`.
pub type sapwood_fib_txn = Handle<TxnBody>;

/// Begins a transaction with `begin`.
///
/// # Safety
/// C.
unsafe fn begin(
    fib: *mut sapwood_fib,
    out: *mut *mut sapwood_fib_txn,
    begin: impl FnOnce(&'static IpFib<u64>) -> Option<IpTxn<'static, u64>>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let table = unsafe { Handle::shared(fib) }?;
    table.turns.check()?;
    let fib = Arc::new(table.fib.clone());
    // SAFETY: it lies in the `Arc`, and `TxnBody` drops that after the transaction.
    let lent: &'static IpFib<u64> = unsafe { &*Arc::as_ptr(&fib) };
    let Some(txn) = begin(lent) else {
        return Err(Failure::new(
            libc::EBUSY,
            "another thread has a transaction open",
        ));
    };
    let body = TxnBody {
        turn: table.turns.begin(table.checked),
        txn,
        _fib: fib,
    };
    // SAFETY: C.
    unsafe { *out = Handle::into_c(body, table.checked) };
    Ok(0)
}

/// Begins a transaction; waits for others.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_begin(
    fib: *mut sapwood_fib,
    out: *mut *mut sapwood_fib_txn,
) -> c_int {
    call("sapwood_fib_begin", || {
        // SAFETY: C.
        unsafe { begin(fib, out, |fib| Some(fib.begin())) }
    })
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
    call("sapwood_fib_try_begin", || {
        // SAFETY: C.
        unsafe { begin(fib, out, IpFib::try_begin) }
    })
}

/// A transaction on its thread.
///
/// # Safety
/// C.
unsafe fn opened<'a>(txn: *mut sapwood_fib_txn) -> Outcome<&'a mut TxnBody> {
    // SAFETY: C.
    let open = unsafe { Handle::exclusive(txn) }?;
    open.turn.check("transaction")?;
    Ok(open)
}

/// Ends a transaction on its thread, and frees the handle.
///
/// # Safety
/// C.
unsafe fn end(txn: *mut sapwood_fib_txn, commit: bool) -> Outcome {
    // SAFETY: C.
    unsafe { opened(txn) }?;
    // SAFETY: C.
    let TxnBody { turn, txn, _fib } = unsafe { Handle::take(txn) }?;
    // Ends before the lock is released: another thread's turn may begin right after that.
    drop(turn);
    if commit {
        txn.commit();
    } else {
        txn.rollback();
    }
    Ok(0)
}

/// Publishes all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_commit(txn: *mut sapwood_fib_txn) -> c_int {
    call("sapwood_fib_txn_commit", || {
        // SAFETY: C.
        unsafe { end(txn, true) }
    })
}

/// Discards all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_txn_rollback(txn: *mut sapwood_fib_txn) -> c_int {
    call("sapwood_fib_txn_rollback", || {
        if txn.is_null() {
            return Ok(0);
        }
        // SAFETY: C.
        unsafe { end(txn, false) }
    })
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
        let open = unsafe { opened(txn) }?;
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
        let open = unsafe { opened(txn) }?;
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
        let open = unsafe { opened(txn) }?;
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

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    snapshot: Arc<IpSnapshot<u64>>,
    checked: bool,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swFs");
    const NAME: &'static str = "fib_snapshot";
}

/// C's `sapwood_fib_snapshot`.
pub type sapwood_fib_snapshot = Handle<SnapshotBody>;

/// Makes a snapshot of the newest version.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_snapshot_new(
    fib: *const sapwood_fib,
    out: *mut *mut sapwood_fib_snapshot,
) -> c_int {
    call("sapwood_fib_snapshot_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let table = unsafe { Handle::shared(fib) }?;
        table.turns.check()?;
        let body = SnapshotBody {
            snapshot: Arc::new(table.fib.snapshot()),
            checked: table.checked,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(body, table.checked) };
        Ok(0)
    })
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
    call("sapwood_fib_snapshot_len", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        let len = input::place(len, "len")?;
        // SAFETY: C.
        unsafe { *len = body.snapshot.len() };
        Ok(0)
    })
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
    call("sapwood_fib_snapshot_save", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        // SAFETY: C.
        body.snapshot.save(unsafe { input::path(path) }?)?;
        Ok(0)
    })
}

/// The inside of an iterator's handle. The walk is dropped before the snapshot that it borrows.
pub struct IterBody {
    walk: Box<dyn Iterator<Item = (IpNet, &'static u64)>>,
    _snapshot: Arc<IpSnapshot<u64>>,
}

impl Body for IterBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swFn");
    const NAME: &'static str = "fib_iter";
}

/// C's `sapwood_fib_iter`.
pub type sapwood_fib_iter = Handle<IterBody>;

/// Makes an iterator over a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_fib_iter_new(
    snapshot: *const sapwood_fib_snapshot,
    out: *mut *mut sapwood_fib_iter,
) -> c_int {
    call("sapwood_fib_iter_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        let kept = Arc::clone(&body.snapshot);
        // SAFETY: the snapshot lies in the `Arc`, and `IterBody` drops that after the walk.
        let lent: &'static IpSnapshot<u64> = unsafe { &*Arc::as_ptr(&kept) };
        let iter = IterBody {
            walk: Box::new(lent.iter()),
            _snapshot: kept,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(iter, body.checked) };
        Ok(0)
    })
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
        let body = unsafe { Handle::exclusive(iter) }?;
        let Some((net, found)) = body.walk.next() else {
            return Ok(-libc::ENOENT);
        };
        if !at.is_null() {
            // SAFETY: C.
            unsafe { *at = net.into() };
        }
        // SAFETY: C.
        unsafe { put_old(Some(*found), value) };
        Ok(0)
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
