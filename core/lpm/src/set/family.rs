//! Sets of addresses of one family.

use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::RangeInclusive;

use crate::family::{Family, Key};

/// A set of addresses of one family: sorted ranges that do not touch each other.
/// [`IpSet`](super::IpSet) has both families, and describes the costs.
///
/// ```
/// use sapwood::lpm::Ipv4Set;
/// let set: Ipv4Set = ["10.0.0.0/9".parse()?, "10.128.0.0/9".parse()?].into_iter().collect();
/// assert_eq!(set.prefixes().map(|net| net.to_string()).collect::<Vec<_>>(), ["10.0.0.0/8"]);
/// assert_eq!(set.addresses(), 1 << 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AddrSet<F: Family> {
    /// First and last addresses, in order. Between two ranges lies another address.
    ranges: Vec<(F::Addr, F::Addr)>,
}

/// The number of the family's last address.
fn top<F: Family>() -> u128 {
    u128::MAX >> (128 - u32::from(F::WIDTH))
}

/// The first and the last address of a prefix.
fn bounds<F: Family>(net: F::Net) -> (F::Addr, F::Addr) {
    let (_, len) = F::parts(net);
    let hosts = top::<F>().checked_shr(len.into()).unwrap_or(0);
    let first = number::<F>(net) & !hosts;
    (F::addr_of(first), F::addr_of(first | hosts))
}

/// The number of a prefix's address, host bits included.
fn number<F: Family>(net: F::Net) -> u128 {
    F::parts(net).0.number(F::WIDTH)
}

/// The address right before, which exists.
fn before<F: Family>(addr: F::Addr) -> F::Addr {
    F::addr_of(F::number(addr) - 1)
}

/// The address right behind, unless this is the last one.
fn behind<F: Family>(addr: F::Addr) -> Option<F::Addr> {
    let number = F::number(addr);
    (number < top::<F>()).then(|| F::addr_of(number + 1))
}

/// Adds a range that does not begin before the last one of these.
fn push<F: Family>(ranges: &mut Vec<(F::Addr, F::Addr)>, first: F::Addr, last: F::Addr) {
    if let Some(end) = ranges.last_mut() {
        if behind::<F>(end.1).is_none_or(|behind| first <= behind) {
            end.1 = end.1.max(last);
            return;
        }
    }
    ranges.push((first, last));
}

impl<F: Family> AddrSet<F> {
    /// The empty set.
    ///
    /// O(1).
    pub const fn new() -> Self {
        AddrSet { ranges: Vec::new() }
    }

    /// All addresses of the family.
    ///
    /// O(1).
    pub fn all() -> Self {
        let all = (F::addr_of(0), F::addr_of(top::<F>()));
        AddrSet {
            ranges: alloc::vec![all],
        }
    }

