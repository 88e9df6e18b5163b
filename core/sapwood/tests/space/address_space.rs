//! Limits of address space: every map begins small, tens of thousands fit into one process, and a
//! map that finds no addresses says so. The limits hold for child processes, which run one test of
//! this file again.
#![cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]

use std::time::{Duration, Instant};

use crate::process::{child, task};
use rustix::process::{Resource, Rlimit, setrlimit};
use sapwood::Error;
use sapwood::arena::{ArenaFull, Lack};
use sapwood::lpm::{BitFib, IpFib, Ipv4Fib, Ipv6Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpMap, QpShared, QpStore};
use sapwood::qsbr::Domain;
use sapwood::route::{Group, RouteCache, RouteTable};

fn limit_addresses(bytes: u64) {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    setrlimit(Resource::As, limit).unwrap();
}

/// A map in use, kept alive.
type Made = Box<dyn std::any::Any>;
type Make = fn() -> Result<Made, Error>;

/// Makes a map of each kind and gives it an entry. Maps without an error when they are made show it
/// then.
const KINDS: [(&str, Make); 12] = [
    ("QpMap", || {
        let mut map = QpMap::with_index();
        map.insert("a", 1)?;
        Ok(Box::new(map))
    }),
    ("QpStore", || {
        let store = QpStore::new()?;
        let mut txn = store.begin();
        txn.insert("a", 1)?;
        txn.commit();
        assert_eq!(store.get("a"), Some(1));
        Ok(Box::new(store))
    }),
    ("QpShared", || {
        let map = QpShared::builder().with_index().build()?;
        map.insert("a", 1)?;
        assert_eq!(map.get("a"), Some(1));
        Ok(Box::new(map))
    }),
    ("PointMap", || {
        let map = PointMap::new()?;
        map.insert("a", 1)?;
        assert_eq!(map.get("a"), Some(1));
        Ok(Box::new(map))
    }),
    ("Ipv4Fib", || {
        let fib = Ipv4Fib::new()?;
        fib.insert(net("10.0.0.0/24"), 1)?;
        assert_eq!(fib.get(net("10.0.0.0/24")), Some(1));
        Ok(Box::new(fib))
    }),
    ("Ipv6Fib", || {
        let fib = Ipv6Fib::new()?;
        fib.insert("2001:db8::/32".parse().unwrap(), 1)?;
        Ok(Box::new(fib))
    }),
    ("IpFib", || {
        let fib = IpFib::new()?;
        fib.insert("10.0.0.0/24".parse().unwrap(), 1)?;
        fib.insert("2001:db8::/32".parse().unwrap(), 1)?;
        Ok(Box::new(fib))
    }),
    ("BitFib", || {
        let fib = BitFib::new()?;
        fib.insert(std::net::Ipv4Addr::new(10, 0, 0, 1), 1)?;
        Ok(Box::new(fib))
    }),
    ("RouteTable", || {
        let table = RouteTable::new()?;
        table.insert("10.0.0.0/24".parse().unwrap(), Group::single(1))?;
        Ok(Box::new(table))
    }),
    ("MapleMap", || {
        let map = MapleMap::new();
        map.store(0..=9, 1)?;
        assert_eq!(map.get(5), Some(1));
        Ok(Box::new(map))
    }),
    ("RouteCache", || {
        let cache = RouteCache::<u32, u32>::new(100);
        cache.insert(&1, cache.hash(&1), 0, 2);
        Ok(Box::new(cache))
    }),
    ("Domain", || {
        let domain = Domain::new();
        drop(domain.pin());
        Ok(Box::new(domain))
    }),
];

fn net(text: &str) -> ipnet::Ipv4Net {
    text.parse().unwrap()
}

/// Whether the error says that addresses are lacking, and not memory.
#[track_caller]
fn says_addresses<E: Clone + std::fmt::Display>(error: &E)
where
    Error: From<E>,
{
    let error = Error::from(error.clone());
    let Some(ArenaFull { lack, .. }) = error.arena_full() else {
        panic!("{error}");
    };
    assert!(matches!(lack, Lack::AddressSpace | Lack::Beside), "{error}");
    let text = error.to_string();
    assert!(text.contains("address space"), "{text}");
}

#[test]
fn every_kind_of_map_is_made_or_says_no_address_space_within_a_second() {
    if let Some(limit) = task() {
        let limit: u64 = limit.parse().unwrap();
        limit_addresses(limit);
        let mut made = Vec::new();
        for (kind, make) in KINDS {
            // Eight of each, as much as a small server has.
            for _ in 0..8 {
                let begun = Instant::now();
                match make() {
                    Ok(map) => made.push(map),
                    Err(error) => says_addresses(&error),
                }
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(1), "{kind}: {took:?}");
            }
        }
        println!("made {}", made.len());
        return;
    }
    // As `ulimit -v` of 0.5, 1, 1.5 and 4 million KiB.
    for limit in [512_000_000_u64, 1_024_000_000, 1_536_000_000, 4_096_000_000] {
        let text = child(
            "address_space::every_kind_of_map_is_made_or_says_no_address_space_within_a_second",
            &limit.to_string(),
        );
        assert!(
            text.contains(&format!("made {}", 8 * KINDS.len())),
            "{limit}: {text}"
        );
    }
}

