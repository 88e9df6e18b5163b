//! What a virtual switch relies on when it finds next hops: ages and limits of the cache, its
//! probes, links that are used no more, several next hops for a host, and a table in place of the
//! cache.
//!
//! `cargo test -p sapwood-vswitch` runs it with the library as a kernel has it, without the
//! standard library.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sapwood_vswitch::{ENTRIES, FRESH, Fabric, Hosts, KEEP, Key, NextHop, Port, Probes, System};

fn key(host: u128, flow: u32) -> Key {
    Key {
        host: Ipv6Addr::from(0xfd00 << 112 | host),
        flow,
    }
}

fn hop(link: u32) -> NextHop {
    NextHop {
        from: [2, 0, 0, 0, 0, link as u8],
        to: [2, 0, 0, 0, 1, link as u8],
        link,
    }
}

/// A system whose clock and answers the test sets.
#[derive(Default)]
struct Fake {
    now: Cell<u64>,
    /// How long an answer takes.
    takes: Cell<u64>,
    asked: Cell<u32>,
    /// The link of all routes; none: the system has no route.
    link: Cell<Option<u32>>,
    panics: Cell<bool>,
    /// Uses of each link by answers.
    uses: RefCell<BTreeMap<u32, i64>>,
    meanwhile: RefCell<Option<Box<dyn FnOnce()>>>,
}

/// A handle of it.
#[derive(Clone, Default)]
struct Net(Rc<Fake>);

impl Deref for Net {
    type Target = Fake;

    fn deref(&self) -> &Fake {
        &self.0
    }
}

impl System for Net {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn ask(&self, _: &Key) -> Option<NextHop> {
        self.asked.set(self.asked.get() + 1);
        assert!(!self.panics.get(), "as the test says");
        self.now.set(self.now.get() + self.takes.get());
        if let Some(run) = self.meanwhile.borrow_mut().take() {
            run();
        }
        let link = self.link.get()?;
        *self.uses.borrow_mut().entry(link).or_default() += 1;
        Some(hop(link))
    }
}

/// Probes that write down what they are told.
#[derive(Default)]
struct Told {
    all: RefCell<Vec<String>>,
    /// Next hops that the cache has no more.
    unused: RefCell<Vec<u32>>,
}

/// A handle of them.
#[derive(Clone, Default)]
struct Log(Rc<Told>);

impl Deref for Log {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.0
    }
}

impl Probes for Log {
    fn hit(&self, key: &Key) {
        self.all.borrow_mut().push(format!("hit {}", key.flow));
    }

    fn insert(&self, key: &Key, hop: &NextHop) {
        let text = format!("insert {} by {}", key.flow, hop.link);
        self.all.borrow_mut().push(text);
    }

    fn refresh(&self, key: &Key, hop: &NextHop) {
        let text = format!("refresh {} by {}", key.flow, hop.link);
        self.all.borrow_mut().push(text);
    }

    fn delete(&self, key: &Key) {
        self.all.borrow_mut().push(format!("delete {}", key.flow));
    }

    fn full(&self, key: &Key) {
        self.all.borrow_mut().push(format!("full {}", key.flow));
    }

    fn unused(&self, hop: &NextHop) {
        self.unused.borrow_mut().push(hop.link);
    }
}

impl Told {
    fn take(&self) -> Vec<String> {
        self.all.take()
    }
}

fn port(fake: &Net, told: &Log) -> Port<Net, Log> {
    fake.link.set(Some(1));
    fake.now.set(1_000_000);
    Port::new(fake.clone(), told.clone(), 7)
}

#[test]
fn an_answer_is_used_for_its_time_and_then_asked_for_again_in_its_slot() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    let start = fake.now.get();
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    fake.link.set(Some(2));
    for age in [0, 1, FRESH - 1, FRESH] {
        fake.now.set(start + age);
        assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)), "{age}");
    }
    assert_eq!(fake.asked.get(), 1);
    fake.now.set(start + FRESH + 1);
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(2)));
    assert_eq!((fake.asked.get(), port.len()), (2, 1));
    let four = ["hit 5"; 4];
    let told = told.take();
    assert_eq!(told[0], "insert 5 by 1");
    assert_eq!(
        (&told[1..5], &told[5..]),
        (&four.map(String::from)[..], &["refresh 5 by 2".into()][..])
    );
    // Another flow to the same host is another entry.
    port.next_hop(&key(1, 6));
    assert_eq!((fake.asked.get(), port.len()), (3, 2));
    port.verify().unwrap();
}

