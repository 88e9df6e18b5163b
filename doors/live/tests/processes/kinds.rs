//! Live maps of each kind, single changes: writers and readers are killed at random points.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood::route::{Decision, Group, NullRoute};
use sapwood_live::{CheckedLiveReader, CheckedMap, Error, Live, LiveReader, Routes};
use sapwood_qsbr::Domain;

use crate::beside::{Beside, folder, last};

/// Keys below this change.
const KEYS: u64 = 500;
/// The keys from there to this one stay as they are; their values are the keys themselves.
const STABLE: u64 = 700;
/// The value of this key is the number of changes that were made.
const COUNT: u64 = STABLE;

/// The age at which checked readers are evicted.
const AGE: Duration = Duration::from_millis(5);

/// A structure whose keys and values are numbers.
pub trait Subject: CheckedMap {
    const NAME: &'static str;

    /// The writer's change of a key: a new value, or a removal.
    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error>;

    /// All entries, read in the writer's process.
    fn all(&self) -> BTreeMap<u64, u64>;

    /// A lookup by a reader.
    fn get(view: &Self::View<'_>, key: u64) -> Option<u64>;

    /// All keys of a walk by a reader, as it gives them; none where views have no walk.
    fn walk(view: &Self::View<'_>) -> Vec<(u64, u64)>;

    /// A lookup by a checked reader.
    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error>;

    /// Whether the walk is in order.
    const ORDERED: bool;

    fn domain(&self) -> &Domain;
    fn reclaim(&self);
    fn verify(&self);

    /// Choices with which an empty structure takes some kilobytes.
    fn small(builder: Self::Builder) -> Self::Builder {
        builder
    }

    /// A part of a compaction, where the structure has one beside readers.
    fn compact(&self) -> Result<(), sapwood::Error> {
        Ok(())
    }
}

fn name(key: u64) -> String {
    format!("{key:05} {}", "x".repeat(key as usize % 40))
}

fn number(name: &[u8]) -> u64 {
    std::str::from_utf8(&name[..5]).unwrap().parse().unwrap()
}

macro_rules! shared {
    ($map:ident, $name:literal, $ordered:literal, { $($compact:tt)* }) => {
        impl Subject for $map<u64> {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;

            fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
                match value {
                    Some(value) => drop(self.insert(name(key), value).map_err(|no| no.error)?),
                    None => drop(self.remove(name(key))?),
                }
                Ok(())
            }

            fn all(&self) -> BTreeMap<u64, u64> {
                self.read(|view| view.iter().map(|(k, v)| (number(&k), *v)).collect())
            }

            fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
                let found = view.get(name(key)).copied();
                let mut many = [None; 2];
                // A key that is not there, too.
                view.get_many(&[name(key), format!("{key} never")], &mut many);
                assert!(many[1].is_none());
                found
            }

            fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
                view.get(name(key))
            }

            fn walk(view: &Self::View<'_>) -> Vec<(u64, u64)> {
                view.iter().map(|(k, v)| (number(&k), *v)).collect()
            }

            fn domain(&self) -> &Domain {
                $map::domain(self)
            }

            fn reclaim(&self) {
                $map::reclaim(self, usize::MAX);
            }

            fn verify(&self) {
                $map::verify(self).unwrap();
            }

            $($compact)*
        }
    };
}
shared!(QpShared, "shared", true, {
    fn compact(&self) -> Result<(), sapwood::Error> {
        Ok(self.compact_step(50).map(drop)?)
    }
});
shared!(PointMap, "point", false, {});

