//! What the program `xdp-names` is told and tells.

/// What the program `xdp-names` does with a packet, and why: the number of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum NamesVerdict {
    /// A query for a name of the list, or below one: dropped. All others pass.
    Dropped = 0,
    /// A query for any other name.
    Passed = 1,
    /// A query for a name whose key has more than 254 bytes, and no part of which is in the list.
    TooLong = 2,
    /// To port 53, but a response, another operation than a query, or without a question.
    NotQuery = 3,
    /// A query whose name is compressed.
    Compressed = 4,
    /// A packet that ends early, or whose lengths cannot be.
    Malformed = 5,
    /// A part of an IP packet.
    Fragment = 6,
    /// To port 53 over TCP.
    Tcp = 7,
    /// No DNS: anything else.
    Other = 8,
    /// The list could not be asked; so the packet passed.
    Error = 9,
}

impl NamesVerdict {
    /// All that there are, by number.
    pub const ALL: [NamesVerdict; 10] = [
        NamesVerdict::Dropped,
        NamesVerdict::Passed,
        NamesVerdict::TooLong,
        NamesVerdict::NotQuery,
        NamesVerdict::Compressed,
        NamesVerdict::Malformed,
        NamesVerdict::Fragment,
        NamesVerdict::Tcp,
        NamesVerdict::Other,
        NamesVerdict::Error,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            NamesVerdict::Dropped => "dropped",
            NamesVerdict::Passed => "passed",
            NamesVerdict::TooLong => "too-long",
            NamesVerdict::NotQuery => "not-query",
            NamesVerdict::Compressed => "compressed",
            NamesVerdict::Malformed => "malformed",
            NamesVerdict::Fragment => "fragment",
            NamesVerdict::Tcp => "tcp",
            NamesVerdict::Other => "other",
            NamesVerdict::Error => "error",
        }
    }
}

/// In the list of `xdp-names`: queries for this name and below pass.
pub const ALLOW: u64 = 0;
/// In the list of `xdp-names`: they are dropped.
pub const BLOCK: u64 = 1;

pub(super) fn constants() -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for verdict in NamesVerdict::ALL {
        let name = verdict.name().to_uppercase().replace('-', "_");
        all.push((format!("NAMES_{name}"), verdict as u64));
    }
    for (name, value) in [
        ("COUNTS", NamesVerdict::ALL.len() as u64),
        ("ALLOW", ALLOW),
        ("BLOCK", BLOCK),
    ] {
        all.push((format!("NAMES_{name}"), value));
    }
    all
}
