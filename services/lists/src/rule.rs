//! Rules: names, what happens to questions for them, and where the rules come from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::names::shown_name;

/// Which names a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The name alone.
    Exact,
    /// All names below the name, as a wildcard `*.name`.
    Below,
    /// The name and all names below it.
    WithBelow,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Exact, Scope::Below, Scope::WithBelow];

    /// The word for it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Scope;
    ///
    /// assert_eq!(Scope::ALL.map(Scope::word), ["exact", "below", "all"]);
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Scope::Exact => "exact",
            Scope::Below => "below",
            Scope::WithBelow => "all",
        }
    }

    /// Whether a rule of this scope is for the name itself, or for a name below it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Scope;
    ///
    /// assert!(Scope::WithBelow.has(true) && !Scope::Below.has(true) && !Scope::Exact.has(false));
    /// ```
    pub fn has(self, is_itself: bool) -> bool {
        match self {
            Scope::Exact => is_itself,
            Scope::Below => !is_itself,
            Scope::WithBelow => true,
        }
    }

    /// Whether this scope has all names that another one of the same name has.
    pub(crate) fn includes(self, other: Scope) -> bool {
        self == other || self == Scope::WithBelow
    }
}

/// What happens to a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The answer is that the name does not exist.
    Nxdomain,
    /// The answer is that the name has no records of this type.
    Nodata,
    /// The answer is REFUSED.
    Refused,
    /// There is no answer.
    Drop,
    /// The answer is truncated, so that the client asks by TCP.
    Truncate,
    /// The question is answered as without lists.
    Pass,
    /// The answer is 0.0.0.0 or `::`.
    Null,
    /// The answer has these addresses, in ascending order. Other types have no records.
    Addresses(Vec<IpAddr>),
    /// The name is another name for this one, which is a key as [`dns_name`] makes it. If its first
    /// label is `*`, the name of the question comes in the place of this label.
    ///
    /// [`dns_name`]: sapwood::key::dns_name
    Name(Vec<u8>),
    /// The answer has those of these records that have the type of the question. They are in
    /// ascending order.
    Records(Vec<Record>),
}

impl Action {
    /// The word for the kind of the action.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Action;
    ///
    /// assert_eq!(Action::Nxdomain.word(), "nxdomain");
    /// ```
    pub fn word(&self) -> &'static str {
        match self {
            Action::Nxdomain => "nxdomain",
            Action::Nodata => "nodata",
            Action::Refused => "refused",
            Action::Drop => "drop",
            Action::Truncate => "truncate",
            Action::Pass => "pass",
            Action::Null => "null",
            Action::Addresses(_) => "addresses",
            Action::Name(_) => "name",
            Action::Records(_) => "records",
        }
    }

    /// The action of these addresses. Addresses that lead nowhere (0.0.0.0 and `::`, or those of
    /// the machine itself) are no special case.
    pub(crate) fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut addresses: Vec<IpAddr> = addresses.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        Action::Addresses(addresses)
    }

    /// Whether rules of several lines of one list make one rule of this kind together.
    pub(crate) fn gathers(&self) -> bool {
        matches!(self, Action::Addresses(_) | Action::Records(_))
    }

    /// Adds what another line of the list has; returns whether the two go together. If not, the
    /// first line counts.
    pub(crate) fn gather(&mut self, more: Action) -> bool {
        match (&mut *self, more) {
            (Action::Addresses(all), Action::Addresses(more)) => {
                let all = std::mem::take(all);
                *self = Action::addresses(all.into_iter().chain(more));
            }
            (Action::Records(all), Action::Records(more)) => {
                all.extend(more);
                all.sort_unstable();
                all.dedup();
            }
            (Action::Records(all), Action::Addresses(more)) => {
                all.extend(more.into_iter().map(Record::of_address));
                all.sort_unstable();
                all.dedup();
            }
            (Action::Addresses(all), Action::Records(mut more)) => {
                more.extend(std::mem::take(all).into_iter().map(Record::of_address));
                more.sort_unstable();
                more.dedup();
                *self = Action::Records(more);
            }
            _ => return false,
        }
        true
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Action::Addresses(addresses) => addresses
                .iter()
                .try_for_each(|address| write!(f, " {address}")),
            Action::Name(key) => write!(f, " {}", shown_name(key).map_err(|_| fmt::Error)?),
            Action::Records(records) => {
                records.iter().try_for_each(|record| write!(f, " {record}"))
            }
            _ => Ok(()),
        }
    }
}

/// A record that an answer has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The number of the type.
    pub rtype: u16,
    /// The time to live, in seconds.
    pub ttl: u32,
    /// The data in wire form, without compressed names.
    pub data: Vec<u8>,
}

/// The time to live of an address that stands among records, in seconds.
const TTL: u32 = 300;

