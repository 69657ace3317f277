//! Simple drives for tests.

use super::SECOND;
use crate::setters::setters;
use crate::{Capacity, Completion, Dispatch, DriveShape, Op, Tag};
use alloc::collections::BTreeMap;

/// A drive that a [`super::Host`] can use.
pub trait Drive {
    /// Accepts a command at `now` and returns the time at which it ends, both in nanoseconds after
    /// the start.
    fn take(&mut self, now: u64, command: &Dispatch) -> u64;

    /// Ends a command at the time that was returned for it.
    ///
    /// # Errors
    /// Returns a later time if the command ends only then.
    fn end(&mut self, now: u64, tag: Tag) -> Result<Completion, u64> {
        let _ = now;
        Ok(Completion::ok(tag))
    }
}

/// A drive that serves any number of commands in parallel, each in this many nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Parallel(pub u64);

impl Drive for Parallel {
    fn take(&mut self, now: u64, _: &Dispatch) -> u64 {
        now + self.0
    }
}

/// A drive that serves commands in parallel and then transfers their bytes over one link, one
/// command after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    /// The capacity that the layer is configured with.
    pub stated: Option<Capacity>,
    /// The number of commands that the layer can send at a time.
    pub tags: u16,
    /// Nanoseconds of a command before its bytes are transferred.
    pub service: u64,
    /// Nanoseconds by which the service of a command varies.
    pub jitter: u64,
    /// The rate of the link in bytes per second.
    pub link: u64,
    /// Additional nanoseconds on the link for a command that does not begin where the previous one
    /// ended.
    pub seek: u64,
    /// Nanoseconds that a write takes after its transfer.
    pub program: u64,
    /// The interval, in nanoseconds after the start, in which nothing is transferred.
    pub frozen: [u64; 2],
}

/// A pipe with a service time of 30 us and a link of 250 MB/s.
pub const PIPE: Pipe = Pipe {
    stated: None,
    tags: 32,
    service: 30_000,
    jitter: 0,
    link: 250_000_000,
    seek: 0,
    program: 0,
    frozen: [0; 2],
};

/// A [`Pipe`] with the commands in it.
#[derive(Debug)]
pub struct PipeDrive {
    /// The parameters of the drive.
    pub pipe: Pipe,
    free_at: u64,
    head: u64,
    random: u64,
    /// With jitter, the commands that are not on the link yet: nanoseconds on the link and after
    /// it, by tag.
    coming: BTreeMap<u32, [u64; 2]>,
}

impl From<Pipe> for PipeDrive {
    fn from(pipe: Pipe) -> Self {
        Self {
            pipe,
            free_at: 0,
            head: 0,
            random: 1,
            coming: BTreeMap::new(),
        }
    }
}

setters! { Pipe:
    stated: Option<Capacity>, tags: u16, service: u64, jitter: u64, link: u64, seek: u64,
    program: u64, frozen: [u64; 2],
}

impl Pipe {
    /// Returns the shape that the layer is configured with.
    pub fn shape(&self) -> DriveShape {
        DriveShape::default().tags(self.tags).capacity(self.stated)
    }
}

impl PipeDrive {
    /// Transfers a command over the link from `arrives` on, and returns the time of its end.
    fn cross(&mut self, arrives: u64, [on_link, after]: [u64; 2]) -> u64 {
        let mut begin = self.free_at.max(arrives);
        let [from, until] = self.pipe.frozen;
        // The link is frozen, so the transfer begins when the interval ends.
        if (from..until).contains(&begin) {
            begin = until;
        }
        self.free_at = begin + on_link;
        self.free_at + after
    }
}

impl Drive for PipeDrive {
    fn take(&mut self, now: u64, command: &Dispatch) -> u64 {
        let moves = matches!(command.op, Op::Read | Op::Write);
        let bytes = if moves { command.length.into() } else { 0 };
        // A command that continues where the previous one ended needs no seek.
        let ended = core::mem::replace(&mut self.head, command.offset + bytes);
        let seek = if command.offset == ended {
            0
        } else {
            self.pipe.seek
        };
        let after = if command.op == Op::Write {
            self.pipe.program
        } else {
            0
        };
        let times = [seek + bytes * SECOND / self.pipe.link, after];
        // Without jitter, commands reach the link in the order of their dispatch, so their ends are
        // known at once. With jitter, the order is known only when they arrive, in `end`.
        if self.pipe.jitter == 0 {
            return self.cross(now + self.pipe.service, times);
        }
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.coming.insert(command.tag.0, times);
        now + self.pipe.service + (((self.random >> 33) * self.pipe.jitter) >> 31)
    }

    fn end(&mut self, now: u64, tag: Tag) -> Result<Completion, u64> {
        match self.coming.remove(&tag.0) {
            Some(times) => Err(self.cross(now, times)),
            None => Ok(Completion::ok(tag)),
        }
    }
}