impl Subject for QpStore<u64> {
    const NAME: &'static str = "store";
    const ORDERED: bool = true;

    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
        let mut txn = self.begin();
        match value {
            Some(value) => drop(txn.insert(name(key), value).map_err(|no| no.error)?),
            None => drop(txn.remove(name(key))?),
        }
        txn.commit();
        Ok(())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        let snapshot = self.snapshot();
        snapshot.iter().map(|(k, v)| (number(&k), *v)).collect()
    }

    fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
        view.get(name(key)).copied()
    }

    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
        view.get(name(key))
    }

    fn walk(view: &Self::View<'_>) -> Vec<(u64, u64)> {
        view.iter().map(|(k, v)| (number(&k), *v)).collect()
    }

    fn domain(&self) -> &Domain {
        QpStore::domain(self)
    }

    fn reclaim(&self) {
        QpStore::reclaim(self, usize::MAX);
    }

    fn verify(&self) {
        QpStore::verify(self).unwrap();
    }

    fn compact(&self) -> Result<(), sapwood::Error> {
        Ok(self.compact_step(50).map(drop)?)
    }
}

/// Prefixes of several lengths, none twice.
fn v4(key: u64) -> Ipv4Net {
    let bits = (key as u32) << 12 | 0x8000_0000;
    Ipv4Net::new(bits.into(), 20 + (key % 13) as u8)
        .unwrap()
        .trunc()
}

fn v6(key: u64) -> Ipv6Net {
    let bits = u128::from(key) << 80 | 0x2001 << 112;
    Ipv6Net::new(bits.into(), 48 + (key % 81) as u8)
        .unwrap()
        .trunc()
}

fn net(key: u64) -> IpNet {
    match key % 2 {
        0 => v4(key).into(),
        _ => v6(key).into(),
    }
}

/// The key of a prefix.
fn key_of(net: IpNet) -> u64 {
    match net.addr() {
        IpAddr::V4(addr) => u64::from(u32::from(addr) & 0x7fff_ffff) >> 12,
        IpAddr::V6(addr) => (u128::from(addr) >> 80) as u64 & 0xffff_ffff,
    }
}

impl Subject for Ipv4Fib<u64> {
    const NAME: &'static str = "fib4";
    const ORDERED: bool = true;

    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
        match value {
            Some(value) => drop(self.insert(v4(key), value).map_err(|no| no.error)?),
            None => drop(self.remove(v4(key))?),
        }
        Ok(())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        let snapshot = self.snapshot();
        (snapshot
            .iter()
            .map(|(net, value)| (key_of(net.into()), *value)))
        .collect()
    }

    fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
        let (net, value) = view.lookup(v4(key).addr())?;
        (net == v4(key)).then_some(*value)
    }

    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
        let found = view.lookup(v4(key).addr())?;
        let found = found.filter(|(len, _)| *len == v4(key).prefix_len());
        Ok(found.map(|(_, value)| value))
    }

    fn walk(_: &Self::View<'_>) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn domain(&self) -> &Domain {
        Ipv4Fib::domain(self)
    }

    fn reclaim(&self) {
        Ipv4Fib::reclaim(self, usize::MAX);
    }

    fn verify(&self) {
        Ipv4Fib::verify(self).unwrap();
    }

    fn small(builder: Self::Builder) -> Self::Builder {
        builder.root_bits(12)
    }

    fn compact(&self) -> Result<(), sapwood::Error> {
        Ok(self.compact_step(50).map(drop)?)
    }
}

impl Subject for IpFib<u64> {
    const NAME: &'static str = "fib";
    const ORDERED: bool = true;

    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
        match value {
            Some(value) => drop(self.insert(net(key), value).map_err(|no| no.error)?),
            None => drop(self.remove(net(key))?),
        }
        Ok(())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        let snapshot = self.snapshot();
        (snapshot.iter().map(|(net, value)| (key_of(net), *value))).collect()
    }

    fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
        let (found, value) = view.lookup(net(key).addr())?;
        (found == net(key)).then_some(*value)
    }

    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
        let found = view.lookup(net(key).addr())?;
        let found = found.filter(|(len, _)| *len == net(key).prefix_len());
        Ok(found.map(|(_, value)| value))
    }

    fn walk(_: &Self::View<'_>) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn domain(&self) -> &Domain {
        IpFib::domain(self)
    }

    fn reclaim(&self) {
        self.v4().reclaim(usize::MAX);
        self.v6().reclaim(usize::MAX);
    }

    fn verify(&self) {
        IpFib::verify(self).unwrap();
    }

    fn small(builder: Self::Builder) -> Self::Builder {
        builder.root_bits(12)
    }
}