#[test]
fn what_nobody_asks_for_goes_after_a_second() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    let start = fake.now.get();
    port.next_hop(&key(1, 5));
    fake.now.set(start + 1);
    port.next_hop(&key(1, 6));
    fake.now.set(start + KEEP);
    port.expire();
    assert_eq!(port.len(), 2, "a second old, and less");
    fake.now.set(start + KEEP + 1);
    port.expire();
    assert_eq!(port.len(), 1);
    assert_eq!(told.take().last().unwrap(), "delete 5");
    // An entry that is asked for is younger.
    port.next_hop(&key(1, 6));
    fake.now.set(start + 2 * KEEP);
    port.expire();
    assert_eq!(port.len(), 1);
}

#[test]
fn the_age_counts_from_before_the_system_was_asked() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    fake.takes.set(FRESH + 1);
    port.next_hop(&key(1, 5));
    port.next_hop(&key(1, 5));
    assert_eq!(fake.asked.get(), 2, "the answer was old when it came");
}

#[test]
fn a_clock_that_steps_back_makes_no_answer_live_longer() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    fake.now.set(10 * KEEP);
    port.next_hop(&key(1, 5));
    // By less than an answer's time. A cache that counts for each thread alone asks at once; one
    // without the standard library, for which all threads are one, when that time has passed.
    let back = 10 * KEEP - FRESH / 2;
    fake.now.set(back);
    port.next_hop(&key(1, 5));
    let asked = fake.asked.get();
    assert!((1..=2).contains(&asked), "{asked}");
    for (later, more) in [(FRESH / 2, 0), (FRESH + 1, 1)] {
        fake.now.set(back + later);
        port.next_hop(&key(1, 5));
        assert_eq!(fake.asked.get(), asked + more);
    }
    // By more: nobody knows how old it is.
    fake.now.set(9 * KEEP);
    port.next_hop(&key(1, 5));
    assert_eq!(fake.asked.get(), asked + 2);
    port.verify().unwrap();
}

#[test]
fn routes_that_change_while_the_system_is_asked() {
    let (fake, told) = (Net::default(), Log::default());
    let port = Rc::new(port(&fake, &told));
    port.next_hop(&key(1, 5));
    port.routes_changed();
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    assert_eq!(fake.asked.get(), 2, "what was there is of no use");
    // A change while the system is asked: the answer is used for this packet, and for no other.
    fake.now.set(fake.now.get() + FRESH + 1);
    let weak = Rc::downgrade(&port);
    let changes = move || weak.upgrade().unwrap().routes_changed();
    *fake.meanwhile.borrow_mut() = Some(Box::new(changes));
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    assert_eq!(fake.asked.get(), 4);
}

#[test]
fn no_route_is_not_remembered_and_a_panic_does_no_harm() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    fake.link.set(None);
    assert_eq!(port.next_hop(&key(1, 5)), None);
    assert_eq!(port.next_hop(&key(1, 5)), None);
    assert_eq!((fake.asked.get(), port.len()), (2, 0));
    fake.panics.set(true);
    let panic = catch_unwind(AssertUnwindSafe(|| port.next_hop(&key(1, 5))));
    assert!(panic.is_err());
    fake.panics.set(false);
    fake.link.set(Some(1));
    assert_eq!(port.next_hop(&key(1, 5)), Some(hop(1)));
    assert!(told.take() == ["insert 5 by 1"] && port.verify().is_ok());
}

#[test]
fn a_flood_of_flows_does_not_drive_out_those_that_are_used() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    // Flows that are never seen again fill the cache first.
    for flow in 0..4 * ENTRIES as u32 {
        port.next_hop(&key(1, 1_000_000 + flow));
    }
    assert_eq!(port.len(), ENTRIES);
    let told_of = told.take();
    let count = |what: &str| told_of.iter().filter(|told| told.starts_with(what)).count();
    assert_eq!(count("insert"), 4 * ENTRIES);
    assert_eq!((count("full"), count("delete")), (3 * ENTRIES, 3 * ENTRIES));
    // A new flow among them is answered from the cache from its second packet on.
    let mut hits = 0;
    for round in 0..100 {
        for flow in 0..20 {
            let before = fake.asked.get();
            port.next_hop(&key(2, flow));
            hits += u32::from(fake.asked.get() == before);
        }
        port.next_hop(&key(1, 5_000_000 + round));
    }
    assert!(hits > 1900, "{hits} of 2000");
    port.verify().unwrap();
}

