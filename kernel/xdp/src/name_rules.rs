//! Lists of domain names with rules for each name and the names below it.

use std::sync::{Mutex, PoisonError};

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood_bpf::layout::page;
use sapwood_bpf::layout::xdp_names::{
    ALLOW, BLOCK, OWN_TRUNCATE, ROOM_BYTES, TRUNCATE, WILD, WILD_AND_OWN,
};
use sapwood_bpf::{BpfArena, Error, UserMap, Words};

/// What a program does with queries for a name, and for all names below it that have no rule of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The program drops the queries.
    Block,
    /// The program passes the queries. This is for an exception below a blocked name.
    Allow,
    /// The program answers the queries with the bit TC, so that clients ask over TCP. It drops
    /// those that it cannot answer.
    Truncate,
}

impl NameRule {
    /// The value in the map that stands for the rule.
    pub fn value(self) -> u64 {
        match self {
            NameRule::Block => BLOCK,
            NameRule::Allow => ALLOW,
            NameRule::Truncate => TRUNCATE,
        }
    }

    /// The rule that a value in the map stands for.
    pub fn from_value(value: u64) -> NameRule {
        match (value & BLOCK != 0, value & TRUNCATE != 0) {
            (true, _) => NameRule::Block,
            (false, true) => NameRule::Truncate,
            (false, false) => NameRule::Allow,
        }
    }
}

/// The rules in an entry of a list: that of a name, and that of the wildcard below it.
///
/// ```
/// use sapwood_xdp::{EntryRules, NameRule};
/// let both = EntryRules { own: Some(NameRule::Allow), wildcard: Some(NameRule::Block) };
/// assert_eq!(EntryRules::from_value(both.value().unwrap()), both);
/// assert_eq!(both.for_itself(), Some(NameRule::Allow));
/// assert_eq!(both.for_names_below(), Some((NameRule::Block, true)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryRules {
    /// The rule of the name. It is also for the names below it, if there is no wildcard.
    pub own: Option<NameRule>,
    /// The rule of the wildcard, which is for all names below the name.
    pub wildcard: Option<NameRule>,
}

impl EntryRules {
    /// The value in the map that stands for the rules; `None` without any.
    pub fn value(self) -> Option<u64> {
        Some(match (self.own, self.wildcard) {
            (None, None) => return None,
            (Some(own), None) => own.value(),
            (None, Some(wildcard)) => wildcard.value() | WILD,
            (Some(own), Some(wildcard)) => {
                let own = match own {
                    NameRule::Allow => 0,
                    NameRule::Block => WILD,
                    NameRule::Truncate => OWN_TRUNCATE,
                };
                wildcard.value() | WILD_AND_OWN | own
            }
        })
    }

    /// The rules that a value in the map stands for.
    pub fn from_value(value: u64) -> EntryRules {
        let rule = NameRule::from_value(value);
        match (value & WILD_AND_OWN != 0, value & WILD != 0) {
            (false, false) => EntryRules {
                own: Some(rule),
                wildcard: None,
            },
            (false, true) => EntryRules {
                own: None,
                wildcard: Some(rule),
            },
            (true, blocks) => EntryRules {
                own: Some(match (blocks, value & OWN_TRUNCATE != 0) {
                    (true, _) => NameRule::Block,
                    (false, true) => NameRule::Truncate,
                    (false, false) => NameRule::Allow,
                }),
                wildcard: Some(rule),
            },
        }
    }

    /// The rule for the name of the entry. Without one, those of the names above it count.
    pub fn for_itself(self) -> Option<NameRule> {
        self.own
    }

    /// The rule for names below that of the entry, and whether it is that of the wildcard.
    pub fn for_names_below(self) -> Option<(NameRule, bool)> {
        let own = self.own.map(|rule| (rule, false));
        self.wildcard.map(|rule| (rule, true)).or(own)
    }

    /// The place of a name's rule, or of a wildcard's.
    fn part(&mut self, is_wildcard: bool) -> &mut Option<NameRule> {
        match is_wildcard {
            true => &mut self.wildcard,
            false => &mut self.own,
        }
    }
}

