//! The program `xdp-route` beside the kernel alone: the same frames go through a router with the
//! program and through one without, and what comes out on all sides is compared, byte by byte.
#![cfg(feature = "kernel")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../raw/ends.rs"]
mod ends;
mod kinds;
mod network;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kinds::{Difference, Kind, kinds, lost};
use network::{Network, PATIENCE, ROUTER};
use sapwood_bpf::{BpfArena, GroupMap, HopTables, IpMap, MirrorHop, ProgramRouteCache};
use sapwood_routes::{RouteMirror, XdpRouter};
use sapwood_xdp::{RouteMode, RouteVerdict, XdpRoute};

/// What came out: for each kind, and at last for the frames to lost neighbours.
type Outcome = Vec<(usize, Vec<u8>)>;

/// Sends all kinds through a router with a program, or without one. `wanted` is what the kernel
/// made of them. Returns what came out, and which kinds the program forwarded.
fn send_all(
    settings: &[&str],
    mode: Option<RouteMode>,
    kinds: &[Kind],
    wanted: Option<&[Outcome]>,
) -> Option<(Vec<Outcome>, Vec<bool>)> {
    let mut network = Network::new(settings)?;
    let arena = BpfArena::create(32 << 20).unwrap();
    let program = mode.map(|mode| {
        let mut program: XdpRouter = match mode {
            RouteMode::Cache => {
                let cache = ProgramRouteCache::builder(&arena, "flows").capacity(4096);
                let cache = cache.fresh(Duration::from_secs(60)).build().unwrap();
                XdpRoute::cached(cache).unwrap().into()
            }
            RouteMode::Table => {
                let groups = GroupMap::builder(&arena, "groups").build().unwrap();
                let map = IpMap::new(&arena, "routes", 4 << 20).unwrap();
                let tables = Arc::new(HopTables::new(map).with_groups(groups));
                let mirror = network
                    .router
                    .inside(|| RouteMirror::start(Arc::clone(&tables)).unwrap());
                XdpRouter::mirrored(mirror, 7).unwrap()
            }
            _ => XdpRoute::resolver(&arena).unwrap().into(),
        };
        network.attach(&mut program);
        // The mirror knows the routes and the neighbours.
        let begin = Instant::now();
        while let Some(tables) = program.tables() {
            let is_known = |to: &str| {
                let found = tables.map().lookup(to.parse().unwrap());
                found.is_some_and(|(_, hop)| hop.action == MirrorHop::FORWARD)
            };
            if ["10.82.9.1", "fd82:9::1", "10.82.25.1", "fd82:25::1"]
                .into_iter()
                .all(is_known)
            {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "the mirror");
            std::thread::sleep(Duration::from_millis(5));
        }
        program
    });
    network.flush(&mut Vec::new());
    // What the kernel sends when an interface begins.
    std::thread::sleep(Duration::from_millis(20));
    network.drain(&mut Vec::new(), &mut HashSet::new());
    let forwarded = || {
        program
            .as_ref()
            .map_or(0, |program| program.counts().unwrap().forwarded())
    };
    let (mut all, mut fast) = (Vec::new(), Vec::new());
    for (at, kind) in kinds.iter().enumerate() {
        let before = forwarded();
        all.push(network.send(kind, wanted.map_or(0, |wanted| wanted[at].len())));
        fast.push(forwarded() > before);
    }
    let wanted = wanted.and_then(|all| all.last()).map_or(0, Vec::len);
    all.push(network.send_all(&lost(), Duration::from_millis(900), wanted));
    if let Some(program) = &program {
        let counts = program.counts().unwrap();
        for verdict in [
            RouteVerdict::OtherHost,
            RouteVerdict::Source,
            RouteVerdict::SameInterface,
        ] {
            assert!(counts.get(verdict) > 0, "{counts:?}");
        }
    }
    Some((all, fast))
}

/// A frame in hexadecimal digits, for a report.
fn shown(out: &Outcome) -> String {
    let frame = |(side, frame): &(usize, Vec<u8>)| {
        let bytes: String = frame
            .iter()
            .take(120)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("    side {side}, {} bytes: {bytes}\n", frame.len())
    };
    out.iter().map(frame).collect()
}

/// A frame without the padding behind its packet.
fn trimmed((_, frame): &(usize, Vec<u8>)) -> Vec<u8> {
    let bytes = match frame[12] {
        0x08 => usize::from(frame[16]) << 8 | usize::from(frame[17]),
        _ => 40 + (usize::from(frame[18]) << 8 | usize::from(frame[19])),
    };
    frame[..frame.len().min(14 + bytes)].to_vec()
}

