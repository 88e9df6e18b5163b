//! The program `xdp-names`, frame by frame, compared with a parser in Rust.
#![cfg(feature = "kernel")]

mod common;

use common::dns::*;
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use sapwood::key::dns_name;
use sapwood_bpf::{BpfArena, Loader, UserMap, UserStore};
use sapwood_xdp::NamesVerdict::{self, *};
use sapwood_xdp::{NameRule, NameRules, XdpNames};

struct Filter {
    names: XdpNames,
    rules: Rules,
}

impl Filter {
    fn new(rules: &[(&str, NameRule)]) -> Option<Filter> {
        if let Err(why) = sapwood_bpf::check() {
            println!("skipped: {why}");
            return None;
        }
        let arena = BpfArena::create(64 << 20).unwrap();
        let names = XdpNames::load(&arena, "rules", rules.iter().copied()).unwrap();
        let rules = rules
            .iter()
            .map(|(name, rule)| (dns_name(name).unwrap(), *rule));
        Some(Filter {
            names,
            rules: rules.collect(),
        })
    }

    /// The verdict on a frame. The frame must be counted once, dropped or passed as its verdict
    /// says, and unchanged; or it must be the answer to the query.
    #[track_caller]
    fn run(&self, frame: &[u8]) -> NamesVerdict {
        let mut padded;
        let mut frame = frame;
        if frame.len() < 14 {
            // The kernel accepts no shorter frame.
            padded = frame.to_vec();
            padded.resize(14, 0);
            frame = &padded;
        }
        let before = self.names.counts().unwrap();
        let mut out = vec![0u8; frame.len() + 64];
        let program = self.names.programs().program("sw_xdp_names").unwrap();
        let result = program
            .test_run(ProgramInput {
                data_in: Some(frame),
                data_out: Some(&mut out),
                ..Default::default()
            })
            .unwrap();
        let action = result.return_value;
        let out = result.data.unwrap().to_vec();
        let counts = self.names.counts().unwrap().since(&before);
        assert_eq!(counts.total(), 1, "{counts:?}");
        let (verdict, _) = counts.iter().find(|(_, count)| *count == 1).unwrap();
        let wanted = match (verdict.drops(), verdict.answers()) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 3,
        };
        assert_eq!(action, wanted, "{verdict:?}");
        let answer = verdict.answers().then(|| truncated(frame).unwrap());
        // Whether a frame that is dropped was changed before does not matter.
        if !verdict.drops() {
            assert_eq!(out, answer.as_deref().unwrap_or(frame), "{verdict:?}");
        }
        verdict
    }

    /// Checks the verdict on a frame.
    #[track_caller]
    fn expect(&self, frame: &[u8], wanted: NamesVerdict) {
        assert_eq!(oracle(frame, &self.rules), wanted, "by the oracle");
        assert_eq!(self.run(frame), wanted);
    }
}

#[test]
fn names_and_their_parents() {
    let rules = [
        ("ads.example", NameRule::Block),
        ("good.ads.example", NameRule::Allow),
        ("bad.good.ads.example", NameRule::Block),
        ("x", NameRule::Block),
        ("\\000\\001.bin", NameRule::Block),
    ];
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    for (name, wanted) in [
        ("ads.example", Dropped),
        ("AdS.eXaMpLe", Dropped),
        ("a.b.ads.example", Dropped),
        ("good.ads.example", Passed),
        ("GOOD.ADS.EXAMPLE", Passed),
        ("www.good.ads.example", Passed),
        ("bad.good.ads.example", Dropped),
        ("a.bad.good.ads.example", Dropped),
        ("ads.example.org", Passed),
        ("example", Passed),
        ("xads.example", Passed),
        ("ads.examplex", Passed),
        ("ads.exampl", Passed),
        (".", Passed),
        ("x", Dropped),
        ("y.X", Dropped),
        ("xx", Passed),
        ("\\000\\001.bin", Dropped),
        ("\\000.\\000\\001.bin", Dropped),
        ("\\000\\002.bin", Passed),
        ("\\001\\001.bin", Passed),
        ("ads\\000.example", Passed),
        ("example\\000ads", Passed),
        ("@\\091`{.ads.example", Dropped),
        ("\\193ds.example", Passed),
    ] {
        filter.expect(&frame4(&query(name)), wanted);
        filter.expect(&frame6(&query(name)), wanted);
    }
    // The root's rule blocks all names that have no rule of their own.
    filter.names.rules().block(".").unwrap();
    let rule = filter.names.rules().rule_for("org").unwrap();
    assert_eq!(rule, Some((".".into(), NameRule::Block)));
    assert_eq!(filter.run(&frame4(&query("org"))), Dropped);
    assert_eq!(filter.run(&frame4(&query("good.ads.example"))), Passed);
    assert!(filter.names.rules().free(".").unwrap());
    assert!(!filter.names.rules().free(".").unwrap());
    assert_eq!(filter.run(&frame4(&query("org"))), Passed);
    assert_eq!(filter.names.rules().rule_for("org").unwrap(), None);
    assert!(filter.names.rules().block("a..b").is_err());
}

