//! Snapshots of a table: lookups that agree with each other, and walks.

use core::fmt;

use super::family::{Family, Key};
use super::fib::{NextHop, truncated};
use super::raw::pages::Frozen;
use super::raw::table::Kept;
use super::raw::view::{Steps, View};
use super::view::{Matches, lookup_methods};

/// One version of a table, which stays alive until this is dropped. Any thread may read it, and it
/// may be sent to any thread.
///
/// ```
/// use sapwood::lpm::Ipv4Fib;
/// let fib = Ipv4Fib::from_iter([
///     ("10.0.0.0/8".parse()?, 1),
///     ("10.1.0.0/16".parse()?, 2),
///     ("10.1.2.0/24".parse()?, 3),
///     ("192.0.2.0/24".parse()?, 4),
/// ]);
/// let snapshot = fib.snapshot();
/// fib.remove("10.1.0.0/16".parse()?)?;
/// let all: Vec<String> = snapshot.iter().map(|(net, hop)| format!("{net} {hop}")).collect();
/// assert_eq!(all, ["10.0.0.0/8 1", "10.1.0.0/16 2", "10.1.2.0/24 3", "192.0.2.0/24 4"]);
/// let inside: Vec<_> = snapshot.covered_by("10.1.0.0/16".parse()?).map(|(_, hop)| *hop).collect();
/// assert_eq!(inside, [2, 3]);
/// let below: Vec<_> = snapshot.children("10.0.0.0/8".parse()?).map(|(_, hop)| *hop).collect();
/// assert_eq!(below, [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FibSnapshot<F: Family, V: NextHop> {
    kept: Kept<V>,
    family: core::marker::PhantomData<F>,
}

impl<F: Family, V: NextHop> FibSnapshot<F, V> {
    pub(super) fn new(kept: Kept<V>) -> Self {
        FibSnapshot {
            kept,
            family: core::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn view(&self) -> View<'_, V, Frozen<'_>> {
        self.kept.view()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.kept.len
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version's number.
    ///
    /// O(1).
    pub fn version(&self) -> u64 {
        self.kept.version.number()
    }

    lookup_methods!(['s] 's [&'s ] self);

    /// All prefixes in the order of their addresses, shorter ones before those that they cover.
    ///
    /// O(size of the root + prefixes) for the whole walk.
    pub fn iter(&self) -> Iter<'_, F, V> {
        Iter(self.view().walk(F::WIDTH, F::Key::ZERO, 0))
    }

    /// This prefix, if it is there, and all that come after it in order: the next ones of its
    /// length and longer ones, to the end of the table.
    ///
    /// As [`iter`](Self::iter), from there on; finding the first takes as long as a lookup.
    ///
    /// ```
    /// use sapwood::lpm::Ipv4Fib;
    /// let fib = Ipv4Fib::from_iter([
    ///     ("10.0.0.0/8".parse()?, 1),
    ///     ("10.1.0.0/16".parse()?, 2),
    ///     ("192.0.2.0/24".parse()?, 3),
    /// ]);
    /// let snapshot = fib.snapshot();
    /// let hops: Vec<_> = snapshot.iter_from("10.0.0.0/9".parse()?).map(|(_, hop)| *hop).collect();
    /// assert_eq!(hops, [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter_from(&self, net: F::Net) -> Iter<'_, F, V> {
        let (key, len) = truncated::<F>(net);
        Iter(self.view().walk_from(F::WIDTH, key, len))
    }

    /// The prefix itself, if it is there, and all prefixes inside it, in order. Finding the first
    /// takes as long as a lookup.
    ///
    /// O(1) for each further prefix, and a look at each word of the root inside the prefix.
    pub fn covered_by(&self, net: F::Net) -> Iter<'_, F, V> {
        let (key, len) = truncated::<F>(net);
        Iter(self.view().walk(F::WIDTH, key, len))
    }

    /// The prefixes directly inside this one: those of [`covered_by`](Self::covered_by) that no
    /// other of them covers, without the prefix itself. The walk passes the prefixes below them,
    /// too.
    ///
    /// O(prefixes inside this one).
    pub fn children(&self, net: F::Net) -> Children<'_, F, V> {
        let (key, len) = truncated::<F>(net);
        Children {
            steps: self.view().walk(F::WIDTH, key, len),
            of: len,
            last: None,
        }
    }
}

impl<F: Family, V: NextHop + fmt::Debug> fmt::Debug for FibSnapshot<F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'s, F: Family, V: NextHop> IntoIterator for &'s FibSnapshot<F, V> {
    type Item = (F::Net, &'s V);
    type IntoIter = Iter<'s, F, V>;

    fn into_iter(self) -> Iter<'s, F, V> {
        self.iter()
    }
}

/// Prefixes in the order of their addresses, shorter ones first.
pub struct Iter<'a, F: Family, V>(Steps<'a, F::Key, V, Frozen<'a>>);

impl<'a, F: Family, V> Iterator for Iter<'a, F, V> {
    type Item = (F::Net, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, len, value) = self.0.next()?;
        Some((F::net_of(key, len), value))
    }
}

/// The prefixes directly inside one.
pub struct Children<'a, F: Family, V> {
    steps: Steps<'a, F::Key, V, Frozen<'a>>,
    of: u8,
    last: Option<(F::Key, u8)>,
}

impl<'a, F: Family, V> Iterator for Children<'a, F, V> {
    type Item = (F::Net, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, len, value) = self.steps.next()?;
            let inside = |(last, of): (F::Key, u8)| key.first(u32::from(of)) == last;
            if len > self.of && !self.last.is_some_and(inside) {
                self.last = Some((key, len));
                return Some((F::net_of(key, len), value));
            }
        }
    }
}
