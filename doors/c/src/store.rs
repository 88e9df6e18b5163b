//! Stores: one writer at a time, readers that never wait, snapshots.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use sapwood::Builder;
use sapwood::qp::{QpStore, QpTxn};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::c_api::c_api;
use crate::call::look_up;
use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Thread, free};
use crate::input::{self, bytes, given, items, place, quick_bytes};
use crate::maps::{sapwood_memory, sapwood_options, sapwood_snapshot, sapwood_store, sapwood_txn};
use crate::ordered::Source;
use crate::output::{hand_out, or_absent, put, put_extensible};
use crate::process;
use crate::reader::sapwood_reader;
use crate::retire::{Owner, Pointer};
use crate::snapshot::SnapshotBody;
use crate::turn;
use crate::txn::TxnBody;
use crate::value::{
    CValue, Key, Kinds, Mode, each, get_many, insertions, map_kinds, no_pointers, not_inserted,
    sapwood_bytes, sapwood_value,
};
use crate::view::{Anchor, Viewed, answer, found, sapwood_view};

/// The thread that has a transaction open, and the process in which it began.
#[derive(Debug, Default)]
pub struct WriterThread(AtomicUsize, AtomicU32);

impl WriterThread {
    /// A failure if this thread would wait for itself, or for one that a fork has left behind.
    pub fn check(&self) -> Outcome<()> {
        match self.0.load(Acquire) {
            0 => Ok(()),
            thread if thread == Thread::here().number() => Err(turn::own()),
            _ if self.1.load(Relaxed) != process::current() => Err(turn::left_behind()),
            _ => Ok(()),
        }
    }

    /// Notes whether this thread has a transaction open.
    pub fn set(&self, open: bool) {
        let number = if open { Thread::here().number() } else { 0 };
        // First the process: whoever sees the thread sees its process, or a newer one.
        self.1.store(process::current(), Relaxed);
        self.0.store(number, Release);
    }
}

/// A store with any kind of values.
pub type AnyStore = Kinds<QpStore<u64>, QpStore<Pointer>, QpStore<[u8]>>;

/// The inside of a store's handle.
pub struct StoreBody {
    /// The store.
    pub store: AnyStore,
    /// Who takes pointers back.
    pub owner: Option<Arc<Owner>>,
    /// The thread that has a transaction open.
    pub writer: Arc<WriterThread>,
}

impl StoreBody {
    /// A store whose values nobody takes back.
    pub fn plain(store: AnyStore) -> Self {
        StoreBody {
            store,
            owner: None,
            writer: Arc::default(),
        }
    }
}

impl Body for StoreBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swSt");
    const NAME: &'static str = "store";
}

impl Viewed for StoreBody {}

/// A builder with the choices of C.
fn builder<V: ?Sized + CValue>(
    options: &sapwood_options,
    domain: &sapwood::qsbr::Domain,
) -> Builder<QpStore<V>> {
    let mut builder = QpStore::<V>::builder().domain(domain);
    if options.memory_limit != 0 {
        builder = builder.memory_limit(options.memory_limit);
    }
    builder
}

/// A store of plain values, whose clusters hold their entries: an empty one, or of a saved one.
fn inline<V: ?Sized + CValue + IntoBytes + FromBytes + Immutable>(
    builder: Builder<QpStore<V>>,
    from: Option<&std::path::Path>,
) -> Outcome<QpStore<V>> {
    Ok(match from {
        None => builder.build_inline()?,
        Some(from) => builder.load_inline(from)?,
    })
}

unsafe fn make(
    options: *const sapwood_options,
    from: Option<&std::path::Path>,
    out: *mut *mut sapwood_store,
) -> Outcome {
    let out = place(out, "out")?;
    // SAFETY: the caller's promise.
    unsafe {
        let options = given(options)?;
        known_flags(options.flags, SAPWOOD_CHECKED)?;
        if options.max_entries != 0 {
            return Err(Failure::invalid("a store has no limit of entries"));
        }
        let (kind, owner) = options.kind()?;
        let (domain, rules) = or_new(options.domain, options.flags & SAPWOOD_CHECKED != 0)?;
        let store = match (kind, from) {
            (Kinds::Numbers(()), from) => Kinds::Numbers(inline(builder(&options, &domain), from)?),
            (Kinds::Bytes(()), from) => Kinds::Bytes(inline(builder(&options, &domain), from)?),
            // Who takes a pointer back must get it once, so a pointer stays in its leaf.
            (Kinds::Pointers(()), None) => Kinds::Pointers(builder(&options, &domain).build()?),
            (Kinds::Pointers(()), Some(_)) => return Err(no_pointers()),
        };
        let body = StoreBody {
            store,
            owner,
            writer: Arc::default(),
        };
        hand_out(out, body, rules)
    }
}

