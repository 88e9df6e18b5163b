//! Ours: one address at a time, and thirty-two.

use ::sapwood::lpm;

use super::{BURST, Engine, Family, Shared, Stop, V4, V6, bursts};

/// `Fib`, one lookup a call through a view.
pub struct Sapwood<L: lpm::Family>(lpm::Fib<L, u32>);

/// `Fib`, [`BURST`] lookups a call.
pub struct Batch32<L: lpm::Family>(lpm::Fib<L, u32>);

/// What lookups say of an address without a route, as a packet path would: no next hop has this number.
const NONE: u32 = u32::MAX;

/// As the other engines say it.
#[inline]
fn hop_or_none(hop: u32) -> Option<u32> {
    (hop != NONE).then_some(hop)
}

/// Written for each family: the bounds that one text for both needs would be longer than it.
macro_rules! engines {
    ($family:ty, $lpm:ty) => {
        impl Engine<$family> for Sapwood<$lpm> {
            const NAME: &'static str = "sapwood";
            type Shared = Self;

            fn empty(_: &[(<$family as Family>::Net, u32)]) -> Result<Self, String> {
                lpm::Fib::new().map(Self).map_err(|error| error.to_string())
            }

            fn build(routes: &[(<$family as Family>::Net, u32)]) -> Result<Self, String> {
                let fib = lpm::Fib::builder().build_from(routes.iter().copied());
                fib.map(Self).map_err(|error| error.to_string())
            }

            fn insert(&mut self, net: <$family as Family>::Net, hop: u32) {
                self.0.insert(net, hop).expect("there is memory");
            }

            fn remove(&mut self, net: <$family as Family>::Net) {
                self.0.remove(net).expect("there is memory");
            }

            fn lookups(
                &self,
                addrs: &[<$family as Family>::Addr],
                mut each: impl FnMut(Option<u32>),
            ) {
                self.0.read(|view| {
                    for addr in addrs {
                        each(hop_or_none(*view.lookup_value_or(*addr, &NONE)));
                    }
                });
            }

            fn mapped_bytes(&self) -> usize {
                self.0.memory().arena.committed
            }

            fn share(self) -> Self {
                self
            }
        }

        impl Shared<$family> for Sapwood<$lpm> {
            fn insert(&self, net: <$family as Family>::Net, hop: u32) {
                self.0.insert(net, hop).expect("there is memory");
            }

            fn remove(&self, net: <$family as Family>::Net) {
                self.0.remove(net).expect("there is memory");
            }

            fn read_until(&self, stop: &Stop, addrs: &[<$family as Family>::Addr]) -> u64 {
                let mut reader = self.0.reader("bench").expect("there is a slot");
                bursts(stop, addrs, |burst, tally| {
                    let view = reader.view();
                    for addr in burst {
                        tally.add(hop_or_none(*view.lookup_value_or(*addr, &NONE)));
                    }
                    reader.quiescent();
                })
            }
        }

        impl Engine<$family> for Batch32<$lpm> {
            const NAME: &'static str = "sapwood-batch";
            type Shared = Self;

            fn empty(routes: &[(<$family as Family>::Net, u32)]) -> Result<Self, String> {
                <Sapwood<$lpm> as Engine<$family>>::empty(routes).map(|table| Self(table.0))
            }

            fn build(routes: &[(<$family as Family>::Net, u32)]) -> Result<Self, String> {
                <Sapwood<$lpm> as Engine<$family>>::build(routes).map(|table| Self(table.0))
            }

            fn insert(&mut self, net: <$family as Family>::Net, hop: u32) {
                self.0.insert(net, hop).expect("there is memory");
            }

            fn remove(&mut self, net: <$family as Family>::Net) {
                self.0.remove(net).expect("there is memory");
            }

            fn lookups(
                &self,
                addrs: &[<$family as Family>::Addr],
                mut each: impl FnMut(Option<u32>),
            ) {
                self.0.read(|view| {
                    let mut out = [&NONE; BURST];
                    for batch in addrs.chunks(BURST) {
                        let out = &mut out[..batch.len()];
                        view.lookup_batch_or(batch, &NONE, out);
                        out.iter().for_each(|hop| each(hop_or_none(**hop)));
                    }
                });
            }

            fn mapped_bytes(&self) -> usize {
                self.0.memory().arena.committed
            }

            fn share(self) -> Self {
                self
            }
        }

        impl Shared<$family> for Batch32<$lpm> {
            fn insert(&self, net: <$family as Family>::Net, hop: u32) {
                self.0.insert(net, hop).expect("there is memory");
            }

            fn remove(&self, net: <$family as Family>::Net) {
                self.0.remove(net).expect("there is memory");
            }

            fn read_until(&self, stop: &Stop, addrs: &[<$family as Family>::Addr]) -> u64 {
                let mut reader = self.0.reader("bench").expect("there is a slot");
                bursts(stop, addrs, |burst, tally| {
                    let mut out = [&NONE; BURST];
                    reader.view().lookup_batch_or(burst, &NONE, &mut out);
                    out.iter().for_each(|hop| tally.add(hop_or_none(**hop)));
                    reader.quiescent();
                })
            }
        }
    };
}

engines!(V4, lpm::V4);
engines!(V6, lpm::V6);
