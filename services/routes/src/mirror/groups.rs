//! The groups of next hops that a mirror writes: which routes use them, and their numbers.

use std::collections::HashMap;

use ipnet::IpNet;
use sapwood::route::{GroupMember, MirrorHop};

use super::table::{GroupKey, Model, SEVERAL};
use super::tables::{GroupsError, MirrorGroups};

/// The groups in use.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: HashMap<GroupKey, InUse>,
    /// The group of each prefix that has one in the table.
    of: HashMap<IpNet, GroupKey>,
    /// Numbers that were in use and are free; those from `next` on are free, too.
    free: Vec<u32>,
    next: u32,
}

#[derive(Debug)]
struct InUse {
    number: u32,
    /// The prefixes that have it in the table.
    nets: usize,
    members: Vec<GroupMember>,
    /// Whether it is no longer possible, or has no room, so that no prefix may use it.
    lost: bool,
}

impl Groups {
    /// The hop that the table has for a group, which is written if it is new. The kernel's when
    /// the map has no room for the group.
    pub(super) fn hop(
        &mut self,
        map: &dyn MirrorGroups,
        model: &Model,
        key: &GroupKey,
    ) -> Result<MirrorHop, GroupsError> {
        let number = match self.groups.get(key) {
            Some(known) if known.lost => return Ok(SEVERAL),
            Some(known) => known.number,
            None => {
                let Some(members) = model.members(key).filter(|all| map.has_room(all)) else {
                    return Ok(SEVERAL);
                };
                let number = match self.free.pop() {
                    Some(number) => number,
                    None if (self.next as usize) < map.most() => {
                        self.next += 1;
                        self.next - 1
                    }
                    None => return Ok(SEVERAL),
                };
                if let Err(error) = map.set(number as usize, &members) {
                    self.free.push(number);
                    return Err(error);
                }
                let new = InUse {
                    number,
                    nets: 0,
                    members,
                    lost: false,
                };
                self.groups.insert(key.clone(), new);
                number
            }
        };
        Ok(MirrorHop {
            action: MirrorHop::GROUP,
            ifindex: number,
            ..MirrorHop::default()
        })
    }

    /// Notes the group that a prefix has in the table now.
    pub(super) fn note(&mut self, net: IpNet, key: Option<GroupKey>) {
        let new = key.as_ref().and_then(|key| self.groups.get_mut(key));
        if let Some(group) = new {
            group.nets += 1;
        }
        let old = match key {
            Some(key) => self.of.insert(net, key),
            None => self.of.remove(&net),
        };
        if let Some(group) = old.and_then(|old| self.groups.get_mut(&old)) {
            group.nets -= 1;
        }
    }

    /// Writes the members that have changed, and clears the groups that no prefix has. The prefixes
    /// of a group that is no longer possible must be written again: they are returned.
    pub(super) fn update(
        &mut self,
        map: &dyn MirrorGroups,
        model: &Model,
    ) -> Result<Vec<IpNet>, GroupsError> {
        let (mut lost, mut failed) = (Vec::new(), None);
        for (key, group) in &mut self.groups {
            let members = model.members(key).filter(|all| map.has_room(all));
            group.lost = members.is_none();
            match members {
                Some(members) if members == group.members => (),
                Some(members) => match map.set(group.number as usize, &members) {
                    Ok(()) => group.members = members,
                    Err(error) => failed = Some(error),
                },
                None => lost.push(key.clone()),
            }
        }
        let nets = self.of.iter().filter(|(_, key)| lost.contains(key));
        let nets = nets.map(|(net, _)| *net).collect();
        match failed {
            Some(error) => Err(error),
            None => Ok(nets),
        }
    }

    /// Clears the groups that no prefix has in the table.
    pub(super) fn sweep(&mut self, map: &dyn MirrorGroups) -> Result<(), GroupsError> {
        let mut free = Vec::new();
        self.groups.retain(|_, group| {
            if group.nets == 0 {
                free.push(group.number);
            }
            group.nets > 0
        });
        // A program may have read the number before; it then finds no group.
        let cleared = free
            .iter()
            .try_for_each(|number| map.clear(*number as usize));
        self.free.extend(free);
        cleared
    }

    /// The members whose neighbours are not known.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = &GroupMember> {
        let members = self.groups.values().flat_map(|group| &group.members);
        members.filter(|member| member.hop.action == MirrorHop::RESOLVE)
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }
}
