//! The program `xdp-names`: DNS queries for names of a list are dropped.

use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::MapHandle;

use crate::arena::BpfArena;
use crate::counts::PacketCounts;
use crate::error::Error;
use crate::layout::xdp_names::NamesVerdict;
use crate::loader::{Loader, Programs};
use crate::name_rules::{NameRule, NameRules};
use crate::pinned::{ARENA, LINK, Pinned};
use crate::xdp::{XdpLink, XdpLinks, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-names.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "sw_xdp_names";

/// The name of the map that it counts in.
const COUNTS: &str = "sw_names_counts";

/// Pins beside the arena's and those of links, which are named by the interface's number.
const COUNTS_PIN: &str = "counts";
const PROGRAM_PIN: &str = "program";

/// Packets by what became of them.
pub type NamesCounts = PacketCounts<NamesVerdict>;

/// Drops DNS queries for names of a list, and for names below them, on network interfaces.
///
/// Queries are UDP packets to port 53; the name of the first question counts, in any letter case.
/// The closest enclosing name that has a rule decides. Everything else passes as it came, and is
/// counted by the reason: TCP, fragments, compressed names, packets that are malformed, responses.
///
/// The list may be changed while packets come: no packet waits for it, and no rule that is not
/// changed is ever missed.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, NameRule, XdpNames, interface_index, layout::xdp_names::NamesVerdict};
/// let arena = BpfArena::create(256 << 20)?;
/// let mut filter = XdpNames::load(&arena, "blocked", [("ads.example", NameRule::Block)])?;
/// filter.attach(interface_index("eth0")?, None)?;
/// filter.rules().allow("good.ads.example")?;
/// println!("{} queries dropped", filter.counts()?.get(NamesVerdict::Dropped));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct XdpNames {
    // Dropped first: a program without a list would let everything pass.
    links: XdpLinks,
    programs: Programs,
    rules: NameRules,
}

impl XdpNames {
    /// Makes a list of this name in the arena, and loads the program for it. Of a name that comes
    /// twice, the last rule holds.
    ///
    /// # Errors
    /// Those of [`NameRules::new`] and [`Loader`].
    pub fn load<N: AsRef<[u8]>>(
        arena: &BpfArena,
        list: &str,
        names: impl IntoIterator<Item = (N, NameRule)>,
    ) -> Result<XdpNames, Error> {
        XdpNames::with(NameRules::new(arena, list, names)?)
    }

    /// Loads the program for a list that is there.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn with(rules: NameRules) -> Result<XdpNames, Error> {
        let map = rules.map();
        let programs = program_for(map.arena(), map.window().number, rules.rooms())?;
        Ok(XdpNames {
            links: XdpLinks::default(),
            programs,
            rules,
        })
    }

    /// The list. What is changed in it holds from the next packet on.
    pub fn rules(&self) -> &NameRules {
        &self.rules
    }

    /// The program and its maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Puts the program on the interface of this number, until it is taken off, or this is dropped;
    /// see [`XdpLink::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PROGRAM, interface, mode)
    }

    /// Takes the program off an interface; whether it was on it.
    pub fn detach(&mut self, interface: u32) -> bool {
        self.links.detach(interface)
    }

    /// Where the program is.
    pub fn links(&self) -> &[XdpLink] {
        self.links.all()
    }

    /// Pins all of it in a new folder of a BPF file system: the arena, the program, its counts and
    /// its places. It stays on its interfaces, whatever becomes of this process; [`PinnedNames`]
    /// finds it again. When this is dropped in order, the list goes and all queries pass, unless it
    /// is [left](Self::leave).
    ///
    /// # Errors
    /// What the system says: that the folder is there, or not in a BPF file system. Then nothing
    /// stays pinned.
    pub fn pin(&self, folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        let folder = folder.as_ref();
        std::fs::create_dir(folder)
            .map_err(|error| Error::io(format!("making {}", folder.display()), error))?;
        let pins = PinnedNames {
            pins: Pinned::at(folder.to_owned()),
        };
        let pinned = self.pin_all(&pins.pins);
        pinned.inspect_err(|_| drop(pins.unpin()))?;
        Ok(pins)
    }

    fn pin_all(&self, pins: &Pinned) -> Result<(), Error> {
        pins.pin_arena(self.rules.map().arena())?;
        pins.pin(COUNTS_PIN, self.programs.map(COUNTS)?.as_fd())?;
        pins.pin(PROGRAM_PIN, self.programs.program(PROGRAM)?.as_fd())?;
        for link in self.links() {
            pins.pin_link(&link.interface().to_string(), link.fd())?;
        }
        Ok(())
    }

    /// Ends without taking anything away: for a process that ends, too, and has [pinned](Self::pin)
    /// it. The list can be read afterwards, and taken over by another owner.
    pub fn leave(self) {
        self.rules.leave();
    }

    /// What became of all packets so far, on all interfaces together.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        PacketCounts::read(&self.programs.map(COUNTS)?)
    }
}

