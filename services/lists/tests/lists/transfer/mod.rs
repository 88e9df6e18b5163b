//! Zones from primaries: one that is written here, which does everything wrong that a primary can,
//! and NSD and BIND where they are installed.

mod primary;
mod servers;
mod trouble;

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use domain::base::iana::{Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::tsig::Time48;
use domain::tsig::{ClientTransaction, Key};
use sapwood::qp::QpStore;
use sapwood_lists::transfer::{Limits, Notify, Secondary, TransferError, Zone, ZoneState, follow};
use sapwood_lists::{Loader, Meta, Options, Summary, verdict};

use primary::*;

/// A map that follows a zone.
struct Rules {
    store: QpStore<[u8]>,
    loader: Loader<'static>,
}

impl Rules {
    fn new(secondary: &Secondary) -> Self {
        Rules {
            store: QpStore::builder().build_inline().unwrap(),
            loader: Loader::new(vec![secondary.source()], Options::default()),
        }
    }

    fn load(&mut self) -> Summary {
        self.loader.reload(&self.store).unwrap()
    }

    fn blocks(&self, name: &str) -> bool {
        let snapshot = self.store.snapshot();
        let meta = Meta::of(&snapshot).unwrap();
        let key = sapwood::key::dns_name(name).unwrap();
        verdict(&snapshot, &meta, &key, 1).unwrap().is_some()
    }
}

const KEY: &str = "hmac-sha256:rpz-key:c2VjcmV0";

#[test]
fn a_zone_comes_in_messages_of_every_size_and_only_its_changes_change_the_map() {
    for (signing, chunk) in [(false, 1), (false, 100), (true, 1), (true, 3), (true, 100)] {
        let folder = tempfile::tempdir().unwrap();
        let signing = signing.then_some(KEY);
        let primary = Primary::new(
            signing.map(|_| key("rpz-key", b"secret")),
            version(7, &["a.test", "*.b.test"], chunk),
        );
        let mut secondary = primary.secondary(signing, folder.path());
        assert_eq!(secondary.state(), ZoneState::default());
        assert!(secondary.refresh().unwrap());
        assert_eq!(primary.asked(), [Rtype::SOA, Rtype::AXFR]);
        let state = secondary.state();
        assert_eq!((state.serial, state.is_expired), (Some(7), false));
        let pause = secondary.due().duration_since(Instant::now()).as_secs();
        assert!((3590..=3600).contains(&pause), "{pause}");
        let mut rules = Rules::new(&secondary);
        let summary = rules.load();
        assert_eq!((summary.added, summary.counts[0].refused), (2, 0));
        let list = &summary.meta.lists()[0].name;
        assert_eq!(list, &format!("rpz.test@{}", primary.address));
        assert!(rules.blocks("a.test") && rules.blocks("x.b.test") && !rules.blocks("b.test"));

        // Nothing is new.
        assert!(!secondary.refresh().unwrap());
        assert_eq!(primary.asked(), [Rtype::SOA]);
        assert!(rules.load().is_unchanged());

        // Without changes from the primary, the whole zone comes.
        primary.set(version(8, &["a.test", "c.test"], chunk));
        assert!(secondary.refresh().unwrap());
        assert_eq!(primary.asked(), [Rtype::SOA, Rtype::IXFR, Rtype::AXFR]);
        let summary = rules.load();
        assert_eq!((summary.added, summary.removed, summary.changed), (1, 1, 0));
        assert!(rules.blocks("c.test") && !rules.blocks("x.b.test"));

        // The copy stays for the next process.
        drop(secondary);
        let secondary = primary.secondary(signing, folder.path());
        assert_eq!(secondary.state().serial, Some(8));
        assert!(Rules::new(&secondary).load().added == 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

/// What is there of a zone: the copy and the state without the trouble.
fn kept(secondary: &Secondary, folder: &Path) -> (Vec<u8>, Option<u32>) {
    let copy = fs::read(folder.join("rpz.test.zone")).unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    (copy, secondary.state().serial)
}

#[test]
fn whatever_a_primary_does_wrong_the_old_rules_stay_and_the_trouble_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let primary = Primary::new(
        Some(key("rpz-key", b"secret")),
        version(7, &["a.test", "b.test"], 2),
    );
    let mut secondary = primary.secondary(Some(KEY), folder.path());
    secondary.refresh().unwrap();
    let mut rules = Rules::new(&secondary);
    rules.load();
    let before = kept(&secondary, folder.path());
    // Answers to the question for the whole zone of serial 8.
    let axfr = |reply: Reply| -> Answers {
        Box::new(move |rtype, _| match rtype {
            Rtype::SOA => Reply::of(vec![vec![soa(8)]]),
            Rtype::AXFR => reply.clone(),
            _ => Reply::refused(Rcode::NOTIMP),
        })
    };
    let all = |reply: Reply| -> Answers { Box::new(move |_, _| reply.clone()) };
    let good = whole(8, &["a.test", "c.test", "d.test"], 2);
    let cut = |len: usize| good[..len].to_vec();
    let flat: Vec<Rec> = good.concat();
    let with = |record: Rec| {
        let mut all = flat.clone();
        all.insert(2, record);
        Reply::of(vec![all])
    };
    let with_end = |end: Rec| {
        let mut all = flat.clone();
        all.pop();
        all.push(end);
        Reply::of(vec![all])
    };
    let behind = [flat.clone(), vec![rule("late.test")]].concat();
    let long = "x".repeat(60);
    let far = format!("{long}.other.test.");
    let cases: Vec<(&str, Answers, &str)> = vec![
        ("refused", all(Reply::refused(Rcode::REFUSED)), "REFUSED"),
        ("fails", axfr(Reply::refused(Rcode::SERVFAIL)), "SERVFAIL"),
        (
            "no authority",
            all(Reply {
                is_authority: false,
                ..Reply::of(vec![vec![soa(8)]])
            }),
            "no authority",
        ),
        ("no soa", all(Reply::of(vec![vec![]])), "no SOA"),
        ("closed", all(Reply::of(vec![])), "in the middle"),
        ("cut at once", axfr(Reply::of(vec![])), "in the middle"),
        ("cut", axfr(Reply::of(cut(1))), "in the middle"),
        (
            "cut late",
            axfr(Reply::of(cut(good.len() - 1))),
            "in the middle",
        ),
        (
            "silent",
            axfr(Reply {
                hangs: true,
                ..Reply::of(cut(1))
            }),
            "does not answer",
        ),
        ("goes back", version(6, &["z.test"], 1), "goes back"),
        (
            "goes back later",
            axfr(Reply::of(whole(5, &["z.test"], 1))),
            "goes back",
        ),
        (
            "last unsigned",
            axfr(Reply {
                unsigned_from: good.len() - 1,
                ..Reply::of(good.clone())
            }),
            "not signed",
        ),
        (
            "unsigned",
            all(Reply {
                unsigned_from: 0,
                ..Reply::of(vec![vec![soa(8)]])
            }),
            "not signed",
        ),
        (
            "outside",
            axfr(with((far, 5, wire(".")))),
            "is not in the zone",
        ),
        (
            "other soa",
            axfr(with(("x.rpz.test.".into(), 6, soa(8).2))),
            "a SOA inside",
        ),
        (
            "bad data",
            axfr(with(("x.rpz.test.".into(), 1, vec![1]))),
            "a record of x",
        ),
        (
            "question type",
            axfr(with(("x.rpz.test.".into(), 255, vec![]))),
            "the type",
        ),
        ("other end", axfr(with_end(soa(9))), "its last SOA"),
        (
            "behind its end",
            axfr(Reply::of(vec![behind])),
            "behind its end",
        ),
        (
            "no beginning",
            axfr(Reply::of(vec![flat[1..].to_vec()])),
            "does not begin",
        ),
    ];
    for (name, answers, what) in cases {
        primary.set(answers);
        let error = secondary.refresh().unwrap_err().to_string();
        assert!(error.contains(what), "{name}: {error}");
        let state = secondary.state();
        assert_eq!(state.trouble.as_deref(), Some(&*error), "{name}");
        let pause = secondary.due().duration_since(Instant::now()).as_secs();
        assert!((590..=600).contains(&pause), "{name}: {pause}");
        assert_eq!(kept(&secondary, folder.path()), before, "{name}");
        assert!(rules.load().is_unchanged(), "{name}");
    }
    // Then all is well again.
    primary.set(version(8, &["a.test", "c.test"], 2));
    assert!(secondary.refresh().unwrap());
    assert_eq!(secondary.state().trouble, None);
    assert!(rules.load().added == 1 && rules.blocks("c.test"));
}

#[test]
fn a_primary_with_another_key_or_none_at_all_or_that_is_gone_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let right = || version(7, &["a.test"], 1);
    for (theirs, ours, what) in [
        (Some(key("rpz-key", b"other")), Some(KEY), "not signed"),
        (Some(key("other", b"secret")), Some(KEY), "not signed"),
        (None, Some(KEY), "not signed"),
    ] {
        let primary = Primary::new(theirs, right());
        let mut secondary = primary.secondary(ours, folder.path());
        let error = secondary.refresh().unwrap_err();
        assert!(matches!(error, TransferError::Signature(_)), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let zone = Zone::new("rpz.test", closed.local_addr().unwrap(), None).unwrap();
    drop(closed);
    let mut secondary = Secondary::new(zone, folder.path(), limits()).unwrap();
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Network(_)), "{error}");
    // Its list cannot be read, and so no map is made without its rules.
    let loader = Loader::new(vec![secondary.source()], Options::default());
    assert!(loader.build().is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_zone_that_is_too_large_or_too_slow_or_a_file_that_is_no_copy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let primary = Primary::new(None, version(7, &["a.test", "b.test", "c.test"], 1));
    let zone = Zone::new("rpz.test", primary.address, None).unwrap();
    let small = Limits {
        bytes: 200,
        ..limits()
    };
    let mut secondary = Secondary::new(zone.clone(), folder.path(), small).unwrap();
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::TooLarge(200)), "{error}");
    // Messages without records go on for ever.
    primary.set(Box::new(|rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(7)]]),
        _ => Reply {
            hangs: true,
            ..Reply::of(vec![vec![]; 1000])
        },
    }));
    let slow = Limits {
        answer: Duration::from_secs(60),
        whole: Duration::from_millis(1000),
        ..limits()
    };
    let mut secondary = Secondary::new(zone.clone(), folder.path(), slow).unwrap();
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Slow(1)), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // What a process left that was killed goes.
    fs::write(folder.path().join("rpz.test.part"), "x").unwrap();
    let mut secondary = Secondary::new(zone.clone(), folder.path(), limits()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A serial that goes back is taken when the copy is deleted.
    for (serial, expected) in [(7, true), (5, false), (5, true)] {
        primary.set(version(serial, &["a.test"], 9));
        assert_eq!(secondary.refresh().is_ok(), expected, "{serial}");
        if !expected {
            fs::remove_file(folder.path().join("rpz.test.zone")).unwrap();
        }
    }
    assert_eq!(secondary.state().serial, Some(5));
    fs::write(folder.path().join("rpz.test.zone"), "a.test\n").unwrap();
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Copy { .. }), "{error}");
    let error = Secondary::new(zone, folder.path(), limits()).err().unwrap();
    assert!(error.to_string().contains("does not begin with"), "{error}");
}

