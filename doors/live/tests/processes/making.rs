//! Live maps come to be as a whole, and go as a whole.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sapwood::maple::MapleMap;
use sapwood::qp::QpStore;
use sapwood_live::{
    CheckedLiveReader, Error, Live, LiveReader, LiveStatus, LiveTextReader, LiveTexts,
};

use crate::beside::{Beside, folder};

/// Longer than any machine needs.
const LONG: Duration = Duration::from_secs(300);

type Names = QpStore<u64>;

fn make(folder: &Path) -> Result<Live<Names>, Error> {
    let store = Live::<Names>::create(folder)?;
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    txn.commit();
    Ok(store)
}

/// A process that makes a map and removes it, again and again.
pub fn remove_and_make(folder: &Path) {
    let store = make(folder).unwrap();
    // Once: nobody reads more.
    println!("made");
    store.remove_map().unwrap();
    loop {
        make(folder).unwrap().remove_map().unwrap();
    }
}

/// A process that opens a map which is not there yet.
pub fn come_early(folder: &Path) {
    println!("waits");
    let silent = CheckedLiveReader::<Names>::open_unregistered_within(folder, LONG);
    drop(silent.unwrap());
    let mut reader = LiveReader::<Names>::open_within(folder, LONG).unwrap();
    let begun = Instant::now();
    while reader.view().get("a").is_none() {
        assert!(begun.elapsed() < LONG);
        reader.quiescent().unwrap();
    }
    println!("found");
}

/// The names beside a map.
fn beside(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn whoever_comes_early_is_told_so_and_may_wait() {
    let (_temp, folder) = folder();
    let early = LiveReader::<Names>::open(&folder).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    assert!(
        early.to_string().ends_with("has no live map yet"),
        "{early}"
    );
    let early = CheckedLiveReader::<Names>::open(&folder).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    let early = LiveStatus::read(&folder).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    let short = Duration::from_millis(30);
    let begun = Instant::now();
    let early = LiveReader::<Names>::open_within(&folder, short).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    assert!(begun.elapsed() >= short);
    // An empty directory is none, either.
    std::fs::create_dir(&folder).unwrap();
    let early = CheckedLiveReader::<Names>::open_within(&folder, short).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    let early = CheckedLiveReader::<Names>::open_unregistered_within(&folder, short).unwrap_err();
    assert!(matches!(early, Error::NotYet { .. }), "{early}");
    std::fs::remove_dir(&folder).unwrap();

    let mut early = Beside::start("come-early", &folder);
    early.line("waits");
    let store = make(&folder).unwrap();
    early.line("found");
    store.remove_map().unwrap();
}

#[test]
fn readers_find_a_map_whole_or_not_at_all() {
    let (_temp, folder) = folder();
    let mut maker = Beside::start("remove-and-make", &folder);
    maker.line("made");
    let (mut found, mut early) = (0, 0);
    let begun = Instant::now();
    while (found < 20 || early < 20) && begun.elapsed() < LONG {
        let opened = match found % 2 {
            0 => LiveReader::<Names>::open(&folder).map(|reader| reader.view().get("a").copied()),
            _ => CheckedLiveReader::<Names>::open(&folder)
                .and_then(|mut reader| reader.read(|map| map.get("a"))),
        };
        match opened {
            Ok(value) => {
                assert!(value.is_none_or(|value| value == 1));
                found += 1;
            }
            Err(Error::NotYet { .. } | Error::Removed { .. }) => early += 1,
            Err(error) => panic!("neither there nor away: {error}"),
        }
    }
    assert!(
        found >= 20 && early >= 20,
        "{found} found, {early} too early"
    );
}

#[test]
fn nobody_finds_a_map_before_it_is_published() {
    for is_there in [false, true] {
        let (_temp, folder) = folder();
        if is_there {
            std::fs::create_dir(&folder).unwrap();
        }
        let make = || Live::<Names>::builder().create_unpublished(&folder);
        // One that is dropped leaves nothing, and its map goes on.
        let (lone, unpublished) = make().unwrap();
        drop(unpublished);
        assert_eq!(lone.len(), 0);
        assert_eq!(folder.exists(), is_there);
        let (store, mut unpublished) = make().unwrap();
        let mut texts = unpublished.texts(Live::builder()).unwrap();
        let again = unpublished.texts(Live::builder());
        assert!(matches!(again, Err(Error::Exists { .. })));
        let number = texts.numbers(["one"]).unwrap()[0];
        // The memory grows past what readers map at first, and what is replaced is freed.
        let key = |at: u64| format!("{at:0>300}");
        let mut txn = store.begin();
        for at in 0..250_000 {
            txn.insert(key(at), 0).unwrap();
        }
        txn.commit();
        for round in 1..100 {
            let mut txn = store.begin();
            for at in 0..100 {
                txn.insert(key(at), round).unwrap();
            }
            txn.commit();
            store.reclaim(usize::MAX);
        }
        let memory = store.memory();
        assert!(memory.map.arena.committed > 64 << 20, "{memory}");
        assert!(memory.map.arena.retired < 1 << 20, "{memory}");
        let early = LiveReader::<Names>::open(&folder).unwrap_err();
        assert!(matches!(early, Error::NotYet { .. }), "{early}");
        unpublished.publish().unwrap();
        let reader = LiveReader::<Names>::open(&folder).unwrap();
        assert_eq!(reader.view().len(), 250_000);
        assert_eq!(reader.view().get(key(1)), Some(&99));
        let mut texts = LiveTextReader::open(&folder).unwrap();
        let text = texts.find::<_, Error>(|text| Ok(text(number)));
        assert_eq!(text.unwrap(), "one");
        // Of two makers, the second learns of the first.
        if !is_there {
            let (_temp, folder) = crate::beside::folder();
            let make = || {
                Live::<Names>::builder()
                    .create_unpublished(&folder)
                    .unwrap()
            };
            let ((_first, first), (_second, second)) = (make(), make());
            first.publish().unwrap();
            let late = second.publish().unwrap_err();
            assert!(matches!(late, Error::Exists { .. }), "{late}");
            assert_eq!(beside(&folder), ["map"], "nothing else is left");
        }
    }
}

#[test]
fn what_a_killed_maker_leaves_is_removed_by_the_next() {
    let (_temp, folder) = folder();
    let mut rng = fastrand::Rng::new();
    for _ in 0..30 {
        let mut maker = Beside::start("remove-and-make", &folder);
        maker.line("made");
        std::thread::sleep(Duration::from_micros(rng.u64(..3000)));
        maker.kill();
        // It has left a whole map, or none.
        let store = match make(&folder) {
            Err(Error::Exists { .. }) => Live::open(&folder).unwrap(),
            made => made.unwrap(),
        };
        assert!(store.snapshot().len() < 2);
        store.verify().unwrap();
        assert_eq!(beside(&folder), ["map"], "nothing else is left");
        store.remove_map().unwrap();
        assert_eq!(beside(&folder), [""; 0]);
    }
}

#[test]
fn a_folder_that_is_there_keeps_its_modes_and_what_it_has() {
    let (_temp, folder) = folder();
    std::fs::create_dir_all(folder.join("readers")).unwrap();
    std::fs::set_permissions(folder.join("readers"), Permissions::from_mode(0o1777)).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o711)).unwrap();
    std::fs::write(folder.join("note"), "mine").unwrap();
    // What makers have left that died: also of versions that did not make maps as a whole.
    for left in ["data-1-0", "data-1-1", ".control", "control"] {
        std::fs::write(folder.join(left), "").unwrap();
    }
    let store = make(&folder).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode(&folder), mode(&folder.join("readers"))),
        (0o711, 0o1777)
    );
    assert_eq!(std::fs::read(folder.join("note")).unwrap(), b"mine");
    assert!(!folder.join("data-1-1").exists() && !folder.join(".control").exists());
    let reader = LiveReader::<Names>::open(&folder).unwrap();
    assert_eq!(reader.view().get("a"), Some(&1));
    drop((store, reader));
    // A control page of something else is not touched.
    std::fs::write(folder.join("control"), [7; 4096]).unwrap();
    let other = Live::<Names>::create(&folder).unwrap_err();
    assert!(matches!(other, Error::Exists { .. }), "{other}");
    assert_eq!(std::fs::read(folder.join("control")).unwrap(), [7; 4096]);
}

