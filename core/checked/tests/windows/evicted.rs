//! A source that evicts its reader: no answer is returned after that.

use sapwood_checked::{Bytes, CheckedReader};

use crate::support::{ALL, Copy, Error, Folder, Map, filled, reader};

/// Calls a method when the reader is evicted before its `n`th look, for every `n` until it is not
/// evicted. Returns how often it was.
fn evict<R>(copy: &Copy, call: impl Fn(&CheckedReader<&Copy, Bytes>) -> Result<R, Error>) -> usize {
    for n in 0.. {
        let reader = reader(copy);
        copy.evicted_after.set(n);
        let result = call(&reader);
        copy.evicted_after.set(usize::MAX);
        match result {
            Ok(_) => return n,
            Err(error) => assert_eq!(error, Error::Evicted),
        }
    }
    unreachable!("the reader is evicted for ever")
}

#[test]
fn no_answer_after_an_eviction() {
    let folder = Folder::new();
    for name in ALL {
        let map = Map::new(&folder, name);
        let entries = filled(&map, 5, 120);
        let copy = map.copy(&folder, name);
        let some = entries.keys().next().unwrap().clone();
        for times in [
            evict(&copy, |reader| reader.get(&some)),
            evict(&copy, |reader| reader.get("no such key")),
            evict(&copy, |reader| reader.contains(&some)),
            evict(&copy, |reader| reader.has_order()),
            evict(&copy, |reader| reader.value_bytes()),
            evict(&copy, |reader| reader.len()),
            evict(&copy, |reader| reader.is_empty()),
            evict(&copy, |reader| reader.verify()),
            evict(&copy, |reader| {
                reader.check_layout(reader.source().words[2])
            }),
        ] {
            assert!(times > 0, "{name}: an answer without a look");
        }
        let walked = evict(&copy, |reader| {
            reader.unordered().collect::<Result<Vec<_>, _>>()
        });
        assert!(walked > 1, "{name}: {walked} looks in a walk");
        if map.has_order() {
            let walked = evict(&copy, |reader| reader.iter().collect::<Result<Vec<_>, _>>());
            assert!(walked > entries.len(), "{name}: {walked} looks in a walk");
            assert!(evict(&copy, |reader| reader.longest_prefix(&some)) > 0);
            assert!(evict(&copy, |reader| reader.first()) > 0);
            assert!(evict(&copy, |reader| reader.last()) > 0);
            assert!(evict(&copy, |reader| reader.predecessor(&some)) > 0);
            assert!(evict(&copy, |reader| reader.successor(&some)) > 0);
            assert!(evict(&copy, |reader| reader.ancestors(&some)) > 0);
            // Each of the searches looks, and the answer.
            assert!(evict(&copy, |reader| reader.closest("no name", 0, |_, _| false)) > 3);
            assert!(evict(&copy, |reader| reader.denial("no name", 0, |_, _| false)) > 4);
            assert!(evict(&copy, |reader| reader.snapshot()?.get(&some)) > 1);
        }
    }
}

/// An evicted reader says so, and does not report what it read since as damage.
#[test]
fn an_eviction_comes_before_damage() {
    let folder = Folder::new();
    let map = Map::new(&folder, "store");
    let entries = filled(&map, 5, 120);
    let mut copy = map.copy(&folder, "store");
    for word in &mut copy.words[512..] {
        *word = !*word;
    }
    let reader = reader(&copy);
    let key = entries.keys().next().unwrap();
    assert!(matches!(reader.get(key), Err(Error::Trouble(_))));
    copy.evicted_after.set(0);
    assert_eq!(reader.get(key), Err(Error::Evicted));
    assert_eq!(reader.verify(), Err(Error::Evicted));
    assert_eq!(reader.iter().next(), Some(Err(Error::Evicted)));
}
