//! Aggregation: the fewest prefixes that answer as a table does, after Draves, King, Venkatachary
//! and Zill, "Constructing Optimal IP Routing Tables" (INFOCOM 1999).
//!
//! Going up from the longest prefixes, each place of the tree gets the set of values that it may
//! inherit without a prefix of its own more than it needs: what the sets of its two halves share,
//! or, when they share nothing, what either has. Going down, a place whose set has the value that
//! it inherits needs no prefix; another one gets a prefix with a value of its set.
//!
//! A table cannot say "no route" below a prefix. So a place with addresses that have no route gets
//! no prefix, and each of its halves is decided by itself.
//!
//! Only places where a prefix ends or two paths part are nodes. Between a node and the one above,
//! each place has a half that holds nothing of its own: it has the value `h` of the prefix above.
//! Of such places only the lowest can have another set than `{h}`.

use alloc::vec::Vec;
use core::hash::Hash;

use hashbrown::HashMap;
use ipnet::IpNet;

use super::both::IpSnapshot;
use super::family::{Family, Key, V4, V6};
use super::fib::{NextHop, truncated};
use super::snapshot::FibSnapshot;
use crate::seed;

/// The fewest prefixes that give each address the same value as these do: each family by itself, in
/// order, IPv4 first. An address without a prefix stays without one. Bits after a prefix's length
/// are taken as zeros; of equal prefixes, the last one counts.
///
/// O(n log n) for n prefixes, and for each place where two paths part the number of different
/// values that could stand there.
///
/// ```
/// use sapwood::lpm::aggregate;
/// let all = aggregate([
///     ("10.0.0.0/9".parse()?, "core"),
///     ("10.128.0.0/9".parse()?, "core"),
///     ("10.1.0.0/16".parse()?, "core"),
///     ("10.2.0.0/16".parse()?, "lab"),
/// ]);
/// let all: Vec<_> = all.iter().map(|(net, hop)| format!("{net} {hop}")).collect();
/// assert_eq!(all, ["10.0.0.0/8 core", "10.2.0.0/16 lab"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn aggregate<V: Clone + Eq + Hash>(
    prefixes: impl IntoIterator<Item = (IpNet, V)>,
) -> Vec<(IpNet, V)> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (net, value) in prefixes {
        match net {
            IpNet::V4(net) => v4.push((truncated::<V4>(net), value)),
            IpNet::V6(net) => v6.push((truncated::<V6>(net), value)),
        }
    }
    let v4 = family::<V4, V>(v4).into_iter();
    let v6 = family::<V6, V>(v6).into_iter();
    let v4 = v4.map(|(net, value)| (net.into(), value));
    v4.chain(v6.map(|(net, value)| (net.into(), value)))
        .collect()
}

impl<F: Family, V: NextHop> FibSnapshot<F, V> {
    /// The fewest prefixes that answer as this version does, in order, with their values: for each
    /// address the same value, and none where this has none. [`aggregate`] describes the method.
    ///
    /// O(n log n), as [`aggregate`].
    ///
    /// ```
    /// use sapwood::lpm::Ipv4Fib;
    /// let fib = Ipv4Fib::from_iter([
    ///     ("10.0.0.0/9".parse()?, 1),
    ///     ("10.128.0.0/9".parse()?, 1),
    ///     ("10.1.0.0/16".parse()?, 2),
    /// ]);
    /// let snapshot = fib.snapshot();
    /// let fewest = Ipv4Fib::from_iter(snapshot.aggregated().into_iter().map(|(net, v)| (net, *v)));
    /// assert_eq!(fewest.len(), 2);
    /// assert_eq!(fewest.lookup([10, 200, 0, 1].into()), Some(("10.0.0.0/8".parse()?, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn aggregated(&self) -> Vec<(F::Net, &V)> {
        let all = self.iter().map(|(net, value)| (truncated::<F>(net), value));
        family::<F, &V>(all.collect())
    }
}

