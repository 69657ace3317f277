//! Which streams to read from: they are told to pause when they have too much here, and to go on when they may.

use super::{Layer, Output};
use crate::time::Span;
use alloc::vec::Vec;

/// A stream whose backlog at a controller takes longer than this is not read from, so that a throttle never makes a client's own
/// timeout strike; it is again when the backlog takes half as long.
const QUEUE_MAX: Span = Span::from_secs(5);

impl Layer {
    /// Tells a stream to pause or to go on, when that has changed.
    pub(super) fn reconsider_pause(&mut self, index: u32) {
        let stream = &self.cx.table.streams[index];
        let live = stream.live;
        let most = self.config.sizes.per_stream;
        let wanted = if stream.paused {
            live > most / 2 || self.queue_time(index).saturating_mul(2) > QUEUE_MAX
        } else {
            live >= most || self.queue_time(index) > QUEUE_MAX
        };
        if wanted == stream.paused {
            return;
        }
        self.cx.table.streams[index].paused = wanted;
        if wanted {
            self.paused_or_closing += 1;
        } else {
            self.paused_or_closing -= 1;
        }
        self.owe_notice(index);
    }

    /// A stream was refused for want of room: it is told when there is some.
    pub(super) fn add_starved(&mut self, index: u32) {
        if !self.starved_links.contains(index) {
            self.starved_links.push_back(&mut self.starved, index);
        }
    }

    /// A request of the stream in slot `index` is done: there may be room for one more, of that stream or of any.
    pub(super) fn on_capacity_freed(&mut self, index: u32) {
        let reserved = self.config.sizes.reserved;
        if self.shared < self.shared_max {
            self.resume_starved();
        } else if self.starved_links.contains(index) && self.cx.table.streams[index].live < reserved
        {
            self.starved_links.remove(&mut self.starved, index);
            self.resume(index);
        }
    }

    /// There is room for all: tells the stream that has waited longest for it, or all of them when half of the room is free.
    /// Streams that are told may not want it any more, so the last ones must not wait for them to come and go.
    pub(super) fn resume_starved(&mut self) {
        let shared = self.shared_max;
        while self.shared < shared {
            let Some(index) = self.starved_links.pop_front(&mut self.starved) else {
                return;
            };
            self.resume(index);
            if self.shared > shared / 2 {
                return;
            }
        }
    }

    /// Passes on what streams have to be told.
    pub(super) fn notify(&mut self, out: &mut Vec<Output>) {
        while let Some(index) = self.notice_links.pop_front(&mut self.notices) {
            let id = self.cx.table.stream_id(index);
            let stream = &mut self.cx.table.streams[index];
            let owed = core::mem::take(&mut stream.owed_resume);
            let told = core::mem::replace(&mut stream.told_to_pause, stream.paused);
            if stream.paused && !told {
                out.push(Output::Pause(id));
            } else if !stream.paused && (told || owed) {
                out.push(Output::Resume(id));
            }
        }
    }

    /// Drops what a stream that goes was to be told.
    pub(super) fn forget_notices(&mut self, index: u32) {
        if self.notice_links.contains(index) {
            self.notice_links.remove(&mut self.notices, index);
        }
        if self.starved_links.contains(index) {
            self.starved_links.remove(&mut self.starved, index);
        }
    }

    /// Tells a stream that there is room, unless it is to pause anyway.
    fn resume(&mut self, index: u32) {
        self.cx.table.streams[index].owed_resume = true;
        self.owe_notice(index);
    }

    fn owe_notice(&mut self, index: u32) {
        if !self.notice_links.contains(index) {
            self.notice_links.push_back(&mut self.notices, index);
        }
    }

    /// How long what controllers hold of a stream takes to pass.
    fn queue_time(&self, index: u32) -> Span {
        if self.cx.table.streams[index].throttled == 0 {
            return Span::ZERO;
        }
        self.chain.backlog(&self.cx.table, index)
    }
}