/// Rules of wildcards, beside those of names.
#[test]
fn wildcards() {
    let long = "\\000".repeat(50);
    let long = format!("{long}.{long}.{long}.example");
    let wild = format!("*.{long}");
    let rules = [
        ("*.below.example", NameRule::Block),
        ("blocked.example", NameRule::Block),
        ("*.blocked.example", NameRule::Allow),
        ("*.allowed.blocked.example", NameRule::Block),
        ("allowed.blocked.example", NameRule::Allow),
        ("*.same.example", NameRule::Block),
        ("same.example", NameRule::Block),
        ("outer.example", NameRule::Block),
        ("*.inner.outer.example", NameRule::Allow),
        ("*.deep.inner.outer.example", NameRule::Block),
        ("*.org", NameRule::Block),
        (&wild, NameRule::Block),
        ("*.a.\\000", NameRule::Allow),
        ("\\000", NameRule::Block),
    ];
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    let below_long = format!("a.{long}");
    let cases = [
        ("below.example", Passed),
        ("a.below.example", Dropped),
        ("b.A.below.example", Dropped),
        ("*.below.example", Dropped),
        ("xbelow.example", Passed),
        ("blocked.example", Dropped),
        ("a.blocked.example", Passed),
        ("allowed.blocked.example", Passed),
        ("a.allowed.blocked.example", Dropped),
        ("same.example", Dropped),
        ("a.same.example", Dropped),
        ("outer.example", Dropped),
        // The wildcard is not for this name, so the rule above it counts.
        ("inner.outer.example", Dropped),
        ("a.inner.outer.example", Passed),
        ("deep.inner.outer.example", Passed),
        ("a.deep.inner.outer.example", Dropped),
        ("org", Passed),
        ("a.b.c.org", Dropped),
        ("example", Passed),
        (".", Passed),
        (&long, Passed),
        (&below_long, Dropped),
    ];
    let each = |filter: &Filter| {
        for (name, wanted) in cases {
            filter.expect(&frame4(&query(name)), wanted);
            let rule = filter.names.rules().rule_for(name).unwrap();
            let dropped = rule.is_some_and(|(_, rule)| rule == NameRule::Block);
            assert_eq!(dropped, wanted == Dropped, "{name}");
        }
    };
    each(&filter);
    // A pointer to the header, which reads as "a.\000": the name is cut after it was followed.
    let pointed = frame4(&message(0x0161, 0x0100, &[0xc0, 0]));
    filter.expect(&pointed, Dropped);
    let by = |name: &str| filter.names.rules().rule_for(name).unwrap().unwrap().0;
    assert_eq!(by("a.b.below.example"), "*.below.example");
    assert_eq!(by("inner.outer.example"), "outer.example");
    assert_eq!(by("blocked.example"), "blocked.example");
    // Rules of a name and of its wildcard come and go by themselves.
    let list = filter.names.rules();
    let passes = |name: &str| filter.run(&frame4(&query(name))) == Passed;
    assert!(list.block("below.example").unwrap());
    assert!(!list.block("below.example").unwrap());
    assert!(!passes("below.example") && !passes("a.below.example"));
    assert!(!list.allow("*.below.example").unwrap());
    assert!(!passes("below.example") && passes("a.below.example"));
    assert!(list.free("*.below.example").unwrap());
    assert!(!list.free("*.below.example").unwrap());
    assert!(!passes("a.below.example"));
    assert!(list.block("*.below.example").unwrap());
    assert!(list.free("below.example").unwrap());
    each(&filter);
    assert!(list.free("*.below.example").unwrap());
    assert!(passes("below.example") && passes("a.below.example"));
    // A wildcard at the root is for all names but the root.
    assert!(list.block("*").unwrap());
    assert!(passes(".") && !passes("example") && !passes("a.below.example"));
    assert!(list.allow(".").unwrap());
    assert!(passes(".") && !passes("example"));
    assert!(list.free("*").unwrap());
    assert!(passes("example"));
    // The last rule of a name and of a wildcard counts.
    let arena = BpfArena::create(16 << 20).unwrap();
    let twice = [
        ("*.x", NameRule::Block),
        ("x", NameRule::Allow),
        ("*.x", NameRule::Allow),
        ("x", NameRule::Block),
    ];
    let list = NameRules::new(&arena, "twice", twice).unwrap();
    assert_eq!(list.map().len(), 1);
    assert_eq!(list.rule_for("x").unwrap().unwrap().1, NameRule::Block);
    assert_eq!(list.rule_for("a.x").unwrap().unwrap().1, NameRule::Allow);
    list.map().verify().unwrap();
}