    /// The set of these ranges, in any order. A range whose end is before its start is empty.
    ///
    /// O(n log n) for n ranges, O(n) when they are sorted.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use sapwood::lpm::Ipv4Set;
    /// let host = |last| Ipv4Addr::new(192, 0, 2, last);
    /// let set = Ipv4Set::from_ranges([host(8)..=host(11), host(0)..=host(7)]);
    /// assert_eq!(set.ranges().collect::<Vec<_>>(), [host(0)..=host(11)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_ranges(ranges: impl IntoIterator<Item = RangeInclusive<F::Addr>>) -> Self {
        let given = ranges.into_iter().filter(|range| !range.is_empty());
        Self::of(given.map(RangeInclusive::into_inner).collect())
    }

    /// The set of ranges that are not empty.
    fn of(mut given: Vec<(F::Addr, F::Addr)>) -> Self {
        given.sort_unstable();
        let mut ranges = Vec::with_capacity(given.len());
        for (first, last) in given {
            push::<F>(&mut ranges, first, last);
        }
        ranges.shrink_to_fit();
        AddrSet { ranges }
    }

    /// Whether there is no address.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of addresses. All of IPv6 is one more than the type holds, and counts as its
    /// greatest number.
    ///
    /// O(n) for n ranges.
    pub fn addresses(&self) -> u128 {
        let sizes = self.ranges.iter().map(|(first, last)| {
            let more = F::number(*last) - F::number(*first);
            more.saturating_add(1)
        });
        sizes.fold(0, u128::saturating_add)
    }

    /// The place of the first range that ends at an address or behind it.
    fn place(&self, addr: F::Addr) -> usize {
        self.ranges.partition_point(|(_, last)| *last < addr)
    }

    /// Whether the address is in the set.
    ///
    /// O(log n) of n ranges.
    pub fn contains(&self, addr: F::Addr) -> bool {
        let found = self.ranges.get(self.place(addr));
        found.is_some_and(|(first, _)| *first <= addr)
    }

    /// Whether all addresses of the prefix are in the set; bits after its length are taken as
    /// zeros.
    ///
    /// O(log n) of n ranges.
    pub fn covers(&self, net: F::Net) -> bool {
        let (first, last) = bounds::<F>(net);
        let found = self.ranges.get(self.place(first));
        found.is_some_and(|range| range.0 <= first && last <= range.1)
    }

    /// Whether an address of the prefix is in the set; bits after its length are taken as zeros.
    ///
    /// O(log n) of n ranges.
    pub fn overlaps(&self, net: F::Net) -> bool {
        let (first, last) = bounds::<F>(net);
        let found = self.ranges.get(self.place(first));
        found.is_some_and(|range| range.0 <= last)
    }

    /// Inserts all addresses of a prefix; bits after its length are taken as zeros.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn insert(&mut self, net: F::Net) {
        let (first, last) = bounds::<F>(net);
        self.put(first, last);
    }

    /// Inserts a range of addresses. A range whose end is before its start is empty.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn insert_range(&mut self, range: RangeInclusive<F::Addr>) {
        if !range.is_empty() {
            self.put(*range.start(), *range.end());
        }
    }

    fn put(&mut self, first: F::Addr, last: F::Addr) {
        // Those that it meets, or touches at an end.
        let from = match F::number(first) {
            0 => 0,
            _ => self.place(before::<F>(first)),
        };
        let end = behind::<F>(last);
        let meets = |range: &(F::Addr, F::Addr)| end.is_none_or(|end| range.0 <= end);
        let to = from + self.ranges[from..].partition_point(meets);
        let whole = match self.ranges[from..to] {
            [] => (first, last),
            [low, ..] => (first.min(low.0), last.max(self.ranges[to - 1].1)),
        };
        self.ranges.splice(from..to, [whole]);
    }

    /// Removes all addresses of a prefix; bits after its length are taken as zeros.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn remove(&mut self, net: F::Net) {
        let (first, last) = bounds::<F>(net);
        self.take(first, last);
    }

    /// Removes a range of addresses. A range whose end is before its start is empty.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn remove_range(&mut self, range: RangeInclusive<F::Addr>) {
        if !range.is_empty() {
            self.take(*range.start(), *range.end());
        }
    }

    fn take(&mut self, first: F::Addr, last: F::Addr) {
        let from = self.place(first);
        let to = from + self.ranges[from..].partition_point(|range| range.0 <= last);
        let (Some(low), Some(high)) = (
            self.ranges[from..to].first().copied(),
            self.ranges[from..to].last().copied(),
        ) else {
            return;
        };
        let left = (low.0 < first).then(|| (low.0, before::<F>(first)));
        let right = behind::<F>(last).filter(|rest| *rest <= high.1);
        let right = right.map(|rest| (rest, high.1));
        self.ranges.splice(from..to, left.into_iter().chain(right));
    }

    /// The addresses that are in either set.
    ///
    /// O(n + m) for n and m ranges.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + other.ranges.len());
        let (mut a, mut b) = (&self.ranges[..], &other.ranges[..]);
        loop {
            let next = match (a, b) {
                ([x, rest @ ..], [y, ..]) if x <= y => {
                    a = rest;
                    x
                }
                (_, [y, rest @ ..]) => {
                    b = rest;
                    y
                }
                ([x, rest @ ..], []) => {
                    a = rest;
                    x
                }
                ([], []) => return AddrSet { ranges },
            };
            push::<F>(&mut ranges, next.0, next.1);
        }
    }

    /// The addresses that are in both sets.
    ///
    /// O(n + m) for n and m ranges.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        self.meets(other, |first, last| {
            ranges.push((first, last));
            true
        });
        AddrSet { ranges }
    }

    /// Calls `each` with each range that both sets have, until it returns false.
    fn meets(&self, other: &Self, mut each: impl FnMut(F::Addr, F::Addr) -> bool) {
        let (mut a, mut b) = (&self.ranges[..], &other.ranges[..]);
        while let ([x, more_a @ ..], [y, more_b @ ..]) = (a, b) {
            let (first, last) = (x.0.max(y.0), x.1.min(y.1));
            if first <= last && !each(first, last) {
                return;
            }
            if x.1 < y.1 {
                a = more_a;
            } else {
                b = more_b;
            }
        }
    }

    /// The addresses of this set that are not in the other.
    ///
    /// O(n + m) for n and m ranges.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.intersection(&other.complement())
    }

    /// The addresses that are in one of the sets only.
    ///
    /// O(n + m) for n and m ranges.
    #[must_use]
    pub fn symmetric_difference(&self, other: &Self) -> Self {
        self.union(other).difference(&self.intersection(other))
    }

    /// The addresses of the family that are not in this set.
    ///
    /// O(n) for n ranges.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = Some(F::addr_of(0));
        for (first, last) in &self.ranges {
            if let Some(from) = next.filter(|from| from < first) {
                ranges.push((from, before::<F>(*first)));
            }
            next = behind::<F>(*last);
        }
        ranges.extend(next.map(|from| (from, F::addr_of(top::<F>()))));
        AddrSet { ranges }
    }

    /// Whether the sets have no address in common.
    ///
    /// O(n + m) for n and m ranges.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let mut disjoint = true;
        self.meets(other, |_, _| {
            disjoint = false;
            false
        });
        disjoint
    }

    /// Whether all addresses of this set are in the other one.
    ///
    /// O(n log m) for n and m ranges.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.ranges.iter().all(|(first, last)| {
            let found = other.ranges.get(other.place(*first));
            found.is_some_and(|range| range.0 <= *first && *last <= range.1)
        })
    }

    /// The longest prefix that covers all addresses of the set; `None` of the empty set.
    ///
    /// O(1).
    pub fn supernet(&self) -> Option<F::Net> {
        let (first, last) = (self.ranges.first()?.0, self.ranges.last()?.1);
        Some(common::<F>(F::number(first), F::number(last), F::WIDTH))
    }

    /// The ranges of addresses in order. Between two of them is at least one address that is not in
    /// the set.
    ///
    /// O(1) for each.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = RangeInclusive<F::Addr>> {
        self.ranges.iter().map(|(first, last)| *first..=*last)
    }

    /// The fewest prefixes with exactly these addresses, in order.
    ///
    /// O(1) for each.
    pub fn prefixes(&self) -> Prefixes<'_, F> {
        Prefixes {
            ranges: self.ranges.iter(),
            rest: None,
        }
    }
}

