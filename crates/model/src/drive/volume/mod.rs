//! A volume on several drives, striped or linear, like those of LVM.
//!
//! A read or write is split at the boundaries between drives, as in device-mapper, and ends when
//! its last part ends. A command without data goes in one part to each drive that has a part of its
//! range, and a flush goes to all drives. Each drive has its own tags. If a drive is full, its
//! parts wait in the volume in order of arrival until one of its commands completes.

mod config;
mod layout;

pub use config::VolumeConfig;
pub use layout::Layout;

use crate::drive::ends::{ScheduledEnd, ScheduledEnds};
use crate::drive::{DriveModel, QueueFull, TimedCompletion};
use layout::{LayoutMap, MemberPart};
use std::collections::VecDeque;
use weir_core::random::SplitMix;
use weir_core::rule::RuleViolation;
use weir_core::{Dispatch, DriveShape, Instant, Op, QueueId, Tag};

/// A volume on several drives (see the description of the module).
#[derive(Debug)]
pub struct Volume {
    shape: DriveShape,
    map: LayoutMap,
    members: Vec<VolumeMember>,
    /// The commands with parts in flight, by slot, followed by the free slots.
    commands: Vec<VolumeCommand>,
    free: Vec<u32>,
    /// The commands all parts of which have ended.
    ended: ScheduledEnds,
    in_flight: u32,
    now: Instant,
    sequence: u64,
}

/// A command in flight on the members.
#[derive(Clone, Copy, Debug)]
struct VolumeCommand {
    tag: Tag,
    queue: u16,
    sequence: u64,
    /// The number of parts that have not ended.
    parts: u32,
    /// The time at which the first part began, and the time at which the last one so far ended.
    began: Instant,
    at: Instant,
}

/// A drive of the volume with the parts of commands that wait for it.
#[derive(Debug)]
struct VolumeMember {
    drive: Box<dyn DriveModel>,
    /// The number of tags of each of the drive's queues. The first queue has the lowest tag
    /// numbers.
    tags: u32,
    free: Vec<u32>,
    /// The slot of the command to which the part belongs, by tag.
    slots: Vec<u32>,
    /// Parts that wait for a tag, with the slots of their commands.
    held: VecDeque<(u32, Dispatch)>,
}

impl VolumeMember {
    fn new(config: &crate::drive::DriveConfig, seed: u64) -> Result<Self, RuleViolation> {
        let drive = config.build_seeded(seed)?;
        let shape = drive.shape();
        let all = u32::from(shape.queues) * u32::from(shape.tags);
        Ok(Self {
            drive,
            tags: shape.tags.into(),
            free: (0..all).rev().collect(),
            slots: std::vec![0; all as usize],
            held: VecDeque::new(),
        })
    }

    /// Submits waiting parts to the drive while it has free tags.
    fn submit_held_parts(&mut self, now: Instant) {
        while let (Some((slot, part)), Some(tag)) = (self.held.front(), self.free.last()) {
            // A tag is used in the queue to which it belongs, so that no queue has more commands
            // than tags.
            let part = Dispatch {
                queue: QueueId((tag / self.tags) as u16),
                tag: Tag(*tag),
                ..*part
            };
            let taken = self.drive.submit(now, &part);
            // The volume tracks the tags of each member itself, so a member is never busy.
            debug_assert!(taken.is_ok(), "each tag has its place in a queue");
            self.slots[*tag as usize] = *slot;
            self.free.pop();
            self.held.pop_front();
        }
    }
}

impl Volume {
    /// Creates a volume from a validated configuration.
    fn new(config: &VolumeConfig, seed: u64) -> Result<Self, RuleViolation> {
        let mut seeds = SplitMix::new(seed);
        let member = |member| VolumeMember::new(member, seeds.next_u64());
        let members: Result<Vec<_>, _> = config.members.iter().map(member).collect();
        let sizes = config
            .members
            .iter()
            .filter_map(crate::drive::DriveConfig::size);
        let count = config.members.len();
        let shape = config.shape();
        let room = usize::from(shape.tags);
        let blank = VolumeCommand {
            tag: Tag(0),
            queue: 0,
            sequence: 0,
            parts: 0,
            began: Instant::MAX,
            at: Instant::ZERO,
        };
        Ok(Self {
            shape,
            // The last size is not needed: no member begins after the last one.
            map: LayoutMap::new(config.layout, count, sizes.take(count - 1)),
            members: members?,
            commands: std::vec![blank; room],
            free: (0..room as u32).rev().collect(),
            ended: ScheduledEnds::new(room),
            in_flight: 0,
            now: Instant::ZERO,
            sequence: 0,
        })
    }