/// Names of versions that follow each other at random.
fn versions(random: &mut fastrand::Rng, count: usize) -> Vec<BTreeSet<u32>> {
    let mut all: Vec<BTreeSet<u32>> = vec![(0..200).collect()];
    for _ in 1..count {
        let mut next = all[all.len() - 1].clone();
        for _ in 0..random.usize(0..20) {
            let name = random.u32(0..300);
            if !next.remove(&name) {
                next.insert(name);
            }
        }
        all.push(next);
    }
    all
}

fn rules_of(names: &BTreeSet<u32>) -> Vec<Rec> {
    names
        .iter()
        .map(|name| rule(&format!("n{name}.test")))
        .collect()
}

/// The changes from one version to the last one, as they are transferred.
fn changes(versions: &[BTreeSet<u32>], first: u32, since: usize) -> Vec<Rec> {
    let serial = |number: usize| soa(first.wrapping_add(number as u32));
    let last = versions.len() - 1;
    let mut all = vec![serial(last)];
    for number in since..last {
        let (old, new) = (&versions[number], &versions[number + 1]);
        all.push(serial(number));
        all.extend(rules_of(&(old - new)));
        all.push(serial(number + 1));
        all.extend(rules_of(&(new - old)));
    }
    all.push(serial(last));
    all
}

