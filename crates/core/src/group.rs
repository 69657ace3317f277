//! The tree that promises, weights and limits hang on.

use crate::Capacity;
use crate::contract::{Contract, Promised, Refusal, admit};
use crate::space::SpaceId;
use alloc::vec;
use alloc::vec::Vec;

/// Names a group: a slot number the driver picks, below [`Limits::groups`](crate::Limits::groups).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct GroupId(pub u32);

/// The root: always there, without a contract.
pub const ROOT: GroupId = GroupId(0);

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

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) parent: GroupId,
    pub(crate) depth: u8,
    pub(crate) contract: Contract,
    pub(crate) children: u32,
    pub(crate) streams: u32,
}

/// The tree.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    nodes: Vec<Option<Group>>,
}

impl Groups {
    /// A tree of up to `capacity` groups (at least the root).
    pub(crate) fn new(capacity: u32) -> Self {
        let mut nodes = vec![None; capacity.max(1) as usize];
        nodes[0] = Some(Group {
            parent: ROOT,
            depth: 0,
            contract: Contract::DEFAULT,
            children: 0,
            streams: 0,
        });
        Self { nodes }
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

    /// A table with a place for every slot.
    pub(crate) fn table<T: Clone>(&self, value: T) -> Vec<T> {
        vec![value; self.nodes.len()]
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

    /// The sums of all promises, or why they cannot be kept.
    pub(crate) fn admit(&self, capacity: Option<Capacity>) -> Result<Promised, Refusal> {
        admit(self, capacity)
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
    use crate::{Class, Max};

    const G1: GroupId = GroupId(1);
    const G2: GroupId = GroupId(2);
    const DISK: Option<Capacity> = Some(Capacity {
        read: 100,
        write: 200,
        iops: 50,
        ..Capacity::NONE
    });

    fn min(min: u64) -> Contract {
        Contract {
            min,
            ..Contract::DEFAULT
        }
    }

    fn tree(edits: &[Edit]) -> Result<Groups, Refusal> {
        let mut groups = Groups::new(8);
        edits.iter().try_for_each(|e| groups.apply(e, 10_000))?;
        Ok(groups)
    }

    fn add(id: GroupId, parent: GroupId, contract: Contract) -> Edit {
        Edit::AddGroup {
            id,
            parent,
            contract,
        }
    }

    #[test]
    fn promises_up_to_nine_tenths_of_the_slower_direction() {
        let groups = tree(&[add(G1, ROOT, min(40)), add(G2, ROOT, min(50))]).unwrap();
        assert_eq!(
            groups.admit(DISK),
            Ok(Promised {
                bytes: 90,
                iops: 0,
                millionths: 900_000
            })
        );
        let groups = tree(&[add(G1, ROOT, min(41)), add(G2, ROOT, min(50))]).unwrap();
        assert!(matches!(
            groups.admit(DISK),
            Err(Refusal::OverCapacity { .. })
        ));
        assert_eq!(groups.admit(None), Err(Refusal::CapacityUnknown(G1)));
    }

    #[test]
    fn realtime_counts_with_its_max_and_requests_beside_bytes() {
        let realtime = Contract {
            class: Class::Realtime,
            max: Max {
                iops: 20,
                ..Max::NONE
            },
            ..Contract::DEFAULT
        };
        let groups = tree(&[add(G1, ROOT, realtime), add(G2, ROOT, min(50))]).unwrap();
        assert_eq!(
            groups.admit(DISK),
            Ok(Promised {
                bytes: 50,
                iops: 20,
                millionths: 900_000
            })
        );
        let endless = Contract {
            class: Class::Realtime,
            ..Contract::DEFAULT
        };
        assert_eq!(
            tree(&[add(G1, ROOT, endless)]).unwrap().admit(DISK),
            Err(Refusal::RealtimeWithoutMax(G1))
        );
    }

    #[test]
    fn promised_requests_are_held_against_the_least_that_is_stated_of_any_kind() {
        let requests = |min_iops| Contract {
            min_iops,
            ..Contract::DEFAULT
        };
        let part = |iops, read_iops, write_iops| {
            let capacity = Capacity {
                iops,
                read_iops,
                write_iops,
                ..DISK.unwrap()
            };
            let groups = tree(&[add(G1, ROOT, requests(9)), add(G2, ROOT, min(10))]).unwrap();
            groups.admit(Some(capacity)).map(|p| p.millionths)
        };
        assert_eq!(part(50, 0, 0), Ok(280_000));
        assert_eq!(part(0, 20, 0), Ok(550_000));
        assert_eq!(part(50, 20, 30), Ok(550_000));
        assert_eq!(part(50, 30, 12), Ok(850_000));
        assert_eq!(part(0, 0, 0), Ok(100_000));
        let refusal = part(50, 11, 20).unwrap_err();
        let text = alloc::format!("{refusal}");
        assert_eq!(
            text,
            "promises add up to 91.9 % of the drive (10 bytes/s and 9 requests/s of read 100 bytes/s, write 200 bytes/s, \
             50 requests/s, 11 read requests/s, 20 write requests/s); at most 90 % can be promised"
        );
    }

    #[test]
    fn a_tenants_min_covers_its_members_or_is_refused() {
        let inside = tree(&[add(G1, ROOT, min(50)), add(G2, G1, min(30))]).unwrap();
        assert_eq!(inside.admit(DISK).unwrap().bytes, 50);
        let above = tree(&[add(G1, ROOT, min(20)), add(G2, G1, min(30))]).unwrap();
        assert_eq!(
            above.admit(DISK),
            Err(Refusal::ChildrenAboveParent {
                group: G1,
                bytes: 30,
                iops: 0
            })
        );
        let implied = tree(&[add(G1, ROOT, Contract::DEFAULT), add(G2, G1, min(30))]).unwrap();
        assert_eq!(implied.admit(DISK).unwrap().bytes, 30);
    }

    #[test]
    fn the_shape_of_the_tree_is_kept() {
        assert_eq!(
            tree(&[add(G1, G2, min(0))]).unwrap_err(),
            Refusal::NoSuchGroup(G2)
        );
        assert_eq!(
            tree(&[add(G1, ROOT, min(0)), add(G1, ROOT, min(0))]).unwrap_err(),
            Refusal::GroupExists(G1)
        );
        let used = [
            add(G1, ROOT, min(0)),
            add(G2, G1, min(0)),
            Edit::RemoveGroup(G1),
        ];
        assert_eq!(tree(&used).unwrap_err(), Refusal::GroupInUse(G1));
        assert_eq!(tree(&[Edit::RemoveGroup(ROOT)]).unwrap_err(), Refusal::Root);
        let shareless = Contract {
            share: 0,
            ..Contract::DEFAULT
        };
        assert_eq!(
            tree(&[add(G1, ROOT, shareless)]).unwrap_err(),
            Refusal::ShareOutOfRange(G1, 10_000)
        );
        assert_eq!(
            tree(&[add(GroupId(8), ROOT, min(0))]).unwrap_err(),
            Refusal::SlotOutOfRange(8)
        );
    }
}
