//! The program `xdp-names`, which drops DNS queries for the names of a list.

use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::MapHandle;
use sapwood_bpf::layout::xdp_names::NamesVerdict;
use sapwood_bpf::{BpfArena, Error, Loader, Pinned, Programs, UserStore, Words};

use crate::counts::PacketCounts;
use crate::name_rules::{NameRule, NameRules, new_rooms};
use crate::xdp::{XdpLink, XdpLinks, XdpMode};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp-names.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "sw_xdp_names";

/// The name of the map in which it counts.
const COUNTS: &str = "sw_names_counts";

/// The name of the counts' pin. Other pins are the arena and the links, whose names have the
/// interface's number.
const COUNTS_PIN: &str = "counts";
const PROGRAM_PIN: &str = "program";

/// The number of packets for each verdict of `xdp-names`.
pub type NamesCounts = PacketCounts<NamesVerdict>;

/// Drops DNS queries for names of a list, and for names below them, on network interfaces.
///
/// Queries are UDP packets to port 53. The program looks at the name of the first question, in any
/// letter case. The closest enclosing name that has a rule decides. Queries for names that cannot
/// be looked up are dropped as well ([`NamesVerdict::drops`]). All other packets pass unchanged,
/// and are counted by the reason: TCP, fragments, malformed packets, responses.
///
/// A rule may also say that clients shall ask over TCP ([`NameRule::Truncate`]). The program
/// answers such a query itself: it sends it back to where it came from, as an answer with the bit
/// TC. Into a veth it sends only if the other end runs a program, too, or in generic mode.
///
/// The list may be changed while packets arrive. No packet waits for a change, and no packet misses
/// a rule that is not changed.
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// use sapwood_xdp::{NameRule, XdpNames, interface_index, NamesVerdict};
/// let arena = BpfArena::create(256 << 20)?;
/// let mut filter = XdpNames::load(&arena, "blocked", [("ads.example", NameRule::Block)])?;
/// filter.attach(interface_index("eth0")?, None)?;
/// filter.rules().allow("good.ads.example")?;
/// println!("{} queries dropped", filter.counts()?.get(NamesVerdict::Dropped));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
///
/// The list is a [`NameRules`], or a store that this process changes in transactions
/// ([`of_store`](Self::of_store)).
pub struct XdpNames<L = NameRules> {
    // Fields are dropped in this order, because a program without a list would pass everything.
    links: XdpLinks,
    programs: Programs,
    rules: L,
}

/// What an [`XdpNames`] for a store holds: the store's arena, and the memory in which the program
/// makes keys of long names.
#[derive(Debug)]
pub struct StoreRooms {
    arena: BpfArena,
    rooms: Option<Words>,
}

impl XdpNames<StoreRooms> {
    /// Loads the program for a store. The keys of the store are those that
    /// [`dns_name`](sapwood::key::dns_name) makes, and its values are those of
    /// [`EntryRules::value`](crate::EntryRules::value). A packet meets one version of the store:
    /// all of a commit, or none (test `commits_of_a_store_miss_no_name`).
    ///
    /// The store must outlive the result: without it, the program passes all queries.
    ///
    /// # Errors
    /// Those of [`Loader`].
    pub fn of_store(store: &UserStore<u64>) -> Result<Self, Error> {
        let rooms = new_rooms(store.arena(), &store.window().name);
        let number = rooms.as_ref().map(|rooms| rooms.window().number);
        let programs = program_for(store.arena(), store.window().number, number)?;
        Ok(XdpNames {
            links: XdpLinks::default(),
            programs,
            rules: StoreRooms {
                arena: store.arena().clone(),
                rooms,
            },
        })
    }

    /// Pins the arena, the program, its counts and its links in a new directory of a BPF file
    /// system, so that the program stays on its interfaces. Another process goes on with the store
    /// when this one has ended, by [`take_over`](sapwood_bpf::WindowMapBuilder::take_over) in the
    /// [arena](PinnedNames::arena) of the pins.
    ///
    /// # Errors
    /// The system's error, for example when the directory exists, or is not in a BPF file system.
    /// Then nothing stays pinned.
    pub fn pin(&self, folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        self.pin_at(&self.rules.arena, folder.as_ref())
    }

    /// Drops this handle, and leaves its memory to the program, which must be [pinned](Self::pin).
    /// The store is [left](sapwood_bpf::WindowMap::leave) on its own.
    pub fn leave(self) {
        if let Some(rooms) = self.rules.rooms {
            rooms.leave();
        }
    }
}

impl XdpNames {
    /// Makes a list of this name in the arena, and loads the program for it. When a name comes
    /// twice, its last rule counts.
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

    /// Loads the program for an existing list.
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

    /// The list. A change takes effect from the next packet on.
    pub fn rules(&self) -> &NameRules {
        &self.rules
    }

    /// Pins the arena, the program, its counts and its links in a new directory of a BPF file
    /// system. The program then stays on its interfaces when this process ends, and [`PinnedNames`]
    /// opens it again. The drop closes the list, so that all queries pass. [`leave`](Self::leave)
    /// keeps the list.
    ///
    /// # Errors
    /// The system's error, for example when the directory exists, or is not in a BPF file system.
    /// Then nothing stays pinned.
    pub fn pin(&self, folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        self.pin_at(self.rules.map().arena(), folder.as_ref())
    }

    /// Drops this handle, and leaves the list to the program. This is for a process that is about
    /// to end and has [pinned](Self::pin) the program. Other processes can read the list
    /// afterwards, and another owner can take it over.
    pub fn leave(self) {
        self.rules.leave();
    }
}

