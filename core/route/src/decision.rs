//! What becomes of packets, and what a table does with groups that say nothing of it.

use sapwood_lpm::{FibChoices, NullRoute};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision<H> {
    /// It goes to this next hop.
    Hop(H),
    /// It meets a null route, which says why it goes nowhere.
    Null(NullRoute),
    /// Its prefix has a group, of which no member has a weight.
    Void,
    /// It has no prefix.
    NoRoute,
}

impl<H> Decision<H> {
    /// The next hop.
    ///
    /// O(1).
    pub fn hop(self) -> Option<H> {
        match self {
            Decision::Hop(hop) => Some(hop),
            _ => None,
        }
    }

    /// Whether the search goes on in the next table: the packet has no prefix here, or that of a
    /// null route of the kind [`Throw`](NullRoute::Throw).
    ///
    /// O(1).
    pub fn goes_on(&self) -> bool {
        matches!(self, Decision::NoRoute | Decision::Null(NullRoute::Throw))
    }
}

/// What a table does with a group of which no member has a weight, such as one whose members were
/// all removed: the packets of its prefixes.
///
/// ```
/// use sapwood::route::{Group, RouteTable, VoidGroups};
/// let table = RouteTable::builder().void_groups(VoidGroups::Cover).build()?;
/// table.insert("0.0.0.0/0".parse()?, Group::single("default"))?;
/// table.insert("10.0.0.0/8".parse()?, Group::new([("left", 1), ("right", 1)]))?;
/// table.remove_member(&"left");
/// table.remove_member(&"right");
/// assert_eq!(table.lookup("10.1.2.3".parse()?, 7), Some("default"));
/// assert_eq!(table.emptied(), ["10.0.0.0/8".parse()?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VoidGroups {
    /// They have no next hop: lookups answer `None`, [`Decision::Void`].
    #[default]
    Drop,
    /// They follow the longest shorter prefix that has a null route or a group with a weight.
    Cover,
}

/// The choices that only tables of routes have.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct RouteChoices {
    pub(super) fib: FibChoices,
    pub(super) void: VoidGroups,
}
