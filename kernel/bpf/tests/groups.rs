//! Groups of next hops in windows: programs choose the members that the library chooses, while
//! links go down and come up, and while groups change.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, Ordering};

use kernel::{Answers, load, skipped};
use sapwood::route::Group;
use sapwood_bpf::MirrorHop;
use sapwood_bpf::{BpfArena, Error, GroupMap, GroupMember, Programs};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/groups.bpf.o"));

const ENOENT: i64 = -2;
const EINVAL: i64 = -22;
const ENETDOWN: i64 = -100;

/// A next hop with a number in all its parts, as the program `sw_beside` expects.
fn hop(number: u32) -> MirrorHop {
    MirrorHop {
        ifindex: number,
        mtu: number as u16,
        dmac: [number as u8; 6],
        gateway: [number as u8; 16],
        ..MirrorHop::default()
    }
}

fn member(number: u32, weight: u32, link: u32) -> GroupMember {
    GroupMember {
        id: number.into(),
        weight,
        link,
        backup: false,
        hop: hop(number),
    }
}

/// The number of the next hop that a program finds, or its error.
fn ask(programs: &Programs, window: u32, group: usize, flow: u64) -> Result<u32, i64> {
    let mut packet = vec![0u8; 24 + 40];
    packet[0..4].copy_from_slice(&window.to_ne_bytes());
    packet[4..8].copy_from_slice(&(group as u32).to_ne_bytes());
    packet[8..16].copy_from_slice(&flow.to_ne_bytes());
    programs.answer("sw_ask_group", &mut packet);
    let result = i64::from_ne_bytes(packet[16..24].try_into().unwrap());
    match result {
        0 => Ok(u32::from_ne_bytes(packet[24..28].try_into().unwrap())),
        error => Err(error),
    }
}

/// Has a program take a link down or up.
fn link(programs: &Programs, window: u32, link: u32, down: bool) -> i64 {
    let mut packet = vec![0u8; 24 + 40];
    packet[0..4].copy_from_slice(&window.to_ne_bytes());
    packet[4..8].copy_from_slice(&u32::from(down).to_ne_bytes());
    packet[8..16].copy_from_slice(&u64::from(link).to_ne_bytes());
    programs.answer("sw_set_link", &mut packet);
    i64::from_ne_bytes(packet[16..24].try_into().unwrap())
}

/// The oracle: the groups of the members that are up, backups apart.
fn oracle_of(members: &[GroupMember], down: &[bool]) -> [Group<u64>; 2] {
    [false, true].map(|backup| {
        let all = members.iter().filter(|member| member.backup == backup);
        let up = all.filter(|member| !down[member.link as usize]);
        Group::new(up.map(|member| (member.id, member.weight)))
    })
}

#[test]
fn programs_choose_as_the_library() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let programs = load(&arena, OBJECT);
    let groups = GroupMap::builder(&arena, "groups");
    let groups = groups.groups(8).members(64).links(100).build().unwrap();
    let window = groups.window().number;
    let mut rng = fastrand::Rng::with_seed(3);
    let mut oracle: Vec<Option<Vec<GroupMember>>> = vec![None; 8];
    let mut down = [false; 100];
    for step in 0..300 {
        let group = rng.usize(..8);
        match rng.u8(..8) {
            0..3 => {
                let count = [0u32, 1, 2, 3, 8, 64][rng.usize(..6)];
                let most = if rng.bool() { 4 } else { u32::MAX };
                let each = |i| GroupMember {
                    backup: rng.u8(..4) == 0,
                    ..member(1 + i * 3 + rng.u32(..3), rng.u32(..most), rng.u32(..100))
                };
                let members: Vec<_> = (0..count).map(each).collect();
                groups.set(group, &members).unwrap();
                oracle[group] = Some(members);
            }
            3 => {
                assert_eq!(groups.clear(group).unwrap(), oracle[group].is_some());
                oracle[group] = None;
            }
            _ => {
                let number = rng.u32(..100);
                let goes_down = rng.bool();
                match (rng.bool(), goes_down) {
                    (true, _) => assert_eq!(link(&programs, window, number, goes_down), 0),
                    (false, true) => groups.link_down(number),
                    (false, false) => groups.link_up(number),
                }
                down[number as usize] = goes_down;
            }
        }
        for (number, down) in down.iter().enumerate() {
            assert_eq!(groups.is_up(number as u32), !down);
        }
        let group = rng.usize(..8);
        let orders = oracle[group].as_deref().map(|of| oracle_of(of, &down));
        for _ in 0..20 {
            let flow = rng.u64(..);
            let wanted = match &orders {
                Some([first, backups]) => match first.member(flow).or(backups.member(flow)) {
                    Some(id) => Ok(*id as u32),
                    None => Err(ENETDOWN),
                },
                None => Err(ENOENT),
            };
            assert_eq!(ask(&programs, window, group, flow), wanted, "step {step}");
            let here = groups.member(group, flow).map(|member| member.id as u32);
            assert_eq!(here, wanted.ok(), "step {step}");
        }
        let (of, wanted) = (groups.members(group), &oracle[group]);
        let sorted = |all: &[GroupMember]| {
            let mut all = all.to_vec();
            all.sort_by_key(|member| (member.backup, member.id));
            all
        };
        assert_eq!(of.map(|all| sorted(&all)), wanted.as_deref().map(sorted));
    }
}

