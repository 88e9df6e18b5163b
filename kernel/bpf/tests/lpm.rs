//! Longest prefixes found by a BPF program, and by C in user space, in tables that this process
//! writes.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use ipnet::{Ipv4Net, Ipv6Net};
use libbpf_rs::ProgramInput;
use sapwood::lpm::{Family, V4, V6};
use sapwood_bpf::{BpfArena, FibMap, Ipv4Map, Ipv6Map, Loader, Programs};
use sapwood_model::oracle::{Lpm, Prefix};
use user::Compiled;

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lpm.bpf.o"));

/// The maximum number of questions in a packet.
const MOST: usize = 64;
const HEAD: usize = 32;
const QUESTION: usize = 40;
/// The number of an operation of `sw_ask`.
const POKE: u32 = 4;

/// A family for the oracle and the program, with addresses left-aligned in 128 bits.
trait Kind: Family {
    const NUMBER: u32;
    fn net(prefix: Prefix) -> Self::Net;
}

impl Kind for V4 {
    const NUMBER: u32 = 4;
    fn net(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new(Ipv4Addr::from((prefix.bits >> 96) as u32), prefix.len).unwrap()
    }
}

impl Kind for V6 {
    const NUMBER: u32 = 6;
    fn net(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new(Ipv6Addr::from(prefix.bits), prefix.len).unwrap()
    }
}

/// A program's answer: the place or an error, the value there, the prefix's length or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    found: i64,
    value: u64,
    length: i64,
}

