//! Names that follow into a filter of DNS queries in the kernel.

use sapwood_bpf::{BpfArena, UserStore};
use sapwood_sync::NumberTarget;
use sapwood_xdp::{PinnedNames, StoreRooms, XdpLink, XdpMode, XdpNames, interface_index};

use crate::cli::sync::XdpArgs;
use crate::errors::{Error, complain};

/// The name of the store's window.
const WINDOW: &str = "followed";
/// Bytes of the arena that the store leaves to others.
const ROOM: usize = 1 << 20;

/// The filter of a follower. Its store lies in the follower's target.
pub struct Filter {
    /// The program, unless another process has attached it and it is pinned.
    own: Option<XdpNames<StoreRooms>>,
    pins: Option<PinnedNames>,
}

impl Filter {
    /// Attaches a filter with an empty store; or goes on with a pinned one, with what it has.
    pub fn start(args: &XdpArgs) -> Result<(Self, UserStore<u64>), Error> {
        sapwood_bpf::check()?;
        if let Some(folder) = args.pin.as_ref().filter(|folder| folder.exists()) {
            let pins = PinnedNames::open(folder)?;
            let store = UserStore::builder(&pins.arena()?, WINDOW).bytes(bytes(args)? / 2);
            let filter = Filter {
                own: None,
                pins: Some(pins),
            };
            return Ok((filter, store.take_over()?));
        }
        let (interfaces, bytes) = (interfaces(args)?, bytes(args)?);
        let arena = BpfArena::create(bytes + ROOM)?;
        // A new owner needs room for another store beside this one.
        let store = UserStore::builder(&arena, WINDOW)
            .bytes(bytes / 2)
            .build()?;
        let mut program = XdpNames::of_store(&store)?;
        let mode = args.generic.then_some(XdpMode::Generic);
        for (name, index) in interfaces {
            say_mode(name, program.attach(index, mode)?);
        }
        let pins = args
            .pin
            .as_ref()
            .map(|folder| program.pin(folder))
            .transpose()?;
        let filter = Filter {
            own: Some(program),
            pins,
        };
        Ok((filter, store))
    }

    /// Ends the filter, or leaves a pinned one to the kernel.
    pub fn end(self, target: NumberTarget<UserStore<u64>>, remove: bool) -> Result<(), Error> {
        match &self.pins {
            Some(pins) if !remove => {
                let counts = pins.counts()?;
                if let Some(program) = self.own {
                    program.leave();
                }
                target.into_store().leave();
                complain(&format!(
                    "the filter stays; {} packets so far",
                    counts.total()
                ));
            }
            pins => {
                // The program before its store, so that no packet misses a name meanwhile.
                if let Some(pins) = pins {
                    pins.unpin()?;
                }
                drop(self.own);
                drop(target);
            }
        }
        Ok(())
    }
}

/// The names and the numbers of the interfaces.
pub(super) fn interfaces(args: &XdpArgs) -> Result<Vec<(&str, u32)>, Error> {
    let interfaces = args.interfaces.iter();
    interfaces
        .map(|name| Ok((name.as_str(), interface_index(name)?)))
        .collect()
}

/// Says in which mode a program is on an interface.
pub(super) fn say_mode(name: &str, link: &XdpLink) {
    if let Some(why) = link.native_refused() {
        complain(&format!(
            "{name}: the driver takes no program ({why}); generic mode is slower"
        ));
    }
    complain(&format!("{name}: {} mode", link.mode()));
}

/// The bytes of two stores, or of the tables of two families.
pub(super) fn bytes(args: &XdpArgs) -> Result<usize, Error> {
    let bytes = usize::try_from(args.bytes).ok();
    let both = bytes.and_then(|bytes| bytes.checked_mul(2)?.checked_next_multiple_of(8192));
    both.ok_or_else(|| Error::Usage(format!("--bytes {} is too large", args.bytes)))
}
