//! Which rule answers a question: the order of the rules, in one place.
//!
//! `docs/lists.md` has the order as a table.

use std::cmp::Ordering;

use sapwood::qp::OrderedRead;

use crate::meta::Meta;
use crate::rule::{Action, Class, Terms, rule_name};
use crate::value::{self, NotRules};

/// The order of two rules that apply to a question, each with the length of its name's key. The
/// lesser one wins. `tiers` has the tier of each list.
///
/// This is the whole precedence, apart from exceptions to rewriting. A map of rules never asks for
/// the number of a line: of the rules of one list that are alike, it has only the first.
pub(crate) fn order(a: (usize, &Terms), b: (usize, &Terms), tiers: &[u16]) -> Ordering {
    let tier = |terms: &Terms| tiers.get(usize::from(terms.list)).copied();
    let rank = |(len, terms): (usize, &Terms)| {
        (
            terms.class,
            tier(terms),
            std::cmp::Reverse(len),
            terms.list,
            terms.scope,
            terms.types.is_none(),
            terms.except.is_empty(),
        )
    };
    rank(a).cmp(&rank(b)).then_with(|| {
        // Any order of rules that nothing else tells apart, which is the same in all maps.
        rest(a.1).cmp(&rest(b.1))
    })
}

/// The types of a rule, and the names that it is not for.
type Rest<'t> = (Option<(bool, &'t [u16])>, &'t [Vec<u8>]);

fn rest(terms: &Terms) -> Rest<'_> {
    let types = terms.types.as_ref().map(|t| (t.others, &t.types[..]));
    (types, &terms.except)
}

/// Why a rule wins over the next one that applies, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No other rule applies.
    Only,
    /// Its class comes first: see [`Class`].
    Class,
    /// Its list is an earlier zone of response policies.
    Zone,
    /// Its name is longer.
    Longer,
    /// It is the first list that has a rule for the name.
    List,
    /// It is for the name alone, or for the names below alone, and the other rule of this name is
    /// for more names.
    Scope,
    /// It is for some types or has exceptions, and the other rule has none.
    Condition,
}

impl Reason {
    /// The words for it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Reason;
    ///
    /// assert_eq!(Reason::Longer.words(), "the longer name");
    /// ```
    pub fn words(self) -> &'static str {
        match self {
            Reason::Only => "the only rule",
            Reason::Class => "the class comes first",
            Reason::Zone => "the earlier zone",
            Reason::Longer => "the longer name",
            Reason::List => "the first list",
            Reason::Scope => "the closer scope",
            Reason::Condition => "the closer condition",
        }
    }

    fn of(winner: (usize, &Terms), other: Option<(usize, &Terms)>, tiers: &[u16]) -> Self {
        let Some(other) = other else {
            return Reason::Only;
        };
        let ((len, terms), (other_len, other)) = (winner, other);
        let tier = |terms: &Terms| tiers.get(usize::from(terms.list)).copied();
        if terms.class != other.class {
            Reason::Class
        } else if tier(terms) != tier(other) {
            Reason::Zone
        } else if len != other_len {
            Reason::Longer
        } else if terms.list != other.list {
            Reason::List
        } else if terms.scope != other.scope {
            Reason::Scope
        } else {
            Reason::Condition
        }
    }
}

/// The rule that answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The key of the rule's name: that of the question, or one above it.
    pub key: Vec<u8>,
    /// What the rule says.
    pub terms: Terms,
    /// Why it won.
    pub why: Reason,
    /// How many other rules apply.
    pub others: usize,
}

impl Verdict {
    /// The text of the rule's name: with `*.` in front if it is for names below alone.
    ///
    /// O(length of the name).
    ///
    /// ```
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// let list = Source::text("a", "*.ads.example\n");
    /// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
    /// let verdict = map.verdict("x.ads.example".as_ref(), 1)?.expect("it is below");
    /// assert_eq!(verdict.name(), "*.ads.example");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> String {
        rule_name(&self.key, self.terms.scope)
    }
}

/// The rule that wins, of all rules of the names at and above that of a question.
pub(crate) fn best(
    key: &[u8],
    rtype: u16,
    tiers: &[u16],
    above: impl Iterator<Item = (usize, Vec<Terms>)>,
) -> Option<Verdict> {
    let mut all: Vec<(usize, Terms)> = Vec::new();
    for (len, terms) in above {
        let at = &key[..len];
        let apply = terms
            .into_iter()
            .filter(|terms| terms.apply(at, key, rtype));
        all.extend(apply.map(|terms| (len, terms)));
    }
    let is_excepted = |terms: &Terms| terms.class == Class::Rewrite;
    if all
        .iter()
        .any(|(_, terms)| is_excepted(terms) && terms.action == Action::Pass)
    {
        all.retain(|(_, terms)| !is_excepted(terms));
    }
    all.sort_by(|(a_len, a), (b_len, b)| order((*a_len, a), (*b_len, b), tiers));
    let lend = |(len, terms): &(usize, Terms)| -> (usize, Terms) { (*len, terms.clone()) };
    let second = all.get(1).map(lend);
    let others = all.len().saturating_sub(1);
    let (len, terms) = all.into_iter().next()?;
    let second = second.as_ref().map(|(len, terms)| (*len, terms));
    let why = Reason::of((len, &terms), second, tiers);
    Some(Verdict {
        key: key[..len].to_vec(),
        terms,
        why,
        others,
    })
}

