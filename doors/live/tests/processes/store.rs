//! Live stores in several processes, which are killed at random points.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;
use sapwood_live::{Error, Live, LiveReader};

use crate::beside::{Beside, folder, last};

/// Keys of a test are numbers below this.
const KEYS: u64 = 3000;
/// Changes of a commit.
const CHANGES: u64 = 50;

fn key(number: u64) -> String {
    format!("key {:05} {}", number, "x".repeat(number as usize % 40))
}

/// The changes of commit `n`: some keys get the value `n`, some are removed.
fn changes(n: u64) -> impl Iterator<Item = (String, Option<u64>)> {
    let mut rng = fastrand::Rng::with_seed(n);
    (0..CHANGES).map(move |_| (key(rng.u64(..KEYS)), rng.bool().then_some(n)))
}

/// Commits `n`, whose number is stored, too; or changes nothing, when the limit of garbage is
/// reached.
fn try_commit(store: &Live<QpStore<u64>>, n: u64) -> Result<(), sapwood::Error> {
    let mut txn = store.begin();
    for (key, value) in changes(n) {
        match value {
            Some(value) => drop(txn.insert(key, value).map_err(|no| no.error)?),
            None => drop(txn.remove(key)?),
        }
    }
    txn.insert("commits", n).map_err(|no| no.error)?;
    txn.commit();
    Ok(())
}

fn commit(store: &Live<QpStore<u64>>, n: u64) {
    try_commit(store, n).unwrap();
}

/// The map after `n` commits.
fn oracle(n: u64) -> BTreeMap<String, u64> {
    let mut map = BTreeMap::new();
    for n in 1..=n {
        for (key, value) in changes(n) {
            match value {
                Some(value) => drop(map.insert(key, value)),
                None => drop(map.remove(&key)),
            }
        }
        map.insert("commits".into(), n);
    }
    map
}

/// A writer that makes a map, or takes it over, and commits without a pause.
pub fn write(folder: &Path, new: bool) {
    let domain = sapwood_qsbr::Domain::builder().hard_limit(8 << 20);
    let builder = Live::<QpStore<u64>>::builder()
        .domain(domain)
        .bytes(64 << 20);
    let store = match new {
        true => builder.create(folder).unwrap(),
        false => builder.open(folder).unwrap(),
    };
    let mut n = store.get("commits").unwrap_or(0);
    println!("began {n}");
    loop {
        n += 1;
        // Readers that the machine does not let run hold memory back for a while.
        while let Err(error) = try_commit(&store, n) {
            assert!(error.garbage_limit().is_some(), "{error}");
            std::thread::sleep(Duration::from_millis(1));
            store.reclaim(usize::MAX);
        }
        println!("done {n}");
        if n % 200 == 0 {
            while store.compact_step(256).unwrap_or(false) {}
        }
        store.reclaim(usize::MAX);
    }
}

/// A reader that checks whole versions without a pause.
pub fn read(folder: &Path) {
    let mut reader = LiveReader::<QpStore<u64>>::open(folder).unwrap();
    let (mut last, mut oracle) = (0, BTreeMap::new());
    let mut rounds = 0u64;
    println!("began 0");
    loop {
        let view = reader.view();
        let n = view.get("commits").copied().unwrap_or(0);
        assert!(n >= last, "commit {n} after {last}");
        for n in last + 1..=n {
            for (key, value) in changes(n) {
                match value {
                    Some(value) => drop(oracle.insert(key, value)),
                    None => drop(oracle.remove(&key)),
                }
            }
            oracle.insert("commits".into(), n);
        }
        last = n;
        assert_eq!(view.len(), oracle.len());
        let mut expected = oracle.iter();
        for (key, value) in view.iter() {
            let (k, v) = expected.next().unwrap();
            assert_eq!((&*key, value), (k.as_bytes(), v), "commit {n}");
        }
        assert!(expected.next().is_none());
        reader.quiescent().unwrap();
        rounds += 1;
        if rounds % 16 == 0 {
            drop(reader.offline());
        }
        println!("read {n}");
    }
}