/// The number of the type of IPv4 addresses.
pub(crate) const A: u16 = 1;
/// The number of the type of IPv6 addresses.
pub(crate) const AAAA: u16 = 28;

impl Record {
    pub(crate) fn of_address(address: IpAddr) -> Self {
        let (rtype, data) = match address {
            IpAddr::V4(address) => (A, address.octets().to_vec()),
            IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
        };
        Record {
            rtype,
            ttl: TTL,
            data,
        }
    }

    /// The address of a record that has one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match (self.rtype, self.data.len()) {
            (A, 4) => <[u8; 4]>::try_from(&self.data[..])
                .ok()
                .map(|octets| Ipv4Addr::from(octets).into()),
            (AAAA, 16) => <[u8; 16]>::try_from(&self.data[..])
                .ok()
                .map(|octets| Ipv6Addr::from(octets).into()),
            _ => None,
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = domain::base::Rtype::from_int(self.rtype);
        match self.address() {
            Some(address) => write!(f, "{name} {address}"),
            None => {
                // The form of RFC 3597 for data of any type.
                write!(f, "{name} \\# {} ", self.data.len())?;
                self.data
                    .iter()
                    .try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The rank of a rule among those of all lists. The first that applies to a question wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A rewriting by `$dnsrewrite`. If its action is [`Action::Pass`], it is an exception: no rule
    /// of this class applies to the names of its scope.
    Rewrite,
    /// An exception with `$important`.
    ImportantException,
    /// A rule with `$important`.
    Important,
    /// An exception of an ad blocker's list, or a name of a list of exceptions.
    Exception,
    /// Any other rule. It may pass questions, too: as one rule among others, which longer names
    /// and earlier zones precede.
    Ordinary,
}

impl Class {
    /// All of them, the first one first.
    pub const ALL: [Class; 5] = [
        Class::Rewrite,
        Class::ImportantException,
        Class::Important,
        Class::Exception,
        Class::Ordinary,
    ];

    /// The words for it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Class;
    ///
    /// assert_eq!(Class::ImportantException.word(), "important exception");
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Class::Rewrite => "rewriting",
            Class::ImportantException => "important exception",
            Class::Important => "important",
            Class::Exception => "exception",
            Class::Ordinary => "ordinary",
        }
    }
}

/// The types of questions that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    /// Whether the rule is for all other types.
    pub others: bool,
    /// The numbers of the types, in ascending order.
    pub types: Vec<u16>,
}

impl Types {
    /// Whether the rule is for questions of a type.
    ///
    /// O(number of types).
    ///
    /// ```
    /// use sapwood_lists::Types;
    ///
    /// let not_aaaa = Types { others: true, types: vec![28] };
    /// assert!(not_aaaa.has(1) && !not_aaaa.has(28));
    /// ```
    pub fn has(&self, rtype: u16) -> bool {
        self.types.contains(&rtype) != self.others
    }
}

/// What a rule says about its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Which names it is for.
    pub scope: Scope,
    /// What happens to questions.
    pub action: Action,
    /// Its rank.
    pub class: Class,
    /// The number of its list, from 0.
    pub list: u16,
    /// The types of questions that it is for; `None` for all.
    pub types: Option<Types>,
    /// The keys of names that it is not for. The names below them are excepted, too.
    pub except: Vec<Vec<u8>>,
}

impl Terms {
    /// Terms without conditions, of an ordinary rule.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::{Action, Class, Scope, Terms};
    ///
    /// let terms = Terms::new(Scope::WithBelow, Action::Nxdomain, 3);
    /// assert_eq!((terms.class, terms.list), (Class::Ordinary, 3));
    /// ```
    pub fn new(scope: Scope, action: Action, list: u16) -> Self {
        Terms {
            scope,
            action,
            class: Class::Ordinary,
            list,
            types: None,
            except: Vec::new(),
        }
    }

    /// Whether they are for questions of all types for all names of their scope.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.types.is_none() && self.except.is_empty()
    }

    /// Whether two rules of a name are one rule to a list, apart from what they do.
    pub(crate) fn is_same_place(&self, other: &Terms) -> bool {
        let is_list = self.list == other.list;
        is_list
            && (self.scope, self.class, &self.types, &self.except)
                == (other.scope, other.class, &other.types, &other.except)
    }

    /// Whether a rule at the name of the key `at` applies to a question. The question is for that
    /// name or one below it.
    pub(crate) fn apply(&self, at: &[u8], key: &[u8], rtype: u16) -> bool {
        self.scope.has(at.len() == key.len())
            && self.types.as_ref().is_none_or(|types| types.has(rtype))
            && !self.except.iter().any(|except| key.starts_with(except))
    }
}

