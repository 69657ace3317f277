//! Commands: the sets of requests that are sent to the drive as one.

use super::ends::Ends;
use super::{Config, Side};
use crate::id::SpaceId;
use crate::list::NIL;
use crate::request::Request;
use alloc::vec;
use alloc::vec::Vec;

/// The position of a request in a command.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The leader of its command, which is the request itself if it was not merged.
    leader: u32,
    /// The next request of its command, or [`NIL`].
    next: u32,
    /// For a leader, the first and last request of its command, ordered by offset.
    first: u32,
    last: u32,
    /// For a leader, the number of segments of its command.
    segments: u32,
    /// The range of the request itself. The table of requests has the range of the whole command
    /// for a leader.
    offset: u64,
    length: u32,
    /// True if the request cannot be merged, or no longer (Linux: `REQ_NOMERGE`).
    closed: bool,
}

impl Member {
    const NONE: Self = Self {
        leader: NIL,
        next: NIL,
        first: NIL,
        last: NIL,
        segments: 0,
        offset: 0,
        length: 0,
        closed: true,
    };
}

/// The commands of all live requests. Without merging it is empty, and none of its methods may be
/// called.
#[derive(Debug)]
pub(crate) struct Commands {
    config: Config,
    members: Vec<Member>,
    ends: Ends,
}

impl Commands {
    pub(crate) fn new(config: &Config, requests: u32) -> Self {
        // Without merging, no memory is used.
        let requests = if config.is_on() { requests } else { 0 };
        Self {
            config: *config,
            members: vec![Member::NONE; requests as usize],
            ends: Ends::new(requests),
        }
    }

    /// Returns true if only the command that was merged last is tried in the elevator (Linux:
    /// `nomerges` = 1).
    pub(crate) fn is_one_hit(&self) -> bool {
        self.config.nomerges == 1
    }

    /// Adds a new request as a command of its own.
    pub(crate) fn begin(&mut self, id: u32, request: &Request) {
        self.members[id as usize] = Member {
            leader: id,
            next: NIL,
            first: id,
            last: id,
            // The position of a request's data in memory is not known, so it is assumed to be
            // contiguous (docs/evidence/deviations.md).
            segments: request.length.div_ceil(self.config.segment_size),
            offset: request.offset,
            length: request.length,
            closed: !request.is_mergeable(),
        };
    }

    /// Returns the leader of a request's command.
    pub(crate) fn leader(&self, id: u32) -> u32 {
        self.members[id as usize].leader
    }

    /// Returns true if the command of this leader has more than one request.
    pub(crate) fn is_shared(&self, leader: u32) -> bool {
        let member = &self.members[leader as usize];
        member.first != member.last
    }

    /// Returns true if the command cannot be merged, or no longer.
    pub(crate) fn is_closed(&self, id: u32) -> bool {
        self.members[id as usize].closed
    }

    /// Excludes a command from further merging.
    pub(crate) fn close(&mut self, id: u32) {
        self.members[id as usize].closed = true;
    }

    /// Returns the first request of a command, by offset.
    pub(crate) fn first(&self, leader: u32) -> u32 {
        self.members[leader as usize].first
    }

    /// Returns the next request of a command.
    pub(crate) fn next(&self, id: u32) -> Option<u32> {
        let next = self.members[id as usize].next;
        (next != NIL).then_some(next)
    }

    /// Returns the offset and length of a request itself.
    pub(crate) fn own(&self, id: u32) -> (u64, u32) {
        let member = &self.members[id as usize];
        (member.offset, member.length)
    }

    /// Returns true if two commands together do not have too many segments.
    pub(crate) fn fits(&self, leader: u32, other: u32) -> bool {
        let segments = |id: u32| self.members[id as usize].segments;
        segments(leader) + segments(other) <= self.config.max_segments.into()
    }

    /// Records that a command in the elevator ends at `end`.
    pub(crate) fn put_end(&mut self, leader: u32, space: SpaceId, end: u64) {
        self.ends.put(leader, space, end);
    }

    /// Removes a command from the search by end, because it was removed from the elevator or is
    /// over.
    pub(crate) fn remove_end(&mut self, id: u32) {
        self.ends.remove(id);
    }

    /// Returns the command in the elevator that was merged last. It may have been dispatched since.
    pub(crate) fn last(&self) -> Option<u32> {
        self.ends.last()
    }

    /// Records that a command in the elevator was merged last.
    pub(crate) fn set_last(&mut self, leader: u32) {
        self.ends.set_last(leader);
    }

    /// Returns the first command that ends at `end` and satisfies `will_do`, starting with the one
    /// that entered the elevator last. Commands that were dispatched since are included.
    #[inline]
    pub(crate) fn ending_at(
        &self,
        space: SpaceId,
        end: u64,
        will_do: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.ends.find(space, end, will_do)
    }

    /// Adds the requests of command `other` to that of `leader`.
    pub(crate) fn join(&mut self, leader: u32, other: u32, side: Side) {
        let Member {
            first,
            last,
            segments,
            ..
        } = self.members[other as usize];
        let command = self.members[leader as usize];
        debug_assert!(leader != other && command.leader == leader);
        debug_assert!(
            match side {
                Side::Back => self.ends_at(command.last, first),
                Side::Front => self.ends_at(last, command.first),
            },
            "the joined requests are not adjacent"
        );
        let mut at = first;
        while at != NIL {
            self.members[at as usize].leader = leader;
            at = self.members[at as usize].next;
        }
        match side {
            Side::Back => {
                self.members[command.last as usize].next = first;
                self.members[leader as usize].last = last;
            }
            Side::Front => {
                self.members[last as usize].next = command.first;
                self.members[leader as usize].first = first;
            }
        }
        self.members[leader as usize].segments += segments;
    }

    /// Returns true if a request ends where the next one begins.
    fn ends_at(&self, one: u32, next: u32) -> bool {
        let (one, next) = (&self.members[one as usize], &self.members[next as usize]);
        one.offset + u64::from(one.length) == next.offset
    }

    /// Removes a request from its command, which is over or separated. It becomes a command of its
    /// own that cannot be merged.
    pub(crate) fn separate_member(&mut self, id: u32) {
        let member = &mut self.members[id as usize];
        *member = Member {
            leader: id,
            next: NIL,
            first: id,
            last: id,
            // Linux has no such case, because a request that is part of a command cannot be given
            // up there.
            closed: true,
            ..*member
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamId;
    use crate::testing::read;
    use std::vec::Vec;

    #[test]
    fn commands_join_in_the_order_of_their_places() {
        let mut commands = Commands::new(&Config::LINUX, 8);
        for id in 0..6 {
            let request = read(StreamId::from_bits(0), 0, 4096).offset(4096 * u64::from(id));
            commands.begin(id, &request);
        }
        commands.join(2, 3, Side::Back);
        commands.join(2, 1, Side::Front);
        commands.join(4, 5, Side::Back);
        commands.join(2, 4, Side::Back);
        commands.join(2, 0, Side::Front);
        let all = core::iter::successors(Some(commands.first(2)), |&id| commands.next(id));
        assert_eq!(all.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!((0..6).all(|id| commands.leader(id) == 2));
        assert_eq!(commands.own(2), (8192, 4096));
    }
}