fn run(programs: &Programs, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; data.len()];
    let program = programs.program("sw_ask").unwrap();
    let result = program
        .test_run(ProgramInput {
            data_in: Some(data),
            data_out: Some(&mut out),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(result.return_value, 2);
    out
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Asks a program for all of these addresses.
fn ask(programs: &Programs, family: u32, window: u32, addresses: &[u128]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for some in addresses.chunks(MOST) {
        let mut data = vec![0u8; HEAD + QUESTION * some.len()];
        data[0..4].copy_from_slice(&u32::from(family == 6).to_ne_bytes());
        data[4..8].copy_from_slice(&window.to_ne_bytes());
        for (address, place) in some.iter().zip(data[HEAD..].chunks_mut(QUESTION)) {
            place[0..8].copy_from_slice(&((address >> 64) as u64).to_ne_bytes());
            place[8..16].copy_from_slice(&(*address as u64).to_ne_bytes());
        }
        let out = run(programs, &data);
        answers.extend(out[HEAD..].chunks(QUESTION).map(|one| Answer {
            found: word(one, 16) as i64,
            value: word(one, 24),
            length: word(one, 32) as i64,
        }));
    }
    answers
}

/// Stores a word anywhere in the arena.
fn poke(programs: &Programs, place: usize, value: u64) {
    let mut data = vec![0u8; HEAD];
    data[0..4].copy_from_slice(&POKE.to_ne_bytes());
    data[8..16].copy_from_slice(&value.to_ne_bytes());
    data[16..24].copy_from_slice(&(place as u64).to_ne_bytes());
    run(programs, &data);
}

/// Values that show whether a read was torn.
fn whole(number: u32) -> u64 {
    u64::from(number) << 32 | u64::from(!number)
}

/// Addresses and prefixes with few different bits, so that prefixes nest.
fn bits<F: Kind>(rng: &mut fastrand::Rng) -> u128 {
    let few = 0x8421_0000_0000_0000_0000_0000_0000_0001_u128 | rng.u128(..) & (0xf0f << 90);
    Prefix::truncated(rng.u128(..) & (few | rng.u128(..) & rng.u128(..)), F::WIDTH).bits
}

/// A question for C in user space, with its answer.
fn question(file: &mut Vec<u8>, family: u32, window: u32, address: u128, answer: Answer) {
    file.extend(family.to_ne_bytes());
    file.extend(window.to_ne_bytes());
    file.extend(((address >> 64) as u64).to_ne_bytes());
    file.extend((address as u64).to_ne_bytes());
    file.extend(answer.found.to_ne_bytes());
    file.extend(answer.value.to_ne_bytes());
    file.extend(answer.length.to_ne_bytes());
}

/// Changes a table and asks a program after each change. Leaves questions with the last answers.
fn as_the_oracle<F: Kind>(
    map: &FibMap<F, u64>,
    programs: &Programs,
    rounds: u32,
    shortest: u8,
    file: &mut Vec<u8>,
) {
    let mut rng = fastrand::Rng::with_seed(u64::from(F::WIDTH) << 8 | u64::from(map.root_bits()));
    let window = map.window().number;
    let mut oracle = Lpm::new(F::WIDTH);
    let check = |oracle: &Lpm<u64>, rng: &mut fastrand::Rng, count: usize| {
        let mut addresses: Vec<u128> = (0..count).map(|_| bits::<F>(rng)).collect();
        addresses.extend(oracle.iter().map(|(prefix, _)| prefix.bits).take(MOST - 1));
        addresses.push(u128::MAX);
        let answers = ask(programs, F::NUMBER, window, &addresses);
        for (&address, &answer) in addresses.iter().zip(&answers) {
            let want = oracle.lookup(address);
            match want {
                Some((prefix, &value)) => {
                    let got = (answer.value, answer.length);
                    assert_eq!(got, (value, i64::from(prefix.len)), "{address:032x}");
                }
                None => assert_eq!((answer.found, answer.length), (-2, -2), "{address:032x}"),
            }
        }
        addresses.into_iter().zip(answers).collect::<Vec<_>>()
    };
    for round in 0..rounds {
        let prefix = Prefix::truncated(bits::<F>(&mut rng), rng.u8(shortest..=F::WIDTH));
        let value = whole(rng.u32(0..50));
        if rng.u8(0..3) == 0 {
            let known: Vec<Prefix> = oracle.iter().map(|(prefix, _)| prefix).collect();
            let Some(&prefix) = rng.choice(&known) else {
                continue;
            };
            assert_eq!(map.remove(F::net(prefix)).unwrap(), oracle.remove(prefix));
        } else {
            let old = map.insert(F::net(prefix), value).unwrap();
            assert_eq!(old, oracle.insert(prefix, value));
        }
        if round % 4 == 0 {
            check(&oracle, &mut rng, 40);
        }
    }
    map.compact().unwrap();
    for (address, answer) in check(&oracle, &mut rng, 400) {
        question(file, F::NUMBER, window, address, answer);
    }
    map.verify().unwrap();
}

#[test]
fn as_the_oracle_in_the_kernel_and_in_user_space() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let domain = sapwood_bpf::kernel_domain().unwrap();
    let mut four = Vec::new();
    let mut six = Vec::new();
    for bits in [6, 12, 18] {
        let bytes = (1 << 20) + (8 << bits);
        let map = Ipv4Map::<u64>::builder(&arena, &format!("four {bits}"));
        let map = map.root_bits(bits).bytes(bytes).domain(&domain);
        four.push(map.build().unwrap());
        let map = Ipv6Map::<u64>::builder(&arena, &format!("six {bits}"));
        let map = map.root_bits(bits).bytes(bytes).domain(&domain);
        six.push(map.build().unwrap());
    }
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let user = Compiled::new("lpm");
    let mut questions = Vec::new();
    for map in &four {
        as_the_oracle::<V4>(map, &programs, 400, 0, &mut questions);
    }
    for map in &six {
        as_the_oracle::<V6>(map, &programs, 400, 0, &mut questions);
    }
    // Windows that do not exist, or are of the other kind.
    for (family, window) in [(4, 30), (4, six[0].window().number), (6, 30), (6, 0)] {
        let answer = ask(&programs, family, window, &[0])[0];
        assert_eq!((answer.found, answer.length), (-22, -22));
        question(&mut questions, family, window, 0, answer);
    }
    user.same_answers(&arena.image(), &questions);
    // The drop of a table closes its window.
    let window = four[0].window().number;
    drop(four);
    assert_eq!(ask(&programs, 4, window, &[0])[0].found, -22);
}

#[test]
fn roots_of_24_bits() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(300 << 20).unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    // Prefixes of a few bits would take most of the time, because each is in many words of the
    // root.
    let map = Ipv4Map::<u64>::builder(&arena, "four").root_bits(24);
    let map = map.bytes(132 << 20).build().unwrap();
    as_the_oracle::<V4>(&map, &programs, 200, 7, &mut Vec::new());
    let map = Ipv6Map::<u64>::builder(&arena, "six").root_bits(24);
    let map = map.bytes(132 << 20).build().unwrap();
    as_the_oracle::<V6>(&map, &programs, 200, 7, &mut Vec::new());
}

