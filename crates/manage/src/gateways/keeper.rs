//! Keeps a volume's part of a shared minimum.
//!
//! The requests of the [`GatewayMember`] are sent to etcd, and the part that it may promise is
//! passed to the shard. A smaller part is passed before it is written to etcd, and a larger one
//! afterwards, so that all parts together never exceed the minimum.

use std::sync::Arc;

use tokio::sync::watch;
use weir_serve::gateway::{
    Etcd, GatewayMember, MemberConfig, MinimumPart, ONE, StatedMinimum, StoreReply, StoreRequest,
};
use weir_serve::{HeldPart, Parts};

use super::demand::PartDemand;
use super::{LOOK, clock, duration};
use crate::Manager;

/// A volume, and the name of the minimum that it shares.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SharedVolume {
    pub(super) volume: String,
    pub(super) name: String,
}

/// Keeps the part of one volume.
pub(super) struct Keeper {
    whose: SharedVolume,
    manager: Arc<Manager>,
    parts: Parts,
    member: GatewayMember,
    etcd: Etcd,
    demand: PartDemand,
    leaves: bool,
    said: LoggedState,
}

/// The state that was last logged, so that each change is logged once.
#[derive(Default)]
struct LoggedState {
    silent: bool,
    part: MinimumPart,
    differs: bool,
    strange: Vec<String>,
}

impl Keeper {
    pub(super) fn new(
        whose: SharedVolume,
        manager: Arc<Manager>,
        parts: Parts,
        (config, etcd): (MemberConfig, Etcd),
    ) -> Self {
        Self {
            whose,
            manager,
            parts,
            member: GatewayMember::new(config),
            etcd,
            demand: PartDemand::default(),
            leaves: false,
            said: LoggedState::default(),
        }
    }

    /// Keeps the part until it is told to leave, and then returns it.
    pub(super) async fn run(mut self, mut leave: watch::Receiver<bool>) {
        loop {
            self.leaves |= *leave.borrow();
            if self.leaves {
                self.member.leave();
            }
            self.read();
            let asked = self.member.poll(clock::now());
            let held = self.hold_part().await;
            if self.member.has_left() {
                return;
            }
            if let Some(ask) = asked {
                self.ask(&ask, held).await;
                continue;
            }
            let now = clock::now();
            // CLOCK_BOOTTIME advances while the machine is suspended, but the clock of sleeps does
            // not. A long sleep would therefore end too late.
            let wait = duration(self.member.wake(now).since(now)).min(LOOK);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Either it was told to leave, or the other end has been dropped.
                _ = leave.changed() => self.leaves = true,
            }
        }
    }

    /// Passes the configured minimum and the demand of the clients to the member.
    fn read(&mut self) {
        let published = self.manager.control.published();
        // A volume that was removed leaves soon.
        if let Some(volume) = published.config.volume(&self.whose.volume) {
            self.member.set_stated(StatedMinimum {
                bytes: volume.contract.min,
                requests: volume.contract.min_iops,
            });
        }
        self.member.set_demand(self.demand.part());
    }

    /// Passes the part that the member may promise to the shard. Returns true if the shard has
    /// confirmed it.
    async fn hold_part(&mut self) -> bool {
        // The clocks are read in this order, so that the shard's deadline is not later than the
        // member's.
        let monotonic = std::time::Instant::now();
        let now = clock::now();
        let part = self.member.part(now);
        let agreed = self.member.agreed();
        let promised = agreed.part(part);
        let held = HeldPart {
            min: promised.bytes,
            min_iops: promised.requests,
            part: f64::from(part) / f64::from(ONE),
            until: monotonic + duration(self.member.until().since(now)),
            lapses: self.member.lapses(),
        };
        // The call blocks until the shard replies.
        let (parts, volume) = (self.parts.clone(), self.whose.volume.clone());
        let told = tokio::task::spawn_blocking(move || parts.hold(&volume, held)).await;
        match told {
            Ok(Ok(used)) => {
                if let Some(used) = used {
                    self.demand.note(clock::now(), used, agreed);
                }
                self.say_part(part);
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Sends a request to etcd. A part is not written unless the shard has confirmed it, because
    /// the shard could otherwise promise more than is written.
    async fn ask(&mut self, ask: &StoreRequest, held: bool) {
        let answered = match ask {
            StoreRequest::Write { .. } if !held => {
                Err("a shard (the thread of a drive) does not respond".to_owned())
            }
            ask => self.etcd.ask(ask).await,
        };
        self.say_silence(answered.as_ref().err());
        let answer = answered.unwrap_or(StoreReply::Lost);
        let read = matches!(answer, StoreReply::Table(_));
        self.member.answer(clock::now(), answer);
        if read {
            self.say_table();
        }
    }

    fn say_part(&mut self, part: MinimumPart) {
        let had = std::mem::replace(&mut self.said.part, part);
        let SharedVolume { volume, name } = &self.whose;
        let percent = 100.0 * f64::from(part) / f64::from(ONE);
        if (had == 0) == (part == 0) {
            tracing::debug!(
                volume,
                shared = name,
                "the server promises {percent:.1} % of the shared min"
            );
        } else if self.leaves {
            tracing::info!(
                volume,
                shared = name,
                "the server gives its part of the shared min back"
            );
        } else if part > 0 {
            tracing::info!(
                volume,
                shared = name,
                "the server promises {percent:.1} % of the shared min"
            );
        } else {
            tracing::warn!(
                volume,
                shared = name,
                "the server promises no part of the shared min"
            );
        }
    }

    fn say_silence(&mut self, reason: Option<&String>) {
        let SharedVolume { volume, name } = &self.whose;
        let was = std::mem::replace(&mut self.said.silent, reason.is_some());
        match reason {
            Some(reason) if !was => {
                tracing::warn!(
                    volume,
                    shared = name,
                    reason,
                    "etcd does not respond; the server keeps its part of the shared min until its lease expires"
                );
            }
            None if was => tracing::info!(volume, shared = name, "etcd responds again"),
            _ => {}
        }
    }

    /// Logs problems of the data in etcd.
    fn say_table(&mut self) {
        let SharedVolume { volume, name } = &self.whose;
        if self.said.strange != self.etcd.unreadable_keys() {
            self.said.strange = self.etcd.unreadable_keys().to_vec();
            if self.said.strange.is_empty() {
                tracing::info!(volume, shared = name, "all keys in etcd can be read again");
            } else {
                tracing::error!(
                    volume,
                    shared = name,
                    keys = ?self.said.strange,
                    "found keys in etcd that do not belong to a Weir server; this server promises no part of the minimum until they are removed"
                );
            }
        }
        let differs = self.member.has_conflicting_minimum();
        if std::mem::replace(&mut self.said.differs, differs) != differs && differs {
            let StatedMinimum { bytes, requests } = self.member.agreed();
            tracing::warn!(
                volume,
                shared = name,
                "servers have different values for the shared min; the lowest is used: {} and {requests} requests/s",
                weir_config::units::BytesPerSecond(bytes)
            );
        }
    }
}
