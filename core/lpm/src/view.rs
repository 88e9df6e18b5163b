//! Views of a table, and the reading methods that tables, views and snapshots share.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use sapwood_qsbr::StaysOnItsThread;
use smallvec::SmallVec;

use super::family::{Family, Key};
use super::fib::{NextHop, truncated};
use super::raw::read::Published;
use super::raw::view::{Steps, View};

/// The reading methods of a type with a `view()`. `$life` is the lifetime of the references that
/// they return.
macro_rules! lookup_methods {
    ([$($fresh:lifetime)?] $life:lifetime [$($self:tt)+] $me:ident) => {
        /// The value of the longest prefix of an address. This is the quickest lookup, as it does
        /// not find the prefix itself.
        ///
        /// One word of the root, and one node for each six bits behind it that prefixes branch on:
        /// at most three nodes of IPv4, nineteen of IPv6 behind 18 bits.
        #[inline]
        pub fn lookup_value<$($fresh)?>($($self)+ $me, addr: F::Addr) -> Option<&$life V> {
            $me.view().value(F::key(addr))
        }

        /// The longest prefix of an address, and its value.
        ///
        /// As [`lookup_value`](Self::lookup_value).
        pub fn lookup<$($fresh)?>($($self)+ $me, addr: F::Addr) -> Option<(F::Net, &$life V)> {
            let key = F::key(addr);
            let (len, value) = $me.view().longest(key, F::WIDTH)?;
            Some((F::net_of(key, len), value))
        }

        /// [`lookup_value`](Self::lookup_value) of many addresses, whose waits for memory overlap.
        /// `values[i]` becomes the answer for `addrs[i]`. In full tables this is a quarter to a
        /// half quicker where lookups pass several nodes. Where the root or one node answers, it
        /// gains little and may lose a third (`docs/figures.md`).
        ///
        /// The sum of the lookups, of which many wait at once.
        ///
        /// # Panics
        /// When the two slices differ in length.
        #[inline]
        pub fn lookup_batch<$($fresh)?>($($self)+ $me, addrs: &[F::Addr], values: &mut [Option<&$life V>]) {
            assert_eq!(addrs.len(), values.len(), "a place for each answer");
            $me.view().values(addrs, F::key, values, |value| value);
        }

        /// As [`lookup_value`](Self::lookup_value), with `default` for an address that has no
        /// prefix: a packet path needs a next hop for such packets, too.
        #[inline]
        pub fn lookup_value_or<$($fresh)?>($($self)+ $me, addr: F::Addr, default: &$life V) -> &$life V {
            $me.view().value_or(F::key(addr), default)
        }

        /// As [`lookup_batch`](Self::lookup_batch), with `default` for addresses that have no
        /// prefix.
        ///
        /// # Panics
        /// When the two slices differ in length.
        #[inline]
        pub fn lookup_batch_or<$($fresh)?>($($self)+ $me, addrs: &[F::Addr], default: &$life V, values: &mut [&$life V]) {
            assert_eq!(addrs.len(), values.len(), "a place for each answer");
            $me.view().values(addrs, F::key, values, |value| value.unwrap_or(default));
        }

        /// The value of exactly this prefix; bits after its length are taken as zeros.
        ///
        /// One node for each six bits behind the root.
        pub fn get<$($fresh)?>($($self)+ $me, net: F::Net) -> Option<&$life V> {
            let (key, len) = truncated::<F>(net);
            $me.view().exact(key, len)
        }

        /// Whether this prefix is there.
        ///
        /// As [`get`](Self::get).
        pub fn contains(&self, net: F::Net) -> bool {
            self.get(net).is_some()
        }

        /// All prefixes of an address with their values, shortest first.
        ///
        /// As [`get`](Self::get), and one value for each match.
        pub fn matches<$($fresh)?>($($self)+ $me, addr: F::Addr) -> Matches<$life, F, V> {
            let key = F::key(addr);
            Matches {
                key,
                found: $me.view().matches(key, F::WIDTH).into_iter(),
            }
        }

        /// The longest prefix that covers this one, which may be this one itself, and its value;
        /// bits after the length are taken as zeros.
        ///
        /// As [`lookup_value`](Self::lookup_value).
        ///
        /// ```
        /// use sapwood::lpm::Ipv4Fib;
        /// let fib = Ipv4Fib::from_iter([("10.0.0.0/8".parse()?, 1), ("10.1.2.0/24".parse()?, 2)]);
        /// let snapshot = fib.snapshot();
        /// let (net, hop) = snapshot.lookup_net("10.1.0.0/16".parse()?).unwrap();
        /// assert_eq!((net.to_string().as_str(), *hop), ("10.0.0.0/8", 1));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn lookup_net<$($fresh)?>($($self)+ $me, net: F::Net) -> Option<(F::Net, &$life V)> {
            let (key, len) = truncated::<F>(net);
            let (len, value) = $me.view().longest(key, len)?;
            Some((F::net_of(key, len), value))
        }

        /// All prefixes that cover this one, which may be one of them, with their values, shortest
        /// first. It takes no memory from the heap for up to 8 of them.
        ///
        /// As [`matches`](Self::matches).
        ///
        /// ```
        /// use sapwood::lpm::Ipv4Fib;
        /// let fib = Ipv4Fib::from_iter([
        ///     ("0.0.0.0/0".parse()?, 0),
        ///     ("10.0.0.0/8".parse()?, 1),
        ///     ("10.1.0.0/16".parse()?, 2),
        ///     ("10.1.2.0/24".parse()?, 3),
        /// ]);
        /// let snapshot = fib.snapshot();
        /// let hops: Vec<_> = snapshot.covering("10.1.0.0/16".parse()?).map(|(_, hop)| *hop).collect();
        /// assert_eq!(hops, [0, 1, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn covering<$($fresh)?>($($self)+ $me, net: F::Net) -> Matches<$life, F, V> {
            let (key, len) = truncated::<F>(net);
            Matches {
                key,
                found: $me.view().matches(key, len).into_iter(),
            }
        }

        /// Whether a prefix covers this one or lies inside it.
        ///
        /// As [`lookup_value`](Self::lookup_value), and a look at the root words inside the prefix
        /// when nothing covers it.
        pub fn overlaps(&self, net: F::Net) -> bool {
            let (key, len) = truncated::<F>(net);
            let view = self.view();
            view.longest(key, len).is_some() || view.walk(F::WIDTH, key, len).next().is_some()
        }
    };
}
pub(super) use lookup_methods;

