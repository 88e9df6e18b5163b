//! Groups of next hops in a window: this process writes them, and programs choose members.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sapwood::route::{Group, GroupMember, MirrorHop};
use sapwood_qsbr::GraceSource;
use zerocopy::{FromBytes, IntoBytes};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::KernelGrace;
use crate::layout::Kind;
use crate::layout::groups as at;
use crate::own_window::OwnWindow;

/// Groups of next hops in a window of an arena. This process writes them, and BPF programs choose a
/// member for each flow (`sapwood/groups.bpf.h`), as [`Group`] does: by weighted rendezvous hashing
/// with integers.
///
/// Each member has a link, and a link is down or up by one bit, which this process or a program
/// sets. So one store takes the members of all groups with this link down. Only the flows of these
/// members move: to the other members, or to the backups when no other is up. When the link is up
/// again, the same flows return (test `only_flows_of_the_link_that_is_down_move`).
///
/// A change of a group is one store, and programs see the old members or the new ones. Each group
/// has room for two versions, so a change may wait for the programs that read the version before
/// the last one.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, GroupMap, GroupMember};
/// let arena = BpfArena::create(16 << 20)?;
/// let groups = GroupMap::builder(&arena, "groups").groups(100).links(16).build()?;
/// let member = |id: u64, link| GroupMember { id, weight: 1, link, ..Default::default() };
/// groups.set(7, &[member(1, 3), member(2, 4)])?;
/// groups.link_down(3);
/// assert_eq!(groups.member(7, 0x1234).map(|member| member.id), Some(2));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupMap {
    window: OwnWindow,
    plan: Plan,
    grace: Arc<KernelGrace>,
    groups: Mutex<Vec<Known>>,
}

/// A group, as this process knows it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The grace period after which programs no longer read the version that is not in use.
    token: u64,
    /// The members that are no backups, and the backups.
    members: Option<[Group<u64>; 2]>,
}

/// The builder of a [`GroupMap`].
pub struct GroupMapBuilder {
    arena: BpfArena,
    name: String,
    plan: Plan,
    grace: Option<Arc<KernelGrace>>,
}

/// The sizes of a window.
#[derive(Clone, Copy, Debug)]
struct Plan {
    groups: usize,
    members: usize,
    links: usize,
}

impl Plan {
    /// The place of the words of links, in bytes from the window's beginning.
    fn links_at(&self) -> usize {
        at::SLOTS + 8 * self.groups
    }

    /// The place of a version of a group.
    fn block(&self, group: usize, version: usize) -> usize {
        let first = self.links_at() + self.links.div_ceil(64) * 8;
        first + (2 * group + version) * self.block_bytes()
    }

    fn block_bytes(&self) -> usize {
        at::MEMBERS + self.members * at::MEMBER_BYTES
    }

    fn bytes(&self) -> usize {
        self.block(self.groups, 0)
    }
}

impl GroupMapBuilder {
    /// The number of groups: 0 to below this. Default: 1,024.
    pub fn groups(mut self, groups: usize) -> Self {
        self.plan.groups = groups;
        self
    }

    /// The most members of a group, 64 at most. Default: 16.
    pub fn members(mut self, most: usize) -> Self {
        self.plan.members = most;
        self
    }

    /// The number of links: 0 to below this. Default: 1,024.
    pub fn links(mut self, links: usize) -> Self {
        self.plan.links = links;
        self
    }

    /// The source of the kernel's grace periods. Default: a [`KernelGrace`] of its own.
    pub fn grace(mut self, grace: &Arc<KernelGrace>) -> Self {
        self.grace = Some(Arc::clone(grace));
        self
    }

    /// Builds a map without groups, whose links are up. It takes all its memory: 128 bytes for each
    /// member that a group may have, 24 bytes for each group, and a bit for each link.
    ///
    /// # Errors
    /// [`Error::Setting`] without groups, members or links, with more than 64 members, or with more
    /// than 2^24 groups or links; [`Error::NoRoom`], [`Error::TooManyWindows`], [`Error::Name`],
    /// [`Error::NoMemory`], [`Error::NoGrace`].
    pub fn build(self) -> Result<GroupMap, Error> {
        let plan = self.plan;
        for (what, size, most) in [
            ("groups", plan.groups, 1 << 24),
            ("members", plan.members, at::MEMBERS_MAX),
            ("links", plan.links, 1 << 24),
        ] {
            if size == 0 || size > most {
                let why = format!("1 to {most}, not {size}");
                return Err(Error::Setting { what, why });
            }
        }
        let grace = match self.grace {
            Some(grace) => grace,
            None => KernelGrace::new()?,
        };
        let bytes = plan.bytes();
        let (mut region, mut window) = self.arena.cut_window(&self.name, bytes)?;
        sapwood_arena::Region::grow(&mut region, bytes).map_err(|_| Error::NoMemory { bytes })?;
        let groups = Mutex::new(vec![Known::default(); plan.groups]);
        let map = |window| GroupMap {
            window,
            plan,
            grace,
            groups,
        };
        for (place, number) in [
            (at::GROUPS, plan.groups),
            (at::LINKS, plan.links),
            (at::LINKS_AT, plan.links_at()),
        ] {
            let word = self.arena.memory().u32(window.at + place);
            word.store(number as u32, Ordering::Relaxed);
        }
        window.open(Kind::Groups);
        Ok(map(window))
    }
}

