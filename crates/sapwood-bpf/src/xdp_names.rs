//! The program `xdp-names`: DNS queries for names of a list are dropped.

use std::fmt;

use libbpf_rs::{MapCore, MapFlags};
use sapwood::key::{dns_name, dns_name_to_text};

use crate::arena::BpfArena;
use crate::error::Error;
use crate::layout::{NAMES_ALLOW, NAMES_BLOCK, NamesVerdict};
use crate::loader::{Loader, Programs};
use crate::names::NameMap;
use crate::xdp::{XdpLink, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-names.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "sw_xdp_names";

/// The name of the map that it counts in.
const COUNTS: &str = "sw_names_counts";

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
            NameRule::Block => NAMES_BLOCK,
            NameRule::Allow => NAMES_ALLOW,
        }
    }

    /// What a value in the map stands for.
    pub fn of(value: u64) -> NameRule {
        match value {
            NAMES_BLOCK => NameRule::Block,
            _ => NameRule::Allow,
        }
    }
}

/// Packets by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesCounts([u64; NamesVerdict::ALL.len()]);

impl NamesCounts {
    /// Packets that this became of.
    pub fn get(&self, verdict: NamesVerdict) -> u64 {
        self.0[verdict as usize]
    }

    /// All packets.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// All counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (NamesVerdict, u64)> + '_ {
        NamesVerdict::ALL.into_iter().zip(self.0.iter().copied())
    }

    /// What came since an earlier time.
    pub fn since(&self, earlier: &NamesCounts) -> NamesCounts {
        let mut more = self.clone();
        for (count, before) in more.0.iter_mut().zip(earlier.0) {
            *count = count.saturating_sub(before);
        }
        more
    }

    /// Reads the map that the program counts in.
    fn read(map: &impl MapCore) -> Result<NamesCounts, Error> {
        let mut counts = NamesCounts::default();
        for (number, count) in (0u32..).zip(&mut counts.0) {
            let words = map
                .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| Error::system("reading counts", error))?;
            for word in words.unwrap_or_default() {
                *count += word
                    .try_into()
                    .map(u64::from_ne_bytes)
                    .map_err(|_| Error::Damaged("a count that is no u64".into()))?;
            }
        }
        Ok(counts)
    }
}

/// Drops DNS queries for names of a list, and for names below them, on network interfaces.
///
/// Queries are UDP packets to port 53; the name of the first question counts, in any letter case. The closest enclosing name that has
/// a rule decides. Everything else passes as it came, and is counted by the reason: TCP, fragments, compressed names, packets
/// that are malformed, responses.
///
/// The list may be changed while packets come: no packet waits for it, and no rule that is not changed is ever missed.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, NameRule, XdpNames, interface_index, layout::NamesVerdict};
/// let arena = BpfArena::create(256 << 20)?;
/// let mut filter = XdpNames::load(&arena, "blocked", [("ads.example", NameRule::Block)])?;
/// filter.attach(interface_index("eth0")?, None)?;
/// filter.allow("good.ads.example")?;
/// println!("{} queries dropped", filter.counts()?.get(NamesVerdict::Dropped));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct XdpNames {
    // Dropped first: a program without a list would let everything pass.
    links: Vec<XdpLink>,
    programs: Programs,
    names: NameMap<u64>,
}

impl XdpNames {
    /// Makes a list of this name in the arena, and loads the program for it. Of a name that comes twice, the last rule holds.
    ///
    /// # Errors
    /// [`Error::DnsName`] for the first name that is none; those of [`NameMapBuilder`](crate::NameMapBuilder) and [`Loader`].
    pub fn load<N: AsRef<[u8]>>(
        arena: &BpfArena,
        list: &str,
        names: impl IntoIterator<Item = (N, NameRule)>,
    ) -> Result<XdpNames, Error> {
        let mut entries = Vec::new();
        for (name, rule) in names {
            entries.push((key(name)?, rule.value()));
        }
        // Equal keys stay in their order.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        XdpNames::with(NameMap::builder(arena, list).build_sorted(entries)?)
    }

    /// Loads the program for a map that is there: keys as [`dns_name`] makes them, values of [`NameRule::value`].
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn with(names: NameMap<u64>) -> Result<XdpNames, Error> {
        let programs = program_for(names.arena(), names.window().number)?;
        Ok(XdpNames {
            links: Vec::new(),
            programs,
            names,
        })
    }

    /// The list: keys of domain names, values of [`NameRule::value`]. What is changed here takes effect as by the methods below.
    pub fn names(&self) -> &NameMap<u64> {
        &self.names
    }

    /// The program and its maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Blocks a name and all below it, from the next packet on; whether it had no rule.
    ///
    /// # Errors
    /// [`Error::DnsName`]; [`Error::Map`] when there is no memory.
    pub fn block(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.set(name, NameRule::Block)
    }

    /// Lets queries for a name and all below it pass, though a name above it be blocked; whether it had no rule.
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
        let inserted = self.names.insert(key(name)?, rule.value());
        Ok(inserted.map_err(sapwood::Error::from)?)
    }

    /// Takes the rule of a name away, so that the closest one above it holds; whether it had one. Rules of names below stay.
    ///
    /// # Errors
    /// As [`block`](Self::block): a smaller node of the map is made beside the old one.
    pub fn free(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.names.remove(key(name)?)?)
    }

    /// The rule for a name, and which name it is that has it.
    ///
    /// # Errors
    /// [`Error::DnsName`].
    pub fn rule_for(&self, name: impl AsRef<[u8]>) -> Result<Option<(String, NameRule)>, Error> {
        let key = key(name)?;
        let pin = self.names.pin();
        let found = pin.view().longest_prefix(&key);
        Ok(
            found
                .and_then(|(key, value)| Some((dns_name_to_text(key).ok()?, NameRule::of(*value)))),
        )
    }

    /// Puts the program on the interface of this number, until it is taken off, or this is dropped; see [`XdpLink::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        let link = XdpLink::attach(&self.programs, PROGRAM, interface, mode)?;
        self.links.push(link);
        Ok(&self.links[self.links.len() - 1])
    }

    /// Takes the program off an interface; whether it was on it.
    pub fn detach(&mut self, interface: u32) -> bool {
        let before = self.links.len();
        self.links.retain(|link| link.interface() != interface);
        self.links.len() < before
    }

    /// Where the program is.
    pub fn links(&self) -> &[XdpLink] {
        &self.links
    }

    /// What became of all packets so far, on all interfaces together.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        NamesCounts::read(&self.programs.map(COUNTS)?)
    }
}

impl fmt::Debug for XdpNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpNames")
            .field("names", &self.names)
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}

/// The program, loaded for the list in this window.
fn program_for(arena: &BpfArena, window: u32) -> Result<Programs, Error> {
    let mut loader = Loader::open(arena, OBJECT)?;
    let mut set = false;
    for mut map in loader.object_mut().maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            set = map.set_initial_value(&window.to_ne_bytes()).is_ok();
        }
    }
    if !set {
        return Err(Error::Missing {
            what: "constant",
            name: "sw_names_window".into(),
        });
    }
    loader.load()
}

/// The key of a name.
fn key(name: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    let name = name.as_ref();
    dns_name(name).map_err(|error| Error::DnsName {
        name: String::from_utf8_lossy(name).into_owned(),
        error,
    })
}
