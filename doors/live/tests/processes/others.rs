//! Readers of other users, on read-only mounts, of maps that were removed and made again, and of
//! maps that outgrow what they have mapped.

use std::ops::Bound;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use sapwood::lpm::IpFib;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_live::{
    CheckedIp, CheckedLiveReader, CheckedNames, Error, Live, LiveBuilder, LiveReader, ReadBy,
};

use crate::beside::folder;

type Names = QpStore<u64>;

fn filled(builder: LiveBuilder<Names>, folder: &Path) -> Live<Names> {
    let store = builder.create(folder).unwrap();
    let mut txn = store.begin();
    for number in 0..500 {
        txn.insert(format!("{number:04}"), number).unwrap();
    }
    txn.commit();
    store
}

/// A reader that another user runs: it prints what came of each way to open the map.
pub fn read_as_another(folder: &Path) {
    let found = |found: Result<Option<u64>, Error>| match found {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    };
    let trusting = LiveReader::<Names>::open(folder);
    let trusting = trusting.map(|reader| reader.view().get("0007").copied());
    println!("trusting: {}", found(trusting));
    let checked = CheckedLiveReader::<Names>::open(folder);
    let checked = checked.and_then(|mut reader| reader.read(|map| map.get("0007")));
    println!("checked: {}", found(checked));
    let silent = CheckedLiveReader::<Names>::open_unregistered(folder);
    let silent = silent.and_then(|mut reader| reader.read(|map| map.get("0007")));
    println!("unregistered: {}", found(silent));
}

/// What a user and a group see of a map.
fn seen_by(user: u32, group: u32, folder: &Path) -> Option<String> {
    let program = std::env::current_exe().unwrap();
    // The program's own directory may be closed to others.
    let copy = folder.parent().unwrap().join("program");
    std::fs::copy(&program, &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = Command::new("setpriv")
        .args([
            format!("--reuid={user}"),
            format!("--regid={group}"),
            "--clear-groups".into(),
        ])
        .arg(&copy)
        .args(["child_process", "--exact", "--ignored", "--nocapture"])
        .env("SAPWOOD_TASK", "read-as-another")
        .env("SAPWOOD_FOLDER", folder)
        .current_dir("/")
        .output();
    match said {
        Ok(said) if said.status.success() => Some(String::from_utf8(said.stdout).unwrap()),
        other => {
            println!("skipped: no program as another user: {other:?}");
            None
        }
    }
}

#[test]
fn other_users_read_a_map_that_is_made_for_them() {
    let (temp, folder) = folder();
    if temp.path().metadata().unwrap().uid() != 0 {
        return println!("skipped: only root runs programs as other users");
    }
    let open = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(temp.path(), open(0o755)).unwrap();
    const USER: u32 = 54_321;
    const GROUP: u32 = 54_322;
    // The map is root's, so others trust it.
    let all = [
        "trusting: Some(7)",
        "checked: Some(7)",
        "unregistered: Some(7)",
    ];
    for (who, group, wanted) in [
        (ReadBy::Everybody, USER, all),
        (ReadBy::Group(GROUP), GROUP, all),
        (
            ReadBy::Owner,
            USER,
            [
                "trusting: this process cannot register as a reader",
                "checked: this process cannot register as a reader",
                "unregistered: Some(7)",
            ],
        ),
    ] {
        let store = filled(Live::builder().read_by(who), &folder);
        let Some(said) = seen_by(USER, group, &folder) else {
            return;
        };
        for line in wanted {
            assert!(said.contains(line), "{who:?}: {said}");
        }
        // The new owner keeps what the map has.
        drop(store);
        let store = Live::<Names>::open(&folder).unwrap();
        let said = seen_by(USER, group, &folder).unwrap();
        for line in wanted {
            assert!(said.contains(line), "{who:?}, heir: {said}");
        }
        store.remove_map().unwrap();
    }
    // Whoever is not in the group sees nothing.
    let store = filled(Live::builder().read_by(ReadBy::Group(GROUP)), &folder);
    let said = seen_by(USER, USER, &folder).unwrap();
    assert!(!said.contains("Some(7)"), "{said}");
    assert!(said.contains("ermission denied"), "{said}");
    store.remove_map().unwrap();
}

#[test]
fn a_read_only_mount_is_read_with_checks() {
    let (temp, folder) = folder();
    let store = filled(Live::builder(), &folder);
    let view = temp.path().join("view");
    std::fs::create_dir(&view).unwrap();
    let mount = |args: &[&str]| {
        let done = Command::new("mount").args(args).arg(&view).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !mount(&["--bind", folder.to_str().unwrap()]) {
        return println!("skipped: this process may not mount a file system");
    }
    let unmount = || {
        Command::new("umount")
            .arg("-l")
            .arg(&view)
            .status()
            .unwrap()
    };
    if !mount(&["-o", "remount,bind,ro"]) {
        unmount();
        return println!("skipped: this process may not mount a file system read-only");
    }
    let trusting = LiveReader::<Names>::open(&view).map(drop);
    let checked = CheckedLiveReader::<Names>::open(&view).map(drop);
    let mut silent = CheckedLiveReader::<Names>::open_unregistered(&view).unwrap();
    let mut answers = Vec::new();
    for round in 0..50 {
        let mut txn = store.begin();
        txn.insert("0007", 7 + round).unwrap();
        txn.commit();
        store.reclaim(usize::MAX);
        answers.push(silent.read(|map| map.get("0007")).unwrap());
    }
    let has_writer = silent.has_writer().unwrap();
    drop(silent);
    unmount();
    for refused in [trusting, checked] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Unregistered { .. }), "{error}");
        assert!(
            error.to_string().contains("Read-only file system"),
            "{error}"
        );
    }
    assert!(answers.into_iter().eq((7..57).map(Some)));
    assert!(has_writer && store.readers().is_empty());
    store.remove_map().unwrap();
}