#[test]
fn two_makers_make_one_map() {
    let (_temp, folder) = folder();
    for _ in 0..50 {
        let made = std::thread::scope(|scope| {
            let makers = [(); 3].map(|()| scope.spawn(|| make(&folder)));
            makers.map(|maker| maker.join().unwrap())
        });
        let (mut whole, mut refused) = (Vec::new(), 0);
        for maker in made {
            match maker {
                Ok(store) => whole.push(store),
                Err(Error::Exists { .. } | Error::Owned { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((whole.len(), refused), (1, 2));
        assert_eq!(beside(&folder), ["map"]);
        whole.remove(0).remove_map().unwrap();
    }
}

#[test]
fn a_map_and_its_texts_are_there_together() {
    let (_temp, folder) = folder();
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            for _ in 0..100 {
                let made = Live::<MapleMap<u32>>::builder()
                    .create_with_texts(&folder, Live::builder())
                    .unwrap();
                let (map, mut texts) = made;
                let number = texts.numbers(["web"]).unwrap()[0];
                map.store(80..=443, number).unwrap();
                texts.used(number);
                map.remove_map().unwrap();
            }
        });
        let mut found = 0;
        while !maker.is_finished() {
            let Ok(map) = LiveReader::<MapleMap<u32>>::open(&folder) else {
                continue;
            };
            match LiveTextReader::open(&folder) {
                Ok(_) => found += 1,
                // Both have gone meanwhile.
                Err(_) => assert!(!map.is_current(), "a map without its texts"),
            }
        }
        println!("{found} found");
    });
    assert!(!LiveTexts::folder(&folder).exists() && !folder.exists());
}
