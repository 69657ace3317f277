//! The groups of a layer, as far as an explanation needs them.

use weir_core::{Contract, Edit, GroupId, ROOT};

/// The contract of a group, and its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupTerms {
    pub(crate) parent: GroupId,
    pub(crate) contract: Contract,
    /// The time at which the group was created if its number had belonged to another group before,
    /// and otherwise zero.
    pub(crate) since: u64,
}

/// The existing groups, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupTree {
    all: Vec<Option<GroupTerms>>,
    /// True for each number that has ever belonged to a group.
    used: Vec<bool>,
    /// The number of children of each group.
    children: Vec<u32>,
}

impl GroupTree {
    /// Applies edits that the layer has applied at `now`.
    pub(crate) fn change(&mut self, now: u64, edits: &[Edit]) {
        for edit in edits {
            match *edit {
                Edit::AddGroup {
                    id,
                    parent,
                    contract,
                } => {
                    let at = id.0 as usize;
                    if self.all.len() <= at {
                        self.all.resize(at + 1, None);
                        self.used.resize(at + 1, false);
                    }
                    self.count_child(parent, 1);
                    let is_used = std::mem::replace(&mut self.used[at], true);
                    self.all[at] = Some(GroupTerms {
                        parent,
                        contract,
                        since: if is_used { now } else { 0 },
                    });
                }
                Edit::SetContract { id, contract } => {
                    if let Some(Some(terms)) = self.all.get_mut(id.0 as usize) {
                        terms.contract = contract;
                    }
                }
                Edit::RemoveGroup(id) => {
                    let terms = self.all.get_mut(id.0 as usize).and_then(Option::take);
                    if let Some(terms) = terms {
                        self.count_child(terms.parent, -1);
                    }
                }
                Edit::SetSpace { .. }
                | Edit::SetCapacity(_)
                | Edit::SetKnobs { .. }
                | Edit::SetDebt { .. } => {}
            }
        }
    }

    fn count_child(&mut self, parent: GroupId, by: i32) {
        let at = parent.0 as usize;
        if self.children.len() <= at {
            self.children.resize(at + 1, 0);
        }
        self.children[at] = self.children[at].saturating_add_signed(by);
    }

    pub(crate) fn get(&self, group: GroupId) -> Option<GroupTerms> {
        self.all.get(group.0 as usize).copied().flatten()
    }

    /// Iterates over the group and the groups above it, without the root.
    pub(crate) fn path(&self, group: GroupId) -> impl Iterator<Item = (GroupId, GroupTerms)> + '_ {
        let mut next = group;
        std::iter::from_fn(move || {
            let at = next;
            let terms = (at != ROOT).then(|| self.get(at)).flatten()?;
            next = terms.parent;
            Some((at, terms))
        })
    }

    /// Iterates over all groups with their contracts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, GroupTerms)> + '_ {
        let all = (0..).map(GroupId).zip(&self.all);
        all.filter_map(|(id, terms)| Some((id, (*terms)?)))
    }

    /// Returns true if the group has children.
    pub(crate) fn is_parent(&self, group: GroupId) -> bool {
        self.children.get(group.0 as usize).is_some_and(|n| *n > 0)
    }

    /// Returns true if the group is `above` or one of its descendants.
    pub(crate) fn is_within(&self, group: GroupId, above: GroupId) -> bool {
        self.path(group).any(|(id, _)| id == above)
    }
}
