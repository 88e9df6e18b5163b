//! Transactions, snapshots and iterators of `sapwood_routes`.

use std::ffi::{c_char, c_int, c_void};

use sapwood::route::RouteTable;

use crate::c_api::c_api;
use crate::error::Failure;
use crate::handle::{Handle, free};
use crate::output::or_absent;
use crate::prefix::{self, sapwood_prefix};
use crate::routes::{group, put_group, sapwood_member, sapwood_routes};
use crate::versions::{self, IterBody, SnapshotBody, Transacts, TxnBody};

c_api!(
    /// Transactions, as those of sapwood_fib.
    pub type sapwood_routes_txn = Handle<TxnBody<RouteTable<u64>>>;

    fn sapwood_routes_begin(
        routes: *mut sapwood_routes,
        out: *mut *mut sapwood_routes_txn,
    ) -> c_int {
        versions::begin(routes, out, Transacts::begin)
    }

    fn sapwood_routes_try_begin(
        routes: *mut sapwood_routes,
        out: *mut *mut sapwood_routes_txn,
    ) -> c_int {
        versions::begin(routes, out, Transacts::try_begin)
    }

    fn sapwood_routes_txn_insert(
        txn: *mut sapwood_routes_txn,
        prefix: *const sapwood_prefix,
        members: *const sapwood_member,
        count: usize,
    ) -> c_int {
        let open = versions::opened(txn)?;
        let net = prefix::prefix(prefix)?;
        let group = group(members, count)?;
        Ok((!open.txn.insert(net, group)?).into())
    }

    fn sapwood_routes_txn_remove(
        txn: *mut sapwood_routes_txn,
        prefix: *const sapwood_prefix,
    ) -> c_int {
        let open = versions::opened(txn)?;
        let net = prefix::prefix(prefix)?;
        Ok(or_absent(open.txn.remove(net)?))
    }

    fn sapwood_routes_txn_commit(txn: *mut sapwood_routes_txn) -> c_int {
        versions::commit(txn)
    }

    fn sapwood_routes_txn_rollback(txn: *mut sapwood_routes_txn) -> c_int {
        versions::rollback(txn)
    }

    /// Snapshots and walks, as those of sapwood_fib.
    pub type sapwood_routes_snapshot = Handle<SnapshotBody<RouteTable<u64>>>;

    fn sapwood_routes_snapshot_new(
        routes: *const sapwood_routes,
        out: *mut *mut sapwood_routes_snapshot,
    ) -> c_int {
        versions::snapshot(routes, out)
    }

    fn sapwood_routes_snapshot_free(snapshot: *mut sapwood_routes_snapshot) {
        free(snapshot)
    }

    fn sapwood_routes_snapshot_group(
        snapshot: *const sapwood_routes_snapshot,
        addr: *const c_void,
        addr_len: usize,
        members: *mut sapwood_member,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        let body = Handle::shared(snapshot)?;
        let addr = prefix::address(addr, addr_len)?;
        match body.snapshot.group(addr) {
            Some(group) => put_group(group, members, room, count).map(|()| 0),
            None => Ok(-libc::ENOENT),
        }
    }

    fn sapwood_routes_snapshot_len(
        snapshot: *const sapwood_routes_snapshot,
        len: *mut usize,
    ) -> c_int {
        versions::len(snapshot, len)
    }

    fn sapwood_routes_snapshot_save(
        snapshot: *const sapwood_routes_snapshot,
        path: *const c_char,
    ) -> c_int {
        versions::save(snapshot, path)
    }

    pub type sapwood_routes_iter = Handle<IterBody<RouteTable<u64>>>;

    fn sapwood_routes_iter_new(
        snapshot: *const sapwood_routes_snapshot,
        out: *mut *mut sapwood_routes_iter,
    ) -> c_int {
        versions::iter(snapshot, out)
    }

    fn sapwood_routes_iter_next(
        iter: *mut sapwood_routes_iter,
        prefix: *mut sapwood_prefix,
        members: *mut sapwood_member,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        if members.is_null() && room > 0 {
            return Err(Failure::null("the list of members"));
        }
        versions::next(iter, prefix, |group| put_group(group, members, room, count))
    }

    fn sapwood_routes_iter_free(iter: *mut sapwood_routes_iter) {
        free(iter)
    }
);
