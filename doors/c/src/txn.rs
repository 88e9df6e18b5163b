//! Transactions of stores.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use sapwood::qp::{QpStore, QpTxn};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Thread};
use crate::input::bytes;
use crate::maps::sapwood_txn;
use crate::ordered::Source;
use crate::output::{or_absent, put, put_wanted};
use crate::retire::{Owner, Pointer};
use crate::store::WriterThread;
use crate::value::{Kinds, Mode, each, insertions, map_kinds, not_inserted, sapwood_value};
use crate::view::{Anchor, Changes, Viewed, found, sapwood_view};

/// A transaction and the store that it refers to, which is dropped after it.
type Open<V> = (QpTxn<'static, V>, QpStore<V>);

/// A transaction with any kind of values.
pub type AnyTxn = Kinds<Open<u64>, Open<Pointer>, Open<[u8]>>;

/// The inside of a transaction's handle.
pub struct TxnBody {
    txn: AnyTxn,
    owner: Option<Arc<Owner>>,
    writer: OpenHere,
    thread: Thread,
    changes: Changes,
}

/// Notes the end of the transaction.
struct OpenHere(Arc<WriterThread>);

impl Drop for OpenHere {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl TxnBody {
    /// A transaction of this thread.
    pub fn new(txn: AnyTxn, owner: Option<Arc<Owner>>, writer: Arc<WriterThread>) -> Self {
        writer.set(true);
        TxnBody {
            txn,
            owner,
            writer: OpenHere(writer),
            thread: Thread::here(),
            changes: Changes::default(),
        }
    }
}

impl Body for TxnBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swTx");
    const NAME: &'static str = "transaction";
}

impl Viewed for TxnBody {
    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }

    fn check_thread(&self, checked: bool) -> Outcome<()> {
        self.thread.check("transaction", checked)
    }
}

/// The body of a transaction of this thread.
unsafe fn here<'a>(txn: *mut sapwood_txn) -> Outcome<&'a mut TxnBody> {
    // SAFETY: the caller's promise. The thread is looked at before the body is used.
    unsafe {
        let checked = Handle::is_checked(txn);
        Handle::shared(txn)?.thread.check("transaction", checked)?;
        Handle::exclusive(txn)
    }
}

unsafe fn insert(
    txn: *mut sapwood_txn,
    (key, key_len): (*const c_void, usize),
    value: *const sapwood_value,
    mode: Mode,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let body = here(txn)?;
        let key = bytes(key, key_len, "the key")?;
        let value = value.as_ref().ok_or_else(|| Failure::null("value"))?;
        each!(&mut body.txn, (txn, _) => {
            if let Some(answer) = mode.excludes(|| txn.contains_key(key)) {
                return Ok(answer);
            }
            let value = <V as crate::value::CValue>::input(value, &body.owner)?;
            body.changes.count();
            match txn.insert(key, value) {
                Ok(old) => Ok(c_int::from(old.is_none())),
                Err(rejected) => not_inserted::<V>(rejected),
            }
        })
    }
}

c_api!(
    /// Transactions. Its thread only. They read their own changes; readers see none of them before
    /// the commit. Views and values are valid until the next change. After a failure of a change,
    /// the transaction can go on.
    fn sapwood_txn_get(
        txn: *mut sapwood_txn,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let body = &*here(txn)?;
        let key = bytes(key, key_len, "the key")?;
        each!(&body.txn, (txn, _) => found(txn.get(key), value))
    }

    fn sapwood_txn_len(txn: *mut sapwood_txn, len: *mut usize) -> c_int {
        let body = here(txn)?;
        put(len, "len", each!(&body.txn, (txn, _) => txn.len()))
    }

    fn sapwood_txn_view(txn: *mut sapwood_txn, view: *mut sapwood_view) -> c_int {
        // It is read only while the view's anchor says that it is as it was.
        let body: &'static TxnBody = here(txn)?;
        let source = map_kinds!(&body.txn, (txn, _) => Source::Pieces(txn));
        sapwood_view::write(view, Anchor::handle(txn, body), source)
    }

    insertions!(
        txn: *mut sapwood_txn,
        sapwood_txn_insert: Put,
        sapwood_txn_insert_new: New,
        sapwood_txn_replace: Replace
    );

    fn sapwood_txn_remove(txn: *mut sapwood_txn, key: *const c_void, key_len: usize) -> c_int {
        let body = here(txn)?;
        let key = bytes(key, key_len, "the key")?;
        body.changes.count();
        let there = each!(&mut body.txn, (txn, _) => txn.remove(key)?.is_some());
        Ok(or_absent(there))
    }

    fn sapwood_txn_remove_prefix(
        txn: *mut sapwood_txn,
        prefix: *const c_void,
        prefix_len: usize,
        removed: *mut usize,
    ) -> c_int {
        let body = here(txn)?;
        let prefix = bytes(prefix, prefix_len, "the prefix")?;
        body.changes.count();
        let count = each!(&mut body.txn, (txn, _) => txn.remove_prefix(prefix)?);
        put_wanted(removed, count);
        Ok(0)
    }

    /// Publishes all changes with one store, and frees the transaction. `version` may be NULL.
    fn sapwood_txn_commit(txn: *mut sapwood_txn, version: *mut u64) -> c_int {
        here(txn)?;
        let TxnBody { txn, writer, .. } = Handle::take(txn)?;
        // Values that the commit frees go back to functions that may use the store.
        drop(writer);
        let number = each!(txn, (txn, store) => {
            let number = txn.commit().get();
            drop(store);
            number
        });
        put_wanted(version, number);
        Ok(0)
    }

    /// Undoes all changes, and frees the transaction. Values that it inserted are retired.
    fn sapwood_txn_rollback(txn: *mut sapwood_txn) {
        if txn.is_null() || Handle::leave(txn) {
            return Ok(());
        }
        here(txn)?;
        let TxnBody { txn, writer, .. } = Handle::take(txn)?;
        drop(writer);
        each!(txn, (txn, store) => {
            txn.rollback();
            drop(store);
        });
        Ok(())
    }
);
