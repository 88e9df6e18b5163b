//! Members of groups that a BPF program and C in user space choose, compared with the library's,
//! while members go down and come up.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

use sapwood::route::Group;
use sapwood_bpf::{BpfArena, Loader};
use user::Compiled;

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/group.bpf.o"));

/// The most members of a question, and where its answer is.
const MOST: u32 = 8;
const ANSWER: usize = 20;

/// Questions with their answers, as `struct group_ask` of tests/bpf/group_ask.h has them.
fn questions(number: usize, mut each: impl FnMut(&mut Vec<u8>, i32)) {
    let mut rng = fastrand::Rng::with_seed(17);
    for round in 0..number {
        // All weights, or small ones, among them 0.
        let count = rng.u32(..=MOST);
        let weights = if round % 4 == 0 { u32::MAX } else { 4 };
        let group = Group::new((0..count).map(|hop| (hop, rng.u32(..=weights))));
        let (up, flow) = (rng.u64(..) | rng.u64(..), rng.u64(..));
        let position = |hop: &u32| group.members().position(|(of, _)| of == hop).unwrap();
        // The oracle is the group without the members that are down.
        let down = group
            .members()
            .filter(|(hop, _)| up >> position(hop) & 1 == 0);
        let rest = down.fold(group.clone(), |rest, (hop, _)| rest.without(hop));
        let member = rest.member(flow).map_or(-1, |hop| position(hop) as i32);
        let same = group.member_where(flow, |hop| up >> position(hop) & 1 == 1);
        assert_eq!(same, rest.member(flow));

        let members = group.members().zip(group.member_hashes());
        let members: Vec<_> = members.map(|((_, weight), hash)| (hash, weight)).collect();
        let mut bytes = question(flow, up, &members, member);
        each(&mut bytes, member);
    }
}

/// A question, and its answer.
fn question(flow: u64, up: u64, members: &[(u64, u32)], answer: i32) -> Vec<u8> {
    let mut bytes = [flow, up].map(u64::to_ne_bytes).concat();
    bytes.extend((members.len() as u32).to_ne_bytes());
    bytes.extend(answer.to_ne_bytes());
    for (hash, weight) in members {
        bytes.extend(hash.to_ne_bytes());
        bytes.extend([*weight, 0].map(u32::to_ne_bytes).concat());
    }
    bytes.resize(24 + 16 * MOST as usize, 0);
    bytes
}

/// Answers that a program in another language made, from the description in docs/route.md: of the
/// flows 0 to 15, while all members are up, and while one is down.
#[test]
fn golden() {
    const MEMBERS: [(u64, u32); 3] = [
        (0x01bf_7d96_ca95_0ddf, 5),
        (0x74cc_6a07_9dcd_0d21, 1),
        (0x7522_176b_f733_dca8, 2),
    ];
    const ALL: [i32; 16] = [0, 0, 1, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    const WITHOUT: [i32; 16] = [2, 2, 1, 2, 2, 2, 1, 2, 2, 1, 1, 2, 2, 2, 1, 2];
    const DOWN: u32 = 0;
    let mut questions = Vec::new();
    for (flow, (all, without)) in ALL.into_iter().zip(WITHOUT).enumerate() {
        questions.extend(question(flow as u64, u64::MAX, &MEMBERS, all));
        questions.extend(question(flow as u64, !(1 << DOWN), &MEMBERS, without));
    }
    Compiled::new("group").same_answers(&[], &questions);
    let group = Group::new([("eth0", 1), ("eth1", 2), ("eth2", 5)]);
    assert!(group.member_hashes().eq(MEMBERS.map(|(hash, _)| hash)));
}

#[test]
fn members_as_the_library_chooses_them() {
    let mut all = Vec::new();
    questions(4_000, |bytes, _| all.append(bytes));
    Compiled::new("group").same_answers(&[], &all);
}

#[test]
fn members_that_a_program_chooses() {
    let arena = BpfArena::create(1 << 20).unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    questions(2_000, |bytes, member| {
        bytes[ANSWER..ANSWER + 4].fill(0x55);
        assert_eq!(programs.run("sw_ask", bytes).unwrap(), 2);
        let answer = i32::from_ne_bytes(bytes[ANSWER..ANSWER + 4].try_into().unwrap());
        assert_eq!(answer, member);
    });
}
