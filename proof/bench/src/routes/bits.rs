//! Sapwood's table for bit strings of any length: addresses are looked up as strings of 32 or 128
//! bits.

use std::marker::PhantomData;

use ::sapwood::lpm::{AsBits, BitFib, BitString};

use super::{Engine, Family, Shared, Stop, bursts};

/// `BitFib`, one lookup a call through a view; if `INLINE`, with clusters that hold their entries.
pub struct Bits<F: Family, const INLINE: bool> {
    fib: BitFib<u32>,
    _family: PhantomData<F>,
}

impl<F: Family, const INLINE: bool> Bits<F, INLINE> {
    fn new(fib: Result<BitFib<u32>, ::sapwood::lpm::Error>) -> Result<Self, String> {
        let fib = fib.map_err(|error| error.to_string())?;
        Ok(Self {
            fib,
            _family: PhantomData,
        })
    }
}

/// A prefix as bits.
fn bits<F: Family>(net: F::Net) -> BitString
where
    F::Addr: AsBits,
{
    let (addr, len) = F::split(net);
    addr.with_bits(|bits| bits.truncate(len.into()).into())
}

impl<F: Family, const INLINE: bool> Engine<F> for Bits<F, INLINE>
where
    F::Addr: AsBits,
{
    const NAME: &'static str = match INLINE {
        true => "sapwood-bits-inline",
        false => "sapwood-bits",
    };

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        Self::new(match INLINE {
            true => BitFib::builder().build_inline(),
            false => BitFib::new(),
        })
    }

    fn build(routes: &[(F::Net, u32)]) -> Result<Self, String> {
        let routes = routes.iter().map(|(net, hop)| (bits::<F>(*net), *hop));
        Self::new(match INLINE {
            true => BitFib::builder().build_inline_from(routes),
            false => BitFib::builder().build_from(routes),
        })
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        Shared::insert(self, net, hop);
    }

    fn remove(&mut self, net: F::Net) {
        Shared::remove(self, net);
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        self.fib.read(|view| {
            for addr in addrs {
                each(view.lookup(*addr).map(|(_, hop)| *hop));
            }
        });
    }

    fn mapped_bytes(&self) -> Option<usize> {
        Some(self.fib.memory().map.arena.committed)
    }

    fn share(self) -> Box<dyn Shared<F>> {
        Box::new(self)
    }
}

impl<F: Family, const INLINE: bool> Shared<F> for Bits<F, INLINE>
where
    F::Addr: AsBits,
{
    fn insert(&self, net: F::Net, hop: u32) {
        self.fib
            .insert(bits::<F>(net), hop)
            .expect("there is memory");
    }

    fn remove(&self, net: F::Net) {
        self.fib.remove(bits::<F>(net)).expect("there is memory");
    }

    fn read_until(&self, stop: &Stop, addrs: &[F::Addr]) -> u64 {
        let mut reader = self.fib.reader("bench").expect("there is a slot");
        bursts(stop, addrs, |burst, tally| {
            let view = reader.view();
            for addr in burst {
                tally.add(view.lookup(*addr).map(|(_, hop)| *hop));
            }
            reader.quiescent();
        })
    }
}
