//! A bug built in on purpose (`mutant`) that takes more than a condition: it does nothing while it is not switched on.

use super::Wf2q;
use crate::mutant;

impl Wf2q {
    /// [`mutant::TIES_LAST_FIRST`]: the last of those with the finish time of `found`, which is the first of them.
    #[inline]
    pub(super) fn last_of_equals(&self, found: u32) -> u32 {
        let mut last = found;
        while mutant::is(mutant::TIES_LAST_FIRST) {
            match self.forest.next(last) {
                Some(next) if self.forest.key(next) == self.forest.key(last) => last = next,
                _ => break,
            }
        }
        last
    }
}
