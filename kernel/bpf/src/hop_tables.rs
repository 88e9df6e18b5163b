//! The tables by which programs forward packets.

use sapwood::route::MirrorHop;

use crate::fib::IpMap;
use crate::groups::GroupMap;

/// Tables by which programs forward packets (`sapwood/lpm.bpf.h`, `sapwood/hop.bpf.h`): the next
/// hops of prefixes, and groups of next hops.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, GroupMap, HopTables, IpMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let groups = GroupMap::builder(&arena, "groups").build()?;
/// let tables = HopTables::new(IpMap::new(&arena, "routes", 64 << 20)?).with_groups(groups);
/// println!("programs name them {} and {}", tables.map().window4().number, tables.map().window6().number);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct HopTables {
    map: IpMap<MirrorHop>,
    groups: Option<GroupMap>,
}

impl HopTables {
    /// Tables without groups.
    pub fn new(map: IpMap<MirrorHop>) -> HopTables {
        HopTables { map, groups: None }
    }

    /// The same with these groups, to which hops with the action [`MirrorHop::GROUP`] refer.
    pub fn with_groups(mut self, groups: GroupMap) -> HopTables {
        self.groups = Some(groups);
        self
    }

    /// The next hops of prefixes.
    pub fn map(&self) -> &IpMap<MirrorHop> {
        &self.map
    }

    /// The groups of next hops, if there are any.
    pub fn groups(&self) -> Option<&GroupMap> {
        self.groups.as_ref()
    }
}