    /// Processes everything that happens up to `now`, each member at its own times, so that a
    /// completion frees a tag at once.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        // Members are processed in order of time, so that waiting parts start when a tag becomes
        // free and not only at `now`.
        while let Some((at, member)) = self.next_event().filter(|e| e.0 <= self.now) {
            while let Some(ended) = self.members[member].drive.pop(at) {
                self.on_part_end(member, ended);
            }
            self.members[member].submit_held_parts(at);
        }
    }

    /// The time of the first completion among the members, and the index of that member.
    fn next_event(&self) -> Option<(Instant, usize)> {
        let members = self.members.iter().zip(0..);
        let events = members.filter_map(|(m, i)| Some((m.drive.next_completion()?, i)));
        events.min()
    }

    fn on_part_end(&mut self, member: usize, ended: TimedCompletion) {
        let member = &mut self.members[member];
        let tag = ended.completion.tag.0;
        member.free.push(tag);
        let slot = member.slots[tag as usize];
        let command = &mut self.commands[slot as usize];
        debug_assert!(command.parts > 0, "only a command in flight has parts");
        command.parts -= 1;
        // The command is served from its first part's beginning to its last part's end.
        command.began = command.began.min(ended.began);
        command.at = command.at.max(ended.at);
        if command.parts == 0 {
            self.ended.push(ScheduledEnd {
                at: command.at,
                sequence: command.sequence,
                began: command.began,
                tag: command.tag,
                queue: command.queue,
            });
            self.free.push(slot);
        }
    }

    /// Passes a part of a command to its member.
    fn queue_part(&mut self, slot: u32, command: &Dispatch, part: MemberPart) {
        self.commands[slot as usize].parts += 1;
        let dispatch = Dispatch {
            offset: part.offset,
            length: part.length,
            ..*command
        };
        self.members[part.member].held.push_back((slot, dispatch));
    }

    /// Splits a read or write at the boundaries between members.
    fn split_transfer(&mut self, slot: u32, command: &Dispatch) {
        let mut done = 0;
        loop {
            let offset = command.offset + u64::from(done);
            let part = self.map.part(offset, command.length - done);
            self.queue_part(slot, command, part);
            debug_assert!(part.length > 0 || command.length == 0);
            done += part.length;
            if done >= command.length {
                return;
            }
        }
    }

    /// Passes a command to each member that it concerns, in one part each.
    fn queue_for_each_member(&mut self, slot: u32, command: &Dispatch) {
        for member in 0..self.members.len() {
            let part = match command.op {
                // Earlier writes can be on any member.
                Op::Flush => Some(MemberPart {
                    member,
                    offset: 0,
                    length: command.length,
                }),
                _ => self.map.whole(command.offset, command.length, member),
            };
            if let Some(part) = part {
                self.queue_part(slot, command, part);
            }
        }
        if self.commands[slot as usize].parts == 0 {
            // A command without any bytes must be completed by one drive.
            self.split_transfer(slot, command);
        }
    }
}

impl DriveModel for Volume {
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull> {
        self.advance(now);
        if self.in_flight == u32::from(self.shape.tags) {
            return Err(QueueFull);
        }
        // There are as many slots as tags, so this cannot fail.
        let slot = self.free.pop().ok_or(QueueFull)?;
        self.in_flight += 1;
        self.sequence += 1;
        self.commands[slot as usize] = VolumeCommand {
            tag: command.tag,
            queue: command.queue.0,
            sequence: self.sequence,
            parts: 0,
            began: Instant::MAX,
            at: Instant::ZERO,
        };
        match command.op {
            Op::Read | Op::Write => self.split_transfer(slot, command),
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => {
                self.queue_for_each_member(slot, command);
            }
        }
        for member in &mut self.members {
            // Parts are queued first and submitted together, because one command can have several
            // parts for one member.
            member.submit_held_parts(self.now);
        }
        Ok(())
    }

    fn next_completion(&self) -> Option<Instant> {
        let event = self.next_event().map(|e| e.0);
        self.ended.first().into_iter().chain(event).min()
    }

    fn pop(&mut self, now: Instant) -> Option<TimedCompletion> {
        self.advance(now);
        let end = self.ended.pop(self.now)?;
        self.in_flight -= 1;
        Some(end.timed_completion())
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn shape(&self) -> DriveShape {
        self.shape
    }
}

#[cfg(test)]
mod tests;
