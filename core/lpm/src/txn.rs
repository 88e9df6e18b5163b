//! Transactions: changes of a table that are published together.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use sapwood_qsbr::Domain;

use super::family::Family;
use super::fib::{NextHop, strict, truncated};
use super::raw::root::Open;
use super::raw::table::FibShared;
use super::raw::view::View;
use super::raw::writer::Writer;
use super::view::{Matches, lookup_methods};
use crate::sync::WriterGuard;
use crate::{Error, Rejected};

/// An open transaction on a table. Nobody else sees its changes before they are committed. It reads
/// what it wrote; dropping it rolls back.
///
/// An operation that fails leaves the transaction as it was before, and the transaction can
/// continue. A node that is changed several times is copied each time, but only its last copy is
/// kept.
///
/// ```
/// use sapwood::lpm::Ipv4Fib;
/// let fib = Ipv4Fib::new()?;
/// let mut txn = fib.begin();
/// txn.insert("10.0.0.0/8".parse()?, 1)?;
/// txn.insert("10.1.0.0/16".parse()?, 2)?;
/// assert_eq!(txn.lookup_value([10, 1, 0, 1].into()), Some(&2));
/// assert_eq!(fib.read(|view| view.len()), 0);
/// txn.commit();
/// assert_eq!(fib.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FibTxn<'s, F: Family, V: NextHop> {
    shared: &'s FibShared<V>,
    // The guard is dropped before the values: their `drop` may use the table.
    writer: WriterGuard<'s, Writer<V>>,
    /// Values that operations reclaimed or did not need.
    dropped: Vec<V>,
    family: PhantomData<F>,
}

impl<'s, F: Family, V: NextHop> FibTxn<'s, F, V> {
    pub(super) fn new(shared: &'s FibShared<V>, mut writer: WriterGuard<'s, Writer<V>>) -> Self {
        writer.blocks.marks = true;
        FibTxn {
            shared,
            writer,
            dropped: Vec::new(),
            family: PhantomData,
        }
    }

    fn parts(&mut self) -> (&FibShared<V>, &mut Writer<V>, &mut Vec<V>) {
        (self.shared, &mut self.writer, &mut self.dropped)
    }

    /// Ends the transaction, which is rolled back unless it was published, and gives the values
    /// that nobody reads any more: they are to be dropped when no lock is held.
    pub(super) fn finish(mut self) -> Vec<V> {
        self.shared.roll_back(&mut self.writer, &mut self.dropped);
        core::mem::take(&mut self.dropped)
    }

    pub(super) fn domain(&self) -> &'s Domain {
        self.shared.domain()
    }

    fn view(&self) -> View<'_, V, Open<'_>> {
        self.shared.open_view(&self.writer)
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    lookup_methods!(['t] 't [&'t ] self);

    /// Inserts or replaces the value of a prefix. The old value can be read until the next change
    /// of the transaction.
    ///
    /// As [`Fib::insert`](super::Fib::insert); a node that the transaction made is not copied
    /// again.
    ///
    /// # Errors
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`], [`Error::GarbageLimit`], with the value given
    /// back.
    pub fn insert(&mut self, net: F::Net, value: V) -> Result<Option<&V>, Rejected<V>> {
        match strict::<F>(net) {
            Ok(at) => self.put(at, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    fn put(&mut self, at: (F::Key, u8), value: V) -> Result<Option<&V>, Rejected<V>> {
        let (shared, writer, dropped) = self.parts();
        match shared.put(writer, at, value, dropped) {
            Ok(old) => Ok(old.map(|block| shared.value_of(writer, block))),
            Err((value, error)) => Err(Rejected { value, error }),
        }
    }

    /// Removes a prefix. Its value can be read until the next change of the transaction; `None`
    /// when the prefix was not there.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] (the path to the prefix is copied), [`Error::GarbageLimit`].
    pub fn remove(&mut self, net: F::Net) -> Result<Option<&V>, Error> {
        let (shared, writer, dropped) = self.parts();
        let old = shared.take(writer, truncated::<F>(net), dropped)?;
        Ok(old.map(|block| shared.value_of(writer, block)))
    }

    /// Publishes all changes, and frees some garbage of older changes. Returns the version's
    /// number, or the newest version's when nothing was changed.
    ///
    /// Root words are stored one after the other: see [`Fib`](super::Fib). O(what was changed);
    /// cannot fail.
    pub fn commit(mut self) -> u64 {
        self.publish()
    }

    /// Publishes as [`commit`](Self::commit) does. Values that nobody reads any more are dropped
    /// with the transaction.
    pub(super) fn publish(&mut self) -> u64 {
        let (shared, writer, dropped) = self.parts();
        let budget = shared.reclaim_budget(writer);
        shared.commit(writer);
        // Nothing is changed any more.
        writer.blocks.marks = false;
        shared.grow_if_due::<F::Key>(writer);
        shared.reclaim(writer, budget, dropped);
        shared.version()
    }

    /// Discards all changes, as dropping the transaction does.
    ///
    /// O(what was changed).
    pub fn rollback(self) {
        drop(self);
    }
}

impl<F: Family, V: NextHop> Drop for FibTxn<'_, F, V> {
    fn drop(&mut self) {
        // After a commit there is nothing to take back.
        self.shared.roll_back(&mut self.writer, &mut self.dropped);
    }
}

impl<F: Family, V: NextHop> fmt::Debug for FibTxn<'_, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FibTxn")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
