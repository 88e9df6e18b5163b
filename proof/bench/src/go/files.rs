//! The maps of the suite `go`, with what is asked of them and an oracle's answers.

use std::any::Any;
use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use fastrand::Rng;
use ipnet::IpNet;
use sapwood::key::dns_name;
use sapwood::lpm::{FibFileBuilder, IpFib, SavedHop};
use sapwood::maple::MapleMap;
use sapwood::qp::{QpMap, QpStore};
use sapwood_lists::{Format, Loader, Options as ListOptions, Source};
use sapwood_live::Live;
use sapwood_model::data::{self, routes as model};
use sapwood_model::lists::Format as ListFormat;
use sapwood_model::oracle::{LpmByLength, Prefix};

use super::{Asked, text, write_pairs};
use crate::lists::{Questions, Set, above};

/// The map of a case.
pub struct Made {
    /// What it is, for people.
    pub how: String,
    /// What is asked of it.
    pub asked: Vec<Asked>,
    /// The writer of a live map.
    _writer: Option<Box<dyn Any>>,
}

/// Makes the map of a case, with so many entries, in a folder: the file or the directory `map`, a
/// file of questions for each metric, and for the peers in Go `entries`.
pub fn make(case: &str, folder: &Path, count: usize) -> Result<Made, String> {
    fs::create_dir_all(folder).map_err(text)?;
    let made = match case {
        "names" | "names-live" => names(case == "names-live", folder, count)?,
        "routes-v4" | "routes-v6" | "routes-live" => routes(case, folder, count)?,
        "ranges" | "ranges-live" => ranges(case == "ranges-live", folder, count)?,
        _ => lists(folder, count)?,
    };
    made.asked
        .iter()
        .try_for_each(|asked| asked.write(folder))?;
    Ok(made)
}

/// How many questions an operation has at most.
const QUESTIONS: usize = 65_536;

/// Whether both languages read a text as the same name.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.bytes().all(|byte| plain(byte) || byte == b'.') && dns_name(name).is_ok()
}

fn names(live: bool, folder: &Path, count: usize) -> Result<Made, String> {
    let set = data::domains(count, 1);
    let texts = |keys: Vec<Box<[u8]>>| {
        let texts = keys.into_iter().map(|key| String::from_utf8(key.into()));
        let texts = texts.filter_map(Result::ok);
        texts.filter(|name| is_plain(name)).collect::<Vec<_>>()
    };
    let others = texts(set.mutated(QUESTIONS.min(2 * count), 3));
    let stored = texts(set.keys);
    let values: Vec<u64> = (0..stored.len() as u64).collect();
    let all: HashMap<&str, u64> = stored.iter().map(String::as_str).zip(0..).collect();
    let mut rng = Rng::with_seed(2);
    let mut hits = stored.clone();
    rng.shuffle(&mut hits);
    hits.truncate(QUESTIONS);
    let below = hits
        .iter()
        .map(|name| format!("n{}.{name}", rng.u32(..1 << 20)));
    let below: Vec<_> = below.filter(|name| is_plain(name)).collect();
    let closest = |name: &str| above(name).find_map(|name| all.get(name).copied());
    let list = |metric, names: &[String], find: &dyn Fn(&str) -> Option<u64>| {
        let questions = names.iter().map(|name| (name.clone(), find(name)));
        Asked::new(metric, questions)
    };
    let get = |name: &str| all.get(name).copied();
    let absent: Vec<_> = others
        .iter()
        .filter(|name| closest(name).is_none())
        .cloned()
        .collect();
    let mut asked = vec![
        list("hit_mops", &hits, &get),
        list("miss_mops", &others, &get),
        list("closest_hit_ns", &hits, &closest),
        list("closest_below_ns", &below, &closest),
        list("closest_miss_ns", &absent, &closest),
    ];
    let entries = || stored.iter().zip(&values);
    write_pairs(&folder.join("entries"), entries())?;
    let map = folder.join("map");
    let mut writer: Option<Box<dyn Any>> = None;
    if live {
        let store = Live::<QpStore<u64>>::create(&map).map_err(text)?;
        let mut txn = store.begin();
        for (name, value) in entries() {
            let key = dns_name(name).map_err(text)?;
            txn.insert(key, *value).map_err(text)?;
        }
        txn.commit();
        writer = Some(Box::new(store));
    } else {
        let mut names = QpMap::new();
        for (name, value) in entries() {
            let key = dns_name(name).map_err(text)?;
            names.insert(key, *value).map_err(text)?;
        }
        names.save(&map).map_err(text)?;
    }
    asked.retain(|asked| !asked.questions.is_empty());
    Ok(Made {
        how: format!("{} names; {}", stored.len(), set.how),
        asked,
        _writer: writer,
    })
}

