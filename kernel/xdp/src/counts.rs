//! The counters of packets, by what a program did with them.

use std::fmt;
use std::marker::PhantomData;

use libbpf_rs::MapCore;
use sapwood_bpf::layout::route::RouteVerdict;
use sapwood_bpf::layout::xdp_names::NamesVerdict;
use sapwood_bpf::{Error, add_counts};

/// What a program did with a packet, and why. Each verdict has a counter.
pub trait Verdict: Copy + 'static {
    /// All verdicts, by number.
    const EACH: &'static [Self];

    /// The number of the verdict's counter.
    fn number(self) -> usize;

    /// The verdict's name, in words with hyphens.
    fn name(self) -> &'static str;
}

impl Verdict for NamesVerdict {
    const EACH: &'static [Self] = &NamesVerdict::ALL;

    fn number(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        NamesVerdict::name(self)
    }
}

impl Verdict for RouteVerdict {
    const EACH: &'static [Self] = &RouteVerdict::ALL;

    fn number(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        RouteVerdict::name(self)
    }
}

/// The number of packets for each verdict of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketCounts<V> {
    counts: Vec<u64>,
    verdicts: PhantomData<V>,
}

impl<V: Verdict> PacketCounts<V> {
    /// Reads the counts from the map in which programs keep them.
    pub(crate) fn read(map: &impl MapCore) -> Result<PacketCounts<V>, Error> {
        let mut all = PacketCounts::default();
        add_counts(map, &mut all.counts)?;
        Ok(all)
    }

    /// The number of packets with this verdict.
    pub fn get(&self, verdict: V) -> u64 {
        self.counts[verdict.number()]
    }

    /// The number of all packets.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All verdicts with their counts, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (V, u64)> + '_ {
        V::EACH.iter().copied().zip(self.counts.iter().copied())
    }

    /// The packets since `earlier`: the difference of each count, or 0 where `earlier` is greater.
    pub fn since(&self, earlier: &PacketCounts<V>) -> PacketCounts<V> {
        let mut more = self.clone();
        for (count, before) in more.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        more
    }
}

/// One line for each verdict with its number of packets, then a line with the sum.
impl<V: Verdict> fmt::Display for PacketCounts<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (verdict, count) in self.iter() {
            writeln!(f, "{:<24} {count:>16} packets", verdict.name())?;
        }
        writeln!(f, "{:<24} {:>16} packets", "all", self.total())
    }
}

impl PacketCounts<RouteVerdict> {
    /// The number of packets that the program forwarded.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_readable() {
        let mut counts = PacketCounts::<NamesVerdict>::default();
        counts.counts[0] = 7;
        let text = counts.to_string();
        assert_eq!(text.lines().count(), NamesVerdict::ALL.len() + 1);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(NamesVerdict::ALL[0].name()), "{first}");
        assert!(
            first.ends_with(" 7 packets") && text.ends_with(" 7 packets\n"),
            "{text}"
        );
    }
}