/// The prefix of the bits that two addresses have in common, of at most this many.
fn common<F: Family>(a: u128, b: u128, most: u8) -> F::Net {
    let differ = a ^ b;
    let same = (differ.leading_zeros() - (128 - u32::from(F::WIDTH))) as u8;
    F::net_of(F::key(F::addr_of(a)), same.min(most))
}

/// The longest prefix that covers all of these; `None` when there are none. Bits after their
/// lengths are taken as zeros.
///
/// O(1) for each.
///
/// ```
/// use sapwood::lpm::{V4, supernet};
/// let of = supernet::<V4>(["10.1.0.0/16".parse()?, "10.2.3.0/24".parse()?]);
/// assert_eq!(of, Some("10.0.0.0/14".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn supernet<F: Family>(nets: impl IntoIterator<Item = F::Net>) -> Option<F::Net> {
    let mut nets = nets.into_iter();
    let first = nets.next()?;
    let first = F::net_of(F::parts(first).0, F::parts(first).1);
    Some(nets.fold(first, |all, net| {
        let most = F::parts(all).1.min(F::parts(net).1);
        common::<F>(number::<F>(all), number::<F>(net), most)
    }))
}

/// The fewest prefixes of a set, in order; from [`AddrSet::prefixes`].
pub struct Prefixes<'a, F: Family> {
    ranges: core::slice::Iter<'a, (F::Addr, F::Addr)>,
    /// What is left of a range.
    rest: Option<(u128, u128)>,
}

impl<F: Family> Clone for Prefixes<'_, F> {
    fn clone(&self) -> Self {
        Prefixes {
            ranges: self.ranges.clone(),
            rest: self.rest,
        }
    }
}

impl<F: Family> Iterator for Prefixes<'_, F> {
    type Item = F::Net;

    fn next(&mut self) -> Option<F::Net> {
        let (first, last) = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let (first, last) = self.ranges.next()?;
                (F::number(*first), F::number(*last))
            }
        };
        // As many host bits as the first address has zeros at its end, and as fit.
        let fit = match (last - first).checked_add(1) {
            Some(count) => count.ilog2(),
            None => 128,
        };
        let host = first.trailing_zeros().min(fit).min(F::WIDTH.into());
        let end = first | u128::MAX.checked_shr(128 - host).unwrap_or(0);
        self.rest = (end < last).then(|| (end + 1, last));
        Some(F::net_of(F::key(F::addr_of(first)), F::WIDTH - host as u8))
    }
}

impl<F: Family> FusedIterator for Prefixes<'_, F> {}

impl<F: Family> fmt::Debug for Prefixes<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<F: Family> Default for AddrSet<F> {
    fn default() -> Self {
        AddrSet::new()
    }
}

impl<F: Family> FromIterator<F::Net> for AddrSet<F> {
    fn from_iter<I: IntoIterator<Item = F::Net>>(nets: I) -> Self {
        Self::of(nets.into_iter().map(bounds::<F>).collect())
    }
}

impl<F: Family> Extend<F::Net> for AddrSet<F> {
    /// Inserts all prefixes; bits after their lengths are taken as zeros.
    fn extend<I: IntoIterator<Item = F::Net>>(&mut self, nets: I) {
        *self = self.union(&nets.into_iter().collect());
    }
}

impl<F: Family> fmt::Debug for AddrSet<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.prefixes()).finish()
    }
}