impl fmt::Display for Terms {
    /// What the rule does, its scope, the number of its list, and what is special.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, list {}",
            self.action,
            self.scope.word(),
            self.list
        )?;
        if self.class != Class::Ordinary {
            write!(f, ", {}", self.class.word())?;
        }
        if let Some(types) = &self.types {
            f.write_str(if types.others {
                ", types other than"
            } else {
                ", types"
            })?;
            for rtype in &types.types {
                write!(f, " {}", domain::base::Rtype::from_int(*rtype))?;
            }
        }
        if !self.except.is_empty() {
            f.write_str(", except")?;
        }
        for key in &self.except {
            write!(f, " {}", shown_name(key).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The key of its name, as [`dns_name`](sapwood::key::dns_name) makes it.
    pub key: Vec<u8>,
    /// What it says.
    pub terms: Terms,
    /// The number of its line, from 1.
    pub line: u64,
}

impl Rule {
    /// The text of its name: with `*.` in front if it is for names below alone.
    ///
    /// O(length of the name).
    ///
    /// ```
    /// use sapwood_lists::{Action, Rule, Scope, Terms};
    ///
    /// let terms = Terms::new(Scope::Below, Action::Nxdomain, 0);
    /// let rule = Rule { key: b"example\0ads\0".to_vec(), terms, line: 1 };
    /// assert_eq!(rule.name(), "*.ads.example");
    /// ```
    pub fn name(&self) -> String {
        rule_name(&self.key, self.terms.scope)
    }
}

/// The text of a rule's name.
pub(crate) fn rule_name(key: &[u8], scope: Scope) -> String {
    let name = shown_name(key).unwrap_or_else(|_| key.escape_ascii().to_string());
    match (scope, name.as_str()) {
        (Scope::Below, ".") => "*".into(),
        (Scope::Below, _) => format!("*.{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn lines_of_one_list_gather_addresses_and_records() {
        let [a, b] = ["192.0.2.1", "2001:db8::1"].map(address);
        let text = Record {
            rtype: 16,
            ttl: 60,
            data: b"\x02hi".to_vec(),
        };
        let mut action = Action::addresses([b]);
        assert!(action.gather(Action::addresses([a, b])));
        assert_eq!(action, Action::Addresses(vec![a, b]));
        assert!(action.gather(Action::Records(vec![text.clone()])));
        let mut other = Action::Records(vec![text.clone()]);
        assert!(other.gather(Action::addresses([b, a])));
        assert_eq!(action, other, "the order of lines makes no difference");
        assert_eq!(
            action.to_string(),
            "records A 192.0.2.1 TXT \\# 3 026869 AAAA 2001:db8::1"
        );
        assert!(!action.gather(Action::Nxdomain));
        assert!(!Action::Nxdomain.gather(Action::Nodata));
        assert_eq!(action, other);
    }

    #[test]
    fn terms_apply_to_their_names_types_and_not_to_exceptions() {
        let mut terms = Terms::new(Scope::WithBelow, Action::Nxdomain, 0);
        let (at, below) = (&b"x\0"[..], &b"x\0a\0"[..]);
        assert!(terms.apply(at, at, A) && terms.apply(at, below, A));
        terms.scope = Scope::Below;
        assert!(!terms.apply(at, at, A) && terms.apply(at, below, A));
        terms.scope = Scope::Exact;
        assert!(terms.apply(at, at, A) && !terms.apply(at, below, A));
        terms.scope = Scope::WithBelow;
        terms.except = vec![b"x\0a\0".to_vec()];
        assert!(terms.apply(at, at, A) && !terms.apply(at, below, A));
        assert!(!terms.apply(at, b"x\0a\0b\0", A) && terms.apply(at, b"x\0ab\0", A));
        terms.types = Some(Types {
            others: false,
            types: vec![AAAA],
        });
        assert!(!terms.apply(at, at, A) && terms.apply(at, at, AAAA));
    }

    #[test]
    fn terms_are_shown_with_all_that_they_say() {
        let mut terms = Terms::new(Scope::Below, Action::Refused, 2);
        assert_eq!(terms.to_string(), "refused, below, list 2");
        terms.class = Class::Important;
        terms.types = Some(Types {
            others: true,
            types: vec![A, AAAA],
        });
        terms.except = vec![b"x\0a\0".to_vec()];
        assert_eq!(
            terms.to_string(),
            "refused, below, list 2, important, types other than A AAAA, except a.x"
        );
    }

    #[test]
    fn names_are_shown_with_their_wildcard() {
        assert_eq!(rule_name(b"x\0a\0", Scope::WithBelow), "a.x");
        assert_eq!(rule_name(b"x\0a\0", Scope::Below), "*.a.x");
        assert_eq!(rule_name(b"", Scope::Below), "*");
        assert_eq!(rule_name(b"", Scope::Exact), ".");
    }
}
