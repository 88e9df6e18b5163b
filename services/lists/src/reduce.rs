//! Rules that other rules make unnecessary.
//!
//! A rule is unnecessary if no question has another answer without it. There are two ways:
//!
//! 1. Another rule comes first wherever the rule applies. It has no conditions, and is for all its
//!    names: an exception above a blocked name, or an earlier zone that has the same name.
//! 2. The next rule in the order, among those that apply to any of its names, has no conditions, is
//!    for all its names, and does the same: a blocked name below another one, with nothing between.
//!
//! Whether a rule of the second kind is unnecessary depends on what is between it and the next one.
//! So it may be left out before all rules are known only if what comes later is looked at: a rule
//! that would do something else than its own next one may need those that were left out.

use std::cmp::Ordering;

use crate::rule::{Action, Class, Scope, Terms};
use crate::verdict::order;

/// A rule beside others, with the length of the key of its name.
pub type At<'t> = (usize, &'t Terms);

/// Whether the names of `a` have all names of `b`. The name of `a` is that of `b` or above it.
fn has_all(a: At<'_>, b: At<'_>) -> bool {
    match a.0 == b.0 {
        true => a.1.scope.includes(b.1.scope),
        false => a.1.scope != Scope::Exact,
    }
}

/// Whether `a` and `b` have a name in common.
fn meet(a: At<'_>, b: At<'_>) -> bool {
    let apart = [Scope::Exact, Scope::Below];
    match a.0 == b.0 {
        true => {
            a.1.scope == b.1.scope || !(apart.contains(&a.1.scope) && apart.contains(&b.1.scope))
        }
        false => a.1.scope != Scope::Exact,
    }
}

/// Whether `a` comes first wherever `b` applies.
pub fn precedes_all(a: At<'_>, b: At<'_>, tiers: &[u16]) -> bool {
    // An exception to rewriting takes a rewriting away, and what is behind it counts then.
    let has_rewrite = a.1.class == Class::Rewrite || b.1.class == Class::Rewrite;
    !has_rewrite
        && a.1.is_unconditional()
        && a.0 <= b.0
        && has_all(a, b)
        && order(a, b, tiers) == Ordering::Less
}

/// The next rule behind `b` in its class and tier, of those that have a name in common with it.
pub fn next<'t, T>(
    b: At<'_>,
    others: impl Iterator<Item = (At<'t>, T)>,
    tiers: &[u16],
) -> Option<(At<'t>, T)> {
    let tier = |terms: &Terms| tiers.get(usize::from(terms.list)).copied();
    others
        .filter(|(other, _)| {
            other.1.class == b.1.class
                && tier(other.1) == tier(b.1)
                && meet(*other, b)
                && order(b, *other, tiers) == Ordering::Less
        })
        .min_by(|(a, _), (b, _)| order(*a, *b, tiers))
}

/// Whether `next`, the next rule behind `b`, does the same for all its names.
pub fn replaces(next: At<'_>, b: At<'_>) -> bool {
    let is_simple = !b.1.action.gathers() && !matches!(b.1.action, Action::Name(_));
    is_simple
        && b.1.class != Class::Rewrite
        && next.1.is_unconditional()
        && next.1.action == b.1.action
        && has_all(next, b)
}

