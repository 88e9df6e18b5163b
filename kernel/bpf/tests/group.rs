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

        let mut bytes = Vec::new();
        bytes.extend([flow, up].map(u64::to_ne_bytes).concat());
        bytes.extend(count.to_ne_bytes());
        bytes.extend(member.to_ne_bytes());
        for ((hop, weight), hash) in group.members().zip(group.member_hashes()) {
            bytes.extend(hash.to_ne_bytes());
            bytes.extend([weight, *hop].map(u32::to_ne_bytes).concat());
        }
        bytes.resize(24 + 16 * MOST as usize, 0);
        each(&mut bytes, member);
    }
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