/// Queries that are answered with the bit TC, and others that cannot be answered.
#[test]
fn truncations_are_answered() {
    let rules = [
        ("tcp.example", NameRule::Truncate),
        ("good.tcp.example", NameRule::Allow),
        ("bad.tcp.example", NameRule::Block),
        ("blocked.example", NameRule::Block),
        ("*.blocked.example", NameRule::Truncate),
        ("both.example", NameRule::Truncate),
        ("*.both.example", NameRule::Block),
        ("*.wild.example", NameRule::Truncate),
    ];
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    for (name, wanted) in [
        ("tcp.example", Truncated),
        ("a.TCP.example", Truncated),
        ("x.good.tcp.example", Passed),
        ("x.bad.tcp.example", Dropped),
        ("blocked.example", Dropped),
        ("x.blocked.example", Truncated),
        ("both.example", Truncated),
        ("x.both.example", Dropped),
        ("wild.example", Passed),
        ("x.wild.example", Truncated),
    ] {
        filter.expect(&frame4(&query(name)), wanted);
        filter.expect(&frame6(&query(name)), wanted);
        let rule = filter.names.rules().rule_for(name).unwrap();
        let by = match wanted {
            Truncated => Some(NameRule::Truncate),
            Dropped => Some(NameRule::Block),
            _ => None,
        };
        assert_eq!(
            rule.map(|(_, rule)| rule)
                .filter(|rule| *rule != NameRule::Allow),
            by
        );
    }
    let asked = wire("www.tcp.example");
    let in4 = |packet: &[u8]| ethernet(0x0800, packet);
    // The flags of the query, and more than one question.
    for flags in [0x0000, 0x0100, 0x0110, 0x0130, 0x0120] {
        filter.expect(&frame4(&message(7, flags, &asked)), Truncated);
    }
    let mut two = message(7, 0x0100, &asked);
    two[5] = 2;
    two.extend([&asked[..], &[0, 28, 0, 1]].concat());
    filter.expect(&frame6(&two), Truncated);
    // EDNS: a record in the answer without the options, and with the bit DO.
    let with_opt = |opt: &[u8]| {
        let mut query = message(7, 0x0120, &asked);
        query[11] = 1;
        query.extend(opt);
        query
    };
    let cookie = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    for (opt, answered) in [
        ([0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 12], true),
        ([0, 0, 41, 2, 0, 0, 0, 0, 1, 0, 12], true),
        // Version 1, another type, another name.
        ([0, 0, 41, 16, 0, 0, 1, 0, 0, 0, 12], false),
        ([0, 0, 42, 16, 0, 0, 0, 0, 0, 0, 12], false),
        ([1, 0, 41, 16, 0, 0, 0, 0, 0, 0, 12], false),
    ] {
        let query = with_opt(&[&opt[..], &cookie].concat());
        for frame in [frame4(&query), frame6(&query)] {
            filter.expect(&frame, Truncated);
            let answer = truncated(&frame).unwrap();
            let bytes = frame.len() - 4 - cookie.len() + 4 - if answered { 0 } else { 11 };
            assert_eq!(answer.len(), bytes.max(60), "{opt:?}");
        }
    }
    // A record that is cut off is none.
    filter.expect(
        &frame4(&with_opt(&[0, 0, 41, 16, 0, 0, 0, 0, 0, 0])),
        Truncated,
    );
    // Tags stay. Bytes behind the packet go.
    let datagram = udp(53, &message(7, 0x0100, &asked));
    filter.expect(&tagged(0x8100, 0x0800, &ipv4(17, 0, &datagram)), Truncated);
    filter.expect(
        &tagged(0x88a8, 0x86dd, &ipv6(17, &[], &datagram)),
        Truncated,
    );
    for padding in [1, 2, 3, 300] {
        let mut frame = in4(&ipv4(17, 0, &datagram));
        frame.resize(frame.len() + padding, 7);
        filter.expect(&frame, Truncated);
    }
    // All lengths, odd ones too, and the longest name.
    for label in 1..60 {
        let name = format!("{}.tcp.example", "a".repeat(label));
        filter.expect(&frame4(&query(&name)), Truncated);
        filter.expect(&frame6(&query(&name)), Truncated);
    }
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.tcp.example", "a".repeat(49));
    assert_eq!(wire(&long).len(), 255);
    filter.expect(&frame6(&query(&long)), Truncated);
    // Other headers between IP and UDP, and a question with a pointer.
    filter.expect(&in4(&ipv4(17, 4, &datagram)), Dropped);
    let frame = ethernet(0x86dd, &ipv6(17, &[(60, 8)], &datagram));
    filter.expect(&frame, Dropped);
    let mut pointed = message(0x0161, 0x0100, &[&[3][..], b"tcp", &[0xc0, 24]].concat());
    pointed.splice(22.., [&[0, 1, 0, 1, 7][..], b"example\0"].concat());
    assert_eq!(
        filter.run(&frame4(&pointed)),
        oracle(&frame4(&pointed), &filter.rules)
    );
    // No answer can go to groups, to nobody, and to port 0.
    let plain = in4(&ipv4(17, 0, &datagram));
    for (at, byte) in [
        (0, 3),
        (6, 3),
        (26, 0),
        (26, 127),
        (26, 224),
        (26, 255),
        (30, 239),
    ] {
        let mut frame = plain.clone();
        frame[at] = byte;
        filter.expect(&frame, Dropped);
    }
    let mut from_0 = plain.clone();
    from_0[34..36].fill(0);
    filter.expect(&from_0, Dropped);
    let plain = ethernet(0x86dd, &ipv6(17, &[], &datagram));
    for address in [[0xff; 16], [0; 16], 1u128.to_be_bytes()] {
        for at in [22, 38] {
            let mut frame = plain.clone();
            frame[at..at + 16].copy_from_slice(&address);
            filter.expect(&frame, Dropped);
        }
    }
}

