//! `treebitmap`: a tree bitmap of four-bit strides. The crate of that name is no longer published;
//! this is the copy of it that `ip_network_table` uses, called directly.

use ip_network_table_deps_treebitmap::IpLookupTable;
use ip_network_table_deps_treebitmap::address::Address;

use crate::routes::{Engine, Family};

/// `IpLookupTable`.
pub struct Treebitmap<F: Family>(IpLookupTable<F::Addr, u32>);

impl<F: Family> Engine<F> for Treebitmap<F>
where
    F::Addr: Address,
{
    const NAME: &'static str = "treebitmap";

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        Ok(Self(IpLookupTable::new()))
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        let (addr, len) = F::split(net);
        self.0.insert(addr, len.into(), hop);
    }

    fn remove(&mut self, net: F::Net) {
        let (addr, len) = F::split(net);
        self.0.remove(addr, len.into());
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        for addr in addrs {
            each(self.0.longest_match(*addr).map(|(_, _, hop)| *hop));
        }
    }
}
