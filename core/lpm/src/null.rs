//! Null routes: prefixes whose packets go nowhere.

use core::fmt;

/// Why packets of a null route go nowhere, by the words of `ip route`.
///
/// ```
/// use sapwood::lpm::NullRoute;
/// assert_eq!(NullRoute::Prohibit.to_string(), "prohibit");
/// assert_eq!(NullRoute::from_number(NullRoute::Throw.number()), Some(NullRoute::Throw));
/// assert_eq!(NullRoute::from_number(4), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullRoute {
    /// They are dropped without a reply.
    Blackhole,
    /// Their sender is told that the destination cannot be reached.
    Unreachable,
    /// Their sender is told that the way is forbidden.
    Prohibit,
    /// The search goes on in the next table.
    Throw,
}

impl NullRoute {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Blackhole,
        Self::Unreachable,
        Self::Prohibit,
        Self::Throw,
    ];

    /// The number of this kind in files and in memory that others read: 0 to 3.
    ///
    /// O(1).
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The kind of a number.
    ///
    /// O(1).
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

impl fmt::Display for NullRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NullRoute::Blackhole => "blackhole",
            NullRoute::Unreachable => "unreachable",
            NullRoute::Prohibit => "prohibit",
            NullRoute::Throw => "throw",
        })
    }
}