impl<V: NextHop> IpSnapshot<V> {
    /// The fewest prefixes that answer as this version does, IPv4 first.
    ///
    /// As [`FibSnapshot::aggregated`].
    pub fn aggregated(&self) -> Vec<(IpNet, &V)> {
        let v4 = self.v4().aggregated().into_iter();
        let v6 = self.v6().aggregated().into_iter();
        let v4 = v4.map(|(net, value)| (net.into(), value));
        v4.chain(v6.map(|(net, value)| (net.into(), value)))
            .collect()
    }
}

/// A value's number, in the order in which values come first. [`NO_ROUTE`] is none.
type Number = u32;
const NO_ROUTE: Number = u32::MAX;

/// No node: the half has the value that it inherits.
const NONE: u32 = u32::MAX;

/// A prefix without host bits: its bits and its length.
type At<F> = (<F as Family>::Key, u8);

/// The aggregated prefixes of one family.
fn family<F: Family, V: Clone + Eq + Hash>(mut all: Vec<(At<F>, V)>) -> Vec<(F::Net, V)> {
    // The sort is stable, so that of equal ones the last comes last.
    all.sort_by_key(|(at, _)| *at);
    let mut numbers: HashMap<V, Number, foldhash::fast::FixedState> =
        HashMap::with_hasher(foldhash::fast::FixedState::with_seed(seed::seed()));
    let mut values = Vec::new();
    let mut entries: Vec<(At<F>, Number)> = Vec::with_capacity(all.len());
    for (at, value) in all {
        let number = *numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            values.len() as Number - 1
        });
        match entries.last_mut() {
            Some(last) if last.0 == at => last.1 = number,
            _ => entries.push((at, number)),
        }
    }
    let mut tree = Tree::<F> {
        nodes: Vec::new(),
        sets: Vec::new(),
        found: Vec::new(),
    };
    if let Some(top) = tree.build(&entries, NO_ROUTE) {
        // All of the family's addresses are inherited from above: without a route.
        tree.edge((F::Key::ZERO, 0), top, NO_ROUTE, NO_ROUTE);
    }
    tree.found.sort_unstable();
    let found = tree.found.into_iter();
    found
        .map(|((key, len), number)| (F::net_of(key, len), values[number as usize].clone()))
        .collect()
}

/// A place where a prefix ends, or two paths part.
struct Node<F: Family> {
    at: At<F>,
    /// The value of the longest given prefix of this place.
    value: Number,
    /// The nodes in both halves.
    halves: [u32; 2],
    /// Its values in `sets`: none when an address inside has no route.
    set: Set,
}

/// Numbers in ascending order: those of a node as a range of `Tree::sets`, or one alone.
#[derive(Clone, Copy)]
enum Set {
    /// Addresses without a route are inside.
    Partial,
    One(Number),
    Many(usize, usize),
}

struct Tree<F: Family> {
    nodes: Vec<Node<F>>,
    sets: Vec<Number>,
    found: Vec<(At<F>, Number)>,
}

impl<F: Family> Tree<F> {
    /// The node above these entries, which are sorted. `inherited` is what the addresses among them
    /// have without them.
    fn build(&mut self, mut entries: &[(At<F>, Number)], inherited: Number) -> Option<u32> {
        let (&((first, len), number), &((last, _), _)) = (entries.first()?, entries.last()?);
        let depth = common::<F>(first, last).min(len);
        let mut value = inherited;
        if len == depth {
            value = number;
            entries = &entries[1..];
        }
        let one = |key: F::Key| key.skip(u32::from(depth)).top(1) == 1;
        let half = entries.partition_point(|((key, _), _)| !one(*key));
        let (low, high) = entries.split_at(half);
        let halves = [low, high].map(|entries| self.build(entries, value).unwrap_or(NONE));
        let set = if entries.is_empty() {
            one_of(value)
        } else {
            let [low, high] = halves.map(|half| self.seen(depth + 1, half, value));
            self.both(low, high)
        };
        self.nodes.push(Node {
            at: (first.first(u32::from(depth)), depth),
            value,
            halves,
            set,
        });
        Some(self.nodes.len() as u32 - 1)
    }

    /// The set of the place of this length in which the node is the only one. `value` is what the
    /// place has beside the node.
    fn seen(&mut self, len: u8, node: u32, value: Number) -> Set {
        if node == NONE {
            return one_of(value);
        }
        let Node { at, set, .. } = self.nodes[node as usize];
        match at.1 - len {
            0 => set,
            _ if value == NO_ROUTE || matches!(set, Set::Partial) => Set::Partial,
            1 => self.both(set, Set::One(value)),
            _ => Set::One(value),
        }
    }

