//! Saved tables of routes, valid and hostile ones, and queries of every kind.

use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{FibFile, FibFileBuilder, NullRoute, SavedHop};
use sapwood_model::choices::Choices;

/// Prefixes of both families that contain each other.
pub fn nets(count: usize, choices: &mut impl Choices) -> Vec<IpNet> {
    let mut net = || {
        let high = choices.below(1 << 10) as u32;
        let low = choices.below(3) as u32 * 0x5555_5555;
        match choices.below(2) {
            0 => {
                let address = high << 22 | low >> 10;
                let len = choices.below(33) as u8;
                IpNet::V4(Ipv4Net::new(address.into(), len).unwrap().trunc())
            }
            _ => {
                let address = u128::from(high) << 118 | u128::from(low);
                let len = choices.below(129) as u8;
                IpNet::V6(Ipv6Net::new(address.into(), len).unwrap().trunc())
            }
        }
    };
    (0..count).map(|_| net()).collect()
}

/// A next hop of any kind, out of a small set.
pub fn hop(choices: &mut impl Choices) -> SavedHop<'static> {
    let nulls = [
        NullRoute::Blackhole,
        NullRoute::Unreachable,
        NullRoute::Prohibit,
        NullRoute::Throw,
    ];
    match choices.below(6) {
        5 => SavedHop::Null(nulls[choices.below(4)]),
        4 => {
            let members = (0..choices.below(4)).map(|_| (plain(choices), choices.below(3) as u32));
            SavedHop::Group(members.collect())
        }
        _ => plain(choices),
    }
}

fn plain(choices: &mut impl Choices) -> SavedHop<'static> {
    let numbers = [0, (1 << 30) - 1, 1 << 30, u64::MAX];
    match choices.below(3) {
        0 => SavedHop::Number(numbers[choices.below(4)]),
        1 => SavedHop::Name(["", "left", "right", "\u{e4}"][choices.below(4)]),
        _ => SavedHop::Bytes(&[7; 20][..choices.below(21)]),
    }
}

/// A table with these prefixes.
pub fn built(nets: &[IpNet], choices: &mut impl Choices) -> FibFileBuilder {
    let mut builder = FibFileBuilder::new();
    for net in nets {
        let hop = builder.hop(&hop(choices)).unwrap();
        builder.insert(*net, hop).unwrap();
    }
    builder
}

/// Calls every query; the answers may be wrong, but each call must return.
pub fn query_everything(file: &FibFile, queries: &[IpNet]) {
    let mut texts = 0;
    for (_, hop) in file.iter().take(300) {
        texts += file.hop(hop).map_or(0, |hop| hop.to_string().len());
    }
    texts += file.listed().take(50).flatten().count();
    for net in queries {
        let address = net.addr();
        let hops = file.matches(address).map(|(_, hop)| hop);
        let hops = hops.chain(file.get(*net)).chain(file.lookup_value(address));
        let covering = file.lookup(address).into_iter().chain(file.covering(*net));
        let hops = hops.chain(covering.map(|(_, hop)| hop));
        texts += hops.filter_map(|hop| file.hop(hop)).count();
    }
    std::hint::black_box(texts);
    let all = file.routes_as("everything", |hop| Some(hop.kind()));
    let _ = (all, file.verify(), file.len(), file.is_empty());
}

/// Checks that a file opened with all checks keeps its guarantees, whoever made it.
pub fn is_whole(file: &FibFile) {
    assert_eq!(file.iter().count(), file.len());
    let mut before = None;
    for (net, hop) in file.iter() {
        assert_eq!(file.get(net), Some(hop));
        assert_eq!(file.covering(net).last(), Some((net, hop)));
        assert!(file.matches(net.addr()).any(|found| found == (net, hop)));
        assert!(file.hop(hop).is_some());
        assert!(before.is_none_or(|before| before < net), "not in order");
        before = Some(net);
    }
    let all = file.routes_as("everything", |hop| Some(hop.to_string()));
    assert_eq!(all.unwrap().len(), file.len());
    file.verify().unwrap();
}
