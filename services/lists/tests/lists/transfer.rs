//! Zones from primaries: one that is written here, which does everything wrong that a primary can,
//! and NSD and BIND where they are installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::rdata::UnknownRecordData;
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, ClientTransaction, Key, ServerSequence};
use sapwood::qp::QpStore;
use sapwood_lists::transfer::{
    Limits, Notify, Secondary, TransferError, TransferKey, Zone, ZoneState, follow,
};
use sapwood_lists::{Loader, Meta, Options, Summary, verdict};
use tempfile::TempDir;

/// A record: its name, type and data.
type Rec = (String, u16, Vec<u8>);

/// What a primary answers.
#[derive(Clone)]
struct Reply {
    rcode: Rcode,
    is_authority: bool,
    messages: Vec<Vec<Rec>>,
    /// Messages from this one on have no signature.
    unsigned_from: usize,
    /// Whether it says nothing more after its messages, instead of closing the connection.
    hangs: bool,
}

impl Reply {
    fn of(messages: Vec<Vec<Rec>>) -> Self {
        Reply {
            rcode: Rcode::NOERROR,
            is_authority: true,
            messages,
            unsigned_from: usize::MAX,
            hangs: false,
        }
    }

    fn refused(rcode: Rcode) -> Self {
        Reply {
            rcode,
            ..Reply::of(vec![vec![]])
        }
    }
}

type Answers = Box<dyn FnMut(Rtype, Option<u32>) -> Reply + Send>;

/// A primary in threads of this process.
struct Primary {
    address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<Rtype>>>,
}

fn key(name: &str, secret: &[u8]) -> Arc<Key> {
    let name = name.parse().unwrap();
    Arc::new(Key::new(Algorithm::Sha256, secret, name, None, None).unwrap())
}

impl Primary {
    fn new(key: Option<Arc<Key>>, answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let primary = Primary {
            address: listener.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(answers)),
            asked: Arc::default(),
        };
        let (answers, asked) = (Arc::clone(&primary.answers), Arc::clone(&primary.asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                let key = key.clone();
                thread::spawn(move || {
                    // The other side may go at any time.
                    let _ = serve(stream, key, &answers, &asked);
                });
            }
        });
        primary
    }

    fn set(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
    }

    /// The questions since the last call.
    fn asked(&self) -> Vec<Rtype> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn secondary(&self, key: Option<&str>, folder: &Path) -> Secondary {
        let key = key.map(|text| TransferKey::parse(text).unwrap());
        let zone = Zone::new("rpz.test", self.address, key).unwrap();
        Secondary::new(zone, folder, limits()).unwrap()
    }
}

fn limits() -> Limits {
    Limits {
        answer: Duration::from_millis(700),
        whole: Duration::from_secs(3),
        pause: (Duration::from_millis(50), Duration::from_secs(3600)),
        ..Limits::default()
    }
}

fn send(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(message.len() as u16).to_be_bytes())?;
    stream.write_all(message)
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Message<Vec<u8>>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut bytes = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut bytes)?;
    Ok(Message::from_octets(bytes).unwrap())
}

fn serve(
    mut stream: TcpStream,
    key: Option<Arc<Key>>,
    answers: &Mutex<Answers>,
    asked: &Mutex<Vec<Rtype>>,
) -> std::io::Result<()> {
    let mut message = receive(&mut stream)?;
    let mut signed = None;
    if let Some(key) = &key {
        match ServerSequence::request(key, &mut message, Time48::now()) {
            Ok(sequence) => signed = sequence,
            Err(error) => {
                let answer = error.build_message(&message, MessageBuilder::new_vec());
                return send(&mut stream, answer.unwrap().as_slice());
            }
        }
    }
    let rtype = message.sole_question().unwrap().qtype();
    let since = message.authority().unwrap().next().map(|record| {
        let record = record.unwrap();
        let data: UnknownRecordData<&[u8]> = record.to_record().unwrap().unwrap().into_data();
        let numbers = data.data().len() - 20;
        u32::from_be_bytes(data.data()[numbers..numbers + 4].try_into().unwrap())
    });
    asked.lock().unwrap().push(rtype);
    let reply = (answers.lock().unwrap())(rtype, since);
    for (number, records) in reply.messages.iter().enumerate() {
        let mut answer = MessageBuilder::new_vec()
            .start_answer(&message, reply.rcode)
            .unwrap();
        answer.header_mut().set_aa(reply.is_authority);
        for (name, rtype, data) in records {
            let name: Name<Vec<u8>> = name.parse().unwrap();
            let data = UnknownRecordData::from_octets(Rtype::from_int(*rtype), &data[..]).unwrap();
            answer
                .push((name, Class::IN, Ttl::from_secs(60), data))
                .unwrap();
        }
        let mut answer = answer.additional();
        if let Some(signed) = signed.as_mut().filter(|_| number < reply.unsigned_from) {
            signed.answer(&mut answer, Time48::now()).unwrap();
        }
        send(&mut stream, answer.as_slice())?;
    }
    if reply.hangs {
        thread::sleep(Duration::from_secs(5));
    }
    Ok(())
}

