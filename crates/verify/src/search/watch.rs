//! Observes a run: the service of each group in each second, its waits, and the waits of the idle
//! class.

use crate::search::case::SearchCase;
use std::collections::HashMap;
use weir_core::record::{Call, Observer};
use weir_core::{
    Class, Cookie, Done, GroupId, Instant, Layer, Op, Outcome, Output, Request, StreamId,
};
use weir_measure::promise::{self, Second};
use weir_sim::Policy;

/// An observer of a run that measures its groups.
#[derive(Debug)]
pub struct GroupWatch {
    /// The groups, from 0 (the root).
    nodes: Vec<WatchedGroup>,
    /// For each group, the group itself and the groups above it.
    paths: Vec<Vec<u32>>,
    /// The streams, by slot.
    streams: Vec<Option<WatchedStream>>,
    /// The length in bytes at which the host cuts longer requests.
    longest: u32,
    /// For each later part of a request that was cut, the cookie of the first part.
    parts: HashMap<Cookie, Cookie>,
    /// For the first part of each request that was cut, the number of parts that are not completed.
    left: HashMap<Cookie, u32>,
}

/// The measurements of a group.
#[derive(Clone, Debug)]
pub struct WatchedGroup {
    /// The seconds that have ended.
    pub seconds: Vec<Second>,
    /// The longest time for which a group of the idle class had something to send and nothing was
    /// dispatched, in nanoseconds.
    pub starved: u64,
    watch: promise::SecondWatch,
    idle: bool,
    /// The number of bytes that wait for dispatch.
    queued: u64,
    served_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct WatchedStream {
    id: StreamId,
    group: GroupId,
    outstanding: u64,
    queued: u64,
}

impl GroupWatch {
    /// Creates the observer of a run of `case` under `policy`, before the run begins.
    pub fn new(case: &SearchCase, policy: &Policy) -> Self {
        let node = |idle| WatchedGroup {
            seconds: Vec::with_capacity(case.seconds() as usize),
            starved: 0,
            watch: promise::SecondWatch::new(0),
            idle,
            queued: 0,
            served_at: Instant::ZERO,
        };
        let below = (case.scenario.groups.iter()).map(|g| node(g.contract.class == Class::Idle));
        let ids = case.groups();
        let paths = ids.map(|group| case.path(group).map(|g| g.0).collect());
        Self {
            nodes: [node(false)].into_iter().chain(below).collect(),
            paths: [Vec::new()].into_iter().chain(paths).collect(),
            streams: Vec::new(),
            longest: case.scenario.longest(policy),
            parts: HashMap::new(),
            left: HashMap::new(),
        }
    }

    /// Returns the measurements of a group.
    pub fn group(&self, group: GroupId) -> &WatchedGroup {
        &self.nodes[group.0 as usize]
    }

    /// Returns the longest wait of all groups of the idle class, in nanoseconds, or `None` if there
    /// is no such group.
    pub fn starved(&self) -> Option<u64> {
        let idle = self.nodes.iter().filter(|n| n.idle);
        idle.map(|n| n.starved).max()
    }

    /// Ends the observation at the end of the run.
    pub fn end(&mut self, now: Instant) {
        for node in &mut self.nodes {
            node.pass(now);
            node.update_starvation(now);
        }
    }

    fn stream(&mut self, id: StreamId) -> Option<&mut WatchedStream> {
        let stream = self.streams.get_mut(id.slot() as usize)?.as_mut();
        stream.filter(|s| s.id == id)
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        let Some(stream) = self.stream(request.stream) else {
            return;
        };
        let length = u64::from(request.length);
        stream.outstanding += 1;
        stream.queued += length;
        let group = stream.group.0 as usize;
        for &node in &self.paths[group] {
            let node = &mut self.nodes[node as usize];
            node.pass(now);
            node.watch.sent(false);
            node.watch.note_request_bytes(length);
            node.queue(now, length);
        }
    }

    /// Counts requests that were accepted together. A request that continues where one of the
    /// maximum length ended is a part of the same request of a client.
    fn accepted(&mut self, now: Instant, batch: &[Request]) {
        let mut first = 0;
        for (at, request) in batch.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &batch[at]);
            let is_part = before.is_some_and(|b| {
                let end = b.offset + u64::from(b.length);
                b.length == self.longest
                    // The host cuts one request into parts that are adjacent and of the maximum
                    // length.
                    && (b.stream, b.op, end) == (request.stream, request.op, request.offset)
            });
            if is_part {
                let whole = batch[first].cookie;
                self.parts.insert(request.cookie, whole);
                // The first part counts as one.
                *self.left.entry(whole).or_insert(1) += 1;
            } else {
                first = at;
            }
            if request.op != Op::Flush {
                self.submitted(now, request);
            }
        }
    }

    /// Returns true if this completes a request of a client. It may have been the last part of a
    /// longer one.
    fn is_whole(&mut self, cookie: Cookie) -> bool {
        let whole = self.parts.remove(&cookie).unwrap_or(cookie);
        let Some(left) = self.left.get_mut(&whole) else {
            return true;
        };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.left.remove(&whole);
        }
        is_last
    }

    fn output(&mut self, now: Instant, output: &Output) {
        match output {
            Output::Done(done) if done.op != Op::Flush => {
                let is_whole = self.is_whole(done.cookie);
                let Some(stream) = self.stream(done.stream) else {
                    return;
                };
                stream.outstanding -= 1;
                let group = stream.group.0 as usize;
                for &node in &self.paths[group] {
                    self.nodes[node as usize].done(now, done, is_whole);
                }
            }
            Output::Dispatch(piece) if piece.op != Op::Flush => {
                let Some(stream) = self.stream(piece.stream) else {
                    return;
                };
                let length = u64::from(piece.length).min(stream.queued);
                stream.queued -= length;
                let group = stream.group.0 as usize;
                for &node in &self.paths[group] {
                    self.nodes[node as usize].unqueue(now, length);
                }
            }
            _ => {}
        }
    }

    fn closed(&mut self, now: Instant, id: StreamId) {
        let Some(&mut stream) = self.stream(id) else {
            return;
        };
        self.streams[id.slot() as usize] = None;
        for &node in &self.paths[stream.group.0 as usize] {
            let node = &mut self.nodes[node as usize];
            node.pass(now);
            // A closed stream's requests no longer wait for anything.
            (0..stream.outstanding).for_each(|_| node.watch.end_request(false));
            node.unqueue(now, stream.queued);
        }
    }
}

