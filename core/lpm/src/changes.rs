//! What differs between two tables, a table that becomes another one, and changes that depend on
//! what a prefix has.

use core::cmp::Ordering;
use core::fmt;
use core::iter::{FusedIterator, Peekable};

use ipnet::IpNet;

use super::both::{IpSnapshot, IpTxn};
use super::family::Family;
use super::fib::{Fib, NextHop, strict};
use super::ip::IpFib;
use super::snapshot::{FibSnapshot, Iter};
use super::txn::FibTxn;
use crate::Error;

/// One difference between two tables: `N` is the prefix, `V` its value or a reference to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FibChange<N, V> {
    /// Only the new table has the prefix, with this value.
    Added(N, V),
    /// Only the old table has the prefix, with this value.
    Removed(N, V),
    /// Both have the prefix: its old value and its new one.
    Changed(N, V, V),
}

impl<N: Copy, V> FibChange<N, V> {
    /// The prefix.
    ///
    /// O(1).
    pub fn net(&self) -> N {
        match self {
            FibChange::Added(net, _)
            | FibChange::Removed(net, _)
            | FibChange::Changed(net, _, _) => *net,
        }
    }

    /// The change that takes this one back.
    ///
    /// O(1).
    pub fn reversed(self) -> Self {
        match self {
            FibChange::Added(net, new) => FibChange::Removed(net, new),
            FibChange::Removed(net, old) => FibChange::Added(net, old),
            FibChange::Changed(net, old, new) => FibChange::Changed(net, new, old),
        }
    }

    /// The change with other prefixes and values.
    fn map<M, W>(self, net: impl FnOnce(N) -> M, value: impl Fn(V) -> W) -> FibChange<M, W> {
        match self {
            FibChange::Added(at, new) => FibChange::Added(net(at), value(new)),
            FibChange::Removed(at, old) => FibChange::Removed(net(at), value(old)),
            FibChange::Changed(at, old, new) => FibChange::Changed(net(at), value(old), value(new)),
        }
    }
}

impl<N: Copy, V: Clone> FibChange<N, &V> {
    /// The change with copies of the values.
    ///
    /// O(1), and the clones.
    pub fn cloned(&self) -> FibChange<N, V> {
        self.map(|net| net, V::clone)
    }
}

impl<F: Family, V: NextHop> FibSnapshot<F, V> {
    /// What differs between this version and `new`, in the order of prefixes. They may be versions
    /// of one table or of two.
    ///
    /// O(size of the roots + prefixes of both) for the whole walk.
    ///
    /// ```
    /// use sapwood::lpm::{FibChange, Ipv4Fib};
    /// let fib = Ipv4Fib::from_iter([("10.0.0.0/8".parse()?, 1), ("10.1.0.0/16".parse()?, 2)]);
    /// let old = fib.snapshot();
    /// fib.remove("10.1.0.0/16".parse()?)?;
    /// fib.insert("10.0.0.0/8".parse()?, 3)?;
    /// let new = fib.snapshot();
    /// let changes: Vec<_> = old.diff(&new).collect();
    /// let (eight, sixteen) = ("10.0.0.0/8".parse()?, "10.1.0.0/16".parse()?);
    /// assert_eq!(changes, [FibChange::Changed(eight, &1, &3), FibChange::Removed(sixteen, &2)]);
    /// // A copy of the old table becomes the new one.
    /// let copy = Ipv4Fib::from_iter(old.iter().map(|(net, hop)| (net, *hop)));
    /// copy.apply(changes.iter().map(FibChange::cloned))?;
    /// assert!(copy.snapshot().iter().eq(new.iter()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diff<'a>(&'a self, new: &'a Self) -> Diff<'a, F, V> {
        Diff {
            old: self.iter().peekable(),
            new: new.iter().peekable(),
        }
    }
}

/// What differs between two versions, in the order of prefixes; from [`FibSnapshot::diff`].
pub struct Diff<'a, F: Family, V: NextHop> {
    old: Peekable<Iter<'a, F, V>>,
    new: Peekable<Iter<'a, F, V>>,
}

impl<'a, F: Family, V: NextHop> Iterator for Diff<'a, F, V> {
    type Item = FibChange<F::Net, &'a V>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.old.peek(), self.new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => F::parts(*old).cmp(&F::parts(*new)),
            };
            let old = self.old.next_if(|_| order.is_le());
            let new = self.new.next_if(|_| order.is_ge());
            return Some(match (old, new) {
                (Some((_, old)), Some((_, new))) if old == new => continue,
                (Some((net, old)), Some((_, new))) => FibChange::Changed(net, old, new),
                (Some((net, old)), None) => FibChange::Removed(net, old),
                (None, Some((net, new))) => FibChange::Added(net, new),
                (None, None) => return None,
            });
        }
    }
}

impl<F: Family, V: NextHop> FusedIterator for Diff<'_, F, V> {}

impl<F: Family, V: NextHop> fmt::Debug for Diff<'_, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diff").finish_non_exhaustive()
    }
}

impl<V: NextHop> IpSnapshot<V> {
    /// What differs between this version and `new`, IPv4 first, each family in the order of
    /// prefixes.
    ///
    /// As [`FibSnapshot::diff`].
    pub fn diff<'a>(
        &'a self,
        new: &'a Self,
    ) -> impl Iterator<Item = FibChange<IpNet, &'a V>> + use<'a, V> {
        let v4 = self.v4().diff(new.v4());
        let v6 = self.v6().diff(new.v6());
        let v4 = v4.map(|change| change.map(IpNet::V4, |value| value));
        v4.chain(v6.map(|change| change.map(IpNet::V6, |value| value)))
    }
}

