//! The program `xdp-names`: DNS queries for names of a list are dropped.

use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use libbpf_rs::MapHandle;

use crate::arena::BpfArena;
use crate::counts;
use crate::error::Error;
use crate::layout::xdp_names::NamesVerdict;
use crate::loader::{Loader, Programs};
use crate::name_rules::{NameRule, NameRules};
use crate::support;
use crate::xdp::{XdpLink, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-names.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "sw_xdp_names";

/// The name of the map that it counts in.
const COUNTS: &str = "sw_names_counts";

/// Where they are pinned, in a folder of their own; behind the last, the interface's number.
const ARENA_PIN: &str = "arena";
const COUNTS_PIN: &str = "counts";
const PROGRAM_PIN: &str = "program";
const LINK_PIN: &str = "link-";
const OTHER_PINS: [&str; 3] = [ARENA_PIN, COUNTS_PIN, PROGRAM_PIN];

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
    links: Vec<XdpLink>,
    programs: Programs,
    rules: NameRules,
}

impl XdpNames {
    /// Makes a list of this name in the arena, and loads the program for it. Of a name that comes twice, the last rule holds.
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
        let programs = program_for(map.arena(), map.window().number)?;
        Ok(XdpNames {
            links: Vec::new(),
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

    /// Pins all of it in a new folder of a BPF file system: the arena, the program, its counts and its places. It stays on its
    /// interfaces, whatever becomes of this process; [`PinnedNames`] finds it again. When this is dropped in order, the list goes
    /// and all queries pass, unless it is [left](Self::leave).
    ///
    /// # Errors
    /// What the system says: that the folder is there, or not in a BPF file system. Then nothing stays pinned.
    pub fn pin(&self, folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        let folder = folder.as_ref();
        std::fs::create_dir(folder)
            .map_err(|error| Error::io(format!("making {}", folder.display()), error))?;
        let pins = PinnedNames {
            folder: folder.to_owned(),
        };
        let pin = || -> Result<(), Error> {
            self.rules.map().arena().pin(folder.join(ARENA_PIN))?;
            support::pin(self.programs.map(COUNTS)?.as_fd(), &folder.join(COUNTS_PIN))?;
            support::pin(
                self.programs.program(PROGRAM)?.as_fd(),
                &folder.join(PROGRAM_PIN),
            )?;
            for link in &self.links {
                link.pin(folder.join(format!("{LINK_PIN}{}", link.interface())))?;
            }
            Ok(())
        };
        match pin() {
            Ok(()) => Ok(pins),
            Err(error) => {
                let _ = pins.unpin();
                Err(error)
            }
        }
    }

    /// Ends without taking anything away: for a process that ends, too, and has [pinned](Self::pin) it. The list can be read
    /// afterwards, and taken over by another owner.
    pub fn leave(self) {
        self.rules.leave();
    }

    /// What became of all packets so far, on all interfaces together.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        self.programs.counts(COUNTS).map(NamesCounts)
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
    folder: PathBuf,
}

impl PinnedNames {
    /// What is pinned in this folder.
    ///
    /// # Errors
    /// What the system says: that there is no such folder, or nothing of the kind in it.
    pub fn open(folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        let pins = PinnedNames {
            folder: folder.as_ref().to_owned(),
        };
        pins.counts()?;
        Ok(pins)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The arena with the list. A process maps an arena once: its owner cannot open it again.
    ///
    /// # Errors
    /// As [`BpfArena::open`].
    pub fn arena(&self) -> Result<BpfArena, Error> {
        BpfArena::open(self.folder.join(ARENA_PIN))
    }

    /// Takes over the list of this name, when its owner has ended: the program asks it as before. [Leave](NameRules::leave) it at the
    /// end, or it is closed.
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
        let path = self.folder.join(COUNTS_PIN);
        let map =
            MapHandle::from_pinned_path(&path).map_err(|error| Error::pinned(&path, error))?;
        counts::sums(&map).map(NamesCounts)
    }

    /// The numbers of the interfaces on which it was when it was pinned, in the network namespace of its owner.
    ///
    /// # Errors
    /// What the system says.
    pub fn interfaces(&self) -> Result<Vec<u32>, Error> {
        let mut all: Vec<u32> = self
            .files()?
            .iter()
            .filter_map(|name| name.strip_prefix(LINK_PIN)?.parse().ok())
            .collect();
        all.sort_unstable();
        Ok(all)
    }

    fn files(&self) -> Result<Vec<String>, Error> {
        let doing = |error| Error::io(format!("reading {}", self.folder.display()), error);
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(doing)? {
            let name = entry.map_err(doing)?.file_name();
            all.push(name.to_string_lossy().into_owned());
        }
        Ok(all)
    }

    /// Takes the program off its interfaces, and everything out of the folder, and the folder away. Nothing but what
    /// [`XdpNames::pin`] makes is removed.
    ///
    /// # Errors
    /// What the system says: that there is more in the folder. The program is off by then.
    pub fn unpin(&self) -> Result<(), Error> {
        let doing = |error| Error::io(format!("removing {}", self.folder.display()), error);
        let mut names: Vec<_> = self
            .files()?
            .into_iter()
            .filter(|name| {
                let number = name.strip_prefix(LINK_PIN).map(str::parse::<u32>);
                matches!(number, Some(Ok(_))) || OTHER_PINS.contains(&name.as_str())
            })
            .collect();
        // The links before the list.
        names.sort_by_key(|name| !name.starts_with(LINK_PIN));
        for name in names {
            std::fs::remove_file(self.folder.join(name)).map_err(doing)?;
        }
        std::fs::remove_dir(&self.folder).map_err(doing)
    }
}

impl fmt::Debug for XdpNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpNames")
            .field("rules", &self.rules)
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