/// Whether two outcomes differ as it is known of this mode, and in nothing else.
fn is_known(difference: Difference, mode: RouteMode, kernel: &Outcome, program: &Outcome) -> bool {
    let same = |part: fn(&(usize, Vec<u8>)) -> Vec<u8>| {
        let parts = |all: &Outcome| all.iter().map(part).collect::<Vec<_>>();
        kernel
            .iter()
            .zip(program)
            .all(|(kernel, program)| kernel.0 == program.0)
            && parts(kernel) == parts(program)
    };
    match difference {
        Difference::Padding => same(trimmed),
        // The same packet goes another way.
        Difference::Paths => {
            let packets = |all: &Outcome| {
                all.iter()
                    .map(|(_, frame)| frame[12..].to_vec())
                    .collect::<Vec<_>>()
            };
            mode == RouteMode::Table && packets(kernel) == packets(program)
        }
    }
}

/// Compares what came out by the program with what the kernel alone makes of the same frames.
fn compare(settings: &[&str], modes: &[RouteMode]) {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let kinds = kinds();
    assert!(kinds.len() >= 150);
    let Some((kernel, _)) = send_all(settings, None, &kinds, None) else {
        return;
    };
    let count = |test: fn(&(usize, Vec<u8>)) -> bool| {
        let kinds = kernel.iter().filter(|out| out.iter().any(test));
        kinds.count()
    };
    let through = count(|(side, _)| *side > 0);
    let answered = count(|(side, frame)| *side == 0 && frame[6..12] == ROUTER[0]);
    println!("the kernel {settings:?}: {through} kinds come through, {answered} are answered");
    assert!(through > 250 && answered > 150 && through + answered + 100 < kinds.len());
    let mut wrong = BTreeMap::new();
    for mode in modes {
        let begin = Instant::now();
        let (program, fast) = send_all(settings, Some(*mode), &kinds, Some(&kernel)).unwrap();
        let mut told = BTreeSet::new();
        for (at, kind) in kinds.iter().enumerate() {
            let (kernel, program) = (&kernel[at], &program[at]);
            let report = || {
                format!(
                    "  the kernel:\n{}  the program:\n{}",
                    shown(kernel),
                    shown(program)
                )
            };
            if kernel != program {
                match kind.differs {
                    Some(difference) if is_known(difference, *mode, kernel, program) => {
                        told.insert(difference);
                    }
                    _ => {
                        wrong.insert((kind.name.clone(), mode.to_string()), report());
                    }
                }
            }
            // Tables leave other packets to the kernel, and so do other settings.
            let is_usual = settings.is_empty() && *mode != RouteMode::Table;
            if is_usual && fast[at] != kind.is_fast {
                let why = format!("  forwarded by the program: {}\n", fast[at]);
                wrong
                    .entry((kind.name.clone(), mode.to_string()))
                    .or_insert(why);
            }
        }
        let (kernel, program) = (kernel.last().unwrap(), program.last().unwrap());
        if kernel != program {
            let report = format!(
                "  the kernel:\n{}  the program:\n{}",
                shown(kernel),
                shown(program)
            );
            wrong.insert(("lost neighbours".into(), mode.to_string()), report);
        }
        println!(
            "{mode} {settings:?}: {} kinds, {} forwarded by the program, in {:?}; known: {told:?}",
            kinds.len(),
            fast.iter().filter(|fast| **fast).count(),
            begin.elapsed()
        );
    }
    for ((kind, mode), report) in &wrong {
        println!("{kind} ({mode}):\n{report}");
    }
    assert!(wrong.is_empty(), "{} differences", wrong.len());
}

#[test]
fn what_comes_out_is_as_without_the_program() {
    let modes = [RouteMode::Resolver, RouteMode::Cache, RouteMode::Table];
    compare(&[], &modes);
}

#[test]
fn sources_are_filtered_as_without_the_program() {
    let strict = "net.ipv4.conf.default.rp_filter=1";
    compare(&[strict], &[RouteMode::Resolver, RouteMode::Table]);
    let loose = "net.ipv4.conf.all.rp_filter=2";
    compare(&[loose], &[RouteMode::Resolver]);
}

#[test]
fn without_redirects_packets_go_back_as_without_the_program() {
    let off = [
        "net.ipv4.conf.all.send_redirects=0",
        "net.ipv4.conf.default.send_redirects=0",
    ];
    compare(&off, &[RouteMode::Resolver, RouteMode::Table]);
}