/// An [`XdpNames`] that was pinned, whether or not its owner lives.
///
/// ```no_run
/// use sapwood_bpf::PinnedNames;
/// let pins = PinnedNames::open("/sys/fs/bpf/names")?;
/// println!("{:?}", pins.counts()?);
/// pins.unpin()?;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PinnedNames {
    pins: Pinned,
}

impl PinnedNames {
    /// What is pinned in this folder.
    ///
    /// # Errors
    /// What the system says: that there is no such folder, or nothing of the kind in it.
    pub fn open(folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        let pins = PinnedNames {
            pins: Pinned::at(folder.as_ref().to_owned()),
        };
        pins.counts()?;
        Ok(pins)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.pins.folder()
    }

    /// The arena with the list. A process maps an arena once: its owner cannot open it again.
    ///
    /// # Errors
    /// As [`BpfArena::open`].
    pub fn arena(&self) -> Result<BpfArena, Error> {
        self.pins.arena()
    }

    /// Takes over the list of this name, when its owner has ended: the program asks it as before.
    /// [Leave](NameRules::leave) it at the end, or it is closed.
    ///
    /// # Errors
    /// As [`NameRules::take_over`].
    pub fn take_over(&self, list: &str) -> Result<NameRules, Error> {
        NameRules::take_over(&self.arena()?, list)
    }

    /// What became of all packets so far, on all interfaces together.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        let path = self.folder().join(COUNTS_PIN);
        let map =
            MapHandle::from_pinned_path(&path).map_err(|error| Error::pinned(&path, error))?;
        PacketCounts::read(&map)
    }

    /// The numbers of the interfaces on which it was when it was pinned, in the network namespace
    /// of its owner.
    ///
    /// # Errors
    /// What the system says.
    pub fn interfaces(&self) -> Result<Vec<u32>, Error> {
        let names = self.pins.names()?;
        let mut all: Vec<u32> = names.iter().filter_map(|name| interface(name)).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Takes the program off its interfaces, and everything out of the folder, and the folder away.
    /// When this returns, no packet meets the program any more, whoever else holds its places (test
    /// `bpf_names_stay_when_they_are_pinned` of the program `sapwood`). Nothing but what
    /// [`XdpNames::pin`] makes is removed.
    ///
    /// # Errors
    /// What the system says: that there is more in the folder. The program is off by then.
    pub fn unpin(&self) -> Result<(), Error> {
        let (links, others): (Vec<_>, Vec<_>) = self
            .pins
            .names()?
            .into_iter()
            .filter(|name| {
                let others = [ARENA, COUNTS_PIN, PROGRAM_PIN];
                interface(name).is_some() || others.contains(&name.as_str())
            })
            .partition(|name| interface(name).is_some());
        // The links before the list: no packet meets a program whose list is gone.
        self.pins.detach(links.iter())?;
        self.pins.remove_pins(links.iter().chain(&others))
    }
}

/// The interface's number, of the pin of a link.
fn interface(pin: &str) -> Option<u32> {
    pin.strip_prefix(LINK)?.parse().ok()
}

impl fmt::Debug for XdpNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpNames")
            .field("rules", &self.rules)
            .field("links", &self.links())
            .finish_non_exhaustive()
    }
}

/// The program, loaded for the list in this window, with rooms for long keys in another.
fn program_for(arena: &BpfArena, window: u32, rooms: Option<u32>) -> Result<Programs, Error> {
    let mut loader = Loader::open(arena, OBJECT)?;
    // The list's own window holds no rooms: then there are none.
    let windows = [window, rooms.unwrap_or(window)].map(u32::to_ne_bytes);
    loader.set_constant(
        ".rodata.windows",
        "sw_names_windows",
        windows.as_flattened(),
    )?;
    loader.load()
}