/// The prefixes of an address, shortest first.
pub struct Matches<'a, F: Family, V> {
    pub(super) key: F::Key,
    pub(super) found: smallvec::IntoIter<[(u8, &'a V); 8]>,
}

impl<'a, F: Family, V> Iterator for Matches<'a, F, V> {
    type Item = (F::Net, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (len, value) = self.found.next()?;
        Some((F::net_of(self.key, len), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.found.size_hint()
    }
}

impl<F: Family, V> DoubleEndedIterator for Matches<'_, F, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (len, value) = self.found.next_back()?;
        Some((F::net_of(self.key, len), value))
    }
}

impl<F: Family, V> ExactSizeIterator for Matches<'_, F, V> {}

impl<F: Family, V: fmt::Debug> fmt::Debug for Matches<'_, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: SmallVec<[&(u8, &V); 8]> = self.found.as_slice().iter().collect();
        f.debug_tuple("Matches").field(&found).finish()
    }
}

/// The table, read under a guard. It stays on its thread.
///
/// Each call sees the newest table. The result of a call is of one moment, except that of
/// [`matches`](Self::matches): its prefixes up to the root's bits are of one moment, and the longer
/// ones of another moment shortly before.
pub struct FibView<'g, F: Family, V: NextHop> {
    view: View<'g, V, Published<'g>>,
    len: &'g AtomicUsize,
    family: PhantomData<fn() -> F>,
    _local: StaysOnItsThread,
}