#[test]
fn every_branch_of_the_parser() {
    let Some(filter) = Filter::new(&[("ads.example", NameRule::Block)]) else {
        return;
    };
    let blocked = query("ads.example");
    let datagram = udp(53, &blocked);
    let in4 = |packet: &[u8]| ethernet(0x0800, packet);
    let in6 = |packet: &[u8]| ethernet(0x86dd, packet);
    // Headers before the query.
    for tag in [0x8100, 0x88a8] {
        filter.expect(&tagged(tag, 0x0800, &ipv4(17, 0, &datagram)), Dropped);
        filter.expect(&tagged(tag, 0x86dd, &ipv6(17, &[], &datagram)), Dropped);
        let two = |inner: &[u8]| tagged(tag, 0x8100, &[&[0, 9], inner].concat());
        filter.expect(&two(&in4(&ipv4(17, 0, &datagram))[12..]), Dropped);
        filter.expect(&two(&in6(&ipv6(17, &[], &datagram))[12..]), Dropped);
        filter.expect(
            &two(&tagged(0x8100, 0x0800, &ipv4(17, 0, &datagram))[12..]),
            Tags,
        );
        filter.expect(&two(&[8]), Malformed);
        filter.expect(&ethernet(tag, &[0, 5, 8]), Malformed);
    }
    filter.expect(&ethernet(0x0806, &datagram), Other);
    for options in [4, 40] {
        filter.expect(&in4(&ipv4(17, options, &datagram)), Dropped);
    }
    for extensions in [
        &[(0, 8)][..],
        &[(0, 8), (43, 24), (60, 2048)],
        &[(60, 8); 16],
        // Authentication, and a fragment that is the whole packet.
        &[(51, 24)],
        &[(0, 8), (44, 8)],
        &[(44, 8), (51, 16), (60, 16)],
    ] {
        filter.expect(&in6(&ipv6(17, extensions, &datagram)), Dropped);
    }
    filter.expect(&in6(&ipv6(17, &[(60, 8); 17], &datagram)), Extensions);
    // Authentication in IPv4, once and several times.
    let authentic = |next: u8, bytes: usize, payload: &[u8]| {
        let mut header = vec![0; bytes];
        header[..2].copy_from_slice(&[next, (bytes / 4 - 2) as u8]);
        [&header, payload].concat()
    };
    for (bytes, options) in [(8, 0), (24, 0), (24, 8), (12, 40), (1028, 0)] {
        let once = authentic(17, bytes, &datagram);
        filter.expect(&in4(&ipv4(51, options, &once)), Dropped);
        let twice = authentic(51, 16, &once);
        filter.expect(&in4(&ipv4(51, options, &twice)), Dropped);
    }
    let tcp = authentic(6, 24, &datagram);
    filter.expect(&in4(&ipv4(51, 0, &tcp)), Tcp);
    let many = (0..16).fold(authentic(17, 8, &datagram), |inner, _| {
        authentic(51, 8, &inner)
    });
    filter.expect(&in4(&ipv4(51, 0, &many)), Extensions);
    let short = authentic(17, 24, &[]);
    filter.expect(&in4(&ipv4(51, 0, &short[..4])), Malformed);
    filter.expect(&in4(&ipv4(51, 0, &short[..20])), Malformed);
    // Headers of IPv6 alone.
    for kind in [0, 43, 44, 60] {
        filter.expect(&in4(&ipv4(kind, 0, &datagram)), Other);
    }
    // What may hide a question, by kind.
    let packet = ipv4(17, 0, &datagram);
    for (kind, verdict) in [
        (0x8863, Pppoe),
        (0x8864, Pppoe),
        (0x8847, Mpls),
        (0x8848, Mpls),
        (0x88e5, Esp),
        (0x88e7, Tags),
        (0x9100, Tags),
    ] {
        filter.expect(&ethernet(kind, &packet), verdict);
        filter.expect(&tagged(0x8100, kind, &packet), verdict);
    }
    for (protocol, verdict) in [
        (47, Gre),
        (4, IpInIp),
        (41, IpInIp),
        (97, IpInIp),
        (115, IpInIp),
        (50, Esp),
        (137, Mpls),
    ] {
        filter.expect(&in4(&ipv4(protocol, 0, &packet)), verdict);
        filter.expect(&in6(&ipv6(protocol, &[(60, 8)], &packet)), verdict);
    }
    for port in [1701, 2152, 4789, 6081, 6635, 8472] {
        filter.expect(&in4(&ipv4(17, 0, &udp(port, &packet))), UdpTunnel);
        filter.expect(&in4(&ipv4(6, 0, &udp(port, &packet))), Other);
    }
    filter.expect(&in6(&ipv6(17, &[], &udp(4500, &packet))), Esp);
    filter.expect(&in6(&ipv6(17, &[], &udp(853, &packet))), Encrypted);
    filter.expect(&in4(&ipv4(6, 0, &udp(853, &packet))), Encrypted);
    for (high, low) in [(0, 1), (0, 8), (1, 0), (0x20, 0xf8)] {
        let mut packet = ipv6(17, &[(0, 8), (44, 8)], &datagram);
        packet[50..52].copy_from_slice(&[high, low]);
        filter.expect(&in6(&packet), Fragment);
    }
    // The lowest two bits but one are reserved.
    let mut packet = ipv6(17, &[(44, 8)], &datagram);
    packet[43] = 6;
    filter.expect(&in6(&packet), Dropped);
    for flags in [0x20, 0x01, 0x1f] {
        let mut packet = ipv4(17, 0, &datagram);
        packet[6] = flags;
        filter.expect(&in4(&packet), Fragment);
    }
    // Other protocols and ports.
    filter.expect(&in4(&ipv4(6, 0, &datagram)), Tcp);
    filter.expect(&in6(&ipv6(6, &[], &datagram)), Tcp);
    filter.expect(&in4(&ipv4(6, 0, &udp(54, &blocked))), Other);
    filter.expect(&in4(&ipv4(1, 0, &datagram)), Other);
    filter.expect(&in6(&ipv6(58, &[], &datagram)), Other);
    filter.expect(&in4(&ipv4(17, 0, &udp(5353, &blocked))), Other);
    // Lengths that contradict each other.
    let change = |frame: &[u8], at: usize, byte: u8| {
        let mut frame = frame.to_vec();
        frame[at] = byte;
        frame
    };
    let (good4, good6) = (frame4(&blocked), frame6(&blocked));
    for (at, byte) in [
        (14, 0x55),
        (14, 0x44),
        (14, 0x65),
        (17, 19),
        (17, 40),
        (39, 19),
        (39, 60),
    ] {
        filter.expect(&change(&good4, at, byte), Malformed);
    }
    for (at, byte) in [(14, 0x40), (19, 30), (59, 19), (59, 200)] {
        filter.expect(&change(&good6, at, byte), Malformed);
    }
    let mut long = ipv6(17, &[(0, 8)], &datagram);
    long[41] = 200;
    filter.expect(&in6(&long), Malformed);
    // Frames that are truncated anywhere, or followed by other bytes.
    for good in [
        &good4,
        &good6,
        &in6(&ipv6(17, &[(0, 8), (60, 16)], &datagram)),
    ] {
        for cut in 14..good.len() {
            filter.expect(&good[..cut], Malformed);
        }
        let mut padded = good.clone();
        padded.resize(good.len() + 300, 0xaa);
        filter.expect(&padded, Dropped);
    }
    filter.expect(&in4(&ipv4(6, 0, &[0; 7])), Malformed);
    // Messages.
    for (at, byte, wanted) in [
        (2, 0x81, NotQuery),
        (2, 0x11, NotQuery),
        (2, 0x29, NotQuery),
        (2, 0x78, NotQuery),
        (2, 0x07, Dropped),
        (3, 0xff, Dropped),
        (5, 0, NotQuery),
        (4, 1, Dropped),
        (5, 7, Dropped),
        (11, 1, Dropped),
    ] {
        filter.expect(&frame4(&change(&blocked, at, byte)), wanted);
    }
    filter.expect(&frame4(&blocked[..12]), Malformed);
    filter.expect(&frame4(&blocked[..11]), Malformed);
    for short in 1..5 {
        filter.expect(&frame4(&blocked[..blocked.len() - short]), Malformed);
    }
    let mut more = blocked.clone();
    more.extend([0; 900]);
    filter.expect(&frame4(&more), Dropped);
    // Names.
    for (name, wanted) in [
        (&b"\xc0\x0c"[..], Compressed),
        (b"\x03ads\xc0\x0c", Compressed),
        (b"\x03ads\xff\xff", Compressed),
        (b"\x03ads\x40example\0", Malformed),
        (b"\x80\0", Malformed),
        (b"\x03ads\x07example", Malformed),
        (b"\x3fads", Malformed),
    ] {
        filter.expect(&frame4(&message(1, 0, name)), wanted);
    }
}

