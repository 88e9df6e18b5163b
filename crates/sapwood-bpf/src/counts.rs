//! What programs count on each CPU.

use std::marker::PhantomData;

use libbpf_rs::{MapCore, MapFlags};

use crate::error::Error;
use crate::layout::route::RouteVerdict;
use crate::layout::xdp_names::NamesVerdict;

/// Adds the numbers of a per-CPU array of `u64`s, each summed over all CPUs, to `sums`.
pub(crate) fn add(map: &impl MapCore, sums: &mut [u64]) -> Result<(), Error> {
    for (number, sum) in (0u32..).zip(sums) {
        let words = map
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::system("reading counts", error))?;
        for word in words.unwrap_or_default() {
            *sum += word
                .try_into()
                .map(u64::from_ne_bytes)
                .map_err(|_| Error::Damaged("a count that is no u64".into()))?;
        }
    }
    Ok(())
}

/// What a program does with a packet, and why: the number of its counter.
pub trait Verdict: Copy + 'static {
    /// All that there are, by number.
    const EACH: &'static [Self];

    /// The number of its counter.
    fn number(self) -> usize;
}

impl Verdict for NamesVerdict {
    const EACH: &'static [Self] = &NamesVerdict::ALL;

    fn number(self) -> usize {
        self as usize
    }
}

impl Verdict for RouteVerdict {
    const EACH: &'static [Self] = &RouteVerdict::ALL;

    fn number(self) -> usize {
        self as usize
    }
}

/// Packets by what a program did with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketCounts<V> {
    counts: Vec<u64>,
    verdicts: PhantomData<V>,
}

impl<V: Verdict> PacketCounts<V> {
    /// What a map says, in which programs count.
    pub(crate) fn read(map: &impl MapCore) -> Result<PacketCounts<V>, Error> {
        let mut all = PacketCounts::default();
        add(map, &mut all.counts)?;
        Ok(all)
    }

    /// Packets with this verdict.
    pub fn get(&self, verdict: V) -> u64 {
        self.counts[verdict.number()]
    }

    /// All packets.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (V, u64)> + '_ {
        V::EACH.iter().copied().zip(self.counts.iter().copied())
    }

    /// What came since an earlier time.
    pub fn since(&self, earlier: &PacketCounts<V>) -> PacketCounts<V> {
        let mut more = self.clone();
        for (count, before) in more.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        more
    }
}

impl PacketCounts<RouteVerdict> {
    /// Packets that the program sent on.
    pub fn forwarded(&self) -> u64 {
        let forwarded = self.iter().filter(|(verdict, _)| verdict.is_forwarded());
        forwarded.map(|(_, count)| count).sum()
    }
}

impl<V: Verdict> Default for PacketCounts<V> {
    fn default() -> PacketCounts<V> {
        PacketCounts {
            counts: vec![0; V::EACH.len()],
            verdicts: PhantomData,
        }
    }
}
