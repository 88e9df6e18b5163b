//! Prefixes of both families as bit strings: four bits with the family, 4 or 6, and the prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::bits::{AsBits, BitPrefix};

/// Bits of the family before an address.
pub(super) const FAMILY: usize = 4;

/// A prefix with its family in front.
pub(super) struct Tagged {
    bytes: [u8; 17],
    bits: usize,
}

impl Tagged {
    /// The family and the first `len` bits of an address.
    fn new(address: IpAddr, len: u8) -> Self {
        let (family, left): (u128, _) = match address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let mut bytes = [0; 17];
        bytes[..16].copy_from_slice(&(family << 124 | left >> FAMILY).to_be_bytes());
        bytes[16] = (left as u8) << FAMILY;
        let bits = FAMILY + usize::from(len);
        Tagged { bytes, bits }
    }

    /// The family and all bits of an address.
    pub(super) fn whole(address: IpAddr) -> Self {
        Self::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    pub(super) fn of(net: IpNet) -> Self {
        Self::new(net.addr(), net.prefix_len())
    }
}

impl AsBits for Tagged {
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        match BitPrefix::truncated(&self.bytes, self.bits) {
            Ok(bits) => f(bits),
            Err(_) => unreachable!("a prefix has at most 132 bits with its family"),
        }
    }
}

/// The prefix that has these bits behind its family.
pub(super) fn net_of(bits: BitPrefix<'_>) -> Option<IpNet> {
    let mut all = [0; 17];
    for (i, byte) in bits.bytes().enumerate() {
        *all.get_mut(i)? = byte;
    }
    let [front @ .., last] = all;
    let front = u128::from_be_bytes(front);
    let left = front << FAMILY | u128::from(last >> FAMILY);
    let len = u8::try_from(bits.len().checked_sub(FAMILY)?).ok()?;
    let address: IpAddr = match front >> 124 {
        4 => Ipv4Addr::from_bits((left >> 96) as u32).into(),
        6 => Ipv6Addr::from_bits(left).into(),
        _ => return None,
    };
    IpNet::new(address, len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_prefix_they_were_made_of() {
        for text in [
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/8",
            "255.255.255.255/32",
            "1.2.3.128/25",
            "64.0.0.0/2",
            "2001:db8::/32",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
            "::1/128",
            "8000::/1",
            "::/127",
        ] {
            let net: IpNet = text.parse().unwrap();
            Tagged::of(net).with_bits(|bits| {
                assert_eq!(bits.len(), FAMILY + usize::from(net.prefix_len()));
                assert_eq!(net_of(bits), Some(net));
            });
        }
        for (bytes, len) in [
            (&[][..], 0),
            (&[0x40], 3),
            (&[0x50], 4),
            (&[0x4f; 5], 37),
            (&[0x6f; 17], 133),
            (&[0x6f; 18], 144),
        ] {
            assert_eq!(net_of(BitPrefix::truncated(bytes, len).unwrap()), None);
        }
    }
}