/// A server reads a compressed question as any other, so that a blocked name hides behind none.
#[test]
fn compressed_questions_are_looked_up() {
    let rules = [("ads.example", NameRule::Block), ("z", NameRule::Block)];
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    // Byte 4 of the header is 0, the root. Bytes 0 and 1 are the number: a label, and its length.
    let ask = |number: u16, name: &[u8]| frame4(&message(number, 0x0100, name));
    filter.expect(&ask(1, b"\x03ads\x07example\xc0\x04"), Dropped);
    filter.expect(&ask(1, b"\x01x\x03ADS\x07example\xc0\x04"), Dropped);
    filter.expect(&ask(1, b"\x03bad\x07example\xc0\x04"), Passed);
    filter.expect(&ask(1, b"\xc0\x04"), Passed);
    // `z` is the number, and the flags end it.
    let mut message = message(0x017a, 0, b"\x01y\xc0\x00");
    filter.expect(&frame4(&message), Dropped);
    message[1] = b'y';
    filter.expect(&frame4(&message), Passed);
    // Without the type and the class, and cut off within the pointer.
    for short in 1..=6 {
        let cut = &message[..message.len() - short];
        filter.expect(&frame4(cut), Malformed);
    }
    // The longest name with a pointer behind it, and one that is longer.
    let label = |length: u8| [vec![length], vec![b'x'; length.into()]].concat();
    let long = [label(63), label(63), label(63)].concat();
    for (last, wanted) in [(61, Passed), (62, Malformed)] {
        let name = [&long[..], &label(last), b"\xc0\x04"].concat();
        filter.expect(&ask(1, &name), wanted);
    }
    let blocked = [&long[..], &label(48), b"\x03ads\x07example\xc0\x04"].concat();
    filter.expect(&ask(1, &blocked), Dropped);
    // Pointers that lead forward, to themselves, and within the name.
    for name in [
        &b"\x03ads\x07example\xc0\x20"[..],
        b"\x01x\xc0\x0e",
        b"\x03ads\x07example\xc0\x10",
    ] {
        filter.expect(&ask(1, name), Compressed);
    }
}