#[test]
fn an_unregistered_reader_gives_no_answer_from_memory_that_was_used_again() {
    let (_temp, folder) = folder();
    let map = Live::<QpShared<u64>>::create(&folder).unwrap();
    let key = |number: u64| format!("{number:03}");
    let value = |round: u64, number: u64| round * 1000 + number;
    for number in 0..200 {
        map.insert(key(number), value(0, number)).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..150 {
                for number in 0..200 {
                    // The leaf of one key may be used again for another.
                    map.remove(key(number)).unwrap();
                    map.insert(key(number), value(round, number)).unwrap();
                    map.reclaim(usize::MAX);
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut reader = CheckedLiveReader::<QpShared<u64>>::open_unregistered(&folder).unwrap();
        let (mut answers, mut evicted) = (0, 0);
        let mut number = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            number = (number + 1) % 200;
            match reader.view().and_then(|view| view.get(key(number))) {
                Ok(found) => {
                    assert!(
                        found.is_none_or(|found| found % 1000 == number),
                        "{found:?}"
                    );
                    answers += 1;
                }
                Err(Error::Evicted { .. }) => evicted += 1,
                Err(Error::Busy { .. }) => (),
                Err(error) => panic!("{error}"),
            }
            reader.quiescent().unwrap();
        }
        println!("{answers} answers, evicted {evicted} times");
        assert_eq!(
            reader.read(|view| view.get(key(7))).unwrap(),
            Some(value(149, 7))
        );
        // Without quiescent states its answers end with the first reuse.
        let kept = reader.view().unwrap();
        for round in 150..160 {
            for number in 0..200 {
                map.insert(key(number), value(round, number)).unwrap();
            }
            map.reclaim(usize::MAX);
        }
        let told = kept.get(key(7));
        assert!(matches!(told, Err(Error::Evicted { .. })), "{told:?}");
    });
    map.remove_map().unwrap();
}

