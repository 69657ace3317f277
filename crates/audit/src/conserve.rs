//! Work is conserved: when the drive has room and there is something to send, it is sent, unless the layer waits on purpose and
//! may.

use crate::auditor::{Auditor, Fact};
use crate::found::Found;
use crate::model::Model;
use weir_core::{Config, Reason, Wake, elevator};

/// How far an elevator keeps the drive busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// Every tag is used.
    Full,
    /// The drive is not empty, unless a stream is idled for.
    Busy,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Conserve {
    promise: Promise,
}

impl Conserve {
    pub(crate) fn new(config: &Config) -> Self {
        let promise = match config.elevator {
            elevator::Config::None => Promise::Full,
            _ => Promise::Busy,
        };
        Self { promise }
    }

    #[inline]
    fn check(&self, model: &Model, wake: Option<Wake>) -> Option<&'static str> {
        // What the drive sent back as busy is sent again first, when its time comes.
        if model.busy > 0 || model.in_flight as usize >= model.tags.len() {
            return None;
        }
        if model.flush_sendable() {
            return Some("a flush waits");
        }
        if model.sendable == 0 || model.in_drive >= model.config.limits.scheduler_tags {
            return None;
        }
        match self.promise {
            Promise::Full => Some("requests wait and tags are free"),
            Promise::Busy if model.in_flight > 0 => None,
            Promise::Busy => {
                let idles = matches!(wake, Some(w) if w.reason != Reason::Retry);
                (!idles).then_some("requests wait and the drive is empty")
            }
        }
    }
}

impl Auditor for Conserve {
    const NAME: &'static str = "conserve";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        if let Fact::Polled(_, wake) = *fact
            && let Some(wrong) = self.check(model, wake)
        {
            found.add(
                Self::NAME,
                format_args!("{wrong}: {} in the drive, {wake:?}", model.in_flight),
            );
        }
    }
}
