//! What routes lead to, as texts say it and as readers hold it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sapwood::lpm::{NullRoute, SavedHop};

/// What the text after a prefix says: one of the words `blackhole`, `unreachable`, `prohibit` and
/// `throw`, a group as `left weight 2, right weight 1`, or any other text as the name of a next
/// hop. In a group each member has its weight. It is the reverse of `SavedHop`'s `Display`, for
/// names that no null route and no group has.
///
/// O(bytes).
///
/// ```
/// use sapwood::lpm::{NullRoute, SavedHop};
/// use sapwood_routes::parse_hop;
///
/// assert_eq!(parse_hop("blackhole"), SavedHop::Null(NullRoute::Blackhole));
/// assert_eq!(parse_hop("dev eth0"), SavedHop::Name("dev eth0"));
/// let group = SavedHop::Group(vec![(SavedHop::Name("a"), 2), (SavedHop::Name("b"), 1)]);
/// assert_eq!(parse_hop("a weight 2, b weight 1"), group);
/// assert_eq!(parse_hop("a, b weight 1"), SavedHop::Name("a, b weight 1"));
/// ```
pub fn parse_hop(text: &str) -> SavedHop<'_> {
    if let Some(null) = null_of(text) {
        return SavedHop::Null(null);
    }
    match members_of(text) {
        Some(members) => SavedHop::Group(members),
        None => SavedHop::Name(text),
    }
}

fn members_of(text: &str) -> Option<Vec<(SavedHop<'_>, u32)>> {
    let members = text.split(", ").map(|member| {
        let (name, weight) = member.rsplit_once(" weight ")?;
        let is_number = weight.bytes().all(|byte| byte.is_ascii_digit());
        // As a number is written: "+1" and "01" are names.
        let is_plain = is_number && (weight == "0" || !weight.starts_with('0'));
        let weight = weight.parse().ok().filter(|_| is_plain)?;
        Some((SavedHop::Name(name), weight))
    });
    members.collect()
}

/// The null route that a word of `ip route` names.
pub(crate) fn null_of(word: &str) -> Option<NullRoute> {
    Some(match word {
        "blackhole" => NullRoute::Blackhole,
        "unreachable" => NullRoute::Unreachable,
        "prohibit" => NullRoute::Prohibit,
        "throw" => NullRoute::Throw,
        _ => return None,
    })
}

/// What a route leads to, until it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Name(String),
    Null(NullRoute),
    /// Members and weights, in the order of names.
    Group(Vec<(String, u32)>),
}

impl Hop {
    /// The next hop or the group of these members. Equal ones are one, with all their weight, so
    /// that the order of members does not matter. `None` without members.
    pub(crate) fn of_members(members: impl IntoIterator<Item = (String, u32)>) -> Option<Hop> {
        let mut all: BTreeMap<String, u32> = BTreeMap::new();
        for (name, weight) in members {
            let sum = all.entry(name).or_default();
            *sum = sum.saturating_add(weight);
        }
        match all.len() {
            0 | 1 => all.pop_first().map(|(name, _)| Hop::Name(name)),
            _ => Some(Hop::Group(all.into_iter().collect())),
        }
    }

    pub(crate) fn as_saved(&self) -> SavedHop<'_> {
        match self {
            Hop::Name(name) => SavedHop::Name(name),
            Hop::Null(null) => SavedHop::Null(*null),
            Hop::Group(members) => {
                let members = members.iter();
                SavedHop::Group(
                    members
                        .map(|(name, weight)| (SavedHop::Name(name), *weight))
                        .collect(),
                )
            }
        }
    }
}

/// The name of a next hop: the address of its gateway, or `dev` and the device if there is no
/// gateway. A link-local address has `%` and the device after it, if that is known.
pub(crate) fn hop_name(gateway: Option<IpAddr>, device: Option<&str>) -> String {
    match (gateway, device) {
        (Some(IpAddr::V6(to)), Some(device)) if to.is_unicast_link_local() => {
            format!("{to}%{device}")
        }
        (Some(to), _) => to.to_string(),
        (None, Some(device)) => format!("dev {device}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_what_they_say() {
        for (text, hop) in [
            ("", SavedHop::Name("")),
            ("throw", SavedHop::Null(NullRoute::Throw)),
            ("prohibit", SavedHop::Null(NullRoute::Prohibit)),
            ("unreachable", SavedHop::Null(NullRoute::Unreachable)),
            ("Blackhole", SavedHop::Name("Blackhole")),
            ("a weight 01", SavedHop::Name("a weight 01")),
            ("a weight +1", SavedHop::Name("a weight +1")),
            ("a weight ", SavedHop::Name("a weight ")),
            ("a weight 4294967296", SavedHop::Name("a weight 4294967296")),
            (
                "a weight 0",
                SavedHop::Group(vec![(SavedHop::Name("a"), 0)]),
            ),
            (
                "a weight 1 weight 2, fe80::1%e weight 3",
                SavedHop::Group(vec![
                    (SavedHop::Name("a weight 1"), 2),
                    (SavedHop::Name("fe80::1%e"), 3),
                ]),
            ),
        ] {
            assert_eq!(parse_hop(text), hop);
            assert_eq!(hop.to_string(), text);
        }
    }

    #[test]
    fn members_are_sorted_and_added() {
        let of = |members: &[(&str, u32)]| {
            let members = members
                .iter()
                .map(|(name, weight)| (name.to_string(), *weight));
            Hop::of_members(members).map(|hop| hop.as_saved().to_string())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("a", 7)]).as_deref(), Some("a"));
        assert_eq!(of(&[("a", 7), ("a", 2)]).as_deref(), Some("a"));
        let sum = of(&[("b", 1), ("a", 7), ("b", u32::MAX)]);
        assert_eq!(sum.as_deref(), Some("a weight 7, b weight 4294967295"));
    }
}