/// A list of domain names with rules, in an arena. This process writes it, and programs look up the
/// closest enclosing name (`sw_qp_ancestor` of `sapwood/dns.bpf.h`).
///
/// A name whose first label is `*` is a wildcard. Its rule is for all names below the rest, and not
/// for the rest itself. It is closer than a rule of the rest, which is for the names below it, too.
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// use sapwood_xdp::{NameRule, NameRules};
/// let arena = BpfArena::create(256 << 20)?;
/// let rules = NameRules::new(&arena, "blocked", [("ads.example", NameRule::Block)])?;
/// rules.allow("good.ads.example")?;
/// let (by, rule) = rules.rule_for("www.ads.example")?.expect("it is below a name of the list");
/// assert_eq!((by.as_str(), rule), ("ads.example", NameRule::Block));
/// rules.block("*.shop.example")?;
/// assert_eq!(rules.rule_for("shop.example")?, None);
/// let by = rules.rule_for("a.b.shop.example")?;
/// assert_eq!(by, Some(("*.shop.example".into(), NameRule::Block)));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct NameRules {
    map: UserMap<u64>,
    /// The words in which programs make keys of more than 254 bytes.
    rooms: Option<Words>,
    /// Held by a change, because a name and its wildcard share an entry.
    turn: Mutex<()>,
}

/// The suffix of the name of the window in which programs make long keys.
const ROOMS: &str = "/keys";

/// The name of the window in which programs make long keys, for the list of this name.
fn rooms_name(list: &str) -> String {
    let most = page::NAME_MAX - ROOMS.len();
    let end = (0..=list.len().min(most))
        .rev()
        .find(|end| list.is_char_boundary(*end));
    format!("{}{ROOMS}", &list[..end.unwrap_or(0)])
}

/// Makes the window in which programs make long keys, if the arena has room: one buffer for each
/// processor.
pub(crate) fn new_rooms(arena: &BpfArena, list: &str) -> Option<Words> {
    let processors = libbpf_rs::num_possible_cpus().ok()?;
    Words::create(arena, &rooms_name(list), processors * ROOM_BYTES / 8).ok()
}

impl NameRules {
    /// Makes a list of this name in the arena. When a name comes twice, its last rule counts.
    ///
    /// # Errors
    /// [`Error::DnsName`] for the first text that is not a domain name; those of
    /// [`UserMapBuilder`](sapwood_bpf::UserMapBuilder).
    pub fn new<N: AsRef<[u8]>>(
        arena: &BpfArena,
        list: &str,
        names: impl IntoIterator<Item = (N, NameRule)>,
    ) -> Result<NameRules, Error> {
        let mut rules = Vec::new();
        for (name, rule) in names {
            let (key, is_wildcard) = entry_of(key(name)?);
            rules.push((key, is_wildcard, rule));
        }
        // The sort is stable, so equal keys stay in their order.
        rules.sort_by(|a, b| a.0.cmp(&b.0));
        let mut entries: Vec<(Vec<u8>, u64)> = Vec::with_capacity(rules.len());
        let mut of_entry = EntryRules::default();
        for (key, is_wildcard, rule) in rules {
            let is_next = entries.last().is_none_or(|(last, _)| *last != key);
            if is_next {
                of_entry = EntryRules::default();
            }
            *of_entry.part(is_wildcard) = Some(rule);
            let value = of_entry.value().unwrap_or_default();
            match entries.last_mut() {
                Some((_, last)) if !is_next => *last = value,
                _ => entries.push((key, value)),
            }
        }
        // These come first, because the map takes all the room that is left.
        let rooms = new_rooms(arena, list);
        let map = UserMap::builder(arena, list).build_sorted(entries)?;
        Ok(NameRules {
            map,
            rooms,
            turn: Mutex::default(),
        })
    }

    /// Takes over the list of this name that a dead owner left. Programs find all rules at any
    /// time. Both copies are in the arena for a time; see
    /// [`UserMapBuilder::take_over`](sapwood_bpf::UserMapBuilder::take_over).
    ///
    /// # Errors
    /// As there: [`Error::Owned`] while its owner lives.
    pub fn take_over(arena: &BpfArena, list: &str) -> Result<NameRules, Error> {
        let map = UserMap::builder(arena, list).take_over()?;
        let rooms = Words::adopt(arena, &rooms_name(list));
        Ok(NameRules {
            map,
            rooms,
            turn: Mutex::default(),
        })
    }