#[test]
fn long_names() {
    let label = |c: char, n: usize| String::from(c).repeat(n);
    let long = |last: usize| {
        let [a, b, c] = ['a', 'b', 'c'].map(|c| label(c, 63));
        format!("{a}.{b}.{c}.{}", label('d', last))
    };
    let zeros = "\\000".repeat(60);
    let deep = "e.".repeat(120) + "tail";
    let ones = |last: usize| {
        let label = |n: usize| "\\001".repeat(n);
        format!("{}.{}.{}.{}", label(63), label(63), label(63), label(last))
    };
    let rules = [
        (long(61), NameRule::Block),
        (deep.clone(), NameRule::Block),
        (ones(61), NameRule::Block),
        // The rule above it is found in the first 254 bytes, too.
        (format!("{zeros}.{zeros}.{zeros}.a.z"), NameRule::Allow),
    ];
    let rules: Vec<_> = rules
        .iter()
        .map(|(name, rule)| (name.as_str(), *rule))
        .chain([("z", NameRule::Block)])
        .collect();
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    // 255 bytes, the maximum length of a name.
    assert_eq!(wire(&long(61)).len(), 255);
    filter.expect(&frame4(&query(&long(61))), Dropped);
    filter.expect(&frame4(&query(&long(60))), Passed);
    filter.expect(&frame4(&query(&long(62))), Malformed);
    filter.expect(&frame4(&query(&long(63))), Malformed);
    filter.expect(&frame4(&query(&deep)), Dropped);
    filter.expect(&frame4(&query(&format!("e.{deep}"))), Dropped);
    filter.expect(&frame4(&query(&"e.".repeat(127))), Passed);
    filter.expect(&frame4(&query(&"e.".repeat(128))), Malformed);
    // Keys that are longer than their names.
    filter.expect(&frame4(&query(&format!("{zeros}.{zeros}.y"))), Passed);
    let zeros_of = |name: &str| frame4(&query(&format!("{zeros}.{zeros}.{zeros}.{name}")));
    filter.expect(&zeros_of("y"), Passed);
    filter.expect(&zeros_of("z"), Dropped);
    filter.expect(&zeros_of("a.z"), Passed);
    // 504 bytes, the longest key of a name; and another one.
    assert_eq!(dns_name(ones(61)).unwrap().len(), 504);
    filter.expect(&frame4(&query(&ones(61))), Dropped);
    filter.expect(&frame4(&query(&ones(60))), Passed);
    for last in 1..9 {
        let name = format!("{}.{zeros}.{zeros}.y", "\\001".repeat(last));
        filter.expect(&frame4(&query(&name)), Passed);
    }
}

