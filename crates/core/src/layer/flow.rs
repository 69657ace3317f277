//! Flow control: streams with too many requests are told to pause, and to resume later.

use super::{Layer, Output};
use crate::time::Span;
use alloc::vec::Vec;

/// The longest backlog of a stream at a controller. A stream with a longer one is paused, so that
/// throttling never triggers a timeout of its client. It resumes when the backlog takes half as
/// long.
const QUEUE_MAX: Span = Span::from_secs(5);

impl Layer {
    /// Pauses or resumes a stream, if necessary.
    pub(super) fn reconsider_pause(&mut self, index: u32) {
        let stream = &self.cx.table.streams[index];
        let live = stream.live;
        let most = self.config.sizes.per_stream;
        // A stream resumes at half of the limits at which it pauses, so that it does not alternate
        // with each request.
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

    /// Adds a stream that was refused because the layer was full, so that it is notified when there
    /// is room.
    pub(super) fn add_starved(&mut self, index: u32) {
        if !self.starved_links.contains(index) {
            self.starved_links.push_back(&mut self.starved, index);
        }
    }

    /// Notifies refused streams after a request of stream `index` ended, if there is room for a
    /// request of that stream or of any stream.
    pub(super) fn on_capacity_freed(&mut self, index: u32) {
        let reserved = self.config.sizes.reserved;
        if self.shared < self.shared_max {
            self.resume_starved();
        // The shared places are used up, but one of the stream's own reserved places is free.
        } else if self.starved_links.contains(index) && self.cx.table.streams[index].live < reserved
        {
            self.starved_links.remove(&mut self.starved, index);
            self.resume(index);
        }
    }

    /// Notifies the stream that has waited for space the longest, or all of them if half of the
    /// shared places are free. A notified stream may not need its place any more, so the last
    /// streams must not depend on a chain of notices.
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

    /// Appends the notices of streams to `out`. A pause and a resume between two calls cancel each
    /// other out.
    pub(super) fn notify(&mut self, out: &mut Vec<Output>) {
        while let Some(index) = self.notice_links.pop_front(&mut self.notices) {
            let id = self.cx.table.stream_id(index);
            let stream = &mut self.cx.table.streams[index];
            // `owed` is for streams that were refused, which must be told to submit again even if
            // they were never told to pause.
            let owed = core::mem::take(&mut stream.owed_resume);
            let told = core::mem::replace(&mut stream.told_to_pause, stream.paused);
            if stream.paused && !told {
                out.push(Output::Pause(id));
            } else if !stream.paused && (told || owed) {
                out.push(Output::Resume(id));
            }
        }
    }

    /// Removes the notices of a stream that is being closed.
    pub(super) fn forget_notices(&mut self, index: u32) {
        if self.notice_links.contains(index) {
            self.notice_links.remove(&mut self.notices, index);
        }
        if self.starved_links.contains(index) {
            self.starved_links.remove(&mut self.starved, index);
        }
    }

    /// Notifies a stream that there is room, unless it has to pause anyway.
    fn resume(&mut self, index: u32) {
        self.cx.table.streams[index].owed_resume = true;
        self.owe_notice(index);
    }

    /// Adds a stream to those that must be notified.
    fn owe_notice(&mut self, index: u32) {
        if !self.notice_links.contains(index) {
            self.notice_links.push_back(&mut self.notices, index);
        }
    }

    /// Returns the time that the throttled requests of a stream need to pass their controllers.
    fn queue_time(&self, index: u32) -> Span {
        // The common case needs no computation of a backlog.
        if self.cx.table.streams[index].throttled == 0 {
            return Span::ZERO;
        }
        self.chain.backlog(&self.cx.table, index)
    }
}
