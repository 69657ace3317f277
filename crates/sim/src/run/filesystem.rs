//! The file system's own requests, which use a stream next to those of the clients.

use super::SimRun;
use crate::Scenario;
use crate::flights::Flight;
use std::borrow::Cow;
use weir_core::{Contract, Done, Outcome, ROOT, SpaceId, StreamId};
use weir_model::load::Program;

/// Adds a client to the scenario, after the others, that stands for the file system.
///
/// Streams belong to leaves of the tree of groups. If the scenario has groups, the file system
/// therefore gets a group of its own with the default contract, whereas Linux's kernel threads are
/// in the root group.
pub(super) fn with_filesystem_client(scenario: Cow<'_, Scenario>) -> Cow<'_, Scenario> {
    let Some(filesystem) = scenario.filesystem else {
        return scenario;
    };
    let mut scenario = scenario.into_owned();
    let grouped = !scenario.groups.is_empty();
    // The program is never run: the journal issues the commands of this client.
    let program = Program::sequential_reads(4096, 1);
    let own = scenario.add_client_with_group("filesystem", Contract::DEFAULT, 0, program);
    own.space = SpaceId(0);
    own.region = filesystem.region;
    // `add_client_with_group` has added a group. A scenario without groups keeps all clients in the
    // root group.
    if !grouped {
        own.group = ROOT;
        scenario.groups.clear();
    }
    // `add_client_with_group` adds a space for its client. The file system uses the first space,
    // like the clients.
    scenario.spaces.pop();
    Cow::Owned(scenario)
}

impl SimRun<'_> {
    /// The number of the client that stands for the file system.
    fn journal_client(&self) -> Option<u32> {
        let last = self.guests.len() as u32 - 1;
        self.journal.is_some().then_some(last)
    }

    /// Runs the file system, if `client` stands for it. Returns false otherwise.
    pub(super) fn step_journal(&mut self, client: u32, stream: StreamId) -> bool {
        if self.journal_client() != Some(client) {
            return false;
        }
        if let Some(journal) = &mut self.journal {
            let then = journal.run(self.now, &mut self.commands);
            self.send_commands(client, stream, then);
        }
        true
    }

    /// Passes the commands of a process through the file system, which keeps the flushes that a
    /// commit answers.
    pub(super) fn filter_commands(&mut self, client: u32) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let now = self.now;
        self.commands
            .retain_mut(|command| !journal.intercept(now, client, command));
        self.wake_journal();
    }

    /// Notes that a client has left.
    pub(super) fn leave_journal(&mut self, client: u32) {
        if let Some(journal) = &mut self.journal {
            journal.on_client_left(client);
            self.wake_journal();
        }
    }

    /// Passes an answer to the file system. Returns true if the request was the file system's own.
    /// If a commit ends with it, clients that have waited for the commit continue.
    pub(super) fn notify_journal(&mut self, flight: &Flight, done: &Done) -> bool {
        let own = self.journal_client() == Some(flight.client);
        let Some(journal) = &mut self.journal else {
            return false;
        };
        if !own {
            if journal.on_data_written(flight.client, flight.number) {
                self.wake_journal();
            }
            return false;
        }
        let well = done.outcome == Outcome::Ok;
        for (client, number) in journal.on_answer(well) {
            if let Some(process) = &mut self.guests[client as usize].process {
                process.on_answer(self.now, number, flight.breakdown(done), well);
                self.wake_guest(client);
            }
        }
        self.wake_journal();
        true
    }

    fn wake_journal(&mut self) {
        if let Some(client) = self.journal_client() {
            self.wake_guest(client);
        }
    }
}
