//! `prefix-trie`: a tree bitmap of five-bit strides in two arrays.

use ::prefix_trie::{Prefix, PrefixMap};

use crate::routes::{Engine, Family};

/// `PrefixMap` over ipnet's prefixes; an address is looked up as the prefix that contains only it.
pub struct PrefixTrie<F: Family>(PrefixMap<F::Net, u32>)
where
    F::Net: Prefix;

impl<F: Family> Engine<F> for PrefixTrie<F>
where
    F::Net: Prefix<R: Send + Sync>,
{
    const NAME: &'static str = "prefix-trie";

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        Ok(Self(PrefixMap::new()))
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        self.0.insert(net, hop);
    }

    fn remove(&mut self, net: F::Net) {
        self.0.remove(&net);
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        for addr in addrs {
            each(self.0.get_lpm(&F::host(*addr)).map(|(_, hop)| *hop));
        }
    }
}
