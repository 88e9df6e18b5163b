//! Ours with groups of next hops: a route has a group, and each flow takes one of its members.

use std::collections::HashMap;
use std::marker::PhantomData;

use ::sapwood::route::{Group, RouteTable, RouteView};

use super::{Engine, Family, Shared, Stop, bursts};

/// Members of a group: a next hop stands for a group of as many ports, with equal weights.
const PORTS: u32 = 4;

/// `RouteTable`: one lookup a call through a view, each of another flow.
pub struct Table<F: Family> {
    table: RouteTable<u32>,
    /// The groups of the next hops that were named beforehand.
    groups: HashMap<u32, Group<u32>>,
    _family: PhantomData<F>,
}

/// The group that stands for a next hop.
fn group(hop: u32) -> Group<u32> {
    let first = hop.checked_mul(PORTS).expect("a small number");
    Group::new((first..first + PORTS).map(|port| (port, 1)))
}

/// Hashes of flows: the upper bits of all differ.
struct Flows(u64);

impl Flows {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0
    }
}

/// The next hop to an address: that of the member that a flow takes.
#[inline]
fn hop<F: Family>(view: &RouteView<'_, u32>, addr: F::Addr, flow: u64) -> Option<u32> {
    view.lookup(addr.into(), flow).map(|port| port / PORTS)
}

impl<F: Family> Engine<F> for Table<F> {
    const NAME: &'static str = "sapwood-table";

    fn empty(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let mut groups = HashMap::new();
        for (_, hop) in routes {
            groups.entry(*hop).or_insert_with(|| group(*hop));
        }
        Ok(Self {
            table: RouteTable::new().map_err(|error| error.to_string())?,
            groups,
            _family: PhantomData,
        })
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        Shared::insert(self, net, hop);
    }

    fn remove(&mut self, net: F::Net) {
        Shared::remove(self, net);
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        let mut flows = Flows(0);
        self.table.read(|view| {
            for addr in addrs {
                each(hop::<F>(&view, *addr, flows.next()));
            }
        });
    }

    /// It does not say how much memory it has.
    fn mapped_bytes(&self) -> Option<usize> {
        None
    }

    fn share(self) -> Box<dyn Shared<F>> {
        Box::new(self)
    }
}

impl<F: Family> Shared<F> for Table<F> {
    fn insert(&self, net: F::Net, hop: u32) {
        let known = self.groups.get(&hop).cloned();
        let group = known.unwrap_or_else(|| group(hop));
        let inserted = self.table.insert(net.into(), group);
        inserted.expect("there is memory");
    }

    fn remove(&self, net: F::Net) {
        self.table.remove(net.into()).expect("there is memory");
    }

    fn read_until(&self, stop: &Stop, addrs: &[F::Addr]) -> u64 {
        let mut reader = self.table.reader("bench").expect("there is a slot");
        let mut flows = Flows(0);
        bursts(stop, addrs, |burst, tally| {
            let view = reader.view();
            for addr in burst {
                tally.add(hop::<F>(&view, *addr, flows.next()));
            }
            reader.quiescent();
        })
    }
}