fn lines(folder: &Path) -> BTreeSet<String> {
    let copy = fs::read_to_string(folder.join("rpz.test.zone")).unwrap();
    copy.lines().map(String::from).collect()
}

#[test]
fn changes_of_many_versions_make_the_copy_that_the_whole_zone_makes() {
    let mut random = fastrand::Rng::with_seed(37);
    for round in 0..30 {
        // Serials go around.
        let first = u32::MAX - 3;
        let versions = Arc::new(versions(&mut random, 8));
        let (since, chunk) = (random.usize(0..7), random.usize(1..60));
        let folder = tempfile::tempdir().unwrap();
        let upto = |last: usize| -> Answers {
            let versions = Arc::clone(&versions);
            Box::new(move |rtype, had| {
                let has = first.wrapping_add(last as u32);
                let records = match (rtype, had) {
                    (Rtype::SOA, _) => vec![soa(has)],
                    (Rtype::IXFR, Some(had)) => {
                        let since = had.wrapping_sub(first) as usize;
                        changes(&versions[..=last], first, since)
                    }
                    _ => [vec![soa(has)], rules_of(&versions[last]), vec![soa(has)]].concat(),
                };
                Reply::of(records.chunks(chunk).map(<[Rec]>::to_vec).collect())
            })
        };
        let primary = Primary::new(None, upto(since));
        let mut secondary = primary.secondary(None, folder.path());
        secondary.refresh().unwrap();
        primary.asked();
        primary.set(upto(7));
        assert!(secondary.refresh().unwrap());
        assert_eq!(primary.asked(), [Rtype::SOA, Rtype::IXFR], "{round}");
        let other = tempfile::tempdir().unwrap();
        primary.secondary(None, other.path()).refresh().unwrap();
        assert_eq!(lines(folder.path()), lines(other.path()), "{round}");
        let names = Rules::new(&secondary).load().added;
        assert_eq!(names, versions[7].len() as u64, "{round}");
    }
}

