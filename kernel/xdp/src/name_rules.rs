//! Lists of domain names with rules for each name and the names below it.

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood_bpf::layout::page;
use sapwood_bpf::layout::xdp_names::{ALLOW, BLOCK, ROOM_BYTES};
use sapwood_bpf::{BpfArena, Error, UserMap, Words};

/// What a program does with queries for a name, and for all names below it that have no rule of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The program drops the queries.
    Block,
    /// The program passes the queries. This is for an exception below a blocked name.
    Allow,
}

impl NameRule {
    /// The value in the map that stands for the rule.
    pub fn value(self) -> u64 {
        match self {
            NameRule::Block => BLOCK,
            NameRule::Allow => ALLOW,
        }
    }

    /// The rule that a value in the map stands for.
    pub fn from_value(value: u64) -> NameRule {
        match value {
            BLOCK => NameRule::Block,
            _ => NameRule::Allow,
        }
    }
}

/// A list of domain names with rules, in an arena. This process writes it, and programs look up the
/// closest enclosing name (`sw_qp_ancestor` of `sapwood/dns.bpf.h`).
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// use sapwood_xdp::{NameRule, NameRules};
/// let arena = BpfArena::create(256 << 20)?;
/// let rules = NameRules::new(&arena, "blocked", [("ads.example", NameRule::Block)])?;
/// rules.allow("good.ads.example")?;
/// let (by, rule) = rules.rule_for("www.ads.example")?.expect("it is below a name of the list");
/// assert_eq!((by.as_str(), rule), ("ads.example", NameRule::Block));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct NameRules {
    map: UserMap<u64>,
    /// The words in which programs make keys of more than 254 bytes.
    rooms: Option<Words>,
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
        let mut entries = Vec::new();
        for (name, rule) in names {
            entries.push((key(name)?, rule.value()));
        }
        // The sort is stable, so equal keys stay in their order.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        // These come first, because the map takes all the room that is left.
        let rooms = new_rooms(arena, list);
        let map = UserMap::builder(arena, list).build_sorted(entries)?;
        Ok(NameRules { map, rooms })
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
        Ok(NameRules { map, rooms })
    }

    /// Makes a list of an existing map. Its keys are those that [`dns_name`] makes, and its values
    /// are those of [`NameRule::value`].
    ///
    /// Programs make keys of more than 254 bytes in a separate window, which has 512 bytes for each
    /// processor. When the arena has no room for this window, programs look up the first 254 bytes.
    /// If these are not blocked, programs drop the query, too, and count the name as
    /// [`TooLong`](crate::NamesVerdict::TooLong). Ordinary names have no such
    /// keys.
    pub fn from_map(map: UserMap<u64>) -> NameRules {
        let rooms = new_rooms(map.arena(), &map.window().name);
        NameRules { map, rooms }
    }

    /// The number of the window in which programs make long keys.
    pub(crate) fn rooms(&self) -> Option<u32> {
        self.rooms.as_ref().map(|rooms| rooms.window().number)
    }

    /// The map. Its keys are those that [`dns_name`] makes, and its values are those of
    /// [`NameRule::value`].
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
        let inserted = self.map.insert(key(name)?, rule.value());
        Ok(inserted.map_err(sapwood::Error::from)?)
    }

    /// Removes the rule of a name, so that the closest rule above it counts. Returns whether the
    /// name had a rule. Rules of names below stay.
    ///
    /// # Errors
    /// As [`block`](Self::block). A removal needs memory, too, because the map writes a smaller
    /// node beside the old one.
    pub fn free(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.map.remove(key(name)?)?)
    }

    /// The rule that counts for a name, and the name that has this rule.
    ///
    /// # Errors
    /// [`Error::DnsName`].
    pub fn rule_for(&self, name: impl AsRef<[u8]>) -> Result<Option<(String, NameRule)>, Error> {
        let key = key(name)?;
        let pin = self.map.pin();
        let found = pin.view().longest_prefix(&key);
        Ok(found.and_then(|(key, value)| {
            Some((dns_name_to_text(&key).ok()?, NameRule::from_value(*value)))
        }))
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
