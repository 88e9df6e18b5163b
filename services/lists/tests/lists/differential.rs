//! Random lists in all formats, and random questions: the map answers as the oracle does, however
//! it came to be.

use sapwood::qp::{OrderedRead, QpStore};
use sapwood_lists::{Fingerprints, Format, Loader, Meta, Options, Source, check, verdict};

use crate::oracle::{Oracle, Said, TYPES, random_list, random_name};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Random lists, with what their lines say.
fn random_lists(random: &mut fastrand::Rng) -> (Vec<Source>, Vec<Said>, Vec<Format>) {
    let (mut sources, mut all, mut formats) = (Vec::new(), Vec::new(), Vec::new());
    // Lists of one format, or of any.
    let only = random.bool().then(|| random.choice(Format::ALL).unwrap());
    for list in 0..random.usize(1..4) {
        let format = only.unwrap_or_else(|| random.choice(Format::ALL).unwrap());
        let lines = random.usize(1..60);
        let (text, said) = random_list(random, format, list, lines);
        sources.push(Source::text(format!("list {list}"), text).format(format));
        all.extend(said);
        formats.push(format);
    }
    (sources, all, formats)
}

/// Compares a map's answers with the oracle's; returns how many questions a rule answered.
fn compare(
    map: &dyn OrderedRead<[u8]>,
    oracle: &Oracle,
    random: &mut fastrand::Rng,
    about: &str,
) -> usize {
    let meta = Meta::of(map).unwrap();
    assert_eq!(check(map).as_ref(), Ok(&meta));
    let mut answered = 0;
    let small = Fingerprints::with_seed(map, [0; 16]).unwrap();
    for _ in 0..150 {
        let name = random_name(random, 6);
        let key = sapwood::key::dns_name(name.join(".")).unwrap();
        for (rtype, _) in TYPES {
            let expected = oracle.verdict(&name, rtype);
            let found = verdict(map, &meta, &key, rtype).unwrap();
            assert_eq!(small.verdict(&key, rtype), found, "{about}");
            let actions = [
                expected.map(|said| &said.action),
                found.as_ref().map(|found| &found.terms.action),
            ];
            assert_eq!(
                actions[0],
                actions[1],
                "{about}: {} {rtype}: {expected:?} {found:?}",
                name.join(".")
            );
            // The rule may be another one that does the same, of a name above.
            if let (Some(expected), Some(found)) = (expected, found) {
                assert_eq!(found.terms.class, expected.class);
                assert!(key.starts_with(&found.key));
                answered += 1;
            }
        }
    }
    answered
}

#[test]
fn maps_answer_as_the_oracle_does() {
    let seed = number("SAPWOOD_SEED", 0);
    let rounds = number("SAPWOOD_OPS", 400);
    let mut random = fastrand::Rng::with_seed(seed);
    let store = QpStore::<[u8]>::builder().build_inline().unwrap();
    let (mut answered, mut again, mut smaller) = (0, 0, 0);
    for round in 0..rounds {
        let about = format!("SAPWOOD_SEED={seed} round {round}");
        let (sources, said, formats) = random_lists(&mut random);
        let options = Options {
            allow_empty: true,
            allow_shrunk: true,
            strict: true,
            ..Options::default()
        };
        let oracle = Oracle::new(&said, &formats);
        let load = || Loader::new(sources.clone(), options.clone());
        let (map, summary) = load().build().unwrap();
        let lines = said.iter().filter(|said| !said.is_bad_filter).count() as u64;
        let lists = summary.meta.lists();
        assert_eq!(
            lists.iter().map(|list| list.rules).sum::<u64>(),
            lines,
            "{about}"
        );
        assert_eq!(lists.iter().map(|list| list.refused).sum::<u64>(), 0);
        let built = format!("{about}, built");
        answered += compare(map.entries(), &oracle, &mut random, &built);
        // The same from what the lists of the round before left, and once more from itself.
        let changed = load().reload(&store).unwrap();
        again += usize::from(changed.passes > 1);
        compare(&store.snapshot(), &oracle, &mut random, &about);
        let same = load().reload(&store).unwrap();
        assert!(same.is_unchanged(), "{about}: {same:?}");
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let built: Vec<_> = map
            .entries()
            .range(all)
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        let snapshot = store.snapshot();
        let loaded: Vec<_> = snapshot
            .iter()
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        assert_eq!(built, loaded, "{about}");
        // The same in a store that is filled by many commits.
        let filled = QpStore::<[u8]>::builder().build_inline().unwrap();
        assert_eq!(load().fill(&filled).unwrap().meta, summary.meta, "{about}");
        let snapshot = filled.snapshot();
        let filled = snapshot.iter().map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(built, filled.collect::<Vec<_>>(), "{about}");
        let kept: u64 = summary.meta.lists().iter().map(|list| list.kept).sum();
        smaller += usize::from(kept < lines);
        store.reclaim(usize::MAX);
    }
    if rounds >= 100 {
        let most = rounds as usize;
        assert!(answered > most * 100, "{answered}");
        assert!(again > most / 20 && smaller > most / 2, "{again} {smaller}");
    }
}
