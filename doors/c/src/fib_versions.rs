//! Transactions, snapshots and iterators of `sapwood_fib`.

use std::ffi::{c_char, c_int, c_void};

use sapwood::lpm::IpFib;

use crate::c_api::c_api;
use crate::fib::sapwood_fib;
use crate::handle::{Handle, free};
use crate::output::{put_found, put_wanted};
use crate::prefix::{self, sapwood_prefix};
use crate::versions::{self, IterBody, SnapshotBody, Transacts, TxnBody};

c_api!(
    /// A transaction: nobody else sees its changes before they are committed. It stays on its
    /// thread.
    pub type sapwood_fib_txn = Handle<TxnBody<IpFib<u64>>>;

    /// Begins a transaction, after waiting for that of another thread. It belongs to the thread
    /// that began it, which ends it by a commit or a rollback. sapwood_fib_try_begin does not wait:
    /// -EBUSY.
    fn sapwood_fib_begin(fib: *mut sapwood_fib, out: *mut *mut sapwood_fib_txn) -> c_int {
        versions::begin(fib, out, Transacts::begin)
    }

    fn sapwood_fib_try_begin(fib: *mut sapwood_fib, out: *mut *mut sapwood_fib_txn) -> c_int {
        versions::begin(fib, out, Transacts::try_begin)
    }

    /// As the functions of the table. Its thread.
    fn sapwood_fib_txn_insert(
        txn: *mut sapwood_fib_txn,
        prefix: *const sapwood_prefix,
        value: u64,
        old: *mut u64,
    ) -> c_int {
        let open = versions::opened(txn)?;
        let net = prefix::prefix(prefix)?;
        let before = open.txn.insert(net, value)?.copied();
        Ok(c_int::from(put_found(old, before) != 0))
    }

    fn sapwood_fib_txn_remove(
        txn: *mut sapwood_fib_txn,
        prefix: *const sapwood_prefix,
        old: *mut u64,
    ) -> c_int {
        let open = versions::opened(txn)?;
        let net = prefix::prefix(prefix)?;
        let before = open.txn.remove(net)?.copied();
        Ok(put_found(old, before))
    }

    fn sapwood_fib_txn_lookup(
        txn: *mut sapwood_fib_txn,
        addr: *const c_void,
        addr_len: usize,
        value: *mut u64,
    ) -> c_int {
        let open = versions::opened(txn)?;
        let addr = prefix::address(addr, addr_len)?;
        let answer = open.txn.lookup_value(addr).copied();
        Ok(put_found(value, answer))
    }

    /// Publishes all changes, and frees the handle. It cannot fail on its thread. O(what was
    /// changed).
    fn sapwood_fib_txn_commit(txn: *mut sapwood_fib_txn) -> c_int {
        versions::commit(txn)
    }

    /// Discards all changes, and frees the handle. NULL does nothing. Its thread.
    fn sapwood_fib_txn_rollback(txn: *mut sapwood_fib_txn) -> c_int {
        versions::rollback(txn)
    }

    /// A version that stays as it is. Any thread may read it; it holds back what was replaced
    /// since.
    pub type sapwood_fib_snapshot = Handle<SnapshotBody<IpFib<u64>>>;

    /// Makes a snapshot of the newest version of both families. O(root).
    fn sapwood_fib_snapshot_new(
        fib: *const sapwood_fib,
        out: *mut *mut sapwood_fib_snapshot,
    ) -> c_int {
        versions::snapshot(fib, out)
    }

    /// Frees a snapshot. Its iterators may stay. One thread at a time.
    fn sapwood_fib_snapshot_free(snapshot: *mut sapwood_fib_snapshot) {
        free(snapshot)
    }

    /// As the functions of the table.
    fn sapwood_fib_snapshot_lookup(
        snapshot: *const sapwood_fib_snapshot,
        addr: *const c_void,
        addr_len: usize,
        value: *mut u64,
    ) -> c_int {
        let body = Handle::shared(snapshot)?;
        let addr = prefix::address(addr, addr_len)?;
        let answer = body.snapshot.lookup_value(addr).copied();
        Ok(put_found(value, answer))
    }

    fn sapwood_fib_snapshot_len(snapshot: *const sapwood_fib_snapshot, len: *mut usize) -> c_int {
        versions::len(snapshot, len)
    }

    /// Saves a snapshot. The file is written beside `path`, flushed and renamed, so that `path` is
    /// always the whole old file or the whole new one. Fails with the system's number.
    fn sapwood_fib_snapshot_save(
        snapshot: *const sapwood_fib_snapshot,
        path: *const c_char,
    ) -> c_int {
        versions::save(snapshot, path)
    }

    /// A walk over a snapshot: IPv4 first, each family in the order of addresses.
    pub type sapwood_fib_iter = Handle<IterBody<IpFib<u64>>>;

    /// Makes an iterator over a snapshot.
    fn sapwood_fib_iter_new(
        snapshot: *const sapwood_fib_snapshot,
        out: *mut *mut sapwood_fib_iter,
    ) -> c_int {
        versions::iter(snapshot, out)
    }

    /// Stores the next (prefix) and its (value). -ENOENT: that was the last. One thread at a time.
    fn sapwood_fib_iter_next(
        iter: *mut sapwood_fib_iter,
        prefix: *mut sapwood_prefix,
        value: *mut u64,
    ) -> c_int {
        versions::next(iter, prefix, |found| {
            put_wanted(value, *found);
            Ok(())
        })
    }

    /// Frees an iterator.
    fn sapwood_fib_iter_free(iter: *mut sapwood_fib_iter) {
        free(iter)
    }
);