/// The rule of a map that answers a question; `None` if none applies.
///
/// The map is of any kind that has the values of a [`ListMap`](crate::ListMap): a file, a live map,
/// a snapshot. `meta` is what [`Meta::of`] reads from the same map.
///
/// O(length of the key + rules of the names at and above it).
///
/// ```
/// use sapwood_lists::{Action, Loader, Meta, Options, Source, verdict};
///
/// let list = Source::text("a", "||ads.example^\n@@||good.ads.example^\n");
/// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
/// let meta = Meta::of(map.entries())?;
/// let key = sapwood::key::dns_name("www.good.ads.example")?;
/// let found = verdict(map.entries(), &meta, &key, 1)?.expect("two rules apply");
/// assert_eq!((found.terms.action, found.others), (Action::Pass, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotRules`]: the map has another kind of values.
pub fn verdict(
    map: &dyn OrderedRead<[u8]>,
    meta: &Meta,
    key: &[u8],
    rtype: u16,
) -> Result<Option<Verdict>, NotRules> {
    let found = map.ancestors(key).into_iter();
    let above = found
        .map(|(at, value)| Ok((at.len(), value::terms(value)?)))
        .collect::<Result<Vec<_>, NotRules>>()?;
    Ok(best(key, rtype, meta.tiers(), above.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{A, Scope};

    fn terms(scope: Scope, action: Action, class: Class, list: u16) -> Terms {
        Terms {
            class,
            ..Terms::new(scope, action, list)
        }
    }

    fn asked(rules: &[(&str, Terms)], name: &str, tiers: &[u16]) -> Option<(Action, Reason)> {
        let key = sapwood::key::dns_name(name).unwrap();
        let above = rules.iter().filter_map(|(name, terms)| {
            let at = sapwood::key::dns_name(name).unwrap();
            key.starts_with(&at)
                .then(|| (at.len(), vec![terms.clone()]))
        });
        let above: Vec<_> = above.collect();
        let found = best(&key, A, tiers, above.into_iter())?;
        Some((found.terms.action, found.why))
    }

    #[test]
    fn rules_win_in_the_order_of_the_documents() {
        use {Action::*, Class::*, Scope::*};
        let block = |class, list| terms(WithBelow, Nxdomain, class, list);
        let pass = |class, list| terms(WithBelow, Pass, class, list);
        let one = &[0, 0][..];
        for (rules, tiers, expected) in [
            (vec![], one, None),
            (
                vec![("x", block(Ordinary, 0))],
                one,
                Some((Nxdomain, Reason::Only)),
            ),
            // A short exception before a long block, and before one of an earlier list.
            (
                vec![("a.b.x", block(Ordinary, 0)), ("x", pass(Exception, 1))],
                one,
                Some((Pass, Reason::Class)),
            ),
            (
                vec![("x", block(Important, 0)), ("a.b.x", pass(Exception, 0))],
                one,
                Some((Nxdomain, Reason::Class)),
            ),
            (
                vec![
                    ("x", block(Important, 0)),
                    ("x", pass(ImportantException, 0)),
                ],
                one,
                Some((Pass, Reason::Class)),
            ),
            (
                vec![
                    ("x", pass(ImportantException, 0)),
                    ("x", terms(Exact, Null, Rewrite, 0)),
                ],
                one,
                Some((Pass, Reason::Only)),
            ),
            (
                vec![
                    ("x", pass(Exception, 0)),
                    ("x", terms(WithBelow, Null, Rewrite, 0)),
                ],
                one,
                Some((Null, Reason::Class)),
            ),
            (
                vec![
                    ("x", terms(WithBelow, Null, Rewrite, 0)),
                    ("b.x", pass(Rewrite, 0)),
                    ("x", block(Ordinary, 0)),
                ],
                one,
                Some((Nxdomain, Reason::Only)),
            ),
            (
                vec![("x", block(Ordinary, 0)), ("b.x", pass(Ordinary, 1))],
                one,
                Some((Pass, Reason::Longer)),
            ),
            // The same in two zones of response policies.
            (
                vec![("x", block(Ordinary, 0)), ("b.x", pass(Ordinary, 1))],
                &[0, 1],
                Some((Nxdomain, Reason::Zone)),
            ),
            (
                vec![("b.x", block(Ordinary, 1)), ("b.x", pass(Ordinary, 0))],
                one,
                Some((Pass, Reason::List)),
            ),
            (
                vec![
                    ("b.x", block(Ordinary, 0)),
                    ("b.x", terms(Below, Pass, Ordinary, 0)),
                ],
                one,
                Some((Pass, Reason::Scope)),
            ),
        ] {
            assert_eq!(asked(&rules, "a.b.x", tiers), expected, "{rules:?}");
        }
        let both = [
            ("x", block(Ordinary, 0)),
            ("x", terms(Exact, Pass, Ordinary, 0)),
        ];
        assert_eq!(asked(&both, "x", one), Some((Pass, Reason::Scope)));
        assert_eq!(asked(&both, "a.x", one), Some((Nxdomain, Reason::Only)));
    }
}