fn wire(name: &str) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().unwrap();
    name.as_slice().to_vec()
}

fn soa_with(serial: u32, times: [u32; 3]) -> Rec {
    let mut data = [wire("ns.rpz.test."), wire("mail.rpz.test.")].concat();
    for number in [serial, times[0], times[1], times[2], 60] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    ("rpz.test.".into(), 6, data)
}

fn soa(serial: u32) -> Rec {
    soa_with(serial, [3600, 600, 86400])
}

/// A rule that blocks a name.
fn rule(name: &str) -> Rec {
    (format!("{name}.rpz.test."), 5, wire("."))
}

/// A zone with these names, as it is transferred, so many records in a message.
fn whole(serial: u32, names: &[&str], chunk: usize) -> Vec<Vec<Rec>> {
    let mut all = vec![soa(serial), ("rpz.test.".into(), 2, wire("ns.rpz.test."))];
    all.extend(names.iter().map(|name| rule(name)));
    all.push(soa(serial));
    all.chunks(chunk).map(<[Rec]>::to_vec).collect()
}

/// A primary's answers about one version, without changes.
fn version(serial: u32, names: &'static [&'static str], chunk: usize) -> Answers {
    Box::new(move |rtype, _| match rtype {
        Rtype::SOA => Reply::of(vec![vec![soa(serial)]]),
        Rtype::AXFR => Reply::of(whole(serial, names, chunk)),
        _ => Reply::refused(Rcode::NOTIMP),
    })
}

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
    fs::write(folder.path().join("rpz.test.zone"), "a.test\n").unwrap();
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

/// A server that is killed at the end of a test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a program of Debian is, or a line that says that it is missing.
fn program(name: &str) -> Option<String> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
    let found = places.map(|place| format!("{place}/{name}"));
    let found = found.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("skipped: zones from {name}; it is not installed");
    }
    found
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

const SECRET_OF_SERVERS: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0";

/// A zone file of many rules.
fn zone_file(serial: u32, names: std::ops::Range<u32>) -> String {
    let mut text = format!(
        "$TTL 60\n@ IN SOA ns.rpz.test. mail.rpz.test. {serial} 3600 600 86400 60\n  IN NS ns\n\
         ns IN A 127.0.0.1\n"
    );
    for name in names {
        text += &format!("n{name}.Example CNAME .\n*.n{name}.example CNAME rpz-drop.\n");
    }
    text + "data.example TXT \"x ; y\" \"z\"\ndata.example AAAA 2001:db8::1\n"
}

