//! `ip_network_table`: a table over both address families, each of them a tree bitmap.

use ::ip_network_table::IpNetworkTable;
use ip_network::IpNetwork as Net;

use crate::routes::{Engine, Family};

/// `IpNetworkTable`, with routes of one family only.
pub struct IpNetwork(IpNetworkTable<u32>);

fn net<F: Family>(net: F::Net) -> Net {
    let (addr, len) = F::split(net);
    Net::new(addr, len).expect("a prefix has no bits after its length")
}

impl<F: Family> Engine<F> for IpNetwork {
    const NAME: &'static str = "ip_network_table";

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        Ok(Self(IpNetworkTable::new()))
    }

    fn insert(&mut self, prefix: F::Net, hop: u32) {
        self.0.insert(net::<F>(prefix), hop);
    }

    fn remove(&mut self, prefix: F::Net) {
        self.0.remove(net::<F>(prefix));
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        for addr in addrs {
            each(self.0.longest_match(*addr).map(|(_, hop)| *hop));
        }
    }
}