#[test]
fn only_flows_of_the_link_that_is_down_move() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let programs = load(&arena, OBJECT);
    let groups = GroupMap::builder(&arena, "groups").build().unwrap();
    let window = groups.window().number;
    let backup = GroupMember {
        backup: true,
        ..member(9, 1, 9)
    };
    let all = [member(1, 1, 1), member(2, 1, 2), member(3, 1, 3), backup];
    groups.set(5, &all).unwrap();
    let flows = |what: &str| -> Vec<u32> {
        let of = |flow| ask(&programs, window, 5, flow).unwrap_or_else(|e| panic!("{what}: {e}"));
        (0..3000).map(of).collect()
    };
    let before = flows("all up");
    for number in 1..=3 {
        let share = before.iter().filter(|of| **of == number).count();
        assert!((800..1200).contains(&share), "{number}: {share}");
    }
    groups.link_down(2);
    let now = flows("2 down");
    for (before, now) in before.iter().zip(&now) {
        assert!(*now != 2 && *now != 9);
        assert!(
            *before == 2 || before == now,
            "a flow of another member has moved"
        );
    }
    groups.link_up(2);
    assert_eq!(flows("2 up again"), before);
    for number in 1..=3 {
        assert_eq!(link(&programs, window, number, true), 0);
    }
    assert!(flows("all but the backup down").iter().all(|of| *of == 9));
    groups.link_down(9);
    assert_eq!(ask(&programs, window, 5, 1), Err(ENETDOWN));
    assert_eq!(groups.member(5, 1), None);
    for number in [1, 2, 3, 9] {
        groups.link_up(number);
    }
    assert_eq!(flows("all up again"), before);
}

#[test]
fn groups_change_beside_programs() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let groups = GroupMap::builder(&arena, "groups").groups(1).members(8);
    let groups = groups.build().unwrap();
    let window = groups.window().number;
    groups.set(0, &[member(1, 1, 0)]).unwrap();
    let ends = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let programs = load(&arena, OBJECT);
            let mut found = 0;
            let mut flow = 0u64;
            while !ends.load(Ordering::Relaxed) {
                let mut packet = vec![0u8; 64];
                packet[0..4].copy_from_slice(&window.to_ne_bytes());
                packet[8..16].copy_from_slice(&flow.to_ne_bytes());
                packet[16..20].copy_from_slice(&2000u32.to_ne_bytes());
                programs.answer("sw_beside", &mut packet);
                let number = |at: usize| u32::from_ne_bytes(packet[at..at + 4].try_into().unwrap());
                assert_eq!(
                    (number(20), number(28)),
                    (0, 0),
                    "torn or missing next hops"
                );
                found += u64::from(number(24));
                flow += 2000;
            }
            found
        });
        let mut rng = fastrand::Rng::with_seed(8);
        for _ in 0..40 {
            let count = rng.u32(1..=8);
            let members = (0..count).map(|i| member(rng.u32(1..1 << 28) * 8 + i, 1 + i, i));
            groups.set(0, &members.collect::<Vec<_>>()).unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        asks.join().unwrap()
    });
    assert!(found > 1000, "{found}");
}

#[test]
fn errors() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let programs = load(&arena, OBJECT);
    let builder = || {
        GroupMap::builder(&arena, "groups")
            .groups(4)
            .members(2)
            .links(8)
    };
    for (refused, wanted) in [
        (builder().groups(0).build(), "groups"),
        (builder().members(0).build(), "members"),
        (builder().members(65).build(), "members"),
        (builder().links(0).build(), "links"),
    ] {
        assert!(matches!(refused, Err(Error::Setting { what, .. }) if what == wanted));
    }
    let groups = builder().build().unwrap();
    let window = groups.window().number;
    groups.set(1, &[member(1, 1, 0)]).unwrap();
    let before = groups.members(1);
    let refused = |done: Result<(), Error>| match done {
        Err(Error::Setting { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(groups.set(4, &[])), "group");
    assert_eq!(refused(groups.set(1, &[member(1, 1, 8)])), "link");
    let three = [member(1, 1, 0), member(2, 1, 0), member(3, 1, 0)];
    assert_eq!(refused(groups.set(1, &three)), "members");
    let twice = [member(1, 1, 0), member(1, 2, 1)];
    assert_eq!(refused(groups.set(1, &twice)), "members");
    assert_eq!(groups.members(1), before);
    assert_eq!(ask(&programs, window, 4, 1), Err(ENOENT));
    assert_eq!(ask(&programs, window, 0, 1), Err(ENOENT));
    assert_eq!(ask(&programs, 30, 1, 1), Err(EINVAL));
    assert_eq!(link(&programs, window, 8, true), EINVAL);
    assert_eq!(ask(&programs, window, 1, 1), Ok(1));
    drop(groups);
    assert_eq!(ask(&programs, window, 1, 1), Err(EINVAL));
}
