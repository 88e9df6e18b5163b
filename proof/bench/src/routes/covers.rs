//! Engines that find all prefixes that cover an address or a prefix.

use ::prefix_trie::{Prefix, PrefixMap};
use ::sapwood::lpm;
use ip_network_table_deps_treebitmap::IpLookupTable;
use ip_network_table_deps_treebitmap::address::Address;

use super::{Family, Tally, V4, V6};

/// A table that is asked for covering prefixes.
pub trait Covers<F: Family>: Sized {
    /// The name in tables and records.
    const NAME: &'static str;

    /// A table with these routes.
    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String>;

    /// Adds the next hops of all prefixes of each address, shortest first, and an end.
    fn addresses(&self, addrs: &[F::Addr], tally: &mut impl Answers);

    /// The same of each prefix, itself included. False: the engine has no such question.
    fn prefixes(&self, nets: &[F::Net], tally: &mut impl Answers) -> bool;
}

/// What takes the answers: next hops, and `None` behind those of a question.
pub trait Answers {
    /// Takes one.
    fn add(&mut self, hop: Option<u32>);
}

impl Answers for Tally {
    #[inline]
    fn add(&mut self, hop: Option<u32>) {
        Tally::add(self, hop);
    }
}

impl Answers for Vec<Option<u32>> {
    #[inline]
    fn add(&mut self, hop: Option<u32>) {
        self.push(hop);
    }
}

/// Adds the answers to one question.
#[inline]
fn all(hops: impl Iterator<Item = u32>, tally: &mut impl Answers) {
    hops.for_each(|hop| tally.add(Some(hop)));
    tally.add(None);
}

/// `Fib`, through a view.
pub struct Sapwood<F: Family>(lpm::Fib<F, u32>);

impl<F: Family> Covers<F> for Sapwood<F> {
    const NAME: &'static str = "sapwood";

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let fib = lpm::Fib::builder().build_from(routes.iter().copied());
        fib.map(Self).map_err(|error| error.to_string())
    }

    fn addresses(&self, addrs: &[F::Addr], tally: &mut impl Answers) {
        self.0.read(|view| {
            for addr in addrs {
                all(view.matches(*addr).map(|(_, hop)| *hop), tally);
            }
        });
    }

    fn prefixes(&self, nets: &[F::Net], tally: &mut impl Answers) -> bool {
        self.0.read(|view| {
            for net in nets {
                all(view.covering(*net).map(|(_, hop)| *hop), tally);
            }
        });
        true
    }
}

/// `PrefixMap` of `prefix-trie`.
pub struct PrefixTrie<F: Family>(PrefixMap<F::Net, u32>)
where
    F::Net: Prefix;

impl<F: Family> Covers<F> for PrefixTrie<F>
where
    F::Net: Prefix,
{
    const NAME: &'static str = "prefix-trie";

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        Ok(Self(routes.iter().copied().collect()))
    }

    fn addresses(&self, addrs: &[F::Addr], tally: &mut impl Answers) {
        for addr in addrs {
            all(self.0.cover_values(&F::host(*addr)).copied(), tally);
        }
    }

    fn prefixes(&self, nets: &[F::Net], tally: &mut impl Answers) -> bool {
        for net in nets {
            all(self.0.cover_values(net).copied(), tally);
        }
        true
    }
}

/// `IpLookupTable` of `treebitmap`, which asks for addresses only.
pub struct Treebitmap<F: Family>(IpLookupTable<F::Addr, u32>);

impl<F: Family> Covers<F> for Treebitmap<F>
where
    F::Addr: Address,
{
    const NAME: &'static str = "treebitmap";

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let mut table = IpLookupTable::new();
        for (net, hop) in routes {
            let (addr, len) = F::split(*net);
            table.insert(addr, len.into(), *hop);
        }
        Ok(Self(table))
    }

    fn addresses(&self, addrs: &[F::Addr], tally: &mut impl Answers) {
        for addr in addrs {
            all(self.0.matches(*addr).map(|(_, _, hop)| *hop), tally);
        }
    }

    fn prefixes(&self, _: &[F::Net], _: &mut impl Answers) -> bool {
        false
    }
}

/// Makes a table of some routes.
type Make<F> = fn(&[(<F as lpm::Family>::Net, u32)]) -> Result<Box<dyn Built<F>>, String>;

/// An engine with its type erased: [`Covers::build`].
pub struct CoverLane<F: Family> {
    /// [`Covers::NAME`].
    pub name: &'static str,
    /// [`Covers::build`].
    pub build: Make<F>,
}

/// A table of an engine with its type erased; one call is a whole pass.
#[allow(missing_docs)] // They are the methods of `Covers`.
pub trait Built<F: Family> {
    fn of_addresses(&self, addrs: &[F::Addr]) -> Tally;
    fn of_prefixes(&self, nets: &[F::Net]) -> Option<Tally>;
    fn answers(&self, addrs: &[F::Addr], nets: &[F::Net]) -> [Vec<Option<u32>>; 2];
}

impl<F: Family, E: Covers<F>> Built<F> for E {
    fn of_addresses(&self, addrs: &[F::Addr]) -> Tally {
        let mut tally = Tally::default();
        self.addresses(addrs, &mut tally);
        tally
    }

    fn of_prefixes(&self, nets: &[F::Net]) -> Option<Tally> {
        let mut tally = Tally::default();
        self.prefixes(nets, &mut tally).then_some(tally)
    }

    fn answers(&self, addrs: &[F::Addr], nets: &[F::Net]) -> [Vec<Option<u32>>; 2] {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        self.addresses(addrs, &mut one);
        self.prefixes(nets, &mut other);
        [one, other]
    }
}

fn lane<F: Family, E: Covers<F> + 'static>() -> CoverLane<F> {
    CoverLane {
        name: E::NAME,
        build: |routes| Ok(Box::new(E::build(routes)?)),
    }
}

/// The engines of a family, in the order in which tables list them.
pub trait CoverLanes: Family {
    /// All engines.
    fn cover_lanes() -> Vec<CoverLane<Self>>;
}

macro_rules! lanes {
    ($($family:ty),*) => {$(
        impl CoverLanes for $family {
            fn cover_lanes() -> Vec<CoverLane<Self>> {
                vec![
                    lane::<$family, Sapwood<$family>>(),
                    lane::<$family, PrefixTrie<$family>>(),
                    lane::<$family, Treebitmap<$family>>(),
                ]
            }
        }
    )*};
}
lanes!(V4, V6);