#[test]
fn changes_that_do_not_fit_are_passed_over_for_the_whole_zone() {
    let [a, b, c] = ["a.test", "b.test", "c.test"].map(rule);
    let cases: Vec<(&str, Vec<Rec>)> = vec![
        (
            "goes, not there",
            vec![soa(8), soa(7), c.clone(), soa(8), soa(8)],
        ),
        (
            "comes, is there",
            vec![soa(8), soa(7), soa(8), a.clone(), soa(8)],
        ),
        (
            "goes twice",
            vec![soa(8), soa(7), a.clone(), a.clone(), soa(8), soa(8)],
        ),
        (
            "comes twice",
            vec![soa(8), soa(7), soa(8), c.clone(), c.clone(), soa(8)],
        ),
        (
            "of another version",
            vec![soa(8), soa(6), soa(8), c.clone(), soa(8)],
        ),
        ("backwards", vec![soa(8), soa(7), b.clone(), soa(6), soa(8)]),
        (
            "a gap",
            vec![soa(9), soa(7), soa(8), c.clone(), soa(5), soa(9), soa(9)],
        ),
        (
            "behind the end",
            vec![soa(8), soa(7), soa(8), c.clone(), soa(8), b.clone()],
        ),
    ];
    for (name, records) in cases {
        let folder = tempfile::tempdir().unwrap();
        let primary = Primary::new(None, version(7, &["a.test", "b.test"], 9));
        let mut secondary = primary.secondary(None, folder.path());
        secondary.refresh().unwrap();
        primary.asked();
        primary.set(Box::new(move |rtype, _| match rtype {
            Rtype::SOA => Reply::of(vec![vec![soa(8)]]),
            Rtype::IXFR => Reply::of(vec![records.clone()]),
            _ => Reply::of(whole(8, &["b.test", "z.test"], 1)),
        }));
        assert!(secondary.refresh().unwrap(), "{name}");
        let asked = primary.asked();
        assert_eq!(asked, [Rtype::SOA, Rtype::IXFR, Rtype::AXFR], "{name}");
        let mut rules = Rules::new(&secondary);
        rules.load();
        assert!(rules.blocks("z.test") && !rules.blocks("a.test"), "{name}");
    }
    // More changes than may be in memory.
    let folder = tempfile::tempdir().unwrap();
    let primary = Primary::new(None, version(7, &["a.test"], 9));
    let zone = Zone::new("rpz.test", primary.address, None).unwrap();
    let small = Limits {
        changes: 100,
        ..limits()
    };
    let mut secondary = Secondary::new(zone, folder.path(), small).unwrap();
    secondary.refresh().unwrap();
    primary.set(Box::new(|rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(8)]]),
        Rtype::IXFR => Reply::of(vec![vec![
            soa(8),
            soa(7),
            soa(8),
            rule("y.test"),
            rule("z.test"),
            soa(8),
        ]]),
        _ => Reply::of(whole(8, &["x.test"], 1)),
    }));
    primary.asked();
    assert!(secondary.refresh().unwrap());
    let asked = primary.asked();
    assert_eq!(asked, [Rtype::SOA, Rtype::IXFR, Rtype::AXFR]);
    assert_eq!(secondary.state().transfers, (2, 0));
    // A primary may answer with all of the zone.
    let folder = tempfile::tempdir().unwrap();
    let primary = Primary::new(None, version(7, &["a.test"], 9));
    let mut secondary = primary.secondary(None, folder.path());
    secondary.refresh().unwrap();
    primary.set(Box::new(|rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(8)]]),
        _ => Reply::of(whole(8, &["y.test"], 2)),
    }));
    primary.asked();
    assert!(secondary.refresh().unwrap());
    assert_eq!(primary.asked(), [Rtype::SOA, Rtype::IXFR]);
    // Changes that are cut change nothing.
    primary.set(Box::new(|rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(9)]]),
        _ => Reply::of(vec![vec![soa(9), soa(8), rule("y.test")]]),
    }));
    let before = kept(&secondary, folder.path());
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Cut), "{error}");
    assert_eq!(kept(&secondary, folder.path()), before);
}