/// A group that shows a number. Many numbers have the same other members.
fn group(value: u64) -> Group<u64> {
    Group::new([(value, 1), (1 << 40, 2), (2 << 40, value as u32 % 3)])
}

fn value_of(members: impl Iterator<Item = (u64, u32)>) -> u64 {
    let members: Vec<_> = members.collect();
    let (value, _) = members.iter().min().unwrap();
    assert_eq!(members.len(), 3);
    *value
}

impl Subject for Routes<u64> {
    const NAME: &'static str = "routes";
    const ORDERED: bool = true;

    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
        match value {
            Some(value) => drop(self.insert(net(key), &group(value))?),
            None => drop(self.remove(net(key))?),
        }
        Ok(())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        let entry = |(net, group): (IpNet, Group<u64>)| {
            let members = group.members().map(|(hop, weight)| (*hop, weight));
            (key_of(net), value_of(members))
        };
        self.entries().into_iter().map(entry).collect()
    }

    fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
        let (found, packed) = view.route(net(key).addr())?;
        if found != net(key) {
            return None;
        }
        let value = value_of(packed.members());
        let chosen = packed.member(key).unwrap();
        assert_eq!(Some(&chosen), group(value).member(key));
        Some(value)
    }

    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
        let found = view.route(net(key).addr())?;
        let found = found.filter(|(len, _)| *len == net(key).prefix_len());
        Ok(found.map(|(_, group)| value_of(group.members().map(|(hop, weight)| (*hop, weight)))))
    }

    fn walk(_: &Self::View<'_>) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn domain(&self) -> &Domain {
        Routes::domain(self)
    }

    fn reclaim(&self) {
        Routes::reclaim(self, usize::MAX);
    }

    fn verify(&self) {
        Routes::verify(self).unwrap();
    }

    fn small(builder: Self::Builder) -> Self::Builder {
        builder.root_bits(12)
    }
}

/// The range of a key.
fn range(key: u64) -> std::ops::RangeInclusive<u64> {
    key * 100 + 10..=key * 100 + 10 + key % 50
}

impl Subject for MapleMap<u64> {
    const NAME: &'static str = "ranges";
    const ORDERED: bool = true;

    fn set(&self, key: u64, value: Option<u64>) -> Result<(), sapwood::Error> {
        match value {
            Some(value) => self.store(range(key), value).map_err(|no| no.error)?,
            None => self.remove(*range(key).start()).map(|_| ())?,
        }
        Ok(())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        let entry = |(found, value): (std::ops::RangeInclusive<u64>, u64)| {
            let key = found.start() / 100;
            assert_eq!(found, range(key));
            (key, value)
        };
        self.iter().map(entry).collect()
    }

    fn get(view: &Self::View<'_>, key: u64) -> Option<u64> {
        let inside = range(key).start() + key % 7 % (key % 50 + 1);
        let (found, value) = view.get_entry(inside)?;
        assert_eq!(found, range(key));
        Some(*value)
    }

    fn ask(view: &Self::Checked<'_>, key: u64) -> Result<Option<u64>, Error> {
        let found = view.get(*range(key).end())?;
        Ok(found.map(|(found, value)| {
            assert_eq!(found, range(key));
            value
        }))
    }

    fn walk(view: &Self::View<'_>) -> Vec<(u64, u64)> {
        let entries = view.iter();
        entries
            .map(|(range, value)| (range.start() / 100, *value))
            .collect()
    }

    fn domain(&self) -> &Domain {
        MapleMap::domain(self)
    }

    fn reclaim(&self) {
        MapleMap::reclaim(self, usize::MAX);
    }

    fn verify(&self) {
        MapleMap::verify(self).unwrap();
    }
}

