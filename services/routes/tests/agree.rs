//! The kernel's tables, read once and followed, compared with `ip route get` in a network
//! namespace: several next hops, null routes, next-hop objects, a rule with another table, and
//! links that go down and up.
#![cfg(feature = "mirror")]

#[path = "../../../kernel/bpf/tests/common/netns.rs"]
#[allow(dead_code)]
mod netns;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netns::Netns;
use sapwood::lpm::{IpFib, NullRoute, SavedHop};
use sapwood::route::{KernelReason, MirrorHop};
use sapwood_routes::{MAIN_TABLE, RouteMirror, RouteSource, kernel_routes};

/// The table that a rule chooses, and the destinations of that rule.
const OTHER: u32 = 100;
const CHOSEN: [&str; 2] = ["10.128.0.0/10", "2001:db8:a800::/38"];

/// Addresses that are compared.
const ADDRESSES: usize = 10_000;

/// The time that the mirror may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What happens to packets for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// They go by one of these ways, each an interface and a gateway.
    Ways(Vec<(String, Option<IpAddr>)>),
    Null(NullRoute),
    /// There is no route.
    Nothing,
    /// They are for this machine.
    Local,
    /// A mirror leaves them to the kernel.
    Unknown(KernelReason),
}

/// A router with three cables.
struct Router {
    router: Netns,
    _end: Netns,
    names: BTreeMap<u32, String>,
}

fn router() -> Option<Router> {
    let [router, end] = Netns::some(["router", "end"])?;
    let mut names = BTreeMap::new();
    for (number, four) in ["192.0.2", "198.51.100", "203.0.113"]
        .into_iter()
        .enumerate()
    {
        let (port, far) = (format!("r{number}"), format!("e{number}"));
        let six = format!("2001:db8:{number}");
        let ours = [format!("{four}.1/24"), format!("{six}::1/64")];
        let theirs = [format!("{four}.200/24"), format!("{six}::200/64")];
        Netns::veth(
            (&router, &port, &ours.each_ref().map(String::as_str)),
            (&end, &far, &theirs.each_ref().map(String::as_str)),
        );
        names.insert(router.index(&port), port);
    }
    Some(Router {
        router,
        _end: end,
        names,
    })
}

/// The words for a way by a port.
fn way(port: usize, host: u8, six: bool) -> String {
    let four = ["192.0.2", "198.51.100", "203.0.113"][port];
    match six {
        false => format!("via {four}.{host} dev r{port}"),
        true => format!("via 2001:db8:{port}::{host:x} dev r{port}"),
    }
}

/// Next-hop objects, and routes of each family for both tables, as commands of `ip`, each list with
/// an option of `ip`.
fn routes(rng: &mut fastrand::Rng) -> [(&'static str, String); 5] {
    let [mut four, mut six] = [const { String::new() }; 2];
    for id in 1..7 {
        let host = 40 + id as u8;
        let _ = writeln!(four, "nexthop add id {id} {}", way(id % 3, host, false));
        let _ = writeln!(
            six,
            "nexthop add id {} {}",
            id + 10,
            way(id % 3, host, true)
        );
    }
    four += "nexthop add id 40 blackhole\n";
    six += "nexthop add id 50 blackhole\n";
    let objects = [&mut four, &mut six].map(std::mem::take);
    let groups = "nexthop add id 20 group 1,2/2/6\nnexthop add id 30 group 11/12,3\n";
    for (all, net) in [(&mut four, CHOSEN[0]), (&mut six, CHOSEN[1])] {
        let _ = writeln!(all, "rule add to {net} lookup {OTHER} pref 1000");
    }
    for number in 0..1500 {
        let is_six = rng.bool();
        let net = match is_six {
            false => IpNet::new(
                Ipv4Addr::from(10 << 24 | rng.u32(..1 << 24)).into(),
                rng.u8(10..=20),
            ),
            true => {
                let address = 0x2001_0db8_a000 << 80 | rng.u128(..1 << 92);
                IpNet::new(Ipv6Addr::from(address).into(), rng.u8(38..=48))
            }
        };
        let net = net.unwrap().trunc();
        let mut by = || way(rng.usize(..3), rng.u8(2..40), is_six);
        let (one, two, three) = (by(), by(), by());
        let kind = rng.u8(..12);
        let what = match kind {
            0 => "blackhole ",
            1 => "unreachable ",
            2 => "prohibit ",
            3 => "throw ",
            _ => "",
        };
        let to = match kind {
            0..4 => String::new(),
            4 => format!("nexthop {one} weight 3 nexthop {two} nexthop {three} weight 2"),
            5 => format!(
                "nhid {}",
                [rng.u8(1..7), rng.u8(11..17)][usize::from(is_six)]
            ),
            6 => format!("nhid {}", [20, 30][usize::from(is_six)]),
            7 if number % 4 == 0 => format!("nhid {}", [40, 50][usize::from(is_six)]),
            8 => format!("dev r{}", rng.u8(..3)),
            _ => one,
        };
        let table = [MAIN_TABLE, OTHER][rng.usize(..2)];
        let metric = number % 5 + 1;
        let all = if is_six { &mut six } else { &mut four };
        let _ = writeln!(
            all,
            "route add {what}{net} table {table} metric {metric} {to}"
        );
    }
    let [objects, other_objects] = objects;
    [
        ("-4", objects),
        ("-6", other_objects),
        ("-o", groups.into()),
        ("-4", four),
        ("-6", six),
    ]
}

/// Runs commands of `ip`. Those that the kernel refuses are left out.
fn batch(router: &Netns, family: &[&str], commands: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch");
    std::fs::write(&file, commands).unwrap();
    let rest = ["-o", "-force", "-batch", file.to_str().unwrap()];
    let out = router.run(&[&["ip"], family, &rest].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out.stdout), text(&out.stderr))
}

