//! What `sapwood_fib` and `sapwood_routes` have in common: their handles, and the transactions,
//! snapshots and iterators of a table of prefixes. Handles and transactions are those of
//! `sapwood_ranges`, too.

use std::ffi::{c_char, c_uint};
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use sapwood::lpm::{IpFib, IpSnapshot, IpTxn};
use sapwood::route::{Group, RouteSnapshot, RouteTable, RouteTxn, VoidGroups};
use sapwood::{Builder, Configure};

use crate::domain::{SAPWOOD_CHECKED, known_flags, or_new, sapwood_domain};
use crate::error::{Failure, Outcome};
use crate::fib::sapwood_fib_options;
use crate::handle::{Body, Handle};
use crate::input;
use crate::output::{hand_out, put, put_wanted};
use crate::prefix::sapwood_prefix;
use crate::routes::SAPWOOD_COVER_VOID;
use crate::turn::{Turn, Turns};

/// A type's word and its name in C (see [`Body`]).
pub type Mark = (u32, &'static str);

/// The mark of four letters.
pub const fn mark(word: [u8; 4], name: &'static str) -> Mark {
    (u32::from_be_bytes(word), name)
}

/// A structure with transactions, in whose place C has a handle. A clone is the same structure.
pub trait Transacts: Clone + 'static {
    /// The marks of the structure and of its transactions.
    const MARKS: [Mark; 2];
    /// A transaction.
    type Txn: 'static;

    /// Begins a transaction; waits for others.
    fn begin(&'static self) -> Option<Self::Txn>;
    /// Begins a transaction, unless another one is open.
    fn try_begin(&'static self) -> Option<Self::Txn>;
    /// Publishes the changes.
    fn commit(txn: Self::Txn);
    /// Discards the changes.
    fn rollback(txn: Self::Txn);
}

/// A table of prefixes.
pub trait Versioned: Transacts {
    /// The marks of its snapshots and iterators.
    const KEPT: [Mark; 2];
    /// A builder.
    type Builder: Configure;
    /// A snapshot.
    type Snapshot: 'static;
    /// What a prefix has.
    type Item: 'static;

    /// A builder with the defaults.
    fn builder() -> Self::Builder;
    /// The flags that only this kind of table knows, beside those of all.
    const FLAGS: c_uint;
    /// Sets what these flags say.
    fn flagged(builder: Self::Builder, flags: c_uint) -> Self::Builder;
    /// Sets how many bits the root resolves.
    fn root_bits(builder: Self::Builder, bits: u8) -> Self::Builder;
    /// A snapshot of the newest version.
    fn snapshot(&self) -> Self::Snapshot;
    /// The prefixes of a snapshot.
    fn len(snapshot: &Self::Snapshot) -> usize;
    /// Writes a snapshot to a file.
    fn save(snapshot: &Self::Snapshot, path: &Path) -> Outcome<()>;
    /// The prefixes of a snapshot with what they have.
    fn iter(snapshot: &'static Self::Snapshot) -> Walk<Self>;
}

/// A walk over the prefixes of a snapshot.
pub type Walk<T> = Box<dyn Iterator<Item = (IpNet, &'static <T as Versioned>::Item)>>;

macro_rules! versioned {
    ($table:ty, $txn:ty, $snapshot:ty, $item:ty, $marks:expr, $kept:expr, $flags:expr, $flagged:expr) => {
        impl Transacts for $table {
            const MARKS: [Mark; 2] = $marks;
            type Txn = $txn;

            fn begin(&'static self) -> Option<Self::Txn> {
                Some(<$table>::begin(self))
            }

            fn try_begin(&'static self) -> Option<Self::Txn> {
                <$table>::try_begin(self)
            }

            fn commit(txn: Self::Txn) {
                txn.commit();
            }

            fn rollback(txn: Self::Txn) {
                txn.rollback();
            }
        }

        impl Versioned for $table {
            const KEPT: [Mark; 2] = $kept;
            type Builder = Builder<$table>;
            type Snapshot = $snapshot;
            type Item = $item;

            fn builder() -> Self::Builder {
                <$table>::builder()
            }

            const FLAGS: c_uint = $flags;

            fn flagged(builder: Self::Builder, flags: c_uint) -> Self::Builder {
                let flagged: fn(Self::Builder, c_uint) -> Self::Builder = $flagged;
                flagged(builder, flags)
            }

            fn root_bits(builder: Self::Builder, bits: u8) -> Self::Builder {
                builder.root_bits(bits)
            }

            fn snapshot(&self) -> Self::Snapshot {
                <$table>::snapshot(self)
            }

            fn len(snapshot: &Self::Snapshot) -> usize {
                snapshot.len()
            }

            fn save(snapshot: &Self::Snapshot, path: &Path) -> Outcome<()> {
                Ok(snapshot.save(path)?)
            }

            fn iter(snapshot: &'static Self::Snapshot) -> Walk<Self> {
                Box::new(snapshot.iter())
            }
        }
    };
}

versioned!(
    IpFib<u64>,
    IpTxn<'static, u64>,
    IpSnapshot<u64>,
    u64,
    [mark(*b"swFb", "fib"), mark(*b"swFt", "fib_txn")],
    [mark(*b"swFs", "fib_snapshot"), mark(*b"swFn", "fib_iter"),],
    0,
    |builder, _| builder
);

versioned!(
    RouteTable<u64>,
    RouteTxn<'static, u64>,
    RouteSnapshot<u64>,
    Group<u64>,
    [mark(*b"swRo", "routes"), mark(*b"swRt", "routes_txn")],
    [
        mark(*b"swRs", "routes_snapshot"),
        mark(*b"swRn", "routes_iter"),
    ],
    SAPWOOD_COVER_VOID,
    |builder, flags| match flags & SAPWOOD_COVER_VOID != 0 {
        true => builder.void_groups(VoidGroups::Cover),
        false => builder,
    }
);

/// The inside of the handle of a table, or of a range map.
#[derive(Debug)]
pub struct TableBody<T> {
    /// The table.
    pub table: T,
    /// Which thread has a transaction or a reservation open.
    pub turns: Turns,
    /// Whether the handles are checked.
    pub checked: bool,
}

impl<T> TableBody<T> {
    /// A table whose handles are checked or not.
    pub fn new(table: T, checked: bool) -> Self {
        TableBody {
            table,
            turns: Turns::default(),
            checked,
        }
    }
}

impl<T: Transacts> Body for TableBody<T> {
    const MAGIC: u32 = T::MARKS[0].0;
    const NAME: &'static str = T::MARKS[0].1;
}

/// Makes a table by C's options.
///
/// # Safety
/// C.
pub unsafe fn make<T: Versioned>(
    domain: *const sapwood_domain,
    options: *const sapwood_fib_options,
    out: *mut *mut Handle<TableBody<T>>,
    build: impl FnOnce(T::Builder) -> Outcome<T>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let options = unsafe { input::given(options) }?;
    known_flags(options.flags, SAPWOOD_CHECKED | T::FLAGS)?;
    // SAFETY: C.
    let (domain, rules) = unsafe { or_new(domain, options.flags & SAPWOOD_CHECKED != 0) }?;
    let mut builder = T::flagged(T::builder().domain(&domain), options.flags);
    if options.memory_limit > 0 {
        builder = builder.memory_limit(options.memory_limit);
    }
    // Views of C hold the root itself, so it does not grow.
    builder = T::root_bits(builder, options.root()?.unwrap_or(18));
    let body = TableBody::new(build(builder)?, rules.checked);
    // SAFETY: C.
    unsafe { hand_out(out, body, rules) }
}

/// A table that this thread may change.
///
/// # Safety
/// C.
pub unsafe fn changed<'a, T: Transacts>(table: *const Handle<TableBody<T>>) -> Outcome<&'a T> {
    // SAFETY: C.
    let body = unsafe { Handle::shared(table) }?;
    body.turns.check()?;
    Ok(&body.table)
}

/// The inside of a transaction's handle.
///
/// The fields are dropped in this order: the turn ends, then the transaction with its lock, then
/// the table that the transaction borrows.
pub struct TxnBody<T: Transacts> {
    turn: Turn,
    /// The transaction.
    pub txn: T::Txn,
    _table: Arc<T>,
}

impl<T: Transacts> Body for TxnBody<T> {
    const MAGIC: u32 = T::MARKS[1].0;
    const NAME: &'static str = T::MARKS[1].1;
}

/// Begins a transaction with `begin`, for the function of this name.
///
/// # Safety
/// C.
pub unsafe fn begin<T: Transacts>(
    table: *mut Handle<TableBody<T>>,
    out: *mut *mut Handle<TxnBody<T>>,
    begin: impl FnOnce(&'static T) -> Option<T::Txn>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let body = unsafe { Handle::shared(table) }?;
    // SAFETY: C.
    let rules = unsafe { Handle::rules(table) };
    body.turns.check()?;
    let table = Arc::new(body.table.clone());
    // SAFETY: it lies in the `Arc`, and `TxnBody` drops that after the transaction.
    let lent: &'static T = unsafe { &*Arc::as_ptr(&table) };
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
    unsafe { hand_out(out, open, rules) }
}

/// A transaction on its thread, for reading.
///
/// # Safety
/// C.
pub unsafe fn seen<'a, T: Transacts>(txn: *const Handle<TxnBody<T>>) -> Outcome<&'a TxnBody<T>> {
    // SAFETY: C.
    let open = unsafe { Handle::shared(txn) }?;
    open.turn.check("transaction")?;
    Ok(open)
}

/// A transaction on its thread.
///
/// # Safety
/// C.
pub unsafe fn opened<'a, T: Transacts>(
    txn: *mut Handle<TxnBody<T>>,
) -> Outcome<&'a mut TxnBody<T>> {
    // SAFETY: C. The thread is looked at before the body is used.
    unsafe {
        seen(txn)?;
        Handle::exclusive(txn)
    }
}

/// Ends a transaction on its thread, and frees the handle.
///
/// # Safety
/// C.
unsafe fn end<T: Transacts>(txn: *mut Handle<TxnBody<T>>, how: fn(T::Txn)) -> Outcome {
    // SAFETY: C.
    unsafe { opened(txn) }?;
    // SAFETY: C.
    let TxnBody { turn, txn, _table } = unsafe { Handle::take(txn) }?;
    // Ends before the lock is released: another thread's turn may begin right after that.
    drop(turn);
    how(txn);
    Ok(0)
}

/// Publishes all changes, and frees the transaction.
///
/// # Safety
/// C.
pub unsafe fn commit<T: Transacts>(txn: *mut Handle<TxnBody<T>>) -> Outcome {
    // SAFETY: C.
    unsafe { end(txn, T::commit) }
}

/// Discards all changes, and frees the transaction. NULL is allowed.
///
/// # Safety
/// C.
pub unsafe fn rollback<T: Transacts>(txn: *mut Handle<TxnBody<T>>) -> Outcome {
    // SAFETY: C.
    if txn.is_null() || unsafe { Handle::leave(txn) } {
        return Ok(0);
    }
    // SAFETY: C.
    unsafe { end(txn, T::rollback) }
}

/// The inside of a snapshot's handle.
pub struct SnapshotBody<T: Versioned> {
    /// The snapshot.
    pub snapshot: Arc<T::Snapshot>,
}

impl<T: Versioned> Body for SnapshotBody<T> {
    const MAGIC: u32 = T::KEPT[0].0;
    const NAME: &'static str = T::KEPT[0].1;
}

/// Makes a snapshot of the newest version.
///
/// # Safety
/// C.
pub unsafe fn snapshot<T: Versioned>(
    table: *const Handle<TableBody<T>>,
    out: *mut *mut Handle<SnapshotBody<T>>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let body = unsafe { Handle::shared(table) }?;
    body.turns.check()?;
    let kept = SnapshotBody {
        snapshot: Arc::new(body.table.snapshot()),
    };
    // SAFETY: C.
    unsafe { hand_out(out, kept, Handle::rules(table)) }
}

/// Writes the number of prefixes of a snapshot.
///
/// # Safety
/// C.
pub unsafe fn len<T: Versioned>(
    snapshot: *const Handle<SnapshotBody<T>>,
    len: *mut usize,
) -> Outcome {
    // SAFETY: C.
    unsafe { put(len, "len", T::len(&Handle::shared(snapshot)?.snapshot)) }
}

/// Saves a snapshot.
///
/// # Safety
/// C.
pub unsafe fn save<T: Versioned>(
    snapshot: *const Handle<SnapshotBody<T>>,
    path: *const c_char,
) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::shared(snapshot) }?;
    // SAFETY: C.
    T::save(&body.snapshot, unsafe { input::path(path) }?)?;
    Ok(0)
}

/// The inside of an iterator's handle. The walk is dropped before the snapshot that it borrows.
pub struct IterBody<T: Versioned> {
    walk: Walk<T>,
    _snapshot: Arc<T::Snapshot>,
}

impl<T: Versioned> Body for IterBody<T> {
    const MAGIC: u32 = T::KEPT[1].0;
    const NAME: &'static str = T::KEPT[1].1;
}

/// Makes an iterator over a snapshot.
///
/// # Safety
/// C.
pub unsafe fn iter<T: Versioned>(
    snapshot: *const Handle<SnapshotBody<T>>,
    out: *mut *mut Handle<IterBody<T>>,
) -> Outcome {
    // SAFETY: C.
    unsafe { walk(snapshot, out, T::iter) }
}

/// Makes an iterator of what `make` walks over in a snapshot.
///
/// # Safety
/// C.
pub unsafe fn walk<T: Versioned>(
    snapshot: *const Handle<SnapshotBody<T>>,
    out: *mut *mut Handle<IterBody<T>>,
    make: impl FnOnce(&'static T::Snapshot) -> Walk<T>,
) -> Outcome {
    let out = input::place(out, "out")?;
    // SAFETY: C.
    let body = unsafe { Handle::shared(snapshot) }?;
    let kept = Arc::clone(&body.snapshot);
    // SAFETY: the snapshot lies in the `Arc`, and `IterBody` drops that after the walk.
    let lent: &'static T::Snapshot = unsafe { &*Arc::as_ptr(&kept) };
    let iter = IterBody {
        walk: make(lent),
        _snapshot: kept,
    };
    // SAFETY: C.
    unsafe { hand_out(out, iter, Handle::rules(snapshot)) }
}

/// Gives `give` what the next prefix has, if there is one, and writes the prefix.
///
/// # Safety
/// C.
pub unsafe fn next<T: Versioned>(
    iter: *mut Handle<IterBody<T>>,
    at: *mut sapwood_prefix,
    give: impl FnOnce(&'static T::Item) -> Outcome<()>,
) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(iter) }?;
    let Some((net, item)) = body.walk.next() else {
        return Ok(-libc::ENOENT);
    };
    // SAFETY: C.
    unsafe { put_wanted(at, net.into()) };
    give(item)?;
    Ok(0)
}
