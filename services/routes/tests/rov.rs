//! The example `rov`: its states are those of a reader of RFC 6811 that looks at each payload.

#[path = "../examples/rov/validation.rs"]
mod validation;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use validation::{Payload, State, read, state, system, table};

/// The state by the words of RFC 6811, section 2.
fn naive(payloads: &[(IpNet, Payload)], route: IpNet, origin: Option<u32>) -> State {
    let covers = |net: &IpNet| net.contains(&route);
    let matches = |payload: &Payload| {
        route.prefix_len() <= payload.max_length
            && origin.is_some_and(|origin| origin != 0 && origin == payload.origin)
    };
    if payloads
        .iter()
        .any(|(net, payload)| covers(net) && matches(payload))
    {
        State::Valid
    } else if payloads.iter().any(|(net, _)| covers(net)) {
        State::Invalid
    } else {
        State::NotFound
    }
}

/// A prefix that others are near to.
fn net(rng: &mut fastrand::Rng) -> IpNet {
    if rng.bool() {
        let address = u32::from_be_bytes([10, rng.u8(0..2), rng.u8(0..3) << 6, rng.u8(0..2)]);
        IpNet::from(Ipv4Net::new(address.into(), rng.u8(6..33)).unwrap()).trunc()
    } else {
        let address = 0x2001_0db8 << 96 | u128::from(rng.u8(0..4)) << 80 | u128::from(rng.u8(0..2));
        IpNet::from(Ipv6Net::new(address.into(), rng.u8(30..129)).unwrap()).trunc()
    }
}

#[test]
fn states_are_those_of_a_naive_reader() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut seen = [0; 3];
    for round in 0..60 {
        let payloads: Vec<(IpNet, Payload)> = (0..round)
            .map(|_| {
                let net = net(&mut rng);
                let max_length = rng.u8(net.prefix_len()..=net.max_prefix_len());
                let origin = rng.u32(0..4);
                (net, Payload { origin, max_length })
            })
            .collect();
        let table = table(&payloads).unwrap();
        table.read(|view| {
            for _ in 0..500 {
                let (route, origin) = (net(&mut rng), Some(rng.u32(0..5)).filter(|n| *n < 4));
                let expected = naive(&payloads, route, origin);
                assert_eq!(state(&view, route, origin), expected, "{route} {origin:?}");
                seen[expected as usize] += 1;
            }
        });
    }
    assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
}

#[test]
fn payloads_of_validators_are_read() {
    let of = |text: &str| read(text.as_bytes());
    let routinator = r#"{"metadata": {"generated": 1}, "roas": [
        {"asn": "AS64496", "prefix": "192.0.2.0/24", "maxLength": 26, "ta": "ripe"},
        {"asn": "AS0", "prefix": "2001:db8::/32", "maxLength": 128, "ta": "arin"}]}"#;
    let expected = [("192.0.2.0/24", 64496, 26), ("2001:db8::/32", 0, 128)];
    let expected = expected
        .map(|(net, origin, max_length)| (net.parse().unwrap(), Payload { origin, max_length }));
    assert_eq!(of(routinator).unwrap(), expected);
    let client = r#"{"roas": [{"asn": 64496, "prefix": "192.0.2.0/24", "expires": 1}]}"#;
    assert_eq!(of(client).unwrap()[0].1.max_length, 24);
    for (text, wrong) in [
        ("[", "EOF while parsing"),
        ("{}", "it has no list \"roas\""),
        (
            r#"{"roas": [{"asn": 1}]}"#,
            "roas[0]: it has no text \"prefix\"",
        ),
        (
            r#"{"roas": [{"asn": "x", "prefix": "::/0"}]}"#,
            "roas[0]: \"asn\" is no number of a system",
        ),
        (
            r#"{"roas": [{"asn": 1, "prefix": "10.0.0.0/8", "maxLength": 33}]}"#,
            "roas[0]: maxLength 33 of 10.0.0.0/8 is not 8 to 32",
        ),
        (
            r#"{"roas": [{"asn": 1, "prefix": "10.0.0.0/8", "maxLength": 7}]}"#,
            "roas[0]: maxLength 7 of 10.0.0.0/8 is not 8 to 32",
        ),
        (
            r#"{"roas": [{"asn": 1, "prefix": "10.0.0.1/8"}]}"#,
            "roas[0]: 10.0.0.1/8 has bits",
        ),
        (
            r#"{"roas": [{"asn": 1, "prefix": "10.0.0/8"}]}"#,
            "roas[0]: \"10.0.0/8\" is not",
        ),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.starts_with(wrong), "{text}: {error}");
    }
    let systems = [
        "AS1",
        "as64496",
        "7",
        "AS",
        "AS-1",
        "{1,2}",
        "",
        "AS4294967296",
    ];
    let read = systems.map(system);
    assert_eq!(
        read,
        [Some(1), Some(64496), Some(7), None, None, None, None, None]
    );
}