#[test]
fn maps_that_find_no_addresses_say_so_and_leave_some_to_the_program() {
    if let Some(kind) = task() {
        limit_addresses(1_000_000_000);
        let (_, make) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
        let mut made = Vec::new();
        let error = loop {
            match make() {
                Ok(map) => made.push(map),
                Err(error) => break error,
            }
        };
        says_addresses(&error);
        // The program still has addresses for its heap.
        let bytes = vec![1_u8; 30 << 20];
        assert_eq!(bytes[bytes.len() - 1], 1);
        let cache = RouteCache::<u32, u32>::builder().capacity(100_000_000);
        says_addresses(&cache.try_build().err().unwrap());
        // An answer again, and addresses for others when the maps are gone.
        says_addresses(&make().err().unwrap());
        made.clear();
        assert!(make().is_ok());
        println!("refused");
        return;
    }
    for kind in [
        "QpStore",
        "QpShared",
        "PointMap",
        "IpFib",
        "BitFib",
        "RouteTable",
        "MapleMap",
    ] {
        let text = child(
            "address_space::maps_that_find_no_addresses_say_so_and_leave_some_to_the_program",
            kind,
        );
        assert!(text.contains("refused"), "{kind}: {text}");
    }
}

#[test]
fn twenty_thousand_maps_of_each_kind_fit_into_one_process() {
    const MAPS: usize = 20_000;
    if let Some(kind) = task() {
        let (_, make) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
        let begun = Instant::now();
        let maps: Vec<Made> = (0..MAPS).map(|_| make().unwrap()).collect();
        // The last thousand take about as long as the first ones did: nothing looks at all maps.
        let of = |n| {
            let begun = Instant::now();
            let maps: Vec<Made> = (0..n).map(|_| make().unwrap()).collect();
            (begun.elapsed(), maps.len())
        };
        let (more, n) = of(1000);
        assert_eq!(n, 1000);
        let each = begun.elapsed() / (MAPS + n) as u32;
        assert!(
            more < 20 * 1000 * each,
            "{more:?} for a thousand more, {each:?} each"
        );
        println!("{} maps", maps.len());
        return;
    }
    for (kind, _) in KINDS {
        let text = child(
            "address_space::twenty_thousand_maps_of_each_kind_fit_into_one_process",
            kind,
        );
        assert!(text.contains(&format!("{MAPS} maps")), "{kind}: {text}");
    }
}

/// A kilobyte count of a line of the process's status, in bytes.
fn status(name: &str) -> usize {
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    let count = line.trim_start_matches(':').trim_end_matches("kB").trim();
    count.parse::<usize>().unwrap() << 10
}

/// As a provider's edge has them: a table for each customer, with a default route in most of them.
#[test]
fn two_hundred_tables_of_a_hundred_routes_take_60_mb_and_4_gb_of_addresses() {
    if task().is_some() {
        let mut rng = fastrand::Rng::with_seed(9);
        let tables: Vec<RouteTable<u32>> = (0..200_u32)
            .map(|vrf| {
                let table = RouteTable::new().unwrap();
                let groups = [1, 2, 3, 4].map(|n| Group::new((0..n).map(|hop| (vrf * 8 + hop, 1))));
                let hops = |n: usize| groups[n - 1].clone();
                table.insert("0.0.0.0/0".parse().unwrap(), hops(2)).unwrap();
                table.insert("::/0".parse().unwrap(), hops(3)).unwrap();
                while table.len() < 100 {
                    let (len, hop) = (rng.u8(8..=32), hops(rng.usize(1..=4)));
                    let net = match rng.u8(0..3) {
                        0 => ipnet::Ipv6Net::new(rng.u128(..).into(), len + 24)
                            .unwrap()
                            .into(),
                        _ => ipnet::IpNet::from(
                            ipnet::Ipv4Net::new(rng.u32(..).into(), len).unwrap(),
                        ),
                    };
                    table.insert(net.trunc(), hop).unwrap();
                }
                table
            })
            .collect();
        for (vrf, table) in (0_u32..).zip(&tables) {
            let mut reader = table.reader("port").unwrap();
            for _ in 0..100 {
                let (addr, flow) = (std::net::Ipv4Addr::from(rng.u32(..)), rng.u64(..));
                let hop = *reader.view().lookup(addr.into(), flow).unwrap();
                assert_eq!(hop / 8, vrf);
                reader.quiescent();
            }
            table.verify().unwrap();
        }
        println!("{} {} bytes", status("VmRSS"), status("VmSize"));
        return;
    }
    let text = child(
        "address_space::two_hundred_tables_of_a_hundred_routes_take_60_mb_and_4_gb_of_addresses",
        "tables",
    );
    let line = text.lines().find_map(|line| line.strip_suffix(" bytes"));
    let mut words = line.unwrap().rsplit(' ').map(|word| word.parse::<usize>());
    let (addresses, resident) = (words.next().unwrap(), words.next().unwrap());
    let (addresses, resident) = (addresses.unwrap(), resident.unwrap());
    assert!(resident <= 60 << 20, "{} MB resident", resident >> 20);
    assert!(addresses <= 4 << 30, "{} MB of addresses", addresses >> 20);
    println!(
        "{} MB resident, {} MB of addresses",
        resident >> 20,
        addresses >> 20
    );
}