/// Follows a server through two versions. `change` makes it read its zone file again.
fn follows_a_server(folder: &TempDir, port: u16, change: impl Fn()) {
    let text = format!("hmac-sha256:rpz-key:{SECRET_OF_SERVERS}");
    let zone = |key: &str| {
        let key = TransferKey::parse(key).unwrap();
        let primary = SocketAddr::from(([127, 0, 0, 1], port));
        Zone::new("rpz.test", primary, Some(key)).unwrap()
    };
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).unwrap();
    let limits = Limits {
        answer: Duration::from_secs(10),
        whole: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut secondary = Secondary::new(zone(&text), &copies, limits.clone()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = secondary.refresh() {
        assert!(Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(200));
    }
    let mut rules = Rules::new(&secondary);
    let summary = rules.load();
    // Names in capitals are the same; the address of the name server is a rule for "ns".
    assert_eq!((summary.added, summary.counts[0].refused), (3002, 0));
    assert!(rules.blocks("n2999.example") && rules.blocks("x.n7.example"));

    fs::write(folder.path().join("zone"), zone_file(8, 10..3010)).unwrap();
    change();
    let until = Instant::now() + Duration::from_secs(20);
    while secondary.state().serial != Some(8) {
        assert!(Instant::now() < until, "{:?}", secondary.state());
        thread::sleep(Duration::from_millis(200));
        secondary.refresh().unwrap();
    }
    let summary = rules.load();
    assert_eq!(
        (summary.added, summary.removed, summary.changed),
        (10, 10, 0)
    );
    assert!(rules.blocks("n3009.example") && !rules.blocks("n9.example"));
    // What came by changes is what comes as a whole.
    assert_eq!(secondary.state().transfers, (1, 1));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let mut whole = Secondary::new(zone(&text), &other, limits.clone()).unwrap();
    whole.refresh().unwrap();
    assert_eq!(lines(&copies), lines(&other));

    // Without its key, the server gives nothing.
    let wrong = zone("hmac-sha256:rpz-key:b3RoZXI=");
    let mut wrong = Secondary::new(wrong, &copies, limits).unwrap();
    let error = wrong.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Signature(_)), "{error}");
    assert_eq!(lines(&copies), lines(&other));
}

#[test]
fn zones_come_from_nsd() {
    let Some(nsd) = program("nsd") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let port = free_port();
    fs::write(folder.path().join("zone"), zone_file(7, 0..3000)).unwrap();
    let config = format!(
        "server:\n  ip-address: 127.0.0.1\n  port: {port}\n  username: \"\"\n  chroot: \"\"\n  \
         zonesdir: \"{at}\"\n  pidfile: \"{at}/pid\"\n  database: \"\"\n  \
         xfrdfile: \"{at}/xfrd\"\n  xfrdir: \"{at}\"\n  zonelistfile: \"{at}/list\"\n  \
         cookie-secret-file: \"\"\n\
         remote-control:\n  control-enable: no\n\
         key:\n  name: rpz-key\n  algorithm: hmac-sha256\n  secret: \"{SECRET_OF_SERVERS}\"\n\
         zone:\n  name: rpz.test\n  zonefile: zone\n  provide-xfr: 127.0.0.1 rpz-key\n  \
         store-ixfr: yes\n  create-ixfr: yes\n"
    );
    fs::write(folder.path().join("conf"), config).unwrap();
    let server = Command::new(nsd)
        .args(["-d", "-c"])
        .arg(folder.path().join("conf"))
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    follows_a_server(&folder, port, || hang_up(&server));
}

fn hang_up(server: &Server) {
    let sent = Command::new("kill")
        .args(["-HUP", &server.0.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn zones_come_from_bind() {
    let Some(named) = program("named") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let port = free_port();
    fs::write(folder.path().join("zone"), zone_file(7, 0..3000)).unwrap();
    let config = format!(
        "options {{ directory \"{at}\"; listen-on port {port} {{ 127.0.0.1; }}; \
         listen-on-v6 {{ none; }}; pid-file \"{at}/pid\"; session-keyfile \"{at}/session\"; \
         recursion no; notify no; dnssec-validation no; }};\n\
         controls {{ }};\n\
         key \"rpz-key\" {{ algorithm hmac-sha256; secret \"{SECRET_OF_SERVERS}\"; }};\n\
         zone \"rpz.test\" {{ type primary; file \"{at}/zone\"; \
         allow-transfer {{ key rpz-key; }}; ixfr-from-differences yes; }};\n"
    );
    fs::write(folder.path().join("conf"), config).unwrap();
    let server = Command::new(named)
        .args(["-g", "-c"])
        .arg(folder.path().join("conf"))
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    follows_a_server(&folder, port, || hang_up(&server));
}
