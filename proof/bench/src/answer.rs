//! What maps answer when they are asked for the closest encloser of a DNS name.
//!
//! Names are keys whose labels each end with [`SEPARATOR`], as `sapwood::key::dns_name` makes them.

use sapwood::qp::{Closest, ReadEntry};

use crate::keylist::KeyList;

/// What each label of a name ends with.
pub const SEPARATOR: u8 = 0;

/// Whether an entry is a delegation point: one in eight is.
#[inline]
pub fn is_cut(_name: &[u8], value: &u64) -> bool {
    value & 7 == 0
}

/// The answer for one name, as values of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What lookups of the names at and above the name tell.
    pub above: Above,
    /// What takes a map that keeps the order of the keys.
    pub order: Order,
}

/// The entries at and above a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Above {
    /// The name's own.
    pub exact: Option<u64>,
    /// The longest name's.
    pub ancestor: Option<u64>,
    /// That of the shortest name that is a cut.
    pub cut: Option<u64>,
}

/// What depends on the entries beside a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Whether there is an entry at or below the name.
    pub exists: bool,
    /// The bytes of the closest encloser.
    pub encloser: usize,
    /// The entry of the wildcard below it.
    pub wildcard: Option<u64>,
    /// The entry before the name.
    pub predecessor: Option<u64>,
}

impl Answer {
    /// The answer of one of our maps.
    #[inline]
    pub fn of(found: &Closest<'_, u64>) -> Self {
        let value = |entry: &Option<ReadEntry<'_, u64>>| entry.as_ref().map(|(_, value)| **value);
        Self {
            above: Above {
                exact: value(&found.exact),
                ancestor: value(&found.ancestor),
                cut: value(&found.cut),
            },
            order: Order {
                exists: found.exists,
                encloser: found.encloser,
                wildcard: value(&found.wildcard),
                predecessor: value(&found.predecessor),
            },
        }
    }

    /// The answer of a map that has lookups, and the entries before a name and from it on.
    #[inline]
    pub fn in_order<'a>(
        name: &[u8],
        before: Option<(&'a [u8], u64)>,
        from: Option<(&'a [u8], u64)>,
        get: impl Fn(&[u8]) -> Option<u64>,
    ) -> Self {
        let agrees = |entry: Option<(&[u8], u64)>| {
            entry.map_or(0, |(key, _)| {
                name.iter().zip(key).take_while(|(a, b)| a == b).count()
            })
        };
        let behind = agrees(from);
        let exists = from.is_some() && behind == name.len();
        let most = behind.max(agrees(before));
        let ends = ends(name).take_while(|end| *end <= most);
        let encloser = if exists {
            name.len()
        } else {
            ends.clone().last().unwrap_or(0)
        };
        let mut wildcard = None;
        if !exists {
            wildcard = get(&[&name[..encloser], b"*", &[SEPARATOR]].concat());
        }
        Self {
            above: Above::new(name, ends, get),
            order: Order {
                exists,
                encloser,
                wildcard,
                predecessor: before.map(|(_, value)| value),
            },
        }
    }
}

impl Above {
    /// Looks up all names that end where one of the labels does.
    #[inline]
    pub fn new(
        name: &[u8],
        ends: impl Iterator<Item = usize>,
        get: impl Fn(&[u8]) -> Option<u64>,
    ) -> Self {
        let mut above = Self::default();
        for end in ends {
            let found = get(&name[..end]);
            above.ancestor = found.or(above.ancestor);
            above.cut = above.cut.or(found.filter(|value| is_cut(name, value)));
            above.exact = found.filter(|_| end == name.len());
        }
        above
    }
}

/// Where the labels of a name end: the lengths of the names above it, and its own. Not the root,
/// which has no entry in the lists of the suite.
#[inline]
pub fn ends(name: &[u8]) -> impl Iterator<Item = usize> + Clone {
    (1..=name.len()).filter(|end| name[end - 1] == SEPARATOR)
}

/// The answers for a list of names, such that answers in another order show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerSum {
    above: u64,
    /// `None`: the map does not keep the order.
    order: Option<u64>,
}

/// Takes some words in, in their order.
#[inline]
fn fold(sum: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .fold(sum, |sum, word| sum.rotate_left(5) ^ word)
}

/// No entry; values that look random are another.
#[inline]
fn word(value: Option<u64>) -> u64 {
    value.unwrap_or(1)
}

impl Above {
    #[inline]
    fn words(self) -> [u64; 3] {
        [self.exact, self.ancestor, self.cut].map(word)
    }
}

impl AnswerSum {
    /// Asks a map for all names.
    #[inline]
    pub fn of(names: &KeyList, answer: impl Fn(&[u8]) -> Answer) -> Self {
        let (mut above, mut order) = (0, 0);
        for (name, _) in names.iter() {
            let answer = answer(name);
            above = fold(above, answer.above.words());
            let Order {
                exists,
                encloser,
                wildcard,
                predecessor,
            } = answer.order;
            let flags = (encloser as u64) << 1 | u64::from(exists);
            order = fold(order, [flags, word(wildcard), word(predecessor)]);
        }
        Self {
            above,
            order: Some(order),
        }
    }

    /// Asks a map that does not keep the order for the entries at and above all names.
    #[inline]
    pub fn of_above(names: &KeyList, get: impl Fn(&[u8]) -> Option<u64>) -> Self {
        let mut above = 0;
        for (name, _) in names.iter() {
            above = fold(above, Above::new(name, ends(name), &get).words());
        }
        Self { above, order: None }
    }

    /// Whether these are the answers, as far as the map gives them.
    pub fn agrees_with(self, all: Self) -> bool {
        self.above == all.above && (self.order.is_none() || self.order == all.order)
    }
}

/// The answers that a list in the order of its keys gives.
pub fn of_list(sorted: &KeyList, name: &[u8]) -> Answer {
    let place = sorted.lower_bound(name);
    let entry = |place: usize| (sorted.key(place), sorted.value(place));
    let before = place.checked_sub(1).map(entry);
    let from = (place < sorted.len()).then(|| entry(place));
    Answer::in_order(name, before, from, |key| {
        sorted.place_of(key).map(|place| sorted.value(place))
    })
}

#[cfg(test)]
mod tests {
    use sapwood_model::oracle::ByteMap;

    use super::*;

    #[test]
    fn a_list_answers_as_the_definitions_do() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut wildcards = 0;
        for _ in 0..100 {
            let mut name = |least: usize| {
                let mut name = Vec::new();
                for _ in 0..rng.usize(least..=4) {
                    name.extend([b"ab*"[rng.usize(..3)], SEPARATOR]);
                }
                name
            };
            let mut model = ByteMap::new();
            for value in 0..12u64 {
                model.insert(&name(1), value);
            }
            let list = KeyList::new(model.iter().map(|(key, value)| (key, *value)));
            for name in (0..20).map(|_| name(0)) {
                let wanted = model.closest(&name, SEPARATOR, |value| is_cut(&name, value));
                let value = |key: Option<&[u8]>| key.and_then(|key| model.get(key)).copied();
                wildcards += usize::from(wanted.wildcard.is_some());
                let wanted = Answer {
                    above: Above {
                        exact: value(wanted.exact),
                        ancestor: value(wanted.ancestor),
                        cut: value(wanted.cut),
                    },
                    order: Order {
                        exists: wanted.exists,
                        encloser: wanted.encloser,
                        wildcard: value(wanted.wildcard),
                        predecessor: value(wanted.predecessor),
                    },
                };
                assert_eq!(of_list(&list, &name), wanted, "{}", name.escape_ascii());
            }
        }
        assert!(wildcards > 0);
    }
}