/// A prefix as a type of others; its bits are those of IPv4 or IPv6.
fn net(prefix: Prefix, is_v6: bool) -> Result<IpNet, String> {
    let net = match is_v6 {
        true => IpNet::new(Ipv6Addr::from_bits(prefix.bits).into(), prefix.len),
        false => IpNet::new(
            Ipv4Addr::from_bits((prefix.bits >> 96) as u32).into(),
            prefix.len,
        ),
    };
    net.map_err(text)
}

fn routes(case: &str, folder: &Path, count: usize) -> Result<Made, String> {
    let is_v6 = case == "routes-v6";
    let (prefixes, width) = match is_v6 {
        true => (model::routes_v6(count, 1), 128),
        false => (model::routes_v4(count, 1), 32),
    };
    let hops = model::next_hops_clustered(prefixes.len(), 1);
    let table: LpmByLength<u32> = prefixes.iter().copied().zip(hops.iter().copied()).collect();
    let address = |bits: u128| match is_v6 {
        true => Ipv6Addr::from_bits(bits).to_string(),
        false => Ipv4Addr::from_bits((bits >> 96) as u32).to_string(),
    };
    let list = |metric, all: Vec<u128>| {
        let hop = |bits| table.lookup(bits).map(|(_, hop)| u64::from(*hop));
        Asked::new(
            metric,
            all.into_iter().map(|bits| (address(bits), hop(bits))),
        )
    };
    let asked = vec![
        list("random_mlps", model::random_addresses(width, QUESTIONS, 2)),
        list(
            "intable_mlps",
            model::addresses_within(&prefixes, width, QUESTIONS, 3),
        ),
    ];
    let nets: Result<Vec<_>, _> = prefixes.iter().map(|prefix| net(*prefix, is_v6)).collect();
    let nets = nets?;
    let texts: Vec<_> = nets.iter().map(IpNet::to_string).collect();
    let numbers: Vec<_> = hops.iter().map(|hop| u64::from(*hop)).collect();
    write_pairs(&folder.join("entries"), texts.iter().zip(&numbers))?;
    let map = folder.join("map");
    let mut writer: Option<Box<dyn Any>> = None;
    if case == "routes-live" {
        let fib = Live::<IpFib<u64>>::create(&map).map_err(text)?;
        for (net, hop) in nets.iter().zip(&numbers) {
            fib.insert(*net, *hop).map_err(text)?;
        }
        writer = Some(Box::new(fib));
    } else {
        let mut file = FibFileBuilder::new();
        for (net, hop) in nets.iter().zip(&numbers) {
            let hop = file.hop(&SavedHop::Number(*hop)).map_err(text)?;
            file.insert(*net, hop).map_err(text)?;
        }
        file.save(&map).map_err(text)?;
    }
    Ok(Made {
        how: format!("{} prefixes, made after the global table", nets.len()),
        asked,
        _writer: writer,
    })
}

fn ranges(live: bool, folder: &Path, count: usize) -> Result<Made, String> {
    const STEP: u64 = 10;
    const LAST: u64 = 5;
    let all = (0..count as u64).map(|i| (STEP * i..=STEP * i + LAST, i));
    let mut rng = Rng::with_seed(6);
    let questions = (0..QUESTIONS).map(|_| {
        let index = rng.u64(..STEP * count as u64);
        let found = index % STEP <= LAST;
        (index.to_string(), found.then_some(index / STEP))
    });
    let asked = vec![Asked::new("load_ns", questions)];
    let map = folder.join("map");
    let mut writer: Option<Box<dyn Any>> = None;
    if live {
        let live = Live::<MapleMap<u64>>::create(&map).map_err(text)?;
        for (range, value) in all {
            live.store(range, value).map_err(text)?;
        }
        writer = Some(Box::new(live));
    } else {
        let ranges = MapleMap::from_iter(all);
        ranges.snapshot().save(&map).map_err(text)?;
    }
    Ok(Made {
        how: format!("{count} ranges of {} numbers, with gaps", LAST + 1),
        asked,
        _writer: writer,
    })
}

fn lists(folder: &Path, count: usize) -> Result<Made, String> {
    let set = Set::new(count, None)?;
    set.write(ListFormat::AdBlock, folder)?;
    let questions = Questions::read(folder, QUESTIONS)?.all;
    let questions = questions.into_iter();
    let questions = questions.map(|(name, blocked)| (name, blocked.then_some(1)));
    let asked = vec![Asked::new("ask_mops", questions)];
    let ones = vec![1; set.after.len()];
    write_pairs(&folder.join("entries"), set.after.iter().zip(&ones))?;
    let source = Source::file(folder.join("after.list")).format(Format::AdBlock);
    let (map, _) = Loader::new(vec![source], ListOptions::default())
        .build()
        .map_err(text)?;
    map.save(folder.join("map")).map_err(text)?;
    Ok(Made {
        how: format!("{} blocked names, each with all below it", set.after.len()),
        asked,
        _writer: None,
    })
}