impl<L> XdpNames<L> {
    fn pin_at(&self, arena: &BpfArena, folder: &Path) -> Result<PinnedNames, Error> {
        std::fs::create_dir(folder)
            .map_err(|error| Error::io(format!("making {}", folder.display()), error))?;
        let pins = PinnedNames {
            pins: Pinned::at(folder.to_owned()),
        };
        let pinned = self.pin_all(arena, &pins.pins);
        pinned.inspect_err(|_| drop(pins.unpin()))?;
        Ok(pins)
    }

    fn pin_all(&self, arena: &BpfArena, pins: &Pinned) -> Result<(), Error> {
        pins.pin_arena(arena)?;
        pins.pin(COUNTS_PIN, self.programs.map(COUNTS)?.as_fd())?;
        pins.pin(PROGRAM_PIN, self.programs.program(PROGRAM)?.as_fd())?;
        for link in self.links() {
            pins.pin_link(&link.interface().to_string(), link.fd())?;
        }
        Ok(())
    }

    /// The program and its maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Attaches the program to the interface of this number, until [`detach`](Self::detach) or the
    /// drop detaches it; see [`XdpLink::attach`].
    ///
    /// # Errors
    /// As [`XdpLink::attach`].
    pub fn attach(&mut self, interface: u32, mode: Option<XdpMode>) -> Result<&XdpLink, Error> {
        self.links.attach(&self.programs, PROGRAM, interface, mode)
    }

    /// Detaches the program from an interface. Returns whether it was attached.
    pub fn detach(&mut self, interface: u32) -> bool {
        self.links.detach(interface)
    }

    /// The links of the program to interfaces.
    pub fn links(&self) -> &[XdpLink] {
        self.links.all()
    }

    /// The number of packets for each verdict so far, on all interfaces together.
    ///
    /// # Errors
    /// The system's error.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        PacketCounts::read(&self.programs.map(COUNTS)?)
    }
}

/// A pinned [`XdpNames`], whether or not its owner lives.
///
/// ```no_run
/// use sapwood_xdp::PinnedNames;
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
    /// Opens the pins in this directory.
    ///
    /// # Errors
    /// The system's error, for example when there is no such directory, or it has no such pins.
    pub fn open(folder: impl AsRef<Path>) -> Result<PinnedNames, Error> {
        let pins = PinnedNames {
            pins: Pinned::at(folder.as_ref().to_owned()),
        };
        pins.counts()?;
        Ok(pins)
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        self.pins.folder()
    }

    /// Opens the arena that holds the list. A process maps an arena once, so its owner cannot open
    /// it again.
    ///
    /// # Errors
    /// As [`BpfArena::open`].
    pub fn arena(&self) -> Result<BpfArena, Error> {
        self.pins.arena()
    }

    /// Takes over the list of this name when its owner has ended. The program goes on reading the
    /// list. The drop of the result closes the list, unless it is [left](NameRules::leave).
    ///
    /// # Errors
    /// As [`NameRules::take_over`].
    pub fn take_over(&self, list: &str) -> Result<NameRules, Error> {
        NameRules::take_over(&self.arena()?, list)
    }

    /// The number of packets for each verdict so far, on all interfaces together.
    ///
    /// # Errors
    /// The system's error.
    pub fn counts(&self) -> Result<NamesCounts, Error> {
        let path = self.folder().join(COUNTS_PIN);
        let map =
            MapHandle::from_pinned_path(&path).map_err(|error| Error::pinned(&path, error))?;
        PacketCounts::read(&map)
    }

    /// The numbers of the interfaces to which the program was attached when it was pinned, in the
    /// network namespace of its owner.
    ///
    /// # Errors
    /// The system's error.
    pub fn interfaces(&self) -> Result<Vec<u32>, Error> {
        let names = self.pins.names()?;
        let mut all: Vec<u32> = names.iter().filter_map(|name| interface(name)).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Detaches the program from its interfaces, and removes the pins and the directory. When this
    /// returns, no packet meets the program any more, even if others hold its links (test
    /// `bpf_names_stay_when_they_are_pinned` of the program `sapwood`). It removes only pins that
    /// [`XdpNames::pin`] makes.
    ///
    /// # Errors
    /// The system's error, for example when the directory holds anything else. The program is
    /// detached by then.
    pub fn unpin(&self) -> Result<(), Error> {
        let (links, others): (Vec<_>, Vec<_>) = self
            .pins
            .names()?
            .into_iter()
            .filter(|name| {
                let others = [Pinned::ARENA, COUNTS_PIN, PROGRAM_PIN];
                interface(name).is_some() || others.contains(&name.as_str())
            })
            .partition(|name| interface(name).is_some());
        // The links before the list: no packet meets a program whose list is gone.
        self.pins.detach(links.iter())?;
        self.pins.remove_pins(links.iter().chain(&others))
    }
}

/// The interface's number in the name of a link's pin.
fn interface(pin: &str) -> Option<u32> {
    pin.strip_prefix(Pinned::LINK)?.parse().ok()
}

impl<L: fmt::Debug> fmt::Debug for XdpNames<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpNames")
            .field("rules", &self.rules)
            .field("links", &self.links())
            .finish_non_exhaustive()
    }
}

/// Loads the program for the list in this window. Programs make long keys in the window `rooms`.
fn program_for(arena: &BpfArena, window: u32, rooms: Option<u32>) -> Result<Programs, Error> {
    let mut loader = Loader::open(arena, OBJECT)?;
    // The number of the list's own window stands for "no such window".
    let windows = [window, rooms.unwrap_or(window)].map(u32::to_ne_bytes);
    loader.set_constants(".rodata.windows", windows.as_flattened())?;
    loader.load()
}