/// Compares the questions of a checked reader with those of a view of the same map.
macro_rules! compare {
    ($names:expr, $view:expr, $keys:expr) => {
        let view = $view;
        let compared = $names.ask(|names| {
            assert_eq!(
                (names.len(), names.is_empty()),
                (view.iter().count(), false)
            );
            assert_eq!(names.first_key_value(), view.first_key_value());
            assert_eq!(names.last_key_value(), view.last_key_value());
            for key in $keys {
                let key = key.as_bytes();
                assert_eq!(names.get(key), view.get(key));
                assert_eq!(names.contains_key(key), view.contains_key(key));
                assert_eq!(names.predecessor(key), view.predecessor(key));
                assert_eq!(names.successor(key), view.successor(key));
                assert_eq!(names.longest_prefix(key), view.longest_prefix(key));
                assert_eq!(names.ancestors(key), view.ancestors(key));
                assert_eq!(names.ancestors_at(key, b'.'), view.ancestors_at(key, b'.'));
                assert!(names.prefix(key).eq(view.prefix(key)));
                assert!(names.prefix(key).rev().eq(view.prefix(key).rev()));
                for edges in [
                    (Bound::Included(key), Bound::Unbounded),
                    (Bound::Excluded(key), Bound::Included(&b"z"[..])),
                    (Bound::Unbounded, Bound::Included(key)),
                    (Bound::Included(&b"02"[..]), Bound::Excluded(key)),
                ] {
                    let (ours, theirs) =
                        (names.range::<[u8], _>(edges), view.range::<[u8], _>(edges));
                    assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
                    let (ours, theirs) =
                        (names.range::<[u8], _>(edges), view.range::<[u8], _>(edges));
                    assert_eq!(
                        ours.rev().collect::<Vec<_>>(),
                        theirs.rev().collect::<Vec<_>>()
                    );
                }
                let is_cut = |key: &[u8], _: &_| key.len() % 3 == 1;
                let (ours, theirs) = (
                    names.denial(key, b'.', is_cut),
                    view.denial(key, b'.', is_cut),
                );
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
                let closest = names.closest(key, b'.', is_cut);
                assert_eq!(format!("{closest:?}"), format!("{:?}", theirs.closest));
            }
            // Both ends of a walk meet.
            let (mut ours, mut theirs) = (names.prefix("0"), view.prefix("0"));
            for turn in 0.. {
                let (one, other) = match turn % 3 {
                    0 => (ours.next(), theirs.next()),
                    _ => (ours.next_back(), theirs.next_back()),
                };
                assert_eq!(one, other);
                if one.is_none() {
                    break;
                }
            }
        });
        compared.unwrap();
    };
}

#[test]
fn names_that_are_asked_answer_as_a_view() {
    let numbers = (0..300).map(|number| format!("{number:03}"));
    let others = [
        "",
        ".",
        "a.",
        "a.b.",
        "a.*.",
        "a.b.c.d.",
        "a.e.*.f.",
        "b.x.y.",
        "\u{ff}\u{ff}",
    ];
    let keys: Vec<String> = numbers.chain(others.map(Into::into)).collect();
    let asked: Vec<String> = keys
        .iter()
        .step_by(9)
        .flat_map(|key| [key.clone(), format!("{key}."), format!("{key}x.y.")])
        .chain(others.map(Into::into))
        .collect();
    let (_temp, folder) = folder();
    macro_rules! of_kind {
        ($map:ty, $value:expr, |$live:ident| $with:ident, $end:expr) => {{
            let $live = Live::<$map>::create(&folder).unwrap();
            let mut $with = $live.begin();
            for entry in (0_u64..).zip(&keys) {
                $with.insert(entry.1, $value(entry)).unwrap();
            }
            $end;
            let trusting = LiveReader::<$map>::open(&folder).unwrap();
            let reader = CheckedLiveReader::<$map>::open_unregistered(&folder).unwrap();
            let mut names = CheckedNames::new(reader);
            compare!(names, trusting.view(), &asked);
            drop(trusting);
            $live.remove_map().unwrap();
            let gone = names.ask(|names| names.get("000").is_some()).unwrap_err();
            assert!(matches!(gone, Error::Removed { .. }), "{gone}");
        }};
    }
    let number = |(number, _): (u64, &String)| number;
    of_kind!(QpStore<u64>, number, |live| txn, txn.commit());
    fn text((_, key): (u64, &String)) -> &[u8] {
        key.as_bytes()
    }
    of_kind!(QpStore<[u8]>, text, |live| txn, txn.commit());

    let live = Live::<QpShared<u64>>::create(&folder).unwrap();
    for (number, key) in (0..).zip(&keys) {
        live.insert(key, number).unwrap();
    }
    let trusting = LiveReader::<QpShared<u64>>::open(&folder).unwrap();
    let reader = CheckedLiveReader::<QpShared<u64>>::open_unregistered(&folder).unwrap();
    compare!(CheckedNames::new(reader), trusting.view(), &asked);
    drop(trusting);
    live.remove_map().unwrap();
}