#[test]
fn readers_beside_a_writer() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(1, |text| text.parse().unwrap());
    let arena = BpfArena::create(32 << 20).unwrap();
    let map = Ipv4Map::<u64>::builder(&arena, "four");
    let map = map.bytes(24 << 20).root_bits(12).build().unwrap();
    let six = Ipv6Map::<u64>::builder(&arena, "six").domain(map.domain());
    let six = six.root_bits(6).build().unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let net = |bits: u128, len| Prefix::truncated(bits, len);
    map.insert(V4::net(net(0, 0)), whole(0)).unwrap();
    six.insert(V6::net(net(0, 0)), whole(0)).unwrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let changes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(7);
            let mut changes = 0u32;
            let one = |rng: &mut fastrand::Rng| {
                let len = rng.u8(8..=30);
                (net(bits::<V4>(rng), len), net(bits::<V6>(rng), 4 * len))
            };
            let prefixes: Vec<_> = (0..2000).map(|_| one(&mut rng)).collect();
            while Instant::now() < until {
                let (prefix, wide) = *rng.choice(&prefixes).unwrap();
                // Each value is new, so that memory is reused. A table that is full of blocks in
                // their grace period refuses a change, and loses nothing.
                let done = match rng.bool() {
                    true => map.insert(V4::net(prefix), whole(changes)).is_ok(),
                    false => map.remove(V4::net(prefix)).is_ok(),
                };
                let also = match rng.bool() {
                    true => six.insert(V6::net(wide), whole(changes)).is_ok(),
                    false => six.remove(V6::net(wide)).is_ok(),
                };
                if !(done && also) {
                    std::thread::sleep(Duration::from_millis(1));
                    map.reclaim(usize::MAX);
                    six.reclaim(usize::MAX);
                }
                changes += 1;
            }
            changes
        });
        let mut rng = fastrand::Rng::with_seed(8);
        while Instant::now() < until {
            let addresses: Vec<u128> = (0..MOST).map(|_| bits::<V4>(&mut rng)).collect();
            let answers = ask(&programs, 4, map.window().number, &addresses);
            let wide: Vec<u128> = (0..MOST).map(|_| bits::<V6>(&mut rng)).collect();
            let more = ask(&programs, 6, six.window().number, &wide);
            for answer in answers.iter().chain(&more) {
                // Each address always has a prefix, and no value is torn.
                assert!(answer.found > 0 && answer.length >= 0, "{answer:?}");
                let number = (answer.value >> 32) as u32;
                assert_eq!(answer.value, whole(number));
            }
        }
        writer.join().unwrap()
    });
    assert!(changes > 100, "{changes} changes");
    map.verify().unwrap();
    six.verify().unwrap();
    println!("{changes} changes of each table");
}

/// Tables whose memory is overwritten at random: a program returns some answer, and C in user space
/// returns the same. Neither reads outside or runs without end.
#[test]
fn damaged_tables() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let mut rng = fastrand::Rng::with_seed(9);
    let arena = BpfArena::create(4 << 20).unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let user = Compiled::new("lpm");
    let mut questions = Vec::new();
    let mut spots = Vec::new();
    let four = Ipv4Map::<u64>::builder(&arena, "four").root_bits(6);
    let four = four.bytes(512 << 10).build().unwrap();
    let six = Ipv6Map::<u64>::builder(&arena, "six").root_bits(6);
    let six = six.bytes(512 << 10).build().unwrap();
    for number in 0..300 {
        let len = rng.u8(0..=32);
        let prefix = Prefix::truncated(bits::<V4>(&mut rng), len);
        four.insert(V4::net(prefix), whole(number)).unwrap();
        let prefix = Prefix::truncated(bits::<V6>(&mut rng), 4 * len);
        six.insert(V6::net(prefix), whole(number)).unwrap();
    }
    for (info, used) in [
        (four.window().clone(), four.memory().arena.frontier),
        (six.window().clone(), six.memory().arena.frontier),
    ] {
        spots.push((info.number, info.kind, info.at, used));
    }
    // Rust must not own a damaged table.
    drop((four, six));
    for &(number, kind, at, used) in &spots {
        poke(&programs, 64 + 64 * number as usize, kind as u64);
        for _ in 0..used / 8 / 6 {
            let place = at + 4096 + 8 * rng.usize(0..(used - 4096) / 8);
            let word = match rng.u8(0..4) {
                0 => rng.u64(..),
                // Bytes that look like references into the table.
                1 => rng.u64(..) & 0x0000_1fff_8000_1fff | 1 << 31,
                2 => u64::MAX,
                _ => 0,
            };
            poke(&programs, place, word);
        }
    }
    let mut sorts = [0; 3];
    let mut go = |questions: &mut Vec<u8>, rng: &mut fastrand::Rng| {
        for &(window, kind, ..) in &spots {
            let family = if kind == sapwood_bpf::layout::Kind::Lpm4 {
                4
            } else {
                6
            };
            let addresses: Vec<u128> = (0..500)
                .map(|_| bits::<V6>(rng) | rng.u128(..) >> 30)
                .collect();
            for (&address, answer) in addresses
                .iter()
                .zip(ask(&programs, family, window, &addresses))
            {
                sorts[usize::from(answer.found > 0) + usize::from(answer.length > 0)] += 1;
                // Reads behind the arena's end differ between the two.
                question(
                    questions,
                    family,
                    window,
                    address,
                    Answer { value: 0, ..answer },
                );
            }
        }
    };
    go(&mut questions, &mut rng);
    user.same_answers(&arena.image(), &questions);
    // The root's place and the number of its bits.
    for word in [
        0,
        u64::MAX,
        6 << 32,
        25 << 32 | 512,
        24 << 32 | 0xffff_ffff,
        12 << 32 | 3,
        5 << 32 | 512,
    ] {
        for &(_, _, at, _) in &spots {
            poke(&programs, at + 64, word);
        }
        questions.clear();
        go(&mut questions, &mut rng);
        user.same_answers(&arena.image(), &questions);
    }
    assert!(sorts.iter().all(|&count| count > 0), "{sorts:?}");
}
