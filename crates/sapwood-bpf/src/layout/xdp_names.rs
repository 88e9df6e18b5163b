//! What the program `xdp-names` is told and tells.

named! {
    /// What the program `xdp-names` does with a packet, and why: the number of its counter.
    pub enum NamesVerdict {
        /// A query for a name of the list, or below one: dropped. All others pass.
        Dropped = 0: "dropped",
        /// A query for any other name.
        Passed = 1: "passed",
        /// A query for a name whose key has more than 254 bytes (a name with bytes 0 and 1), and of
        /// whose first 254 bytes nothing is in the list. Only where the arena had no memory for such
        /// keys (see [`NameRules::from_map`](crate::NameRules::from_map)).
        TooLong = 2: "too-long",
        /// To port 53, but a response, another operation than a query, or without a question.
        NotQuery = 3: "not-query",
        /// A query whose name is compressed.
        Compressed = 4: "compressed",
        /// A packet that ends early, or whose lengths cannot be.
        Malformed = 5: "malformed",
        /// A part of an IP packet.
        Fragment = 6: "fragment",
        /// To port 53 over TCP.
        Tcp = 7: "tcp",
        /// No DNS: anything else.
        Other = 8: "other",
        /// The list could not be asked; so the packet passed.
        Error = 9: "error",
    }
}

/// In the list of `xdp-names`: queries for this name and below pass.
pub const ALLOW: u64 = 0;
/// In the list of `xdp-names`: they are dropped.
pub const BLOCK: u64 = 1;

/// Bytes of the arena that hold the key of any domain name.
pub const ROOM_BYTES: usize = 512;

pub(super) fn constants() -> Vec<(String, u64)> {
    let more = [
        ("COUNTS", NamesVerdict::ALL.len() as u64),
        ("ALLOW", ALLOW),
        ("BLOCK", BLOCK),
    ];
    let more = more.map(|(name, value)| (format!("NAMES_{name}"), value));
    NamesVerdict::constants("NAMES").chain(more).collect()
}
