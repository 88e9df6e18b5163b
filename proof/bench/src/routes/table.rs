//! Sapwood's `RouteTable`, with groups of next hops: a route has a group, and each flow takes one
//! of its members.

use std::collections::HashMap;
use std::marker::PhantomData;

use ::sapwood::lpm::{V4, V6};
use ::sapwood::route::{FamilyRoutes, Group, RouteTable, RouteView};

use super::{BURST, Engine, Family, Shared, Stop, bursts};

/// The number of members of a group. A next hop is a group of this many ports with equal weights.
const PORTS: u32 = 4;

/// The answer of lookups for an address without a route: no group has a port with this number.
const NONE: u32 = u32::MAX;

/// The routes of a family.
pub trait Routes: Family {
    fn of<'g>(view: &RouteView<'g, u32>) -> FamilyRoutes<'g, Self, u32>;
}

impl Routes for V4 {
    fn of<'g>(view: &RouteView<'g, u32>) -> FamilyRoutes<'g, V4, u32> {
        view.v4()
    }
}

impl Routes for V6 {
    fn of<'g>(view: &RouteView<'g, u32>) -> FamilyRoutes<'g, V6, u32> {
        view.v6()
    }
}

/// `RouteTable`: one lookup a call through a view, or [`BURST`] lookups if `BATCH`, each of another
/// flow.
pub struct Table<F: Family, const BATCH: bool> {
    table: RouteTable<u32>,
    /// The groups of the next hops that were known when the table was built.
    groups: HashMap<u32, Group<u32>>,
    _family: PhantomData<F>,
}

/// The group that stands for a next hop.
fn group(hop: u32) -> Group<u32> {
    let first = hop.checked_mul(PORTS).expect("a small number");
    Group::new((first..first + PORTS).map(|port| (port, 1)))
}

/// The hashes of flows: their upper bits all differ.
struct Flows(u64);

impl Flows {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0
    }
}

/// The next hop that a port belongs to, in the form of the other engines.
#[inline]
fn hop(port: u32) -> Option<u32> {
    (port != NONE).then_some(port / PORTS)
}

/// The next hops for some addresses.
#[inline(always)]
fn hops<F: Routes, const BATCH: bool>(
    routes: FamilyRoutes<'_, F, u32>,
    addrs: &[F::Addr],
    flows: &mut Flows,
    mut each: impl FnMut(Option<u32>),
) {
    if !BATCH {
        for addr in addrs {
            each(hop(*routes.lookup(*addr, flows.next()).unwrap_or(&NONE)));
        }
        return;
    }
    for addrs in addrs.chunks(BURST) {
        let (mut numbers, mut ports) = ([0; BURST], [&NONE; BURST]);
        let (numbers, ports) = (&mut numbers[..addrs.len()], &mut ports[..addrs.len()]);
        numbers.fill_with(|| flows.next());
        routes.lookup_batch_or(addrs, numbers, &NONE, ports);
        ports.iter().for_each(|port| each(hop(**port)));
    }
}

impl<F: Routes, const BATCH: bool> Engine<F> for Table<F, BATCH> {
    const NAME: &'static str = if BATCH {
        "sapwood-table-batch"
    } else {
        "sapwood-table"
    };

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

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let Self { groups, .. } = Self::empty(routes)?;
        let routes = routes
            .iter()
            .map(|(net, hop)| ((*net).into(), groups[hop].clone()));
        let table = RouteTable::builder().build_from(routes);
        Ok(Self {
            table: table.map_err(|error| error.to_string())?,
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

    fn lookups(&self, addrs: &[F::Addr], each: impl FnMut(Option<u32>)) {
        self.table
            .read(|view| hops::<F, BATCH>(F::of(&view), addrs, &mut Flows(0), each));
    }

    fn mapped_bytes(&self) -> Option<usize> {
        let memory = self.table.memory();
        Some(memory.prefixes.v4.arena.committed + memory.prefixes.v6.arena.committed)
    }

    fn share(self) -> Box<dyn Shared<F>> {
        Box::new(self)
    }
}

impl<F: Routes, const BATCH: bool> Shared<F> for Table<F, BATCH> {
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
            let routes = F::of(&reader.view());
            hops::<F, BATCH>(routes, burst, &mut flows, |hop| tally.add(hop));
            reader.quiescent();
        })
    }
}