#[test]
fn where_the_arena_is_full_names_that_cannot_be_looked_up_are_dropped() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    // The map takes all the room in the arena.
    let map = UserMap::builder(&arena, "a list without room")
        .build()
        .unwrap();
    assert_eq!(arena.bytes_left(), 0);
    let rules = NameRules::from_map(map);
    rules.block("z").unwrap();
    let zeros = "\\000".repeat(60);
    rules.allow(format!("{zeros}.{zeros}.{zeros}.z")).unwrap();
    let filter = Filter {
        names: XdpNames::with(rules).unwrap(),
        rules: Rules::new(),
    };
    let zeros_of = |name: &str| frame4(&query(&format!("{zeros}.{zeros}.{zeros}.{name}")));
    assert_eq!(filter.run(&zeros_of("y")), TooLong);
    // Something below a name that is allowed may be blocked.
    filter.names.rules().allow("x").unwrap();
    filter
        .names
        .rules()
        .block(format!("{zeros}.{zeros}.{zeros}.x"))
        .unwrap();
    assert_eq!(filter.run(&zeros_of("x")), TooLong);
    assert_eq!(filter.run(&frame4(&query("a.x"))), Passed);
    assert_eq!(filter.run(&zeros_of("z")), Dropped);
    assert_eq!(filter.run(&frame4(&query("y.z"))), Dropped);
    assert_eq!(filter.run(&frame4(&query("y"))), Passed);
}

/// While commits change and remove other names beside it, a name that stays is never missed.
#[test]
fn commits_of_a_store_miss_no_name() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let store = UserStore::<u64>::builder(&arena, "rules").bytes(32 << 20);
    let store = store.build().unwrap();
    let commit = |changes: &[(String, Option<NameRule>)]| {
        let mut txn = store.begin();
        for (name, rule) in changes {
            let key = dns_name(name).unwrap();
            match rule {
                Some(rule) => drop(txn.insert(key, rule.value()).unwrap()),
                None => drop(txn.remove(key).unwrap()),
            }
        }
        txn.commit();
        store.reclaim(usize::MAX);
    };
    let names = XdpNames::of_store(&store).unwrap();
    let run = |name: &str| {
        let program = names.programs().program("sw_xdp_names").unwrap();
        let frame = frame4(&query(name));
        let input = ProgramInput {
            data_in: Some(&frame),
            ..Default::default()
        };
        program.test_run(input).unwrap().return_value
    };
    const DROP: u32 = 1;
    const PASS: u32 = 2;
    assert_eq!(run("stays.test"), PASS);
    commit(&[("stays.test".into(), Some(NameRule::Block))]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..1000 {
                let name = |i: i32| format!("n{}.test", i % 100);
                commit(&[
                    (name(i), Some(NameRule::Block)),
                    (name(i + 50), None),
                    (format!("x.{}", name(i)), Some(NameRule::Allow)),
                ]);
            }
        });
        let mut runs = 0;
        while !writer.is_finished() {
            assert_eq!(run("www.stays.test"), DROP, "run {runs}");
            runs += 1;
        }
        assert!(runs > 10, "{runs}");
        writer.join().unwrap();
    });
    assert_eq!(
        (run("n99.test"), run("x.n99.test"), run("n49.test")),
        (DROP, PASS, PASS)
    );
    assert_eq!(names.counts().unwrap().get(Error), 0);
    // The words in which the program makes long keys.
    let zeros = "\\000".repeat(60);
    let long = format!("{zeros}.{zeros}.{zeros}.z");
    commit(&[(long.clone(), Some(NameRule::Block))]);
    assert_eq!(run(&format!("a.{long}")), DROP);
    drop(store);
    assert_eq!(run("stays.test"), PASS);
}

