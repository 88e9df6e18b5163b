//! Sapwood's `Fib`: with one address a call, and with thirty-two.

use ::sapwood::lpm;

use super::{BURST, Engine, Family, Shared, Stop, bursts};

/// `Fib`: one lookup a call through a view, or [`BURST`] lookups if `BATCH`.
pub struct Sapwood<F: Family, const BATCH: bool>(lpm::Fib<F, u32>);

/// The answer of lookups for an address without a route, as in a packet path: no next hop has this
/// number.
const NONE: u32 = u32::MAX;

/// The answer in the form of the other engines.
#[inline]
fn hop_or_none(hop: u32) -> Option<u32> {
    (hop != NONE).then_some(hop)
}

impl<F: Family, const BATCH: bool> Engine<F> for Sapwood<F, BATCH> {
    const NAME: &'static str = if BATCH { "sapwood-batch" } else { "sapwood" };

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        lpm::Fib::new().map(Self).map_err(|error| error.to_string())
    }

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let fib = lpm::Fib::builder().build_from(routes.iter().copied());
        fib.map(Self).map_err(|error| error.to_string())
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        Shared::insert(self, net, hop);
    }

    fn remove(&mut self, net: F::Net) {
        Shared::remove(self, net);
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        self.0.read(|view| {
            if !BATCH {
                for addr in addrs {
                    each(hop_or_none(*view.lookup_value_or(*addr, &NONE)));
                }
                return;
            }
            let mut out = [&NONE; BURST];
            for batch in addrs.chunks(BURST) {
                let out = &mut out[..batch.len()];
                view.lookup_batch_or(batch, &NONE, out);
                out.iter().for_each(|hop| each(hop_or_none(**hop)));
            }
        });
    }

    fn mapped_bytes(&self) -> Option<usize> {
        Some(self.0.memory().arena.committed)
    }

    fn share(self) -> Box<dyn Shared<F>> {
        Box::new(self)
    }
}

impl<F: Family, const BATCH: bool> Shared<F> for Sapwood<F, BATCH> {
    fn insert(&self, net: F::Net, hop: u32) {
        self.0.insert(net, hop).expect("there is memory");
    }

    fn remove(&self, net: F::Net) {
        self.0.remove(net).expect("there is memory");
    }

    fn read_until(&self, stop: &Stop, addrs: &[F::Addr]) -> u64 {
        let mut reader = self.0.reader("bench").expect("there is a slot");
        bursts(stop, addrs, |burst, tally| {
            let view = reader.view();
            if BATCH {
                let mut out = [&NONE; BURST];
                view.lookup_batch_or(burst, &NONE, &mut out);
                out.iter().for_each(|hop| tally.add(hop_or_none(**hop)));
            } else {
                for addr in burst {
                    tally.add(hop_or_none(*view.lookup_value_or(*addr, &NONE)));
                }
            }
            reader.quiescent();
        })
    }
}