#[test]
fn prefixes_above_another_are_read_without_registration() {
    let (_temp, folder) = folder();
    let live = Live::<IpFib<u32>>::create(&folder).unwrap();
    for (net, value) in [
        ("0.0.0.0/0", 1),
        ("10.0.0.0/8", 2),
        ("10.1.0.0/16", 3),
        ("::/0", 4),
    ] {
        live.insert(net.parse().unwrap(), value).unwrap();
    }
    let mut reader = CheckedLiveReader::<IpFib<u32>>::open_unregistered(&folder).unwrap();
    let mut above = |net: &str| {
        reader
            .read(|table| table.covering(net.parse().unwrap()))
            .unwrap()
    };
    assert_eq!(above("10.1.2.0/24"), [(0, 1), (8, 2), (16, 3)]);
    assert_eq!(above("10.0.0.0/8"), [(0, 1), (8, 2)]);
    assert_eq!(above("2001:db8::/32"), [(0, 4)]);
    let exact = |net: &str, table: &CheckedIp<'_, u32>| table.get(net.parse().unwrap());
    let found = reader.read(|table| {
        Ok((
            exact("10.0.0.0/8", &table)?,
            exact("10.0.0.0/9", &table)?,
            exact("::/0", &table)?,
        ))
    });
    assert_eq!(found.unwrap(), (Some(2), None, Some(4)));
    live.remove_map().unwrap();
}

#[test]
fn a_map_that_was_removed_and_made_again_is_told_and_found() {
    let (_temp, folder) = folder();
    let store = filled(Live::builder(), &folder);
    let mut trusting = LiveReader::<Names>::open(&folder).unwrap();
    let mut checked = CheckedLiveReader::<Names>::open(&folder).unwrap();
    let mut idle = LiveReader::<Names>::open(&folder).unwrap().idle();
    store.remove_map().unwrap();
    for told in [
        trusting.quiescent(),
        checked.quiescent(),
        idle.read(|_| ()),
        trusting.quiescent(),
    ] {
        let told = told.unwrap_err();
        assert!(matches!(told, Error::Removed { .. }), "{told}");
    }
    assert_eq!(
        trusting.view().get("0007"),
        Some(&7),
        "it reads what there was"
    );
    assert!(!trusting.is_current() && !trusting.has_writer().unwrap());
    let none = trusting.reopen().unwrap_err();
    assert!(matches!(none, Error::NotYet { .. }), "{none}");
    assert_eq!(trusting.view().get("0007"), Some(&7));

    let store = Live::<Names>::create(&folder).unwrap();
    let mut txn = store.begin();
    txn.insert("new", 1).unwrap();
    txn.commit();
    assert!(matches!(trusting.quiescent(), Err(Error::Removed { .. })));
    trusting.reopen().unwrap();
    checked.reopen().unwrap();
    idle.reopen().unwrap();
    assert_eq!(trusting.view().get("new"), Some(&1));
    assert_eq!(checked.view().unwrap().get("new").unwrap(), Some(1));
    assert_eq!(idle.read(|view| view.get("new").copied()).unwrap(), Some(1));
    assert!(trusting.is_current() && checked.is_current() && idle.is_current());
    trusting.quiescent().unwrap();

    // A directory that is deleted by hand tells no reader. A reader that asks learns of it.
    std::fs::remove_dir_all(&folder).unwrap();
    drop(store);
    let _store = filled(Live::builder(), &folder);
    assert!(trusting.quiescent().is_ok());
    assert!(!trusting.is_current() && !trusting.has_writer().unwrap());
    trusting.reopen().unwrap();
    assert_eq!(trusting.view().get("0007"), Some(&7));
    assert!(trusting.has_writer().unwrap());
}

