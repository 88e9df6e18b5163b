//! Transactions: changes of a table that are published together.

use core::fmt;

use super::code::encode;
use super::read::bit_methods;
use super::string::AsBits;
use crate::{Error, Rejected};
use sapwood_qp::parts::View;
use sapwood_qp::{QpTxn, Trusted, Version};

/// An open transaction on a [`BitFib`](super::BitFib). It reads what it wrote; dropping it rolls
/// back.
pub struct BitTxn<'s, V: Send + Sync + 'static>(pub(super) QpTxn<'s, V>);

impl<V: Send + Sync + 'static> BitTxn<'_, V> {
    #[inline(always)]
    fn trie(&self) -> View<'_, V> {
        self.0.view()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    bit_methods!(['t] 't [&'t ] self Trusted);

    /// Inserts or replaces. The value that was replaced can be read until the next change of the
    /// transaction.
    ///
    /// O(bits of the prefix); the branches on the path are copied, once in a transaction.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], [`Error::GarbageLimit`], with the value given back.
    pub fn insert(&mut self, prefix: impl AsBits, value: V) -> Result<Option<&V>, Rejected<V>> {
        let key = prefix.with_bits(encode);
        self.0
            .insert(&key, value)
            .map_err(|rejected| rejected.error_into())
    }

    /// Removes a prefix. Its value can be read until the next change of the transaction.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] (the path is copied), [`Error::GarbageLimit`].
    pub fn remove(&mut self, prefix: impl AsBits) -> Result<Option<&V>, Error> {
        let key = prefix.with_bits(encode);
        Ok(self.0.remove(&key)?)
    }

    /// Removes all prefixes; returns their number. When there is no room for the garbage, nothing
    /// is removed.
    ///
    /// O(prefixes).
    ///
    /// # Errors
    /// As [`QpTxn::clear`].
    pub fn clear(&mut self) -> Result<usize, Error> {
        Ok(self.0.clear()?)
    }

    /// Publishes all changes as a new version with one store. Returns the version's number, or the
    /// newest version's when nothing was changed. This cannot fail: the operations did everything
    /// that can.
    ///
    /// O(what was changed), to hand over what was replaced; readers see it by one store.
    pub fn commit(self) -> Version {
        self.0.commit()
    }

    /// Discards all changes, as dropping the transaction does.
    ///
    /// O(what was changed).
    pub fn rollback(self) {
        self.0.rollback();
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for BitTxn<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}