/// Change `n`, from 1 on: a key, and its new value `n` or its removal.
fn change(n: u64) -> (u64, Option<u64>) {
    let mut rng = fastrand::Rng::with_seed(n);
    (rng.u64(..KEYS), rng.u8(..3).gt(&0).then_some(n))
}

/// The entries after `n` changes.
fn oracle(n: u64) -> BTreeMap<u64, u64> {
    let mut map: BTreeMap<u64, u64> = (KEYS..STABLE).map(|key| (key, key)).collect();
    for (key, value) in (1..=n).map(change) {
        match value {
            Some(value) => drop(map.insert(key, value)),
            None => drop(map.remove(&key)),
        }
    }
    map.insert(COUNT, n);
    map
}

/// Makes a change. Readers that the machine does not let run hold memory back for a while.
fn set<M: Subject>(map: &M, key: u64, value: Option<u64>) {
    while let Err(error) = map.set(key, value) {
        let is_limit = error.garbage_limit().is_some();
        assert!(is_limit, "{error}");
        std::thread::sleep(Duration::from_millis(1));
        map.reclaim();
    }
}

/// The entries that a writer left are those after `n` changes, and perhaps one more.
fn check_entries<M: Subject>(map: &M, n: u64) {
    map.verify();
    let (all, mut wanted) = (map.all(), oracle(n));
    if all != wanted {
        wanted = oracle(n + 1);
        wanted.insert(COUNT, n);
        assert_eq!(all, wanted, "{}: {n} changes, or one more", M::NAME);
    }
}

/// A writer that makes a map, or takes it over, and changes it without a pause.
fn write<M: Subject>(folder: &Path, new: bool) {
    let domain = Domain::builder().hard_limit(4 << 20);
    let builder = Live::<M>::builder().domain(domain).bytes(64 << 20);
    let builder = builder.evict_after(AGE);
    let map = match new {
        true => builder.create(folder).unwrap(),
        false => builder.open(folder).unwrap(),
    };
    let mut n = 0;
    if new {
        (KEYS..STABLE).for_each(|key| set(&*map, key, Some(key)));
        set(&*map, COUNT, Some(0));
    } else {
        n = map.all()[&COUNT];
        check_entries(&*map, n);
        // The change that the death interrupted may be there. It is made once more.
    }
    println!("began {n}");
    loop {
        n += 1;
        let (key, value) = change(n);
        set(&*map, key, value);
        set(&*map, COUNT, Some(n));
        println!("done {n}");
        if n % 32 == 0 {
            map.reclaim();
        }
    }
}

/// A reader that checks what it reads without a pause.
fn read<M: Subject>(folder: &Path) {
    let mut reader = LiveReader::<M>::open(folder).unwrap();
    let mut rng = fastrand::Rng::new();
    let (mut last, mut rounds) = (0, 0u64);
    println!("began 0");
    let check = |key: u64, value: u64| match key {
        COUNT => (),
        KEYS..STABLE => assert_eq!(value, key),
        _ => assert_eq!(change(value), (key, Some(value)), "a value of another key"),
    };
    loop {
        let view = reader.view();
        for _ in 0..64 {
            let stable = rng.u64(KEYS..STABLE);
            let found = M::get(&view, stable);
            assert_eq!(
                found,
                Some(stable),
                "{}: a key that stays was missed",
                M::NAME
            );
            let key = rng.u64(..KEYS);
            if let Some(value) = M::get(&view, key) {
                check(key, value);
            }
            let n = M::get(&view, COUNT).expect("the number of changes");
            assert!(n >= last, "{}: change {n} after {last}", M::NAME);
            last = n;
        }
        let walk = M::walk(&view);
        walk.iter().for_each(|(key, value)| check(*key, *value));
        assert!(!M::ORDERED || walk.is_sorted_by(|a, b| a.0 < b.0));
        if !walk.is_empty() {
            let stay = |(key, _): &&(u64, u64)| (KEYS..=COUNT).contains(key);
            assert_eq!(walk.iter().filter(stay).count() as u64, COUNT - KEYS + 1);
        }
        reader.quiescent().unwrap();
        rounds += 1;
        if rounds % 16 == 0 {
            drop(reader.offline());
        }
        println!("read {last}");
    }
}