#[test]
fn damaged_messages_leave_the_copy_as_it_was() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..300 {
        let folder = tempfile::tempdir().unwrap();
        let primary = Primary::new(None, version(7, &["a.test", "b.test"], 9));
        let mut secondary = primary.secondary(None, folder.path());
        secondary.refresh().unwrap();
        let before = kept(&secondary, folder.path());
        primary.set(Box::new(move |rtype, _| {
            let reply = match rtype {
                Rtype::SOA => return Reply::of(vec![vec![soa(8)]]),
                Rtype::IXFR => Reply::of(vec![vec![
                    soa(8),
                    soa(7),
                    rule("a.test"),
                    soa(8),
                    rule("c.test"),
                    soa(8),
                ]]),
                _ => Reply::of(whole(8, &["b.test", "c.test"], 3)),
            };
            Reply {
                damage: Some(seed),
                ..reply
            }
        }));
        match secondary.refresh() {
            Err(_) => {
                refused += 1;
                assert_eq!(kept(&secondary, folder.path()), before, "{seed}");
            }
            // What was hit is a part of a name, a time or a serial.
            Ok(_) => {
                taken += 1;
                assert!(!lines(folder.path()).is_empty(), "{seed}");
                primary.secondary(None, folder.path());
            }
        }
    }
    assert!(
        refused > 50 && taken > 0,
        "{refused} refused, {taken} taken"
    );
}

/// Waits for what a thread tells.
fn told(told: &mpsc::Receiver<(bool, ZoneState)>) -> (bool, ZoneState) {
    told.recv_timeout(Duration::from_secs(20)).unwrap()
}

#[test]
fn expired_rules_stay_unless_they_shall_go_and_come_back_with_the_primary() {
    for withdraw in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let short = |serial| soa_with(serial, [1, 1, 2]);
        let answers = move |serial: u32| -> Answers {
            Box::new(move |rtype, _| match rtype {
                Rtype::SOA => Reply::of(vec![vec![short(serial)]]),
                _ => Reply::of(vec![vec![short(serial), rule("a.test"), short(serial)]]),
            })
        };
        let primary = Primary::new(None, answers(7));
        let mut secondary = primary.secondary(None, folder.path());
        secondary.refresh().unwrap();
        let mut rules = Rules::new(&secondary);
        rules.load();
        primary.set(Box::new(|_, _| Reply::refused(Rcode::REFUSED)));
        let (tell, all) = mpsc::channel();
        let followed = follow(secondary, withdraw, move |is_new, state| {
            let _ = tell.send((is_new, state.clone()));
        })
        .unwrap();
        let (is_new, state) = told(&all);
        assert!(!is_new && !state.is_expired && state.trouble.is_some());
        let (is_new, state) = told(&all);
        assert_eq!((is_new, state.is_expired), (withdraw, true));
        rules.load();
        assert_eq!(rules.blocks("a.test"), !withdraw);
        primary.set(answers(7));
        let (is_new, state) = told(&all);
        assert_eq!(
            (is_new, state.is_expired, state.trouble),
            (withdraw, false, None)
        );
        assert_eq!(followed.state().serial, Some(7));
        rules.load();
        assert!(rules.blocks("a.test"));
    }
}