#[test]
fn random_frames() {
    let rules = [
        ("a", NameRule::Block),
        ("b.a", NameRule::Allow),
        ("a.b.a", NameRule::Block),
        ("b.b", NameRule::Block),
        ("\\000.b", NameRule::Block),
        ("aa.b", NameRule::Block),
        ("a.a.a.a.b", NameRule::Allow),
        ("*.a.b", NameRule::Block),
        ("*.b.b", NameRule::Allow),
        ("*.a.b.b", NameRule::Block),
        ("b", NameRule::Truncate),
        ("a.b", NameRule::Truncate),
        ("*.a", NameRule::Truncate),
    ];
    let Some(filter) = Filter::new(&rules) else {
        return;
    };
    let mut rng = fastrand::Rng::with_seed(20);
    let mut seen = [0u32; NamesVerdict::ALL.len()];
    let rounds = std::env::var("SAPWOOD_OPS").map_or(20_000, |ops| ops.parse().unwrap());
    for round in 0..rounds {
        let mut name = Vec::new();
        let labels = if rng.u8(0..9) == 0 { 60 } else { 6 };
        for _ in 0..rng.usize(0..labels) {
            let most = if rng.u8(0..9) == 0 { 64 } else { 3 };
            let length = rng.u8(1..most);
            name.push(length);
            name.extend((0..length).map(|_| *rng.choice(b"aAbB\0\x01").unwrap()));
        }
        match rng.u8(0..40) {
            0 | 1 => name.push(rng.u8(..)),
            // A pointer, mostly into the header.
            2..=5 => name.extend([0xc0, rng.u8(0..16)]),
            _ => name.push(0),
        }
        let message = message(rng.u16(..), 0x0100, &name);
        let port = match rng.u8(0..40) {
            0 => rng.u16(..),
            1 => rng.choice([853, 4500, 4789, 6081]).unwrap(),
            _ => 53,
        };
        let datagram = udp(port, &message);
        let protocol = match rng.u8(0..10) {
            0 => rng.choice([6, 1]).unwrap(),
            1 => rng.choice([4, 41, 47, 50, 51, 97, 115, 137]).unwrap(),
            _ => 17,
        };
        let most = if rng.u8(0..20) == 0 { 20 } else { 3 };
        let extensions: Vec<_> = (0..rng.usize(0..most))
            .map(|_| (rng.choice([0, 43, 51, 60]).unwrap(), 8 * rng.usize(1..4)))
            .collect();
        let (kind, packet) = match rng.bool() {
            true => (0x0800, ipv4(protocol, 4 * rng.usize(0..3), &datagram)),
            false => (0x86dd, ipv6(protocol, &extensions, &datagram)),
        };
        let kind = match rng.u8(0..40) {
            0 => rng
                .choice([0x8847, 0x8863, 0x8864, 0x88e5, 0x88e7])
                .unwrap(),
            _ => kind,
        };
        let mut frame = match rng.u8(0..4) {
            0 => tagged(0x8100, kind, &packet),
            _ => ethernet(kind, &packet),
        };
        for _ in 0..rng.usize(0..6).saturating_sub(2) {
            // Most changes are in the headers.
            let most = if rng.bool() { 80 } else { 4000 };
            let at = rng.usize(12..frame.len().min(most));
            frame[at] = match rng.u8(0..3) {
                0 => rng.u8(..),
                1 => frame[at] ^ 1 << rng.u8(0..8),
                _ => rng.choice([0, 1, 8, 17, 44, 60, 63, 64, 192, 255]).unwrap(),
            };
        }
        match rng.u8(0..12) {
            0 => frame.truncate(rng.usize(14..=frame.len())),
            1 => frame.extend((0..rng.usize(0..300)).map(|_| 7)),
            2 if round % 5 == 0 => rng.fill(&mut frame[14..]),
            _ => {}
        }
        let wanted = oracle(&frame, &filter.rules);
        seen[wanted as usize] += 1;
        assert_eq!(filter.run(&frame), wanted, "{round}: {frame:02x?}");
    }
    println!("{seen:?}");
    for verdict in NamesVerdict::ALL {
        let possible = verdict != Error && verdict != TooLong;
        assert_eq!(seen[verdict as usize] > 0, possible, "{verdict:?} {seen:?}");
    }
    assert_eq!(filter.names.counts().unwrap().total(), rounds);
}

#[test]
fn without_a_list_queries_pass() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-names.bpf.o"));
    let programs = Loader::open(&arena, object).unwrap().load().unwrap();
    let program = programs.program("sw_xdp_names").unwrap();
    let frame = frame4(&query("ads.example"));
    let result = program.test_run(ProgramInput {
        data_in: Some(&frame),
        ..Default::default()
    });
    assert_eq!(result.unwrap().return_value, 2);
    let map = programs.map("sw_names_counts").unwrap();
    let counts = map.lookup_percpu(&(Error as u32).to_ne_bytes(), MapFlags::ANY);
    let counts = counts.unwrap().unwrap();
    let sum: u64 = counts
        .iter()
        .map(|word| u64::from_ne_bytes(word[..].try_into().unwrap()))
        .sum();
    assert_eq!(sum, 1);
}