/// A reader that checks what it reads, and stands still for longer than the writer waits.
fn ask<M: Subject>(folder: &Path) {
    let mut reader = CheckedLiveReader::<M>::open(folder).unwrap();
    let mut rng = fastrand::Rng::new();
    let mut answers = 0u64;
    println!("began 0");
    loop {
        for _ in 0..32 {
            let key = match rng.bool() {
                true => rng.u64(KEYS..STABLE),
                false => rng.u64(..KEYS),
            };
            match reader.view().and_then(|view| M::ask(&view, key)) {
                Ok(found) => {
                    answers += 1;
                    match key {
                        KEYS.. => assert_eq!(found, Some(key), "{}", M::NAME),
                        _ => assert!(found.is_none_or(|n| change(n) == (key, Some(n)))),
                    }
                }
                Err(Error::Evicted { .. }) => break,
                Err(Error::Busy { .. }) => (),
                Err(error) => panic!("{}: {error}", M::NAME),
            }
        }
        if rng.u8(..8) == 0 {
            std::thread::sleep(2 * AGE);
        }
        // A new owner may be at work, or die.
        let _ = reader.quiescent();
        println!("read {answers}");
    }
}

/// Runs the part of another process: `kind create`, `kind open`, `kind read` or `kind ask`.
pub fn child(task: &str, folder: &Path) {
    fn part<M: Subject>(task: &str, folder: &Path) {
        match task {
            "create" => write::<M>(folder, true),
            "open" => write::<M>(folder, false),
            "ask" => ask::<M>(folder),
            _ => read::<M>(folder),
        }
    }
    let (kind, task) = task.split_once(' ').unwrap();
    match kind {
        "shared" => part::<QpShared<u64>>(task, folder),
        "point" => part::<PointMap<u64>>(task, folder),
        "fib4" => part::<Ipv4Fib<u64>>(task, folder),
        "fib" => part::<IpFib<u64>>(task, folder),
        "ranges" => part::<MapleMap<u64>>(task, folder),
        _ => part::<Routes<u64>>(task, folder),
    }
}

/// Writers and readers are killed at random points.
fn killed<M: Subject>() {
    let (_temp, folder) = folder();
    let start = |task: &str| Beside::start(&format!("{} {task}", M::NAME), &folder);
    // A fifth of the rounds, because there are several kinds.
    let rounds = std::env::var("SAPWOOD_ROUNDS").map(|text| text.parse::<u64>().unwrap());
    let kills = rounds.map_or(12, |rounds| rounds.div_ceil(5));
    let mut rng = fastrand::Rng::with_seed(7);
    let mut writer = start("create");
    writer.line("began ");
    let tasks = ["read", "ask"];
    let mut readers: Vec<_> = tasks.iter().map(|task| (*task, start(task))).collect();
    for (_, reader) in &mut readers {
        reader.line("began ");
    }
    let (mut acknowledged, mut killed) = (0, 0);
    while killed < kills {
        std::thread::sleep(Duration::from_millis(rng.u64(1..60)));
        if rng.u8(..3) == 0 {
            let said = writer.kill();
            let done = last(&said, "done ").unwrap_or(0);
            acknowledged = done.max(acknowledged);
            writer = start("open");
            let found: u64 = writer.line("began ").parse().unwrap();
            assert!(
                found >= acknowledged,
                "{found} of {acknowledged}: a change was lost"
            );
            acknowledged = found;
        } else {
            let at = rng.usize(..readers.len());
            let (task, reader) = readers.swap_remove(at);
            reader.kill();
            let mut reader = start(task);
            reader.line("began ");
            readers.push((task, reader));
        }
        killed += 1;
    }
    let said = writer.kill();
    let done = last(&said, "done ").unwrap_or(0).max(acknowledged);
    for (_, mut reader) in readers {
        reader.line("read ");
        reader.kill();
    }
    let map = Live::<M>::open(&folder).unwrap();
    let n = map.all()[&COUNT];
    assert!(n == done || n == done + 1, "{n}, {done} had returned");
    check_entries(&*map, n);
    assert_eq!(map.readers(), []);
    while map.domain().garbage() > 0 {
        map.reclaim();
    }
    println!(
        "{killed} kills, {n} commits, {} heirs of {}",
        map.generation(),
        M::NAME
    );
}