/// A NOTIFY for a zone, signed or not.
fn notify(zone: &str, with: Option<&Arc<Key>>) -> (Vec<u8>, Option<ClientTransaction<Arc<Key>>>) {
    let mut message = MessageBuilder::new_vec().question();
    message.header_mut().set_opcode(Opcode::NOTIFY);
    message.header_mut().set_id(77);
    let zone: Name<Vec<u8>> = zone.parse().unwrap();
    message.push((zone, Rtype::SOA)).unwrap();
    let mut message = message.additional();
    let signed = with.map(|key| {
        ClientTransaction::request(Arc::clone(key), &mut message, Time48::now()).unwrap()
    });
    (message.finish(), signed)
}

#[test]
fn a_notify_of_the_primary_wakes_the_zone_and_others_do_not() {
    for signing in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let ours = signing.then(|| key("rpz-key", b"secret"));
        let primary = Primary::new(ours.clone(), version(7, &["a.test"], 9));
        let mut secondary = primary.secondary(signing.then_some(KEY), folder.path());
        secondary.refresh().unwrap();
        let (tell, all) = mpsc::channel();
        let followed = follow(secondary, false, move |is_new, state| {
            let _ = tell.send((is_new, state.clone()));
        });
        let zones = [followed.unwrap()];
        let listening = Notify::listen("127.0.0.1:0".parse().unwrap(), &zones).unwrap();
        let udp = |from: &str, message: &[u8]| {
            let socket = UdpSocket::bind(from).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(1)))
                .unwrap();
            socket.send_to(message, listening.address()).unwrap();
            let mut bytes = [0; 512];
            let len = socket.recv(&mut bytes).ok()?;
            Some(Message::from_octets(bytes[..len].to_vec()).unwrap())
        };
        primary.asked();
        // From another address, for another zone, with another key or none: no answer.
        let (good, _) = notify("rpz.test.", ours.as_ref());
        assert!(udp("127.0.0.2:0", &good).is_none());
        assert!(udp("127.0.0.1:0", &notify("other.test.", ours.as_ref()).0).is_none());
        assert!(udp("127.0.0.1:0", b"x").is_none());
        if signing {
            let wrong = key("rpz-key", b"other");
            assert!(udp("127.0.0.1:0", &notify("rpz.test.", Some(&wrong)).0).is_none());
            assert!(udp("127.0.0.1:0", &notify("rpz.test.", None).0).is_none());
        }
        assert!(primary.asked().is_empty());

        primary.set(version(8, &["b.test"], 9));
        let (message, signed) = notify("RPZ.test.", ours.as_ref());
        let mut answer = udp("127.0.0.1:0", &message).unwrap();
        if let Some(signed) = signed {
            signed.answer(&mut answer, Time48::now()).unwrap();
        }
        let header = answer.header();
        assert!(header.qr() && header.aa() && header.id() == 77);
        assert_eq!(
            (header.opcode(), header.rcode()),
            (Opcode::NOTIFY, Rcode::NOERROR)
        );
        let (is_new, state) = told(&all);
        assert_eq!((is_new, state.serial), (true, Some(8)));

        primary.set(version(9, &["c.test"], 9));
        let mut stream = TcpStream::connect(listening.address()).unwrap();
        send(&mut stream, &notify("rpz.test.", ours.as_ref()).0).unwrap();
        assert!(receive(&mut stream).unwrap().header().qr());
        assert_eq!(told(&all).1.serial, Some(9));
    }
}

#[test]
fn zones_are_read_as_they_are_written() {
    for (text, shown) in [
        ("rpz.test@192.0.2.1", "rpz.test@192.0.2.1:53"),
        ("Rpz.Test.@192.0.2.1:5", "rpz.test@192.0.2.1:5"),
        ("a@2001:db8::1", "a@[2001:db8::1]:53"),
        ("a@[2001:db8::1]:5", "a@[2001:db8::1]:5"),
    ] {
        assert_eq!(text.parse::<Zone>().unwrap().to_string(), shown);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, KEY).unwrap();
    let zone: Zone = format!("a@192.0.2.1,key={}", path.display())
        .parse()
        .unwrap();
    assert!(format!("{zone:?}").contains("TransferKey(rpz-key)"));
    for (text, what) in [
        ("rpz.test", "NAME@ADDRESS"),
        ("rpz.test@host", "\"host\" is no ADDRESS"),
        (".@192.0.2.1", "the root"),
        ("a..b@192.0.2.1", "no zone"),
        ("a@192.0.2.1,keys=x", "is not key=FILE"),
        ("a@192.0.2.1,key=", "is not key=FILE"),
        (
            "a@192.0.2.1,key=/no/such/file",
            "cannot read a key from /no/such/file",
        ),
    ] {
        let error = text.parse::<Zone>().unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
}