impl Observer for GroupWatch {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        match *call {
            Call::Open {
                spec,
                result: Ok(id),
            } => {
                let slot = id.slot() as usize;
                if self.streams.len() <= slot {
                    self.streams.resize(slot + 1, None);
                }
                self.streams[slot] = Some(WatchedStream {
                    id,
                    group: spec.group,
                    outstanding: 0,
                    queued: 0,
                });
            }
            Call::Close { stream } => self.closed(now, stream),
            Call::Submit { batch, result } => {
                let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
                self.accepted(now, &batch[..accepted]);
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    self.output(now, output);
                }
            }
            _ => {}
        }
    }
}

impl WatchedGroup {
    #[inline]
    fn pass(&mut self, now: Instant) {
        let now = now.as_nanos();
        while self.watch.ends() <= now {
            self.seconds.push(self.watch.end());
        }
        self.watch.advance(now);
    }

    fn done(&mut self, now: Instant, done: &Done, is_whole: bool) {
        self.pass(now);
        self.watch.end_request(false);
        match done.outcome {
            Outcome::Ok => {
                self.watch.served(done.length.into());
                if is_whole {
                    self.watch.answered(done.waits);
                } else {
                    self.watch.waited(done.waits);
                }
            }
            Outcome::Error(_) => self.watch.failed(done.length.into()),
            // A cancelled request was given up by its client and is owed nothing.
            Outcome::Cancelled => {}
        }
    }

    #[inline]
    fn queue(&mut self, now: Instant, length: u64) {
        // The wait begins with the first request after an empty queue.
        if self.queued == 0 {
            self.served_at = now;
        }
        self.queued += length;
    }

    #[inline]
    fn unqueue(&mut self, now: Instant, length: u64) {
        self.update_starvation(now);
        self.queued = self.queued.saturating_sub(length);
        self.served_at = now;
    }

    fn update_starvation(&mut self, now: Instant) {
        if self.idle && self.queued > 0 {
            let time = now.since(self.served_at).as_nanos();
            self.starved = self.starved.max(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::search::case::reader;
    use crate::search::trial::play;
    use weir_core::GroupId;
    use weir_sim::Policy;

    #[test]
    fn the_idle_class_starves_while_the_drive_takes_nothing() {
        let starved = |depth: u32, class: &str| {
            // The drive serves one command at a time, in 10 ms each, and nothing during the second
            // from 500 ms on.
            let case = reader(
                "duration = \"2s\"\nfreeze = { first = \"500ms\", length = \"1s\", every = \"9s\" }\n\
                 drives = [{ kind = \"null\", service = \"10ms\", tags = 1, queues = 1, command = \"128KiB\" }]",
                &format!("iodepth = {depth}\nclass = \"{class}\""),
            );
            let played = play(&case, &Policy::none(), false).expect("it can be played");
            played.watch.starved().map(|ns| ns / 1_000_000)
        };
        // Three of the four requests wait in the queue during the freeze of 1,000 ms, and until the
        // command in the drive has ended: 1,010 ms.
        assert_eq!(starved(4, "idle"), Some(1010));
        assert_eq!(
            starved(1, "idle"),
            Some(0),
            "what is in the drive is not waiting"
        );
        assert_eq!(starved(4, "best-effort"), None);
    }

    #[test]
    fn a_request_split_by_the_host_counts_once() {
        // A request of 1 MiB takes 8 commands of 128 KiB in 10 ms each, so that two seconds serve
        // 25 requests.
        let case = reader(
            "duration = \"2s\"\n\
             drives = [{ kind = \"null\", service = \"10ms\", tags = 1, queues = 1, command = \"128KiB\" }]",
            "iodepth = 2\nbs = \"1MiB\"\nmin_iops = 10",
        );
        for policy in [Policy::none(), Policy::contract()] {
            let played = play(&case, &policy, false).expect("it can be played");
            let seconds = &played.watch.group(GroupId(1)).seconds;
            let done: Vec<u64> = seconds.iter().map(|s| s.done.requests).collect();
            let all: u64 = done.iter().sum();
            assert!((24..=25).contains(&all), "{done:?}");
        }
    }
}
