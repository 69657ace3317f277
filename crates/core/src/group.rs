//! The tree of groups, to which contracts and knobs are attached.

use crate::contract::{Capacity, Contract, MaxDebt, Rates};
use crate::id::{GroupId, ROOT, SpaceId};
use crate::knobs::Knobs;
use crate::refusal::Refusal;
use alloc::vec;
use alloc::vec::Vec;

/// The highest number of levels of groups below the root.
pub(crate) const DEPTH_MAX: u8 = 8;

/// One change of the groups, spaces or capacity of a layer. A list of edits is applied completely
/// or refused completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Adds a group to the tree.
    AddGroup {
        /// The slot of the new group, which must be free.
        id: GroupId,
        /// The parent of the new group, which must not have streams.
        parent: GroupId,
        /// The contract of the new group.
        contract: Contract,
    },
    /// Gives a group another contract.
    SetContract {
        /// The group, which must not be the root.
        id: GroupId,
        /// The new contract of the group.
        contract: Contract,
    },
    /// Gives a group other knobs. A new group has none.
    SetKnobs {
        /// The group, which must not be the root.
        id: GroupId,
        /// The new knobs of the group.
        knobs: Knobs,
    },
    /// Replaces the debts of a group to the limits of its max, for a layer that continues the work
    /// of another one ([`Layer::debt`](crate::Layer::debt)). The debts begin to shrink at the time
    /// of the change.
    ///
    /// A debt to a limit that the contract does not have is ignored. All debts are ignored by a
    /// layer whose limits are in slices ([`control::Config::slices`](crate::control::Config)),
    /// because such a limit counts the current slice and has no debt.
    SetDebt {
        /// The group, which must not be the root.
        id: GroupId,
        /// The new debts of the group.
        debt: MaxDebt,
    },
    /// Removes a group, which must have neither children nor streams.
    RemoveGroup(GroupId),
    /// Adds a space, changes its size or removes it. Requests that were accepted before remain
    /// accepted.
    SetSpace {
        /// The slot of the space.
        id: SpaceId,
        /// The size of the space in bytes. `None` removes the space.
        size: Option<u64>,
    },
    /// Sets the capacity of the drive. `None` means that it is unknown.
    SetCapacity(Option<Capacity>),
}

impl Edit {
    /// Returns the edit that adds a group.
    pub const fn add_group(id: GroupId, parent: GroupId, contract: Contract) -> Self {
        Self::AddGroup {
            id,
            parent,
            contract,
        }
    }
}

/// A node of the tree of groups.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) parent: GroupId,
    pub(crate) depth: u8,
    pub(crate) contract: Contract,
    pub(crate) knobs: Knobs,
    pub(crate) children: u32,
    pub(crate) streams: u32,
}

/// The tree of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    nodes: Vec<Option<Group>>,
    /// For each group, the sum of the rates that are promised to its children, as of the last
    /// admission.
    pub(crate) sums: Vec<Rates>,
}

impl Groups {
    /// Creates a tree of up to `capacity` groups (at least the root).
    pub(crate) fn new(capacity: u32) -> Self {
        let mut nodes = vec![None; capacity.max(1) as usize];
        nodes[0] = Some(Group {
            parent: ROOT,
            depth: 0,
            contract: Contract::DEFAULT,
            knobs: Knobs::NONE,
            children: 0,
            streams: 0,
        });
        Self {
            sums: vec![Rates::default(); nodes.len()],
            nodes,
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.nodes.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.nodes.get_mut(id.0 as usize)?.as_mut()
    }

    /// Returns all groups including the root, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.nodes
            .iter()
            .enumerate()
            .filter_map(|(i, n)| n.as_ref().map(|n| (GroupId(i as u32), n)))
    }

    /// Returns the group and its ancestors, up to but not including the root.
    pub(crate) fn path(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        // The root is its own parent, so the walk must stop at it.
        core::iter::successors(Some(id), |&g| self.get(g).map(|n| n.parent))
            .take_while(|&g| g != ROOT)
    }