    /// Makes a list of an existing map. Its keys are those that [`dns_name`] makes, and its values
    /// are those of [`EntryRules::value`].
    ///
    /// Programs make keys of more than 254 bytes in a separate window, which has 512 bytes for each
    /// processor. When the arena has no room for this window, programs look up the first 254 bytes.
    /// If these are not blocked, programs drop the query, too, and count the name as
    /// [`TooLong`](crate::NamesVerdict::TooLong). Ordinary names have no such
    /// keys.
    pub fn from_map(map: UserMap<u64>) -> NameRules {
        let rooms = new_rooms(map.arena(), &map.window().name);
        NameRules {
            map,
            rooms,
            turn: Mutex::default(),
        }
    }

    /// The number of the window in which programs make long keys.
    pub(crate) fn rooms(&self) -> Option<u32> {
        self.rooms.as_ref().map(|rooms| rooms.window().number)
    }

    /// The map. Its keys are those that [`dns_name`] makes, and its values are those of
    /// [`EntryRules::value`]. A wildcard is a part of the entry of the name above it.
    pub fn map(&self) -> &UserMap<u64> {
        &self.map
    }

    /// Drops this handle, and leaves the list to programs. This is for a process that is about to
    /// end. Other processes can read the list afterwards, and another owner can take it over.
    pub fn leave(self) {
        // The drop would close the window.
        std::mem::forget(self.map);
        if let Some(rooms) = self.rooms {
            rooms.leave();
        }
    }

    /// Blocks a name and all names below it, from the next packet on. Returns whether the name had
    /// no rule.
    ///
    /// # Errors
    /// [`Error::DnsName`]; [`Error::Map`] when there is no memory.
    pub fn block(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.set(name, NameRule::Block)
    }

    /// Passes queries for a name and all names below it, even if a name above it is blocked.
    /// Returns whether the name had no rule.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn allow(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.set(name, NameRule::Allow)
    }

    /// Sets the rule of a name. Returns whether the name had no rule.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn set(&self, name: impl AsRef<[u8]>, rule: NameRule) -> Result<bool, Error> {
        let (key, is_wildcard) = entry_of(key(name)?);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = self.entry(&key);
        let before = rules.part(is_wildcard).replace(rule);
        self.write(key, rules)?;
        Ok(before.is_none())
    }

    /// Removes the rule of a name, so that the closest rule above it counts. Returns whether the
    /// name had a rule. Rules of names below stay.
    ///
    /// # Errors
    /// As [`block`](Self::block). A removal needs memory, too, because the map writes a smaller
    /// node beside the old one.
    pub fn free(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        let (key, is_wildcard) = entry_of(key(name)?);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = self.entry(&key);
        let before = rules.part(is_wildcard).take();
        if before.is_some() {
            self.write(key, rules)?;
        }
        Ok(before.is_some())
    }

    /// The rules in the entry of this key.
    fn entry(&self, key: &[u8]) -> EntryRules {
        let value = self.map.get(key);
        value.map_or_else(EntryRules::default, EntryRules::from_value)
    }

    /// Writes the rules of an entry, or removes it when there are none.
    fn write(&self, key: Vec<u8>, rules: EntryRules) -> Result<(), Error> {
        match rules.value() {
            Some(value) => {
                let inserted = self.map.insert(key, value);
                inserted.map_err(sapwood::Error::from)?;
            }
            None => {
                self.map.remove(key)?;
            }
        }
        Ok(())
    }

    /// The rule that counts for a name, and the name or the wildcard that has this rule.
    ///
    /// # Errors
    /// [`Error::DnsName`].
    pub fn rule_for(&self, name: impl AsRef<[u8]>) -> Result<Option<(String, NameRule)>, Error> {
        let key = key(name)?;
        let pin = self.map.pin();
        let view = pin.view();
        let found = |key: &[u8]| {
            let (key, value) = view.longest_prefix(key)?;
            Some((key.to_vec(), *value))
        };
        Ok(closest_rule(&key, found))
    }
}

