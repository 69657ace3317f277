//! Detection of remote servers that hang, whose requests must not keep the drive from its other
//! volumes.
//!
//! A piece that is late is reported to the core with `stall`. The core then no longer counts the
//! volume's pieces as in the drive.

use weir_core::{Instant, Op, SpaceId, Span, Tag};

use super::asked::RemotePiece;
use super::drive::ShardDrive;

/// The interval between two checks of the pieces on remote servers.
const LOOK: Span = Span::from_millis(250);
/// The minimum time between two log lines about hangs of the same server.
const QUIET: Span = Span::from_secs(60);

impl ShardDrive {
    /// Returns the record of a piece that is dispatched to a volume now, or `None` if the volume is
    /// not on a remote server.
    #[inline]
    pub(super) fn note_remote_piece(&mut self, now: Instant, space: u32) -> Option<RemotePiece> {
        self.volumes[space as usize].as_ref()?.remote?;
        self.stalls_due = self.stalls_due.min(now + LOOK);
        let stalled = false;
        Some(RemotePiece { at: now, stalled })
    }

    /// Updates the response times of a remote server for a piece that it has answered.
    #[inline]
    pub(super) fn observe_answer(&mut self, now: Instant, tag: Tag) {
        let flight = &mut self.flights[tag.0 as usize];
        let Some(asked) = flight.asked.take() else {
            return;
        };
        let volume = self.volumes[flight.piece.space.0 as usize].as_mut();
        if let Some(answers) = volume.and_then(|v| v.remote.as_mut()) {
            answers.silent = false;
            // A flush takes as long as the writes before it, which is no measure for other
            // requests.
            if flight.piece.op != Op::Flush {
                answers.observe(now.since(asked.at));
            }
        }
    }

    /// Notifies the core of volumes with a remote server that has not answered for too long.
    pub(super) fn detect_stalls(&mut self, now: Instant) {
        if now < self.stalls_due {
            return;
        }
        // The next check is scheduled below if a piece is still waiting.
        self.stalls_due = Instant::MAX;
        for tag in 0..self.flights.len() {
            let flight = self.flights[tag];
            let Some(asked) = flight.asked.filter(|asked| !asked.stalled) else {
                continue;
            };
            self.stalls_due = now + LOOK;
            let volume = self.volumes[flight.piece.space.0 as usize].as_ref();
            let answers = volume.and_then(|volume| volume.remote);
            let longest = answers.map(|answers| answers.time_limit(flight.piece.op));
            if longest.is_some_and(|longest| now.since(asked.at) >= longest) {
                self.stall(now, flight.piece.space);
            }
        }
    }

    /// Notifies the core that the server of a volume hangs, and logs it.
    fn stall(&mut self, now: Instant, space: SpaceId) {
        // The layer refuses, for example, if all pieces of the space count as stalled already.
        if !self.layer.stall(now, space) {
            return;
        }
        let mut requests = 0;
        let of_volume = self.flights.iter_mut().filter(|f| f.piece.space == space);
        for asked in of_volume.filter_map(|flight| flight.asked.as_mut()) {
            asked.stalled = true;
            requests += 1;
        }
        let Some(volume) = self.volumes[space.0 as usize].as_mut() else {
            return;
        };
        let Some(answers) = volume.remote.as_mut() else {
            return;
        };
        // Until the server answers, further pieces count as late at once
        // (`ResponseTimes::time_limit`).
        answers.silent = true;
        if now >= answers.quiet_until {
            answers.quiet_until = now + QUIET;
            let volume = &volume.name;
            tracing::warn!(
                volume,
                requests,
                "the remote server does not respond; until it does, the server sends it only a few requests of the volume"
            );
        }
    }
}