    /// The set of a place whose halves have these.
    fn both(&mut self, a: Set, b: Set) -> Set {
        if let (Set::One(a), Set::One(b)) = (a, b) {
            if a == b {
                return Set::One(a);
            }
        }
        if matches!(a, Set::Partial) || matches!(b, Set::Partial) {
            return Set::Partial;
        }
        let start = self.sets.len();
        for i in 0..self.count(a) {
            let number = self.number(a, i);
            if self.has(b, number) {
                self.sets.push(number);
            }
        }
        if self.sets.len() == start {
            let (mut i, mut j) = (0, 0);
            let (left, right) = (self.count(a), self.count(b));
            while i < left || j < right {
                let next = match (i < left, j < right) {
                    (true, true) => self.number(a, i).min(self.number(b, j)),
                    (true, false) => self.number(a, i),
                    _ => self.number(b, j),
                };
                i += usize::from(i < left && self.number(a, i) == next);
                j += usize::from(j < right && self.number(b, j) == next);
                self.sets.push(next);
            }
        }
        match self.sets.len() - start {
            1 => {
                let one = self.sets[start];
                self.sets.truncate(start);
                Set::One(one)
            }
            _ => Set::Many(start, self.sets.len()),
        }
    }

    fn count(&self, set: Set) -> usize {
        match set {
            Set::Partial => 0,
            Set::One(_) => 1,
            Set::Many(start, end) => end - start,
        }
    }

    fn number(&self, set: Set, i: usize) -> Number {
        match set {
            Set::Partial => NO_ROUTE,
            Set::One(number) => number,
            Set::Many(start, _) => self.sets[start + i],
        }
    }

    fn has(&self, set: Set, number: Number) -> bool {
        match set {
            Set::Partial => false,
            Set::One(one) => one == number,
            Set::Many(start, end) => self.sets[start..end].binary_search(&number).is_ok(),
        }
    }

    /// Gives the place a prefix, unless its set has what it inherits. Returns what it has then.
    fn choose(&mut self, at: At<F>, set: Set, inherited: Number) -> Number {
        if matches!(set, Set::Partial) || self.has(set, inherited) {
            return inherited;
        }
        let number = self.number(set, 0);
        self.found.push((at, number));
        number
    }

    /// Decides for a place, `at`, in which the node is the only one. `value` is what the place has
    /// beside the node, and `inherited` what it gets from above.
    fn edge(&mut self, at: At<F>, node: u32, value: Number, inherited: Number) {
        let set = self.seen(at.1, node, value);
        let has = self.choose(at, set, inherited);
        if node == NONE {
            return;
        }
        let Node {
            at: (key, len),
            set,
            value: own,
            halves,
        } = self.nodes[node as usize];
        let mut has = has;
        if len > at.1 {
            // The places between have `{value}`, except the one above the node.
            if has != value && value != NO_ROUTE {
                let sibling = sibling::<F>((key, len));
                self.found.push((sibling, value));
            }
            has = self.choose((key, len), set, has);
        }
        for (half, node) in halves.into_iter().enumerate() {
            if len < F::WIDTH {
                let key = key.put(u32::from(len), 1, half);
                self.edge((key, len + 1), node, own, has);
            }
        }
    }
}

fn one_of(value: Number) -> Set {
    match value {
        NO_ROUTE => Set::Partial,
        number => Set::One(number),
    }
}

/// The number of first bits that both have.
fn common<F: Family>(a: F::Key, b: F::Key) -> u8 {
    let same = |len: &u8| a.first(u32::from(*len)) == b.first(u32::from(*len));
    // The first length that differs is behind the last one that does not.
    let (mut low, mut high) = (0, F::WIDTH);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if same(&middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The other half of the place above.
fn sibling<F: Family>((key, len): At<F>) -> At<F> {
    let above = u32::from(len) - 1;
    let last = key.skip(above).top(1);
    (key.first(above).put(above, 1, 1 - last), len)
}
