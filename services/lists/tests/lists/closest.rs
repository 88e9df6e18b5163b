//! Entries of which the closest one decides say what the rules say, as far as names tell.

use sapwood_lists::{
    Action, Fate, Format, Loader, Options, Source, closest_entries, rules_of, verdict,
};

use crate::oracle::{TYPES, random_list, random_name};

fn blocks(action: &Action) -> bool {
    use Action::{Drop, Nodata, Nxdomain, Refused};
    matches!(action, Nxdomain | Nodata | Refused | Drop)
}

#[test]
fn the_closest_entry_blocks_what_the_rules_block() {
    let mut random = fastrand::Rng::with_seed(4);
    let (mut blocked, mut passed, mut left, mut truncated) = (0, 0, 0, 0);
    for round in 0..300 {
        let source = |list| {
            let format = random.choice(Format::ALL).unwrap();
            let lines = random.usize(1..30);
            let (text, _) = random_list(&mut random, format, list, lines);
            Source::text(format!("list {list}"), text).format(format)
        };
        let sources = (0..3).map(source).collect();
        let options = Options {
            allow_empty: true,
            ..Options::default()
        };
        let (map, _) = Loader::new(sources, options).build().unwrap();
        let entries = closest_entries(map.entries(), map.meta()).unwrap();
        assert!(entries.is_sorted_by(|a, b| a.key < b.key));
        for entry in &entries {
            let above = entries
                .iter()
                .filter(|other| entry.key.starts_with(&other.key));
            let above = above.filter(|other| other.key.len() < entry.key.len());
            let above = above.max_by_key(|other| other.key.len());
            assert_eq!(entry.above, above.map_or(Fate::Pass, |other| other.below));
            assert!((entry.itself, entry.below) != (entry.above, entry.above));
        }
        for _ in 0..100 {
            let name = random_name(&mut random, 6).join(".");
            let key = sapwood::key::dns_name(&name).unwrap();
            let above = entries.iter().filter(|entry| key.starts_with(&entry.key));
            let fate = match above.max_by_key(|entry| entry.key.len()) {
                None => Fate::Pass,
                Some(entry) if entry.key == key => entry.itself,
                Some(entry) => entry.below,
            };
            let rules = map.entries().ancestors(&key);
            let mut rules = rules.iter().flat_map(|(_, value)| rules_of(value).unwrap());
            let has_conditions = rules.any(|it| it.types.is_some() || !it.except.is_empty());
            for (rtype, _) in TYPES {
                let found = verdict(map.entries(), map.meta(), &key, rtype).unwrap();
                let is_blocked = found.as_ref().is_some_and(|it| blocks(&it.terms.action));
                let is_cut = found
                    .as_ref()
                    .is_some_and(|it| it.terms.action == Action::Truncate);
                let about = format!("round {round}, {name} {rtype}: {found:?}");
                match fate {
                    Fate::Block => assert!(is_blocked, "{about}"),
                    Fate::Truncate => assert!(is_cut, "{about}"),
                    Fate::Pass => assert!(!(is_blocked || is_cut) || has_conditions, "{about}"),
                }
                match (fate, is_blocked) {
                    (Fate::Block, _) => blocked += 1,
                    (Fate::Truncate, _) => truncated += 1,
                    (Fate::Pass, false) => passed += 1,
                    (Fate::Pass, true) => left += 1,
                }
            }
        }
    }
    assert!(blocked > 10_000 && passed > 10_000, "{blocked} {passed}");
    assert!(truncated > 100, "{truncated}");
    assert!(
        left < blocked / 10,
        "{left} of {blocked} questions are left to the resolver"
    );
}
