//! The tree that promises, weights and limits hang on.

use crate::contract::{Capacity, Contract, Rates};
use crate::id::{GroupId, ROOT, SpaceId};
use crate::knobs::Knobs;
use crate::refusal::Refusal;
use alloc::vec;
use alloc::vec::Vec;

/// Levels of groups below the root.
pub(crate) const DEPTH_MAX: u8 = 8;

/// One change to what is shared and how. A list of them is in force as a whole or refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// A new group.
    AddGroup {
        /// Its slot, free so far.
        id: GroupId,
        /// The group it hangs on, which must have no streams.
        parent: GroupId,
        /// Its contract.
        contract: Contract,
    },
    /// Another contract for a group.
    SetContract {
        /// The group, not the root.
        id: GroupId,
        /// Its contract from now on.
        contract: Contract,
    },
    /// Other knobs for a group; a group that comes has none.
    SetKnobs {
        /// The group, not the root.
        id: GroupId,
        /// Its knobs from now on.
        knobs: Knobs,
    },
    /// A group goes; it must have neither children nor streams.
    RemoveGroup(GroupId),
    /// A space comes (`Some` size in bytes), changes its size or goes. Requests accepted before stay accepted.
    SetSpace {
        /// Its slot.
        id: SpaceId,
        /// Its size in bytes.
        size: Option<u64>,
    },
    /// What the drive can do, or that it is unknown.
    SetCapacity(Option<Capacity>),
}

impl Edit {
    /// A new group.
    pub const fn add_group(id: GroupId, parent: GroupId, contract: Contract) -> Self {
        Self::AddGroup {
            id,
            parent,
            contract,
        }
    }
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) parent: GroupId,
    pub(crate) depth: u8,
    pub(crate) contract: Contract,
    pub(crate) knobs: Knobs,
    pub(crate) children: u32,
    pub(crate) streams: u32,
}

/// The tree.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    nodes: Vec<Option<Group>>,
    /// For each group, the rates promised to its children, as of the last admission.
    pub(crate) sums: Vec<Rates>,
}

impl Groups {
    /// A tree of up to `capacity` groups (at least the root).
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

    /// All groups in the order of their slots, the root among them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.nodes
            .iter()
            .enumerate()
            .filter_map(|(i, n)| n.as_ref().map(|n| (GroupId(i as u32), n)))
    }

    /// The group and its ancestors up to, not including, the root.
    pub(crate) fn path(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(Some(id), |&g| self.get(g).map(|n| n.parent))
            .take_while(|&g| g != ROOT)
    }

    /// Applies one edit to the tree (edits of spaces and capacity are none of its business), checking only its shape.
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
    fn the_shape_of_the_tree_is_kept() {
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