/// The answers of `ip route get`.
fn kernel_says(router: &Netns, addresses: &[IpAddr]) -> Vec<Answer> {
    let commands = addresses
        .iter()
        .map(|address| format!("route get {address}\n"));
    let (out, errors) = batch(router, &[], &commands.collect::<String>());
    let mut all: Vec<Option<Answer>> = vec![None; addresses.len()];
    let mut why = "";
    for line in errors.lines() {
        if let Some(told) = line.strip_prefix("RTNETLINK answers: ") {
            why = told;
        } else if let Some((_, number)) = line.rsplit_once(':') {
            let number: usize = number.parse().unwrap();
            all[number - 1] = Some(match why {
                "Invalid argument" => Answer::Null(NullRoute::Blackhole),
                "No route to host" => Answer::Null(NullRoute::Unreachable),
                "Permission denied" => Answer::Null(NullRoute::Prohibit),
                "Network is unreachable" => Answer::Nothing,
                other => panic!("{other}: {}", addresses[number - 1]),
            });
        }
    }
    let mut lines = out.lines();
    let all = all.into_iter().map(|told| {
        told.unwrap_or_else(|| {
            let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
            if ["local", "broadcast", "multicast", "anycast"].contains(&words[0]) {
                return Answer::Local;
            }
            let after = |word| {
                words
                    .iter()
                    .position(|other| *other == word)
                    .map(|at| words[at + 1])
            };
            let gateway = after("via").map(|to| to.parse().unwrap());
            Answer::Ways(vec![(after("dev").unwrap().to_owned(), gateway)])
        })
    });
    let all = all.collect();
    assert_eq!(lines.next(), None);
    all
}

/// The way that a name of a next hop is. Gateways have one port each.
fn way_of(name: &str) -> (String, Option<IpAddr>) {
    if let Some(device) = name.strip_prefix("dev ") {
        return (device.to_owned(), None);
    }
    let gateway: IpAddr = name.parse().unwrap();
    let port = match gateway {
        IpAddr::V4(four) if four.octets()[0] == 192 => 0,
        IpAddr::V4(four) => {
            [198, 203]
                .iter()
                .position(|first| *first == four.octets()[0])
                .unwrap()
                + 1
        }
        IpAddr::V6(six) => usize::from(six.segments()[2]),
    };
    (format!("r{port}"), Some(gateway))
}

/// The kernel's table as `kernel_routes` reads it.
fn read(router: &Netns, table: u32) -> IpFib<Answer2> {
    let mut routes = router.inside(|| kernel_routes(table).unwrap());
    let fib = IpFib::new().unwrap();
    while let Some(route) = routes.next_route().unwrap() {
        let answer = match &route.hop {
            SavedHop::Null(null) => Answer::Null(*null),
            SavedHop::Name(name) => Answer::Ways(vec![way_of(name)]),
            SavedHop::Group(all) => {
                let all = all.iter().map(|(hop, _)| way_of(&hop.to_string()));
                Answer::Ways(all.collect())
            }
            other => panic!("{other:?}"),
        };
        fib.insert(route.net, Answer2(format!("{answer:?}"), answer))
            .unwrap();
    }
    fib
}

/// An answer as a value of a table.
#[derive(Clone, Debug)]
struct Answer2(String, Answer);

