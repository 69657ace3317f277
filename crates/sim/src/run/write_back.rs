//! The flushers of the page cache, which write the dirty pages of processes.

use super::SimRun;

impl SimRun<'_> {
    /// Lets the flusher of a client's group write as many pages as it can.
    ///
    /// A write belongs to the stream of the process whose file it writes, and thereby to the
    /// process's group. Linux's flusher has a queue of its own in that group.
    pub(super) fn run_flusher(&mut self, client: u32) {
        let group = self.scenario.clients[client as usize].group;
        let mut sent = false;
        loop {
            let (now, guests) = (self.now, &self.guests);
            let left = |client: u32, all| {
                let guest = &guests[client as usize];
                let process = guest.process.as_ref().filter(|_| guest.stream.is_some());
                process.map_or(0, |process| process.pages_to_write(now, all))
            };
            let Some((owner, most)) = self.write_back.choose(group, left) else {
                break;
            };
            let guest = &mut self.guests[owner as usize];
            let (Some(process), Some(stream)) = (&mut guest.process, guest.stream) else {
                break;
            };
            let pages = process.write_some(now, most, &mut self.commands);
            self.write_back.began(group, pages);
            self.filter_commands(owner);
            self.send_together(owner, stream);
            sent = true;
        }
        if sent {
            self.end_batch();
        }
    }

    /// Completes a command, if a flusher has sent it.
    pub(super) fn on_written(&mut self, client: u32, number: u64) {
        let process = self.guests[client as usize].process.as_mut();
        if let Some(pages) = process.and_then(|process| process.on_written(number)) {
            let group = self.scenario.clients[client as usize].group;
            self.write_back.ended(self.now, group, pages);
        }
    }

    /// Drops the dirty pages of a client that leaves.
    pub(super) fn abandon_dirty(&mut self, client: u32) {
        if let Some(process) = &mut self.guests[client as usize].process {
            let (dirty, commands) = process.drop_dirty();
            let group = self.scenario.clients[client as usize].group;
            self.write_back.abandon(group, dirty, &commands);
        }
    }
}