/// Descriptors of this process, and bytes of its addresses.
fn used() -> (usize, usize) {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').next().unwrap().parse().unwrap();
    (open, pages * 4096)
}

/// A process with many readers: it prints how many descriptors and bytes of addresses they take.
pub fn count_readers(folder: &Path) {
    const COUNT: usize = 200;
    let before = used();
    let trusting: Vec<_> = (0..COUNT)
        .map(|_| LiveReader::<IpFib<u32>>::open(folder).unwrap())
        .collect();
    let middle = used();
    let checked: Vec<_> = (0..COUNT)
        .map(|_| CheckedLiveReader::<IpFib<u32>>::open(folder).unwrap())
        .collect();
    let after = used();
    assert!(
        middle.0 <= before.0 + 2 && after.0 <= before.0 + 2,
        "{after:?}"
    );
    let each = (after.1 - before.1) / (2 * COUNT);
    println!("bytes {each}");
    drop((trusting, checked));
}

#[test]
fn a_reader_keeps_no_descriptor_and_takes_few_addresses() {
    let (_temp, folder) = folder();
    let table = Live::<IpFib<u32>>::create(&folder).unwrap();
    table.insert("10.0.0.0/8".parse().unwrap(), 7).unwrap();
    let mut other = crate::beside::Beside::start("count-readers", &folder);
    let each: usize = other.line("bytes ").parse().unwrap();
    // Two parts.
    assert!(
        each <= 2 * (65 << 20),
        "{each} bytes of addresses for a reader"
    );
    table.remove_map().unwrap();
}

#[test]
fn readers_map_anew_when_a_map_outgrows_what_they_have_mapped() {
    let (_temp, folder) = folder();
    let map = Live::<PointMap<[u8]>>::create(&folder).unwrap();
    let mut trusting = LiveReader::<PointMap<[u8]>>::open(&folder).unwrap();
    let mut idle = LiveReader::<PointMap<[u8]>>::open(&folder).unwrap().idle();
    let mut away = LiveReader::<PointMap<[u8]>>::open(&folder).unwrap();
    let mut checked = CheckedLiveReader::<PointMap<[u8]>>::open(&folder).unwrap();
    let big = vec![7; 1 << 20];
    let offline = away.offline();
    // Past 64 MiB, of which the readers have mapped no more.
    let mut refused = None;
    for number in 0..100_u32 {
        if let Err(no) = map.insert(number.to_be_bytes(), &big[..]) {
            refused = Some((number, no.error));
            break;
        }
    }
    // The reader that stands still holds growth back, and is named.
    let (number, error) = refused.unwrap();
    assert!(number > 40, "{number}");
    assert!(
        error.to_string().starts_with("a reader that stands still"),
        "{error}"
    );
    assert!(map.readers().iter().any(|reader| reader.holds_back));
    let get = |number: u32| number.to_be_bytes();
    assert_eq!(trusting.view().get(get(number - 1)), Some(&big[..]));
    trusting.quiescent().unwrap();
    for number in number..150 {
        map.insert(get(number), &big[..]).unwrap();
        trusting.quiescent().unwrap();
    }
    assert_eq!(trusting.view().get(get(149)), Some(&big[..]));
    assert!(
        idle.read(|view| view.get(get(149)) == Some(&big[..]))
            .unwrap()
    );
    drop(offline);
    assert_eq!(away.view().get(get(149)), Some(&big[..]));
    assert_eq!(
        checked.view().unwrap().get(get(149)).unwrap().unwrap().0,
        big
    );
    checked.quiescent().unwrap();
    map.remove_map().unwrap();
}
