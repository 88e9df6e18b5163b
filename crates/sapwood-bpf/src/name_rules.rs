//! Lists of domain names, and what holds for each and for the names below it.

use sapwood::key::{dns_name, dns_name_to_text};

use crate::arena::BpfArena;
use crate::error::Error;
use crate::layout::page;
use crate::layout::xdp_names::{ALLOW, BLOCK, ROOM_BYTES};
use crate::names::UserMap;
use crate::words::Words;

/// What becomes of queries for a name, and for all names below it that have no rule of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// They are dropped.
    Block,
    /// They pass: an exception below a name that is blocked.
    Allow,
}

impl NameRule {
    /// What stands in the map for it.
    pub fn value(self) -> u64 {
        match self {
            NameRule::Block => BLOCK,
            NameRule::Allow => ALLOW,
        }
    }

    /// What a value in the map stands for.
    pub fn from_value(value: u64) -> NameRule {
        match value {
            BLOCK => NameRule::Block,
            _ => NameRule::Allow,
        }
    }
}

/// A list of domain names with rules, in an arena: this process writes it, programs look up the
/// closest enclosing name (`sw_qp_ancestor` of `sapwood/dns.bpf.h`).
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, NameRule, NameRules};
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
    /// Where programs make keys that are longer than 254 bytes.
    rooms: Option<Words>,
}

/// What the name of a window with rooms ends with.
const ROOMS: &str = "/keys";

/// The name of the window with rooms for long keys, of the list of this name.
fn rooms_name(list: &str) -> String {
    let most = page::NAME_MAX - ROOMS.len();
    let end = (0..=list.len().min(most))
        .rev()
        .find(|end| list.is_char_boundary(*end));
    format!("{}{ROOMS}", &list[..end.unwrap_or(0)])
}

/// A room for each processor, if they find a place.
fn new_rooms(arena: &BpfArena, list: &str) -> Option<Words> {
    let processors = libbpf_rs::num_possible_cpus().ok()?;
    Words::create(arena, &rooms_name(list), processors * ROOM_BYTES / 8).ok()
}

impl NameRules {
    /// A list of this name in the arena. Of a name that comes twice, the last rule holds.
    ///
    /// # Errors
    /// [`Error::DnsName`] for the first name that is none; those of
    /// [`UserMapBuilder`](crate::UserMapBuilder).
    pub fn new<N: AsRef<[u8]>>(
        arena: &BpfArena,
        list: &str,
        names: impl IntoIterator<Item = (N, NameRule)>,
    ) -> Result<NameRules, Error> {
        let mut entries = Vec::new();
        for (name, rule) in names {
            entries.push((key(name)?, rule.value()));
        }
        // Equal keys stay in their order.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        // First: the map takes all that is left.
        let rooms = new_rooms(arena, list);
        let map = UserMap::builder(arena, list).build_sorted(entries)?;
        Ok(NameRules { map, rooms })
    }

    /// Takes over the list of this name that a dead owner left: all rules hold at any time. Both
    /// copies are in the arena for a moment; see
    /// [`UserMapBuilder::take_over`](crate::UserMapBuilder::take_over).
    ///
    /// # Errors
    /// As there: [`Error::Owned`] while its owner lives.
    pub fn take_over(arena: &BpfArena, list: &str) -> Result<NameRules, Error> {
        let map = UserMap::builder(arena, list).take_over()?;
        let rooms = Words::adopt(arena, &rooms_name(list));
        Ok(NameRules { map, rooms })
    }

    /// A map that is there as a list: keys as [`dns_name`] makes them, values of
    /// [`NameRule::value`].
    ///
    /// Programs make keys of more than 254 bytes in a window of their own (512 bytes for each
    /// processor). Where the arena has no room for it, they look up the first 254 bytes, and count
    /// names for which that finds nothing as
    /// [`TooLong`](crate::layout::xdp_names::NamesVerdict::TooLong).
    pub fn from_map(map: UserMap<u64>) -> NameRules {
        let rooms = new_rooms(map.arena(), &map.window().name);
        NameRules { map, rooms }
    }

    /// The number of the window where programs make long keys.
    pub(crate) fn rooms(&self) -> Option<u32> {
        self.rooms.as_ref().map(|rooms| rooms.window().number)
    }

    /// The map: keys as [`dns_name`] makes them, values of [`NameRule::value`].
    pub fn map(&self) -> &UserMap<u64> {
        &self.map
    }

    /// Ends without taking the list away from programs: for a process that ends, too. It can be
    /// read afterwards, and taken over by another owner.
    pub fn leave(self) {
        // What a drop would do is to close the window.
        std::mem::forget(self.map);
        if let Some(rooms) = self.rooms {
            rooms.leave();
        }
    }

    /// Blocks a name and all below it, from the next packet on; whether it had no rule.
    ///
    /// # Errors
    /// [`Error::DnsName`]; [`Error::Map`] when there is no memory.
    pub fn block(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.set(name, NameRule::Block)
    }

    /// Lets queries for a name and all below it pass, though a name above it be blocked; whether it
    /// had no rule.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn allow(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.set(name, NameRule::Allow)
    }

    /// Sets the rule of a name; whether it had none.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn set(&self, name: impl AsRef<[u8]>, rule: NameRule) -> Result<bool, Error> {
        let inserted = self.map.insert(key(name)?, rule.value());
        Ok(inserted.map_err(sapwood::Error::from)?)
    }

    /// Takes the rule of a name away, so that the closest one above it holds; whether it had one.
    /// Rules of names below stay.
    ///
    /// # Errors
    /// As [`block`](Self::block): a smaller node of the map is made beside the old one.
    pub fn free(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.map.remove(key(name)?)?)
    }

    /// The rule for a name, and which name it is that has it.
    ///
    /// # Errors
    /// [`Error::DnsName`].
    pub fn rule_for(&self, name: impl AsRef<[u8]>) -> Result<Option<(String, NameRule)>, Error> {
        let key = key(name)?;
        let pin = self.map.pin();
        let found = pin.view().longest_prefix(&key);
        Ok(found.and_then(|(key, value)| {
            Some((dns_name_to_text(key).ok()?, NameRule::from_value(*value)))
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
