//! Which command that waits a request may join, and what becomes of the queues then.

use super::MqDeadline;
use super::queue::Direction;
use crate::cx::Cx;
use crate::elevator::common::seek::{Place, sectors};
use crate::merge::{Join, Side};

impl MqDeadline {
    /// Linux: `elv_merge`, `dd_request_merge`.
    pub(super) fn find_command(&mut self, cx: &Cx, request: u32) -> Option<Join> {
        let table = &cx.table;
        let allowed = |leader: &u32| table.is_compatible(*leader, request);
        let last = table.last_merged().filter(allowed).and_then(|leader| {
            let side = table.side(leader, request)?;
            Some(Join { leader, side })
        });
        if last.is_some() || table.merges.is_one_hit() {
            return last;
        }
        if let Some(leader) = table.ending_before(request).filter(allowed) {
            let side = Side::Back;
            return Some(Join { leader, side });
        }
        if !self.config.front_merges {
            return None;
        }
        let asked = &table.requests[request].request;
        let end = Place {
            space: asked.space,
            sector: sectors(asked.end()),
        };
        let queue = &self.queues[super::priority_of(request, table)];
        let leader = (self.waiting).at(queue, Direction::of(asked.op), end)?;
        let meets = table.side(leader, request) == Some(Side::Front);
        let side = Side::Front;
        (meets && allowed(&leader)).then_some(Join { leader, side })
    }

    /// A command has grown (Linux: `dd_request_merged`).
    pub(super) fn command_grown(&mut self, cx: &Cx, leader: u32, side: Side) {
        if side == Side::Front {
            let queue = &self.queues[self.waiting.priority(leader)];
            (self.waiting).moved(queue, leader, &cx.table.requests[leader]);
        }
    }

    /// A command is part of another of its queue (Linux: `dd_merged_requests`).
    pub(super) fn command_absorbed(&mut self, by: u32, request: u32) {
        let queue = &mut self.queues[self.waiting.priority(request)];
        self.waiting.inherit_age(queue, by, request);
        self.waiting.remove(queue, request);
    }
}
