//! The values in the list of the program `xdp-names`, and its verdicts.

named! {
    /// What the program `xdp-names` did with a packet, and why. The value is the number of the
    /// verdict's counter.
    pub enum NamesVerdict {
        /// A query for a blocked name or a name below it, which was dropped.
        Dropped = 0: "dropped",
        /// A query for any other name.
        Passed = 1: "passed",
        /// A query for a name whose key has more than 254 bytes (a name with bytes 0 and 1), when
        /// its first 254 bytes are not blocked. The rest could not be looked up, so it was dropped.
        /// This occurs only when the arena had no memory for such keys (see
        /// `NameRules::from_map`).
        TooLong = 2: "too-long",
        /// A packet to port 53 that is a response, has an operation other than a query, or has no
        /// question.
        NotQuery = 3: "not-query",
        /// A query whose name has compression pointers that cannot be followed: they do not lead
        /// back, or are more than 127. It was dropped, because some servers may read it. A name
        /// with other pointers is looked up as any name.
        Compressed = 4: "compressed",
        /// A packet that ends early, or whose lengths contradict each other.
        Malformed = 5: "malformed",
        /// A fragment of an IP packet.
        Fragment = 6: "fragment",
        /// A TCP packet to port 53.
        Tcp = 7: "tcp",
        /// Any other packet.
        Other = 8: "other",
        /// A query that passed because the lookup in the list failed.
        Error = 9: "error",
        /// A GRE packet. The program does not look into tunnels, which may hide questions.
        Gre = 10: "gre",
        /// A packet of PPPoE.
        Pppoe = 11: "pppoe",
        /// A packet or frame in an IP packet: IPv4, IPv6, Ethernet or L2TP.
        IpInIp = 12: "ip-in-ip",
        /// A packet that IPsec has encrypted (ESP), also within UDP, or a frame that MACsec has.
        Esp = 13: "esp",
        /// A packet of MPLS, also within IP.
        Mpls = 14: "mpls",
        /// A frame or packet within UDP: VXLAN, GENEVE, GTP, L2TP or MPLS, by their ports.
        UdpTunnel = 15: "udp-tunnel",
        /// A frame with more than two tags of VLANs, or with other tags than those of IEEE 802.1Q
        /// and 802.1ad.
        Tags = 16: "tags",
        /// A packet to port 853: DNS over TLS, DTLS or QUIC.
        Encrypted = 17: "encrypted",
        /// A packet with more than 16 extension headers.
        Extensions = 18: "extensions",
        /// A query for a name whose rule is to ask over TCP. It was answered in place, with the bit
        /// TC.
        Truncated = 19: "truncated",
    }
}

impl NamesVerdict {
    /// Whether the program drops such packets. It passes all others, but for those that it
    /// [answers](Self::answers).
    pub fn drops(self) -> bool {
        matches!(
            self,
            NamesVerdict::Dropped | NamesVerdict::TooLong | NamesVerdict::Compressed
        )
    }

    /// Whether the program answers such packets: it sends an answer back to where they came from.
    pub fn answers(self) -> bool {
        self == NamesVerdict::Truncated
    }
}

/// A value in the list of `xdp-names`: queries for this name and names below it pass.
pub const ALLOW: u64 = 0;
/// A value in the list of `xdp-names`: queries for this name and names below it are dropped.
pub const BLOCK: u64 = 1;

/// A bit of a value in the list of `xdp-names`: the rule is that of a wildcard. It is for names
/// below this name, and the name itself has no rule.
pub const WILD: u64 = 2;
/// Bits of a value in the list of `xdp-names`: the rule is that of a wildcard, and the name itself
/// has another one, which allows it; with [`WILD`], which blocks it; with [`OWN_TRUNCATE`], which
/// truncates it.
pub const WILD_AND_OWN: u64 = 4;

/// A value in the list of `xdp-names`: queries for this name and names below it are answered with
/// the bit TC, so that clients ask over TCP. A value that blocks, too, blocks.
pub const TRUNCATE: u64 = 8;
/// A bit beside [`WILD_AND_OWN`]: queries for the name itself are answered with the bit TC.
pub const OWN_TRUNCATE: u64 = 16;

/// Bytes that are enough for the key of any domain name, which has
/// [`DNS_KEY_MAX`](sapwood::key::DNS_KEY_MAX) bytes at most.
pub const ROOM_BYTES: usize = sapwood::key::DNS_KEY_MAX.next_power_of_two();

pub(super) fn constants() -> Vec<(String, u64)> {
    let more = [
        ("COUNTS", NamesVerdict::ALL.len() as u64),
        ("ALLOW", ALLOW),
        ("BLOCK", BLOCK),
        ("WILD", WILD),
        ("WILD_AND_OWN", WILD_AND_OWN),
        ("TRUNCATE", TRUNCATE),
        ("OWN_TRUNCATE", OWN_TRUNCATE),
    ];
    let more = more.map(|(name, value)| (format!("NAMES_{name}"), value));
    NamesVerdict::constants("NAMES").chain(more).collect()
}