impl<F: Family, V: NextHop> FibTxn<'_, F, V> {
    /// Makes these changes: each prefix gets its new value, or is removed. What the table had
    /// before is not compared with the old values. Returns how many changes there were.
    ///
    /// The sum of the changes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`remove`](Self::remove), at the first change that is
    /// refused; the transaction has those before it.
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = FibChange<F::Net, V>>,
    ) -> Result<usize, Error> {
        let mut count = 0;
        for change in changes {
            match change {
                FibChange::Added(net, new) | FibChange::Changed(net, _, new) => {
                    self.insert(net, new)?;
                }
                FibChange::Removed(net, _) => {
                    self.remove(net)?;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    /// Gives a prefix the value that `change` makes of the one that it has, or removes it where
    /// `change` returns `None`. Returns the old value, which can be read until the next change of
    /// the transaction.
    ///
    /// As [`insert`](Self::insert): the prefix is found first, and then changed on nodes that are
    /// in the cache.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(
        &mut self,
        net: F::Net,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<Option<&V>, Error> {
        strict::<F>(net)?;
        match change(self.get(net)) {
            Some(value) => Ok(self.insert(net, value)?),
            None => self.remove(net),
        }
    }
}

impl<F: Family, V: NextHop> Fib<F, V> {
    /// Makes these changes in one transaction, as [`FibTxn::apply`]. With what
    /// [`FibSnapshot::diff`] found between a table and another one, the table becomes the other.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`remove`](Self::remove). Then nothing has changed.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn apply(
        &self,
        changes: impl IntoIterator<Item = FibChange<F::Net, V>>,
    ) -> Result<usize, Error> {
        let mut txn = self.begin();
        let count = txn.apply(changes)?;
        txn.commit();
        Ok(count)
    }

    /// Gives a prefix the value that `change` makes of the one that it has, or removes it where
    /// `change` returns `None`. Returns the old value. No other change comes between.
    ///
    /// As [`insert`](Self::insert): the prefix is found first, and then changed on nodes that are
    /// in the cache.
    ///
    /// ```
    /// use sapwood::lpm::Ipv4Fib;
    /// let fib = Ipv4Fib::new()?;
    /// let net = "10.0.0.0/8".parse()?;
    /// for _ in 0..3 {
    ///     fib.update(net, |uses| Some(uses.copied().unwrap_or(0) + 1))?;
    /// }
    /// assert_eq!(fib.get(net), Some(3));
    /// assert_eq!(fib.update(net, |uses| uses.filter(|uses| **uses > 3).copied())?, Some(3));
    /// assert!(fib.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert). Then nothing has changed.
    ///
    /// # Panics
    /// As [`insert`](Self::insert), also when `change` changes this table.
    #[track_caller]
    pub fn update(
        &self,
        net: F::Net,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<Option<V>, Error> {
        let mut txn = self.begin();
        let old = txn.update(net, change)?.cloned();
        txn.commit();
        Ok(old)
    }
}

impl<V: NextHop> IpTxn<'_, V> {
    /// Makes these changes of both families, as [`FibTxn::apply`].
    ///
    /// # Errors
    /// As [`FibTxn::apply`].
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = FibChange<IpNet, V>>,
    ) -> Result<usize, Error> {
        let mut count = 0;
        for change in changes {
            match change {
                FibChange::Added(net, new) | FibChange::Changed(net, _, new) => {
                    self.insert(net, new)?;
                }
                FibChange::Removed(net, _) => {
                    self.remove(net)?;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    /// Changes the value of a prefix, as [`FibTxn::update`].
    ///
    /// # Errors
    /// As [`FibTxn::update`].
    pub fn update(
        &mut self,
        net: IpNet,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<Option<&V>, Error> {
        match net {
            IpNet::V4(net) => self.v4().update(net, change),
            IpNet::V6(net) => self.v6().update(net, change),
        }
    }
}

impl<V: NextHop> IpFib<V> {
    /// Makes these changes in one transaction of both families, as [`FibTxn::apply`].
    ///
    /// ```
    /// use sapwood::lpm::{FibChange, IpFib};
    /// let old = IpFib::from_iter([("10.0.0.0/8".parse()?, 1)]);
    /// let new = IpFib::from_iter([("10.0.0.0/8".parse()?, 2), ("2001:db8::/32".parse()?, 3)]);
    /// let (a, b) = (old.snapshot(), new.snapshot());
    /// assert_eq!(old.apply(a.diff(&b).map(|change| change.cloned()))?, 2);
    /// assert!(old.snapshot().iter().eq(b.iter()));
    /// // The same changes taken back.
    /// old.apply(a.diff(&b).map(|change| change.cloned().reversed()))?;
    /// assert!(old.snapshot().iter().eq(a.iter()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`remove`](Self::remove). Then nothing has changed.
    ///
    /// # Panics
    /// As [`begin`](Self::begin).
    #[track_caller]
    pub fn apply(
        &self,
        changes: impl IntoIterator<Item = FibChange<IpNet, V>>,
    ) -> Result<usize, Error> {
        let mut txn = self.begin();
        let count = txn.apply(changes)?;
        txn.commit();
        Ok(count)
    }

    /// Changes the value of a prefix, as [`Fib::update`].
    ///
    /// # Errors
    /// As [`Fib::update`].
    ///
    /// # Panics
    /// As [`Fib::update`].
    #[track_caller]
    pub fn update(
        &self,
        net: IpNet,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<Option<V>, Error> {
        match net {
            IpNet::V4(net) => self.v4().update(net, change),
            IpNet::V6(net) => self.v6().update(net, change),
        }
    }
}
