//! `iptrie`: a radix trie whose root always has a value.

use ::iptrie::map::RTrieMap;
use ::iptrie::{IpPrefix, IpPrefixCovering, IpRootPrefix};

use crate::routes::{Engine, Family};

/// The value of the root where there is no route: no next hop has this number.
const NONE: u32 = u32::MAX;

/// `RTrieMap`, which can be changed, unlike the crate's compressed trie.
pub struct Iptrie<F: Family>(RTrieMap<F::Net, u32>);

impl<F: Family> Engine<F> for Iptrie<F>
where
    F::Net: IpRootPrefix<Addr = F::Addr> + IpPrefixCovering<F::Addr> + IpPrefixCovering<F::Net>,
    F::Addr: IpPrefix<Addr = F::Addr>,
{
    const NAME: &'static str = "iptrie";
    const UNSAFE_REMOVE: Option<&'static str> = Some(
        "`remove` leaves entry numbers that are past the end of an array, where lookups then read \
         unchecked (a debug assertion of the crate finds it)",
    );

    fn empty(_: &[(F::Net, u32)]) -> Result<Self, String> {
        Ok(Self(RTrieMap::with_root(NONE)))
    }

    fn insert(&mut self, net: F::Net, hop: u32) {
        self.0.insert(net, hop);
    }

    fn remove(&mut self, net: F::Net) {
        if F::split(net).1 == 0 {
            self.0.insert(net, NONE);
        } else {
            self.0.remove::<F::Net>(&net);
        }
    }

    fn lookups(&self, addrs: &[F::Addr], mut each: impl FnMut(Option<u32>)) {
        for addr in addrs {
            let hop = *self.0.lookup::<F::Addr>(addr).1;
            each((hop != NONE).then_some(hop));
        }
    }
}