#[test]
fn a_store_grows_where_it_lies_beyond_its_first_reservation() {
    let store: QpStore<[u8]> = QpStore::new().unwrap();
    let reserved = store.memory().map.arena.reserved;
    assert_eq!(reserved, 64 << 20);
    let before = store.snapshot();
    let value = vec![7_u8; 1 << 20];
    let mut txn = store.begin();
    for i in 0..200_u32 {
        txn.insert(i.to_be_bytes(), &value[..]).unwrap();
    }
    txn.commit();
    let memory = store.memory().map.arena;
    assert!(memory.reserved >= memory.frontier && memory.frontier > 200 << 20);
    assert!(before.is_empty());
    let pin = store.pin();
    assert!((0..200_u32).all(|i| pin.view().get(i.to_be_bytes()) == Some(&value[..])));
}

#[test]
fn a_memory_limit_is_reserved_from_the_start() {
    let limit = 300 << 20;
    let store = QpStore::<u64>::builder()
        .memory_limit(limit)
        .build()
        .unwrap();
    assert_eq!(store.memory().map.arena.reserved, limit);
    let small = QpStore::<u64>::builder()
        .memory_limit(64 << 10)
        .build()
        .unwrap();
    assert_eq!(small.memory().map.arena.reserved, 64 << 10);
    let fib = Ipv4Fib::<u64>::builder()
        .memory_limit(8 << 20)
        .build()
        .unwrap();
    assert_eq!(fib.memory().arena.reserved, 8 << 20);
}

#[test]
fn an_owned_map_uses_nearly_all_addresses_that_there_are() {
    if task().is_some() {
        limit_addresses(1_000_000_000);
        let mut map: QpMap<[u8]> = QpMap::new();
        let value = vec![7_u8; 1 << 20];
        let refused = (0..2000_u32).find_map(|i| map.insert(i.to_be_bytes(), &value[..]).err());
        let error = refused.unwrap().error;
        says_addresses(&error);
        assert!(map.len() > 400, "{} MiB", map.len());
        assert!(map.iter().all(|(_, v)| v == &value[..]));
        println!("refused");
        return;
    }
    let text = child(
        "address_space::an_owned_map_uses_nearly_all_addresses_that_there_are",
        "map",
    );
    assert!(text.contains("refused"), "{text}");
}

/// Takes all addresses that are left, and what the heap has, down to 4 KiB; returns them.
fn take_all_addresses() -> Vec<Vec<u8>> {
    let mut held = Vec::with_capacity(100_000);
    let mut len = 1 << 30;
    while len >= 4096 {
        let mut piece: Vec<u8> = Vec::new();
        match piece.try_reserve_exact(len) {
            Ok(()) => held.push(piece),
            Err(_) => len /= 2,
        }
    }
    held
}

#[test]
fn an_owned_map_without_a_heap_for_its_tables_says_that_addresses_lack() {
    if task().is_some() {
        let mut map: QpMap<[u8]> = QpMap::new();
        let value = vec![7_u8; 1 << 20];
        for i in 0..17_u32 {
            map.insert(i.to_be_bytes(), &value[..]).unwrap();
        }
        let arena = map.memory().arena;
        assert!(arena.reserved > arena.committed + (8 << 20), "{arena:?}");
        limit_addresses(1_000_000_000);
        let held = take_all_addresses();
        let refused = (17..2000_u32).find_map(|i| map.insert(i.to_be_bytes(), &value[..]).err());
        drop(held);
        says_addresses(&refused.unwrap().error);
        assert!(map.iter().all(|(_, v)| v == &value[..]));
        println!("refused");
        return;
    }
    let text = child(
        "address_space::an_owned_map_without_a_heap_for_its_tables_says_that_addresses_lack",
        "tables",
    );
    assert!(text.contains("refused"), "{text}");
}
