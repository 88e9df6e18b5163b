//! A pinned link of a program to an interface outlives its process, and another process opens it.
#![cfg(feature = "kernel")]

mod common;

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use common::beside::{Beside, Pins, skipped};
use common::dns::{message, wire};
use common::netns::Netns;
use libbpf_rs::Link;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter};
use sapwood_bpf::{BpfArena, Pinned};
use sapwood_xdp::{NameRule, XdpMode, XdpNames, interface_index};

/// The part of the process that dies. It runs in the network namespace behind the cable.
#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((_, folder)) = Beside::order() else {
        return;
    };
    let arena = BpfArena::create(16 << 20).unwrap();
    let list = [("ads.example", NameRule::Block)];
    let mut filter = XdpNames::load(&arena, "blocked", list).unwrap();
    let link = filter.attach(interface_index("s0").unwrap(), Some(XdpMode::Native));
    let place = link.unwrap().fd().try_clone_to_owned().unwrap();
    let pinned = Pinned::create(&folder).unwrap();
    pinned.pin_arena(&arena).unwrap();
    pinned.pin_programs(filter.programs()).unwrap();
    pinned.pin_link("s0", place.as_fd()).unwrap();
    let again = pinned.pin_link("s0", place.as_fd());
    assert!(again.is_err(), "the name is taken");
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

struct Cable {
    client: UdpSocket,
    server: UdpSocket,
}

impl Cable {
    /// Whether a query for this name arrives. Packets keep their order, so a later packet shows it.
    #[track_caller]
    fn arrives(&self, name: &str) -> bool {
        let query = |name: &str| message(7, 0x0100, &wire(name));
        self.client.send(&query(name)).unwrap();
        self.client.send(&query("last.example")).unwrap();
        let mut buffer = [0; 600];
        let mut came = Vec::new();
        while came.last() != Some(&query("last.example")) {
            let bytes = self.server.recv(&mut buffer).unwrap();
            came.push(buffer[..bytes].to_vec());
        }
        came.contains(&query(name))
    }
}

/// The program and the interface of a link.
fn place(link: &Link) -> (u32, u32) {
    let info = link.info().unwrap();
    match info.info {
        LinkTypeInfo::Xdp(xdp) => (info.prog_id, xdp.ifindex),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pinned_place_outlives_its_process() {
    if skipped() {
        return;
    }
    let Some([before, behind]) = Netns::some(["before", "behind"]) else {
        return;
    };
    Netns::veth(
        (&before, "c0", &["10.57.0.1/24"]),
        (&behind, "s0", &["10.57.0.2/24"]),
    );
    let server = behind.inside(|| UdpSocket::bind("10.57.0.2:53").unwrap());
    let client = before.inside(|| UdpSocket::bind("10.57.0.1:0").unwrap());
    server
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    client.connect("10.57.0.2:53").unwrap();
    let cable = Cable { client, server };
    assert!(cable.arrives("ads.example"));
    let pins = Pins::new("place");
    let folder = pins.path("filter");
    let mut child = behind.inside(|| Beside::start("pins", &folder));
    child.wait_for("ready");
    assert!(!cable.arrives("ads.example"));
    child.kill();
    assert!(!cable.arrives("ads.example"), "it outlives its process");
    assert!(cable.arrives("example"));
    // This process opens the link, the program and the list.
    let pinned = Pinned::open(&folder).unwrap();
    assert_eq!(
        pinned.names().unwrap(),
        ["arena", "link-s0", "prog-sw_xdp_names"]
    );
    let link = pinned.link("s0").unwrap();
    let (program, interface) = place(&link);
    assert_eq!(interface, behind.index("s0"));
    let held = pinned.program("sw_xdp_names").unwrap();
    let number = ProgInfoIter::default()
        .find(|info| info.id == program)
        .map(|info| info.name.to_string_lossy().into_owned());
    assert_eq!(number.as_deref(), Some("sw_xdp_names"));
    assert!(held.run(&[0; 64], &mut [0; 64]).is_ok());
    let arena = pinned.arena().unwrap();
    let reader = arena.reader::<u64>("blocked").unwrap();
    assert_eq!(reader.iter().count(), 1);
    // The removal of its pin does not detach a link that another process holds.
    pinned.remove().unwrap();
    assert!(!folder.exists());
    assert!(!cable.arrives("ads.example"));
    drop(link);
    assert!(cable.arrives("ads.example"));
    // `take_down` detaches it.
    let mut child = behind.inside(|| Beside::start("pins", &folder));
    child.wait_for("ready");
    assert!(!cable.arrives("ads.example"));
    let pinned = Pinned::open(&folder).unwrap();
    let link = pinned.link("s0").unwrap();
    let gone = pinned.take_down().unwrap();
    let names: Vec<_> = gone.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["link-s0", "prog-sw_xdp_names", "arena"]);
    assert!(cable.arrives("ads.example"));
    assert!(link.info().is_ok(), "still held, on no interface");
    child.kill();
}
