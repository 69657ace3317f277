//! The tree of groups, as the accepted changes made it.

use weir_core::{Contract, Edit, GroupId, ROOT};

/// A group of the tree.
#[derive(Clone, Debug)]
pub struct ModelGroup {
    /// The parent of the group. The root is its own parent.
    pub parent: GroupId,
    /// The contract of the group.
    pub contract: Contract,
}

/// The tree of groups. It follows the changes that the layer accepted, and auditors check whether
/// they should have been accepted.
#[derive(Clone, Debug)]
pub struct AuditedTree {
    groups: Vec<Option<ModelGroup>>,
}

impl AuditedTree {
    pub(super) fn new(capacity: u32) -> Self {
        let root = ModelGroup {
            // The root is its own parent, which ends every path.
            parent: ROOT,
            contract: Contract::DEFAULT,
        };
        let mut groups = vec![None; capacity as usize];
        groups[0] = Some(root);
        Self { groups }
    }

    /// Returns the number of slots.
    pub fn capacity(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Returns the group in a slot.
    pub fn get(&self, id: GroupId) -> Option<&ModelGroup> {
        self.groups.get(id.0 as usize)?.as_ref()
    }

    /// Returns all groups except the root, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &ModelGroup)> {
        let named = |(i, g): (usize, &'_ Option<ModelGroup>)| g.as_ref().map(|_| GroupId(i as u32));
        self.groups
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(named)
            .map(|id| (id, self.get(id).expect("it is there")))
    }

    /// Returns the group and those above it, without the root.
    pub fn path(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::successors(Some(id), |&g| self.get(g).map(|g| g.parent))
            .take_while(|&g| g != ROOT)
    }

    /// Applies an edit of a change that was accepted. Returns false if the edit is impossible.
    pub(super) fn apply(&mut self, edit: &Edit) -> bool {
        match *edit {
            Edit::AddGroup {
                id,
                parent,
                contract,
            } => {
                let fits = self.get(parent).is_some()
                    && matches!(self.groups.get(id.0 as usize), Some(None));
                if fits {
                    self.groups[id.0 as usize] = Some(ModelGroup { parent, contract });
                }
                fits
            }
            Edit::SetContract { id, contract } => match self.groups.get_mut(id.0 as usize) {
                Some(Some(group)) if id != ROOT => {
                    group.contract = contract;
                    true
                }
                _ => false,
            },
            Edit::SetKnobs { id, .. } | Edit::SetDebt { id, .. } => {
                id != ROOT && self.get(id).is_some()
            }
            Edit::RemoveGroup(id) => {
                let unused = id != ROOT
                    && self.get(id).is_some()
                    && self.iter().all(|(_, g)| g.parent != id);
                if unused {
                    self.groups[id.0 as usize] = None;
                }
                unused
            }
            Edit::SetSpace { .. } | Edit::SetCapacity(_) => true,
        }
    }
}