impl GroupMap {
    /// A builder of a map of this name in the arena.
    pub fn builder(arena: &BpfArena, name: &str) -> GroupMapBuilder {
        GroupMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            plan: Plan {
                groups: 1024,
                members: 16,
                links: 1024,
            },
            grace: None,
        }
    }

    /// The window, whose number programs use.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The number of groups that there can be: their numbers are below this.
    pub fn most_groups(&self) -> usize {
        self.plan.groups
    }

    /// The number of links that there can be.
    pub fn links(&self) -> usize {
        self.plan.links
    }

    /// Whether a group can have these members.
    pub fn has_room(&self, members: &[GroupMember]) -> bool {
        let linked = |member: &GroupMember| (member.link as usize) < self.plan.links;
        members.len() <= self.plan.members && members.iter().all(linked)
    }

    /// Sets the members of a group, in any order. Programs see the old members or the new ones.
    /// Waits for the programs that still read the version before the present one: not at all, when
    /// the last change of this group was some ten milliseconds ago.
    ///
    /// # Errors
    /// [`Error::Setting`] when there is no group of this number, with more members than the map has
    /// room for, with two members of one identity, or with a link that there is not;
    /// [`Error::NoGrace`]. Then nothing was changed.
    pub fn set(&self, group: usize, members: &[GroupMember]) -> Result<(), Error> {
        let refuse = |what, why| Err(Error::Setting { what, why });
        if group >= self.plan.groups {
            return refuse("group", format!("{group} of {}", self.plan.groups));
        }
        if members.len() > self.plan.members {
            let why = format!("{} of {} at most", members.len(), self.plan.members);
            return refuse("members", why);
        }
        if let Some(member) = members.iter().find(|m| m.link as usize >= self.plan.links) {
            return refuse("link", format!("{} of {}", member.link, self.plan.links));
        }
        let mut ids: Vec<u64> = members.iter().map(|member| member.id).collect();
        ids.sort_unstable();
        if let Some(two) = ids.windows(2).find(|two| two[0] == two[1]) {
            return refuse("members", format!("two have the identity {}", two[0]));
        }
        let of = |backup| members.iter().filter(move |member| member.backup == backup);
        // The order and the hashes of the groups decide.
        let orders = [false, true].map(|backup| Group::new(of(backup).map(|m| (m.id, m.weight))));
        let mut groups = self.groups();
        if !self.grace.elapsed(groups[group].token) {
            self.grace.wait()?;
        }
        let now = self.u64(at::SLOTS + 8 * group) as usize;
        let version = usize::from(now == self.plan.block(group, 0));
        let block = self.plan.block(group, version);
        let mut place = block + at::MEMBERS;
        for order in &orders {
            for ((id, _), hash) in order.members().zip(order.member_hashes()) {
                if let Some(member) = members.iter().find(|member| member.id == *id) {
                    self.put(place, member, hash);
                    place += at::MEMBER_BYTES;
                }
            }
        }
        self.set_u32(block + at::PRIMARIES, of(false).count() as u32);
        self.set_u32(block + at::BACKUPS, of(true).count() as u32);
        self.publish(group, block);
        groups[group] = Known {
            token: self.grace.start(),
            members: Some(orders),
        };
        Ok(())
    }

    /// Removes a group. Returns whether it was there.
    ///
    /// # Errors
    /// [`Error::Setting`] when there can be no group of this number.
    pub fn clear(&self, group: usize) -> Result<bool, Error> {
        self.slot(group)?;
        let mut groups = self.groups();
        let there = groups[group].members.take().is_some();
        if there {
            // Both versions may be in use until then.
            self.publish(group, 0);
            groups[group].token = self.grace.start();
        }
        Ok(there)
    }

    /// Takes a link down: one atomic store. Programs that begin afterwards choose none of its
    /// members.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn link_down(&self, link: u32) {
        let (word, bit) = self.link(link);
        let word = self.window.arena().memory().u64(self.window.at + word);
        word.fetch_or(bit, Ordering::SeqCst);
    }

    /// Takes a link up again.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn link_up(&self, link: u32) {
        let (word, bit) = self.link(link);
        let word = self.window.arena().memory().u64(self.window.at + word);
        word.fetch_and(!bit, Ordering::SeqCst);
    }

    /// Whether a link is up.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn is_up(&self, link: u32) -> bool {
        let (word, bit) = self.link(link);
        self.u64(word) & bit == 0
    }

    /// The members of a group, those that are no backups first; `None` when there is no such group.
    pub fn members(&self, group: usize) -> Option<Vec<GroupMember>> {
        // No change writes the version in use.
        let _groups = self.groups();
        let block = self.u64(self.slot(group).ok()?) as usize;
        let known = (0..2).any(|version| block == self.plan.block(group, version));
        known.then(|| self.read(block))
    }

    /// The member for a flow, as programs choose it. `None` when there is no such group, or none of
    /// its members with a weight is up.
    pub fn member(&self, group: usize, flow: u64) -> Option<GroupMember> {
        let members = self.members(group)?;
        let of = |id: &u64| members.iter().find(|member| member.id == *id);
        let up = |id: &u64| of(id).is_some_and(|member| self.is_up(member.link));
        let orders = self.groups()[group].members.clone()?;
        let id = orders.iter().find_map(|order| order.member_where(flow, up));
        id.and_then(of).copied()
    }

    fn groups(&self) -> MutexGuard<'_, Vec<Known>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, group: usize) -> Result<usize, Error> {
        match group < self.plan.groups {
            true => Ok(at::SLOTS + 8 * group),
            false => Err(Error::Setting {
                what: "group",
                why: format!("{group} of {}", self.plan.groups),
            }),
        }
    }

    /// The place and the bit of a link.
    fn link(&self, link: u32) -> (usize, u64) {
        assert!(
            (link as usize) < self.plan.links,
            "link {link} of {}",
            self.plan.links
        );
        let word = self.plan.links_at() + link as usize / 64 * 8;
        (word, 1 << (link % 64))
    }

    fn put(&self, place: usize, member: &GroupMember, hash: u64) {
        self.set_u64(place + at::MEMBER_HASH, hash);
        self.set_u64(place + at::MEMBER_ID, member.id);
        self.set_u32(place + at::MEMBER_WEIGHT, member.weight);
        self.set_u32(place + at::MEMBER_LINK, member.link);
        for (i, word) in member.hop.as_bytes().chunks_exact(4).enumerate() {
            let word = u32::from_ne_bytes(word.try_into().unwrap_or_default());
            self.set_u32(place + at::MEMBER_HOP + 4 * i, word);
        }
    }

    fn read(&self, block: usize) -> Vec<GroupMember> {
        let count = |what: usize| (self.u32(block + what) as usize).min(self.plan.members);
        let (primaries, backups) = (count(at::PRIMARIES), count(at::BACKUPS));
        let all = 0..(primaries + backups).min(self.plan.members);
        let member = |i: usize| {
            let place = block + at::MEMBERS + i * at::MEMBER_BYTES;
            let word = |j| self.u32(place + at::MEMBER_HOP + 4 * j).to_ne_bytes();
            let hop: Vec<u8> = (0..size_of::<MirrorHop>() / 4).flat_map(word).collect();
            GroupMember {
                id: self.u64(place + at::MEMBER_ID),
                weight: self.u32(place + at::MEMBER_WEIGHT),
                link: self.u32(place + at::MEMBER_LINK),
                backup: i >= primaries,
                hop: MirrorHop::read_from_bytes(&hop).unwrap_or_default(),
            }
        };
        all.map(member).collect()
    }

    fn publish(&self, group: usize, block: usize) {
        let memory = self.window.arena().memory();
        let slot = memory.u64(self.window.at + at::SLOTS + 8 * group);
        slot.store(block as u64, Ordering::Release);
    }

    fn u32(&self, place: usize) -> u32 {
        let memory = self.window.arena().memory();
        memory.u32(self.window.at + place).load(Ordering::Acquire)
    }

    fn u64(&self, place: usize) -> u64 {
        let memory = self.window.arena().memory();
        memory.u64(self.window.at + place).load(Ordering::Acquire)
    }

    fn set_u32(&self, place: usize, value: u32) {
        let memory = self.window.arena().memory();
        memory
            .u32(self.window.at + place)
            .store(value, Ordering::Relaxed);
    }

    fn set_u64(&self, place: usize, value: u64) {
        let memory = self.window.arena().memory();
        memory
            .u64(self.window.at + place)
            .store(value, Ordering::Relaxed);
    }
}