/// Leaves out what is unnecessary of the rules of a name, which are in their order. `above` has the
/// rules of names above it.
pub fn reduce(len: usize, rules: &mut Vec<Terms>, above: &[(usize, Vec<Terms>)], tiers: &[u16]) {
    for at in (0..rules.len()).rev() {
        let b = (len, &rules[at]);
        let beside = rules.iter().enumerate().filter(|(other, _)| *other != at);
        let beside = beside.map(|(_, terms)| (len, terms));
        let higher = above
            .iter()
            .flat_map(|(len, all)| all.iter().map(move |terms| (*len, terms)));
        let mut others = beside.clone().chain(higher.clone());
        let is_unnecessary = others.any(|a| precedes_all(a, b, tiers))
            || next(b, beside.chain(higher).map(|other| (other, ())), tiers)
                .is_some_and(|(next, ())| replaces(next, b));
        if is_unnecessary {
            rules.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{A, AAAA, Types};
    use crate::value;
    use crate::verdict::best;

    const NAMES: [&[u8]; 5] = [b"", b"x\0", b"x\0a\0", b"x\0a\0b\0", b"x\0c\0"];
    const ASKED: [&[u8]; 8] = [
        b"",
        b"y\0",
        b"x\0",
        b"x\0a\0",
        b"x\0z\0",
        b"x\0a\0b\0",
        b"x\0a\0b\0z\0",
        b"x\0c\0z\0",
    ];

    type Rules = Vec<(&'static [u8], Vec<Terms>)>;

    fn random_rules(random: &mut fastrand::Rng, tiers: &[u16]) -> Rules {
        NAMES
            .iter()
            .map(|name| {
                let mut rules: Vec<Terms> = Vec::new();
                for _ in 0..random.usize(..4) {
                    let action = match random.u8(..3) {
                        0 => Action::Pass,
                        1 => Action::Nxdomain,
                        _ => Action::Refused,
                    };
                    let list = random.u16(..tiers.len() as u16);
                    let mut terms = Terms::new(random.choice(Scope::ALL).unwrap(), action, list);
                    if random.u8(..3) == 0 {
                        terms.class = random.choice(Class::ALL).unwrap();
                    }
                    if random.u8(..6) == 0 {
                        terms.types = Some(Types {
                            others: random.bool(),
                            types: vec![AAAA],
                        });
                    }
                    if random.u8(..6) == 0 {
                        terms.except = vec![b"x\0a\0".to_vec()];
                    }
                    if !rules.iter().any(|other| other.is_same_place(&terms)) {
                        rules.push(terms);
                    }
                }
                rules.sort_by(|a, b| order((0, a), (0, b), tiers));
                (*name, rules)
            })
            .collect()
    }

    fn answers(rules: &Rules, tiers: &[u16]) -> Vec<Option<Action>> {
        let ask = |key: &&[u8]| {
            [A, AAAA].map(|rtype| {
                let above = rules.iter().filter(|(name, _)| key.starts_with(name));
                let above = above.map(|(name, terms)| (name.len(), terms.clone()));
                let found = best(key, rtype, tiers, above);
                found.map(|verdict| verdict.terms.action)
            })
        };
        ASKED.iter().flat_map(ask).collect()
    }

    fn reduced(rules: &Rules, tiers: &[u16]) -> Rules {
        let mut all: Rules = Vec::new();
        for (name, rules) in rules {
            let above: Vec<(usize, Vec<Terms>)> = all
                .iter()
                .filter(|(above, _)| name.starts_with(above) && above.len() < name.len())
                .map(|(above, rules)| (above.len(), rules.clone()))
                .collect();
            let mut rules = rules.clone();
            reduce(name.len(), &mut rules, &above, tiers);
            all.push((name, rules));
        }
        all
    }

    #[test]
    fn what_is_left_out_changes_no_answer_and_nothing_more_can_go() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut left_out = 0;
        for round in 0..6000 {
            let tiers = [&[0][..], &[0, 0], &[0, 1], &[0, 0, 1]][round % 4];
            let rules = random_rules(&mut random, tiers);
            let fewer = reduced(&rules, tiers);
            assert_eq!(
                answers(&rules, tiers),
                answers(&fewer, tiers),
                "{rules:?}\n{fewer:?}"
            );
            assert_eq!(reduced(&fewer, tiers), fewer, "a second time nothing goes");
            let count = |rules: &Rules| rules.iter().map(|(_, all)| all.len()).sum::<usize>();
            left_out += count(&rules) - count(&fewer);
        }
        assert!(left_out > 10_000, "{left_out}");
    }

    #[test]
    fn a_pass_between_two_blocks_keeps_the_longer_one() {
        let rule =
            |name: &'static [u8], action| (name, vec![Terms::new(Scope::WithBelow, action, 0)]);
        let block = |name| rule(name, Action::Nxdomain);
        let all = vec![
            block(b"x\0"),
            rule(b"x\0a\0", Action::Pass),
            block(b"x\0a\0b\0"),
        ];
        assert_eq!(reduced(&all, &[0]), all);
        let all = vec![block(b"x\0"), block(b"x\0a\0"), block(b"x\0a\0b\0")];
        let left: Vec<usize> = reduced(&all, &[0])
            .iter()
            .map(|(_, all)| all.len())
            .collect();
        assert_eq!(left, [1, 0, 0]);
        let value = |rules: &[Terms]| {
            let mut bytes = Vec::new();
            rules.iter().for_each(|terms| value::put(terms, &mut bytes));
            bytes
        };
        assert_eq!(value(&all[0].1), [0x20]);
    }
}
