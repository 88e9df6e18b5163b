//! Differences of tables, and tables that become others by them.

use sapwood::lpm::ipnet::IpNet;
use sapwood::lpm::{Error, Fib, FibChange, IpFib, Ipv4Fib, V4, V6};
use sapwood_model::oracle::Lpm;

use crate::support::lpm::{Kind, agree, builder, entries, prefix, small, steps};

fn differences<F: Kind>(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let fib: Fib<F, u32> = builder(6).build().unwrap();
    let mut oracle = Lpm::new(F::WIDTH);
    let mut kept = vec![(fib.snapshot(), oracle.clone())];
    for step in 0..steps(600) {
        let (p, v) = (prefix::<F>(&mut rng), rng.u32(0..4));
        let change = |old: Option<&u32>| match v {
            0 => None,
            v => Some(old.copied().unwrap_or(0) % 3 + v),
        };
        let expected = oracle.get(p).copied();
        match change(expected.as_ref()) {
            Some(value) => oracle.insert(p, value),
            None => oracle.remove(p),
        };
        assert_eq!(fib.update(F::net(p), change).unwrap(), expected);
        if step % 60 == 0 {
            agree(&fib, &oracle);
            kept.push((fib.snapshot(), oracle.clone()));
        }
    }
    for (a, of_a) in &kept {
        for (b, of_b) in &kept {
            let changes: Vec<_> = a.diff(b).collect();
            assert!(changes.is_sorted_by_key(|change| F::prefix(change.net())));
            // Each prefix that differs, and no other one.
            let mut expected = Vec::new();
            for (p, old) in of_a.iter() {
                match of_b.get(p) {
                    None => expected.push(FibChange::Removed(F::net(p), old)),
                    Some(new) if new != old => {
                        expected.push(FibChange::Changed(F::net(p), old, new));
                    }
                    Some(_) => {}
                }
            }
            for (p, new) in of_b.iter().filter(|(p, _)| of_a.get(*p).is_none()) {
                expected.push(FibChange::Added(F::net(p), new));
            }
            expected.sort_by_key(|change| F::prefix(change.net()));
            assert_eq!(changes, expected);
            let copy: Fib<F, u32> = builder(12)
                .build_from(a.iter().map(|(net, v)| (net, *v)))
                .unwrap();
            let count = copy.apply(changes.iter().map(FibChange::cloned)).unwrap();
            assert_eq!(count, changes.len());
            agree(&copy, of_b);
            copy.apply(changes.iter().map(|change| change.cloned().reversed()))
                .unwrap();
            agree(&copy, of_a);
        }
    }
}

#[test]
fn a_table_becomes_another_one() {
    differences::<V4>(1);
    differences::<V6>(2);
}

#[test]
fn what_is_refused_changes_nothing() {
    let fib: Ipv4Fib<u32> = Ipv4Fib::builder()
        .root_bits(6)
        .options(small())
        .build_from([("10.0.0.0/8".parse().unwrap(), 1)])
        .unwrap();
    let bad = "10.0.0.1/9".parse().unwrap();
    let changes = [
        FibChange::Removed("10.0.0.0/8".parse().unwrap(), 1),
        FibChange::Added(bad, 2),
    ];
    let refused = fib.apply(changes).unwrap_err();
    assert!(matches!(refused, Error::HostBitsSet { prefix } if prefix == bad.into()));
    assert_eq!(fib.len(), 1);
    let refused = fib.update(bad, |_| panic!("it is not asked for"));
    assert!(matches!(refused, Err(Error::HostBitsSet { .. })));
    // A panic in the middle of a change rolls it back.
    let panics = std::panic::AssertUnwindSafe(|| fib.update(bad.trunc(), |_| panic!("on purpose")));
    std::panic::catch_unwind(panics).unwrap_err();
    assert_eq!(entries(&fib.snapshot()).len(), 1);
    assert_eq!(fib.begin().update(bad.trunc(), |_| Some(3)).unwrap(), None);
    assert_eq!(fib.len(), 1, "it was not committed");
}

#[test]
fn changes_of_both_families() {
    let fib = IpFib::builder().root_bits(6).build().unwrap();
    let empty = fib.snapshot();
    let (v4, v6) = ("10.0.0.0/8".parse().unwrap(), "::/0".parse().unwrap());
    assert_eq!(
        fib.update(v6, |old| old.copied().or(Some(6))).unwrap(),
        None
    );
    let mut txn = fib.begin();
    assert_eq!(txn.update(v4, |_| Some(4)).unwrap(), None);
    assert_eq!(
        txn.update(v4, |old| old.map(|old| old + 1)).unwrap(),
        Some(&4)
    );
    txn.commit();
    let full = fib.snapshot();
    let changes: Vec<_> = empty.diff(&full).map(|change| change.cloned()).collect();
    assert_eq!(changes, [FibChange::Added(v4, 5), FibChange::Added(v6, 6)]);
    let back = changes.iter().map(|change| change.reversed());
    assert_eq!(fib.apply(back).unwrap(), 2);
    assert!(fib.is_empty());
    fib.verify().unwrap();
}

/// What is asked of both families at once is what each family says.
#[test]
fn walks_of_both_families() {
    let nets = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "11.0.0.0/8",
        "::/0",
        "2001:db8::/32",
    ];
    let fib = IpFib::from_iter(nets.iter().map(|net| (net.parse().unwrap(), ())));
    let snapshot = fib.snapshot();
    let texts = |found: &mut dyn Iterator<Item = (IpNet, &())>| -> Vec<String> {
        found.map(|(net, _)| net.to_string()).collect()
    };
    for (net, covered, covering, after) in [
        ("10.0.0.0/8", &nets[1..3], &nets[..2], &nets[1..]),
        ("10.1.0.0/24", &[], &nets[..3], &nets[3..]),
        ("::/0", &nets[4..], &nets[4..5], &nets[4..]),
        ("2001:db8::/33", &[], &nets[4..], &[]),
    ] {
        let net: IpNet = net.parse().unwrap();
        assert_eq!(texts(&mut snapshot.covered_by(net)), covered);
        assert_eq!(texts(&mut snapshot.covering(net)), covering);
        assert_eq!(texts(&mut snapshot.iter_from(net)), after);
        fib.read(|view| {
            assert_eq!(texts(&mut view.covered_by(net)), covered);
            assert_eq!(texts(&mut view.covering(net)), covering);
            let longest = view.lookup_net(net).unwrap().0.to_string();
            assert_eq!(Some(&*longest), covering.last().copied());
        });
    }
}
