//! Transactions, snapshots and iterators of `sapwood_routes`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ipnet::IpNet;
use sapwood::route::{Group, RouteSnapshot, RouteTable, RouteTxn};

use crate::call::{call, call_void};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input;
use crate::prefix::{self, sapwood_prefix};
use crate::routes::{group, put_group, sapwood_member, sapwood_routes};
use crate::turn::Turn;

/// The inside of a transaction's handle.
///
/// The fields are dropped in this order: the turn ends, then the transaction with its lock, then
/// the table that the transaction borrows.
pub struct TxnBody {
    turn: Turn,
    txn: RouteTxn<'static, u64>,
    _table: Arc<RouteTable<u64>>,
}

impl Body for TxnBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRt");
    const NAME: &'static str = "routes_txn";
}

/// C's `sapwood_routes_txn`.
pub type sapwood_routes_txn = Handle<TxnBody>;

/// Begins a transaction with `begin`.
///
/// # Safety
/// C.
unsafe fn begin(
    routes: *mut sapwood_routes,
    out: *mut *mut sapwood_routes_txn,
    begin: impl FnOnce(&'static RouteTable<u64>) -> Option<RouteTxn<'static, u64>>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let body = unsafe { Handle::shared(routes) }?;
    body.turns.check()?;
    let table = Arc::new(body.table.clone());
    // SAFETY: it lies in the `Arc`, and `TxnBody` drops that after the transaction.
    let lent: &'static RouteTable<u64> = unsafe { &*Arc::as_ptr(&table) };
    let Some(txn) = begin(lent) else {
        return Err(Failure::new(
            libc::EBUSY,
            "another thread has a transaction open",
        ));
    };
    let open = TxnBody {
        turn: body.turns.begin(body.checked),
        txn,
        _table: table,
    };
    // SAFETY: C.
    unsafe { *out = Handle::into_c(open, body.checked) };
    Ok(0)
}

/// Begins a transaction; waits for others.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_begin(
    routes: *mut sapwood_routes,
    out: *mut *mut sapwood_routes_txn,
) -> c_int {
    call("sapwood_routes_begin", || {
        // SAFETY: C.
        unsafe { begin(routes, out, |table| Some(table.begin())) }
    })
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
    call("sapwood_routes_try_begin", || {
        // SAFETY: C.
        unsafe { begin(routes, out, RouteTable::try_begin) }
    })
}

/// A transaction on its thread.
///
/// # Safety
/// C.
unsafe fn opened<'a>(txn: *mut sapwood_routes_txn) -> Outcome<&'a mut TxnBody> {
    // SAFETY: C.
    let open = unsafe { Handle::exclusive(txn) }?;
    open.turn.check("transaction")?;
    Ok(open)
}

/// Ends a transaction on its thread, and frees the handle.
///
/// # Safety
/// C.
unsafe fn end(txn: *mut sapwood_routes_txn, commit: bool) -> Outcome {
    // SAFETY: C.
    unsafe { opened(txn) }?;
    // SAFETY: C.
    let TxnBody { turn, txn, _table } = unsafe { Handle::take(txn) }?;
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
pub unsafe extern "C" fn sapwood_routes_txn_commit(txn: *mut sapwood_routes_txn) -> c_int {
    call("sapwood_routes_txn_commit", || {
        // SAFETY: C.
        unsafe { end(txn, true) }
    })
}

/// Discards all changes, and frees the transaction.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_txn_rollback(txn: *mut sapwood_routes_txn) -> c_int {
    call("sapwood_routes_txn_rollback", || {
        if txn.is_null() {
            return Ok(0);
        }
        // SAFETY: C.
        unsafe { end(txn, false) }
    })
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
        let open = unsafe { opened(txn) }?;
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
        let open = unsafe { opened(txn) }?;
        // SAFETY: C.
        let net = unsafe { prefix::prefix(of) }?;
        Ok(if open.txn.remove(net)? {
            0
        } else {
            -libc::ENOENT
        })
    })
}

/// The inside of a snapshot's handle.
pub struct SnapshotBody {
    snapshot: Arc<RouteSnapshot<u64>>,
    checked: bool,
}

impl Body for SnapshotBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRs");
    const NAME: &'static str = "routes_snapshot";
}

/// C's `sapwood_routes_snapshot`.
pub type sapwood_routes_snapshot = Handle<SnapshotBody>;

/// Makes a snapshot of the newest routes.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_snapshot_new(
    routes: *const sapwood_routes,
    out: *mut *mut sapwood_routes_snapshot,
) -> c_int {
    call("sapwood_routes_snapshot_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(routes) }?;
        body.turns.check()?;
        let kept = SnapshotBody {
            snapshot: Arc::new(body.table.snapshot()),
            checked: body.checked,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(kept, body.checked) };
        Ok(0)
    })
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
    call("sapwood_routes_snapshot_len", || {
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
pub unsafe extern "C" fn sapwood_routes_snapshot_save(
    snapshot: *const sapwood_routes_snapshot,
    path: *const c_char,
) -> c_int {
    call("sapwood_routes_snapshot_save", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        // SAFETY: C.
        body.snapshot.save(unsafe { input::path(path) }?)?;
        Ok(0)
    })
}

/// The inside of an iterator's handle. The walk is dropped before the snapshot that it borrows.
pub struct IterBody {
    walk: Box<dyn Iterator<Item = (IpNet, &'static Group<u64>)>>,
    _snapshot: Arc<RouteSnapshot<u64>>,
}

impl Body for IterBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRn");
    const NAME: &'static str = "routes_iter";
}

/// C's `sapwood_routes_iter`.
pub type sapwood_routes_iter = Handle<IterBody>;

/// Makes an iterator over a snapshot.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_routes_iter_new(
    snapshot: *const sapwood_routes_snapshot,
    out: *mut *mut sapwood_routes_iter,
) -> c_int {
    call("sapwood_routes_iter_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let body = unsafe { Handle::shared(snapshot) }?;
        let kept = Arc::clone(&body.snapshot);
        // SAFETY: the snapshot lies in the `Arc`, and `IterBody` drops that after the walk.
        let lent: &'static RouteSnapshot<u64> = unsafe { &*Arc::as_ptr(&kept) };
        let iter = IterBody {
            walk: Box::new(lent.iter()),
            _snapshot: kept,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(iter, body.checked) };
        Ok(0)
    })
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
        let body = unsafe { Handle::exclusive(iter) }?;
        let Some((net, group)) = body.walk.next() else {
            return Ok(-libc::ENOENT);
        };
        if !at.is_null() {
            // SAFETY: C.
            unsafe { *at = net.into() };
        }
        // SAFETY: C.
        unsafe { put_group(group, members, room, count) }.map(|()| 0)
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