/// The links of next hops are counted: the system counts a use for each answer, and the cache tells
/// when it has an answer no more.
#[test]
fn each_use_of_a_link_ends_once() {
    let (fake, told) = (Net::default(), Log::default());
    let port = port(&fake, &told);
    let mut rng = 1_u64;
    for step in 0..20_000_u64 {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let flow = (rng >> 33) as u32 % 700;
        fake.link.set((flow % 11 != 0).then_some(flow % 5));
        port.next_hop(&key(1, flow));
        fake.now.set(fake.now.get() + (rng >> 50));
        match step % 1000 {
            500 => port.expire(),
            999 => port.routes_changed(),
            _ => {}
        }
    }
    let ended = |told: &Told| {
        for link in told.unused.take() {
            *fake.uses.borrow_mut().get_mut(&link).unwrap() -= 1;
        }
    };
    ended(&told);
    let used: i64 = fake.uses.borrow().values().sum();
    assert_eq!(used, port.len() as i64, "each entry is a use");
    assert!(port.len() > 100);
    drop(port);
    ended(&told);
    assert!(fake.uses.borrow().values().all(|uses| *uses == 0));
}

#[test]
fn the_flows_to_a_host_share_its_entry_and_its_links() {
    let hosts = Hosts::new(3);
    let asked = Cell::new(0);
    let ask = |links: u32| {
        asked.set(asked.get() + 1);
        (0..links).map(|link| (hop(link), 1))
    };
    let of = |flow, now, links| hosts.next_hop(&key(9, flow), now, || ask(links));
    let first: Vec<_> = (0..300).map(|flow| of(flow, 5, 3).unwrap()).collect();
    assert_eq!(asked.get(), 1);
    let links: BTreeSet<u32> = first.iter().map(|hop| hop.link).collect();
    assert_eq!(links.len(), 3);
    // A link less: only its flows move.
    for (flow, before) in (0..).zip(&first) {
        let now = of(flow, 5 + 2 * FRESH, 2).unwrap();
        assert!(before.link == 2 && now.link < 2 || now == *before);
    }
    assert_eq!(asked.get(), 2);
    assert_eq!(
        hosts.next_hop(&key(8, 1), 5, || ask(5)),
        None,
        "too many links"
    );
}

/// Readers and a writer on threads of their own, with the locks of programs without a system.
#[test]
fn a_table_in_place_of_the_cache() {
    let fabric = Fabric::new().unwrap();
    let all = "fd00::/16".parse().unwrap();
    let some = "fd00::100/120".parse().unwrap();
    fabric.set(all, &[(hop(1), 1), (hop(2), 1)]).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (fabric, over) = (&fabric, &over);
            scope.spawn(move || {
                let mut port = fabric.port("port");
                let mut flow = number;
                while !over.load(std::sync::atomic::Ordering::Acquire) {
                    for host in [1, 0x101] {
                        let found = port.next_hop(&key(host, flow));
                        let link = found.expect("a route is there at all times").link;
                        assert!(link == 1 || link == 2 || host == 0x101 && link == 3);
                    }
                    assert_eq!(
                        port.next_hop(&Key {
                            host: Ipv6Addr::LOCALHOST,
                            flow
                        }),
                        None
                    );
                    flow = flow.wrapping_add(2);
                    port.quiescent();
                }
            });
        }
        for round in 0..300_u32 {
            fabric.set(some, &[(hop(3), 1)]).unwrap();
            if round % 3 == 0 {
                fabric.link_down(&hop(2));
                fabric.set(all, &[(hop(1), 1), (hop(2), 1)]).unwrap();
            }
            assert!(fabric.remove(some).unwrap());
            // So many routes that the roots of the table grow.
            let net = sapwood::lpm::ipnet::Ipv6Net::new(
                (0xfc_u128 << 120 | u128::from(round) << 64).into(),
                64,
            );
            fabric.set(net.unwrap(), &[(hop(4), 1)]).unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::Release);
    });
    fabric.verify().unwrap();
    fabric.reclaim();
    assert_eq!(fabric.garbage(), 0);
    let port = fabric.port("last");
    assert_eq!(
        port.next_hop(&Key {
            host: "fc00:0:0:7::1".parse().unwrap(),
            flow: 1
        }),
        Some(hop(4))
    );
}
