//! Transactions: changes that are published together or not at all.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::map::checked;
use super::raw::mem::Trusted;
use super::raw::value::{Accepts, IntoValue, Value, storing};
use super::raw::version::{StoreShared, Writer};
use super::raw::view::View;
use super::read::{self, point_methods, read_methods};
use super::store::Version;
use crate::sync::WriterGuard;
use crate::{Error, Rejected};

/// An entry that was removed.
type Popped<'t, V> = (Box<[u8]>, &'t V);

/// An open transaction on a [`QpStore`](super::QpStore). It reads its own changes. Dropping it
/// rolls them back.
///
/// It changes nodes that it made in place, and copies each older node once. An operation that fails
/// leaves the transaction as it was before, and the transaction can go on.
pub struct QpTxn<'s, V: ?Sized + Value + Send + Sync + 'static> {
    shared: &'s StoreShared<V>,
    // Fields are dropped in order: the lock is released before values are dropped, whose `drop` may
    // use the store.
    writer: WriterGuard<'s, Writer<V>>,
    /// Values whose nodes were freed, to be dropped with the transaction.
    values: Vec<V::Held>,
}

impl<'s, V: ?Sized + Value + Send + Sync + 'static> QpTxn<'s, V> {
    pub(crate) fn new(shared: &'s StoreShared<V>, mut writer: WriterGuard<'s, Writer<V>>) -> Self {
        writer.expect_nodes(0);
        QpTxn {
            shared,
            writer,
            values: Vec::new(),
        }
    }

    fn parts(&mut self) -> (&StoreShared<V>, &mut Writer<V>, &mut Vec<V::Held>) {
        (self.shared, &mut self.writer, &mut self.values)
    }

    #[inline(always)]
    #[doc(hidden)]
    pub fn view(&self) -> View<'_, V> {
        self.writer.tree.view()
    }

    /// Number of entries.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.writer.tree.len
    }

    fn is_large(&self) -> bool {
        self.len() >= read::BATCH_FROM / 32
    }

    read_methods!(['t] 't [&'t ] self Trusted);
    point_methods!(['t] 't [&'t ] self Trusted);

    /// Makes room for the garbage that a change of this key may make.
    fn admit(&mut self, key: &[u8]) -> Result<(), Error> {
        let (shared, writer, values) = self.parts();
        if shared.domain().hard_limit().is_some() {
            let bytes = writer.cost(key);
            shared.admit(writer, bytes, values)?;
        }
        Ok(())
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpTxn<'_, V> {
    /// Inserts or replaces; returns the value that was replaced. The reference lives until the next
    /// change of the transaction.
    ///
    /// O(key length). The first change below a branch in a transaction copies the branch.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::ArenaFull`],
    /// [`Error::GarbageLimit`], with the value.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store: QpStore<[u8]> = QpStore::new()?;
    /// let mut txn = store.begin();
    /// txn.insert("elm", b"Ulmus")?;
    /// assert_eq!(txn.insert("elm", b"Ulmus glabra")?, Some(&b"Ulmus"[..]));
    /// txn.commit();
    /// assert_eq!(store.pin().view().get("elm"), Some(&b"Ulmus glabra"[..]));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert<N: IntoValue<V>>(
        &mut self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<Option<&V>, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.put(key.as_ref(), value))
    }

    fn put<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Option<&V>, Rejected<V::New<'a>>> {
        if let Err(error) = checked(key).map(drop).and_then(|()| self.admit(key)) {
            return Err(Rejected { value, error });
        }
        let (_, writer, _) = self.parts();
        match writer.put(key, value) {
            Ok(old) => Ok(old.map(|old| writer.value(old))),
            Err((value, full)) => Err(Rejected {
                value,
                error: full.into(),
            }),
        }
    }

    /// Removes a key; returns its value. The reference lives until the next change of the
    /// transaction.
    ///
    /// O(key length). The first change below a branch in a transaction copies the branch.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], because a removal copies the path; [`Error::GarbageLimit`].
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<Option<&V>, Error> {
        let key = key.as_ref();
        self.admit(key)?;
        let (_, writer, _) = self.parts();
        let old = writer.take(key)?;
        Ok(old.map(|old| writer.value(old)))
    }

    /// Removes the entry with the least key and returns it. The reference lives until the next
    /// change of the transaction.
    ///
    /// O(length of its key).
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::new()?;
    /// let mut txn = store.begin();
    /// txn.insert("b", 2)?;
    /// txn.insert("a", 1)?;
    /// assert_eq!(txn.pop_first()?, Some((Box::from(*b"a"), &1)));
    /// assert_eq!(txn.pop_last()?, Some((Box::from(*b"b"), &2)));
    /// assert_eq!(txn.pop_first()?, None);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn pop_first(&mut self) -> Result<Option<Popped<'_, V>>, Error> {
        let first = self.first_key_value().map(|(key, _)| Box::from(key));
        self.pop(first)
    }

    /// Removes the entry with the greatest key and returns it. The reference lives until the next
    /// change of the transaction.
    ///
    /// O(length of its key).
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn pop_last(&mut self) -> Result<Option<Popped<'_, V>>, Error> {
        let last = self.last_key_value().map(|(key, _)| Box::from(key));
        self.pop(last)
    }

    fn pop(&mut self, key: Option<Box<[u8]>>) -> Result<Option<Popped<'_, V>>, Error> {
        let Some(key) = key else {
            return Ok(None);
        };
        let value = self.remove(&key)?;
        Ok(value.map(|value| (key, value)))
    }

    /// Removes the entries whose keys start with `prefix`; returns their number. O(length of the
    /// prefix + number of removed entries).
    ///
    /// Under a hard limit of garbage, the transaction asks beforehand for room for all that is
    /// removed. When there is none, nothing is removed; shorter steps may fit, with commits
    /// between them.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], because a removal copies the path; [`Error::GarbageLimit`].
    pub fn remove_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<usize, Error> {
        let prefix = prefix.as_ref();
        let (shared, writer, values) = self.parts();
        if shared.domain().hard_limit().is_some() {
            let bytes = writer.prefix_cost(prefix);
            shared.admit(writer, bytes, values)?;
        }
        let (_, writer, _) = self.parts();
        Ok(writer.take_prefix(prefix)?)
    }

    /// Removes all entries; returns their number.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// As [`remove_prefix`](Self::remove_prefix).
    pub fn clear(&mut self) -> Result<usize, Error> {
        self.remove_prefix([])
    }

    /// Publishes all changes as a new version with one store; returns the version's number. If
    /// nothing was changed, it returns the number of the newest version. It also frees some nodes
    /// that older commits retired.
    ///
    /// O(nodes made by the transaction). A commit cannot fail: the operations have done everything
    /// that can fail. A commit that leaves the store empty, or that finds the domain above its soft
    /// limit of garbage, frees all nodes that it can, in proportion to their number.
    pub fn commit(mut self) -> Version {
        let (shared, writer, values) = self.parts();
        let budget = shared.reclaim_budget(writer);
        let version = shared.commit(writer);
        shared.reclaim(writer, budget, values);
        Version(version)
    }

    /// Undoes all changes. Dropping the transaction does the same.
    ///
    /// O(nodes made by the transaction).
    pub fn rollback(self) {
        drop(self);
    }

    /// One step of compaction, committed.
    pub(crate) fn compact(mut self, budget: usize) -> Result<bool, Error> {
        let (shared, writer, values) = self.parts();
        let before = writer.compaction.clone();
        let more = writer.compact_step(budget.max(1))?;
        // The garbage of the step is known now, and nothing is published yet.
        if let Err(limit) = shared.admit(writer, 0, values) {
            writer.compaction = before.begun();
            return Err(limit.into());
        }
        self.commit();
        Ok(more)
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Drop for QpTxn<'_, V> {
    fn drop(&mut self) {
        // After a commit there is nothing to undo.
        self.shared.roll_back(&mut self.writer, &mut self.values);
    }
}

impl<V: ?Sized + Value + Send + Sync + fmt::Debug + 'static> fmt::Debug for QpTxn<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QpTxn")
            .field("entries", &self.iter())
            .finish()
    }
}