/// Writers and readers are killed at random points: no version is torn, no commit that had returned
/// is lost, and memory stays bounded.
#[test]
fn killed_at_random_points() {
    let (_temp, folder) = folder();
    let kills = std::env::var("SAPWOOD_ROUNDS").map_or(24, |text| text.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(7);
    let mut writer = Beside::start("create", &folder);
    writer.line("began ");
    let mut readers: Vec<Beside> = (0..2).map(|_| Beside::start("read", &folder)).collect();
    readers
        .iter_mut()
        .for_each(|reader| drop(reader.line("began ")));
    let (mut acknowledged, mut killed) = (0, 0);
    while killed < kills {
        std::thread::sleep(Duration::from_millis(rng.u64(1..60)));
        if rng.u8(..3) == 0 {
            let said = writer.kill();
            acknowledged = last(&said, "done ")
                .unwrap_or(acknowledged)
                .max(acknowledged);
            writer = Beside::start("open", &folder);
            let found: u64 = writer.line("began ").parse().unwrap();
            assert!(
                found >= acknowledged,
                "{found} of {acknowledged}: a commit was lost"
            );
            acknowledged = found;
        } else {
            let reader = readers.swap_remove(rng.usize(..readers.len()));
            reader.kill();
            readers.push(Beside::start("read", &folder));
            readers.last_mut().unwrap().line("began ");
        }
        killed += 1;
    }
    // Each reader has moved to the last writer's data.
    let said = writer.kill();
    let done = last(&said, "done ")
        .unwrap_or(acknowledged)
        .max(acknowledged);
    for mut reader in readers {
        reader.line("read ");
        reader.kill();
    }
    let store = Live::<QpStore<u64>>::open(&folder).unwrap();
    let n = store.get("commits").unwrap();
    assert!(n == done || n == done + 1, "{n}, {done} had returned");
    store.verify().unwrap();
    let wanted = oracle(n);
    let pin = store.pin();
    assert!(
        pin.view()
            .iter()
            .map(|(k, v)| (k.to_vec(), *v))
            .eq(wanted.iter().map(|(k, v)| (k.as_bytes().to_vec(), *v)))
    );
    assert_eq!(store.readers(), []);
    let names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    println!("{killed} kills, {n} commits, {} heirs", store.generation());
}

/// A reader that stands still holds memory back, up to the limit, and is named.
#[test]
fn a_reader_that_stands_still() {
    let (_temp, folder) = folder();
    let domain = sapwood_qsbr::Domain::builder().hard_limit(1 << 20);
    let domain = domain.stall_after(Duration::from_millis(1));
    let builder = Live::<QpStore<u64>>::builder().domain(domain);
    let store = builder.create(&folder).unwrap();
    commit(&store, 1);
    let mut reader = LiveReader::<QpStore<u64>>::open(&folder).unwrap();
    let before: Vec<_> = reader
        .view()
        .iter()
        .map(|(k, v)| (k.to_vec(), *v))
        .collect();
    let view = reader.view();
    let mut refused = None;
    for n in 2..20_000 {
        let mut txn = store.begin();
        let full = changes(n).find_map(|(key, _)| txn.insert(key, n).err());
        txn.commit();
        store.reclaim(usize::MAX);
        if full.is_some() {
            refused = full;
            break;
        }
    }
    let refused = refused.expect("the limit");
    assert!(refused.to_string().contains("garbage"), "{refused}");
    let held: Vec<_> = view.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
    assert_eq!(held, before);
    let infos = store.readers();
    assert_eq!(infos.len(), 1);
    assert!(infos[0].holds_back && infos[0].pid == std::process::id());
    std::thread::sleep(Duration::from_millis(20));
    let stalls = store.domain().stalls();
    let text = format!("{stalls:?}");
    assert!(text.contains("readers in other processes"), "{text}");
    let late = Instant::now() + Duration::from_secs(10);
    while store.domain().garbage() > 0 {
        assert!(Instant::now() < late, "{:?}", store.readers());
        reader.quiescent().unwrap();
        store.reclaim(usize::MAX);
    }
    // While it is offline, it holds nothing back.
    let offline = reader.offline();
    for n in 30_000..30_200 {
        commit(&store, n);
    }
    while store.domain().garbage() > 0 {
        assert!(Instant::now() < late, "{:?}", store.readers());
        store.reclaim(usize::MAX);
    }
    drop(offline);
    assert_eq!(reader.view().get("commits"), Some(&30_199));
    drop(reader);
    assert_eq!(store.readers(), []);
    store.verify().unwrap();
}

/// What a reader does to its own file, and what lies in the directory of readers, harms only
/// itself.
#[test]
fn hostile_readers_harm_only_themselves() {
    let (_temp, folder) = folder();
    let store = Live::<QpStore<u64>>::create(&folder).unwrap();
    commit(&store, 1);
    let mut good = LiveReader::<QpStore<u64>>::open(&folder).unwrap();
    let readers = folder.join("readers");
    std::fs::write(readers.join("r-text"), "no reader").unwrap();
    std::fs::write(readers.join("r-empty"), "").unwrap();
    std::fs::create_dir(readers.join("r-folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", readers.join("r-link")).unwrap();
    std::os::unix::fs::symlink("r-link-2", readers.join("r-link-2")).unwrap();
    let made = Command::new("mkfifo").arg(readers.join("r-pipe")).status();
    assert!(made.is_ok_and(|made| made.success()));
    let mut rng = fastrand::Rng::with_seed(3);
    let evil = readers.join("r-evil");
    let file = std::fs::File::create(&evil).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for n in 2..300 {
        let view = good.view();
        let before: Vec<_> = view.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
        // Numbers of the past, of the future, and no numbers.
        let word = [0, u64::MAX, rng.u64(..), rng.u64(..n)][rng.usize(..4)];
        std::fs::write(&evil, &word.to_ne_bytes()[..rng.usize(..9)]).unwrap();
        commit(&store, n);
        store.reclaim(usize::MAX);
        let held: Vec<_> = view.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
        assert_eq!(held, before, "memory that a reader reads was freed");
        good.quiescent().unwrap();
    }
    // It has ended, so it holds nothing back. Processes that other tests start just now have the
    // lock, too.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    drop(file);
    let late = Instant::now() + Duration::from_secs(10);
    while store.domain().garbage() > 0 {
        assert!(Instant::now() < late, "{:?}", store.readers());
        good.quiescent().unwrap();
        store.reclaim(usize::MAX);
    }
    assert_eq!(store.readers().len(), 1, "{:?}", store.readers());
    assert!(!evil.exists());
    store.verify().unwrap();
}

#[test]
fn errors_say_what_is_wrong() {
    let (_temp, folder) = folder();
    let open = |folder: &Path| LiveReader::<QpStore<u64>>::open(folder);
    let none = open(&folder).unwrap_err();
    assert!(matches!(none, Error::NotYet { .. }), "{none}");
    assert!(matches!(
        Live::<QpStore<u64>>::open(&folder),
        Err(Error::NotYet { .. })
    ));
    let store = Live::<QpStore<u64>>::create(&folder).unwrap();
    // Others could write the map.
    for name in ["", "control", "data-1-0"] {
        let path = folder.join(name);
        let mode = path.metadata().unwrap().permissions().mode();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let foreign = open(&folder).unwrap_err();
        assert!(matches!(foreign, Error::Foreign { .. }), "{foreign}");
        std::fs::set_permissions(&path, Permissions::from_mode(mode & 0o755)).unwrap();
    }
    let exists = Live::<QpStore<u64>>::create(&folder).unwrap_err();
    assert!(matches!(exists, Error::Exists { .. }), "{exists}");
    let owned = Live::<QpStore<u64>>::open(&folder).unwrap_err();
    assert!(matches!(owned, Error::Owned { .. }), "{owned}");
    let other = LiveReader::<QpStore<[u64; 2]>>::open(&folder).unwrap_err();
    assert!(matches!(other, Error::Layout { .. }), "{other}");
    commit(&store, 1);
    let mut reader = open(&folder).unwrap();
    assert!(reader.has_writer().unwrap());
    drop(store);
    assert!(!reader.has_writer().unwrap());
    assert_eq!(reader.view().get("commits"), Some(&1));
    let other = Live::<QpStore<[u64; 2]>>::open(&folder).unwrap_err();
    assert!(matches!(other, Error::Layout { .. }), "{other}");
    // What the writer left is damaged: the map stays as it is.
    let data = folder.join("data-1-0");
    let whole = std::fs::read(&data).unwrap();
    let mut refused = 0;
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut bytes = whole.clone();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for _ in 0..20 {
            bytes[rng.usize(..used)] ^= 1 << rng.u8(..8);
        }
        let torn = folder.join("torn");
        std::fs::write(&torn, &bytes).unwrap();
        std::fs::rename(&torn, &data).unwrap();
        match Live::<QpStore<u64>>::open(&folder) {
            Err(Error::Damaged { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
            // Damage where the last commit has nothing.
            Ok(store) => {
                store.verify().unwrap();
                drop(store);
                break;
            }
        }
    }
    assert!(refused > 0);
    assert_eq!(
        reader.view().get("commits"),
        Some(&1),
        "a reader keeps its data"
    );
    let mut store = Live::<QpStore<u64>>::open(&folder);
    if store.is_err() {
        std::fs::write(folder.join("torn"), &whole).unwrap();
        std::fs::rename(folder.join("torn"), &data).unwrap();
        store = Live::<QpStore<u64>>::open(&folder);
    }
    let store = store.unwrap();
    reader.quiescent().unwrap();
    assert_eq!(reader.generation(), store.generation());
    assert!(reader.generation() > 0);
    store.remove_map().unwrap();
    assert!(!folder.exists());
}