    /// Applies one edit to the tree and checks only the tree's shape and the share. Edits of spaces
    /// and of the capacity have no effect here.
    pub(crate) fn apply(&mut self, edit: &Edit, share_max: u16) -> Result<(), Refusal> {
        match *edit {
            Edit::AddGroup {
                id,
                parent,
                contract,
            } => self.add(id, parent, contract, share_max),
            Edit::SetContract { id, contract } => {
                check_share(id, &contract, share_max)?;
                self.below_root(id)?.contract = contract;
                Ok(())
            }
            Edit::SetKnobs { id, knobs } => {
                self.below_root(id)?.knobs = knobs;
                Ok(())
            }
            Edit::SetDebt { id, .. } => self.below_root(id).map(drop),
            Edit::RemoveGroup(id) => {
                let group = self.below_root(id)?;
                if group.children > 0 || group.streams > 0 {
                    return Err(Refusal::GroupInUse(id));
                }
                let parent = group.parent;
                self.nodes[id.0 as usize] = None;
                self.get_mut(parent)
                    .expect("a group's parent exists")
                    .children -= 1;
                Ok(())
            }
            Edit::SetSpace { .. } | Edit::SetCapacity(_) => Ok(()),
        }
    }

    fn add(
        &mut self,
        id: GroupId,
        parent: GroupId,
        contract: Contract,
        share_max: u16,
    ) -> Result<(), Refusal> {
        check_share(id, &contract, share_max)?;
        match self.nodes.get(id.0 as usize) {
            None => return Err(Refusal::SlotOutOfRange(id.0)),
            Some(Some(_)) => return Err(Refusal::GroupExists(id)),
            Some(None) => {}
        }
        let above = self.get_mut(parent).ok_or(Refusal::NoSuchGroup(parent))?;
        // Streams exist only in leaves, see `OpenError::NotALeaf`.
        if above.streams > 0 || above.depth >= DEPTH_MAX {
            return Err(Refusal::BadParent(parent));
        }
        above.children += 1;
        let depth = above.depth + 1;
        self.nodes[id.0 as usize] = Some(Group {
            parent,
            depth,
            contract,
            knobs: Knobs::NONE,
            children: 0,
            streams: 0,
        });
        Ok(())
    }

    fn below_root(&mut self, id: GroupId) -> Result<&mut Group, Refusal> {
        if id == ROOT {
            return Err(Refusal::Root);
        }
        self.get_mut(id).ok_or(Refusal::NoSuchGroup(id))
    }
}

fn check_share(id: GroupId, contract: &Contract, most: u16) -> Result<(), Refusal> {
    if (1..=most).contains(&contract.share) {
        Ok(())
    } else {
        Err(Refusal::ShareOutOfRange(id, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{child, min, share, tree};
    const G1: GroupId = GroupId(1);
    const G2: GroupId = GroupId(2);

    #[test]
    fn edits_that_break_the_tree_are_refused() {
        assert_eq!(
            tree(&[child(1, G2, min(0))]).unwrap_err(),
            Refusal::NoSuchGroup(G2)
        );
        assert_eq!(
            tree(&[child(1, ROOT, min(0)), child(1, ROOT, min(0))]).unwrap_err(),
            Refusal::GroupExists(G1)
        );
        let used = [
            child(1, ROOT, min(0)),
            child(2, G1, min(0)),
            Edit::RemoveGroup(G1),
        ];
        assert_eq!(tree(&used).unwrap_err(), Refusal::GroupInUse(G1));
        assert_eq!(tree(&[Edit::RemoveGroup(ROOT)]).unwrap_err(), Refusal::Root);
        let shareless = share(0);
        assert_eq!(
            tree(&[child(1, ROOT, shareless)]).unwrap_err(),
            Refusal::ShareOutOfRange(G1, 10_000)
        );
        assert_eq!(
            tree(&[child(8, ROOT, min(0))]).unwrap_err(),
            Refusal::SlotOutOfRange(8)
        );
    }
}