unsafe fn change(store: *const sapwood_store, f: impl FnOnce(&StoreBody) -> Outcome) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::shared(store) }?;
    body.writer.check()?;
    f(body)
}

unsafe fn insert(
    store: *const sapwood_store,
    (key, key_len): (*const c_void, usize),
    value: *const sapwood_value,
    mode: Mode,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        change(store, |body| {
            let key = bytes(key, key_len, "the key")?;
            let value = value.as_ref().ok_or_else(|| Failure::null("value"))?;
            each!(&body.store, store => {
                let mut txn = store.begin();
                if let Some(answer) = mode.excludes(|| txn.contains_key(key)) {
                    return Ok(answer);
                }
                let value = V::input(value, &body.owner)?;
                let new = match txn.insert(key, value) {
                    Ok(old) => old.is_none(),
                    Err(rejected) => return not_inserted::<V>(rejected),
                };
                txn.commit();
                Ok(c_int::from(new))
            })
        })
    }
}

c_api!(
    /// Any thread, where nothing else is said. Readers are those of the store's domain; a reading
    /// function is called by the reader's thread, and what it gives is valid until the reader's
    /// next quiescent state. A store has one transaction at a time. -EDEADLK: this thread has one
    /// open.
    const SECTION: &str = "Stores";

    /// Makes an empty store. O(1).
    fn sapwood_store_new(options: *const sapwood_options, out: *mut *mut sapwood_store) -> c_int {
        make(options, None, out)
    }

    /// Makes a store of a saved one, as sapwood_map_load. Versions count on from the saved one.
    fn sapwood_store_load(
        options: *const sapwood_options,
        path: *const c_char,
        out: *mut *mut sapwood_store,
    ) -> c_int {
        make(options, Some(input::path(path)?), out)
    }

    /// Frees the handle. The store ends with its last snapshot and transaction. Nobody may use the
    /// handle, or what was read through it.
    fn sapwood_store_free(store: *mut sapwood_store) {
        free(store)
    }

    /// Looks up in the newest version.
    unsafe extern "C" fn sapwood_store_get(
        store: *const sapwood_store,
        reader: *const sapwood_reader,
        key: *const c_void,
        key_len: usize,
        value: *mut sapwood_value,
    ) -> c_int {
        let quick = || {
            let (body, through) = (Handle::quick(store)?, Handle::quick(reader)?);
            let key = quick_bytes(key, key_len)?;
            Some(each!(&body.store, store => {
                answer(store.view(through.quick_guard(store.domain())?).get(key), value)
            }))
        };
        let slow = move || {
            let (body, reader) = (Handle::shared(store)?, Handle::shared(reader)?);
            let key = bytes(key, key_len, "the key")?;
            each!(&body.store, store => {
                found(store.view(reader.guard(store.domain())?).get(key), value)
            })
        };
        look_up("sapwood_store_get", quick, slow)
    }

    /// As sapwood_map_get_many, in one version.
    fn sapwood_store_get_many(
        store: *const sapwood_store,
        reader: *const sapwood_reader,
        keys: *const sapwood_bytes,
        count: usize,
        values: *mut sapwood_value,
        found: *mut c_uchar,
    ) -> c_int {
        let (body, reader) = (Handle::shared(store)?, Handle::shared(reader)?);
        let keys = Key::all(items(keys, count, "keys")?)?;
        each!(&body.store, store => {
            let view = store.view(reader.guard(store.domain())?);
            get_many(keys, values, found, |keys, out| view.get_many(keys, out))
        })
    }

    /// Stores the number of entries of the newest version. O(1).
    fn sapwood_store_len(store: *const sapwood_store, len: *mut usize) -> c_int {
        let body = Handle::shared(store)?;
        put(len, "len", each!(&body.store, store => store.len()))
    }

    /// Stores the number of the newest version. O(1).
    fn sapwood_store_version(store: *const sapwood_store, version: *mut u64) -> c_int {
        let body = Handle::shared(store)?;
        put(
            version,
            "version",
            each!(&body.store, store => store.version().get()),
        )
    }

    /// Makes a view of the newest version, and stays with it. O(1).
    fn sapwood_store_view(
        store: *const sapwood_store,
        reader: *const sapwood_reader,
        view: *mut sapwood_view,
    ) -> c_int {
        // The view's anchor says until when it may be used.
        let (body, through) = (Handle::shared(store)?, Handle::shared(reader)?);
        let source = map_kinds!(&body.store, store => {
            Source::Store(store.view(through.guard(store.domain())?))
        });
        let anchor = Anchor::reader(store, reader, through.epoch());
        sapwood_view::write(view, anchor, source)
    }

    insertions!(
        store: *const sapwood_store,
        /// Single changes, each in a transaction of its own; they wait for an open one.
        sapwood_store_insert: Put,
        sapwood_store_insert_new: New,
        sapwood_store_replace: Replace
    );

    fn sapwood_store_remove(
        store: *const sapwood_store,
        key: *const c_void,
        key_len: usize,
    ) -> c_int {
        change(store, |body| {
            let key = bytes(key, key_len, "the key")?;
            each!(&body.store, store => {
                let mut txn = store.begin();
                let there = txn.remove(key)?.is_some();
                txn.commit();
                Ok(or_absent(there))
            })
        })
    }

    /// Frees at most `most` nodes that no reader and no snapshot uses any more, retires their
    /// values, and returns how many. Commits do it as well. It does nothing while a transaction is
    /// open.
    fn sapwood_store_reclaim(store: *const sapwood_store, most: usize) -> c_int {
        let body = Handle::shared(store)?;
        let most = most.min(c_int::MAX as usize);
        Ok(each!(&body.store, store => store.reclaim(most)) as c_int)
    }

    /// Moves at most `most` nodes together; returns 1 if there is more. It waits for a transaction.
    fn sapwood_store_compact_step(store: *const sapwood_store, most: usize) -> c_int {
        change(store, |body| {
            let more = each!(&body.store, store => store.compact_step(most)?);
            Ok(c_int::from(more))
        })
    }

    /// It waits for an open transaction.
    fn sapwood_store_memory(store: *const sapwood_store, memory: *mut sapwood_memory) -> c_int {
        change(store, |body| {
            let report = each!(&body.store, store => sapwood_memory::from_store(&store.memory()));
            put_extensible(memory, "memory", &report)
        })
    }

    /// Keeps the newest version, which any thread may read. O(1).
    fn sapwood_store_snapshot(
        store: *const sapwood_store,
        out: *mut *mut sapwood_snapshot,
    ) -> c_int {
        let body = Handle::shared(store)?;
        let out = place(out, "out")?;
        let snapshot = SnapshotBody {
            snapshot: map_kinds!(&body.store, store => store.snapshot()),
        };
        hand_out(out, snapshot, Handle::rules(store))
    }

    /// sapwood_store_begin: -EBUSY instead of waiting
    pub const SAPWOOD_TRY: c_uint = 8;

    /// Begins a transaction, which belongs to this thread. It waits for an open one.
    fn sapwood_store_begin(
        store: *const sapwood_store,
        flags: c_uint,
        out: *mut *mut sapwood_txn,
    ) -> c_int {
        let body = Handle::shared(store)?;
        let out = place(out, "out")?;
        known_flags(flags, SAPWOOD_TRY)?;
        if flags & SAPWOOD_TRY == 0 {
            body.writer.check()?;
        }
        let txn = map_kinds!(&body.store, store => {
            let store = store.clone();
            // SAFETY: the transaction refers to what all clones of the store share, and the clone
            // lives as long as the transaction, beside it.
            let lasting: &'static QpStore<V> = unsafe { &*std::ptr::from_ref(&store) };
            let txn: QpTxn<'static, V> = if flags & SAPWOOD_TRY == 0 {
                lasting.begin()
            } else {
                lasting
                    .try_begin()
                    .ok_or_else(|| Failure::new(libc::EBUSY, "another transaction is open"))?
            };
            (txn, store)
        });
        let txn = TxnBody::new(txn, body.owner.clone(), body.writer.clone());
        hand_out(out, txn, Handle::rules(store))
    }
);