impl PartialEq for Answer2 {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Answer2 {}

impl std::hash::Hash for Answer2 {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

/// The answer of the rules: of the other table, where its rule chooses it, then of the main one.
fn by_rules(address: IpAddr, of: impl Fn(u32, IpAddr) -> Option<Answer>) -> Answer {
    let chosen = CHOSEN.map(|net| net.parse::<IpNet>().unwrap());
    let is_chosen = chosen.iter().any(|net| net.contains(&address));
    let tables = [(is_chosen, OTHER), (true, MAIN_TABLE)];
    for (_, table) in tables.into_iter().filter(|(asked, _)| *asked) {
        match of(table, address) {
            None | Some(Answer::Null(NullRoute::Throw) | Answer::Unknown(KernelReason::Throw)) => {}
            Some(answer) => return answer,
        }
    }
    Answer::Nothing
}

impl Router {
    /// What a mirror's hop says.
    fn of_hop(&self, hop: MirrorHop) -> Answer {
        match hop.reason() {
            None => {
                let name = self.names.get(&hop.ifindex).cloned();
                Answer::Ways(vec![(name.unwrap_or_default(), hop.gateway())])
            }
            Some(KernelReason::Local) => Answer::Local,
            Some(KernelReason::Blackhole) => Answer::Null(NullRoute::Blackhole),
            Some(KernelReason::Unreachable) => Answer::Null(NullRoute::Unreachable),
            Some(KernelReason::Prohibit) => Answer::Null(NullRoute::Prohibit),
            Some(reason) => Answer::Unknown(reason),
        }
    }
}

/// Whether an answer is the kernel's, which chooses one of several ways.
fn agrees(ours: &Answer, kernel: &Answer) -> bool {
    match (ours, kernel) {
        (Answer::Ways(ours), Answer::Ways(kernel)) => ours.contains(&kernel[0]),
        (ours, kernel) => ours == kernel,
    }
}

#[test]
fn tables_agree_with_the_kernel() {
    let Some(setup) = router() else { return };
    let seed = std::env::var("SAPWOOD_SEED").map_or(3, |text| text.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    for (family, commands) in routes(&mut rng) {
        let (_, refused) = batch(&setup.router, &[family], &commands);
        // Some of the prefixes came twice.
        let other = refused
            .lines()
            .find(|line| !line.contains("exists") && !line.starts_with("Command"));
        assert_eq!(other, None, "seed {seed}");
    }
    let mirror = |table| {
        let tables = Arc::new(IpFib::<MirrorHop>::new().unwrap());
        let builder = RouteMirror::builder(tables).table(table);
        setup.router.inside(|| builder.start().unwrap())
    };
    let mirrors = [OTHER, MAIN_TABLE].map(mirror);
    let addresses: Vec<IpAddr> = (0..ADDRESSES)
        .map(|number| match number % 16 {
            0 => [[192, 0, 2], [198, 51, 100], [203, 0, 113]]
                .map(|[a, b, c]| IpAddr::from([a, b, c, rng.u8(..)]))[rng.usize(..3)],
            1..9 => Ipv4Addr::from(10 << 24 | rng.u32(..1 << 24)).into(),
            _ => Ipv6Addr::from(0x2001_0db8_a000 << 80 | rng.u128(..1 << 92)).into(),
        })
        .collect();
    let mut kinds = BTreeMap::new();
    for change in [
        "",
        "link set r1 down",
        "link set r1 up",
        "link set r2 down",
        "nexthop del id 3",
    ] {
        if !change.is_empty() {
            setup
                .router
                .ip(&change.split_whitespace().collect::<Vec<_>>());
        }
        let kernel = kernel_says(&setup.router, &addresses);
        let tables = [OTHER, MAIN_TABLE].map(|table| (table, read(&setup.router, table)));
        for (address, kernel) in addresses.iter().zip(&kernel) {
            let ours = by_rules(*address, |table, address| {
                let (_, fib) = tables.iter().find(|(known, _)| *known == table)?;
                Some(fib.lookup(address)?.1.1.clone())
            });
            // The table of this machine's addresses is not read.
            let known = *kernel == Answer::Local || agrees(&ours, kernel);
            assert!(
                known,
                "seed {seed}, {change:?}, {address}: {ours:?}, {kernel:?}"
            );
            let kind = match &ours {
                Answer::Ways(all) => format!("{} ways", all.len()),
                other => format!("{other:?}"),
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        // The mirrors agree, or say why they do not know.
        let begin = Instant::now();
        let mut unknown = BTreeMap::new();
        let mut wrong = |address: &IpAddr, kernel: &Answer| {
            let ours = by_rules(*address, |table, address| {
                let mirror = &mirrors[usize::from(table == MAIN_TABLE)];
                Some(setup.of_hop(mirror.tables().lookup(address)?.1))
            });
            if let Answer::Unknown(reason) = ours {
                *unknown.entry(format!("{reason:?}")).or_insert(0) += 1;
                return (reason != KernelReason::Several).then_some(ours);
            }
            (!agrees(&ours, kernel)).then_some(ours)
        };
        while let Some((address, ours)) = addresses
            .iter()
            .zip(&kernel)
            .find_map(|(address, kernel)| Some(address).zip(wrong(address, kernel)))
        {
            let stats = mirrors.each_ref().map(|mirror| mirror.stats());
            let told = format!("{change:?}, {address}: {ours:?}, {stats:?}");
            assert!(begin.elapsed() < PATIENCE, "seed {seed}, {told}");
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("after {change:?}: unknown {unknown:?}");
    }
    println!("answers: {kinds:?}");
    for kind in [
        "1 ways",
        "2 ways",
        "3 ways",
        "Nothing",
        "Null(Blackhole)",
        "Null(Prohibit)",
    ] {
        assert!(
            kinds.get(kind).is_some_and(|count| *count > 50),
            "{kind}: {kinds:?}"
        );
    }
}

/// Silent removals are found by the next request of everything, and the counts say when it was.
#[test]
fn a_mirror_reconciles_by_itself() {
    let Some(setup) = router() else { return };
    let tables = Arc::new(IpFib::<MirrorHop>::new().unwrap());
    let every = Duration::from_millis(50);
    let builder = RouteMirror::builder(tables).reconcile(every);
    let mirror = setup.router.inside(|| builder.start().unwrap());
    let begin = Instant::now();
    while mirror.stats().dumps < 4 {
        assert!(begin.elapsed() < PATIENCE, "{:?}", mirror.stats());
        std::thread::sleep(every);
    }
    assert!(begin.elapsed() > every, "not faster than it should");
    let stats = mirror.stats();
    assert_eq!(stats.failure, None);
    assert!(
        stats.unconfirmed < PATIENCE && stats.behind < PATIENCE,
        "{stats:?}"
    );
    let text = stats.to_string();
    assert!(text.contains("\nunconfirmed "), "{text}");
    // Without changes, a mirror that waits is not behind.
    let quiet = RouteMirror::builder(Arc::new(IpFib::<MirrorHop>::new().unwrap()));
    let quiet = setup.router.inside(|| quiet.start().unwrap());
    let begin = Instant::now();
    while quiet.stats().behind > Duration::ZERO {
        assert!(begin.elapsed() < PATIENCE, "{:?}", quiet.stats());
        std::thread::sleep(every);
    }
    std::thread::sleep(every);
    let stats = quiet.stats();
    assert!(stats.unconfirmed >= every && stats.dumps == 1, "{stats:?}");
}

/// A live table has the kernel's routes and their changes, for readers of any process.
#[cfg(feature = "live")]
#[test]
fn a_live_table_follows() {
    use sapwood_live::{Live, LiveReader};

    let Some(setup) = router() else { return };
    let folder = tempfile::tempdir().unwrap();
    let live = Arc::new(Live::<IpFib<MirrorHop>>::create(folder.path().join("table")).unwrap());
    let ip = |text: &str| {
        setup
            .router
            .ip(&text.split_whitespace().collect::<Vec<_>>())
    };
    ip("route add 10.7.0.0/16 via 192.0.2.9");
    let mirror = setup
        .router
        .inside(|| RouteMirror::start(Arc::clone(&live)).unwrap());
    let mut reader = LiveReader::<IpFib<MirrorHop>>::open(folder.path().join("table")).unwrap();
    let mut found = || {
        reader.quiescent().unwrap();
        let view = reader.view();
        let (_, hop) = view.lookup("10.7.1.1".parse().unwrap())?;
        Some((hop.gateway(), hop.reason()))
    };
    assert_eq!(found(), Some((Some("192.0.2.9".parse().unwrap()), None)));
    ip("route replace blackhole 10.7.0.0/16");
    let begin = Instant::now();
    while found() != Some((None, Some(KernelReason::Blackhole))) {
        assert!(begin.elapsed() < PATIENCE, "{:?}", mirror.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
    ip("route del blackhole 10.7.0.0/16");
    while found().is_some() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", mirror.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
}