#[test]
fn shared_maps_killed_at_random_points() {
    killed::<QpShared<u64>>();
}

#[test]
fn point_maps_killed_at_random_points() {
    killed::<PointMap<u64>>();
}

#[test]
fn fibs_killed_at_random_points() {
    killed::<Ipv4Fib<u64>>();
    killed::<IpFib<u64>>();
}

#[test]
fn routes_killed_at_random_points() {
    killed::<Routes<u64>>();
}

#[test]
fn range_maps_killed_at_random_points() {
    killed::<MapleMap<u64>>();
}

/// A structure is not opened as another one.
#[test]
fn kinds_are_not_mixed_up() {
    let (_temp, folder) = folder();
    let map = Live::<QpShared<u64>>::create(&folder).unwrap();
    let other = LiveReader::<PointMap<u64>>::open(&folder)
        .unwrap_err()
        .to_string();
    assert!(other.contains("is no point map"), "{other}");
    let other = LiveReader::<QpShared<[u64; 2]>>::open(&folder)
        .unwrap_err()
        .to_string();
    assert!(other.contains("other values"), "{other}");
    map.remove_map().unwrap();
    let routes = Live::<Routes<u32>>::create(&folder).unwrap();
    let other = LiveReader::<Routes<i64>>::open(&folder)
        .unwrap_err()
        .to_string();
    assert!(other.contains("other values"), "{other}");
    drop(routes);
    let other = Live::<IpFib<u32>>::open(&folder).unwrap_err().to_string();
    assert!(other.contains("is no table of routes,"), "{other}");
    // A path is not needed: a descriptor of the directory leads there, too.
    let routes = Live::<Routes<u32>>::builder().open(&folder);
    let routes = routes.unwrap();
    routes
        .insert("10.0.0.0/8".parse().unwrap(), &Group::single(7))
        .unwrap();
    let at = std::fs::File::open(&folder).unwrap();
    let mut reader = LiveReader::<Routes<u32>>::open_at(at.into()).unwrap();
    std::fs::rename(&folder, folder.with_extension("moved")).unwrap();
    let addr = IpAddr::from(Ipv4Addr::new(10, 1, 2, 3));
    assert_eq!(reader.view().lookup(addr, 1), Some(7));
    assert_eq!(reader.view().lookup(Ipv6Addr::LOCALHOST.into(), 1), None);
    // Null routes, also for a reader that checks.
    let null = Group::null(NullRoute::Unreachable);
    routes
        .insert("10.1.0.0/16".parse().unwrap(), &null)
        .unwrap();
    let checked = CheckedLiveReader::<Routes<u32>>::open(folder.with_extension("moved")).unwrap();
    for (addr, wanted) in [
        (addr, Decision::Null(NullRoute::Unreachable)),
        (Ipv4Addr::new(10, 2, 2, 3).into(), Decision::Hop(7)),
        (Ipv6Addr::LOCALHOST.into(), Decision::NoRoute),
    ] {
        assert_eq!(reader.view().decide(addr, 1), wanted);
        assert_eq!(reader.view().lookup(addr, 1), wanted.hop());
        let found = checked.view().unwrap().decide(addr, 1).unwrap();
        assert_eq!(found, wanted);
    }
    assert!(reader.has_writer().unwrap());
    reader.quiescent().unwrap();
}