/// The rule that counts for the name of a key, and the name or the wildcard that has it. `longest`
/// finds the entry whose key is the longest prefix of another.
///
/// ```
/// use sapwood::key::dns_name;
/// use sapwood_xdp::{EntryRules, NameRule, closest_rule};
/// let (of, value) = (dns_name("shop.example")?, EntryRules {
///     own: None,
///     wildcard: Some(NameRule::Block),
/// }.value().unwrap());
/// let longest = |key: &[u8]| key.starts_with(&of).then(|| (of.clone(), value));
/// let found = closest_rule(&dns_name("a.shop.example")?, longest);
/// assert_eq!(found, Some(("*.shop.example".into(), NameRule::Block)));
/// assert_eq!(closest_rule(&of, longest), None);
/// # Ok::<(), sapwood::key::DnsNameError>(())
/// ```
pub fn closest_rule(
    key: &[u8],
    mut longest: impl FnMut(&[u8]) -> Option<(Vec<u8>, u64)>,
) -> Option<(String, NameRule)> {
    let (mut of, mut value) = longest(key)?;
    let mut rules = EntryRules::from_value(value);
    if of == key {
        if let Some(rule) = rules.for_itself() {
            return Some((dns_name_to_text(&of).ok()?, rule));
        }
        // The name has no rule of its own, so those above it count.
        (of, value) = longest(parent(key)?)?;
        rules = EntryRules::from_value(value);
    }
    let (rule, is_wildcard) = rules.for_names_below()?;
    if is_wildcard {
        of.extend(WILDCARD);
    }
    Some((dns_name_to_text(&of).ok()?, rule))
}

/// The key of the name above that of a key; `None` for the root.
fn parent(key: &[u8]) -> Option<&[u8]> {
    let label = key.strip_suffix(&[0])?;
    let end = label.iter().rposition(|byte| *byte == 0);
    Some(&key[..end.map_or(0, |end| end + 1)])
}

/// The end of the key of a wildcard.
const WILDCARD: &[u8] = b"*\0";

/// The key of the entry that has the rule of the name of a key, and whether that name is a
/// wildcard.
fn entry_of(mut key: Vec<u8>) -> (Vec<u8>, bool) {
    let above = parent(&key).map(<[u8]>::len);
    match above {
        Some(above) if key[above..] == *WILDCARD => {
            key.truncate(above);
            (key, true)
        }
        _ => (key, false),
    }
}

/// The key of a name.
fn key(name: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    let name = name.as_ref();
    dns_name(name).map_err(|error| Error::DnsName {
        name: String::from_utf8_lossy(name).into_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_for_rules() {
        let each = [
            None,
            Some(NameRule::Allow),
            Some(NameRule::Block),
            Some(NameRule::Truncate),
        ];
        let mut seen = Vec::new();
        for own in each {
            for wildcard in each {
                let rules = EntryRules { own, wildcard };
                let Some(value) = rules.value() else {
                    assert_eq!(rules, EntryRules::default());
                    continue;
                };
                assert_eq!(EntryRules::from_value(value), rules);
                seen.push(value);
            }
        }
        seen.sort_unstable();
        // The first eight are those of lists without truncation, as they were before.
        let wanted = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 20, 21, 28];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn entries_of_wildcards_are_those_of_the_names_above() {
        for (name, entry, is_wildcard) in [
            ("*.a.example", "a.example", true),
            ("*", ".", true),
            ("a.example", "a.example", false),
            ("a.*.example", "a.*.example", false),
            ("*.*.example", "*.example", true),
            ("**.example", "**.example", false),
            ("x*.example", "x*.example", false),
            (".", ".", false),
        ] {
            let wanted = (key(entry).unwrap(), is_wildcard);
            assert_eq!(entry_of(key(name).unwrap()), wanted, "{name}");
        }
        let keys = ["a.b.example", "b.example", "example", "."].map(|name| key(name).unwrap());
        for pair in keys.windows(2) {
            assert_eq!(parent(&pair[0]), Some(&pair[1][..]));
        }
        assert_eq!(parent(&keys[3]), None);
    }
}
