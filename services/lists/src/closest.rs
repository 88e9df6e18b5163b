//! The rules for readers that know only names: one entry decides about a name.

use sapwood::qp::OrderedRead;

use crate::meta::{META_KEY, Meta};
use crate::rule::{Action, Class, Terms};
use crate::value::{self, NotRules};
use crate::verdict::order;

/// What a reader that answers nothing by itself does with questions for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No question gets through: the answer is NXDOMAIN, NODATA or REFUSED, or there is none.
    Block,
    /// The answer over UDP is truncated. Over TCP the resolver decides.
    Truncate,
    /// The resolver decides: no rule applies, one passes, or one needs an answer, or looks at types
    /// or at other names.
    Pass,
}

/// An entry that decides about its name and all names below it that have no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosestEntry {
    /// The key of the name.
    pub key: Vec<u8>,
    /// What happens to questions for the name.
    pub itself: Fate,
    /// What happens to questions for names below it, of which this is the closest entry.
    pub below: Fate,
    /// What would happen to questions for these names without the entry.
    pub above: Fate,
}

/// The rules of a map as entries of which the closest one decides: the one at the name of the
/// question, or else at the longest name above. What rows of the order of rules are before the
/// length, such as exceptions, is in the entries already. Where no entry is, questions pass.
///
/// This is for filters in front of a resolver, such as programs in the kernel. A question that an
/// entry blocks or truncates is one that [`verdict`](crate::verdict) blocks or truncates, whatever
/// its type. A question that verdict blocks passes only if a rule with conditions may precede.
///
/// Entries ascend by their keys. O(entries of the map, each with the rules above it); it takes
/// memory for the entries that it returns.
///
/// ```
/// use sapwood_lists::{Fate, Loader, Options, Source, closest_entries};
///
/// let list = Source::text("a", "||ads.example^\n@@||example^\n||shop.example^$important\n");
/// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
/// let entries = closest_entries(map.entries(), map.meta())?;
/// assert_eq!((entries.len(), entries[0].itself), (1, Fate::Block));
/// assert_eq!(entries[0].key, b"example\0shop\0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotRules`]: the map has another kind of values.
pub fn closest_entries(
    map: &dyn OrderedRead<[u8]>,
    meta: &Meta,
) -> Result<Vec<ClosestEntry>, NotRules> {
    let mut entries: Vec<ClosestEntry> = Vec::new();
    // The names at and above the present one: the key, its rules, and what is below it.
    let mut above: Vec<(Vec<u8>, Vec<Terms>, Fate)> = Vec::new();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for (key, value) in map.range(all) {
        let key = key.to_vec();
        if key == META_KEY {
            continue;
        }
        while above.last().is_some_and(|(at, ..)| !key.starts_with(at)) {
            above.pop();
        }
        let inherited = above.last().map_or(Fate::Pass, |(.., below)| *below);
        above.push((key.clone(), value::terms(value)?, inherited));
        let of = |is_itself: bool| {
            let rules = above.iter().flat_map(|(at, terms, _)| {
                let is_at = is_itself && at.len() == key.len();
                let has = terms.iter().filter(move |terms| terms.scope.has(is_at));
                has.map(|terms| (at.len(), terms))
            });
            fate(rules.collect(), meta.tiers())
        };
        let (itself, below) = (of(true), of(false));
        if let Some((.., last)) = above.last_mut() {
            *last = below;
        }
        if (itself, below) != (inherited, inherited) {
            entries.push(ClosestEntry {
                key,
                itself,
                below,
                above: inherited,
            });
        }
    }
    Ok(entries)
}

/// What the first of these rules does, which all have the question's name.
fn fate(mut rules: Vec<(usize, &Terms)>, tiers: &[u16]) -> Fate {
    let is_excepted = |(_, terms): &(usize, &Terms)| {
        terms.class == Class::Rewrite && terms.action == Action::Pass && terms.is_unconditional()
    };
    if rules.iter().any(is_excepted) {
        rules.retain(|(_, terms)| terms.class != Class::Rewrite);
    }
    let excepts = |(_, terms): &(usize, &Terms)| {
        terms.class == Class::Rewrite && terms.action == Action::Pass
    };
    if rules.iter().any(excepts) {
        return Fate::Pass;
    }
    let first = rules.into_iter().min_by(|a, b| order(*a, *b, tiers));
    match first {
        Some((_, terms)) if terms.is_unconditional() => match terms.action {
            Action::Nxdomain | Action::Nodata | Action::Refused | Action::Drop => Fate::Block,
            Action::Truncate => Fate::Truncate,
            _ => Fate::Pass,
        },
        _ => Fate::Pass,
    }
}