impl<F: Family, V: NextHop> Clone for FibView<'_, F, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Family, V: NextHop> Copy for FibView<'_, F, V> {}

impl<'g, F: Family, V: NextHop> FibView<'g, F, V> {
    #[inline]
    pub(crate) fn new(view: View<'g, V, Published<'g>>, len: &'g AtomicUsize) -> Self {
        FibView {
            view,
            len,
            family: PhantomData,
            _local: StaysOnItsThread::default(),
        }
    }

    #[inline(always)]
    fn view(&self) -> View<'g, V, Published<'g>> {
        self.view
    }

    /// What a reader needs that is written from `sapwood_format::lpm`.
    #[doc(hidden)]
    pub fn parts(&self) -> FibParts {
        self.view.parts()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether there are no prefixes.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    lookup_methods!([] 'g [&] self);

    /// The prefix itself, if it is there, and all prefixes inside it, in order, without a snapshot.
    /// Each root word is read when the walk comes there: of what is inside one word, the walk sees
    /// one moment. A prefix that stays is found once; one that others insert or remove meanwhile
    /// may be found or not. [`FibSnapshot`](crate::FibSnapshot) walks over one version.
    ///
    /// As [`FibSnapshot::covered_by`](crate::FibSnapshot::covered_by).
    ///
    /// ```
    /// use sapwood::lpm::Ipv4Fib;
    /// let fib = Ipv4Fib::from_iter([("10.0.0.0/8".parse()?, 1), ("10.1.2.0/24".parse()?, 2)]);
    /// let inside = fib.read(|view| view.covered_by("10.1.0.0/16".parse().unwrap()).count());
    /// assert_eq!(inside, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn covered_by(&self, net: F::Net) -> ViewIter<'g, F, V> {
        let (key, len) = truncated::<F>(net);
        ViewIter {
            steps: self.view.walk(F::WIDTH, key, len),
            _local: StaysOnItsThread::default(),
        }
    }

    /// All prefixes in order, without a snapshot: as [`covered_by`](Self::covered_by).
    ///
    /// O(size of the root + prefixes) for the whole walk.
    pub fn iter(&self) -> ViewIter<'g, F, V> {
        self.iter_from(F::net_of(F::Key::ZERO, 0))
    }

    /// This prefix, if it is there, and all that come after it in order, without a snapshot: as
    /// [`covered_by`](Self::covered_by).
    ///
    /// As [`FibSnapshot::iter_from`](crate::FibSnapshot::iter_from).
    pub fn iter_from(&self, net: F::Net) -> ViewIter<'g, F, V> {
        let (key, len) = truncated::<F>(net);
        ViewIter {
            steps: self.view.walk_from(F::WIDTH, key, len),
            _local: StaysOnItsThread::default(),
        }
    }
}

impl<'g, F: Family, V: NextHop> IntoIterator for FibView<'g, F, V> {
    type Item = (F::Net, &'g V);
    type IntoIter = ViewIter<'g, F, V>;

    fn into_iter(self) -> ViewIter<'g, F, V> {
        self.iter()
    }
}

/// Prefixes of a table that may change meanwhile, in the order of their addresses, shorter ones
/// first. It stays on its thread, as its [`FibView`] does.
pub struct ViewIter<'g, F: Family, V> {
    steps: Steps<'g, F::Key, V, Published<'g>>,
    _local: StaysOnItsThread,
}

impl<'g, F: Family, V> Iterator for ViewIter<'g, F, V> {
    type Item = (F::Net, &'g V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, len, value) = self.steps.next()?;
        Some((F::net_of(key, len), value))
    }
}

/// Where the memory of a table is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct FibParts {
    /// The root words.
    pub root: *const u64,
    /// What references count from.
    pub memory: *const u8,
    /// The bits of an address that the root resolves.
    pub root_bits: u32,
    /// Whether the processor counts bits in one instruction.
    pub counts_bits: bool,
}

impl<F: Family, V: NextHop> fmt::Debug for FibView<'_, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FibView")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
